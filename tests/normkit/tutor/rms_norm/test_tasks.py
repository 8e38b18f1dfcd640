"""RMSNorm: right answers of any style pass, wrong ones of students are named."""

import functools
import math

import numpy as np
import pytest
import torch

import normkit
from normkit.tutor.judging import differences, judge
from normkit.tutor.mistakes import combine
from normkit.tutor.observing import observe
from normkit.tutor.tasks import find


def named(answer, task, seed=5):
    return [mistake.name for mistake in judge(observe(answer, task, seed), task, seed).mistakes]


def mean(a, axis=-1):
    return a.mean(axis=axis, keepdims=True)


def rms(x, eps=1e-5):
    return np.sqrt(mean(x**2) + eps)


def passes(answer, task):
    for seed in range(3):
        verdict = judge(observe(answer, task, seed), task, seed)
        assert verdict.passed, verdict.explain()


# --- Right ------------------------------------------------------------------------------------


def loops(x, gamma, eps=1e-5):
    y = np.empty(x.shape, dtype=x.dtype if x.dtype.kind == "f" else float)
    for index in np.ndindex(x.shape[:-1]):
        token = x[index].tolist()
        root = math.sqrt(sum(value * value for value in token) / len(token) + eps)
        for i, value in enumerate(token):
            y[(*index, i)] = gamma[i] * value / root
    return y


def einsum(x, gamma, eps=1e-5):
    r = (np.einsum("...d,...d->...", x, x) / x.shape[-1] + eps) ** -0.5
    return np.einsum("...d,...,d->...d", x, r, gamma)


def in_place_on_a_copy(x, gamma, eps=1e-5):
    y = x.astype(np.result_type(x, np.float32))
    y /= np.sqrt(np.square(y).mean(-1, keepdims=True) + eps)
    y *= gamma
    return y


def torch_inside(x, gamma, eps=1e-5):
    gamma = torch.tensor(gamma)
    tensor = torch.tensor(x).to(gamma.dtype)
    return (gamma * tensor * torch.rsqrt(tensor.pow(2).mean(-1, keepdim=True) + eps)).numpy()


def float64_inside(x, gamma, eps=1e-5):
    wide = x.astype(np.float64)
    return (gamma * wide / rms(wide, eps)).astype(gamma.dtype)


def token_by_token(x, gamma, eps=1e-5):
    if x.ndim == 1:
        return gamma * x / np.sqrt(np.dot(x, x) / len(x) + eps)
    return np.stack([token_by_token(token, gamma, eps) for token in x])


def along_the_last_axis(x, gamma, eps=1e-5):
    return np.apply_along_axis(lambda t: gamma * t / np.sqrt((t * t).mean() + eps), -1, x)


def transposed(x, gamma, eps=1e-5):
    return (x.T / np.sqrt((x.T**2).mean(axis=0) + eps)).T * gamma


def hypotenuses(x, gamma, eps=1e-5):
    length = functools.reduce(np.hypot, np.moveaxis(x, -1, 0))
    return gamma * x / np.hypot(length / math.sqrt(len(gamma)), math.sqrt(eps))[..., None]


def products(x, gamma, eps=1e-5):
    mean_square = (x[..., None, :] @ x[..., :, None])[..., 0] / x.shape[-1]
    return x / np.sqrt(mean_square + eps) @ np.diag(gamma)


FORWARD_RIGHT = [
    loops,
    einsum,
    in_place_on_a_copy,
    torch_inside,
    float64_inside,
    token_by_token,
    along_the_last_axis,
    transposed,
    hypotenuses,
    products,
    lambda x, g, eps=1e-5: g * x / np.sqrt((x**2 + eps).mean(axis=-1, keepdims=True)),
    lambda x, g, eps=1e-5: g * x / np.sqrt(x.var(-1, keepdims=True) + mean(x) ** 2 + eps),
    lambda x, g, eps=1e-5: g * x / np.sqrt(np.average(x * x, axis=-1)[..., np.newaxis] + eps),
]


@pytest.mark.parametrize("answer", FORWARD_RIGHT)
def test_right_functions_of_any_style_pass(answer):
    passes(answer, "rms_norm/forward")


def partial_by_weights(x, gamma, p, eps=1e-5):
    share = np.arange(x.shape[-1]) < math.ceil(p * x.shape[-1])
    return (x * gamma / np.sqrt((x * x * share).sum(-1, keepdims=True) / share.sum() + eps)).astype(
        x.dtype
    )


def partial_with_helper(x, gamma, p, eps=1e-5):
    first = x[..., : int(np.ceil(x.shape[-1] * p))]
    return gamma * x / rms(first, eps)


