// Picture 6, depth: the residual stream and the gradients of Transformers that are not trained. The
// numbers were measured (press/site/depths.py), and stand with the words in templates/pictures/.

import { ask, axis, fill, fixed, handle, path, radical, short, sized, slider, svg, ticks, wordsOf } from "./common.js";

const HUES = { post: "a", pre: "b", peri: "d", deep: "c" };
const ANSWERS = [.5, 8, 39, 68, 1e38]; // how many times; all far from each other
const TOP = 26, MIDDLE = 190, BELOW = 258, BOTTOM = 400; // edges of the two panels

export default function run(root) {
  const find = (selector) => root.querySelector(selector), words = wordsOf(root);
  const { depths, found } = JSON.parse(find(".data").textContent);
  let placement = "pre", was = null, depth = 3, layer = 8;

  const layers = () => depths[depth], of = (name) => found[name][layers()];
  const names = Object.fromEntries([...root.querySelectorAll("[name=placement]")].map((input) => [input.value, input.nextElementSibling.textContent]));

  // The frame: layers across; the variance from 0, on the scale of all four, and the gradient by powers.
  function frame() {
    const width = find(".drawing").clientWidth, left = 38, right = width - 80, n = layers();
    const high = Math.max(...Object.keys(found).flatMap((name) => of(name).variance));
    return { left, right, band: (right - left) / (n + 1), x: axis([-.5, n + .5], [left, right]), up: axis([0, high * 1.04], [MIDDLE, TOP]), down: axis([.02, 20], [BOTTOM, BELOW], Math.log10), high };
  }

  // Some layers that have a tick: the first, the last, and what divides between.
  const some = (n) => n <= 8 ? Array.from({ length: n + 1 }, (_, i) => i) : [0, n / 4, n / 2, 3 * n / 4, n];
  const round = (high) => [1, 2, 5, 10, 20, 50, 100].find((step) => high / step < 4);

  function draw() {
    const at = frame(), { left, right, x, up, down, high } = at, step = round(high);
    const levels = Array.from({ length: Math.floor(high / step) + 1 }, (_, i) => i * step), old = was && was !== placement && was;
    find(".plot").replaceChildren(
      svg("text", { x: 0, y: 12, class: "title" }, words.variance), svg("text", { x: 0, y: BELOW - 16, class: "title" }, words.gradient),
      ticks(levels, left, up, { vertical: true, grid: right - left }), ticks([.1, 1, 10], left, down, { vertical: true, grid: right - left }),
      ticks(some(layers()), x, BOTTOM), svg("text", { x: (left + right) / 2, y: BOTTOM + 34, class: "unit" }, words.layer),
      svg("line", { x1: x(layer), x2: x(layer), y1: TOP, y2: BOTTOM, class: "cursor" }),
      ...bars(at), ...curve(at, placement), ...old ? ghosts(at, old) : [], ...labels(at, [placement, old].filter(Boolean)),
    );
    place(at);
    find(".note").textContent = words.notes[placement];
    find(".work").innerHTML = worked();
    find(".q").textContent = fill(words.ask, { placement: words.full[placement] });
    find(".drawing").setAttribute("aria-label", fill(words.drawing, { placement: words.full[placement], n: layers(), first: short(of(placement).variance[0]), last: short(of(placement).variance.at(-1)), g1: short(of(placement).gradient[0], 3), gn: short(of(placement).gradient.at(-1), 3) }));
  }

  const bars = ({ x, up, band }) => of(placement).variance.map((v, l) => svg("rect", {
    x: x(l) - .4 * band, y: Math.min(up(v), MIDDLE - 2), width: .8 * band, height: Math.max(2, MIDDLE - up(v)), class: l === layer ? "column here" : "column", style: `--hue: var(--${HUES[placement]})`, "data-value": String(v),
  }));

  const line = ({ x, down }, name) => of(name).gradient.map((v, i) => [x(i + 1), down(v)]);
  const curve = (at, name) => [
    path(line(at, name), { stroke: `var(--${HUES[name]})` }),
    ...line(at, name).map(([cx, cy], i) => svg("circle", { cx, cy, r: i + 1 === layer ? 6 : Math.min(4, .3 * at.band), fill: `var(--${HUES[name]})`, "data-value": String(of(name).gradient[i]) })),
  ];

  // What was shown before: the outline of its bars, and its curve.
  function ghosts(at, name) {
    const { x, up, band } = at, outline = of(name).variance.flatMap((v, l) => [[x(l) - band / 2, up(v)], [x(l) + band / 2, up(v)]]);
    return [path(outline, { class: "ghost" }), path(line(at, name), { class: "ghost" })];
  }

  // Names at the ends, apart from each other by the height of a line.
  function labels({ right, up, down }, shown) {
    return [["variance", up], ["gradient", down]].flatMap(([what, y]) => {
      const ends = shown.map((name) => y(of(name)[what].at(-1))), near = ends.length > 1 && Math.abs(ends[0] - ends[1]) < 15;
      const apart = near ? (ends[0] <= ends[1] ? 1 : -1) * (15 - Math.abs(ends[0] - ends[1])) / 2 : 0;
      const lowest = what === "variance" ? MIDDLE : BOTTOM, shift = near ? Math.max(0, Math.max(...ends) + Math.abs(apart) - lowest) : 0;
      return shown.map((name, i) => svg("text", { x: right + 8, y: ends[i] + 4 + (i ? apart : -apart) - shift, class: "name", style: `fill: var(--${i ? "muted" : HUES[name]})` }, names[name]));
    });
  }

  function place({ x }) {
    const knob = find(".handle");
    knob.setAttribute("transform", `translate(${x(layer).toFixed(1)} ${MIDDLE + 14})`);
    for (const [name, value] of Object.entries({ valuemin: 1, valuemax: layers(), valuenow: layer, valuetext: fill(words.at, { l: layer, variance: short(of(placement).variance[layer]), gradient: short(of(placement).gradient[layer - 1], 3) }) })) knob.setAttribute(`aria-${name}`, value);
  }

  // What the layer in hand does to the variance: it adds, or a norm divides.
  function worked() {
    const { variance, sum, gradient } = of(placement), [before, after] = [variance[layer - 1], variance[layer]], digits = after < 10 ? 2 : 1;
    const n = (v, hue = "") => `<mn class="${hue}">${fixed(v, digits)}</mn>`, divided = sum.length > 0, added = after - before;
    const steps = divided ? `<mfrac>${n(sum[layer - 1])}<msup><mrow><mo>(</mo>${radical(n(sum[layer - 1], "scale"))}<mo>)</mo></mrow><mn>2</mn></msup></mfrac>` : `<mrow>${n(before)}<mo>${added < 0 ? "−" : "+"}</mo>${n(Math.abs(added))}</mrow>`;
    const square = `<msubsup><mi class="scale">σ</mi><mn>${layer}</mn><mn>2</mn></msubsup>`;
    return `<span>${fill(words.work[divided ? "norm" : "add"], { l: layer, g: fixed(gradient[layer - 1], 3) })}</span><math><mstyle displaystyle="true"><mrow>${square}<mo>=</mo>${steps}<mo>=</mo><mn class="result">${fixed(after, digits)}</mn></mrow></mstyle></math>`;
  }

  function reach(px) {
    const { x } = frame();
    layer = Math.max(1, Math.min(layers(), Math.round(x.from(px))));
    draw();
  }

  function show(name) {
    if (name !== placement) [was, placement] = [placement, name];
    for (const input of root.querySelectorAll("[name=placement]")) input.checked = input.value === name;
    draw();
  }

  function deep(i) {
    layer = Math.max(1, Math.round(layer * depths[i] / layers()));
    depth = i;
    draw();
  }

  const at = slider(find("[name=layers]"), { value: (i) => depths[i], changed: (n) => deep(depths.indexOf(n)) });
  handle(find(".handle"), { at: () => [frame().x(layer), 0], moved: reach, step: () => frame().band });
  for (const input of root.querySelectorAll("[name=placement]")) input.addEventListener("change", () => { forget(); show(input.value); });
  find(".reset").addEventListener("click", () => { forget(); [placement, was, depth, layer] = ["pre", null, 3, 8]; at(depth); show(placement); });
  const forget = ask(root, words, (i) => {
    at(5);
    deep(5);
    const { variance } = of(placement), times = variance.at(-1) / variance[0];
    const nearest = (v) => Math.abs(Math.log(v / times)), right = ANSWERS.every((v) => nearest(ANSWERS[i]) <= nearest(v));
    return [right, fill(words.because[placement], { from: fixed(variance[0], 1), to: fixed(variance.at(-1), variance.at(-1) < 10 ? 1 : 0) })];
  });
  sized(find(".drawing"), draw);
  at(depth);
  show(placement);
}
