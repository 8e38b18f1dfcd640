"""Experiments with perceptrons: the numbers that the course relies on, with wide margins."""

import math

import numpy as np
import pytest

from normkit import experiments


@pytest.fixture(scope="module")
def sigmoids():
    return experiments.trainability(["sigmoid"], lrs=[0.1], seeds=[0, 1])


def test_batch_norm_makes_deep_sigmoids_train(sigmoids, values):
    assert values(sigmoids, "accuracy", norm="batch").min() >= 0.9
    assert values(sigmoids, "accuracy", norm="none").max() <= 0.2


def test_batch_norm_bears_a_greater_rate(values):
    rows = experiments.trainability(["relu"], lrs=[1.0], seeds=[0, 1])
    assert values(rows, "accuracy", norm="batch").min() > 0.75
    assert values(rows, "accuracy", norm="none").max() < 0.3


def test_delay_and_noise_of_a_running_mean():
    for row in experiments.running_mean(momenta=[0.1, 0.01]):
        assert row["steps"] == pytest.approx(row["expected_steps"], rel=0.08)
        assert row["std"] == pytest.approx(row["expected_std"], rel=0.1)
    (row,) = experiments.running_mean(momenta=[0.9])
    assert row["std"] == pytest.approx(0.320, rel=0.1)


@pytest.fixture(scope="module")
def signals():
    return experiments.saturation(gains=[0.5, 3.0, 10.0])


def test_without_norm_the_signal_fades_or_saturates(signals, values):
    def plain(of, gain, layer):
        return values(signals, of, norm="none", gain=gain, layer=layer).item()

    assert plain("std", 0.5, 10) < 0.002
    assert plain("saturated", 3.0, 1) == pytest.approx(0.474, abs=0.04)
    assert plain("saturated", 3.0, 10) == pytest.approx(0.400, abs=0.04)
    assert plain("saturated", 10.0, 10) == pytest.approx(0.828, abs=0.04)
    assert plain("gradient", 10.0, 1) > 100 * plain("gradient", 10.0, 10)


@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_with_norm_the_gain_does_not_matter(signals, norm, values):
    for layer in (1, 10):
        assert values(signals, "std", norm=norm, layer=layer) == pytest.approx(0.63, abs=0.02)
        saturated = values(signals, "saturated", norm=norm, layer=layer)
        assert saturated == pytest.approx(0.034, abs=0.01) and np.ptp(saturated) < 1e-3
        gradients = [
            values(signals, "gradient", norm=norm, layer=layer, gain=gain).item()
            for gain in (0.5, 3.0, 10.0)
        ]
        assert gradients == pytest.approx([gradients[0], gradients[0] / 6, gradients[0] / 20], 0.02)


@pytest.fixture(scope="module")
def names():
    return experiments.names_model(["normal", "small"], at=[0, 500])


def test_the_names_model_starts_saturated_without_norm(names, values):
    def at(of, **settings):
        return values(names, of, **settings).item()

    assert at("saturated", start="normal", norm="none", step=0) == pytest.approx(0.68, abs=0.1)
    assert at("saturated", start="normal", norm="batch", step=0) < 0.06
    assert at("train", start="normal", norm="none", step=0) > 15
    assert at("train", start="small", norm="none", step=0) == pytest.approx(math.log(35), abs=0.1)
    for norm in ("none", "batch"):
        assert at("development", start="small", norm=norm, step=500) < 2.7
    bad, good = (at("development", start="normal", norm=n, step=500) for n in ("none", "batch"))
    assert bad > good + 1
