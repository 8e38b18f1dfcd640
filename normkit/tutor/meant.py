"""What is perhaps meant by a name, or by an attribute, that is not known; only what is likely.

A name made of another, as dxhat of xhat, or new_bias of bias, is that of another thing, which is
not computed yet.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from inspect import signature
from types import FrameType, ModuleType
from typing import Any

import numpy as np

from normkit.tutor.by_hand import NORMS

LONG, LIKE = 7, 0.83  # letters, and how many in common: not new_running_mean and new_running_var
SHORT = {"epsilon": "eps", "variance": "var", "numpy": "np", "istraining": "training"}
BARE = re.compile(r"newaxis|inf|nan|pi|u?int\d+|float\d+")  # of a library, though not called
NOTEBOOK = "In", "Out"  # which every notebook knows


def meant(error: BaseException, line: str, frame: FrameType) -> str:
    """What is perhaps meant in the line that raised an error; "" if that is not known."""
    try:
        if isinstance(error, NameError) and error.name:
            return _by_name(error.name, line, frame)
        if isinstance(error, AttributeError) and error.name:
            return _by_attribute(error.name, error.obj, line)
    except BaseException:  # to look at a student's object may run anything
        pass
    return ""


# --- A name -----------------------------------------------------------------------------------


def _by_name(name: str, line: str, frame: FrameType) -> str:
    """An attribute of the layer, something of the library, a name like it; "" if none is likely."""
    layer, called = frame.f_locals.get("self"), _stands(f"{name}(", line)
    if hasattr(layer, name) and (called or not callable(getattr(layer, name))):
        return f"self.{name}"
    if found := _of_library(name, line, frame) or _misspelt(name, _known(frame, line, called)):
        return found
    return f"self.{name}" if name in signature(type(layer)).parameters else ""  # of its __init__


def _of_library(name: str, line: str, frame: FrameType) -> str:
    """What a library has under a name that is used so: called, or a module that holds something.

    No ready-made norm: where one is called, it is to be written, or is another cell's.
    """
    torch: Any = sys.modules.get("torch")
    kinds = (torch.Tensor, torch.nn.Module) if torch else ()
    tensors = any(isinstance(value, kinds) for value in frame.f_locals.values())
    in_torch = torch and (tensors or "torch." in line)
    if in_torch and name == "F" and any(hasattr(torch.nn.functional, n) for n in _of_f(line)):
        return "torch.nn.functional"
    places = {"torch": torch, "torch.nn": torch.nn} if in_torch else {"np": np}
    for place, library in places.items():
        thing = getattr(library, name, None)  # np.newaxis is None
        gone_into = isinstance(thing, ModuleType) and _stands(f"{name}.", line)
        used = gone_into or BARE.fullmatch(name) or (callable(thing) and _stands(f"{name}(", line))
        own = hasattr(library, name) and thing is not library  # torch.torch: it is not imported
        if own and used and f"{place}.{name}" not in NORMS:
            return f"{place}.{name}"
    return ""


def _of_f(line: str) -> list[str]:
    return re.findall(r"(?<![\w.])F\.(\w+)", line)


def _known(frame: FrameType, line: str, called: bool) -> set[str]:
    """The names that are known, but do not stand in the line; functions where one is called.

    A function that called itself, for want of another, would never end.
    """
    values = {"True": True, "False": False, "None": None} | frame.f_globals | frame.f_locals
    itself = {frame.f_code.co_name, type(frame.f_locals.get("self")).__name__}
    others = {*re.findall(r"\w+", line), *itself, *NOTEBOOK}
    return {name for name, value in values.items() if called or not callable(value)} - others


# --- An attribute -----------------------------------------------------------------------------


def _by_attribute(name: str, obj: Any, line: str) -> str:
    """One like it, or where it is to be had: in a tensor, where a layer stands; in torch.nn."""
    torch: Any = sys.modules.get("torch")
    is_layer = bool(torch) and isinstance(obj, torch.nn.Module)
    of_tensors = name not in ("name", "names") and bool(torch) and hasattr(torch.Tensor, name)
    if is_layer and of_tensors and f"self.{name}" not in line:
        return "torch.Tensor"
    if torch and (place := _in_torch(name, obj, is_layer)):
        return f"{place}.{name}"
    if any(hasattr(other, name) for other in _others(obj)):
        return ""
    names = set(dir(obj))
    if is_layer:  # self.buffer(...) is no misspelling of buffers
        called = f".{name}(" in line
        names -= {n for n in dir(torch.nn.Module) if not called or n == f"{name}s"}
    return _misspelt(name, names)


def _in_torch(name: str, obj: Any, is_layer: bool) -> str:
    """Where a layer, an initialisation or a function is that was looked for in another place."""
    torch: Any = sys.modules.get("torch")
    nn = torch.nn
    places = {"torch.nn": nn} if name[0].isupper() and (is_layer or obj is torch) else {}
    if obj is torch or obj is torch.functional:
        places |= {"torch.nn.init": nn.init, "torch.nn.functional": nn.functional}
    found = [place for place, library in places.items() if hasattr(library, name)]
    return found[0] if found and f"{found[0]}.{name}" not in NORMS else ""


def _others(obj: Any) -> list[Any]:
    """What has the attributes of the other library that this may be mistaken for."""
    torch: Any = sys.modules.get("torch")
    of = [(np.ndarray, torch.Tensor), (np, torch)] if torch else []
    pairs = [*of, *((b, a) for a, b in of)]
    return [other for one, other in pairs if obj is one or type(obj) is one]


# --- What is like it --------------------------------------------------------------------------


def _stands(what: str, line: str) -> bool:
    return bool(re.search(rf"(?<![\w.]){re.escape(what)}", line))


def _misspelt(name: str, names: Iterable[str]) -> str:
    """The name that is probably misspelt so, whatever its capitals; "" if none is."""
    public = {_plain(n): n for n in sorted(names, reverse=True) if n[0] != "_"}
    plain = _plain(name)
    near = [n for n in public if n == plain or (_alike(n, plain) and not _are_two(n, plain))]
    near.sort(key=lambda n: (n != plain, abs(len(n) - len(plain))))
    return public[near[0]] if near else ""


def _plain(name: str) -> str:
    """A name without what is least remembered: capitals, underscores, whether it is shortened."""
    name = name.replace("_", "").lower()
    return SHORT.get(name, name)


def _alike(a: str, b: str) -> bool:
    """Whether one slip leads from one to the other, or, where they are long, more of them."""
    short, long = sorted((a, b), key=len)
    if a[:1] != b[:1] or len(short) < 3:
        return False
    if short in _slips(long) or _vowels(a) == _vowels(b):
        return True
    return len(short) >= LONG and SequenceMatcher(None, a, b).ratio() > LIKE


def _slips(name: str) -> Iterator[str]:
    """The name with a letter left out, or with two exchanged."""
    for i in range(len(name)):
        yield name[:i] + name[i + 1 :]
        yield name[:i] + name[i : i + 2][::-1] + name[i + 2 :]


def _vowels(name: str) -> str:
    """The name in which one vowel is as good as another."""
    return re.sub("[aeiouy]", "e", name)


def _are_two(a: str, b: str) -> bool:
    """Whether names so alike are of two things: scale and scaled, u1 and u2, sum_x and sum_y."""
    short, long = sorted((a, b), key=len)
    more = long.removeprefix(short)
    added = long.startswith(short) and (len(more) > 1 or more == "d")
    return added or a[:-1] == b[:-1] or re.sub(r"\d", "", a) == re.sub(r"\d", "", b)
