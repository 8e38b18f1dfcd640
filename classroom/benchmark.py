"""Measures grading against stock nbgrader: `make bench-grading`.

Both grade the same class, one after the other, in one run, and must give the same points. The
class hands in right, wrong and blank work; what is reported is a ratio of times.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from nbformat import NotebookNode
from nbgrader.api import Gradebook

from classroom.planting import Answer, answers
from classroom.trial import ROOT, course, released
from normkit.tutor.mistakes import Mistake, written
from normkit.tutor.programs import find_program
from normkit.tutor.tasks import find

# how students hand in, and what their answers end with
KINDS = {
    "ordinary": "",
    "loud": """
import sys, warnings
quiet = ANSWER
def ANSWER(*given, **named):
    print("still running", file=sys.stderr)
    warnings.warn("this takes long")
    return quiet(*given, **named)
""",
    "UTF-16": "",
    "cut off": "",
    "hostile": "check = diagnose = normkit.check = lambda *given, **named: None",
}
STOCK = """
c = get_config()
c.CourseDirectory.source_directory = "_build/nbgrader/en/source"
c.ClearSolutions.text_stub = "✎"
c.Execute.timeout = 60
"""


def hand_in(folder: Path, sources: Mapping[str, NotebookNode], students: int) -> None:
    """Let a class hand in: of its answers a tenth are blank, a third wrong; and see `KINDS`."""
    draw = random.Random(0)
    for name, source in sources.items():
        every, right = answers(source), dict(right_answers(source))
        for number in range(students):
            notebook, kind = json.loads(released(folder, name)), kind_of(number)
            for cell in notebook["cells"]:
                of = [answer for answer in every if answer.cell == cell["id"]]
                if cell["id"] in right and draw.random() > 0.1:
                    wrong = [text for a in of if draw.random() < 0.37 for text in mistaken(a, draw)]
                    more = (
                        KINDS[kind].replace("ANSWER", of[0].names) if of[0].names.islower() else ""
                    )
                    cell["source"] = "\n\n".join([right[cell["id"]], *wrong, more])
            path = folder / "submitted" / f"s{number:03}" / name / f"{name}.ipynb"
            path.parent.mkdir(parents=True)
            data = json.dumps(notebook).encode("utf-16" if kind == "UTF-16" else "utf-8")
            path.write_bytes(data[: len(data) // 2] if kind == "cut off" else data)


def kind_of(number: int) -> str:
    """What kind of student this is: six of ten are ordinary."""
    kinds = list(KINDS)
    return kinds[max(0, number % 10 - 5)]


def right_answers(source: NotebookNode) -> Iterator[tuple[str, str]]:
    """The answers of an assignment's source, by the ids of their cells."""
    for cell in source.cells:
        facts = cell.metadata.get("nbgrader", {})
        if facts.get("solution") and cell.cell_type == "code":
            lines = cell.source.splitlines()
            marks = re.compile(r"\s*### (BEGIN|END) SOLUTION")
            yield facts["grade_id"], "\n".join(line for line in lines if not marks.match(line))


def mistaken(answer: Answer, draw: random.Random) -> Iterator[str]:
    """The lines of a program that makes a mistake, and what binds it to the answer's name."""
    program = draw.choice(find(answer.task).programs)
    mistake = draw.choice(find(answer.task).mistakes(program))
    for name in (*find_program(program).calls().values(), program):
        yield program_text(name, mistake)
    bundle = "()" if "," in answer.names else ""
    yield f"{answer.names} = {program.rpartition('/')[2]}{bundle}"


def program_text(name: str, mistake: Mistake) -> str:
    """A program with a mistake, where it carries it."""
    known = name in mistake.ways
    return written(name, mistake) if known else find_program(name).source


def points(folder: Path, name: str) -> dict[str, float]:
    with Gradebook(f"sqlite:///{folder}/gradebook.db") as book:
        return {s.student.id: s.score for s in book.assignment_submissions(name)}


def timed(folder: Path, *command: str) -> float:
    """The seconds that a command takes in a course."""
    start = time.monotonic()
    given = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", *command],
        cwd=folder,
        env=given,
        capture_output=True,
        text=True,
    )
    if done.returncode and command[0] != "nbgrader":  # it fails for a class with a broken notebook
        raise SystemExit(done.stderr[-2000:])
    return time.monotonic() - start


def main() -> None:
    """Measure, and print what was measured."""
    parser = argparse.ArgumentParser(prog="classroom.benchmark", description=__doc__)
    parser.add_argument("assignments", nargs="*", default=["layer_norm", "batch_norm"])
    parser.add_argument("--students", type=int, default=50)
    chosen = parser.parse_args()
    with TemporaryDirectory() as temporary:
        folder, stock = Path(temporary, "course"), Path(temporary, "stock")
        sources = course(folder, chosen.assignments)
        hand_in(folder, sources, chosen.students)
        shutil.copytree(folder, stock)
        (stock / "nbgrader_config.py").write_text(STOCK, "utf-8")
        count = chosen.students * len(sources)
        print(f"{count} submissions, {len(sources)} assignments, {os.cpu_count()} cores")
        ours = timed(folder, "classroom.grade", *chosen.assignments)
        again = timed(
            folder, "classroom.grade", *chosen.assignments, "--student", "s000", "--force"
        )
        each = (ours - again) / (count - len(sources))
        print(f"classroom.grade: {ours:.1f} s; {each:.3f} s for each submission after the first")
        theirs = sum(timed(stock, "nbgrader", "autograde", name) for name in chosen.assignments)
        print(f"stock nbgrader: {theirs:.1f} s; {theirs / count:.3f} s for each submission")
        print(f"ratio: {theirs / count / each:.1f}; with the start included {theirs / ours:.1f}")
        print(f"300 students, 10 assignments like these: {300 * 10 * each / 60:.1f} minutes")
        for name in chosen.assignments:
            one, other = points(folder, name), points(stock, name)
            different = [s for s in one if one[s] != other.get(s)]
            print(f"{name}: the same points for {len(one) - len(different)} of {len(one)} students")
            for s in different:
                kind = kind_of(int(s[1:]))
                print(f"  {s}, {kind}: {one[s]:g}, by stock nbgrader {other.get(s, 'none')}")


if __name__ == "__main__":
    main()
