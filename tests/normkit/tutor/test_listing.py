"""The pages of mistakes: every mistake once, with its lines and the numbers that expose it."""

import re
from collections import Counter
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from normkit.tutor.judging import Difference
from normkit.tutor.listing import (
    FORMER,
    anchor,
    change,
    compare,
    entry,
    index,
    listing,
    pages,
    telltale,
)
from normkit.tutor.mistakes import catalogue, mistakes_of
from normkit.tutor.tasks import Probe, assignments

BOOK = Path(__file__).parents[3] / "book"
PAGES = [page for name in assignments() for page in import_module(f"normkit.tutor.{name}").PAGES]


def of(program, name):
    return next(mistake for mistake in mistakes_of(program) if mistake.name == name)


def test_an_entry_has_its_name_its_words_its_lines_and_its_numbers():
    assert entry(of("dyt/dyt", "alpha_divides")).split("\n\n") == [
        "(dyt-mistake-alpha-divides)=\n### `alpha_divides`",
        "x is divided by alpha instead of multiplied. A layer that meets large numbers needs a "
        "small alpha, to bend later; dividing does the reverse. For alpha = 0.5 and x = 1, tanh "
        "must give 0.462, and gives 0.964.",
        "```diff\n- z = alpha * x\n+ z = x / alpha\n```",
        "| | |\n|---|---|\n"
        "| input | `x = [-2, -1, 0, 1, 2, 10]` `alpha = 0.5` |\n"
        "| right | `y = [-0.7616, -0.4621, 0, 0.4621, 0.7616, 0.9999]` |\n"
        "| wrong | `y = [-0.9993, -0.964, 0, 0.964, 0.9993, 1]` |",
    ]


def test_what_a_chapter_explains_is_a_link_and_says_where_it_was_met():
    text = entry(of("layer_norm/layer_norm", "unbiased_variance"))
    assert text.startswith(
        "(mistakes-layer-norm-unbiased-variance)=\n"
        "### [`unbiased_variance`](#ln-mistake-unbiased-variance)\n"
    )
    assert text.splitlines()[-1].startswith("| in the wild | Two teaching notebooks")


def test_lines_that_only_come_stand_below_the_one_that_they_follow():
    lines = change(of("dyt/replace_norms_by_path", "first_norm_only")).splitlines()
    assert lines[1:-1] == [
        "  setattr(model.get_submodule(parent), name, layer)",
        "+ return model",
    ]


@pytest.mark.parametrize(
    ("found", "rows"),
    [
        (("error", "", "TypeError: no", None), ["| wrong | `TypeError` |"]),
        (("type", "y", "list", "ndarray"), ["| right | `y = ndarray` |", "| wrong | `y = list` |"]),
        (
            ("modified", "x", None, None),
            [
                "| right | `np.array_equal(x, before) = True` |",
                "| wrong | `np.array_equal(x, before) = False` |",
            ],
        ),
        (
            ("shape", "dgamma", np.zeros((1, 2)), np.zeros(2)),
            ["| right | `dgamma.shape = (2,)` |", "| wrong | `dgamma.shape = (1, 2)` |"],
        ),
        (
            ("values", "the number of modules", np.array(5), np.array(6)),
            ["| right | `6` |", "| wrong | `5` |"],
        ),
    ],
)
def test_every_kind_of_difference_is_a_table(found, rows):
    what, name, came, expected = found
    difference = Difference(what, Probe("a case", {"x": np.arange(2.0)}), name, came, expected)
    told = [f"| result | {name} |"] * (" " in name) + [
        "| case | a case |",
        "| input | `x = [0, 1]` |",
    ]
    assert compare(difference).splitlines() == ["| | |", "|---|---|", *told, *rows]


def test_every_mistake_is_on_one_page_and_in_the_index():
    listed = Counter(mistake for mistakes in pages().values() for mistake in mistakes)
    every = [mistake for name in assignments() for mistake in catalogue(name)[""]]
    assert set(listed.values()) == {1}
    names = assignments()[::-1]
    links = index(*names)
    for mistake in every:
        program = next(iter(mistake.ways)).rpartition("/")[2]
        hidden = getattr(import_module(f"normkit.tutor.{mistake.home}"), "HIDDEN", ())
        assert (mistake in listed) == (program not in hidden), mistake.where
        assert (f"[`{mistake.name}`](#{anchor(mistake)})" in links) == (mistake in listed)
    wanted = [page for name in names for page in import_module(f"normkit.tutor.{name}").PAGES]
    assert re.findall(r"\{doc\}`(\w+)`", links) == wanted


def test_an_index_without_an_assignment_is_an_error():
    with pytest.raises(ValueError, match="left out: mistakes_dyt, mistakes_dyt_layer, "):
        index(*(name for name in assignments() if name != "dyt"))


def test_no_two_entries_have_the_same_address():
    every = [mistake for mistakes in pages().values() for mistake in mistakes]
    former = [label for labels in FORMER.values() for label in labels]
    places = Counter([*map(anchor, every), *former])
    assert [place for place, count in places.items() if count > 1] == []
    assert FORMER.keys() <= {mistake.key for mistake in every}


def test_a_page_that_nobody_names_is_an_error():
    with pytest.raises(ValueError, match=r"no page 'mistakes'; the pages are: mistakes_\w+, "):
        listing("mistakes")


@pytest.mark.sample(5)
@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_all_its_mistakes_each_with_lines_and_numbers(page):
    parts = re.split(r"(?m)^(?=\(.*\)=\n### |## `)", listing(page))[1:]
    entries = {part.partition(")=")[0][1:]: part for part in parts if part.startswith("(")}
    programs = [part.split("`")[1] for part in parts if part.startswith("## ")]
    assert len(set(programs)) == len(programs)
    assert entries.keys() == {anchor(mistake) for mistake in pages()[page]}
    book = "\n".join(file.read_text("utf-8") for file in BOOK.glob("*.md"))
    for mistake in pages()[page]:
        shown = entries[anchor(mistake)]
        assert f"### `{mistake.name}`" in shown or f"### [`{mistake.name}`]" in shown
        assert anchor(mistake) == mistake.label or explained(mistake, book), mistake.where
        assert re.search(r"^```diff\n(?:[-+ ] .*\n|[-+]\n)+```$", shown, re.MULTILINE)
        rows = [line for line in shown.splitlines() if line.startswith("| ")]
        assert all(re.fullmatch(r"\|([^|]|\\\|)*\|([^|]|\\\|)*\|", row) for row in rows), shown
        words = [row.split("|")[1].strip() for row in rows]
        assert words[-2:] == ["wrong", "in the wild"] if mistake.met else words[-1] == "wrong"


def explained(mistake, book):
    """Whether the place that an entry leads to is on a page, or is that of another entry."""
    others = {anchor(other) for mistakes in pages().values() for other in mistakes}
    written = f"({mistake.label})=\n", f'id="{mistake.label}"'
    return mistake.label in others or any(text in book for text in written)


def test_a_telltale_is_small_and_large_enough_to_be_seen():
    found = telltale(of("dyt/dyt", "fixed_alpha"))  # not seen where alpha is 0.5
    assert found.probe.inputs["alpha"] != 0.5 and found.probe.inputs["x"].size < 13
