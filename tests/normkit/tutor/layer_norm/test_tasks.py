"""Wrong answers as students write them, not as the catalogue does: each is named."""

import math

import numpy as np
import pytest
import torch

from normkit import layer_norm
from normkit.tutor.judging import judge
from normkit.tutor.mistakes import combine
from normkit.tutor.observing import observe


def mean(a, axis=-1):
    return a.mean(axis=axis, keepdims=True)


def std(a, **options):
    return a.std(axis=-1, keepdims=True, **options)


def rooted(x, eps):
    return np.sqrt(x.var(axis=-1, keepdims=True) + eps)


def loop(x, gamma, beta, eps=1e-5):
    """Token by token, with the variance of a sample."""
    rows = x.reshape(-1, x.shape[-1])
    out = []
    for row in rows:
        squares = sum((value - row.mean()) ** 2 for value in row)
        out.append((row - row.mean()) / np.sqrt(squares / (len(row) - 1) + eps))
    return (gamma * np.array(out) + beta).reshape(x.shape).astype((x * 1.0).dtype)


def by_three(x, gamma, beta, eps=1e-5):
    """The number of features of the worked example."""
    centred = x - x.sum(axis=-1, keepdims=True) / 3
    var = (centred**2).sum(axis=-1, keepdims=True) / 3
    return gamma * centred / np.sqrt(var + eps) + beta


def scaled_only(centred, gamma, beta, eps):
    return gamma * centred / np.sqrt(mean(centred**2) + eps) + beta


def sums_of_everything(x, gamma, beta, eps=1e-5):
    centred = x - np.sum(x) / x.shape[-1]
    return gamma * centred / np.sqrt(np.sum(centred**2) / x.shape[-1] + eps) + beta


def in_place(x, gamma, beta, eps=1e-5):
    x -= mean(x)
    return gamma * x / np.sqrt(mean(x**2) + eps) + beta


def all_in_place(x, gamma, beta, eps=1e-5):
    var = x.var(axis=-1, keepdims=True)
    x -= mean(x)
    x /= np.sqrt(var + eps)
    x *= gamma
    x += beta
    return x


def in_place_of_a_sample(x, gamma, beta, eps=1e-5):
    x -= mean(x)
    return gamma * x / np.sqrt(x.var(axis=-1, ddof=1, keepdims=True) + eps) + beta


def plain_mean(x, g, b, eps=1e-5):
    centred = x - x.mean(axis=-1)
    return g * centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps) + b


def plain_moments(x, g, b, eps=1e-5):
    centred = x - x.mean(axis=-1)
    return g * centred / np.sqrt((centred**2).mean(axis=-1) + eps) + b


def new_axis(x, g, b, eps=1e-5):
    m, v = x.mean(axis=-1)[:, None], x.var(axis=-1)[:, None]
    return g * (x - m) / np.sqrt(v + eps) + b


def scaled_first(x, gamma, beta, eps=1e-5):
    x = x * gamma + beta
    return (x - mean(x)) / np.sqrt(std(x) ** 2 + eps)


def transposed(x, g, b, eps=1e-5):
    return ((x.T - x.mean(-1)) / np.sqrt(x.var(-1) + eps)).T * g + b


def filled(x, gamma, beta, eps=1e-5):
    out = np.zeros_like(x)
    for place in np.ndindex(x.shape[:-1]):
        token = x[place]
        out[place] = gamma * (token - token.mean()) / np.sqrt(token.var() + eps) + beta
    return out


def returned_early(x, gamma, beta, eps=1e-5):
    for token in x:
        return gamma * (token - token.mean()) / np.sqrt(token.var() + eps) + beta


def over_rows(make):
    def answer(x, gamma, beta, eps=1e-5):
        out = make(x)
        for i in range(x.shape[0]):
            mu, sigma2 = np.mean(x[i]), np.var(x[i])
            out[i] = gamma * (x[i] - mu) / np.sqrt(sigma2 + eps) + beta
        return out

    return answer


def first_alone(x, gamma, beta, eps=1e-5):
    out = np.zeros(x.shape, gamma.dtype)
    for place in np.ndindex(x.shape[:-1]):
        token = x[place]
        out[place] = gamma * (token - token.mean()) / np.sqrt(token.var() + eps) + beta
        return out


def all_but_features(x, gamma, beta, eps=1e-5):
    axes = tuple(range(x.ndim - 1))
    centred = x - x.mean(axes)
    return gamma * centred / np.sqrt((centred**2).mean(axes) + eps) + beta


def axis_in_front(x, gamma, beta, eps=1e-5):
    m, v = (np.expand_dims(a, 0) for a in (x.mean(-1), x.var(-1)))
    return gamma * (x - m) / np.sqrt(v + eps) + beta


def for_rows(x, gamma, beta, eps=1e-5):
    out, (rows, features) = np.zeros(x.shape, gamma.dtype), x.shape
    for i in range(rows):
        mu = sum(x[i]) / features
        var = sum((x[i, j] - mu) ** 2 for j in range(features)) / features
        out[i] = gamma * (x[i] - mu) / np.sqrt(var + eps) + beta
    return out


def twice(x, gamma, beta, eps=1e-5):
    for _ in range(2):
        x = (x - mean(x)) / rooted(x, eps)
    return gamma * x + beta


def sums_of_the_second_axis(x, gamma, beta, eps=1e-5):
    features = x.shape[1]
    mu = np.sum(x, axis=-1, keepdims=True) / features
    var = np.sum((x - mu) ** 2, axis=-1, keepdims=True) / features
    return gamma * (x - mu) / np.sqrt(var + eps) + beta


def rows_over_the_batch(x, gamma, beta, eps=1e-5):
    n, _d = x.shape
    centred = x - np.sum(x, axis=0) / n
    return gamma * centred / np.sqrt(np.sum(centred**2, axis=0) / n + eps) + beta


