// Picture 4, "the bowl": gradient descent on a quadratic loss, raw and with standardised inputs.
// The words stand in templates/pictures/bowl.html, in the language of the page.

import { ask, fill, fixed, handle, path, short, sized, slider, svg, ticks, wordsOf } from "./common.js";

const MOST = 30000, DRAWN = 400, CLEAR = 30, REACH = 1.15, RING = .35;
const FIRST = { rate: 1, spread: 10, start: [0, 0] }; // start: the standardised weights
const TIMES = document.documentElement.lang.startsWith("zh") ? "×" : "·";

// Descent on ½ Σ λ (w − w*)² until 1 % of the loss is left: the weights after each step, as far as
// they are drawn, and how many steps it takes.
export function descend([a, b], best, [flat, steep], rate) {
  const loss = () => (flat * (a - best[0]) ** 2 + steep * (b - best[1]) ** 2) / 2, enough = loss() / 100;
  const leaves = [[flat, a - best[0]], [steep, b - best[1]]].some(([curvature, distance]) => distance && Math.abs(1 - rate * curvature) > 1 + 1e-9);
  const weights = [[a, b]];
  let steps = 0;
  while (leaves ? steps < DRAWN : steps < MOST && loss() > enough) {
    a -= rate * flat * (a - best[0]);
    b -= rate * steep * (b - best[1]);
    if (++steps <= DRAWN) weights.push([a, b]);
  }
  return { weights, leaves, steps: leaves || loss() > enough ? Infinity : steps };
}

const star = ([cx, cy]) => svg("path", { class: "star", d: `M${Array.from({ length: 10 }, (_, i) => [i % 2 ? 3.8 : 9.5, Math.PI * i / 5]).map(([r, t]) => `${(cx + r * Math.sin(t)).toFixed(1)} ${(cy - r * Math.cos(t)).toFixed(1)}`).join("L")}Z` });

function letter(x, y, anchor, index) {
  const text = svg("text", { x, y, "text-anchor": anchor, class: "letter" });
  text.innerHTML = `w<tspan dy="3" font-size="9">${index}</tspan>`;
  return text;
}

// As many digits of the rate as tell it from its neighbours.
const decimals = ({ curvature }) => Math.round(Math.log10(curvature[1])) + 2;

// Those points that lie apart from the one before.
function apart(points) {
  let [x, y] = [-1e6, 0];
  return points.filter((p) => Math.hypot(p[0] - x, p[1] - y) > 1.5 && ([x, y] = p));
}

