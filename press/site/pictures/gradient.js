// Picture 2, "what the gradient loses": g arrives at x̂, and layer normalisation takes away its mean and
// its part along x̂. Three features, so that all of it can be drawn.
// The words stand in templates/pictures/gradient.html, in the language of the page.

import { arrow, ask, field, fill, fixed, handle, path, percent, power, short, sized, slider, svg, wordsOf } from "./common.js";

const RADIUS = Math.sqrt(3), LENGTH = .9, LIMIT = 2; // LENGTH: an arrow of 1 beside a radius of √3
const START = { x: [0, 0, 3], g: [1, -1, 1.5], eps: 1e-5 };
const ASKED = { layer: { g: [0, 0, 2], right: 0 }, rms: { g: [1, 1, 1], right: 2 } };

const dot = (a, b) => a.reduce((sum, v, i) => sum + v * b[i], 0);
const add = (a, b, times = 1) => a.map((v, i) => v + times * b[i]);
const scale = (a, by) => a.map((v) => v * by);
const unit = (a) => scale(a, 1 / Math.hypot(...a));
const cross = (a, b) => a.map((_, i) => a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3]);
const mean = (a) => dot(a, [1, 1, 1]) / 3;

// The plane of the circle, turned so that the first x̂ lies in front, to the right; and what stands on it.
const ONES = unit([1, 1, 1]);
const [EAST, NORTH] = ((a, b, turn) => [add(scale(a, Math.cos(turn)), b, Math.sin(turn)), add(scale(b, Math.cos(turn)), a, -Math.sin(turn))])(unit([-1, -1, 2]), unit([1, -1, 0]), .5);

export function backward({ x, g, eps }, norm) {
  const rms = norm === "rms", mu = rms ? 0 : mean(x), centred = x.map((v) => v - mu);
  const variance = dot(centred, centred) / 3, r = 1 / Math.sqrt(variance + eps), hat = scale(centred, r);
  const level = rms ? 0 : mean(g), along = dot(g, hat) / 3, radial = scale(hat, along);
  const kept = g.map((v, i) => v - level - radial[i]);
  return { mu, centred, r, hat, level, along, mean: [level, level, level], radial, kept, dx: scale(kept, r) };
}