FORWARD = {
    "normalised_twice": [twice],
    "features_counted_on_axis_one": [sums_of_the_second_axis],
    "affine_forgotten": [
        lambda x, g, b, eps=1e-5: ((x - mean(x)) / rooted(x, eps)).astype(g.dtype)
    ],
    "root_inverted": [lambda x, g, b, eps=1e-5: g * (x - mean(x)) * np.sqrt(std(x) ** 2 + eps) + b],
    "beta_subtracted": [
        lambda x, g, b, eps=1e-5: (x - mean(x)) * g / np.sqrt(std(x) ** 2 + eps) - b,
    ],
    "sign_reversed": [lambda x, g, b, eps=1e-5: (mean(x) - x) * g / rooted(x, eps) + b],
    "axis_before_last": [
        lambda x, g, b, eps=1e-5: (
            (x - mean(x, -2)) * g / np.sqrt(x.var(-2, keepdims=True) + eps) + b
        ),
    ],
    "one_over_batch": [
        lambda x, g, b, eps=1e-5: g * (x - mean(x, 0)) / rooted(x, eps) + b,
        lambda x, g, b, eps=1e-5: g * (x - mean(x)) / np.sqrt(x.var(0) + eps) + b,
    ],
    "other_default": [
        lambda x, g, b, epsilon=1e-3: g * (x - mean(x)) / rooted(x, epsilon) + b,
        lambda x, g, b, eps=0: g * (x - mean(x)) / rooted(x, eps) + b,
        lambda x, g, b, eps=1e-6: g * (x - mean(x)) / np.sqrt(std(x) ** 2 + eps) + b,
    ],
    "loop_over_first_axis": [
        lambda x, g, b, eps=1e-5: np.stack(
            [g * (t - t.mean()) / np.sqrt(t.var() + eps) + b for t in x]
        ),
        over_rows(np.zeros_like),
        over_rows(lambda x: np.zeros(x.shape)),
    ],
    "no_keepdims": [plain_moments, axis_in_front],
    "all_but_features": [all_but_features],
    "mean_without_keepdims": [
        plain_mean,
        lambda x, g, b, eps=1e-5: g * (x - x.mean(-1)) / np.sqrt(std(x) ** 2 + eps) + b,
    ],
    "var_without_keepdims": [
        lambda x, g, b, eps=1e-5: g * (x - mean(x)) / np.sqrt(x.var(axis=-1) + eps) + b
    ],
    "axis_put_back_second": [
        new_axis,
        for_rows,
        lambda x, g, b, eps=1e-5: g * (x - x.mean(-1)[:, None]) / np.sqrt(std(x) ** 2 + eps) + b,
    ],
    "mean_of_squares": [
        lambda x, g, b, eps=1e-5: g * (x - mean(x)) / np.sqrt(mean(x**2) + eps) + b
    ],
    "brackets_forgotten": [
        lambda x, g, b, eps=1e-5: g * (x - mean(x) / np.sqrt(std(x) ** 2 + eps)) + b,
        lambda x, g, b, eps=1e-5: g * x - mean(x) / np.sqrt(std(x) ** 2 + eps) + b,
        lambda x, g, b, eps=1e-5: g * (x / rooted(x, eps) - mean(x)) + b,
        lambda x, g, b, eps=1e-5: x * (g / rooted(x, eps)) + (b - mean(x)),
    ],
    "one_parameter_twice": [
        lambda x, g, b, eps=1e-5: g * (x - mean(x)) / rooted(x, eps) + g,
        lambda x, g, b, eps=1e-5: b * ((x - mean(x)) / rooted(x, eps) + 1),
    ],
    "not_normalised": [lambda x, g, b, eps=1e-5: g * x + b, lambda x, g, b, eps=1e-5: x.copy()],
    "mean_and_var_exchanged": [
        lambda x, g, b, eps=1e-5: g * (x - std(x) ** 2) / np.sqrt(mean(x) + eps) + b
    ],
    "number_of_the_example": [by_three],
    "unbiased_variance": [
        loop,
        lambda x, g, b, eps=1e-5: g * (x - mean(x)) / np.sqrt(std(x, ddof=1) ** 2 + eps) + b,
    ],
    "eps_outside_root": [lambda x, g, b, eps=1e-5: (x - mean(x)) / (std(x) + eps) * g + b],
    "no_eps": [lambda x, g, b, eps=1e-5: g * ((x - mean(x)) / std(x)) + b],
    "no_root": [lambda x, g, b, eps=1e-5: g * (x - mean(x)) / (std(x) ** 2 + eps) + b],
    "sum_of_squares": [
        lambda x, g, b, eps=1e-5: (
            g * (x - mean(x)) / np.sqrt(np.linalg.norm(x - mean(x), axis=-1)[..., None] ** 2 + eps)
            + b
        )
    ],
    "batch_axis": [
        lambda x, g, b, eps=1e-5: g * (x - x.mean(0)) / np.sqrt(x.var(0) + eps) + b,
        rows_over_the_batch,
    ],
    "whole_array": [
        lambda x, g, b, eps=1e-5: b + (x - x.mean()) * g / (x.var() + eps) ** 0.5,
        sums_of_everything,
    ],
    "variance_of_whole_array": [
        lambda x, g, b, eps=1e-5: g * (x - mean(x)) / np.sqrt(x.var() + eps) + b,
        lambda x, g, b, eps=1e-5: (x - mean(x)) / np.sqrt(x.std() ** 2 + eps) * g + b,
    ],
    "squares_over_whole_array": [
        lambda x, g, b, eps=1e-5: g * (x - mean(x)) / np.sqrt(np.mean((x - mean(x)) ** 2) + eps) + b
    ],
    "changed_in_place": [in_place, all_in_place],
    "rms_instead": [lambda x, g, b, eps=1e-5: g * x / np.sqrt(mean(x * x) + eps) + b],
    "mean_of_whole_array": [
        lambda x, g, b, eps=1e-5: g * (x - x.mean()) / np.sqrt(std(x) ** 2 + eps) + b,
        lambda x, g, b, eps=1e-5: g * (x - x.mean()) / np.sqrt(mean((x - x.mean()) ** 2) + eps) + b,
        lambda x, g, b, eps=1e-5: scaled_only(x - x.sum() / len(g), g, b, eps),
    ],
    "not_divided": [lambda x, g, b, eps=1e-5: g * (x - mean(x)) + b],
    "root_taken_twice": [lambda x, g, b, eps=1e-5: g * (x - mean(x)) / np.sqrt(std(x) + eps) + b],
    "variance_squared": [
        lambda x, g, b, eps=1e-5: g * (x - mean(x)) / np.sqrt(std(x) ** 4 + eps) + b
    ],
    "deviations_not_squared": [
        lambda x, g, b, eps=1e-5: g * (x - mean(x)) / np.sqrt(mean(x - mean(x)) ** 2 + eps) + b,
        lambda x, g, b, eps=1e-5: g * (x - mean(x)) / np.sqrt(mean(x - mean(x)) + eps) + b,
        lambda x, g, b, eps=1e-5: g * (x - mean(x)) / np.sqrt(eps) + b,
    ],
    "eps_added_to_quotient": [lambda x, g, b, eps=1e-5: g * ((x - mean(x)) / std(x) + eps) + b],
    "other_fixed_eps": [
        lambda x, g, b, eps=1e-5: g * (x - mean(x)) / np.sqrt(std(x) ** 2 + 1e-6) + b,
        lambda x, g, b, eps=1e-5: g * (x - mean(x)) / (std(x) ** 2 + 1e-8) ** 0.5 + b,
        lambda x, g, b, eps=1e-5: g * (x - mean(x)) / rooted(x, 1e-12) + b,
    ],
    "gamma_and_beta_exchanged": [
        lambda x, b, g, eps=1e-5: (x - mean(x)) / np.sqrt(std(x) ** 2 + eps) * g + b
    ],
    "scaled_first": [scaled_first],
    "transposed": [transposed],
    "integers_returned": [filled],
    "eps_otherwise": [
        lambda x, g, b, eps=1e-5: g * (x - mean(x)) / np.maximum(std(x), eps) + b,
        lambda x, g, b, eps=1e-5: g * (x - mean(x)) / np.sqrt(std(x) ** 2 + eps * eps) + b,
        lambda x, g, b, eps=1e-5: (
            g * (x - mean(x)) / rooted(x, eps if (std(x) == 0).any() else 0) + b
        ),
    ],
    "absolute_deviations": [
        lambda x, g, b, eps=1e-5: g * (x - mean(x)) / (mean(abs(x - mean(x))) + eps) + b
    ],
    "divided_by_tokens": [
        lambda x, g, b, eps=1e-5: (
            g * (x - mean(x)) / (sum_of((x - mean(x)) ** 2) / len(x) + eps) ** 0.5 + b
        )
    ],
    "return_in_loop": [returned_early, first_alone],
    "matrix_product": [
        lambda x, g, b, eps=1e-5: np.dot((x - mean(x)) / np.sqrt(std(x) ** 2 + eps), g) + b
    ],
    "mean_not_subtracted": [lambda x, g, b, eps=1e-5: g * x / np.sqrt(std(x) ** 2 + eps) + b],
    "beta_before_gamma": [
        lambda x, g, b, eps=1e-5: g * ((x - mean(x)) / np.sqrt(std(x) ** 2 + eps) + b)
    ],
}


