"""Notebooks in another language: prose, comments and docstrings, words in figures.

Code, displayed mathematics, labels, options and outputs are the same in every language.
"""

import copy
from collections.abc import Mapping
from dataclasses import replace

from nbformat import NotebookNode

from press import BlockError, PressError, blocks, code, figures
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
    return _rewrite(notebook, lambda block: catalogue[block.message])


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
        computed = "computed" in cell.metadata  # its rows are not those of the page

        def located(block: Block, first: int = first, computed: bool = computed) -> str:
            try:
                return turn(replace(block, line=first + (0 if computed else block.line)))
            except KeyError:
                raise BlockError(block.line, f"not translated: {block.message!r}") from None
            except PressError as error:
                raise BlockError(block.line, str(error)) from None

        try:
            _cell(cell, located)
        except BlockError as error:
            line = first + (0 if computed else error.row) + 1
            raise PressError(f"{notebook.metadata.path}:{line}: {error.what}") from None
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
