"""Whether an answer was built by hand: which ready-made functions it calls.

Two witnesses: while the answer runs, the interpreter reports every call; and the syntax tree shows
the calls that these inputs did not reach. What a name means is looked up, so a student's own
`layer_norm` is no call to ours. A layer counts where it is made: to call one that was given is
allowed. What TorchScript or another thread runs is not seen, nor a student who resets the profiler.
"""

import ast
import inspect
import linecache
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, lru_cache, partial
from importlib.util import find_spec
from pkgutil import resolve_name
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

KINDS = "layer", "rms", "batch", "group", "instance"
FLAX = "Layer", "RMS", "Batch", "Group", "Instance"
NORMS = (
    *(f"torch.nn.functional.{name}" for name in (*(f"{kind}_norm" for kind in KINDS), "normalize")),
    *(f"torch.{kind}_norm" for kind in (*KINDS, "_weight")),
    *(f"torch.native_{kind}_norm" for kind in ("layer", "batch", "group")),
    *(f"torch.nn.{kind}Norm" for kind in ("Layer", "RMS", "Group")),
    *(f"torch.nn.{kind}Norm{n}d" for kind in ("Batch", "Instance") for n in (1, 2, 3)),
    *(f"torch.nn.modules.{kind.lower()}norm._{kind}Norm" for kind in ("Batch", "Instance")),
    *(f"torch.nn.utils.fusion.fuse_linear_bn_{name}" for name in ("eval", "weights")),
    *(f"torch.nn.utils.{name}.weight_norm" for name in ("weight_norm", "parametrizations")),
    *(f"equinox.nn.{kind}Norm" for kind in ("Layer", "RMS", "Group", "Batch")),
    *(f"flax.{api}.{kind}Norm" for api in ("nnx", "linen") for kind in FLAX),
    "jax.nn.standardize",
)
GRADIENTS = (
    *("torch.autograd.grad", "torch.autograd.backward", "torch.Tensor.backward"),
    *(f"torch.func.{name}" for name in ("grad", "vjp", "jvp", "jacrev", "jacfwd")),
    *(f"jax.{name}" for name in ("grad", "value_and_grad", "vjp", "jvp", "jacrev", "jacfwd")),
)
VARIANCES = (
    *(f"{kind}.{n}" for kind in ("numpy", "numpy.ndarray", "torch.Tensor") for n in ("var", "std")),
    *(f"{np}.{name}" for np in ("numpy", "jax.numpy") for name in ("cov", "nanvar", "nanstd")),
    *("jax.numpy.var", "jax.numpy.std"),
    *(f"torch.{name}" for name in ("var", "std", "var_mean", "std_mean", "cov")),
    *(f"statistics.{kind}{name}" for kind in ("", "p") for name in ("variance", "stdev")),
)
SUMS = (
    *(
        f"{kind}.{n}"
        for kind in ("numpy", "numpy.ndarray", "torch.Tensor")
        for n in ("mean", "sum")
    ),
    *(f"jax.numpy.{name}" for name in ("mean", "sum", "average")),
    *("numpy.average", "torch.mean", "torch.sum", "statistics.mean", "statistics.fmean"),
    *("builtins.sum", "math.fsum"),
)
OURS = "normkit"  # every public function and layer of the package
READY_MADE = (OURS, *NORMS, *GRADIENTS)
CONDITIONAL = (
    "modulate modulate_backward adaptive_layer_norm adaptive_layer_norm_backward "
    "conditional_batch_norm adaptive_instance_norm"
)
CONDITIONAL_LAYERS = "AdaLN AdaLNZero FiLM ConditionalBatchNorm2d"
INSIDE = {  # the functions and layers that only modules of it name
    "variance": "two_pass moments welford merge",
    "conditional": CONDITIONAL,
    "conditional_layers": CONDITIONAL_LAYERS,
}
OF_TORCH = "folding", "layers", "placement", "conditional_layers"  # its modules that import it
TOOLS = "examining", "watching", "tutor.feedback"  # they normalise nothing
LARGE = "torch", "jax", "equinox", "flax"  # libraries that take seconds to import


