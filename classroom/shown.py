"""What a student is shown of a graded notebook: no hidden test, and no more than a page holds."""

import re
from dataclasses import dataclass

from nbconvert.filters import strip_ansi
from nbformat import NotebookNode
from nbgrader.utils import is_grade

from normkit.messages import N_

HIDDEN = re.compile(r"\n?### BEGIN HIDDEN TESTS\n.*?(### END HIDDEN TESTS\n?|\Z)", re.DOTALL)
SEED = re.compile(r"seed\s*=\s*(\d+)")
BLANK = N_("[hidden test]")
FEW = 8  # letters and digits of a line that many others have too: a bracket, `else:`
BOX = 50  # characters that the markup around an output takes, at least
READ = 100_000  # characters of an output that are looked at
NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/=]")


@dataclass
class Room:
    """What still fits on a page, in characters: in one output, in one cell, in all."""

    output: int
    cell: int
    page: int
    left: int = 0  # in this cell
    full: bool = False  # whether something of this cell did not fit

    def enter(self) -> None:
        """Begin a cell."""
        self.left, self.full = min(self.cell, self.page), False

    def take(self, wanted: int, whole: bool = False) -> int:
        """How many of these characters have room, which is then taken; `whole`: all or none."""
        fits = max(0, min(wanted, self.output, self.left - BOX))
        if fits < wanted:
            self.full, fits = True, 0 if whole else fits
        taken = fits and fits + BOX
        self.left, self.page = self.left - taken, self.page - taken
        return fits


class Shown:
    """Cuts a notebook down to what its page may show."""

    def __init__(self, notebook: NotebookNode, blank: str = BLANK) -> None:
        self.hidden, self.blank = hidden(notebook), blank
        self.sources = Room(20_000, 20_000, 400_000)
        self.texts = Room(10_000, 20_000, 400_000)
        self.pictures = Room(1_000_000, 2_000_000, 5_000_000)  # in base64

    def cut(self, cell: NotebookNode) -> None:
        """Leave what may be shown: `told` in its metadata are the outputs; `cut`, if not all."""
        rooms = self.sources, self.texts, self.pictures
        for room in rooms:
            room.enter()
        source = HIDDEN.sub("", cell.source) if cell.cell_type == "code" else cell.source
        cell.source = source[: self.sources.take(len(source))]
        cell.metadata.told = [*filter(None, map(self._told, cell.get("outputs", [])))]
        pasted = cell.get("attachments", {}).items()
        cell.attachments = NotebookNode({name: of for name, of in pasted if self._fits(str(of))})
        cell.metadata.cut = any(room.full for room in rooms)

    def _told(self, output: NotebookNode) -> NotebookNode | None:
        told = plain(output)
        if told is None or told.kind == "picture":
            return told if told and self._fits(told.data) else None
        if self.texts.left > BOX:  # else a million outputs are not even looked at
            told.text = self.hidden.sub(self.blank, strip_ansi(told.text[:READ]))
        told.text = told.text[: self.texts.take(len(told.text))]
        return told if told.text else None

    def _fits(self, picture: str) -> bool:
        return self.pictures.take(len(picture), whole=True) > 0


def hidden(notebook: NotebookNode) -> re.Pattern:
    """The lines of the hidden tests, and their seeds.

    Letters and digits count alone: no spaces, quotes, colours or capitals take a line apart. What
    is encoded or drawn gets through.
    """
    tests = (cell.source for cell in notebook.cells if cell.cell_type == "code" and is_grade(cell))
    blocks = (found[0] for test in tests for found in HIDDEN.finditer(test))
    lines = [line for block in blocks for line in block.splitlines()]
    seeds = set(SEED.findall("\n".join(lines)))
    spread = {_spread(line) for line in lines if len(_letters(line)) >= FEW}
    named = {_spread(f"seed{seed}") + r"(?!\d)" for seed in seeds}
    bare = {rf"(?<![\da-z.]){seed}(?![\da-z]|\.\d)" for seed in seeds if len(seed) > 2}
    return re.compile("|".join([*spread, *named, *bare]) or r"(?!)", re.IGNORECASE)


def _letters(line: str) -> list[str]:
    return re.findall(r"[^\W_]", line)


def _spread(line: str) -> str:
    return r"[\W_]*+".join(map(re.escape, _letters(line)))


def plain(output: NotebookNode) -> NotebookNode | None:
    """An output as text or a picture: no traceback, which quotes tests, and no HTML of others."""
    if output.output_type == "stream":
        return NotebookNode(kind="text", text=output.text)
    if output.output_type == "error":
        checked = output.ename == "AssertionError" and output.evalue[:1] in "✗"
        text = output.evalue if checked else f"{output.ename}: {output.evalue}"
        return NotebookNode(kind="error", text=text)
    data = output.get("data", {})
    if "image/png" in data:
        return NotebookNode(kind="picture", data=NOT_BASE64.sub("", str(data["image/png"])))
    if "text/plain" in data:
        return NotebookNode(kind="text", text=str(data["text/plain"]))
    return None
