"""Free weights: symmetries, the fixed points by iteration, angles, nGPT's step, Newton–Schulz."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from normkit import decay as module
from normkit.decay import (
    Equilibrium,
    adamw_equilibrium,
    orthogonalise,
    sgd_equilibrium,
    spherical_step,
    turn,
    unit,
)

TO = {"numpy": np.asarray, "torch": torch.tensor, "jax": jnp.asarray}
libraries = pytest.mark.parametrize("library", TO)
close = np.testing.assert_allclose

pytestmark = pytest.mark.usefixtures("double_precision")


def refuses(check, wrong):
    """The check must tell the mistake from the right function."""
    with pytest.raises((AssertionError, ValueError)):
        check(wrong)


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


# --- Symmetries -------------------------------------------------------------------------------


def losses(make, scale=1.0, steps=60, grow=1.0):
    """The losses of a net whose whole first matrix is free; the rate grows by a factor per step."""
    generator = torch.Generator().manual_seed(0)

    def sample(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    w = (scale * sample(16, 8)).requires_grad_()
    head, found = sample(16), []
    optimiser = make([w])
    for _ in range(steps):
        x, noise = sample(12, 8), sample(12)
        z = x @ w.T
        z = z / z.square().mean(-1, keepdim=True).sqrt()
        loss = (z.relu() @ head - x[:, 0].sign() - noise).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        optimiser.param_groups[0]["lr"] *= grow
        found.append(loss.item())
    return np.array(found)


def sgd(lr, decay):
    return lambda w: torch.optim.SGD(w, lr, weight_decay=decay)


def adamw(lr, decay):
    return lambda w: torch.optim.AdamW(w, lr, weight_decay=decay, eps=0.0)


@pytest.mark.parametrize(("make", "lr", "power"), [(sgd, 0.1, 2), (adamw, 0.03, 1)])
def test_a_factor_of_the_weights_is_a_factor_of_the_rate(make, lr, power):
    plain, c = losses(make(lr, 0.05)), 10
    close(losses(make(lr * c**power, 0.05 / c**power), c), plain, rtol=1e-10)
    for wrong in (0, 3 - power):
        off = losses(make(lr * c**wrong, 0.05 / c**wrong), c) - plain
        assert np.abs(off).max() > 0.1


def test_decay_is_a_growing_rate():
    lr, decay = 0.1, 0.05
    kept = 1 - lr * decay
    close(losses(sgd(lr / kept, 0), grow=kept**-2), losses(sgd(lr, decay)), rtol=1e-10)


# --- The equilibrium --------------------------------------------------------------------------


def tangent_sgd(lr, decay, slope, momentum=0.0, steps=2000, size=400, start=None):
    """SGD on gradients that are orthogonal to w, random, and of norm slope/‖w‖."""
    rng = np.random.default_rng(0)
    w, v, norms, angles = rng.normal(size=size), np.zeros(size), [], []
    w *= (start or sgd_equilibrium(lr, decay, slope, momentum).norm) / np.linalg.norm(w)
    for _ in range(steps):
        norm = np.linalg.norm(w)
        g = rng.normal(size=size)
        g -= w * (g @ w) / norm**2
        v = momentum * v + g * slope / norm / np.linalg.norm(g) + decay * w
        new = w - lr * v
        angles.append(turn(w, new))
        norms.append(np.linalg.norm(new))
        w = new
    return np.mean(norms[steps // 2 :]), np.mean(angles[steps // 2 :])


def check_sgd(equilibrium, momentum=0.0, tolerance=2e-3):
    numbers = {"lr": 0.1, "decay": 0.05, "slope": 3.0, "momentum": momentum}
    close(equilibrium(**numbers)[:2], tangent_sgd(**numbers), rtol=tolerance)


@pytest.mark.parametrize(("momentum", "tolerance"), [(0.0, 2e-3), (0.5, 0.02), (0.9, 0.05)])
def test_sgd_settles_at_the_formula(momentum, tolerance):
    check_sgd(sgd_equilibrium, momentum, tolerance)


def test_sgd_forgets_its_start():
    numbers = {"lr": 0.1, "decay": 0.05, "slope": 3.0}
    ends = [tangent_sgd(**numbers, start=start)[0] for start in (0.3, 3.0, 30.0)]
    close(ends, ends[0], rtol=1e-3)


def test_the_norm_is_the_fixed_point():
    lr, decay, slope = 0.3, 0.2, 5.0
    square = 100.0
    for _ in range(2000):
        square = (1 - lr * decay) ** 2 * square + lr**2 * slope**2 / square
    close(sgd_equilibrium(lr, decay, slope).norm, math.sqrt(square), rtol=1e-12)


def test_the_angle_follows_from_the_norm_alone():
    """A step that keeps the norm: what is left along w is 1 - ηλ, the cosine."""
    lr, decay = 0.1, 0.05
    step = sgd_equilibrium(lr, decay, 1.0).angle  # the chord
    close(1 - step**2 / 2, 1 - lr * decay, rtol=1e-12)


def test_mistakes_of_the_sgd_formula():
    def with_norm(change):
        def wrong(lr, decay, slope, momentum=0.0):
            right = sgd_equilibrium(lr, decay, slope, momentum)
            return right._replace(**change(right, momentum))

        return wrong

    square_root = with_norm(lambda right, _: {"norm": right.norm**2})
    no_two = with_norm(lambda right, _: {"angle": right.angle / math.sqrt(2)})
    refuses(check_sgd, square_root)
    refuses(check_sgd, no_two)
    sign = with_norm(lambda right, a: {"angle": right.angle * math.sqrt((1 + a) / (1 - a))})
    rate = with_norm(lambda right, a: {"norm": right.norm * (1 - a) ** 0.25})
    for wrong in (sign, rate):
        refuses(lambda equilibrium: check_sgd(equilibrium, 0.9, 0.05), wrong)


def check_steps(equilibrium):
    """PyTorch's own optimisers without a gradient: the norm falls by e."""
    for make, expected in (
        (lambda w: torch.optim.SGD(w, 0.01, weight_decay=0.1), equilibrium[0](0.01, 0.1, 1.0)),
        (
            lambda w: torch.optim.SGD(w, 0.01, momentum=0.9, weight_decay=0.1),
            equilibrium[0](0.01, 0.1, 1.0, 0.9),
        ),
        (lambda w: torch.optim.AdamW(w, 0.01, weight_decay=0.1), equilibrium[1](0.01, 0.1)),
    ):
        w = torch.ones(1, dtype=torch.float64, requires_grad=True)
        optimiser = make([w])
        w.grad = torch.zeros_like(w)
        for _ in range(round(expected.steps)):
            optimiser.step()
        close(w.item(), math.exp(-1), rtol=0.06)


