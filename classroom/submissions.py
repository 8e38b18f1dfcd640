"""Reads whatever was handed in, and mends it, so that no submission stops the others.

What a student contributes is the text of the cells. What nbgrader needs to know about them comes
from the gradebook, whatever became of it on the way. Each repair is a warning that names the
student. (nbgrader alone gives no score to a notebook that it cannot read, or where the metadata
of a test are damaged; some damage ends its run for every student who follows.)
"""

import json
import os
import re
import stat
from collections import defaultdict
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from glob import escape, glob
from itertools import chain
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import NotebookExporter
from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode
from nbformat.corpus.words import generate_corpus_id
from nbformat.v4 import new_markdown_cell, new_notebook
from nbgrader.api import Gradebook, MissingEntry, Notebook

LARGEST = 20_000_000  # bytes of a file; a notebook of this course has 50,000, and some pictures
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")  # a line end would forge the log
BAD_NAME = "a line end or another control character in its name"
KINDS = "code", "markdown", "raw"


class SubmissionReader(NotebookExporter):
    """Reads the notebooks that ``nbgrader autograde`` converts: its ``exporter_class``."""

    parent: Any  # nbgrader's own converter

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._expect_every_notebook()
        self._leave_out_bad_names()
        self.parent.coursedir = course = copy(self.parent.coursedir)  # for this run alone
        course.ignore = [*course.ignore, *map(escape, self._refused_files())]
        course.get_existing_timestamp = self._came

    def _expect_every_notebook(self) -> None:
        """Grade missing notebooks too: nbgrader passes over a folder that holds none."""
        course = self.parent.coursedir
        with Gradebook(course.db_url) as gradebook:
            try:
                notebooks = gradebook.find_assignment(course.assignment_id).notebooks
            except MissingEntry:  # nbgrader itself will say so
                return
            names = [f"{notebook.name}.ipynb" for notebook in notebooks]
        step, student = course.submitted_directory, course.student_id
        for folder in glob(course.format_path(step, student, course.assignment_id)):
            paths = self.parent.assignments.setdefault(folder, [])
            expected = [str(Path(folder, name)) for name in names]
            paths.extend(path for path in expected if path not in paths)

    def _leave_out_bad_names(self) -> None:
        """Leave out names with line ends: in a folder's, one would end nbgrader's run."""
        handed_in = self.parent.assignments
        for path in [*handed_in, *chain.from_iterable(handed_in.values())]:
            if CONTROLS.search(path):
                self.log.warning("%s: refused: %s, left out", ascii(path), BAD_NAME)
        self.parent.assignments = {
            folder: [path for path in paths if not CONTROLS.search(path)]
            for folder, paths in handed_in.items()
            if not CONTROLS.search(folder)
        }

    def _refused_files(self) -> Iterator[str]:
        """Yield those beside the notebooks, which nbgrader copies: it might wait on one forever."""
        for path in chain.from_iterable(map(_beside, map(Path, self.parent.assignments))):
            if reason := refusal(path):
                self.log.warning("%s: refused: %s, left out", ascii(str(path)), reason)
                yield str(path)

    def _came(self, folder: str) -> datetime | None:
        """When a submission came: the time in a file that nbgrader opens, whatever it is."""
        course, path = self.parent.coursedir, Path(folder, "timestamp.txt")
        try:
            known = not (os.path.lexists(path) and refusal(path))
            return type(course).get_existing_timestamp(course, folder) if known else None
        except Exception as error:  # no date
            self.log.warning("%s: cannot be read (%s), not counted as late", path, _first(error))
            return None

    def from_filename(
        self, filename: str, resources: Any = None, **kwargs: Any
    ) -> tuple[Any, dict[str, Any]]:
        if not self.parent._sanitizing:  # nbgrader's second pass reads what the first one wrote
            return super().from_filename(filename, resources, **kwargs)
        path, known = Path(filename), resources["nbgrader"]
        with Gradebook(known["db_url"]) as gradebook:
            masters = master_cells(gradebook.find_notebook(known["notebook"], known["assignment"]))
        notebook, refusals = read(path)
        repairs = mend(notebook, masters)
        for remark in refusals or repairs:
            self.log.warning("%s, %s: %s", known["student"], path.name, remark)
        resources["metadata"] = ResourcesDict(path=str(path.parent))
        return self.from_notebook_node(notebook, resources, **kwargs)


def read(path: Path) -> tuple[NotebookNode, list[str]]:
    """Return the text of a submission or, if there is none, an empty notebook and the reason."""
    data, reason = taken(path)
    return (new_notebook(), [reason]) if reason else parsed(data)


def taken(path: Path) -> tuple[bytes, str]:
    """What was handed in, unread; or why it is graded as empty."""
    try:
        if reason := refusal(path):
            return b"", f"refused: {reason}, graded as empty"
        return path.read_bytes(), ""
    except (FileNotFoundError, NotADirectoryError):
        found = sorted(other.name for other in path.parent.glob("*.ipynb"))
        others = ", ".join(ascii(name) if CONTROLS.search(name) else name for name in found)
        hint = f" (found: {others}; rename it and grade again with --force)" if others else ""
        return b"", f"was not handed in{hint}, graded as empty"
    except OSError as error:
        return b"", f"cannot be read ({_first(error)}), graded as empty"


def parsed(data: bytes) -> tuple[NotebookNode, list[str]]:
    """The text of a submission or, if it is no notebook, an empty one and the reason."""
    try:
        text = data.decode(json.detect_encoding(data))
        raw = nbformat.convert(nbformat.reader.reads(text), 4)  # only its texts are taken
        return new_notebook(cells=[_text_of(cell) for cell in raw.cells]), []
    except Exception as error:  # a submission may be anything
        return new_notebook(), [f"cannot be read ({_first(error)}), graded as empty"]


