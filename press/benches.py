"""The page of each assignment: the released notebook, cut into tasks that run in the page."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook

from press.headings import addresses
from press.site.readme import how

FOLDER = "exercises"  # of the pages, among those of the book
PYTHON = "../../static/python/FOLDER/"  # `finish` puts the folder's name there
ANYWHERE = "normkit.tutor.states"  # imported where a class without PyTorch is accepted too
SETUP = "cell-1"  # the cell that imports, which runs unseen
SHOWN = "answer", "try"  # the kinds of code cells that a page shows
BUFFER = re.compile(r'self\.register_buffer\("(\w+)", torch\.tensor\((.*?)\)\)')
OPENING = re.compile(r"\A(# .*?)\n\n(.*?)\n\n.*?(^\|.*?)(?:\n\n|\Z)", re.DOTALL | re.MULTILINE)


def listed() -> list[str]:
    """The pages, in the order in which that of the exercises names them."""
    text = Path("book/exercises.md").read_text("utf-8")
    return re.findall(rf"{FOLDER}/\w+(?=\.zip)", text)


def pages(released: Path, language: str, say: Callable[[str], str]) -> dict[str, NotebookNode]:
    """The pages of the released assignments of a language, by their path."""
    english = {path.stem: _read(path) for path in sorted(released.glob("en/*/*.ipynb"))}
    own = {name: _read(released / language / name / f"{name}.ipynb") for name in english}
    return {f"{FOLDER}/{name}": _page(name, own[name], nb, say) for name, nb in english.items()}


def _read(path: Path) -> NotebookNode:
    return nbformat.reads(path.read_text("utf-8"), as_version=4)


def _page(
    name: str, notebook: NotebookNode, english: NotebookNode, say: Callable[[str], str]
) -> NotebookNode:
    language = notebook.metadata.language
    told = _manifest(name, notebook, addresses(english))
    kinds = {cell["id"]: cell["kind"] for task in told["tasks"] for cell in task["cells"]}
    page = new_notebook(metadata=dict(notebook.metadata))
    page.metadata.addresses = addresses(english)
    title, lede, table = OPENING.findall(notebook.cells[0].source)[0]
    page.cells.append(_text(f"{title}\n\n{lede}\n\n{table}\n\n{how(say)}", "opening"))
    for cell in notebook.cells[1:-1]:
        kind = kinds.get(cell.id, "")
        if _is_text(cell):
            page.cells.append(_text(_box(cell.source, kind), cell.id))
        elif kind in SHOWN or (cell.id != SETUP and not kind and _cell(name, cell, plain=False)):
            cell.metadata = NotebookNode(tags=[kind] if kind else [])
            page.cells.append(cell)
    facts = json.dumps(told | {"language": language}, ensure_ascii=False)
    page.cells.append(_text(f"```{{workbench}}\n{facts}\n```", "workbench"))
    return page


def _text(source: str, name: str) -> NotebookNode:
    return new_markdown_cell(source, id=name)


def _box(source: str, kind: str) -> str:
    """The text of a cell; a question that is answered in words has a place for them."""
    return '<div class="cell tag_written"></div>' if kind == "written" else source


def _manifest(name: str, notebook: NotebookNode, places: list[str]) -> dict[str, Any]:
    """What the page's script must know: its tasks, their cells, where all lies."""
    tasks = list(_tasks(name, notebook, places))
    return {
        "name": name,
        "notebook": f"{name}.ipynb",
        "python": PYTHON,
        "scripts": "../../static/workbench/",
        "chapter": f"../{name}.html",
        "exercises": "../exercises.html",
        "points": _total(tasks),
        "here": _total([task for task in tasks if task["runs"]]),
        "tasks": tasks,
    }


def _total(tasks: list[dict[str, Any]]) -> float:
    points = sum(task["points"] for task in tasks)
    return int(points) if points == int(points) else points


def _tasks(name: str, notebook: NotebookNode, places: list[str]) -> Iterator[dict[str, Any]]:
    """The tasks, one for each section, in their order."""
    for place, cells in zip(places[1:], _sections(notebook), strict=True):
        code = [cell for cell in cells if cell.cell_type == "code"]
        plain = any(ANYWHERE in cell.source for cell in code)
        own = [_cell(name, cell, plain) for cell in cells]
        asked = [cell for cell in own if cell and cell["kind"] in ("answer", "written")]
        runs = plain or not any("torch" in cell.source for cell in code)
        points = sum(cell.metadata.get("nbgrader", {}).get("points", 0) for cell in cells)
        if asked:
            yield {
                "section": place, "points": points, "runs": runs, "cells": [c for c in own if c],
            }  # fmt: skip


def _sections(notebook: NotebookNode) -> list[list[NotebookNode]]:
    """The cells of each section of the second level."""
    found: list[list[NotebookNode]] = []
    for cell in notebook.cells:
        for _heading in re.findall(r"^## ", cell.source, re.MULTILINE) if _is_text(cell) else ():
            found.append([])
        if found:
            found[-1].append(cell)
    return found


def _is_text(cell: NotebookNode) -> bool:
    return cell.cell_type == "markdown"


def _cell(name: str, cell: NotebookNode, plain: bool) -> dict[str, Any] | None:
    """What the script must know of a cell; of those that it has no use for, nothing."""
    facts = cell.metadata.get("nbgrader", {})
    if facts.get("solution"):
        if _is_text(cell):
            return {"id": cell.id, "kind": "written"}
        start = without_torch(cell.source) if plain else None
        return {"id": cell.id, "kind": "answer", "file": f"{cell.id}.py", "plain": start}
    if _is_text(cell) or facts.get("grade"):
        return None
    if re.search(r"^diagnose\(", cell.source, re.MULTILINE):
        return {"id": cell.id, "kind": "diagnose"}
    torch = re.search(r"^import torch$|^normkit\.need", cell.source, re.MULTILINE)
    return None if torch else {"id": cell.id, "kind": "try"}


def without_torch(source: str) -> str:
    """A layer of PyTorch as a plain class to begin with."""
    start = "self.training = True\n" if "register_buffer" in source else ""
    source = source.replace("(torch.nn.Module)", "")
    source = re.sub(r"( +)super\(\)\.__init__\(\)\n", rf"\1{start}" if start else "", source)
    source = BUFFER.sub(r"self.\1 = \2", source)
    if "torch" in source:
        raise ValueError(f"A class without PyTorch must not name torch, and this does:\n{source}")
    return source
