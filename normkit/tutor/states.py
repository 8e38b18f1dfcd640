"""What a layer's state shows: names and shapes, and the numbers that it starts with."""

from collections.abc import Callable, Iterable
from typing import Any

from normkit.messages import N_

STARTS = N_("the parameters of a new layer")
NEW = N_("the output of a new layer (weight 1, bias 0)")
TRAINED = N_("the output with loaded weights")
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


def starts(named: Named) -> str:
    """The numbers at the start, as far as they are all 0 or all 1, and unusual dtypes."""
    tensors = dict(named)
    values = {name: sorted(set(tensor.flatten().tolist())) for name, tensor in tensors.items()}
    known = {name: f"{v[0]:g}" if v in ([0], [1]) else NEITHER for name, v in values.items()}
    text = ", ".join(f"{name} = {value}" for name, value in sorted(known.items()))
    dtypes = {str(tensor.dtype).removeprefix("torch.") for tensor in tensors.values()}
    return " ".join([text, *sorted(dtypes - {"float32"})])
