"""Second half of a task: compare what was observed with the reference and with every mistake.

No student's code runs here: the inputs are drawn again from the seed.
"""

import itertools
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from normkit.messages import N_, book, columns, translator
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
    """The judgement: passed, or the mistakes that explain the results, and what first differs.

    alone: the only result that the mistakes explain. right: the results that are right on all
    probes. missing: those that are None. changed: the inputs that were changed in place.
    """

    task: Task
    count: int
    difference: Difference | None = None
    mistakes: tuple[Mistake, ...] = ()
    alone: str = ""
    right: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return self.difference is None

    @property
    def untouched(self) -> bool:
        found = self.difference
        return found.what == "error" and found.came.startswith(NotImplementedError.__name__)

    def explain(self, language: str = "en") -> str:
        """The verdict in words, with numbers and where to read on; at most about ten lines."""
        _ = translator(language)
        if self.passed:
            text = (
                _("✓ {task}: right in all {count} checks.")
                if self.count > 1
                else _("✓ {task}: right.")
            )
            return text.format(task=self.task.name, count=self.count)
        lines = [_("✗ {task}: not right yet.").format(task=self.task.name)]
        lines += [*_progress(self, _), *_advice(self, _)]
        if self.difference.what not in ("ready_made", "missing") and not self.untouched:
            lines += _evidence(self, _)
        lines += [_("Read on: {address}").format(address=_address(self, language))]
        return "\n".join(lines)


def judge(observation: Observation, task: Task | str, seed: int = 0) -> Verdict:
    """Compare an observation with the reference and with the mistakes; runs no student's code."""
    task = find(task)
    probes, seen, right = _compared(observation, task, seed)
    if observation.ready_made:
        first = Difference("ready_made", probes[0], observation.ready_made[0])
        return Verdict(task, len(probes), first)
    first = next(filter(None, _differences(task, probes, seen, right)), None)
    verdict = Verdict(task, len(probes), first)
    return verdict if verdict.passed else _diagnosed(verdict, probes, seen, right)


def differences(observation: Observation, task: Task, seed: int = 0) -> list[Difference | None]:
    """How the result on each probe first differs from the reference, None where it does not."""
    return _differences(task, *_compared(observation, task, seed))


def _compared(observation: Observation, task: Task, seed: int) -> tuple[Sequence, ...]:
    """The probes, what was seen on them, and what is right."""
    probes, seen = task.draw(seed), observation.results
    if len(seen) != len(probes):
        raise ValueError(f"{task.name} has {len(probes)} probes, but {len(seen)} were observed.")
    return probes, seen, observe(task.reference(), task, seed).results


def _differences(task, probes, seen, right) -> list[Difference | None]:
    return list(map(_difference, itertools.repeat(task), probes, seen, right))


def _diagnosed(verdict: Verdict, probes, seen, right) -> Verdict:
    """What explains all results; else those that are not None; else the first wrong one alone."""
    task = verdict.task
    if verdict.untouched:
        return verdict
    if mistakes := _explaining(task, probes, seen):
        return replace(verdict, mistakes=mistakes, changed=_changed(task, probes, seen, mistakes))
    names = list(dict.fromkeys(name for result in right for name in result.values))
    fine = [n for n in names if not any(_differences(task, probes, *_only([n], seen, right)))]
    if missing := [name for name in names if _is_none(name, seen, right)]:
        verdict = replace(verdict, right=tuple(fine), missing=tuple(missing))
        written = _only(set(names).difference(missing), seen, right)
        first = next(filter(None, _differences(task, probes, *written)), None)
        if first is None:
            return replace(verdict, difference=Difference("missing", probes[0]))
        mistakes = _explaining(task, probes, written[0], lambda name: name not in missing)
        verdict = replace(verdict, difference=first, mistakes=mistakes)
    return verdict if verdict.mistakes or len(names) == 1 else _alone(verdict, probes, seen, fine)


def _changed(task: Task, probes, seen, mistakes) -> tuple[str, ...]:
    """The inputs that an answer changed in place, although its mistakes do not."""
    wrong = combine(task.algorithm, *mistakes)
    own = {name for probe in probes for name in run_probe(wrong, task, probe).modified}
    return tuple(dict.fromkeys(n for result in seen for n in result.modified if n not in own))


def _alone(verdict: Verdict, probes, seen, fine: Sequence[str]) -> Verdict:
    """With the mistake that explains the first wrong result, if just one does."""
    task, name = verdict.task, verdict.difference.name
    (seen,) = _only([name], seen)
    able = [m for m in task.mistakes if _explain(task, probes, seen, [m], name.__eq__)]
    if len(able) != 1:
        return verdict
    return replace(verdict, mistakes=tuple(able), alone=name, right=tuple(fine))


