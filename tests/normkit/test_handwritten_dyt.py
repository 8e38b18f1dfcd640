"""DyT, Derf and weight normalisation as students write them, rightly and wrongly."""

import copy
import math

import numpy as np
import pytest
import torch

from normkit.layers import Derf, DyT
from normkit.mistakes import combine
from normkit.tasks import judge, observe

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


RIGHT = {
    "dyt/forward": [loops, rescaled_sigmoid, in_place_on_a_copy, torch_inside, einsum],
    "dyt/derf": [erf_of_a_list, erf_of_torch],
    "dyt/backward": [by_cosh],
    "dyt/derf_backward": [by_the_exponential],
    "dyt/layer": [Tanh],
    "dyt/derf_layer": [Erf],
    "dyt/initial": [widths_by_comparison, lambda width: list(widths_by_comparison(width))],
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


def right_dx(dy, x, a, g, t):
    return a * g * dy * (1 - t * t)


WRONG = {
    "dyt/forward": {
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
    },
    "dyt/backward": {
        "one_minus_t": backward(
            lambda dy, x, a, g, t: a * g * dy * (1 - t),
            lambda dy, x, a, g, t: np.sum(x * g * dy * (1 - t)),
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
        "alpha_per_feature": layer(alpha=lambda d, a: torch.nn.Parameter(a * torch.ones(d))),
        "alpha_not_registered": layer(alpha=lambda d, a: a),
        "alpha_starts_at_one": layer(alpha=lambda d, a: torch.nn.Parameter(torch.ones(1))),
        "alpha_without_axis": layer(alpha=lambda d, a: torch.nn.Parameter(torch.tensor(a))),
        "weight_starts_at_zero": layer(weight=lambda d, a: torch.nn.Parameter(torch.zeros(d))),
        "alpha_detached": layer(
            lambda self, x: self.weight * torch.tanh(self.alpha.item() * x) + self.bias
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
    assert named(WRONG[task][name], task) == [name]


def test_two_mistakes_by_hand_are_both_named():
    def answer(x, alpha, gamma, beta):
        return np.tanh(gamma * alpha * x + beta)

    assert named(answer, "dyt/forward") == ["beta_inside", "gamma_inside"]


def test_a_forgotten_gamma_is_named_whether_once_or_twice():
    def u(dy, x, alpha, gamma, t):
        return dy * (1 - t * t)

    answer = backward(
        lambda *given: given[2] * u(*given), lambda *given: (u(*given) * given[1]).sum()
    )
    assert named(answer, "dyt/backward") == ["gradients_without_gamma"]


def test_the_number_alpha_is_told():
    answer = WRONG["dyt/forward"]["alpha_divides"]
    assert "· alpha = 0.5\n" in judged(answer, "dyt/forward").explain()


def test_a_gradient_of_alpha_may_be_any_kind_of_number():
    right = combine("dyt_backward")
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
    right = combine("dyt_backward")

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
            layer = dyt(norm.normalized_shape, alpha_init=alpha_init)
            if norm.weight is not None:
                layer.weight = torch.nn.Parameter(norm.weight.detach().clone())
            if isinstance(norm, torch.nn.LayerNorm) and norm.bias is not None:
                layer.bias = torch.nn.Parameter(norm.bias.detach().clone())
            parent, _, name = path.rpartition(".")
            setattr(modules[parent], name, layer)
    return model


def with_own_layer(model, dyt, alpha_init=0.5):
    class DyT(Tanh):
        pass

    return recursion()(model, DyT, alpha_init)


@pytest.mark.parametrize("task", ["dyt/replace", "dyt/replaced"])
@pytest.mark.parametrize("answer", [recursion(), by_path, by_parent, by_dictionary, with_own_layer])
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


REPLACED_WRONGLY = {
    "direct_children_only": loop_over(lambda model: model.named_children(), setattr),
    "first_norm_only": returns_in_the_loop,
    "layer_norm_only": recursion(kinds=torch.nn.LayerNorm),
    "batch_norm_replaced": any_norm,
    "model_unchanged": loop_over(named_list, lambda model, path, layer: None),
    "dotted_name": loop_over(named_list, setattr),
    "changed_while_iterating": loop_over(lambda model: model.named_modules(), setattr),
    "copy_changed": copied,
    "model_not_returned": nothing_returned,
    "default_alpha_everywhere": recursion(lambda norm, dyt, a: exchanged(norm, dyt, 0.5)),
    "default_alpha_inside": recursion(given=lambda alpha_init: []),
    "parameters_not_taken_over": recursion(bare),
    "bias_not_taken_over": recursion(weights_alone),
    "bias_of_rms_norm": recursion(norm_of_layer_norm_read),
}


@pytest.mark.parametrize("name", REPLACED_WRONGLY)
def test_norms_replaced_wrongly_are_named(name):
    assert named(REPLACED_WRONGLY[name], "dyt/replace") == [name]


def test_where_the_layers_stand_counts_by_itself():
    for name in ("parameters_not_taken_over", "bias_not_taken_over"):
        assert judged(REPLACED_WRONGLY[name], "dyt/replaced").passed
    for name in ("direct_children_only", "layer_norm_only", "copy_changed"):
        assert named(REPLACED_WRONGLY[name], "dyt/replaced") == [name]


def recursion_that_returns_at_once(model, dyt, alpha_init=0.5):
    for name, child in model.named_children():
        if isinstance(child, KINDS):
            setattr(model, name, exchanged(child, dyt, alpha_init))
        else:
            recursion_that_returns_at_once(child, dyt, alpha_init)
        return model


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


@pytest.mark.parametrize("answer", [lambda model, *_: model, recursion_that_returns_at_once])
def test_a_model_that_keeps_its_norms_is_told(answer):
    verdict = judged(answer, "dyt/replace")
    assert [mistake.name for mistake in verdict.mistakes] == ["model_unchanged"]
    assert "LayerNorm" in verdict.explain()
