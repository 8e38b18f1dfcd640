"""Tasks: what a student writes, how it is used, on which probes; the rest is named, not held.

So the first half of a task runs where programs, mistakes and references are not installed. Each
assignment records its tasks in its own folder, where they are found by name.
"""

import pkgutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np

import normkit.tutor
from normkit.messages import N_

Named = Iterator[tuple[str, Any]]  # results by name, in the order in which they are judged

TESTED = "normkit.program"  # the module of a program that an answer tests


@dataclass(frozen=True)
class Probe:
    """One set of inputs. `rough`: a wrong result is rounding noise, different on every machine."""

    name: str
    inputs: Mapping[str, Any]
    tolerance: float = 1e-6
    rough: bool = False


@dataclass(frozen=True, eq=False)
class Task:
    """What a student writes: how to use it, on which probes, and the names of what judges it.

    programs: the right programs, as `assignment/name`, whose mistakes are known; the first is the
    usual one. chapter: the page of the book, or a place on it, that teaches it. reference: what is
    right, as `module:name`; else the first program. at_once: as many mistakes are looked for
    together. rows: the results whose mean and variance per token say something. by_hand: the
    ready-made functions that it may not call, as `normkit.tutor.by_hand` names them. without: the
    mistakes that nobody makes here, but that look like others. any_dtype: the results that may have
    any dtype of floats. whole: the task of which it is a part. pairs: so many
    are tried, where two mistakes are looked for. plain: the task that takes its place for a layer
    that is written without PyTorch.
    """

    name: str
    use: Callable[..., Named]
    probes: Callable[[np.random.Generator], Sequence[Probe]]
    programs: tuple[str, ...]
    chapter: str
    reference: str = ""
    at_once: int = 2
    rows: tuple[str, ...] = ()
    by_hand: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    any_dtype: tuple[str, ...] = ()
    whole: str = ""
    pairs: int = 700
    sees: tuple[str, ...] = ()
    plain: str = ""

    def draw(self, seed: int) -> Sequence[Probe]:
        """The probes of a seed: always the same."""
        return self.probes(np.random.default_rng(seed))

    def mistakes(self, program: str) -> list[Any]:
        """The mistakes that are looked for in one of its programs, where these are installed."""
        from normkit.tutor.mistakes import mistakes_of

        return [mistake for mistake in mistakes_of(program) if mistake.name not in self.without]


TASKS: dict[str, Task] = {}  # those of the assignments that were asked for


def add(*tasks: Task) -> None:
    """Record tasks by their names."""
    TASKS.update({task.name: task for task in tasks})


def assignments() -> list[str]:
    """The names of the folders of the tutor."""
    found = pkgutil.iter_modules(normkit.tutor.__path__)
    return sorted(module.name for module in found if module.ispkg)


def every_task() -> dict[str, Task]:
    """The tasks of all assignments, by name."""
    for assignment in assignments():
        import_module(f"normkit.tutor.{assignment}.tasks")
    return TASKS


def first_half(assignment: str = "") -> list[str]:
    """The files of this package that observe the answers of an assignment; nothing that judges."""
    names = ("__init__", "tasks", "observing", "meant", "by_hand", "probes", "states")
    tasks = [f"tutor/{a}/{name}.py" for a in assignments() for name in _observing(a)]
    seen = {m for t in every_task().values() if t.name.startswith(f"{assignment}/") for m in t.sees}
    library = [f"{name}.py" for name in ("__init__", "_extras", "messages", *sorted(seen))]
    return [*library, *(f"tutor/{name}.py" for name in names), *tasks]


def _observing(assignment: str) -> list[str]:
    """The modules of an assignment that run beside a student's code."""
    folder = import_module(f"normkit.tutor.{assignment}")
    return ["__init__", "tasks", *getattr(folder, "OBSERVING", ())]


def find(task: Task | str) -> Task:
    """The task `assignment/name`; the module of its assignment is imported if need be."""
    if isinstance(task, Task):
        return task
    if task not in TASKS and (assignment := task.partition("/")[0]) in assignments():
        import_module(f"normkit.tutor.{assignment}.tasks")
    if task not in TASKS:
        raise ValueError(f"There is no task {task!r}; the tasks are: {', '.join(every_task())}.")
    return TASKS[task]


def parts(result: Any, *names: str) -> Named:
    """The parts of a result by name; if they are not so many, the result as it is."""
    if result is None and len(names) > 1:  # without return
        result = [None] * len(names)
    if isinstance(result, (tuple, list)) and len(result) == len(names):
        yield from zip(names, result, strict=True)
    else:
        yield N_("result"), result


def by_name(predictions: Any, names: Collection[str]) -> Mapping:
    """Predictions that are a dictionary still, and not under names of one's own."""
    if not isinstance(predictions, Mapping):
        raise TypeError(f"{type(predictions).__name__!r} object is not a dictionary of values")
    missing = [name for name in names if predictions.get(name) is None]
    others = [name for name in predictions if name not in names]
    if missing and others:
        raise LookupError(f"no value for {missing[0]!r}, but one for {others[0]!r}")
    return predictions


def any_inputs(**_given: Any) -> bool:
    """Keep every probe."""
    return True


def part(
    name: str, whole: Task | str, keep: Callable[..., bool] = any_inputs, **others: Any
) -> Task:
    """A share of a task, with points of its own: the probes whose inputs are to `keep`.

    others: the fields in which it differs.
    """

    def probes(rng: np.random.Generator) -> list[Probe]:
        return [probe for probe in find(whole).probes(rng) if keep(**probe.inputs)]

    whole_task = find(whole)
    share = {"name": name, "probes": probes, "whole": whole_task.name}
    return replace(whole_task, **{**share, **others})
