// How text becomes the terms that are compared: the same for the pages, for the query and for the
// words that a result marks.

// Words that only join, or only ask.
const STOP = {
  en: `a about an and any are as at be been but by can could did do does doing for from had has have how i
    if in instead into is issue it its just like look looks may me more motivation my no not of on one only
    or our out own point purpose question really reason same shall should so some such than that the their
    them then there these they this think those to too up us use used using very was we were what when
    where which while who why will with without would you your`,
  fr: `a ai au aux avec avoir beaucoup but c ca car ce ceci cela ces cet cette chaque comme comment d dans
    de des devez devoir devrions du elle elles en est et etre eu fait faut il ils interet j je l la laquelle
    le lequel les leur leurs lui m ma mais me meme mes mon n ne nos notre nous on ont ou par pas peut plus
    pour pourquoi pouvez pouvons qu quand que quel quelle quelles quels qui quoi role s sa sans se sert
    servir ses si simplement son sont sur t te tres tu un une utilite vers votre vous y`,
};
STOP.zh = STOP.en;
const JOINING = /为什么|为何|什么|怎么样?|如何|哪[些个里种]|多少|是否|可以|能否|会不会|没有|不会|如果|请问?|一下|以及|或者|但是|因为|所以|进行|作用|意义|原因|目的|思路|[的了吗呢吧么嘛啊着是和与或在也就都而及其之把被会要有对时]/g;

const GREEK = new Map(`α alpha β beta γ gamma δ delta ε epsilon ϵ epsilon η eta θ theta λ lambda μ mu
  π pi ρ rho σ sigma τ tau φ phi ω omega`.match(/\S+ \S+/g).map((pair) => pair.split(" ")));

// One Han character, one Greek letter, or a word of Latin letters (ranges: properties are slow).
const WORD = /[\u3400-\u9fff]|[\u0370-\u03ff]|[0-9A-Za-z_\u00b2\u00b3\u00c0-\u036f]+/g;
const HAN = /[\u3400-\u9fff]/;
// The parts of running_mean, BatchNorm2d, RMSNorm; “GPUs” has one.
const PART = /[A-Z]+s?(?![a-z])|[A-Z]?[a-z\u00c0-\u036f]+|[0-9²³]+[a-z]*/g;

/** Without capitals and accents. */
const fold = (text) =>
  text.toLowerCase().replace(/œ/g, "oe").replace(/æ/g, "ae").normalize("NFKD").replace(/\p{M}/gu, "");

// Light: what has one stem should mean one thing. -ise and -ize are the same.
const IRREGULAR = new Map([["axes", "axis"], ["matrices", "matrix"], ["froze", "freez"], ["frozen", "freez"]]);
const STEM = {
  en: (word) => IRREGULAR.get(word) ?? word
    .replace(/(?<=...)i[sz](e|es|ed|er|ers|ing|ation|ations)$/, "is")
    .replace(/(?<=[^s]..)ies$/, "y")
    .replace(/(?<=[sxz]|[cs]h)es$|(?<=..[^aisu])s$/, "")
    .replace(/(?<=...)(ations?|ating|ated|ates?|ings?|ed|ly|e)$/, "")
    .replace(/(?<=.....)(enc|anc|ent|ant)$/, "")
    .replace(/our$/, "or")
    .replace(/([bdgmnprt])\1$/, "$1"),
  fr: (word) => word
    .replace(/iz(?=(ation|er?|ed|ing)s?$)/, "is") // an English word
    .replace(/(?<=[^e][^e])aux$/, "al")
    .replace(/(?<=..)[sx]$/, "")
    .replace(/(?<=...)(ation|ateur|ement|ante?|ees?|er|ent|ez|e)$/, "")
    .replace(/(?<=.....)(enc|anc|ent|ant|iv)$/, "")
    .replace(/([lnt])\1$/, "$1"),
};
STEM.zh = STEM.en;

const STOPS = Object.fromEntries(Object.entries(STOP).map(([language, words]) =>
  [language, new Set(words.split(/\s+/).map(STEM[language]))]));

/** The term of a word. “IN” is a normalisation, “in” is none: a stop word in capitals stays. */
function termOf(word, language) {
  if (HAN.test(word)) return word;
  const capitals = word.length > 1 && word === word.toUpperCase();
  const term = GREEK.get(word) ?? STEM[language](fold(word.replace(/(?<=^[A-Z]{2,})s$/, ""))); // GPUs
  return capitals && STOPS[language].has(term) ? word : term;
}

const known = { en: new Map(), fr: new Map(), zh: new Map() }; // few words make most of a text

/** A word's parts, each with its term and place in it; of a name that has several, also the whole. */
function look(word, language) {
  const before = known[language].get(word);
  if (before) return before;
  const found = [...word.matchAll(PART)];
  const whole = { term: termOf(word, language), from: 0, to: word.length };
  const parts = found.map(({ 0: part, index }) => ({ term: termOf(part, language), from: index, to: index + part.length }));
  const seen = parts.length > 1 ? { parts, whole } : { parts: [whole] };
  known[language].set(word, seen);
  return seen;
}

/** Synonyms as a tree: each word leads to the next, the last one to the numbers of its groups. */
export function synonyms(groups, language) {
  const tree = new Map();
  const add = (terms, group) => {
    let node = tree;
    for (const term of terms) node = node.get(term) ?? node.set(term, new Map()).get(term);
    node.groups = [...new Set(node.groups).add(`#${group}`)];
  };
  groups.forEach((names, group) => names.forEach((name) => {
    const words = (name.match(WORD) ?? []).flatMap((word) => look(word, language).parts);
    if (words.length) add(words.map(({ term }) => term), group);
    const joined = name.replace(/[\s-]/g, "");
    if (/^[A-Za-z]{5,}$/.test(joined)) add([termOf(joined, language)], group); // batchnorm, batchsize
  }));
  return tree;
}

/** The groups of the synonyms in a text, the longest at each place. */
function named(words, tree) {
  const found = [];
  for (let from = 0; from < words.length; from++) {
    let node = tree, groups, last;
    for (let i = from; i < words.length && (node = node.get(words[i].term)); i++) {
      if (node.groups) ({ groups } = node), last = i;
    }
    if (!groups) continue;
    for (const term of groups) found.push({ term, start: words[from].start, end: words[last].end });
    from = last;
  }
  return found;
}

/** Chinese has no spaces: every pair of characters is a term. */
function pairs(text) {
  const found = [];
  const cut = text.replace(JOINING, (word) => " ".repeat(word.length));
  for (const { 0: run, index } of cut.matchAll(/[\u3400-\u9fff]+/g)) {
    for (let i = 0; i < Math.max(run.length - 1, 1); i++) {
      const term = run.slice(i, i + 2);
      found.push({ term, start: index + i, end: index + i + term.length });
    }
  }
  return found;
}

/** The terms of a text and their places: words, names and their parts, pairs of Han, groups of synonyms. */
export function terms(text, language, tree) {
  const words = [], names = [];
  const at = ({ term, from, to }, index) => ({ term, start: index + from, end: index + to });
  for (const { 0: word, index } of text.matchAll(WORD)) {
    const { parts, whole } = look(word, language);
    for (const part of parts) words.push(at(part, index));
    if (whole) names.push(at(whole, index));
  }
  const kept = [...words, ...names].filter(({ term }) => !HAN.test(term) && !STOPS[language].has(term));
  return [...kept, ...pairs(text), ...named(words, tree)];
}
