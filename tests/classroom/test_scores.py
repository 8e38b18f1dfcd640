"""A test loses its points by an error, and by nothing else."""

import os
import sys
from pathlib import Path

import nbformat.v4 as nb
import pytest
from nbgrader.api import Gradebook

from classroom.execute import ExecuteToTheEnd
from classroom.scores import OnlyErrorsCost

SAID = """\
import logging, os, sys, warnings
warnings.warn("divide by zero", UserWarning)
logging.warning("a warning")
print("a word", file=sys.stderr)
os.write(2, b"a word")"""
CASES = {
    "quiet": ("assert True", 2),
    "warned": (SAID, 2),
    "wrong": ("assert False", 0),
    "wrong_and_warned": (f"{SAID}\nassert False", 0),
    "warned_after": (f"try:\n    assert False\nfinally:\n    {SAID.replace(chr(10), '; ')}", 0),
    "displayed": ("1.5", 2),
    "displayed_and_wrong": ("get_ipython().displayhook(2.0)\nassert False", 0),
    "left": ("import sys; sys.exit(1)", 0),
}


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    """The points of a notebook that has run with each of these tests."""
    url = f"sqlite:///{tmp_path_factory.mktemp('scores')}/gradebook.db"
    cells = []
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with pytest.MonkeyPatch.context() as patch:  # nbgrader calls alembic by its name
        patch.setenv("PATH", path)
        gradebook = Gradebook(url)
    with gradebook:
        gradebook.add_assignment("half")
        gradebook.add_notebook("half", "half")
        for name, (source, _) in CASES.items():
            gradebook.add_grade_cell(name, "half", "half", max_score=2, cell_type="code")
            known = {"grade": True, "grade_id": name, "points": 2, "solution": False}
            cells.append(nb.new_code_cell(source, metadata={"nbgrader": known}))
        gradebook.add_student("ada")
        gradebook.add_submission("half", "ada")
    known = {"notebook": "half", "assignment": "half", "student": "ada", "db_url": url}
    notebook = nb.new_notebook(cells=cells)
    for preprocessor in (ExecuteToTheEnd(timeout=30), OnlyErrorsCost()):
        notebook, _ = preprocessor.preprocess(notebook, {"nbgrader": known})
    with Gradebook(url) as gradebook:
        grades = gradebook.find_submission_notebook("half", "half", "ada").grades
        return notebook, {grade.name: grade.auto_score for grade in grades}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_only_an_error_costs_points(scores, name):
    _, points = scores
    assert points[name] == CASES[name][1]


@pytest.mark.filterwarnings("ignore")
def test_what_was_said_stays_in_the_graded_notebook(scores):
    notebook, _ = scores
    (warned,) = (c for c in notebook.cells if c.metadata.nbgrader["grade_id"] == "warned")
    said = "".join(out.text for out in warned.outputs if out.get("name") == "stderr")
    assert "UserWarning: divide by zero" in said and "a warning" in said and "a word" in said