def _is_none(name: str, seen: Sequence[Result], right: Sequence[Result]) -> bool:
    """Whether a result is None wherever it was returned, and was to be something else."""
    pairs = zip(seen, right, strict=True)
    kinds = {(a.kinds[name], b.kinds.get(name)) for a, b in pairs if name in a.kinds}
    return bool(kinds) and all(kind == "NoneType" != wanted for kind, wanted in kinds)


def _only(names: Container[str], *several: Sequence[Result]) -> list[list[Result]]:
    """Of each result what bears these names."""

    def part(of):
        return {name: value for name, value in of.items() if name in names}

    return [[Result(part(r.values), part(r.kinds)) for r in results] for results in several]


Counts = Callable[[str], bool] | None  # which results count, by name; all


def _explaining(task: Task, probes, seen, counts: Counts = None) -> tuple[Mistake, ...]:
    """The mistake that returns on all probes what was seen; failing that, several together."""
    for number in range(1, task.at_once + 1):
        for mistakes in itertools.combinations(task.mistakes, number):
            steps = [step for mistake in mistakes for step in mistake.changes]
            if len(set(steps)) == len(steps) and _explain(task, probes, seen, mistakes, counts):
                return mistakes
    return ()


def _explain(task: Task, probes, seen, mistakes, counts: Counts) -> bool:
    """Whether these mistakes together return what was seen, of the results that count.

    Where nothing but exceptions was seen, several must raise the same ones: they fit too easily.
    """
    wrong = combine(task.algorithm, *mistakes)
    if not all(_alike(wrong, task, *pair, counts) for pair in zip(probes, seen, strict=True)):
        return False
    if len(mistakes) == 1 or any(result.values for result in seen):
        return True
    return [run_probe(wrong, task, probe).error for probe in probes] == [r.error for r in seen]


def _alike(wrong: Any, task: Task, probe: Probe, seen: Result, counts: Counts) -> bool:
    """Whether `wrong` returns what was seen, or noise where noise was seen."""

    def near(name, value):
        if counts and not counts(name):
            return True
        return name in seen.values and distance(seen.values[name], value) <= probe.tolerance

    def returned(probe, goes_on=lambda name, value: True):
        result = run_probe(wrong, task, probe, goes_on)
        return _only([*filter(counts, result.values)], [result])[0][0] if counts else result

    if not probe.rough:
        return _agree(seen, returned(probe, near), probe)
    exact = returned(replace(probe, inputs=_precise(probe.inputs)))
    return _agree(seen, exact, probe) == _agree(returned(probe), exact, probe)


def _precise(inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v.astype(float) if isinstance(v, np.ndarray) else v for k, v in inputs.items()}


# what libraries raise, now this and now that, for an array or a layer that does not fit
MISFITS = {"AttributeError", "AxisError", "IndexError", "RuntimeError", "TypeError", "ValueError"}


def _agree(a: Result, b: Result, probe: Probe) -> bool:
    return (
        _failure(a) == _failure(b)
        and a.values.keys() == b.values.keys()
        and all(distance(a.values[k], b.values[k]) <= probe.tolerance for k in a.values)
    )


def _failure(result: Result) -> str:
    """Whether it failed; before its first value also how, the misfits being of one kind."""
    name = result.error.split(":")[0]
    return "misfit" if name in MISFITS or (name and result.values) else name


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
        return Difference("results", probe, "", seen.kinds, right.kinds)
    if seen.modified:
        return Difference("modified", probe, ", ".join(seen.modified))
    return None


def _array_difference(came, expected, probe, rows) -> str:
    if expected.dtype.kind != "f":
        return "" if distance(came, expected) == 0 else "values"
    if came.shape != expected.shape:
        return "shape"
    if came.dtype != expected.dtype:
        return "dtype"
    if distance(came, expected) <= probe.tolerance:
        return ""
    if came.ndim and not np.isfinite(came).all():  # a number shows by itself that it is infinite
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
LISTED = 4  # results that are listed by name
NUMBERS = {"nan", "statistics", "values"}  # differences that two arrays show
MODIFIED = N_("Changed in place: {name}. The caller still needs it: work on a copy.")
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
    "modified": MODIFIED,
}
MISSING = N_(
    "None instead of a result: {names}. It is not written yet, or not returned; or, if it is a "
    "gradient, none arrives there."
)
UNTOUCHED = N_("It still says raise NotImplementedError: put your own code in its place.")
UNKNOWN = N_(
    "No mistake that the course knows explains this, nor do two together. Redo the worked example "
    "of the task by hand and print each of your steps: where do they part?"
)
SOLID = "\0"  # a space at which no line breaks
# where a line may end: at a space, and between two Chinese characters
HAN = "\u2e80-\u2fff\u3040-\u9fff"
PIECE = re.compile(
    rf"[ \n]*[（《“]*(?:[{HAN}]|[^ \n，。、；：！？（）《》{HAN}]+|.)[，。、；：！？）》”]*"
)


