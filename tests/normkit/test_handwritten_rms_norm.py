"""RMSNorm: right answers of any style pass, wrong ones of students are named."""

import math

import numpy as np
import pytest
import torch

import normkit
from normkit.mistakes import combine, mistakes_of
from normkit.tasks import TASKS, judge, observe

ROW = np.array([1.0, 7, 5, 5])


def named(answer, task, seed=5):
    return [mistake.name for mistake in judge(observe(answer, task, seed), task, seed).mistakes]


def mean(a, axis=-1):
    return a.mean(axis=axis, keepdims=True)


def rms(x, eps):
    return np.sqrt(mean(x**2) + eps)


def passes(answer, task):
    for seed in range(3):
        verdict = judge(observe(answer, task, seed), task, seed)
        assert verdict.passed, verdict.explain()


# --- Right ------------------------------------------------------------------------------------


def loops(x, gamma, eps):
    y = np.empty(x.shape, dtype=x.dtype if x.dtype.kind == "f" else float)
    for index in np.ndindex(x.shape[:-1]):
        token = x[index].tolist()
        root = math.sqrt(sum(value * value for value in token) / len(token) + eps)
        for i, value in enumerate(token):
            y[(*index, i)] = gamma[i] * value / root
    return y


def einsum(x, gamma, eps):
    r = (np.einsum("...d,...d->...", x, x) / x.shape[-1] + eps) ** -0.5
    return np.einsum("...d,...,d->...d", x, r, gamma)


def in_place_on_a_copy(x, gamma, eps):
    y = x.astype(np.result_type(x, np.float32))
    y /= np.sqrt(np.square(y).mean(-1, keepdims=True) + eps)
    y *= gamma
    return y


def torch_inside(x, gamma, eps):
    gamma = torch.tensor(gamma)
    tensor = torch.tensor(x).to(gamma.dtype)
    return (gamma * tensor * torch.rsqrt(tensor.pow(2).mean(-1, keepdim=True) + eps)).numpy()


@pytest.mark.parametrize("answer", [loops, einsum, in_place_on_a_copy, torch_inside])
def test_right_functions_of_any_style_pass(answer):
    passes(answer, "rms_norm/forward")


def partial_by_weights(x, gamma, p, eps):
    share = np.arange(x.shape[-1]) < math.ceil(p * x.shape[-1])
    return (x * gamma / np.sqrt((x * x * share).sum(-1, keepdims=True) / share.sum() + eps)).astype(
        x.dtype
    )


def partial_with_helper(x, gamma, p, eps):
    first = x[..., : int(np.ceil(x.shape[-1] * p))]
    return gamma * x / rms(first, eps)


@pytest.mark.parametrize("answer", [partial_by_weights, partial_with_helper])
def test_right_partial_functions_of_any_style_pass(answer):
    passes(answer, "rms_norm/partial")


def jacobian(dy, x, gamma, eps):
    r = 1 / rms(x, eps)
    outer = (x * r)[..., :, None] * (x * r)[..., None, :]
    matrix = r[..., None] * (np.eye(len(gamma), dtype=gamma.dtype) - outer / len(gamma))
    dx = np.einsum("...i,...ij->...j", dy * gamma, matrix)
    rows = -1, len(gamma)
    return [dx, np.einsum("nd,nd->d", dy.reshape(rows), (x * r).reshape(rows))]


def quotient_rule(dy, x, gamma, eps):
    root = rms(x, eps)
    dot = (dy * gamma * x).sum(-1, keepdims=True)
    dx = dy * gamma / root - x * dot / (x.shape[-1] * root**3)
    return dx, (dy * x / root).reshape(-1, len(gamma)).sum(0)


@pytest.mark.parametrize("answer", [jacobian, quotient_rule])
def test_right_gradients_of_any_style_pass(answer):
    passes(answer, "rms_norm/backward")


def test_each_gradient_counts_by_itself():
    for task, answer in (
        ("rms_norm/dx", lambda *given: (quotient_rule(*given)[0], None)),
        ("rms_norm/dgamma", lambda *given: (None, quotient_rule(*given)[1])),
    ):
        passes(answer, task)
        assert not judge(observe(answer, "rms_norm/backward"), "rms_norm/backward").passed
        for result in (None, np.ones(3)):
            seen = observe(lambda *given, result=result: result, task)
            assert not judge(seen, task).passed


def wide_until_the_end(x, gamma, eps):
    wide = x.astype(np.float64)
    return (gamma * wide / rms(wide, eps)).astype(x.dtype)


