"""First half of a task: run the student's object on the probe inputs and keep plain arrays.

What it returns, an `Observation`, can travel as bytes, so that the second half, judging, may live
in another process, out of reach of the student's code.
"""

import io
import json
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from normkit.by_hand import named_in, watching
from normkit.messages import N_
from normkit.mistakes import ALGORITHMS, Mistake, mistakes_of

Named = Iterator[tuple[str, Any]]  # results by name, in the order in which they are judged
LARGEST = 10_000  # numbers kept of one result


@dataclass(frozen=True)
class Probe:
    """One set of inputs. `rough`: a wrong result is rounding noise, different on every machine."""

    name: str
    inputs: Mapping[str, Any]
    tolerance: float = 1e-6
    rough: bool = False


@dataclass(frozen=True, eq=False)
class Task:
    """What a student writes: how to use it, on which probes, the right answer, the mistakes.

    by_hand: the ready-made functions that it may not call, as `normkit.by_hand` names them.
    """

    name: str
    algorithm: str
    use: Callable[..., Named]
    reference: Callable[[], Any]
    probes: Callable[[np.random.Generator], Sequence[Probe]]
    at_once: int = 2  # as many mistakes are looked for together
    rows: tuple[str, ...] = ()  # the results whose mean and variance per token say something
    by_hand: tuple[str, ...] = ()

    @property
    def chapter(self) -> str:
        return ALGORITHMS[self.algorithm].chapter

    @property
    def mistakes(self) -> list[Mistake]:
        return mistakes_of(self.algorithm)

    def draw(self, seed: int) -> Sequence[Probe]:
        return self.probes(np.random.default_rng(seed))


TASKS: dict[str, Task] = {}


def add(*tasks: Task) -> None:
    """Record tasks by their names."""
    TASKS.update({task.name: task for task in tasks})


def parts(result: Any, *names: str) -> Named:
    """The parts of a result by name; if they are not so many, the result as it is."""
    if isinstance(result, (tuple, list)) and len(result) == len(names):
        yield from zip(names, result, strict=True)
    else:
        yield N_("result"), result


def find(task: Task | str) -> Task:
    """The task of that name."""
    if isinstance(task, str) and task not in TASKS:
        raise ValueError(f"There is no task {task!r}; the tasks are: {', '.join(TASKS)}.")
    return TASKS[task] if isinstance(task, str) else task


@dataclass
class Result:
    """What one probe returned: arrays and the kinds of object they were, an error, side effects."""

    values: dict[str, np.ndarray] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    error: str = ""
    modified: list[str] = field(default_factory=list)


@dataclass
class Observation:
    """The results of an answer on all probes: plain data, which travels without pickle.

    ready_made: what it calls although the task asks to build it.
    """

    results: list[Result]
    ready_made: list[str] = field(default_factory=list)

    def to_bytes(self) -> bytes:
        arrays = {f"{i}/{k}": v for i, r in enumerate(self.results) for k, v in r.values.items()}
        results = [{k: getattr(r, k) for k in ("kinds", "error", "modified")} for r in self.results]
        facts = {"results": results, "ready_made": self.ready_made}
        file = io.BytesIO()
        np.savez(file, facts=np.array(json.dumps(facts)), **arrays)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Observation":
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            facts = json.loads(str(file["facts"]))
            results = [Result(**of_one) for of_one in facts["results"]]
            for key in file.files:
                if key != "facts":
                    index, name = key.split("/", 1)
                    results[int(index)].values[name] = file[key]
        return cls(results, facts["ready_made"])


def observe(answer: Any, task: Task | str, seed: int = 0) -> Observation:
    """Run an answer on the probes of a task. Never raises, whatever the answer does."""
    task = find(task)
    results, ready_made = [], []
    for probe in task.draw(seed):
        interrupted = results and results[-1].error.startswith("KeyboardInterrupt")
        with watching(task.by_hand, ready_made):
            result = results[-1] if interrupted else run_probe(answer, task, probe)
        results.append(result)
    found = [*named_in(answer, task.by_hand), *ready_made]
    return Observation(results, list(dict.fromkeys(found)))


def run_probe(
    answer: Any, task: Task, probe: Probe, goes_on: Callable[..., bool] = lambda name, value: True
) -> Result:
    """What an answer does with one probe, whatever that is; as long as a result `goes_on`."""
    result = Result()
    given = {name: _copy(value) for name, value in probe.inputs.items()}
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for name, value in task.use(answer, **given):
                result.kinds[name] = _kind(value)
                result.values[name] = _plain(value)
                if not goes_on(name, result.values[name]):
                    break
    except BaseException as error:  # SystemExit and KeyboardInterrupt too: this is not our code
        result.error = _describe(error)
    result.modified = [k for k, v in probe.inputs.items() if not _same(v, given[k])]
    return result


def _copy(value):
    return np.copy(value, order="K") if isinstance(value, np.ndarray) else value


def _same(before, after):
    return not isinstance(before, np.ndarray) or bool(np.array_equal(before, after))


def _kind(value) -> str:
    """The name of the type, with the subclasses of a type that will do under its name."""
    for kind in (np.ndarray, bool):
        if isinstance(value, kind):
            return kind.__name__
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}[{len(value)}]"
    return "bool" if isinstance(value, np.bool_) else type(value).__name__


def _plain(value) -> np.ndarray:
    """A copy as a plain array; of what holds no numbers, only the kind is kept."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
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
