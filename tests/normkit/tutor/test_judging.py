"""Judging: right answers of any style pass; of wrong ones the first difference is told."""

import numpy as np
import pytest
import torch

from normkit import layer_norm
from normkit.tutor.judging import judge
from normkit.tutor.mistakes import combine, mistakes_of
from normkit.tutor.observing import Observation, observe
from normkit.tutor.tasks import every_task

TASKS = every_task()
RIGHT = combine("layer_norm/layer_norm")
RIGHT_BACKWARD = combine("layer_norm/layer_norm_backward")


def judged(answer, task, seed=0):
    return judge(observe(answer, task, seed), task, seed)


def loops(x, gamma, beta, eps=1e-5):
    y = np.empty(x.shape, dtype=x.dtype if x.dtype.kind == "f" else float)
    for index in np.ndindex(x.shape[:-1]):
        token = x[index].tolist()
        mean = sum(token) / len(token)
        var = sum((value - mean) ** 2 for value in token) / len(token)
        for i, value in enumerate(token):
            y[(*index, i)] = gamma[i] * (value - mean) / (var + eps) ** 0.5 + beta[i]
    return y


def einsum(x, gamma, beta, eps=1e-5):
    centred = x - np.einsum("...d->...", x)[..., None] / x.shape[-1]
    var = np.einsum("...d,...d->...", centred, centred) / x.shape[-1]
    return np.einsum("...d,...,d->...d", centred, (var + eps) ** -0.5, gamma) + beta


def in_place_on_a_copy(x, gamma, beta, eps=1e-5):
    y = x.astype(np.result_type(x, np.float32), copy=True)
    y -= y.mean(-1, keepdims=True)
    y /= np.sqrt(y.var(-1, keepdims=True) + eps)
    y *= gamma
    y += beta
    return y


def torch_inside(x, gamma, beta, eps=1e-5):
    gamma, beta = torch.tensor(gamma), torch.tensor(beta)
    centred = (x := torch.tensor(x).to(gamma.dtype)) - x.mean(-1, keepdim=True)
    r = torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    return torch.addcmul(beta, gamma, centred * r).numpy()


@pytest.mark.parametrize("answer", [loops, einsum, in_place_on_a_copy, torch_inside])
def test_right_functions_of_any_style_pass(answer):
    for seed in range(3):
        verdict = judged(answer, "layer_norm/forward", seed)
        assert verdict.passed, verdict.explain()


def jacobian_backward(dy, x, gamma, eps=1e-5):
    features = x.shape[-1]
    centred = x - x.mean(-1, keepdims=True)
    r = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
    xhat = centred * r
    outer = xhat[..., :, None] * xhat[..., None, :] / features
    jacobian = r[..., None] * (np.eye(features, dtype=xhat.dtype) - 1 / features - outer)
    dx = np.einsum("...i,...ij->...j", dy * gamma, jacobian)
    flat = (-1, features)
    return dx, (dy * xhat).reshape(flat).sum(0), dy.reshape(flat).sum(0)


@pytest.mark.parametrize("answer", [RIGHT_BACKWARD, jacobian_backward])
def test_right_gradients_of_any_style_pass(answer):
    for seed in range(3):
        verdict = judged(answer, "layer_norm/backward", seed)
        assert verdict.passed, verdict.explain()


class Functional(torch.nn.Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(features))
        self.bias = torch.nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x):
        var, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
        return torch.addcmul(self.bias, self.weight, (x - mean) * torch.rsqrt(var + self.eps))


@pytest.mark.parametrize("answer", [Functional, combine("layer_norm/LayerNorm")])
def test_right_layers_of_any_style_pass(answer):
    for seed in range(3):
        verdict = judged(answer, "layer_norm/layer", seed)
        assert verdict.passed, verdict.explain()


def test_an_exception_everywhere_names_no_mistake_with_another():
    """Of images with the right number of groups, this one refuses all."""
    program, task = "group_instance_norm/group_norm", "group_instance_norm/images"
    (known,) = (m for m in mistakes_of(program) if m.name == "divisor_refused")
    assert judged(combine(program, known), task).mistakes == (known,)
    assert not judged(lambda x, *others: np.ones(2) + np.ones(3), task).mistakes


def ready_made(x, gamma, beta, eps=1e-5):
    gamma, beta = torch.tensor(gamma), torch.tensor(beta)
    tensor = torch.tensor(x).to(gamma.dtype)
    return torch.nn.functional.layer_norm(tensor, gamma.shape, gamma, beta, eps).numpy()


def autograd(dy, x, gamma, eps=1e-5):
    x, gamma = torch.tensor(x).to(torch.tensor(dy).dtype), torch.tensor(gamma)
    beta = torch.zeros_like(gamma).requires_grad_()
    leaves = x.requires_grad_(), gamma.requires_grad_(), beta
    var, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    y = torch.addcmul(beta, gamma, (x - mean) * torch.rsqrt(var + eps))
    y.backward(torch.tensor(dy))
    return [leaf.grad.numpy() for leaf in leaves]


@pytest.mark.parametrize(
    ("task", "answer", "name"),
    [
        ("layer_norm/forward", ready_made, "torch.nn.functional.layer_norm"),
        ("layer_norm/forward", layer_norm, "normkit.layer_norm"),
        ("layer_norm/backward", autograd, "torch.Tensor.backward"),
        ("layer_norm/layer", torch.nn.LayerNorm, "torch.nn.LayerNorm"),
    ],
)
def test_right_answers_that_are_ready_made_are_refused(task, answer, name):
    difference = judged(answer, task).difference
    assert (difference.what, difference.name) == ("ready_made", name)


