"""Words that a page must not use: each has the field's own term, in `book/terms.txt`."""

import re
from functools import cache
from pathlib import Path

import pytest
from babel.messages import pofile

from press.terms import terms

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*ROOT.glob("book/*.md"), *ROOT.glob("solutions/*.md")])
AVOIDED = {
    "en": {
        r"passes over the data": "epoch",
        r"(?<!forward )(?<!single )(?<!one )pass (over|through) the data": "epoch",
        r"numbers? to learn|learnt numbers?": "parameter",
        r"keeps? its digits": "significant digits",
        r"(does|do) not notice|\bnotices\b": "is invariant under, is sensitive to",
        r"the small number": "ε",
        r"first weights": "initial weights",
        r"path to a decision|path of questions": "decision tree",
        r"\bspread\b": "standard deviation, scale",
    },
    "fr": {
        r"parcours des données|passes? sur les données": "époque",
        r"nombres? (à apprendre|appris)": "paramètre",
        r"garde(nt)? ses chiffres(?! significatifs)": "chiffres significatifs",
        r"ne (le |la |les )?remarque|s’(en )?aperçoi|s’(en )?aperçoivent": "sensible à",
        r"petit nombre (sous|hors|dans) ": "ε",
        r"premiers poids": "poids initiaux",
        r"perceptron(?! multicouche)": "perceptron multicouche (MLP)",
        r"transformateur": "Transformer",
        r"jetons?\b": "token",
    },
    "zh": {
        r"察觉不到|注意不到": "对……不变",
        r"把(手写)?(数据|数字)过|过[一二两三四五十]+遍": "轮（epoch）",
        r"要学习的数": "参数",
        r"离散程度": "标准差、尺度",
        r"(?<!层)感知机": "多层感知机（MLP）",
        r"令牌|代币": "词元",
    },
}


def texts(language):
    """Every text of a language, with its place."""
    if language == "en":
        for path in SOURCES:
            prose = re.sub(r"^`{3,}.*?^`{3,}$", "", path.read_text("utf-8"), flags=re.S | re.M)
            yield path.name, " ".join(re.sub(r"`[^`]*`", "", prose).split())
        return
    for name, english, text in translations(language):
        yield f"{name}:{english[:40]}", text


@cache
def translations(language):
    """The messages of a language: catalogue, English, translation."""
    found = []
    for path in sorted((ROOT / "locale" / language).rglob("*.po")):
        with path.open("rb") as file:
            every = ((message.id, message.string) for message in pofile.read_po(file))
            found += [(path.name, *both) for both in every if both[0] and isinstance(both[1], str)]
    return found


@pytest.mark.parametrize("language", AVOIDED)
def test_no_text_uses_a_stand_in_for_a_term(language):
    found = [
        f"{place}: {hit[0]!r}: {term}"
        for place, text in texts(language)
        for pattern, term in AVOIDED[language].items()
        for hit in re.finditer(pattern, text)
    ]
    assert not found, "\n".join(found)


# English words with a second sense, in which they are translated otherwise
OTHER_SENSES = set(
    ["activation", "batch", "bias", "deviation", "kernel", "mean", "solution", "step", "weight"]
)
OTHER_SENSES |= {"batch size", "example", "in place", "overflow"}
ENOUGH = 5  # messages with a term, to tell anything
TARGETS = ["fr", "zh"]


def forms(term, language):
    """Patterns of what may stand for a term: inflected in French, around other words in Chinese."""
    names = [term.name[language], *re.split("[,、]", term.also[language])]
    for name in filter(None, (re.sub(r"[(（].*?[)）]", "", name).strip() for name in names)):
        if language == "zh":
            yield ".*".join(map(re.escape, filter(None, name.lower().split("……"))))
        else:
            words = name.lower().replace("’", "'").split()
            yield r"\b" + r"\w*\W+".join(re.escape(w[: max(3, len(w) - 2)]) for w in words)


def translated(language):
    for _name, *both in translations(language):
        if both[1]:
            yield tuple(re.sub(r"\*+", "", text).lower().replace("’", "'") for text in both)


@pytest.mark.parametrize("language", TARGETS)
def test_a_term_is_translated_as_the_glossary_says(language):
    """In most of the messages that have it: some say it in other words, as a teacher does."""
    code = r"`[^`]*`|\{[^}]*\}"
    pairs = [(re.sub(code, "", english), text) for english, text in translated(language)]
    found = {}
    for term in terms():
        name = re.sub(r" \(.*?\)", "", term.name["en"]).lower()
        pattern = re.compile(rf"(?<![\w-]){re.escape(name)}s?(?![\w-])")
        texts = [text for english, text in pairs if pattern.search(english)]
        right = sum(any(re.search(form, text) for form in forms(term, language)) for text in texts)
        if name not in OTHER_SENSES and len(texts) >= ENOUGH and right < 2 / 3 * len(texts):
            found[name] = f"{right} of {len(texts)}"
    assert found == {}
