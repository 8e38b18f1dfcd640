// The workbench: the page of an assignment, one task at a time. It takes form here; the editor, the
// notebook and Python are fetched when they are first asked for. What a student writes is kept in
// this browser. The words stand in templates/workbench.html.

const root = document.querySelector(".workbench"), article = root.closest("article");
const [manifest, words] = [...root.querySelectorAll(":scope > script")].map((script) => JSON.parse(script.textContent));
const part = (name) => root.querySelector(`template.${name}`).content.firstElementChild.cloneNode(true);
const make = (tag, properties = {}, ...children) => {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
};
const say = (text, values) => text.replace(/\{(\w+)\}/g, (_, key) => values[key]);
const number = (options) => new Intl.NumberFormat(document.documentElement.lang, options).format;
const percent = number({ style: "percent" }), seconds = number({ minimumFractionDigits: 1, maximumFractionDigits: 1 });

// What is kept: by assignment, the sources by the names of their cells, and which were right. It does
// not depend on the language. Names that this page does not know stay.
const KEPT = "normkit-bench";
let mine = {}, safe = true;

function stored() {
  const text = localStorage.getItem(KEPT); // this throws where a browser refuses, what follows does not
  try { return JSON.parse(text) ?? {}; } catch { return {}; }
}

function recall() {
  try { if (safe) mine = stored()[manifest.name] ?? {}; } catch { safe = false; }
}

function keep(change) {
  recall(); // another tab may have written
  change(mine);
  try { localStorage.setItem(KEPT, JSON.stringify({ ...stored(), [manifest.name]: mine })); } catch { safe = false; }
  for (const cell of cells) showSaved(cell);
}

const answers = () => Object.fromEntries(Object.entries(mine).filter(([, source]) => typeof source === "string"));
const forget = (cell) => keep((kept) => {
  delete kept[cell.id];
  kept.right = (kept.right ?? []).filter((id) => id !== cell.id);
});

// The tasks, their cells in the page's order, and their desks: what is written, then what checks it.
const places = article.querySelectorAll(".cell:is(.tag_answer, .tag_try, .tag_written)");
const tasks = manifest.tasks.map((task) => ({ ...task, place: document.getElementById(task.section), desks: [] }));
const cells = tasks.flatMap((task) => task.cells.filter(({ kind }) => kind !== "diagnose").map((cell) => ({ ...cell, task })));
const desks = [];
for (const task of tasks) for (const { id, kind } of task.cells) {
  if (kind === "diagnose") { desks.at(-1).checks.push(id); continue; }
  if (desks.at(-1)?.task !== task || desks.at(-1).checks.length) task.desks.push(desks[desks.push({ task, cells: [], checks: [] }) - 1]);
  desks.at(-1).cells.push(cells.find((cell) => cell.id === id));
}
const can = (task) => manifest.python && task.runs;
const written = ({ cells: of }) => of.filter(({ kind }) => kind === "answer");

// The released notebook: where answers begin, and what runs before them.
let fetched;

function released() {
  fetched ??= fetch(manifest.notebook).then((response) => response.ok ? response.json() : Promise.reject(response.status));
  fetched.catch(() => { fetched = null; });
  return fetched;
}

const joined = (source) => Array.isArray(source) ? source.join("") : source;
const idOf = (cell) => cell.metadata?.nbgrader?.grade_id ?? cell.id;

async function sourceOf(id) {
  return joined((await released()).cells.find((cell) => idOf(cell) === id).source);
}

async function begun(cell) {
  return cell.plain ?? sourceOf(cell.id).catch(() => cell.shown);
}

const source = async (cell) => mine[cell.id] ?? begun(cell);

async function before(desk) {
  const all = (await released()).cells, known = new Set(cells.map(({ id }) => id));
  const setup = all.slice(0, all.findIndex((cell) => known.has(idOf(cell)))).filter((cell) => cell.cell_type === "code");
  const earlier = desks.slice(0, desks.indexOf(desk)).filter(({ task }) => task.runs)
    .flatMap((other) => other.cells.filter(({ kind }) => kind === "answer" || (kind === "try" && other.task === desk.task)));
  return [...setup.map((cell) => joined(cell.source)).filter((text) => !/\btorch\b/.test(text)), ...await Promise.all(earlier.map(source))];
}

