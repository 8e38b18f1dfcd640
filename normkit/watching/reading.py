"""From the device to numbers: the norms of many tensors in few calls, one transfer for all."""

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import isfinite
from typing import Any

import numpy as np
import torch
from torch import Tensor

Key = tuple[str, int, str]  # what was measured, at which place, of which buffer
Measured = tuple[Key, Tensor, int]  # a tensor, and of how many values its norm is to be the RMS
Norm = tuple[int, Tensor, int]  # a place, the norm of a tensor there, of how many values
HALF = (torch.float16, torch.bfloat16)
PENDING = 100_000  # norms that wait at most; so many if no backward pass ever comes


@dataclass(eq=False)
class Group:
    """What was measured of one kind: the norms on their device; once read, each as an RMS."""

    what: str
    name: str
    places: list[int]
    sizes: Sequence[int]
    norms: Tensor
    values: np.ndarray[Any, np.dtype[np.float64]]


def norm(x: Tensor, order: float = 2) -> Tensor:
    """The norm of x, on its device, without overflow in half precision."""
    if x.dtype is torch.float32 and order == 2:
        return torch.linalg.vector_norm(x)  # which is asked for most: no argument to read
    return torch.linalg.vector_norm(x, order, dtype=torch.float32 if x.dtype in HALF else None)


@torch.no_grad()
def norms(asked: Iterable[Measured], order: float = 2) -> list[Group]:
    """The norm of each tensor, of those of one shape in one call; of order inf, the greatest."""
    alike = defaultdict[object, list[Measured]](list)
    for one in asked:
        (what, _place, name), tensor, _size = one
        alike[what, name, tensor.device, tensor.dtype, tensor.shape].append(one)
    groups = list[Group]()
    for group in alike.values():
        groups.append(_group(group, _each([tensor for _, tensor, _ in group], order)))
    return groups


def _each(tensors: list[Tensor], order: float = 2) -> Tensor:
    """The norms of tensors of one shape."""
    stacked = torch.stack(tensors).reshape(len(tensors), -1)
    stacked = stacked.float() if stacked.dtype in HALF else stacked
    return torch.linalg.vector_norm(stacked, order, dim=1)


def scalars(what: str, known: Collection[Norm]) -> list[Group]:
    """Norms that are known, those on one device together."""
    if not known:
        return []
    places, values, sizes = zip(*known, strict=True)
    if len(devices := {value.device for value in values}) == 1:
        return [Group(what, "", [*places], sizes, torch.stack(values), np.empty(0))]
    parts = ([one for one in known if one[1].device == device] for device in devices)
    return [group for part in parts for group in scalars(what, part)]


class Row:
    """A number for each place, of one dtype on one device; and which places have theirs."""

    def __init__(self, count: int, x: Tensor) -> None:
        wide = torch.float32 if x.dtype in HALF else x.dtype
        self.values = torch.zeros(count, dtype=wide, device=x.device)
        self.slots, self.places = self.values.unbind(), list[int]()


class Passed:
    """The norms of what passed each place since they were read, on its device.

    The first of a place goes where that of the last step was: small tensors that stay until the
    update, scattered among the activations, make the step slower than measuring them does.
    """

    def __init__(self, count: int) -> None:
        self.every = list(range(count))
        self.rows = dict[object, Row]()
        self.sizes = dict[int, int]()  # of the first at each place, in the order of the calls
        self.more = deque[Norm](maxlen=PENDING)

    def add(self, place: int, x: Tensor) -> None:
        if place in self.sizes or type(x) is not Tensor or torch.compiler.is_compiling():
            self.more.append((place, norm(x), x.numel()))
            return
        if (row := self.rows.get(key := (x.device, x.dtype))) is None:
            row = self.rows[key] = Row(len(self.every), x)
        torch.linalg.vector_norm(x, dtype=row.values.dtype, out=row.slots[place])
        row.places.append(place)
        self.sizes[place] = x.numel()

    def __bool__(self) -> bool:
        return bool(self.sizes or self.more)

    def order(self) -> tuple[int, ...]:
        """The places in the order in which they were called."""
        return (*dict.fromkeys([*self.sizes, *(place for place, *_ in self.more)]),)

    def taken(self, what: str) -> list[Group]:
        """All norms, which then are here no more."""
        groups = [self._group(what, row) for row in self.rows.values() if row.places]
        groups += scalars(what, self.more)
        self.clear()
        return groups

    def _group(self, what: str, row: Row) -> Group:
        values = row.values if row.places == self.every else row.values[row.places]
        sizes = [self.sizes[place] for place in row.places]
        return Group(what, "", row.places, sizes, values, np.empty(0))

    def clear(self) -> None:
        for row in self.rows.values():
            row.places = []
        self.sizes.clear()
        self.more.clear()


class Alike:
    """Parameters of one shape, whose gradients are measured in one call."""

    def __init__(self, places: list[int], parameters: list[Tensor]) -> None:
        self.places, self.parameters = places, parameters
        self.sizes = (parameters[0].numel(),) * len(places)

    @torch.no_grad()
    def norms(self, what: str) -> Group:
        """Of the gradients, 0 where none came; or of the parameters themselves."""
        tensors = self.parameters
        if what == "gradient":
            grads = [(p, p.grad) for p in tensors]
            tensors = [torch.zeros_like(p) if grad is None else grad for p, grad in grads]
        return Group(what, "", self.places, self.sizes, _each(tensors), np.empty(0))


def alike(parameters: Iterable[tuple[int, Tensor]]) -> list[Alike]:
    """Parameters with their places, by device, dtype and shape."""
    groups = defaultdict[object, tuple[list[int], list[Tensor]]](lambda: ([], []))
    for place, parameter in parameters:
        places, of = groups[parameter.device, parameter.dtype, parameter.shape]
        places.append(place)
        of.append(parameter)
    return [Alike(*group) for group in groups.values()]


def _group(group: list[Measured], values: Tensor) -> Group:
    (what, _place, name), *_ = group[0]
    places, sizes = [key[1] for key, *_ in group], [size for *_, size in group]
    return Group(what, name, places, sizes, values, np.empty(0))


def read(groups: Sequence[Group]) -> None:
    """Bring the norms of all groups here, one transfer for each device."""
    devices = defaultdict[object, list[Group]](list)
    for group in groups:
        devices[group.norms.device].append(group)
    for together in devices.values():
        values = torch.cat([group.norms for group in together]).double().cpu().numpy()
        sizes = np.concatenate([group.sizes for group in together])
        every = values / np.sqrt(np.maximum(sizes, 1))
        ends = [*accumulate(len(group.places) for group in together)]
        for group, end in zip(together, ends, strict=True):
            group.values = every[end - len(group.places) : end]


def by_key(groups: Iterable[Group]) -> dict[Key, float]:
    """The RMS of each key: of several, one that is not finite, else the greatest."""
    found = dict[Key, float]()
    for group in groups:
        for place, value in zip(group.places, group.values.tolist(), strict=True):
            key = group.what, place, group.name
            if key not in found or value > found[key] or not isfinite(value):
                found[key] = value
    return found
