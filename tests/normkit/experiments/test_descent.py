"""The elongated bowl: only standardised inputs make it round."""

import numpy as np
import pytest

from normkit import experiments


@pytest.fixture(scope="module")
def bowls():
    return experiments.elongated_bowl()


def test_only_standardising_makes_the_bowl_round(bowls, values):
    bounds = {
        "raw": (4e4, 6e4),
        "centred": (8e3, 1.1e4),
        "scaled": (2e3, 3e3),
        "standardised": (1, 1.3),
    }
    for inputs, (low, high) in bounds.items():
        condition = values(bowls, "condition", inputs=inputs)
        assert low < condition.min() <= condition.max() < high, inputs
    assert values(bowls, "steps", inputs="raw").min() > 50_000
    assert values(bowls, "steps", inputs="standardised").max() <= 3


@pytest.mark.parametrize("inputs", ["scaled", "standardised"])
def test_steps_are_those_of_gradient_descent(bowls, inputs, values):
    from normkit.experiments.descent import _problems

    ((x, y),) = ((x, y) for name, x, y in _problems(0, 500) if name == inputs)
    (expected,) = values(bowls, "steps", inputs=inputs, seed=0)
    h, target = x.T @ x / 500, x.T @ y / 500
    rate, w, best = 1 / np.linalg.eigvalsh(h)[-1], np.zeros(4), np.linalg.lstsq(x, y)[0]
    least, steps = ((x @ best - y) ** 2).mean(), 0
    while ((x @ w - y) ** 2).mean() > 1.01 * least:
        w, steps = w - rate * (h @ w - target), steps + 1
    assert steps == expected
