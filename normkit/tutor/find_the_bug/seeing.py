"""What a test says of a program, and what it sees of it: where it looks, what it would accept."""

import io
import math
import re
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial, wraps
from itertools import count, zip_longest
from typing import Any

import numpy as np

from normkit.tutor.find_the_bug import changing


def accepts(test: Callable, program: Any) -> bool:
    """Whether a test accepts a program: it neither fails nor breaks off.

    >>> def test_double(function):
    ...     assert function(3) == 6
    >>> accepts(test_double, lambda x: 2 * x), accepts(test_double, lambda x: x)
    (True, False)
    """
    try:
        ran(test, program)
    except NotImplementedError:  # no test yet
        raise
    except Exception:
        return False
    return True


def ran(test: Callable, program: Any) -> tuple[Any, str]:
    """What a test returns and prints, addresses in memory aside."""
    with redirect_stdout(io.StringIO()) as printed:
        return test(program), re.sub(r"0x\w+", "", printed.getvalue())


def called(test: Callable, program: Any) -> bool:
    """Whether a test calls a program that it is given."""
    calls = []
    accepts(test, changing.results(program, start=lambda: calls.append(1)))
    return bool(calls)


def takes(test: Callable, right: Any, change: Callable) -> bool:
    """Whether a test accepts the right results with all their numbers changed."""
    return accepts(test, changing.results(right, change))


def fails(test: Callable, program: Any) -> bool:
    """Whether a test fails as it should, by an AssertionError."""
    try:
        ran(test, program)
    except Exception as error:
        return isinstance(error, AssertionError)
    return False


def catches(test: Callable, program: Any) -> bool:
    """Whether a test accepts a program although an assertion failed on the way."""
    failed = []

    def witness(frame, event, found):
        if event == "exception" and issubclass(found[0], AssertionError):
            failed.append(found[0])
        return witness

    before = sys.gettrace()
    sys.settrace(witness)
    try:
        return accepts(test, program) and bool(failed)
    finally:
        sys.settrace(before)