def rounded_before_gamma(x, gamma, eps):
    wide = x.astype(np.float32)
    return gamma * (wide / rms(wide, np.float32(eps))).astype(x.dtype)


def torch_half(x, gamma, eps):
    wide = torch.tensor(x).float()
    y = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return (torch.tensor(gamma) * y).half().numpy()


@pytest.mark.parametrize("answer", [wide_until_the_end, rounded_before_gamma, torch_half])
def test_half_precision_may_round_before_gamma_or_after(answer):
    passes(answer, "rms_norm/half")


def test_layer_normalisation_from_rms_norm_is_layer_normalisation():
    answer = combine("layer_norm_from_rms_norm")
    for probe in TASKS["rms_norm/layer_norm"].draw(0):
        given = dict(probe.inputs)
        result = answer(**given, rms_norm=normkit.rms_norm)
        np.testing.assert_allclose(result, normkit.layer_norm(**given), rtol=0.01, atol=0.01)
        if given["x"].dtype == float:
            np.testing.assert_allclose(result, normkit.layer_norm(**given), rtol=1e-9, atol=1e-12)


def gamma_afterwards(x, gamma, beta, eps, rms_norm):
    return gamma * rms_norm(x - mean(x), np.ones(len(gamma)), eps) + beta


def test_gamma_may_be_applied_afterwards():
    passes(gamma_afterwards, "rms_norm/layer_norm")


def matrices(weight, bias, gamma, beta):
    return np.array(weight @ np.diag(gamma)), [*(weight.dot(beta) + bias)] * np.ones(len(bias))


def row_by_row(weight, bias, gamma, beta):
    rows = [[w * g for w, g in zip(row, gamma, strict=True)] for row in weight]
    shifts = [sum(w * b for w, b in zip(row, beta, strict=True)) for row in weight]
    return np.array(rows), bias + np.array(shifts)


@pytest.mark.parametrize("answer", [matrices, row_by_row])
def test_right_folds_of_any_style_pass(answer):
    passes(answer, "rms_norm/fold")


def projector(weight, bias):
    centre = np.eye(len(bias)) - 1 / len(bias)
    return centre @ weight, centre @ bias


def test_a_right_fold_of_the_centring_passes():
    passes(projector, "rms_norm/fold_centring")


def autograd(dy, x, gamma, eps):
    dy, gamma = torch.tensor(dy), torch.tensor(gamma).requires_grad_()
    x = torch.tensor(x).to(dy.dtype).requires_grad_()
    y = gamma * x / (x.square().mean(-1, keepdim=True) + eps).sqrt()
    return [gradient.numpy() for gradient in torch.autograd.grad(y, (x, gamma), dy)]


def functional(x, gamma, eps):
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


