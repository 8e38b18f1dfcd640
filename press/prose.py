"""Prose that a page computes: a code cell tagged `prose` becomes the Markdown that it displays."""

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

MARKDOWN = "text/markdown"


def write_out(notebook: NotebookNode) -> NotebookNode:
    """Put in place of each cell tagged `prose` what it displayed; the notebook has been run.

    From there on it is prose like any other: translated, labelled, in the table of contents. Its
    messages have the line of the cell, which the metadata `computed` says.
    """
    for index, cell in enumerate(notebook.cells):
        if "prose" in cell.metadata.get("tags", []):
            shown = [output.get("data", {}) for output in cell.outputs]
            text = "\n\n".join(data[MARKDOWN] for data in shown if MARKDOWN in data)
            notebook.cells[index] = new_markdown_cell(text, id=cell.id, metadata={"computed": True})
    return notebook
