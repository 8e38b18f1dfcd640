// A formula by KaTeX: MathML to be read aloud, and HTML to be seen, with as few elements as show the
// same. KaTeX writes an element for each space, strut and row; here they are margins and properties
// of the element beside them, which book.css draws (`--strut`, `--pstrut`).
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const require = createRequire(join(process.cwd(), "package.json")); // what npm installed there
const katex = require("katex");

// μ and β shift, σ and γ scale.
const LETTERS = { μ: "shift", β: "shift", σ: "scale", γ: "scale" };
const KATEX = readFileSync(join(process.cwd(), "node_modules/katex/dist/katex.css"), "utf8");
const STYLED = new Set([...KATEX.match(/(?<=\.)[a-z][\w-]*/g), ...Object.values(LETTERS)]); // others only KaTeX reads
const SIZED = ["katex-sizing", "fontsize-ensurer"]; // an em is another one in there

const has = (node, name) => node.classes?.includes(name);
const none = (named) => !Object.keys(named ?? {}).length;
const isBare = (node) => node.children && node.classes?.length === 0 && none(node.style) && none(node.attributes);

// KaTeX's fragments write what they hold and nothing of their own.
const parts = (children) => children.flatMap((child) => child.children && !child.attributes ? parts(child.children) : [child]);

// How wide an empty element is, or nothing.
function space(node) {
  if (node.children?.length !== 0 || SIZED.some((name) => has(node, name))) return null;
  if (has(node, "nulldelimiter")) return "0.12em"; // of a fraction, which has none
  return has(node, "mspace") && Object.keys(node.style ?? {}).join() === "marginRight" ? node.style.marginRight : null;
}

const takes = (node) => node?.style && !SIZED.some((name) => has(node, name));
const isSign = (node) => takes(node) && (has(node, "mbin") || has(node, "mrel"));

function widen(node, side, by) {
  if (node.italic) [node.style.marginRight, node.italic] = [`${node.italic}em`, 0];
  node.style[side] = `${+(parseFloat(node.style[side] ?? "0") + parseFloat(by)).toFixed(4)}em`;
}

// Spaces become the margin of the sign after them, or else of what stands before them.
function spaced(children) {
  const kept = [];
  let spaces = [];
  for (const node of [...children, null]) {
    if (node && space(node)) {
      spaces.push(node);
      continue;
    }
    const last = kept.at(-1), place = isSign(node) || !takes(last) ? node : last;
    if (takes(place)) for (const one of spaces) widen(place, place === last ? "marginRight" : "marginLeft", space(one));
    else kept.push(...spaces);
    spaces = [];
    if (node) kept.push(node);
  }
  return kept;
}

// The first child of a base, or of each line of a list, only gives it its height.
function strutted(node) {
  if (has(node, "katex-base")) {
    const { height, verticalAlign = "0" } = node.children.shift().style;
    Object.assign(node.style, { "--strut": height, "--depth": verticalAlign });
  }
  if (has(node, "vlist") && node.children.length) {
    node.style["--pstrut"] = node.children[0].children[0].style.height;
    for (const line of node.children) line.children = line.children.slice(1);
  }
}

// A list of lines that reaches below the base line has a second row for that: a margin does the same.
function listed(node) {
  const [row, below] = node.children;
  if (below) node.style.marginBottom = below.children[0].style.height;
  node.classes = node.classes.filter((name) => name !== "vlist-t2");
  node.children = [row.children[0]];
}

function slim(node, parent) {
  if (has(node, "vlist-t")) listed(node);
  if (node.children && node.classes) {
    strutted(node);
    node.children = spaced(parts(node.children)).map((child) => slim(child, node));
    if (!has(node, "vlist")) node.children = node.children.flatMap((child) => isBare(child) && !has(parent, "vlist") ? child.children : [child]);
  }
  node.classes = node.classes?.filter((name) => STYLED.has(name));
  const only = node.children?.length === 1 && node.classes && none(node.style) && node.children[0];
  if (only && (has(node, "msupsub") || (only.text && only.style && has(node, "katex-sizing")))) {
    only.classes.push(...node.classes); // two of which one is enough
    return only;
  }
  if (node.style?.height?.startsWith("-")) delete node.style.height; // which no browser heeds
  return node;
}

