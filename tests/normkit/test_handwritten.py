"""Wrong answers as students write them, not as the catalogue does: each is named."""

import numpy as np
import pytest
import torch

from normkit import layer_norm
from normkit.mistakes import combine
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


def plain_mean(x, g, b, eps):
    centred = x - x.mean(axis=-1)
    return g * centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps) + b


def plain_moments(x, g, b, eps):
    centred = x - x.mean(axis=-1)
    return g * centred / np.sqrt((centred**2).mean(axis=-1) + eps) + b


def new_axis(x, g, b, eps):
    m, v = x.mean(axis=-1)[:, None], x.var(axis=-1)[:, None]
    return g * (x - m) / np.sqrt(v + eps) + b


FORWARD = {
    "loop_over_first_axis": [
        lambda x, g, b, eps: np.stack([g * (t - t.mean()) / np.sqrt(t.var() + eps) + b for t in x]),
    ],
    "squares_without_keepdims": [plain_moments],
    "mean_without_keepdims": [plain_mean],
    "mean_alone_without_keepdims": [
        lambda x, g, b, eps: g * (x - x.mean(-1)) / np.sqrt(std(x) ** 2 + eps) + b
    ],
    "var_without_keepdims": [
        lambda x, g, b, eps: g * (x - mean(x)) / np.sqrt(x.var(axis=-1) + eps) + b
    ],
    "axis_put_back_second": [
        new_axis,
        lambda x, g, b, eps: g * (x - x.mean(-1)[:, None]) / np.sqrt(std(x) ** 2 + eps) + b,
    ],
    "mean_of_squares": [lambda x, g, b, eps: g * (x - mean(x)) / np.sqrt(mean(x**2) + eps) + b],
    "brackets_forgotten": [lambda x, g, b, eps: g * (x - mean(x) / np.sqrt(std(x) ** 2 + eps)) + b],
    "brackets_around_product_forgotten": [
        lambda x, g, b, eps: g * x - mean(x) / np.sqrt(std(x) ** 2 + eps) + b
    ],
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


def part_along(a, xhat):
    return xhat * (a * xhat).sum(-1, keepdims=True) / (xhat * xhat).sum(-1, keepdims=True)


BACKWARD = {
    "means_of_everything": lambda dy, xhat, r, g: (
        r * (dy * g - (dy * g).mean() - xhat * (dy * g * xhat).mean())
    ),
    "mean_of_everything": lambda dy, xhat, r, g: (
        r * (dy * g - (dy * g).mean() - xhat * mean(dy * g * xhat))
    ),
    "product_mean_of_everything": lambda dy, xhat, r, g: (
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
    "root_inverted_in_dx": lambda dy, xhat, r, g: (
        (dy * g - mean(dy * g) - xhat * mean(dy * g * xhat)) / r
    ),
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


def gradients(dy, x, gamma, eps, *, way=""):
    """A backward pass that goes wrong in one of several ways."""
    centred = x - mean(x)
    root = np.sqrt(mean(centred**2) + eps)
    r = root if way == "root_inverted" else 1 / root
    xhat = centred * r
    if way == "dy_changed_in_place":
        dy *= gamma
        dxhat = dy
    else:
        dxhat = dy * gamma
    product = dxhat * (x if way == "product_with_x" else xhat)
    dx = r * (dxhat - mean(dxhat) - xhat * mean(product))
    over = tuple(range(x.ndim - 1))
    found = dx, (dy * xhat).sum(over), dy.sum(over)
    return found[1:] + found[:1] if way == "dx_returned_last" else found


WAYS = "root_inverted", "dy_changed_in_place", "product_with_x", "dx_returned_last"


def made(way):
    """A layer as students write it, that goes wrong in one of several ways."""

    class LayerNorm(torch.nn.Module):
        def __init__(self, features, eps=1e-5):
            super().__init__()
            self.eps = eps
            size = 1 if way == "one_weight" else features
            start = torch.randn if way == "weight_starts_anywhere" else torch.ones
            self.weight = torch.nn.Parameter(start(size))
            if way != "no_bias":
                self.bias = torch.nn.Parameter(torch.zeros(size))

        def forward(self, x):
            with torch.set_grad_enabled(way != "no_grad_forward"):
                return self.formula(x.detach() if way == "x_detached" else x)

        def formula(self, x):
            keep, w = way != "squares_without_keepdims", self.weight
            m = x.mean(-1, keepdim=keep)
            centred = x - (m.detach() if way == "mean_detached" else m)
            v = (centred**2).mean(-1, keepdim=keep)
            v = v.detach() if way == "var_detached" else v
            y = (w.data if way.endswith("s_detached") or way == "weight_detached" else w) * centred
            y = y / torch.sqrt(v + self.eps)
            if way == "no_bias":
                return y
            return y + (self.bias.data if way == "parameters_detached" else self.bias)

    return LayerNorm


LAYERS = (
    *("squares_without_keepdims", "no_grad_forward", "x_detached", "parameters_detached"),
    *("weight_detached", "mean_detached", "var_detached", "one_weight", "no_bias"),
    "weight_starts_anywhere",
)
UNCHANGED = {
    "rise_without_abs": lambda norm, change, x: bool((norm(change(x)) - norm(x)).max() < 1e-6),
    "fall_without_abs": lambda norm, change, x: np.all(norm(x) - norm(change(x)) < 1e-8),
    "norm_left_out": lambda norm, change, x: np.allclose(change(x), x),
    "output_changed": lambda norm, change, x: np.allclose(change(norm(x)), norm(x)),
    "always_false": lambda norm, change, x: False,
    "always_true": lambda norm, change, x: True,
    "answer_reversed": lambda norm, change, x: not np.allclose(norm(change(x)), norm(x)),
    "too_tolerant": lambda norm, change, x: np.allclose(norm(change(x)), norm(x), atol=0.1),
    "exact_equality": lambda norm, change, x: np.array_equal(norm(change(x)), norm(x)),
    "own_layer_norm": lambda norm, change, x: np.allclose(layer_norm(change(x)), layer_norm(x)),
    "own_layer_norm_without_eps": lambda norm, change, x: np.allclose(
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


def test_a_wrong_variance_in_place_is_told_both():
    assert named(in_place_of_a_sample, "layer_norm/forward") == [
        "unbiased_variance",
        "changed_in_place",
    ]


@pytest.mark.parametrize("name", BACKWARD)
def test_a_wrong_backward_pass_is_named(name):
    assert named(backward(BACKWARD[name]), "layer_norm/backward") == [name]


@pytest.mark.parametrize("way", WAYS)
def test_a_backward_pass_that_goes_wrong_is_named(way):
    def answer(*given):
        return gradients(*given, way=way)

    assert named(answer, "layer_norm/backward") == [way]


@pytest.mark.parametrize("way", LAYERS)
def test_a_wrong_layer_is_named(way):
    assert named(made(way), "layer_norm/layer") == [way]


def test_the_gradients_that_they_spoil_are_right():
    assert judge(observe(gradients, "layer_norm/backward", 5), "layer_norm/backward", 5).passed


def test_the_layer_that_they_spoil_is_right():
    assert judge(observe(made(""), "layer_norm/layer", 5), "layer_norm/layer", 5).passed


@pytest.mark.parametrize("name", UNCHANGED)
def test_a_wrong_experiment_is_named(name):
    answer = combine("layer_norm_invariance")[0], UNCHANGED[name]
    assert named(answer, "layer_norm/invariance") == [name]


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