def test_decay_alone_divides_by_e():
    check_steps((sgd_equilibrium, adamw_equilibrium))

    def without_momentum(lr, decay, slope, momentum=0.0):
        return sgd_equilibrium(lr, decay, slope)

    refuses(check_steps, (without_momentum, adamw_equilibrium))


def check_adamw(equilibrium):
    lr, decay, size = 0.01, 0.5, 3000
    generator = torch.Generator().manual_seed(0)
    w = torch.zeros(size, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.AdamW([w], lr, (0.9, 0.99), weight_decay=decay)
    norms, angles = [], []
    for step in range(1500):
        w.grad = torch.randn(size, generator=generator, dtype=torch.float64)
        before = w.detach().clone()
        optimiser.step()
        if step > 750:
            norms.append(w.detach().norm().item())
            angles.append(turn(before, w.detach()).item())
    found = equilibrium(lr, decay, size, 0.9)
    close(found[:2], [np.mean(norms), np.mean(angles)], rtol=0.03)


def test_adamw_settles_at_the_formula_on_noise():
    check_adamw(adamw_equilibrium)

    def coupled(lr, decay, size, beta1):
        return Equilibrium(math.sqrt(size * lr / decay), math.sqrt(2 * lr * decay), 1)

    refuses(check_adamw, coupled)


def test_known_numbers():
    norm, angle, steps = sgd_equilibrium(0.02, 0.01, 4)
    close([norm, angle, steps], [2, 0.02, 5000], rtol=1e-4)
    resnet = sgd_equilibrium(0.1, 5e-4, 1, momentum=0.9)
    close([resnet.angle, resnet.steps], [0.0073, 2000], rtol=0.01)
    language = adamw_equilibrium(3e-4, 0.1)
    close(language, [0.0387, 0.0018, 33333], rtol=0.02)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lr": 0.0}, "lr must be positive"),
        ({"decay": 0.0}, "only grows"),
        ({"decay": -1.0}, "decay must be positive"),
        ({"slope": 0.0}, "slope must be positive"),
        ({"momentum": 1.0}, "below 1"),
        ({"momentum": -0.1}, "at least 0"),
        ({"lr": 2.0, "decay": 0.5}, "the whole weight"),
    ],
)
def test_sgd_refuses(change, message):
    with pytest.raises(ValueError, match=message):
        sgd_equilibrium(**({"lr": 0.1, "decay": 0.1, "slope": 1.0} | change))


