// Picture 8, folding: batch normalisation moves into the layer before it, in three steps.
// The words stand in templates/pictures/folding.html, in the language of the page.

import { ask, field, fill, fixed, power, radical, short, slider, wordsOf } from "./common.js";

const CHANNELS = [0, 1], INPUTS = [0, 1, 2], VISIBLE = 5e-4, LIMIT = 20;
// W, w₀, the running mean and variance, γ, β: a row for each channel. Columns of x are examples.
const START = {
  x: [[1, 2], [2, 0], [-1, 1]],
  W: [[2, -1, 4], [.1, .2, -.1]], w: [[3], [.5]], mean: [[1], [.4]], variance: [[4], [.009]], gamma: [[3], [.2]], beta: [[-1], [1]],
  eps: [[.001]],
};
const STEPS = { x: 1, W: [.5, .1], w: [.5, .1], mean: [.5, .1], variance: [1, .001], gamma: [.5, .1], beta: [.5, .1], eps: .001 };
const ACTIONS = {
  gamma: (net) => { net.gamma[0][0] *= 2; },
  beta: (net) => { net.beta[0][0] += 1; },
  variance: (net) => { net.variance[0][0] *= 4; },
  x: (net) => { net.x[0][0] += 1; },
};
const COUNTS = [0, 1, 3, 4, 8];

const sum = (values) => values.reduce((a, b) => a + b);
const product = (W, w, x) => CHANNELS.map((c) => x[0].map((_, n) => sum(INPUTS.map((i) => W[c][i] * x[i][n])) + w[c]));

// The mean and variance that a channel of the two layers is normalised with: those that run along, or
// in training mode those of the batch.
function statistics(net, how, c) {
  if (how !== "training") return [net.mean[c][0], net.variance[c][0]];
  const z = product(net.W, net.w.flat(), net.x)[c], mean = sum(z) / z.length;
  return [mean, sum(z.map((v) => (v - mean) ** 2)) / z.length];
}

export function inTwo(net, how) {
  return product(net.W, net.w.flat(), net.x).map((z, c) => {
    const [mean, variance] = statistics(net, how, c);
    return z.map((v) => (v - mean) / Math.sqrt(variance + net.eps[0][0]) * net.gamma[c][0] + net.beta[c][0]);
  });
}

// What is left of the normalisation after a step, and the weights of the linear layer.
export function machine(net, how, step) {
  const eps = how === "eps" ? 0 : net.eps[0][0];
  const a = CHANNELS.map((c) => net.gamma[c][0] / Math.sqrt(net.variance[c][0] + eps));
  const b = CHANNELS.map((c) => net.beta[c][0] - a[c] * net.mean[c][0]);
  const W = CHANNELS.map((c) => net.W[c].map((v) => step > 1 ? a[c] * v : v));
  const scaled = CHANNELS.map((c) => step < 2 ? net.w[c][0] : how === "bias" ? 0 : a[c] * net.w[c][0]);
  const w = CHANNELS.map((c) => step > 2 ? scaled[c] + b[c] : scaled[c]);
  const left = [inTwo(net, "right"), ...[1, 2, 3].map((at) => product(W, w, net.x).map((z, c) => z.map((v) => (at > 1 ? 1 : a[c]) * v + (at > 2 ? 0 : b[c]))))];
  return { a, b, W, w, y: left[step] };
}

const LEFT = [["μ<sub>r</sub>", "σ<sub>r</sub><sup>2</sup>", "γ", "β"], ["a", "b"], ["b"], []];
const HUES = { "μ<sub>r</sub>": "shift", "σ<sub>r</sub><sup>2</sup>": "scale", γ: "scale", β: "shift", a: "scale", b: "shift" };
const head = (name) => `<i class="${HUES[name] ?? ""}">${name}</i>`;
const number = (v) => fixed(v, Math.abs(v) < 100 ? 2 : Math.abs(v) < 1000 ? 1 : 0);

