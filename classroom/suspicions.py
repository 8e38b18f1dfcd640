"""What the text of a submission shows: ready-made functions in an answer, and ways past the watch.

Nothing runs here. The child in the sandbox has looked for ready-made functions too, but a student's
code shares its process with whoever looks; the text does not.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from IPython.core.inputtransformer2 import TransformerManager

from normkit.tutor.by_hand import OURS

# modules that reach behind the watch; others of which a person may want to know; calls that do
BEHIND, UNUSUAL, CALLS = (
    frozenset(names.split())
    for names in (
        "_thread atexit builtins code codeop concurrent ctypes dis gc importlib marshal "
        "multiprocessing runpy threading",
        "ast asyncio cffi cloudpickle dill equinox fcntl flax glob haiku http inspect keras "
        "mmap numba os pickle pip pty requests resource shutil signal sklearn socket subprocess "
        "tempfile tensorflow types urllib",
        "compile delattr eval exec globals vars",
    )
)
# parts of ordinary ones that do the same
PARTS = re.compile(
    r"sys\.(modules|meta_path|path_hooks|set(profile|trace)|_(?!_)\w+|monitoring|addaudithook)\b"
    r"|os\.(write|writev|close|closerange|dup2?|fdopen|fork\w*|kill\w*|_exit|abort|exec\w*|pipe)\b"
    r"|torch\.(_(?!_)\w+|ops|classes|jit|compile|fx|export|library|package|overrides|utils\._\w+"
    r"|utils\.cpp_extension|multiprocessing)\b"
    r"|normkit\.(tutor(?!\.(\w+\.tasks|states\.(run|state|evaluate))\b)|_(?!_)\w+|messages)\b"
    r"|numpy\.(ctypeslib|f2py)\b"
)
SETTINGS = "torch.backends.", "matplotlib.", "logging.", "warnings."  # meant to be changed
ORDINARY = (
    *("add", "all", "call", "class", "doc", "enter", "exit", "file", "future", "getitem", "import"),
    *("init", "iter", "len", "main", "mul", "name", "next", "repr", "str", "version"),
)
# attributes of frames, by which a function looks at its caller; names between two underscores
FRAMES = frozenset(f"f_{name}" for name in ("back", "builtins", "code", "globals", "locals"))
FRAMES |= {f"{name}_frame" for name in ("tb", "gi", "cr", "ag")}
INNER = re.compile(r"__(?!(?:{})__)\w+__$".format("|".join(ORDINARY)))
HOMES = "placement", "layers"  # modules in which names of the package may be looked up, too
LONGEST = 100_000  # characters of a cell that is read
FOLLOWED = 5  # names that stand for names
MAGICS = "run_line_magic", "run_cell_magic", "system", "getoutput"
RUNNING = "time", "timeit", "prun", "capture"  # magics that run what they are given
PLAIN = (
    "matplotlib",
    "pinfo",
    "pinfo2",
    "precision",
    "pprint",
    "xmode",
    "config",
    "who",
    "whos",
    "autosave",
)


@dataclass(frozen=True)
class Text:
    """The code of a submission: its cells as syntax trees, and what their names mean."""

    trees: Sequence[ast.Module]
    aliases: dict[str, set[str]]
    bound: dict[str, list[ast.AST]]
    shared: dict[str, list[ast.AST]]  # of these, what is no function's own
    unread: int = 0  # cells too long to be read
    known: dict[str, set[str]] = field(default_factory=dict)  # what a name was found to mean
    seen: dict[ast.AST, list[str]] = field(default_factory=dict)  # and what is used in a tree

    def meanings(self, node: ast.AST, depth: int = 0) -> set[str]:
        """The dotted names that an expression may stand for."""
        if depth or not isinstance(node, ast.Name):
            return self._meanings(node, depth)
        if node.id not in self.known:
            self.known[node.id] = self._meanings(node, depth)
        return self.known[node.id]

    def _meanings(self, node: ast.AST, depth: int) -> set[str]:
        if isinstance(node, ast.Attribute):
            return {f"{of}.{node.attr}" for of in self.meanings(node.value, depth)}
        if not isinstance(node, ast.Name) or depth > FOLLOWED:
            return {by_call(node)} - {""}
        values = self.bound.get(node.id, [])
        found = self.aliases.get(node.id, set()) | ({node.id} & {"builtins"})
        found = found.union(*(self.meanings(v, depth + 1) for v in values if is_name(v)))
        return found if values else found | {f"{of}.{node.id}" for of in self.aliases.get("*", ())}

    def meant(self, tree: ast.AST) -> list[str]:
        """What the functions and classes mean that are used in a tree."""
        if tree not in self.seen:
            found = (name for node in used(tree) for name in sorted(self.meanings(node)))
            self.seen[tree] = list(dict.fromkeys(found))
        return self.seen[tree]

    def reached(self, expression: str) -> list[ast.AST]:
        """What is bound to the names in an expression, and to the names in that, and so on."""
        found: list[ast.AST] = []
        waiting, seen = names_in(ast.parse(expression)), set[str]()
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                found += self.shared.get(name, [])
                waiting += [n for tree in self.shared.get(name, []) for n in free(tree)]
        return found


def text_of(sources: Iterable[str]) -> Text:
    """Read the code cells of a submission; those that are no Python are left out."""
    every = [source for source in sources if source.strip()]
    trees = [tree for source in every if len(source) <= LONGEST for tree in parsed(source)]
    aliases: dict[str, set[str]] = {}
    bound: dict[str, list[ast.AST]] = {}
    shared: dict[str, list[ast.AST]] = {}
    for tree in trees:
        for name, value in shared_by(tree):
            shared.setdefault(name, []).append(value)
    for imports, binds in map(facts_of, trees):
        for name, module in imports:
            aliases.setdefault(name, set()).add(module.removesuffix(".*"))
        for name, value in binds:
            bound.setdefault(name, []).append(value)
    return Text(trees, aliases, bound, shared, sum(len(source) > LONGEST for source in every))


@lru_cache(1000)  # most cells are those of the assignment, the same for all
def parsed(source: str) -> tuple[ast.Module, ...]:
    """A cell as Python sees it, after IPython's magics; what a magic runs; nothing of no Python."""
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        tree = ast.parse(TransformerManager().transform_cell(source))
        ran = [text for n in nodes(tree) for name, text in magics(n) if name in RUNNING]
        return tree, *(inner for text in ran for inner in parsed(text))
    return ()


