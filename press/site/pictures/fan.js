// Picture 5, "from fan to S": layer normalisation maps each token along a straight line of its own; all
// of them together look like a tanh. The words stand in templates/pictures/fan.html.

import { ask, axis, fill, fixed, handle, path, radical, short, sized, slider, svg, ticks, wordsOf } from "./common.js";

const TOKENS = 40, FEATURES = 16, EPS = 1e-5, WIDEST = 4, NARROWEST = .2, REACH = 10.5, MINE = 27; // MINE: the token in hand
const TIMES = document.documentElement.lang.startsWith("zh") ? "×" : "·";
const FIRST = { spread: 4, alpha: null, own: null, show: "cloud" }; // alpha: the best where null

function measure(token) {
  const mean = (values) => values.reduce((a, b) => a + b) / values.length, mu = mean(token);
  return { mu, variance: mean(token.map((v) => (v - mu) ** 2)) };
}

export function normalise(token) {
  const { mu, variance } = measure(token);
  return token.map((v) => (v - mu) / Math.sqrt(variance + EPS));
}

// Always the same tokens, of mean 0 and standard deviation 1.
const tokens = ((seed) => {
  const next = () => (seed = seed * 16807 % 2147483647) / 2147483647;
  const bell = () => Math.sqrt(-2 * Math.log(next())) * Math.cos(2 * Math.PI * next());
  return Array.from({ length: TOKENS }, () => Array.from({ length: FEATURES }, bell)).map((token) => {
    const { mu, variance } = measure(token);
    return token.map((v) => (v - mu) / Math.sqrt(variance));
  });
})(67);
const FAR = Math.max(...tokens[MINE]), NUMBER = tokens[MINE].indexOf(FAR); // looked at: its largest number

// The multiple of a curve that comes nearest to y, and the share of the variance of y that it explains.
function explain(curve, y) {
  let product = 0, square = 0, all = 0;
  curve.forEach((v, i) => { product += v * y[i]; square += v * v; all += y[i] * y[i]; });
  return { gamma: product / square, share: product * product / square / all };
}

const alphaAt = (at) => +(10 ** at).toPrecision(3);
const places = Array.from({ length: 201 }, (_, i) => (i - 130) / 100); // of the slider
const through = (x, y, alpha) => explain(x.map((v) => Math.tanh(alpha * v)), y);
const best = (x, y) => places.map((at) => [through(x, y, alphaAt(at)).share, at]).reduce((a, b) => b[0] > a[0] ? b : a)[1];

