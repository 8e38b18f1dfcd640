"""Group normalisation: right answers of any style pass, wrong ones of students are named."""

from contextlib import suppress

import numpy as np
import pytest
import torch

import normkit
from normkit.tutor.group_instance_norm.tasks import BATCHED, NORMS
from normkit.tutor.judging import judge, trials
from normkit.tutor.mistakes import combine
from normkit.tutor.observing import observe
from normkit.tutor.tasks import find


def named(answer, task, seed=5):
    return [mistake.name for mistake in judge(observe(answer, task, seed), task, seed).mistakes]


def passes(answer, task):
    for seed in range(3):
        verdict = judge(observe(answer, task, seed), task, seed)
        assert verdict.passed, verdict.explain()


def spread(parameter, x):
    return parameter.reshape(-1, *[1] * (x.ndim - 2))


def over(x, axis, eps):
    centred = x - x.mean(axis, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis, keepdims=True) + eps)


def check(x, num_groups):
    if x.shape[1] % num_groups:
        raise ValueError("C % G")


# --- Right ------------------------------------------------------------------------------------


def reshape(x, num_groups, gamma, beta, eps):
    examples, channels, *rest = x.shape
    split = x.reshape(examples, num_groups, channels // num_groups, *rest)
    y = over(split, tuple(range(2, split.ndim)), eps).reshape(x.shape)
    return y * spread(gamma, x) + spread(beta, x)


def loops(x, num_groups, gamma, beta, eps):
    check(x, num_groups)
    size = x.shape[1] // num_groups
    y = np.empty(x.shape, gamma.dtype)
    for example in range(len(x)):
        for start in range(0, x.shape[1], size):
            part = x[example, start : start + size]
            y[example, start : start + size] = (part - part.mean()) / np.sqrt(part.var() + eps)
    for channel in range(x.shape[1]):
        y[:, channel] = gamma[channel] * y[:, channel] + beta[channel]
    return y


def parts(x, num_groups, gamma, beta, eps):
    split = np.split(x, num_groups, axis=1)
    normalised = [over(part, tuple(range(1, part.ndim)), eps) for part in split]
    return np.einsum("nc...,c->nc...", np.concatenate(normalised, 1), gamma) + spread(beta, x)


def torch_inside(x, num_groups, gamma, beta, eps):
    check(x, num_groups)
    gamma, beta = spread(torch.tensor(gamma), x), spread(torch.tensor(beta), x)
    rows = torch.tensor(x).to(gamma.dtype).unflatten(1, (num_groups, -1)).flatten(2)
    var, mean = torch.var_mean(rows, dim=-1, correction=0, keepdim=True)
    xhat = ((rows - mean) * torch.rsqrt(var + eps)).reshape(x.shape)
    return torch.addcmul(beta, gamma, xhat).numpy()


def in_place_on_a_copy(x, num_groups, gamma, beta, eps):
    check(x, num_groups)
    y = x.astype(gamma.dtype, copy=True, order="C")
    flat = y.reshape(len(x) * num_groups, -1)
    flat -= flat.mean(1, keepdims=True)
    flat /= np.sqrt(flat.var(1, keepdims=True) + eps)
    y *= spread(gamma, x)
    y += spread(beta, x)
    return y


def in_float64(x, num_groups, gamma, beta, eps):
    return reshape(x.astype(float), num_groups, gamma, beta, eps).astype(gamma.dtype)


def channels_last(x, num_groups, gamma, beta, eps):
    check(x, num_groups)
    last = np.moveaxis(x, 1, -1).reshape(len(x), -1, num_groups, x.shape[1] // num_groups)
    y = over(last, (1, 3), eps).reshape(len(x), *x.shape[2:], x.shape[1])
    return np.moveaxis(gamma * y + beta, -1, 1)


def membership(x, num_groups, gamma, beta, eps):
    """The means as a product with the matrix that says which channel is in which group."""
    check(x, num_groups)
    flat = x.reshape(*x.shape[:2], -1)
    of = np.arange(x.shape[1]) * num_groups // x.shape[1]
    same = (of[:, None] == of).astype(gamma.dtype)
    count = same.sum(1)[:, None] * flat.shape[2]
    centred = flat - same @ flat.sum(2, keepdims=True) / count
    var = same @ (centred**2).sum(2, keepdims=True) / count
    y = gamma[:, None] * centred / np.sqrt(var + eps) + beta[:, None]
    return y.reshape(x.shape)


def python_floats(x, num_groups, gamma, beta, eps):
    check(x, num_groups)
    size, y = x.shape[1] // num_groups, np.zeros(x.shape, gamma.dtype)
    for n, example in enumerate(x.reshape(*x.shape[:2], -1).tolist()):
        for g in range(num_groups):
            values = [v for row in example[g * size : (g + 1) * size] for v in row]
            mean = sum(values) / len(values)
            root = (sum((v - mean) ** 2 for v in values) / len(values) + eps) ** 0.5
            for c in range(g * size, (g + 1) * size):
                y[n, c] = gamma[c] * (x[n, c] - mean) / root + beta[c]
    return y


class NotDivisible(ValueError):
    """An error of one's own."""


def own_error(x, num_groups, gamma, beta, eps):
    if x.shape[1] // num_groups * num_groups != x.shape[1]:
        raise NotDivisible
    return reshape(x, num_groups, gamma, beta, eps)


def stacked(x, num_groups, gamma, beta, eps):
    check(x, num_groups)
    return np.stack([of_example(example, num_groups, gamma, beta, eps) for example in x])


def of_example(x, num_groups, gamma, beta, eps):
    rows = x.reshape(num_groups, -1)
    var, mean = np.var(rows, axis=1), np.mean(rows, axis=1)
    y = ((rows.T - mean) / (var + eps) ** 0.5).T.reshape(len(x), -1)
    return (gamma[:, np.newaxis] * y + beta[:, np.newaxis]).reshape(x.shape)


def scale_and_shift(x, num_groups, gamma, beta, eps):
    """One factor and one shift for each channel of each example."""
    check(x, num_groups)
    rows = x.reshape(len(x), num_groups, -1)
    size = x.shape[1] // num_groups
    r = np.repeat(1 / np.sqrt(rows.var(2) + eps), size, axis=1)
    mean = np.repeat(rows.mean(2), size, axis=1)
    shape = (*mean.shape, *[1] * (x.ndim - 2))
    return (x - mean.reshape(shape)) * (gamma * r).reshape(shape) + spread(beta, x)


@pytest.mark.parametrize(
    "answer",
    [
        *(reshape, loops, parts, torch_inside, in_place_on_a_copy, in_float64, channels_last),
        *(membership, python_floats, own_error, stacked, scale_and_shift),
    ],
)
def test_right_functions_of_any_style_pass(answer):
    for part in ("forward", "images", "shapes"):
        passes(answer, f"group_instance_norm/{part}")


def jacobian(dy, x, num_groups, gamma, eps):
    """The matrix of the derivatives of a group, times the gradient at its output."""
    rows = x.reshape(len(x), num_groups, -1)
    xhat, size = over(rows, -1, eps), rows.shape[-1]
    r = 1 / np.sqrt(rows.var(-1)[..., None, None] + eps)
    outer = xhat[..., :, None] * xhat[..., None, :]
    matrix = r * (np.eye(size, dtype=xhat.dtype) - 1 / size - outer / size)
    dx = np.einsum("ngi,ngij->ngj", (dy * spread(gamma, x)).reshape(rows.shape), matrix)
    channels = (*x.shape[:2], -1)
    dgamma = np.einsum("ncp,ncp->c", dy.reshape(channels), xhat.reshape(channels))
    return dx.reshape(x.shape), dgamma, np.einsum("ncp->c", dy.reshape(channels))


def loops_backward(dy, x, num_groups, gamma, eps):
    size, others = x.shape[1] // num_groups, (0, *range(2, x.ndim))
    dx, xhat = np.empty_like(dy), np.empty_like(dy)
    for example in range(len(x)):
        for start in range(0, x.shape[1], size):
            at = example, slice(start, start + size)
            r = (x[at].var() + eps) ** -0.5
            xhat[at] = (x[at] - x[at].mean()) * r
            dxhat = (dy[at].T * gamma[at[1]]).T
            dx[at] = r * (dxhat - dxhat.mean() - xhat[at] * (dxhat * xhat[at]).mean())
    return dx, (dy * xhat).sum(others), dy.sum(others)


def zeros_backward(dy, x, num_groups, gamma, eps):
    """The gradients are made with the default dtype."""
    dgamma, dbeta = np.zeros(len(gamma)), np.zeros(len(gamma))
    dx, _, _ = loops_backward(dy, x, num_groups, gamma, eps)
    flat = over(x.reshape(len(x), num_groups, -1), 2, eps).reshape(x.shape)
    for channel in range(len(gamma)):
        dgamma[channel] = np.vdot(dy[:, channel], flat[:, channel])
        dbeta[channel] = dy[:, channel].sum()
    return [dx.astype(float), dgamma, dbeta]


def staged(dy, x, num_groups, gamma, eps):
    rows, dxhat = (v.reshape(len(x), num_groups, -1) for v in (x, dy * spread(gamma, x)))
    xmu, m = rows - rows.mean(2, keepdims=True), rows.shape[2]
    std = np.sqrt(np.mean(xmu**2, axis=2, keepdims=True) + eps)
    dstd = -np.sum(dxhat * xmu, axis=2, keepdims=True) / std**2
    dxmu = dxhat / std + xmu * dstd / (m * std)
    dx = dxmu - dxmu.sum(2, keepdims=True) / m
    channels = (*x.shape[:2], -1)
    dgamma = (dy.reshape(channels) * (xmu / std).reshape(channels)).sum((0, 2))
    return dx.reshape(x.shape), dgamma, dy.reshape(channels).sum((0, 2))


def in_float64_backward(dy, x, num_groups, gamma, eps):
    return staged(dy.astype(float), x.astype(float), num_groups, gamma.astype(float), eps)


def torch_backward(dy, x, num_groups, gamma, eps):
    """By formula, with tensors inside."""
    dy, gamma = torch.tensor(dy), torch.tensor(gamma)
    rows = torch.tensor(x).to(dy.dtype).reshape(len(x), num_groups, -1)
    var, mean = torch.var_mean(rows, -1, correction=0, keepdim=True)
    xhat = (rows - mean) * (r := (var + eps).rsqrt())
    dxhat = (dy * spread(gamma, x)).reshape(rows.shape)
    dx = r * (dxhat - dxhat.mean(-1, True) - xhat * (dxhat * xhat).mean(-1, True))
    sums = (dy * xhat.reshape(x.shape), dy)
    others = (0, *range(2, x.ndim))
    return (dx.reshape(x.shape).numpy(), *(part.sum(others).numpy() for part in sums))


@pytest.mark.parametrize(
    "answer",
    [jacobian, loops_backward, zeros_backward, staged, in_float64_backward, torch_backward],
)
def test_right_gradients_of_any_style_pass(answer):
    for part in ("backward", "dx", "dgamma_dbeta"):
        passes(answer, f"group_instance_norm/{part}")


PREDICTIONS, GROUPS_LIKE = combine("group_instance_norm/group_norm_identities")()


def all_then_first(norm, group_norm, x):
    """Only divisors, all of them, then the first that is near."""
    divisors = np.array([n for n in range(1, x.shape[1] + 1) if x.shape[1] % n == 0])
    gaps = [np.abs(group_norm(x, int(n)) - norm(x)).max() for n in divisors]
    return divisors[np.argmin(gaps)] if min(gaps) < 1e-6 else 0


def try_all(norm, group_norm, x):
    for number in range(1, x.shape[1] + 1):
        try:
            if np.allclose(group_norm(x, number), norm(x)):
                return number
        except ValueError:
            continue
    return 0


def from_the_largest(norm, group_norm, x):
    """At most one fits, so the order does not matter."""
    y, channels = norm(x), x.shape[1]
    for number in reversed(range(1, channels + 1)):
        if not channels % number and np.abs(group_norm(x, number) - y).sum() < 1e-6:
            return number
    return 0


def by_means(norm, group_norm, x):
    """A dictionary of what is possible, and relative errors."""
    possible = {n: group_norm(x, n) for n in range(1, x.shape[1] + 1) if x.shape[1] % n == 0}
    size = np.linalg.norm(norm(x))
    errors = {n: np.linalg.norm(y - norm(x)) / size for n, y in possible.items()}
    best = min(errors, key=errors.get)
    return best if errors[best] < 1e-9 else 0


def one_after_another(norm, group_norm, x):
    found = [n for n in range(1, 1 + x.shape[1]) if fits(norm, group_norm, x, n)]
    return found[0] if found else 0


def fits(norm, group_norm, x, number):
    return x.shape[1] % number == 0 and all(
        np.allclose(a, b) for a, b in zip(group_norm(x, number), norm(x), strict=True)
    )


@pytest.mark.parametrize(
    "search", [all_then_first, try_all, from_the_largest, by_means, one_after_another]
)
def test_right_searches_of_any_style_pass(search):
    passes((PREDICTIONS, search), "group_instance_norm/identities")


def test_the_predictions_are_what_the_search_finds():
    x = np.random.default_rng(1).normal(size=(3, 6, 4, 5))
    for name, norm in NORMS.items():
        assert PREDICTIONS[name] == GROUPS_LIKE(norm, normkit.group_norm, x), name
    names = "instance_norm", "layer_norm_of_examples", "batch_norm"
    instance, layer, batch = (NORMS[name](x) for name in names)
    np.testing.assert_allclose(instance, normkit.instance_norm(x))
    np.testing.assert_allclose(layer.reshape(3, -1), normkit.layer_norm(x.reshape(3, -1)))
    np.testing.assert_allclose(batch, normkit.batch_norm(x, training=True)[0])


INDEPENDENT, EXPERIMENT = combine("group_instance_norm/group_norm_batch")()


def others_replaced(norm, x):
    y, rng = norm(x), np.random.default_rng(0)
    for i in range(len(x)):
        other = rng.normal(size=x.shape)
        other[i] = x[i]
        if np.abs(norm(other)[i] - y[i]).max() > 1e-8:
            return False
    return True


def one_by_one(norm, x):
    return np.allclose(np.concatenate([norm(example[None]) for example in x]), norm(x))


def others_zero(norm, x):
    for i in range(len(x)):
        alone = np.zeros_like(x)
        alone[i] = x[i]
        if not np.allclose(norm(alone)[i], norm(x)[i]):
            return False
    return True


def each_changed(norm, x):
    """Change one example after the other, and look at all that were not changed."""
    y = norm(x)
    for j in range(len(x)):
        other = x.copy()
        other[j] = 7 - 3 * other[j]
        if not np.allclose(np.delete(norm(other), j, 0), np.delete(y, j, 0)):
            return False
    return True


def copies(norm, x):
    """Each example among copies of itself, up to a tolerance of one's own."""
    gaps = [np.abs(norm(np.stack([x[i]] * len(x)))[i] - norm(x)[i]) for i in range(len(x))]
    return np.max(gaps) < 1e-9


@pytest.mark.parametrize(
    "experiment", [others_replaced, one_by_one, others_zero, each_changed, copies]
)
def test_right_experiments_of_any_style_pass(experiment):
    passes((INDEPENDENT, experiment), "group_instance_norm/batch")


def test_the_predictions_are_what_the_experiment_finds():
    x = np.random.default_rng(1).normal(size=(4, 6, 3))
    for name, norm in BATCHED.items():
        assert INDEPENDENT[name] == others_replaced(norm, x), name


# --- Wrong ------------------------------------------------------------------------------------


def around(normalise):
    """A function that checks num_groups and applies gamma and beta, around this normalisation."""

    def answer(x, num_groups, gamma, beta, eps):
        check(x, num_groups)
        return spread(gamma, x) * normalise(x, num_groups, eps) + spread(beta, x)

    return answer


def split(x, num_groups, size=None):
    return x.reshape(len(x), num_groups, x.shape[1] // num_groups, *x.shape[2:])


def size_for_number(x, size, gamma, beta, eps):
    y = x.reshape(len(x), x.shape[1] // size, size, *x.shape[2:])
    axes = tuple(range(2, y.ndim))
    y = (y - y.mean(axes, keepdims=True)) / np.sqrt(y.var(axes, keepdims=True) + eps)
    return y.reshape(x.shape) * spread(gamma, x) + spread(beta, x)


def size_and_remainder(x, size, gamma, beta, eps):
    y = over(x.reshape(len(x), x.shape[1] // size, size, -1), (2, 3), eps).reshape(x.shape)
    return y * spread(gamma, x) + spread(beta, x)


def interleaved(x, num_groups, gamma, beta, eps):
    y = np.empty(x.shape, gamma.dtype)
    if x.shape[1] % num_groups:
        raise ValueError
    for group in range(num_groups):
        part = x[:, group::num_groups]
        y[:, group::num_groups] = over(part, tuple(range(1, x.ndim)), eps)
    return spread(gamma, x) * y + spread(beta, x)


def flattened(x, num_groups, gamma, beta, eps):
    y = over(x.reshape(len(x), num_groups, -1), 2, eps).reshape(x.shape)
    return spread(gamma, x) * y + spread(beta, x)


def columns(x, num_groups, eps):
    return over(x.reshape(len(x), -1, num_groups), 1, eps).reshape(x.shape)


def columns_unchecked(x, num_groups, gamma, beta, eps):
    return spread(gamma, x) * columns(x, num_groups, eps) + spread(beta, x)


def instance_norm(x, num_groups, gamma, beta, eps):
    y = over(x.reshape(*x.shape[:2], -1), 2, eps).reshape(x.shape)
    return spread(gamma, x) * y + spread(beta, x)


def whole_example(x, num_groups, gamma, beta, eps):
    axes = tuple(range(1, x.ndim))
    y = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)
    return y * spread(gamma, x) + spread(beta, x)


def batch_norm(x, num_groups, gamma, beta, eps):
    return over(x, (0, *range(2, x.ndim)), eps) * spread(gamma, x) + spread(beta, x)


def of_positions(x, num_groups, gamma, beta, eps):
    return over(x, 1, eps) * spread(gamma, x) + spread(beta, x)


def four_axes(x, num_groups, gamma, beta, eps):
    n, c, h, w = x.shape
    y = over(x.reshape(n, num_groups, c // num_groups, h, w), (2, 3, 4), eps).reshape(n, c, h, w)
    return y * gamma.reshape(1, -1, 1, 1) + beta.reshape(1, -1, 1, 1)


def unshaped(x, num_groups, gamma, beta, eps):
    return gamma * over(split(x, num_groups), tuple(range(2, x.ndim + 1)), eps).reshape(x.shape) + (
        beta
    )


def one_gamma_for_a_group(x, num_groups, gamma, beta, eps):
    check(x, num_groups)
    y = over(split(x, num_groups), tuple(range(2, x.ndim + 1)), eps)
    scale, shift = (
        v[:num_groups].reshape(1, num_groups, *[1] * (x.ndim - 1)) for v in (gamma, beta)
    )
    return (scale * y + shift).reshape(x.shape)


FORWARD = {
    "group_size_for_number": size_for_number,
    "groups_interleaved": interleaved,
    "remainder_ignored": flattened,
    "one_channel_groups": instance_norm,
    "one_group": whole_example,
    "batch_norm_instead": batch_norm,
    "layer_norm_of_positions": of_positions,
    "images_only": four_axes,
    "gamma_on_last_axis": unshaped,
    "gamma_per_group": one_gamma_for_a_group,
    "group_over_batch": around(
        lambda x, g, eps: over(split(x, g), (0, *range(2, x.ndim + 1)), eps).reshape(x.shape)
    ),
    "positions_forgotten": around(lambda x, g, eps: over(split(x, g), 2, eps).reshape(x.shape)),
    "groups_as_columns": around(columns),
    "last_axis_alone": around(lambda x, g, eps: over(split(x, g), -1, eps).reshape(x.shape)),
    "unbiased_variance": around(
        lambda x, g, eps: (
            ((flat := x.reshape(len(x), g, -1)) - flat.mean(-1, keepdims=True))
            .__truediv__(np.sqrt(flat.var(-1, keepdims=True, ddof=1) + eps))
            .reshape(x.shape)
        )
    ),
}


def lined_up_for_images(x, num_groups, gamma, beta, eps):
    y = over(split(x, num_groups), tuple(range(2, x.ndim + 1)), eps).reshape(x.shape)
    return gamma[None, :, None, None] * y + beta[None, :, None, None]


def with_assert(x, num_groups, gamma, beta, eps):
    assert x.shape[1] % num_groups == 0, "C % G"
    return reshape(x, num_groups, gamma, beta, eps)


def rows_of_all(x, num_groups, eps):
    return over(x.reshape(num_groups, -1), 1, eps).reshape(x.shape)


def in_place(x, num_groups, gamma, beta, eps):
    check(x, num_groups)
    rows = x.reshape(len(x), num_groups, -1)
    rows -= rows.mean(-1, keepdims=True)
    xhat = rows / np.sqrt((rows**2).mean(-1, keepdims=True) + eps)
    return spread(gamma, x) * xhat.reshape(x.shape) + spread(beta, x)


def exchanged(x, num_groups, gamma, beta, eps):
    return reshape(x, num_groups, beta, gamma, eps)


def one_group_checked(x, num_groups, gamma, beta, eps):
    check(x, num_groups)
    return whole_example(x, num_groups, gamma, beta, eps)


def with_variance(var):
    """The right program, but for the variance of the rows."""

    def normalised(x, num_groups, eps):
        rows = x.reshape(len(x), num_groups, -1)
        centred = rows - rows.mean(-1, keepdims=True)
        return (centred / np.sqrt(var(centred, x, num_groups) + eps)).reshape(x.shape)

    return around(normalised)


def left_too_early(x, num_groups, gamma, beta, eps):
    check(x, num_groups)
    y, size = np.zeros(x.shape, gamma.dtype), x.shape[1] // num_groups
    for g in range(num_groups):
        part = x[:, g * size : (g + 1) * size]
        y[:, g * size : (g + 1) * size] = over(part, tuple(range(1, x.ndim)), eps)
        return spread(gamma, x) * y + spread(beta, x)


def left_too_soon(x, num_groups, gamma, beta, eps):
    check(x, num_groups)
    y, size = np.zeros(x.shape, gamma.dtype), x.shape[1] // num_groups
    for g in range(num_groups - 1):
        part = x[:, g * size : (g + 1) * size]
        y[:, g * size : (g + 1) * size] = over(part, tuple(range(1, x.ndim)), eps)
    return spread(gamma, x) * y + spread(beta, x)


def of_sequences(x, num_groups, gamma, beta, eps):
    check(x, num_groups)
    n, c, length = x.shape
    y = over(x.reshape(n, num_groups, c // num_groups, length), (2, 3), eps).reshape(x.shape)
    return gamma[:, None] * y + beta[:, None]


FORWARD |= {
    "last_group_left_out": left_too_soon,
    "sequences_only": of_sequences,
    "one_plus_gamma": lambda x, g, gamma, beta, eps: reshape(x, g, 1 + gamma, beta, eps),
    "root_taken_twice": with_variance(lambda rows, x, g: rows.std(-1, keepdims=True)),
    "variance_miscounted": with_variance(
        lambda rows, x, g: (rows**2).sum(-1, keepdims=True) / (x.shape[1] // g)
    ),
    "rows_of_groups": around(
        lambda x, g, eps: over(x.reshape(len(x), -1, g), -1, eps).reshape(x.shape)
    ),
    "first_group_alone": left_too_early,
    "beta_subtracted": lambda x, g, gamma, beta, eps: reshape(x, g, gamma, -beta, eps),
    "parameters_shaped_for_images": lined_up_for_images,
    "assert_for_error": with_assert,
    "examples_not_kept": around(rows_of_all),
    "view_changed_in_place": in_place,
    "gamma_and_beta_exchanged": exchanged,
    "one_group": one_group_checked,
    "not_divided": around(
        lambda x, g, eps: (
            (s := split(x, g)) - s.mean(tuple(range(2, s.ndim)), keepdims=True)
        ).reshape(x.shape)
    ),
}


def without_axis(x, num_groups, gamma, beta, eps):
    """The parts are examples, and their number must fit."""
    check(x, num_groups)
    y = np.concatenate([over(part, None, eps) for part in np.split(x, num_groups)])
    return spread(gamma, x) * y + spread(beta, x)


def without_axis_by_example(x, num_groups, gamma, beta, eps):
    check(x, num_groups)
    parts = [over(part, tuple(range(1, x.ndim)), eps) for part in np.split(x, num_groups)]
    return spread(gamma, x) * np.concatenate(parts) + spread(beta, x)


def cut_along_axis_0(x, num_groups, gamma, beta, eps):
    if len(x) % num_groups:
        raise ValueError("num_groups does not divide C")
    xhat = over(x.reshape(num_groups, -1), -1, eps).reshape(x.shape)
    return spread(gamma, x) * xhat + spread(beta, x)


@pytest.mark.parametrize("answer", [without_axis, without_axis_by_example, cut_along_axis_0])
def test_a_batch_that_is_split_for_its_channels_is_named(answer):
    assert named(answer, "group_instance_norm/forward") == ["split_along_examples"]


def as_in_keras(x, num_groups, gamma, beta, eps):
    check(x, num_groups)
    cells = x.reshape(*x.shape[:-1], num_groups, -1)
    xhat = over(cells, (*range(1, x.ndim - 1), -1), eps).reshape(x.shape)
    return gamma * xhat + beta


def test_groups_of_the_last_axis_are_named():
    assert named(as_in_keras, "group_instance_norm/forward") == ["groups_of_last_axis"]


def with_statistics(mean, var):
    def normalised(x, num_groups, eps):
        rows = x.reshape(len(x), num_groups, -1)
        found = rows.mean(mean, keepdims=True), rows.var(var, keepdims=True)
        return ((rows - found[0]) / np.sqrt(found[1] + eps)).reshape(x.shape)

    return around(normalised)


@pytest.mark.parametrize("axes", [(None, None), (None, -1), (-1, None)])
def test_a_mean_of_the_whole_array_is_named(axes):
    named_here = named(with_statistics(*axes), "group_instance_norm/forward")
    assert named_here == ["statistics_of_everything"]


def across(axis):
    def normalised(x, num_groups, eps):
        return over(x.reshape(len(x), num_groups, -1), axis, eps).reshape(x.shape)

    return around(normalised)


@pytest.mark.parametrize("axis", [0, 1])
def test_rows_that_are_compared_with_each_other_are_named(axis):
    assert named(across(axis), "group_instance_norm/forward") == ["across_the_groups"]


@pytest.mark.parametrize(
    "refused",
    [
        lambda x, num_groups: num_groups % x.shape[1],
        lambda x, num_groups: x.shape[1] % num_groups == 0,
        lambda x, num_groups: len(x) % num_groups,
        lambda x, num_groups: x.shape[-1] % num_groups,
    ],
)
def test_a_refusal_of_the_wrong_numbers_is_named(refused):
    def answer(x, num_groups, gamma, beta, eps):
        if refused(x, num_groups):
            raise ValueError("the groups do not fit")
        xhat = over(x.reshape(len(x), num_groups, -1), -1, eps).reshape(x.shape)
        return spread(gamma, x) * xhat + spread(beta, x)

    assert named(answer, "group_instance_norm/forward") == ["divisor_refused"]


def test_an_array_that_does_not_fit_is_not_taken_for_a_refusal():
    def answer(x, num_groups, gamma, beta, eps):
        check(x, num_groups)
        return gamma * np.ones(len(gamma) + 1) + x

    verdict = judge(observe(answer, "group_instance_norm/forward"), "group_instance_norm/forward")
    assert not verdict.mistakes and "Shapes fit if" in verdict.explain()


@pytest.mark.parametrize("error", [TypeError, Exception, RuntimeError])
def test_another_exception_is_named(error):
    def answer(x, num_groups, gamma, beta, eps):
        if x.shape[1] % num_groups:
            raise error
        return reshape(x, num_groups, gamma, beta, eps)

    assert named(answer, "group_instance_norm/forward") == ["another_exception"]


@pytest.mark.parametrize(
    "returned", [ValueError, ValueError("C % G"), "3 groups do not divide 7", None]
)
def test_an_error_that_is_returned_is_named(returned):
    def answer(x, num_groups, gamma, beta, eps):
        if x.shape[1] % num_groups:
            return returned
        return reshape(x, num_groups, gamma, beta, eps)

    assert named(answer, "group_instance_norm/forward") == ["error_returned"]


@pytest.mark.parametrize("name", FORWARD)
def test_a_wrong_forward_pass_is_named(name):
    assert named(FORWARD[name], "group_instance_norm/forward") == [name]


@pytest.mark.parametrize("error", [AssertionError, RuntimeError, ZeroDivisionError])
def test_another_exception_than_the_statement_asks_for_is_refused(error):
    def answer(x, num_groups, gamma, beta, eps):
        if x.shape[1] % num_groups:
            raise error
        return reshape(x, num_groups, gamma, beta, eps)

    task = "group_instance_norm/shapes"
    said = judge(observe(answer, task), task).explain()
    assert error.__name__ in said and "ValueError" in said


def test_two_mistakes_are_both_named():
    assert named(size_and_remainder, "group_instance_norm/forward") == [
        "group_size_for_number",
        "remainder_ignored",
    ]
    assert sorted(named(columns_unchecked, "group_instance_norm/forward")) == [
        "groups_as_columns",
        "remainder_ignored",
    ]


def backward(dx):
    def answer(dy, x, num_groups, gamma, eps):
        check(x, num_groups)
        rows = x.reshape(len(x), num_groups, -1)
        r = 1 / np.sqrt(rows.var(-1, keepdims=True) + eps)
        xhat = (rows - rows.mean(-1, keepdims=True)) * r
        gamma = np.broadcast_to(spread(gamma, x), x.shape).reshape(rows.shape)
        others, flat = (0, *range(2, x.ndim)), xhat.reshape(x.shape)
        result = dx(dy.reshape(rows.shape), xhat, r, gamma)
        return result.reshape(x.shape), (dy * flat).sum(others), dy.sum(others)

    return answer


def mean(a):
    return a.mean(-1, keepdims=True)


BACKWARD = {
    "detached_statistics": lambda dy, xhat, r, g: dy * g * r,
    "gamma_outside_group_means": lambda dy, xhat, r, g: (
        g * r * (dy - mean(dy) - xhat * mean(dy * xhat))
    ),
    "mean_term_dropped": lambda dy, xhat, r, g: r * (g * dy - xhat * mean(g * dy * xhat)),
    "xhat_term_added": lambda dy, xhat, r, g: (
        r * (g * dy - mean(g * dy) + xhat * mean(g * dy * xhat))
    ),
}


BACKWARD |= {
    "mean_term_added": lambda dy, xhat, r, g: (
        r * (g * dy + mean(g * dy) - xhat * mean(g * dy * xhat))
    ),
    "one_sum_instead_of_mean": lambda dy, xhat, r, g: (
        r * (g * dy - mean(g * dy) - xhat * (g * dy * xhat).sum(-1, keepdims=True))
    ),
    "factor_two_lost": lambda dy, xhat, r, g: (
        r * (g * dy - mean(g * dy) - 0.5 * xhat * mean(g * dy * xhat))
    ),
    "r_forgotten_in_a_path": lambda dy, xhat, r, g: (
        g * dy - r * (mean(g * dy) + xhat * mean(g * dy * xhat))
    ),
    "direct_term_dropped": lambda dy, xhat, r, g: -r * (mean(g * dy) + xhat * mean(g * dy * xhat)),
}


def batch_mean(a):
    return a.mean((0, -1), keepdims=True)


BACKWARD |= {
    "one_plus_gamma": lambda dy, xhat, r, g: (
        r * ((1 + g) * dy - mean((1 + g) * dy) - xhat * mean((1 + g) * dy * xhat))
    ),
    "dx_negated": lambda dy, xhat, r, g: r * (mean(g * dy) + xhat * mean(g * dy * xhat) - g * dy),
    "dxhat_returned": lambda dy, xhat, r, g: g * dy,
    "terms_exchanged": lambda dy, xhat, r, g: (
        r * (g * dy - xhat * mean(g * dy) - mean(g * dy * xhat))
    ),
    "divided_by_n_again": lambda dy, xhat, r, g: (
        r / xhat.shape[-1] * (g * dy - mean(g * dy) - xhat * mean(g * dy * xhat))
    ),
    "divided_by_r": lambda dy, xhat, r, g: (g * dy - mean(g * dy) - xhat * mean(g * dy * xhat)) / r,
    "r_twice": lambda dy, xhat, r, g: r * r * (g * dy - mean(g * dy) - xhat * mean(g * dy * xhat)),
    "two_means_over_batch": lambda dy, xhat, r, g: (
        r * (g * dy - batch_mean(g * dy) - xhat * batch_mean(g * dy * xhat))
    ),
}


def test_of_one_term_that_is_left_it_is_not_said_that_two_are_sums():
    answer = backward(lambda dy, xhat, r, g: r * (g * dy - (g * dy).sum(-1, keepdims=True)))
    found = named(answer, "group_instance_norm/backward")
    assert sorted(found) == ["one_sum_instead_of_mean", "xhat_term_dropped"]


@pytest.mark.parametrize("name", BACKWARD)
def test_a_wrong_backward_pass_is_named(name):
    assert named(backward(BACKWARD[name]), "group_instance_norm/backward") == [name]


def summed(axes):
    def answer(dy, x, num_groups, gamma, eps):
        dx, *_ = loops_backward(dy, x, num_groups, gamma, eps)
        xhat = over(x.reshape(len(x), num_groups, -1), 2, eps).reshape(x.shape)
        return dx, np.sum(dy * xhat, axes(x)), np.sum(dy, axes(x))

    return answer


def parameters(dgamma=None, dbeta=None, order=(0, 1, 2)):
    """The right dx, and slips in the other two."""

    def answer(dy, x, num_groups, gamma, eps):
        dx, *found = loops_backward(dy, x, num_groups, gamma, eps)
        others, rows = (0, *range(2, x.ndim)), x.reshape(len(x), num_groups, -1)
        given = dy, x, (rows - rows.mean(2, keepdims=True)).reshape(x.shape), spread(gamma, x)
        for i, made in enumerate((dgamma, dbeta)):
            found[i] = np.sum(made(*given), axis=others) if made else found[i]
        return tuple((dx, *found)[i] for i in order)

    return answer


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("dgamma_with_x", parameters(dgamma=lambda dy, x, centred, g: dy * x)),
        ("r_forgotten_in_xhat", parameters(dgamma=lambda dy, x, centred, g: dy * centred)),
        ("dbeta_with_gamma", parameters(dbeta=lambda dy, x, centred, g: dy * g)),
        ("one_gradient_averaged", parameters(dbeta=lambda dy, *_: dy * dy.shape[1] / dy.size)),
        ("parameters_returned_in_reverse", parameters(order=(0, 2, 1))),
        ("dx_returned_last", parameters(order=(1, 2, 0))),
    ],
)
def test_wrong_gradients_of_the_parameters_are_named(name, answer):
    assert named(answer, "group_instance_norm/backward") == [name]


def test_two_unknown_gradients_do_not_hide_the_known_one():
    def answer(dy, x, num_groups, gamma, eps):
        dx, _, dbeta = parameters()(dy, x, num_groups, gamma, eps)
        others = (0, *range(2, x.ndim))
        return dx + 0.1 * x, (dy * x).sum(others), dbeta

    assert "dgamma_with_x" in named(answer, "group_instance_norm/backward")


def test_wrong_sums_are_named():
    for name, axes in {
        "gradients_over_examples": lambda x: 0,
        "gradients_over_positions": lambda x: tuple(range(2, x.ndim)),
        "gradients_not_summed": lambda x: (),
        "gradients_of_all": lambda x: None,
        "gradients_per_example": lambda x: tuple(range(1, x.ndim)),
    }.items():
        assert named(summed(axes), "group_instance_norm/backward") == [name]


def test_sums_that_each_example_overwrites_are_named():
    def answer(dy, x, num_groups, gamma, eps):
        for i in range(len(x)):
            one = slice(i, i + 1)
            _, dgamma, dbeta = loops_backward(dy[one], x[one], num_groups, gamma, eps)
        return loops_backward(dy, x, num_groups, gamma, eps)[0], dgamma, dbeta

    assert named(answer, "group_instance_norm/backward") == ["last_example_kept"]


def test_a_gradient_that_is_subtracted_in_a_loop_is_not_blamed_on_the_deviations():
    def answer(dy, x, num_groups, gamma, eps):
        dx, dgamma, dbeta = loops_backward(dy, x, num_groups, gamma, eps)
        return dx, -dgamma, dbeta

    assert named(answer, "group_instance_norm/backward") == ["dgamma_negated"]


def test_one_array_for_both_gradients_is_told_of():
    def answer(dy, x, num_groups, gamma, eps):
        dx, *found = loops_backward(dy, x, num_groups, gamma, eps)
        dgamma = dbeta = sum(found)
        return dx, dgamma, dbeta

    verdict = judge(observe(answer, "group_instance_norm/backward"), "group_instance_norm/backward")
    assert "dgamma, dbeta hold the same numbers" in verdict.explain() and not verdict.mistakes


def leaves_out(groups=0, examples=0):
    def answer(dy, x, num_groups, gamma, eps):
        dx, dgamma, dbeta = np.zeros(x.shape), np.zeros(x.shape[1]), np.zeros(x.shape[1])
        size = x.shape[1] // num_groups
        for n in range(len(x))[: examples or None]:
            for start in range(0, x.shape[1], size)[: num_groups - groups]:
                c = slice(start, start + size)
                part = (array[n : n + 1, c] for array in (dy, x))
                found = loops_backward(*part, 1, gamma[c], eps)
                dx[n, c] = found[0][0]
                dgamma[c] += found[1]
                dbeta[c] += found[2]
        return dx, dgamma, dbeta

    return answer


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("last_group_left_out", leaves_out(groups=1)),
        ("first_example_alone", leaves_out(examples=1)),
    ],
)
def test_gradients_of_a_loop_that_ends_too_early_are_named(name, answer):
    assert named(answer, "group_instance_norm/backward") == [name]


def test_sums_of_the_first_example_are_named():
    def answer(dy, x, num_groups, gamma, eps):
        dx, *_ = loops_backward(dy, x, num_groups, gamma, eps)
        return dx, *loops_backward(dy[:1], x[:1], num_groups, gamma, eps)[1:]

    assert named(answer, "group_instance_norm/backward") == ["first_example_kept"]


def test_wrong_predictions_and_searches_are_named():
    def search(norm, group_norm, x):
        for number in range(1, x.shape[1]):
            if x.shape[1] % number == 0 and np.allclose(group_norm(x, number), norm(x)):
                return number
        return 0

    wrong = PREDICTIONS | {"layer_norm_of_positions": 1, "batch_norm": 6}
    assert sorted(named((wrong, search), "group_instance_norm/identities")) == [
        "batch_norm_as_instance_norm",
        "last_number_missed",
        "positions_as_one_group",
    ]
    sizes = {"layer_norm_of_examples": 6, "instance_norm": 1, "pairs_of_channels": 2}
    wrong = PREDICTIONS | sizes | {"batch_norm_of_single_examples": 1}
    assert named((wrong, GROUPS_LIKE), "group_instance_norm/identities") == ["sizes_predicted"]


def searching(fits, numbers=lambda channels: range(1, channels + 1), end=0):
    def search(norm, group_norm, x):
        for number in numbers(x.shape[1]):
            if x.shape[1] % number == 0 and fits(group_norm(x, number), norm(x), x):
                return number
        return end

    return search


def closest(norm, group_norm, x):
    numbers = [n for n in range(1, x.shape[1] + 1) if x.shape[1] % n == 0]
    return min(numbers, key=lambda n: np.abs(group_norm(x, n) - norm(x)).max())


def gives_up(norm, group_norm, x):
    for number in range(1, x.shape[1] + 1):
        if x.shape[1] % number == 0:
            return number if np.allclose(group_norm(x, number), norm(x)) else 0


def numbers_of_examples(norm, group_norm, x):
    numbers = [n for n in range(1, len(x) + 1) if len(x) % n == 0]
    return next((n for n in numbers if np.allclose(group_norm(x, n), norm(x))), 0)


def six_channels(norm, group_norm, x):
    for number in range(1, 7):
        if 6 % number == 0 and np.allclose(group_norm(x, number), norm(x)):
            return number
    return 0


def reversed_divisor(norm, group_norm, x):
    numbers = [n for n in range(1, x.shape[1] + 1) if n % x.shape[1] == 0]
    return next((n for n in numbers if np.allclose(group_norm(x, n), norm(x))), 0)


def caught(norm, group_norm, x):
    """The first refusal ends the search."""
    try:
        for number in range(1, x.shape[1] + 1):
            if np.allclose(group_norm(x, number), norm(x)):
                return number
    except ValueError:
        return 0
    return 0


def broken_off(norm, group_norm, x):
    for number in range(1, x.shape[1] + 1):
        if x.shape[1] % number:
            break
        if np.allclose(group_norm(x, number), norm(x)):
            return number
    return 0


def as_many_as_examples(norm, group_norm, x):
    """Only numbers up to that of the examples are tried; a refusal ends nothing."""
    for number in range(1, x.shape[0] + 1):
        with suppress(ValueError):
            if np.allclose(group_norm(x, number), norm(x)):
                return number
    return 0


@pytest.mark.parametrize(
    ("name", "search"),
    [
        ("examples_for_channels", as_many_as_examples),
        ("one_example_compared", searching(lambda a, b, x: np.allclose(a[0], b[0]))),
        ("one_example_compared", searching(lambda a, b, x: np.allclose(a[-1], b[-1]))),
        (
            "one_example_compared",
            lambda norm, group_norm, x: GROUPS_LIKE(norm, group_norm, x[:1]),
        ),
        ("means_compared", searching(lambda a, b, x: abs(a.mean() - b.mean()) < 1e-6)),
        ("norm_not_applied", searching(lambda a, b, x: np.allclose(a, x))),
        ("groups_compared_exactly", searching(lambda a, b, x: (a == b).all())),
        ("nothing_returned", searching(lambda a, b, x: np.allclose(a, b), end=None)),
        (
            "divisors_of_six",
            searching(lambda a, b, x: np.allclose(a, b), lambda channels: (1, 2, 3, 6)),
        ),
        ("any_number_alike", searching(lambda a, b, x: np.isclose(a, b).any())),
        ("divisors_of_six", six_channels),
        ("examples_for_channels", numbers_of_examples),
        ("nothing_found", lambda norm, group_norm, x: 0),
        ("return_in_loop", gives_up),
        ("divisor_reversed", reversed_divisor),
        ("refusal_ends_search", caught),
        ("refusal_ends_search", broken_off),
        ("zero_tried", searching(lambda a, b, x: np.allclose(a, b), range)),
        (
            "zero_tried",
            searching(lambda a, b, x: np.allclose(a, b), lambda channels: range(channels + 1)),
        ),
        (
            "one_group_missed",
            searching(lambda a, b, x: np.allclose(a, b), lambda channels: range(2, channels + 1)),
        ),
        *(
            (
                "fixed_limit",
                searching(lambda a, b, x: np.allclose(a, b), lambda _, n=n: range(1, n)),
            )
            for n in (7, 9, 10, 13)
        ),
        ("means_compared", searching(lambda a, b, x: (a - b).max() < 1e-6)),
        ("means_compared", searching(lambda a, b, x: (b - a).max() < 1e-6)),
        ("means_compared", searching(lambda a, b, x: np.allclose(a[:, 0], b[:, 0]))),
        ("means_compared", searching(lambda a, b, x: np.allclose(a[..., 0, 0], b[..., 0, 0]))),
        ("means_compared", searching(lambda a, b, x: np.allclose(a.mean((2, 3)), b.mean((2, 3))))),
        ("difference_wanted", searching(lambda a, b, x: not np.allclose(a, b))),
        ("closest_number_returned", closest),
        *(
            ("not_zero_where_none_fits", searching(lambda a, b, x: np.allclose(a, b), end=end))
            for end in (1, -1)
        ),
    ],
)
def test_a_wrong_search_is_named(name, search):
    for part in ("identities", "identities_search"):
        assert named((PREDICTIONS, search), f"group_instance_norm/{part}") == [name]


@pytest.mark.parametrize(
    ("name", "norm", "number"),
    [
        ("examples_denied", "layer_norm_of_examples", 0),
        ("channels_denied", "instance_norm", 0),
        ("pairs_denied", "pairs_of_channels", 0),
        ("batch_norm_as_instance_norm", "batch_norm", 1),
        ("batch_norm_as_instance_norm", "batch_norm", 3),
        ("examples_by_size", "layer_norm_of_examples", 6),
        ("positions_as_channels", "layer_norm_of_positions", 6),
        ("instance_norm_as_one_group", "instance_norm", 1),
        ("single_example_as_one_group", "batch_norm_of_single_examples", 1),
        ("pairs_by_size", "pairs_of_channels", 2),
        ("every_other_by_size", "every_other_channel", 3),
    ],
)
def test_one_wrong_prediction_is_named(name, norm, number):
    wrong = PREDICTIONS | {norm: number}
    assert named((wrong, GROUPS_LIKE), "group_instance_norm/identities") == [name]


def first_only(norm, x):
    other = np.concatenate([x[:1], 3 + 2 * x[1:]])
    return np.allclose(norm(other)[0], norm(x)[0])


def shuffled(norm, x):
    order = np.random.permutation(len(x))
    return np.allclose(norm(x[order]), norm(x)[order])


def itself_replaced(norm, x):
    for i in range(len(x)):
        z = x.copy()
        z[i] = np.random.normal(size=z[i].shape)
        if not np.allclose(norm(z)[i], norm(x)[i]):
            return False
    return True


def first_raised(norm, x):
    z = x.copy()
    z[0] += 10
    return np.allclose(norm(z)[0], norm(x)[0])


def first_two_exchanged(norm, x):
    order = [1, 0, *range(2, len(x))]
    return np.allclose(norm(x[order]), norm(x)[order])


def permuted(norm, x):
    order = np.random.default_rng(0).permutation(len(x))
    return np.allclose(norm(x[order]), norm(x)[order])


def repeated(norm, x):
    return np.allclose(norm(np.repeat(x[None], 2, 0).reshape(-1, *x.shape[1:]))[: len(x)], norm(x))


def last_changed(norm, x):
    other = x.copy()
    other[-1] *= -2
    return np.allclose(norm(other)[:-1], norm(x)[:-1])


def last_only(norm, x):
    other = np.concatenate([1 - x[:-1], x[-1:]])
    return np.allclose(norm(other)[-1], norm(x)[-1])


def next_changed(norm, x):
    for i in range(len(x) - 1):
        other = x.copy()
        other[i + 1] *= 3
        if not np.allclose(norm(other)[i], norm(x)[i]):
            return False
    return True


def before_changed(norm, x):
    """Change one, and look at the one after it."""
    y = norm(x)
    for i in range(1, len(x)):
        other = x.copy()
        other[i - 1] = np.flip(other[i - 1])
        if np.abs(norm(other)[i] - y[i]).max() > 1e-9:
            return False
    return True


def around_changed(norm, x):
    return next_changed(norm, x) and before_changed(norm, x)


def some(norm, x):
    return any(np.allclose(norm(x[i : i + 1])[0], norm(x)[i]) for i in range(len(x)))


def alone(same, examples=range):
    """Each of these examples alone, against it in the batch."""

    def experiment(norm, x):
        y = norm(x)
        return all(same(norm(x[i : i + 1])[0], y[i]) for i in examples(len(x)))

    return experiment


def kept(some, at):
    """Each example among these, against it in the batch."""

    def experiment(norm, x):
        return all(np.allclose(norm(some(x, i))[at], norm(x)[i]) for i in range(len(x)))

    return experiment


def ends(norm, x):
    y = norm(x)
    return np.allclose(norm(x[:1])[0], y[0]) and np.allclose(norm(x[-1:])[0], y[-1])


def first_changed(norm, x):
    other = x.copy()
    other[0] += 10
    return np.allclose(norm(other)[1:], norm(x)[1:])


def one_channel(norm, x):
    for i in range(len(x)):
        other = x.copy()
        other[np.arange(len(x)) != i, 0] -= 5
        if not np.allclose(norm(other)[i], norm(x)[i]):
            return False
    return True


def by_channel(norm, x):
    y = norm(x)
    return all(np.allclose(norm(x[:, [c]]), y[:, [c]]) for c in range(x.shape[1]))


def halves(norm, x):
    half, y = len(x) // 2, norm(x)
    return np.allclose(norm(x[:half]), y[:half]) and np.allclose(norm(x[half:]), y[half:])


def pairs(norm, x):
    """Each example stays with the next one: what only these two do is not seen."""
    y = norm(x)
    return all(np.allclose(norm(x[i : i + 2]), y[i : i + 2]) for i in range(len(x) - 1))


@pytest.mark.parametrize(
    "experiment", [halves, pairs, alone(lambda a, b: np.allclose(a, b, atol=0.5))]
)
def test_an_experiment_that_overlooks_a_dependence_is_refused(experiment):
    task = "group_instance_norm/batch"
    assert not judge(observe((INDEPENDENT, experiment), task), task).passed


def test_predictions_that_are_no_dictionary_are_explained():
    for task, answer in {
        "identities": ([1, 0, 6, 0, 6, 3, 0], GROUPS_LIKE),
        "batch": ([False, True, True, True, True], EXPERIMENT),
    }.items():
        task = f"group_instance_norm/{task}"
        said = judge(observe(answer, task), task).explain()
        assert "Leave it a dictionary" in said


def test_a_misspelt_name_of_a_prediction_is_told():
    for task, predictions, answer in (
        ("identities", PREDICTIONS, GROUPS_LIKE),
        ("batch", INDEPENDENT, EXPERIMENT),
    ):
        first, *others = predictions
        misspelt = {first + "s": 0} | {name: predictions[name] for name in others}
        task = f"group_instance_norm/{task}"
        assert repr(first + "s") in judge(observe((misspelt, answer), task), task).explain()
        more = predictions | {"another": 0}
        assert judge(observe((more, answer), task), task).passed


def one_for_another(changed, seen):
    def experiment(norm, x):
        other = x.copy()
        other[changed] += 10
        return np.allclose(norm(other)[seen], norm(x)[seen])

    return experiment


def independent_if_none_is_alike(norm, x):
    return not any(np.allclose(norm(x[[i]])[0], norm(x)[i]) for i in range(len(x)))


@pytest.mark.parametrize(
    ("name", "experiment"),
    [
        *(("one_pair_tested", one_for_another(*of)) for of in ((-1, 0), (0, -1), (1, 0), (0, 1))),
        ("answer_inverted", independent_if_none_is_alike),
        ("last_example_tested", last_only),
        ("not_every_example_tested", alone(np.allclose, lambda n: range(1, n))),
        ("not_every_example_tested", alone(np.allclose, lambda n: range(n - 1))),
        ("not_every_example_tested", alone(np.allclose, lambda n: range(4))),
        ("example_means_compared", alone(lambda a, b: np.isclose(a.mean(), b.mean()))),
        ("axis_of_examples_lost", lambda norm, x: np.allclose([norm(e) for e in x], norm(x))),
        (
            "axis_of_examples_lost",
            lambda norm, x: all(np.allclose(norm(e), y) for e, y in zip(x, norm(x), strict=True)),
        ),
        ("compared_with_all", lambda norm, x: np.allclose(norm(np.zeros_like(x)), norm(x))),
        (
            "compared_with_all",
            lambda norm, x: all(
                np.allclose(norm(x[i : i + 1])[0], norm(x)[i - 1]) for i in range(1, len(x))
            ),
        ),
        (
            "output_compared_with_input",
            lambda norm, x: all(np.allclose(norm(e[None])[0], e) for e in x),
        ),
        ("neighbours_changed", next_changed),
        ("neighbours_changed", before_changed),
        ("neighbours_changed", around_changed),
        ("any_for_all", some),
        ("always_dependent", lambda norm, x: False),
        ("output_compared_with_input", lambda norm, x: np.allclose(norm(x), x)),
        ("first_example_tested", first_only),
        ("examples_permuted", permuted),
        ("examples_permuted", shuffled),
        ("example_itself_changed", itself_replaced),
        ("example_itself_changed", first_raised),
        ("examples_permuted", first_two_exchanged),
        ("examples_repeated", repeated),
        ("halves_compared", halves),
        (
            "halves_compared",
            lambda norm, x: np.allclose(norm(x[: len(x) // 2]), norm(x)[: len(x) // 2]),
        ),
        ("last_example_changed", last_changed),
        ("always_independent", lambda norm, x: True),
        ("answer_inverted", lambda norm, x: not others_replaced(norm, x)),
        ("all_examples_changed", lambda norm, x: np.allclose(norm(x + 10), norm(x))),
        ("all_examples_changed", lambda norm, x: np.allclose(norm(2 * x), norm(x))),
        ("last_example_changed", lambda norm, x: np.allclose(norm(x[:-1]), norm(x)[:-1])),
        ("first_example_changed", first_changed),
        ("not_every_example_tested", ends),
        ("some_examples_kept", pairs),
        ("some_examples_kept", kept(lambda x, i: x[: i + 1], -1)),
        ("some_examples_kept", kept(lambda x, i: x[i:], 0)),
        (
            "example_added",
            lambda norm, x: np.allclose(norm(np.append(3 - x[:1], x, 0))[1:], norm(x)),
        ),
        (
            "example_added",
            lambda norm, x: np.allclose(norm(np.append(x, 0 * x[:1], 0))[:-1], norm(x)),
        ),
        ("one_channel_changed", one_channel),
        ("abs_forgotten", alone(lambda a, b: (a - b).max() < 1e-6)),
        ("abs_forgotten", alone(lambda a, b: (b - a).max() < 1e-6)),
        ("tolerance_too_large", alone(lambda a, b: np.allclose(a, b, rtol=0.1, atol=0.1))),
        ("example_means_compared", alone(lambda a, b: np.isclose(a.std(), b.std()))),
        ("example_means_compared", alone(lambda a, b: np.allclose(a[0], b[0]))),
        ("example_means_compared", alone(lambda a, b: np.allclose(a[-1], b[-1]))),
        ("example_means_compared", alone(lambda a, b: np.isclose(a[0, 0], b[0, 0]))),
        ("example_means_compared", alone(lambda a, b: np.allclose(a.mean(-1), b.mean(-1)))),
        ("norm_recognised", lambda norm, x: norm is not BATCHED["batch_norm_training"]),
        ("norm_recognised", lambda norm, x: not np.allclose(norm(x).mean((0, 2)), 0)),
        ("channels_separated", by_channel),
    ],
)
def test_a_wrong_experiment_is_named(name, experiment):
    assert named((INDEPENDENT, experiment), "group_instance_norm/batch") == [name]


def test_wrong_ideas_of_the_batch_are_named():
    wrong = INDEPENDENT | {"batch_norm_inference": False, "group_norm": False}
    assert sorted(named((wrong, permuted), "group_instance_norm/batch")) == [
        "examples_permuted",
        "group_norm_declared_dependent",
        "inference_declared_dependent",
    ]


# --- The parts of a task ----------------------------------------------------------------------


PARTS = {
    "forward": ("images", "shapes"),
    "backward": ("dx", "dgamma_dbeta"),
    "identities": ("identities_predictions", "identities_search"),
    "batch": ("batch_predictions", "batch_experiment"),
}


def mistakes_in(task):
    """The mistakes that show in a task, by name."""
    every = trials(find(f"group_instance_norm/{task}"), 0)
    return {trial.mistakes[0].name for trial in every if trial.wrong}


@pytest.mark.parametrize("whole", PARTS)
def test_every_mistake_shows_in_a_part(whole):
    assert set.union(*map(mistakes_in, PARTS[whole])) == mistakes_in(whole)


# the mistakes that show in one half of the backward pass only
DX_ALONE = """
detached_statistics direct_term_dropped eps_forgotten_in_dvar exact_projection factor_half_lost
factor_two_lost gamma_forgotten_in_dx gamma_forgotten_in_mean gamma_forgotten_in_product
divided_by_r gamma_outside_group_means gamma_twice_in_dx group_size_miscounted mean_term_added
mean_term_dropped means_of_batch_norm means_of_everything one_sum_instead_of_mean power_of_r
brackets_forgotten_in_dx compact_form_incomplete divided_by_n_again dx_negated dxhat_returned
product_mean_without_xhat product_with_x r_forgotten r_forgotten_in_a_path r_twice terms_exchanged
one_plus_gamma sums_instead_of_means term_divided_twice two_means_over_batch x_for_deviation
xhat_term_added xhat_term_dropped
"""
PARAMETERS_ALONE = """
dbeta_with_gamma dbeta_with_xhat dgamma_negated dgamma_with_gamma dgamma_with_x
dgamma_without_xhat gradients_averaged gradients_over_channels one_gradient_averaged
gradients_keep_axes gradients_not_summed gradients_over_examples gradients_over_positions
first_example_kept gradients_of_all gradients_per_example gradients_per_group last_axis_kept
last_example_kept parameters_returned_in_reverse
"""


def test_a_part_knows_what_cannot_show_in_it():
    missing = mistakes_in("forward") - mistakes_in("images")
    assert missing == {
        *("images_only", "remainder_ignored", "assert_for_error", "one_pass_variance"),
        *("parameters_shaped_for_images", "another_exception", "error_returned", "dtype_of_x"),
    }
    assert not mistakes_in("forward") - mistakes_in("shapes")
    assert mistakes_in("backward") - mistakes_in("dgamma_dbeta") == set(DX_ALONE.split())
    assert mistakes_in("backward") - mistakes_in("dx") == set(PARAMETERS_ALONE.split())
    assert not mistakes_in("identities_predictions") & mistakes_in("identities_search")
    assert not mistakes_in("batch_predictions") & mistakes_in("batch_experiment")


def test_a_part_counts_by_itself():
    halves = {
        "dx": lambda *given: (jacobian(*given)[0], None, None),
        "dgamma_dbeta": lambda *given: (None, *jacobian(*given)[1:]),
        "images": lambda x, *given: torch_inside(x, *given) if x.ndim == 4 else None,
        "shapes": lambda x, *given: reshape(x, *given) if x.ndim != 4 or x.shape[1] == 7 else None,
        "identities_predictions": (PREDICTIONS, None),
        "identities_search": ({}, GROUPS_LIKE),
        "batch_predictions": (INDEPENDENT, None),
        "batch_experiment": ({}, EXPERIMENT),
    }
    for whole, parts_of_it in PARTS.items():
        for part in parts_of_it:
            passes(halves[part], f"group_instance_norm/{part}")
            for other in {whole, *parts_of_it} - {part}:
                task = f"group_instance_norm/{other}"
                assert not judge(observe(halves[part], task), task).passed


def test_shapes_alone_are_told_as_too_little():
    def groups_like(norm, group_norm, x):
        numbers = (n for n in range(1, x.shape[1] + 1) if x.shape[1] % n == 0)
        return next((n for n in numbers if group_norm(x, n).shape == norm(x).shape), 0)

    task = "group_instance_norm/identities"
    verdict = judge(observe((PREDICTIONS, groups_like), task), task)
    assert "compares too little of the two outputs" in verdict.explain()


def test_a_batch_that_is_changed_in_place_is_told_and_nothing_that_may_come_of_it():
    def experiment(norm, x):
        for i in range(len(x)):
            before = norm(x)[i]
            x[[j for j in range(len(x)) if j != i]] = 0
            if not np.allclose(norm(x)[i], before):
                return False
        return True

    task = "group_instance_norm/batch"
    verdict = judge(observe((INDEPENDENT, experiment), task), task)
    assert not verdict.mistakes and verdict.explain().count("Changed in place: x.") == 1


def into_zeros_like(x, num_groups, gamma, beta, eps=1e-5):
    check(x, num_groups)
    xhat = np.zeros_like(x)
    for rows, of_example in zip(xhat, x, strict=True):
        size = len(of_example) // num_groups
        for start in range(0, len(of_example), size):
            part = of_example[start : start + size]
            rows[start : start + size] = (part - part.mean()) / np.sqrt(part.var() + eps)
    return spread(gamma, x) * xhat + spread(beta, x)


def returns_in_the_loop(x, num_groups, gamma, beta, eps=1e-5):
    check(x, num_groups)
    y = np.zeros(x.shape, gamma.dtype)
    for n in range(len(x)):
        y[n] = reshape(x[n : n + 1], num_groups, gamma, beta, eps)[0]
        return y


def in_a_loop(begin=lambda g, size: g * size, own=lambda c, size: c, examples=slice(None), ends=0):
    """Where the numbers of a group begin, which gamma and beta it has, after how many it ends."""

    def answer(x, num_groups, gamma, beta, eps=1e-5):
        check(x, num_groups)
        y, size = np.zeros(x.shape, gamma.dtype), x.shape[1] // num_groups
        for n in range(len(x))[examples]:
            for g in range(num_groups)[: ends or None]:
                block = x[n, begin(g, size) : begin(g, size) + size]
                for c in range(g * size, g * size + size):
                    xhat = (x[n, c] - block.mean()) / np.sqrt(block.var() + eps)
                    y[n, c] = gamma[own(c, size)] * xhat + beta[own(c, size)]
        return y

    return answer


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("dtype_of_x", into_zeros_like),
        ("first_example_alone", returns_in_the_loop),
        ("first_group_alone", in_a_loop(ends=1, examples=slice(1))),
        ("gamma_counted_in_the_group", in_a_loop(own=lambda c, size: c % size)),
        ("groups_overlap", in_a_loop(begin=lambda g, size: g)),
        ("loop_ends_early", in_a_loop(examples=slice(-1))),
    ],
)
def test_what_goes_wrong_in_a_loop_is_named(name, answer):
    assert named(answer, "group_instance_norm/forward") == [name]
