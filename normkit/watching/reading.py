"""From the device to numbers: the norms of many tensors in few calls, one transfer for all."""

from collections import defaultdict
from collections.abc import Iterable
from math import isfinite

import torch
from torch import Tensor

Key = tuple[str, int, str]  # what was measured, at which place, of which buffer
Measured = tuple[Key, Tensor, float]  # a tensor, or its norm, and what makes the norm an RMS
Group = tuple[list[Key], list[float], Tensor]  # the same for many: their norms in one tensor
HALF = (torch.float16, torch.bfloat16)


def norm(x: Tensor, order: float = 2) -> Tensor:
    """The norm of x, on its device, without overflow in half precision."""
    return torch.linalg.vector_norm(x, order, dtype=torch.float32 if x.dtype in HALF else None)


def norms(asked: Iterable[Measured], order: float = 2) -> list[Group]:
    """The norm of each tensor, of those of one shape in one call; of order inf, the greatest."""
    alike = defaultdict[object, list[Measured]](list)
    for one in asked:
        alike[one[1].device, one[1].dtype, one[1].shape].append(one)
    groups = list[Group]()
    for group in alike.values():
        tensors = torch.stack([tensor.detach().flatten() for _, tensor, _ in group])
        if tensors.dtype in HALF:
            tensors = tensors.float()
        groups.append(_group(group, torch.linalg.vector_norm(tensors, order, dim=1)))
    return groups


def scalars(measured: Iterable[Measured]) -> list[Group]:
    """Norms that are known, together."""
    alike = defaultdict[object, list[Measured]](list)
    for one in measured:
        alike[one[1].device, one[1].dtype].append(one)
    return [_group(group, torch.stack([each[1] for each in group])) for group in alike.values()]


def _group(group: list[Measured], values: Tensor) -> Group:
    return [key for key, *_ in group], [factor for *_, factor in group], values


def read(groups: Iterable[Group]) -> dict[Key, float]:
    """The RMS of each key: of several, one that is not finite, else the greatest."""
    devices = defaultdict[object, list[Group]](list)
    for group in groups:
        devices[group[2].device].append(group)
    found = dict[Key, float]()
    for together in devices.values():
        values = torch.cat([group[2] for group in together]).tolist()
        keys = (key for group in together for key in group[0])
        factors = (factor for group in together for factor in group[1])
        for key, value, factor in zip(keys, values, factors, strict=True):
            rms = factor * value
            if key not in found or rms > found[key] or not isfinite(rms):
                found[key] = rms
    return found
