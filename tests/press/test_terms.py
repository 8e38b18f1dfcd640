"""The table of terms, and the glossary that is made of it."""

import re

import pytest

from press import LANGUAGES
from press.markup import problems
from press.terms import place, table, terms

EVERY = terms()


def test_the_glossary_is_large_and_says_nothing_twice():
    assert len(EVERY) >= 120
    for language in LANGUAGES:
        names = [term.name[language] for term in EVERY]
        assert len(set(names)) == len(names) and all(names)


@pytest.mark.parametrize("language", ["fr", "zh"])
def test_meanings_are_written_as_translations_are(language):
    for term in EVERY:
        meant = term.meaning["en"], term.meaning[language]
        assert not list(problems(*meant, "myst", language)), meant


@pytest.mark.parametrize(
    ("language", "first", "last"),
    [("en", "ablation", "[z-loss]{.together}"), ("fr", "ablation", "[z-loss]{.together}")],
)
def test_it_is_sorted_for_the_readers_of_each_language(language, first, last):
    rows = table(language).splitlines()[2:]
    assert rows[0].startswith(f"| [{first}]") and rows[-1].startswith(f"| [{last}]")


def test_accents_do_not_count_and_chinese_follows_its_pinyin():
    assert place("époque", "fr") < place("équivariant", "fr") < place("exactitude", "fr")
    chinese = ["dropout", "饱和", "范数", "（有偏）方差", "归一化", "均值", "梯度", "正交"]
    assert sorted(chinese, key=lambda name: place(name, "zh")) == chinese


def test_characters_of_two_readings_stand_where_they_are_read():
    written = ["超连接", "重计算", "初始化", "提示", "填充", "调谐透镜", "调制", "通道"]
    assert sorted(written, key=lambda name: place(name, "zh")) == written
    assert {*written} <= {term.name["zh"] for term in EVERY}


def test_every_chinese_term_begins_with_a_character_that_is_sorted_by_its_reading():
    for term in EVERY:
        first = term.name["zh"].strip("（")[0]
        assert first.isascii() or first.encode("gb18030") < "亍".encode("gb18030"), first


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("en", ["eigenvalue", "Jacobian", "query, key, value", "also BN, BatchNorm"]),
        ("fr", ["époque", "hyperparamètre", "centrer-réduire", "forme indéterminée"]),
        ("zh", ["批量归一化", "批量规范化", "层规范化", "轮次", "（又称 BN"]),
    ],
)
def test_what_readers_search_for_is_there(language, words):
    assert all(word in table(language) for word in words)


def test_each_row_has_an_address_of_its_own_the_same_in_every_language():
    ids = [term.id for term in EVERY]
    assert len(set(ids)) == len(ids) and all(
        re.fullmatch(r"term-[a-z0-9-]+[a-z0-9]", i) for i in ids
    )
    assert {"term-batch-normalisation", "term-scale", "term-variance-biased"} <= set(ids)
    for language in LANGUAGES:
        assert sorted(re.findall(r"^\| \[.*?\]{#([\w-]+) ", table(language), re.M)) == sorted(ids)


def test_words_with_a_hyphen_stay_whole():
    for language in LANGUAGES:
        rows = [row.split(" | ")[:3] for row in table(language).splitlines()[2:]]
        shown = re.sub(r"\[[\w-]+\]{\.together}|{.*?}", "", str(rows))
        assert not re.search(r"[a-zA-Z]-[a-zA-Z]", shown)
    assert "[[centrage-réduction]{.together}]{#term-standardisation .language-fr}" in table("fr")


def test_common_words_are_listed_as_such():
    common = {term.name["en"] for term in EVERY if term.common}
    assert {"mean", "batch", "training"} <= common and len(common) < len(EVERY) / 3
    assert not common & {"softmax", "batch normalisation", "residual connection"}