def backward(dx):
    """A backward pass whose gradients of the parameters are right, around this dx."""

    def answer(dy, x, gamma, eps=1e-5):
        r = (mean((x - mean(x)) ** 2) + eps) ** -0.5
        xhat, over = (x - mean(x)) * r, tuple(range(x.ndim - 1))
        return dx(dy, xhat, r, gamma), np.sum(dy * xhat, axis=over), np.sum(dy, axis=over)

    return answer


def sum_of(a):
    return a.sum(-1, keepdims=True)


def part_along(a, xhat):
    return xhat * (a * xhat).sum(-1, keepdims=True) / (xhat * xhat).sum(-1, keepdims=True)


def over_tokens(a):
    return a.mean(tuple(range(a.ndim - 1)))


BACKWARD = {
    "means_over_n_minus_one": lambda dy, xhat, r, g: (
        r * (dy * g - (mean(dy * g) + xhat * mean(dy * g * xhat)) * g.size / (g.size - 1))
    ),
    "dx_negated": lambda dy, xhat, r, g: (
        r * (mean(dy * g) + xhat * mean(dy * g * xhat)) - r * dy * g
    ),
    "r_squared: in all of dx": lambda dy, xhat, r, g: (
        r * r * (dy * g - mean(dy * g) - xhat * mean(dy * g * xhat))
    ),
    "r_squared: in the last term": lambda dy, xhat, r, g: (
        r * (dy * g - mean(dy * g)) - xhat * r**2 * mean(dy * g * xhat)
    ),
    "xhat_once_too_often": lambda dy, xhat, r, g: (
        r * (dy * g - mean(dy * g) - mean(xhat * dy * g * xhat))
    ),
    "y_for_xhat": lambda dy, xhat, r, g: (
        r * (dy * g - mean(dy * g) - g * xhat * mean(dy * g * g * xhat))
    ),
    "brackets_forgotten_in_dx": lambda dy, xhat, r, g: (
        r * dy * g - mean(dy * g) - xhat * mean(dy * g * xhat)
    ),
    "means_of_everything: both": lambda dy, xhat, r, g: (
        r * (dy * g - (dy * g).mean() - xhat * (dy * g * xhat).mean())
    ),
    "means_of_everything: the first": lambda dy, xhat, r, g: (
        r * (dy * g - (dy * g).mean() - xhat * mean(dy * g * xhat))
    ),
    "means_of_everything: the second": lambda dy, xhat, r, g: (
        r * (dy * g - mean(dy * g) - xhat * np.mean(dy * g * xhat))
    ),
    "terms_without_keepdims": lambda dy, xhat, r, g: (
        r * (dy * g - (dy * g).mean(-1) - xhat * (dy * g * xhat).mean(-1))
    ),
    "gamma_twice_in_dx": lambda dy, xhat, r, g: (
        g * r * (dy * g - mean(dy * g) - xhat * mean(dy * g * xhat))
    ),
    "gamma_forgotten_in_mean": lambda dy, xhat, r, g: (
        r * (dy * g - mean(dy) - xhat * mean(dy * g * xhat))
    ),
    "gamma_forgotten_in_product": lambda dy, xhat, r, g: (
        r * (dy * g - mean(dy * g) - xhat * mean(dy * xhat))
    ),
    "product_mean_without_xhat": lambda dy, xhat, r, g: (
        r * (dy * g - mean(dy * g) - mean(dy * g * xhat))
    ),
    "exact_projection": lambda dy, xhat, r, g: (
        r * (dy * g - mean(dy * g) - part_along(dy * g, xhat))
    ),
    "divided_by_r": lambda dy, xhat, r, g: (dy * g - mean(dy * g) - xhat * mean(dy * g * xhat)) / r,
    "detached_statistics": lambda dy, xhat, r, g: dy * g * r,
    "gamma_outside_bracket": lambda dy, xhat, r, g: (
        g * r * (dy - mean(dy) - xhat * mean(dy * xhat))
    ),
    "xhat_term_added": lambda dy, xhat, r, g: (
        r * g * dy - r * mean(g * dy) + r * xhat * mean(g * dy * xhat)
    ),
    "mean_term_dropped": lambda dy, xhat, r, g: r * (g * dy - xhat * mean(g * dy * xhat)),
    "xhat_term_dropped": lambda dy, xhat, r, g: r * (g * dy - mean(g * dy)),
    "mean_term_added": lambda dy, xhat, r, g: (
        r * (g * dy + mean(g * dy) - xhat * mean(g * dy * xhat))
    ),
    "one_sum_instead_of_mean: the first": lambda dy, xhat, r, g: (
        r * (g * dy - (g * dy).sum(-1, keepdims=True) - xhat * mean(g * dy * xhat))
    ),
    "one_sum_instead_of_mean: the second": lambda dy, xhat, r, g: (
        r * (g * dy - mean(g * dy) - xhat * (g * dy * xhat).sum(-1, keepdims=True))
    ),
    "terms_over_batch": lambda dy, xhat, r, g: (
        r * (g * dy - mean(g * dy, 0) - xhat * mean(g * dy * xhat, 0))
    ),
    "terms_over_batch: all tokens": lambda dy, xhat, r, g: (
        r * (g * dy - over_tokens(g * dy) - xhat * over_tokens(g * dy * xhat))
    ),
    "divided_by_batch": lambda dy, xhat, r, g: (
        r * (g * dy - (sum_of(g * dy) + xhat * sum_of(g * dy * xhat)) / len(dy))
    ),
    "power_of_r": lambda dy, xhat, r, g: (
        r * (g * dy - mean(g * dy) - xhat / r * mean(g * dy * xhat))
    ),
    "r_forgotten": lambda dy, xhat, r, g: g * dy - mean(g * dy) - xhat * mean(g * dy * xhat),
}


def staged(way=""):
    """A backward pass as in CS231n, step by step, that goes wrong in one of several ways."""

    def answer(dy, x, gamma, eps=1e-5):
        n, over = x.shape[-1], tuple(range(x.ndim - 1))
        mu = mean(x)
        xmu = x - mu
        sqrtvar = np.sqrt(mean(xmu**2) + eps)
        ivar = 1.0 / sqrtvar
        dgammax = dy if way == "gamma_forgotten_in_dx" else dy * gamma
        divar = dgammax * (x if way == "x_for_deviation" else xmu)
        divar = divar if way == "sum_forgotten_in_a_path" else sum_of(divar)
        dxmu1 = dgammax if way == "r_forgotten_in_a_path" else dgammax * ivar
        dsqrtvar = -divar * ivar if way == "power_of_r" else -divar * ivar**2
        half = 1 if way == "half_forgotten" else 0.5
        dvar = half * dsqrtvar / sqrtvar
        if way == "eps_forgotten_in_dvar":
            dvar = -0.5 * divar * mean(xmu**2) ** -1.5
        dsq = dvar if way == "one_sum_instead_of_mean" else dvar / n
        dxmu2 = (1 if way == "two_forgotten" else 2) * xmu * dsq
        dmu = sum_of(dxmu1 + dxmu2) * (1 if way == "mean_term_added" else -1)
        dx = dxmu1 + dxmu2 + (0 if way == "mean_term_dropped" else dmu / n)
        return dx, (dy * xmu * ivar).sum(over), dy.sum(over)

    return answer


