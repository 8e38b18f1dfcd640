// One key gives a mark: it is in the gradebook before the next answer is shown.
const words = document.body.dataset;
const groups = [...document.querySelectorAll(".group")];
const told = document.getElementById("told");
let typed = ""; // the first keys of a mark that takes several
let queue = Promise.resolve(); // whoever types fast waits for nothing, and loses nothing

const current = () => groups.find((group) => group.contains(document.activeElement)) ?? last;
let last = groups[0];

function go(group) {
  if (!group) return;
  last = group;
  group.focus({ preventScroll: true });
  group.scrollIntoView({ block: group.offsetHeight < innerHeight / 2 ? "center" : "start" });
}

const beside = (step) => groups[groups.indexOf(current()) + step];
const waits = (group) => group.dataset.waits === "true";

function unmarked() {
  const here = groups.indexOf(current());
  return [...groups.slice(here + 1), ...groups.slice(0, here)].find(waits);
}

function count() {
  const sum = (of) => of.reduce((total, group) => total + Number(group.dataset.count), 0);
  const all = sum(groups), done = sum(groups.filter((group) => !waits(group)));
  Object.assign(document.querySelector("progress"), { max: all || 1, value: done });
  document.getElementById("done").textContent = words.done
    .replace("{done}", done).replace("{all}", all);
}

async function send(request) {
  const headers = { "Content-Type": "application/json" };
  const body = JSON.stringify(request);
  try {
    const answer = await fetch(location.pathname, { method: "POST", headers, body });
    if (answer.ok) return await answer.json();
    told.textContent = await answer.text();
  } catch {
    told.textContent = words.lost;
  }
}

function show({ group: id, points, label, waits }) {
  const group = document.getElementById(id);
  if (!group) return;
  group.dataset.waits = waits;
  group.querySelector(".status").textContent = label || (waits ? words.unmarked : words.mixed);
  for (const button of group.querySelectorAll("[data-points]")) {
    button.ariaPressed = String(points !== null && Number(button.dataset.points) === points);
  }
  count();
  return group;
}

async function mark(group, points) {
  const done = await send({ do: "mark", group: group.id, points });
  if (!done) return;
  told.textContent = "";
  show(done);
  go(unmarked() ?? beside(1) ?? group);
}

async function undo() {
  const done = await send({ do: "undo" });
  if (!done) return;
  told.textContent = words.undone;
  go(show(done));
}

function type(key) {
  typed += key;
  const buttons = [...(current()?.querySelectorAll("[data-keys]") ?? [])];
  const begin = buttons.filter((button) => button.dataset.keys.startsWith(typed));
  if (begin.length > 1 || (begin.length && begin[0].dataset.keys !== typed)) return;
  typed = "";
  return begin.length ? mark(current(), begin[0].dataset.points) : undefined;
}

function enter() {
  const button = current()?.querySelector(`[data-keys="${typed}"]`);
  typed = "";
  return button && mark(current(), button.dataset.points);
}

function press(key) {
  if (/^[0-9hm]$/.test(key)) return type(key);
  if (key === "Enter") return enter();
  typed = "";
  if (key === "j" || key === "ArrowDown") go(beside(1));
  if (key === "k" || key === "ArrowUp") go(beside(-1));
  if (key === "n") go(unmarked());
  if (key === "u") return undo();
}

// A digit is the key that bears it, with Shift or without (as on a French keyboard).
const name = (event) => /^(?:Digit|Numpad)(\d)$/.exec(event.code)?.[1] ?? event.key;

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.repeat && /\d/.test(name(event))) return;
  const key = name(event);
  const known = /^[0-9hmjknu]$|^Arrow(?:Up|Down)$/.test(key) || (key === "Enter" && typed);
  if (!known) return;
  event.preventDefault();
  queue = queue.then(() => press(key));
});

addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button?.id === "undo") queue = queue.then(undo);
  if (button?.dataset.points) {
    queue = queue.then(() => mark(button.closest(".group"), button.dataset.points));
  }
});

if (matchMedia("(max-width: 40rem)").matches) {
  for (const details of document.querySelectorAll("aside details")) details.open = false;
}
count();
go(groups.find(waits));
