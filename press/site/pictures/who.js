// Picture 1, "who shares a mean": x comes in, μ and σ are shared, x̂ goes out.
// The words stand in templates/pictures/who.html, in the language of the page.

import { field, fill, fixed, join, judge, radical, short, wordsOf } from "./common.js";

const EPS = 1e-5, VISIBLE = 5e-4, LIMIT = 99;

// A grid is cut into blocks of [rows, columns] that share; an action meets a block around a number.
const KINDS = {
  table: {
    x: [[9, 2, 7, 6], [2, 4, 9, 5], [1, 6, 5, 4]],
    held: [1, 2], shape: "(3, 4)", wide: 4, guesses: [0, 1, 3, 4, 12],
    blocks: { layer: [1, 4], batch: [3, 1], group: [1, 2], instance: [1, 1], rms: [1, 4] },
    shapes: { layer: "(3, 1)", batch: "(1, 4)", group: "(3, 2)", instance: "(3, 4)", rms: "(3, 1)" },
    actions: { one: [1, 1], row: [1, 4], times: [1, 4], column: [3, 1] },
    name: (r, c) => [r, c],
  },
  cube: { // two examples side by side, channels down, positions across
    x: [[1, 8, 6, 0, 7, 2], [5, 1, 6, 0, 4, 2], [0, 2, 7, 8, 4, 9], [9, 8, 7, 4, 3, 5]],
    held: [1, 1], shape: "(2, 4, 3)", wide: 3, guesses: [0, 3, 6, 12, 24],
    blocks: { layer: [4, 3], batch: [1, 6], group: [2, 3], instance: [1, 3] },
    shapes: { layer: "(2, 1, 1)", batch: "(1, 4, 1)", group: "(2, 2, 1)", instance: "(2, 4, 1)" },
    actions: { one: [1, 1], row: [1, 3], times: [4, 3], column: [1, 6] },
    name: (r, c) => [Math.floor(c / 3), r, c % 3],
  },
};

// The rows and columns of the block of this size in which a place lies.
function around([r, c], [high, wide]) {
  const top = r - r % high, left = c - c % wide, run = (n, from) => Array.from({ length: n }, (_, i) => from + i);
  return { top, left, high, wide, places: run(high, top).flatMap((i) => run(wide, left).map((j) => [i, j])) };
}

function blocksOf(x, size) {
  return x.flatMap((row, r) => row.flatMap((_, c) => r % size[0] || c % size[1] ? [] : [around([r, c], size)]));
}

export function normalise(x, kind, norm) {
  const out = x.map((row) => [...row]), stats = [];
  for (const block of blocksOf(x, KINDS[kind].blocks[norm])) {
    const values = block.places.map(([r, c]) => x[r][c]), mean = (v) => v.reduce((a, b) => a + b) / v.length;
    const mu = norm === "rms" ? 0 : mean(values), variance = mean(values.map((v) => (v - mu) ** 2));
    for (const [r, c] of block.places) out[r][c] = (x[r][c] - mu) / Math.sqrt(variance + EPS);
    stats.push({ ...block, values, mu, variance, sigma: Math.sqrt(variance) });
  }
  return { out, stats };
}

const colour = (block, index) => block.high * block.wide === 1 ? "var(--sunk)" : `var(--${"abcd"[index % 4]}-fill)`;