STAGED = (
    *("gamma_forgotten_in_dx", "x_for_deviation", "sum_forgotten_in_a_path", "power_of_r"),
    *("half_forgotten", "eps_forgotten_in_dvar", "two_forgotten", "one_sum_instead_of_mean"),
    *("mean_term_added", "mean_term_dropped", "r_forgotten_in_a_path"),
)


def of_parameters(dgamma, dbeta):
    """A backward pass whose dx is right, around these gradients of the parameters."""

    def answer(dy, x, gamma, eps=1e-5):
        xhat, over = (x - mean(x)) / np.sqrt(std(x) ** 2 + eps), tuple(range(x.ndim - 1))
        given = {"dy": dy, "x": x, "xhat": xhat, "gamma": gamma, "over": over}
        return staged()(dy, x, gamma, eps)[0], dgamma(**given), dbeta(**given)

    return answer


def sum_dy(dy, over, **_given):
    return dy.sum(over)


def sum_dy_xhat(dy, xhat, over, **_given):
    return (dy * xhat).sum(over)


PARAMETERS = {
    "gradients_averaged": (
        lambda dy, xhat, over, **_: (dy * xhat).sum(over) / len(dy),
        lambda dy, over, **_: dy.sum(over) / len(dy),
    ),
    "dgamma_with_x": (lambda dy, x, over, **_: (dy * x).sum(over), sum_dy),
    "dgamma_without_xhat": (sum_dy, sum_dy),
    "dbeta_with_gamma": (sum_dy_xhat, lambda dy, gamma, over, **_: (dy * gamma).sum(over)),
    "parameters_returned_in_reverse": (sum_dy, sum_dy_xhat),
    "gradients_over_everything": (
        lambda dy, xhat, **_: (dy * xhat).sum(),
        lambda dy, **_: dy.sum(),
    ),
    "gradients_with_keepdims": (
        lambda dy, xhat, over, **_: (dy * xhat).sum(over, keepdims=True),
        lambda dy, over, **_: dy.sum(over, keepdims=True),
    ),
}


def gradients(dy, x, gamma, eps=1e-5, *, way=""):
    """A backward pass that goes wrong in one of several ways."""
    centred = x - mean(x)
    root = np.sqrt(mean(centred**2) + eps)
    r = root if way == "r_inverted" else 1 / root
    xhat = centred * r
    if way == "dy_changed_in_place":
        dy *= gamma
        dxhat = dy
    else:
        dxhat = dy * gamma
    product = dxhat * (x if way == "product_with_x" else xhat)
    dx = r * (dxhat - mean(dxhat) - xhat * mean(product))
    dx = dx / x.shape[-1] if way == "divided_by_n_again" else dx
    over = tuple(range(x.ndim - 1))
    found = dx, (dy * xhat).sum(over), dy.sum(over)
    return found[1:] + found[:1] if way == "dx_returned_last" else found


WAYS = (
    *("r_inverted", "dy_changed_in_place", "product_with_x", "dx_returned_last"),
    "divided_by_n_again",
)


def made(way):
    """A layer as students write it, that goes wrong in one of several ways."""

    class LayerNorm(torch.nn.Module):
        def __init__(self, features, eps=1e-5):
            super().__init__()
            self.eps = torch.nn.Parameter(torch.tensor(eps)) if "of eps" in way else eps
            if "statistics" in way:
                self.register_buffer("running_mean", torch.zeros(features))
                self.register_buffer("running_var", torch.ones(features))
            size = 1 if way == "one_weight" else features
            size = (1, features) if way == "parameters_in_two_axes" else size
            start = torch.randn if way == "weight_starts_anywhere" else torch.ones
            weight = torch.zeros(size) if way == "weight_starts_at_zero" else start(size)
            weight = weight.double() if way == "parameters_in_double" else weight
            learnt = "frozen" not in way
            self.weight = torch.nn.Parameter(weight, requires_grad=learnt)
            if way == "one_not_a_parameter":
                del self.weight
                self.register_buffer("weight", weight)
            if way == "bias_starts_at_one":
                self.bias = torch.nn.Parameter(torch.ones(size))
            elif not way.startswith("no_bias"):
                self.bias = torch.nn.Parameter(torch.zeros(size), requires_grad=learnt)

            if way == "made_in_forward":
                del self.weight, self.bias

        def forward(self, x):
            if way == "made_in_forward":
                self.weight = torch.nn.Parameter(torch.ones(x.shape[-1:]))
                self.bias = torch.nn.Parameter(torch.zeros(x.shape[-1:]))
            if way.startswith("other_in_evaluation") and not self.training:
                return x if "as it is" in way else x * self.weight + self.bias
            if way.startswith("not_normalised"):
                return x if "as it is" in way else x * self.weight + self.bias
            if way == "zeros":
                return torch.zeros_like(x)
            with torch.set_grad_enabled(way != "no_grad_forward"):
                return self.formula(x.detach() if way == "x_detached" else x)

        def formula(self, x):
            keep, w = way != "no_keepdims", self.weight
            m = x.mean(-1, keepdim=keep)
            centred = x - (m.detach() if way == "mean_detached" else m)
            v = (centred**2).mean(-1, keepdim=keep)
            v = v.detach() if way == "var_detached" else v
            y = (w.data if way.endswith("s_detached") or way == "weight_detached" else w) * centred
            y = y / torch.sqrt(v + self.eps)
            if way == "no_bias":
                return y
            if way == "one_parameter_twice":
                return y + w
            if way == "mean_and_var_exchanged":
                return w * (x - v) / torch.sqrt(m + self.eps) + self.bias
            if way == "eps_otherwise":
                return w * centred / torch.sqrt(v.clamp(min=self.eps)) + self.bias
            return y + (self.bias.data if way == "parameters_detached" else self.bias)

    return LayerNorm


LAYERS = (
    *("not_normalised", "not_normalised: as it is", "one_parameter_twice"),
    *("mean_and_var_exchanged", "no_bias: but used", "eps_otherwise"),
    *("no_keepdims", "no_grad_forward", "x_detached", "parameters_detached"),
    *("weight_detached", "mean_detached", "var_detached", "one_weight", "no_bias"),
    *("weight_starts_anywhere", "weight_starts_at_zero", "bias_starts_at_one"),
    *("parameters_in_two_axes", "parameters_in_double", "one_not_a_parameter"),
    *("parameters_detached: frozen", "made_in_forward", "other_in_evaluation"),
    *("other_in_evaluation: as it is", "more_than_two: of eps", "more_than_two: statistics"),
)
PREDICTED = combine("layer_norm/layer_norm_invariance")()[0]


def own_tokens(norm, change, _x):
    x = np.random.default_rng(1).normal(size=(4, 5))
    return np.allclose(norm(change(x)), norm(x))


