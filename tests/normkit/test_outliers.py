"""8-bit integers, bounded logits, z-loss: numbers by hand, identities, the classic mistakes."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn

from normkit import fold_affine, layer_norm, rms_norm
from normkit.outliers import (
    migrate_scale,
    qk_clip,
    quantise,
    soft_cap,
    soft_cap_backward,
    z_loss,
    z_loss_backward,
)

TO = {"numpy": np.asarray, "torch": torch.tensor, "jax": jnp.asarray}
libraries = pytest.mark.parametrize("library", TO)
close = np.testing.assert_allclose

pytestmark = pytest.mark.usefixtures("double_precision")


def refuses(check, wrong):
    """The check must tell the mistake from the right function."""
    with pytest.raises((AssertionError, ValueError)):
        check(wrong)


def slope(function, x, step=1e-6):
    """The gradient of the sum, by central differences."""
    found = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[index] += step
        down[index] -= step
        found[index] = (function(up).sum() - function(down).sum()) / (2 * step)
    return found


# --- 8 bits -----------------------------------------------------------------------------------


def check_by_hand(quantise):
    for last, integers, step in ((127.0, [1, -1, 2, 127], 1), (1270.0, [0, 0, 0, 127], 10)):
        q, s = quantise(np.array([0.6, -1, 2, last]))
        assert q.dtype == np.int8 and q.tolist() == integers
        close(s, [step])


def check_error(quantise, axis=-1):
    """At most half a step, in every row; and a row of zeros stays one."""
    x = np.random.default_rng(0).normal(size=(5, 8)) * 10.0 ** np.arange(-2, 3)[:, None]
    x[3] = 0
    q, s = quantise(x, axis)
    assert s.shape == (5, 1) and np.abs(q).max() == 127
    assert (np.abs(q * s - x) <= s / 2 * (1 + 1e-12)).all() and not q[3].any()
    close(s[:, 0] * 127, np.where(x.any(1), np.abs(x).max(1), 127))


def test_quantise():
    check_by_hand(quantise)
    check_error(quantise)
    q, s = quantise(np.arange(-6.0, 6).reshape(3, 4))
    assert q.shape == (3, 4) and s.shape == (1, 1)
    assert quantise(np.array([-2.0, 2.0]))[0].tolist() == [-127, 127]


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        (check_by_hand, lambda x: (np.round(x / (a := np.abs(x).max() / 128)).clip(-128, 127), a)),
        (check_by_hand, lambda x: (np.trunc(x / (a := np.abs(x).max() / 127)).astype("int8"), a)),
        (check_by_hand, lambda x: ((x / (a := x.std() / 127)).astype("int8"), a)),
        (check_error, lambda x, axis: quantise(x, 0)),
        (check_error, lambda x, axis: quantise(x)),
        (check_error, lambda x, axis: quantise(x, axis)[::-1]),
    ],
)
def test_mistakes_of_quantise(check, wrong):
    refuses(check, wrong)


@libraries
def test_quantise_in_every_library(library):
    x = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")
    for axis in (None, 0, -1):
        ours, theirs = quantise(x, axis), quantise(TO[library](x), axis)
        for a, b in zip(ours, theirs, strict=True):
            assert str(b.dtype).endswith(str(a.dtype))
            close(a, np.asarray(b))


def test_quantise_agrees_with_torch():
    x = torch.randn(6, 9, generator=torch.Generator().manual_seed(0))
    q, s = quantise(x)
    theirs = torch.fake_quantize_per_tensor_affine(x, s.item(), 0, -127, 127)
    torch.testing.assert_close(q * s, theirs)


def test_quantise_in_16_bits_and_what_is_not_finite():
    q, s = quantise(torch.tensor([60000.0, 1.0], dtype=torch.float16))
    assert s.dtype == torch.float32 and q.tolist() == [127, 0]
    for number in (math.inf, math.nan):
        with pytest.raises(ValueError, match="finite to be quantised"):
            quantise(np.array([1.0, number]))
    with pytest.raises(TypeError, match="x must be an array"):
        quantise([1.0])


def drawn(seed=0):
    rng = np.random.default_rng(seed)
    shapes = {"gamma": 6, "beta": 6, "weight": (4, 6), "scale": 6, "x": (5, 6)}
    arrays = {name: rng.uniform(0.2, 3, shape) for name, shape in shapes.items()}
    return arrays.pop("x"), arrays


def check_migration(migrate):
    """The layer computes the same, and what is quantised is divided by the scale."""
    x, arrays = drawn()
    before = layer_norm(x, arrays["gamma"], arrays["beta"])
    gamma, beta, weight = migrate(**arrays)
    after = layer_norm(x, gamma, beta)
    close(after @ weight.T, before @ arrays["weight"].T, atol=1e-12)
    close(after, before / arrays["scale"], atol=1e-12)


def test_migrate_scale_changes_no_output():
    check_migration(migrate_scale)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda gamma, beta, weight, scale: (gamma / scale, beta, weight * scale),
        lambda gamma, beta, weight, scale: (gamma * scale, beta / scale, weight * scale),
        lambda gamma, beta, weight, scale: (gamma / scale, beta / scale, weight / scale),
        lambda gamma, beta, weight, scale: (gamma * scale, beta * scale, weight / scale),
        lambda gamma, beta, weight, scale: (gamma / scale, beta * scale, weight * scale),
    ],
)
def test_mistakes_of_migrate_scale(wrong):
    refuses(check_migration, wrong)


def test_migrating_all_of_gamma_is_the_fold():
    _, arrays = drawn()
    norm, linear = nn.RMSNorm(6, dtype=torch.float64), nn.Linear(6, 4, False, dtype=torch.float64)
    norm.weight.data, linear.weight.data = (torch.tensor(arrays[n]) for n in ("gamma", "weight"))
    gamma, beta, weight = migrate_scale(
        norm.weight.detach(), None, linear.weight.detach(), norm.weight.detach()
    )
    assert beta is None and (gamma == 1).all()
    torch.testing.assert_close(weight, fold_affine(norm, linear)[1].weight.detach())


@libraries
def test_migrate_scale_in_every_library(library):
    _, arrays = drawn()
    ours = migrate_scale(**arrays)
    theirs = migrate_scale(**{name: TO[library](array) for name, array in arrays.items()})
    for a, b in zip(ours, theirs, strict=True):
        close(a, np.asarray(b))


def test_migrate_scale_refuses():
    one = np.ones(6)
    for scale in (np.ones(1), np.ones((6, 1)), np.array(2.0)):
        with pytest.raises(ValueError, match="one number per feature"):
            migrate_scale(one, None, np.ones((4, 6)), scale)
    with pytest.raises(ValueError, match=r"weight \(6, 4\)"):
        migrate_scale(one, None, np.ones((6, 4)), one)
    with pytest.raises(ValueError, match="scale must be positive"):
        migrate_scale(one, None, np.ones((4, 6)), np.zeros(6))


# --- Attention logits -------------------------------------------------------------------------


def check_cap(soft_cap):
    z = np.array([-500.0, -10, 0, 10, 50, 100, 500])
    close(soft_cap(z, 50.0), [-50, -9.8688, 0, 9.8688, 38.0797, 48.2014, 50], atol=5e-5)
    close(soft_cap(np.array([0.01]), 50.0), [0.01], rtol=1e-6)
    assert (np.diff(soft_cap(np.linspace(-200, 200, 99), 50.0)) > 0).all()


def test_soft_cap():
    check_cap(soft_cap)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda z, c: np.clip(z, -c, c),
        lambda z, c: np.tanh(z / c),
        lambda z, c: c * np.tanh(z),
        lambda z, c: np.tanh(z * c) / c,
    ],
)
def test_mistakes_of_soft_cap(wrong):
    refuses(check_cap, wrong)


def softmax(z):
    return torch.softmax(torch.tensor(z), -1).numpy()


def test_the_mask_comes_after_the_cap():
    logits = np.array([-60.0, 3.0])
    future = np.array([False, True])
    right = softmax(np.where(future, -np.inf, soft_cap(logits)))
    assert right.tolist() == [1, 0]
    close(softmax(soft_cap(np.where(future, -np.inf, logits)))[1], 2.4e-4, rtol=0.02)
    close(softmax(soft_cap(np.where(future, -np.inf, [-4, 3]), 5.0))[1], 0.157, atol=5e-4)


def test_the_gradient_of_soft_cap():
    z, dy = np.random.default_rng(0).normal(size=(2, 3, 4)) * 5
    close(soft_cap_backward(np.ones_like(z), z, 3.0), slope(lambda z: soft_cap(z, 3.0), z))
    tensor = torch.tensor(z, requires_grad=True)
    soft_cap(tensor, 3.0).backward(torch.tensor(dy))
    close(soft_cap_backward(dy, z, 3.0), tensor.grad, atol=1e-12)
    close(soft_cap_backward(np.ones(1), np.array([500.0])), 0, atol=1e-8)


@libraries
def test_soft_cap_in_every_library_and_16_bits(library):
    z = np.random.default_rng(0).normal(size=(3, 4)) * 80
    close(soft_cap(z), np.asarray(soft_cap(TO[library](z))))
    close(soft_cap_backward(z, z), np.asarray(soft_cap_backward(TO[library](z), TO[library](z))))
    half = soft_cap(torch.tensor([60000.0], dtype=torch.float16), 50.0)
    assert half.dtype == torch.float16 and half.item() == 50


def test_soft_cap_refuses():
    for cap in (0, -50, math.nan):
        with pytest.raises(ValueError, match="cap must be positive"):
            soft_cap(np.ones(2), cap)
    with pytest.raises(ValueError, match="dy must have the shape of logits"):
        soft_cap_backward(np.ones(2), np.ones(3))


HEADS, HEAD, WIDTH = 3, 2, 5


def logits_of(w_q, w_k, x, norm=lambda v: v):
    """(H, T, T), before the mask."""
    q, k = (norm((x @ w.T).reshape(-1, HEADS, HEAD)).swapaxes(0, 1) for w in (w_q, w_k))
    return q @ k.swapaxes(1, 2) / math.sqrt(HEAD)


def weights():
    rng = np.random.default_rng(0)
    w_q, w_k = rng.normal(size=(2, HEADS * HEAD, WIDTH))
    return w_q, w_k, rng.normal(size=(4, WIDTH)) * 10


def check_clip(qk_clip):
    """Each head above the threshold comes to it, the others stay: also those below 0."""
    w_q, w_k, x = weights()
    logits = logits_of(w_q, w_k, x)
    largest = logits.max((1, 2))
    threshold = np.sort(largest)[1] - 1.0  # two heads of three are above
    after = logits_of(*qk_clip(w_q, w_k, largest, threshold), x).max((1, 2))
    close(after, np.minimum(largest, threshold))
    for clipped, weight in zip(qk_clip(w_q, w_k, -largest, threshold), (w_q, w_k), strict=True):
        close(clipped, weight)
    ratio = [(clipped / weight).mean() for clipped, weight in
             zip(qk_clip(w_q, w_k, largest, threshold), (w_q, w_k), strict=True)]  # fmt: skip
    close(*ratio)


def test_qk_clip():
    check_clip(qk_clip)
    w = np.ones((2, 1))
    q, k = qk_clip(w, w, np.array([250.0, 80.0]), 100.0)
    close(q, [[math.sqrt(0.4)], [1]])
    assert (q == k).all() and (w == 1).all()


def clip_like(factor, rows=lambda f: np.repeat(f, HEAD)[:, None], k_too=True):
    def wrong(w_q, w_k, largest, threshold):
        f = rows(factor(threshold / largest))
        return w_q * f, w_k * (f if k_too else 1)

    return wrong


@pytest.mark.parametrize(
    "wrong",
    [
        clip_like(lambda g: np.minimum(g, 1)),  # γ on both: the square is applied
        clip_like(lambda g: np.sqrt(g)),  # also enlarges
        clip_like(lambda g: np.sqrt(np.minimum(g, 1).min()) * np.ones(HEADS)),  # one for all heads
        clip_like(lambda g: np.minimum(g, 1), k_too=False),  # all of it on the queries
        clip_like(lambda g: np.sqrt(np.minimum(g, 1)), lambda f: np.tile(f, HEAD)[:, None]),
    ],
)
def test_mistakes_of_qk_clip(wrong):
    with np.errstate(invalid="ignore"):
        refuses(check_clip, wrong)


def test_the_root_of_a_negative_ratio_is_nan():
    wrong = clip_like(lambda g: np.sqrt(np.minimum(g, 1)))
    w_q, w_k, _ = weights()
    with np.errstate(invalid="ignore"):
        assert np.isnan(wrong(w_q, w_k, np.array([5.0, -2, 3]), 4.0)[0]).any()
    assert np.isfinite(qk_clip(w_q, w_k, np.array([5.0, -2, 3]), 4.0)[0]).all()


def test_qk_clip_after_qk_norm_does_nothing():
    w_q, w_k, x = weights()
    norm = lambda v: rms_norm(v, eps=0)  # noqa: E731
    before = logits_of(w_q, w_k, x, norm)
    after = logits_of(*qk_clip(w_q, w_k, np.full(HEADS, 250.0)), x, norm)
    close(after, before, atol=1e-12)


@libraries
def test_qk_clip_in_every_library_and_for_biases(library):
    w_q, w_k, _ = weights()
    largest = np.array([250.0, 80, 400])
    to = TO[library]
    for q, k in ((w_q, w_k), (w_q[:, 0], w_k[:, 0])):
        for a, b in zip(qk_clip(q, k, largest), qk_clip(to(q), to(k), to(largest)), strict=True):
            close(a, np.asarray(b))
    rows = qk_clip(w_q, w_k, largest)[0][:, 0]
    close(qk_clip(w_q[:, 0], w_k[:, 0], largest)[0], rows)


def test_qk_clip_refuses():
    w = np.ones((6, 5))
    for wrong in ((w, np.ones((3, 5)), np.ones(3)), (w, w, np.ones(4)), (w, w, np.ones((3, 1)))):
        with pytest.raises(ValueError, match="largest one number per head"):
            qk_clip(*wrong)
    with pytest.raises(ValueError, match="largest must be finite"):
        qk_clip(w, w, np.array([1, math.inf, 1]))
    with pytest.raises(ValueError, match="threshold must be positive"):
        qk_clip(w, w, np.ones(3), 0)


# --- Output logits ----------------------------------------------------------------------------


def check_z_loss(z_loss):
    close(z_loss(np.array([2.0, 2.0]), 0.1), 0.1 * (2 + math.log(2)) ** 2)
    close(z_loss(np.array([[2.0, 2], [-3, -3]]), 0.1), [0.7253, 0.5322], atol=5e-5)
    shifted = z_loss(np.array([1000.0, 1000.0]), 1.0)
    close(shifted, (1000 + math.log(2)) ** 2)


def test_z_loss():
    check_z_loss(z_loss)
    log_p = np.log(softmax(np.random.default_rng(0).normal(size=(3, 7))))
    close(z_loss(log_p), 0, atol=1e-12)  # the logits must come before the softmax


@pytest.mark.parametrize(
    "wrong",
    [
        lambda z, c: c * np.log(np.exp(z).sum(-1)),
        lambda z, c: c * np.log(np.exp(z).sum(-1)) ** 2,  # overflows
        lambda z, c: c * np.log(np.exp(z).sum()) ** 2,
        lambda z, c: c * (z.max(-1)) ** 2,
        lambda z, c: c * (z**2).sum(-1),
        lambda z, c: (c * np.logaddexp.reduce(z, -1)) ** 2,
    ],
)
def test_mistakes_of_z_loss(wrong):
    with np.errstate(over="ignore"):
        refuses(check_z_loss, wrong)


def test_the_gradient_of_z_loss():
    rng = np.random.default_rng(0)
    z, dy = rng.normal(size=(3, 2, 5)), rng.normal(size=(3, 2))
    found = z_loss_backward(dy, z, 0.3)
    close(found, slope(lambda z: dy * z_loss(z, 0.3), z), atol=1e-8)
    tensor = torch.tensor(z, requires_grad=True)
    (0.3 * tensor.logsumexp(-1) ** 2).backward(torch.tensor(dy))
    close(found, tensor.grad, atol=1e-12)
    close(z_loss_backward(np.array(1.0), np.array([2.0, 2]), 0.1), [0.2693, 0.2693], atol=5e-5)


def test_a_class_that_is_masked_has_no_part_in_the_z_loss():
    z = np.array([1.0, -np.inf, 2.0])
    close(z_loss(z, 1.0), z_loss(z[[0, 2]], 1.0))
    assert z_loss_backward(np.array(1.0), z)[1] == 0


@libraries
def test_z_loss_in_every_library_and_16_bits(library):
    z, to = np.random.default_rng(0).normal(size=(3, 5)), TO[library]
    close(z_loss(z), np.asarray(z_loss(to(z))))
    dy = np.ones(3)
    close(z_loss_backward(dy, z), np.asarray(z_loss_backward(to(dy), to(z))), atol=1e-12)
    half = z_loss(torch.full((4,), 300.0, dtype=torch.float16))
    assert half.dtype == torch.float16
    close(half.item(), 1e-4 * (300 + math.log(4)) ** 2, rtol=1e-3)


def test_z_loss_refuses():
    with pytest.raises(ValueError, match="at least one axis, the classes"):
        z_loss(np.float64(3))
    with pytest.raises(ValueError, match="logits without the classes"):
        z_loss_backward(np.ones((3, 5)), np.ones((3, 5)))
