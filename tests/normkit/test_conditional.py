"""Conditional norms: worked numbers, torch, what wakes when, refusals."""

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from normkit.conditional import (
    adaptive_instance_norm,
    adaptive_layer_norm,
    adaptive_layer_norm_backward,
    conditional_batch_norm,
    modulate,
    modulate_backward,
)
from normkit.conditional_layers import AdaLN, AdaLNZero, ConditionalBatchNorm2d, FiLM

F64 = {"dtype": torch.float64}
X, SCALE, SHIFT, GATE = np.array([[0.0, 2, 4], [1, 0, -0.5], [0, 1, 0], [0.5, 1, 1]])
LIBRARIES = {"numpy": np.asarray, "torch": torch.tensor, "jax": jnp.asarray}
libraries = pytest.mark.parametrize("library", LIBRARIES)
# Shapes of x, of scale and shift, the axis, and those that broadcasting lines up with x.
SHAPES = [
    ((5,), (5,), -1, (5,)),
    ((2, 3, 5), (5,), -1, (1, 1, 5)),
    ((2, 3, 5), (2, 5), -1, (2, 1, 5)),
    ((4, 4, 5), (4, 5), -1, (4, 1, 5)),  # as many tokens as examples
    ((2, 3, 5), (2, 3, 1), -1, (2, 3, 1)),
    ((4, 5), (4, 5), -1, (4, 5)),
    ((2, 5, 3, 4), (5,), 1, (1, 5, 1, 1)),
    ((2, 5, 3, 4), (2, 5), 1, (2, 5, 1, 1)),
    ((4, 5, 4, 5), (4, 5), 1, (4, 5, 1, 1)),  # an image of the size of the batch
    ((2, 5, 3, 4), (2, 5, 3, 4), 1, (2, 5, 3, 4)),
    ((2, 5, 3, 4), (2, 1, 3, 4), 1, (2, 1, 3, 4)),
]
shapes = pytest.mark.parametrize(("shape", "small", "axis", "lined"), SHAPES)


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


# --- Scale and shift --------------------------------------------------------------------------


@shapes
def test_modulate_lines_up_examples_and_features(shape, small, axis, lined):
    x, (scale, shift) = draw(*shape), draw(2, *small, seed=1)
    expected = (1 + scale.reshape(lined)) * x + shift.reshape(lined)
    np.testing.assert_allclose(modulate(x, scale, shift, axis), expected)
    np.testing.assert_array_equal(modulate(x, 0 * scale, 0 * shift, axis), x)


@shapes
def test_modulate_backward_agrees_with_torch(shape, small, axis, lined, torch_gradients, same):
    (dy, x), (scale, shift) = draw(2, *shape), draw(2, *small, seed=1)

    def forward(x, scale, shift):
        return (1 + scale.reshape(lined)) * x + shift.reshape(lined)

    ours = modulate_backward(dy, x, scale, axis)
    same(ours, torch_gradients(forward, dy, x, scale, shift))
    assert ours[1].shape == ours[2].shape == small


@libraries
def test_libraries_agree(library, double_precision):
    make = LIBRARIES[library]
    x, dy = draw(2, 3, 4, 5)
    scale, shift = draw(2, 3, 5, seed=1)
    channel, style = draw(2, 3, 4, seed=2), draw(3, 4, 7, seed=3)
    given = [make(a) for a in (x, dy, scale, shift, *channel, style)]
    a, b, s, t, cs, ct, st = given
    found = [
        modulate(a, s, t),
        *modulate_backward(b, a, s),
        adaptive_layer_norm(a, s, t),
        *adaptive_layer_norm_backward(b, a, s),
        *conditional_batch_norm(a, cs, ct, training=True),
        adaptive_instance_norm(a, st),
    ]
    expected = [
        modulate(x, scale, shift),
        *modulate_backward(dy, x, scale),
        adaptive_layer_norm(x, scale, shift),
        *adaptive_layer_norm_backward(dy, x, scale),
        *conditional_batch_norm(x, *channel, training=True),
        adaptive_instance_norm(x, style),
    ]
    for ours, wanted in zip(found, expected, strict=True):
        assert type(ours) is type(a)
        np.testing.assert_allclose(np.asarray(ours), wanted, atol=1e-12)


