"""First half of a task: run the student's object on the probe inputs and keep plain arrays.

What it returns, an `Observation`, can travel as bytes, so that the second half, judging, may live
in another process, out of reach of the student's code.
"""

import io
import json
import linecache
import math
import random
import re
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, field, replace
from traceback import walk_tb
from typing import Any

import numpy as np

from normkit.tutor.by_hand import is_a_students, named_in, watching
from normkit.tutor.meant import meant
from normkit.tutor.states import is_in_jax, is_of_jax, is_plain
from normkit.tutor.tasks import TESTED, Probe, Task, find

LARGEST = 10_000  # numbers kept of one result
LINES, LONGEST = 20, 4000  # kept of what is printed: lines, characters
# bound before an answer can put something else in their place
GENERATORS: tuple[tuple[Any, Any, Any], ...] = (
    (random.getstate, random.seed, random.setstate),
    (np.random.get_state, np.random.seed, np.random.set_state),
)


@dataclass
class Result:
    """What one probe returned: arrays and the kinds of object they were, an error, side effects.

    line: the student's line that raised the error; shapes: those of the arrays that it names;
    meant: what is perhaps meant by a name or an attribute that is not known there; tested: the
    function of a program under test, or of the probes, that raised it, if that line only calls it.
    """

    values: dict[str, np.ndarray] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    error: str = ""
    modified: list[str] = field(default_factory=list)
    line: str = ""
    shapes: dict[str, str] = field(default_factory=dict)
    meant: str = ""
    tested: str = ""
    printed: str = ""


# what is no array
PLAIN = "kinds", "error", "modified", "line", "shapes", "meant", "tested", "printed"


@dataclass
class Observation:
    """The results of an answer on all probes: plain data, which travels without pickle.

    ready_made: what it calls although the task asks to build it. plain: whether it is a layer that
    is written without PyTorch, and was used as such.
    """

    results: list[Result]
    ready_made: list[str] = field(default_factory=list)
    plain: bool = False

    def to_bytes(self) -> bytes:
        """A line of JSON, which says what the arrays are, and their bytes, one after the other."""
        every = [[np.asarray(v, order="C") for v in r.values.values()] for r in self.results]
        results = [
            {k: getattr(r, k) for k in PLAIN}
            | {"values": [[k, a.dtype.str, a.shape] for k, a in zip(r.values, arrays, strict=True)]}
            for r, arrays in zip(self.results, every, strict=True)
        ]
        others = {"ready_made": self.ready_made, "plain": self.plain}
        facts = json.dumps({"results": results, **others})
        return b"\n".join([facts.encode(), b"".join(a.tobytes() for some in every for a in some)])

    @classmethod
    def from_bytes(cls, data: bytes) -> "Observation":
        """What `to_bytes` wrote; ValueError and its like for what it never writes."""
        line, _, arrays = data.partition(b"\n")
        facts, start, results = json.loads(line), 0, []
        for of_one in facts["results"]:
            values = {}
            for name, kind, shape in of_one.pop("values"):
                dtype = np.dtype(kind)
                if dtype.kind not in "biufU" or not all(type(n) is int and n >= 0 for n in shape):
                    raise ValueError(f"an array of dtype {dtype} and shape {shape} is not observed")
                size = math.prod(shape) * dtype.itemsize
                part = np.frombuffer(arrays[start : start + size], dtype) if size else np.array([])
                values[name] = part.reshape(shape) if size else np.empty(shape, dtype)
                start += size
            results.append(Result(values, **of_one))
        return cls(results, facts["ready_made"], bool(facts["plain"]))


def observe(
    answer: Any, task: Task | str, seed: int = 0, probes: Sequence[Probe] | None = None
) -> Observation:
    """Run an answer on the probes of a task. Never raises, whatever the answer does.

    probes: those of the seed, where they are drawn elsewhere: some need what is not installed here.
    """
    task = find(task)
    plain = bool(task.plain) and is_plain(answer)
    used = find(task.plain) if plain else task
    results: list[Result] = []
    ready_made: list[str] = []
    with drawing_alike() as seeded:
        for probe in task.draw(seed) if probes is None else probes:
            interrupted = results and results[-1].error.startswith("KeyboardInterrupt")
            seeded()
            with watching(task.by_hand, ready_made), redirect_stdout(Printed()) as printed:
                result = results[-1] if interrupted else run_probe(answer, used, probe)
            results.append(replace(result, printed=printed.text()))
    found = [*named_in(answer, task.by_hand), *ready_made]
    return Observation(results, list(dict.fromkeys(found)), plain)


