// Picture 7, numbers in a computer: the variance in one pass and in two, with every result rounded as
// float32, bfloat16 and float16 round it. The words stand in templates/pictures/floats.html.

import { arrow, ask, axis, fill, power, short, sized, slider, svg, wordsOf } from "./common.js";

// Bits of the significand (the leading one, which is not stored, among them), least exponent of a
// normal number, bits of the exponent.
const FORMATS = { float32: [24, -126, 8], bfloat16: [8, -126, 8], float16: [11, -14, 5] };
const EPS = 1e-5, NEAR = .1, MAGIC = 1.5 * 2 ** 52;
const MEANS = [0, 1, 3, 10, 30, 100, 300, 1e3, 3e3, 1e4, 3e4, 1e5, 3e5, 1e6], SIZES = Array.from({ length: 25 }, (_, i) => +`1e${i - 4}`);
const START = { mean: 9, size: 4 }, ANSWERS = [1.25, 0, -8, NaN, Infinity];

// A format: the distance between neighbours at a number, the nearest number that it has, and its
// bits. A double has more than twice as many digits as each of them, so that rounding the result of
// one operation of doubles gives what the format's own operation gives.
export function format(name) {
  const [digits, low, wide] = FORMATS[name], largest = (2 - 2 ** (1 - digits)) * 2 ** (1 - low);
  const exponent = (v) => Math.max(low, v ? Math.floor(Math.log2(Math.abs(v))) : low);
  const gap = (v) => 2 ** (exponent(v) - digits + 1);
  const round = (v) => {
    if (!Number.isFinite(v)) return v;
    const step = gap(v), near = (Math.abs(v) / step + MAGIC - MAGIC) * step; // to even where two are as near
    return Math.sign(v) * (near > largest ? Infinity : near);
  };
  const bits = (v) => {
    const stored = digits - 1, normal = Math.abs(v) >= 2 ** low, top = 2 ** wide - 1, sign = v < 0 || Object.is(v, -0) ? 1 : 0;
    const [e, m] = Number.isNaN(v) ? [top, 2 ** (stored - 1)] : !Number.isFinite(v) ? [top, 0] : [normal ? exponent(v) - low + 1 : 0, Math.abs(v) / gap(v) % 2 ** stored];
    return sign + e.toString(2).padStart(wide, "0") + m.toString(2).padStart(stored, "0");
  };
  return { name, digits, wide, low, largest, gap, round, bits };
}

// The variance of some numbers in both ways, and what is met on the way.
export function variances(numbers, { round }) {
  const add = (values) => values.reduce((a, b) => round(a + b)), mean = (values) => round(add(values) / values.length);
  const x = numbers.map(round), squares = x.map((v) => round(v * v)), ofSquares = mean(squares), mu = mean(x), ofMean = round(mu * mu);
  const one = round(ofSquares - ofMean), two = mean(x.map((v) => round(v - mu)).map((d) => round(d * d)));
  const [oneRoot, twoRoot] = [one, two].map((v) => round(1 / round(Math.sqrt(round(v + round(EPS))))));
  return { x, ofSquares, ofMean, one, two, oneRoot, twoRoot };
}

// As a program would print them; what is long, as a power.
const RAISED = Object.fromEntries([..."−0123456789"].map((sign, i) => [sign, "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"[i]]));
function show(v, long = 1e9) {
  if (Number.isNaN(v)) return "nan";
  if (!Number.isFinite(v)) return v < 0 ? "−inf" : "inf";
  const size = Math.abs(v);
  if (size >= long || (size && size < 1e-3)) {
    const [digits, exponent] = v.toExponential(2).split("e");
    return power(+`1e${exponent}`).replace(/^1/, short(+digits, 2)).replace(/<sup>(.*)<\/sup>/, (_, e) => [...e].map((sign) => RAISED[sign]).join(""));
  }
  const [whole, rest] = (size < 1 ? short(+v.toPrecision(4), 7) : short(v, size < 1e5 ? 4 : size < 1e7 ? 2 : 1)).split(/(?=[.,])/);
  return (whole.length > 5 ? whole.replace(/\B(?=(\d{3})+$)/g, "\u202f") : whole) + (rest ?? "");
}

