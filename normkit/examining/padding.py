"""Padded batches: where the mask says that nothing is, other numbers must change nothing."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from normkit.examining.passes import mapped, seeded
from normkit.messages import N_

NAMES = ("attention_mask", "padding_mask", "mask", "input_mask")
INVERTED = ("src_key_padding_mask", "key_padding_mask")  # PyTorch's: True where nothing is


def found(mask: Tensor | None, named: dict[str, Any]) -> Tensor | None:
    """Return the mask (N, T), True where something is, if there is one that hides anything."""
    tried = [flat(mask)] + [flat(named.get(name)) for name in NAMES]
    tried += [~named[name].bool() for name in INVERTED if isinstance(named.get(name), Tensor)]
    for each in tried:
        if isinstance(each, Tensor) and each.ndim == 2 and _is_binary(each):
            real = each.bool()
            if real.any() and not real.all():
                return real
    return None


def flat(mask: Any) -> Any:
    """A mask (N, T), from one that attention can use as it is, (N, 1, 1, T)."""
    if isinstance(mask, Tensor) and mask.ndim > 2 and set(mask.shape[1:-1]) == {1}:
        return mask.flatten(1)
    return mask


def _is_binary(mask: Tensor) -> bool:
    return bool(((mask == 0) | (mask == 1)).all())


def changes(mask: Tensor) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Yield ways to change a batch that must change nothing where something is."""
    yield N_("other numbers under the mask"), lambda value: _but_labels(value, _others, mask)
    yield N_("a longer batch, padded"), lambda value: _but_labels(value, _longer, mask)


def _but_labels(value: Any, change: Callable, mask: Tensor) -> Any:
    return mapped(lambda t: change(t, mask), value)


def _axis(tensor: Tensor, mask: Tensor) -> int | None:
    """The axis of a tensor along which the mask hides positions."""
    n, length = mask.shape
    if tensor.ndim < 2 or tensor.shape[0] != n:
        return None
    if tensor.shape[1] == length:
        return 1
    return tensor.ndim - 1 if tensor.shape[-1] == length else None


def _is_mask(tensor: Tensor, mask: Tensor) -> bool:
    tensor, mask = flat(tensor), mask.to(tensor.device)
    if tensor.shape != mask.shape or not _is_binary(tensor):
        return False
    return torch.equal(tensor.bool(), mask) or torch.equal(~tensor.bool(), mask)


def _others(tensor: Tensor, mask: Tensor) -> Tensor:
    """Other numbers where nothing is; whole numbers stay among those that occur."""
    axis = _axis(tensor, mask)
    if axis is None or _is_mask(tensor, mask):
        return tensor
    seeded()
    shape = [1] * tensor.ndim
    shape[0], shape[axis] = mask.shape
    hidden = ~mask.to(tensor.device).view(shape).expand(tensor.shape)
    if tensor.is_floating_point():
        spread = tensor.detach().std(correction=0) + tensor.detach().abs().mean()
        other = tensor + 3 * spread * torch.randn(tensor.shape, dtype=tensor.dtype).to(tensor)
    else:
        there = tensor[~hidden]
        drawn = torch.randint(int(there.numel()), tensor.shape, device=tensor.device)
        other = there.flatten()[drawn]
    return torch.where(hidden, other, tensor)


def _longer(tensor: Tensor, mask: Tensor) -> Tensor:
    """The same positions, and more that the mask hides, on the side where they are."""
    axis = _axis(tensor, mask)
    if axis is None:
        return tensor
    more = max(1, mask.shape[1] // 4)
    before = bool(mask[:, -1].all()) and not bool(mask[:, 0].all())
    row, position = (~mask).nonzero()[0].tolist()
    filler = tensor.select(axis, position).narrow(0, row, 1)  # what stands under the mask
    filler = filler.unsqueeze(axis).expand(
        *[more if i == axis else n for i, n in enumerate(tensor.shape)]
    )
    return torch.cat([filler, tensor] if before else [tensor, filler], dim=axis)


def cropped(first: Tensor, second: Tensor, before: bool) -> tuple[Tensor, Tensor]:
    """Return the positions that both have."""
    for axis, (a, b) in enumerate(zip(first.shape, second.shape, strict=True)):
        n = min(a, b)
        first = first.narrow(axis, a - n if before else 0, n)
        second = second.narrow(axis, b - n if before else 0, n)
    return first, second
