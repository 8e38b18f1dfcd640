"""Second half of a task: compare what was observed with the reference and with every mistake.

No student's code runs here: the inputs are drawn again from the seed.
"""

import itertools
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import wcwidth

from normkit.messages import N_, translator
from normkit.mistakes import Mistake, combine
from normkit.observing import Observation, Probe, Result, Task, find, observe, run_probe


@dataclass(frozen=True)
class Difference:
    """How a result first differs: `what`, on which probe, in which result, what came for what."""

    what: str
    probe: Probe
    name: str = ""
    came: Any = None
    expected: Any = None


@dataclass(frozen=True)
class Verdict:
    """The judgement: passed, or the mistakes that explain all results, and what first differs."""

    task: Task
    count: int
    difference: Difference | None = None
    mistakes: tuple[Mistake, ...] = ()

    @property
    def passed(self) -> bool:
        return self.difference is None

    def explain(self, language: str = "en") -> str:
        """The verdict in words, with numbers and where to read on; at most about ten lines."""
        _ = translator(language)
        if self.passed:
            text = _("✓ {task}: right on all {count} inputs.")
            return text.format(task=self.task.name, count=self.count)
        lines = [_("✗ {task}: not right yet.").format(task=self.task.name)]
        lines += _advice(self, _)
        if self.difference.what != "ready_made":
            lines += _evidence(self, _)
        lines += [_("Read on: {address}").format(address=_address(self, language))]
        return "\n".join(lines)


def judge(observation: Observation, task: Task | str, seed: int = 0) -> Verdict:
    """Compare an observation with the reference and with the mistakes; runs no student's code."""
    task = find(task)
    found = differences(observation, task, seed)
    if observation.ready_made:
        name = observation.ready_made[0]
        return Verdict(task, len(found), Difference("ready_made", task.draw(seed)[0], name))
    first = next(filter(None, found), None)
    if first is None:
        return Verdict(task, len(found))
    mistakes = _explaining(task, task.draw(seed), observation.results)
    return Verdict(task, len(found), first, mistakes)


def differences(observation: Observation, task: Task, seed: int = 0) -> list[Difference | None]:
    """How the result on each probe first differs from the reference, None where it does not."""
    probes, seen = task.draw(seed), observation.results
    if len(seen) != len(probes):
        raise ValueError(f"{task.name} has {len(probes)} probes, but {len(seen)} were observed.")
    right = observe(task.reference(), task, seed).results
    return list(map(_difference, itertools.repeat(task), probes, seen, right))


def _explaining(task: Task, probes, seen) -> tuple[Mistake, ...]:
    """The mistake that returns on all probes what was seen; failing that, several together."""
    for number in range(1, task.at_once + 1):
        for mistakes in itertools.combinations(task.mistakes, number):
            steps = [step for mistake in mistakes for step in mistake.changes]
            if len(set(steps)) == len(steps):
                wrong = combine(task.algorithm, *mistakes)
                if all(_alike(wrong, task, *pair) for pair in zip(probes, seen, strict=True)):
                    return mistakes
    return ()


def _alike(wrong: Any, task: Task, probe: Probe, seen: Result) -> bool:
    """Whether `wrong` returns what was seen, or noise where noise was seen."""

    def near(name, value):
        return name in seen.values and distance(seen.values[name], value) <= probe.tolerance

    if not probe.rough:
        return _agree(seen, run_probe(wrong, task, probe, near), probe)
    predicted = run_probe(wrong, task, probe)
    exact = run_probe(wrong, task, replace(probe, inputs=_precise(probe.inputs)))
    return _agree(seen, exact, probe) == _agree(predicted, exact, probe)


def _precise(inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v.astype(float) if isinstance(v, np.ndarray) else v for k, v in inputs.items()}