export default function run(root) {
  const find = (selector) => root.querySelector(selector);
  const words = wordsOf(root), shows = [];
  let net, how = "right", step = 0, before = null, channel = 0;

  const start = () => { net = structuredClone(START); before = null; channel = 0; };

  // A field for each number of x and of the two layers; `draw` brings the rest up to date.
  function build() {
    for (const input of root.querySelectorAll(".field")) {
      const [name, row, column] = input.name.split("-"), by = STEPS[name];
      shows.push([field(input, {
        step: by[row] ?? by, low: { variance: .001, eps: 0 }[name] ?? -LIMIT, high: LIMIT, digits: 3,
        begin: () => machine(net, how, step), changed: (v, since) => edit([name, +row, +column], v, since),
      }), name, row, column]);
      if (name !== "x" && name !== "eps") input.addEventListener("focus", () => { channel = +row; draw(); });
    }
  }

  function edit([name, row, column], value, since) {
    before = since ?? machine(net, how, step);
    net[name][row][column] = value;
    draw();
  }

  const line = (values, was, write) => values.map((v, i) => {
    const moved = was && Math.abs(v - was[i]) > VISIBLE;
    return `<span${moved ? ' class="moved"' : ""} data-value="${v}">${write(v)}<small>${moved ? number(was[i]) : ""}</small></span>`;
  }).join("");
  const rows = (values, was, write = number) => CHANNELS.map((c) => `<div class="lane">${line(values[c], was?.[c], write)}</div>`).join("");

  function draw() {
    const now = machine(net, how, step), two = inTwo(net, how);
    for (const [show, name, row, column] of shows) show(net[name][row][column]);
    const names = ["W′", "w′<sub>0</sub>"].map((v) => step < 2 ? v.replace("′", "") : v);
    find(".linear.after").innerHTML = `<p class="heads"><i class="wide">${names[0]}</i><i>${names[1]}</i></p>${rows(...[now, before].map((m) => m && CHANNELS.map((c) => [...m.W[c], m.w[c]])))}`;
    const left = [(c) => [net.mean, net.variance, net.gamma, net.beta].map((v) => v[c][0]), (c) => [now.a[c], now.b[c]], (c) => [now.b[c]], () => []][step];
    find(".left").innerHTML = `<p class="heads">${LEFT[step].map(head).join("")}</p>${rows(CHANNELS.map(left), null, step ? number : (v) => short(v, 3))}`;
    find(".left").style.setProperty("--columns", LEFT[step].length);
    find(".y.before").innerHTML = `<p class="heads"><i class="wide">y</i></p>${rows(two)}`;
    find(".y.after").innerHTML = `<p class="heads"><i class="wide">y′</i></p>${rows(now.y)}`;
    find(".y.after").querySelectorAll("span").forEach((span, i) => { if (Math.abs(two.flat()[i] - now.y.flat()[i]) > 10 * VISIBLE) { span.className = "off"; span.lastChild.textContent = "≠"; } });
    compare(Math.max(...CHANNELS.flatMap((c) => two[c].map((v, n) => Math.abs(v - now.y[c][n])))));
    find(".note").textContent = words.notes[how];
    find(".work").innerHTML = worked(now);
  }

  function compare(off) {
    const same = off < 1e-9;
    find(".same").innerHTML = `<b class="${same ? "right" : "wrong"}">${same ? "✓ y′ = y" : "✗ y′ ≠ y"}</b> ${same ? words.same : fill(words.off, { d: off < .005 ? power(off) : number(off) })}`;
    find(".same").dataset.off = off;
  }

  // The line of one channel, that of the number in hand.
  function worked({ a, b, W, w }) {
    const c = channel, n = (v, hue = "") => `<mn class="${hue}">${v < 0 ? `(${number(v)})` : number(v)}</mn>`;
    const op = (...parts) => parts.join(""), o = (sign) => `<mo>${sign}</mo>`, i = (name, hue = "") => `<mi class="${hue}">${name}</mi>`;
    const over = (top, under) => `<mfrac><mrow>${top}</mrow><mrow>${under}</mrow></mfrac>`;
    const result = (v) => `<mn class="result">${number(v)}</mn>`, eps = how !== "eps";
    const vector = (values) => `<mo>(</mo>${values.map((v) => `<mn>${short(v)}</mn>`).join(`<mo separator="true">${short(.5).replace("0.5", ",").replace("0,5", ";")}</mo>`)}<mo>)</mo>`;
    const inside = op(`<mn class="scale">${short(net.variance[c][0], 3)}</mn>`, eps ? o("+") + `<mn>${short(net.eps[0][0], 3)}</mn>` : "");
    const [z] = product(net.W, net.w.flat(), net.x)[c], [mean, variance] = statistics(net, how, c);
    const minus = (v, hue) => op(o(v < 0 ? "−" : "+"), `<mn class="${hue}">${number(Math.abs(v))}</mn>`);
    const lines = [
      () => op(i("y"), o("="), n(net.gamma[c][0], "scale"), o("·"), over(op(`<mn>${number(z)}</mn>`, minus(-mean, "shift")), radical(op(`<mn class="scale">${short(variance, 3)}</mn>`, o("+"), `<mn>${short(net.eps[0][0], 3)}</mn>`))), minus(net.beta[c][0], "shift"), o("="), result(inTwo(net, how)[c][0])),
      () => op(i("a", "scale"), o("="), over(n(net.gamma[c][0], "scale"), radical(inside)), o("="), result(a[c]), `<mspace width="1.2em"/>`, i("b", "shift"), o("="), n(net.beta[c][0], "shift"), o("−"), n(a[c], "scale"), o("·"), n(net.mean[c][0], "shift"), o("="), result(b[c])),
      () => op(`<msup>${i("W")}<mo>′</mo></msup>`, o("="), n(a[c], "scale"), o("·"), vector(net.W[c]), o("="), vector(W[c])),
      () => op(`<msubsup>${i("w")}<mn>0</mn><mo>′</mo></msubsup>`, o("="), n(a[c], "scale"), o("·"), how === "bias" ? "<mn>0</mn>" : n(net.w[c][0]), minus(b[c], "shift"), o("="), result(w[c])),
    ];
    return `<span>${fill(step ? words.channel : words.example, { c: c + 1, z: number(z) })}</span><math><mstyle displaystyle="true">${lines[step]()}</mstyle></math>`;
  }

  const at = slider(find("[name=step]"), { show: (v) => words.steps[v], changed: (v) => { step = v; before = null; draw(); } });
  for (const input of root.querySelectorAll("[name=how]")) input.addEventListener("change", () => { forget(); how = input.value; before = null; draw(); });
  find(".reset").addEventListener("click", () => { forget(); start(); at(step = 0); draw(); });
  const action = () => find("select").value;
  find("select").addEventListener("change", () => { forget(); start(); draw(); });
  const forget = ask(root, words, (choice) => {
    start();
    at(step = 3);
    before = machine(net, how, step);
    ACTIONS[action()](net);
    draw();
    const count = root.querySelectorAll(".linear.after .moved").length;
    return [COUNTS[choice] === count, fill(words.changed, { n: count }), words.because[action()]];
  });
  build();
  start();
  draw();
}
