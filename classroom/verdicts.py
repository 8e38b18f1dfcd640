"""The verdicts on a submission: kept in the metadata of its graded cells, where all read them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import is_grade

from normkit.messages import book
from normkit.tutor.feedback import VERDICT
from normkit.tutor.mistakes import Mistake
from normkit.tutor.tasks import Task, find

KEY = "normkit"  # of a cell's metadata


class KeepVerdicts(NbGraderPreprocessor):
    """Stores with each graded cell the verdicts that it and the cells before it published.

    Of several on one task the last counts. Those before the cell are needed: a visible test that
    fails ends it before the hidden one, which would name the mistake.
    """

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        found: dict[str, dict] = {}
        for cell in nb.cells:
            found |= {verdict["task"]: verdict for verdict in published(cell)}
            if is_grade(cell):
                cell.metadata[KEY] = {"verdicts": list(found.values())}
                found = {}
        return nb, resources


def published(cell: NotebookNode) -> Iterator[dict[str, Any]]:
    """The verdicts among a cell's outputs; what a student put in the place of one is left out."""
    for output in cell.get("outputs", []):
        verdict = output.get("data", {}).get(VERDICT)
        if isinstance(verdict, dict) and (task := _task(verdict)):
            names = [mistake.key for mistake in _named(verdict)]
            yield {"task": task.name, "passed": verdict.get("passed") is True, "mistakes": names}


def mistakes(cell: NotebookNode) -> tuple[Mistake, ...]:
    """The mistakes that the stored verdicts on a graded cell name."""
    verdicts = cell.metadata.get(KEY, {}).get("verdicts", ())
    return tuple(dict.fromkeys(mistake for verdict in verdicts for mistake in _named(verdict)))


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
