// What the pictures share: numbers as the page writes them, the card that asks, what is taken hold of,
// and drawing. The words of a picture stand in its template.

const lang = document.documentElement.lang.slice(0, 2);

// Numbers, in the language of the page; a minus is a minus.
const written = (text) => (lang === "fr" ? text.replace(".", ",") : text).replace("-", "−");
export const fixed = (v, digits = 2) => written((Math.abs(v) < .5 * 10 ** -digits ? 0 : v).toFixed(digits));
export const short = (v, digits = 2) => written(String(+(Math.abs(v) < .5 * 10 ** -digits ? 0 : v).toFixed(digits)));
export const percent = (v, digits = 0) => `${fixed(v * 100, digits)}${lang === "zh" ? "" : "\u00a0"}%`;
export const power = (v) => { // 3·10⁻⁵, with the sign that the language multiplies by
  const [digits, exponent] = v.toExponential(1).replace(".0", "").split("e");
  return `${written(digits)}${lang === "zh" ? " × " : "·"}10<sup>${written(String(+exponent))}</sup>`;
};
export const read = (text) => text.trim() === "" ? NaN : +text.trim().replace("−", "-").replace(",", ".");

// Sentences with fields {like this} and **bold** words; Chinese needs no space between two.
export const fill = (text, values) => text.replace(/\{(\w+)\}/g, (_, key) => values[key]).replace(/\*\*(.*?)\*\*/g, "<b>$1</b>");
export const join = (...sentences) => sentences.filter(Boolean).join(lang === "zh" ? "" : " ");
// A square root in MathML: few phones have a font that could draw <msqrt>.
export const radical = (inside) => `<mrow class="root"><mo stretchy="false">√</mo><mrow>${inside}</mrow></mrow>`;
export const wordsOf = (root) => JSON.parse(root.querySelector("script").textContent);

// Says of each prediction whether it was right, and why; from the second on, how many were.
export function judge(words) {
  let right = 0, asked = 0;
  return (isRight, said, ...reasons) => {
    right += isRight;
    asked += 1;
    const mark = isRight ? `<b class="right">✓ ${words.right}</b>` : `<b class="wrong">✗ ${fill(words.wrong, { n: said })}</b>`;
    return join(mark, ...reasons, asked > 1 && `<small>${fill(words.tally, { right, asked })}</small>`);
  };
}

// The card of a picture that asks one question: `answer(i)` shows what happens when choice i is
// taken, and returns whether it is right, then the reasons.
// Returns a function that takes the verdict away, when another question is asked.
export function ask(root, words, answer) {
  const say = judge(words), buttons = [...root.querySelectorAll(".guess button")], verdict = root.querySelector(".verdict"), start = verdict.innerHTML;
  const press = (button) => { for (const other of buttons) other.setAttribute("aria-pressed", other === button); };
  buttons.forEach((button, i) => button.addEventListener("click", () => {
    press(button);
    verdict.innerHTML = say(...answer(i).toSpliced(1, 0, button.textContent));
  }));
  return () => { press(); if (verdict.innerHTML !== start) verdict.innerHTML = start; };
}

// A slider: `value` turns its position into what it stands for, `show` into words, `changed` hears of it.
// Returns a function that puts it somewhere, without a word.
export function slider(input, { value = (at) => at, show = short, changed }) {
  const tell = () => {
    input.nextElementSibling.innerHTML = show(value(+input.value));
    input.setAttribute("aria-valuetext", input.nextElementSibling.textContent);
  };
  input.addEventListener("input", () => { tell(); changed(value(+input.value)); });
  tell();
  return (at) => { input.value = at; tell(); };
}