@lru_cache(1000)
def facts_of(tree: ast.Module) -> tuple[list[tuple[str, str]], list[tuple[str, ast.AST]]]:
    """What a cell imports, and what it binds."""
    return (
        [found for node in nodes(tree) for found in imported(node)],
        [found for node in nodes(tree) for found in bindings(node)],
    )


@lru_cache(5000)
def nodes(tree: ast.AST) -> list[ast.AST]:
    """All nodes of a tree."""
    return list(ast.walk(tree))


def magics(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The name of a magic that a call runs, and each text that it is given."""
    name = last_name(node.func) if isinstance(node, ast.Call) else ""
    if isinstance(node, ast.Call) and name in MAGICS[:2] and node.args:
        magic, *texts = (str(constant(given)) for given in node.args)
        yield from ((magic, text) for text in texts)
    elif name in MAGICS:
        yield name, ""


def is_name(node: ast.AST) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute, ast.Call))


def imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The names that an import binds, and what they mean."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            top = alias.name.partition(".")[0]
            yield (alias.asname, alias.name) if alias.asname else (top, top)
    elif isinstance(node, ast.ImportFrom) and not node.level:
        for alias in node.names:
            yield alias.asname or alias.name, f"{node.module}.{alias.name}"
    elif name := by_call(node):
        yield name.partition(".")[0], name


def modules(node: ast.AST) -> list[str]:
    """The full names of what a statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [name for _bound, name in imported(node)]


def by_call(node: ast.AST) -> str:
    """The module that a call of `__import__` or `import_module` names."""
    called = isinstance(node, ast.Call) and last_name(node.func) in ("__import__", "import_module")
    name = constant(node.args[0]) if called and isinstance(node, ast.Call) and node.args else ""
    return name if isinstance(name, str) else ""


def last_name(node: ast.AST | None) -> str:
    return str(getattr(node, "id", getattr(node, "attr", "")))


def constant(node: ast.AST) -> Any:
    """The value of a constant; None for what is none."""
    return node.value if isinstance(node, ast.Constant) else None


def bindings(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """The names that a statement binds, each with what it is bound to."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name, node
    elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)) and node.value:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            for name in names_in(target):
                yield name, node.value


def names_in(tree: ast.AST) -> list[str]:
    return [node.id for node in nodes(tree) if isinstance(node, ast.Name)]


FUNCTIONS = ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda
Own = frozenset[str]


def scoped(tree: ast.AST) -> Iterator[tuple[ast.AST, Own]]:
    """All nodes of a tree, each with the names that belong to the functions around it."""
    waiting = [(tree, Own())]
    while waiting:
        node, own = waiting.pop()
        yield node, own
        inside: list[Any] = []
        if isinstance(node, FUNCTIONS):
            inside = node.body if isinstance(node.body, list) else [node.body]
            waiting += [(child, own | owned(node, inside)) for child in inside]
        waiting += [(c, own) for c in ast.iter_child_nodes(node) if c not in inside]


SCOPES = *FUNCTIONS, ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp


def owned(function: Any, body: Iterable[ast.AST]) -> Own:
    """The parameters of a function and what it binds itself; not what it declares another's."""
    found, others, waiting = set[str](), set[str](), [*body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            others |= {*node.names}
        if not isinstance(node, SCOPES):  # which bind names of their own
            waiting += ast.iter_child_nodes(node)
    args = function.args
    plain = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return Own((found | {arg.arg for arg in plain if arg}) - others)


@lru_cache(5000)
def free(tree: ast.AST) -> list[str]:
    """The names in a tree that are no function's own."""
    return [n.id for n, own in scoped(tree) if isinstance(n, ast.Name) and n.id not in own]


@lru_cache(1000)
def shared_by(tree: ast.AST) -> list[tuple[str, ast.AST]]:
    """What a cell binds to names that are no function's own."""
    return [found for node, own in scoped(tree) for found in bindings(node) if found[0] not in own]


def ready_made(text: Text, expression: str, by_hand: Iterable[str]) -> list[str]:
    """The forbidden names of libraries that an answer reaches: called, derived from, passed on.

    A layer may be named without being made: isinstance(module, torch.nn.LayerNorm).
    """
    wanted, ours = {*by_hand} - {OURS}, OURS in by_hand
    wanted |= {f"{OURS}.{module}.{name.partition('.')[2]}" for name in wanted for module in HOMES}
    trees = ast.parse(expression), *text.reached(expression)
    names = (name for tree in trees for name in text.meant(tree))
    return list(dict.fromkeys(n for n in names if n in wanted or (ours and is_ours(n))))


def is_ours(name: str) -> bool:
    """Whether a dotted name is one of the package's functions or layers."""
    top, _, rest = name.partition(".")
    others = "", "check", "diagnose", "need", "say", "speak", "tutor"
    return top == OURS and rest.partition(".")[0] not in others


def used(tree: ast.AST) -> Iterator[ast.AST]:
    """The functions named anywhere in a tree; the classes where they are made or derived from."""
    for node in nodes(tree):
        if isinstance(node, ast.Call):
            yield node.func
        elif isinstance(node, ast.ClassDef):
            yield from node.bases
        elif isinstance(node, (ast.Name, ast.Attribute)):
            name = node.id if isinstance(node, ast.Name) else node.attr
            if not name[:1].isupper():
                yield node


def behind(text: Text) -> list[str]:
    """What reaches behind the watch, anywhere in the text."""
    found = [hit for tree in text.trees for hit in _behind(text, tree)]
    return list(dict.fromkeys(found + ["a cell too long to be read"] * text.unread))


def _behind(text: Text, tree: ast.AST) -> Iterator[str]:
    for node in nodes(tree):
        for name in modules(node):
            if name.partition(".")[0] in BEHIND or PARTS.match(name):
                yield f"import {name}"
        if isinstance(node, ast.Attribute):
            yield from (found[0] for name in text.meanings(node) if (found := PARTS.match(name)))
        name = last_name(node) or constant(node)
        if name in FRAMES or INNER.match(str(name)):
            yield str(name)
        if isinstance(node, ast.Name) and node.id in CALLS and node.id not in text.bound:
            yield node.id
        if isinstance(node, ast.Call):
            yield from _called(text, node)
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Delete)):
            yield from _replaced(text, node)


def _called(text: Text, node: ast.Call) -> Iterator[str]:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    given = {last_name(each) for each in (*node.args, *(k.value for k in node.keywords))}
    yield from sorted(given & {"getattr", "setattr", "__import__"})  # handed on, called elsewhere
    if name == "__import__" and not isinstance(constant(node.args[0] if node.args else node), str):
        yield "__import__(…)"
    elif name == "setattr" and node.args and text.meanings(node.args[0]):
        yield "setattr(…)"
    elif name == "getattr" and len(node.args) > 1:
        asked = constant(node.args[1])
        own = isinstance(node.args[0], ast.Name) and node.args[0].id == "self"
        if text.meanings(node.args[0]) or (asked is None and not own):
            yield f"getattr(…, {asked!r})" if asked else "getattr(…)"


def _replaced(text: Text, node: ast.AST) -> Iterator[str]:
    """Attributes of modules that are given another value."""
    targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
    for target in (t for some in targets if some for t in ast.walk(some)):
        stored = isinstance(target, ast.Attribute) and not isinstance(target.ctx, ast.Load)
        names = text.meanings(target) if stored else ()
        yield from (f"{name} = …" for name in names if not name.startswith(SETTINGS))


def unusual(text: Text) -> list[str]:
    """What no answer needs, and a person may want to know."""
    names = (name for tree in text.trees for node in nodes(tree) for _, name in imported(node))
    tops = dict.fromkeys(name.partition(".")[0] for name in names)
    found = [f"import {top}" for top in tops if top in UNUSUAL]
    found += [f"{name} = …" for name in ("check", "diagnose", OURS) if text.bound.get(name)]
    every = [node for tree in text.trees for node in nodes(tree)]
    asked = {id(getattr(n, "value", None)) for n in every if getattr(n, "attr", "") in MAGICS}
    for node in every:
        if last_name(getattr(node, "func", None)) == "get_ipython" and id(node) not in asked:
            found.append("get_ipython()")
        found += [f"%{name}" for name, _given in magics(node) if name not in RUNNING + PLAIN]
        if isinstance(node, ast.ClassDef):
            bases = {name for base in node.bases for name in text.meanings(base)}
            found += [f"a class of {b}" for b in sorted(bases & {"numpy.ndarray", "torch.Tensor"})]
        if "vnd.normkit" in str(constant(node)):
            found.append("an output that looks like a verdict")
    return list(dict.fromkeys(found))
