"""Grades as tables that an LMS imports: exporters for ``nbgrader export``.

All have one row per student and one column per assignment. Who handed in nothing has an empty
cell there, which no LMS takes for a 0.
"""

import csv
import re
from collections.abc import Callable
from typing import NamedTuple

from nbgrader.api import Assignment, Gradebook, MissingEntry, Student, SubmittedAssignment
from nbgrader.plugins import ExportPlugin


class Class(NamedTuple):
    """What is exported: students, assignments, and the points of one in the other, as text."""

    students: list[Student]
    assignments: list[Assignment]
    points: Callable[[Student, Assignment], str]


class TableExporter(ExportPlugin):
    """Writes a table of the students and assignments that the command line asks for, or of all."""

    default_name = "grades.csv"
    encoding = "utf-8"

    def export(self, gradebook: Gradebook) -> None:
        def points(student: Student, assignment: Assignment) -> str:
            try:
                return number(earned(gradebook.find_submission(assignment.name, student.id)))
            except MissingEntry:
                return ""

        chosen = Class(
            [s for s in gradebook.students if not self.student or s.id in map(str, self.student)],
            [
                a
                for a in gradebook.assignments
                if not self.assignment or a.name in map(str, self.assignment)
            ],
            points,
        )
        with open(self.to or self.default_name, "w", encoding=self.encoding, newline="") as file:
            csv.writer(file).writerows(self.table(chosen))

    def table(self, chosen: Class) -> list[list[str]]:
        """The rows of the table, the header first."""
        raise NotImplementedError


class MoodleExporter(TableExporter):
    """For *Grades → Import → CSV file*: map the email address or the ID number to the user."""

    default_name = "moodle.csv"

    def table(self, chosen: Class) -> list[list[str]]:
        names = [assignment.name for assignment in chosen.assignments]
        rows = [["First name", "Last name", "ID number", "Email address", *names]]
        for student in chosen.students:
            person = [student.first_name, student.last_name, student.id, student.email]
            marks = [chosen.points(student, assignment) for assignment in chosen.assignments]
            rows.append([*(word or "" for word in person), *marks])
        return rows


class CanvasExporter(TableExporter):
    """For *Grades → Import*: Canvas finds the student by the SIS Login ID."""

    default_name = "canvas.csv"

    def table(self, chosen: Class) -> list[list[str]]:
        names = [assignment.name for assignment in chosen.assignments]
        most = [number(assignment.max_score) for assignment in chosen.assignments]
        rows = [
            ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *names],
            ["    Points Possible", "", "", "", "", *most],
        ]
        for student in chosen.students:
            name = ", ".join(filter(None, [student.last_name, student.first_name])) or student.id
            marks = [chosen.points(student, assignment) for assignment in chosen.assignments]
            rows.append([name, "", "", student.id, "", *marks])
        return rows


class ChineseExporter(TableExporter):
    """For 学习通 and 雨课堂: student number, name, score, in a file that Excel takes for UTF-8."""

    default_name = "chinese.csv"
    encoding = "utf-8-sig"

    def table(self, chosen: Class) -> list[list[str]]:
        names = [assignment.name for assignment in chosen.assignments]
        rows = [["学号", "姓名", *(names if len(names) > 1 else ["成绩"])]]
        for student in chosen.students:
            marks = [chosen.points(student, assignment) for assignment in chosen.assignments]
            rows.append([student.id, full_name(student), *marks])
        return rows


def full_name(student: Student) -> str:
    """A student's name in the order of its script: 祖冲之, Ada Lovelace."""
    first, last = student.first_name or "", student.last_name or ""
    return last + first if re.search("[\u4e00-\u9fff]", last + first) else f"{first} {last}".strip()


def earned(submission: SubmittedAssignment) -> float:
    """The points of a submission, less what its lateness costs."""
    return max(0.0, submission.score - (submission.late_submission_penalty or 0))


def number(points: float) -> str:
    """Points with a decimal point, and no more than two decimals."""
    return f"{round(points, 2):g}"
