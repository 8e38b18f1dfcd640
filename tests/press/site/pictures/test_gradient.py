"""Picture 2, what the gradient loses: its numbers are normkit's."""

import json

import numpy as np
import pytest

import normkit
from tests.pictures import choose, drag, guess, key, numbers, put

pytestmark = pytest.mark.needs("chromium")
ASKED = {"layer": ([0.0, 0, 2], "0"), "rms": ([1.0, 1, 1], "67")}  # what arrives at (0, 0, 3)


def backward(g, x, eps, norm):
    """The gradient that reaches x, and the factor r in it."""
    if norm == "rms":
        return normkit.rms_norm_backward(g, x, eps=eps)[0], 1 / np.sqrt((x**2).mean() + eps)
    return normkit.layer_norm_backward(g, x, eps=eps)[0], 1 / np.sqrt(x.var() + eps)


def typed(page, name):
    """The vector of three fields, in full precision."""
    found = f"[...document.querySelectorAll('[name={name}]')].map(e => +e.ariaValueNow)"
    return np.array(json.loads(page.value(f"JSON.stringify({found})")))


def row(page, name):
    return numbers(page, f"tr.{name} td:not(.share)")


def agree(page, norm, eps):
    """Compare all that the picture shows with normkit; return what is kept, and its share."""
    g, x = typed(page, "g"), typed(page, "x")
    dx, r = backward(g, x, eps, norm)
    hat = normkit.rms_norm(x, eps=eps) if norm == "rms" else normkit.layer_norm(x, eps=eps)
    level = 0 if norm == "rms" else g.mean()
    same = {"hat": hat, "mean": np.full(3, level), "radial": g - level - dx / r, "kept": dx / r}
    for name, value in {**same, "dx": dx}.items():
        np.testing.assert_allclose(row(page, name), value, atol=1e-9)
    shares = numbers(page, "tr:not(.g) > .share[data-value]")
    np.testing.assert_allclose(shares.sum(), 1 if g.any() else 0, atol=1e-9)
    np.testing.assert_allclose(shares[-1] * (g @ g), dx @ g / r, atol=1e-9)
    checks = numbers(page, ".checks b")
    np.testing.assert_allclose(checks, [dx.sum(), dx @ hat], atol=1e-9)
    return g, x, shares[-1]


@pytest.mark.parametrize("norm", ASKED)
def test_what_is_kept_is_what_normkit_keeps(page, norm):
    choose(page, "norm", norm)
    draws, eps = np.random.default_rng(0), 1e-5
    for _ in range(25):
        name, place = draws.choice(["x", "g"]), int(draws.integers(3))
        put(page, f"[name={name}]", float(draws.integers(-8, 9) / 4), place)
        power = draws.integers(-32, 1) / 4
        put(page, "[name=eps]", power)
        eps = 10.0**power
        agree(page, norm, eps)
    put(page, "[name=x]", 1, 0), put(page, "[name=x]", 1, 1), put(page, "[name=x]", 1, 2)
    agree(page, norm, eps)


@pytest.mark.parametrize("norm", ASKED)
def test_the_right_answer_is_right(page, norm):
    choose(page, "norm", norm)
    g, right = np.array(ASKED[norm][0]), ASKED[norm][1]
    dx, r = backward(g, np.array([0.0, 0, 3]), 1e-5, norm)
    assert f"{100 * (dx @ g) / r / (g @ g):.0f}" == right
    for place, answer in enumerate(["0", "33", "67", "100"]):
        words = guess(page, place)
        assert page.value(f"document.querySelectorAll('.guess button')[{place}].innerText") == (
            f"{answer}\xa0%"
        )
        assert ("Right." in words) == (answer == right)
        assert f"{right} % is left" in words
        np.testing.assert_allclose(typed(page, "g"), g)
        agree(page, norm, 1e-5)


@pytest.mark.parametrize("norm", ASKED)
@pytest.mark.parametrize("eye", [0, 35, 90])
def test_the_arrow_and_the_circle_are_dragged(page, norm, eye):
    choose(page, "norm", norm)
    put(page, "[name=eye]", eye)
    before = agree(page, norm, 1e-5)
    drag(page, ".head", (-30, -10))
    g, x, _ = agree(page, norm, 1e-5)
    assert abs(g - before[0]).max() > 0.1
    np.testing.assert_allclose(x, before[1])
    if eye == 90 and norm == "layer":  # seen from above, the mean part stays
        np.testing.assert_allclose(g.mean(), before[0].mean())
    drag(page, ".at", (-24, -30))
    _, turned, _ = agree(page, norm, 1e-5)
    assert abs(turned - x).max() > 0.1
    spread = (lambda v: (v**2).mean()) if norm == "rms" else np.var
    np.testing.assert_allclose(spread(turned), spread(x), rtol=1e-6)


def test_it_is_moved_with_the_keyboard(page):
    for handle, name in ((".head", "g"), (".at", "x")):
        before = typed(page, name)
        page.value(f"document.querySelector('{handle}').focus()")
        key(page, "ArrowUp", windowsVirtualKeyCode=38)
        assert abs(typed(page, name) - before).max() > 0.01
        agree(page, "layer", 1e-5)
    page.value("document.querySelector('.reset').click()")
    np.testing.assert_allclose(typed(page, "g"), [1, -1, 1.5])
    np.testing.assert_allclose(typed(page, "x"), [0, 0, 3])
