// Pictures of the pages for messengers and search engines: the glyph of each, large, on paper.
import { createRequire } from "node:module";
import { join } from "node:path";

const { Resvg } = createRequire(join(process.cwd(), "package.json"))("@resvg/resvg-js");
const PAPER = "#fdfcf9", INK = "#1b1e25";

// The glyphs that a page carries, by name: [[name, PNG]].
export function cards(html) {
  const sheet = /<svg [^>]*aria-hidden="true" fill="currentColor">\s*(<g id="glyph-table".*?)<\/svg>/s.exec(html)[1].replaceAll("var(--paper)", PAPER);
  const names = [...sheet.matchAll(/<symbol id="glyph-(\w+)"/g)].map(([, name]) => name);
  return names.map((name) => [name, draw(`${sheet}<use href="#glyph-${name}" x="253" y="58" width="694" height="513"/>`)]);
}

function draw(content) {
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1200 630" width="1200" height="630" color="${INK}" fill="${INK}"><rect width="1200" height="630" fill="${PAPER}"/>${content}</svg>`;
  return new Resvg(svg, { font: { loadSystemFonts: false } }).render().asPng();
}