def _advice(verdict: Verdict, _) -> list[str]:
    messages = [_(mistake.message) for mistake in verdict.mistakes]
    if verdict.changed:
        messages.append(_(MODIFIED).format(name=", ".join(verdict.changed)))
    if verdict.difference.what == "ready_made":
        text = _("{name} does this for you. Write it yourself: the task says what is not allowed.")
        messages = [text.format(name=verdict.difference.name)]
    if verdict.untouched:
        return _wrap(_(UNTOUCHED))
    if not messages and verdict.difference.what in NUMBERS:
        messages = [_(UNKNOWN)]
    if len(messages) > 1:
        messages = [f"{i}. {message}" for i, message in enumerate(messages, 1)]
        if not verdict.alone:
            messages.insert(0, _("Together, these mistakes explain all results:"))
    return [line for message in messages for line in _wrap(message)]


def _progress(verdict: Verdict, _) -> list[str]:
    """What is right already, what is missing, and what the advice is about."""

    def listed(names):
        shown = [*map(_, names[:LISTED]), *["…"] * (len(names) > LISTED)]
        return ", ".join(shown)

    lines = []
    if verdict.right:
        lines.append(_("Right already: {names}.").format(names=listed(verdict.right)))
    if verdict.missing:
        lines.append(_(MISSING).format(names=listed(verdict.missing)))
    if verdict.alone:
        lines.append(_("{name}, looked at alone:").format(name=_(verdict.alone)))
    return [line for text in lines for line in _wrap(text)]


def _evidence(verdict: Verdict, _) -> list[str]:
    """The input on which it shows first, and what came there instead of what."""
    found = verdict.difference
    facts = {"name": _(found.name), "came": found.came, "expected": found.expected}
    if found.what in ("shape", "dtype"):
        facts |= {key: getattr(facts[key], found.what) for key in ("came", "expected")}
    if found.what == "results":
        facts |= {key: _kinds(facts[key], _) for key in ("came", "expected")}
    told = found.what not in NUMBERS or (found.what in SENTENCES and not verdict.mistakes)
    if found.what == "statistics":
        facts |= _statistics(found.came, found.expected, found.probe.tolerance)
        told &= any(facts[name] != facts[f"right_{name}"] for name in ("mean", "var"))
    inputs = [
        text.replace(" ", SOLID) if len(text) <= WIDTH else text
        for text in telling(found.probe.inputs)
    ]
    place = _("First seen on: {input}").format(input=" · ".join([_(found.probe.name), *inputs]))
    lines = _wrap(place)
    if told:
        lines += _wrap(_(SENTENCES[found.what]).format(**facts))
    if found.what in NUMBERS:
        lines += _numbers(facts["name"], found.came, found.expected, _("expected"))
    return lines


def _kinds(results: Mapping[str, str], _) -> str:
    return ", ".join(f"{_(name)} ({kind})" for name, kind in results.items()) or _("nothing")


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
    """Lines of at most WIDTH columns, of which none begins with a punctuation mark."""
    lines = [""]
    for piece in PIECE.findall(text):
        if lines[-1] and columns(lines[-1] + piece) > WIDTH:
            lines.append("")
        lines[-1] += piece if lines[-1] else piece.lstrip(" \n")
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
    width = max(map(columns, (name, label)))
    return [
        f"  {t}{' ' * (width - columns(t))} {text}"
        for t, text in zip((name, label), texts, strict=True)
    ]


def compared(name: str, came: np.ndarray, expected: np.ndarray) -> tuple[str, str, str]:
    """Both arrays as text, or where they differ most; with as many digits as it takes to see it."""
    if expected.size > SMALL:
        gap = np.where(np.isfinite(came), np.abs(came - expected), np.inf)
        worst = tuple(map(int, np.unravel_index(np.argmax(gap), gap.shape)))
        space = " " if " " in name else ""  # after words
        name, came, expected = f"{name}{space}{list(worst)}", came[worst], expected[worst]
    digits = next((d for d in (4, 8) if _show(came, d) != _show(expected, d)), 16)
    return name, _show(came, digits), _show(expected, digits)


def _show(value, digits: int) -> str:
    """An array on one line, without trailing zeros."""

    def number(x):
        return np.format_float_positional(round(float(x), digits) + 0.0, trim="-")

    text = np.array2string(np.asarray(value), separator=", ", formatter={"float_kind": number})
    return " ".join(text.split())


def _address(verdict: Verdict, language: str) -> str:
    """The places in the book: those of the mistakes, or the chapter of the task."""
    places = [f"{m.page}#{m.label}" for m in verdict.mistakes] or [verdict.task.chapter]
    pages = (place.replace("#", ".html#") if "#" in place else f"{place}.html" for place in places)
    return " · ".join(f"{book()}{language}/{page}" for page in dict.fromkeys(pages))
