"""Ready-made functions are seen, however an answer calls them; what is built by hand passes."""

import functools
import pkgutil
import statistics
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.functional import layer_norm as ln

import normkit
from normkit import variance
from normkit.tutor.by_hand import GRADIENTS, READY_MADE, VARIANCES, named_in, watching
from normkit.tutor.judging import judge
from normkit.tutor.mistakes import combine
from normkit.tutor.observing import Observation, observe
from normkit.tutor.tasks import find

NEVER = False
ALL = (*READY_MADE, *VARIANCES)
X = np.array([[1.0, 7, 5, 5], [3, -4, 0, 12]])
T = torch.tensor(X)


def seen(answer, *arguments, names=ALL):
    """What shows while an answer runs, and what its source shows."""
    used = []
    with watching(names, used):
        answer(*arguments)
    return used


# --- Seen -------------------------------------------------------------------------------------

functional = F


def helper(x):
    return inner_helper(x) if NEVER else x


def inner_helper(x):
    return helper(x) + normkit.rms_norm(x)


given = functools.partial(F.rms_norm, normalized_shape=(4,))


def star(x):
    arguments = (x, x.shape[-1:])
    return functional.layer_norm(*arguments)


def by_a_table(x):
    return {"norm": F.layer_norm}["norm"](x, (4,))


def by_getattr(x):
    return getattr(torch, "layer_" + "norm")(x, (4,))


CALLS = {
    "torch.nn.functional.layer_norm": [
        lambda x: ln(x, (4,)),
        lambda x: functional.layer_norm(x, (4,)),
        lambda x: torch.nn.functional.layer_norm(x, (4,)),
        lambda x: functools.partial(functools.partial(ln, eps=1), normalized_shape=(4,))(x),
        star,
        by_a_table,
    ],
    "torch.layer_norm": [by_getattr],
    "torch.nn.functional.normalize": [lambda x: F.normalize(x)],
    "torch.nn.functional.rms_norm": [lambda x: given(x)],
    "torch.nn.LayerNorm": [lambda x: nn.LayerNorm(4, dtype=x.dtype)(x)],
    "torch.nn.BatchNorm1d": [lambda x: nn.BatchNorm1d(4, dtype=x.dtype)(x)],
    "torch.nn.InstanceNorm2d": [lambda x: nn.Sequential(nn.InstanceNorm2d(1))(x[None, None])],
    "torch._weight_norm": [lambda x: torch._weight_norm(x, x[:, :1], 0)],
    "torch.autograd.grad": [lambda x: torch.autograd.grad((y := x + 0).sum(), y)],
    "torch.Tensor.backward": [lambda x: x.clone().requires_grad_().sum().backward()],
    "torch.func.jvp": [lambda x: torch.func.jvp(torch.sin, (x,), (x,))],
    "torch.var": [lambda x: torch.var(x, -1)],
    "torch.var_mean": [lambda x: torch.var_mean(x, -1)],
    "torch.Tensor.var": [lambda x: x.var(-1), lambda x: torch.Tensor.var(x)],
    "torch.Tensor.std": [lambda x: (x + 1).std()],
    "numpy.var": [lambda x: np.var(x.numpy()), lambda x: list(map(np.var, x.numpy()))],
    "numpy.std": [lambda x: np.std(x.numpy(), axis=-1)],
    "numpy.cov": [lambda x: np.corrcoef(x.numpy())],
    "numpy.ndarray.var": [lambda x: x.numpy().var(), lambda x: np.ma.array(x.numpy()).data.var()],
    "statistics.pvariance": [lambda x: statistics.pvariance(x[0].tolist())],
    "normkit.layer_norm": [lambda x: normkit.layer_norm(x)],
    "normkit.DyT": [lambda x: normkit.DyT(4)(x.float())],
    "normkit.BatchNorm1d": [lambda x: normkit.BatchNorm1d(4)(x.float())],
    "normkit.variance.two_pass": [lambda x: variance.two_pass(x.numpy()[0])],
}


@pytest.mark.parametrize(
    ("name", "call"), [(n, call) for n, calls in CALLS.items() for call in calls]
)
def test_a_call_is_seen_when_it_happens(name, call):
    with torch.enable_grad():
        assert seen(call, T.clone().requires_grad_(name in GRADIENTS))[:1] == [name]


def unreached(x):
    if NEVER:
        x = F.layer_norm(x, (4,))
    return x


def in_a_helper(x):
    return helper(x)


def in_a_nested_function(x):
    def norm(values):
        return normkit.layer_norm(values) if NEVER else values

    return norm(x)


def by_a_global_partial(x):
    return given(x) if NEVER else x


def make_closure(norm):
    def answer(x):
        return norm(x) if NEVER else x

    return answer


@torch.no_grad()
def decorated(x):
    return torch.group_norm(x, 1) if NEVER else x


class Outer(nn.Module):
    def __init__(self, features=4):
        super().__init__()
        self.norm = Inner(features)

    def forward(self, x):
        return self.norm(x)


