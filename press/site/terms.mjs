// The course's terms in the text of pages: the first place of each leads to its definition, which
// terms.js shows there.
const MOST = 20; // on a page
const BARRED = /^(a|aside|button|code|details|em|figure|h\d|nav|pre|script|strong|style|svg|table|template)$/;
const APART = /(^| )(admonition|bibliography|cell|footnote|math|meta|opening|picture|rubric|sd-[\w-]+|toctree-wrapper)( |$)/;
const VOID = /^(br|col|hr|img|input|link|meta|source|wbr)$/;
const TOKEN = /<!--.*?-->|<(\/?)(\w+)((?:"[^"]*"|[^">])*)>|[^<]+/gs;
const PLACE = '<template id="terms">'; // a page that has it is marked
const ARTICLE = /(?<=<article[^>]*>).*(?=<\/article>)/s;
const TITLE = /<h1>(.*?)(?=<a class="headerlink"|<\/h1>)/s;
const edge = "[\\p{Script=Latin}\\d_-]";

// One pattern for some words: the longest comes first, and none is a part of another word.
function pattern(words, flags) {
  const longest = words.toSorted((a, b) => b.length - a.length);
  return new RegExp(`(?<!${edge})(?:${longest.join("|")})(?!${edge})`, flags);
}

// Whether the text of an element is marked: that of paragraphs is, but for what is barred in them.
function isText(around, name, attributes) {
  const classes = /\bclass="([^"]*)"/.exec(attributes)?.[1] ?? "";
  if (around === false || BARRED.test(name) || APART.test(classes)) return false;
  return name === "p" || around;
}

// The article of a page with `turn` applied to the text that is marked.
function rewrite(article, turn) {
  const open = [null];
  return article.replace(TOKEN, (token, closes, name, attributes) => {
    if (!name) return open.at(-1) ? turn(token) : token;
    if (closes) open.pop();
    else if (!VOID.test(name) && !attributes.endsWith("/")) open.push(isText(open.at(-1), name, attributes));
    return token;
  });
}

function lookup(terms) {
  const own = terms.map((term) => [new RegExp(`^(?:${term.words.join("|")})$`, "u"), term]);
  const known = new Map();
  return (word) => {
    if (!known.has(word)) known.set(word, own.find(([words]) => words.test(word))[1]);
    return known.get(word);
  };
}

// terms: [{id, words: [pattern], shown: HTML, common: whether it is never marked}].
// A page's own subject is not marked; where there are too many terms, the rarest in the course are.
function marker(terms) {
  const any = pattern(terms.flatMap(({ words }) => words), "gu"), find = lookup(terms);
  const about = terms.filter(({ words }) => words.length).map((term) => [pattern(term.words, "u"), term]);

  // The HTML of a page in which the terms wanted are marked, and those that are.
  function mark(html, wanted) {
    const left = new Set(wanted), found = [];
    const link = (word) => {
      const term = find(word);
      if (!left.delete(term)) return word;
      found.push(term);
      return `<a class="term" href="glossary.html#${term.id}">${word}</a>`;
    };
    const marked = html.replace(ARTICLE, (article) => rewrite(article, (text) => text.replace(any, link)));
    return [marked.replace(PLACE, () => PLACE + found.map(({ shown }) => shown).join("")), found];
  }

  function wanted(html) {
    const title = (TITLE.exec(html)?.[1] ?? "").replace(/<[^>]*>/g, "");
    const own = about.filter(([words, term]) => !term.common && !words.test(title)).map(([, term]) => term);
    return mark(html, own)[1];
  }

  return (pages) => {
    const found = pages.map(wanted), pagesOf = new Map();
    for (const term of found.flat()) pagesOf.set(term, (pagesOf.get(term) ?? 0) + 1);
    const rarest = (some) => some.toSorted((a, b) => pagesOf.get(a) - pagesOf.get(b)).slice(0, MOST);
    return pages.map((html, i) => mark(html, rarest(found[i]))[0]);
  };
}

// pages: {name: HTML}, each named by its language first.
export function markTerms(pages, terms) {
  const marked = { ...pages };
  for (const language of Object.keys(terms)) {
    const names = Object.keys(pages).filter((name) => name.startsWith(`${language}/`) && pages[name].includes(PLACE));
    marker(terms[language])(names.map((name) => pages[name])).forEach((html, i) => { marked[names[i]] = html; });
  }
  return marked;
}
