"""Figures: words are text, formulas are paths, and the same figure is the same file."""

import re

import numpy as np
import pytest
from IPython.display import SVG
from matplotlib.figure import Figure

from normkit import plotting

NUMBER = re.compile(r"-?\d")  # the labels of the ticks


@pytest.fixture
def shown(monkeypatch):
    """What a page displays, in order."""
    outputs = []
    monkeypatch.setattr("IPython.display.display", outputs.append)
    return outputs


def figure():
    with plotting.draw(3, 2) as (_, axes):
        axes.plot([0, 1], [0, 1])
        axes.set_title("some words")
        axes.set_xlabel(r"$\sqrt{\sigma^2 + \varepsilon}$")


def test_words_stay_text_and_formulas_become_paths(shown):
    figure()
    (svg,) = shown
    assert isinstance(svg, SVG)
    words = [word for word in re.findall(r">([^<]+)</text>", svg.data) if not NUMBER.match(word)]
    assert words == ["some words"]


def test_same_figure_same_file(shown):
    figure()
    figure()
    assert shown[0].data == shown[1].data
    assert "<dc:date>" not in shown[0].data


def test_bare_axes(shown):
    with plotting.draw(axis=False, ncols=2) as (_, panels):
        assert not any(panel.axison for panel in panels)


def documented(x):
    """Return x.

    In two lines.
    """
    return x


def plain(x):
    return x


def test_listing_leaves_docstrings_out():
    assert plotting.listing(documented, plain).data == (
        "```python\ndef documented(x):\n    return x\n\n\ndef plain(x):\n    return x\n```"
    )


def test_statistics_stand_beside_rows_and_below_columns():
    table, rows = np.array([[1, 3], [5, 7]]), np.array([[0, 0], [1, 1]])
    for groups, at in ((rows, [(2.6, -0.5), (2.6, -1.5)]), (rows.T, [(0.5, -2.45), (1.5, -2.45)])):
        axes = Figure().subplots()
        plotting.statistics(axes, table, groups)
        means = [
            t for t in axes.texts if t.get_color() == plotting.SHIFT and "$" not in t.get_text()
        ]
        assert [tuple(t.get_position()) for t in means] == at
    assert [t.get_text() for t in means] == ["3", "5"]


def test_names_of_lines_stand_apart():
    with plotting.draw(3, 2) as (_, axes):
        for height in (0, 0.01, 1):
            axes.plot([0, 1], [0, height], label=f"to {height}")
        plotting.name_lines(axes)
        heights = sorted(name.xy[1] for name in axes.texts)
    assert min(np.diff(heights)) > 0.1


def test_the_parts_of_a_vector_end_where_it_is_their_sum():
    axes = Figure().subplots()
    plotting.split(axes, (0.6, 0.8), (0.3, 0.4), (-0.8, 0.6), arc=(0, 1))
    ends = [arrow.xy for arrow in axes.texts]  # an arrow is an annotation without words
    np.testing.assert_allclose(ends, [(0.1, 1.8), (0.9, 1.2), (-0.2, 1.4)])
    circle = axes.get_lines()[0].get_xydata()
    np.testing.assert_allclose(np.linalg.norm(circle, axis=1), 1)