def test_adamw_refuses():
    for options, message in (({"size": 0}, "size"), ({"beta1": 1.0}, "beta1")):
        with pytest.raises(ValueError, match=message):
            adamw_equilibrium(0.1, 0.1, **options)


# --- Directions -------------------------------------------------------------------------------


@libraries
def test_unit(library):
    x = draw(5, 7)
    found = unit(TO[library](x))
    close(np.linalg.norm(found, axis=-1), 1, rtol=1e-12)
    close(found, x / np.linalg.norm(x, axis=-1, keepdims=True), rtol=1e-12)
    close(unit(TO[library](1e3 * x)), found, rtol=1e-12)


def test_unit_keeps_dtype_and_refuses_zeros():
    assert unit(np.float16([3, 4])).dtype == np.float16
    close(unit(np.array([3e200, 4e200])), [0.6, 0.8])
    with pytest.raises(ValueError, match="no direction"):
        unit(np.array([[1.0, 2.0], [0.0, 0.0]]))
    with pytest.raises(TypeError, match=r"np\.array"):
        unit([3.0, 4.0])


def check_turn(turn):
    for angle in (1e-4, 1e-3, 0.5, 2.0, math.pi):
        before = np.float32([[2, 0]])
        after = 5 * np.array([[math.cos(angle), math.sin(angle)]])
        close(turn(before, after.astype(np.float32)), [angle], rtol=1e-3)


def test_turn_keeps_the_digits_of_small_angles():
    check_turn(turn)

    def arccosine(before, after):
        return np.arccos(np.clip(np.sum(unit(before) * unit(after), -1), -1, 1))

    refuses(check_turn, arccosine)


@libraries
def test_turn_in_every_library(library):
    before, after = draw(2, 4, 3)
    to = TO[library]
    cosine = np.sum(before * after, -1) / np.linalg.norm(before, axis=-1)
    close(turn(to(before), to(after)), np.arccos(cosine / np.linalg.norm(after, axis=-1)))
    with pytest.raises(ValueError, match="same shape"):
        turn(to(before), to(after[:2]))


def check_spherical(step):
    close(step(np.array([1.0, 0]), np.array([0, 1.0]), 0.05), [0.9986, 0.0526], atol=5e-5)
    close(step(np.array([3.0, 0]), np.array([0, 7.0]), -0.05), [0.9986, 0.0526], atol=5e-5)
    h, block = draw(2, 6, 5)
    close(step(h, block, 0.0), unit(h))
    close(step(h, block, 1.0), unit(block))
    alpha = np.abs(draw(5, seed=1))
    close(step(h, block, alpha), unit(unit(h) + alpha * (unit(block) - unit(h))))


