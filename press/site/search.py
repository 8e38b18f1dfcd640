"""How the site's search cuts text into words: French without accents, Chinese in pairs."""

import re
import unicodedata
from itertools import pairwise

from sphinx.search.en import SearchEnglish
from sphinx.search.fr import SearchFrench


def fold(text: str) -> str:
    """Drop accents: "échantillon" becomes "echantillon"."""
    text = text.lower().replace("œ", "oe").replace("æ", "ae")
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))


FRENCH = {fold(word) for word in SearchFrench.stopwords}


class FoldedFrench(SearchFrench):
    """French, where the index and the query lose their accents before anything else."""

    stopwords = FRENCH
    js_splitter_code = r"""
const fold = (text) => text.toLowerCase().replace(/œ/g, "oe").replace(/æ/g, "ae")
  .normalize("NFD").replace(/\p{M}/gu, "");
splitQuery = (query) => fold(query).match(/[\p{L}\p{N}_]+/gu) ?? [];
"""

    def split(self, text: str) -> list[str]:
        return super().split(fold(text))


class ChineseBigrams(SearchEnglish):
    """Chinese, which has no spaces: every pair of characters, and single ones, is a word."""

    lang = "zh"
    language_name = "Chinese"
    js_splitter_code = r"""
splitQuery = (query) =>
  (query.match(/\p{Script=Han}+|((?!\p{Script=Han})[\p{L}\p{N}_])+/gu) ?? []).flatMap((run) => {
    const han = /\p{Script=Han}/u.test(run) && [...run];
    return han && han.length > 1 ? han.slice(1).map((c, i) => han[i] + c) : [run];
  });
"""
    runs = re.compile(r"[㐀-鿿豈-﫿]+|[^\W㐀-鿿豈-﫿]+")

    def split(self, text: str) -> list[str]:
        words = []
        for run in self.runs.findall(text):
            han = run[0] >= "㐀"
            words += [*run, *map("".join, pairwise(run))] if han else [run]
        return words
