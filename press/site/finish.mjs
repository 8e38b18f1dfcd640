// Finishes the built pages in one pass: formulas by KaTeX, one purged style sheet, small fonts.
// Reads a job from stdin: {pages: [[from, to, name]], styles: [file], scripts: [file], icons: file,
// own: [[style sheet, name]], synonyms: [[name]], terms: by language, what terms.mjs marks,
// missing: name of a file that is not there, out: folder, languages: [[language, its folder]],
// notebooks: [{page, name, source, to, base, how}], cards: whether each page has a picture, editor:
// file, python: the folder of Python's files, or null}
import { createRequire } from "node:module";
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { signs } from "./fonts.mjs";
import { isNumber, render, spelled } from "./formula.mjs";
import { lean } from "./lean.mjs";
import { mistakesOf } from "./mistakes.mjs";
import { notebook } from "./notebook.mjs";
import { indexes, script } from "./search/build.mjs";
import { markTerms } from "./terms.mjs";

const require = createRequire(join(process.cwd(), "package.json")); // what npm installed there
const { PurgeCSS } = require("purgecss");
const subsetFont = require("subset-font");
const { transform } = require("lightningcss");
const { Parser } = require("htmlparser2");

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

// Whether a file is older than what it is made of; notebooks take half of all time.
function stale(file, ...from) {
  const made = existsSync(file) ? statSync(file).mtimeMs : 0;
  return from.some((source) => statSync(source).mtimeMs >= made);
}

