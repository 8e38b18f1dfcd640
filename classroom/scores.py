"""The points of a submission: those that the grader's own verdicts give, whatever a cell says."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from nbformat import NotebookNode
from nbgrader.api import BaseCell, Comment, Grade, Gradebook, SubmittedNotebook
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import compute_checksum, determine_grade, is_grade, is_solution, is_task

from classroom.marks import digest, is_written, keep
from classroom.verdicts import KEY


@dataclass(frozen=True)
class Worth:
    """What a cell is worth. points: None where a person must read it; held: as 0, until a look.

    blank: of an answer, whether it is as it was given out. answer: what a mark is remembered by.
    """

    name: str
    points: float | None = None
    held: bool = False
    graded: bool = True
    blank: bool | None = None
    answer: str = ""


class VerdictsScore(NbGraderPreprocessor):
    """Saves them in the gradebook, as nbgrader's ``SaveAutoGrades`` does with its own."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        known = resources["nbgrader"]
        with Gradebook(known["db_url"]) as gradebook:
            names = known["notebook"], known["assignment"], known["student"]
            save(gradebook, gradebook.find_submission_notebook(*names), worths(nb))
            gradebook.db.commit()
        return nb, resources


def worths(nb: NotebookNode) -> list[Worth]:
    """What each cell is worth that nbgrader knows.

    Warnings, logging and prints cost nothing, nor does an output that looks like a failure; and
    what looks like a success earns nothing. Points that are withheld wait for a person, as 0.
    """
    known = (c for c in nb.cells if is_grade(c) or is_solution(c) or is_task(c))
    return [worth(cell) for cell in known]


def worth(cell: NotebookNode) -> Worth:
    """What a cell is worth."""
    name, graded = cell.metadata.nbgrader["grade_id"], is_grade(cell)
    points, most = determine_grade(cell) if graded else (None, 0)
    verdict = cell.metadata.get(KEY, {})
    if graded and not is_solution(cell) and cell.cell_type == "code":
        points = most if verdict.get("passed") and not verdict.get("withheld") else 0.0
    blank = None
    if is_solution(cell) or is_task(cell):
        unchanged = cell.metadata.nbgrader.get("checksum") == compute_checksum(cell)
        blank = unchanged and not is_task(cell)
    answer = digest(cell) if is_written(cell) else ""
    return Worth(name, points, bool(verdict.get("withheld")), graded, blank, answer)


def save(gradebook: Gradebook, notebook: SubmittedNotebook, found: Iterable[Worth]) -> None:
    """Write points into the gradebook.

    What a person has given stays; it waits for another look unless the answer is what it was.
    """
    grades, comments = (by_cell(gradebook, notebook, kind) for kind in (Grade, Comment))
    for cell in found:
        if cell.graded and (grade := grades.get(cell.name)):
            grade.auto_score = cell.points
            waits = cell.points is None or cell.held
            grade.needs_manual_grade = waits or grade.manual_score is not None
            if cell.answer:
                keep(gradebook, grade, cell.answer)
        if cell.blank is not None and (comment := comments.get(cell.name)):
            comment.auto_comment = "No response." if cell.blank else None


def by_cell(gradebook: Gradebook, notebook: SubmittedNotebook, kind: Any) -> dict[str, Any]:
    """The grades or comments of a notebook by the names of their cells, in one query."""
    found = gradebook.db.query(BaseCell.name, kind).join(kind.cell)
    return dict(found.filter(kind.notebook_id == notebook.id).all())
