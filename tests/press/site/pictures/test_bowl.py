"""Picture 4, the bowl: its paths are those of the page's own descent."""

import json

import numpy as np
import pytest

from tests.pictures import drag, guess, key, numbers, put, said

pytestmark = pytest.mark.needs("chromium")
INPUTS = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])
SLIDERS = {"rate": "[name=rate]", "spread": "[name=spread]"}


def descend(ratio, rate, start, steps=30000):
    """Least squares by gradient descent, as in book/why.md; the rate in units of 1/λmax.

    Returns the weights after 0, 1, 2, ... steps, and the first step with 1 % of the loss.
    """
    x = INPUTS * [1, ratio]
    y = x @ [1, 1 / ratio]
    rate = rate / np.linalg.eigvalsh(x.T @ x / 4)[-1]
    path, loss = [np.array(start) / [1, ratio]], []
    while len(path) <= steps:
        error = x @ path[-1] - y
        loss.append(error @ error / 8)
        if loss[-1] <= loss[0] / 100:
            return np.array(path), len(path) - 1
        path.append(path[-1] - rate * x.T @ error / 4)
    return np.array(path), np.inf


def paths(page):
    found = page.value("JSON.stringify([...document.querySelectorAll('.bowl svg.drawing')].map("
                       "e => JSON.parse(e.dataset.value)))")  # fmt: skip
    return [np.array(path, float) for path in json.loads(found)]


def check(page, ratio, rate, start=(0, 0)):
    """Both bowls take the path of the page's descent, in as many steps."""
    counts = page.value("[...document.querySelectorAll('.count b')].map(e => e.dataset.value)")
    for path, count, s in zip(paths(page), counts, (ratio, 1), strict=True):
        steps = 500 if float(count) == np.inf else 30000
        expected, needed = descend(s, rate, start, steps)
        shown = min(len(expected), len(path), 60)
        assert shown == min(60, needed + 1)
        np.testing.assert_allclose(path[:shown], expected[:shown], rtol=1e-9, atol=1e-9)
        assert float(count) == needed
    step = (expected := descend(ratio, rate, start, 1)[0])[1] - [1, 1 / ratio]
    assert len(expected) == 2
    np.testing.assert_allclose(numbers(page, ".work .result"), step, atol=1e-9)


def test_the_example_of_the_page(page):
    check(page, 10, 1)
    assert numbers(page, ".count b").tolist() == [195, 1]
    put(page, SLIDERS["rate"], 1.9)
    check(page, 10, 1.9)
    np.testing.assert_allclose(paths(page)[0][3], [0.0559, 0.1729], atol=5e-5)
    assert paths(page)[0][30, 0] < 0.5


def test_any_rate_and_ratio(page):
    draws = np.random.default_rng(0)
    for _ in range(12):
        rate, at = draws.integers(10, 221) / 100, draws.integers(0, 151) / 100
        put(page, SLIDERS["rate"], rate), put(page, SLIDERS["spread"], at)
        ratio = float(f"{10**at:.2g}")
        check(page, ratio, rate)
        words = page.value("document.querySelector('.bowl .count b').textContent")
        assert (words == "diverges") == (rate > 2)


def test_twice_the_rate_never_arrives_and_no_rate_takes_fewer_than_a_hundred(page):
    assert guess(page, 1).startswith("✗ You said 98.")
    assert said(page).count("100 steps, the fewest possible") == 1
    check(page, 10, 2)
    assert page.value("document.querySelector('.bowl .count b').textContent") == "never"
    assert "Right." in guess(page, 3)
    assert descend(10, 2, (0, 0), 3000)[1] == np.inf
    needed = {rate: descend(10, rate, (0, 0), 3000)[1] for rate in np.arange(0.5, 2.01, 0.05)}
    assert min(needed.values()) == 100 == descend(10, 1.95, (0, 0))[1]
    page.value("document.querySelector('.reset').click()")
    check(page, 10, 1)


def test_the_start_is_dragged_and_moved_by_keys(page):
    put(page, SLIDERS["rate"], 1.3)
    page.wait("!!document.querySelector('.bowl ellipse')")
    drag(page, ".bowl .handle", (40, -12))
    dragged = paths(page)[1][0]
    assert dragged[0] > 0.3 and dragged[1] > 0.2
    check(page, 10, 1.3, dragged)
    assert page.value("document.activeElement.getAttribute('role')") == "slider"
    key(page, "ArrowLeft", windowsVirtualKeyCode=37)
    moved = paths(page)[1][0]
    assert moved[0] < dragged[0] and abs(moved[1] - dragged[1]) < 0.02
    check(page, 10, 1.3, moved)
