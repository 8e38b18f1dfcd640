"""Mistakes in DyT, Derf and weight normalisation: the numbers that their messages state."""

import math

import numpy as np
import pytest
import torch

from normkit import derf, dyt
from normkit.tutor.mistakes import combine, mistakes_of


def wrong(program):
    """The program with each of its mistakes, by name."""
    return {m.name: combine(f"dyt/{program}", m) for m in mistakes_of(f"dyt/{program}")}


def test_numbers_that_the_messages_on_the_curves_state():
    one = np.ones(1)
    dyts, derfs, close = wrong("dyt"), wrong("derf"), np.testing.assert_allclose
    close([dyt(one), dyts["alpha_divides"](one, 0.5, 1, 0)], [[0.462], [0.964]], atol=5e-4)
    close([dyts["erf_instead"](one, 0.5, 1, 0), dyt(one)], [[0.5205], [0.4621]], atol=5e-5)
    for name, came in (("root_two_inside", 0.3829), ("tanh_instead", 0.4621)):
        close([derf(one), derfs[name](one, 0.5, 0, 1, 0)], [[0.5205], [came]], atol=5e-5)
    close(derf(one, 0.5, -0.5), 0)
    close(derfs["shift_times_alpha"](one, 0.5, -0.5, 1, 0), 0.2763, atol=5e-5)
    close(dyts["hard_tanh"](one, 0.5, 1, 0) / dyt(one), 1.08, atol=5e-3)
    x = np.linspace(0, 9, 1000)
    close((derf(x) - derfs["tanh_approximation"](x, 0.5, 0, 1, 0)).max(), 0.035, atol=5e-4)
    for name in ("sigmoid_instead", "normal_distribution"):
        close(derfs[name](np.array([-1e3, 0, 1e3]), 0.5, 0, 1, 0), [0, 0.5, 1], atol=1e-12)


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
        assert np.isnan(wrong("dyt")[name](z, 1.0, 1, 0)).tolist() == [False, True]


def test_numbers_that_the_messages_on_gradients_state():
    one, zero = np.ones(1), np.zeros(1)
    right = combine("dyt/derf_backward")(one, zero, 0.5, 0.0, 1.0)[0]
    np.testing.assert_allclose(right, 0.564, atol=5e-4)
    np.testing.assert_allclose(2 / math.sqrt(math.pi), 1.128, atol=5e-4)
    slopes = wrong("dyt_backward")
    np.testing.assert_allclose(slopes["slope_of_sigmoid"](one, zero, 0.5, 1.0)[0], 0)
    np.testing.assert_allclose(slopes["one_minus_t"](one, -20 * one, 1.0, 1.0)[0], 2)


def test_numbers_that_the_messages_on_weights_state():
    v, g, found = np.array([[3.0, 4]]), np.array([10.0]), wrong("weight_norm")
    np.testing.assert_allclose(combine("dyt/weight_norm")(v, g), [[6, 8]])
    np.testing.assert_allclose(np.linalg.norm(found["length_squared"](v, g)), 2)
    np.testing.assert_allclose(np.linalg.norm(found["root_mean_square"](v, g)), 10 * math.sqrt(2))
    np.testing.assert_allclose(found["absolute_values_summed"](v, g), v * 10 / 7)
    np.testing.assert_allclose(np.linalg.norm(found["eps_in_length"](v / 5e3, g)), 3.0, atol=0.02)
    dw, found = np.array([[1.0, 2]]), wrong("weight_norm_backward")
    right = combine("dyt/weight_norm_backward")(dw, v, g)
    np.testing.assert_allclose((right[0] * v).sum(), 0, atol=1e-12)
    for name in ("length_detached", "part_along_v_added"):
        assert abs((found[name](dw, v, g)[0] * v).sum()) > 1
    np.testing.assert_allclose(found["dg_with_v"](dw, v, g)[1], 5 * right[1])


def test_the_shared_mistakes_reach_both_layers():
    for name in ("DyT", "Derf"):
        assert {"plain_tensors", "gamma_per_example", "alpha_per_feature"} <= wrong(name).keys()
    assert "gradients_over_features" in wrong("dyt_backward")


@pytest.mark.parametrize("name", ["replace_norms", "replace_norms_by_path"])
def test_both_ways_through_a_model_replace_the_same_norms(name):
    norms = torch.nn.LayerNorm(3), torch.nn.RMSNorm(3), torch.nn.LayerNorm(3, bias=False)
    inner = torch.nn.Sequential(torch.nn.Linear(3, 3), norms[1])
    model = torch.nn.Sequential(norms[0], inner, torch.nn.BatchNorm1d(3), norms[2])
    dyt = combine("dyt/DyT")
    assert combine(f"dyt/{name}")(model, dyt, 0.8) is model
    for layer, norm in zip((model[0], inner[1], model[3]), norms, strict=True):
        assert type(layer) is dyt and layer.alpha.item() == pytest.approx(0.8)
        assert layer.weight is norm.weight
    assert model[0].bias is norms[0].bias and inner[1].bias.tolist() == [0, 0, 0]
    assert sum(isinstance(module, dyt) for module in model.modules()) == 3