@contextmanager
def drawing_alike() -> Iterator[Callable[[], None]]:
    """Give what lets random numbers be drawn alike on each probe: a verdict must be no chance."""
    before = [get() for get, _seed, _set in GENERATORS]

    def seeded() -> None:
        for _get, seed, _set in GENERATORS:
            seed(0)

    try:
        yield seeded
    finally:
        for (_get, _seed, put_back), state in zip(GENERATORS, before, strict=True):
            put_back(state)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread: on tensors so small the others would only wait."""
    torch: Any = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else 0
    if torch:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        if torch:
            torch.set_num_threads(before)


def run_probe(answer: Any, task: Task, probe: Probe) -> Result:
    """What an answer does with one probe, whatever that is."""
    result = Result()
    given = copied(probe)
    try:
        given, precision = _handed(answer, given)
        with warnings.catch_warnings(), np.errstate(all="ignore"), precision:
            warnings.simplefilter("ignore")
            for name, value in task.use(answer, **given):
                result.kinds[name] = _kind(value)
                result.values[name] = _plain(value)
    except BaseException as error:  # SystemExit and KeyboardInterrupt too: this is not our code
        result.error = _describe(error)
        result.line, result.shapes, result.meant = _raised_in(error)
        result.tested = _tested(error)
    result.modified = [k for k, v in probe.inputs.items() if not _same(v, given[k])]
    return result


class Printed(io.StringIO):
    """Takes what a student prints, and keeps the beginning."""

    def write(self, text: str) -> int:
        return super().write(text) if self.tell() < LONGEST else len(text)

    def text(self) -> str:
        return "\n".join(self.getvalue().splitlines()[:LINES])[:LONGEST]


def _raised_in(error: BaseException) -> tuple[str, dict[str, str], str]:
    """The last line of a student's code that an error came through, the shapes, what is meant."""
    found = [at for at in walk_tb(error.__traceback__) if is_a_students(at[0])]
    if not found:
        return "", {}, ""
    frame, number = found[-1]
    line = linecache.getline(frame.f_code.co_filename, number).strip()
    names = dict.fromkeys(re.findall(r"[^\W\d]\w*", line))
    shapes = {n: str(s) for n in names if (s := _shape(frame.f_locals.get(n))) is not None}
    return line[:200], shapes, meant(error, line, frame)


def _tested(error: BaseException) -> str:
    """The function handed to a student that raised an error, called in the student's last line."""
    name, called = "", False
    indexed = "not subscriptable" in _describe(error)  # of the line itself it would say: brackets
    for frame, _number in walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__"))
        if is_a_students(frame):
            name, called = "", indexed
        elif module == TESTED or (called and module.startswith("normkit.tutor.")):
            name = frame.f_code.co_name
    return name


def _shape(value: Any) -> tuple[int, ...] | None:
    """The shape of an array or a tensor, of no other class: nothing of a student's runs."""
    plain = type(value) is np.ndarray or type(value).__module__.startswith("torch")
    shape = getattr(value, "shape", None) if plain else None
    return tuple(shape) if isinstance(shape, tuple) else None


def copied(probe: Probe) -> dict[str, Any]:
    """The inputs of a probe, which an answer may then change."""

    def copy(value: Any) -> Any:
        return np.copy(value, order="K") if isinstance(value, np.ndarray) else value

    return {name: copy(value) for name, value in probe.inputs.items()}


def _handed(answer: Any, given: dict[str, Any]) -> tuple[dict[str, Any], AbstractContextManager]:
    """What an answer receives, and in which precision: one in JAX, arrays of JAX in float64."""
    if not is_in_jax(answer):
        return given, nullcontext()
    import jax

    with jax.enable_x64(True):
        arrays = {k: jax.numpy.asarray(v) for k, v in given.items() if isinstance(v, np.ndarray)}
    return given | arrays, jax.enable_x64(True)


def _same(before, after):
    return not isinstance(before, np.ndarray) or bool(np.array_equal(before, np.asarray(after)))


def _kind(value: Any) -> str:
    """The name of the type, with the subclasses of a type that will do under its name."""
    if is_of_jax(value):
        return "ndarray"
    for kind in (np.ndarray, bool):
        if isinstance(value, kind):
            return kind.__name__
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}[{len(value)}]"
    return "bool" if isinstance(value, np.bool_) else type(value).__name__


def _plain(value: Any) -> np.ndarray:
    """A copy as a plain array; of what holds no numbers, only the kind is kept."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    elif is_of_jax(value):
        value = np.asarray(value)
    if not isinstance(value, (np.ndarray, np.generic, bool, int, float, str)):
        return np.array([], dtype=str)
    array = np.array(value, subok=False)
    if array.dtype.kind not in "biufU":
        raise TypeError(f"an array of dtype {array.dtype} was returned, not of numbers")
    if array.size > LARGEST:
        raise ValueError(f"an array of shape {array.shape} was returned, far too large")
    return array


def _describe(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split())
    except BaseException:
        text = ""
    name = type(error).__name__
    return f"{name}: {textwrap.shorten(text, 200, placeholder='…')}" if text else name
