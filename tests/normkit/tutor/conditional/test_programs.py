"""Conditional norms: the right programs are normkit's, and the numbers that messages state."""

import math

import numpy as np
import pytest
import torch

from normkit import conditional
from normkit.conditional_layers import AdaLNZero
from normkit.tutor.mistakes import combine, mistakes_of


def wrong(program):
    """The program with each of its mistakes, by name."""
    return {
        m.name: combine(f"conditional/{program}", m) for m in mistakes_of(f"conditional/{program}")
    }


def test_the_programs_for_channels_are_those_of_the_package():
    rng = np.random.default_rng(0)
    x, scales, shifts = rng.normal(size=(4, 3, 2, 5)), *rng.normal(size=(2, 6, 3))
    labels = np.array([5, 0, 5, 2])
    scale, shift = scales[labels], shifts[labels]
    film = combine("conditional/film")(x, scale, shift)
    np.testing.assert_allclose(film, conditional.modulate(x, scale, shift, axis=1))
    ours = combine("conditional/conditional_batch_norm")(x, labels, scales, shifts)
    right, *_ = conditional.conditional_batch_norm(x, scale, shift, training=True)
    np.testing.assert_allclose(ours, right)


def test_the_gradients_are_those_of_autograd():
    rng = np.random.default_rng(1)
    dy, x = rng.normal(size=(2, 3, 4, 5))
    rows, weight = rng.normal(size=(3, 3, 5)), rng.normal(size=(5, 5))
    found = combine("conditional/adaln_zero_backward")(dy, x, *rows, weight)
    leaves = [torch.tensor(a, requires_grad=True) for a in (x, *rows)]
    tx, shift, scale, gate = leaves
    xhat = torch.nn.functional.layer_norm(tx, (5,), eps=1e-6)
    h = (1 + scale[:, None]) * xhat + shift[:, None]
    (tx + gate[:, None] * (h @ torch.tensor(weight))).backward(torch.tensor(dy))
    for ours, leaf in zip(found, leaves, strict=True):
        np.testing.assert_allclose(ours, leaf.grad, atol=1e-12)


def test_the_layer_is_that_of_the_package():
    torch.manual_seed(0)
    branch = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
    ours, theirs = combine("conditional/AdaLNZero")(branch, 4, 3), AdaLNZero(branch, 4, 3)
    torch.nn.init.normal_(ours.modulation.weight)
    theirs.load_state_dict(ours.state_dict())
    x, c = torch.randn(2, 5, 4), torch.randn(2, 3)
    torch.testing.assert_close(ours(x, c), theirs(x, c))


@pytest.mark.parametrize(("program", "rest"), [("film", ()), ("adaptive_layer_norm", ())])
def test_zero_is_neutral_only_with_the_one(program, rest):
    x, zero = np.array([[[1.0, 3], [5, 7]]]), np.zeros((1, 2))
    assert np.any(combine(f"conditional/{program}")(x, zero, zero))
    assert not np.any(wrong(program)["scale_without_one"](x, zero, zero))


def test_numbers_that_the_messages_state():
    one = np.ones((1, 1))
    film = wrong("film")
    np.testing.assert_allclose(film["exponential_scale"](one, one, 0 * one), math.e)
    np.testing.assert_allclose(combine("conditional/film")(one, one, 0 * one), 2)
    x, style = np.array([[[-1.0, 1]]]), np.array([[[10.0, 10, 20, 20]]])
    right, unbiased = combine("conditional/adaptive_instance_norm"), wrong("adaptive_instance_norm")
    np.testing.assert_allclose(right(x, style, eps=0), 15 + 5 * x)
    np.testing.assert_allclose(unbiased["unbiased_style"](x, style, eps=0), 15 + 5.7735 * x, 1e-5)
    variance = unbiased["style_variance_for_deviation"]
    np.testing.assert_allclose((variance(x, 2 * style, 0) - 30) / (variance(x, style, 0) - 15), 4)
    np.testing.assert_allclose(right(x * 1e-3, x * 1e-3), x * 1e-3)
    for name in ("eps_missing_in_style", "eps_outside_style_root"):
        assert np.abs(unbiased[name](x * 1e-3, x * 1e-3) - x * 1e-3).max() > 1e-5
    c = torch.linspace(-9, 9, 10001)
    assert torch.nn.functional.silu(c).min().item() == pytest.approx(-0.28, abs=0.005)


def test_an_example_alone_in_its_class_comes_out_as_beta():
    x, labels = np.array([[1.0], [3], [5], [7]]), np.array([0, 1, 1, 1])
    rows = np.array([[2.0], [0]]), np.array([[9.0], [0]])
    found = wrong("conditional_batch_norm")["statistics_per_class"](x, labels, *rows)
    np.testing.assert_allclose(found[0], 9)


def test_dx_keeps_what_the_messages_say():
    rng = np.random.default_rng(2)
    dy, x = rng.normal(size=(2, 1, 3, 5))
    rows, weight = rng.normal(size=(3, 1, 5)), rng.normal(size=(5, 5))
    centred = x - x.mean(axis=-1, keepdims=True)
    given = dy, x, *rows, weight, 1e-12
    through = combine("conditional/adaln_zero_backward")(*given)[0] - dy
    np.testing.assert_allclose(through.sum(axis=-1), 0, atol=1e-9)
    np.testing.assert_allclose((through * centred).sum(axis=-1), 0, atol=1e-9)
    found = wrong("adaln_zero_backward")
    assert np.abs((found["mean_term_missing"](*given)[0] - dy).sum(axis=-1)).max() > 0.1
    missing = found["xhat_term_missing"](*given)[0] - dy
    assert np.abs((missing * centred).sum(axis=-1)).max() > 0.1


def test_the_two_zeros_hold_each_other():
    branch = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh(), torch.nn.Linear(3, 3))
    block = wrong("AdaLNZero")["branch_zeroed"](branch, 3, 2)
    x, c = torch.randn(2, 4, 3), torch.randn(2, 2)
    block(x, c).square().sum().backward()
    assert not any(parameter.grad.any() for parameter in block.parameters())
