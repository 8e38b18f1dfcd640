"""A test of a program is tried: what it is wrong about first, and how that comes.

The programs travel as text, so that it can be observed where they are not installed.
"""

import time
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from normkit.tutor.find_the_bug import changing, seeing
from normkit.tutor.tasks import Named


def use_test(answer, bug, program, **texts) -> Named:
    """What a test says of a program, unless it is wrong about one before: that is enough to know.

    Another error than AssertionError that it meets on a right program is passed on.
    """
    if not callable(answer):
        raise TypeError(f"{type(answer).__name__!r} object is not callable")
    names = [*SOUND, ONE_SIDED, *(name for name in texts if name not in SOUND)]
    if program == names[0] or TRIED.get("test") is not answer or TRIED["bug"] != bug:
        TRIED.update(test=answer, bug=bug, found=_first_wrong(answer, bug, texts))
    name, symptom = TRIED["found"]
    if name in names[: names.index(program)]:
        return
    if name == program and symptom == "breaks off":
        yield "symptom", symptom
        seeing.ran(answer, _programs(texts)[name])
    yield f"accepts(test_{bug}, {program})", (program in SOUND) != (name == program)
    if name == program:
        yield "symptom", symptom


SOUND = "right_program", "rounded_otherwise"  # the programs that are right
ONE_SIDED = "wrong_on_one_side"  # a program that is made for the test
TRIED: dict[str, Any] = {}  # the test that was tried last, and what it is wrong about


def _programs(texts: dict[str, str]) -> dict[str, Any]:
    """The programs that a test is tried on, in this order."""
    found = {name: changing.made(text) for name, text in texts.items()}
    right = found.pop(SOUND[0])
    return dict(zip(SOUND, (right, changing.results(right, changing.nudged)), strict=True)) | found


def _first_wrong(test: Callable, bug: str, texts: dict[str, str]) -> tuple[str, str]:
    """The first program that a test is wrong about, and how that comes; "" for both if none is."""
    programs = _programs(texts)
    if not seeing.called(test, programs[SOUND[0]]):
        for says, name in ((seeing.fails, SOUND[0]), (seeing.accepts, f"wrong_{bug}")):
            if says(test, programs[name]):
                return name, "not called"
    for name, program in programs.items():
        if name == f"wrong_{bug}":
            symptom = seeing.one_sided(test, programs[SOUND[0]])
            if symptom and symptom == seeing.one_sided(test, programs[SOUND[0]]):  # not by chance
                return ONE_SIDED, symptom
        said = _said(test, program)
        if len(said) > 1:
            return name, "draws anew"
        if said != {name in SOUND}:
            return name, _symptom(test, bug, name, programs)
    return "", ""


def _said(test: Callable, program: Any) -> set[bool]:
    """What a test says of a program: several times, if it is quick, for it may draw numbers."""
    said, end = set(), time.process_time() + 0.05
    for _time in range(5):
        said.add(seeing.accepts(test, program))
        if time.process_time() > end:
            break
    return said


def _symptom(test: Callable, bug: str, name: str, programs: dict[str, Any]) -> str:
    """How a test comes to be wrong about a program, as far as programs of other kinds show it."""
    right, _rounded, given, *relatives = programs.values()
    anything = all(
        seeing.takes(test, right, change) for change in (changing.far_off, changing.far_below)
    )
    if name in SOUND:
        return "last digits" if name == SOUND[1] else _refused(test, right, given, anything)
    if anything and programs[name] is given:
        return _asserted(test, bug, right, given, relatives)
    parted = seeing.parting(test, bug, right, programs[name])
    if isinstance(parted, str):
        return parted
    if anything:
        return _given_refused(test, bug, right, given, relatives)
    return _compared(test, right, parted, programs[name] is given)


def _given_refused(test: Callable, bug: str, right: Any, given: Any, relatives: list[Any]) -> str:
    """How a test that accepts any numbers refuses the given program: by its numbers, or by more."""
    by_numbers = all(
        seeing.accepts(test, other) or isinstance(seeing.parting(test, bug, given, other), str)
        for other in relatives
    )
    alone = by_numbers and not _calls_compared(test, right)
    return "given refused alone" if alone else "another accepted"


def _compared(test: Callable, right: Any, parted: list[tuple[int, int, int]], given: bool) -> str:
    """How a test that compares numbers accepts a program which parts from the right one there."""
    if given and _calls_compared(test, right):
        return "calls compared"
    if not any(seeing.looks_at(test, right, *place) for place in parted):
        return "not looked at"
    return "other numbers will do" if given else "another accepted"


def _refused(test: Callable, right: Any, given: Any, anything: bool) -> str:
    """How a test refuses the right program."""
    try:
        seeing.ran(test, right)
    except AssertionError:
        pass
    except Exception:
        return "breaks off"
    if anything:
        return "reversed"
    if seeing.accepts(test, given):
        return "accepts the wrong one"
    if seeing.accepts(test, changing.without_eps(right)):
        return "eps left out"
    digits = () if isinstance(right, type) else range(2, 7)  # what a layer keeps is not rounded
    rounded = any(seeing.takes(test, right, partial(changing.rounded, number)) for number in digits)
    return "rounded" if rounded else "refuses both"


def _asserted(test: Callable, bug: str, right: Any, given: Any, relatives: list[Any]) -> str:
    """Why a test accepts the given program, and any numbers."""
    returned, _printed = seeing.ran(test, given)
    off = changing.results(right, changing.far_off)
    signs = {
        "error caught": lambda: seeing.catches(test, off),
        "returned": lambda: returned is not None and not seeing.truth(seeing.ran(test, off)[0]),
        "printed": lambda: seeing.ran(test, right)[1] != seeing.ran(test, off)[1],
        "shapes compared": lambda: (
            seeing.fails(test, changing.results(right, changing.cut))
            and all(
                seeing.takes(test, right, change) for change in (changing.zeros, changing.drawn)
            )
        ),
        "compared with itself": lambda: (
            _calls_compared(test, right) and _same_each_time(test, right, relatives)
        ),
        "calls compared": lambda: _calls_compared(test, right),
    }
    if sign := next((sign for sign, seen in signs.items() if seen()), ""):
        return sign
    inside = isinstance(right, type) and seeing.fails(test, changing.other_inside(right))
    plain = [changing.results(right, change) for change in (changing.zeros, changing.drawn)]
    plain += [changing.wrapped(right, partial(changing.returned, number)) for number in range(5)]
    if not inside and all(seeing.accepts(test, program) for program in plain):
        return "nothing asserted"
    parted = seeing.parting(test, bug, right, given)
    return parted if isinstance(parted, str) else "not looked at" if inside else "little asked"


def _same_each_time(test: Callable, right: Any, relatives: list[Any]) -> bool:
    """Whether all calls of a test come twice, and it accepts whatever is the same each time."""
    calls = seeing.calls(test, right)
    twice = all(sum(_alike(call, other) for other in calls) > 1 for call in calls)
    return twice and all(seeing.accepts(test, relative) for relative in relatives)


def _alike(call: list[Any], other: list[Any]) -> bool:
    return len(call) == len(other) and all(map(np.array_equal, call, other))


def _calls_compared(test: Callable, right: Any) -> bool:
    """Whether it is one call with another that a test compares."""
    numbers = count(1)

    def apart(result, *_given):
        number = 5 * next(numbers)
        return changing.each(result, lambda value: value + number)

    return not seeing.accepts(test, changing.wrapped(right, apart)) and seeing.takes(
        test, right, lambda value: value + 5
    )
