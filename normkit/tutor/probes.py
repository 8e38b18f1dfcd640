"""Inputs on which mistakes show: worked ones, and random ones that leave no axis to chance."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from inspect import signature, unwrap
from itertools import starmap
from types import FunctionType
from typing import Any

import numpy as np

from normkit.messages import N_
from normkit.tutor.by_hand import wrote
from normkit.tutor.tasks import Probe

WORKED = N_("a worked example")
INTEGERS = N_("an array of integers")
CONSTANT = N_("a token whose features are all equal")


def tokens(rng, *shape):
    """Random tokens, each with its own mean and scale."""
    rows = (*shape[:-1], 1)
    return rng.normal(size=shape) * rng.uniform(0.5, 3, rows) + rng.normal(scale=2, size=rows)


def token_probe(rng, name, x, eps=1e-5, **options):
    """Random gamma, beta and dy for x: with 1, 0 and 1, half of the mistakes stay unseen."""
    features, dtype = x.shape[-1], x.dtype if x.dtype.kind == "f" else float
    others = {
        "gamma": rng.uniform(0.5, 2, features),
        "beta": rng.normal(size=features),
        "dy": rng.normal(size=x.shape),
    }
    others = {name: array.astype(dtype) for name, array in others.items()}
    return Probe(name, {"x": x, **others, "eps": eps}, **options)


def token_probes(rng: np.random.Generator) -> list[Probe]:
    """All sizes of an array differ, the square one aside, so that no axis passes for another."""
    constant = tokens(rng, 4, 5)
    constant[1] = 3.0
    single = tokens(rng, 5, 6).astype(np.float32)
    far = (rng.normal(scale=2, size=(3, 8)) + 10_000).astype(np.float32)
    whole = rng.integers(-9, 10, size=(3, 7))
    one = token_probe
    return [
        one(rng, N_("a large eps, 0.1"), tokens(rng, 3, 4), eps=0.1),
        one(rng, N_("a batch of tokens"), tokens(rng, 5, 7)),
        one(rng, N_("a batch of sequences"), tokens(rng, 2, 5, 3)),
        one(rng, N_("a square array"), tokens(rng, 4, 4), eps=0.01),
        one(rng, N_("a single token"), tokens(rng, 6)),
        one(rng, N_("very small numbers"), tokens(rng, 3, 5) * 1e-4),
        one(rng, CONSTANT, constant),
        one(rng, N_("a transposed array"), tokens(rng, 6, 4).T),
        one(rng, N_("an array of dtype float32"), single, tolerance=1e-4),
        one(rng, N_("float32 numbers around 10 000"), far, tolerance=0.02, rough=True),
        one(rng, INTEGERS, whole),
    ]


def probes(
    arrays: str,
    *worked: tuple,
    random: Callable[[np.random.Generator], list[Probe]] = token_probes,
    without: tuple[str, ...] = (),
) -> Callable[[np.random.Generator], list[Probe]]:
    """What draws the worked probes, then the random ones: values for these names, and eps."""
    names = arrays.split()

    def example(*values):
        given = dict(zip(names, values, strict=True))
        given |= {k: np.array(v, dtype=float) for k, v in given.items() if isinstance(v, list)}
        return Probe(WORKED, {**given, "eps": 1e-5})

    def draw(rng):
        return [*starmap(example, worked)] + [
            replace(probe, inputs={name: probe.inputs[name] for name in (*names, "eps")})
            for probe in random(rng)
            if probe.name not in without
        ]

    return draw


def usual_eps(answer: Callable, eps: float, usual: float = 1e-5) -> tuple[float, ...]:
    """The last argument: none where eps is the usual one, which must be the default of the answer.

    It is always given to the functions of the package, whose default is None, and to what is no
    function of Python.
    """
    function = unwrap(answer)
    if eps != usual or not isinstance(function, FunctionType):
        return (eps,)
    return () if wrote(function) or isinstance(_default_eps(function), (int, float)) else (eps,)


@lru_cache(1024)  # asked for on each probe
def _default_eps(function: FunctionType) -> Any:
    return getattr(signature(function).parameters.get("eps"), "default", None)
