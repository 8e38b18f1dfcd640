"""DyT, Derf and weight normalisation as students write them, rightly and wrongly."""

import copy
import math

import numpy as np
import pytest
import torch

from normkit.layers import Derf, DyT
from normkit.tutor.judging import judge
from normkit.tutor.mistakes import combine
from normkit.tutor.observing import observe

ERF = np.vectorize(math.erf, otypes=[float])


def judged(answer, task, seed=5):
    return judge(observe(answer, task, seed), task, seed)


def named(answer, task):
    return sorted(mistake.name for mistake in judged(answer, task).mistakes)


# --- Right answers ----------------------------------------------------------------------------


def loops(x, alpha, gamma, beta):
    y = np.empty(x.shape, dtype=gamma.dtype)
    for index in np.ndindex(x.shape):
        y[index] = gamma[index[-1]] * math.tanh(alpha * x[index]) + beta[index[-1]]
    return y


def rescaled_sigmoid(x, alpha, gamma, beta):
    return gamma * (2 / (1 + np.exp(-2 * alpha * x)) - 1) + beta


def in_place_on_a_copy(x, alpha, gamma, beta):
    y = alpha * x
    np.tanh(y, out=y)
    y *= gamma
    y += beta
    return y


def torch_inside(x, alpha, gamma, beta):
    z = torch.from_numpy(alpha * x)
    return torch.addcmul(torch.tensor(beta), torch.tensor(gamma), z.tanh()).numpy()


def einsum(x, alpha, gamma, beta):
    return np.einsum("...d,d->...d", np.tanh(np.multiply(alpha, x)), gamma) + beta


def erf_of_a_list(x, alpha, shift, gamma, beta):
    values = [math.erf(alpha * value + shift) for value in x.ravel().tolist()]
    return gamma * np.array(values, dtype=gamma.dtype).reshape(x.shape) + beta


def erf_of_torch(x, alpha, shift, gamma, beta):
    return gamma * torch.special.erf(torch.from_numpy(alpha * x + shift)).numpy() + beta


def autograd(curve):
    def backward(dy, x, *numbers):
        *numbers, gamma = [torch.tensor(n, dtype=torch.tensor(dy).dtype) for n in numbers]
        x = torch.tensor(x).to(gamma.dtype)
        leaves = [leaf.requires_grad_() for leaf in (x, *numbers, gamma, torch.zeros_like(gamma))]
        y = gamma * curve(x, *numbers) + leaves[-1]
        y.backward(torch.tensor(dy))
        return [leaf.grad.numpy() for leaf in leaves]

    return backward


def by_cosh(dy, x, alpha, gamma):
    z, flat = alpha * x, (-1, x.shape[-1])
    inner = dy * gamma / np.cosh(z) ** 2
    dgamma = np.einsum("nd,nd->d", dy.reshape(flat), np.tanh(z).reshape(flat))
    return alpha * inner, np.vdot(inner, x), dgamma, dy.reshape(flat).sum(axis=0)


def by_the_exponential(dy, x, alpha, shift, gamma):
    z, over = alpha * x + shift, tuple(range(x.ndim - 1))
    inner = dy * gamma * 2 / math.sqrt(math.pi) * np.exp(-z * z)
    dgamma = (dy * ERF(z)).astype(dy.dtype).sum(over)
    return alpha * inner, (inner * x).sum(), inner.sum(), dgamma, dy.sum(over)


class Tanh(torch.nn.Module):
    def __init__(self, features, alpha_init=0.5):
        super().__init__()
        self.alpha = torch.nn.Parameter(torch.tensor([alpha_init]))
        self.weight = torch.nn.Parameter(torch.ones(features))
        self.bias = torch.nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return self.weight * torch.tanh(self.alpha * x) + self.bias


class Erf(Tanh):
    def __init__(self, features, alpha_init=0.5):
        super().__init__(features, alpha_init)
        self.shift = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return self.weight * torch.erf(self.alpha * x + self.shift) + self.bias


def widths_by_comparison(width):
    if width < 5000:
        return 0.8, 0.2
    return (0.6, 0.15) if width < 8000 else (0.2, 0.05)


def flat_rows(v, g):
    rows = v.reshape(len(v), -1)
    return (g[:, None] * rows / np.linalg.norm(rows, axis=1, keepdims=True)).reshape(v.shape)


def weights_of_torch(v, g):
    v, g = torch.tensor(v).to(torch.tensor(g).dtype), torch.tensor(g)
    return torch._weight_norm(v, g.reshape(-1, *[1] * (v.ndim - 1)), 0).numpy()


def weights_one_by_one(dw, v, g):
    dv, dg = np.empty(dw.shape, dw.dtype), np.empty(len(v), dw.dtype)
    for i in range(len(v)):
        length = (v[i] ** 2).sum() ** 0.5
        dg[i] = (dw[i] * v[i]).sum() / length
        dv[i] = g[i] / length * dw[i] - g[i] * dg[i] / length**2 * v[i]
    return dv, dg


def in_float64(x, alpha, gamma, beta):
    y = gamma.astype(float) * np.tanh(float(alpha) * x.astype(float)) + beta.astype(float)
    return y.astype(gamma.dtype)


def vectorised(x, alpha, gamma, beta):
    one = np.vectorize(lambda x, g, b: g * math.tanh(alpha * x) + b, otypes=[gamma.dtype])
    return one(x, gamma, beta)


def feature_by_feature(x, alpha, gamma, beta):
    y = np.zeros_like(x, dtype=gamma.dtype)
    for d in range(len(gamma)):
        y[..., d] = gamma[d] * np.tanh(alpha * x[..., d]) + beta[d]
    return y


def token_by_token(x, alpha, gamma, beta):
    rows = [gamma * np.tanh(alpha * row) + beta for row in x.reshape(-1, x.shape[-1])]
    return np.array(rows, dtype=gamma.dtype).reshape(x.shape)


def stable_by_hand(x, alpha, gamma, beta):
    small = np.exp(-2 * np.abs(alpha * x))
    return gamma * np.sign(alpha * x) * ((1 - small) / (1 + small)) + beta


def by_sines(x, alpha, gamma, beta):
    z = np.clip(alpha * x, -20, 20)
    return gamma * (np.sinh(z) / np.cosh(z)).astype(gamma.dtype) + beta


def backward_in_loops(dy, x, alpha, gamma):
    dx, dalpha = np.zeros(x.shape), 0.0
    dgamma, dbeta = np.zeros(x.shape[-1]), np.zeros(x.shape[-1])
    for index in np.ndindex(x.shape):
        t = math.tanh(alpha * x[index])
        u = dy[index] * gamma[index[-1]] * (1 - t * t)
        dx[index], dalpha = alpha * u, dalpha + u * x[index]
        dgamma[index[-1]] += dy[index] * t
        dbeta[index[-1]] += dy[index]
    return dx, dalpha, dgamma, dbeta


def backward_in_float64(dy, x, alpha, gamma):
    return combine("dyt/dyt_backward")(dy.astype(float), x.astype(float), alpha, gamma)