PREDICTIONS = combine("layer_norm/layer_norm_invariance")()[0]


def largest_gap(norm, change, x):
    return np.abs(norm(change(x)) - norm(x)).max() < 1e-6


def test_right_experiments_of_any_style_pass():
    assert judged((PREDICTIONS, largest_gap), "layer_norm/invariance").passed
    assert judged([dict(PREDICTIONS), largest_gap], "layer_norm/invariance").passed


# --- Answers that are right on the surface only -----------------------------------------------


def in_place(x, gamma, beta, eps=1e-5):
    y = RIGHT(x, gamma, beta, eps)
    x[...] = 0
    return y


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (in_place, "modified"),
        (lambda *a: RIGHT(*a).tolist(), "type"),
        (lambda *a: torch.tensor(RIGHT(*a)), "type"),
        (lambda *a: RIGHT(*a)[..., :1], "shape"),
        (lambda *a: RIGHT(*a).T, "axes"),
        (lambda *a: RIGHT(*a).astype(np.float32), "dtype"),
        (lambda *a: RIGHT(*a).astype(float), "dtype"),
        (lambda *a: RIGHT(*a) * np.nan, "nan"),
        (lambda *a: RIGHT(*a) * 1.01, "statistics"),
        (lambda *a: RIGHT(*a)[..., ::-1], "values"),
        (lambda *a: 1 / 0, "error"),
    ],
)
def test_the_first_difference_is_told(answer, what):
    verdict = judged(answer, "layer_norm/forward")
    assert verdict.difference.what == what
    assert len(verdict.explain().splitlines()) <= 14


def test_a_gradient_must_be_three_arrays():
    verdict = judged(lambda *a: RIGHT_BACKWARD(*a)[:2], "layer_norm/backward")
    assert verdict.difference.what == "results"
    assert "tuple[2]" in verdict.explain()


def test_a_layer_must_follow_its_dtype():
    class Single(Functional):
        def forward(self, x):
            return super().forward(x).float()

    assert judged(Single, "layer_norm/layer").difference.what == "dtype"


def test_the_seed_draws_the_probes():
    observation = observe(RIGHT, "layer_norm/forward", seed=1)
    assert judge(observation, "layer_norm/forward", seed=1).passed
    assert not judge(observation, "layer_norm/forward", seed=2).passed
    with pytest.raises(ValueError, match="13 probes, but 0 were observed"):
        judge(Observation([]), "layer_norm/forward")


@pytest.mark.parametrize("order", [(2, 0, 1), (2, 1, 0)])  # others are known mistakes
def test_right_results_in_another_order_are_told_as_such(order):
    names = ("dx", "dgamma", "dbeta")

    def answer(*given, **named):
        right = RIGHT_BACKWARD(*given, **named)
        return tuple(right[i] for i in order)

    verdict = judged(answer, "layer_norm/backward")
    assert tuple(verdict.order.values()) == tuple(names[i] for i in order)
    assert f"{', '.join(verdict.order.values())}." in " ".join(verdict.explain().split())
    assert not verdict.mistakes and not verdict.right


def test_right_results_in_the_order_asked_for_are_not_told_to_be_in_another():
    def answer(dy, x, *given, **named):
        right = RIGHT_BACKWARD(dy, x, *given, **named)
        x += 1
        return right

    verdict = judged(answer, "layer_norm/backward")
    assert not verdict.order and not verdict.mistakes
    assert "Changed in place: x." in verdict.explain()


@pytest.mark.parametrize("decimals", [1, 4])
def test_right_results_that_are_rounded_are_told_as_such(decimals):
    def answer(*given, **named):
        return tuple(result.round(decimals) for result in RIGHT_BACKWARD(*given, **named))

    verdict = judged(answer, "layer_norm/backward")
    assert verdict.rounded and not verdict.mistakes and not verdict.right
    assert "Round what you print" in verdict.explain()
    assert not judged(lambda *given: RIGHT(*given) + 1e-5, "layer_norm/forward").rounded


def test_one_search_is_not_looked_at_input_by_input():
    """Some of its numbers, or of its truths, fit mistakes that it does not make."""

    def groups_like(norm, group_norm, x):
        channels = [g for g in range(1, x.shape[1] + 1) if x.shape[1] % g == 0]
        return min(channels, key=lambda g: np.abs(group_norm(x, g) - norm(x)).max())

    def independent(norm, x):
        together = norm(x)
        return all(np.allclose(norm(x[: i + 1])[i], together[i]) for i in range(len(x)))

    for answer, task in ((groups_like, "identities_search"), (independent, "batch_experiment")):
        verdict = judged(answer, f"group_instance_norm/{task}")
        assert not verdict.passed and not verdict.alone


def test_a_result_of_nan_is_explained_by_no_mistake_alone():
    def answer(*given, **named):
        dx, dgamma, dbeta = RIGHT_BACKWARD(*given, **named)
        return dx + 1, dgamma * np.nan, dbeta

    assert "dgamma" not in judged(answer, "layer_norm/backward").alone


def test_an_exception_that_comes_after_a_wrong_result_is_told_too():
    class Layer(torch.nn.Module):
        def __init__(self, width, eps=1e-5):
            super().__init__()
            self.gain = torch.nn.Parameter(torch.ones(width))

        def forward(self, x):
            return x @ self.scale

    assert "no attribute 'scale'" in judged(Layer, "layer_norm/layer").explain()