UNCHANGED = {
    "prediction_returned: or False": lambda norm, change, x: PREDICTED.get(change.__name__, False),
    "prediction_returned: or True": lambda norm, change, x: PREDICTED.get(change.__name__, True),
    "prediction_returned: by its beginning": lambda norm, change, x: (
        change.__name__[:5] in ("shift", "scale")
    ),
    "own_tokens": own_tokens,
    "part_compared: both ends": lambda norm, change, x: all(
        np.allclose(norm(change(x))[i], norm(x)[i]) for i in (0, -1)
    ),
    "sums_compared: sorted": lambda norm, change, x: np.allclose(
        *(np.sort(norm(a), axis=-1) for a in (change(x), x))
    ),
    "sums_compared: lengths": lambda norm, change, x: np.isclose(
        *(np.sqrt((norm(a) ** 2).sum()) for a in (change(x), x))
    ),
    "too_tolerant: one decimal": lambda norm, change, x: np.array_equal(
        *(np.round(norm(a), 1) for a in (change(x), x))
    ),
    "too_tolerant: two decimals": lambda norm, change, x: np.array_equal(
        *(np.round(norm(a), 2) for a in (change(x), x))
    ),
    "output_normalised_again": lambda norm, change, x: np.allclose(norm(x), norm(change(norm(x)))),
    "changed_input_without_norm": lambda norm, change, x: np.allclose(norm(x), change(x)),
    "always_false: is": lambda norm, change, x: norm(change(x)) is norm(x),
    "rise_without_abs: up": lambda norm, change, x: bool((norm(change(x)) - norm(x)).max() < 1e-6),
    "rise_without_abs: down": lambda norm, change, x: np.all(norm(x) - norm(change(x)) < 1e-8),
    "part_compared: the first token": lambda norm, change, x: np.allclose(
        norm(change(x))[0], norm(x)[0]
    ),
    "part_compared: the last token": lambda norm, change, x: (
        np.abs(norm(change(x))[-1] - norm(x)[-1]).max() < 1e-6
    ),
    "any_number": lambda norm, change, x: np.any(np.isclose(norm(x), norm(change(x)))),
    "sums_compared: means": lambda norm, change, x: np.isclose(
        np.mean(norm(change(x))), np.mean(norm(x))
    ),
    "sums_compared: differences": lambda norm, change, x: (
        abs(np.mean(norm(change(x)) - norm(x))) < 1e-9
    ),
    "compared_with_input": lambda norm, change, x: np.allclose(norm(change(x)), x),
    "norm_left_out": lambda norm, change, x: np.allclose(change(x), x),
    "output_changed": lambda norm, change, x: np.allclose(change(norm(x)), norm(x)),
    "always_false: no": lambda norm, change, x: False,
    "always_false: yes": lambda norm, change, x: True,
    "answer_reversed": lambda norm, change, x: not np.allclose(norm(change(x)), norm(x)),
    "too_tolerant": lambda norm, change, x: np.allclose(norm(change(x)), norm(x), atol=0.1),
    "too_tolerant: far": lambda norm, change, x: np.allclose(norm(change(x)), norm(x), atol=1),
    "prediction_returned": lambda norm, change, x: PREDICTED[change.__name__],
    "exact_equality": lambda norm, change, x: np.array_equal(norm(change(x)), norm(x)),
    "own_layer_norm: as it is": lambda norm, change, x: np.allclose(
        layer_norm(change(x)), layer_norm(x)
    ),
    "own_layer_norm: its formula": lambda norm, change, x: np.allclose(
        *((a - mean(a)) / a.std(-1, keepdims=True) for a in (change(x), x))
    ),
    "own_layer_norm: without eps": lambda norm, change, x: np.allclose(
        layer_norm(change(x), eps=0), layer_norm(x, eps=0)
    ),
}


def named(answer, task):
    return [mistake.name for mistake in judge(observe(answer, task, 5), task, 5).mistakes]


@pytest.mark.parametrize(
    ("name", "answer"), [(name, answer) for name, answers in FORWARD.items() for answer in answers]
)
def test_a_wrong_forward_pass_is_named(name, answer):
    assert named(answer, "layer_norm/forward") == [name]


def test_an_answer_for_rows_alone_is_named_with_another_mistake():
    def answer(x, gamma, beta, eps=1e-5):
        n, _d = x.shape
        mu, sigma = x.mean(axis=1).reshape(n, 1), x.std(axis=1).reshape(n, 1)
        return gamma * (x - mu) / (sigma + eps) + beta

    names = {"eps_outside_root", "axis_put_back_second"}
    assert {*named(answer, "layer_norm/forward")} == names


def test_gamma_before_the_sign_of_a_matrix_product_is_named():
    def answer(x, gamma, beta, eps=1e-5):
        return gamma @ ((x - mean(x)) / np.sqrt(x.var(-1, keepdims=True) + eps)) + beta

    assert named(answer, "layer_norm/forward") == ["matrix_product"]


def test_a_gradient_of_integers_is_named():
    def answer(dy, x, gamma, eps=1e-5):
        dx, right = np.zeros_like(x), combine("layer_norm/layer_norm_backward")(dy, x, gamma, eps)
        dx[...] = right[0]
        return dx, *right[1:]

    assert named(answer, "layer_norm/backward") == ["gradient_cut_to_integers"]


def test_a_wrong_variance_in_place_is_told_both():
    assert named(in_place_of_a_sample, "layer_norm/forward") == [
        "unbiased_variance",
        "changed_in_place",
    ]


@pytest.mark.parametrize("name", BACKWARD)
def test_a_wrong_backward_pass_is_named(name):
    assert named(backward(BACKWARD[name]), "layer_norm/backward") == [name.partition(":")[0]]


def of_the_second_axis(dy, x, gamma, eps=1e-5):
    """As for (N, D) alone, in the form of a well-known course."""
    n = x.shape[1]
    std = np.sqrt(x.var(axis=1, keepdims=True) + eps)
    xhat, dxhat = (x - mean(x, 1)) / std, dy * gamma
    sums = dxhat.sum(axis=1, keepdims=True) + xhat * (dxhat * xhat).sum(axis=1, keepdims=True)
    return (n * dxhat - sums) / n / std, (dy * xhat).sum(axis=0), dy.sum(axis=0)


def of_the_batch(dy, x, gamma, eps=1e-5):
    """The stages of a well-known course, for batch normalisation."""
    n, _d = dy.shape
    centred, root = x - x.mean(axis=0), np.sqrt(x.var(axis=0) + eps)
    dxhat = dy * gamma
    dvar = -np.sum(dxhat * centred, axis=0) / root**3 / 2
    dx = dxhat / root + 2 * centred * dvar / n
    return dx - dx.mean(axis=0), np.sum(dy * centred / root, axis=0), np.sum(dy, axis=0)


def test_the_stages_of_batch_normalisation_are_named():
    assert named(of_the_batch, "layer_norm/backward") == ["batch_axis"]


def test_a_backward_pass_for_two_axes_alone_is_named():
    names = named(of_the_second_axis, "layer_norm/backward")
    assert names == ["axis_one", "gradients_over_first_axis"]


def divided_by_rows(dy, x, gamma, eps=1e-5):
    """The form of batch normalisation, whose N is the number of rows."""
    x, upstream = x.reshape(-1, x.shape[-1]), dy.reshape(-1, x.shape[-1])
    n, std = len(x), rooted(x, eps)
    xhat, dxhat = (x - mean(x)) / std, upstream * gamma
    sums = dxhat.sum(1, keepdims=True) + xhat * (dxhat * xhat).sum(1, keepdims=True)
    dx = (n * dxhat - sums) / n / std
    return dx.reshape(dy.shape), (upstream * xhat).sum(0), upstream.sum(0)


def test_sums_divided_by_the_number_of_rows_are_named():
    assert named(divided_by_rows, "layer_norm/backward") == ["divided_by_batch"]


def carried_over(x, gamma, beta, eps=1e-5):
    y, squares = np.empty(x.shape, gamma.dtype), 0.0
    for index in np.ndindex(x.shape[:-1]):
        centred = x[index] - x[index].mean()
        for value in centred:
            squares += value * value
        y[index] = gamma * centred / np.sqrt(squares / len(gamma) + eps) + beta
    return y


