"""What a class did: points for each task, mistakes and who made them, what needs a look.

`python -m classroom.report ASSIGNMENT`, after `make grade`, writes a page of
HTML and a CSV into `reports/`; `--older FOLDER…` names the folders of older courses, to compare
with. What it says is stored in the graded notebooks: nothing runs again.
"""

import argparse
import csv
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

import jinja2
import nbformat
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import is_grade
from traitlets.config import PyFileConfigLoader

from classroom.exports import number
from classroom.points import WrittenAnswers, counted
from classroom.verdicts import KEY, address, keys, known, mistakes
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


@dataclass(frozen=True)
class Record:
    """What a graded notebook keeps of its grading: the mistakes by key, the time, what to look at.

    seconds: none where they were not measured.
    """

    student: str
    mistakes: frozenset[str] = frozenset()
    flags: tuple[str, ...] = ()
    seconds: float | None = None


@dataclass(frozen=True)
class Year:
    """How many students of a course there are, and the share of them who made each mistake."""

    name: str
    count: int
    shares: Mapping[str, float]


def report(
    assignment: str,
    language: str = "en",
    folder: Path = Path("reports"),
    older: Sequence[Path] = (),
) -> list[Path]:
    """Write the report on an assignment of the course in this folder; return its two files."""
    of = course()
    attempts = list(read(of, assignment))
    if not attempts:
        raise SystemExit(f"Nothing is graded yet: make grade ASSIGNMENT={assignment}")
    kept = list(records(Path(of.root, of.autograded_directory), assignment))
    years = compared(Path(of.root), kept, older, assignment) if older else []
    folder.mkdir(parents=True, exist_ok=True)
    page, table = folder / f"{assignment}.html", folder / f"{assignment}.csv"
    page.write_text(as_page(assignment, attempts, language, kept, years), encoding="utf-8")
    with table.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(as_table(attempts, kept))
    return [page, table]


def as_table(attempts: list[Attempt], kept: Sequence[Record]) -> Iterator[list[str]]:
    """The rows of the CSV; the first of a student has what is said once: the time, the flags."""
    yield ["student", "test", "points", "of", "mistakes", "seconds", "look"]
    once = {record.student: record for record in kept}
    for a in attempts:
        made = " ".join(mistake.name for mistake in a.mistakes)
        points = "" if a.points is None else number(a.points)
        record = once.pop(a.student, Record(a.student))
        seconds = "" if record.seconds is None else number(record.seconds)
        look = "; ".join(record.flags)
        yield [a.student, a.test, points, number(a.most), made, seconds, look]


def course() -> CourseDirectory:
    """The course in this folder, as nbgrader knows it."""
    config = PyFileConfigLoader("nbgrader_config.py", os.getcwd()).load_config()
    return CourseDirectory(config=config)


def read(course: CourseDirectory, assignment: str) -> Iterator[Attempt]:
    """All that was graded: every graded cell of every student, with the mistakes named there."""
    part = WrittenAnswers(parent=course).part(assignment)
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
            found = counted(submission, part)
            for grade, points, most in sorted(found, key=lambda f: order.get(f[0].name, 99)):
                yield Attempt(student, grade.name, points, most, named.get(grade.name, ()))


def named_mistakes(path: Path) -> dict[str, tuple[Mistake, ...]]:
    """The mistakes that a graded notebook names, by its graded cells."""
    if not path.exists():
        return {}
    cells = filter(is_grade, nbformat.read(path, as_version=4).cells)
    return {cell.metadata.nbgrader["grade_id"]: mistakes(cell) for cell in cells}


def records(autograded: Path, assignment: str) -> Iterator[Record]:
    """What the graded notebooks of a course say; they are only read.

    A notebook that holds no verdicts, because something else has graded it, says nothing.
    """
    for path in sorted(autograded.glob(f"*/{assignment}/{assignment}.ipynb")):
        notebook = json.loads(path.read_text("utf-8"))
        facts = [cell["metadata"] for cell in notebook["cells"]]
        if any(KEY in of for of in facts):
            made = frozenset(key for of in facts for key in keys(of))
            whole = notebook["metadata"].get(KEY, {})
            flags = tuple(map(str, whole.get("flags", ())))
            yield Record(path.parents[1].name, made, flags, whole.get("seconds"))


def compared(
    here: Path, kept: Sequence[Record], older: Sequence[Path], assignment: str
) -> list[Year]:
    """This course after the older ones, whose folders are in the order of their names."""
    folders = sorted((path.resolve() for path in older), key=lambda path: path.name)
    if wrong := [str(path) for path in folders if not (path / "autograded").is_dir()]:
        raise SystemExit(
            f"--older must name folders of courses, with their autograded/: not {', '.join(wrong)}"
        )
    past = [year(path.name, list(records(path / "autograded", assignment))) for path in folders]
    return [*past, year(here.resolve().name, kept)]


def year(name: str, kept: Sequence[Record]) -> Year:
    """The share of students who made each mistake, in a course."""
    made = Counter(key for record in kept for key in record.mistakes)
    return Year(name, len(kept), {key: count / len(kept) for key, count in made.items()})


def trends(years: Sequence[Year]) -> list[tuple[str, Mistake | None, list[float | None]]]:
    """Each mistake with its shares (none where nobody was graded), the commonest now first."""
    every = {key for of in years for key in of.shares}
    shares = {key: [of.shares.get(key, 0.0) if of.count else None for of in years] for key in every}

    def latest_first(key: str) -> tuple[list[float], str]:
        return [-(share or 0) for share in reversed(shares[key])], key

    return [(key, known(key), shares[key]) for key in sorted(every, key=latest_first)]


def as_page(
    assignment: str,
    attempts: list[Attempt],
    language: str,
    kept: Sequence[Record] = (),
    years: Sequence[Year] = (),
) -> str:
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
    took = sorted((of.seconds, of.student) for of in kept if of.seconds is not None)
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
        looks=[record for record in kept if record.flags],
        typical=median(seconds for seconds, _ in took) if took else None,
        slowest=took[-1] if took else None,
        years=years,
        trends=trends(years),
        address=address(language),
        figure=lambda x: number(x).replace(".", "," if language == "fr" else "."),
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
    parser.add_argument(
        "--older",
        type=Path,
        nargs="+",
        default=[],
        metavar="FOLDER",
        help="older courses, to compare with: each with its autograded/",
    )
    chosen = parser.parse_args()
    sys.path.insert(0, os.getcwd())  # nbgrader_config.py may import from the course
    for path in report(chosen.assignment, chosen.language, chosen.to, chosen.older):
        print(path)


if __name__ == "__main__":
    main()
