"""Wrong answers as students write them, not as the catalogue does: each is named."""

import numpy as np
import pytest

from normkit.tasks import judge, observe


def mean(a, axis=-1):
    return a.mean(axis=axis, keepdims=True)


def std(a, **options):
    return a.std(axis=-1, keepdims=True, **options)


def loop(x, gamma, beta, eps):
    """Token by token, with the variance of a sample."""
    rows = x.reshape(-1, x.shape[-1])
    out = []
    for row in rows:
        squares = sum((value - row.mean()) ** 2 for value in row)
        out.append((row - row.mean()) / np.sqrt(squares / (len(row) - 1) + eps))
    return (gamma * np.array(out) + beta).reshape(x.shape).astype((x * 1.0).dtype)


def in_place(x, gamma, beta, eps):
    x -= mean(x)
    return gamma * x / np.sqrt(mean(x**2) + eps) + beta


def all_in_place(x, gamma, beta, eps):
    var = x.var(axis=-1, keepdims=True)
    x -= mean(x)
    x /= np.sqrt(var + eps)
    x *= gamma
    x += beta
    return x


def in_place_of_a_sample(x, gamma, beta, eps):
    x -= mean(x)
    return gamma * x / np.sqrt(x.var(axis=-1, ddof=1, keepdims=True) + eps) + beta


FORWARD = {
    "unbiased_variance": [
        loop,
        lambda x, g, b, eps: g * (x - mean(x)) / np.sqrt(std(x, ddof=1) ** 2 + eps) + b,
    ],
    "eps_outside_root": [lambda x, g, b, eps: (x - mean(x)) / (std(x) + eps) * g + b],
    "no_eps": [lambda x, g, b, eps: g * ((x - mean(x)) / std(x)) + b],
    "no_root": [lambda x, g, b, eps: g * (x - mean(x)) / (std(x) ** 2 + eps) + b],
    "sum_of_squares": [
        lambda x, g, b, eps: (
            g * (x - mean(x)) / np.sqrt(np.linalg.norm(x - mean(x), axis=-1)[..., None] ** 2 + eps)
            + b
        )
    ],
    "batch_axis": [lambda x, g, b, eps: g * (x - x.mean(0)) / np.sqrt(x.var(0) + eps) + b],
    "whole_array": [lambda x, g, b, eps: b + (x - x.mean()) * g / (x.var() + eps) ** 0.5],
    "variance_of_whole_array": [
        lambda x, g, b, eps: g * (x - mean(x)) / np.sqrt(x.var() + eps) + b,
        lambda x, g, b, eps: (x - mean(x)) / np.sqrt(x.std() ** 2 + eps) * g + b,
    ],
    "squares_over_whole_array": [
        lambda x, g, b, eps: g * (x - mean(x)) / np.sqrt(np.mean((x - mean(x)) ** 2) + eps) + b
    ],
    "changed_in_place": [in_place, all_in_place],
    "rms_instead": [lambda x, g, b, eps: g * x / np.sqrt(mean(x * x) + eps) + b],
    "mean_not_subtracted": [lambda x, g, b, eps: g * x / np.sqrt(std(x) ** 2 + eps) + b],
    "beta_before_gamma": [
        lambda x, g, b, eps: g * ((x - mean(x)) / np.sqrt(std(x) ** 2 + eps) + b)
    ],
}


def backward(dx):
    """A backward pass whose gradients of the parameters are right, around this dx."""

    def answer(dy, x, gamma, eps):
        r = (mean((x - mean(x)) ** 2) + eps) ** -0.5
        xhat, over = (x - mean(x)) * r, tuple(range(x.ndim - 1))
        return dx(dy, xhat, r, gamma), np.sum(dy * xhat, axis=over), np.sum(dy, axis=over)

    return answer


BACKWARD = {
    "detached_statistics": lambda dy, xhat, r, g: dy * g * r,
    "gamma_outside_bracket": lambda dy, xhat, r, g: (
        g * r * (dy - mean(dy) - xhat * mean(dy * xhat))
    ),
    "xhat_term_added": lambda dy, xhat, r, g: (
        r * g * dy - r * mean(g * dy) + r * xhat * mean(g * dy * xhat)
    ),
    "mean_term_dropped": lambda dy, xhat, r, g: r * (g * dy - xhat * mean(g * dy * xhat)),
    "xhat_term_dropped": lambda dy, xhat, r, g: r * (g * dy - mean(g * dy)),
    "r_forgotten": lambda dy, xhat, r, g: g * dy - mean(g * dy) - xhat * mean(g * dy * xhat),
}


def named(answer, task):
    return [mistake.name for mistake in judge(observe(answer, task, 5), task, 5).mistakes]


@pytest.mark.parametrize(
    ("name", "answer"), [(name, answer) for name, answers in FORWARD.items() for answer in answers]
)
def test_a_wrong_forward_pass_is_named(name, answer):
    assert named(answer, "layer_norm/forward") == [name]


def test_a_wrong_variance_in_place_is_told_both():
    assert named(in_place_of_a_sample, "layer_norm/forward") == [
        "unbiased_variance",
        "changed_in_place",
    ]


@pytest.mark.parametrize("name", BACKWARD)
def test_a_wrong_backward_pass_is_named(name):
    assert named(backward(BACKWARD[name]), "layer_norm/backward") == [name]


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
