"""The part of an assignment that counts: chosen by the names of its tasks, kept in a file.

`make grade ASSIGNMENT=layer_norm TASKS=forward,backward` chooses. All that counts points reads the
choice beside the gradebook; all is graded in any case, so that another choice costs no time.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from classroom.planting import CALL
from normkit.tutor.tasks import find

FOLDER = Path("gradebook.tasks")  # for each assignment a file, with a grade id on each line
ALL = "all"


@dataclass(frozen=True)
class Part:
    """What counts of an assignment: these graded cells, or all; with written answers or without."""

    cells: frozenset[str] = frozenset()
    written: bool = True

    def counts(self, name: str, cell_type: str) -> bool:
        """Whether a graded cell counts; a written answer is a cell of Markdown."""
        chosen = not self.cells or name in self.cells
        return chosen and (self.written or cell_type != "markdown")

    def scale(self, cells: Sequence[tuple[str, str, float]]) -> float:
        """What the points of cells that count are multiplied by; cells: names, types and points."""
        most = sum(points for _, _, points in cells)
        counted = sum(points for name, kind, points in cells if self.counts(name, kind))
        return most / counted if counted else 1.0


def file(assignment: str) -> Path:
    """Where the choice for an assignment of the course in this folder is kept."""
    return FOLDER / f"{assignment}.txt"


def chosen(assignment: str) -> frozenset[str]:
    """The graded cells that were chosen; none: all of them count."""
    path = file(assignment)
    return frozenset(path.read_text("utf-8").split() if path.exists() else ())


def choice(assignment: str, names: Sequence[str], cells: Mapping[str, str]) -> frozenset[str]:
    """The graded cells of these names; ``all`` is none. cells: the graded ones' sources by id.

    An unknown name raises ValueError.
    """
    if [*names] == [ALL]:
        return frozenset()
    return frozenset(cell for name in names for cell in named(name, assignment, cells))


def keep(assignment: str, cells: frozenset[str]) -> None:
    """Write a choice down, if it is another one: feedback that is older is out of date."""
    if cells != chosen(assignment):
        FOLDER.mkdir(exist_ok=True)
        draft = FOLDER / ".being-written"  # whole or not at all
        draft.write_text("".join(f"{cell}\n" for cell in sorted(cells)), "utf-8")
        draft.replace(file(assignment))


def named(name: str, assignment: str, cells: Mapping[str, str]) -> list[str]:
    """The graded cells of a name: a grade id, one without its `test_`, or a task with its parts."""
    if name in cells:
        return [name]
    task = f"{assignment}/{name}"
    if found := [c for c in cells if short(c) == name or task in tasks_in(cells[c])]:
        return found
    here = (t for c in cells for t in tasks_in(cells[c]) if t.startswith(f"{assignment}/"))
    known = dict.fromkeys([*map(short, cells), *(task.partition("/")[2] for task in here), ALL])
    raise ValueError(f"{assignment} has no task {name!r}; TASKS may name: {', '.join(known)}.")


def tasks_in(source: str) -> list[str]:
    """The tasks that a graded cell checks, and those of which they are a part."""
    checked = [find(task) for call, _, task, _ in CALL.findall(source) if call == "check"]
    return [name for task in checked for name in (task.name, task.whole) if name]


def short(cell: str) -> str:
    return cell.removeprefix("test_")


def split(text: str) -> list[str]:
    """The names in a list, between commas or spaces."""
    return re.findall(r"[^\s,]+", text)