export default function run(root) {
  const find = (selector) => root.querySelector(selector), all = (selector) => [...root.querySelectorAll(selector)];
  const words = wordsOf(root), say = judge(words);
  let kind, norm = root.dataset.norm, x, shows, held, looked, before, moved, guessed, message;

  const start = () => {
    x = KINDS[kind].x.map((row) => [...row]); held = KINDS[kind].held;
    looked = before = guessed = message = null; moved = [];
  };

  // The tables are built once for each kind; `draw` only brings them up to date.
  function build(next) {
    kind = next;
    start();
    const { x: rows, wide } = KINDS[kind], norms = KINDS[kind].blocks;
    if (!(norm in norms)) norm = "layer";
    for (const input of all("[name=norm]")) input.parentNode.hidden = !(input.value in norms);
    find(".panels").dataset.kind = kind;
    shows = [];
    for (const grid of all(".grid")) {
      grid.replaceChildren();
      grid.style.setProperty("--rows", rows.length);
      grid.style.setProperty("--columns", rows[0].length);
    }
    for (const side of ["x", "y"]) rows.forEach((row, r) => row.forEach((_, c) => {
      const cell = document.createElement("div");
      cell.className = "value";
      if (c % wide === wide - 1 && c < row.length - 1) cell.classList.add("edge");
      cell.innerHTML = (side === "x" ? '<input inputmode="decimal" autocomplete="off">' : "<span></span>") + '<i class="dot"></i>';
      cell.addEventListener("pointerenter", (e) => { if (e.pointerType === "mouse") { looked = [r, c]; draw(); } });
      cell.addEventListener("pointerleave", () => { looked = null; draw(); });
      if (side === "x") shows.push(take(cell.firstChild, r, c));
      find(`.${side} .grid`).append(cell);
    }));
    find("select").replaceChildren(...Object.keys(KINDS[kind].actions).map((action) => new Option(words[kind].actions[action], action)));
    find(".guess").replaceChildren(...KINDS[kind].guesses.map((n) => Object.assign(document.createElement("button"), { type: "button", textContent: n, onclick: () => predict(n) })));
    draw();
  }

  function take(input, r, c) {
    input.setAttribute("aria-label", fill(words[kind].cell, KINDS[kind].name(r, c).map((i) => i + 1)));
    input.addEventListener("focus", () => { held = [r, c]; draw(); });
    return field(input, { low: -LIMIT, high: LIMIT, begin: () => normalise(x, kind, norm).out, changed: (v, since) => edit([[r, c, v]], since) });
  }

  function change(edits, since) {
    before = since ?? normalise(x, kind, norm).out;
    for (const [r, c, value] of edits) x[r][c] = Math.max(-LIMIT, Math.min(LIMIT, value));
    const { out } = normalise(x, kind, norm);
    moved = out.flatMap((row, r) => row.map((v, c) => Math.abs(v - before[r][c]) > VISIBLE));
  }

  const count = () => fill(words.changed, { n: moved.filter(Boolean).length, of: moved.length });

  function edit(edits, since) {
    change(edits, since);
    guessed = null;
    message = join(count(), words[kind].why[norm]);
    draw();
  }

  function predict(n) {
    const action = find("select").value;
    start();
    const by = action === "times" ? (v) => v * 4 : (v) => v + 10;
    change(around(held, KINDS[kind].actions[action]).places.map(([r, c]) => [r, c, by(x[r][c])]));
    const right = moved.filter(Boolean).length === n;
    guessed = n;
    message = say(right, n, count(), words[kind].because[norm][action]);
    draw();
  }

  function draw() {
    const { out, stats } = normalise(x, kind, norm), flat = x.flat();
    const range = [Math.min(0, ...flat), Math.max(10, ...flat)], place = looked ?? held;
    const here = stats.find((s) => s.places.some(([r, c]) => r === place[0] && c === place[1]));
    drawCells(out, stats, range);
    drawShared(stats, range, here);
    find(".x code").textContent = find(".y code").textContent = KINDS[kind].shape;
    find(".s code").textContent = KINDS[kind].shapes[norm];
    find(".s .head b").innerHTML = norm === "rms" ? '<span class="scale rms">rms</span>' : '<span class="shift">μ</span>, <span class="scale">σ</span>';
    find(".note").textContent = words[kind].shared[norm];
    find(".work").innerHTML = worked(place, out, here);
    find(".q").textContent = fill(words.ask[norm], { n: flat.length });
    for (const button of find(".guess").children) button.setAttribute("aria-pressed", +button.textContent === guessed);
    const verdict = message ?? words.start;
    if (find(".verdict").dataset.said !== verdict) find(".verdict").innerHTML = find(".verdict").dataset.said = verdict;
    for (const input of all("[name=norm]")) input.checked = input.value === norm;
  }

  function drawCells(out, stats, [low, high]) {
    const columns = x[0].length, at = (v) => `${Math.max(0, Math.min(100, v)).toFixed(1)}%`;
    const inputs = find(".x .grid").children, outputs = find(".y .grid").children;
    stats.forEach((block, index) => block.places.forEach(([r, c]) => {
      const i = r * columns + c, edges = { right: c < block.left + block.wide - 1, left: c > block.left, down: r < block.top + block.high - 1, up: r > block.top };
      for (const cell of [inputs[i], outputs[i]]) {
        cell.style.setProperty("--fill", colour(block, index));
        for (const [side, joined] of Object.entries(edges)) cell.classList.toggle(side, joined);
      }
      const text = outputs[i].firstChild;
      shows[i](x[r][c]);
      inputs[i].classList.toggle("held", r === held[0] && c === held[1]);
      inputs[i].lastChild.style.setProperty("--at", at((x[r][c] - low) / (high - low) * 100));
      if (moved[i] && text.textContent !== fixed(out[r][c])) { outputs[i].classList.remove("moved"); void outputs[i].offsetWidth; } // hops again
      text.textContent = fixed(out[r][c]);
      text.dataset.value = out[r][c];
      outputs[i].classList.toggle("moved", !!moved[i]);
      outputs[i].lastChild.style.setProperty("--at", at(50 + out[r][c] * 20));
      outputs[i].lastChild.style.setProperty("--was", at(50 + (before ?? out)[r][c] * 20));
    }));
  }

  // What is shared: its numbers as dots on one line, the mean a tick, σ to either side a bar.
  function drawShared(stats, [low, high], here) {
    const to = (v) => (Math.max(0, v - low) / (high - low) * 100).toFixed(1);
    find(".s .grid").replaceChildren(...stats.map((s, index) => {
      const box = document.createElement("div"), rms = norm === "rms", alone = s.values.length === 1;
      box.className = s === here ? "stat here" : "stat";
      box.style.cssText = `grid-area:${s.top + 1}/${s.left + 1}/span ${s.high}/span ${s.wide};--fill:${colour(s, index)}`;
      const mu = `<span class="shift"><b>μ</b>${short(s.mu)}</span>`, sigma = `<span class="scale"><b${rms ? ' class="rms">rms' : ">σ"}</b>${short(s.sigma)}</span>`;
      box.innerHTML = `<p>${rms ? "" : mu}${sigma}</p>` + (alone ? "" : `<div class="axis" aria-hidden="true"><u style="left:${to(s.mu - s.sigma * !rms)}%;right:${100 - to(Math.min(high, s.mu + s.sigma))}%"></u>${s.values.map((v) => `<s style="left:${to(v)}%"></s>`).join("")}${rms ? "" : `<q style="left:${to(s.mu)}%"></q>`}</div>`);
      box.dataset.mu = s.mu;
      box.dataset.sigma = s.sigma;
      return box;
    }));
  }

  // The formula, then the same formula with the numbers of one place.
  function worked([r, c], out, { mu, variance }) {
    const rms = norm === "rms", value = `<mn>${short(x[r][c])}</mn>`, root = (inside) => radical(`${inside}<mo>+</mo><mi>ε</mi>`);
    const mean = mu < 0 ? `<mo>(</mo><mn class="shift">${short(mu)}</mn><mo>)</mo>` : `<mn class="shift">${short(mu)}</mn>`;
    const letters = `<mfrac><mrow><mi>x</mi>${rms ? "" : '<mo>−</mo><mi class="shift">μ</mi>'}</mrow>${root(`<msup><mi class="scale"${rms ? ' mathvariant="normal">rms' : ">σ"}</mi><mn>2</mn></msup>`)}</mfrac>`;
    const numbers = `<mfrac><mrow>${value}${rms ? "" : "<mo>−</mo>" + mean}</mrow>${root(`<mn class="scale">${short(variance)}</mn>`)}</mfrac>`;
    return `<span>${fill(words[kind].cell, KINDS[kind].name(r, c).map((i) => i + 1))}</span><math><mstyle displaystyle="true"><mover><mi>x</mi><mo>^</mo></mover><mo>=</mo>${letters}<mo>=</mo>${numbers}<mo>=</mo><mn class="result">${fixed(out[r][c])}</mn></mstyle></math>`;
  }

  const forget = () => { moved = []; before = guessed = message = null; };
  for (const input of all("[name=norm]")) input.addEventListener("change", () => { norm = input.value; forget(); draw(); });
  for (const input of all("[name=kind]")) input.addEventListener("change", () => build(input.value));
  find("select").addEventListener("change", () => { start(); draw(); });
  find(".reset").addEventListener("click", () => { start(); draw(); });
  build(find("[name=kind]:checked")?.value ?? root.dataset.kinds);
}