export default function run(root) {
  const find = (selector) => root.querySelector(selector), all = (selector) => [...root.querySelectorAll(selector)];
  const words = wordsOf(root), drawing = find("svg"), [layer, at, head] = drawing.children;
  let norm, now, was, last = {}, eye, place, shown = 2; // place: from vectors to pixels

  const vector = (v) => fill(words.vector, v.map((n) => short(n)));
  const copy = () => ({ ...now, norm });

  // A ghost shows what was before this movement, not before its last pixel.
  function edit(source, change) {
    const time = performance.now();
    if (source !== last.source || time - last.time > 700) was = copy();
    last = { source, time };
    now = { ...now, ...change };
    draw();
  }

  const set = (key, i, v) => { shown = i; edit(key + i, { [key]: now[key].with(i, v) }); };
  const shows = Object.fromEntries(["x", "g"].map((key) => {
    const limit = key === "g" ? LIMIT : 9;
    return [key, all(`[name=${key}]`).map((input, i) => field(input, { step: .1, low: -limit, high: limit, changed: (v) => set(key, i, v) }))];
  }));

  const putEps = slider(find("[name=eps]"), { value: (v) => 10 ** v, show: (v) => v < .01 ? power(v) : short(v, 3), changed: (eps) => edit("eps", { eps }) });
  const putEye = slider(find("[name=eye]"), { show: (v) => `${v}°`, changed: (v) => { look(v); draw(); } });

  // The eye: what points to the right, upwards, and towards it.
  function look(degrees) {
    const [c, s] = [Math.cos(degrees * Math.PI / 180), Math.sin(degrees * Math.PI / 180)];
    eye = { degrees, right: EAST, up: add(scale(NORTH, s), ONES, c), near: add(scale(ONES, s), NORTH, -c) };
  }

  const seen = (v) => [dot(v, eye.right), dot(v, eye.up)];
  const back = (px, py) => [(px - place.cx) / place.unit, (place.cy - py) / place.unit];
  const screen = (v) => { const [a, b] = seen(v); return [place.cx + a * place.unit, place.cy - b * place.unit]; };

  // The head follows the pointer in the plane of the screen; its depth stays.
  handle(head, { at: () => screen(tip()), step: 4, moved: (px, py) => {
    const [a, b] = seen(tip()), [s, t] = back(px, py);
    const g = add(add(now.g, eye.right, (s - a) / LENGTH), eye.up, (t - b) / LENGTH);
    edit("head", { g: g.map((v) => Math.max(-LIMIT, Math.min(LIMIT, v))) });
  } });

  // x̂ goes to the nearest place of the circle, or of this side of the sphere.
  handle(at, { at: () => screen(backward(now, norm).hat), step: 6, moved: (px, py) => {
    const { mu, centred } = backward(now, norm), size = Math.hypot(...centred) || 1;
    edit("at", { x: add([mu, mu, mu], norm === "rms" ? onSphere(back(px, py)) : onCircle(back(px, py), centred), size) });
  } });

  function onSphere([s, t]) {
    const far = Math.hypot(s, t), by = Math.min(1, .999 * RADIUS / far) / RADIUS;
    const flat = add(scale(eye.right, s * by), eye.up, t * by);
    return add(flat, eye.near, Math.sqrt(1 - dot(flat, flat)));
  }

  function onCircle([s, t], centred) {
    const turns = Array.from({ length: 720 }, (_, i) => i * Math.PI / 360).map((a) => add(scale(EAST, Math.cos(a)), NORTH, Math.sin(a)));
    const off = (v) => { const [a, b] = seen(v); return Math.hypot(RADIUS * a - s, RADIUS * b - t) - 1e-3 * dot(v, unit(centred)); };
    return turns.reduce((best, v) => off(v) < off(best) ? v : best);
  }

  const tip = (state = now) => add(backward(state, norm).hat, state.g, LENGTH);

  function draw() {
    const found = backward(now, norm), square = dot(now.g, now.g);
    for (const key of ["x", "g"]) shows[key].forEach((show, i) => show(now[key][i]));
    for (const name of ["hat", "mean", "radial", "kept", "dx"]) [...find(`tr.${name}`).cells].slice(1, 4).forEach((cell, i) => tell(cell, found[name][i], absent(name) ? "–" : undefined));
    for (const name of ["g", "mean", "radial", "kept"]) { // how much of g·g each part brings
      const share = square ? dot(name === "g" ? now.g : found[name], now.g) / square : 0;
      tell(find(`tr.${name} .share`), share, square && !absent(name) ? percent(share) : "–");
    }
    tell(find(".sum"), dot(found.dx, [1, 1, 1]), tiny(dot(found.dx, [1, 1, 1])));
    tell(find(".product"), dot(found.dx, found.hat), tiny(dot(found.dx, found.hat)));
    find(".work").innerHTML = worked(found);
    if (place) sketch(found);
  }

  const absent = (name) => name === "mean" && norm === "rms";
  const tell = (node, v, text = fixed(v)) => { node.innerHTML = text; node.dataset.value = v; };
  const tiny = (v) => Math.abs(v) < 1e-13 ? "0" : Math.abs(v) < .005 ? power(v) : fixed(v);

  // The formula, then the same formula with the numbers of the feature that was touched last.
  function worked({ r, hat, level, along, dx }) {
    const i = shown, rms = norm === "rms", sub = (letter) => `<msub>${letter}<mn>${i + 1}</mn></msub>`, x = "<mover><mi>x</mi><mo>^</mo></mover>";
    const of = (inside, kind) => `<mrow class="${kind}"><mi>mean</mi><mo>(</mo>${inside}<mo>)</mo></mrow>`, minus = "<mo>−</mo>";
    const number = (v, kind = "") => (v < -.005 ? (text) => `<mo>(</mo>${text}<mo>)</mo>` : (text) => text)(`<mn class="${kind}">${fixed(v)}</mn>`);
    const letters = `<mi>r</mi><mo>(</mo>${sub("<mi>g</mi>")}${rms ? "" : minus + of("<mi>g</mi>", "shift")}${minus}${sub(x)}<mspace width=".15em"></mspace>${of(`<mi>g</mi>${x}`, "scale")}<mo>)</mo>`;
    const numbers = `${number(r)}<mo>(</mo><mn>${fixed(now.g[i])}</mn>${rms ? "" : minus + number(level, "shift")}${minus}${number(hat[i])}<mo>·</mo>${number(along, "scale")}<mo>)</mo>`;
    return `<span>${fill(words.work, { i: i + 1 })}</span><math><mi mathvariant="normal">d</mi>${sub("<mi>x</mi>")}<mo>=</mo>${letters}</math> <math><mo>=</mo>${numbers}<mo>=</mo><mn class="result">${fixed(dx[i])}</mn></math>`;
  }

  const ring = (a, b, radius, [from, to] = [0, 2 * Math.PI], centre = [0, 0, 0]) => Array.from({ length: 97 }, (_, i) => from + (to - from) * i / 96)
    .map((t) => screen(add(add(centre, a, radius * Math.cos(t)), b, radius * Math.sin(t))));

  function sketch(found) {
    const { hat, radial, kept } = found, start = screen(hat), length = LENGTH * room(start, screen(tip()));
    const end = (v, from = hat) => screen(add(from, v, length));
    const line = (a, b, kind) => path([a, b], { class: kind });
    const corners = [[found.mean, radial], [found.mean, kept], [radial, kept]].map(([a, b]) => [a, b, add(a, b)]);
    const edges = corners.flatMap(([a, b, sum]) => [line(end(a), end(sum), "box"), line(end(b), end(sum), "box"), line(end(sum), end(now.g), "box")]);
    const before = was && was.norm === norm && backward(was, norm);
    layer.replaceChildren(
      ...norm === "rms" ? sphere(found) : circle(found),
      line(screen([0, 0, 0]), start, "spoke"), ...edges,
      ...before ? [arrow(screen(before.hat), end(before.kept, before.hat), { class: "before" })] : [],
      ...["mean", "radial", "kept"].map((name) => arrow(start, end(found[name]), { class: `part ${name}` })),
      arrow(start, beyond(end(now.g), start, -6), { class: "part g" }), ...labels(start, end),
    );
    put(at, start, Math.atan2(dot(hat, NORTH), dot(hat, EAST)) * 180 / Math.PI, `x̂ = ${vector(hat)}`);
    put(head, end(now.g), Math.hypot(...now.g), `g = ${vector(now.g)}`);
  }

  // How much of the way from a place to another lies in the drawing: long arrows are drawn shorter.
  function room(from, to) {
    const share = (a, b, size) => b > size - 14 ? (size - 14 - a) / (b - a) : b < 14 ? (a - 14) / (a - b) : 1;
    return Math.max(.1, Math.min(share(from[0], to[0], place.w), share(from[1], to[1], place.h)));
  }

  function put(node, [x, y], value, text) {
    node.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
    node.setAttribute("aria-valuenow", value.toFixed(2));
    node.setAttribute("aria-valuetext", text);
  }

  // Layer normalisation: a circle, what stands on its plane, and the tangent on which the rest lies.
  function circle({ hat }) {
    const out = Math.hypot(...hat) > 1e-9 ? unit(hat) : EAST, tangent = cross(ONES, out), top = screen(scale(ONES, 2.3));
    const name = svg("text", { x: top[0], y: top[1] - 8, "text-anchor": "middle", class: "name" });
    name.textContent = fill(words.vector, [1, 1, 1]);
    return [
      path(ring(EAST, NORTH, RADIUS), { class: "round" }),
      path([screen(add(scale(out, RADIUS), tangent, -2.2)), screen(add(scale(out, RADIUS), tangent, 2.2))], { class: "free" }),
      path([screen([0, 0, 0]), top], { class: "axis" }), ...eye.degrees < 75 ? [name] : [],
    ];
  }

  // RMSNorm: a sphere, and the plane that touches it at x̂.
  function sphere({ hat }) {
    const out = Math.hypot(...hat) > 1e-9 ? unit(hat) : EAST;
    const one = unit(cross(out, Math.abs(dot(out, ONES)) > .9 ? EAST : ONES)), two = cross(out, one);
    return [
      path(ring(eye.right, eye.up, RADIUS), { class: "round" }),
      path(ring(EAST, NORTH, RADIUS), { class: "round thin" }),
      path(ring(one, two, 1.35, undefined, scale(out, RADIUS)), { class: "plane" }),
    ];
  }

  const beyond = ([x, y], from, by) => { const far = Math.hypot(x - from[0], y - from[1]) || 1; return [x + (x - from[0]) / far * by, y + (y - from[1]) / far * by]; };

  function labels(start, end) {
    const text = (at, words, kind) => Object.assign(svg("text", { x: at[0], y: at[1] + 5, "text-anchor": "middle", class: `letter ${kind}` }), { textContent: words });
    const centre = screen([0, 0, 0]), inside = beyond(start, centre, -20);
    return [text(beyond(end(now.g), start, 18), "g", "g"), text([inside[0], inside[1] + 14], "x̂", "hat")];
  }

  function restart(change = {}) {
    was = null;
    last = {};
    now = { ...START, ...change };
    putEps(Math.log10(now.eps));
    draw();
  }

  function choose(next) {
    norm = next;
    for (const input of all("[name=norm]")) input.checked = input.value === norm;
    all(".guess button").forEach((button, i) => { button.textContent = percent(i / 3); button.setAttribute("aria-pressed", false); });
    find(".q").textContent = words[norm].question;
    find(".note").textContent = words[norm].view;
    find(".verdict").textContent = words.start;
    find("tr.mean").classList.toggle("none", norm === "rms");
    was = null;
    draw();
  }

  ask(root, words, (i) => {
    shown = 2;
    restart({ g: ASKED[norm].g });
    return [i === ASKED[norm].right, fill(words[norm].because, {})];
  });
  for (const input of all("[name=norm]")) input.addEventListener("change", () => choose(input.value));
  find(".reset").addEventListener("click", () => { look(35); putEye(35); restart(); });
  look(35);
  now = START;
  choose(root.dataset.norm);
  sized(drawing, (w, h) => {
    place = { w, h, cx: w * .43, cy: h * .55, unit: Math.min(w / 6, h / 5.2) };
    draw();
  });
}