export default function run(root) {
  const find = (selector) => root.querySelector(selector), all = (selector) => [...root.querySelectorAll(selector)];
  const words = wordsOf(root), drawing = find("svg"), back = svg("g");
  const knobs = { mu: knob("mu", "shift", "μ"), sigma: knob("sigma", "scale", "μ + σ") };
  let { spread, alpha, own, show } = FIRST, size, frame, now, ghost, moving = false;

  function knob(name, colour, letters) {
    const text = svg("text", { x: 12, y: 20, class: colour });
    text.textContent = letters;
    return svg("g", { role: "slider", "aria-label": words[name] }, text, svg("circle", { r: 22, class: "hit" }), svg("circle", { r: 6 }));
  }

  const within = (low, high, v) => Math.round(Math.max(low, Math.min(high, v)) * 100) / 100;
  drawing.append(back, ...Object.values(knobs));
  handle(knobs.mu, {
    at: () => [frame.x(now.mu), frame.y(0)],
    moved: (px) => change(() => { const room = REACH - FAR * now.sigma; own = { mu: within(-room, room, frame.x.from(px)), sigma: now.sigma }; }),
  });
  handle(knobs.sigma, {
    at: () => [frame.x(now.mu + now.sigma), frame.y(1)],
    moved: (px) => change(() => { own = { mu: now.mu, sigma: within(NARROWEST, Math.min(WIDEST, (REACH - Math.abs(now.mu)) / FAR), frame.x.from(px) - now.mu) }; }),
  });

  // What comes in, what layer normalisation makes of it, and the curve that imitates this.
  function compute() {
    const sigmas = tokens.map((_, t) => WIDEST * spread ** (t / (TOKENS - 1) - 1)), { mu, sigma } = own ?? { mu: 0, sigma: sigmas[MINE] };
    const x = tokens.map((token, t) => token.map((v) => t === MINE ? mu + sigma * v : sigmas[t] * v)), y = x.map(normalise);
    const [inputs, outputs] = [x.flat(), y.flat()], at = alpha === null ? best(inputs, outputs) : Math.log10(alpha), slope = alpha ?? alphaAt(at);
    return { mu, sigma, x, y, at, alpha: slope, line: explain(inputs, outputs), curve: through(inputs, outputs, slope) };
  }

  function draw() {
    now = compute();
    const { mu, sigma, x, y, line, curve } = now, percent = ({ share }) => fixed(100 * share, 1);
    drawing.dataset.x = JSON.stringify(x);
    drawing.dataset.value = JSON.stringify(y);
    find(".shares").innerHTML = fill(words.shares, { line: percent(line), curve: percent(curve) });
    all(".shares b").forEach((b, i) => { b.dataset.value = [line, curve][i].share; });
    find(".note").innerHTML = fill(words.notes[show], { slope: fixed(1 / sigma) });
    find(".work").innerHTML = worked();
    putAlpha(now.at);
    find("[name=fit]").checked = alpha === null;
    for (const input of all("[name=show]")) input.checked = input.value === show;
    for (const [name, value] of [["mu", mu], ["sigma", sigma]]) {
      knobs[name].setAttribute("aria-valuenow", value);
      knobs[name].setAttribute("aria-valuetext", short(value));
      knobs[name].toggleAttribute("hidden", show === "cloud");
    }
    paint();
  }

  function paint() {
    if (!size?.[0]) return;
    const [width, height] = size, left = 26, low = height - 22, { x, y, mu, sigma } = now;
    frame = { x: axis([-REACH, REACH], [left, width]), y: axis([-2.8, 2.8], [low, 2]) };
    const at = (t) => x[t].map((v, i) => [frame.x(v), frame.y(y[t][i])]), every = tokens.map((_, t) => at(t)), others = every.filter((_, t) => t !== MINE);
    const text = (name, px, py, end, colour) => Object.assign(svg("text", { x: px, y: py, "text-anchor": end, class: colour }), { textContent: words[name] });
    back.replaceChildren(
      ticks([-2, 0, 2], left, frame.y, { vertical: true, grid: width - left }), ticks([-10, -5, 0, 5, 10], frame.x, low),
      text("output", left + 4, 14, "start", "axis"), text("input", width, low - 6, "end", "axis"),
      ...show === "all" ? others.map((token, t) => segment(token, ["a", "edge", "b"][Math.floor(3 * t / others.length)])) : [dots(others.flat(), show === "one" ? "few" : "")],
      ...show === "all" && spread > 2 ? [text("small", frame.x(0) - 10, frame.y(2.3), "end", "a"), text("large", width - 4, frame.y(.7), "end", "b")] : [],
      ...show === "cloud" ? [dots(every[MINE], "")] : [segment(every[MINE], "mine"), dots(every[MINE], "mine")],
      ...ghost ? [tanh(ghost, "ghost")] : [], tanh(now, "tanh"), svg("circle", { cx: every[MINE][NUMBER][0], cy: every[MINE][NUMBER][1], r: 7, class: "ring" }),
    );
    for (const [node, v, up] of [[knobs.mu, mu, 0], [knobs.sigma, mu + sigma, 1]]) {
      const right = frame.x(v) > width - 56;
      node.setAttribute("transform", `translate(${frame.x(v)} ${frame.y(up)})`);
      node.firstChild.setAttribute("x", right ? -12 : 12);
      node.firstChild.setAttribute("text-anchor", right ? "end" : "start");
    }
  }

  const dots = (points, name) => svg("path", { class: `dots ${name}`, d: points.map(([px, py]) => `M${px.toFixed(1)} ${py.toFixed(1)}h.01`).join("") });
  function segment(points, name) {
    const across = [...points].sort((a, b) => a[0] - b[0]);
    return path([across[0], across.at(-1)], { class: `token ${name}` });
  }
  const tanh = ({ alpha: a, curve: { gamma } }, name) => path(Array.from({ length: 211 }, (_, i) => (i - 105) / 10).map((v) => [frame.x(v), frame.y(gamma * Math.tanh(a * v))]), { class: name });

  // One number of one token, through layer normalisation and through the tanh.
  function worked() {
    const { x, y, mu, sigma, alpha: a, curve: { gamma } } = now, v = x[MINE][NUMBER], squashed = gamma * Math.tanh(a * v);
    const mean = `<mn class="shift">${mu < 0 ? "(" : ""}${fixed(mu)}${mu < 0 ? ")" : ""}</mn>`;
    return `<span>${words.number}</span><math><mstyle displaystyle="true"><mfrac><mrow><mn>${fixed(v)}</mn><mo>−</mo>${mean}</mrow>${radical(`<mn class="scale">${fixed(sigma ** 2)}</mn><mo>+</mo><mi>ε</mi>`)}</mfrac><mo>=</mo><mn class="result" data-value="${y[MINE][NUMBER]}">${fixed(y[MINE][NUMBER])}</mn></mstyle></math> `
      + `<math><mn class="scale">${fixed(gamma)}</mn><mo>${TIMES}</mo><mi>tanh</mi><mo>(</mo><mn>${fixed(a, 3)}</mn><mo>${TIMES}</mo><mn>${fixed(v)}</mn><mo>)</mo><mo>=</mo><mn class="result" data-value="${squashed}">${fixed(squashed)}</mn></math>`;
  }

  // The curve before a movement stays until the next one begins.
  function change(how) {
    if (!moving) ghost = now;
    moving = true;
    how();
    draw();
  }
  for (const end of ["change", "pointerup", "pointercancel", "keyup"]) root.addEventListener(end, () => { moving = false; });

  const putSpread = slider(find("[name=spread]"), { value: (at) => +(10 ** at).toPrecision(2), changed: (v) => change(() => { spread = v; own = null; }) });
  const putAlpha = slider(find("[name=alpha]"), { value: alphaAt, show: (v) => fixed(v, 3), changed: (v) => change(() => { alpha = v; }) });
  find("[name=fit]").addEventListener("change", (e) => { change(() => { alpha = e.target.checked ? null : now.alpha; }); });
  for (const input of all("[name=show]")) input.addEventListener("change", () => { show = input.value; draw(); });

  function set(state) {
    ({ spread, alpha, own } = state);
    putSpread(Math.log10(spread));
    draw();
  }
  ask(root, words, (choice) => {
    ghost = now;
    set({ ...FIRST, spread: 1 });
    return [choice === 2, fill(words.why)];
  });
  find(".reset").addEventListener("click", () => { ghost = null; show = FIRST.show; set(FIRST); });
  sized(drawing, (...given) => { size = given; paint(); });
  set(FIRST);
}
