"""Scales at the start, standardised weights, clipped gradients, two other batch normalisations."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.nn.utils import parametrizations

from normkit import batch_norm, layer_norm
from normkit.without_norms import (
    activation_gain,
    batch_renorm,
    batch_renorm_backward,
    clip_by_unit,
    expected_scales,
    fixup_scale,
    ghost_batch_norm,
    spectral_norm,
    standardise_weight,
    standardise_weight_backward,
)

TO = {"numpy": np.asarray, "torch": torch.tensor, "jax": jnp.asarray}
libraries = pytest.mark.parametrize("library", TO)
close = np.testing.assert_allclose

pytestmark = pytest.mark.usefixtures("double_precision")


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def refuses(check, wrong):
    """The check must tell the mistake from the right function."""
    with pytest.raises((AssertionError, ValueError)):
        check(wrong)


# --- Scales at the start ----------------------------------------------------------------------


def test_the_scale_of_fixup():
    assert fixup_scale(64) == 64**-0.5 and fixup_scale(1) == 1
    close(fixup_scale(16, layers=3), 16**-0.25)
    for wrong in ((0,), (4, 1)):
        with pytest.raises(ValueError, match="two layers in its branch"):
            fixup_scale(*wrong)


def test_expected_scales():
    close(expected_scales(64)[[0, 1, 64]], [1, math.sqrt(1.04), math.sqrt(3.56)])
    assert len(expected_scales(3)) == 4 and expected_scales(0).tolist() == [1]
    assert (expected_scales(5, alpha=0) == 1).all()
    with pytest.raises(ValueError, match="must not be negative"):
        expected_scales(-1)


def test_the_constants_of_known_activations():
    def relu(z):
        return np.maximum(z, 0)

    close(activation_gain(relu), math.sqrt(2 / (1 - 1 / math.pi)), rtol=1e-6)
    close(activation_gain(lambda z: z), 1, rtol=1e-9)
    close(activation_gain(lambda z: 3 * z + 7), 1 / 3, rtol=1e-9)  # a mean does not count
    published = {"gelu": 1.7015043, "silu": 1.7881293, "tanh": 1.5939118}  # sampled
    functions = {
        "gelu": lambda z: torch.nn.functional.gelu(torch.tensor(z)).numpy(),
        "silu": lambda z: z / (1 + np.exp(-z)),
        "tanh": np.tanh,
    }
    for name, constant in published.items():
        close(activation_gain(functions[name]), constant, rtol=5e-3)
    for wrong in (np.ones_like, lambda z: z / 0.0):
        with np.errstate(all="ignore"), pytest.raises(ValueError, match="finite and not constant"):
            activation_gain(wrong)


# --- Weights ----------------------------------------------------------------------------------


def check_standardised(standardise):
    for shape in ((5, 40), (3, 4, 5, 5)):
        w = drawn(*shape) * 3 + 1
        axes = tuple(range(1, w.ndim))
        found = standardise(w)
        close(found.sum(axes), 0, atol=1e-12)
        close((found**2).sum(axes), 1)
        close(standardise(3 * w + 1), found, atol=1e-12)


def test_standardised_weights_have_mean_0_and_norm_1():
    check_standardised(standardise_weight)
    w, gain = drawn(5, 40), np.arange(1.0, 6)
    close((standardise_weight(w, gain) ** 2).sum(1), gain**2)
    close(standardise_weight(w), layer_norm(w, eps=0) / math.sqrt(40))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda w: (w - w.mean()) / (w.std() * math.sqrt(w[0].size)),
        lambda w: layer_norm(w.reshape(len(w), -1), eps=0).reshape(w.shape),  # without fan-in
        lambda w: w / np.sqrt((w**2).sum(tuple(range(1, w.ndim)), keepdims=True)),
        lambda w: (w - w.mean(0)) / (w.std(0) * math.sqrt(w[0].size)),  # over the outputs
        lambda w: standardise_weight(w.swapaxes(0, 1)).swapaxes(0, 1),
    ],
)
def test_mistakes_of_standardise_weight(wrong):
    refuses(check_standardised, wrong)


def test_the_variance_of_the_output_is_that_of_the_input_whatever_its_mean():
    w, x = drawn(64, 256), np.maximum(drawn(2000, 256, seed=1), 0)
    y = activation_gain(lambda z: np.maximum(z, 0)) * x @ standardise_weight(w).T
    close(y.var(), 1, rtol=0.02)
    assert (y.mean(0) ** 2).mean() < 0.01


def test_small_weights_stay_small():
    w = np.full((2, 4), 5.0) + np.array([[1, -1, 1, -1], [0, 0, 0, 0]]) * 1e-4
    close(standardise_weight(w, eps=1e-4)[0], [0.01, -0.01, 0.01, -0.01])
    assert not standardise_weight(w)[1].any()


@libraries
def test_the_gradient_of_standardised_weights(library):
    to = TO[library]
    w, gain, dw = drawn(4, 3, 2), np.array([1.0, 2, 3, 4]), drawn(4, 3, 2, seed=1)
    w[3] = 0.3 + 1e-4 * w[3]  # where eps is the larger
    found = standardise_weight_backward(to(dw), to(w), to(gain))
    tensors = [torch.tensor(a, requires_grad=True) for a in (w, gain)]
    standardise_weight(*tensors).backward(torch.tensor(dw))
    for ours, tensor in zip(found, tensors, strict=True):
        close(np.asarray(ours), tensor.grad, atol=1e-9)
    close(np.asarray(standardise_weight(to(w), to(gain))), standardise_weight(w, gain))
    without = standardise_weight_backward(to(dw), to(w))
    close(np.asarray(without[0]), np.asarray(found[0]) / gain[:, None, None], atol=1e-9)


def test_standardise_weight_in_16_bits_and_what_it_refuses():
    w = torch.tensor([[300.0, -300.0, 0.0]], dtype=torch.float16)
    assert standardise_weight(w).dtype == torch.float16
    close(standardise_weight(w).float(), [[0.7071, -0.7071, 0]], atol=1e-3)
    with pytest.raises(ValueError, match="one row per output"):
        standardise_weight(np.ones(3))
    with pytest.raises(ValueError, match="one number per output"):
        standardise_weight(np.ones((2, 3)), np.ones(3))
    with pytest.raises(ValueError, match="dw must have the shape of weight"):
        standardise_weight_backward(np.ones((2, 2)), np.ones((2, 3)))
    with pytest.raises(TypeError, match="weight must be an array"):
        standardise_weight([[1.0, 2]])


@libraries
def test_the_spectral_norm_becomes_1(library):
    to, w = TO[library], drawn(6, 4, 2)
    found, u = spectral_norm(to(w), to(np.ones(6)), steps=200)
    matrix = w.reshape(6, 8)
    close(np.asarray(found), w / np.linalg.norm(matrix, 2))
    close(np.abs(np.asarray(u)), np.abs(np.linalg.svd(matrix)[0][:, 0]), atol=1e-6)
    once, _ = spectral_norm(to(w), u)  # from there one step is enough
    close(np.asarray(once), np.asarray(found))


def test_one_step_never_overestimates():
    w = drawn(6, 4)
    for seed in range(5):
        estimated = spectral_norm(w, drawn(6, seed=seed))[0]
        assert np.linalg.norm(estimated, 2) >= 1 - 1e-12


def test_spectral_norm_agrees_with_torch_and_so_does_its_gradient():
    torch.manual_seed(1)  # nearly equal singular values take thousands of steps
    layer = parametrizations.spectral_norm(torch.nn.Linear(4, 6, dtype=torch.float64))
    inner = layer.parametrizations.weight
    for _ in range(300):
        layer.weight  # noqa: B018  (each access is a step)
    w, u = inner.original.detach().clone().requires_grad_(), inner[0]._u.clone()
    dw = torch.tensor(drawn(6, 4))
    found, _ = spectral_norm(w, u)
    torch.testing.assert_close(found, layer.weight)
    (layer.weight * dw).sum().backward()
    (found * dw).sum().backward()
    torch.testing.assert_close(w.grad, inner.original.grad)
    ours = jax.grad(lambda w: (spectral_norm(w, jnp.asarray(u.numpy()))[0] * dw.numpy()).sum())
    close(ours(jnp.asarray(w.detach().numpy())), w.grad, atol=1e-9)


def test_the_matrix_of_a_kernel_is_not_its_map():
    kernel = torch.ones(1, 1, 3, 3, dtype=torch.float64)
    w, _ = spectral_norm(kernel, torch.ones(1, dtype=torch.float64))
    close(w, 1 / 3)
    x = torch.ones(1, 1, 64, 64, dtype=torch.float64)
    y = torch.nn.functional.conv2d(x, w, padding=1)
    assert 2.9 < y.norm() / x.norm() < 3


def test_spectral_norm_refuses():
    for wrong in ((np.ones(3), np.ones(3), 1), (np.ones((2, 3)), np.ones(3), 1)):
        with pytest.raises(ValueError, match="u one number per output"):
            spectral_norm(*wrong)
    with pytest.raises(ValueError, match="steps is 0"):
        spectral_norm(np.ones((2, 3)), np.ones(2), steps=0)
    with pytest.raises(ValueError, match="norm above 0"):
        spectral_norm(np.zeros((2, 3)), np.ones(2))


# --- Gradients --------------------------------------------------------------------------------


def check_clip(clip):
    w, g = np.array([[6.0, 8], [0, 2], [0, 0]]), np.array([[3.0, 4], [0, 0.01], [3, 4]])
    close(clip(g, w), [[0.06, 0.08], [0, 0.01], [6e-6, 8e-6]])
    w, g = drawn(4, 3, 2), drawn(4, 3, 2, seed=1)
    close(
        np.sqrt((clip(g, w) ** 2).sum((1, 2))), 0.01 * np.sqrt((w**2).sum((1, 2)))
    )  # each unit by itself
    close(clip(np.array([3.0, 4]), np.array([0.0, 10])), [0.06, 0.08])  # a bias is one unit
    close(clip(np.array(2.0), np.array(-50.0)), 0.5)


def test_clip_by_unit():
    check_clip(clip_by_unit)
    g = drawn(4, 3)
    assert (clip_by_unit(g, 1000 * g) == g).all()
    close(clip_by_unit(np.zeros((2, 3)), drawn(2, 3)), 0)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda g, w: g * min(1, 0.01 * max(np.linalg.norm(w), 1e-3) / np.linalg.norm(g)),
        lambda g, w: clip_by_unit(g.T, w.T).T,
        lambda g, w: clip_by_unit(g, w, floor=1e-12),
        lambda g, w: np.sign(g) * np.minimum(np.abs(g), 0.01 * np.maximum(np.abs(w), 1e-3)),
        lambda g, w: clip_by_unit(1e9 * g, w),
        lambda g, w: clip_by_unit(g, 10 * w),
    ],
)
def test_mistakes_of_clip_by_unit(wrong):
    refuses(check_clip, wrong)


@libraries
def test_clip_by_unit_in_every_library_and_16_bits(library):
    g, w = drawn(4, 3), drawn(4, 3, seed=1)
    close(np.asarray(clip_by_unit(TO[library](g), TO[library](w))), clip_by_unit(g, w))
    half = torch.full((1, 4), 30000.0, dtype=torch.float16)
    found = clip_by_unit(half, half)
    assert found.dtype == torch.float16
    close(found.float(), 300, rtol=1e-2)


def test_clip_by_unit_refuses():
    with pytest.raises(ValueError, match="gradient must have the shape of weight"):
        clip_by_unit(np.ones((2, 3)), np.ones((3, 2)))
    for bounds in ({"limit": 0}, {"floor": 0}):
        with pytest.raises(ValueError, match="must be positive"):
            clip_by_unit(np.ones(2), np.ones(2), **bounds)


# --- Batch normalisation, otherwise -----------------------------------------------------------


def statistics():
    return drawn(3, seed=5), np.exp(drawn(3, seed=6))


def check_renorm(renorm):
    """Unbounded it is inference; within the tightest bounds it is batch norm."""
    x, (mean, var) = drawn(8, 3, 2) * 2 + 1, statistics()
    gamma, beta = drawn(3, seed=7), drawn(3, seed=8)
    found = renorm(x, mean, var, gamma, beta, r_max=1e9, d_max=1e9)[0]
    close(found, batch_norm(x, gamma, beta, mean, var, training=False)[0], atol=1e-12)
    for ours, theirs in zip(
        renorm(x, mean, var, gamma, beta, r_max=1, d_max=0),
        batch_norm(x, gamma, beta, mean, var, training=True),
        strict=True,
    ):
        close(ours, theirs, atol=1e-12)
    one, zero = np.ones(1), np.zeros(1)
    large = np.array([[-10.0], [30]])  # mean 10, standard deviation 20
    close(renorm(large, zero, one, r_max=3, d_max=5, eps=0)[0], [[2], [8]])
    close(renorm(-large, zero, one, r_max=3, d_max=5, eps=0)[0], [[-2], [-8]])


def test_batch_renorm():
    check_renorm(batch_renorm)


def renorm_with(r, d):
    def wrong(x, mean, var, gamma=1, beta=0, r_max=3.0, d_max=5.0, eps=1e-5):
        y, new_mean, new_var = batch_norm(x, None, None, mean, var, training=True, eps=eps)
        axes, shape = (0, *range(2, x.ndim)), (-1, *(1 for _ in x.shape[2:]))
        b, s = np.sqrt(x.var(axes) + eps), np.sqrt(var + eps)
        stats = (x.mean(axes), b, mean, s, r_max, d_max)
        parts = (np.reshape(p, shape) for p in (r(*stats), d(*stats), gamma * np.ones_like(mean)))
        by, plus, scale = parts
        return scale * (y * by + plus) + np.reshape(beta * np.ones_like(mean), shape), *(
            new_mean,
            new_var,
        )

    return wrong


def right_r(m, b, mean, s, r_max, d_max):
    return np.clip(b / s, 1 / r_max, r_max)


def right_d(m, b, mean, s, r_max, d_max):
    return np.clip((m - mean) / s, -d_max, d_max)


def test_the_frame_of_the_mistakes_is_right():
    check_renorm(renorm_with(right_r, right_d))


@pytest.mark.parametrize(
    "wrong",
    [
        renorm_with(lambda m, b, mean, s, r, d: np.clip(s / b, 1 / r, r), right_d),
        renorm_with(lambda m, b, mean, s, r, d: np.minimum(b / s, r), right_d),
        renorm_with(right_r, lambda m, b, mean, s, r, d: np.clip(m - mean, -d, d)),
        renorm_with(right_r, lambda m, b, mean, s, r, d: np.clip((m - mean) / b, -d, d)),
        renorm_with(right_r, lambda m, b, mean, s, r, d: np.clip((mean - m) / s, -d, d)),
        renorm_with(right_r, lambda m, b, mean, s, r, d: np.minimum((m - mean) / s, d)),
        lambda x, mean, var, *rest, **bounds: (
            batch_norm(x, *rest, mean, var, training=True)
            if rest
            else batch_norm(x, None, None, mean, var, training=True)
        ),
    ],
)
def test_mistakes_of_batch_renorm(wrong):
    refuses(check_renorm, wrong)


@pytest.mark.parametrize("bounds", [(1e9, 1e9), (1.5, 0.3), (1, 0)])
def test_no_gradient_flows_through_r_and_d(bounds):
    """Autograd, the derived gradient and JAX agree; and dx is r times that of batch norm."""
    x, dy, (mean, var) = drawn(6, 3), drawn(6, 3, seed=1), statistics()
    gamma, beta = drawn(3, seed=7), drawn(3, seed=8)
    found = batch_renorm_backward(dy, x, mean, var, gamma, *bounds)
    tensors = [torch.tensor(a, requires_grad=True) for a in (x, gamma, beta)]
    stats = [torch.tensor(a) for a in (mean, var)]
    y, *_ = batch_renorm(tensors[0], *stats, *tensors[1:], *bounds)
    y.backward(torch.tensor(dy))
    for ours, tensor in zip(found, tensors, strict=True):
        close(ours, tensor.grad, atol=1e-10)
    close(found[0].sum(0), 0, atol=1e-12)  # with a gradient through r and d it would be γ/σ dy
    mean, var, gamma, beta, dy = (jnp.asarray(a) for a in (mean, var, gamma, beta, dy))
    ours = jax.grad(lambda x: (batch_renorm(x, mean, var, gamma, beta, *bounds)[0] * dy).sum())
    close(ours(jnp.asarray(x)), found[0], atol=1e-10)


def test_batch_renorm_in_16_bits_and_what_it_refuses():
    x = torch.tensor(drawn(4, 3), dtype=torch.float16)
    one = torch.ones(3, dtype=torch.float32)
    assert batch_renorm(x, 0 * one, one)[0].dtype == torch.float16
    assert batch_renorm_backward(x, x, 0 * one, one)[0].dtype == torch.float16
    for bounds in ({"r_max": 0.5}, {"d_max": -1}):
        with pytest.raises(ValueError, match="is within the bounds"):
            batch_renorm(drawn(4, 3), np.zeros(3), np.ones(3), **bounds)


def check_ghosts(ghost):
    for shape in ((12, 3), (12, 3, 2, 2)):
        x, gamma, beta = drawn(*shape) + 5, drawn(3, seed=7), drawn(3, seed=8)
        parts = [batch_norm(part, gamma, beta, training=True)[0] for part in np.split(x, 3)]
        close(ghost(x, 4, gamma, beta), np.concatenate(parts), atol=1e-12)
        close(ghost(x, 12), batch_norm(x, training=True)[0], atol=1e-12)


def test_each_ghost_is_a_batch():
    check_ghosts(ghost_batch_norm)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x, size, *rest: batch_norm(x, *rest, training=True)[0],
        lambda x, size, *rest: ghost_batch_norm(x, len(x) // size, *rest),  # parts, not their size
        lambda x, size, *rest: ghost_batch_norm(  # every third example, not neighbours
            x.reshape(size, -1, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape), size, *rest
        ),
    ],
)
def test_mistakes_of_ghost_batch_norm(wrong):
    refuses(check_ghosts, wrong)


@libraries
def test_ghosts_in_every_library(library):
    x = drawn(6, 3, 2)
    close(np.asarray(ghost_batch_norm(TO[library](x), 2)), ghost_batch_norm(x, 2))


def test_ghost_batch_norm_refuses():
    for size in (0, 5, 32):
        with pytest.raises(ValueError, match="must divide the batch of 12"):
            ghost_batch_norm(drawn(12, 3), size)
    with pytest.raises(ValueError, match="at least two values per channel"):
        ghost_batch_norm(drawn(4, 3), 1)
    with pytest.raises(ValueError, match="at least two axes"):
        ghost_batch_norm(drawn(4), 2)
