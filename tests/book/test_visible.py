"""What a page shows runs as shown: its visible cells need nothing that a hidden one defines."""

import ast
import builtins
from pathlib import Path

import pytest

from press.run import pages, read

ROOT = Path(__file__).parents[2]
PAGES = [path for path in pages(ROOT / "_toc.yml", ROOT / "book")]
HIDDEN = {"remove-cell", "remove-input", "prose"}
KNOWN = {*dir(builtins), "__name__", "_"}


def defined(tree):
    """The names that a cell binds at its top: assignments, imports, functions, classes."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
            found |= {arg.arg for arg in ast.walk(node) if isinstance(arg, ast.arg)}
        elif isinstance(node, ast.Lambda):
            found |= {arg.arg for arg in ast.walk(node) if isinstance(arg, ast.arg)}
        elif isinstance(node, ast.ExceptHandler) and node.name:
            found.add(node.name)
    return found


def used(tree):
    loads = (n for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
    return {node.id for node in loads}


def left(path):
    """The names that visible cells use and none of them defines."""
    known, found = set(KNOWN), set()
    for cell in read(path).cells:
        if cell.cell_type == "code" and not HIDDEN & set(cell.metadata.get("tags", ())):
            tree = ast.parse(cell.source)
            known |= defined(tree)
            found |= used(tree) - known
    return found


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_visible_cells_use_no_name_of_a_hidden_one(path):
    assert not left(path)
