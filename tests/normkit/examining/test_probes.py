"""What a norm does is measured: its class may have any name."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import normkit
from normkit.examining.probes import Sample, probe


def renamed(module):
    """The module under a class that says nothing."""
    module.__class__ = type("Layer", (type(module),), {})
    return module


class Hand(nn.Module):
    """A foreign norm, given by what it does with its weight."""

    def __init__(self, forward, d=16, start=1.0):
        super().__init__()
        self.w = nn.Parameter(torch.full((d,), start))
        self.compute = forward

    def forward(self, x):
        return self.compute(x, self.w)


def rms(x, w):  # Llama
    h = x.float()
    return w * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)


def gemma(x, w):
    h = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
    return (h * (1 + w.float())).to(x.dtype)


def annotated(x, w):  # The Annotated Transformer
    return w * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6)


def tensorflow(x, w):  # BERT's first port
    u = x.mean(-1, keepdim=True)
    s = (x - u).pow(2).mean(-1, keepdim=True)
    return w * (x - u) / torch.sqrt(s + 1e-12)


def channels_first(x, w):  # ConvNeXt
    u = x.mean(1, keepdim=True)
    s = (x - u).pow(2).mean(1, keepdim=True)
    return w[:, None, None] * (x - u) / torch.sqrt(s + 1e-6)


def unbiased(x, w):
    return w * (x - x.mean(-1, keepdim=True)) * torch.rsqrt(x.var(-1, keepdim=True) + 1e-5)


def functional(x, w):
    return F.layer_norm(x, (x.shape[-1],), w, None, 1e-3)


def heads(x, w):  # a norm of each half of the features
    return (rms(x.unflatten(-1, (2, 8)), w.view(2, 8))).flatten(-2)


def over_batch(x, w):
    return w * (x - x.mean((0, 1))) * torch.rsqrt(x.var((0, 1), correction=0) + 1e-5)


def positions(x, w):  # over time and features
    return w * F.layer_norm(x, x.shape[1:], eps=1e-5)


TOKENS, IMAGES = (3, 5, 16), (2, 16, 7, 7)  # tokens, images
CASES = [  # module, shape, kind, axes, values, ε
    (nn.BatchNorm1d(16), (6, 16), "batch", (0,), 6, 1e-5),
    (nn.BatchNorm1d(16), (2, 16, 9), "batch", (0, 2), 18, 1e-5),
    (nn.BatchNorm2d(16, eps=1e-3), IMAGES, "batch", (0, 2, 3), 98, 1e-3),
    (nn.BatchNorm2d(16, affine=False), IMAGES, "batch", (0, 2, 3), 98, 1e-5),
    (nn.BatchNorm3d(16), (2, 16, 3, 4, 5), "batch", (0, 2, 3, 4), 120, 1e-5),
    (nn.SyncBatchNorm(16), IMAGES, "batch", (0, 2, 3), 98, 1e-5),
    (nn.LayerNorm(16), TOKENS, "layer", (2,), 16, 1e-5),
    (nn.LayerNorm(16, eps=1e-12), (3, 16, 16), "layer", (2,), 16, 1e-12),
    (nn.LayerNorm(16, elementwise_affine=False), TOKENS, "layer", (2,), 16, 1e-5),
    (nn.LayerNorm((5, 16)), TOKENS, "layer", (1, 2), 80, 1e-5),
    (nn.LayerNorm((16, 7, 7)), IMAGES, "layer", (1, 2, 3), 784, 1e-5),
    (nn.RMSNorm(16, eps=1e-6), TOKENS, "rms", (2,), 16, 1e-6),
    (nn.GroupNorm(4, 16), IMAGES, "group", (1, 2, 3), 196, 1e-5),
    (nn.GroupNorm(1, 16), IMAGES, "group", (1, 2, 3), 784, 1e-5),
    (nn.GroupNorm(4, 16), (5, 16), "group", (1,), 4, 1e-5),
    (nn.InstanceNorm1d(16), (2, 16, 16), "instance", (2,), 16, 1e-5),
    (nn.InstanceNorm2d(16), IMAGES, "instance", (2, 3), 49, 1e-5),
    (nn.InstanceNorm2d(16, affine=True), (2, 16, 16, 16), "instance", (2, 3), 256, 1e-5),
    (nn.InstanceNorm2d(16, track_running_stats=True), IMAGES, "instance", (2, 3), 49, 1e-5),
    (normkit.BatchNorm1d(16), (6, 16), "batch", (0,), 6, 1e-5),
    (normkit.BatchNorm2d(16), IMAGES, "batch", (0, 2, 3), 98, 1e-5),
    (normkit.LayerNorm(16), TOKENS, "layer", (2,), 16, 1e-5),
    (normkit.RMSNorm(16, eps=1e-6), TOKENS, "rms", (2,), 16, 1e-6),
    (normkit.GroupNorm(4, 16), IMAGES, "group", (1, 2, 3), 196, 1e-5),
    (normkit.InstanceNorm2d(16), IMAGES, "instance", (2, 3), 49, 1e-5),
    (normkit.DyT(16), TOKENS, "pointwise", (), 1, None),
    (Hand(rms), TOKENS, "rms", (2,), 16, 1e-5),
    (Hand(gemma, start=0.0), TOKENS, "rms", (2,), 16, 1e-6),
    (Hand(annotated), TOKENS, "layer", (2,), 16, 1e-6),
    (Hand(tensorflow), TOKENS, "layer", (2,), 16, 1e-12),
    (Hand(channels_first), IMAGES, "layer", (1,), 16, 1e-6),
    (Hand(unbiased), TOKENS, "layer", (2,), 16, 1e-5),
    (Hand(functional), TOKENS, "layer", (2,), 16, 1e-3),
    (Hand(heads), TOKENS, "rms", (2,), 8, 1e-5),
    (Hand(over_batch), TOKENS, "batch", (0, 1), 15, 1e-5),
    (Hand(positions), TOKENS, "layer", (1, 2), 80, 1e-5),
    (nn.Identity(), TOKENS, "none", (), 1, None),
    (nn.Softplus(), TOKENS, "pointwise", (), 1, None),
    (nn.Softmax(-1), TOKENS, None, (2,), 16, None),
]  # fmt: skip


@pytest.mark.parametrize(
    "module, shape, kind, axes, count, eps",
    CASES,
    ids=lambda v: type(v).__name__ if isinstance(v, nn.Module) else "",
)
def test_kind_axes_count_and_eps_are_measured(module, shape, kind, axes, count, eps):
    known = isinstance(
        module, (nn.SyncBatchNorm, nn.GroupNorm, nn.modules.instancenorm._InstanceNorm)
    )
    found = probe(module if known else renamed(module), Sample(shape))
    assert (found.kind, found.axes, found.count(shape)) == (kind, axes, count), found
    assert found.eps == (eps if eps is None else pytest.approx(eps, rel=1e-2))


def test_what_published_norms_do_differently_is_measured():
    assert probe(Hand(annotated), Sample(TOKENS)).unbiased
    assert probe(Hand(annotated), Sample(TOKENS)).eps_inside is False
    assert probe(Hand(unbiased), Sample(TOKENS)).unbiased
    assert not probe(Hand(tensorflow), Sample(TOKENS)).unbiased
    assert probe(Hand(tensorflow), Sample(TOKENS)).eps_inside
    assert probe(nn.GroupNorm(16, 16), Sample((8, 16))).constant
    assert not probe(nn.GroupNorm(8, 16), Sample((8, 16))).constant
    assert probe(nn.BatchNorm2d(16), Sample(IMAGES)).shift_per_channel
    assert not probe(nn.GroupNorm(4, 16), Sample(IMAGES)).shift_per_channel


def test_a_norm_that_fails_says_why():
    class Fails(nn.Module):
        def forward(self, x):
            raise ZeroDivisionError("no such thing")

    assert probe(Fails(), Sample(TOKENS)).trouble == "ZeroDivisionError: no such thing"