def axis_one_if_any(x, gamma, beta, eps=1e-5):
    axis = 1 if x.ndim > 1 else 0
    std = np.sqrt(x.var(axis=axis, keepdims=True) + eps)
    return gamma * (x - mean(x, axis)) / std + beta


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (carried_over, "sum_carried_over"),
        (axis_one_if_any, "axis_one"),
        (lambda x, g, b, eps=1e-5: g * (x - mean(x)) / rooted(x, 1e-3) + b, "other_fixed_eps"),
    ],
)
def test_a_forward_pass_as_in_another_language_is_named(answer, name):
    assert named(answer, "layer_norm/forward") == [name]


def test_the_backward_pass_of_batch_normalisation_is_named():
    def answer(dy, x, gamma, eps=1e-5):
        n, std = len(x), np.sqrt(x.var(0) + eps)
        xhat = (x - x.mean(0)) / std
        dgamma, dbeta = (dy * xhat).sum(0), dy.sum(0)
        return gamma / std / n * (n * dy - dbeta - xhat * dgamma), dgamma, dbeta

    assert named(answer, "layer_norm/backward") == ["batch_axis"]


@pytest.mark.parametrize("way", STAGED)
def test_a_wrong_backward_pass_by_stages_is_named(way):
    assert named(staged(way), "layer_norm/backward") == [way]


@pytest.mark.parametrize("name", PARAMETERS)
def test_wrong_gradients_of_the_parameters_are_named(name):
    answer = of_parameters(*PARAMETERS[name])
    assert named(answer, "layer_norm/backward") == [name]
    assert named(answer, "layer_norm/dgamma_dbeta") == [name]
    assert judge(observe(answer, "layer_norm/dx"), "layer_norm/dx").passed


def test_both_gradients_from_dxhat_are_no_change_in_place():
    def dgamma(dy, xhat, gamma, over, **_given):
        return (dy * gamma * xhat).sum(over)

    answer = of_parameters(dgamma, PARAMETERS["dbeta_with_gamma"][1])
    assert named(answer, "layer_norm/backward") == ["dgamma_with_gamma", "dbeta_with_gamma"]


@pytest.mark.parametrize("wrong", [0, 1])
@pytest.mark.parametrize(
    ("name", "over"),
    [
        ("one_gradient_averaged", lambda a: a.reshape(-1, a.shape[-1]).mean(0)),
        ("gradients_over_first_axis", lambda a: a.sum(0)),
        ("gradients_over_features", lambda a: a.sum(-1)),
        ("gradients_not_summed", lambda a: a),
        ("sum_overwritten", lambda a: a.reshape(-1, a.shape[-1])[-1]),
    ],
)
def test_one_wrong_gradient_of_the_parameters_is_not_told_of_both(name, over, wrong):
    def answer(dy, x, gamma, eps=1e-5):
        dx, *both = gradients(dy, x, gamma, eps)
        both[wrong] = over([dy * (x - mean(x)) / rooted(x, eps), dy][wrong])
        return dx, *both

    verdict = judge(observe(answer, "layer_norm/backward"), "layer_norm/backward")
    assert [mistake.name for mistake in verdict.mistakes] == [name]
    told = " ".join(verdict.explain().split())
    assert "dgamma, dbeta or both" in told or "One of dgamma and dbeta" in told


@pytest.mark.parametrize("both", [True, False])
def test_an_xhat_without_eps_is_named(both):
    def answer(dy, x, gamma, eps=1e-5):
        r, xhat = 1 / rooted(x, eps), (x - mean(x)) / rooted(x, 0)
        inner, dxhat = xhat if both else (x - mean(x)) * r, dy * gamma
        dx = r * (dxhat - mean(dxhat) - inner * mean(dxhat * inner))
        over = tuple(range(x.ndim - 1))
        return dx, (dy * xhat).sum(over), dy.sum(over)

    assert named(answer, "layer_norm/backward") == ["eps_forgotten_in_xhat"]


def test_exchanged_arguments_of_the_backward_pass_are_named():
    def answer(x, dy, gamma, eps=1e-5):
        return gradients(dy, x, gamma, eps)

    assert named(answer, "layer_norm/backward") == ["arguments_exchanged"]


@pytest.mark.parametrize("function", ["forward", "backward"])
def test_a_function_is_called_without_the_usual_eps(function):
    def forward(x, gamma, beta, eps):
        return gamma * (x - mean(x)) / rooted(x, eps) + beta

    def backward(dy, x, gamma, eps):
        return gradients(dy, x, gamma, eps)

    task = f"layer_norm/{function}"
    verdict = judge(observe(locals()[function], task), task)
    assert verdict.first.what == "error" and "'eps'" in verdict.explain()


def test_an_unknown_dx_does_not_hide_what_is_wrong_with_dgamma():
    def answer(*given):
        dx, *others = of_parameters(*PARAMETERS["dgamma_with_x"])(*given)
        return dx * 1.1 + 0.3, *others

    assert named(answer, "layer_norm/backward") == ["dgamma_with_x"]
    assert named(answer, "layer_norm/dgamma_dbeta") == ["dgamma_with_x"]


def test_dx_counts_without_the_others():
    def answer(*given):
        return staged()(*given)[0], None, None

    assert judge(observe(answer, "layer_norm/dx"), "layer_norm/dx").passed
    verdict = judge(observe(answer, "layer_norm/dgamma_dbeta"), "layer_norm/dgamma_dbeta")
    assert verdict.missing == ("dgamma", "dbeta") and not verdict.mistakes


@pytest.mark.parametrize("way", WAYS)
def test_a_backward_pass_that_goes_wrong_is_named(way):
    def answer(*given):
        return gradients(*given, way=way)

    assert named(answer, "layer_norm/backward") == [way]


@pytest.mark.parametrize("way", LAYERS)
def test_a_wrong_layer_is_named(way):
    assert named(made(way), "layer_norm/layer") == [way.partition(":")[0]]


def test_a_layer_that_returns_zeros_is_told_of_no_mistake():
    assert not named(made("zeros"), "layer_norm/layer")


def test_the_gradients_that_they_spoil_are_right():
    assert judge(observe(gradients, "layer_norm/backward", 5), "layer_norm/backward", 5).passed


def test_the_layer_that_they_spoil_is_right():
    assert judge(observe(made(""), "layer_norm/layer", 5), "layer_norm/layer", 5).passed


@pytest.mark.parametrize("name", UNCHANGED)
def test_a_wrong_experiment_is_named(name):
    answer = PREDICTED, UNCHANGED[name]
    assert named(answer, "layer_norm/invariance") == [name.partition(":")[0]]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (([True] * 6, UNCHANGED["too_tolerant"]), "Leave it a dictionary"),
        (UNCHANGED["exact_equality"], "Returned: result (function)"),
    ],
)
def test_predictions_of_another_type_are_told_as_such(answer, told):
    """A list of predictions; or the function alone, without them."""
    verdict = judge(observe(answer, "layer_norm/invariance"), "layer_norm/invariance")
    assert told in verdict.explain()


def test_an_object_in_place_of_its_class_is_told_as_such():
    verdict = judge(observe(made("")(3), "layer_norm/layer"), "layer_norm/layer")
    assert "LayerNorm is an instance of a layer: hand in its class" in verdict.explain()


def test_a_layer_needs_the_default_of_eps():
    class Explicit(made("")):
        def __init__(self, features, eps):
            super().__init__(features, eps)

    verdict = judge(observe(Explicit, "layer_norm/layer"), "layer_norm/layer")
    assert verdict.first.what == "error" and "'eps'" in verdict.explain()


