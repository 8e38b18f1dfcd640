"""Right programs, as the chapters print them, and where each of their lines stands.

The syntax tree of a program finds its lines; what is put there is text, so that a wrong program
keeps the layout and the comments of the right one.
"""

import ast
import copy
import inspect
import linecache
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple, TypeVar

HEADS = ast.FunctionDef, ast.ClassDef, ast.If, ast.For, ast.While, ast.With
MODULES = "programs", "layers"  # of an assignment: those for NumPy, and those that need torch

Made = TypeVar("Made")


class Stale(ValueError):
    """A mistake rewrites lines that its program does not have."""


# --- Where the lines of a program stand -------------------------------------------------------


class Place(NamedTuple):
    """A statement, or the head of one, as `ast` prints it; what it assigns; its lines.

    end: for a head, the last line of its body.
    """

    text: str
    target: str
    first: int
    last: int
    end: int = 0


def places(source: str) -> list[Place]:
    """The statements of a program in order, each head apart from its body."""
    return list(_walk(ast.parse(source).body, source.splitlines()))


def _walk(body: Sequence[ast.stmt], lines: Sequence[str]) -> Iterator[Place]:
    for node in body:
        if not isinstance(node, HEADS):
            yield Place(ast.unparse(node), _target(node), node.lineno, node.end_lineno or 0)
            continue
        for mark in getattr(node, "decorator_list", ()):
            yield Place(f"@{ast.unparse(mark)}", "", mark.lineno, mark.end_lineno)
        begin = min(n.lineno for n in (node.body[0], *getattr(node.body[0], "decorator_list", ())))
        before = (n for n in range(begin - 1, 0, -1) if lines[n - 1].strip().partition("#")[0])
        yield Place(
            _head(node), "", node.lineno, max(next(before, 0), node.lineno), node.end_lineno
        )
        yield from _walk(node.body, lines)
        if other := getattr(node, "orelse", None):
            above = range(other[0].lineno, node.body[0].lineno, -1)
            if at := next((n for n in above if lines[n - 1].strip().startswith("else:")), 0):
                yield Place("else:", "", at, at, other[-1].end_lineno)
            yield from _walk(other, lines)


def _head(node: ast.stmt) -> str:
    head: Any = copy.copy(node)
    head.body, head.orelse, head.decorator_list = [ast.Expr(ast.Constant(...))], [], []
    return ast.unparse(head).rpartition("\n")[0]


def _target(node: ast.stmt) -> str:
    if isinstance(node, ast.Return):
        return "return"
    if isinstance(node, ast.Assign):
        return ast.unparse(node.targets[0])
    return ast.unparse(node.target) if isinstance(node, (ast.AugAssign, ast.AnnAssign)) else ""


def _names(source: str) -> frozenset[str]:
    """The names that a program uses and is not handed."""
    nodes = list(ast.walk(ast.parse(source)))
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    return frozenset(used - {node.arg for node in nodes if isinstance(node, ast.arg)})


FILLED = "...", "def _():", "if _else:"  # what makes a fragment complete


def pattern(lines: Sequence[str]) -> list[Place]:
    """The places of a few lines; a head without a body stands for the head alone."""
    text: list[str] = []
    for line, after in zip(lines, [*lines, ""][1:], strict=True):
        depth = margin(line)
        heads = re.compile(rf" {{{depth}}}(if|for) ")
        if line.strip() == "else:" and not any(map(heads.match, text)):
            text.append(f"{' ' * depth}if _else: ...")
        text.append(line)
        if line.lstrip().startswith("@") and not re.match(r"\s*(@|def|class)", after):
            text.append(f"{' ' * depth}def _(): ...")
        elif line.rstrip().endswith(":") and margin(after) <= depth:
            text.append(f"{' ' * (depth + 4)}...")
    return [place for place in places("\n".join(text)) if place.text not in FILLED]


