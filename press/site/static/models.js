// The table of models: sorted by a column, filtered by each, and each row unfolds into its full wording.
// What is chosen stands in the address. In a block: scripts share their names.
{
const box = document.querySelector("div.models"), body = box.querySelector("tbody"), rows = [...body.rows];
const heads = [...box.querySelectorAll("th[data-name]")], names = ["model", ...heads.map((head) => head.dataset.name)];
const file = document.querySelector('article a[href$="models.csv"]');
const button = (text, to) => { const made = Object.assign(document.createElement("button"), { type: "button" }); made.append(text); to.replaceChildren(made); return made; };
const fold = (text) => text.toLowerCase().normalize("NFD").replace(/\p{M}/gu, "");
const values = (cell) => (cell.dataset.v ?? cell.textContent).split(", ").filter(Boolean);
const cellOf = (row, name) => row.cells[names.indexOf(name)];
const opened = new Map(); // from a row to the one that holds its full wording

const form = document.querySelector("form.models"), count = form.querySelector("[role=status]"), { q } = form.elements;
const selects = [...form.querySelectorAll("select")];

// Each select offers what its column holds, small numbers before large ones.
for (const select of selects) {
  const told = new Map();
  for (const row of rows) {
    const cell = cellOf(row, select.name), texts = cell.textContent.split(", ");
    values(cell).forEach((value, i) => told.set(value, texts[i]));
  }
  const ordered = [...told].sort(([, a], [, b]) => a - b || a.localeCompare(b));
  select.append(...ordered.map(([value, text]) => new Option(text, value)));
}

function show() {
  const asked = fold(q.value).split(/\s+/).filter(Boolean), wanted = selects.filter((select) => select.value);
  let n = 0;
  for (const row of rows) {
    const text = fold(row.textContent);
    row.hidden = !asked.every((word) => text.includes(word)) || !wanted.every(({ name, value }) => values(cellOf(row, name)).includes(value));
    if (opened.has(row)) opened.get(row).hidden = row.hidden;
    n += !row.hidden;
  }
  count.textContent = count.dataset.found.replace("{n}", n).replace("{of}", rows.length);
  const told = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
  const { pathname, hash } = location;
  if (location.protocol !== "file:") history.replaceState(history.state, "", `${pathname}${told.size ? `?${told}` : ""}${hash}`);
}

// Up, down, and back to the order of the page. Cells without a value, or with a dash, come last.
function sort(head) {
  const next = { none: "ascending", ascending: "descending" }[head.ariaSort ?? "none"] ?? "none";
  for (const other of box.querySelectorAll("thead [aria-sort]")) other.ariaSort = other === head ? next : "none";
  const place = head.cellIndex, sign = next === "descending" ? -1 : 1;
  const key = (row) => row.cells[place].textContent.split(", ")[0].replace(/^–$/, "");
  const compare = (a, b) => !key(a) - !key(b) || sign * (key(a) - key(b) || key(a).localeCompare(key(b), undefined, { sensitivity: "base" }));
  for (const row of next === "none" ? rows : rows.toSorted(compare)) {
    body.append(row);
    if (opened.has(row)) body.append(opened.get(row));
  }
}

for (const head of box.querySelectorAll("thead th")) if (head.dataset.name !== "source") {
  head.ariaSort = "none";
  button(head.textContent, head).addEventListener("click", () => sort(head));
}

// A line of CSV may hold quoted commas and quotes.
function parse(text) {
  const [first, ...lines] = text.trim().split("\n").map((line) => [...`,${line}`.matchAll(/,(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain));
  return new Map(lines.map((line) => [line[0], new Map(line.map((cell, i) => [first[i], cell]))]));
}
let loaded;
const read = () => loaded ??= fetch(file.href).then((answer) => answer.ok ? answer.text() : Promise.reject()).then(parse);

// What was read, in English, as it was written down: a name of the column, then its words.
function list(told) {
  const made = document.createElement("dl");
  for (const [key, words] of told) if (words && (key.endsWith("_full") || ["paper", "source", "verified", "notes"].includes(key))) {
    const head = heads.find(({ dataset }) => dataset.name === key.replace("_full", "")), link = document.createElement("a");
    const term = document.createElement("dt"), text = document.createElement("dd");
    term.textContent = head && key !== "source" ? head.textContent : key.replace("_full", "").replace("_", " ");
    if (!head || key === "source") term.lang = "en";
    text.lang = "en";
    if (key === "paper") Object.assign(link, { href: `https://arxiv.org/abs/${words}`, textContent: `arXiv ${words}` });
    text.append(key === "paper" ? link : words);
    made.append(term, text);
  }
  return made;
}

async function open(row, opener) {
  const shut = opener.ariaExpanded === "true";
  opener.ariaExpanded = String(!shut);
  if (shut) { opened.get(row)?.remove(); opened.delete(row); return; }
  const more = document.createElement("tr"), cell = more.insertCell(), inside = document.createElement("div");
  more.className = "full";
  cell.colSpan = names.length;
  cell.append(inside);
  row.after(more);
  opened.set(row, more);
  try { inside.append(list((await read()).get(opener.textContent))); } catch { inside.textContent = form.dataset.lost; }
}

for (const row of rows) {
  const opener = button(row.cells[0].textContent, row.cells[0]);
  opener.ariaExpanded = "false";
  opener.title = form.dataset.full;
  opener.addEventListener("click", () => open(row, opener));
}

for (const [name, value] of new URLSearchParams(location.search)) if (form.elements[name]) form.elements[name].value = value;
form.addEventListener("input", show);
form.addEventListener("reset", () => setTimeout(show));
form.addEventListener("submit", (event) => event.preventDefault());
show();
}
