// The search as readers see it: in the dialog that the header opens, and on a page of its own.
import { Search } from "./ranking.mjs";

const root = document.documentElement.dataset.content_root;
const search = new Search(MiniSearch, window.searchIndex, SYNONYMS);
const ready = search.index.addAllAsync(search.sections, { chunkSize: 25 });

/** An element with a class, and what it holds. */
function make(name, kind, ...children) {
  const element = Object.assign(document.createElement(name), { className: kind });
  element.append(...children);
  return element;
}

const marked = (text, hit) => search.mark(text, hit).map((piece, i) => i % 2 ? make("mark", "", piece) : piece);

/** Where a result leads, with the words to mark there. */
function address(hit) {
  const found = search.mark(`${hit.title}\n${hit.text}`, hit).filter((_, i) => i % 2).map((word) => word.toLowerCase());
  const words = new URLSearchParams({ found: [...new Set(found)].slice(0, 12).join("|") });
  return `${root}${hit.page}.html${found.length ? `?${words}` : ""}${hit.id && `#${hit.id}`}`;
}

function result(hit) {
  const path = search.path(hit).join(" › ");
  const link = make("a", "", ...(path ? [make("span", "path", path)] : []),
    make("span", "title", ...marked(hit.title, hit)), make("span", "text", ...marked(search.snippet(hit), hit)));
  link.href = address(hit);
  return make("li", "", link);
}

function attach(form) {
  const input = form.elements.q, list = form.querySelector("ol"), told = form.querySelector("[role=status]");
  const dialog = form.closest("dialog");

  async function show() {
    await ready;
    const query = input.value.trim();
    const hits = query ? search.find(query, dialog ? 10 : 30) : [];
    list.replaceChildren(...hits.map(result));
    const say = form.dataset[["none", "one"][hits.length] ?? "many"];
    told.textContent = query && say.replace("{n}", hits.length);
    if (!dialog && location.protocol !== "file:") history.replaceState(null, "", query ? `?${new URLSearchParams({ q: query })}` : location.pathname);
  }

  function step(event) {
    const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!way || event.isComposing) return;
    event.preventDefault();
    const places = [input, ...list.querySelectorAll("a")];
    places[places.indexOf(document.activeElement) + way]?.focus();
  }

  form.addEventListener("input", show);
  form.addEventListener("keydown", step);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    await show();
    list.querySelector("a")?.click();
  });
  if (dialog) dialog.addEventListener("click", ({ target }) => (target === dialog || target.closest(".close")) && dialog.close());
  else input.value ||= new URLSearchParams(location.search).get("q") ?? "";
  show();
}

document.querySelectorAll("form.finder").forEach(attach);
