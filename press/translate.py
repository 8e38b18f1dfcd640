"""Notebooks in another language: prose, comments and docstrings, words in figures.

Code, displayed mathematics, labels, options and outputs are the same in every language.
"""

import copy
from collections.abc import Mapping
from dataclasses import replace

from nbformat import NotebookNode

from press import PressError, blocks, code, figures
from press.blocks import Block, Turn

SVG = "image/svg+xml"


def translate(notebook: NotebookNode, catalogue: Mapping[str, str]) -> NotebookNode:
    """Return a copy of the notebook with each message replaced by the catalogue's.

    Parameters
    ----------
    notebook
        As `press.run` reads or runs it: its metadata hold its path and its cells' lines.
    catalogue
        From each message in English to its translation.

    Raises
    ------
    PressError
        A message is not in the catalogue: names page, line and message.
    """

    def turn(block: Block) -> str:
        if block.message not in catalogue:
            raise PressError(f"line {block.line + 1}: not translated: {block.message!r}")
        return catalogue[block.message]

    return _rewrite(notebook, turn)


def messages(notebook: NotebookNode) -> list[Block]:
    """Return every message of a notebook, in the order of its cells."""
    found: list[Block] = []

    def collect(block: Block) -> str:
        found.append(block)
        return block.message

    _rewrite(notebook, collect)
    return found


def _rewrite(notebook: NotebookNode, turn: Turn) -> NotebookNode:
    notebook = copy.deepcopy(notebook)
    for cell, first in zip(notebook.cells, notebook.metadata.source_map, strict=True):
        try:
            _cell(cell, lambda block, first=first: turn(replace(block, line=block.line + first)))
        except PressError as error:
            raise PressError(
                f"{notebook.metadata.path}, cell at line {first + 1}: {error}"
            ) from None
    return notebook


def _cell(cell: NotebookNode, turn: Turn) -> None:
    if cell.cell_type == "markdown":
        cell.source = blocks.rewrite(cell.source, turn)
    elif cell.cell_type == "code":
        cell.source = code.rewrite(cell.source, turn)
        shown = cell.metadata.get("mystnb", {})
        for owner, key in (("image", "alt"), ("figure", "caption")):
            if key in shown.get(owner, {}):
                shown[owner][key] = blocks.rewrite(shown[owner][key], turn)
        for output in cell.get("outputs", []):
            if SVG in output.get("data", {}):
                output.data[SVG] = figures.rewrite(output.data[SVG], turn)
