// Picture 3, "train against eval": batches come, their means jump, the running mean follows; one example,
// x = 3, is normalised by its batch and by the running statistics.
// The words stand in templates/pictures/modes.html, in the language of the page.

import { ask, axis, fill, fixed, path, percent, short, sized, slider, svg, ticks, wordsOf } from "./common.js";

const X = 3, EPS = 1e-5, SHOWN = 60, FIRST = 8; // FIRST: how many batches have come when it begins
const QS = [.001, .003, .01, .03, .1, .3, .9, .99], GUESSES = [3, 10, 28, 300];
const START = { size: 8, q: .1, centre: 2, forgot: false, swapped: false, biased: false };

// Normal numbers, the same for every reader: mulberry32, then Box and Muller.
export function draws(seed) {
  const uniform = () => {
    seed = seed + 0x6D2B79F5 | 0;
    let t = Math.imul(seed ^ seed >>> 15, 1 | seed);
    t = t + Math.imul(t ^ t >>> 7, 61 | t) ^ t;
    return ((t ^ t >>> 14) >>> 0) / 2 ** 32;
  };
  return () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
}

const measure = (values) => {
  const mean = values.reduce((a, b) => a + b) / values.length;
  return { mean, variance: values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / values.length };
};
const normalise = ({ mean, variance }) => (X - mean) / Math.sqrt(variance + EPS);

// All batches again, with these options: what the running statistics were after each, and the two outputs.
export function replay(batches, { q, forgot, swapped, biased }) {
  let mean = 0, variance = 1;
  const share = swapped ? 1 - q : q;
  return batches.map(({ size, centre, batch, ours }) => {
    const before = mean;
    if (size > 1) {
      mean = (1 - share) * mean + share * batch.mean;
      variance = (1 - share) * variance + share * batch.variance * (biased ? 1 : size / (size - 1));
    }
    const train = normalise(ours), still = forgot ? ours : { mean, variance };
    return { centre, batch, ours, share, before, mean, variance, train, still, eval: normalise(still) };
  });
}

