"""Picture 5, from fan to S: its numbers are those of normkit."""

import json

import numpy as np
import pytest

import normkit
from tests.pictures import choose, drag, guess, key, numbers, put, said

pytestmark = pytest.mark.needs("chromium")
ALPHAS = np.array([float(f"{10 ** (at / 100):.3g}") for at in range(-130, 71)])
MINE = 27  # the token in hand


def tokens(page):
    """The inputs, and the outputs of layer normalisation: 40 tokens of 16 features."""
    given = page.value("(({ x, value }) => `[${x},${value}]`)"
                       "(document.querySelector('.fan svg').dataset)")  # fmt: skip
    return np.array(json.loads(given))


def explained(curve, y):
    """The best multiple of a curve, and the share of the variance of y that it explains."""
    gamma = (curve * y).sum() / (curve**2).sum()
    return gamma, 1 - ((y - gamma * curve) ** 2).mean() / y.var()


def check(page, alpha=None):
    """All that is shown follows from the inputs; alpha: the best where none is given."""
    x, y = tokens(page)
    np.testing.assert_allclose(y, normkit.layer_norm(x), atol=1e-9)
    if alpha is None:
        alpha = ALPHAS[np.argmax([explained(normkit.dyt(x, a), y)[1] for a in ALPHAS])]
    gamma, share = explained(normkit.dyt(x, alpha), y)
    np.testing.assert_allclose(numbers(page, ".shares b"), [explained(x, y)[1], share], atol=1e-9)
    squashed = normkit.dyt(x, alpha, gamma=np.full(16, gamma))
    place = x[MINE].argmax()
    results = numbers(page, ".work .result")
    np.testing.assert_allclose(results, [y[MINE, place], squashed[MINE, place]], atol=1e-9)
    return x


def test_any_spread_and_slope(page):
    draws = np.random.default_rng(0)
    assert check(page).shape == (40, 16)
    for _ in range(6):
        spread, at = draws.integers(0, 149) / 100, draws.integers(-130, 71) / 100
        put(page, "[name=spread]", spread)
        sigma = check(page).std(axis=-1)
        np.testing.assert_allclose(sigma.max() / sigma.min(), float(f"{10**spread:.2g}"))
        put(page, "[name=alpha]", at)
        check(page, float(f"{10**at:.3g}"))
        page.value("document.querySelector('[name=fit]').click()")


def test_with_one_standard_deviation_the_cloud_is_a_line(page):
    for place in range(4):
        assert ("✓" in guess(page, place)) == (place == 2)
    assert "the lines are one line" in said(page)
    x = check(page)
    sigma = x.std(axis=-1)
    np.testing.assert_allclose(sigma, sigma[0])
    np.testing.assert_allclose(normkit.layer_norm(x), x / sigma[0], atol=1e-5)
    shares = numbers(page, ".shares b")
    assert shares[0] > 1 - 1e-9 and shares[1] > 0.999
    put(page, "[name=spread]", 1)
    shares = numbers(page, ".shares b")
    assert shares[1] > shares[0] + 0.1


def test_a_token_is_dragged_and_moved_by_keys(page):
    choose(page, "show", "one")
    page.wait("!!document.querySelector('.fan .token')")
    before = check(page)[MINE]
    drag(page, ".fan .handle", (60, 0))
    moved = check(page)[MINE]
    assert moved.mean() > 1
    np.testing.assert_allclose(moved.std(), before.std(), rtol=0.01)
    drag(page, ".fan .handle", (-30, 0), 1)
    narrow = check(page)[MINE]
    assert narrow.std() < moved.std() - 0.2
    np.testing.assert_allclose(narrow.mean(), moved.mean())
    assert page.value("document.activeElement.ariaLabel") == "standard deviation of this token"
    key(page, "ArrowRight", windowsVirtualKeyCode=39)
    assert check(page)[MINE].std() > narrow.std() + 0.1
    page.value("document.querySelector('.reset').click()")
    np.testing.assert_allclose(check(page)[MINE], before)