def parting(test: Callable, bug: str, right: Any, wrong: Any) -> list[tuple[int, int, int]] | str:
    """Some places where two programs part on what a test gives them: call, array, number.

    A word if there is none: that the fault is hidden, and by what.
    """
    found: list[tuple[float, int, int, int]] = []
    numbers = count()

    def meet(result, other):
        call = next(numbers)
        for array, (ours, theirs) in enumerate(
            zip_longest(changing.arrays(result), changing.arrays(other))
        ):
            if ours is not None:
                gap = np.ravel(_gap(ours, theirs))
                found.extend((gap[i], call, array, i) for i in np.flatnonzero(gap > CLOSE))

    accepts(test, _beside(right, wrong, meet))
    if not found:
        return f"hidden {_hidden_by(bug, calls(test, right))}"
    found.sort(reverse=True)
    places = [*found[:4], *found[4 :: 1 + len(found) // 8]]
    return [(call, array, number) for _gap, call, array, number in places]


CLOSE = 1e-4  # numbers that differ by less look the same


def _gap(ours, theirs):
    """How far apart the numbers of two arrays are; 0 between two nan."""
    if theirs is None or theirs.shape != ours.shape:
        return np.full(ours.shape, np.inf)
    with np.errstate(all="ignore"):
        gap = abs(ours - theirs) / np.maximum(abs(ours), 1)
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    return np.where(same, 0, np.nan_to_num(gap, nan=np.inf, posinf=np.inf))


def _beside(right: Any, wrong: Any, meet: Callable) -> Any:
    """The right program, that runs a wrong one beside it and shows what both return."""
    if isinstance(right, type):
        return _layer_beside(right, wrong, meet)

    @wraps(right)
    def program(*args, **options):
        result = right(*args, **options)
        meet(result, _attempt(wrong, *args, **options))
        return result

    return program


def _layer_beside(right: Any, wrong: Any, meet: Callable) -> Any:
    """The same of a layer: what is put into its state from outside, the other layer gets too."""

    class Beside(right):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            self.other, self.last = [wrong(*args, **options)], {}

        def forward(self, x):
            import torch

            (other,) = self.other
            others = other.train(self.training).state_dict()
            for name, value in self.state_dict().items():
                known = name in self.last and bool((self.last[name] == value).all())
                if not known and name in others and others[name].shape == value.shape:
                    others[name].copy_(value)
            y = super().forward(x)
            ours = y, *map(torch.clone, self.buffers())
            meet(ours, _attempt(lambda: (other(x), *other.buffers())))
            self.last = {name: value.clone() for name, value in self.state_dict().items()}
            return y

    return Beside


def _attempt(program: Callable, *args, **options) -> Any:
    try:
        return program(*args, **options)
    except Exception:
        return ()


def looks_at(test: Callable, right: Any, call: int, array: int, number: int) -> bool:
    """Whether a test refuses another number in this place."""

    def refuses(change):
        calls = count()

        def spoil(result, *_given):
            arrays = count()
            here = next(calls) == call

            def one(value):
                return (
                    changing.spoilt(value, number, change)
                    if here and next(arrays) == array
                    else value
                )

            return changing.each(result, one)

        return not accepts(test, changing.wrapped(right, spoil))

    return refuses(1000) or refuses(-1000)


def calls(test: Callable, right: Any) -> list[list[Any]]:
    """The numbers that each call of a test gives, as they are then; to a layer, x and the mode."""
    calls = []

    def noted(result, *given):
        calls.append([np.array(v) for v in given if not callable(v) and not isinstance(v, list)])
        return result

    accepts(test, changing.wrapped(right, noted))
    return calls


def _hidden_by(bug: str, calls: list[list[Any]]) -> str:
    """What is known of the input on which a fault does not show."""
    if bug == "group_norm" and all(groups == 1 for _x, groups, *_others in calls):
        return "one group"
    if bug != "layer_norm":
        return ""
    shapes = [np.shape(x) for x, *_others in calls]
    if all(math.prod(shape[:-1]) == 1 for shape in shapes):
        return "one token"
    if all(len(shape) == 3 and shape[1] == 1 for shape in shapes):
        return "one token each"
    return "rows" if all(len(shape) < 3 for shape in shapes) else ""


def one_sided(test: Callable, right: Any) -> str:
    """How a test that compares numbers still lets many wrong ones pass, if it does."""
    shifts = [takes(test, right, lambda v, by=by: v + by) for by in (0.05, 1000, -0.05, -1000)]
    if shifts in ([True, True, False, False], [False, False, True, True]):
        return "one side"
    if shifts[1] or shifts[3]:
        return ""
    if all(takes(test, right, partial(_all_but, place)) for place in (np.argmin, np.argmax)):
        return "one is enough"
    if any(
        takes(test, right, change) for change in (changing.larger, changing.shifted, changing.moved)
    ):
        return ""
    return "signs" if any(_forgets_sign(test, right, array) for array in range(3)) else ""


def _all_but(place: Callable, value):
    """All numbers of an array far off but one."""
    off = value + 1000
    if np.size(changing.plain(value)) < 2:
        return off
    number = place(changing.plain(value))
    return changing.spoilt(off, number, -1000)


def _forgets_sign(test: Callable, right: Any, array: int) -> bool:
    """Whether a test looks at the largest number of an array, but not at its sign."""

    def takes(change):
        def spoil(result, *_given):
            arrays = count()
            return changing.each(result, lambda v: change(v) if next(arrays) == array else v)

        return accepts(test, changing.wrapped(right, spoil))

    seen = []

    def turned(value):
        flat = np.ravel(changing.plain(value))
        number = np.argmax(abs(flat)) if flat.size else 0
        seen.append(flat.size > 1 and abs(flat[number]) > CLOSE)
        return changing.spoilt(value, number, -2 * flat[number]) if seen[-1] else value

    def lost(value):
        flat = np.ravel(changing.plain(value))
        return changing.spoilt(value, np.argmax(abs(flat)), 1000) if flat.size else value

    return takes(turned) and bool(seen) and all(seen) and not takes(lost)


def truth(value: Any) -> bool:
    """Whether what a test returns says yes; an array, if all of it does."""
    return bool(np.all(changing.plain(value)))