// The letter of a node whose form has no meaning of its own (a bold one, one in an index).
function letter({ type, text, classes, attributes, children }) {
  if (type === "mi") return none(attributes) ? children[0].text : "";
  return classes?.join(" ").trim() === "mord mathnormal" ? text : "";
}

function colour(node, plain) {
  const kind = LETTERS[letter(node)];
  if (kind && !plain.includes(letter(node))) node.classes.push(kind);
  node.children?.forEach((child) => colour(child, plain));
}

const SCRIPTS = /^m(sub|sup|subsup|under|over|underover)$/;

// MathML without what it does not know, or does not need: rows of one, rows and styles in a cell.
function mend(node) {
  if (node.attributes?.columnspacing === "") delete node.attributes.columnspacing;
  if (SCRIPTS.test(node.type)) node.children = node.children.map((child) => child.type ? child : child.children[0]); // “max” and an unseen sign
  const vain = (child) => ["mrow", "mstyle"].includes(child.type) && (node.type === "mtd" || child.children.length === 1);
  while (node.children?.some(vain)) node.children = node.children.flatMap((child) => vain(child) ? child.children : [child]);
  node.children?.forEach(mend);
}

const BLANK = /<mtext>(?:\s|&nbsp;|&#x[\da-f]+;)*<\/mtext>|<mspace[^>]*>(?:<\/mspace>)?/g;
const COMMA = '</mn><mo separator="true">,</mo><mn>'; // of a French decimal, 0{,}5

// MathML without its source, which nobody sees.
function spoken(wrapper, tex) {
  const [math] = wrapper.children, [whole] = math.children[0].children;
  math.children = whole.type === "mrow" ? whole.children : [whole];
  mend(math);
  math.attributes = { ...math.attributes, class: wrapper.classes.join(" ") }; // which is one element less
  delete math.attributes.xmlns; // HTML knows it
  const markup = math.toMarkup().replaceAll(' class ="', ' class="').replace(BLANK, "");
  return tex.includes("{,}") ? markup.replaceAll(COMMA, ",") : markup;
}

// The HTML; in a line of text, without the frames of parts that are not there.
function seen(html, inline) {
  const [base, ...others] = slim(html).children;
  const shown = inline && !others.length ? base : html;
  shown.attributes["aria-hidden"] = "true";
  const [sign, ...more] = shown.children;
  if (shown === base && sign.text && !more.length) {
    if (sign.italic) widen(sign, "marginRight", 0);
    Object.assign(shown, { classes: sign.classes, style: sign.style, children: [Object.assign(sign, { classes: [], style: {} })] });
  }
  return shown.toMarkup();
}

/** A simple formula whose MathML gives way to its signs: axe, and names of buttons, know no MathML. */
export function spelled(html) {
  const signs = (math) => math.replaceAll("<mn>2</mn></msup>", "²").replace(/<[^>]*>/g, "");
  return html.replace(/<math.*<\/math>/s, (math) => `<span class="katex-mathml">${signs(math)}</span>`);
}

const NUMBER = /^-?\d+(?:(?:\.|\{,\})\d+)?$/;

export const isNumber = (tex) => NUMBER.test(tex);

export function render(tex, displayMode, plain) {
  if (/\\begin\{(align|gather|equation|alignat)\}/.test(tex)) {
    throw new Error("would be numbered twice: write \\begin{aligned} inside $$ instead");
  }
  if (!displayMode && isNumber(tex)) return tex.replace("-", "−").replace("{,}", ",");
  const tree = katex.__renderToDomTree(tex, { displayMode, strict: "error", trust: false });
  const [mathml, html] = (displayMode ? tree.children[0] : tree).children;
  colour(tree, plain);
  const inside = spoken(mathml, tex) + seen(html, !displayMode);
  return displayMode ? `<span class="katex-display"><span class="katex">${inside}</span></span>` : inside;
}
