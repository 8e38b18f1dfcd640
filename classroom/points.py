"""The points of a submission, as far as its cells count, and what waits for a mark.

Settings of nbgrader_config.py: ``c.WrittenAnswers.written`` and ``c.WrittenAnswers.languages``;
`classroom.part` says which tasks count.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from nbgrader.api import Grade, SubmittedAssignment
from traitlets import Enum, List
from traitlets.config import Configurable

from classroom.part import Part, chosen
from normkit.messages import LANGUAGES


class WrittenAnswers(Configurable):
    """What the instructor decided on the answers that are in words."""

    written = Enum(
        ["on", "off"],
        default_value="on",
        help='"off" leaves written answers out; the points of the code are rescaled to the whole.',
    ).tag(config=True)
    languages = List(
        Enum(LANGUAGES),
        default_value=list(LANGUAGES),
        help="The languages accepted in written answers; answers in others are set apart.",
    ).tag(config=True)

    def part(self, assignment: str) -> Part:
        """What counts of an assignment."""
        return Part(chosen(assignment), self.written == "on")


@dataclass(frozen=True)
class Outcome:
    """What a submission earned so far, of what could be earned so far, of all; provisional or not.

    Where nothing waits for a mark, ``marked`` is ``most``.
    """

    points: float
    marked: float
    most: float

    @property
    def provisional(self) -> bool:
        """Whether something still waits for a mark."""
        return self.marked < self.most


def waits(grade: Grade) -> bool:
    """Whether a cell has no points yet, or a mark that was given to an earlier answer.

    A test has none where it was never graded, or where they are withheld until a person looks.
    """
    if grade.cell.cell_type == "markdown":
        return grade.needs_manual_grade
    return grade.manual_score is None and (grade.auto_score is None or grade.needs_manual_grade)


def scale(submission: SubmittedAssignment, part: Part) -> float:
    """What points of a submission are multiplied by."""
    grades = (grade for notebook in submission.notebooks for grade in notebook.grades)
    return part.scale([(grade.name, grade.cell.cell_type, grade.max_score) for grade in grades])


def counted(
    submission: SubmittedAssignment, part: Part
) -> Iterator[tuple[Grade, float | None, float]]:
    """The grades that count, with their points (none where it waits), and the most there is."""
    by = scale(submission, part)
    for grade in (grade for notebook in submission.notebooks for grade in notebook.grades):
        if part.counts(grade.name, grade.cell.cell_type):
            points = None if waits(grade) else grade.score * by
            yield grade, points, grade.max_score * by


def outcome(submission: SubmittedAssignment, settings: WrittenAnswers) -> Outcome:
    """The points of a submission, less what its lateness costs."""
    part = settings.part(submission.name)
    found = [(points, most) for _, points, most in counted(submission, part)]
    known = [(points, most) for points, most in found if points is not None]
    penalty = (submission.late_submission_penalty or 0) * scale(submission, part)
    earned = sum(points for points, _ in known) - penalty
    whole = sum(most for _, most in found)
    marked = whole if len(known) == len(found) else sum(most for _, most in known)
    return Outcome(max(0.0, earned), marked, whole)
