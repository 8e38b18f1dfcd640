"""What a class did: points for each task, mistakes and how many made them, what nobody solved.

`python -m classroom.report ASSIGNMENT`, after `make grade`, writes a page of
HTML and a CSV into `reports/`. The mistakes are those of the verdicts stored in the graded
notebooks: nothing runs again.
"""

import argparse
import csv
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import jinja2
import nbformat
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import is_grade
from traitlets.config import PyFileConfigLoader

from classroom.exports import number
from classroom.points import WrittenAnswers, counted
from classroom.verdicts import address, mistakes
from normkit.messages import LANGUAGES, translator
from normkit.tutor.mistakes import Mistake

TEMPLATE = Path(__file__).parent / "templates/report.html.j2"


@dataclass(frozen=True)
class Attempt:
    """What a student did in one graded cell; no points where it waits for a mark."""

    student: str
    test: str
    points: float | None
    most: float
    mistakes: tuple[Mistake, ...] = ()


def report(assignment: str, language: str = "en", folder: Path = Path("reports")) -> list[Path]:
    """Write the report on an assignment of the course in this folder; return its two files."""
    attempts = list(read(course(), assignment))
    if not attempts:
        raise SystemExit(f"Nothing is graded yet: make grade ASSIGNMENT={assignment}")
    folder.mkdir(parents=True, exist_ok=True)
    page, table = folder / f"{assignment}.html", folder / f"{assignment}.csv"
    page.write_text(as_page(assignment, attempts, language), encoding="utf-8")
    with table.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["student", "test", "points", "of", "mistakes"])
        for a in attempts:
            made = " ".join(mistake.name for mistake in a.mistakes)
            points = "" if a.points is None else number(a.points)
            rows.writerow([a.student, a.test, points, number(a.most), made])
    return [page, table]


def course() -> CourseDirectory:
    """The course in this folder, as nbgrader knows it."""
    config = PyFileConfigLoader("nbgrader_config.py", os.getcwd()).load_config()
    return CourseDirectory(config=config)


def read(course: CourseDirectory, assignment: str) -> Iterator[Attempt]:
    """All that was graded: every graded cell of every student, with the mistakes named there."""
    settings = WrittenAnswers(parent=course)
    with Gradebook(course.db_url) as gradebook:
        try:
            submissions = gradebook.find_assignment(assignment).submissions
        except MissingEntry:
            raise SystemExit(f"The gradebook in {course.db_url} knows no {assignment}.") from None
        for submission in sorted(submissions, key=lambda s: s.student.id):
            student = submission.student.id
            graded = course.format_path(course.autograded_directory, student, assignment)
            named: dict[str, tuple[Mistake, ...]] = {}
            for notebook in submission.notebooks:
                named |= named_mistakes(Path(graded, f"{notebook.name}.ipynb"))
            order = {name: place for place, name in enumerate(named)}
            found = counted(submission, settings)
            for grade, points, most in sorted(found, key=lambda f: order.get(f[0].name, 99)):
                yield Attempt(student, grade.name, points, most, named.get(grade.name, ()))


def named_mistakes(path: Path) -> dict[str, tuple[Mistake, ...]]:
    """The mistakes that a graded notebook names, by its graded cells."""
    if not path.exists():
        return {}
    cells = filter(is_grade, nbformat.read(path, as_version=4).cells)
    return {cell.metadata.nbgrader["grade_id"]: mistakes(cell) for cell in cells}


def as_page(assignment: str, attempts: list[Attempt], language: str) -> str:
    """The report as a page of HTML, in a language."""
    by_test: dict[str, list[Attempt]] = {}
    made: dict[Mistake, set[str]] = {}
    for attempt in attempts:
        by_test.setdefault(attempt.test, []).append(attempt)
        for mistake in attempt.mistakes:
            made.setdefault(mistake, set()).add(attempt.student)
    tests = [summary(test, of) for test, of in by_test.items()]
    marked = [test for test in tests if test["mean"] is not None]
    students = {attempt.student for attempt in attempts}
    template = jinja2.Template(TEMPLATE.read_text("utf-8"), autoescape=True)
    return template.render(
        assignment=assignment,
        language=language,
        say=translator(language),
        count=len(students),
        mean=sum(test["mean"] for test in marked),
        most=sum(test["most"] for test in marked),
        tests=tests,
        unsolved=[t["name"] for t in tests if not t["full"] and not t["waiting"]],
        waiting=sum(test["waiting"] for test in tests),
        mistakes=sorted(made.items(), key=lambda item: (-len(item[1]), item[0].name)),
        address=address(language),
    )


def summary(test: str, attempts: list[Attempt]) -> dict:
    """How a class did in one test, as far as it is marked."""
    points = [attempt.points for attempt in attempts if attempt.points is not None]
    most = attempts[0].most
    return {
        "name": test.removeprefix("test_"),
        "most": most,
        "mean": mean(points) if points else None,
        "waiting": len(attempts) - len(points),
        "full": sum(p >= most for p in points),
        "none": sum(p <= 0 for p in points),
    }


def main() -> None:
    """Write the report that the command line asks for."""
    parser = argparse.ArgumentParser(prog="classroom.report", description=__doc__)
    parser.add_argument("assignment")
    parser.add_argument("--language", choices=LANGUAGES, default=LANGUAGES[0])
    parser.add_argument("--to", type=Path, default=Path("reports"), help="the folder to write")
    chosen = parser.parse_args()
    sys.path.insert(0, os.getcwd())  # nbgrader_config.py may import from the course
    for path in report(chosen.assignment, chosen.language, chosen.to):
        print(path)


if __name__ == "__main__":
    main()