FORWARD = {
    "layer_norm_instead": [
        lambda x, g, eps: g * (x - mean(x)) / np.sqrt(x.var(-1, keepdims=True) + eps)
    ],
    "standard_deviation": [lambda x, g, eps: g * x / np.sqrt(x.var(-1)[..., None] + eps)],
    "squares_summed": [
        lambda x, g, eps: g * x / np.sqrt(np.linalg.norm(x, axis=-1, keepdims=True) ** 2 + eps),
        lambda x, g, eps: x * g * ((x * x).sum(-1, keepdims=True) + eps) ** -0.5,
    ],
    "square_of_mean": [lambda x, g, eps: g * x / (mean(x) ** 2 + eps) ** 0.5],
    "mean_square_without_root": [lambda x, g, eps: g * (x / (mean(x * x) + eps))],
    "multiplied_by_rms": [lambda x, g, eps: g * x * np.sqrt(mean(x * x) + eps)],
    "eps_added_to_rms": [lambda x, g, eps: g * x / (np.sqrt(mean(x * x)) + eps)],
    "eps_added_to_xhat": [lambda x, g, eps: g * (x / np.sqrt(mean(x**2)) + eps)],
    "eps_added_to_y": [lambda x, g, eps: g * x / np.sqrt(mean(x**2)) + eps],
    "eps_subtracted": [lambda x, g, eps: g * x / np.sqrt(mean(x * x) - eps)],
    "rms_without_eps": [
        lambda x, g, eps: g * x * np.sqrt(x.shape[-1]) / np.linalg.norm(x, axis=-1)[..., None]
    ],
    "rms_over_batch": [lambda x, g, eps: x / np.sqrt((x**2).mean(0) + eps) * g],
    "rms_of_all": [lambda x, g, eps: x / np.sqrt(np.mean(x**2) + eps) * g],
    "rms_without_keepdims": [lambda x, g, eps: g * x / np.sqrt((x**2).mean(-1) + eps)],
    "one_plus_gamma": [lambda x, g, eps: x / rms(x, eps) * (1.0 + g)],
    "rms_gamma_forgotten": [lambda x, g, eps: (x / rms(x, eps)).astype((g * x).dtype)],
    "rms_over_axis_1": [
        lambda x, g, eps: g * x / np.sqrt((x**2).mean(axis=1, keepdims=True) + eps),
        lambda x, g, eps: g * x / np.sqrt((x**2).mean(axis=1)[:, None] + eps),
    ],
    "rms_as_column": [
        lambda x, g, eps: g * x / np.sqrt((x**2).mean(axis=1).reshape(-1, 1) + eps),
        lambda x, g, eps: g * x / np.sqrt((x**2).mean(axis=-1)[:, np.newaxis] + eps),
    ],
    "rms_as_column_by_reshape": [
        lambda x, g, eps: g * x / np.sqrt((x**2).mean(axis=-1).reshape(-1, 1) + eps)
    ],
    "gamma_before_rms": [lambda x, g, eps: (z := g * x) / rms(z, eps)],
    "divided_by_one_less": [
        lambda x, g, eps: g * x / ((x**2).sum(-1, keepdims=True) / (len(g) - 1) + eps) ** 0.5
    ],
    "divided_by_len": [
        lambda x, g, eps: g * x / np.sqrt((x**2).sum(-1, keepdims=True) / len(x) + eps)
    ],
    "mean_of_absolute": [lambda x, g, eps: g * x / np.sqrt(mean(np.abs(x)) ** 2 + eps)],
    "subtracted_from_x": [lambda x, g, eps: x - g * x / rms(x, eps)],
}


def partial(k, divide=lambda x, g, r, k: g * x / r):
    """Partial RMSNorm with this k."""

    def answer(x, gamma, p, eps):
        count = k(p * x.shape[-1])
        return divide(x, gamma, rms(x[..., :count], eps), count)

    return answer


def overwritten(x, g, r, k):
    y = x.copy()
    y[..., :k] /= r
    return g * y


def gamma_on_first(x, gamma, p, eps):
    k = math.ceil(p * x.shape[-1])
    y = x / rms(x[..., :k], eps)
    y[..., :k] *= gamma[:k]
    return y


PARTIAL = {
    "k_rounded_down": partial(int),
    "k_rounded_down_to_1_or_more": partial(lambda size: max(1, int(size))),
    "k_one_too_large": partial(lambda size: int(size) + 1),
    "divided_by_share": lambda x, g, p, eps: (
        g
        * x
        / np.sqrt(
            (x[..., : math.ceil(p * len(g))] ** 2).sum(-1, keepdims=True) / (p * len(g)) + eps
        )
    ),
    "gamma_on_first": gamma_on_first,
    "second_axis_cut": lambda x, g, p, eps: g * x / rms(x[:, : math.ceil(p * x.shape[-1])], eps),
    "k_rounded_to_nearest": partial(lambda size: int(np.rint(size))),
    "rest_not_divided": partial(math.ceil, overwritten),
    "rest_dropped": partial(math.ceil, lambda x, g, r, k: (g * x / r)[..., :k]),
    "p_without_effect": lambda x, g, p, eps: g * x / rms(x, eps),
    "k_of_tokens": lambda x, g, p, eps: g * x / rms(x[..., : math.ceil(len(x) * p)], eps),
    "last_features": lambda x, g, p, eps: (
        g * x / rms(x[..., x.shape[-1] - math.ceil(p * x.shape[-1]) :], eps)
    ),
    "divided_by_all": lambda x, g, p, eps: (
        g * x / np.sqrt(mean(x**2 * (np.arange(len(g)) < math.ceil(p * len(g)))) + eps)
    ),
}


def backward(dx):
    """A backward pass whose gradient of gamma is right, around this dx."""

    def answer(dy, x, gamma, eps):
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
}


def over_axis_1(dy, x, gamma, eps):
    r = 1 / np.sqrt((x**2).mean(axis=1, keepdims=True) + eps)
    xhat, dxhat = x * r, dy * gamma
    dx = r * (dxhat - xhat * (dxhat * xhat).mean(axis=1, keepdims=True))
    return dx, (dy * xhat).sum(axis=tuple(range(x.ndim - 1)))