def test_half_precision_is_rounded_once():
    x, scale = torch.randn(2, 8, 64).bfloat16(), torch.randn(2, 2, 64).bfloat16()
    y = adaptive_layer_norm(x, *scale)
    assert y.dtype == torch.bfloat16
    wide = adaptive_layer_norm(x.double(), *scale.double())
    assert torch.equal(y, wide.bfloat16())


# --- AdaLN ------------------------------------------------------------------------------------


def test_adaptive_layer_norm_by_hand():
    y = adaptive_layer_norm(X, SCALE, SHIFT, eps=0)
    np.testing.assert_allclose(y, [-2.4495, 1, 0.6124], atol=5e-5)
    np.testing.assert_allclose(X + GATE * [y[2], 0, 0], [0.3062, 2, 4], atol=5e-5)
    dbranch = GATE * np.array([1.0, 0, 0])
    dh = np.array([0, 0, dbranch[0]])
    dx, dscale, dshift = adaptive_layer_norm_backward(dh, X, SCALE, eps=0)
    np.testing.assert_allclose(dscale, [0, 0, 0.6124], atol=5e-5)
    np.testing.assert_allclose(dshift, [0, 0, 0.5], atol=5e-5)
    np.testing.assert_allclose(dx, [0.0255, -0.0510, 0.0255], atol=5e-5)


@pytest.mark.parametrize("small", [(2, 5), (5,), (2, 3, 5)])
def test_adaptive_layer_norm_agrees_with_torch(small, torch_gradients, same):
    dy, x = 3 * draw(2, 2, 3, 5) + 1
    scale, shift = draw(2, *small, seed=1)

    def forward(x, scale, shift):
        scale, shift = (p[:, None] if p.shape == (2, 5) else p for p in (scale, shift))
        return functional.layer_norm(x, (5,), eps=1e-6) * (1 + scale) + shift

    expected = forward(*map(torch.tensor, (x, scale, shift)))
    np.testing.assert_allclose(adaptive_layer_norm(x, scale, shift), expected, atol=1e-12)
    ours = adaptive_layer_norm_backward(dy, x, scale)
    same(ours, torch_gradients(forward, dy, x, scale, shift))


def test_adaptive_layer_norm_backward_by_finite_differences():
    dy, x = draw(2, 2, 3, 5)
    scale, shift = draw(2, 2, 5, seed=1)
    found = adaptive_layer_norm_backward(dy, x, scale)
    for i, gradient in enumerate(found):
        arrays = [x, scale, shift]
        for place in [(0, 1), (1, 2)]:
            step = np.zeros_like(arrays[i])
            step[(*place, 3)[: step.ndim]] = 1e-6
            up, down = (
                adaptive_layer_norm(*(a + h if i == j else a for j, a in enumerate(arrays)))
                for h in (step, -step)
            )
            slope = ((up - down) * dy).sum() / 2e-6
            np.testing.assert_allclose(gradient[(*place, 3)[: step.ndim]], slope, atol=1e-7)


def test_dx_of_adaptive_layer_norm_has_no_mean_and_no_scale():
    dy, x = draw(2, 4, 3, 5)
    dx = adaptive_layer_norm_backward(dy, x, draw(4, 5, seed=1), eps=0)[0]
    np.testing.assert_allclose(dx.sum(-1), 0, atol=1e-12)
    np.testing.assert_allclose((dx * x).sum(-1), 0, atol=1e-12)


# --- BatchNorm and InstanceNorm ---------------------------------------------------------------


