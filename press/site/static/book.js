// Every page can be read without this script.

// The landing page goes to the language chosen last. Another language opens at the heading that is
// read: headings have the same address in all of them.
const ENTRY = ".entry, .sd-card-text > a[id]"; // a thousand links of the index need no class
const headings = [...document.querySelectorAll(`section[id] > :is(h2, h3), ${ENTRY}`)];
document.querySelectorAll(".languages a").forEach((link) => {
  const go = () => {
    const above = headings.filter((heading) => heading.getBoundingClientRect().top < innerHeight / 3);
    const last = above.at(-1);
    localStorage.setItem("language", link.dataset.code);
    link.hash = last ? last.id || last.parentNode.id : "";
  };
  for (const event of ["click", "auxclick"]) link.addEventListener(event, go);
});

// An address of the time when all mistakes were on one page: it goes on to the entry.
const meant = () => document.getElementById(decodeURIComponent(location.hash.slice(1)));
const entry = meant()?.closest(ENTRY);
if (entry) location.replace(entry.href ?? entry.querySelector("a").href);

// An address leads into the fold that holds what is meant.
function unfold() {
  const place = meant();
  const folds = [place?.closest("details"), place?.closest("section")?.querySelector(":scope > details.folded")];
  for (const fold of folds) if (fold) fold.open = true;
}
addEventListener("hashchange", unfold);
unfold();

// A button on each code block, where the browser lets pages copy (https, localhost).
const button = document.getElementById("copy-button")?.content.firstElementChild;
if (button && navigator.clipboard) {
  document.querySelectorAll("article div.highlight:not(.cell_output *)").forEach((block) => {
    const copy = block.appendChild(button.cloneNode(true));
    copy.addEventListener("click", async () => {
      await navigator.clipboard.writeText(block.querySelector("pre").textContent);
      copy.classList.add("copied");
      copy.title = copy.ariaLabel = copy.dataset.copied;
    });
  });
}

// What is too wide for the page needs the keyboard to scroll. Each box is measured when it has been laid
// out, in a fold when that opens; asking sooner would lay out every fold.
const SCROLLS = "pre, .cell_output > .output, div.math, .pst-scrollable-table-container", watched = new WeakSet();
const scrolls = (box) => box.scrollWidth > box.clientWidth || (box.scrollHeight > box.clientHeight && !box.matches(".math"));
const measure = new ResizeObserver((entries) => {
  const stops = entries.map(({ target }) => [target, scrolls(target) ? 0 : -1]);
  for (const [box, stop] of stops) box.tabIndex = stop;
});
const watch = () => document.querySelectorAll(SCROLLS).forEach((box) => {
  if (!watched.has(box)) measure.observe(box);
  watched.add(box);
});
document.fonts.ready.then(() => {
  watch();
  new MutationObserver(watch).observe(document.querySelector("main"), { childList: true, subtree: true });
});

const base = document.currentScript.src;

/** Loads a style sheet, or a script after those before it. */
function load(name) {
  const address = new URL(name, base).href, sheet = name.endsWith(".css");
  const element = document.createElement(sheet ? "link" : "script");
  return new Promise((onload, onerror) => document.head.append(
    Object.assign(element, sheet ? { rel: "stylesheet", href: address } : { src: address, async: false }, { onload, onerror })));
}

// The search is loaded when it is opened: by its link in the header, by a slash or Ctrl+K.
const finder = document.querySelector("form.finder"), dialog = finder.closest("dialog"), opener = document.querySelector(".top .search");
let searching;
const fetchSearch = () => searching ??= [dialog && load("search.css"), load(`search/${finder.dataset.language}.js`), load("search.js")];

async function find(event) {
  event?.preventDefault();
  await fetchSearch()[0];
  if (dialog && !dialog.open) dialog.showModal();
  finder.elements.q.select();
}

opener.addEventListener("click", find);
addEventListener("keydown", (event) => {
  const slash = event.key === "/" && !event.target.closest("input, textarea, select, [contenteditable]");
  if (slash || (event.key === "k" && (event.ctrlKey || event.metaKey))) find(event);
});
// On its own page it is loaded for the query of the address, or as one begins to type.
if (!dialog && new URLSearchParams(location.search).has("q")) find();
else if (!dialog) finder.elements.q.addEventListener("input", fetchSearch, { once: true });

// The words that the search found are marked where it led.
const found = new URLSearchParams(location.search).get("found");
if (found && window.Highlight) {
  const place = document.getElementById(decodeURIComponent(location.hash.slice(1))) ?? document.querySelector("article");
  const words = found.replace(/[.*+?^${}()[\]\\]/g, "\\$&").replace(/\s+/g, "\\s+");
  const word = new RegExp(`(?<![\\w\u00c0-\u024f])(${words})(?![\\w\u00c0-\u024f])`, "gi");
  const texts = document.createTreeWalker(place, NodeFilter.SHOW_TEXT), marks = [];
  while (texts.nextNode()) for (const { 0: { length }, index } of texts.currentNode.data.matchAll(word)) {
    marks.push(new StaticRange({ startContainer: texts.currentNode, startOffset: index, endContainer: texts.currentNode, endOffset: index + length }));
  }
  CSS.highlights.set("found", new Highlight(...marks));
  if (!location.hash) marks[0]?.startContainer.parentElement.scrollIntoView({ block: "center" });
}

// The section that is read is marked in the list of chapters.
const sections = new Map([...document.querySelectorAll(".sections a")].map((a) => [a.hash.slice(1), a]));
const reading = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) continue;
    sections.forEach((link, id) => link.classList.toggle("here", id === target.id));
  }
}, { rootMargin: "-10% 0px -80% 0px" });
sections.forEach((_, id) => { const section = document.getElementById(id); if (section) reading.observe(section); });

// A picture's module and style come when it comes near the view. Where pages may not import modules
// (file://), or styles do not nest, its figure stays.
const shared = {};

async function play(place, figure) {
  const file = `pictures/${place.dataset.picture}`;
  const common = place.dataset.picture === "who" ? ["common"] : ["common", "drawing"]; // it is a table
  const styles = common.map((part) => shared[part] ??= load(`pictures/${part}.css`));
  const [picture] = await Promise.all([import(new URL(`${file}.js`, base)), load(`${file}.css`), ...styles]);
  place.replaceChildren(place.querySelector("template").content);
  picture.default(place);
  if (figure !== place) figure.classList.add("replaced");
}

const places = new Map();
const near = new IntersectionObserver((seen) => {
  for (const { target, isIntersecting } of seen) if (isIntersecting) {
    near.unobserve(target);
    play(places.get(target), target).catch(() => delete document.documentElement.dataset.live);
  }
}, { rootMargin: "400px" });
if ("live" in document.documentElement.dataset) document.querySelectorAll("[data-picture]").forEach((place) => {
  const figure = document.getElementById(place.dataset.figure) ?? place;
  places.set(figure, place);
  near.observe(figure);
});

// What was read once is there without a connection, too.
if ("serviceWorker" in navigator && "live" in document.documentElement.dataset) {
  addEventListener("load", () => navigator.serviceWorker.register(new URL("../sw.js", base)).catch(() => {}));
}

const runs = document.querySelector(".run-page");
if (runs && "live" in document.documentElement.dataset) {
  runs.hidden = false;
  runs.addEventListener("click", () => import(new URL("workbench/chapter.js", base)).then(({ start }) => start(runs)), { once: true });
}
