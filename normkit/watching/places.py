"""Where `watch` measures: the normalisation layers of a model, and what a reader names beside."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any

from torch import Tensor, nn

TORCH = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.RMSNorm, nn.GroupNorm)
BY_NAME = ("DyT", "Derf", "DynamicTanh")
GAMMAS = ("weight", "gamma", "scale", "g")


@dataclass
class Place:
    """A module that is followed, and what was last seen of its input (of its output, `also`)."""

    path: str
    module: nn.Module
    norm: bool  # else named in `also`
    dtype: Any = None  # of the tensor that was measured last
    name: str = ""  # of γ

    def __post_init__(self) -> None:
        names = (name for name in GAMMAS if self.module._parameters.get(name) is not None)
        self.name = next(names, "") if self.norm else ""

    @property
    def kind(self) -> str:
        return type(self.module).__name__

    @property
    def leaves(self) -> bool:
        """Whether its output is measured: a softmax gives shares, its input are the logits."""
        return not self.norm and "softmax" not in self.kind.lower()

    @property
    def gamma(self) -> nn.Parameter | None:
        """γ as the module holds it now, if it wants a gradient."""
        if not self.name:
            return None
        found = self.module._parameters.get(self.name)
        return found if found is not None and found.requires_grad else None

    def buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Its floating-point buffers by name: for batch norm the running statistics."""
        for name, buffer in self.module._buffers.items() if self.norm else ():
            if buffer is not None and buffer.is_floating_point():
                yield name, buffer


def followed(model: nn.Module, also: Sequence[str]) -> list[Place]:
    """All norms of a model and all modules whose path fits a pattern of `also`.

    Raises TypeError for what is no module, ValueError if a pattern, or the model, has nothing.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"watch needs the model, a torch.nn.Module; it got {type(model).__name__}. Several "
            f"models are watched as nn.ModuleList([a, b])."
        )
    modules = dict(model.named_modules())
    for pattern in also:
        if not any(fnmatch(path, pattern) for path in modules):
            raise ValueError(
                f"also={pattern!r} fits the path of no module. Paths are those of "
                f"model.named_modules(), for example {[*modules][-1]!r}; * stands for anything."
            )
    found = [
        Place(path, module, norm)
        for path, module in modules.items()
        if (norm := is_norm(module)) or any(fnmatch(path, pattern) for pattern in also)
    ]
    if not found:
        raise ValueError(
            f"{type(model).__name__} has no normalisation layer. Name what to follow by path, for "
            f'example also=["*.attention"].'
        )
    return found


def is_norm(module: nn.Module) -> bool:
    """By class for those of torch.nn, by name for others, unless parts of it have parameters."""
    if isinstance(module, TORCH):
        return True
    kind = type(module)
    if kind.__module__.startswith("torch.nn.utils"):  # weight and spectral norm: of weights
        return False
    inside = (p for child in module.children() for p in child.parameters())
    named = "norm" in kind.__name__.lower() or kind.__name__ in BY_NAME
    return named and next(inside, None) is None and not any(map(is_norm, module.children()))