def test_conditional_batch_norm_by_hand():
    x = np.array([1.0, 3, 5, 7]).reshape(4, 1)
    scale, shift = np.array([[0.0, 0, 1, 1], [0, 0, 2, 2]])[..., None]
    y, mean, var = conditional_batch_norm(x, scale, shift, training=True, momentum=1, eps=0)
    np.testing.assert_allclose(y[:, 0], [-1.3416, -0.4472, 2.8944, 4.6833], atol=5e-5)
    np.testing.assert_allclose([mean[0], var[0]], [4, 20 / 3])
    # The condition changes neither mean nor variance: not so if each class had its own.
    other = conditional_batch_norm(x, -3 * scale, shift, training=True, momentum=1, eps=0)
    np.testing.assert_array_equal([mean, var], other[1:])
    y, *_ = conditional_batch_norm(x, scale, shift, mean, var, training=False, eps=0)
    np.testing.assert_allclose(y[:2, 0], [-3 / (20 / 3) ** 0.5, -1 / (20 / 3) ** 0.5])


def test_spade_keeps_what_a_uniform_mask_says():
    """Two labels: after InstanceNorm the features of a uniform mask are 0, SPADE's are not."""
    x, masks = draw(1, 2, 4, 4), (np.full((1, 2, 4, 4), 0.5), np.full((1, 2, 4, 4), -2.0))
    y = [conditional_batch_norm(x, mask, mask, training=True)[0] for mask in masks]
    assert np.abs(y[0] - y[1]).max() > 1


def test_adaptive_instance_norm_by_hand():
    x, style = np.array([[[1.0, 3, 5, 7]]]), np.array([[[10.0, 10, 20, 20]]])
    y = adaptive_instance_norm(x, style, eps=0)
    np.testing.assert_allclose(y, [[[8.2918, 12.7639, 17.2361, 21.7082]]], atol=5e-5)
    np.testing.assert_allclose([y.mean(), y.std()], [15, 5])  # 5.7735 would be unbiased


def test_adaptive_instance_norm_has_the_statistics_of_the_style():
    x, style = 3 * draw(2, 3, 4, 5) + 1, draw(2, 3, 6, 2, seed=1)
    y = adaptive_instance_norm(x, style, eps=0)
    for statistic in (np.mean, np.std):
        np.testing.assert_allclose(statistic(y, axis=(2, 3)), statistic(style, axis=(2, 3)))
    np.testing.assert_allclose(adaptive_instance_norm(5 * x - 2, style, eps=0), y)
    for size in (1, 1e-3):  # here ε weighs as much as the variance
        np.testing.assert_allclose(adaptive_instance_norm(size * x, size * x), size * x, atol=1e-12)
    big = 1e200 * style
    np.testing.assert_allclose(adaptive_instance_norm(x, big) / 1e200, y, atol=1e-4)


# --- Layers -----------------------------------------------------------------------------------


def random(module, seed=1):
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        nn.init.normal_(parameter, 0, 0.5, generator=generator)
    return module


def layers():
    return {
        "AdaLN": (AdaLN(5, 4, **F64), (2, 3, 5)),
        "AdaLNZero": (AdaLNZero(nn.Linear(5, 5, **F64), 5, 4, **F64), (2, 3, 5)),
        "FiLM": (FiLM(5, 4, **F64), (2, 5, 3, 3)),
        "CBN": (ConditionalBatchNorm2d(5, 4, **F64), (2, 5, 3, 3)),
    }


