// A search result quotes the article around the words found, accents or not.
Search.makeSearchSummary = (html, words, anchor) => {
  const page = new DOMParser().parseFromString(html, "text/html");
  page.querySelectorAll(".headerlink, .katex, script, style").forEach((e) => e.remove());
  const article = page.querySelector("article");
  const found = (anchor && article.querySelector(anchor)) || article;
  const text = found.textContent.replace(/\s+/g, " ").normalize("NFC");
  const plain = [...text].map((c) => c.normalize("NFD")[0]).join("").toLowerCase();
  const places = [...words].map((word) => plain.indexOf(word)).filter((place) => place >= 0);
  const start = Math.max(0, Math.min(...places, text.length) - 80);
  const summary = document.createElement("p");
  summary.classList.add("context");
  summary.textContent = `${start ? "…" : ""}${text.slice(places.length ? start : 0).slice(0, 240)}…`;
  return summary;
};