def swapped(*given):
    dx, dgamma = quotient_rule(*given)
    return dgamma, dx


def lost_when_partial(dy, x, gamma, p, eps):
    """The gradient of the whole RMSNorm, with the root of the partial one."""
    k = math.ceil(p * x.shape[-1])
    root = rms(x[..., :k], eps)
    dx = (dy * gamma - x / root * (dy * gamma * x / root).sum(-1, keepdims=True) / k) / root
    return dx, (dy * x / root).reshape(-1, len(gamma)).sum(0)


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
    "mean_over_axis_1": lambda x, g, b, eps, rms_norm: (
        rms_norm(x - x.mean(axis=1, keepdims=True), g, eps) + b
    ),
    "beta_times_gamma": lambda x, g, b, eps, rms_norm: (
        g * (rms_norm(x - mean(x), np.ones_like(g), eps) + b)
    ),
}


def half(x, gamma, eps):
    return (gamma * x.astype(np.float32) / rms(x, eps)).astype(np.float16)


def root_in_half(x, gamma, eps):
    square = np.mean(x.astype(np.float32) ** 2, -1, keepdims=True).astype(np.float16)
    return (gamma * (x / np.sqrt(square.astype(np.float32) + eps))).astype(np.float16)


def half_by_sum(x, gamma, eps):
    total = np.sum(np.square(x), axis=-1, keepdims=True)
    return gamma * (x / np.sqrt(total / x.shape[-1] + eps)).astype(x.dtype)


def clipped(x, gamma, eps):
    square = np.clip(x**2, None, 65504).mean(axis=-1, keepdims=True)
    return (gamma * (x / np.sqrt(square + eps))).astype(np.float16)


def divided_by_largest(x, gamma, eps):
    z = x / np.abs(x).max(axis=-1, keepdims=True)
    return gamma * z / np.sqrt(mean(z**2) + np.float16(eps))


HALF = {
    "divided_by_largest": divided_by_largest,
    "squares_clipped": clipped,
    "squares_in_half": half,
    "sum_in_half": half_by_sum,
    "mean_square_in_half": root_in_half,
    "product_in_half": lambda x, g, eps: (x * g / rms(x.astype(np.float32), eps)).astype(x.dtype),
    "not_cast_back": lambda x, g, eps: g * x.astype(np.float64) / rms(x.astype(np.float64), eps),
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
}
CENTRING = {
    "centred_over_inputs": lambda w, b: (w - mean(w), b - b.mean()),
    "next_layer_centred": lambda w, b: (w - mean(w), b),
    "one_mean_of_weight": lambda w, b: (w - w.mean(), b - b.mean()),
    "bias_not_centred": lambda w, b: (w - mean(w, 0), b),
    "bias_removed": lambda w, b: (w - mean(w, 0), np.zeros_like(b)),
    "sum_of_outputs": lambda w, b: (w - w.sum(0), b - b.mean()),
}
WRITTEN = [
    *(("rms_norm/forward", name, answer) for name in FORWARD for answer in FORWARD[name]),
    *(("rms_norm/partial", *item) for item in PARTIAL.items()),
    *(
        (task, name, backward(dx))
        for task in ("rms_norm/backward", "rms_norm/dx")
        for name, dx in BACKWARD.items()
    ),
    ("rms_norm/backward", "rms_over_axis_1", over_axis_1),
    ("rms_norm/backward", "gradients_swapped", swapped),
    ("rms_norm/partial_backward", "every_feature_projected", lost_when_partial),
    *(("rms_norm/layer_norm", *item) for item in LAYER_NORM.items()),
    *(("rms_norm/half", *item) for item in HALF.items()),
    *(("rms_norm/fold", *item) for item in FOLD.items()),
    *(("rms_norm/fold_centring", *item) for item in CENTRING.items()),
]


@pytest.mark.parametrize(("task", "name", "answer"), WRITTEN)
def test_a_wrong_answer_is_named(task, name, answer):
    assert named(answer, task) == [name]


def test_two_mistakes_are_both_named():
    def answer(x, gamma, p, eps):
        return gamma * x / (np.sqrt(mean(x[..., : int(p * x.shape[-1])] ** 2)) + eps)

    assert sorted(named(answer, "rms_norm/partial")) == ["eps_added_to_rms", "k_rounded_down"]


# --- Numbers that the messages state ----------------------------------------------------------