@pytest.mark.parametrize("name", layers())
def test_at_the_start_the_condition_changes_nothing(name):
    layer, shape = layers()[name]
    x = torch.tensor(3 * draw(*shape) + 1)
    a, b = (layer(x, torch.tensor(draw(2, 4, seed=seed))) for seed in (1, 2))
    assert torch.equal(a, b)
    plain = {
        "AdaLN": nn.LayerNorm(5, 1e-6, **F64),
        "AdaLNZero": nn.Identity(),
        "FiLM": nn.Identity(),
        "CBN": nn.BatchNorm2d(5, **F64),
    }[name]
    torch.testing.assert_close(a, plain(x))
    random(layer)
    a, b = (layer(x, torch.tensor(draw(2, 4, seed=seed))) for seed in (1, 2))
    assert (a - b).abs().max() > 0.1


def test_block_is_that_of_dit():
    """Against DiT's own lines: chunk in the order shift, scale, gate, and 1 + scale."""
    x, c = torch.tensor(draw(2, 3, 5)), torch.tensor(draw(2, 4, seed=1))
    block = random(AdaLNZero(nn.Linear(5, 5, **F64), 5, 4, **F64))
    shift, scale, gate = block.modulation(functional.silu(c))[:, None].chunk(3, dim=-1)
    h = functional.layer_norm(x, (5,), eps=1e-6) * (1 + scale) + shift
    torch.testing.assert_close(block(x, c), x + gate * block.branch(h))


def test_a_condition_per_token():
    x, c = torch.tensor(draw(2, 3, 5)), torch.tensor(draw(2, 3, 4, seed=1))
    block = random(AdaLNZero(nn.Linear(5, 5, **F64), 5, 4, **F64))
    whole = block(x, c)
    for t in range(3):
        torch.testing.assert_close(whole[:, t], block(x[:, t], c[:, t]))


def test_conditional_batch_norm_layer():
    x, c = torch.tensor(draw(6, 3, 2, 2)), torch.tensor(draw(6, 4, seed=1))
    layer, plain = random(ConditionalBatchNorm2d(3, 4, **F64)), nn.BatchNorm2d(3, **F64)
    y = layer(x, c)
    plain(x)
    for name in ("running_mean", "running_var"):
        torch.testing.assert_close(getattr(layer.norm, name), getattr(plain, name))
    shift, scale = layer.modulation(c).chunk(2, -1)
    expected = conditional_batch_norm(x, scale, shift, training=True)[0]
    torch.testing.assert_close(y, expected)
    layer.eval()  # one example by itself, as any other
    torch.testing.assert_close(layer(x, c)[:1], layer(x[:1], c[:1]))
    # 2 C of a condition are modulation; the norm has no weights of its own
    assert sum(p.numel() for p in layer.parameters()) == 2 * 3 * (4 + 1)


class Model(nn.Module):
    """Input layer, three AdaLN-Zero blocks, a head of zeros."""

    def __init__(self, make=AdaLNZero, last_zero=False):
        super().__init__()
        torch.manual_seed(0)
        self.inside = nn.Linear(2, 8)
        branches = [nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8)) for _ in range(3)]
        if last_zero:
            for branch in branches:
                nn.init.zeros_(branch[2].weight), nn.init.zeros_(branch[2].bias)
        self.blocks = nn.ModuleList(make(branch, 8, 4) for branch in branches)
        self.head = nn.Linear(8, 1)
        nn.init.zeros_(self.head.weight)

    def forward(self, x, c):
        h = self.inside(x)
        for block in self.blocks:
            h = block(h, c)
        return self.head(h)

    def groups(self):
        """The parameters by what they do."""
        found = {"head": [self.head.weight.grad], "inside": [self.inside.weight.grad]}
        for block in self.blocks:
            shift, scale, gate = block.modulation.weight.grad.chunk(3)
            found.setdefault("shift", []).append(shift)
            found.setdefault("scale", []).append(scale)
            found.setdefault("gate", []).append(gate)
            found.setdefault("branch", []).append(block.branch[0].weight.grad)
            found.setdefault("last", []).append(block.branch[2].weight.grad)
        return {name for name, gs in found.items() if all(g.abs().max() > 0 for g in gs)}


