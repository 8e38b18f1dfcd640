// Every page can be read without this script.

// The landing page goes to the language chosen last.
document.querySelectorAll(".languages a").forEach((link) => {
  link.addEventListener("click", () => localStorage.setItem("language", link.dataset.code));
});

// An address of the time when all mistakes were on one page: it goes on to the entry.
const entry = document.getElementById(location.hash.slice(1))?.closest(".entry");
if (entry) location.replace(entry.querySelector("a").href);

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

// Only formulas that are too wide for the page need the keyboard to scroll.
const formulas = document.querySelectorAll("div.math");
const stops = () => formulas.forEach((box) => {
  box.tabIndex = box.scrollWidth > box.clientWidth ? 0 : -1;
});
addEventListener("resize", stops);
addEventListener("load", stops);

// A slash opens the search, as in the header.
const search = document.querySelector(".top .search");
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.closest("input, textarea, select, [contenteditable]")) return;
  event.preventDefault();
  search.click();
});

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
const base = document.currentScript.src;

function style(address) {
  return new Promise((done, failed) => {
    const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href: address, onload: done, onerror: failed });
    document.head.append(link);
  });
}

async function play(place, figure) {
  const file = new URL(`pictures/${place.dataset.picture}`, base).href;
  const [picture] = await Promise.all([import(`${file}.js`), style(`${file}.css`)]);
  place.replaceChildren(place.querySelector("template").content);
  picture.default(place);
  if (figure !== place) figure.classList.add("replaced");
}

const places = new Map();
const near = new IntersectionObserver((seen) => {
  for (const { target, isIntersecting } of seen) if (isIntersecting) {
    near.unobserve(target);
    play(places.get(target), target).catch(() => {});
  }
}, { rootMargin: "400px" });
if (location.protocol !== "file:" && CSS.supports("selector(&)")) document.querySelectorAll("[data-picture]").forEach((place) => {
  const figure = document.getElementById(place.dataset.figure) ?? place;
  places.set(figure, place);
  near.observe(figure);
});