def parameters(eps=1e-5, **shapes):
    """A layer whose parameters have these names and shapes."""

    class Layer(made("")):
        def __init__(self, features, eps=eps):
            super().__init__(features, eps)
            del self.weight, self.bias
            for name, start in shapes.items():
                setattr(self, name, torch.nn.Parameter(start(features)))

        def forward(self, x):
            scale, shift = self.parameters()
            xhat = (x - x.mean(-1, True)) / (x.var(-1, False, True) + self.eps).sqrt()
            return scale * xhat + shift

    return Layer


@pytest.mark.parametrize("copied", [lambda p: p.data, lambda p: p.detach().clone()])
def test_copies_of_the_parameters_are_named(copied):
    class Copied(made("")):
        def __init__(self, features, eps=1e-5):
            super().__init__(features, eps)
            self.scale, self.shift = copied(self.weight), copied(self.bias)

        def forward(self, x):
            xhat = (x - x.mean(-1, True)) / (x.var(-1, False, True) + self.eps).sqrt()
            return self.scale * xhat + self.shift

    assert named(Copied, "layer_norm/layer") == ["copies_used"]


def test_an_intermediate_result_that_is_changed_in_place_is_not_cut_off():
    class Divided(made("")):
        def formula(self, x):
            centred = x - x.mean(-1, True)
            var = (centred**2).mean(-1, True)
            centred /= torch.sqrt(var + self.eps)
            return self.weight * centred + self.bias

    verdict = judge(observe(Divided, "layer_norm/layer"), "layer_norm/layer")
    assert not verdict.mistakes and "Make a new one: x = x - ..." in verdict.explain()


@pytest.mark.parametrize("wide", [torch.float32, torch.float64])
def test_a_layer_that_widens_its_input_is_named(wide):
    class Widened(made("")):
        def forward(self, x):
            return super().forward(x.to(wide))

    assert named(Widened, "layer_norm/layer") == ["dtype_not_kept"]


def row(start):
    return lambda features: start(1, features)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("other_default", parameters(1e-6, weight=torch.ones, bias=torch.zeros)),
        ("gamma_beta_names", parameters(scale=torch.ones, shift=torch.zeros)),
        ("gamma_beta_names", parameters(a_2=torch.ones, b_2=torch.zeros)),
        ("gamma_beta_names", parameters(g=torch.ones, b=torch.zeros)),
        ("gamma_beta_names", parameters(gamma=torch.ones, bias=torch.zeros)),
        ("gamma_beta_names", parameters(weight=torch.ones, beta=torch.zeros)),
        ("parameters_in_two_axes", parameters(weight=row(torch.ones), bias=torch.zeros)),
        ("parameters_in_two_axes", parameters(weight=torch.ones, bias=row(torch.zeros))),
        ("one_weight", parameters(weight=lambda _n: torch.ones(1), bias=torch.zeros)),
        ("one_weight", parameters(weight=torch.ones, bias=lambda _n: torch.zeros(1))),
    ],
)
def test_parameters_that_will_not_load_are_named(name, answer):
    assert named(answer, "layer_norm/layer") == [name]


def test_all_wrong_predictions_are_named():
    predictions = {
        "shift_tokens": False,
        "scale_tokens": True,
        "scale_dataset": True,
        "negate_tokens": True,
        "shift_dataset": True,
        "scale_feature": False,
    }

    def unchanged(norm, change, x):
        return bool(np.max(np.abs(norm(change(x)) - norm(x))) < 1e-6)

    assert sorted(named((predictions, unchanged), "layer_norm/invariance")) == [
        "dataset_recentring",
        "negation_accepted",
        "token_shift_denied",
    ]


# --- Right answers of any style ---------------------------------------------------------------


def by_rows(x, gamma, beta, eps=1e-5):
    rows = x.reshape(-1, x.shape[-1]).tolist()
    out = []
    for row in rows:
        mu = math.fsum(row) / len(row)
        sigma = math.sqrt(math.fsum((value - mu) ** 2 for value in row) / len(row) + eps)
        out.append(
            [g * (value - mu) / sigma + b for value, g, b in zip(row, gamma, beta, strict=True)]
        )
    return np.array(out, dtype=gamma.dtype).reshape(x.shape)


def by_recursion(x, gamma, beta, eps=1e-5):
    if x.ndim > 1:
        return np.stack([by_recursion(part, gamma, beta, eps) for part in x])
    return gamma * (x - np.mean(x)) / np.sqrt(np.var(x) + eps) + beta


def along_axis(x, gamma, beta, eps=1e-5):
    def token(t):
        return (t - t.mean()) / np.sqrt(t.var() + eps)

    return gamma * np.apply_along_axis(token, -1, x * gamma.dtype.type(1)) + beta


def by_matrix(x, gamma, beta, eps=1e-5):
    d = x.shape[-1]
    centred = x @ (np.eye(d, dtype=gamma.dtype) - gamma.dtype.type(1 / d))
    length = np.linalg.norm(centred, axis=-1, keepdims=True)
    return centred / np.hypot(length / d**0.5, eps**0.5) * gamma + beta


def in_double(x, gamma, beta, eps=1e-5):
    wide = x.astype(np.float64)
    var = (wide**2).mean(-1) - wide.mean(-1) ** 2
    y = (wide - wide.mean(-1)[..., None]) * np.power(var + eps, -0.5)[..., None]
    return np.asarray(gamma * y + beta, dtype=gamma.dtype)


def by_moved_axes(x, gamma, beta, eps=1e-5):
    first = np.moveaxis(x, -1, 0)
    centred = first - first.mean(axis=0)
    xhat = centred / np.sqrt((centred * centred).mean(axis=0) + eps)
    return np.moveaxis(xhat, 0, -1) * gamma + beta


def by_differences(x, gamma, beta, eps=1e-5):
    gaps = x[..., :, None] - x[..., None, :]
    var = (gaps**2).mean(axis=(-2, -1))[..., None] / 2
    return gamma * gaps.mean(axis=-1) / np.sqrt(var + eps) + beta


def by_welford(x, gamma, beta, eps=1e-5):
    mu, m2 = np.zeros(x.shape[:-1]), np.zeros(x.shape[:-1])
    for k in range(x.shape[-1]):
        delta = x[..., k] - mu
        mu = mu + delta / (k + 1)
        m2 = m2 + delta * (x[..., k] - mu)
    root = np.sqrt(m2 / x.shape[-1] + eps)
    return (gamma * ((x - mu[..., None]) / root[..., None]) + beta).astype(gamma.dtype)


def by_ufuncs(x, gamma, beta, eps=1e-5):
    out = np.subtract(x, np.mean(x, axis=-1, keepdims=True), dtype=gamma.dtype)
    out /= np.sqrt(np.add(np.square(out).mean(axis=-1, keepdims=True), eps))
    np.multiply(out, gamma, out=out)
    return np.add(out, beta, out=out)


@pytest.mark.parametrize(
    "answer",
    [
        *(by_rows, by_recursion, along_axis, by_matrix, in_double, by_moved_axes, by_differences),
        *(by_welford, by_ufuncs),
    ],
)
def test_right_forward_passes_of_any_style_pass(answer):
    for seed in range(3):
        verdict = judge(observe(answer, "layer_norm/forward", seed), "layer_norm/forward", seed)
        assert verdict.passed, verdict.explain()


