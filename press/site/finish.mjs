// Finishes the built pages in one pass: formulas by KaTeX, one purged style sheet, one small icon font.
// Reads a job from stdin: {pages: [[from, to, name]], styles: [file], scripts: [file], icons: file,
// own: [[style sheet, name]], missing: name of a file that is not there, out: folder}
import { createRequire } from "node:module";
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

const require = createRequire(join(process.cwd(), "package.json")); // what npm installed there
const katex = require("katex");
const { PurgeCSS } = require("purgecss");
const subsetFont = require("subset-font");
const { transform } = require("lightningcss");

const job = JSON.parse(readFileSync(0, "utf8"));
const errors = [];

function minified(css, filename) {
  return transform({ filename, code: Buffer.from(css), minify: true, errorRecovery: true }).code;
}

function write(file, content) {
  const data = Buffer.from(content);
  if (existsSync(file) && data.equals(readFileSync(file))) return;
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, data);
}

const ENTITIES = { "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'", "&amp;": "&" };
const unescape = (html) => html.replace(/&(lt|gt|quot|#39|amp);/g, (entity) => ENTITIES[entity]);

// μ and β shift, σ and γ scale: letters in formulas, names in code.
const LETTERS = { μ: "shift", β: "shift", σ: "scale", γ: "scale" };
const LETTER = /<(span class="mord mathnormal"( style="[^"]*")?|mi)>([μβσγ])(?=<\/)/g;
const NAMES = {
  shift: "mean mu running_mean beta bias",
  scale: "var variance std sigma rms rstd running_var gamma weight",
};
const NAME = new RegExp(`(<span class="o">\\.</span>)?<span class="n">(${Object.values(NAMES).join(" ").replaceAll(" ", "|")})</span>`, "g");

function colour(html, plain) {
  return html.replace(LETTER, (whole, tag, style = "", letter) => {
    if (plain.includes(letter)) return whole;
    return tag === "mi" ? `<mi class="${LETTERS[letter]}">${letter}`
      : `<span class="mord mathnormal ${LETTERS[letter]}"${style}>${letter}`;
  });
}

function colourNames(html) {
  return html.replace(NAME, (whole, dot, name) => {
    const kind = NAMES.shift.split(" ").includes(name) ? "shift" : "scale";
    return dot ? whole : `<span class="n ${kind}">${name}</span>`;
  });
}

const rendered = new Map(); // the same formulas come back in every language
function render(tex, displayMode, plain) {
  const key = displayMode + plain + tex;
  if (!rendered.has(key)) {
    if (/\\begin\{(align|gather|equation|alignat)\}/.test(tex)) {
      throw new Error("would be numbered twice: write \\begin{aligned} inside $$ instead");
    }
    const html = katex.renderToString(tex, { displayMode, strict: "error", trust: false });
    rendered.set(key, colour(html, plain));
  }
  return rendered.get(key);
}

// Sphinx writes <span class="math …">\(…\)</span> and <div … class="math …">number \[…\]</div>.
const MATH = /([(（«]\u202f?)?(<(span|div)[^>]* class="math [^>]*>(?:\s*<span class="eqno">.*?<\/span>)?)\s*(?:\\([([]))?(.*?)(?:\\[)\]])?\s*<\/\3>(\u202f?[.,;:!?)»，。、；：！？）]+)?/gs;

// Authors as each language joins them.
const AUTHORS = { en: [" and ", " et al."], fr: [" et ", " et coll."], zh: [" 和 ", " 等人"] };
const OTHERS = / (<em>)?et al\.(<\/em>)?/g;

function nameAuthors(html, name) {
  const [and, others] = AUTHORS[name.split("/")[0]] ?? AUTHORS.en;
  return html.replace(/(class="bibtex-citation"[^>]*>)((?:[^<]|<\/?em>)+)/g, (_, head, names) =>
    head + names.replaceAll(" &amp; ", and).replace(OTHERS, others));
}

// A Chinese character takes two columns in a table that a program prints, whatever the font.
const PRINTED = /(<div class="output [^>]*>\s*<div class="highlight"><pre>)(.*?)(?=<\/pre>)/gs;
const WIDE = /[\u2e80-\u9fff\uff00-\uffef]+/g;

function alignColumns(html) {
  return html.replace(PRINTED, (_, head, text) => head + text.replace(WIDE, (run) =>
    `<span class="wide" style="--wide:${run.length}">${run}</span>`));
}

function renderPage(page, name) {
  const html = colourNames(alignColumns(nameAuthors(page, name)));
  const plain = /<body[^>]* data-plain="([^"]*)"/.exec(html)?.[1] ?? ""; // letters that stay black
  return html.replace(MATH, (_, open = "", head, tag, delimiter, tex, mark = "") => {
    try {
      const math = `${head}${render(unescape(tex), tag === "div", plain)}</${tag}>`;
      const whole = `${open}${math}${mark}`;
      // or a mark could stand alone on a line; a long formula may break, and so its marks too
      return (open || mark) && tex.length < 40 ? `<span class="together">${whole}</span>` : whole;
    } catch (error) {
      errors.push(`${name}: ${error.message}\n    ${unescape(tex).trim()}`);
      return "";
    }
  });
}

// A sentence that links to a file that is not there has nothing to say.
const INSIDE = "(?:(?!</p>).)*";
const VAIN = new RegExp(`<p>${INSIDE}href="${job.missing}"${INSIDE}</p>`, "gs");

const LOUD = /([{;\s](?:box-shadow|border[\w-]*|background[\w-]*|color|margin[\w-]*|padding[\w-]*)\s*:[^;}]*?)\s*!important/g;

async function style(pages) {
  const words = new Set([...pages, ...scripts].flatMap((text) => text.match(/[\w-]+/g)));
  const files = job.styles.map((file) => readFileSync(file, "utf8"));
  // ours wins over the theme's, however specific or important that is
  const theme = files.slice(0, -1).join("\n").replace(LOUD, "$1");
  const css = [`@layer theme{${theme}}`, files.at(-1)].join("\n")
    .replace(/@font-face\{[^}]*Font Awesome[^}]*\}/g, "") // replaced by ours, below
    .replace(/@import [^;]*;/g, "")
    .replace(/url\((?!["']?data:)[^)]*\)/g, "none") // Sphinx's bullets, which are not copied
    .replace(/\/\*.*?\*\//gs, "");
  const [purged] = await new PurgeCSS().purge({
    content: [{ raw: [...words].join(" "), extension: "html" }],
    css: [{ raw: css }],
    keyframes: true,
    safelist: { greedy: [/data-theme/] },
  });
  return purged.css;
}

async function assets(css) {
  const icons = [...css.matchAll(/[\ue000-\uf8ff]|\\(f[0-9a-f]{3})/g)]
    .map(([char, code]) => code ? String.fromCodePoint(parseInt(code, 16)) : char).join("");
  const font = await subsetFont(readFileSync(job.icons), icons, { targetFormat: "woff2" });
  write(join(job.out, "icons.woff2"), font);
  const dist = join(process.cwd(), "node_modules/katex/dist");
  for (const file of readdirSync(join(dist, "fonts")).filter((file) => file.endsWith(".woff2"))) {
    write(join(job.out, "fonts", file), readFileSync(join(dist, "fonts", file)));
  }
  const math = readFileSync(join(dist, "katex.min.css"), "utf8")
    .replace(/,url\([^)]*\.(woff|ttf)\) format\("[^"]*"\)/g, "");
  const iconFace = '@font-face{font-family:"Font Awesome 6 Free";font-weight:900;font-display:block;src:url(icons.woff2)}';
  write(join(job.out, "book.css"), minified([iconFace, math, css].join("\n"), "book.css"));
  for (const [from, name] of job.own) write(join(job.out, name), minified(readFileSync(from, "utf8"), name));
}

const pages = job.pages.map(([from, , name]) => renderPage(readFileSync(from, "utf8").replace(VAIN, ""), name));
if (errors.length) {
  console.error(errors.join("\n"));
  process.exit(1);
}
job.pages.forEach(([, to], i) => write(to, pages[i]));
const scripts = job.scripts.map((file) => readFileSync(file, "utf8").replace(/^\/\/# source.*$/m, ""));
write(join(job.out, "theme.js"), scripts.join("\n"));
await assets(await style(pages));
