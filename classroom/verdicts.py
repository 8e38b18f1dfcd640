"""The verdicts on a submission: kept in the metadata of its graded cells, where all read them.

A cell holds its own and those of the cells before it, since the last graded one: a part of an
answer may be named there.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from nbformat import NotebookNode

from normkit.messages import book
from normkit.tutor.mistakes import Mistake, catalogue
from normkit.tutor.tasks import Task, assignments, find

KEY = "normkit"  # of a cell's metadata


def mistakes(cell: NotebookNode) -> tuple[Mistake, ...]:
    """The mistakes that the stored verdicts on a graded cell name."""
    verdicts = cell.metadata.get(KEY, {}).get("verdicts", ())
    return tuple(dict.fromkeys(mistake for verdict in verdicts for mistake in _named(verdict)))


def keys(facts: Mapping[str, Any]) -> set[str]:
    """The mistakes that such metadata name by their keys, whether this course knows them or not."""
    verdicts = facts.get(KEY, {}).get("verdicts", ())
    return {str(key) for verdict in verdicts for key in verdict.get("mistakes", ())}


def known(key: str) -> Mistake | None:
    """The mistake that has this key; none that this course does not have, or no longer."""
    home = key.rpartition("/")[0]
    every = catalogue(home)[""] if home in assignments() else []
    return next((mistake for mistake in every if mistake.key == key), None)


def address(language: str) -> Callable[[Mistake], str]:
    """Where the book explains a mistake; nowhere if nobody said where the book is."""
    return lambda m: f"{book()}{language}/{m.page}.html#{m.label}" if book() else ""


def _task(verdict: Mapping[str, Any]) -> Task | None:
    """The task of a verdict; none that this course does not have, or no longer."""
    with suppress(ValueError):
        return find(str(verdict.get("task")))
    return None


def _named(verdict: Mapping[str, Any]) -> list[Mistake]:
    """The mistakes that a verdict names; none that this course does not know."""
    task, names = _task(verdict), verdict.get("mistakes")
    if task is None or not isinstance(names, list):
        return []
    known = {m.key: m for program in task.programs for m in task.mistakes(program)}
    return [known[key] for key in dict.fromkeys(map(str, names)) if key in known]