export default function run(root) {
  const find = (selector) => root.querySelector(selector), words = wordsOf(root), at = {};
  let kind = "float32", mean, size;

  const start = () => { mean = MEANS[START.mean]; size = SIZES[START.size]; for (const name of ["mean", "size"]) at[name](START[name]); };

  // What there is to draw: the exact values, and those of the format.
  function state() {
    const of = format(kind), numbers = [1, 2, 3, 4].map((i) => mean + i * size), middle = mean + 2.5 * size, exact = 1.25 * size * size;
    return { of, numbers, exact, trueMean: middle * middle, trueSquares: middle * middle + exact, root: 1 / Math.sqrt(exact + EPS), ...variances(numbers, of) };
  }

  function draw() {
    const now = state();
    find(".four").replaceChildren(...now.x.map((v, i) => cell(v, show(now.numbers[i]))));
    drawLine(now, find(".line").clientWidth);
    drawBits(now, find(".bits").clientWidth);
    const rows = [[now.exact, now.root], [now.one, now.oneRoot], [now.two, now.twoRoot]];
    root.querySelectorAll("tbody tr").forEach((row, i) => rows[i].forEach((v, j) => {
      const right = Math.abs(v - rows[0][j]) <= NEAR * rows[0][j], mark = i ? `<b class="${right ? "right" : "wrong"}">${right ? "✓" : "✗"}</b> ` : "";
      row.cells[j + 1].innerHTML = mark + show(v);
      row.cells[j + 1].dataset.value = v;
    }));
    find(".note").textContent = fill(words[happens(now)], { format: kind, largest: show(now.of.largest), gap: show(now.of.gap(now.ofMean)), same: show(now.x[0]) });
    find(".work").innerHTML = worked(now);
    find(".q").textContent = fill(words.ask, { format: kind });
    find(".legend").lastElementChild.lastChild.textContent = fill(words.has, { format: kind });
  }

  function cell(v, was) {
    const box = document.createElement("span");
    box.innerHTML = `${show(v)}<small>${was === show(v) ? "" : was}</small>`;
    box.dataset.value = v;
    return box;
  }

  // The first thing that goes wrong, by its name among the words.
  function happens({ of, x, ofSquares, ofMean, one, two, exact }) {
    const off = (v) => !(Math.abs(v - exact) <= NEAR * exact);
    if (!x.every(Number.isFinite)) return "beyond";
    if (!Number.isFinite(ofSquares)) return Number.isFinite(ofMean) ? "sum" : "both";
    if (x.every((v) => v === x[0]) && x[0]) return "same";
    if (exact < of.gap(0) * 8 && off(two)) return "small";
    if (one + EPS < 0) return "negative";
    if (off(one)) return off(two) ? "coarse" : "lost";
    return off(two) ? "coarse" : "fine";
  }

  // Each term on a line: where it is (hollow), and the number that the format has for it; below, the
  // differences.
  function drawLine(now, width) {
    const box = find(".line"), { of, trueSquares, trueMean, ofSquares, ofMean, one, exact } = now, finite = Number.isFinite(ofSquares + ofMean);
    const points = finite ? [trueSquares, trueMean, ofSquares, ofMean] : [0, trueSquares], step = finite ? of.gap(Math.max(ofSquares, ofMean)) : 0;
    const span = Math.max(...points) - Math.min(...points), margin = finite ? Math.max(.06 * span, 1.3 * step) : .06 * span;
    const to = axis([0, span + 2 * margin], [0, width]), from = Math.min(...points) - margin, x = (v) => to(v - from);
    const parts = finite ? grid(from, step, x, width) : beyond(of.largest, x, width);
    [[trueSquares, ofSquares, "scale", words.squares], [trueMean, ofMean, "shift", words.mean]].forEach(([exactly, found, hue, name], i) => {
      const y = 40 + 56 * i;
      parts.push(svg("text", { x: 0, y: y - 22, class: hue }, name), svg("text", { x: width, y: y - 22, "text-anchor": "end", class: hue }, show(found, 1e13)));
      parts.push(svg("line", { x1: 0, x2: width, y1: y, y2: y, class: "rail" }));
      if (Number.isFinite(found)) parts.push(svg("circle", { cx: x(found), cy: y, r: 6, class: `dot ${hue}` }));
      parts.push(svg("circle", { cx: x(exactly), cy: y, r: 9, class: "ghost" }));
    });
    const y = 136;
    parts.push(svg("text", { x: 0, y }, words.difference), svg("text", { x: width, y, "text-anchor": "end" }, fill(words.instead, { one: show(one), exact: show(exact) })));
    if (finite) parts.push(...bracket(x(trueMean), x(trueSquares), y + 14), arrow([x(ofMean), y + 30], [x(ofSquares), y + 30], { class: one < 0 ? "wrong" : "" }));
    if (finite && !one) parts.push(svg("line", { x1: x(ofMean), x2: x(ofMean), y1: y + 24, y2: y + 36, class: "nil" }));
    box.replaceChildren(...parts);
    box.setAttribute("aria-label", `${words.squares}: ${show(ofSquares)}; ${words.mean}: ${show(ofMean)}; ${words.difference}: ${show(one)} (${show(exact)})`);
  }

  // The numbers that the format has, a line each, or where there are too many a band.
  function grid(from, step, x, width) {
    if (x(from + step) < 4) return [svg("rect", { x: 0, y: 28, width, height: 80, class: "dense" })];
    const first = Math.ceil(from / step) * step, count = Math.floor(width / x(from + step)) + 1;
    return Array.from({ length: count }, (_, i) => x(first + i * step)).filter((at) => at <= width).map((at) => svg("line", { x1: at, x2: at, y1: 28, y2: 108, class: "tick" }));
  }

  const bracket = (a, b, y) => [[a, b, y, y], [a, a, y - 4, y + 4], [b, b, y - 4, y + 4]].map(([x1, x2, y1, y2]) => svg("line", { x1, x2, y1, y2, class: "ghost" }));

  function beyond(largest, x, width) {
    const edge = Math.max(0, x(largest));
    return [
      svg("rect", { x: edge, y: 24, width: Math.max(0, width - edge), height: 88, class: "beyond" }),
      svg("line", { x1: edge, x2: edge, y1: 24, y2: 112, class: "edge" }),
      svg("text", { x: Math.min(edge + 8, width - 150), y: 58 }, `> ${show(largest)}: inf`),
    ];
  }

  // The bits of both terms: full where they are 1.
  function drawBits({ of, ofSquares, ofMean }, width) {
    const box = find(".bits"), [first, second] = [ofSquares, ofMean].map(of.bits), gap = 5, size = Math.min(23, (width - 2 * gap) / first.length);
    const left = (i) => i * size + gap * ((i > 0) + (i > of.wide)), kinds = (i) => i === 0 ? "sign" : i <= of.wide ? "exponent" : "significand";
    const cells = [first, second].flatMap((bits, row) => [...bits].map((bit, i) => svg("rect", { x: left(i) + 1, y: row * 24 + 1, width: Math.max(1, size - 2), height: 18, rx: 2, class: `bit ${kinds(i)} ${+bit ? "on" : ""}` })));
    const differ = [...first].flatMap((bit, i) => bit === second[i] ? [] : [svg("line", { x1: left(i) + 2, x2: left(i) + size - 2, y1: 50, y2: 50, class: "differ" })]);
    const names = [[1, "exponent", "middle"], [of.wide + 1, "significand", "middle"]].map(([i, name]) => svg("text", { x: (left(i) + left(i === 1 ? of.wide : first.length - 1) + size) / 2, y: 68, "text-anchor": "middle" }, words[name]));
    const agree = [...first].findIndex((bit, i) => bit !== second[i]);
    box.replaceChildren(...cells, ...differ, ...names);
    box.setAttribute("aria-label", fill(words.bits, { first, second }));
    box.dataset.bits = `${first} ${second}`;
    find(".agree").textContent = fill(agree < 0 ? words.all : words.agree, { n: agree, of: first.length });
  }

  function worked({ ofSquares, ofMean, one }) {
    const mean = '<mrow class="over"><msup><mi>x</mi><mn>2</mn></msup></mrow>';
    const long = find(".work").clientWidth < 500 ? 1e9 : 1e13;
    return `<span>${fill(words.rounded, { format: kind })}</span><math><mrow>${mean}<mo>−</mo><msup><mi class="shift">μ</mi><mn>2</mn></msup><mo>=</mo><mn class="scale">${show(ofSquares, long)}</mn><mo>−</mo><mn class="shift">${show(ofMean, long)}</mn><mo>=</mo><mn class="result">${show(one)}</mn></mrow></math>`;
  }

  for (const [name, values] of [["mean", MEANS], ["size", SIZES]]) {
    at[name] = slider(find(`[name=${name}]`), { value: (i) => values[i], show, changed: (v) => { if (name === "mean") mean = v; else size = v; draw(); } });
  }
  for (const input of root.querySelectorAll("[name=format]")) input.addEventListener("change", () => { forget(); kind = input.value; draw(); });
  find(".reset").addEventListener("click", () => { forget(); start(); draw(); });
  root.querySelectorAll(".guess button").forEach((button, i) => { button.textContent = show(ANSWERS[i]); });
  const forget = ask(root, words, (i) => { start(); draw(); return [Object.is(state().one, ANSWERS[i]), words.because[kind]]; });
  start();
  for (const drawing of root.querySelectorAll(".drawing")) sized(drawing, draw);
  draw();
}
