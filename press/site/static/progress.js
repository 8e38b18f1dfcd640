// What a reader has done, kept in this browser alone: pages read, choices opened, tabs chosen.
// In a block: scripts share their names.
{
const KEPT = "normkit";
const page = document.body.dataset.page;
const template = document.getElementById("progress");
const words = template.dataset;

function recall() {
  try { return JSON.parse(localStorage.getItem(KEPT)) ?? {}; } catch { return {}; }
}

function keep(change) {
  const kept = recall();
  change(kept);
  try { localStorage.setItem(KEPT, JSON.stringify(kept)); } catch {} // a browser may refuse
  show();
}

// The choices of a quiz open again; the first that is opened counts.
const choices = [...document.querySelectorAll("details:is(.right, .wrong)")];
const question = new Map(); // choices that follow each other answer the same one
let asked = 0;
for (const choice of choices) question.set(choice, question.has(choice.previousElementSibling) ? asked : ++asked);
choices.forEach((choice, i) => {
  if (recall().open?.[page]?.includes(i)) choice.open = true;
  choice.addEventListener("toggle", () => keep((kept) => {
    const open = new Set(kept.open?.[page] ?? []);
    if (choice.open) open.add(i); else open.delete(i);
    kept.open = { ...kept.open, [page]: [...open] };
    if (!choice.open) return;
    const first = { ...kept.first?.[page] };
    first[question.get(choice)] ??= Number(choice.classList.contains("right"));
    kept.first = { ...kept.first, [page]: first };
  }));
});

// A tab that is chosen is chosen wherever it exists.
const tabs = [...document.querySelectorAll(".sd-tab-set > input")];
const named = (tab) => tab.labels[0].textContent.trim();
const chosen = recall().tab;
tabs.forEach((tab) => {
  if (chosen && named(tab) === chosen) tab.checked = true;
  tab.addEventListener("change", () => keep((kept) => { kept.tab = named(tab); }));
});

// A chapter is read when its summary has been in view, or its last section where a summary opens it.
const parts = [...document.querySelectorAll("article > section > section")];
const summary = parts.findIndex((part) => part.matches(".remember")), end = parts.at(summary || -1);
if (summary >= 0) new IntersectionObserver((seen, observer) => {
  if (!seen.some((entry) => entry.isIntersecting)) return;
  observer.disconnect();
  keep((kept) => { kept.read = [...new Set([...(kept.read ?? []), page])]; });
}).observe(end);

const chapters = document.getElementById("index-chapters")?.closest("section");
const place = chapters && template.content.firstElementChild;
if (place) chapters.querySelector("h2").after(place);

function show() {
  const { read = [], first = {} } = recall();
  document.querySelectorAll(".bd-links a:not(.sections a), .chapters a").forEach((link) => {
    const name = link.getAttribute("href") === "#" ? page : /(?:\/exercises\/)?\w+(?=\.html)/.exec(link.href)?.[0];
    const done = link.querySelector(".read");
    if (read.includes(name) && !done) link.append(Object.assign(document.createElement("span"), { className: "read", ariaLabel: words.read, role: "img", textContent: "✓" }));
    if (!read.includes(name)) done?.remove();
  });
  tell(read.length, Object.values(first).flatMap((answers) => Object.values(answers)));
}

// On the front page: how far one is, and a way to forget it.
function tell(read, answers) {
  if (!place) return;
  place.hidden = !read && !answers.length;
  place.firstElementChild.textContent = words.told.replace("{read}", read).replace("{right}", answers.filter(Boolean).length).replace("{asked}", answers.length);
  place.querySelector("button").onclick = () => { try { localStorage.removeItem(KEPT); } catch {} show(); };
}

show();
}