def partial_by_sums(x, gamma, p, eps=1e-5):
    k = -int(-p * x.shape[-1] // 1)
    return gamma * x / np.sqrt(np.cumsum(x**2, axis=-1)[..., k - 1 : k] / k + eps)


def partial_in_two(x, gamma, p, eps=1e-5):
    first, rest = np.split(x, [int(np.ceil(p * len(gamma)))], axis=-1)
    r = 1 / rms(first, eps)
    return np.concatenate([first * r, rest * r], axis=-1) * gamma


def partial_in_loops(x, gamma, p, eps=1e-5):
    k, y = 0, np.zeros(x.shape, gamma.dtype)
    while k < p * len(gamma):
        k += 1
    for index in np.ndindex(x.shape[:-1]):
        total = sum(float(value) ** 2 for value in x[index][:k])
        y[index] = gamma * x[index] / math.sqrt(total / k + eps)
    return y


def partial_of_numbers(x, gamma, p, eps=1e-5):
    counted = np.where(np.arange(len(gamma)) < math.ceil(p * len(gamma)), x, np.nan)
    return gamma * x / np.sqrt(np.nanmean(counted**2, axis=-1, keepdims=True) + eps)


PARTIAL_RIGHT = [
    partial_by_weights,
    partial_with_helper,
    partial_by_sums,
    partial_in_two,
    partial_in_loops,
    partial_of_numbers,
]


@pytest.mark.parametrize("answer", PARTIAL_RIGHT)
def test_right_partial_functions_of_any_style_pass(answer):
    passes(answer, "rms_norm/partial")


def jacobian(dy, x, gamma, eps=1e-5):
    r = 1 / rms(x, eps)
    outer = (x * r)[..., :, None] * (x * r)[..., None, :]
    matrix = r[..., None] * (np.eye(len(gamma), dtype=gamma.dtype) - outer / len(gamma))
    dx = np.einsum("...i,...ij->...j", dy * gamma, matrix)
    rows = -1, len(gamma)
    return [dx, np.einsum("nd,nd->d", dy.reshape(rows), (x * r).reshape(rows))]


def quotient_rule(dy, x, gamma, eps=1e-5):
    root = rms(x, eps)
    dot = (dy * gamma * x).sum(-1, keepdims=True)
    dx = dy * gamma / root - x * dot / (x.shape[-1] * root**3)
    return dx, (dy * x / root).reshape(-1, len(gamma)).sum(0)


def loops_into_zeros(dy, x, gamma, eps=1e-5):
    """Into arrays of float64, whatever the dtype of x: no statement forbids it."""
    features = x.shape[-1]
    dx, dgamma = np.zeros(x.shape), np.zeros(features)
    for index in np.ndindex(x.shape[:-1]):
        token, arriving = x[index].astype(float), dy[index].astype(float)
        r = 1 / math.sqrt(token @ token / features + eps)
        along = sum(arriving * gamma * token) / features
        for i in range(features):
            dgamma[i] += arriving[i] * token[i] * r
            dx[index][i] = r * arriving[i] * gamma[i] - token[i] * r**3 * along
    return dx, dgamma


def by_stages(dy, x, gamma, eps=1e-5):
    mean_square = mean(x**2) + eps
    dr = np.sum(dy * gamma * x, axis=-1, keepdims=True)
    dmean_square = -0.5 * mean_square**-1.5 * dr
    dx = dy * gamma * mean_square**-0.5
    dx = dx + 2 * x * dmean_square * np.ones_like(dy) / x.shape[-1]
    dgamma = dy * x * mean_square**-0.5
    while dgamma.ndim > 1:
        dgamma = dgamma.sum(axis=0)
    return dx, dgamma


def by_more_stages(dy, x, gamma, eps=1e-5):
    root = np.sqrt((x * x).sum(-1, keepdims=True) / x.shape[-1] + eps)
    inverse, dxhat = 1 / root, gamma * dy
    droot = -(dxhat * x).sum(-1, keepdims=True) / root**2
    dsquare = 0.5 * droot / root / x.shape[-1] * np.ones(x.shape)
    rows = -1, len(gamma)
    dgamma = np.einsum("nd,nd->d", dy.reshape(rows), (x * inverse).reshape(rows))
    return dxhat * inverse + 2 * x * dsquare, dgamma


def in_float64(dy, x, gamma, eps=1e-5):
    return jacobian(*(array.astype(float) for array in (dy, x, gamma)), eps)


def torch_by_hand(dy, x, gamma, eps=1e-5):
    dy, x, gamma = (torch.tensor(array).double() for array in (dy, x, gamma))
    r = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
    xhat, dxhat = x * r, dy * gamma
    dx = r * (dxhat - xhat * (dxhat * xhat).mean(-1, keepdim=True))
    return dx.numpy(), (dy * xhat).reshape(-1, len(gamma)).sum(0).numpy()


def one_fraction(dy, x, gamma, eps=1e-5):
    square, dxhat = mean(x * x) + eps, dy * gamma
    dgamma = np.zeros_like(gamma)
    for index in np.ndindex(x.shape):
        dgamma[index[-1]] += dy[index] * x[index] / np.sqrt(square[index[:-1]][0])
    return (dxhat * square - x * mean(dxhat * x)) / square**1.5, dgamma


@pytest.mark.parametrize("task", ["backward", "dx", "dgamma"])
@pytest.mark.parametrize(
    "answer",
    [
        jacobian,
        quotient_rule,
        loops_into_zeros,
        by_stages,
        by_more_stages,
        in_float64,
        torch_by_hand,
        one_fraction,
    ],
)
def test_right_gradients_of_any_style_pass(answer, task):
    passes(answer, f"rms_norm/{task}")


def test_each_gradient_counts_by_itself():
    for task, answer in (
        ("rms_norm/dx", lambda *given: (quotient_rule(*given)[0], None)),
        ("rms_norm/dgamma", lambda *given: (None, quotient_rule(*given)[1])),
    ):
        passes(answer, task)
        for name, other in (
            ("rms_norm/backward", answer),
            (task, lambda *given: None),
            (task, lambda *given: np.ones(3)),
        ):
            assert any(differences(observe(other, name), find(name)))


def wide_until_the_end(x, gamma, eps=1e-5):
    wide = x.astype(np.float64)
    return (gamma * wide / rms(wide, eps)).astype(x.dtype)


def rounded_before_gamma(x, gamma, eps=1e-5):
    wide = x.astype(np.float32)
    return gamma * (wide / rms(wide, np.float32(eps))).astype(x.dtype)


def torch_half(x, gamma, eps=1e-5):
    wide = torch.tensor(x).float()
    y = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return (torch.tensor(gamma) * y).half().numpy()


def half_in_loops(x, gamma, eps=1e-5):
    y = np.empty_like(x)
    for index in np.ndindex(x.shape[:-1]):
        token = [float(value) for value in x[index]]
        root = math.sqrt(math.fsum(value * value for value in token) / len(token) + eps)
        y[index] = [float(g) * value / root for g, value in zip(gamma, token, strict=True)]
    return y


def scaled_and_back(x, gamma, eps=1e-5):
    wide = x.astype(np.float32)
    largest = np.maximum(np.abs(wide).max(axis=-1, keepdims=True), 1e-4)
    scaled = wide / largest
    return (gamma * scaled / np.sqrt(mean(scaled**2) + eps / largest**2)).astype(x.dtype)


HALF_RIGHT = [
    wide_until_the_end,
    rounded_before_gamma,
    torch_half,
    half_in_loops,
    scaled_and_back,
    lambda x, g, eps=1e-5: (
        x / np.sqrt(np.mean(np.square(x, dtype=np.float32), -1, keepdims=True) + eps) * g
    ).astype("f2"),
    lambda x, g, eps=1e-5: (g.astype(np.float32) * x / rms(np.float32(x), eps)).astype(x.dtype),
]


@pytest.mark.parametrize("answer", HALF_RIGHT)
def test_half_precision_may_round_before_gamma_or_after(answer):
    passes(answer, "rms_norm/half")


def gamma_afterwards(x, gamma, beta, eps, rms_norm):
    return gamma * rms_norm(x - mean(x), np.ones(len(gamma)), eps) + beta


def each_token(x, gamma, beta, eps, rms_norm):
    if x.ndim == 1:
        return rms_norm(x - x.mean(), gamma, eps=eps) + beta
    return np.array([each_token(token, gamma, beta, eps, rms_norm) for token in x])


def by_a_matrix(x, gamma, beta, eps, rms_norm):
    centre = (np.eye(len(gamma)) - 1 / len(gamma)).astype(gamma.dtype)
    y = rms_norm(x @ centre, gamma=gamma, eps=eps)
    y += beta
    return y


@pytest.mark.parametrize("answer", [gamma_afterwards, each_token, by_a_matrix])
def test_right_layer_normalisations_of_any_style_pass(answer):
    passes(answer, "rms_norm/layer_norm")


def matrices(weight, bias, gamma, beta):
    return np.array(weight @ np.diag(gamma)), [*(weight.dot(beta) + bias)] * np.ones(len(bias))


def row_by_row(weight, bias, gamma, beta):
    rows = [[w * g for w, g in zip(row, gamma, strict=True)] for row in weight]
    shifts = [sum(w * b for w, b in zip(row, beta, strict=True)) for row in weight]
    return np.array(rows), bias + np.array(shifts)


def tried_on_unit_vectors(weight, bias, gamma, beta):
    def layer(xhat):
        return weight @ (gamma * xhat + beta) + bias

    shift = layer(np.zeros(len(gamma)))
    return np.stack([layer(unit) - shift for unit in np.eye(len(gamma))], axis=1), shift


def homogeneous(weight, bias, gamma, beta):
    last = np.append(np.zeros(len(gamma)), 1)
    norm = np.vstack([np.column_stack([np.diag(gamma), beta]), last])
    both = np.column_stack([weight, bias]) @ norm
    return both[:, :-1], both[:, -1]


FOLD_RIGHT = [
    matrices,
    row_by_row,
    tried_on_unit_vectors,
    homogeneous,
    lambda w, b, g, beta: [np.einsum("ij,j->ij", w, g), b + np.einsum("ij,j->i", w, beta)],
    lambda w, b, g, beta: ((w.T * g[:, None]).T, beta @ w.T + b),
]


@pytest.mark.parametrize("answer", FOLD_RIGHT)
def test_right_folds_of_any_style_pass(answer):
    passes(answer, "rms_norm/fold")


def projector(weight, bias):
    centre = np.eye(len(bias)) - 1 / len(bias)
    return centre @ weight, centre @ bias


def test_a_right_fold_of_the_centring_passes():
    passes(projector, "rms_norm/fold_centring")


def autograd(dy, x, gamma, eps=1e-5):
    dy, gamma = torch.tensor(dy), torch.tensor(gamma).requires_grad_()
    x = torch.tensor(x).to(dy.dtype).requires_grad_()
    y = gamma * x / (x.square().mean(-1, keepdim=True) + eps).sqrt()
    return [gradient.numpy() for gradient in torch.autograd.grad(y, (x, gamma), dy)]


def functional(x, gamma, eps=1e-5):
    gamma = torch.tensor(gamma)
    return torch.rms_norm(torch.tensor(x).to(gamma.dtype), gamma.shape, gamma, eps).numpy()


@pytest.mark.parametrize(
    ("task", "answer", "name"),
    [
        ("rms_norm/forward", normkit.rms_norm, "normkit.rms_norm"),
        ("rms_norm/forward", functional, "torch.rms_norm"),
        ("rms_norm/half", functional, "torch.rms_norm"),
        ("rms_norm/backward", autograd, "torch.autograd.grad"),
        ("rms_norm/layer_norm", lambda *a: normkit.layer_norm(*a[:-1]), "normkit.layer_norm"),
    ],
)
def test_a_ready_made_answer_is_refused(task, answer, name):
    difference = judge(observe(answer, task), task).difference
    assert (difference.what, difference.name) == ("ready_made", name)


# --- Wrong ------------------------------------------------------------------------------------


def into_zeros_like(x, gamma, eps=1e-5):
    y = np.zeros_like(x)
    for index in np.ndindex(x.shape[:-1]):
        y[index] = gamma * x[index] / np.sqrt((x[index] ** 2).mean() + eps)
    return y


def loop_over_first_axis(x, gamma, eps=1e-5):
    y = np.empty(x.shape, gamma.dtype)
    for i, part in enumerate(x):
        y[i] = gamma * part / np.sqrt(np.mean(part**2) + eps)
    return y


def divided_in_place(x, gamma, eps=1e-5):
    x /= rms(x, eps)
    return gamma * x


FORWARD = {
    "layer_norm_instead": [
        lambda x, g, eps=1e-5: g * (x - mean(x)) / np.sqrt(x.var(-1, keepdims=True) + eps)
    ],
    "standard_deviation": [lambda x, g, eps=1e-5: g * x / np.sqrt(x.var(-1)[..., None] + eps)],
    "squares_summed": [
        lambda x, g, eps=1e-5: (
            g * x / np.sqrt(np.linalg.norm(x, axis=-1, keepdims=True) ** 2 + eps)
        ),
        lambda x, g, eps=1e-5: x * g * ((x * x).sum(-1, keepdims=True) + eps) ** -0.5,
    ],
    "square_of_mean": [lambda x, g, eps=1e-5: g * x / (mean(x) ** 2 + eps) ** 0.5],
    "mean_square_without_root": [lambda x, g, eps=1e-5: g * (x / (mean(x * x) + eps))],
    "multiplied_by_rms": [lambda x, g, eps=1e-5: g * x * np.sqrt(mean(x * x) + eps)],
    "eps_added_to_rms": [lambda x, g, eps=1e-5: g * x / (np.sqrt(mean(x * x)) + eps)],
    "eps_added_to_xhat": [
        lambda x, g, eps=1e-5: g * (x / np.sqrt(mean(x**2)) + eps),
        lambda x, g, eps=1e-5: g * x / np.sqrt(mean(x**2)) + eps,
    ],
    "eps_subtracted": [lambda x, g, eps=1e-5: g * x / np.sqrt(mean(x * x) - eps)],
    "rms_without_eps": [
        lambda x, g, eps=1e-5: g * x * np.sqrt(x.shape[-1]) / np.linalg.norm(x, axis=-1)[..., None]
    ],
    "rms_over_batch": [lambda x, g, eps=1e-5: x / np.sqrt((x**2).mean(0) + eps) * g],
    "rms_of_all": [lambda x, g, eps=1e-5: x / np.sqrt(np.mean(x**2) + eps) * g],
    "rms_without_keepdims": [lambda x, g, eps=1e-5: g * x / np.sqrt((x**2).mean(-1) + eps)],
    "one_plus_gamma": [lambda x, g, eps=1e-5: x / rms(x, eps) * (1.0 + g)],
    "rms_gamma_forgotten": [lambda x, g, eps=1e-5: (x / rms(x, eps)).astype((g * x).dtype)],
    "rms_over_axis_1": [
        lambda x, g, eps=1e-5: g * x / np.sqrt((x**2).mean(axis=1, keepdims=True) + eps),
        lambda x, g, eps=1e-5: g * x / np.sqrt((x**2).mean(axis=1)[:, None] + eps),
    ],
    "rms_as_column": [
        lambda x, g, eps=1e-5: g * x / np.sqrt((x**2).mean(axis=1).reshape(-1, 1) + eps),
        lambda x, g, eps=1e-5: g * x / np.sqrt((x**2).mean(axis=-1)[:, np.newaxis] + eps),
        lambda x, g, eps=1e-5: g * x / np.sqrt((x**2).mean(axis=-1).reshape(-1, 1) + eps),
    ],
    "gamma_before_rms": [lambda x, g, eps=1e-5: (z := g * x) / rms(z, eps)],
    "divided_by_one_less": [
        lambda x, g, eps=1e-5: g * x / ((x**2).sum(-1, keepdims=True) / (len(g) - 1) + eps) ** 0.5
    ],
    "divided_by_len": [
        lambda x, g, eps=1e-5: g * x / np.sqrt((x**2).sum(-1, keepdims=True) / len(x) + eps)
    ],
    "mean_of_absolute": [
        lambda x, g, eps=1e-5: g * x / np.sqrt(mean(np.abs(x)) ** 2 + eps),
        lambda x, g, eps=1e-5: g * x / mean(np.sqrt(x**2 + eps)),
    ],
    "subtracted_from_x": [lambda x, g, eps=1e-5: x - g * x / rms(x, eps)],
    "rms_fixed_eps": [
        lambda x, g, eps=1e-5: g * x / np.sqrt(mean(x * x) + 1e-5),
        lambda x, g, eps=1e-5: g * x / np.sqrt(mean(x * x) + 1e-6),
        lambda x, g, eps=1e-5: g * x / np.sqrt(mean(x * x) + 1e-8),
        lambda x, g, eps=1e-5: g * x / np.sqrt(mean(x * x) + np.finfo(g.dtype).eps),
    ],
    "eps_added_twice": [lambda x, g, eps=1e-5: g * x / (rms(x, eps) + eps)],
    "eps_as_lower_bound": [
        lambda x, g, eps=1e-5: g * x / np.maximum(rms(x, 0), eps),
        lambda x, g, eps=1e-5: g * x / np.sqrt(np.clip(mean(x**2), eps, None)),
    ],
    "not_squared": [lambda x, g, eps=1e-5: g * x / np.sqrt(mean(x) + eps)],
    "mean_forgotten": [lambda x, g, eps=1e-5: g * x / np.sqrt(x**2 + eps)],
    "divided_by_size": [
        lambda x, g, eps=1e-5: g * x / np.sqrt((x**2).sum(-1, keepdims=True) / x.size + eps)
    ],
    "divided_after_root": [
        lambda x, g, eps=1e-5: g * x / (np.sqrt((x**2).sum(-1, keepdims=True) + eps) / len(g)),
        lambda x, g, eps=1e-5: g * x / (np.linalg.norm(x, axis=-1, keepdims=True) / len(g) + eps),
    ],
    "rms_of_last_two_axes": [
        lambda x, g, eps=1e-5: g * x / np.sqrt((x**2).mean(axis=(-1, -2), keepdims=True) + eps)
    ],
    "gamma_added": [lambda x, g, eps=1e-5: g + x / rms(x, eps)],
    "gamma_in_denominator": [lambda x, g, eps=1e-5: x / (rms(x, eps) * g)],
    "dtype_of_x": [lambda x, g, eps=1e-5: (g * x / rms(x, eps)).astype(x.dtype), into_zeros_like],
    "x_changed_in_place": [divided_in_place],
    "loop_over_first_axis": [
        lambda x, g, eps=1e-5: np.array([g * part / np.sqrt((part**2).mean() + eps) for part in x]),
        loop_over_first_axis,
    ],
}


def partial(k, divide=lambda x, g, r, k: g * x / r):
    """Partial RMSNorm with this k."""

    def answer(x, gamma, p, eps=1e-5):
        count = k(p * x.shape[-1])
        return divide(x, gamma, rms(x[..., :count], eps), count)

    return answer


def overwritten(x, g, r, k):
    y = x.copy()
    y[..., :k] /= r
    return g * y


def gamma_on_first(x, gamma, p, eps=1e-5):
    k = math.ceil(p * x.shape[-1])
    y = x / rms(x[..., :k], eps)
    y[..., :k] *= gamma[:k]
    return y


def rest_zero(x, gamma, p, eps=1e-5):
    y, k = np.zeros_like(x), math.ceil(p * len(gamma))
    y[..., :k] = gamma[:k] * x[..., :k] / rms(x[..., :k], eps)
    return y


def all_divided_by_k(x, gamma, p, eps=1e-5):
    total = np.einsum("...d,...d->...", x, x)[..., None]
    return gamma * x / np.sqrt(total / math.ceil(p * len(gamma)) + eps)


def all_of_gamma(x, gamma, p, eps=1e-5):
    first = x[..., : math.ceil(p * x.shape[-1])]
    return gamma * first / rms(first, eps)


def one_too_few_of_k(x, gamma, p, eps=1e-5):
    k = math.ceil(p * x.shape[-1])
    total = (x[..., : k - 1] ** 2).sum(axis=-1, keepdims=True)
    return gamma * x / np.sqrt(total / k + eps)


PARTIAL = {
    "rest_zero": rest_zero,
    "feature_k_alone": lambda x, g, p, eps=1e-5: (
        g * x / rms(x[..., math.ceil(p * x.shape[-1])], eps)
    ),
    "all_divided_by_k": all_divided_by_k,
    "one_feature_off": partial(lambda size: math.ceil(size) + 1),
    "rms_fixed_eps": lambda x, g, p, eps=1e-5: g * x / rms(x[..., : math.ceil(p * len(g))], 1e-6),
    "k_rounded_down": partial(int),
    "k_rounded_down_to_1_or_more": partial(lambda size: max(1, int(size))),
    "k_one_too_large": partial(lambda size: int(size) + 1),
    "divided_by_share": lambda x, g, p, eps=1e-5: (
        g
        * x
        / np.sqrt(
            (x[..., : math.ceil(p * len(g))] ** 2).sum(-1, keepdims=True) / (p * len(g)) + eps
        )
    ),
    "gamma_on_first": gamma_on_first,
    "second_axis_cut": lambda x, g, p, eps=1e-5: (
        g * x / rms(x[:, : math.ceil(p * x.shape[-1])], eps)
    ),
    "k_rounded_to_nearest": partial(lambda size: int(np.rint(size))),
    "first_tokens": lambda x, g, p, eps=1e-5: g * x / rms(x[: math.ceil(p * x.shape[-1])], eps),
    "rest_not_divided": partial(math.ceil, overwritten),
    "rest_dropped": partial(math.ceil, lambda x, g, r, k: (g * x / r)[..., :k]),
    "p_without_effect": lambda x, g, p, eps=1e-5: g * x / rms(x, eps),
    "k_of_tokens": lambda x, g, p, eps=1e-5: g * x / rms(x[..., : math.ceil(len(x) * p)], eps),
    "last_features": lambda x, g, p, eps=1e-5: (
        g * x / rms(x[..., x.shape[-1] - math.ceil(p * x.shape[-1]) :], eps)
    ),
    "divided_by_all": lambda x, g, p, eps=1e-5: (
        g * x / np.sqrt(mean(x**2 * (np.arange(len(g)) < math.ceil(p * len(g)))) + eps)
    ),
}


def backward(dx):
    """A backward pass whose gradient of gamma is right, around this dx."""

    def answer(dy, x, gamma, eps=1e-5):
        xhat = x / rms(x, eps)
        over = tuple(range(x.ndim - 1))
        return dx(dy, xhat, rms(x, eps), gamma), np.sum(dy * xhat, axis=over)

    return answer


BACKWARD = {
    "detached_rms": lambda dy, xhat, r, g: dy * g / r,
    "projection_added": lambda dy, xhat, r, g: dy * g / r + xhat / r * mean(dy * g * xhat),
    "mean_term_kept": lambda dy, xhat, r, g: (
        (dy * g - mean(dy * g) - xhat * mean(dy * g * xhat)) / r
    ),
    "projection_summed": lambda dy, xhat, r, g: (
        (dy * g - xhat * (dy * g * xhat).sum(-1, keepdims=True)) / r
    ),
    "projection_doubled": lambda dy, xhat, r, g: dy * g / r - xhat * 2 / r * mean(dy * g * xhat),
    "x_instead_of_xhat": lambda dy, xhat, r, g: (
        (dy * g - (xhat * r) * mean(dy * g * (xhat * r))) / r
    ),
    "division_forgotten": lambda dy, xhat, r, g: dy * g - xhat * mean(dy * g * xhat),
    "gamma_outside_projection": lambda dy, xhat, r, g: g / r * (dy - xhat * mean(dy * xhat)),
    "rms_gamma_forgotten_in_dx": lambda dy, xhat, r, g: (dy - xhat * mean(dy * xhat)) / r,
    "gamma_forgotten_in_projection": lambda dy, xhat, r, g: (dy * g - xhat * mean(dy * xhat)) / r,
    "x_for_one_xhat": lambda dy, xhat, r, g: (dy * g - xhat * r * mean(dy * g * xhat)) / r,
    "projection_of_all": lambda dy, xhat, r, g: (dy * g - xhat * (dy * g * xhat).mean()) / r,
    "projection_over_batch": lambda dy, xhat, r, g: (dy * g - xhat * (dy * g * xhat).mean(0)) / r,
    "projection_without_keepdims": lambda dy, xhat, r, g: (
        (dy * g - xhat * (dy * g * xhat).mean(-1)) / r
    ),
    "norm_forgotten_in_dx": lambda dy, xhat, r, g: g * dy,
    "direct_term_forgotten": lambda dy, xhat, r, g: -xhat / r * mean(dy * g * xhat),
    "projection_halved": lambda dy, xhat, r, g: (dy * g - 0.5 * xhat * mean(dy * g * xhat)) / r,
    "projection_averaged_twice": lambda dy, xhat, r, g: (
        (dy * g - xhat / len(g) * mean(dy * g * xhat)) / r
    ),
    "projection_over_len": lambda dy, xhat, r, g: (
        (dy * g - xhat * np.sum(dy * g * xhat, -1, keepdims=True) / len(dy)) / r
    ),
    "projection_without_xhat": lambda dy, xhat, r, g: (dy * g - mean(dy * g * xhat)) / r,
    "mean_of_dxhat": lambda dy, xhat, r, g: (dy * g - xhat * mean(dy * g)) / r,
    "products_not_averaged": lambda dy, xhat, r, g: dy * g / r * (1 - xhat * xhat),
    "exact_projection": lambda dy, xhat, r, g: (
        (dy * g - xhat * mean(dy * g * xhat) / mean(xhat**2)) / r
    ),
    "y_for_xhat": lambda dy, xhat, r, g: (dy * g - g * xhat * mean(dy * g * g * xhat)) / r,
    "gamma_twice_in_dx": lambda dy, xhat, r, g: g / r * (dy * g - xhat * mean(dy * g * xhat)),
    "divided_too_often": lambda dy, xhat, r, g: dy * g / r - xhat / r**2 * mean(dy * g * xhat),
    "dx_multiplied_by_rms": lambda dy, xhat, r, g: r * (dy * g - xhat * mean(dy * g * xhat)),
    "brackets_forgotten_in_dx": lambda dy, xhat, r, g: dy * g - xhat * mean(dy * g * xhat) / r,
}


def staged(**wrong):
    """The gradient by stages, around these other stages."""

    def answer(dy, x, gamma, eps=1e-5):
        r = 1 / rms(x, eps)
        values = {"dxhat": dy * gamma, "x": x, "r": r, "D": x.shape[-1], "dy": dy}
        for name in STAGES:
            values[name] = wrong.get(name, STAGES[name])(**values)
        return values["dx"], (dy * x * r).sum(axis=tuple(range(x.ndim - 1)))

    return answer


STAGES = {
    "dr": lambda dxhat, x, **_: (dxhat * x).sum(-1, keepdims=True),
    "dmean_square": lambda dr, r, **_: -0.5 * dr * r**3,
    "dsquares": lambda dmean_square, D, **_: dmean_square / D,
    "dx": lambda dxhat, x, r, dsquares, **_: dxhat * r + 2 * x * dsquares,
}
STAGED = {
    "projection_added": staged(dmean_square=lambda dr, r, **_: 0.5 * dr * r**3),
    "projection_doubled": staged(dmean_square=lambda dr, r, **_: -dr * r**3),
    "x_for_one_xhat": staged(dmean_square=lambda dr, r, **_: -0.5 * dr * r**2),
    "x_instead_of_xhat": staged(dmean_square=lambda dr, r, **_: -0.5 * dr * r),
    "projection_summed": staged(dsquares=lambda dmean_square, **_: dmean_square),
    "projection_over_len": staged(dsquares=lambda dmean_square, dy, **_: dmean_square / len(dy)),
    "projection_halved": staged(dx=lambda dxhat, x, r, dsquares, **_: dxhat * r + x * dsquares),
    "detached_rms": staged(dx=lambda dxhat, r, **_: dxhat * r),
    "direct_term_forgotten": staged(dx=lambda x, dsquares, **_: 2 * x * dsquares),
    "gamma_forgotten_in_projection": staged(dr=lambda dy, x, **_: (dy * x).sum(-1, keepdims=True)),
    "products_not_averaged": staged(dr=lambda dxhat, x, **_: dxhat * x),
    "projection_averaged_twice": staged(dr=lambda dxhat, x, **_: mean(dxhat * x)),
}


def gradient_of_gamma(dgamma):
    """A backward pass whose dx is right, around this dgamma."""

    def answer(dy, x, gamma, eps=1e-5):
        over = tuple(range(x.ndim - 1))
        root = rms(x, eps)
        return quotient_rule(dy, x, gamma, eps)[0], dgamma(dy, x / root, gamma, over, root)

    return answer


DGAMMA = {
    "dgamma_without_product": lambda dy, xhat, g, over, r: dy.sum(axis=over),
    "dgamma_of_x": lambda dy, xhat, g, over, r: (r * xhat * dy).sum(axis=over),
    "dgamma_of_dxhat": lambda dy, xhat, g, over, r: np.sum(g * dy * xhat, axis=over),
    "dgamma_not_summed": lambda dy, xhat, g, over, r: dy * xhat,
    "dgamma_averaged": lambda dy, xhat, g, over, r: (dy * xhat).sum(axis=over) / len(dy),
    "dgamma_over_features": lambda dy, xhat, g, over, r: (dy * xhat).sum(axis=-1),
    "dgamma_over_first_axis": lambda dy, xhat, g, over, r: sum(dy * xhat),
    "dgamma_of_all": lambda dy, xhat, g, over, r: np.sum(dy * xhat),
    "dgamma_with_keepdims": lambda dy, xhat, g, over, r: (dy * xhat).sum(over, keepdims=True),
    "dgamma_without_dy": lambda dy, xhat, g, over, r: xhat.sum(axis=over),
    "dgamma_divided_twice": lambda dy, xhat, g, over, r: (dy * xhat / r).sum(axis=over),
}


def over_axis_1(dy, x, gamma, eps=1e-5):
    r = 1 / np.sqrt((x**2).mean(axis=1, keepdims=True) + eps)
    xhat, dxhat = x * r, dy * gamma
    dx = r * (dxhat - xhat * (dxhat * xhat).mean(axis=1, keepdims=True))
    return dx, (dy * xhat).sum(axis=tuple(range(x.ndim - 1)))


def swapped(*given):
    dx, dgamma = quotient_rule(*given)
    return dgamma, dx


def lost_when_partial(dy, x, gamma, p, eps=1e-5):
    """The gradient of the whole RMSNorm, with the root of the partial one."""
    k = math.ceil(p * x.shape[-1])
    root = rms(x[..., :k], eps)
    dx = (dy * gamma - x / root * (dy * gamma * x / root).sum(-1, keepdims=True) / k) / root
    return dx, (dy * x / root).reshape(-1, len(gamma)).sum(0)


def centred_in_place(x, gamma, beta, eps, rms_norm):
    x -= mean(x)
    return rms_norm(x, gamma, eps) + beta


LAYER_NORM = {
    "not_centred": lambda x, g, b, eps, rms_norm: rms_norm(x, g, eps) + b,
    "centred_afterwards": lambda x, g, b, eps, rms_norm: (y := rms_norm(x, g, eps)) - mean(y) + b,
    "rms_norm_not_used": lambda x, g, b, eps, rms_norm: (
        g * (x - mean(x)) / np.sqrt(x.var(-1, keepdims=True) + eps) + b
    ),
    "mean_over_batch": lambda x, g, b, eps, rms_norm: rms_norm(x - x.mean(0), g, eps) + b,
    "gamma_twice": lambda x, g, b, eps, rms_norm: rms_norm(x - mean(x), g, eps) * g + b,
    "eps_not_passed": lambda x, g, b, eps, rms_norm: rms_norm(x - mean(x), g) + b,
    "beta_passed_through": lambda x, g, b, eps, rms_norm: rms_norm(x - mean(x) + b, g, eps),
    "affine_first": lambda x, g, b, eps, rms_norm: rms_norm(
        g * (x - mean(x)) + b, np.ones(g.shape, g.dtype), eps
    ),
    "affine_first_and_gamma_again": lambda x, g, b, eps, rms_norm: rms_norm(
        g * (x - mean(x)) + b, g, eps
    ),
    "normalised_twice": lambda x, g, b, eps, rms_norm: (
        rms_norm((x - mean(x)) / rms(x - mean(x), eps), g, eps) + b
    ),
    "normalised_twice_without_eps": lambda x, g, b, eps, rms_norm: (
        rms_norm((z := x / x.std(-1, keepdims=True)) - mean(z), g, eps) + b
    ),
    "arguments_exchanged": lambda x, g, b, eps, rms_norm: rms_norm(x - mean(x), eps, g) + b,
    "mean_added": lambda x, g, b, eps, rms_norm: (m := mean(x)) + rms_norm(x - m, g, eps) + b,
    "gamma_before_rms": lambda x, g, b, eps, rms_norm: (
        rms_norm(g * (x - mean(x)), np.ones_like(g), eps) + b
    ),
    "mean_over_axis_1": lambda x, g, b, eps, rms_norm: (
        rms_norm(x - x.mean(axis=1, keepdims=True), g, eps) + b
    ),
    "beta_times_gamma": lambda x, g, b, eps, rms_norm: (
        g * (rms_norm(x - mean(x), np.ones_like(g), eps) + b)
    ),
    "mean_of_x_afterwards": lambda x, g, b, eps, rms_norm: rms_norm(x, g, eps) - mean(x) + b,
    "gamma_not_passed": lambda x, g, b, eps, rms_norm: rms_norm(x - mean(x), g**0, eps) + b,
    "gamma_and_beta_exchanged": lambda x, g, b, eps, rms_norm: rms_norm(x - mean(x), b, eps) + g,
    "dtype_of_x": lambda x, g, b, eps, rms_norm: (rms_norm(x - mean(x), g, eps) + b).astype(
        x.dtype
    ),
    "changed_in_place": centred_in_place,
}
OTHERWISE = {
    "centred_afterwards": lambda x, g, b, eps, rms_norm: (
        g * ((y := rms_norm(x, np.ones_like(g), eps)) - mean(y)) + b
    ),
    "eps_not_passed": lambda x, g, b, eps, rms_norm: rms_norm(x - mean(x), g, 1e-6) + b,
    "arguments_exchanged": lambda x, g, b, eps, rms_norm: rms_norm(g, x - mean(x), eps) + b,
    "mean_added": lambda x, g, b, eps, rms_norm: rms_norm(x + mean(x), g, eps) + b,
    "gamma_before_rms": lambda x, g, b, eps, rms_norm: (
        rms_norm(g * x - mean(g * x), np.ones_like(g), eps) + b
    ),
    "normalised_twice": lambda x, g, b, eps, rms_norm: (
        rms_norm(rms_norm(x - mean(x), g, eps), g, eps) + b
    ),
}


def half(x, gamma, eps=1e-5):
    return (gamma * x.astype(np.float32) / rms(x, eps)).astype(np.float16)


def root_in_half(x, gamma, eps=1e-5):
    square = np.mean(x.astype(np.float32) ** 2, -1, keepdims=True).astype(np.float16)
    return (gamma * (x / np.sqrt(square.astype(np.float32) + eps))).astype(np.float16)


def half_by_sum(x, gamma, eps=1e-5):
    total = np.sum(np.square(x), axis=-1, keepdims=True)
    return gamma * (x / np.sqrt(total / x.shape[-1] + eps)).astype(x.dtype)


def clipped(x, gamma, eps=1e-5):
    square = np.clip(x**2, None, 65504).mean(axis=-1, keepdims=True)
    return (gamma * (x / np.sqrt(square + eps))).astype(np.float16)


def divided_by_largest(x, gamma, eps=1e-5):
    z = x / np.abs(x).max(axis=-1, keepdims=True)
    return gamma * z / np.sqrt(mean(z**2) + np.float16(eps))


def inverse_in_half(x, gamma, eps=1e-5):
    return gamma * (x * (1 / rms(x.astype(np.float32), eps)).astype(np.float16))


HALF = {
    "inverse_in_half": inverse_in_half,
    "rms_fixed_eps": lambda x, g, eps=1e-5: (
        (x / rms(x.astype(np.float32), 1e-6)).astype(x.dtype) * g
    ),
    "divided_by_largest": divided_by_largest,
    "squares_clipped": clipped,
    "squares_in_half": half,
    "sum_in_half": half_by_sum,
    "mean_square_in_half": root_in_half,
    "product_in_half": lambda x, g, eps=1e-5: (x * g / rms(x.astype(np.float32), eps)).astype(
        x.dtype
    ),
    "not_cast_back": lambda x, g, eps=1e-5: (
        g * x.astype(np.float64) / rms(x.astype(np.float64), eps)
    ),
}

FOLD = {
    "gamma_on_rows": lambda w, b, g, beta: (np.diag(g) @ w, b + w @ beta),
    "weight_of_inputs_and_outputs": lambda w, b, g, beta: (np.diag(g) @ w, b + w.T @ beta),
    "folded_into_previous": lambda w, b, g, beta: (g[:, None] * w, g * b + beta),
    "weight_times_gamma": lambda w, b, g, beta: (w @ g, b + w @ beta),
    "beta_not_folded": lambda w, b, g, beta: (w @ np.diag(g), b),
    "new_weight_on_beta": lambda w, b, g, beta: (w * g, b + (w * g) @ beta),
    "old_bias_lost": lambda w, b, g, beta: (w * g, (w * beta).sum(1)),
    "beta_on_outputs": lambda w, b, g, beta: (w * g, b + beta @ w),
    "beta_summed_over_outputs": lambda w, b, g, beta: (w * g, b + (w * beta).sum(axis=0)),
    "beta_not_summed": lambda w, b, g, beta: (w * g, b + w * beta),
    "gamma_on_bias": lambda w, b, g, beta: (w * g, b * g + w @ beta),
    "divided_by_gamma": lambda w, b, g, beta: (w / g, b + w @ beta),
    "gamma_and_beta_exchanged": lambda w, b, g, beta: (w * beta, b + w @ g),
    "beta_subtracted": lambda w, b, g, beta: (w * g, b - w @ beta),
    "beta_in_weight": lambda w, b, g, beta: (w * g + beta, b),
    "beta_as_column": lambda w, b, g, beta: (w * g, b + w @ beta.reshape(-1, 1)),
    "bias_returned_first": lambda w, b, g, beta: (b + w @ beta, w * g),
    "one_plus_gamma": lambda w, b, g, beta: (w + w * g, b + w @ beta),
    "weight_returned_transposed": lambda w, b, g, beta: (w.T * g[:, None], b + w @ beta),
}
CENTRING = {
    "centred_over_inputs": lambda w, b: (w - mean(w), b - b.mean()),
    "next_layer_centred": lambda w, b: (w - mean(w), b),
    "one_mean_of_weight": lambda w, b: (w - w.mean(), b - b.mean()),
    "bias_not_centred": lambda w, b: (w - mean(w, 0), b),
    "bias_removed": lambda w, b: (w - mean(w, 0), np.zeros_like(b)),
    "sum_of_outputs": lambda w, b: (w - w.sum(0), b - b.mean()),
}
PARTIAL_OTHERWISE = {"rest_dropped": all_of_gamma, "one_feature_off": one_too_few_of_k}
WRITTEN = [
    *(("rms_norm/forward", name, answer) for name in FORWARD for answer in FORWARD[name]),
    *(("rms_norm/partial", *item) for item in (*PARTIAL.items(), *PARTIAL_OTHERWISE.items())),
    *(
        (task, name, backward(dx))
        for task in ("rms_norm/backward", "rms_norm/dx")
        for name, dx in BACKWARD.items()
    ),
    *(
        (task, name, answer)
        for task in ("rms_norm/backward", "rms_norm/dx")
        for name, answer in STAGED.items()
    ),
    *(
        (task, name, gradient_of_gamma(dgamma))
        for task in ("rms_norm/backward", "rms_norm/dgamma")
        for name, dgamma in DGAMMA.items()
        if (task, name) != ("rms_norm/dgamma", "dgamma_divided_twice")  # which may be xhat
    ),
    ("rms_norm/backward", "rms_over_axis_1", over_axis_1),
    ("rms_norm/backward", "gradients_swapped", swapped),
    ("rms_norm/partial_backward", "every_feature_projected", lost_when_partial),
    *(("rms_norm/layer_norm", *item) for item in (*LAYER_NORM.items(), *OTHERWISE.items())),
    *(("rms_norm/half", *item) for item in HALF.items()),
    *(("rms_norm/fold", *item) for item in FOLD.items()),
    *(("rms_norm/fold_centring", *item) for item in CENTRING.items()),
]


def squared_in_the_view(x, gamma, p, eps=1e-5):
    first = x[..., : math.ceil(p * x.shape[-1])]
    first *= first
    return gamma * x / np.sqrt(mean(first) + eps)


def half_by_the_inverse(x, gamma, eps=1e-5):
    return gamma * x * (1 / rms(x.astype(np.float32), eps)).astype(np.float16)


def clipped_then_wide(x, gamma, eps=1e-5):
    mean_square = np.clip(x**2, 0, 65504).mean(axis=-1, keepdims=True, dtype=np.float32)
    return (gamma * (x / np.sqrt(mean_square + eps))).astype(np.float16)


def dx_of_integers(dy, x, gamma, eps=1e-5):
    dx, (right, dgamma) = np.zeros_like(x), combine("rms_norm/rms_norm_backward")(dy, x, gamma, eps)
    dx[...] = right
    return dx, dgamma


def without_the_first(x, gamma, p, eps=1e-5):
    return gamma * x / rms(x[..., 1 : math.ceil(p * x.shape[-1])], eps)


WRITTEN += [
    ("rms_norm/forward", "other_default", lambda x, gamma, eps=1e-6: gamma * x / rms(x, eps)),
    (
        "rms_norm/forward",
        "rms_of_all",
        lambda x, gamma, eps=1e-5: gamma * x / np.sqrt(np.linalg.norm(x) ** 2 / x.shape[-1] + eps),
    ),
    ("rms_norm/half", "product_in_half", half_by_the_inverse),
    ("rms_norm/half", "squares_clipped", clipped_then_wide),
    ("rms_norm/backward", "dtype_of_x", dx_of_integers),
    ("rms_norm/partial", "view_changed_in_place", squared_in_the_view),
    ("rms_norm/partial", "one_feature_off", without_the_first),
    (
        "rms_norm/layer_norm",
        "sum_subtracted",
        lambda x, g, b, eps, norm: norm(x - x.sum(axis=-1, keepdims=True), g, eps) + b,
    ),
    ("rms_norm/fold", "weight_returned_transposed", lambda w, c, g, b: (w.T * g, c + w @ b)),
    ("rms_norm/fold", "beta_summed_to_one_number", lambda w, c, g, b: (w * g, c + np.sum(w * b))),
    ("rms_norm/fold", "beta_summed_to_one_number", lambda w, c, g, b: (w * g, c + b.sum())),
]


def rows_and_columns(x, gamma, eps=1e-5):
    n, d = x.shape
    return gamma * x / np.sqrt((x**2).sum(axis=1).reshape(n, 1) / d + eps)


def rows_and_columns_of_first(x, gamma, p, eps=1e-5):
    _n, d = x.shape
    return gamma * x / rms(x[:, : math.ceil(p * d)], eps)


def with_where(x, gamma, eps=1e-5):
    root = np.sqrt(mean(x**2))
    return gamma * x / np.where(root == 0, eps, root)


def without_nan(x, gamma, p, eps=1e-5):
    first = x[..., : math.ceil(p * x.shape[-1])]
    return np.nan_to_num(gamma * x / np.sqrt(mean(first**2)))


def xhat_without_eps(dy, x, gamma, eps=1e-5):
    root, xhat, dxhat = rms(x, eps), x / rms(x, 0), dy * gamma
    dx = (dxhat - xhat * mean(dxhat * xhat)) / root
    return dx, (dy * xhat).reshape(-1, len(gamma)).sum(0)


def times_power(power):
    return lambda dy, x, gamma, eps=1e-5: (
        quotient_rule(dy, x, gamma, eps)[0] * power(rms(x, eps)),
        quotient_rule(dy, x, gamma, eps)[1],
    )


def counted(share):
    """The RMS of so many features: share(p, x) of them, rounded up."""
    return lambda x, gamma, p, eps=1e-5: gamma * x / rms(x[..., : math.ceil(share(p, x))], eps)


WRITTEN += [
    ("rms_norm/forward", "rms_as_column", rows_and_columns),
    ("rms_norm/partial", "rms_over_axis_1", rows_and_columns_of_first),
    ("rms_norm/forward", "zero_avoided_otherwise", with_where),
    ("rms_norm/partial", "zero_avoided_otherwise", without_nan),
    ("rms_norm/backward", "eps_forgotten_in_xhat", xhat_without_eps),
    ("rms_norm/backward", "dx_negated", times_power(lambda root: -1)),
    ("rms_norm/backward", "divided_by_rms_twice", times_power(lambda root: 1 / root)),
    (
        "rms_norm/backward",
        "arguments_exchanged",
        lambda x, dy, gamma, eps=1e-5: quotient_rule(dy, x, gamma, eps),
    ),
    ("rms_norm/partial", "k_of_rest", counted(lambda p, x: (1 - p) * x.shape[-1])),
    ("rms_norm/partial", "k_of_all_numbers", counted(lambda p, x: p * x.size)),
    (
        "rms_norm/forward",
        "gamma_in_rms_alone",
        lambda x, gamma, eps=1e-5: x / rms(gamma * x, eps),
    ),
    (
        "rms_norm/forward",
        "doubled_for_squared",
        lambda x, gamma, eps=1e-5: gamma * x / np.sqrt(mean(x * 2) + eps),
    ),
    (
        "rms_norm/forward",
        "eps_otherwise",
        lambda x, gamma, eps=1e-5: (
            gamma * x / np.sqrt(((x**2).sum(-1, keepdims=True) + eps) / x.shape[-1])
        ),
    ),
    (
        "rms_norm/forward",
        "other_default",
        lambda x, gamma, epsilon=1e-3: gamma * x / rms(x, epsilon),
    ),
    ("rms_norm/fold", "weight_times_gamma", lambda w, c, g, b: (w @ g[:, None], c + w @ b)),
]


def rounded_in_a_loop(x, gamma, eps=1e-5):
    xhat = np.zeros_like(x)
    for index in np.ndindex(x.shape[:-1]):
        xhat[index] = x[index] / np.sqrt((x[index] ** 2).mean() + eps)
    return gamma * xhat


def returns_in_the_loop(x, gamma, eps=1e-5):
    y = np.zeros(x.shape, gamma.dtype)
    for i in range(len(x)):
        y[i] = gamma * x[i] / np.sqrt((x[i] ** 2).mean() + eps)
        return y


def last_token_kept(dy, x, gamma, eps=1e-5):
    dx, dgamma = np.zeros(x.shape), np.zeros(gamma.shape)
    for index in np.ndindex(x.shape[:-1]):
        dx[index], dgamma = quotient_rule(dy[index], x[index], gamma, eps)
    return dx, dgamma


def product_of_means(dy, x, gamma, eps=1e-5):
    xhat, dxhat = x / rms(x, eps), dy * gamma
    dx = (dxhat - xhat * mean(dxhat) * mean(xhat)) / rms(x, eps)
    return dx, (dy * xhat).sum(tuple(range(x.ndim - 1)))


WRITTEN += [
    ("rms_norm/forward", "dtype_of_x", rounded_in_a_loop),
    ("rms_norm/forward", "first_token_alone", returns_in_the_loop),
    ("rms_norm/backward", "last_token_kept", last_token_kept),
    ("rms_norm/backward", "product_of_means", product_of_means),
    *(
        ("rms_norm/layer_norm", "beta_passed_as_eps", answer)
        for answer in (
            lambda x, g, b, eps, rms_norm: rms_norm(x - mean(x), g, b),
            lambda x, g, b, eps, rms_norm: rms_norm(x - mean(x), g, b) + eps,
            lambda x, g, b, eps, rms_norm: rms_norm(x - mean(x), g, b) + b,
        )
    ),
]


def carried_over(x, gamma, eps=1e-5):
    y, squares = np.empty(x.shape, gamma.dtype), 0.0
    for index in np.ndindex(x.shape[:-1]):
        for value in x[index]:
            squares += value * value
        y[index] = gamma * x[index] / np.sqrt(squares / len(gamma) + eps)
    return y


def one_more_in_a_loop(x, gamma, p, eps=1e-5):
    k, squares = math.ceil(p * len(gamma)), 0.0
    for i in range(k + 1):
        squares = squares + x[..., i] ** 2
    return gamma * x / np.sqrt(squares / k + eps)[..., None]


def from_the_second(x, gamma, p, eps=1e-5):
    return gamma * x / rms(x[..., 1 : math.ceil(p * len(gamma)) + 1], eps)


def over_all_tokens(dy, xhat, r, g):
    return (dy * g - xhat * (dy * g * xhat).mean(tuple(range(dy.ndim - 1)), keepdims=True)) / r


def along_a_unit_vector_once(dy, xhat, r, g):
    unit = xhat / np.linalg.norm(xhat, axis=-1, keepdims=True)
    return (dy * g - xhat * (dy * g * unit).sum(axis=-1, keepdims=True)) / r


WRITTEN += [
    ("rms_norm/forward", "sum_carried_over", carried_over),
    ("rms_norm/partial", "one_feature_off", one_more_in_a_loop),
    ("rms_norm/partial", "counted_from_one", from_the_second),
    ("rms_norm/backward", "projection_over_batch", backward(over_all_tokens)),
    ("rms_norm/backward", "divided_by_length", backward(along_a_unit_vector_once)),
    ("rms_norm/fold", "diagonal_alone", lambda w, c, g, b: (w * np.diag(g), c + w @ b)),
]


def each_of_the_first_axis(x, gamma, eps=1e-5):
    if x.ndim == 1:
        return gamma * x / rms(x, eps)
    return np.stack([gamma * v / np.sqrt(np.mean(v**2) + eps) for v in x])


def axis_1_if_there_is_one(x, gamma, eps=1e-5):
    axis = 0 if len(x.shape) == 1 else 1
    return gamma * x / np.sqrt(mean(x * x, axis) + eps)


def in_two_parts(x, gamma, p, eps=1e-5):
    parts = np.split(x, [math.ceil(p * len(gamma))], axis=-1)
    return gamma * np.concatenate([part / rms(part, eps) for part in parts], axis=-1)


def one_or_the_nearest(x, gamma, p, eps=1e-5):
    return gamma * x / rms(x[..., : round(p * len(gamma)) or 1], eps)


WRITTEN += [
    ("rms_norm/forward", "rms_of_sequence", each_of_the_first_axis),
    ("rms_norm/forward", "rms_over_tokens", axis_1_if_there_is_one),
    ("rms_norm/partial", "rest_by_itself", in_two_parts),
    ("rms_norm/partial", "k_rounded_to_nearest", one_or_the_nearest),
]


@pytest.mark.parametrize(("task", "name", "answer"), WRITTEN)
def test_a_wrong_answer_is_named(task, name, answer):
    assert named(answer, task) == [name]


@pytest.mark.parametrize(
    ("task", "answer"),
    [("forward", rows_and_columns), ("partial", rows_and_columns_of_first)],
)
def test_a_shape_that_is_taken_apart_is_told_as_such(task, answer):
    told = judge(observe(answer, f"rms_norm/{task}"), f"rms_norm/{task}").explain()
    told = " ".join(told.split())
    assert "right for (N, D) alone" in told and "N, D = x.shape takes the shape apart" in told


def test_one_square_less_is_told_without_d():
    def answer(x, gamma, p, eps=1e-5):
        k = math.ceil(p * x.shape[-1])
        square = (x[..., :k] ** 2).sum(-1, keepdims=True) / (k - 1)
        return gamma * x / np.sqrt(square + eps)

    told = judge(observe(answer, "rms_norm/partial"), "rms_norm/partial").explain()
    assert "divide by their number n" in " ".join(told.split())


def test_two_mistakes_are_both_named():
    def answer(x, gamma, p, eps=1e-5):
        return gamma * x / (np.sqrt(mean(x[..., : int(p * x.shape[-1])] ** 2)) + eps)

    assert sorted(named(answer, "rms_norm/partial")) == ["eps_added_to_rms", "k_rounded_down"]


@pytest.mark.parametrize(
    ("task", "answer", "names"),
    [
        (
            "forward",
            lambda x, gamma, eps=1e-5: gamma * x / np.sqrt((x**2).mean(axis=-1)),
            ["rms_without_eps", "rms_without_keepdims"],
        ),
        (
            "partial",
            lambda x, g, p, eps=1e-5: g[:, None] * x / rms(x[..., : int(p * len(g))], eps),
            ["k_rounded_down", "rms_gamma_on_wrong_axis"],
        ),
        (
            "half",
            lambda x, g, eps=1e-5: (
                g * (x / np.sqrt((x * x).sum(-1, keepdims=True) + np.float32(eps)))
            ).astype(x.dtype),
            ["squares_in_half", "squares_summed"],
        ),
    ],
)
def test_of_two_mistakes_none_is_said_to_be_a_rarer_one_that_shows_the_same(task, answer, names):
    assert sorted(named(answer, f"rms_norm/{task}")) == names


def test_an_exception_on_few_inputs_hides_no_mistake():
    def answer(x, gamma, eps=1e-5):
        squares = (x * x).sum(axis=-1, keepdims=True)
        squares += eps
        return gamma * x / np.sqrt(squares)

    verdict = judge(observe(answer, "rms_norm/forward"), "rms_norm/forward")
    assert [mistake.name for mistake in verdict.mistakes] == ["squares_summed"]
    said = verdict.explain()
    assert "Besides, an exception is raised" in said and "  squares += eps" in said
    assert said.count("First seen on") == 2


@pytest.mark.parametrize(
    ("dx", "dgamma"),
    [
        ("detached_rms", "dgamma_averaged"),
        ("rms_gamma_forgotten_in_dx", "dgamma_of_all"),
        ("division_forgotten", "dgamma_with_keepdims"),
    ],
)
def test_both_gradients_are_named(dx, dgamma):
    def answer(*given):
        of_gamma = gradient_of_gamma(DGAMMA[dgamma])
        return backward(BACKWARD[dx])(*given)[0], of_gamma(*given)[1]

    assert sorted(named(answer, "rms_norm/backward")) == sorted([dx, dgamma])


def test_an_unknown_gradient_does_not_hide_a_known_one():
    def answer(*given):
        return given[0] ** 3, gradient_of_gamma(DGAMMA["dgamma_averaged"])(*given)[1]

    assert named(answer, "rms_norm/backward") == ["dgamma_averaged"]


@pytest.mark.parametrize(
    "answer",
    [
        lambda x, g, p, eps=1e-5: g * x / rms(x[..., : np.ceil(p * len(g))], eps),
        lambda x, g, p, eps=1e-5: g * x / x.pow(2),
        lambda x, g, p, eps=1e-5: None,
        lambda x, g, p, eps=1e-5: g,
        lambda x, g, p, eps=1e-5: g * x[..., : math.ceil(p * len(g))] @ g,
    ],
)
def test_what_fits_everywhere_is_not_named(answer):
    assert not named(answer, "rms_norm/partial")


def test_who_does_not_keep_what_astype_returns_is_told():
    def answer(x, gamma, eps=1e-5):
        x.astype(np.float32)
        return (gamma * x / rms(x, eps)).astype(np.float16)

    said = judge(observe(answer, "rms_norm/half"), "rms_norm/half").explain()
    assert "returns a new array, which must be kept" in " ".join(said.split())


def test_rows_and_columns_into_zeros_like_are_both_named():
    def answer(x, gamma, eps=1e-5):
        y = np.zeros_like(x)
        for i in range(x.shape[0]):
            square = sum(x[i][j] ** 2 for j in range(x.shape[1])) / x.shape[1]
            y[i] = gamma * x[i] / np.sqrt(square + eps)
        return y

    assert named(answer, "rms_norm/forward") == ["rms_over_axis_1", "dtype_of_x"]


def fold_in_place(weight, bias, gamma, beta):
    bias += weight @ beta
    weight *= gamma
    return weight, bias


def half_in_place(x, gamma, eps=1e-5):
    wide = x.astype(np.float32)
    x[...] = gamma * (wide / rms(wide, eps))
    return x


@pytest.mark.parametrize(
    ("task", "answer", "changed"),
    [("fold", fold_in_place, "weight, bias"), ("half", half_in_place, "x")],
)
def test_right_results_that_changed_the_inputs_are_in_no_other_order(task, answer, changed):
    told = judge(observe(answer, f"rms_norm/{task}"), f"rms_norm/{task}").explain()
    assert f"Changed in place: {changed}." in told and "another order" not in told


def a_loop_from(first, last):
    def answer(x, gamma, eps=1e-5):
        features = range(first, x.shape[-1] + last)
        square = sum(x[..., i] ** 2 for i in features) / x.shape[-1]
        return gamma * x / np.sqrt(square + eps)[..., np.newaxis]

    return answer


@pytest.mark.parametrize("ends", [(1, 0), (0, -1)])
def test_a_range_that_leaves_a_feature_out_is_named(ends):
    passes(a_loop_from(0, 0), "rms_norm/forward")
    assert named(a_loop_from(*ends), "rms_norm/forward") == ["feature_left_out"]


@pytest.mark.parametrize(
    ("count", "name"),
    [
        (lambda x, p: math.ceil(x.shape[-1] / 2), "half_of_the_features"),
        (lambda x, p: math.ceil(p * x.shape[1]), "k_of_axis_1"),
    ],
)
def test_another_number_of_counted_features_is_named(count, name):
    def answer(x, gamma, p, eps=1e-5):
        return gamma * x / rms(x[..., : count(x, p)], eps)

    assert named(answer, "rms_norm/partial") == [name]


def test_a_root_of_ones_own_with_eps_outside_is_named():
    def answer(x, gamma, beta, eps, rms_norm):
        return gamma * (x - mean(x)) / (x.std(axis=-1, keepdims=True) + eps) + beta

    assert named(answer, "rms_norm/layer_norm") == ["eps_added_to_deviation"]