def _agree(a: Result, b: Result, probe: Probe) -> bool:
    return (
        bool(a.error) == bool(b.error)
        and a.values.keys() == b.values.keys()
        and all(distance(a.values[k], b.values[k]) <= probe.tolerance for k in a.values)
    )


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference, relative to the largest number of b; inf if not comparable."""
    if a.shape != b.shape:
        return np.inf
    if a.dtype.kind not in "iuf" or b.dtype.kind not in "iuf":
        return 0.0 if a.dtype.kind == b.dtype.kind and np.array_equal(a, b) else np.inf
    a, b = a.astype(float), b.astype(float)
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return np.inf
    gap = np.abs(a[finite] - b[finite]).max(initial=0)
    return gap / max(np.abs(b[finite]).max(initial=0), 1e-3) if np.isfinite(gap) else np.inf


def _difference(task: Task, probe: Probe, seen: Result, right: Result) -> Difference | None:
    """What first differs from the reference, from the coarsest to the finest."""
    for name, expected in right.values.items():
        if name not in seen.values:
            break
        kinds = seen.kinds.get(name), right.kinds[name]
        if kinds[0] != kinds[1]:
            return Difference("type", probe, name, *kinds)
        came = seen.values[name]
        if what := _array_difference(came, expected, probe, name in task.rows):
            return Difference(what, probe, name, came, expected)
    if seen.error:
        return Difference("error", probe, came=seen.error)
    if seen.values.keys() != right.values.keys():
        return Difference("results", probe, "", *map(_names, (seen, right)))
    if seen.modified:
        return Difference("modified", probe, ", ".join(seen.modified))
    return None


NOTHING = N_("nothing")


def _names(result: Result) -> str:
    return ", ".join(f"{name} ({kind})" for name, kind in result.kinds.items()) or NOTHING


def _array_difference(came, expected, probe, rows) -> str:
    if expected.dtype.kind != "f":
        return "" if distance(came, expected) == 0 else "values"
    if came.shape != expected.shape:
        return "shape"
    if came.dtype != expected.dtype:
        return "dtype"
    if distance(came, expected) <= probe.tolerance:
        return ""
    if not np.isfinite(came).all():
        return "nan"
    if rows and _first_row(came, expected, probe.tolerance) is not None:
        return "statistics"
    return "values"


def _first_row(came, expected, tolerance) -> tuple[int, ...] | None:
    """The first token whose mean or variance is not the expected one."""
    off = [abs(f(came, axis=-1) - f(expected, axis=-1)) > tolerance for f in (np.mean, np.var)]
    return next(iter(map(tuple, np.argwhere(off[0] | off[1]).tolist())), None)


# --- In words ---------------------------------------------------------------------------------

WIDTH = 88
SMALL = 8  # an array of so many numbers is shown whole
NUMBERS = {"nan", "statistics", "values"}  # differences that two arrays show
SENTENCES = {
    "error": N_("An exception was raised: {came}"),
    "type": N_("The type of {name} is {came} instead of {expected}."),
    "results": N_("Returned: {came}. Expected: {expected}."),
    "shape": N_("The shape of {name} is {came} instead of {expected}."),
    "dtype": N_("The dtype of {name} is {came} instead of {expected}."),
    "nan": N_("There are infinite values or nan in {name}."),
    "statistics": N_(
        "Token {token} of {name} has mean {mean} and variance {var}; expected: mean {right_mean} "
        "and variance {right_var}."
    ),
    "modified": N_("{name} was changed in place. The caller still needs it: work on a copy."),
}
SOLID = "\0"  # a space at which no line breaks


def _advice(verdict: Verdict, _) -> list[str]:
    messages = [_(mistake.message) for mistake in verdict.mistakes]
    if verdict.difference.what == "ready_made":
        text = _("{name} does this for you. Write it yourself: the task says what is not allowed.")
        messages = [text.format(name=verdict.difference.name)]
    if not messages and verdict.difference.what in NUMBERS:
        messages = [_("No mistake that the course knows explains this, nor do two together.")]
    if len(messages) > 1:
        messages = [f"{i}. {message}" for i, message in enumerate(messages, 1)]
        messages.insert(0, _("Together, these mistakes explain all results:"))
    return [line for message in messages for line in _wrap(message)]


def _evidence(verdict: Verdict, _) -> list[str]:
    """The input on which it shows first, and what came there instead of what."""
    found = verdict.difference
    facts = {"name": _(found.name), "came": found.came, "expected": found.expected}
    if found.what in ("shape", "dtype"):
        facts |= {key: getattr(facts[key], found.what) for key in ("came", "expected")}
    if found.what == "results":
        facts |= {key: _(facts[key]) for key in ("came", "expected")}
    if found.what == "statistics":
        facts |= _statistics(found.came, found.expected, found.probe.tolerance)
    inputs = [text.replace(" ", SOLID) for text in telling(found.probe.inputs)]
    place = _("First seen on: {input}").format(input=" · ".join([_(found.probe.name), *inputs]))
    lines = _wrap(place)
    if found.what not in NUMBERS or (found.what in SENTENCES and not verdict.mistakes):
        lines += _wrap(_(SENTENCES[found.what]).format(**facts))
    if found.what in NUMBERS:
        lines += _numbers(facts["name"], found.came, found.expected, _("expected"))
    return lines


def telling(inputs: Mapping[str, Any]) -> list[str]:
    """The inputs as text, constant arrays and eps aside; if that is too much, the shape of x."""
    arrays = {name: v for name, v in inputs.items() if isinstance(v, np.ndarray)}
    told = {name: _show(v, 4) for name, v in arrays.items() if v.size < 2 or np.ptp(v) > 0}
    if sum(map(len, told.values())) > 1.5 * WIDTH:
        name = "x" if "x" in arrays else next(iter(arrays))
        told = {f"{name}.shape": str(arrays[name].shape)}
    numbers = {name: v for name, v in inputs.items() if type(v) in (int, float) and name != "eps"}
    told |= {name: _show(number, 4) for name, number in numbers.items()}
    return [f"{name} = {text}" for name, text in told.items()]


def _wrap(text: str) -> list[str]:
    lines = wcwidth.wrap(text, WIDTH, break_on_hyphens=False)
    for i in range(1, len(lines)):
        if lines[i][0] in "，。、；：！？）":  # begins no line
            lines[i - 1], lines[i] = lines[i - 1] + lines[i][0], lines[i][1:].lstrip()
    return [line.replace(SOLID, " ") for line in lines]


def _statistics(came, expected, tolerance) -> dict[str, Any]:
    token = _first_row(came, expected, tolerance)
    moments = {
        name: _show(moment(array[token]), 4)
        for array, names in ((came, ("mean", "var")), (expected, ("right_mean", "right_var")))
        for name, moment in zip(names, (np.mean, np.var), strict=True)
    }
    return {"token": ", ".join(map(str, token)) or 0, **moments}


def _numbers(name, came, expected, label) -> list[str]:
    name, *texts = compared(name, came, expected)
    width = max(map(wcwidth.wcswidth, (name, label)))  # Chinese characters take two columns
    return [
        f"  {wcwidth.ljust(t, width)} {text}" for t, text in zip((name, label), texts, strict=True)
    ]


def compared(name: str, came: np.ndarray, expected: np.ndarray) -> tuple[str, str, str]:
    """Both arrays as text, or where they differ most; with as many digits as it takes to see it."""
    if expected.size > SMALL:
        gap = np.where(np.isfinite(came), np.abs(came - expected), np.inf)
        worst = tuple(map(int, np.unravel_index(np.argmax(gap), gap.shape)))
        name, came, expected = f"{name}{list(worst)}", came[worst], expected[worst]
    digits = next((d for d in (4, 8) if _show(came, d) != _show(expected, d)), 16)
    return name, _show(came, digits), _show(expected, digits)


def _show(value, digits: int) -> str:
    """An array on one line, without trailing zeros."""

    def number(x):
        return np.format_float_positional(round(float(x), digits) + 0.0, trim="-")

    text = np.array2string(np.asarray(value), separator=", ", formatter={"float_kind": number})
    return " ".join(text.split())


def _address(verdict: Verdict, language: str) -> str:
    """The places in the book: those of the mistakes, or the page of the task."""
    places = [f"{m.page}.html#{m.label}" for m in verdict.mistakes] or [f"{verdict.task.page}.html"]
    book = os.environ.get("NORMKIT_BOOK", "")
    return " · ".join(f"{book}{language}/{place}" for place in dict.fromkeys(places))