const ENTITIES = { "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'", "&amp;": "&" };
const unescape = (html) => html.replace(/&(lt|gt|quot|#39|amp);/g, (entity) => ENTITIES[entity]);

// A name that shifts or scales, as the letters do in formulas.
const NAMES = {
  shift: "mean mu running_mean beta bias",
  scale: "var variance std sigma rms rstd running_var gamma weight",
};
const NAME = new RegExp(`(<span class="o">\\.</span>)?<span class="n">(${Object.values(NAMES).join(" ").replaceAll(" ", "|")})</span>`, "g");

function colourNames(html) {
  return html.replace(NAME, (whole, dot, name) => {
    const kind = NAMES.shift.split(" ").includes(name) ? "shift" : "scale";
    return dot ? whole : `<span class="${kind}">${name}</span>`;
  });
}

const rendered = new Map(); // the same formulas come back in every language
function formula(tex, displayMode, plain) {
  const key = displayMode + plain + tex;
  if (!rendered.has(key)) rendered.set(key, render(tex, displayMode, plain));
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

// A formula that is alone in the head of a table, or in what unfolds on a click.
const ALONE = /<(?:th|summary)\b[^>]*>\s*(?:<span class="sd-summary-text">\s*)?<span class="math (?=[^>]*>\\\((?:(?!\\\)).)*\\\)<\/span>\s*(?:<\/span>\s*)?<\/(?:th|summary)>)/gs;

function renderPage(page, name) {
  const html = lean(colourNames(alignColumns(nameAuthors(page, name)))).replace(ALONE, "$&alone ");
  const plain = /<body[^>]* data-plain="([^"]*)"/.exec(html)?.[1] ?? ""; // letters that stay black
  return html.replace(MATH, (_, open = "", head, tag, delimiter, tex, mark = "") => {
    try {
      const inline = tag === "span";
      const start = inline ? '<span class="math notranslate katex">' : head;
      const content = formula(unescape(tex), !inline, plain);
      const math = `${start}${head.includes('"math alone ') ? spelled(content) : content}</${tag}>`;
      const whole = `${open}${math}${mark}`;
      // or a mark could stand alone on a line; a long formula may break, and so its marks too
      return (open || mark) && tex.length < 40 && !isNumber(tex) ? `<span class="together">${whole}</span>` : whole;
    } catch (error) {
      errors.push(`${name}: ${error.message}\n    ${unescape(tex).trim()}`);
      return "";
    }
  });
}

// A sentence that links to a file that is not there has nothing to say, nor has its item of a list.
const INSIDE = "(?:(?!</p>).)*";
const SENTENCE = `<p>${INSIDE}href="${job.missing}"${INSIDE}</p>`;
const VAIN = new RegExp(`<li>${SENTENCE}</li>\\n?|${SENTENCE}`, "gs");

const LOUD = /([{;\s](?:box-shadow|border[\w-]*|background[\w-]*|color|margin[\w-]*|padding[\w-]*)\s*:[^;}]*?)\s*!important/g;

const KATEX = join(process.cwd(), "node_modules/katex/dist");

// KaTeX's style, with the one format of its fonts that is copied.
function mathematics() {
  return readFileSync(join(KATEX, "katex.min.css"), "utf8").replace(/,url\([^)]*\.(woff|ttf)\) format\("[^"]*"\)/g, "");
}

async function style(pages) {
  const words = new Set([...pages, ...scripts].flatMap((text) => text.match(/[\w-]+/g)));
  const files = job.styles.map((file) => readFileSync(file, "utf8"));
  // ours wins over the theme's, however specific or important that is
  const theme = files.slice(0, -1).join("\n").replace(LOUD, "$1");
  const css = [mathematics(), `@layer theme{${theme}}`, files.at(-1)].join("\n")
    .replace(/@font-face\{[^}]*Font Awesome[^}]*\}/g, "") // replaced by ours, below
    .replace(/@import [^;]*;/g, "")
    .replace(/url\((?!["']?data:|fonts\/)[^)]*\)/g, "none") // Sphinx's bullets, which are not copied
    .replace(/\/\*.*?\*\//gs, "");
  const [purged] = await new PurgeCSS().purge({
    content: [{ raw: [...words].join(" "), extension: "html" }],
    css: [{ raw: css }],
    keyframes: true,
    fontFace: true,
    safelist: { greedy: [/data-(theme|live)/] },
  });
  return purged.css;
}

const PRELOADED = ["KaTeX_Main-Regular", "KaTeX_Math-Italic"]; // layout.html
const LIVE = "0123456789.,−√"; // what pictures write
const FACE = /@font-face\s*\{[^}]*fonts\/(KaTeX_[\w-]+)\.woff2[^}]*\}/g;

// Each font with the signs that pages show; again only where those changed.
async function subset(fonts) {
  const known = "fonts.json"; // beside what npm installed
  const before = existsSync(known) ? JSON.parse(readFileSync(known, "utf8")) : {};
  const now = {};
  for (const [name, from, of] of fonts) {
    const to = join(job.out, name);
    now[to] = `${statSync(from).size} ${of}`;
    if (before[to] !== now[to] || !existsSync(to)) write(to, await subsetFont(readFileSync(from), of, { targetFormat: "woff2" }));
  }
  writeFileSync(known, JSON.stringify({ ...before, ...now }));
}

async function assets(css, pages) {
  const icons = [...css.matchAll(/[\ue000-\uf8ff]|\\(f[0-9a-f]{3})/g)]
    .map(([char, code]) => code ? String.fromCodePoint(parseInt(code, 16)) : char).join("");
  const held = signs(pages, readFileSync(join(KATEX, "katex.css"), "utf8"), Parser);
  for (const name of PRELOADED) held.set(name, new Set([...held.get(name) ?? [], ...LIVE]));
  const fonts = [["icons.woff2", job.icons, icons]];
  for (const [name, of] of held) {
    const file = `fonts/${name}.woff2`; // or else a browser slants or thickens the regular one
    if (existsSync(join(KATEX, file))) fonts.push([file, join(KATEX, file), [...of].sort().join("")]);
  }
  await subset(fonts);
  css = css.replace(FACE, (face, name) => held.has(name) ? face : "");
  const iconFace = '@font-face{font-family:"Font Awesome 6 Free";font-weight:900;font-display:block;src:url(icons.woff2)}';
  write(join(job.out, "book.css"), minified([iconFace, css].join("\n"), "book.css"));
  for (const [from, name] of job.own) write(join(job.out, name), minified(readFileSync(from, "utf8"), name));
}

// The theme measures each block of code, in folds too, which lays the page out again and again:
// book.js measures what has been laid out.
const ONE_BY_ONE = /document\.querySelectorAll\([^;{}]*?\)\.forEach\((\w)=>\{\1\.tabIndex=[^{}]*?\}\)/;

function unmeasured(script) {
  if (!ONE_BY_ONE.test(script)) throw new Error("the theme no longer marks what scrolls as it did: see ONE_BY_ONE in finish.mjs");
  return script.replace(ONE_BY_ONE, "");
}

// The editor in one file; Python's folder in the pages that have a workbench, or that there is none.
if (job.python) {
  const { buildSync } = require("esbuild");
  buildSync({ entryPoints: [job.editor], outfile: join(job.out, "workbench/editor.js"), bundle: true, minify: true, format: "esm", legalComments: "eof", nodePaths: [join(process.cwd(), "node_modules")] });
}
const PYTHON = /"((?:\.\.\/)+static\/python\/)FOLDER\/"/g;
const RUN = /<button [^>]*class="run-page.*?<\/script>/s;
const python = (html) => job.python ? html.replace(PYTHON, `"$1${job.python}/"`) : html.replace(RUN, "").replace(PYTHON, "null");

const written = Object.fromEntries(job.pages.map(([from, , name]) => [name, python(readFileSync(from, "utf8").replace(VAIN, ""))]));
const marked = markTerms(written, job.terms);
const pages = job.pages.map(([, , name]) => renderPage(marked[name], name));
if (errors.length) {
  console.error(errors.join("\n"));
  process.exit(1);
}
job.pages.forEach(([, to], i) => write(to, pages[i]));
for (const [language, folder] of job.languages) {
  const own = Object.keys(written).filter((name) => name.startsWith(`${language}/mistakes_`));
  const found = own.flatMap((name) => mistakesOf(/(\w+)\.html$/.exec(name)[1], written[name]));
  if (found.length) write(join(folder, "mistakes-data.js"), `window.MISTAKES=${JSON.stringify(found)}`);
}
const maker = join(import.meta.dirname, "notebook.mjs");
for (const { name, to, page, source, ...told } of job.notebooks) {
  if (!written[name].includes("cell_input")) rmSync(to, { force: true });
  else if (stale(to, page, source, maker)) {
    write(to, notebook({ html: written[name], page, source, ...told }));
    utimesSync(to, new Date(), new Date());
  }
}
if (job.cards) {
  const { cards } = await import("./cards.mjs");
  for (const [name, picture] of cards(pages[0])) write(join(job.out, "cards", `${name}.png`), picture);
}
write(join(job.out, "search.js"), script(job.synonyms));
for (const [language, index] of indexes(pages.map((html, i) => [html, job.pages[i][2]]), Parser)) {
  write(join(job.out, `search/${language}.js`), index);
}
const scripts = job.scripts.map((file) => readFileSync(file, "utf8").replace(/^\/\/# source.*$/m, ""));
write(join(job.out, "theme.js"), unmeasured(scripts.join("\n")));
await assets(await style(pages), pages);