@contextmanager
def watching(names: Iterable[str], used: list[str]) -> Iterator[None]:
    """Add to `used` the names of the ready-made functions that a student's code calls meanwhile.

    names: dotted names; "normkit" stands for all public names of the package. Calls that
    this package or one of its functions makes do not count, even if a student was handed it.
    """
    known = _ready_made(tuple(names), _absent())
    codes, objects, homes, ends = known.codes, known.objects, known.homes, known.ends

    def witness(frame: FrameType, event: str, called: Any) -> None:
        name = ""
        caller: FrameType | None = frame
        if event == "call" and id(frame.f_globals) in homes and id(frame.f_code) in codes:
            layer = next(iter(frame.f_locals.values()), None)
            name, caller = codes[id(frame.f_code)] or _name(layer, objects), frame.f_back
        elif event == "c_call" and called.__name__ in ends:
            method = _attribute(called.__self__, called.__name__)
            name = _name(called, objects) or _name(method, objects)
        if name and name not in used and _called_by_a_student(caller):
            used.append(name)

    before = sys.getprofile()
    sys.setprofile(witness if objects else before)
    try:
        yield
    finally:
        sys.setprofile(before if callable(before) else None)


def named_in(answer: Any, names: Iterable[str]) -> list[str]:
    """The ready-made functions that an answer is, or that its source calls, reached or not.

    The student's functions and classes that it calls are read as well. Nothing of them runs, not
    even a comparison.
    """
    objects = _ready_made(tuple(names), _absent()).objects
    waiting = list(answer) if type(answer) is tuple or type(answer) is list else [answer]
    found, seen = [], {}
    while waiting and objects:
        thing = _inside(waiting.pop(0))
        if id(thing) not in seen:
            seen[id(thing)] = thing
            found.append(_name(thing, objects))
            waiting += (called for method in _methods(thing) for called in _called(method))
    return list(dict.fromkeys(filter(None, found)))


def _absent() -> tuple[str, ...]:
    """The large libraries that are not imported: until they are, nobody calls them."""
    return tuple(f"{name}." for name in LARGE if name not in sys.modules)


class ReadyMade:
    """What is looked for.

    codes: its names by the id of the code that runs, "" for any layer's. objects: its names by the
    objects, which keeps the code alive. homes: the ids of the namespaces of the code. ends: the
    last parts of the names.
    """

    def __init__(self) -> None:
        self.codes, self.objects = dict[int, str](), dict[Any, str]()
        self.homes, self.ends = set[int](), set[str]()

    def add(self, name: str, thing: Any) -> None:
        layer = isinstance(thing, type)
        runs = thing.__init__ if layer else inspect.unwrap(thing)
        self.codes.setdefault(id(getattr(runs, "__code__", runs)), "" if layer else name)
        self.homes.add(id(getattr(runs, "__globals__", None)))
        self.ends.add(name.rpartition(".")[2])
        self.objects.setdefault(thing, name)


@cache
def _ready_made(names: tuple[str, ...], absent: tuple[str, ...]) -> ReadyMade:
    """The functions and layers of these names."""
    found = ReadyMade()
    for name in (*names, *(_public("torch." not in absent) if OURS in names else ())):
        spared = name == OURS or name.startswith(absent)
        if not spared and (thing := _resolved(name)) is not None:
            found.add(name, thing)
    return found


def _resolved(name: str) -> Any:
    """What a name stands for; None where this version of its library, or this place, has none."""
    with suppress(ImportError, AttributeError):
        return (resolve_name if name.startswith(f"{OURS}.") else _of_library)(name)


_of_library = cache(resolve_name)


def look_up() -> None:
    """Find what is watched, once for all forks: of this package they may see more."""
    _ready_made.cache_clear()
    _is_here.cache_clear()
    for name in (*NORMS, *GRADIENTS, *VARIANCES, *SUMS):
        if not name.startswith(_absent()):
            _resolved(name)


def _public(torch: bool) -> Iterator[str]:
    """The public functions and layers of the package that are installed here."""
    import normkit

    spared = {*TOOLS, *(() if torch else OF_TORCH)}
    for start, of in ((OURS, normkit._LATER), *((f"{OURS}.{m}", {m: INSIDE[m]}) for m in INSIDE)):
        for module, names in of.items():
            if module not in spared and _is_here(f"{OURS}.{module}"):
                yield from (f"{start}.{name}" for name in names.split())


@cache
def _is_here(module: str) -> bool:
    """Whether a module is installed: a sandbox has few of this package's."""
    return find_spec(module) is not None


