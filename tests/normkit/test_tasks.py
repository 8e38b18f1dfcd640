"""Tasks: both halves, whatever the answer does; right answers of any style pass."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from normkit import layer_norm
from normkit.mistakes import combine
from normkit.tasks import TASKS, Observation, judge, observe

RIGHT = combine("layer_norm")
RIGHT_BACKWARD = combine("layer_norm_backward")


def judged(answer, task, seed=0):
    return judge(observe(answer, task, seed), task, seed)


def loops(x, gamma, beta, eps):
    y = np.empty(x.shape, dtype=x.dtype if x.dtype.kind == "f" else float)
    for index in np.ndindex(x.shape[:-1]):
        token = x[index].tolist()
        mean = sum(token) / len(token)
        var = sum((value - mean) ** 2 for value in token) / len(token)
        for i, value in enumerate(token):
            y[(*index, i)] = gamma[i] * (value - mean) / (var + eps) ** 0.5 + beta[i]
    return y


def einsum(x, gamma, beta, eps):
    centred = x - np.einsum("...d->...", x)[..., None] / x.shape[-1]
    var = np.einsum("...d,...d->...", centred, centred) / x.shape[-1]
    return np.einsum("...d,...,d->...d", centred, (var + eps) ** -0.5, gamma) + beta


def in_place_on_a_copy(x, gamma, beta, eps):
    y = x.astype(np.result_type(x, np.float32), copy=True)
    y -= y.mean(-1, keepdims=True)
    y /= np.sqrt(y.var(-1, keepdims=True) + eps)
    y *= gamma
    y += beta
    return y


def torch_inside(x, gamma, beta, eps):
    gamma, beta = torch.tensor(gamma), torch.tensor(beta)
    centred = (x := torch.tensor(x).to(gamma.dtype)) - x.mean(-1, keepdim=True)
    r = torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    return torch.addcmul(beta, gamma, centred * r).numpy()


@pytest.mark.parametrize("answer", [loops, einsum, in_place_on_a_copy, torch_inside])
def test_right_functions_of_any_style_pass(answer):
    for seed in range(3):
        verdict = judged(answer, "layer_norm/forward", seed)
        assert verdict.passed, verdict.explain()


def jacobian_backward(dy, x, gamma, eps):
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


@pytest.mark.parametrize("answer", [Functional, combine("LayerNorm")])
def test_right_layers_of_any_style_pass(answer):
    for seed in range(3):
        verdict = judged(answer, "layer_norm/layer", seed)
        assert verdict.passed, verdict.explain()


def ready_made(x, gamma, beta, eps):
    gamma, beta = torch.tensor(gamma), torch.tensor(beta)
    tensor = torch.tensor(x).to(gamma.dtype)
    return torch.nn.functional.layer_norm(tensor, gamma.shape, gamma, beta, eps).numpy()


def autograd(dy, x, gamma, eps):
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


PREDICTIONS = combine("layer_norm_invariance")[0]


def largest_gap(norm, change, x):
    return np.abs(norm(change(x)) - norm(x)).max() < 1e-6


def test_right_experiments_of_any_style_pass():
    assert judged((PREDICTIONS, largest_gap), "layer_norm/invariance").passed
    assert judged([dict(PREDICTIONS), largest_gap], "layer_norm/invariance").passed


# --- Answers that are right on the surface only -----------------------------------------------


def in_place(x, gamma, beta, eps):
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
    assert len(verdict.explain().splitlines()) <= 10


def test_a_gradient_must_be_three_arrays():
    verdict = judged(lambda *a: RIGHT_BACKWARD(*a)[:2], "layer_norm/backward")
    assert verdict.difference.what == "results"
    assert "tuple[2]" in verdict.explain()


def test_a_layer_must_follow_its_dtype():
    class Single(Functional):
        def forward(self, x):
            return super().forward(x).float()

    assert judged(Single, "layer_norm/layer").difference.what == "dtype"


# --- Nasty answers ----------------------------------------------------------------------------


class Spiteful(np.ndarray):
    def __array_finalize__(self, other):
        raise RuntimeError("no")


class Unspeakable(Exception):
    def __str__(self):
        raise ValueError("not even this")


def raiser(error):
    def function(*arguments, **options):
        raise error

    return function


def endless(*arguments):
    return endless(*arguments)


NASTY = {
    "exit": raiser(SystemExit(0)),
    "interrupt": raiser(KeyboardInterrupt()),
    "generator exit": raiser(GeneratorExit()),
    "unspeakable": raiser(Unspeakable()),
    "memory": raiser(MemoryError()),
    "endless": endless,
    "none": lambda *a: None,
    "text": lambda *a: "0.5",
    "lists": lambda *a: [[1.0], [2.0]],
    "objects": lambda x, *a: x.astype(object),
    "strings": lambda x, *a: x.astype(str),
    "complex": lambda x, *a: x.astype(complex),
    "records": lambda *a: np.zeros(3, dtype=[("a", int)]),
    "broadcast": lambda *a: np.broadcast_to(1.0, (10**6, 10**6)),
    "spiteful": lambda x, *a: x.view(Spiteful),
    "read-only": lambda x, *a: x.setflags(write=False),
    "resized": lambda x, *a: x.resize((100,), refcheck=False),
    "nan": lambda x, *a: x * np.nan,
    "generator": lambda *a: (value for value in ()),
    "class": Unspeakable,
    "arity": lambda: 0,
    "number": 3,
    "nothing": None,
    "array": np.ones(3),
    "pair": (None, None),
    "dictionary": {"shift_tokens": True},
    "truths": ({}, lambda *a: np.ones(3, dtype=bool)),
}


# To look for several mistakes at once takes long, and runs nothing else
ALONE = {name: replace(task, at_once=1) for name, task in TASKS.items()}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", NASTY)
def test_nothing_escapes(name, task):
    task = ALONE[task]
    observation = observe(NASTY[name], task)
    verdict = judge(Observation.from_bytes(observation.to_bytes()), task)
    assert not verdict.passed
    assert verdict.explain("en") and verdict.explain("fr")


def test_an_interruption_ends_the_run():
    calls = []

    def slow(*arguments):
        calls.append(arguments)
        raise KeyboardInterrupt

    observe(slow, "layer_norm/forward")
    assert len(calls) == 1


def test_an_answer_cannot_silence_numpy_or_change_the_probes_of_the_next():
    def rude(x, gamma, beta, eps):
        np.seterr(all="raise")
        for array in (x, gamma, beta):
            array[...] = 7
        return RIGHT(x, gamma, beta, eps)

    before = np.geterr()
    observe(rude, "layer_norm/forward")
    assert np.geterr() == before
    assert judged(RIGHT, "layer_norm/forward").passed


# --- Two processes ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", TASKS)
def test_an_observation_survives_as_bytes(name):
    task = TASKS[name]
    for answer in (task.reference(), combine(task.algorithm, task.mistakes[0]), None):
        observation = observe(answer, task, 5)
        again = Observation.from_bytes(observation.to_bytes())
        assert judge(again, task, 5).explain() == judge(observation, task, 5).explain()
        for a, b in zip(observation.results, again.results, strict=True):
            assert list(a.values) == list(b.values)
            assert (a.error, a.kinds, a.modified) == (b.error, b.kinds, b.modified)
            assert all(
                np.array_equal(a.values[k], b.values[k]) for k in a.values if a.values[k].size
            )


def test_the_seed_draws_the_probes():
    observation = observe(RIGHT, "layer_norm/forward", seed=1)
    assert judge(observation, "layer_norm/forward", seed=1).passed
    assert not judge(observation, "layer_norm/forward", seed=2).passed
    with pytest.raises(ValueError, match="13 probes, but 0 were observed"):
        judge(Observation([]), "layer_norm/forward")


def test_an_unknown_task_is_named():
    with pytest.raises(ValueError, match="no task 'layernorm'; the tasks are: layer_norm/forward"):
        observe(RIGHT, "layernorm")


def test_the_probes_tell_axes_apart():
    for probe in TASKS["layer_norm/forward"].draw(0):
        x, gamma, beta = (probe.inputs[name] for name in ("x", "gamma", "beta"))
        assert gamma.shape == beta.shape == x.shape[-1:]
        assert len(set(x.shape)) == x.ndim or "square" in probe.name
        assert "worked" in probe.name or np.ptp(gamma) > 0.1
