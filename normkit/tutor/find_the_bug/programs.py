"""Tests of programs, and names for their faults: the right ones.

A test compares what the program that it is given does with what the mended one does. `given` is
the program with the fault.
"""

from itertools import cycle
from typing import Any

import numpy as np

from normkit.functions import layer_norm
from normkit.tutor.find_the_bug.changing import made
from normkit.tutor.find_the_bug.tasks import BUGS
from normkit.tutor.programs import program

TURNS = cycle([True, False])  # stands for numbers that are drawn anew


def both(bug: str) -> tuple[Any, Any]:
    """The right program, and the one that was given."""
    return made(BUGS[bug].text()), made(BUGS[bug].text(BUGS[bug].mistake))


def flat(*results: Any) -> np.ndarray:
    """All numbers of some results in a row."""
    arrays = [r.detach().numpy() if hasattr(r, "detach") else np.asarray(r) for r in results]
    return np.concatenate([array.ravel() for array in arrays])


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape) * 2 + 1


def tensor(*shape: int) -> Any:
    import torch

    return torch.from_numpy(random(*shape).astype("f"))


@program
def fault_names():
    fault = {}
    fault["layer_norm"] = "axes"
    fault["batch_norm"] = "variance"
    fault["rms_norm"] = "eps"
    fault["running_batch_norm"] = "momentum"
    fault["group_norm"] = "groups"
    fault["batch_norm_layer"] = "mode"
    fault["layer_norm_layer"] = "shape"
    fault["post_block"] = "residual"
    fault["fold_affine"] = "layer"
    fault["deepnorm_constants"] = "sign"
    return fault


@program
def program_test(function, results, mended, given):
    seen = results(function)
    expected = results(mended)
    assert np.allclose(seen, expected, atol=1e-5)


@program
def test_layer_norm(function):
    def results(function):
        gamma, beta = np.array([1, 2, 3, 4]), np.array([0, 1, 0, 2])
        y = function(random(2, 3, 4), gamma, beta)
        return flat(y)

    return program_test(function, results, *both("layer_norm"))


@program
def test_batch_norm(function):
    def results(function):
        gamma, beta = np.array([1, 2, 3]), np.array([0, 1, 2])
        y = function(random(4, 3), gamma, beta)
        return flat(y)

    return program_test(function, results, *both("batch_norm"))


@program
def test_rms_norm(function):
    def results(function):
        gamma = np.array([1, 2, 3])
        y = function(random(2, 3) * 1e-3, gamma, eps=1e-4)
        return flat(y)

    return program_test(function, results, *both("rms_norm"))


@program
def test_running_batch_norm(function):
    def results(function):
        start = np.array([1, 2, 3]), np.array([1, 2, 4])
        y, mean, var = function(random(4, 3), np.ones(3), np.zeros(3), *start, momentum=0.3)
        return flat(y, mean, var)

    return program_test(function, results, *both("running_batch_norm"))


@program
def test_group_norm(function):
    def results(function):
        y = function(random(2, 6, 3), 2, np.arange(1, 7), np.arange(6))
        return flat(y)

    return program_test(function, results, *both("group_norm"))


@program
def test_batch_norm_layer(function):
    def results(function):
        layer = function(3)
        trained = layer(tensor(5, 3))
        layer.eval()
        evaluated = layer(tensor(4, 3))
        return flat(trained, evaluated, layer.running_mean, layer.running_var)

    return program_test(function, results, *both("batch_norm_layer"))


@program
def test_layer_norm_layer(function):
    def results(function):
        layer = function(4)
        y = layer(tensor(2, 3, 4))
        count = sum(parameter.numel() for parameter in layer.parameters())
        return flat(y, count)

    return program_test(function, results, *both("layer_norm_layer"))


@program
def test_post_block(function):
    def results(function):
        branches = np.tanh, lambda v: v @ random(3, 3)
        y = function(random(2, 3), *branches, [layer_norm, layer_norm])
        return flat(y)

    return program_test(function, results, *both("post_block"))


@program
def test_fold_affine(function):
    def results(function):
        bias = random(3)
        gamma = np.array([1.0, 2, 3])
        beta = np.array([1.0, 0, 2])
        new_weight, new_bias = function(random(3, 3), bias, gamma, beta)
        return flat(new_weight, new_bias)

    return program_test(function, results, *both("fold_affine"))


@program
def test_deepnorm_constants(function):
    def results(function):
        alpha, beta = function(0, 18)["decoder"]
        return flat(alpha, beta)

    return program_test(function, results, *both("deepnorm_constants"))