// The editor: until it is clicked, the page's own code, or what is kept.
const CODE = /("""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|#.*)|\b(and|as|assert|break|class|continue|def|del|elif|else|except|False|finally|for|from|global|if|import|in|is|lambda|None|nonlocal|not|or|pass|raise|return|True|try|while|with|yield|(?<=\b(?:def|class) +)\w+)\b/g;

function paint(cell, text) {
  const pre = cell.place.querySelector("pre"), parts = [];
  let at = 0;
  for (const { 0: word, 1: muted, index } of text.matchAll(CODE)) {
    parts.push(text.slice(at, index), make("span", { className: muted ? "c" : "k", textContent: word }));
    at = index + word.length;
  }
  pre.replaceChildren(...parts, text.slice(at), "\n");
  count(cell, text);
}

const count = (cell, text) => { cell.lines.textContent = text.split("\n").map((_, i) => i + 1).join("\n"); };

function put(cell, text) {
  if (cell.kind === "written") cell.field.value = text;
  else if (cell.editor) cell.editor.set(text);
  else paint(cell, text);
}

function showSaved(cell) {
  if (cell.saved) cell.saved.textContent = safe ? (cell.id in mine ? words.saved : "") : words.unsaved;
}

function frame(cell, desk) {
  const box = part("editor"), code = box.querySelector(".code");
  cell.place.before(box);
  cell.saved = box.querySelector(".saved");
  box.querySelector(".name").textContent = cell.file ?? words.answer;
  if (cell.kind === "written") {
    code.append(cell.field = field(cell));
    cell.place.remove();
  } else {
    const pre = cell.place.querySelector("pre");
    cell.shown = pre.textContent.replace(/\n+$/, "");
    cell.lines = make("pre", { className: "lines", ariaHidden: true });
    code.append(cell.lines, cell.place);
    count(cell, cell.shown);
    pre.tabIndex = 0;
    if (can(desk.task)) offer(cell, desk, pre);
  }
  if (mine[cell.id] && cell.kind === "answer") paint(cell, mine[cell.id]);
  showSaved(cell);
}

function field(cell) {
  const area = make("textarea", { value: mine[cell.id] ?? "", rows: 8, ariaLabel: words.answer });
  area.addEventListener("input", () => area.value.trim() ? keep((kept) => { kept[cell.id] = area.value; }) : forget(cell));
  return area;
}

/** Makes the page's code open as an editor when it is clicked, or reached by the keyboard. */
function offer(cell, desk, pre) {
  let at;
  pre.role = "textbox";
  pre.ariaMultiLine = true;
  pre.ariaLabel = say(words.file, { name: cell.file });
  pre.setAttribute("aria-describedby", "editor-keys");
  const go = () => edit(cell, desk).then((editor) => editor.focus(at)).catch(() => { desk.state.textContent = words.editor; });
  pre.addEventListener("pointerdown", ({ clientX, clientY }) => { at = { x: clientX, y: clientY }; });
  pre.addEventListener("focus", go);
  pre.addEventListener("click", go);
}

function edit(cell, desk) {
  cell.opening ??= opened(cell, desk);
  cell.opening.catch(() => { cell.opening = null; });
  return cell.opening;
}

async function opened(cell, desk) {
  const [{ open }, text] = await Promise.all([import("./editor.js"), source(cell)]);
  const code = cell.lines.parentNode, place = make("div");
  cell.editor = open(place, {
    text, label: say(words.file, { name: cell.file }), described: "editor-keys",
    changed: (now) => keep((kept) => { kept[cell.id] = now; }),
    check: () => run(desk, true), run: () => run(desk, false),
  });
  code.replaceChildren(place);
  const keys = part("keys");
  keys.addEventListener("pointerdown", (e) => e.preventDefault()); // the keyboard stays
  keys.addEventListener("click", ({ target }) => { if (target.dataset.key) cell.editor.type(target.dataset.key); });
  code.after(keys);
  return cell.editor;
}

// Python: one at a time.
let python, busy = null;

function heard(state, fraction) {
  for (const desk of desks.filter((each) => each.state)) {
    desk.state.textContent = words[state];
    // seen, not heard again with each step
    if (fraction) desk.state.append(make("span", { ariaHidden: true, textContent: ` · ${percent(fraction)}` }));
  }
}

function occupied(desk) {
  busy = desk;
  for (const { tools } of desks) if (tools) {
    for (const button of tools.querySelectorAll(".check, .run, .again")) button.ariaDisabled = Boolean(busy);
    tools.querySelector(".stop").hidden = tools !== busy?.tools;
  }
}

async function run(desk, checks) {
  if (busy) return;
  checks &&= desk.checks.length > 0;
  occupied(desk);
  clear(desk);
  try {
    const result = await asked(desk, checks);
    await show(desk, result, checks);
    desk.state.textContent = `${words.ready} · ${say(checks ? words.checked : words.ran, { n: seconds(result.seconds) })}`;
  } catch (error) {
    if (busy) { desk.state.textContent = words.failed; console.error(error); }
  }
  occupied(null);
}

async function asked(desk, checks) {
  heard(python ? "running" : "loading");
  const sources = desk.cells.filter(({ kind }) => kind !== "written").map(async (cell) => ({ id: cell.id, source: await source(cell) }));
  const [setup, check, { Python }, ...given] = await Promise.all([
    before(desk), checks ? Promise.all(desk.checks.map(sourceOf)) : [], import("./client.js"), ...sources,
  ]);
  python ??= new Python({ base: new URL(manifest.python, location.href).href, language: manifest.language, changed: heard });
  if (!busy) throw new Error("stopped");
  return python.run({ setup, cells: given, check: check.join("\n") });
}

function stop() {
  if (!busy) return;
  const desk = busy;
  occupied(null);
  python?.stop();
  heard("stopped");
  desk.tools.querySelector(".check, .run").focus();
}

// What Python says: what was printed, then the verdict, or the exception.
function clear(desk) {
  desk.tools.querySelector(".printed").hidden = true;
  desk.verdicts.replaceChildren();
  for (const cell of desk.cells) cell.editor?.mark(0);
}

async function show(desk, { printed, value, error, verdicts }, checks) {
  const text = printed + value;
  desk.tools.querySelector(".printed").hidden = !text;
  desk.tools.querySelector(".printed pre").textContent = text;
  desk.verdicts.replaceChildren(...error ? [raised(desk, error)] : verdicts.map((verdict) => told(verdict)));
  if (checks) note(desk, !error && verdicts.every(({ passed }) => passed));
  if (checks && isRight(desk.task)) goOn(desk);
  const cell = desk.cells.find(({ id, kind }) => id === error?.cell && kind === "answer");
  if (cell && error.line) (await edit(cell, desk)).mark(error.line);
  desk.verdicts.lastElementChild?.scrollIntoView({ block: "nearest" });
}

function raised(desk, { name, message, line, cell, lines }) {
  const file = (id) => desk.cells.find((each) => each.id === id)?.file ?? id;
  const box = make("div", { className: "verdict wrong" }, make("h3", {}, make("code", { textContent: name })));
  if (message) box.append(make("p", { textContent: message }));
  if (line && file(cell) !== cell) box.append(make("p", { className: "note", textContent: say(words.line, { name: file(cell), n: line }) }));
  if (lines.length > 1) {
    const text = lines.map((each) => each.replace(/^<(.*?)>/, (_, id) => file(id))).join("\n");
    box.append(make("pre", { tabIndex: 0, textContent: text }));
  }
  return box;
}

function told({ passed, names, paragraphs, rows, links, text }) {
  const box = make("div", { className: `verdict ${passed ? "right" : "wrong"}` });
  box.append(title(passed, names));
  for (const each of paragraphs.length ? paragraphs : [text]) box.append(make("p", {}, ...coded(each.replace(/^[✓✗]\s*/, ""))));
  if (rows.length) box.append(table(rows));
  if (links.length) box.append(make("p", { className: "links" }, ...links.map((link) => make("a", { href: link.href, textContent: link.text }))));
  return box;
}

function title(passed, names) {
  if (passed || !names.length) return make("h3", { textContent: passed ? words.right : words.wrong });
  const each = names.flatMap((name) => [" ", make("code", { textContent: name })]);
  return make("h3", {}, make("span", {}, make("span", { className: "sr", textContent: words.mistake }), ...each));
}

// `code` in a sentence.
const coded = (text) => text.split(/`([^`]+)`/).map((piece, i) => i % 2 ? make("code", { textContent: piece }) : piece);

function table(rows) {
  const [came, other] = rows.map(([, text]) => text.match(/[^\s,[\](){}]+|./gs) ?? []);
  const alike = rows.length === 2 && came.length === other.length;
  const first = alike ? came.map((word, i) => word === other[i] ? word : make("b", { textContent: word })) : [rows[0][1]];
  const body = rows.map(([label, text], i) => make("tr", {}, make("th", { scope: "row", textContent: label }), make("td", {}, ...i ? [text] : first)));
  return make("div", { className: "rows", tabIndex: 0, role: "region", ariaLabel: words.compared }, make("table", {}, make("tbody", {}, ...body)));
}

// What was right at its last check.
const isRight = (task) => {
  const wanted = task.desks.filter(({ checks }) => checks.length).flatMap(written);
  return wanted.length > 0 && wanted.every(({ id }) => mine.right?.includes(id));
};

function note(desk, right) {
  const ids = written(desk).map(({ id }) => id);
  keep((kept) => { kept.right = [...(kept.right ?? []).filter((id) => !ids.includes(id)), ...right ? ids : []]; });
  tick();
}

function goOn({ task, verdicts }) {
  const next = tasks[tasks.indexOf(task) + 1];
  if (next) verdicts.lastElementChild.append(make("p", { className: "links" }, make("a", { href: `#${next.section}`, textContent: say(words.next, { name: next.title }) })));
}

/** Asks once, in the place of a button; true for yes. */
function sure(button, question) {
  const box = part("sure");
  box.ariaLabel = box.firstElementChild.textContent = question;
  button.after(box);
  button.hidden = true;
  box.querySelector(".no").focus();
  return new Promise((resolve) => {
    const end = (yes) => { box.remove(); button.hidden = false; button.focus(); resolve(yes); };
    box.querySelector(".yes").onclick = () => end(true);
    box.querySelector(".no").onclick = () => end(false);
    box.addEventListener("keydown", ({ key }) => { if (key === "Escape") end(false); });
  });
}

// What is asked on the left, its desks on the right; then the next row.
function furnish(task) {
  for (const desk of task.desks) lay(desk);
  const last = task.desks.at(-1)?.box;
  let statement, side, row = 0;
  const start = (node, name) => {
    const box = make("div", { className: name });
    node.before(box);
    box.style.gridRow = row ||= 1;
    return box;
  };
  for (const node of [...task.place.childNodes]) {
    const desk = node.classList?.contains("desk"), after = last && last.compareDocumentPosition(node) & Node.DOCUMENT_POSITION_FOLLOWING;
    if (desk) (side ??= start(node, "side")).append(node);
    else if (node.textContent.trim()) {
      if (side && !after) { statement = side = null; row += 1; }
      (statement ??= start(node, "statement")).append(node);
    }
  }
  const facts = task.place.querySelector(".statement > p > em:first-child");
  if (facts && !facts.previousSibling?.textContent.trim()) facts.parentNode.before(make("p", { className: "facts" }, facts));
  task.place.classList.add("task");
}

/** Puts the cells of a desk together, and what stands between the first that is written and the last. */
function lay(desk) {
  const box = desk.box = make("div", { className: "desk" });
  const at = Math.max(0, desk.cells.findIndex(({ kind }) => kind !== "try")), last = desk.cells.at(-1).place;
  desk.cells[at].place.before(box);
  box.append(...desk.cells.slice(0, at).map(({ place }) => place)); // a program that is given
  while (box.nextSibling !== last) box.append(box.nextSibling);
  box.append(last);
  for (const cell of desk.cells) if (cell.kind === "try") cell.place.querySelector("pre").tabIndex = 0; else frame(cell, desk);
  if (desk.cells.some(({ kind }) => kind !== "written")) box.append(can(desk.task) ? equip(desk) : lacking(desk.task));
}

function equip(desk) {
  const tools = part("tools"), find = (name) => tools.querySelector(`.${name}`);
  Object.assign(desk, { tools, state: find("state"), verdicts: find("verdicts") });
  const press = (name, act) => find(name).addEventListener("click", ({ currentTarget }) => currentTarget.ariaDisabled !== "true" && act(currentTarget));
  press("check", () => run(desk, true));
  press("run", () => run(desk, false));
  press("stop", stop);
  press("again", (button) => afresh(desk, button));
  if (!desk.checks.length) find("check").remove();
  if (!written(desk).length) find("again").remove();
  desk.state.textContent = say(manifest.megabytes ? words.weighs : words.first, { n: manifest.megabytes });
  return tools;
}

async function afresh(desk, button) {
  if (!await sure(button, words.afresh)) return;
  clear(desk);
  for (const cell of written(desk)) {
    put(cell, await begun(cell));
    forget(cell);
  }
  tick();
}

function lacking(task) {
  if (manifest.python) return part("torch");
  const note = part("nopython");
  note.querySelector("a").href = manifest.exercises;
  return note;
}

// The head of the column: where this is, the steps, and what stood above the tasks.
const head = part("head"), handin = part("handin");

function plain(heading) {
  const copy = heading.cloneNode(true);
  for (const extra of copy.querySelectorAll(".headerlink, .katex-mathml")) extra.remove();
  return copy.textContent.trim();
}

function top() {
  const page = tasks[0].place.parentNode, h1 = page.querySelector(":scope > h1");
  head.querySelector(".exercises").href = manifest.exercises;
  head.querySelector(".chapter").href = manifest.chapter;
  head.querySelector(".where > span").after(h1);
  const about = head.querySelector(".about > div");
  for (const node of [...page.children]) if (node !== root && !tasks.some(({ place }) => place === node)) about.append(node);
  about.parentElement.open = !!about.querySelector("h2") && !Object.keys(mine).length; // rules to know first
  const steps = head.querySelector(".steps ol");
  steps.style.gridTemplateColumns = tasks.map(({ points }) => `minmax(1.4rem, ${points}fr)`).join(" ");
  for (const task of tasks) steps.append(make("li", {}, task.step = step(task)));
}

function step(task) {
  task.title = plain(task.place.querySelector("h2"));
  const [, n, name] = task.title.match(/^(\d*)[.．、]?\s*(.*)$/);
  task.number = n;
  const link = make("a", { href: `#${task.section}`, title: task.title }, make("span", {}, make("b", { textContent: n }), " ", make("span", { className: "name", textContent: name })));
  if (!task.runs) {
    link.classList.add("torch");
    link.title += ` · ${words.torch}`;
    link.append(make("i", { className: "sr", textContent: `, ${words.torch}` }));
  }
  return link;
}

function tick() {
  for (const task of tasks) {
    task.step.querySelector(".tick")?.remove();
    task.step.classList.toggle("done", isRight(task));
    if (!isRight(task)) continue;
    const mark = make("i", { className: "tick" }, make("span", { ariaHidden: true, textContent: "✓" }), make("span", { className: "sr", textContent: words.done }));
    task.step.querySelector("b").after(mark);
  }
}

// One task at a time: the one that the address names.
function choose(moved) {
  const meant = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const task = tasks.find(({ place }) => meant && place.contains(meant)) ?? (head.contains(meant) || !moved || !location.hash ? tasks[0] : null);
  if (!task) return; // the address of something else on this page
  if (head.contains(meant)) head.querySelector(".about").open = true;
  for (const other of tasks) {
    other.place.hidden = other !== task;
    other.step.ariaCurrent = other === task ? "step" : null;
  }
  task.place.querySelector(".statement").prepend(head);
  ([...task.place.querySelectorAll(".side")].at(-1) ?? task.place).append(handin);
  dispatchEvent(new Event("resize")); // book.js measures formulas that come into view
  if (moved && (!meant || meant === task.place)) begin(task);
  else if (meant && meant !== task.place) meant.scrollIntoView();
}

function begin(task) {
  const heading = task.place.querySelector("h2");
  heading.tabIndex = -1;
  heading.focus({ preventScroll: true });
  scrollTo({ top: 0, behavior: "instant" });
}

// Handing in, and going on elsewhere.
const tell = (text) => { handin.querySelector(".told").textContent = text; };

async function download() {
  const [{ fill }, notebook] = await Promise.all([import("./notebook.js"), released()]);
  const file = new Blob([`${JSON.stringify(fill(notebook, answers()), null, 1)}\n`], { type: "application/x-ipynb+json" });
  const link = make("a", { href: URL.createObjectURL(file), download: `${manifest.name}.ipynb` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

async function openNotebook(file) {
  const { taken } = await import("./notebook.js");
  let found = {};
  try { found = taken(JSON.parse(await file.text()), cells.filter(({ kind }) => kind !== "try").map(({ id }) => id)); } catch {} // not a notebook
  if (!Object.keys(found).length) return tell(words.strange);
  for (const id of Object.keys(found)) if (found[id] === await sourceOf(id)) delete found[id];
  await replace(found, handin.querySelector(".open"));
}

/** Takes answers for those that are here; asks before, where there are some. */
async function replace(found, button) {
  if (Object.keys(answers()).length && !await sure(button, words.replace)) return;
  const empty = await Promise.all(cells.map((cell) => cell.kind === "answer" ? begun(cell) : ""));
  cells.forEach((cell, i) => { if (cell.kind !== "try") put(cell, found[cell.id] ?? empty[i]); });
  keep((kept) => {
    for (const { id } of cells) delete kept[id];
    Object.assign(kept, found, { right: [] });
  });
  for (const desk of desks) if (desk.tools) clear(desk);
  tick();
  tell(words.opened);
}

const through = (bytes, stream) => new Response(new Blob([bytes]).stream().pipeThrough(stream));

async function share() {
  const deflated = await through(JSON.stringify(answers()), new CompressionStream("deflate-raw")).arrayBuffer();
  const text = btoa(Array.from(new Uint8Array(deflated), (byte) => String.fromCharCode(byte)).join(""));
  const url = new URL(`#answers=${text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`, location.href).href;
  const link = handin.querySelector(".link");
  Object.assign(link, { hidden: false, value: url });
  link.select();
  tell(await navigator.clipboard?.writeText(url).then(() => words.copied, () => null) ?? words.copy);
}

async function receive() {
  const text = location.hash.match(/^#answers=([\w-]+)/)?.[1];
  if (!text) return;
  history.replaceState(null, "", location.pathname + location.search);
  try {
    const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt());
    const found = await through(bytes, new DecompressionStream("deflate-raw")).json();
    const known = Object.entries(found).filter(([id, answer]) => typeof answer === "string" && cells.some((cell) => cell.id === id));
    await replace(Object.fromEntries(known), handin.querySelector(".open"));
  } catch { tell(words.strange); }
}

async function erase(button) {
  if (!await sure(button, words.erase)) return;
  for (const cell of cells) if (cell.kind !== "try") put(cell, cell.kind === "answer" ? await begun(cell) : "");
  keep((kept) => { for (const key of Object.keys(kept)) delete kept[key]; });
  for (const desk of desks) if (desk.tools) clear(desk);
  tick();
  tell("");
}

function handing() {
  const press = (name, act) => handin.querySelector(`.${name}`).addEventListener("click", ({ currentTarget }) => act(currentTarget));
  const file = handin.querySelector("[type=file]");
  const orSay = (promise) => promise.catch(() => tell(words.unfetched));
  press("download", () => orSay(download()));
  press("open", () => file.click());
  press("elsewhere", () => share());
  press("erase", (button) => orSay(erase(button)));
  file.addEventListener("change", async () => { await orSay(openNotebook(file.files[0])); file.value = ""; });
  const needing = tasks.filter(({ runs }) => !runs).map(({ number: n }) => n).join(", ");
  if (needing) handin.querySelector(".note span").textContent = say(words.needing, { tasks: needing });
}

// iOS draws its keyboard over the page: the row of keys stands above it.
function overKeyboard() {
  const { height, offsetTop } = visualViewport;
  document.documentElement.style.setProperty("--keyboard", `${Math.max(0, innerHeight - height - offsetTop)}px`);
}

if (places.length !== cells.length || tasks.some(({ place }) => !place)) throw new Error("the page and its manifest differ");
cells.forEach((cell, i) => { cell.place = places[i]; });
recall();
for (const task of tasks) furnish(task);
top();
tick();
handing();
choose(false);
receive();
document.documentElement.dataset.bench = "";
addEventListener("hashchange", () => { if (location.hash.startsWith("#answers=")) receive(); else choose(true); });
for (const event of ["resize", "scroll"]) visualViewport?.addEventListener(event, overKeyboard);
// The same task in another language: book.js takes the heading that is read, and most are hidden here.
for (const event of ["click", "auxclick"]) document.querySelector(".languages")?.addEventListener(event, ({ target }) => {
  if (target.closest("a")) target.closest("a").hash = tasks.find(({ place }) => !place.hidden).section;
});
