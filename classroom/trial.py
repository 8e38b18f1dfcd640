"""A course that lasts as long as a trial: released afresh, graded by nbgrader in any process."""

import os
import shutil
import sys
import warnings
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from traitlets.config import PyFileConfigLoader

ROOT = Path(__file__).parents[1]


def course(folder: Path, names: Iterable[str]) -> dict[str, NotebookNode]:
    """Make a course of these assignments, released and in the gradebook; return their sources."""
    from press.release import release  # takes seconds to import: only where a course is made
    from press.run import read

    # nbgrader calls alembic by its name
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    sources = {name: read(ROOT / "solutions" / f"{name}.md") for name in names}
    folder.mkdir()
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    build, config = folder / "_build/nbgrader", folder / "nbgrader_config.py"
    release({"en": sources}, folder / "exercises", build, config)
    for name in sources:
        _succeed(_grader(folder).generate_assignment(name))
    return sources


def released(folder: Path, name: str) -> str:
    """The notebook that students get, as JSON."""
    return (folder / "exercises/en" / name / f"{name}.ipynb").read_text("utf-8")


def grade(
    folder: Path, name: str, student: str, text: str
) -> tuple[dict[str, float], dict[str, str]]:
    """Let nbgrader grade a notebook: the scores by grade id, and what each cell said.

    A cell's key is its grade id or, if it has none, its source.
    """
    api = _own(folder)
    root, path = Path(api.coursedir.root), Path(student, name, f"{name}.ipynb")
    (root / "submitted" / path).parent.mkdir(parents=True)
    (root / "submitted" / path).write_text(text, "utf-8")
    _succeed(api.autograde(name, student))
    graded = nbformat.read(root / "autograded" / path, as_version=4)
    said = {_key(cell): _said(cell) for cell in graded.cells if cell.cell_type == "code"}
    with Gradebook(api.coursedir.db_url) as gradebook:
        grades = gradebook.find_submission_notebook(name, name, student).grades
        return {grade.name: grade.auto_score for grade in grades}, said


def _grader(folder: Path) -> NbGraderAPI:
    config = PyFileConfigLoader("nbgrader_config.py", str(folder)).load_config()
    config.CourseDirectory.root = str(folder)
    config.JudgedOutside.trusted = True  # mutants take their mistakes from the catalogue
    return NbGraderAPI(config=config)


@cache
def _own(folder: Path) -> NbGraderAPI:
    """A copy of the course for this process alone: a gradebook is not shared."""
    warnings.simplefilter("ignore")  # SQLAlchemy's, on nbgrader's own code
    return _grader(Path(shutil.copytree(folder, folder.with_name(f"process-{os.getpid()}"))))


def _succeed(result: dict[str, Any]) -> None:
    if not result["success"]:
        raise RuntimeError(result.get("log") or result["error"])


def _key(cell: NotebookNode) -> str:
    return cell.metadata.get("nbgrader", {}).get("grade_id", cell.source)


def _said(cell: NotebookNode) -> str:
    """All that a cell printed or raised, without the spaces: feedback is wrapped."""
    said = (output.get("text", output.get("evalue", "")) for output in cell.outputs)
    return "".join("".join(said).split())
