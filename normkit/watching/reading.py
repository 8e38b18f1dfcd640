"""From the device to numbers: the norms of many tensors in few calls, one transfer for all."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
import torch
from torch import Tensor

Key = tuple[str, int, str]  # what was measured, at which place, of which buffer
Measured = tuple[Key, Tensor, int]  # a tensor, or its norm, and of how many values it is the RMS
HALF = (torch.float16, torch.bfloat16)


@dataclass(eq=False)
class Group:
    """What was measured of one kind: the norms on their device; once read, each as an RMS."""

    what: str
    name: str
    places: list[int]
    sizes: list[int]
    norms: Tensor
    values: np.ndarray[Any, np.dtype[np.float64]]


def norm(x: Tensor, order: float = 2) -> Tensor:
    """The norm of x, on its device, without overflow in half precision."""
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


def scalars(measured: Iterable[Measured]) -> list[Group]:
    """Norms of one kind that are known, together."""
    devices = defaultdict[object, list[Measured]](list)
    for one in measured:
        devices[one[1].device].append(one)
    return [_group(of, torch.stack([norm for _, norm, _ in of])) for of in devices.values()]


class Alike:
    """Parameters of one shape, whose gradients are measured in one call."""

    def __init__(self, places: list[int], parameters: list[Tensor]) -> None:
        self.places, self.parameters = places, parameters
        self.sizes = [parameters[0].numel()] * len(places)

    @torch.no_grad()
    def norms(self, what: str) -> Group:
        """Of the gradients, 0 where none came; or of the parameters themselves."""
        tensors = self.parameters
        if what == "gradient":
            tensors = [p.new_zeros(p.shape) if p.grad is None else p.grad for p in tensors]
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
        ends = np.cumsum([len(group.places) for group in together])[:-1]
        for group, part in zip(together, np.split(every, ends), strict=True):
            group.values = part


def by_key(groups: Iterable[Group]) -> dict[Key, float]:
    """The RMS of each key: of several, one that is not finite, else the greatest."""
    found = dict[Key, float]()
    for group in groups:
        for place, value in zip(group.places, group.values.tolist(), strict=True):
            key = group.what, place, group.name
            if key not in found or value > found[key] or not isfinite(value):
                found[key] = value
    return found
