"""Two passes beside each other: where a norm was given the same, and made something else."""

from dataclasses import dataclass

from torch import Tensor

UNCHANGED = 1e-6  # parts of the scale of what norms are given,
CHANGED = 1e-3  # and of what they make


@dataclass
class Seen:
    """What one call of a norm was given and made in one pass."""

    x: Tensor
    y: Tensor


def culprits(first: dict[str, list[Seen]], second: dict[str, list[Seen]]) -> dict[str, float]:
    """How far outputs differ where whole rows of the input do not, for each norm so compared."""
    found: dict[str, float] = {}
    for path in first.keys() & second.keys() - {""}:
        for a, b in zip(first[path], second[path], strict=False):
            if a.x.shape != b.x.shape or a.y.shape != b.y.shape or not a.x.ndim:
                continue
            same = apart(a.x, b.x) <= UNCHANGED
            if same.any() and a.y.shape[0] == a.x.shape[0]:
                change = float(apart(a.y, b.y)[same].max())
                found[path] = max(found.get(path, 0.0), change if change > CHANGED else 0.0)
    return found


def apart(a: Tensor, b: Tensor) -> Tensor:
    """How far each row differs, in units of the scale; nan and infinity in both are equal."""
    differ = (a - b).abs()
    if not differ.sum().isfinite():
        equal = (a == b) | (a.isnan() & b.isnan())
        differ = differ.masked_fill(equal, 0.0).nan_to_num(nan=1e9, posinf=1e9)
        a = a[a.isfinite()]
    scale = a.abs().mean() if a.numel() else a.new_tensor(1.0)
    return (differ.flatten(1).amax(1) if differ.ndim > 1 else differ) / (scale + 1e-12)