class Registered(torch.nn.Module):
    def __init__(self, features, eps=1e-5, **_options):
        super().__init__()
        self.eps = eps
        self.register_parameter("weight", torch.nn.Parameter(torch.empty(features)))
        self.register_parameter("bias", torch.nn.Parameter(torch.empty((features,))))
        self.reset_parameters()

    def reset_parameters(self):
        torch.nn.init.ones_(self.weight)
        torch.nn.init.zeros_(self.bias)

    def forward(self, x):
        std, mean = torch.std_mean(x, dim=-1, unbiased=False, keepdim=True)
        return (x - mean) / (std**2 + self.eps).sqrt() * self.weight + self.bias


class TokenByToken(Registered):
    def forward(self, x):
        if x.dim() > 1:
            return torch.stack([self.forward(part) for part in x.unbind()])
        centred = x - x.sum() / len(x)
        return self.weight * centred * (centred @ centred / len(x) + self.eps) ** -0.5 + self.bias


class InPlaceOnACopy(Registered):
    def forward(self, x):
        y = x.clone().sub_(x.mean(-1, keepdim=True))
        y = y / torch.sqrt(y.square().mean(-1, keepdim=True) + self.eps)
        return torch.einsum("...d,d->...d", y, self.weight).add_(self.bias)


class InDouble(Registered):
    def forward(self, x):
        wide = x.double()
        y = (wide - wide.mean(-1, True)) / (wide.var(-1, False, True) + self.eps) ** 0.5
        return (self.weight.double() * y + self.bias.double()).to(x.dtype)


@pytest.mark.parametrize("answer", [Registered, TokenByToken, InPlaceOnACopy, InDouble])
def test_right_layers_of_any_style_pass(answer):
    for seed in range(3):
        verdict = judge(observe(answer, "layer_norm/layer", seed), "layer_norm/layer", seed)
        assert verdict.passed, verdict.explain()


def by_zeros(dy, x, gamma, eps=1e-5):
    """Loops over arrays of zeros, which are of float64 whatever x is."""
    features = x.shape[-1]
    dx, dgamma, dbeta = np.zeros(x.shape), np.zeros(features), np.zeros(features)
    for place in np.ndindex(x.shape[:-1]):
        r = 1 / np.sqrt(x[place].var() + eps)
        xhat = (x[place] - x[place].mean()) * r
        dxhat = dy[place] * gamma
        for i in range(features):
            dx[(*place, i)] = r * (dxhat[i] - dxhat.mean() - xhat[i] * (dxhat * xhat).mean())
            dgamma[i] += dy[(*place, i)] * xhat[i]
            dbeta[i] += dy[(*place, i)]
    return dx, dgamma, dbeta


def scaled_by_n(dy, x, gamma, eps=1e-5):
    """The closed form of CS231n, with sums; a list, and float64 inside."""
    x, dy = x.astype(float), dy.astype(float)
    n, std_ = x.shape[-1], np.sqrt(x.var(-1, keepdims=True) + eps)
    xhat, dxhat = (x - mean(x)) / std_, dy * gamma
    dx = (n * dxhat - sum_of(dxhat) - xhat * sum_of(dxhat * xhat)) / (n * std_)
    flat = (-1, n)
    return [dx, (dy * xhat).reshape(flat).sum(0), dy.reshape(flat).sum(0)]


def by_einsum(dy, x, gamma, eps=1e-5):
    n = x.shape[-1]
    centred = x - np.einsum("...d->...", x)[..., None] / n
    r = (np.einsum("...d,...d->...", centred, centred) / n + eps) ** -0.5
    xhat = np.einsum("...d,...->...d", centred, r)
    dxhat = np.einsum("...d,d->...d", dy, gamma)
    along = np.einsum("...d,...d->...", dxhat, xhat) / n
    dx = r[..., None] * (dxhat - dxhat.mean(-1)[..., None] - along[..., None] * xhat)
    rows = dy.reshape(-1, n), xhat.reshape(-1, n)
    return dx, np.einsum("nd,nd->d", *rows), np.einsum("nd->d", rows[0])


def by_complex_steps(dy, x, gamma, eps=1e-5):
    """The derivative by a step into the complex plane, exact to the last digits."""
    x, tiny = x.astype(complex), 1e-30
    features, over = x.shape[-1], tuple(range(x.ndim - 1))

    def xhat(x):
        return (x - mean(x)) / np.sqrt(mean((x - mean(x)) ** 2) + eps)

    dx = np.zeros(x.shape)
    for i in range(features):
        step = np.zeros(features, complex)
        step[i] = 1j * tiny
        dx[..., i] = (dy * gamma * xhat(x + step).imag).sum(-1) / tiny
    return dx, (dy * xhat(x).real).sum(over), dy.sum(over)


def by_tensordot(dy, x, gamma, eps=1e-5):
    """Sums over the tokens one axis after the other."""
    dx, dgamma, dbeta = staged()(dy, x, gamma, eps)[0], *staged_rows(dy, x, eps)
    while dgamma.ndim > 1:
        dgamma, dbeta = dgamma.sum(axis=0), dbeta.sum(axis=0)
    return dx, dgamma, dbeta


def staged_rows(dy, x, eps=1e-5):
    return dy * (x - mean(x)) / np.sqrt(std(x) ** 2 + eps), dy


@pytest.mark.parametrize(
    "answer", [staged(), by_zeros, scaled_by_n, by_einsum, by_complex_steps, by_tensordot]
)
def test_right_backward_passes_of_any_style_pass(answer):
    for task in ("layer_norm/backward", "layer_norm/dx", "layer_norm/dgamma_dbeta"):
        for seed in range(3):
            verdict = judge(observe(answer, task, seed), task, seed)
            assert verdict.passed, verdict.explain()


def by_message(norm, change, x):
    try:
        np.testing.assert_allclose(norm(change(x)), norm(x), rtol=1e-6, atol=1e-9)
    except AssertionError:
        return False
    return True


def by_numbers(norm, change, x):
    pairs = zip(np.ravel(norm(change(x))), np.ravel(norm(x)), strict=True)
    return all(math.isclose(a, b, rel_tol=1e-7, abs_tol=1e-9) for a, b in pairs)


@pytest.mark.parametrize(
    "unchanged",
    [
        *(by_message, by_numbers),
        lambda norm, change, x: np.isclose(norm(change(x)), norm(x)).all(),
        lambda norm, change, x: np.linalg.norm(norm(change(x)) - norm(x)) < 1e-6,
        lambda norm, change, x: np.array_equal(norm(x).round(6), norm(change(x)).round(6)),
        lambda norm, change, x: not np.any(abs(norm(change(x.copy())) - norm(x)) > 1e-5),
    ],
)
def test_right_experiments_of_any_style_pass(unchanged):
    predictions = combine("layer_norm/layer_norm_invariance")()[0]
    for answer in ((predictions, unchanged), [dict(predictions), unchanged]):
        for seed in range(3):
            task = "layer_norm/invariance"
            verdict = judge(observe(answer, task, seed), task, seed)
            assert verdict.passed, verdict.explain()


def test_a_weight_of_zeros_leaves_the_bias():
    class Exchanged(combine("layer_norm/LayerNorm")):
        def __init__(self, features, eps=1e-5):
            super().__init__(features, eps)
            torch.nn.init.zeros_(self.weight)
            torch.nn.init.ones_(self.bias)

    first, second = judge(observe(Exchanged, "layer_norm/layer"), "layer_norm/layer").mistakes
    assert (first.name, second.name) == ("weight_starts_at_zero", "bias_starts_at_one")
    assert "returns its bias whatever comes in" in first.message
