"""Headings have the same address in every language: that of the English."""

from itertools import pairwise

from docutils.nodes import make_id
from nbformat import NotebookNode

from press.blocks import parser


def addresses(page: NotebookNode) -> list[str]:
    """Return an address for each heading of a page, in order, no two the same."""
    found: list[str] = []
    for cell in page.cells:
        tokens = parser().parse(cell.source) if cell.cell_type == "markdown" else []
        for opening, words in pairwise(tokens):
            if opening.type == "heading_open":
                found.append(_new(make_id(words.content) or "section", found))
    return found


def _new(name: str, known: list[str]) -> str:
    number = sum(other == name or other.startswith(f"{name}--") for other in known)
    return f"{name}--{number}" if number else name