def test_spherical_step():
    check_spherical(spherical_step)
    h, block = draw(2, 6, 5)
    turned = math.degrees(turn(np.array([1.0, 0]), np.array([0.95, 0.05])))
    close(turned, 3.01, atol=0.005)
    with pytest.raises(ValueError, match="mixed"):
        spherical_step(h, block[:2], 0.1)
    refuses(check_spherical, lambda h, block, alpha: unit(unit(h) + abs(alpha) * unit(block)))
    refuses(check_spherical, lambda h, block, alpha: unit(h + abs(alpha) * (block - h)))
    refuses(
        check_spherical, lambda h, block, alpha: unit(unit(h) + alpha * (unit(block) - unit(h)))
    )


@libraries
def test_spherical_step_in_every_library(library):
    h, block = draw(2, 6, 5)
    expected = spherical_step(h, block, 0.3)
    close(spherical_step(TO[library](h), TO[library](block), 0.3), expected, rtol=1e-12)


# --- Newton–Schulz ----------------------------------------------------------------------------


def polynomial(s, steps=5):
    a, b, c = module.COEFFICIENTS
    for _ in range(steps):
        s = a * s + b * s**3 + c * s**5
    return s


def check_orthogonalise(orthogonalise, shape=(6, 9)):
    """Same singular vectors; each singular value by the polynomial."""
    x = draw(*shape)
    u, s, vt = np.linalg.svd(x, full_matrices=False)
    close(orthogonalise(x), u * polynomial(s / np.linalg.norm(s)) @ vt, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("shape", [(6, 9), (9, 6), (7, 7), (1, 5)])
def test_orthogonalise_is_a_polynomial_of_the_singular_values(shape):
    check_orthogonalise(orthogonalise, shape)


def test_the_band():
    s = polynomial(np.geomspace(0.002, 1, 100_000))
    assert s.min() > 0.68 and s.max() < 1.21
    assert polynomial(np.array([1e-3]))[0] < 0.5
    singular = np.linalg.svd(orthogonalise(draw(64, 256)), compute_uv=False)
    assert singular.min() > 0.65 and singular.max() < 1.21


@libraries
def test_orthogonalise_in_every_library(library):
    x = draw(4, 6)
    close(orthogonalise(TO[library](x)), orthogonalise(x), rtol=1e-9)
    close(orthogonalise(TO[library](x).T), orthogonalise(x).T, rtol=1e-9)
    close(orthogonalise(1e6 * TO[library](x)), orthogonalise(x), rtol=1e-9)


def test_orthogonalise_like_torch():
    """torch's Muon computes the same in bfloat16."""
    from torch.optim._muon import _zeropower_via_newtonschulz

    x = torch.from_numpy(draw(16, 32)).float()
    theirs = _zeropower_via_newtonschulz(x, module.COEFFICIENTS, 5, 1e-7)
    close(orthogonalise(x), theirs.float(), atol=0.03)


def test_mistakes_of_orthogonalise():
    a, b, c = module.COEFFICIENTS

    def not_scaled(x):
        return polynomial_of(x)

    def polynomial_of(x):
        for _ in range(5):
            gram = x @ x.T
            x = a * x + (b * gram + c * gram @ gram) @ x
        return x

    def cubic(x):
        x = x / np.linalg.norm(x)
        for _ in range(5):
            x = 1.5 * x - 0.5 * x @ x.T @ x
        return x

    with np.errstate(all="ignore"):
        refuses(check_orthogonalise, not_scaled)
    refuses(check_orthogonalise, cubic)
    refuses(check_orthogonalise, lambda x: x / np.linalg.norm(x))


def test_orthogonalise_refuses():
    with pytest.raises(ValueError, match="matrix"):
        orthogonalise(np.ones(3))
    with pytest.raises(ValueError, match="no direction"):
        orthogonalise(np.zeros((2, 2)))
    with pytest.raises(TypeError, match=r"np\.array"):
        orthogonalise([[1.0]])
