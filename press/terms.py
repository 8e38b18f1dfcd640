"""The course's terms: one table for the glossary, for the search and for what tests refuse."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from press import LANGUAGES

FILE = Path("book/terms.txt")
PLACE = "% the table of terms"  # on the page of the glossary
NAMES = {"en": "English", "fr": "Français", "zh": "中文"}
TAGS = {"en": "en", "fr": "fr", "zh": "zh-Hans"}
MEANING = {"en": "Meaning", "fr": "Sens", "zh": "含义"}
ALSO = {"en": " (also {})", "fr": " (aussi {})", "zh": "（又称 {}）"}
NOTE = re.compile(r"\$.*?\$|\([^()]+\)")
HYPHENED = re.compile(r"[A-Za-zÀ-ÿ]+(?:-[A-Za-zÀ-ÿ]+)+")
SEPARATOR = re.compile("[,、（）]")
HIGH = re.compile(r" (?=[;:!?%])")  # French: a narrow no-break space
ASIDE = re.compile("^（.*?）")  # （有偏）方差 stands under 方差
READ = {"重计算": "虫", "调谐": "条", "调制": "条"}  # gb18030 knows one reading of a character


@dataclass(frozen=True)
class Term:
    """A concept: its term in each language, what else readers search for, what it means."""

    name: Mapping[str, str]
    also: Mapping[str, str]
    meaning: Mapping[str, str]
    common: bool  # its words are not marked in the text of pages

    @property
    def id(self) -> str:
        """Its address in the glossary, the same in every language."""
        words = re.sub(r"\$.*?\$", "", self.name["en"].casefold())
        return "term-" + re.sub(r"[^a-z0-9]+", "-", words).strip("-")


@cache
def terms(file: Path = FILE) -> list[Term]:
    """Read the table: in each line the three terms, with synonyms, and the three meanings."""
    lines = (line for line in file.read_text("utf-8").splitlines() if line and line[0] != "#")
    return [_term(line.removeprefix("- ").split(" | "), line[:2] == "- ") for line in lines]


def _term(line: Sequence[str], common: bool) -> Term:
    parts = [part.strip() for part in line]
    named, meant = parts[: len(LANGUAGES)], parts[len(LANGUAGES) :]
    pairs = [part.partition(" = ") for part in named]
    return Term(
        {language: name for language, (name, _, _) in zip(LANGUAGES, pairs, strict=True)},
        {language: also for language, (_, _, also) in zip(LANGUAGES, pairs, strict=True)},
        {
            language: HIGH.sub("\N{NARROW NO-BREAK SPACE}", text) if language == "fr" else text
            for language, text in zip(LANGUAGES, meant, strict=True)
        },
        common,
    )


def synonyms() -> list[list[str]]:
    """The names of each term in all languages, with what else readers search for."""
    return [_names(*term.name.values(), *term.also.values()) for term in terms()]


def _names(*written: str) -> list[str]:
    """The names in what is written: "kernel (of a GPU)", "Pre-Norm（前置归一化）", "a, b"."""
    plain = (NOTE.sub("", text) for text in written)
    return sorted({name.strip() for text in plain for name in SEPARATOR.split(text)} - {""})


def table(language: str) -> str:
    """The glossary as a table of Markdown, sorted for the readers of a language."""
    order = [language, *(other for other in LANGUAGES if other != language)]
    heads = [*(f"[{NAMES[of]}]{{.language-{TAGS[of]}}}" for of in order), MEANING[language]]
    rows = [heads, ["---"] * len(heads)]
    for term in sorted(terms(), key=lambda term: place(term.name[language], language)):
        cells = [f"[{_whole(term.name[of])}]{{.language-{TAGS[of]}}}" for of in order]
        cells[0] = re.sub(r"{(?=[^{]*$)", f"{{#{term.id} ", cells[0])
        if also := term.also[language]:
            cells[0] += (
                ALSO[language]
                .format(_whole(also))
                .replace("称 ", "称 " if also[0].isascii() else "称")
            )
        rows.append([*cells, term.meaning[language]])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _whole(words: str) -> str:
    """Words that do not break at a hyphen: mini-batch."""
    return HYPHENED.sub(r"[\g<0>]{.together}", words)


def place(name: str, language: str) -> tuple[bool, object]:
    """Where a term stands: by letters without accents; in Chinese by Pinyin, after Latin ones."""
    if language == "zh" and not name[0].isascii():
        name = ASIDE.sub("", name)
        sound = next((READ[word] for word in READ if name.startswith(word)), name[0])
        return True, (sound + name[1:]).encode("gb18030")  # common characters in Pinyin's order
    plain = unicodedata.normalize("NFD", name.casefold())
    return False, "".join(c for c in plain if not unicodedata.combining(c)).encode()
