"""The corrected assignments, run: what students may get after the deadline.

They stay out of the site and of the exercises: `make solutions` writes them to a folder of their
own.
"""

import re
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path

import nbformat

from press import run

FOLDER = Path("_build/solutions")
MARK = re.compile(r"^[ \t]*### (BEGIN|END) SOLUTION\n?", re.MULTILINE)
HIDDEN = re.compile(r"^[ \t]*### BEGIN HIDDEN TESTS\n.*?### END HIDDEN TESTS\n?", re.M | re.S)

Notebook = nbformat.NotebookNode


def write_corrected(
    sources: Mapping[str, Mapping[str, Notebook]], folder: Path = FOLDER
) -> list[Path]:
    """Write ``folder/<language>/<assignment>.ipynb``, answers in it and run; return the files.

    Hidden tests are left out, because they serve again. Raises PressError where a cell fails.
    """
    notebooks = {
        folder / language / f"{name}.ipynb": corrected(notebook)
        for language, of in sources.items()
        for name, notebook in of.items()
    }
    for path, notebook in notebooks.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        notebook.metadata.path = path.as_posix()
    for path, notebook in run.execute(notebooks, "Running solutions"):
        del notebook.metadata["path"]
        nbformat.write(notebook, path)
    return list(notebooks)


def corrected(source: Notebook) -> Notebook:
    """The notebook with its answers, without marks, hidden tests and what nbgrader needs."""
    notebook = deepcopy(source)
    for cell in notebook.cells:
        cell.source = HIDDEN.sub("", MARK.sub("", cell.source)).strip("\n")
        cell.metadata.pop("nbgrader", None)
    return notebook
