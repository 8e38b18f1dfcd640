"""How long a page is, and how long it takes: `python -m press.reading book/why.md`.

What counts is open when the page is opened: words of prose, displayed formulas, cells that show
their code. What is folded does not count, nor do the sources.
"""

import re
import sys
from dataclasses import dataclass
from math import ceil
from pathlib import Path

PER_MINUTE = 130  # words of a technical text, with a pencil; a Chinese character is two thirds
FORMULA, CELL = 1, 1  # minutes for each
UNIT = 5  # minutes: what is said is rounded up to these

FRONT = re.compile(r"\A---\n.*?\n---\n", re.S)
FENCE = re.compile(r"^(`{3,}|:{3,})(.*?)$\n(.*?)^\1[ ]*$\n?", re.S | re.M)
SHOWN = re.compile(r"\{code-cell\}")
HIDDEN = re.compile(r"remove-input|remove-cell|hide-input|hide-cell")
FOLDED = re.compile(r"\{(dropdown|code-cell|literalinclude|figure|image|bibliography)\}")
FORMULAS = re.compile(r"^\$\$.*?\$\$|^\\begin\{align.*?\\end\{align\*?\}", re.S | re.M)
INLINE = re.compile(r"\$[^$]+\$")
ROLE = re.compile(r"\{[\w:]+\}`([^`<]*)(?:<[^`]*>)?`")
SOURCES = re.compile(r"^\([\w-]+-sources\)=\n.*", re.S | re.M)
LABEL = re.compile(r"^\([\w-]+\)=$", re.M)
WORD = re.compile(r"[一-鿿]|[^\W_][\w'’.-]*")


@dataclass(frozen=True)
class Length:
    """What is open on a page."""

    words: float
    formulas: int
    cells: int

    @property
    def minutes(self) -> int:
        """The reading time that a page may promise."""
        time = self.words / PER_MINUTE + FORMULA * self.formulas + CELL * self.cells
        return UNIT * ceil(time / UNIT)


def length(page: str) -> Length:
    """Count what is open on a page of Markdown, in any language of the book."""
    text = SOURCES.sub("", FRONT.sub("", page))
    cells = 0

    def opened(found: re.Match) -> str:
        nonlocal cells
        cells += bool(SHOWN.search(found[2]) and not HIDDEN.search(found[3]))
        return "" if FOLDED.search(found[2]) else FENCE.sub(opened, found[3])

    text = FENCE.sub(opened, text)
    formulas = len(FORMULAS.findall(text))
    text = ROLE.sub(r"\1", INLINE.sub(" x ", FORMULAS.sub("", LABEL.sub("", text))))
    found = WORD.findall(text)
    return Length(sum(2 / 3 if "一" <= word <= "鿿" else 1 for word in found), formulas, cells)


def main() -> None:
    """Print the length of each page that is named."""
    for name in sys.argv[1:]:
        found = length(Path(name).read_text("utf-8"))
        print(f"{name}: {found.words:.0f} words, {found.formulas} formulas, {found.cells} cells")
        print(f"  {found.minutes} minutes")


if __name__ == "__main__":
    main()
