"""Which modules of a package a program can reach: a page runs again only where these change."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = "normkit"
# whose modules are found by name as they run, and read files beside them
WHOLE = {f"{PACKAGE}.{part}" for part in ("tutor", "examining", "watching")}


def needed(*programs: str, root: Path = Path()) -> set[Path]:
    """Return the files of the package that programs reach by their imports, however far.

    Parameters
    ----------
    programs
        Python. What cannot be parsed may reach the whole package.
    root
        The folder that holds the package.
    """
    try:
        waiting = [PACKAGE, *(m for p in programs for m in _named(ast.parse(p), root))]
    except SyntaxError:
        return files(root / PACKAGE)
    found, seen = set[Path](), set[str]()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            found |= (paths := _files(name, root))
            waiting += [name.rpartition(".")[0]] if "." in name else []
            waiting += [m for path in paths if path.suffix == ".py" for m in _imported(path, root)]
    return found


def files(folder: Path) -> set[Path]:
    """Return the modules below a folder, and the mistakes beside them."""
    return {path for kind in ("*.py", "*.diff") for path in folder.rglob(kind)}


@cache
def _files(name: str, root: Path) -> set[Path]:
    """The file of a module or a package, all of some; none for a name that is neither."""
    whole = next((part for part in WHOLE if f"{name}.".startswith(f"{part}.")), None)
    if whole:
        return files(root / whole.replace(".", "/"))
    path = root / name.replace(".", "/")
    return {f for f in (path.with_suffix(".py"), path / "__init__.py") if f.exists()}


@cache
def _imported(path: Path, root: Path) -> tuple[str, ...]:
    """The modules that one module may import; the package's own front names others only."""
    tree = ast.parse(path.read_text("utf-8"))
    front = path == root / PACKAGE / "__init__.py"
    kept = [node for node in tree.body if not (front and isinstance(node, ast.If))]
    return tuple(_named(ast.Module(kept, []), root))


@cache
def _later(root: Path) -> dict[str, str]:
    """The module of each name that the package imports when it is first asked for."""
    tree = ast.parse((root / PACKAGE / "__init__.py").read_text("utf-8"))
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [n for block in blocks for n in block.body if isinstance(n, ast.ImportFrom)]
    return {
        alias.name: f"{node.module}.{alias.name}" if node.module == PACKAGE else str(node.module)
        for node in imports
        for alias in node.names
    }


def _named(tree: ast.AST, root: Path) -> Iterator[str]:
    """Yield the modules of the package that a program names."""
    later = _later(root)
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (a.name for a in names if f"{a.name}.".startswith(f"{PACKAGE}."))
            case ast.ImportFrom(module=str(module)) if f"{module}.".startswith(f"{PACKAGE}."):
                yield module
                yield from (f"{module}.{alias.name}" for alias in node.names)
                if module == PACKAGE:
                    yield from (later.get(alias.name, PACKAGE) for alias in node.names)
            case ast.Attribute(value=ast.Name(id=package), attr=name) if package == PACKAGE:
                yield later.get(name, f"{PACKAGE}.{name}")