def refusal(path: Path) -> str:
    """Why a file of a submission is not even opened; nothing if it may be.

    Raises FileNotFoundError where there is none.
    """
    facts = path.lstat()
    if any(part.is_symlink() for part in (path, *path.parents[:2])):
        return "a symbolic link, or in a folder that is one"
    if CONTROLS.search(path.name):
        return BAD_NAME
    if not stat.S_ISREG(facts.st_mode):
        return "no regular file"
    if facts.st_size > LARGEST:
        return f"{facts.st_size / 1e6:.0f} MB; at most {LARGEST / 1e6:.0f} MB are read"
    return ""


def _beside(folder: Path) -> Iterator[Path]:
    """The files that nbgrader would copy, or the folder itself where it is none of its own."""
    if folder.is_symlink() or folder.parent.is_symlink():
        yield folder
        return
    for place, _, names in os.walk(folder):
        yield from (Path(place, name) for name in names if not name.endswith(".ipynb"))


def _first(error: Exception) -> str:
    """An error in one line."""
    return CONTROLS.split(f"{type(error).__name__}: {error}")[0][:200]


def _text_of(cell: NotebookNode) -> NotebookNode:
    """A new cell with this one's text, pasted pictures, id, and nbgrader's metadata as they are."""
    source = str(cell.source).encode("utf-8", "replace").decode()  # no lone surrogates
    pasted = cell.cell_type == "markdown" and cell.get("attachments")
    kind = cell.cell_type if cell.cell_type in KINDS else "raw"
    text = new_markdown_cell(source, attachments=pasted) if pasted else new_cell(kind, source)
    text.metadata = NotebookNode(nbgrader=cell.metadata.get("nbgrader"), id=cell.get("id"))
    return text


def new_cell(kind: str, source: str, **others: Any) -> NotebookNode:
    """A cell; nbformat's own functions would check each, for a tenth of all time."""
    facts = {"id": generate_corpus_id(), "metadata": NotebookNode(), **others}
    if kind == "code":
        facts |= {"execution_count": None, "outputs": []}
    return NotebookNode(cell_type=kind, source=source, **facts)


@dataclass(frozen=True)
class Master:
    """A cell as the gradebook knows it; ``metadata`` are nbgrader's."""

    name: str
    cell_type: str
    source: str
    metadata: dict

    def cell(self, answer: str | None = None) -> NotebookNode:
        """This cell, with a student's answer where it is the student's to fill."""
        source = self.source if answer is None or not self.metadata["solution"] else answer
        metadata = NotebookNode(nbgrader=NotebookNode(self.metadata))
        return new_cell(self.cell_type, source, id=self.name, metadata=metadata)

    def describes(self, metadata: Any) -> bool:
        """Whether a submitted cell's metadata are still these (hidden tests change a checksum)."""
        ours = {**self.metadata, "checksum": None}
        return isinstance(metadata, dict) and ours == {**metadata, "checksum": None}


def master_cells(notebook: Notebook) -> list[Master]:
    """Return the cells that nbgrader knows of a notebook of an assignment, in their order."""
    graded = {cell.name: cell.max_score for cell in notebook.grade_cells}
    tasks = {cell.name: cell.max_score for cell in notebook.task_cells}
    solutions = {cell.name for cell in notebook.solution_cells}
    points = graded | tasks
    return [
        Master(
            name := cell.name,
            cell.cell_type,
            cell.source,
            {
                "schema_version": 3,
                "grade_id": name,
                "cell_type": cell.cell_type,
                "checksum": cell.checksum,
                "grade": name in graded,
                "solution": name in solutions,
                "task": name in tasks,
                "locked": cell.locked,
                **({"points": points[name]} if name in points else {}),
            },
        )
        for cell in notebook.source_cells
    ]


def mend(notebook: NotebookNode, masters: list[Master]) -> list[str]:
    """Give each cell that nbgrader knows its type and metadata back; return what was amiss.

    Answers stay as they are. A graded cell that is missing comes back after the cell it follows
    in the assignment or, where that is missing too, at the end.
    """
    cells, end = notebook.cells, len(notebook.cells)
    names = [_name(cell, [master.name for master in masters]) for cell in cells]
    mended, added, last = {}, defaultdict(list), end
    amiss = defaultdict(list)
    for master in masters:
        copies = [index for index, name in enumerate(names) if name == master.name]
        if copies:
            last = max(copies, key=lambda i: (cells[i].source != master.source, i))
            mended[last] = master.cell(cells[last].source)
            if len(copies) > 1:
                amiss["repeated, the last one that was changed counts"].append(master.name)
            if cells[last].cell_type != master.cell_type:
                amiss["turned into another type of cell, turned back"].append(master.name)
            elif not master.describes(cells[last].metadata.nbgrader):
                amiss["metadata lost or changed, restored"].append(master.name)
        elif "points" in master.metadata:
            added[last].append(master.cell())
            amiss["missing, put back"].append(master.name)
        else:  # the answer may be in a cell of the student's own: its test will tell
            last = end
            amiss["missing"].append(master.name)
    notebook.cells = []
    for index, cell in enumerate(cells):
        cell.metadata = NotebookNode()
        notebook.cells += [mended.get(index, cell), *added[index]]
    notebook.cells += added[end]
    return [f"{what}: {', '.join(which)}" for what, which in amiss.items()]


def _name(cell: NotebookNode, known: list[str]) -> str | None:
    """The grade id of a cell: nbgrader's metadata say it, and the cell's own id repeats it."""
    nbgrader = cell.metadata.nbgrader
    grade_id = nbgrader.get("grade_id") if isinstance(nbgrader, dict) else None
    return next((name for name in (grade_id, cell.metadata.id) if name in known), None)
