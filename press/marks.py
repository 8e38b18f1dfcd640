"""The terms as the text of pages has them: their spellings, and what shows beside them."""

import re
from collections import Counter
from html import escape
from pathlib import Path

from press.terms import FILE, Term, terms

COMMA = {"en": ", ", "fr": ", ", "zh": "、"}
ASIDE = re.compile(r" ?\$.*?\$|(?<=\w) \(.*?\)|（.*?）")  # a letter, what a word is said of
CODE = re.compile(r"[()=_$…]")


def marks(language: str, file: Path = FILE) -> list[dict[str, object]]:
    """What `press/site/terms.mjs` marks in the text of pages: words, and what it shows of them.

    A word of two terms means neither.
    """
    told = [(term, spellings(term, language)) for term in terms(file)]
    count = Counter(word for _term, words in told for word in words)
    return [
        {
            "id": term.id,
            "words": [pattern(word, language) for word in words if count[word] == 1],
            "shown": _shown(term, language),
            "common": term.common,
        }
        for term, words in told
    ]


def spellings(term: Term, language: str) -> list[str]:
    """The words that mean a term in a text: its name, and the synonyms that mean nothing else."""
    name, *parts = ASIDE.sub("", term.name[language]).split(COMMA[language])
    also = [*parts, *term.also[language].split(COMMA[language])]
    certain, others = ([], [name, *also]) if parts else ([name], also)
    words = [*certain, *filter(_is_telling, others)]
    return [word for word in words if len(word) > 1 and not CODE.search(word)]


def _is_telling(word: str) -> bool:
    """Whether a synonym is a term by itself: length, bias, 推断 mean other things too."""
    if max(word, default="") >= "一":
        return len(word) > 3
    return " " in word or bool(re.search("[A-Z]", word[1:]))


def pattern(word: str, language: str) -> str:
    """A word and its plural as a regular expression, in JavaScript as in Python."""
    found = re.sub(r"[.*+?^|{}\\/]", r"\\\g<0>", word)
    if language == "en":
        found = found[:-1] + "(?:ys?|ies)" if found[-1] == "y" else found + "(?:e?s)?"
    if language == "fr":
        found = re.sub(r"\w{3,}", _in_french, found)
    if found[0].islower():
        found = f"[{found[0]}{found[0].upper()}]{found[1:]}"
    return found.replace(" ", r"\s+")


def _in_french(word: re.Match) -> str:
    """A word of any gender and number."""
    return word[0][:-2] + "a(?:les?|l|ux)" if word[0].endswith("al") else word[0] + "(?:es?|s|x)?"


def _shown(term: Term, language: str) -> str:
    """What shows of a term: its name, what else it is called, what it means."""
    also = f" <small>{_html(term.also[language])}</small>" if term.also[language] else ""
    told = f"<b>{_html(term.name[language])}</b>{also} <span>{_html(term.meaning[language])}</span>"
    return f'<span data-term="{term.id}">{told}</span>'


def _html(text: str) -> str:
    """Markdown of the table as HTML, with formulas as Sphinx writes them."""
    text = escape(text, quote=False).replace("'", "’")
    text = re.sub(r"`(.*?)`", r"<code>\1</code>", text)
    return re.sub(r"\$(.*?)\$", r'<span class="math notranslate nohighlight">\\(\1\\)</span>', text)
