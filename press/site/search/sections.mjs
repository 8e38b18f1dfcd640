// Cuts a built page into its sections: what the search ranks and shows.

const SKIPPED = /^(script|style|svg|template|form|annotation|button)$/;
const HIDDEN = /(^| )(headerlink|eqno|hide)( |$)/; // `hide`: code that is folded away
const BLOCK = /^(p|div|li|td|th|tr|h\d|dt|dd|pre|br|summary|figcaption|section|table)$/;
const FORMULA = { mfrac: "/", msup: "^" }; // between their two children

// A chapter explains; others go further, list what is wrong, repeat, or ask.
const LESS = [
  [/^(api\w*|instructors|references|index|exercises)#/, 0.2],
  [/^(glossary|mistakes)/, 0.2],
  [/^(placements|conditional|decay|outliers|without_norms|systems|inside)#/, 0.786],
  [/^models#/, 0.538],
  [/^practice#/, 0.612],
  [/^examine#/, 0.5],
  [/^interview#/, 0.895],
  [/-(sources|exercise)$/, 0.3],
  [/-(questions|remember|mistakes|proofs)$/, 0.1],
];

const flat = (text) => text.replace(/\s+/g, " ").trim();

/** The sections of a page: {id, labels, title, around, weight, text, code}, and its links. */
export function cut(html, page, Parser) {
  const sections = [], links = [], around = [], elements = [];
  let inside = false, hidden = 0, link;

  const begin = (id, kind) => {
    const section = { page, id, kind, labels: [], title: "", text: "", code: "", around: around.at(-1) };
    sections.push(section);
    around.push(section);
  };
  const write = (text) => {
    const section = around.at(-1);
    if (!section) return;
    if (link) link.text += text;
    const names = elements.map(({ name }) => name);
    section[names.includes("pre") ? "code" : section.heading ? "title" : "text"] += text;
  };
  const open = (name, { id, href }, outer, element) => {
    const section = around.at(-1);
    if (name === "section") begin(id, "section");
    else if (page === "glossary" && name === "td" && !outer.children) begin("", "tr"); // a term
    else if (name === "span" && id && section && !section.title) section.labels.push(id);
    if (/^h\d$/.test(name) || (name === "td" && around.at(-1)?.kind === "tr" && !outer.children)) around.at(-1).heading = true;
    if (name === "a" && href && !/^(\w+:|#)/.test(href)) links.push(link = { to: href, text: "" });
    if (name === "a" && href?.[0] === "#") links.push(link = { to: `${page}.html${href}`, text: "" });
    if (outer?.children === 1 && FORMULA[outer.name]) write(FORMULA[outer.name]);
    if (name === "msqrt") write("√");
    if (name === "mrow" && /^(mfrac|msqrt)$/.test(outer?.name)) write("("), element.end = ")";
    if (BLOCK.test(name)) write(" ");
  };
  const close = ({ name, end = "" }) => {
    write(BLOCK.test(name) ? " " : end);
    if (/^(h\d|td)$/.test(name) && around.length) around.at(-1).heading = false;
    if (name === around.at(-1)?.kind) around.pop();
    if (name === "a") link = undefined;
  };
  const parser = new Parser({
    onopentag(name, attributes) {
      const outer = elements.at(-1);
      const numbers = /^(table|pre)$/.test(name) && page.startsWith("mistakes_"); // of one small input
      const drawn = attributes["aria-hidden"] === "true"; // as of a formula: its MathML has the words
      const element = { name, children: 0, hides: SKIPPED.test(name) || HIDDEN.test(attributes.class) || drawn || numbers };
      if (name === "article") inside = true;
      hidden += element.hides;
      elements.push(element);
      if (inside && !hidden) open(name, attributes, outer, element);
      if (outer) outer.children++;
    },
    ontext: (text) => inside && !hidden && write(text),
    onclosetag(name) {
      const element = elements.pop();
      if (inside && !hidden) close(element);
      hidden -= element.hides;
      if (name === "article") inside = false;
    },
  });
  parser.end(html);
  return { sections: sections.map(finish), links };
}

function finish(section) {
  const { page, id, labels, around, title, text, code } = section;
  const names = around ? [`${page}#${id}`, ...labels] : [`${page}#`];
  const weight = Math.min(1, ...LESS.map(([name, less]) => names.some((of) => name.test(of)) ? less : 1));
  const words = code.match(/[A-Za-z_]\w+/g) ?? [];
  return Object.assign(section, {
    id: around ? id : "", // a page's first section is the page
    title: flat(title), text: flat(text), weight,
    code: [...new Set(words)].filter((word) => !text.includes(word)).join(" "),
  });
}

/** The sections of a language's pages, as the search loads them; {page: html}. */
export function gather(language, pages, Parser) {
  const cuts = Object.entries(pages).map(([page, html]) => ({ page, ...cut(html, page, Parser) }));
  const sections = cuts.flatMap((page) => page.sections);
  const places = new Map();
  for (const section of sections.toReversed()) {
    for (const id of [section.id, ...section.labels]) places.set(`${section.page}.html${id && "#"}${id}`, section);
  }
  for (const { page, links } of cuts) {
    if (page.startsWith("mistakes_")) continue; // every entry leads to the same few places
    for (const { to, text } of links) {
      const section = places.get(to);
      if (!section) continue;
      section.linked = (section.linked ?? 0) + 1;
      (section.links ??= new Set()).add(flat(text));
    }
  }
  const rows = sections.map(({ page, id, title, around, weight, linked = 0, text, code, links = [] }) =>
    [page, id === title.replaceAll("_", "-") ? 0 : id, title, sections.indexOf(around), weight, linked, text, code, [...links].join(" ")]);
  return { language, sections: rows };
}