export default function run(root) {
  const find = (selector) => root.querySelector(selector), all = (selector) => [...root.querySelectorAll(selector)];
  const words = wordsOf(root);
  let options, batches, draw1, was, last, mark, note, timer;

  function more(count) {
    const { size, centre } = options;
    for (let i = 0; i < count; i++) {
      const values = Array.from({ length: size }, () => centre + draw1());
      batches.push({ size, centre, batch: measure(values), ours: measure(values.with(0, X)) });
    }
    draw();
  }

  // What changes the past, changes it for the same batches; the old past stays as a ghost.
  function change(edit, ghost) {
    if (ghost && last !== ghost) was = replay(batches, options);
    if (ghost) mark = null;
    last = ghost;
    options = { ...options, ...edit };
    draw();
  }

  const put = {
    size: slider(find("[name=size]"), { value: (at) => 2 ** at, changed: (size) => change({ size }) }),
    q: slider(find("[name=q]"), { value: (at) => QS[at], show: (v) => short(v, 3), changed: (q) => change({ q }, "q") }),
    centre: slider(find("[name=shift]"), { show: (v) => fixed(v, 1), changed: (centre) => change({ centre }) }),
  };
  for (const input of all("[type=checkbox]")) input.addEventListener("change", () => {
    note = input.checked ? input.name : null;
    change({ [input.name]: input.checked }, input.name + input.checked);
  });

  function restart(count) {
    options = START;
    batches = [];
    draw1 = draws(1);
    was = last = mark = note = null;
    put.size(3); put.q(QS.indexOf(START.q)); put.centre(START.centre);
    for (const input of all("[type=checkbox]")) input.checked = false;
    play(false);
    more(count);
  }

  const step = (count) => { was = last = null; more(count); };

  function play(on) {
    clearInterval(timer);
    timer = on && setInterval(() => { if (!document.hidden) step(1); }, 200);
    find(".play").textContent = on ? words.pause : words.play;
  }

  function draw() {
    const past = replay(batches, options), now = past.at(-1);
    tell(find(".train b"), now.train);
    tell(find(".eval b"), now.eval);
    tell(find(".gap b"), Math.abs(now.train - now.eval));
    find(".train small").innerHTML = quotient(now.ours);
    find(".eval small").innerHTML = quotient(now.still);
    find(".mistakes .note").innerHTML = remark(now);
    find(".work").innerHTML = worked(now);
    sketch(past);
  }

  const tell = (node, v) => { node.textContent = fixed(v); node.dataset.value = v; };
  const quotient = ({ mean, variance }) => `(${X} − <span class="shift" data-value="${mean}">${fixed(mean)}</span>) / √(<span class="scale" data-value="${variance}">${fixed(variance)}</span> + ε)`;

  function remark({ share }) {
    const m = options.size, kind = m === 1 ? "one" : options[note] ? note : "none";
    const v = kind === "biased" ? (m - 1) / m : share;
    return fill(words.notes[kind], { m, share: percent(v, Math.abs(v * 100 % 1) > 1e-9 ? 1 : 0) });
  }

  // The formula of the running mean, then the same formula with the numbers of the last batch.
  function worked({ share, before, mean, batch }) {
    const number = (v, kind = "") => `<mn class="${kind}">${v}</mn>`, running = '<msub><mi class="shift">μ</mi><mi>r</mi></msub>';
    const signed = (v, kind) => v < -.005 ? `<mo>(</mo>${number(fixed(v), kind)}<mo>)</mo>` : number(fixed(v), kind);
    const letters = `${running}<mo>←</mo><mo>(</mo><mn>1</mn><mo>−</mo><mi>q</mi><mo>)</mo>${running}<mo>+</mo><mi>q</mi><mi class="shift">μ</mi>`;
    const moved = batches.at(-1).size > 1, sum = moved ? `${number(short(1 - share, 3))}<mo>·</mo>${signed(before, "shift")}<mo>+</mo>${number(short(share, 3))}<mo>·</mo>${signed(batch.mean, "shift")}<mo>=</mo>` : "";
    return `<span>${fill(words.work, { n: batches.length, mean: fixed(batch.mean) })}</span><math>${moved ? letters : running}</math> <math><mo>=</mo>${sum}<mn class="result" data-value="${mean}">${fixed(mean)}</mn></math>`;
  }

  // The last batches, each at its place; lines stop at the frame.
  function sketch(past) {
    const from = Math.max(0, past.length - SHOWN), window = past.slice(from), ghost = was?.slice(from, past.length);
    plot(find(".means"), from, [-1.5, 6], [0, 2, 4], (at) => [
      band(window, at),
      at.line(window.map((one) => one.centre), "truth"), ...ghost ? [at.line(ghost.map((one) => one.mean), "ghost")] : [],
      at.line(window.map((one) => one.mean), "running"), ...at.dots(window.map((one) => one.batch.mean)),
      svg("line", { x1: at.x(from), x2: at.end, y1: at.y(X), y2: at.y(X), class: "ours" }),
      label(at.end + 6, at.y(X) + 4, fill(words.data, { x: X })), ...mark && mark > from ? marked(at) : [],
    ]);
    plot(find(".results"), from, [-3, 3], [-2, 0, 2], (at) => [
      ...ghost ? [at.line(ghost.map((one) => one.eval), "ghost")] : [],
      at.line(window.map((one) => one.eval), "still"), ...at.dots(window.map((one) => one.train)),
    ]);
  }

  function plot(box, from, range, at, content) {
    const [w, h] = [box.clientWidth, box.clientHeight];
    if (!w) return;
    const end = w - 44, x = axis([from, from + SHOWN], [26, end]), y = axis(range, [h - 24, 8]);
    const inside = (v) => y(Math.max(range[0], Math.min(range[1], v)));
    const points = (values) => values.map((v, i) => [x(from + i + 1), inside(v)]);
    const numbers = Array.from({ length: SHOWN / 10 + 1 }, (_, i) => (Math.ceil(from / 10) + i) * 10).filter((v) => v <= from + SHOWN && v % (w < 500 ? 20 : 10) === 0);
    box.replaceChildren(
      ticks(at, 26, y, { vertical: true, grid: end - 26 }), ticks(numbers, x, h - 22),
      ...content({ x, y: inside, end, points, height: h, line: (values, kind) => path(points(values), { class: kind }), dots: (values) => points(values).map(([cx, cy]) => svg("circle", { cx, cy, r: 2.5, class: "batch" })) }),
    );
  }

  function band(window, at) {
    const edge = (sign) => at.points(window.map(({ mean, variance }) => mean + sign * Math.sqrt(variance)));
    return path([...edge(1), ...edge(-1).reverse()], { class: "band" });
  }

  const label = (x, y, text) => Object.assign(svg("text", { x, y }), { textContent: text });
  const marked = (at) => [svg("line", { x1: at.x(mark), x2: at.x(mark), y1: 18, y2: at.height - 24, class: "mark" }), centred(label(at.x(mark), 12, words.mark))];
  const centred = (text) => { text.setAttribute("text-anchor", "middle"); return text; };

  ask(root, words, (i) => {
    restart(40);
    mark = 28;
    draw();
    const k = GUESSES[i];
    return [k === 28, fill(words.because, { k, covered: percent(1 - .9 ** k) })];
  });
  words.play = find(".play").textContent;
  for (const button of all("[data-steps]")) button.addEventListener("click", () => step(+button.dataset.steps));
  find(".play").addEventListener("click", () => play(!timer));
  find(".reset").addEventListener("click", () => restart(FIRST));
  restart(FIRST);
  for (const box of all("svg")) sized(box, () => draw());
}
