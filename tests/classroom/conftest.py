"""What the tests share: a gradebook, and a course that knows all assignments."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from classroom.sandbox import Sandbox

ROOT = Path(__file__).parents[2]


def cells_of(name):
    """The cells of an assignment that nbgrader knows."""
    notebook = json.loads((ROOT / f"exercises/en/{name}/{name}.ipynb").read_text("utf-8"))
    return [cell for cell in notebook["cells"] if "nbgrader" in cell["metadata"]]


def know(book, name):
    """Write an assignment into a gradebook, as `nbgrader generate_assignment` does."""
    book.add_assignment(name)
    book.add_notebook(name, name)
    for cell in cells_of(name):
        of = cell["metadata"]["nbgrader"]
        book.add_source_cell(of["grade_id"], name, name, cell_type=cell["cell_type"])
        if of["grade"]:
            grade = {"max_score": of["points"], "cell_type": cell["cell_type"]}
            book.add_grade_cell(of["grade_id"], name, name, **grade)
        if of["solution"]:
            book.add_solution_cell(of["grade_id"], name, name)


@pytest.fixture(scope="session")
def alembic():
    """nbgrader, where it makes a gradebook, calls alembic, which stands beside Python."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        yield


@pytest.fixture(scope="session")
def assignments_known(alembic, tmp_path_factory):
    """A gradebook that knows all assignments: made once, it takes seconds."""
    file = tmp_path_factory.mktemp("known") / "gradebook.db"
    with Gradebook(f"sqlite:///{file}") as book:
        for folder in sorted((ROOT / "exercises/en").iterdir()):
            know(book, folder.name)
    return file


@pytest.fixture
def classroom(assignments_known, tmp_path, monkeypatch):
    """The folder of a course in which nothing is handed in yet; the current one."""
    folder = tmp_path / "course"
    folder.mkdir()
    shutil.copy(assignments_known, folder / "gradebook.db")
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def exercise():
    """The notebook of an assignment, with an answer that tells it from others."""

    def exercise(name="layer_norm", answer="", language="en"):
        path = ROOT / f"exercises/{language}/{name}/{name}.ipynb"
        notebook = json.loads(path.read_text("utf-8"))
        notebook["metadata"]["answer"] = answer
        return json.dumps(notebook).encode()

    return exercise


@pytest.fixture
def worksheet(tmp_path):
    """Moodle's grading worksheet, with these participants: number, name, email, ID number."""

    def worksheet(*people, most="100.00", file="grading.csv", newline="\n", bom=False):
        head = "Identifier,Full name,Email address,ID number,Status,Grade,Maximum grade"
        rows = [f"{head},Grade can be changed,Last modified (grade),Feedback comments"]
        for number, name, email, student in people:
            start = f'Participant {number},"{name}",{email},{student},Submitted for grading'
            rows.append(f'{start},,{most},Yes,-,"a, ""b"""')
        path = tmp_path / file
        text = newline.join([*rows, ""])
        path.write_bytes(text.encode("utf-8-sig" if bom else "utf-8"))
        return path

    return worksheet


@pytest.fixture
def time_limit():
    """Fail instead of hanging: what waits on a FIFO waits forever."""

    def stop(*_):
        raise TimeoutError("This still runs after a minute.")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def box():
    """A sandbox that runs students' code."""
    box = Sandbox()
    yield box
    box.close()
