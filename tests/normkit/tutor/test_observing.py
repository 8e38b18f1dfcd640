"""The first half: whatever an answer does is observed, and travels as bytes."""

import random
from types import FunctionType

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from normkit.tutor.judging import judge, reference, trials
from normkit.tutor.mistakes import combine
from normkit.tutor.observing import Observation, observe
from normkit.tutor.tasks import every_task

TASKS = every_task()
RIGHT = combine("layer_norm/layer_norm")


def together(names):
    """Tests of one task, run by one process: they share results."""
    return [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in names]


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


@pytest.mark.sample(8)
@pytest.mark.parametrize("task", together(TASKS))
def test_nothing_escapes(task):
    for name, answer in NASTY.items():
        observation = observe(answer, TASKS[task])
        verdict = judge(Observation.from_bytes(observation.to_bytes()), TASKS[task])
        assert not verdict.passed, name
        assert verdict.explain("en") and verdict.explain("fr")


def test_an_interruption_ends_the_run():
    calls = []

    def slow(*arguments):
        calls.append(arguments)
        raise KeyboardInterrupt

    observe(slow, "layer_norm/forward")
    assert len(calls) == 1


def test_an_answer_cannot_silence_numpy_or_change_the_probes_of_the_next():
    def rude(x, gamma, beta, eps=1e-5):
        np.seterr(all="raise")
        for array in (x, gamma, beta):
            array[...] = 7
        return RIGHT(x, gamma, beta, eps)

    before = np.geterr()
    observe(rude, "layer_norm/forward")
    assert np.geterr() == before
    assert judge(observe(RIGHT, "layer_norm/forward"), "layer_norm/forward").passed


# --- JAX --------------------------------------------------------------------------------------

OF_NUMPY = {  # what JAX does otherwise: no array changes, an index too far is the last
    *("rms_norm/x_changed_in_place", "rms_norm/view_changed_in_place"),
    "rms_norm/feature_k_alone",
}


def in_jax(function):
    """The same function, for which `np` is `jax.numpy`."""
    names = function.__globals__ | {"np": jnp, "__name__": "__main__"}
    parts = function.__name__, function.__defaults__, function.__closure__
    return FunctionType(function.__code__, names, *parts)


def written_in_numpy():
    """The tasks of an assignment with a program of NumPy's, and a mistake in it, or None."""
    for name in (name for name in TASKS if name.startswith("rms_norm/")):
        for program in TASKS[name].programs:
            mistakes = [m for m in TASKS[name].mistakes(program) if m.key not in OF_NUMPY]
            if "np" in combine(program).__code__.co_names:
                yield from ((name, program, m) for m in (None, *mistakes))


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("name", "program", "mistake"),
    list(written_in_numpy()),
    ids=lambda of: getattr(of, "key", str(of)),
)
def test_an_answer_in_jax_is_told_what_one_in_numpy_is(name, program, mistake):
    answer = combine(program, *filter(None, [mistake]))
    told, wanted = (judge(observe(f, name), name) for f in (in_jax(answer), answer))
    assert told.passed == wanted.passed
    assert told.passed or mistake
    assert {m.key for m in wanted.mistakes} <= {m.key for m in told.mistakes}


def test_an_answer_in_jax_receives_float64_and_leaves_the_precision_as_it_was():
    kinds = set()

    def answer(x, gamma, eps=1e-5):
        kinds.add(jnp.asarray(x).dtype.name)
        return jnp.asarray(gamma) * x / jnp.sqrt(jnp.mean(x**2, axis=-1, keepdims=True) + eps)

    assert judge(observe(jax.jit(answer), "rms_norm/forward"), "rms_norm/forward").passed
    assert kinds == {"float64", "float32", "int64"} and jnp.ones(1).dtype == "float32"


# --- Two processes ----------------------------------------------------------------------------


@pytest.mark.sample(15)
@pytest.mark.parametrize("name", together(TASKS))
def test_an_observation_survives_as_bytes(name):
    task = TASKS[name]
    for answer in (reference(task), trials(task, 0)[0].answer, None):
        observation = observe(answer, task, 5)
        again = Observation.from_bytes(observation.to_bytes())
        assert judge(again, task, 5).explain() == judge(observation, task, 5).explain()
        for a, b in zip(observation.results, again.results, strict=True):
            assert list(a.values) == list(b.values)
            assert (a.error, a.kinds, a.modified) == (b.error, b.kinds, b.modified)
            assert all(
                np.array_equal(a.values[k], b.values[k]) for k in a.values if a.values[k].size
            )


# --- What else is observed --------------------------------------------------------------------


def test_an_exception_is_kept_with_the_students_line_and_the_shapes_met():
    def answer(x, gamma, beta, eps=1e-5):
        mean = x.mean(-1)
        return x - mean

    result = observe(answer, "layer_norm/forward").results[0]
    assert result.error.startswith("ValueError") and result.line == "return x - mean"
    assert result.shapes == {"x": "(2, 3)", "mean": "(2,)"}


class Restless:
    def __dir__(self):
        raise SystemExit

    def __getattr__(self, name):
        raise AttributeError(name, name=name, obj=self)


def restless(x, gamma, beta, eps=1e-5):
    return Restless().shape


def test_an_object_that_tells_nothing_of_itself_is_no_trouble():
    assert observe(restless, "layer_norm/forward").results[0].meant == ""


class Halved(torch.nn.Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(features))
        self.bias = torch.nn.Parameter(torch.zeros(features))


class Unkept(Halved):
    def forward(self, x):
        return x / eps  # noqa: F821


class Unset(Halved):
    def forward(self, x):
        return self.norm(x)


class AsTensor(Halved):
    def forward(self, x):
        return torch.nn.init.zeros_(self)


@pytest.mark.parametrize(
    ("layer", "meant"), [(Unkept, "self.eps"), (Unset, ""), (AsTensor, "torch.Tensor")]
)
def test_what_is_perhaps_meant_in_a_layer_is_kept(layer, meant):
    assert observe(layer, "layer_norm/layer").results[0].meant == meant


def test_what_is_printed_is_kept_for_each_probe_and_cut(capsys):
    def answer(x, gamma, beta, eps=1e-5):
        for number in range(1000):
            print(number, x.shape)
        return RIGHT(x, gamma, beta, eps)

    results = observe(answer, "layer_norm/forward").results
    assert capsys.readouterr().out == ""
    assert results[0].printed.splitlines()[0] == "0 (2, 3)"
    assert all(len(result.printed.splitlines()) == 20 for result in results)


def test_an_answer_that_exchanges_the_generators_is_observed_all_the_same(monkeypatch):
    def answer(x, *_given, **_named):
        monkeypatch.setattr(random, "setstate", None)
        monkeypatch.setattr(np.random, "set_state", None)
        return x

    seen = observe(answer, "layer_norm/forward")
    assert not any(result.error for result in seen.results)


def test_what_is_drawn_at_random_is_drawn_alike_and_the_generators_stay_where_they_were():
    def answer(x, gamma, beta, eps=1e-5):
        return np.array([random.random(), *np.random.rand(2)])

    states = random.getstate(), np.random.get_state()[1].tolist()
    seen = [observe(answer, "layer_norm/forward").results for _ in range(2)]
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states
    drawn = [result.values["y"].tolist() for results in seen for result in results]
    assert all(numbers == drawn[0] for numbers in drawn)
