"""Programs to try a test on: made of their text, and with results that are changed."""

from collections.abc import Callable
from functools import cache, wraps
from inspect import signature
from types import CodeType
from typing import Any

import numpy as np

from normkit.tutor.tasks import TESTED


def made(text: str) -> Any:
    """The function or the class that a program defines."""
    names: dict[str, Any] = {"np": np, "__name__": TESTED}  # not the student's
    if "torch." in text:
        import torch

        names["torch"] = torch
    before = set(names)
    exec(_compiled(text), names)
    return next(thing for name, thing in names.items() if name not in {*before, "__builtins__"})


@cache
def _compiled(text: str) -> CodeType:
    return compile(text, "<a program to test>", "exec")


def results(
    program: Any, change: Callable = lambda value: value, start: Callable = lambda: None
) -> Any:
    """A program that does something more when it starts, and whose results are changed."""
    return wrapped(program, lambda result, *_given: each(result, change), start)


def wrapped(program: Any, change: Callable, start: Callable = lambda: None) -> Any:
    """A program that does something when it starts, and something with its result.

    change: takes the result and what the program was given; a layer, x and its mode.
    """
    if isinstance(program, type):

        class Changed(program):
            def __init__(self, *args, **options):
                start()
                super().__init__(*args, **options)

            def forward(self, x):
                return change(super().forward(x), plain(x), self.training)

        return Changed

    @wraps(program)
    def changed(*args, **options):
        start()
        given = signature(program).bind(*args, **options).args
        given = [np.array(v) if isinstance(v, np.ndarray) else v for v in given]
        return change(program(*args, **options), *given)

    return changed


def without_eps(program: Any) -> Any:
    """A program for which eps is next to nothing, whatever it is given; itself if it has none."""
    if "eps" not in signature(program).parameters:
        return program

    @wraps(program)
    def exact(*args, **options):
        given = signature(program).bind(*args, **options)
        given.arguments["eps"] = 1e-30
        return program(*given.args, **given.kwargs)

    return exact


def other_inside(layer: Any) -> Any:
    """A layer that is another after each call: more parameters, in other shapes, far off."""

    class Other(layer):
        def forward(self, x):
            import torch

            for name, value in self.__dict__.pop("kept", {}).items():
                setattr(self, name, value)
            y = super().forward(x)
            self.kept = dict(self.named_parameters())
            with torch.no_grad():
                for kept in self.buffers():
                    kept.copy_(far_off(kept))
                for name, value in self.kept.items():
                    twice = torch.cat([far_off(value).flatten()] * 2)
                    setattr(self, name, torch.nn.Parameter(twice))
            self.spoilt = torch.nn.Parameter(torch.ones(1))
            return y

    return Other


def arrays(result: Any) -> list[np.ndarray]:
    """All arrays and numbers of a result, as arrays of floats."""
    found = []
    each(result, lambda value: found.append(np.asarray(plain(value), float)))
    return found


def plain(value: Any) -> Any:
    return value.detach().numpy() if hasattr(value, "detach") else value


def each(result: Any, change: Callable) -> Any:
    """A result with all its arrays, tensors and numbers changed."""
    if isinstance(result, dict):
        return {name: each(value, change) for name, value in result.items()}
    if isinstance(result, tuple):
        return tuple(each(value, change) for value in result)
    return change(result)


def spoilt(value, number, by):
    """An array with one number larger; a number that is larger."""
    if not hasattr(value, "reshape"):
        return value + by
    flat = (value.clone() if hasattr(value, "clone") else np.array(value)).reshape(-1)
    flat[number] += by
    return flat.reshape(value.shape)


def returned(number: int, result: Any, *given: Any) -> Any:
    """One of the arguments in place of each result that has its shape."""
    argument = given[number] if number < len(given) else None

    def change(value):
        same = isinstance(argument, np.ndarray) and argument.shape == np.shape(plain(value))
        return value * 0 + like(value, argument) if same else value

    return each(result, change)


def like(value, array):
    """An array as one of the same library."""
    return value.new_tensor(array) if hasattr(value, "new_tensor") else array


def nudged(value):
    """As another way to round would make it."""
    kind = str(getattr(value, "dtype", "float64")).removeprefix("torch.")
    return value + 4 * float(np.finfo(kind).eps) * abs(value)


def far_off(value):
    return 1234 - 1000 * value


def far_below(value):
    return 1000 * value - 1234


def zeros(value):
    return 0 * value


def drawn(value):
    """Other numbers in the same shape."""
    drawn = np.random.default_rng(0).normal(size=np.shape(plain(value)))
    return 0 * value + like(value, drawn)


def larger(value):
    return 1.05 * value


def shifted(value):
    return value + 0.05


def rounded(digits, value):
    return np.round(value, digits)


def moved(value):
    """The same numbers in another order, or others if there is none."""
    flat = np.ravel(plain(value))
    if (flat == np.roll(flat, 1)).all():
        return 1.05 * value
    return (value.roll(1) if hasattr(value, "roll") else np.roll(value, 1)).reshape(value.shape)


def cut(value):
    """Another shape."""
    value = far_off(value)
    return value.reshape(-1)[:1] if hasattr(value, "reshape") else (value, value)