def awake(model, steps=5):
    generator = torch.Generator().manual_seed(0)
    x, c, y = (torch.randn(64, n, generator=generator) for n in (2, 4, 1))
    sgd, found = torch.optim.SGD(model.parameters(), 0.1), []
    for _ in range(steps):
        sgd.zero_grad()
        (model(x, c) - y).square().mean().backward()
        found.append(model.groups())
        sgd.step()
    return found


def test_what_wakes_when():
    """Head, then gates, then the branches: each needs that all behind it is not 0."""
    steps = awake(Model())
    assert steps[0] == {"head"}
    assert steps[1] == {"head", "inside", "gate"}
    everything = {"head", "inside", "gate", "shift", "scale", "branch", "last"}
    assert steps[2] == everything and steps[4] == everything


def test_two_zeros_in_a_product_never_wake():
    for steps in (awake(Model(last_zero=True)), awake(Model(GammaForm))):
        assert all(found <= {"head", "inside"} for found in steps)


class GammaForm(AdaLNZero):
    """The mistake: γ instead of 1 + γ. The branch receives zeros, of zero bias gives zeros."""

    def __init__(self, branch, *sizes):
        super().__init__(branch, *sizes)
        for layer in (branch[0], branch[2]):
            nn.init.zeros_(layer.bias)

    def _normalised(self, x, scale, shift):
        return super()._normalised(x, scale - 1, shift)


# --- Refusals ---------------------------------------------------------------------------------


def test_refusals():
    x, row = np.ones((2, 3, 5)), np.ones((2, 5))
    with pytest.raises(TypeError, match="scale must be an array, not a int"):
        modulate(x, 0, row)
    with pytest.raises(TypeError, match="shift must be an array; it is None"):
        modulate(x, row, None)
    for wrong in (np.ones((3, 5)), np.ones(3), np.ones((1, 2, 3, 5)), np.ones((2, 3))):
        with pytest.raises(ValueError, match="shift must have shape"):
            modulate(x, row, wrong)
    with pytest.raises(ValueError, match=r"\(3,\), one number per feature, or \(2, 3\)"):
        modulate(x, row, row, axis=1)
    for wrong, axis in ((x, 0), (x, 2), (x, -2), (x[0, 0], 1), (np.ones(()), -1)):
        with pytest.raises(ValueError, match="axis must be -1"):
            modulate(wrong, row, row, axis)
    with pytest.raises(ValueError, match="dy must have the shape of x"):
        adaptive_layer_norm_backward(x[:1], x, row)
    with pytest.raises(ValueError, match="eps must not be negative"):
        adaptive_layer_norm(x, row, row, -1)
    with pytest.raises(ValueError, match="same examples and channels"):
        adaptive_instance_norm(x, x[:1])
    with pytest.raises(ValueError, match="at least two positions"):
        adaptive_instance_norm(x, x[..., :1])
    with pytest.raises(ValueError, match="eps must not be negative"):
        adaptive_instance_norm(x, x, -1)


def test_refusals_of_layers():
    x = torch.ones(2, 3, 5)
    with pytest.raises(ValueError, match=r"needs an x of shape \(N, \.\.\., 4\)"):
        AdaLN(4, 6)(x, torch.ones(2, 6))
    with pytest.raises(ValueError, match=r"needs an x of shape \(N, 5, \.\.\.\)"):
        FiLM(5, 6)(x, torch.ones(2, 6))
    for wrong in (torch.ones(3, 6), torch.ones(2, 5), torch.ones(6)):
        with pytest.raises(ValueError, match=r"The condition must have shape \(2, 6\)"):
            AdaLN(5, 6)(x, wrong)
    with pytest.raises(ValueError, match="must keep the shape of x"):
        AdaLNZero(nn.Linear(5, 1), 5, 6)(x, torch.ones(2, 6))
    with pytest.raises(ValueError, match="eps must not be negative"):
        AdaLN(5, 6, eps=-1)
