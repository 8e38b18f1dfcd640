// What is found, in which order, and what a result shows of it.
import { synonyms, terms } from "./words.mjs";

// What a word is worth in a section's title, in those around it, in its text, in the links that lead
// to it, in its code. The numbers of this file are tuned on tests/press/site/questions.txt; a change
// that helps one question only is chance.
const FIELDS = { title: 3.21, path: 0.732, text: 1, links: 0.289, code: 0.211 };
const BM25 = { k: 0.902, b: 0.205, d: 0.382 };

const isGroup = (term) => term[0] === "#";

/** The search in a language's sections: {language, pages, sections}; `groups` are the synonyms. */
export class Search {
  constructor(MiniSearch, { language, sections }, groups) {
    this.language = language;
    this.sections = sections.map(([page, id, title, around, weight, linked, text, code, links], number) =>
      ({ number, page, id: id === 0 ? title.replaceAll("_", "-") : id, title, around, weight, linked, text, code, links }));
    this.tree = synonyms(groups, language);
    this.vocabulary = new Set();
    this.index = new MiniSearch({
      idField: "number",
      fields: Object.keys(FIELDS),
      extractField: (section, field) => field === "path" ? this.path(section).join(" ") : section[field],
      tokenize: (text) => this.terms(text).map(({ term }) => term),
      processTerm: (term) => (this.vocabulary.add(term), term),
    });
  }

  terms(text) {
    return terms(text, this.language, this.tree);
  }

  /** The titles of the sections around a section, the page's first. */
  path({ around }) {
    const outer = this.sections[around];
    return outer ? [...this.path(outer), outer.title] : [];
  }

  /** The best sections, with a score and the value of each term that was found. */
  find(query, most = 10) {
    const given = this.terms(query);
    const weights = weigh(given, query);
    const last = new Set(given.filter(({ term, end }) => end === query.length && !isGroup(term)).map(({ term }) => term));
    const found = this.index.search(query, {
      processTerm: (term) => term,
      boost: FIELDS, bm25: BM25,
      boostTerm: (term) => weights.get(term),
      boostDocument: (number) => this.sections[number].weight,
      prefix: (term) => last.has(term) && term.length > 1, // it may still be typed
      fuzzy: (term) => !this.vocabulary.has(term) && !isGroup(term) && term.length > 4 && 0.2,
    });
    const values = rarity(found, weights, this.sections.length);
    const ranked = this.rank(found, values);
    const enough = ranked[0]?.score / 20;
    return ranked.filter(({ score }) => score >= enough).slice(0, most);
  }

  /** A section counts for more with more of the query, on a page about it, and with links to it. */
  rank(found, values) {
    const all = sum([...values.values()]);
    const hits = found.map(({ id, score, queryTerms, terms }) => {
      const share = sum(queryTerms.map((term) => values.get(term))) / all;
      const section = this.sections[id];
      return { ...section, terms: new Set(terms), score: score / queryTerms.length * share ** 1.66, values };
    });
    const pages = new Map();
    for (const { page, score } of hits) pages.set(page, Math.hypot(pages.get(page) ?? 0, score));
    const most = Math.max(...pages.values());
    for (const hit of hits) hit.score *= (1 + 0.441 * pages.get(hit.page) / most) * (1 + 0.136 * Math.log1p(hit.linked));
    return hits.sort((a, b) => b.score - a.score);
  }

  /** A text in pieces, every second one marked because it was found. */
  mark(text, { terms }) {
    const places = this.terms(text).filter(({ term }) => terms.has(term)).sort((a, b) => a.start - b.start);
    const pieces = [""];
    let at = 0;
    for (const { start, end } of places) {
      if (end <= at) continue;
      if (start >= at) pieces[pieces.length - 1] += text.slice(at, start), pieces.push("", "");
      pieces[pieces.length - 2] += text.slice(Math.max(start, at), end); // pairs of Han overlap
      at = end;
    }
    pieces[pieces.length - 1] += text.slice(at);
    return pieces;
  }

  /** The part of a section's text that holds most of what was found. */
  snippet(hit) {
    const width = this.language === "zh" ? 100 : 240;
    const places = this.terms(hit.text).filter(({ term }) => hit.terms.has(term));
    return cut(hit.text, Math.max(0, best(places, hit.values, width * 0.7) - width * 0.2), width);
  }
}

const sum = (numbers) => numbers.reduce((all, number) => all + number, 0);

/** What each term of a query is worth: a synonym's group more than the words that name it, a name in code its own. */
function weigh(given, query) {
  const groups = given.filter(({ term }) => isGroup(term));
  const chinese = [...new Intl.Segmenter("zh", { granularity: "word" }).segment(query)];
  const within = ({ start, end }) => groups.some((group) => start >= group.start && end <= group.end);
  const whole = ({ start, end }) => chinese.some(({ index, segment }) => start >= index && end <= index + segment.length);
  return new Map(given.map((place) => [place.term,
    place.term.includes("_") ? 1 : isGroup(place.term) ? 1.5 : (within(place) ? 0.18 : 1) * (whole(place) ? 1 : 0.47)]));
}

/** The value of each term: its weight, and more where few sections have it. */
function rarity(found, weights, sections) {
  const counts = new Map();
  for (const { queryTerms } of found) for (const term of queryTerms) counts.set(term, (counts.get(term) ?? 0) + 1);
  return new Map([...counts].map(([term, count]) => [term, weights.get(term) * Math.log(1 + sections / count)]));
}

/** Where a window begins that holds most. */
function best(places, values, width) {
  let most = 0, found = 0;
  for (const { start } of places) {
    const inside = places.filter((place) => place.start >= start && place.end <= start + width);
    const value = sum([...new Set(inside.map(({ term }) => term))].map((term) => values.get(term) ?? 0.1)); // misspelt: another term was found
    if (value > most) [most, found] = [value, start];
  }
  return found;
}

/** A part of a text, without halves of Latin words. */
function cut(text, from, width) {
  const start = from && from + text.slice(from).search(/(?<=[^\w\u00c0-\u024f])|$/);
  const end = start + width >= text.length ? text.length : start + text.slice(start, start + width).search(/[\w\u00c0-\u024f]*$/);
  return (start ? "…" : "") + text.slice(start, end).trim() + (end < text.length ? "…" : "");
}
