"""What a layer's state shows, names, shapes, first numbers; and in which library an answer is."""

import sys
from collections.abc import Callable, Iterable, Iterator
from dis import get_instructions
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from normkit.messages import N_
from normkit.tutor.by_hand import wrote

STARTS = N_("the parameters of a new layer")
NEW = N_("the output of a new layer (weight 1, bias 0)")
TRAINED = N_("the output with loaded weights")
HALF = N_("the dtype of the output for a float16 x")
NEITHER = N_("neither all 0 nor all 1")

Named = Iterable[tuple[str, Any]]  # as a module lists them


def new(answer: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """A layer of a class; TypeError for one that is made already."""
    import torch

    if isinstance(answer, torch.nn.Module):
        raise TypeError(f"{type(answer).__name__!r} object is not a class")
    return answer(*args, **options)


def backward(y: Any, dy: Any) -> None:
    """Hand dy back from y, as y.backward(dy) does, which first imports sympy: half a second."""
    (y * dy).sum().backward()


def shapes(named: Named) -> str:
    """The names and the shapes, sorted."""
    return " ".join(sorted(f"{name}{tuple(tensor.shape)}" for name, tensor in named))


def starts(named: Named, usual: Iterable[str] = ("float32",)) -> str:
    """The numbers at the start, as far as they are all 0 or all 1, and unusual dtypes."""
    tensors = dict(named)
    numbers = {name: tensor.flatten().tolist() for name, tensor in tensors.items()}
    values = {name: sorted({v + 0.0 for v in found}) for name, found in numbers.items()}  # -0 is 0
    known = {name: f"{v[0]:g}" if v in ([0], [1]) else NEITHER for name, v in values.items()}
    text = ", ".join(f"{name} = {value}" for name, value in sorted(known.items()))
    dtypes = {str(tensor.dtype).removeprefix("torch.") for tensor in tensors.values()}
    return " ".join([text, *sorted(dtypes - {*usual})])


# --- A layer with PyTorch, or without ---------------------------------------------------------


def state(layer: Any) -> dict[str, Any]:
    """The tensors or the arrays of a layer, by name."""
    if hasattr(layer, "state_dict"):
        return dict(layer.state_dict())
    return {name: value for name, value in vars(layer).items() if isinstance(value, np.ndarray)}


def run(layer: Any, x: Any) -> np.ndarray:
    """What a layer makes of numbers, as an array; they are handed over in float32."""
    x = np.array(x, np.float32)
    if not hasattr(layer, "state_dict"):
        return np.asarray(called(layer, x))
    import torch

    return np.asarray(layer(torch.from_numpy(x)).detach())


def evaluate(layer: Any) -> None:
    """Put a layer in evaluation."""
    if hasattr(layer, "eval"):
        layer.eval()
    else:
        layer.training = False


# --- A layer without PyTorch ------------------------------------------------------------------

FLOATS = "float32", "float64"


def is_plain(answer: Any) -> bool:
    """Whether an answer is a class that is written without PyTorch."""
    torch: Any = sys.modules.get("torch")
    if not isinstance(answer, type) or (torch and issubclass(answer, torch.nn.Module)):
        return False
    methods = [value for value in vars(answer).values() if isinstance(value, FunctionType)]
    return not any(
        "torch" in _home(f.__globals__.get(n)) for f in methods for n in f.__code__.co_names
    )


def _home(thing: Any) -> str:
    """The module of a function or a class, or its own name."""
    return str(getattr(thing, "__module__", "") or getattr(thing, "__name__", ""))


def held(layer: Any, names: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """The arrays that a plain layer holds under these names."""
    for name in names:
        yield name, np.asarray(getattr(layer, name))


def called(layer: Any, x: Any) -> Any:
    """What a plain layer makes of an array, whether it is called or has a method `forward`."""
    return layer(x) if callable(layer) else layer.forward(x)


# --- A function in JAX ------------------------------------------------------------------------


def is_in_jax(answer: Any) -> bool:
    """Whether a function is written with JAX, or calls one of the student's that is."""
    waiting, seen = [answer], set()
    while waiting:
        function = waiting.pop()
        function = getattr(function, "__wrapped__", function)  # what jit was given
        if type(function) is not FunctionType or function in seen or not wrote(function):
            continue
        seen.add(function)
        names = _names(function.__code__)
        meant = [function.__globals__.get(name) for name in names]
        if any(_top(name) == "jax" for name in (*names, *map(_home, meant))):
            return True
        waiting += meant
    return False


@lru_cache(256)  # asked for on each probe
def _names(code: CodeType) -> list[str]:
    """The global names and the modules that a function uses, and those inside it."""
    used = "LOAD_GLOBAL", "IMPORT_NAME"
    own = [str(step.argval) for step in get_instructions(code) if step.opname in used]
    inside = [inner for inner in code.co_consts if isinstance(inner, CodeType)]
    return own + [name for inner in inside for name in _names(inner)]


def is_of_jax(value: Any) -> bool:
    """Whether a value is an array of JAX."""
    return _top(type(value).__module__) in ("jax", "jaxlib") and hasattr(value, "dtype")


def _top(name: str) -> str:
    return name.partition(".")[0]
