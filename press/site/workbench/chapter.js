// "Run this page": its NumPy cells to edit and to run, all of them in order each time. Cells that need
// what is not here keep the output that the book was built with, and say so.
import { Python } from "./client.js";

const make = (tag, properties = {}, ...children) => {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
};

export function start(button) {
  const { python: base, language, words } = JSON.parse(button.nextElementSibling.textContent);
  document.head.append(make("link", { rel: "stylesheet", href: new URL("bench.css", import.meta.url) }));
  const state = make("span", { role: "status" }), said = { loading: words.loading, running: words.running, stopped: "", ready: "" };
  const python = new Python({ base: new URL(base, location).href, language, changed: (now) => tell(now) });
  const cells = [...document.querySelectorAll("article .cell")].filter((cell) => cell.querySelector(".cell_input pre")).map((cell) => ({ cell, pre: cell.querySelector(".cell_input pre") }));
  for (const one of cells) one.source = one.pre.textContent.trimEnd();
  const again = button.textContent;
  button.nextElementSibling.after(state);
  button.onclick = () => running ? python.stop() : run();
  let running = false;

  function tell(now) {
    running = now === "loading" || now === "running";
    button.textContent = running ? words.stop : again;
    state.textContent = said[now];
  }

  async function run() {
    try {
      const found = await python.run({ cells: cells.map(({ source }) => source) });
      found.forEach((result, i) => show(cells[i], result));
      state.textContent = words.ready;
    } catch (error) {
      if (running) state.textContent = words.failed;
      running = false;
      button.textContent = again;
    }
  }

  // What a cell gave, in the place of the output that the book was built with.
  function show(one, { printed, value, error, needs }) {
    one.live?.remove();
    one.cell.querySelector(".cell_output:not(.live)")?.toggleAttribute("hidden", !needs);
    one.note?.remove();
    one.note = null;
    if (needs) return one.note = note(one, words.needs.replace("{what}", words.modules[needs] ?? needs));
    const text = [printed.replace(/\n$/, ""), value, error && `${error.name}: ${error.message}`].filter(Boolean).join("\n");
    one.live = make("div", { className: "cell_output live" }, make("div", { className: "highlight" }, make("pre", { textContent: text, tabIndex: 0 })));
    if (text) one.cell.append(one.live);
    one.live.classList.toggle("wrong", !!error);
    open(one);
  }

  function note({ cell }, text) {
    const line = make("p", { className: "small needs", textContent: text });
    cell.append(line);
    return line;
  }

  // The editor comes when the code is clicked, or reached by the keyboard.
  function open(one) {
    if (one.opens) return;
    one.opens = true;
    Object.assign(one.pre, { tabIndex: 0, title: words.edit });
    one.pre.addEventListener("click", () => edit(one), { once: true });
    one.pre.addEventListener("keydown", ({ key }) => { if (key === "Enter") edit(one); });
  }

  async function edit(one) {
    if (one.editor) return;
    const { open: editor } = await import("./editor.js"), place = make("div", { className: "code" });
    one.pre.closest(".highlight, .cell_input").replaceWith(make("div", { className: "editor" }, place));
    one.editor = editor(place, { text: one.source, label: words.code, described: "", changed: (text) => { one.source = text; }, check: run, run });
    one.editor.focus();
  }

  run();
}
