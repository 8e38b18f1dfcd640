"""The entries of the page of the package: docstrings and calls, read from files, not imported."""

import ast
import copy
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from IPython.display import Markdown

ROOT = Path(__file__).parent.parent
FENCE = "```"
# an item of a list in a docstring: arguments and what they are, or what follows from the call
ITEM = re.compile(r"(?:\w+, )*\w+: |(?:Returns|Raises|Source)\b")
ARGUMENTS = re.compile(r"^((?:[a-z_]\w*, )*[a-z_]\w*):")
SEE = re.compile(r"See: ([a-z0-9-]+) in book/\w+\.md; (\S+)\.")
LINKS = (
    r"See {{ref}}`the {place} <\1>`, {{download}}`the code <{code}>` and "
    r"{{download}}`its tests <\2>`."
)
GRADIENT = "_backward"

Defined = ast.FunctionDef | ast.ClassDef


def of_package(*modules: str, gradients: bool | None = None) -> Markdown:
    """What `normkit` itself offers of some modules, in the order of their files.

    gradients: only the functions that compute gradients, or only the others.
    """
    strings = (node.value for node in ast.walk(_tree("")) if isinstance(node, ast.Constant))
    offered = set(strings)  # among them what `__all__` lists
    names = [(module, name) for module in modules for name in _public(module) if name in offered]
    if gradients is not None:
        names = [pair for pair in names if pair[1].endswith(GRADIENT) == gradients]
    return Markdown("\n\n".join(entry(module, name) for module, name in names))


def of_module(module: str, *names: str) -> Markdown:
    """What is imported from a module: these names, or all that it offers."""
    names = names or tuple(_public(module))
    return Markdown("\n\n".join(entry(module, name, f"{module}.") for name in names))


def entry(module: str, name: str, prefix: str = "") -> str:
    """The name, the call and the docstring of what a module defines, as Markdown."""
    node, home = _find(module, name)
    kind = ["class"] * isinstance(node, ast.ClassDef)
    label = "-".join(["api", *filter(None, prefix.split(".")), *kind, name])
    call = textwrap.fill(
        f"{prefix}{name}({_arguments(node, home)})",
        72,
        subsequent_indent="    ",
        break_on_hyphens=False,
    )
    text = ast.get_docstring(node) or ""
    place = "formula" if "$$" in text else "page"
    links = LINKS.format(place=place, code=_file(home).relative_to(ROOT).as_posix())
    described = SEE.sub(links, text)
    title = f"({label.lower().replace('_', '-')})=\n### `{name}`"
    code = f"{FENCE}python\n{call}\n{FENCE}"
    return "\n\n".join([title, code, *map(_paragraph, described.split("\n\n"))])


def _paragraph(text: str) -> str:
    """A paragraph of a docstring: an example, a list of arguments, or prose."""
    if text.startswith(">>>"):
        return f"{FENCE}pycon\n{text}\n{FENCE}"
    if not ITEM.match(text):
        return text
    lines = text.split("\n")
    return "\n".join(f"- {_code(line)}" if ITEM.match(line) else f"  {line}" for line in lines)


def _code(line: str) -> str:
    """A line with the names of arguments set as code."""
    return ARGUMENTS.sub(r"`\1`:", line)


# --- What a module defines --------------------------------------------------------------------


def _file(module: str) -> Path:
    path = ROOT.joinpath("normkit", *module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(_file(module).read_text("utf-8"))


def _public(module: str) -> list[str]:
    """The names in `__all__`, or else all that are defined without an underscore."""
    for node in _tree(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    return [node.name for node in _defined(module) if not node.name.startswith("_")]


def _defined(module: str) -> Iterator[Defined]:
    """The functions and classes of a module; of an overloaded one, its body."""
    for node in _tree(module).body:
        if isinstance(node, Defined) and "overload" not in map(ast.unparse, node.decorator_list):
            yield node


def _find(module: str, name: str) -> tuple[Defined, str]:
    """The definition of a name, and the module that holds it: perhaps one that this one imports."""
    for node in _defined(module):
        if node.name == name:
            return node, module
    for imported in _tree(module).body:
        if isinstance(imported, ast.ImportFrom) and name in {each.name for each in imported.names}:
            return _find((imported.module or "").removeprefix("normkit."), name)
    raise LookupError(f"{_file(module)} does not define {name}")


def _arguments(node: Defined, module: str) -> str:
    """The arguments of a call, without types; of a class those of `__init__`, or its fields."""
    if isinstance(node, ast.FunctionDef):
        return _untyped(node.args)
    if made := _constructor(node, module):
        arguments = copy.deepcopy(made.args)
        del arguments.args[0]
        return _untyped(arguments)
    fields = (item for item in node.body if isinstance(item, ast.AnnAssign))
    return ", ".join(ast.unparse(field.target) for field in fields)


def _constructor(node: ast.ClassDef, module: str) -> ast.FunctionDef | None:
    """The `__init__` of a class, or of the nearest that it inherits from in its module."""
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            return item
    names = {ast.unparse(base) for base in node.bases}
    bases = (base for base in _defined(module) if base.name in names)
    return next(
        (_constructor(base, module) for base in bases if isinstance(base, ast.ClassDef)), None
    )


def _untyped(arguments: ast.arguments) -> str:
    arguments = copy.deepcopy(arguments)
    for node in ast.walk(arguments):
        if isinstance(node, ast.arg):
            node.annotation = None
    return ast.unparse(arguments)