def _name(thing: Any, objects: dict[Any, str]) -> str:
    """The name of a ready-made object, or of the first such class that its class derives from."""
    known = (name for base in (thing, *_bases(thing)) for o, name in objects.items() if o is base)
    return next(known, "")


def _called_by_a_student(frame: FrameType | None) -> bool:
    """Whether the first caller that is no library is a student's code, and not this package."""
    while frame is not None:
        origin = _origin(frame.f_code, frame.f_globals)
        if origin != "library" or frame.f_code.co_name == "_call_impl":  # it calls a layer
            return origin == "student"
        frame = frame.f_back
    return False


def is_a_students(frame: FrameType) -> bool:
    """Whether a frame runs a student's code."""
    return _origin(frame.f_code, frame.f_globals) == "student"


def wrote(function: FunctionType) -> bool:
    """Whether a function is a student's."""
    return _origin(function.__code__, function.__globals__) == "student"


def _origin(code: CodeType, names: dict[str, Any]) -> str:
    module = dict.get(names, "__name__")
    top = module.partition(".")[0] if type(module) is str else ""
    installed = "site-packages" in code.co_filename or "dist-packages" in code.co_filename
    library = installed or top in sys.stdlib_module_names
    return OURS if top == OURS else "library" if library else "student"


WRAPPERS = (partial, "func"), (MethodType, "__func__"), (FunctionType, "__wrapped__")
_mro = type.__dict__["__mro__"].__get__  # a student may have written the usual ways
_of_class, _of_module = (vars(kind)["__dict__"].__get__ for kind in (type, ModuleType))


def _bases(thing: Any) -> tuple[type, ...]:
    return _mro(thing if issubclass(type(thing), type) else type(thing))


def _attribute(thing: Any, name: str) -> Any:
    """What a module, a class or the class of an object holds under a name, else None."""
    held = [_of_module(thing)] if issubclass(type(thing), ModuleType) else []
    return next((own[name] for own in (*held, *map(_of_class, _bases(thing))) if name in own), None)


def _inside(thing: Any) -> Any:
    """The function in a partial, in a method, in what a decorator returned."""
    for kind, name in WRAPPERS * 3:
        thing = getattr(thing, name, thing) if type(thing) is kind else thing
    return thing


def _methods(thing: Any) -> Iterator[FunctionType]:
    """A student's function itself, or what runs when an object of a class is made and called."""
    names = "__init__", "__call__", "forward"
    for method in (thing, *(_attribute(thing, name) for name in names)):
        f = _inside(method)
        if type(f) is FunctionType and wrote(f):
            yield f


def _called(function: FunctionType) -> Iterator[Any]:
    """What the names mean that a function's source calls; nothing if there is no source."""

    def meaning(node: ast.expr) -> Any:
        if isinstance(node, ast.Attribute):
            return _attribute(meaning(node.value), node.attr)
        return names.get(node.id) if isinstance(node, ast.Name) else None

    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        names = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
        for own in _locals(function.__code__):
            names.pop(own, None)
        yield from [meaning(n.func) for n in _tree(function.__code__) if isinstance(n, ast.Call)]


def _locals(code: CodeType) -> Iterator[str]:
    """The names of arguments and variables; of functions inside as well, to be on the safe side."""
    yield from (*code.co_varnames, *code.co_cellvars)
    for inner in code.co_consts:
        yield from _locals(inner) if isinstance(inner, CodeType) else ()


def _tree(code: CodeType) -> Iterator[ast.AST]:
    """The syntax tree of a function; nothing if it could be either of two lambdas on a line."""
    linecache.checkcache(code.co_filename)
    found = []
    for node in _defined("".join(linecache.getlines(code.co_filename))):
        parts = node, *getattr(node, "decorator_list", ())  # code begins at the first of these
        lines, name = {part.lineno for part in parts}, getattr(node, "name", "<lambda>")
        found += [node] if code.co_firstlineno in lines and code.co_name == name else []
    yield from ast.walk(found[0]) if len(found) == 1 else ()


@lru_cache(8)
def _defined(source: str) -> list[ast.FunctionDef | ast.Lambda]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the student has seen them
        tree = ast.walk(ast.parse(source))
        return [node for node in tree if isinstance(node, (ast.FunctionDef, ast.Lambda))]
