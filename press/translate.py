"""Notebooks in another language: prose, comments and docstrings, words in figures and output.

What code does, displayed mathematics, labels and options are the same in every language.
"""

import copy
from collections.abc import Mapping
from dataclasses import replace

from nbformat import NotebookNode

from press import BlockError, PressError, blocks, code, figures, strings
from press.blocks import Block, Turn
from press.strings import SVG


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
    spoken, foreign = strings.spoken(notebook), strings.foreign(notebook)
    pairs = dict[str, str]()
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
            if cell.cell_type == "code":
                cell.source, said = strings.rewrite(cell.source, spoken, located, foreign)
                pairs |= said
            _cell(cell, located)
            _output(cell, located, pairs)
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


def _output(cell: NotebookNode, turn: Turn, pairs: Mapping[str, str]) -> None:
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if SVG in data:
            data[SVG] = figures.rewrite(data[SVG], turn)
        elif "text/plain" in data:
            data["text/plain"] = strings.said(data["text/plain"], pairs)
        elif output.output_type == "stream":
            output.text = strings.said(output.text, pairs)