// A field with a number: typed with a comma or a point (the browser's own fields follow its language,
// not the page's), moved by the arrow keys, or dragged up and down, 8 pixels a step.
// Returns a function that shows a number in it.
export function field(input, { step = 1, low = -99, high = 99, digits = 2, begin = () => {}, changed }) {
  let now = 0, from = null;
  const put = (v) => { now = v; input.setAttribute("aria-valuenow", v); };
  const show = (v) => { put(v); if (document.activeElement !== input || read(input.value) !== v) input.value = short(v, digits); };
  const move = (v, since) => { v = +Math.max(low, Math.min(high, v)).toFixed(10); put(v); changed(v, since); };
  input.setAttribute("role", "spinbutton");
  input.addEventListener("input", () => { const v = read(input.value); if (!Number.isNaN(v)) move(v); });
  input.addEventListener("blur", () => { input.value = short(now, digits); });
  input.addEventListener("keydown", (e) => {
    const by = { ArrowUp: 1, ArrowDown: -1, PageUp: 10, PageDown: -10 }[e.key];
    if (!by) return;
    e.preventDefault();
    move(now + by * step);
    show(now);
  });
  input.addEventListener("pointerdown", (e) => {
    if (e.button) return;
    from = { y: e.clientY, value: now, since: begin() };
    input.setPointerCapture(e.pointerId);
  });
  input.addEventListener("pointermove", (e) => {
    const v = from && from.value + step * Math.round((from.y - e.clientY) / 8);
    if (from && v !== now) { move(v, from.since); show(now); }
  });
  for (const end of ["pointerup", "pointercancel"]) input.addEventListener(end, () => { from = null; });
  return show;
}

// A handle in a drawing: dragged to a place, or moved by the arrow keys, in pixels of the drawing. The
// step may be a function, of what the drawing's width makes of it.
export function handle(node, { at, moved, step = 8 }) {
  const box = node.ownerSVGElement;
  let held = false;
  const place = (e) => { const { left, top } = box.getBoundingClientRect(); return [e.clientX - left, e.clientY - top]; };
  node.tabIndex = 0;
  node.classList.add("handle");
  node.addEventListener("pointerdown", (e) => { if (!e.button) { held = true; node.setPointerCapture(e.pointerId); node.focus(); } });
  node.addEventListener("pointermove", (e) => { if (held) moved(...place(e)); });
  for (const end of ["pointerup", "pointercancel"]) node.addEventListener(end, () => { held = false; });
  node.addEventListener("keydown", (e) => {
    const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[e.key] ?? [];
    if (dx === undefined) return;
    e.preventDefault();
    const by = typeof step === "function" ? step() : step;
    moved(at()[0] + dx * by, at()[1] + dy * by);
  });
}

// Drawings: SVG whose unit is a pixel, so that letters keep their size; drawn anew when the width changes.
export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, typeof value === "number" ? +value.toFixed(2) : value);
  node.append(...children);
  return node;
}

export const path = (points, attributes) => svg("path", { d: points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join(""), fill: "none", ...attributes });

export function sized(drawing, draw) {
  new ResizeObserver(() => draw(drawing.clientWidth, drawing.clientHeight)).observe(drawing);
}

// The frame of a plot: where numbers lie between its edges, and an axis with ticks at some of them.
// `scale` is a function that numbers go through first (Math.log10); edges are in pixels.
export function axis([low, high], [start, end], scale = (v) => v) {
  const [a, b] = [scale(low), scale(high)];
  return Object.assign((v) => start + (scale(v) - a) / (b - a) * (end - start), { from: (at, back = (v) => v) => back(a + (at - start) / (end - start) * (b - a)) });
}

export function ticks(values, x, y, { show = short, vertical = false, grid = 0 } = {}) {
  return svg("g", { class: "ticks" }, ...values.flatMap((v) => {
    const [cx, cy] = vertical ? [x, y(v)] : [x(v), y];
    const text = svg("text", vertical ? { x: cx - 6, y: cy + 4, "text-anchor": "end" } : { x: cx, y: cy + 16, "text-anchor": "middle" });
    text.innerHTML = show(v).replace(/<sup>(.*?)<\/sup>/g, '<tspan dy="-5" font-size="9">$1</tspan>');
    return [...grid ? [svg("line", vertical ? { x1: cx, x2: cx + grid, y1: cy, y2: cy } : { x1: cx, x2: cx, y1: cy, y2: cy - grid })] : [], text];
  }));
}

export function arrow([x1, y1], [x2, y2], attributes) {
  const length = Math.hypot(x2 - x1, y2 - y1), [u, v] = [(x2 - x1) / length, (y2 - y1) / length], head = Math.min(9, length);
  const points = [[x2, y2], [x2 - head * u - .45 * head * v, y2 - head * v + .45 * head * u], [x2 - head * u + .45 * head * v, y2 - head * v - .45 * head * u]];
  return svg("g", attributes, ...length < .5 ? [] : [
    svg("line", { x1, y1, x2: x2 - head * u / 2, y2: y2 - head * v / 2, stroke: "currentColor" }),
    svg("polygon", { points: points.map((p) => p.map((n) => n.toFixed(1)).join()).join(" "), fill: "currentColor" }),
  ]);
}
