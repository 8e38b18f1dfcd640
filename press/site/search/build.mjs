// Writes the search of a site: one script for all languages, and the sections of each.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gather } from "./sections.mjs";

/** A module as a part of one classic script, which also runs where modules may not be loaded (file://). */
function part(file) {
  return readFileSync(join(import.meta.dirname, file), "utf8").replace(/^import .*$|^export /gm, "");
}

/** The script: the library, without its comments, then what the index and the query share. */
export function script(synonyms) {
  const library = readFileSync(join(process.cwd(), "node_modules/minisearch/dist/umd/index.js"), "utf8")
    .replace(/\/\*\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, "").replace(/^\s+/gm, "");
  const own = ["words.mjs", "ranking.mjs", "finder.mjs"].map(part).join("");
  return `${library}\n(() => {\nconst SYNONYMS = ${JSON.stringify(synonyms)};\n${own}})();\n`;
}

/** The sections of each language, [language, script]; of the pages [html, en/page.html]. */
export function indexes(pages, Parser) {
  const languages = {};
  for (const [html, name] of pages) {
    if (name.includes("/exercises/")) continue; // what is asked is no answer
    const [, language, page] = /^(\w+)\/(.*)\.html$/.exec(name);
    if (page !== "search") (languages[language] ??= {})[page] = html;
  }
  return Object.entries(languages).map(([language, of]) =>
    [language, `window.searchIndex = ${JSON.stringify(gather(language, of, Parser))};\n`]);
}