def wrong(algorithm):
    return {mistake.name: mistake.wrong for mistake in mistakes_of(algorithm)}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_numbers_of_rms_norm():
    made, right, one = wrong("rms_norm"), combine("rms_norm"), np.ones(4)
    np.testing.assert_allclose(right(ROW, one), [0.2, 1.4, 1, 1], atol=1e-5)
    ln, half_centred = [-1.61, 1.15, 0.23, 0.23], [-0.7, 0.5, 0.1, 0.1]
    np.testing.assert_allclose(made["layer_norm_instead"](ROW, one), ln, atol=5e-3)
    np.testing.assert_allclose(made["numerator_centred"](ROW, one), half_centred, atol=1e-5)
    np.testing.assert_allclose(made["standard_deviation"](ROW, one), ROW / 2.18, rtol=1e-3)
    np.testing.assert_allclose(made["squares_summed"](ROW, one) * 2, right(ROW, one), rtol=1e-5)
    pair = np.array([1.0, -1])
    np.testing.assert_allclose(made["square_of_mean"](pair, one[:2]), pair / 1e-5**0.5)
    np.testing.assert_allclose(made["eps_added_to_rms"](1e-4 * pair, one[:2])[0], 0.909, atol=1e-3)
    np.testing.assert_allclose(right(1e-4 * pair, one[:2])[0], 0.032, atol=5e-4)
    assert np.isnan(made["eps_subtracted"](1e-4 * pair, one[:2])).all()
    assert np.isnan(made["rms_without_eps"](np.zeros(4), one)).all()
    np.testing.assert_allclose(right(np.array([3.0, 4]), one[:2]), [0.85, 1.13], atol=5e-3)
    np.testing.assert_allclose(made["mean_of_absolute"](ROW, one), ROW / 4.5, rtol=1e-5)
    np.testing.assert_allclose(made["divided_by_one_less"](ROW, one), ROW / 5 * 0.866, rtol=1e-3)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_numbers_of_partial_rms_norm():
    made, right, one = wrong("partial_rms_norm"), combine("partial_rms_norm"), np.ones(4)
    x = np.array([3.0, 4, 0, 12])
    np.testing.assert_allclose(right(x, one, 0.5), x / 3.54, rtol=2e-3)
    np.testing.assert_allclose(made["p_without_effect"](x, one, 0.5), x / 6.5, rtol=1e-5)
    np.testing.assert_allclose(made["rest_not_divided"](x, one, 0.5)[3], 12)
    np.testing.assert_allclose(right(x, one, 0.5)[3], 3.39, atol=5e-3)
    ratio = made["divided_by_all"](x, one, 0.5) / right(x, one, 0.5)
    np.testing.assert_allclose(ratio[[0, 1, 3]], 1.41, atol=5e-3)
    assert np.isnan(made["k_rounded_down"](np.arange(8.0), np.ones(8), 0.0625)).all()


def test_numbers_of_half_precision():
    made, one = wrong("half_rms_norm"), np.ones(4, np.float16)
    with np.errstate(all="ignore"):
        assert np.float16(300) ** 2 == np.inf and np.float16(1e-4) ** 2 == 0
        assert (made["squares_in_half"](np.float16([300] * 4), one) == 0).all()
        assert np.sum(np.full(1000, 10, np.float16) ** 2) == np.inf
        assert np.mean(np.full(1000, 10, np.float16) ** 2) == 100
        assert np.float16(256.0**2) == np.inf and np.float16(1e-4**2) == 0
        assert (made["product_in_half"](np.float16([4e4] * 4), 2 * one) == np.inf).all()


def test_gradients_that_the_messages_call_zero():
    right, x = combine("rms_norm_backward"), np.array([[1.0, 2, 2, 4]])
    np.testing.assert_allclose(right(x, x, np.ones(4), 1e-12)[0], 0, atol=1e-11)
    for name in ("detached_rms", "projection_added", "projection_doubled"):
        assert np.abs(wrong("rms_norm_backward")[name](x, x, np.ones(4))[0]).min() > 0.1


def test_numbers_of_layer_norm_from_rms_norm():
    made, one = wrong("layer_norm_from_rms_norm"), np.ones(4)
    rest = one, 0 * one, 1e-5, normkit.rms_norm
    np.testing.assert_allclose(made["not_centred"](ROW, *rest), [0.2, 1.4, 1, 1], atol=1e-5)
    late = made["centred_afterwards"](ROW, *rest)
    np.testing.assert_allclose(late, [-0.7, 0.5, 0.1, 0.1], atol=1e-5)