export default function run(root) {
  const find = (selector) => root.querySelector(selector), words = wordsOf(root);
  let { rate, spread, start } = FIRST, moving = false;

  // What a bowl is, where descent starts in it, and what it does there.
  function descent(raw) {
    const s = raw ? spread : 1, curvature = [1, s * s], best = [1, 1 / s], from = [start[0], start[1] / s], eta = rate / curvature[1];
    return { s, curvature, best, from, eta, ...descend(from, best, curvature, eta) };
  }

  function bowl(place) {
    const drawing = place.querySelector("svg"), back = svg("g"), count = place.querySelector(".count b");
    const name = svg("text"), knob = svg("g", { role: "slider", "aria-label": words.start }, name, svg("circle", { r: 22, class: "hit" }), svg("circle", { r: 6 }));
    let size, now, frame, ghost, shown;
    name.textContent = words.start;
    drawing.append(back, knob);
    handle(knob, {
      at: () => frame.at(now.from),
      moved: (px, py) => {
        const near = (pixels) => Math.round(Math.max(-REACH, Math.min(REACH, pixels / frame.unit)) * 100) / 100;
        change(() => { start = [1 + near(px - frame.centre[0]), 1 + near((frame.centre[1] - py) * frame.thin)]; });
      },
    });

    // The minimum stays in the middle. The second axis is stretched by the root of the ratio of the
    // scales, or the valley would soon be a line.
    function measure([width, height]) {
      const left = 36, low = height - 22, centre = [(left + width) / 2, low / 2], thin = Math.sqrt(now.s);
      const unit = Math.min((width - left) / 2 - 54, low / 2.5), x = (v) => centre[0] + (v - 1) * unit, y = (v) => centre[1] - (v * now.s - 1) * unit / thin;
      return { left, low, width, centre, thin, unit, x, y, at: ([a, b]) => [x(a), y(b)] };
    }

    function draw() {
      if (!size?.[0]) return;
      frame = measure(size);
      const { left, low, width, centre: [cx, cy], thin, unit, x, y, at } = frame;
      const inside = svg("svg", { x: left, width: width - left, height: low, viewBox: `${left} 0 ${width - left} ${low}` });
      const points = now.weights.map(at).filter(([px, py]) => Math.abs(px) + Math.abs(py) < 1e4);
      const rings = Math.ceil(Math.hypot(cx - left, cy * thin) / unit / RING);
      for (let k = rings; k; k--) inside.append(svg("ellipse", { cx, cy, rx: RING * k * unit, ry: RING * k * unit / thin, "fill-opacity": .9 / rings }));
      if (ghost) inside.append(path(ghost.map(([u, v]) => [cx + u * unit, cy + v * unit]), { class: "ghost" }));
      inside.append(path(points.slice(CLEAR), { class: "later" }), path(points.slice(0, CLEAR + 1), { class: "way" }));
      inside.append(...apart(points.slice(1, CLEAR + 1)).map(([px, py]) => svg("circle", { cx: px, cy: py, r: 2.5 })), star([cx, cy]));
      back.replaceChildren(inside, ticks([0, 1, 2], x, low), ticks((unit / thin < 15 ? [0, 2] : [0, 1, 2]).map((v) => v / now.s), left, y, { vertical: true, show: (v) => short(v, now.s < 4 ? 2 : 3) }), letter(width, low + 16, "end", 1), letter(left + 8, 17, "start", 2));
      shown = points.map(([px, py]) => [(px - cx) / unit, (py - cy) / unit]);
      const [sx, sy] = at(now.from), beside = sx > left + name.getComputedTextLength() + 12;
      knob.setAttribute("transform", `translate(${sx} ${sy})`);
      for (const [key, value] of Object.entries(beside ? { x: -11, y: 4, "text-anchor": "end" } : { x: 0, y: 22, "text-anchor": "middle" })) name.setAttribute(key, value);
    }

    function update(raw) {
      now = descent(raw);
      place.querySelector(".head span").textContent = `κ = ${short(now.s ** 2)}, η = ${fixed(now.eta, decimals(now))}`;
      count.textContent = now.steps < Infinity ? now.steps : now.leaves ? words.diverges : words.never;
      count.dataset.value = now.steps;
      drawing.dataset.value = JSON.stringify(now.weights);
      knob.setAttribute("aria-valuenow", now.from[0]);
      knob.setAttribute("aria-valuetext", `w₁ = ${short(now.from[0])}, w₂ = ${short(now.from[1], 3)}`);
      draw();
      return now;
    }

    sized(drawing, (...given) => { size = given; draw(); });
    return { update, remember: () => { ghost = shown && [...shown.slice(0, CLEAR + 1), shown.at(-1)]; }, forget: () => { ghost = null; } };
  }

  const [raw, round] = [...root.querySelectorAll(".pair > div")].map(bowl);

  function draw() {
    const now = raw.update(true);
    round.update(false);
    find(".note").innerHTML = words.regimes[rate < 1 ? 0 : rate === 1 ? 1 : rate < 2 ? 2 : rate === 2 ? 3 : 4];
    find(".work").innerHTML = `<span>${words.step}</span>${worked(now, 0)}${worked(now, 1)}`;
  }

  // One step along an axis: the distance from the minimum, times 1 − ηλ.
  function worked(now, i) {
    const { eta, curvature, from, best } = now, distance = from[i] - best[i], to = (1 - eta * curvature[i]) * distance;
    return `<math><msub><mi>w</mi><mn>${i + 1}</mn></msub><mo>:</mo><mrow><mo>(</mo><mn>1</mn><mo>−</mo><mn>${fixed(eta, decimals(now))}</mn><mo>${TIMES}</mo><mn class="scale">${short(curvature[i])}</mn><mo>)</mo></mrow><mo>${TIMES}</mo><mrow><mo>(</mo><mn>${fixed(distance, 3)}</mn><mo>)</mo></mrow><mo>=</mo><mn class="result" data-value="${to}">${fixed(to, 3)}</mn></math>`;
  }

  // What was before a movement stays until the next one begins.
  function change(how) {
    if (!moving) for (const one of [raw, round]) one.remember();
    moving = true;
    how();
    draw();
  }
  for (const end of ["change", "pointerup", "pointercancel", "keyup"]) root.addEventListener(end, () => { moving = false; });

  const putRate = slider(find("[name=rate]"), { value: (at) => +at.toFixed(2), show: (v) => fixed(v), changed: (v) => change(() => { rate = v; }) });
  const putSpread = slider(find("[name=spread]"), { value: (at) => +(10 ** at).toPrecision(2), changed: (v) => change(() => { spread = v; }) });

  function set(state) {
    ({ rate, spread, start } = state);
    putRate(rate);
    putSpread(Math.log10(spread));
    draw();
  }

  ask(root, words, (choice) => {
    for (const one of [raw, round]) one.remember();
    set({ ...FIRST, rate: 2 });
    return [choice === 3, fill(words.why)];
  });
  find(".reset").addEventListener("click", () => {
    for (const one of [raw, round]) one.forget();
    set(FIRST);
  });
  set(FIRST);
}
