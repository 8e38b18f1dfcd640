"""Grades as tables that an LMS imports: exporters for ``nbgrader export``.

All have one row per student and one column per assignment. Who handed in nothing has an empty
cell there, which no LMS takes for a 0.
"""

import csv
import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from nbgrader.api import Assignment, Gradebook, MissingEntry, Student
from nbgrader.plugins import ExportPlugin

from classroom.points import Outcome, WrittenAnswers, outcome

WAITING = "%s: %d grades are provisional, and left empty: python -m classroom.written %s"


class Class(NamedTuple):
    """What is exported: students, assignments, and what one earned in the other, if anything."""

    students: list[Student]
    assignments: list[Assignment]
    outcome: Callable[[Student, Assignment], Outcome | None]

    def points(self, student: Student, assignment: Assignment) -> str:
        """The points as text, empty where there are none to tell yet."""
        found = self.outcome(student, assignment)
        return "" if found is None or found.provisional else number(found.points)

    def so_far(self, student: Student, assignment: Assignment) -> str:
        """The points without those that wait for a mark, as text; empty where nothing waits."""
        found = self.outcome(student, assignment)
        return number(found.points) if found and found.provisional else ""

    def waiting(self) -> list[Assignment]:
        """The assignments of which something waits for a mark."""
        return [a for a in self.assignments if any(self.so_far(s, a) for s in self.students)]


class TableExporter(ExportPlugin):
    """Writes a table of the students and assignments that the command line asks for, or of all."""

    default_name = "grades.csv"
    encoding = "utf-8"

    def export(self, gradebook: Gradebook) -> None:
        settings = WrittenAnswers(parent=self)

        @cache
        def earned(student: Student, assignment: Assignment) -> Outcome | None:
            try:
                return outcome(gradebook.find_submission(assignment.name, student.id), settings)
            except MissingEntry:
                return None

        chosen = Class(
            [s for s in gradebook.students if not self.student or s.id in map(str, self.student)],
            [
                a
                for a in gradebook.assignments
                if not self.assignment or a.name in map(str, self.assignment)
            ],
            earned,
        )
        for a in chosen.waiting():
            count = sum(bool(chosen.so_far(student, a)) for student in chosen.students)
            self.log.warning(WAITING, a.name, count, a.name)
        with open(self.to or self.default_name, "w", encoding=self.encoding, newline="") as file:
            csv.writer(file).writerows(self.table(chosen))

    def table(self, chosen: Class) -> list[list[str]]:
        """The rows of the table, the header first."""
        raise NotImplementedError


class MoodleExporter(TableExporter):
    """For *Grades → Import → CSV file*: map the email address or the ID number to the user.

    Where marks are missing, a second column has the points so far: Moodle passes over what is not
    mapped. (Canvas would make an assignment of it.)
    """

    default_name = "moodle.csv"

    def table(self, chosen: Class) -> list[list[str]]:
        names = [assignment.name for assignment in chosen.assignments]
        waiting = chosen.waiting()
        names += [f"{assignment.name} (provisional)" for assignment in waiting]
        rows = [["First name", "Last name", "ID number", "Email address", *names]]
        for student in chosen.students:
            person = [student.first_name, student.last_name, student.id, student.email]
            marks = [chosen.points(student, assignment) for assignment in chosen.assignments]
            so_far = [chosen.so_far(student, assignment) for assignment in waiting]
            rows.append([*(word or "" for word in person), *marks, *so_far])
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


def number(points: float) -> str:
    """Points with a decimal point, and no more than two decimals."""
    return f"{round(points, 2):g}"
