"""Marks that a person gives to written answers: written at once, undone, kept when graded again.

nbgrader keeps a mark when it grades again, and asks for it once more, since the answer may have
changed. The gradebook therefore remembers which answer a mark was given to.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import NamedTuple

from nbformat import NotebookNode
from nbgrader.api import Base, Grade, Gradebook
from nbgrader.utils import is_grade, is_solution
from sqlalchemy import Column, String

STUB = "✎"  # nbgrader_config.py: what an untouched answer looks like


class MarkedAnswer(Base):
    """A table beside nbgrader's: the answer that a mark was given to."""

    __tablename__ = "marked_answer"
    grade_id = Column(String(32), primary_key=True)
    digest = Column(String(64), nullable=False)


class Mark(NamedTuple):
    """What a grade says at a moment, and the answer that it was given to."""

    grade_id: str
    points: float | None
    waits: bool
    digest: str | None


def is_written(cell: NotebookNode) -> bool:
    """Whether a cell is a written answer."""
    return cell.cell_type == "markdown" and is_grade(cell) and is_solution(cell)


def text_of(cell: NotebookNode) -> str:
    """An answer without the spaces around it and its lines' ends; nothing if it is untouched."""
    text = "\n".join(line.rstrip() for line in cell.source.strip().splitlines())
    return "" if text == STUB else text


def digest(cell: NotebookNode) -> str:
    """What identical answers share: their text and their pictures."""
    said = [text_of(cell), cell.get("attachments") or {}]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def keep(gradebook: Gradebook, grade: Grade, answer: str) -> None:
    """Let the mark stand that was given to this very answer."""
    marked = gradebook.db.get(MarkedAnswer, grade.id)
    if grade.manual_score is not None and marked and marked.digest == answer:
        grade.needs_manual_grade = False


def mark(gradebook: Gradebook, grade_ids: Iterable[str], answer: str, points: float) -> list[Mark]:
    """Write a mark for each of these grades of one answer; return what stood there before."""
    grade_ids = list(grade_ids)
    before = [_now(gradebook, grade_id) for grade_id in grade_ids]
    write(gradebook, (Mark(grade_id, points, False, answer) for grade_id in grade_ids))
    return before


def write(gradebook: Gradebook, marks: Iterable[Mark]) -> None:
    """Write marks into the gradebook, all or none."""
    for said in marks:
        grade = gradebook.db.get(Grade, said.grade_id)
        grade.manual_score, grade.needs_manual_grade = said.points, said.waits
        if said.digest:
            gradebook.db.merge(MarkedAnswer(grade_id=said.grade_id, digest=said.digest))
        elif known := gradebook.db.get(MarkedAnswer, said.grade_id):
            gradebook.db.delete(known)
    gradebook.db.commit()


def _now(gradebook: Gradebook, grade_id: str) -> Mark:
    """What the gradebook says of a grade."""
    grade, known = (gradebook.db.get(kind, grade_id) for kind in (Grade, MarkedAnswer))
    return Mark(grade_id, grade.manual_score, grade.needs_manual_grade, known and known.digest)
