// The mistakes as data, for the filter of their index: [place, name, page, message, where it was met].
const ENTRY = /<section id="([\w-]+)">((?!<section).)*?<h3>(.*?)<a class="headerlink".*?<\/h3>.*?<p>(.*?)<\/p>(.*?)<\/section>/gs;
const words = (html) => html.replace(/<[^>]*>/g, "").replace(/\s+/g, " ").replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&quot;/g, '"').replace(/&amp;/g, "&").trim();

export function mistakesOf(page, html) {
  const title = words(/<h1>(.*?)<a class="headerlink"/s.exec(html)[1]);
  return [...html.matchAll(ENTRY)].map(([, id, , name, message, rest]) => {
    const rows = rest.match(/<tr.*?<\/tr>/gs) ?? [];
    const met = rows.length > 3 ? words(rows.at(-1).replace(/^.*?<\/td>/s, "")) : "";
    return [`${page}.html#${id}`, words(name), title, words(message), met];
  });
}