def margin(line: str) -> int:
    """The number of spaces that a line begins with."""
    return len(line) - len(line.lstrip())


# --- Programs ---------------------------------------------------------------------------------


class Edit(NamedTuple):
    """Lines first to last become these; what follows until `end` moves to the left, by so much."""

    first: int
    last: int
    lines: tuple[str, ...]
    end: int = 0
    left: int = 0


@dataclass(frozen=True, eq=False)
class Program:
    """A right program: its name, with that of its assignment, its text, what its module knows."""

    name: str
    source: str
    knows: dict[str, Any]

    @cached_property
    def places(self) -> list[Place]:
        return places(self.source)

    def calls(self, source: str = "") -> dict[str, str]:
        """The programs that it, or a version of it, calls, by the names that it calls them."""
        return _calls(self, source or self.source)

    def find(self, old: Sequence[str]) -> list[Place]:
        """Where these statements stand together, which must be in one place."""
        texts = [place.text for place in self.places]
        at = [i for i in range(len(texts)) if texts[i : i + len(old)] == list(old)]
        if len(at) != 1:
            what = " / ".join(old)
            raise Stale(f"{self.name} must have {what!r} once, but has it {len(at)} times")
        return self.places[at[0] : at[0] + len(old)]

    def rewrite(self, edits: Sequence[Edit]) -> str:
        """Its text with these edits, no two of the same line."""
        right = self.source.splitlines()
        lines, moves = [[line] for line in right], [0] * len(right)
        for first, last, new, end, left in edits:
            indent = " " * margin(right[first - 1])
            lines[first - 1 : last] = [[indent + line for line in new], *[[]] * (last - first)]
            for number in range(last, end):
                moves[number] += left
        moved = [(by, line) for by, some in zip(moves, lines, strict=True) for line in some]
        return "".join(f"{' ' * -by}{line[max(by, 0) :]}\n" for by, line in moved)

    def made(self, source: str, told: str = "right", **others: Any) -> Any:
        """What a version of it defines; a traceback names program and mistake, with the line."""
        file = f"<{self.name}: {told}>"
        linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
        known = {**self.knows, **others}
        exec(compile(source, file, "exec"), known)
        return known[self.name.rpartition("/")[2]]


@lru_cache(4096)
def _calls(program: Program, source: str) -> dict[str, str]:
    words = set(re.findall(r"\w+", source))
    known = {n: PROGRAM_OF.get(_key(program.knows[n]), "") for n in words & program.knows.keys()}
    called = {name: of for name, of in sorted(known.items()) if of and of != program.name}
    names = _names(source) if called else ()  # which takes a while
    return {name: of for name, of in called.items() if name in names}


PROGRAMS: dict[str, Program] = {}
PROGRAM_OF: dict[tuple[str, str], str] = {}  # by module and name of what it defines


def program(made: Made) -> Made:
    """Record a function or a class as a right program, and leave it as it is."""
    module, name = key = _key(made)
    source = textwrap.dedent(inspect.getsource(made)).partition("\n")[2]  # without @program
    PROGRAM_OF[key] = f"{module.split('.')[-2]}/{name}"
    PROGRAMS[PROGRAM_OF[key]] = Program(PROGRAM_OF[key], source, vars(inspect.getmodule(made)))
    return made


def _key(thing: Any) -> tuple[str, str]:
    return getattr(thing, "__module__", "") or "", getattr(thing, "__qualname__", "")


def find_program(name: str) -> Program:
    """The program `assignment/name`; its module is imported when it is first asked for."""
    assignment = name.rpartition("/")[0]
    for module in MODULES:
        path = f"normkit.tutor.{assignment}.{module}"
        if name not in PROGRAMS and find_spec(path):
            import_module(path)
    if name not in PROGRAMS:
        raise LookupError(f"There is no program {name!r} in the modules {MODULES} of its folder.")
    return PROGRAMS[name]
