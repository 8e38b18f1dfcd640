// A page as a notebook to download: its visible cells with their outputs, and between them the page
// itself as plain Markdown, which every program that opens notebooks can show.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";

const require = createRequire(join(process.cwd(), "package.json"));
const Turndown = require("turndown");
const { gfm } = require("@joplin/turndown-plugin-gfm");

const HIDDEN = ["remove-cell", "remove-input"];
const BREAK = "\u0001"; // where a cell of code stands
const SCREEN = ".headerlink, .glyph, .picture, .toctree-wrapper, script, style, template, input, nav, button";
const block = (text) => `\n\n${text}\n\n`;
const fenced = (text, language = "") => block(`\`\`\`${language}\n${text.trimEnd()}\n\`\`\``);
const has = (node, name) => node.nodeType === 1 && ` ${node.getAttribute("class") ?? ""} `.includes(` ${name} `);

// The bars of a mistake, in the words that stand before them.
function bars(pre) {
  const spans = [...pre.querySelectorAll("[data-side]")];
  return spans.map((span) => `# ${span.getAttribute("data-side")}\n${span.textContent.trimEnd()}`).join("\n\n") || pre.textContent;
}

function converter(page, base) {
  const turn = new Turndown({ headingStyle: "atx", codeBlockStyle: "fenced", emDelimiter: "*", bulletListMarker: "-" });
  turn.use(gfm);
  turn.keep([]);
  const rule = (name, filter, replacement) => turn.addRule(name, { filter, replacement });
  rule("cell", (node) => has(node, "cell") && node.querySelector(".cell_input"), () => block(BREAK));
  rule("formula", (node) => has(node, "math"), (_, node) => {
    const tex = node.textContent.replace(/^.*?\\[([]|\\[)\]]\s*$|\\(begin|end)\{split\}/gs, "").trim();
    if (node.nodeName === "DIV") return block(`$$\n${tex}\n$$`);
    return `$${inside(node, "TABLE") ? tex.replaceAll("|", "\\vert ") : tex}$`;
  });
  rule("code", (node) => node.nodeName === "DIV" && has(node, "highlight"), (_, node) => {
    const language = /highlight-(\w+)/.exec(node.parentNode.getAttribute("class"))?.[1] ?? "";
    const known = { ipython3: "python", python: "python", diff: "python", bash: "bash" }[language] ?? "";
    return fenced(language === "diff" ? bars(node) : node.textContent, known);
  });
  rule("summary", (node) => node.nodeName === "SUMMARY", () => "");
  rule("fold", (node) => node.nodeName === "DETAILS", (content, node) =>
    block(`<details>\n<summary>${node.querySelector("summary").textContent.trim()}</summary>\n\n${content.trim()}\n\n</details>`));
  rule("meta", (node) => has(node, "meta"), (content, node) => block(`*${(node.querySelector("em") ?? node).textContent.trim()}*`));
  rule("title", (node) => has(node, "admonition-title") || has(node, "sd-tab-label") || has(node, "sd-card-title"), (content) => block(`**${content.trim()}**`));
  rule("note", (node) => has(node, "admonition"), (content) => block(content.trim().replace(/^/gm, "> ")));
  rule("figure", (node) => node.nodeName === "IMG" && /\.svg$/.test(node.getAttribute("src")), (_, node) => {
    const data = readFileSync(join(dirname(page), node.getAttribute("src"))).toString("base64");
    return `<img alt="${node.getAttribute("alt").replaceAll('"', "&quot;")}" src="data:image/svg+xml;base64,${data}">`;
  });
  rule("link", (node) => node.nodeName === "A", (content, node) => {
    const target = node.getAttribute("href") ?? "";
    const whole = /^\w+:/.test(target) ? target : base && new URL(target, base).href;
    return whole && content.trim() && !node.querySelector("img") ? `[${content}](${whole})` : content;
  });
  rule("screen", (node) => node.matches?.(SCREEN), () => ""); // the last rule comes first
  return turn;
}

function inside(node, name) {
  while ((node = node.parentNode)) if (node.nodeName === name) return true;
  return false;
}

function codeCell({ source, outputs }) {
  return { cell_type: "code", execution_count: null, metadata: {}, source, outputs };
}

const markdownCell = (source) => ({ cell_type: "markdown", metadata: {}, source });

// page: the file of the page as Sphinx wrote it; source: the notebook it was made of; base: its
// address, where the site has one; how: the sentence that tells what to install.
export function notebook({ page, html, source, base, how }) {
  const { cells, metadata } = JSON.parse(readFileSync(source, "utf8"));
  const visible = cells.filter((cell) => cell.cell_type === "code" && !HIDDEN.some((tag) => cell.metadata.tags?.includes(tag)));
  const article = /<article[^>]*>(.*)<\/article>/s.exec(html)[1];
  const texts = converter(page, base).turndown(article).split(BREAK).map((text) => text.trim());
  if (texts.length !== visible.length + 1) throw new Error(`${page}: ${visible.length} cells, ${texts.length - 1} places`);
  const [title, ...rest] = texts[0].split("\n");
  texts[0] = [title, how, ...rest].join("\n\n").replace(/\n{3,}/g, "\n\n");
  const made = texts.flatMap((text, i) => [...text ? [markdownCell(text)] : [], ...i < visible.length ? [codeCell(visible[i])] : []]);
  const numbered = made.map((cell, i) => ({ id: `cell-${i}`, ...cell }));
  return JSON.stringify({ cells: numbered, metadata: { kernelspec: metadata.kernelspec, language_info: { name: "python" } }, nbformat: 4, nbformat_minor: 5 }, null, 1);
}