class Inner(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.RMSNorm(features) if NEVER else nn.Identity()

    def forward(self, x):
        return self.norm(x)


class Callable:
    def __call__(self, x):
        return ln(x, (4,)) if NEVER else x


class Subclass(nn.LayerNorm):
    def forward(self, x):
        return x


class AnyAxes(nn.modules.batchnorm._BatchNorm):
    def _check_input_dim(self, x):
        """Any number of axes."""


SOURCES = {
    "torch.nn.functional.layer_norm": [
        unreached,
        Callable(),
        Callable().__call__,
        ln,
        functools.partial(ln),
    ],
    "normkit.rms_norm": [in_a_helper, normkit.rms_norm],
    "normkit.layer_norm": [in_a_nested_function, make_closure(normkit.layer_norm)],
    "torch.nn.functional.rms_norm": [by_a_global_partial, make_closure(given)],
    "torch.group_norm": [decorated],
    "torch.nn.RMSNorm": [Outer, Outer()],
    "torch.nn.LayerNorm": [Subclass, nn.LayerNorm, nn.LayerNorm(4), make_closure(nn.LayerNorm(4))],
    "torch.nn.modules.batchnorm._BatchNorm": [AnyAxes],
    "normkit.DyT": [normkit.DyT, functools.partial(functools.partial(normkit.DyT, 4), 1.0)],
    "numpy.var": [np.var, [None, lambda x: np.var(x)]],
}


@pytest.mark.parametrize(
    ("name", "answer"), [(name, answer) for name, many in SOURCES.items() for answer in many]
)
def test_what_an_answer_is_or_may_call_is_named(name, answer):
    assert named_in(answer, ALL) == [name]


@pytest.mark.parametrize("name", [name for name in ALL if name != "normkit"])
def test_each_name_means_something(name):
    assert callable(pkgutil.resolve_name(name))


# --- Let pass ---------------------------------------------------------------------------------


def layer_norm(x, gamma, beta, eps=1e-5):
    """The student's own, of that name."""
    centred = x - np.einsum("...d->...", x)[..., None] / x.shape[-1]
    var = (centred * centred).mean(-1, keepdims=True)
    return gamma * centred / np.sqrt(var + eps) + beta


def loops(x, gamma, beta, eps=1e-5):
    y = np.empty(x.shape, dtype=gamma.dtype)
    for index in np.ndindex(x.shape[:-1]):
        token = x[index].tolist()
        mean = sum(token) / len(token)
        deviation = (sum((value - mean) ** 2 for value in token) / len(token) + eps) ** 0.5
        y[index] = [
            g * (v - mean) / deviation + b for v, g, b in zip(token, gamma, beta, strict=True)
        ]
    return y


def in_place_on_a_copy(x, gamma, beta, eps=1e-5):
    y = x.astype(np.result_type(x, np.float32), copy=True)
    y -= y.mean(-1, keepdims=True)
    y /= np.sqrt(y.var(-1, keepdims=True) + eps)
    y *= gamma
    y += beta
    return y


def operations_of_torch(x, gamma, beta, eps=1e-5):
    x, gamma, beta = (torch.tensor(array) for array in (x, gamma, beta))
    var, mean = torch.var_mean(x.to(gamma.dtype), -1, correction=0, keepdim=True)
    return torch.addcmul(beta, gamma, (x - mean) * torch.rsqrt(var + eps)).numpy()


class Own:
    def layer_norm(self, *arguments):
        return layer_norm(*arguments)

    __call__ = static = staticmethod(loops)


def calling(rms_norm):
    return lambda *arguments: rms_norm(*arguments)


RIGHT = [
    *(layer_norm, loops, in_place_on_a_copy, operations_of_torch),
    *(Own().layer_norm, Own(), Own.static, calling(layer_norm)),
    functools.partial(functools.partial(layer_norm)),
]


@pytest.mark.parametrize("answer", RIGHT)
def test_an_answer_by_hand_passes(answer):
    verdict = judge(observe(answer, "layer_norm/forward"), "layer_norm/forward")
    assert verdict.passed, verdict.explain()


class OwnLayer(nn.Module):
    """A layer by hand, with a helper layer, in the manner of the course."""

    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.dropout, self.eps = nn.Dropout(0), eps

    def forward(self, x):
        return self.dropout(self.weight * self.normalise(x) + self.bias)

    def normalise(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + self.eps).sqrt()

    def compare(self, x):
        """For the student; no part of the layer."""
        return torch.allclose(self(x), F.layer_norm(x, (4,)))


def test_a_layer_by_hand_passes_although_the_course_differentiates_it():
    verdict = judge(observe(OwnLayer, "layer_norm/layer"), "layer_norm/layer")
    assert verdict.passed, verdict.explain()


rms_norm = normkit.rms_norm  # in the notebook, as in the next answer an argument


def from_rms_norm(x, gamma, beta, eps, rms_norm):
    return rms_norm(x - x.mean(-1, keepdims=True), gamma, eps) + beta


def test_a_norm_that_the_course_passes_may_be_called():
    verdict = judge(observe(from_rms_norm, "rms_norm/layer_norm"), "rms_norm/layer_norm")
    assert verdict.passed, verdict.explain()


def test_a_model_that_the_course_passes_may_be_called():
    model = nn.Sequential(nn.LayerNorm(4), nn.BatchNorm1d(4), normkit.DyT(4), OwnLayer(4))
    assert not seen(lambda model, x: model(x), model, T.float())
    assert not seen(lambda: [isinstance(part, nn.LayerNorm) for part in model])
    assert not named_in(lambda model: [isinstance(part, nn.LayerNorm) for part in model], ALL)


def test_the_calls_of_the_package_do_not_count():
    for name in ("layer_norm/layer", "batch_norm/layer", "rms_norm/layer_norm", "dyt/backward"):
        task = find(name)
        assert not observe(combine(task.programs[0]), replace(task, by_hand=ALL)).ready_made


def test_a_name_that_is_an_argument_or_a_variable_is_not_looked_up():
    def answer(x, ln=lambda x: x, **others):
        normkit = Own()
        return normkit.layer_norm(ln(x)) + sum(functional.layer_norm for functional in others)

    assert not named_in(answer, ALL)


def test_of_two_lambdas_on_a_line_neither_is_read():
    mine, theirs = (lambda x: x), (lambda x: ln(x, (4,)))
    assert not named_in(mine, ALL) and seen(theirs, T)


def test_without_source_what_happens_is_still_seen():
    names = {"F": F, "__name__": "__main__"}
    exec("def answer(x, never=False):\n return F.rms_norm(x, (4,)) if never else x", names)
    assert not named_in(names["answer"], ALL)
    assert seen(names["answer"], T, True)[0] == "torch.nn.functional.rms_norm"


def test_a_name_that_is_not_refused_is_not_told():
    assert not seen(lambda x: ln(x.var(-1), (2,)), T, names=("torch.Tensor.std",))
    assert not seen(lambda x: ln(x, (4,)), T, names=())


# --- Nasty answers ----------------------------------------------------------------------------


def nasty(asked=None):
    """Answers that note who asks them anything, out of sight of pytest, which asks."""

    def note(*arguments):
        asked.append(arguments)
        raise RuntimeError("asked")

    class Nosy(type):
        __eq__ = __hash__ = __getattribute__ = __instancecheck__ = __subclasscheck__ = note

    class Hostile(metaclass=Nosy):
        __eq__ = __hash__ = __getattribute__ = __iter__ = __bool__ = __len__ = note
        __class__ = func = property(note)

    class Pair(tuple):
        __iter__ = note

    def calling():
        if NEVER:
            hostile(hostile.layer_norm(Hostile.norm()))

    def wrapped():
        """Inside itself."""

    hostile = object.__new__(Hostile)
    wrapped.__wrapped__ = wrapped
    return [hostile, Hostile, (hostile, Hostile), Pair(), calling, wrapped, object(), 3, nasty]


def test_nothing_of_an_answer_runs_when_it_is_read():
    asked = []
    assert [found for answer in nasty(asked) for found in named_in(answer, ALL)] == asked == []


def test_nothing_is_raised_out_of_observe():
    for answer in (*nasty([]), torch.jit.ScriptFunction, functools.cache(unreached)):
        assert isinstance(observe(answer, "layer_norm/forward"), Observation)


def test_the_profiler_is_put_back_whatever_an_answer_does():
    def rude():
        sys.setprofile(None)
        raise SystemExit

    def profiler(*event):
        """Somebody else's."""

    sys.setprofile(profiler)
    try:
        with pytest.raises(SystemExit):
            seen(rude)
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(None)


# --- What the student reads -------------------------------------------------------------------


def test_the_verdict_names_what_was_called():
    assert find("layer_norm/forward").by_hand == READY_MADE
    verdict = judge(observe(unreached, "layer_norm/forward"), "layer_norm/forward")
    assert not verdict.passed and verdict.difference.what == "ready_made"
    assert verdict.explain("en").splitlines() == [
        "✗ layer_norm/forward: not right yet.",
        "torch.nn.functional.layer_norm does this for you. Write it yourself: the task says what",
        "is not allowed.",
        "Read on: en/layer_norm.html#ln-formula",
    ]


def test_what_was_called_survives_as_bytes():
    observation = observe(normkit.layer_norm, "layer_norm/forward")
    again = Observation.from_bytes(observation.to_bytes())
    assert again.ready_made == observation.ready_made == ["normkit.layer_norm"]


def test_a_task_without_the_rule_takes_any_call():
    task = replace(find("layer_norm/forward"), by_hand=())
    assert judge(observe(lambda *given: normkit.layer_norm(*given), task), task).passed