def backward_in_steps(dy, x, alpha, gamma):
    z = alpha * x
    t = np.tanh(z)
    dt = gamma * dy
    dz = dt * (1 - t) * (1 + t)
    dalpha = np.array(0.0)
    for token in (dz * x).reshape(-1, x.shape[-1]):
        dalpha += np.dot(token, np.ones(len(token)))
    rows, ones = dy.reshape(-1, x.shape[-1]), np.ones(x.size // x.shape[-1])
    return dz * alpha, dalpha, ones @ (rows * t.reshape(rows.shape)), ones @ rows


def backward_as_a_list(dy, x, alpha, gamma):
    return list(backward_in_loops(dy, x, alpha, gamma))


def backward_by_stacking(dy, x, alpha, gamma):
    t, over = np.tanh(alpha * x), tuple(range(x.ndim - 1))
    u = dy * gamma - dy * gamma * np.square(t)
    dgamma, dbeta = np.stack([dy * t, dy]).sum(axis=tuple(a + 1 for a in over))
    return u * np.full_like(u, alpha), np.einsum("i,i", u.ravel(), x.ravel()), dgamma, dbeta


class Registered(torch.nn.Module):
    def __init__(self, features, alpha_init=0.5):
        super().__init__()
        self.register_parameter("alpha", torch.nn.Parameter(torch.ones(1).mul(alpha_init)))
        self.register_parameter("weight", torch.nn.Parameter(torch.empty(features)))
        self.register_parameter("bias", torch.nn.Parameter(torch.empty(features)))
        torch.nn.init.ones_(self.weight)
        torch.nn.init.zeros_(self.bias)

    def forward(self, x):
        return torch.addcmul(self.bias, self.weight, torch.nn.functional.tanh(x * self.alpha))


class WithTanh(torch.nn.Module):
    def __init__(self, features, alpha_init=0.5):
        super().__init__()
        self.features, self.tanh = features, torch.nn.Tanh()
        self.alpha = torch.nn.Parameter(torch.tensor([alpha_init], dtype=torch.float32))
        self.weight = torch.nn.Parameter(torch.full((features,), 1.0))
        self.bias = torch.nn.Parameter(torch.full([features], 0.0))

    def forward(self, x):
        y = self.tanh(self.alpha[0] * x)
        y = y * self.weight.view(1, -1) if x.ndim > 1 else y * self.weight
        return y + self.bias.expand_as(y)


class BySigmoid(Tanh):
    def forward(self, x):
        t = 2 * (2 * self.alpha * x).sigmoid() - 1
        return torch.einsum("...d,d->...d", t, self.weight) + self.bias


class WithoutInPlaceOnX(Tanh):
    def forward(self, x):
        y = x.clone().mul(self.alpha).tanh()
        return (y * self.weight).add(self.bias)


def widths_from_powers(width):
    other = [0.2, 0.15, 0.05][(4096, 5120, 8192).index(width)]
    return other * 4, other


def widths_as_an_array(width):
    return np.array([4.0, 1.0]) * {4096: 0.2, 5120: 0.15, 8192: 0.05}[width]


def widths_by_match(width):
    match width:
        case 4096:
            return np.float32(0.8), np.float32(0.2)
        case 5120:
            return 0.6, 0.15
    return 0.2, 0.05


RIGHT = {
    "dyt/forward": [
        *(loops, rescaled_sigmoid, in_place_on_a_copy, torch_inside, einsum, in_float64),
        *(vectorised, feature_by_feature, token_by_token, stable_by_hand, by_sines),
    ],
    "dyt/derf": [erf_of_a_list, erf_of_torch],
    "dyt/backward": [
        *(by_cosh, backward_in_loops, backward_in_float64, backward_in_steps),
        *(backward_as_a_list, backward_by_stacking),
    ],
    "dyt/derf_backward": [by_the_exponential],
    "dyt/layer": [Tanh, Registered, WithTanh, BySigmoid, WithoutInPlaceOnX],
    "dyt/derf_layer": [Erf],
    "dyt/initial": [
        *(widths_by_comparison, lambda width: list(widths_by_comparison(width))),
        *(widths_from_powers, widths_as_an_array, widths_by_match),
    ],
    "dyt/weight_norm": [flat_rows],
    "dyt/weight_norm_backward": [weights_one_by_one],
}


@pytest.mark.parametrize(
    ("task", "answer"), [(task, answer) for task, answers in RIGHT.items() for answer in answers]
)
def test_right_answers_of_any_style_pass(task, answer):
    for seed in range(3):
        verdict = judged(answer, task, seed)
        assert verdict.passed, verdict.explain()


READY_MADE = {
    "torch.Tensor.backward": [
        ("dyt/backward", autograd(lambda x, alpha: torch.tanh(alpha * x))),
        ("dyt/derf_backward", autograd(lambda x, alpha, shift: torch.erf(alpha * x + shift))),
    ],
    "torch._weight_norm": [("dyt/weight_norm", weights_of_torch)],
    "normkit.DyT": [("dyt/layer", DyT)],
    "normkit.Derf": [("dyt/derf_layer", Derf)],
}


@pytest.mark.parametrize(
    ("name", "task", "answer"),
    [(name, *answer) for name, answers in READY_MADE.items() for answer in answers],
)
def test_a_ready_made_answer_is_refused(name, task, answer):
    difference = judged(answer, task).difference
    assert (difference.what, difference.name) == ("ready_made", name)


# --- Wrong answers ----------------------------------------------------------------------------


def backward(dx, dalpha):
    """A backward pass whose gradients of gamma and beta are right, around these two."""

    def answer(dy, x, alpha, gamma):
        t, over = np.tanh(x * alpha), tuple(range(x.ndim - 1))
        dgamma, dbeta = (t * dy).sum(over), dy.sum(over)
        return dx(dy, x, alpha, gamma, t), dalpha(dy, x, alpha, gamma, t), dgamma, dbeta

    return answer


def layer(forward=None, **parameters):
    class Layer(Tanh):
        def __init__(self, features, alpha_init=0.5):
            super().__init__(features, alpha_init)
            for name, make in parameters.items():
                delattr(self, name)
                setattr(self, name, make(features, alpha_init))

    if forward:
        Layer.forward = forward
    return Layer


class InFloat64(Tanh):
    def __init__(self, features, alpha_init=0.5):
        super().__init__(features, alpha_init)
        self.double()


class OtherDefault(Tanh):
    def __init__(self, features, alpha_init=1.0):
        super().__init__(features, alpha_init)


class StartInForward(Tanh):
    def __init__(self, features, alpha_init=0.5):
        super().__init__(features, alpha_init)
        self.alpha_init = alpha_init

    def forward(self, x):
        return self.weight * torch.tanh(self.alpha_init * x) + self.bias


class BesideStart(StartInForward):
    def forward(self, x):
        return super().forward(self.alpha * x)


class OfOne(BesideStart):
    def __init__(self, features, alpha_init=0.5):
        super().__init__(features, alpha_init)
        self.alpha = torch.nn.Parameter(torch.ones(1))


class Kept(Tanh):
    def __init__(self, features, alpha_init=0.5):
        super().__init__(features, alpha_init)
        self.alpha_now, self.scale, self.shift = (p.data for p in self.parameters())


class KeptAlpha(Kept):
    def forward(self, x):
        return self.weight * torch.tanh(self.alpha_now * x) + self.bias


class KeptScale(Kept):
    def forward(self, x):
        return self.scale * torch.tanh(self.alpha * x) + self.shift


class WeightAsBuffer(Tanh):
    def __init__(self, features, alpha_init=0.5):
        super().__init__(features, alpha_init)
        del self.weight
        self.register_buffer("weight", torch.ones(features))


def gradients_of_parameters(dgamma, dbeta):
    """A backward pass whose dx and dalpha are right, beside these two."""

    def answer(dy, x, alpha, gamma):
        dx, dalpha, _, _ = combine("dyt/dyt_backward")(dy, x, alpha, gamma)
        t, over = np.tanh(alpha * x), tuple(range(x.ndim - 1))
        given = dy, x, alpha, gamma, t, over
        return dx, dalpha, dgamma(*given), dbeta(*given)

    return answer


def right_dgamma(dy, x, a, g, t, over):
    return (dy * t).sum(over)


def right_dbeta(dy, x, a, g, t, over):
    return dy.sum(over)


def right_dalpha(dy, x, a, g, t):
    return (g * dy * (1 - t * t) * x).sum()


def reordered(*order):
    return lambda *given: [combine("dyt/dyt_backward")(*given)[i] for i in order]


def scaled_in_place(dy, x, alpha, gamma):
    dy *= gamma
    t, over = np.tanh(alpha * x), tuple(range(x.ndim - 1))
    u = dy * (1 - t * t)
    return alpha * u, (u * x).sum(), (dy * t).sum(over), dy.sum(over)


def multiplied_in_place(x, alpha, gamma, beta):
    x *= alpha
    return gamma * np.tanh(x) + beta


def right_dx(dy, x, a, g, t):
    return a * g * dy * (1 - t * t)


WRONG = {
    "dyt/forward": {
        "tanh_taken_twice": lambda x, a, g, b: g * np.tanh(np.tanh(a * x)) + b,
        "curve_forgotten": lambda x, a, g, b: a * x * g + b,
        "argument_doubled": lambda x, a, g, b: g * np.tanh(2 * x * a) + b,
        "half_argument": lambda x, a, g, b: g * np.tanh(a * x / 2) + b,
        "alpha_outside": lambda x, a, g, b: g * a * np.tanh(x) + b,
        "x_added": lambda x, a, g, b: (x + np.tanh(x) * a) * g + b,
        "alpha_divides": lambda x, a, g, b: b + np.tanh(x / a) * g,
        "gamma_inside": lambda x, a, g, b: np.tanh(a * g * x) + b,
        "alpha_and_gamma_swapped": lambda x, a, g, b: a * np.tanh(g * x) + b,
        "beta_inside": lambda x, a, g, b: g * np.tanh(b + x * a),
        "hard_tanh": lambda x, a, g, b: g * np.maximum(-1, np.minimum(1, a * x)) + b,
        "tanh_of_two_exponentials": lambda x, a, g, b: g * (np.sinh(a * x) / np.cosh(a * x)) + b,
        "normalised_first": lambda x, a, g, b: (
            b
            + g
            * np.tanh(
                a * (x - x.mean(-1, keepdims=True)) / (x.var(-1, keepdims=True) + 1e-5) ** 0.5
            )
        ),
        "beta_times_gamma": lambda x, a, g, b: (b + np.tanh(a * x)) * g,
        "alpha_twice": lambda x, a, g, b: a * g * np.tanh(a * x) + b,
        "beta_subtracted": lambda x, a, g, b: g * np.tanh(a * x) - b,
        "gamma_on_wrong_axis": lambda x, a, g, b: (
            g.reshape(-1, 1) * np.tanh(a * x) + b.reshape(-1, 1)
        ),
        "alpha_added": lambda x, a, g, b: g * np.tanh(x + a) + b,
        "tanh_of_alpha": lambda x, a, g, b: np.tanh(a) * x * g + b,
        "similar_name": lambda x, a, g, b: g * np.arctan(a * x) + b,
        "gamma_and_beta_exchanged": lambda x, a, g, b: g + b * np.tanh(a * x),
        "changed_in_place": multiplied_in_place,
        "gamma_as_matrix": lambda x, a, g, b: np.tanh(a * x) @ g + b,
        "affine_first": lambda x, a, g, b: np.tanh((g * x + b) * a),
    },
    "dyt/backward": {
        "dalpha_negated": backward(right_dx, lambda *given: -right_dalpha(*given)),
        "slope_forgotten: in dx": backward(lambda dy, x, a, g, t: a * g * dy, right_dalpha),
        "slope_forgotten: in dalpha": backward(right_dx, lambda dy, x, a, g, t: (g * dy * x).sum()),
        "dalpha_averaged: over the tokens": backward(
            right_dx, lambda dy, x, a, g, t: (g * dy * (1 - t * t) * x).sum(-1).mean()
        ),
        "one_gradient_averaged": gradients_of_parameters(
            lambda dy, x, a, g, t, over: (dy * t).mean(over), right_dbeta
        ),
        "arguments_exchanged": lambda x, dy, a, g: combine("dyt/dyt_backward")(dy, x, a, g),
        "slope_of_t": backward(
            lambda dy, x, a, g, t: a * g * dy * (1 - np.tanh(t) ** 2),
            lambda dy, x, a, g, t: (g * dy * (1 - np.tanh(t) ** 2) * x).sum(),
        ),
        "mean_subtracted_in_dx": backward(
            lambda dy, x, a, g, t: a * (1 - t * t) * (g * dy - (g * dy).mean(-1, keepdims=True)),
            right_dalpha,
        ),
        "last_dalpha_kept: of the token": backward(
            right_dx,
            lambda dy, x, a, g, t: (dy * g * (1 - t * t) * x).reshape(-1, x.shape[-1])[-1].sum(),
        ),
        "last_dalpha_kept: of the number": backward(
            right_dx, lambda dy, x, a, g, t: (dy * g * (1 - t * t) * x).flat[-1]
        ),
        "dx_without_dy": backward(lambda dy, x, a, g, t: a * g * (1 - t * t), right_dalpha),
        "dx_divided_by_alpha": backward(
            lambda dy, x, a, g, t: g * dy * (1 - t * t) / a, right_dalpha
        ),
        "slope_from_output": backward(
            lambda dy, x, a, g, t: a * g * dy * (1 - (g * t) ** 2),
            lambda dy, x, a, g, t: (g * dy * (1 - (g * t) ** 2) * x).sum(),
        ),
        "dbeta_is_one": gradients_of_parameters(right_dgamma, lambda dy, x, a, g, *_: 0 * g + 1),
        "dy_overwritten": gradients_of_parameters(
            lambda dy, x, a, g, t, over: (dy * g * (1 - t * t) * t).sum(over),
            lambda dy, x, a, g, t, over: (dy * g * (1 - t * t)).sum(over),
        ),
        "one_minus_t": backward(
            lambda dy, x, a, g, t: a * g * dy * (1 - t),
            lambda dy, x, a, g, t: np.sum(x * g * dy * (1 - t)),
        ),
        "slope_with_alpha": backward(
            lambda dy, x, a, g, t: a * (dy * g * a * (1 - t * t)),
            lambda dy, x, a, g, t: (dy * g * a * (1 - t * t) * x).sum(),
        ),
        "slope_at_x": backward(
            lambda dy, x, a, g, t: a * g * dy / np.cosh(x) ** 2,
            lambda dy, x, a, g, t: np.sum(x * g * dy / np.cosh(x) ** 2),
        ),
        "dx_without_alpha": backward(
            lambda dy, x, a, g, t: g * dy * (1 - t * t),
            lambda dy, x, a, g, t: (g * dy * (1 - t * t) * x).sum(),
        ),
        "dalpha_with_alpha": backward(right_dx, lambda *given: (right_dx(*given) * given[1]).sum()),
        "dalpha_per_feature": backward(
            right_dx,
            lambda dy, x, a, g, t: (x * g * dy * (1 - t * t)).reshape(-1, x.shape[-1]).sum(axis=0),
        ),
        "dalpha_without_x": backward(
            right_dx, lambda dy, x, a, g, t: float(np.sum(g * dy * (1 - t * t)))
        ),
        "dx_with_x": backward(lambda dy, x, a, g, t: x * g * dy * (1 - t * t), right_dalpha),
        "dy_forgotten": backward(
            lambda dy, x, a, g, t: a * g * (1 - t * t),
            lambda dy, x, a, g, t: (g * (1 - t * t) * x).sum(),
        ),
        "dalpha_of_dx": backward(right_dx, lambda *given: right_dx(*given).sum()),
        "slope_from_argument": backward(
            lambda dy, x, a, g, t: a * g * dy * (1 - x**2),
            lambda dy, x, a, g, t: (g * dy * (1 - x**2) * x).sum(),
        ),
        "slope_negated": backward(
            lambda dy, x, a, g, t: a * g * dy * (t * t - 1),
            lambda dy, x, a, g, t: (g * dy * (t * t - 1) * x).sum(),
        ),
        "slope_of_tan": backward(
            lambda dy, x, a, g, t: a * g * dy * (1 + t * t),
            lambda dy, x, a, g, t: (g * dy * (1 + t * t) * x).sum(),
        ),
        "square_outside": backward(
            lambda dy, x, a, g, t: a * g * dy * (1 - t) ** 2,
            lambda dy, x, a, g, t: (g * dy * (1 - t) ** 2 * x).sum(),
        ),
        "cosh_not_squared": backward(
            lambda dy, x, a, g, t: a * g * dy / np.cosh(a * x),
            lambda dy, x, a, g, t: (g * dy * x / np.cosh(a * x)).sum(),
        ),
        "dgamma_with_x": gradients_of_parameters(
            lambda dy, x, a, g, t, over: (x * dy).sum(over), right_dbeta
        ),
        "slope_in_dgamma": gradients_of_parameters(
            lambda dy, x, a, g, t, over: (dy * (1 - t * t)).sum(over), right_dbeta
        ),
        "slope_in_dbeta": gradients_of_parameters(
            right_dgamma, lambda dy, x, a, g, t, over: (dy * g * (1 - t * t)).sum(over)
        ),
        "dbeta_with_gamma": gradients_of_parameters(
            right_dgamma, lambda dy, x, a, g, t, over: (g * dy).sum(over)
        ),
        "gradients_over_everything": gradients_of_parameters(
            lambda dy, x, a, g, t, over: (dy * t).sum(), lambda dy, *_: dy.sum()
        ),
        "gradients_keep_axes": gradients_of_parameters(
            lambda dy, x, a, g, t, over: (dy * t).sum(over, keepdims=True),
            lambda dy, x, a, g, t, over: dy.sum(over, keepdims=True),
        ),
        "parameters_returned_in_reverse": reordered(0, 1, 3, 2),
        "dalpha_returned_last": reordered(0, 2, 3, 1),
        "dy_changed_in_place": scaled_in_place,
    },
    "dyt/derf": {
        "normal_distribution": lambda x, a, s, g, b: (
            g * 0.5 * (1 + ERF((a * x + s) / 2**0.5)).astype(g.dtype) + b
        ),
        "alpha_and_gamma_swapped": lambda x, a, s, g, b: a * ERF(g * x + s).astype(g.dtype) + b,
        "shift_outside": lambda x, a, s, g, b: g * (ERF(a * x).astype(g.dtype) + s) + b,
        "shift_times_alpha": lambda x, a, s, g, b: g * ERF(a * (x + s)).astype(g.dtype) + b,
        "tanh_instead": lambda x, a, s, g, b: g * np.tanh(a * x + s) + b,
    },
    "dyt/layer": {
        "other_alpha_init": OtherDefault,
        "alpha_init_in_forward": StartInForward,
        "alpha_init_beside_alpha": BesideStart,
        "alpha_init_beside_alpha: of one": OfOne,
        "copy_of_alpha_used": KeptAlpha,
        "copies_used": KeptScale,
        "dtype_not_kept": layer(
            lambda self, x: self.weight * torch.tanh(self.alpha * x.float()) + self.bias
        ),
        "one_not_a_parameter": layer(weight=lambda d, a: torch.ones(d)),
        "parameters_of_a_row: bias": layer(
            bias=lambda d, a: torch.nn.Parameter(torch.zeros(1, d)),
        ),
        "one_weight: weight": layer(weight=lambda d, a: torch.nn.Parameter(torch.ones(1))),
        "alpha_per_feature": layer(alpha=lambda d, a: torch.nn.Parameter(a * torch.ones(d))),
        "alpha_not_registered": layer(alpha=lambda d, a: a),
        "alpha_starts_at_one": layer(alpha=lambda d, a: torch.nn.Parameter(torch.ones(1))),
        "nothing_registered": layer(
            alpha=lambda d, a: a,
            weight=lambda d, a: torch.ones(d),
            bias=lambda d, a: torch.zeros(d),
        ),
        "alpha_without_axis": layer(alpha=lambda d, a: torch.nn.Parameter(torch.tensor(a))),
        "weight_starts_at_zero": layer(weight=lambda d, a: torch.nn.Parameter(torch.zeros(d))),
        "alpha_detached": layer(
            lambda self, x: self.weight * torch.tanh(self.alpha.item() * x) + self.bias
        ),
        "weight_as_buffer": WeightAsBuffer,
        "float64_parameters": InFloat64,
        "parameters_of_a_row": layer(
            weight=lambda d, a: torch.nn.Parameter(torch.ones(1, d)),
            bias=lambda d, a: torch.nn.Parameter(torch.zeros(1, d)),
        ),
        "weight_starts_anywhere": layer(weight=lambda d, a: torch.nn.Parameter(torch.randn(d))),
        "bias_starts_at_one": layer(bias=lambda d, a: torch.nn.Parameter(torch.ones(d))),
        "tanh_of_alpha": layer(
            lambda self, x: self.weight * torch.tanh(self.alpha) * x + self.bias
        ),
        "gamma_and_beta_exchanged": layer(
            lambda self, x: self.bias * torch.tanh(self.alpha * x) + self.weight
        ),
        "alpha_outside": layer(
            lambda self, x: self.weight * self.alpha * torch.tanh(x) + self.bias
        ),
        "alpha_and_gamma_swapped": layer(
            lambda self, x: self.alpha * torch.tanh(self.weight * x) + self.bias
        ),
    },
    "dyt/initial": {
        "attention_and_other_swapped": lambda width: widths_by_comparison(width)[::-1],
        "middle_as_narrow": lambda width: (0.8, 0.2) if width <= 5120 else (0.2, 0.05),
        "one_half_everywhere": lambda width: (0.5, 0.5),
        "attention_not_four_times": lambda width: [
            widths_by_comparison(width)[1] * n for n in (0.25, 1)
        ],
        "wide_as_middle": lambda width: (0.6, 0.15) if width > 4096 else (0.8, 0.2),
        "decimal_point_moved": lambda width: [
            n * {4096: 0.2, 5120: 0.015, 8192: 0.05}[width] for n in (4, 1)
        ],
        "straight_line": lambda width: [n * (0.2 - (width - 4096) / 20480) for n in (4, 1)],
        "table_taken_for_attention": lambda width: [
            widths_by_comparison(width)[1] / n for n in (1, 4)
        ],
    },
    "dyt/weight_norm": {
        "norm_of_matrix": lambda v, g: (
            v / np.sqrt(np.sum(v * v)) * g.reshape(-1, *[1] * (v.ndim - 1))
        ),
        "g_for_matrices_only": lambda v, g: (
            g[:, None] * v / np.linalg.norm(v, axis=1, keepdims=True)
        ),
        "length_squared": lambda v, g: np.stack(
            [b * row / np.vdot(row, row) for row, b in zip(v, g, strict=True)]
        ),
        "g_forgotten": lambda v, g: flat_rows(v, np.ones_like(g)),
    },
}


@pytest.mark.parametrize(
    ("task", "name"), [(task, name) for task, answers in WRONG.items() for name in answers]
)
def test_a_wrong_answer_is_named(task, name):
    assert named(WRONG[task][name], task) == [name.partition(":")[0]]


def test_two_mistakes_by_hand_are_both_named():
    def answer(x, alpha, gamma, beta):
        return np.tanh(gamma * alpha * x + beta)

    assert named(answer, "dyt/forward") == ["beta_inside", "gamma_inside"]


def test_alpha_outside_is_named_with_a_forgotten_gamma():
    def answer(x, alpha, gamma, beta):
        return (alpha * np.tanh(x) + beta).astype(gamma.dtype)

    assert named(answer, "dyt/forward") == ["alpha_outside", "output_without_gamma"]


@pytest.mark.parametrize("eps", [1e-5, 0])
def test_any_way_to_normalise_first_is_named(eps):
    def answer(x, alpha, gamma, beta):
        mean, deviation = x.mean(-1, keepdims=True), x.std(-1, keepdims=True)
        return gamma * np.tanh(alpha * (x - mean) / (deviation + eps)) + beta

    assert named(answer, "dyt/forward") == ["normalised_first"]


def test_a_forgotten_gamma_is_named_whether_once_or_twice():
    def u(dy, x, alpha, gamma, t):
        return dy * (1 - t * t)

    answer = backward(
        lambda *given: given[2] * u(*given), lambda *given: (u(*given) * given[1]).sum()
    )
    assert named(answer, "dyt/backward") == ["gradients_without_gamma"]


def test_a_forward_without_return_is_told_and_nothing_else():
    def forward(self, x):
        self.weight * torch.tanh(self.alpha * x) + self.bias

    verdict = judged(layer(forward), "dyt/layer")
    assert verdict.mistakes == () and "None" in verdict.explain()


def test_a_forgotten_super_is_told():
    class Layer(torch.nn.Module):
        def __init__(self, features, alpha_init=0.5):
            self.alpha = torch.nn.Parameter(torch.full((1,), alpha_init))

    verdict = judged(Layer, "dyt/layer")
    assert verdict.mistakes == () and "super().__init__()" in verdict.explain()


def test_the_number_alpha_is_told():
    answer = WRONG["dyt/forward"]["alpha_divides"]
    assert "· alpha = 0.5\n" in judged(answer, "dyt/forward").explain()


def test_a_gradient_of_alpha_may_be_any_kind_of_number():
    right = combine("dyt/dyt_backward")
    for kind in (float, np.float32, np.asarray):

        def answer(*given, kind=kind):
            dx, dalpha, dgamma, dbeta = right(*given)
            return dx, kind(dalpha), dgamma, dbeta

        assert judged(answer, "dyt/backward").passed
    assert judged(lambda *given: right(*given)[:3], "dyt/backward").difference.what == "results"


# --- The gradients one by one -----------------------------------------------------------------


GIVEN = {"dyt/dx": [0], "dyt/dalpha": [1], "dyt/dgamma_dbeta": [2, 3]}


@pytest.mark.parametrize("task", GIVEN)
def test_each_gradient_counts_by_itself(task):
    right = combine("dyt/dyt_backward")

    def alone(*given):
        return [g if i in GIVEN[task] else None for i, g in enumerate(right(*given))]

    assert judged(alone, task).passed
    assert not judged(alone, "dyt/backward").passed
    assert not judged(lambda *given: [None] * 4, task).passed


@pytest.mark.parametrize("task", ["dyt/dx", "dyt/dalpha"])
@pytest.mark.parametrize("name", ["one_minus_t", "slope_at_x"])
def test_a_wrong_slope_is_named_in_each_gradient(task, name):
    assert named(WRONG["dyt/backward"][name], task) == [name]


def test_a_wrong_gradient_leaves_the_points_of_the_others():
    answer = WRONG["dyt/backward"]["dalpha_per_feature"]
    assert named(answer, "dyt/dalpha") == ["dalpha_per_feature"]
    assert judged(answer, "dyt/dx").passed and judged(answer, "dyt/dgamma_dbeta").passed


@pytest.mark.parametrize(
    ("task", "answer"),
    [
        ("dyt/forward", lambda x, a, g, b: g * np.tanh(abs(a) * x) + b),
        ("dyt/layer", layer(lambda s, x: s.weight * torch.tanh(s.alpha.abs() * x) + s.bias)),
    ],
)
def test_alpha_may_be_negative(task, answer):
    assert not judged(answer, task).passed


def test_a_curve_that_is_too_flat_is_told_without_a_sigmoid_that_is_not_there():
    told = judged(WRONG["dyt/forward"]["half_argument"], "dyt/forward").explain()
    assert "If you make it of a sigmoid" in " ".join(told.split())


# --- In the place of the norms of a model -----------------------------------------------------

KINDS = torch.nn.LayerNorm, torch.nn.RMSNorm


def exchanged(norm, dyt, alpha_init):
    layer = dyt(norm.normalized_shape[0], alpha_init)
    layer.load_state_dict(norm.state_dict(), strict=False)
    return layer


def bare(norm, dyt, alpha_init):
    return dyt(norm.normalized_shape[0], alpha_init)


def recursion(exchange=exchanged, kinds=KINDS, given=lambda alpha_init: [alpha_init]):
    def replace_norms(model, dyt, alpha_init=0.5):
        for name, child in model.named_children():
            if isinstance(child, kinds):
                setattr(model, name, exchange(child, dyt, alpha_init))
            else:
                replace_norms(child, dyt, *given(alpha_init))
        return model

    return replace_norms


def by_path(model, dyt, alpha_init=0.5):
    paths = [path for path, module in model.named_modules() if type(module) in KINDS]
    for path in paths:
        holder = model
        *parents, name = path.split(".")
        for parent in parents:
            holder = getattr(holder, parent)
        norm = getattr(holder, name)
        setattr(holder, name, exchanged(norm, dyt, alpha_init))
    return model


def by_parent(model, dyt, alpha_init=0.5):
    for parent in model.modules():
        for name, norm in parent._modules.items():
            if isinstance(norm, KINDS):
                layer = parent._modules[name] = dyt(norm.normalized_shape[-1], alpha_init)
                with torch.no_grad():
                    for parameter, values in norm.named_parameters():
                        getattr(layer, parameter).copy_(values)
    return model


def by_dictionary(model, dyt, alpha_init=0.5):
    modules = dict(model.named_modules())
    for path, norm in modules.items():
        if isinstance(norm, KINDS):
            layer = dyt(norm.normalized_shape[0], alpha_init=alpha_init)
            if norm.weight is not None:
                layer.weight = torch.nn.Parameter(norm.weight.detach().clone())
            if isinstance(norm, torch.nn.LayerNorm) and norm.bias is not None:
                layer.bias = torch.nn.Parameter(norm.bias.detach().clone())
            parent, _, name = path.rpartition(".")
            setattr(modules[parent], name, layer)
    return model


def by_stack(model, dyt, alpha_init=0.5):
    waiting = [model]
    while waiting:
        holder = waiting.pop()
        for name, child in list(holder.named_children()):
            if isinstance(child, KINDS):
                setattr(holder, name, exchanged(child, dyt, alpha_init))
            else:
                waiting.append(child)
    return model


def by_apply(model, make_layer, alpha_init=0.5):
    def visit(holder):
        for name, child in holder._modules.items():
            if type(child).__name__ in ("LayerNorm", "RMSNorm"):
                holder._modules[name] = exchanged(child, make_layer, alpha_init)

    return model.apply(visit)


def by_set_submodule(model, make_layer, alpha_init=0.5):
    for path in [p for p, m in model.named_modules() if isinstance(m, KINDS)]:
        norm = model.get_submodule(path)
        layer = make_layer(features=norm.normalized_shape[0], alpha_init=alpha_init)
        if norm.elementwise_affine:
            layer.weight.data = norm.weight.data.clone()
            if getattr(norm, "bias", None) is not None:
                layer.bias.data = norm.bias.data.clone()
        model.set_submodule(path, layer)
    return model


def by_inner_function(model, make_layer, alpha_init=0.5):
    def changed(module):
        if not isinstance(module, KINDS):
            for name, child in module.named_children():
                module.add_module(name, changed(child))
            return module
        return exchanged(module, make_layer, alpha_init)

    return changed(model)


RIGHTLY_REPLACED = [
    *(recursion(), by_path, by_parent, by_dictionary),
    *(by_stack, by_apply, by_set_submodule, by_inner_function),
]


@pytest.mark.parametrize("task", ["dyt/replace", "dyt/replaced"])
@pytest.mark.parametrize("answer", RIGHTLY_REPLACED)
def test_norms_may_be_replaced_in_any_style(answer, task):
    for seed in range(3):
        verdict = judged(answer, task, seed)
        assert verdict.passed, verdict.explain()


def loop_over(modules, put, exchange=exchanged):
    def replace_norms(model, dyt, alpha_init=0.5):
        for path, module in modules(model):
            if isinstance(module, KINDS):
                put(model, path, exchange(module, dyt, alpha_init))
        return model

    return replace_norms


def named_list(model):
    return list(model.named_modules())


def any_norm(model, dyt, alpha_init=0.5):
    for name, child in model.named_children():
        if "Norm" in type(child).__name__:
            width = getattr(child, "normalized_shape", None) or [child.num_features]
            layer = dyt(width[0], alpha_init)
            layer.load_state_dict({k: v for k, v in child.named_parameters()}, strict=False)
            setattr(model, name, layer)
        any_norm(child, dyt, alpha_init)
    return model


def returns_in_the_loop(model, dyt, alpha_init=0.5):
    for path, norm in model.named_modules():
        if isinstance(norm, KINDS):
            model.set_submodule(path, exchanged(norm, dyt, alpha_init))
            return model


def copied(model, dyt, alpha_init=0.5):
    return recursion()(copy.deepcopy(model), dyt, alpha_init)


def nothing_returned(model, dyt, alpha_init=0.5):
    recursion()(model, dyt, alpha_init)


def weights_alone(norm, dyt, alpha_init):
    layer = bare(norm, dyt, alpha_init)
    if norm.weight is not None:
        layer.weight.data = norm.weight.data
    return layer


def norm_of_layer_norm_read(norm, dyt, alpha_init):
    layer = bare(norm, dyt, alpha_init)
    if norm.weight is not None:
        layer.weight = torch.nn.Parameter(norm.weight)
    if norm.bias is not None:
        layer.bias = torch.nn.Parameter(norm.bias)
    return layer


def weight_and_bias_or_neither(norm, dyt, alpha_init):
    layer = bare(norm, dyt, alpha_init)
    if isinstance(norm, torch.nn.LayerNorm) and norm.bias is not None:
        layer.weight, layer.bias = norm.weight, norm.bias
    return layer


def put_at_the_path(model, path, layer):
    model.set_submodule(path, layer)


def last_name(model, path, layer):
    setattr(model, path.split(".")[-1], layer)


def with_own_layer(model, dyt, alpha_init=0.5):
    class DyT(Tanh):
        pass

    return recursion()(model, DyT, alpha_init)


def return_before_the_call(model, make_layer, alpha_init=0.5):
    for name, child in model.named_children():
        if isinstance(child, KINDS):
            setattr(model, name, exchanged(child, make_layer, alpha_init))
        else:
            return return_before_the_call(child, make_layer, alpha_init)
    return model


def containers_only(model, make_layer, alpha_init=0.5):
    for name, child in model.named_children():
        if isinstance(child, KINDS):
            setattr(model, name, exchanged(child, make_layer, alpha_init))
        if isinstance(child, torch.nn.Sequential):
            containers_only(child, make_layer, alpha_init)
    return model


def whatever_there_is(norm, dyt, alpha_init):
    layer = bare(norm, dyt, alpha_init)
    layer.weight = norm.weight
    if getattr(norm, "bias", None) is not None:
        layer.bias = norm.bias
    return layer


def values_of_whatever_there_is(norm, dyt, alpha_init):
    layer = bare(norm, dyt, alpha_init)
    layer.weight.data = norm.weight.data
    if getattr(norm, "bias", None) is not None:
        layer.bias.data = norm.bias.data
    return layer


def bias_or_none(norm, dyt, alpha_init):
    layer = bare(norm, dyt, alpha_init)
    if norm.weight is not None:
        layer.weight = norm.weight
    layer.bias = getattr(norm, "bias", None)
    return layer


REPLACED_WRONGLY = {
    "make_layer_ignored": with_own_layer,
    "rms_norm_only": recursion(kinds=torch.nn.RMSNorm),
    "returned_from_recursion": return_before_the_call,
    "inside_sequential_only": containers_only,
    "absent_weight_read": recursion(values_of_whatever_there_is),
    "absent_weight_handed_over": recursion(whatever_there_is),
    "absent_bias_handed_over": recursion(bias_or_none),
    "direct_children_only": loop_over(lambda model: model.named_children(), setattr),
    "first_norm_only": returns_in_the_loop,
    "layer_norm_only": recursion(kinds=torch.nn.LayerNorm),
    "batch_norm_replaced": any_norm,
    "model_unchanged": loop_over(named_list, lambda model, path, layer: None),
    "dotted_name": loop_over(named_list, setattr),
    "last_name_on_the_model": loop_over(named_list, last_name),
    "only_with_a_bias": recursion(weight_and_bias_or_neither),
    "changed_while_iterating": loop_over(lambda model: model.named_modules(), setattr),
    "copy_changed": copied,
    "model_not_returned": nothing_returned,
    "default_alpha_everywhere": recursion(lambda norm, dyt, a: exchanged(norm, dyt, 0.5)),
    "default_alpha_inside": recursion(given=lambda alpha_init: []),
    "parameters_not_taken_over": recursion(bare),
    "bias_not_taken_over": recursion(weights_alone),
    "bias_of_rms_norm": recursion(norm_of_layer_norm_read),
}


def whatever_has_the_attribute(norm, dyt, alpha_init):
    layer = bare(norm, dyt, alpha_init)
    layer.weight = norm.weight
    if hasattr(norm, "bias"):
        layer.bias = norm.bias
    return layer


def width_of(read):
    """The width is read off the weight, which a norm need not have."""

    def put(norm, dyt, alpha_init):
        read(norm.weight)
        return exchanged(norm, dyt, alpha_init)

    return recursion(put)


def one_layer_for_each_width(model, dyt, alpha_init=0.5):
    layers = {}

    def put(norm, dyt, alpha_init):
        layer = layers.setdefault(norm.normalized_shape, bare(norm, dyt, alpha_init))
        for name, parameter in norm.named_parameters():
            setattr(layer, name, parameter)
        return layer

    return recursion(put)(model, dyt, alpha_init)


def cut_at_the_last_dot(model, dyt, alpha_init=0.5):
    for path, norm in named_list(model):
        if isinstance(norm, KINDS):
            parent, name = path.rsplit(".", 1)
            setattr(model.get_submodule(parent), name, exchanged(norm, dyt, alpha_init))
    return model


def asked_with_equality(model, dyt, alpha_init=0.5):
    for name, norm in named_list(model):
        if norm in KINDS:
            setattr(model, name, exchanged(norm, dyt, alpha_init))
    return model


def recursion_that_returns_at_once(model, dyt, alpha_init=0.5):
    for name, child in model.named_children():
        if isinstance(child, KINDS):
            setattr(model, name, exchanged(child, dyt, alpha_init))
        else:
            recursion_that_returns_at_once(child, dyt, alpha_init)
        return model


def last_layer_set(read):
    """The layers are made in the loop, and one is set after it; where, read says."""

    def answer(model, make_layer, alpha_init=0.5):
        places = []
        for path, norm in named_list(model):
            places.append(path)
            if isinstance(norm, KINDS):
                layer, at = exchanged(norm, make_layer, alpha_init), path
        model.set_submodule(read(at, places[-1]), layer)
        return model

    return answer


def attribute_called_name(children):
    def answer(model, make_layer, alpha_init=0.5):
        for _name, child in children(model):
            if isinstance(child, KINDS):
                model.name = exchanged(child, make_layer, alpha_init)
            else:
                answer(child, make_layer, alpha_init)
        return model

    return answer


def set_on_the_norm(model, make_layer, alpha_init=0.5):
    for name, child in model.named_children():
        if isinstance(child, KINDS):
            setattr(child, name, exchanged(child, make_layer, alpha_init))
        else:
            set_on_the_norm(child, make_layer, alpha_init)
    return model


def exchanged_parameters(norm, make_layer, alpha_init):
    layer = bare(norm, make_layer, alpha_init)
    if norm.weight is not None:
        layer.bias = norm.weight
    if getattr(norm, "bias", None) is not None:
        layer.weight = norm.bias
    return layer


REPLACED_OTHERWISE = [
    ("returned_in_loop", recursion_that_returns_at_once),
    ("last_norm_only", last_layer_set(lambda norm, last: norm)),
    ("last_norm_only", last_layer_set(lambda norm, last: last)),
    ("attribute_called_name", attribute_called_name(lambda model: model.named_children())),
    ("attribute_called_name", attribute_called_name(lambda model: list(model.named_children()))),
    ("set_on_the_norm", set_on_the_norm),
    ("weight_and_bias_exchanged", recursion(exchanged_parameters)),
    ("model_unchanged", asked_with_equality),
    ("absent_weight_read", width_of(lambda weight: weight.shape[0])),
    ("absent_weight_read", width_of(lambda weight: weight.numel())),
    ("absent_weight_read", width_of(len)),
    ("one_layer_for_all", one_layer_for_each_width),
    ("path_without_dot", cut_at_the_last_dot),
]


@pytest.mark.parametrize(("name", "answer"), REPLACED_OTHERWISE)
def test_norms_replaced_wrongly_in_other_ways_are_named(name, answer):
    assert named(answer, "dyt/replace") == [name]


def test_a_norm_may_be_the_first_child_of_a_model():
    after_the_first = loop_over(lambda model: named_list(model)[2:], put_at_the_path)
    assert not judged(after_the_first, "dyt/replaced").passed


def test_an_alpha_that_is_frozen_or_made_in_forward_is_told():
    frozen = layer(alpha=lambda d, a: torch.nn.Parameter(torch.tensor([a]), requires_grad=False))
    assert named(frozen, "dyt/layer") == ["alpha_detached"]

    class AllMadeInForward(torch.nn.Module):
        def __init__(self, features, alpha_init=0.5):
            super().__init__()
            self.start = alpha_init

        def forward(self, x):
            self.alpha = torch.nn.Parameter(torch.full((1,), self.start))
            self.weight = torch.nn.Parameter(torch.ones(x.shape[-1]))
            self.bias = torch.nn.Parameter(torch.zeros(x.shape[-1]))
            return self.weight * torch.tanh(self.alpha * x) + self.bias

    verdict = judged(AllMadeInForward, "dyt/layer")
    assert [mistake.name for mistake in verdict.mistakes] == ["nothing_registered"]
    assert "made in forward only" in " ".join(verdict.explain("en").split())


def test_gamma_in_both_gradients_is_told_without_a_new_dy():
    def answer(dy, x, alpha, gamma):
        t, over = np.tanh(alpha * x), tuple(range(x.ndim - 1))
        u = dy * gamma * (1 - t**2)
        dgamma, dbeta = (dy * gamma * t).sum(over), (dy * gamma).sum(over)
        return alpha * u, (u * x).sum(), dgamma, dbeta

    told = " ".join(judged(answer, "dyt/backward").explain("en").split())
    assert "dgamma and dbeta are computed from dy * gamma" in told


def test_integers_cut_off_are_named():
    def answer(x, alpha, gamma, beta):
        y = np.zeros_like(x)
        y[...] = gamma * np.tanh(alpha * x) + beta
        return y

    def of_the_curve(x, alpha, gamma, beta):
        t = np.zeros_like(x)
        t[...] = np.tanh(alpha * x)
        return gamma * t + beta

    assert named(answer, "dyt/forward") == named(of_the_curve, "dyt/forward") == ["dtype_of_x"]


def test_an_exponential_of_either_sign_is_named():
    def answer(x, alpha, gamma, beta):
        e = np.exp(-2 * alpha * x)
        return gamma * (1 - e) / (1 + e) + beta

    assert named(answer, "dyt/forward") == ["tanh_of_one_exponential"]


@pytest.mark.parametrize("all_three", [False, True])
def test_gradients_of_the_last_token_are_named(all_three):
    def answer(dy, x, alpha, gamma):
        dx, dalpha = np.zeros(x.shape), 0
        for index in np.ndindex(x.shape[:-1]):
            of_one = backward_in_steps(dy[index], x[index], alpha, gamma)
            dx[index], part, dgamma, dbeta = of_one
            dalpha = part if all_three else dalpha + part
        return dx, dalpha, dgamma, dbeta

    assert named(answer, "dyt/backward") == ["last_token_kept"]


@pytest.mark.parametrize(
    ("make", "name"),
    [(torch.ones, "bias_starts_anywhere"), (torch.randn, "weight_starts_anywhere")],
)
def test_parameters_that_start_at_random_are_named(make, name):
    answer = layer(
        weight=lambda features, alpha_init: torch.nn.Parameter(make(features)),
        bias=lambda features, alpha_init: torch.nn.Parameter(torch.randn(features)),
    )
    assert named(answer, "dyt/layer") == [name]


def test_a_strict_state_is_told_as_what_it_is():
    def taken(norm, make_layer, alpha_init):
        new = make_layer(norm.normalized_shape[0], alpha_init)
        new.load_state_dict(norm.state_dict())
        return new

    assert "With strict=False" in " ".join(
        judged(recursion(taken), "dyt/replace").explain().split()
    )


def test_parameters_made_in_forward_are_named():
    class MadeAnew(torch.nn.Module):
        def __init__(self, features, alpha_init=0.5):
            super().__init__()
            self.alpha = torch.nn.Parameter(torch.full((1,), alpha_init))

        def forward(self, x):
            self.weight = torch.nn.Parameter(torch.ones(x.shape[-1]))
            self.bias = torch.nn.Parameter(torch.zeros(x.shape[-1]))
            return self.weight * torch.tanh(self.alpha * x) + self.bias

    assert named(MadeAnew, "dyt/layer") == ["made_in_forward"]


def test_a_plain_weight_is_no_buffer_whatever_else_is_wrong():
    answer = layer(
        lambda self, x: self.weight * torch.sigmoid(self.alpha * x) + self.bias,
        weight=lambda features, alpha_init: torch.ones(features),
    )
    names = {mistake.name for mistake in judged(answer, "dyt/layer").mistakes}
    assert names == {"sigmoid_instead", "one_not_a_parameter"}


def test_a_sum_over_the_first_axis_is_named_where_a_single_token_is_spared():
    def summed(a):
        return a.sum(axis=0) if a.ndim > 1 else a

    answer = gradients_of_parameters(
        lambda dy, x, a, g, t, over: summed(dy * t), lambda dy, *_: summed(dy)
    )
    assert named(answer, "dyt/backward") == ["gradients_over_first_axis"]


def test_a_dy_that_is_scaled_twice_is_named():
    def answer(dy, x, alpha, gamma):
        dy = dy * gamma
        return combine("dyt/dyt_backward")(dy, x, alpha, gamma)

    assert named(answer, "dyt/backward") == ["dy_overwritten"]


def test_a_dalpha_of_dy_is_named():
    answer = backward(right_dx, lambda dy, x, a, g, t: (dy * x).sum())
    assert named(answer, "dyt/backward") == ["dalpha_of_dy"]


def test_dy_may_be_forgotten_in_all_but_dbeta():
    def answer(dy, x, alpha, gamma):
        t, over = np.tanh(alpha * x), tuple(range(x.ndim - 1))
        u = gamma * (1 - t**2)
        return alpha * u, (u * x).sum(), t.sum(over), dy.sum(over)

    assert named(answer, "dyt/backward") == ["dy_forgotten"]


def test_weights_of_none_are_named():
    names = named(recursion(whatever_has_the_attribute), "dyt/replace")
    assert names == ["absent_bias_handed_over", "absent_weight_handed_over"]


def test_a_batch_normalisation_without_a_width_is_named():
    def by_name(model, make_layer, alpha_init=0.5):
        for path, norm in named_list(model):
            if "Norm" in type(norm).__name__:
                model.set_submodule(path, exchanged(norm, make_layer, alpha_init))
        return model

    assert named(by_name, "dyt/replace") == ["batch_norm_replaced"]


def test_a_bias_of_none_beside_a_weight_is_named():
    def both_or_neither(norm, dyt, alpha_init):
        layer = bare(norm, dyt, alpha_init)
        if norm.weight is not None:
            layer.weight, layer.bias = norm.weight, getattr(norm, "bias", None)
        return layer

    assert named(recursion(both_or_neither), "dyt/replace") == ["absent_bias_handed_over"]


@pytest.mark.parametrize("name", REPLACED_WRONGLY)
def test_norms_replaced_wrongly_are_named(name):
    assert named(REPLACED_WRONGLY[name], "dyt/replace") == [name]


def test_the_width_is_a_number():
    def with_a_tuple(model, make_layer, alpha_init=0.5):
        return recursion()(model, lambda n, *others: make_layer((n,), *others), alpha_init)

    verdict = judge(observe(with_a_tuple, "dyt/replace"), "dyt/replace")
    assert not verdict.mistakes and "not a tuple" in verdict.explain()


def test_where_the_layers_stand_counts_by_itself():
    for name in ("parameters_not_taken_over", "bias_not_taken_over"):
        assert judged(REPLACED_WRONGLY[name], "dyt/replaced").passed
    for name in ("direct_children_only", "layer_norm_only", "copy_changed", "make_layer_ignored"):
        assert named(REPLACED_WRONGLY[name], "dyt/replaced") == [name]


def recursion_over_all_modules(model, make_layer, alpha_init=0.5):
    for name, module in model.named_modules():
        if isinstance(module, KINDS):
            setattr(model, name, exchanged(module, make_layer, alpha_init))
        else:
            recursion_over_all_modules(module, make_layer, alpha_init)
    return model


def recursion_on_the_model(model, make_layer, alpha_init=0.5):
    for name, child in model.named_children():
        if isinstance(child, KINDS):
            setattr(model, name, exchanged(child, make_layer, alpha_init))
        recursion_on_the_model(model, make_layer, alpha_init)
    return model


@pytest.mark.parametrize("answer", [recursion_over_all_modules, recursion_on_the_model])
def test_a_recursion_without_end_is_named(answer):
    for task in ("dyt/replace", "dyt/replaced"):
        assert named(answer, task) == ["endless_recursion"]


def test_another_error_is_no_recursion_without_end():
    def unwritten(model, make_layer, alpha_init=0.5):
        raise NotImplementedError

    assert named(unwritten, "dyt/replace") == []


def test_a_model_that_keeps_its_norms_is_told():
    verdict = judged(lambda model, *_: model, "dyt/replace")
    assert [mistake.name for mistake in verdict.mistakes] == ["model_unchanged"]
    assert "LayerNorm" in verdict.explain()


def cut_off(x, alpha, gamma, beta):
    return gamma * np.tanh(np.clip(alpha * x, -5, 5)) + beta


def centred(x, alpha, gamma, beta):
    return gamma * np.tanh(alpha * (x - np.mean(x, axis=-1, keepdims=True))) + beta


class CutOff(torch.nn.Module):
    def __init__(self, features, alpha_init=0.5):
        super().__init__()
        self.alpha = torch.nn.Parameter(torch.full((1,), float(alpha_init)))
        self.weight = torch.nn.Parameter(torch.ones(features))
        self.bias = torch.nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return self.weight * torch.tanh((self.alpha * x).clamp(-1, 1)) + self.bias


class Centred(CutOff):
    def forward(self, x):
        z = self.alpha * (x - x.mean(-1, keepdim=True))
        return self.weight * torch.tanh(z) + self.bias


@pytest.mark.parametrize(
    ("answer", "task", "name"),
    [
        (cut_off, "forward", "argument_clipped"),
        (centred, "forward", "centred_first"),
        (CutOff, "layer", "argument_clipped"),
        (Centred, "layer", "centred_first"),
    ],
)
def test_what_nobody_asked_for_before_the_curve_is_named(answer, task, name):
    assert named(answer, f"dyt/{task}") == [name]


def gradients(dalpha=lambda u, x, t: (u * x).sum(), shared=False, of=lambda sums: sums):
    def answer(dy, x, alpha, gamma):
        t = np.tanh(alpha * x)
        u, width = dy * gamma * (1 - t**2), x.shape[-1]
        dgamma, dbeta = np.zeros(width), np.zeros(width)
        if shared:
            dbeta = dgamma
        dgamma += (dy * t).reshape(-1, width).sum(axis=0)
        dbeta += dy.reshape(-1, width).sum(axis=0)
        return alpha * u, dalpha(u, x, t), *of([dgamma, dbeta])

    return answer


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        (gradients(), []),
        (gradients(dalpha=lambda u, x, t: (u * t).sum()), ["dalpha_with_curve"]),
        (gradients(dalpha=lambda u, x, t: (u * x).sum() / len(x)), ["dalpha_averaged"]),
        (gradients(shared=True), ["one_array_for_both"]),
        (gradients(of=lambda two: (two[0], two[1].sum())), ["gradients_over_everything"]),
        (gradients(of=lambda two: (two[0].sum(), two[1])), ["gradients_over_everything"]),
    ],
)
def test_gradients_that_go_wrong_one_by_one_are_named(answer, names):
    assert named(answer, "dyt/backward") == names


def test_the_empty_name_is_not_found_by_getattr():
    def answer(model, make_layer, alpha_init=0.5):
        for path, norm in dict(model.named_modules()).items():
            if isinstance(norm, KINDS):
                parent, _, name = path.rpartition(".")
                setattr(getattr(model, parent), name, exchanged(norm, make_layer, alpha_init))
        return model

    assert named(answer, "dyt/replace") == ["parent_by_getattr"]
