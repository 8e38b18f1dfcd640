"""Mistakes in DyT, Derf and weight normalisation: the numbers that their messages state."""

import math

import numpy as np
import pytest

from normkit import derf, dyt
from normkit.mistakes import combine, mistakes_of


def wrong(algorithm):
    return {m.name: combine(algorithm, m) for m in mistakes_of(algorithm)}


def test_numbers_that_the_messages_on_the_curves_state():
    one = np.ones(1)
    dyts, derfs, close = wrong("dyt"), wrong("derf"), np.testing.assert_allclose
    close([dyt(one)[0], dyts["alpha_divides"](one)[0]], [0.462, 0.964], atol=5e-4)
    close([dyts["erf_instead"](one)[0], dyt(one)[0]], [0.5205, 0.4621], atol=5e-5)
    close([derf(one)[0], derfs["root_two_inside"](one)[0]], [0.5205, 0.3829], atol=5e-5)
    close([derf(one)[0], derfs["tanh_instead"](one)[0]], [0.5205, 0.4621], atol=5e-5)
    close(derf(one, 0.5, -0.5), 0)
    close(derfs["shift_times_alpha"](one, 0.5, -0.5), 0.2763, atol=5e-5)
    close(dyts["hard_tanh"](one) / dyt(one), 1.08, atol=5e-3)
    x = np.linspace(0, 9, 1000)
    close((derf(x) - derfs["tanh_approximation"](x)).max(), 0.035, atol=5e-4)
    for name in ("sigmoid_instead", "normal_distribution"):
        close(derfs[name](np.array([-1e3, 0, 1e3])), [0, 0.5, 1], atol=1e-12)


@pytest.mark.parametrize(
    ("name", "dtype", "limit"),
    [
        ("tanh_of_two_exponentials", "f4", 88),
        ("tanh_of_two_exponentials", "f8", 709),
        ("tanh_of_one_exponential", "f4", 44),
        ("tanh_of_one_exponential", "f8", 354),
    ],
)
def test_exponentials_overflow_where_the_messages_say(name, dtype, limit):
    z = np.array([limit, limit + 1], dtype=dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        assert np.isnan(wrong("dyt")[name](z, 1.0)).tolist() == [False, True]


def test_numbers_that_the_messages_on_gradients_state():
    one, zero = np.ones(1), np.zeros(1)
    right = combine("derf_backward")(one, zero)[0]
    np.testing.assert_allclose(right, 0.564, atol=5e-4)
    np.testing.assert_allclose(2 / math.sqrt(math.pi), 1.128, atol=5e-4)
    slopes = wrong("dyt_backward")
    np.testing.assert_allclose(slopes["slope_of_sigmoid"](one, zero)[0], 0)
    np.testing.assert_allclose(slopes["one_minus_t"](one, -20 * one, 1.0)[0], 2)


def test_numbers_that_the_messages_on_weights_state():
    v, g, found = np.array([[3.0, 4]]), np.array([10.0]), wrong("weight_norm")
    np.testing.assert_allclose(combine("weight_norm")(v, g), [[6, 8]])
    np.testing.assert_allclose(np.linalg.norm(found["length_squared"](v, g)), 2)
    np.testing.assert_allclose(np.linalg.norm(found["root_mean_square"](v, g)), 10 * math.sqrt(2))
    np.testing.assert_allclose(found["absolute_values_summed"](v, g), v * 10 / 7)
    np.testing.assert_allclose(np.linalg.norm(found["eps_in_length"](v / 5e3, g)), 3.0, atol=0.02)
    dw, found = np.array([[1.0, 2]]), wrong("weight_norm_backward")
    right = combine("weight_norm_backward")(dw, v, g)
    np.testing.assert_allclose((right[0] * v).sum(), 0, atol=1e-12)
    for name in ("length_detached", "part_along_v_added"):
        assert abs((found[name](dw, v, g)[0] * v).sum()) > 1
    np.testing.assert_allclose(found["dg_with_v"](dw, v, g)[1], 5 * right[1])


def test_the_shared_mistakes_reach_both_layers():
    for name in ("DyT", "Derf"):
        made = {mistake.name for mistake in mistakes_of(name)}
        assert {"plain_tensors", "gamma_per_example", "alpha_per_feature"} <= made
    assert {"gradients_over_features"} <= {m.name for m in mistakes_of("dyt_backward")}


@pytest.mark.parametrize("part", ["dx", "dalpha", "dgamma_dbeta"])
def test_the_chain_of_one_gradient_holds_what_its_mistakes_need(part):
    given = np.ones((2, 3)), np.ones((2, 3)), 0.5, np.ones(3)
    for mistake in mistakes_of(f"dyt_{part}"):
        whole = mistake in mistakes_of("dyt_backward")
        results = combine(f"dyt_{part}", mistake)(*given)
        expected = combine("dyt_backward", mistake)(*given)
        assert whole and any(result is not None for result in results)
        for result, same in zip(results, expected, strict=True):
            np.testing.assert_allclose(same if result is None else result, same)
