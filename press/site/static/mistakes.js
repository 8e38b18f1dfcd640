// The index of mistakes: a field that finds them by name, symptom, chapter or framework as one types.
// In a block: scripts share their names.
{
const SHOWN = 40;
const LETTERS = { epsilon: "eps", ε: "eps", γ: "gamma", β: "beta", α: "alpha", μ: "mean", σ: "std" };
const fold = (text) => text.toLowerCase().replaceAll("_", " ").normalize("NFD").replace(/\p{M}/gu, "").replace(/epsilon|[εγβαμσ]/g, (found) => LETTERS[found]);
let entries = null; // [place, name, page, message, where it was met, all of them folded]

const form = document.querySelector(".mistake-filter"), input = form.querySelector("input");
const list = form.querySelector("ul"), count = form.querySelector("[role=status]");

function load() {
  if (entries) return;
  entries = [];
  const script = document.createElement("script");
  script.src = "mistakes-data.js";
  script.onload = () => {
    entries = window.MISTAKES.map((entry) => [...entry, fold(entry.join(" "))]);
    show();
  };
  document.head.append(script);
}

function show() {
  const asked = fold(input.value).split(/\s+/).filter(Boolean);
  const found = asked.length ? entries.filter((entry) => asked.every((word) => entry[5].includes(word))) : [];
  const named = (entry) => asked.every((word) => fold(entry[1]).includes(word));
  const rank = (entry) => named(entry) ? 0 : entry[5].includes(asked.join(" ")) ? 1 : 2;
  const ordered = found.toSorted((a, b) => rank(a) - rank(b));
  list.replaceChildren(...ordered.slice(0, SHOWN).map(item));
  count.textContent = asked.length ? count.dataset.found.replace("{n}", found.length).replace("{of}", entries.length) : "";
}

function item([place, name, page, message]) {
  const line = document.createElement("li"), link = document.createElement("a"), code = document.createElement("code");
  code.textContent = name;
  link.href = place;
  link.append(code);
  line.append(link, ` ${page}`, Object.assign(document.createElement("p"), { textContent: message }));
  return line;
}

input.addEventListener("focus", load);
input.addEventListener("input", () => { load(); show(); });
form.addEventListener("submit", (event) => {
  event.preventDefault();
  list.querySelector("a")?.click();
});
}
