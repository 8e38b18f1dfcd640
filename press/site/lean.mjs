// Takes from a page what neither its look nor its scripts need, and what is no valid HTML: most of
// it is written once for each word by Sphinx and its extensions.

// What the style sheet shows of code: bold words, muted words (book.css), and what is named below.
const KINDS = { k: "k kn kc kd nf nc ow", c: "c c1 cm s s1 s2 sd sa sb si se" };
const KIND = new Map(Object.entries(KINDS).flatMap(([kind, names]) => names.split(" ").map((name) => [name, kind])));
const PRE = /(<div class="highlight"><pre>)(?:<span><\/span>)?(.*?)(?=<\/pre>)/gs;
const TOKEN = /<span class="(\w{1,2})">([^<]*)<\/span>/g;

function code(text) {
  const plain = text.replace(TOKEN, (_, name, word) => KIND.has(name) ? `<span class="${KIND.get(name)}">${word}</span>` : word);
  return plain.replace(/<\/span><span class="c">(?<=<span class="c">[^<]*<\/span><span class="c">)/g, "");
}

// A short word of code in a sentence must not break; most have no place where a line may.
const BREAKS = /[^\w.,:;=*<>&#"'()[\]^~@]|[)\].,:;][([]/;
const WORD = /<span class="pre">([^<]*)<\/span>/g;
const words = (html) => html.replace(WORD, (whole, word) => word.length < 20 && BREAKS.test(word) ? whole : word);

const REWRITES = [
  [PRE, (_, head, text) => head + code(text)],
  [/<code class="docutils literal notranslate">(.*?)<\/code>/gs, (_, inside) => `<code>${words(inside)}</code>`],
  [/<span class="(?:std std-\w+|doc)">([^<]*|<code>[^<]*<\/code>)<\/span>/g, "$1"], // around what a link says
  [/(<t[dh]\b[^>]*>)<p>((?:(?!<\/?p\b).)*)<\/p>\s*(?=<\/t[dh]>)/gs, "$1$2"],
  [/<span class="sd-summary-state-marker.*?<\/svg><\/span>/gs, ""], // book.css draws another
  [/(<summary[^>]*>\s*)((?:<p class="(?:collapsed|expanded) admonition-title">[^<]*<\/p>\s*)+)/g,
    (_, head, titles) => head + titles.replaceAll("<p", "<span").replaceAll("</p>", "</span>")],
  // a click on a summary unfolds: the link in it stands first in what unfolds
  [/(<summary class="sd[^>]*>\s*<span class="sd-summary-text">)(<a [^>]*>)(.*?)<\/a>(.*?<\/summary>\s*<div[^>]*>)/gs, "$1$3$4<p>$2$3</a></p>"],
  [/(<a) class="reference internal" (href="mistakes_\w+\.html#[^"]*"><code>)/g, "$1 $2"], // a thousand on a page
  [/(<label) aria-controls="[^"]*"/g, "$1"],
];
// mistakes.css shows the names in the index as code; an entry that is a link alone is one element
const NAMES = [/(?:<span class="entry"( id="[^"]*")>)?<a (href="mistakes_\w+\.html#[^"]*">)<code>([^<]*)<\/code><\/a>(<\/span>)?/g,
  (_, entry = "", link, name, end = "") => `<a${entry} ${link}${name}</a>${entry ? "" : end}`];

// the filter of the index stands where it is used before anything is drawn, so that nothing shifts
const FILTER = /<template id="mistake-filter">\s*(.*?)\s*<\/template>/s;

// a figure whose place a picture will take leaves it before anything is drawn (book.css)
const TAKEN = /data-figure="([^"]+)"/g;
const coming = (html) => [...html.matchAll(TAKEN)].reduce((page, [, id]) =>
  page.replace(new RegExp(`(<figure class="[^"]*)(" id="${id}")`), "$1 coming$2"), html);

export function lean(html) {
  const form = FILTER.exec(html)?.[1];
  if (form) html = html.replace(FILTER, "").replace(/(<article.*?)(<details)/s, (_, before, first) => before + form + first);
  const rewrites = html.includes('class="mistake-filter"') ? [...REWRITES, NAMES] : REWRITES;
  return rewrites.reduce((page, [pattern, better]) => page.replace(pattern, better), coming(html));
}
