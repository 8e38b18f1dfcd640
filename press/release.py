"""Releases the assignments: nbgrader strips answers and hidden tests from their sources."""

import re
import shutil
from collections.abc import Mapping
from copy import deepcopy
from importlib.metadata import version
from pathlib import Path

import nbformat
from nbgrader.converters import GenerateAssignment
from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import capture_log
from traitlets.config import Config, PyFileConfigLoader

from press import PressError
from press.files import digest, mirror

Notebook = nbformat.NotebookNode
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}
RELEASED = "*/*/*.ipynb"  # language, assignment, assignment


def release(
    sources: Mapping[str, Mapping[str, Notebook]],
    out: Path = Path("exercises"),
    build: Path = Path("_build/nbgrader"),
    config: Path = Path("nbgrader_config.py"),
) -> list[Path]:
    """Write ``out/<language>/<assignment>/<assignment>.ipynb``; return the files that changed.

    ``sources`` holds a notebook with answers and tests for each language and assignment. No
    gradebook is read or written: the instructor's comes from ``nbgrader generate_assignment``.
    """
    files = {
        f"{language}/source/{name}/{name}.ipynb": _source(notebook, language)
        for language, notebooks in sources.items()
        for name, notebook in notebooks.items()
    }
    stamp = build / "released"
    if stamp.exists() and stamp.read_text() == _state(files, config, out):
        return []
    mirror(files, build, _notebooks(build, "*/source/*/*.ipynb"))
    released = {}
    for language in sorted({path.split("/")[0] for path in files}):
        folder = _generate(build / language, config)
        for path in folder.glob("*/*.ipynb"):
            released[f"{language}/{path.relative_to(folder).as_posix()}"] = path.read_bytes()
    _spare_work(released, out)
    changed = mirror(released, out, _notebooks(out))
    stamp.write_text(_state(files, config, out))
    return changed


def _source(notebook: Notebook, language: str) -> bytes:
    """The same bytes for the same cells: numbered ids, no outputs, none of the book's metadata.

    A graded cell's id is its grade id, so that it is still known if its metadata get lost.
    """
    cells = deepcopy(notebook.cells)
    for number, cell in enumerate(cells):
        graded = cell.metadata.get("nbgrader")
        cell.metadata = Notebook(nbgrader=graded) if graded else Notebook()
        cell.id = graded["grade_id"] if graded else f"cell-{number}"
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}, "language": language}
    return (
        nbformat.writes(nbformat.v4.new_notebook(cells=cells, metadata=metadata)) + "\n"
    ).encode()


def _generate(folder: Path, config: Path) -> Path:
    """Run nbgrader's ``generate_assignment`` on all of ``folder/source``, without a gradebook."""
    shutil.rmtree(folder / "release", ignore_errors=True)
    settings = PyFileConfigLoader(config.name, str(config.absolute().parent)).load_config()
    settings.CourseDirectory = Config(root=str(folder.absolute()), assignment_id="*")
    settings.GenerateAssignment.no_database = True
    settings.SaveCells.enabled = False
    course = CourseDirectory(config=settings)
    result = capture_log(GenerateAssignment(coursedir=course, config=settings))
    if not result["success"]:
        log = result.get("log", result["error"]).partition("[ERROR] Please see the the above")[0]
        said = re.sub(r"Traceback.*?\n    (?=\w)", "", log, flags=re.DOTALL).strip()
        raise PressError(f"nbgrader could not release {folder}:\n{said}")
    return folder / "release"


def _spare_work(released: Mapping[str, bytes], out: Path) -> None:
    """Stop before writing over a release in which somebody has worked: a release has no outputs."""
    for path in _notebooks(out):
        content = path.read_bytes()
        old = content != released.get(path.relative_to(out).as_posix())
        if old and b'"output_type"' in content:
            raise PressError(
                f"{path} is a released assignment, but it was run: is it somebody's work? "
                "Move it to a folder of its own, and make again."
            )


def _state(sources: Mapping[str, bytes], config: Path, out: Path) -> str:
    """All that a release depends on, and what it wrote: a hand-edited release is written again."""
    texts = [name + content.decode() for name, content in sorted(sources.items())]
    return digest([*_notebooks(out), config, Path(__file__)], *texts, version("nbgrader"))


def _notebooks(folder: Path, pattern: str = RELEASED) -> list[Path]:
    """The notebooks that bear their folder's name: others beside them are somebody's own."""
    return [path for path in folder.glob(pattern) if path.stem == path.parent.name]
