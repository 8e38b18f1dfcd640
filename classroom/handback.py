"""What goes back to a class: feedback as an LMS takes it, and the worksheet with the grades.

`python -m classroom.handback ASSIGNMENT`, after `nbgrader generate_feedback ASSIGNMENT`, writes
into `returned/ASSIGNMENT/`: `feedback.zip`, with the names that the LMS gave to the submissions
(Moodle: *Upload multiple feedback files in a zip*; Canvas: *Upload Submissions*); a folder for
each student; and, with `--worksheet`, that table with its grades filled in.
"""

import argparse
import os
import re
import shutil
import sys
import zipfile
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.coursedir import CourseDirectory

from classroom import worksheet
from classroom.collect import listed, record
from classroom.exports import number
from classroom.part import file
from classroom.points import Outcome, WrittenAnswers, outcome
from classroom.report import course

ZIP = "feedback.zip"
WAITING = "Provisional, and left without a grade: something waits for a mark"


@dataclass
class Returned:
    """What was written into a folder, and what needs a look."""

    folder: Path
    written: list[str] = field(default_factory=list)
    told: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def __str__(self) -> str:
        return "\n".join([*self.written, *listed(self.told)])


def hand_back(assignment: str, sheet: Path | None = None, to: Path = Path("returned")) -> Returned:
    """Write all that goes back for an assignment; return what was written."""
    of, returned = course(), Returned(to / assignment)
    table = worksheet.read(sheet) if sheet else None
    with Gradebook(of.db_url) as gradebook:
        try:
            found = gradebook.find_assignment(assignment)
        except MissingEntry:
            raise SystemExit(f"The gradebook in {of.db_url} knows no {assignment}.") from None
        settings = WrittenAnswers(parent=of)
        outcomes = {s.student.id: outcome(s, settings) for s in found.submissions}
        people = table.people(gradebook.students) if table else {}
        most = found.max_score
    if not outcomes:
        raise SystemExit(f"Nothing is graded yet: make grade ASSIGNMENT={assignment}")
    returned.folder.mkdir(parents=True, exist_ok=True)
    named = {student: lms for (student, name), lms in record(of).items() if name == assignment}
    if table:
        check(table, people, named, assignment)
        fill(table, people, outcomes, most, returned)
    give_feedback(of, assignment, {student: named.get(student) for student in outcomes}, returned)
    if waiting := [name for name, so_far in outcomes.items() if so_far.provisional]:
        returned.told[WAITING] = waiting
    return returned


def give_feedback(
    of: CourseDirectory, assignment: str, graded: Mapping[str, str | None], returned: Returned
) -> None:
    """Copy the pages of feedback, into folders by student and into a zip for the LMS."""
    zipped = 0
    with zipfile.ZipFile(returned.folder / ZIP, "w", zipfile.ZIP_DEFLATED) as archive:
        for student, lms in sorted(graded.items()):
            pages = feedback(of, student, assignment, returned)
            for page in pages:
                (returned.folder / student).mkdir(exist_ok=True)
                shutil.copy2(page, returned.folder / student)
                if lms:
                    archive.write(page, f"{lms}{page.name}")
            zipped += bool(pages and lms)
            if pages and not lms:
                returned.told[f"Not in {ZIP}: no LMS named their submission"].append(student)
    returned.written.append(f"{returned.folder}: a folder for each student")
    if zipped:
        returned.written.append(f"{returned.folder / ZIP}: the feedback of {zipped} students")
    else:
        (returned.folder / ZIP).unlink()


def feedback(of: CourseDirectory, student: str, assignment: str, returned: Returned) -> list[Path]:
    """The pages of a student; tells if there are none, or if the grading is newer."""

    def files(step: str, kind: str) -> list[Path]:
        return sorted(Path(of.format_path(step, student, assignment)).glob(kind))

    pages = files(of.feedback_directory, "*.html")
    said = [*files(of.autograded_directory, "*.ipynb"), *filter(Path.exists, [file(assignment)])]
    graded = max((path.stat().st_mtime for path in said), default=0)
    command = f"nbgrader generate_feedback {assignment} --force"
    if not pages:
        returned.told[f"No feedback: {command}"].append(student)
    elif min(page.stat().st_mtime for page in pages) < graded:
        returned.told[f"Feedback older than the grading: {command}"].append(student)
    return pages


def check(
    table: worksheet.Worksheet,
    people: Mapping[str, worksheet.Person],
    named: Mapping[str, str],
    assignment: str,
) -> None:
    """Refuse the worksheet of another assignment: Moodle numbers people anew in each."""
    for here, person in people.items():
        lms = named.get(person.id, "")
        if lms and here not in re.findall(r"\d+", lms):
            raise SystemExit(
                f"{table.path} must be the worksheet of {assignment}: {person.id} is number "
                f"{here} there, and handed in as {lms}"
            )


def fill(
    table: worksheet.Worksheet,
    people: Mapping[str, worksheet.Person],
    outcomes: Mapping[str, Outcome],
    most: float,
    returned: Returned,
) -> None:
    """Write a worksheet with the grades in it; a provisional one would be taken for the grade."""
    points = {name: so_far.points for name, so_far in outcomes.items() if not so_far.provisional}
    theirs = {n: points[person.id] for n, person in people.items() if person.id in points}
    path = returned.folder / table.path.name
    table.filled(theirs, most).write(path)
    returned.written.append(f"{path}: {len(theirs)} grades")
    scales = {table.most(row) for row in table.rows if table.number(row) in theirs}
    if others := [number(scale) for scale in scales if scale not in (None, most)]:
        returned.written[-1] += f", of {', '.join(others)} points instead of {number(most)}"
    if absent := outcomes.keys() - {person.id for person in people.values()}:
        returned.told[f"Graded, but not in {table.path.name}"] += absent


def main() -> None:
    """Write what goes back for the assignment that the command line names."""
    parser = argparse.ArgumentParser(prog="classroom.handback", description=__doc__)
    parser.add_argument("assignment")
    parser.add_argument(
        *("--worksheet", "-w"), type=Path, help="Moodle's grading worksheet of it, as CSV"
    )
    parser.add_argument("--to", type=Path, default=Path("returned"), help="the folder to write")
    chosen = parser.parse_args()
    sys.path.insert(0, os.getcwd())  # nbgrader_config.py may import from the course
    print(hand_back(chosen.assignment, chosen.worksheet, chosen.to))


if __name__ == "__main__":
    main()
