"""Stream and gradient by layer: the table of the page within a factor, and its mistakes."""

import math
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

from normkit.experiments.streams import _layers, stream_by_layer
from normkit.placements import Keel, Stack

VARIANCE = {  # after layers 1, 8 and 16 of 16, medians of three other seeds
    "post": (1, 1, 1), "deep": (1, 1, 1), "admin": (1, 1, 1), "b2t": (1, 1, 1), "keel": (1, 1, 1),
    "pre": (1.50, 7.99, 15.2), "hyper": (1.50, 7.99, 15.2), "mhc": (1.50, 7.99, 15.2),
    "scaled": (1.50, 2.93, 3.38), "sub_ln": (9.91, 71.5, 129), "peri": (2.91, 17.6, 28.5),
    "output": (2.88, 17.3, 29.6), "res_post": (0.91, 0.91, 0.91), "mix": (1, 5.25, 14.2),
    "hybrid": (1.23, 1.16, 1.25), "siamese": (1.50, 7.59, 14.3),
}  # fmt: skip


@cache
def measured(placement, layers=16, qk_norm=None):
    """The median of three seeds for each layer."""
    rows = stream_by_layer([placement], [layers], qk_norm=qk_norm)
    names = ("variance", "gradient", "change", "weights")
    return {
        name: np.array(
            [
                np.median([row.get(name, math.nan) for row in rows if row["layer"] == layer])
                for layer in range(layers + 1)
            ]
        )
        for name in names
    }


@pytest.mark.parametrize("placement", VARIANCE)
def test_the_variance_of_the_stream(placement):
    found = measured(placement)["variance"][[1, 8, 16]]
    assert np.all(np.abs(np.log(found / VARIANCE[placement])) < math.log(1.5))


def test_scaling_grows_as_the_harmonic_numbers():
    for layers in (8, 32, 64):
        harmonic = sum(1 / n for n in range(1, layers + 1))
        found = measured("scaled", layers)["variance"][-1]
        assert 0.7 < (found - 1) / (0.75 * harmonic) < 1.4
        assert measured("pre", layers)["variance"][-1] > 0.7 * layers
    sub_layers = [Stack(32, 16, "scaled") for _ in range(3)]
    wrong = []
    for seed, stack in enumerate(sub_layers):
        blocks = [block for layer in stack.layers for block in layer]
        for i, block in enumerate(blocks, start=1):
            block.layer = i
        *_, last = _layers(torch.Generator().manual_seed(seed), stack)
        wrong.append(last["variance"])
    assert np.median(wrong) < 0.85 * measured("scaled")["variance"][-1]


def test_scaling_makes_late_layers_smaller():
    assert measured("scaled", 64)["change"][-1] < 0.6 * measured("pre", 64)["change"][-1]


def test_order_of_olmo_needs_qk_norm():
    without, with_qk = measured("output"), measured("output", qk_norm="full")
    assert without["gradient"][0] > 4 * with_qk["gradient"][0]
    assert without["weights"][1] > 2 * with_qk["weights"][1]


def test_keel_leaves_the_stream_nearly_alone_after_its_first_layer():
    assert np.all(measured("keel")["change"][2:] < 0.05)
    assert np.all(measured("post")["change"][2:] > 0.3)
    found = measured("keel")["weights"]
    assert found[2:].max() < 0.1 * found[1]


def test_deepnorm_and_the_start_of_b2t_are_nearly_the_same():
    for name in ("gradient", "weights"):
        ratio = measured("b2t")[name][1:] / measured("deep")[name][1:]
        assert np.all(np.abs(ratio - 1) < 0.05)


def test_the_way_around():
    """Keel's α keeps it; without α it is divided by the root of two at each sub-layer."""

    def around(alpha):
        torch.manual_seed(0)
        blocks = nn.Sequential(*(Keel(torch.randn_like, 256, alpha) for _ in range(12)))
        x = torch.randn(8, 256, requires_grad=True)
        g = torch.randn(8, 256)
        (found,) = torch.autograd.grad(blocks(x), x, g)
        return (found.norm() / g.norm()).item()

    assert 0.9 < around(12) < 1.1
    assert 0.5 * 2**-6 < around(1) < 3 * 2**-6
