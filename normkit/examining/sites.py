"""Which modules are norms: known classes, classes so named, and what behaves like one."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.parameter import is_lazy

from normkit.examining.probes import Probe, Sample

KNOWN = (_BatchNorm, _InstanceNorm, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)
CLASSES = (
    (_BatchNorm, "batch"),
    (_InstanceNorm, "instance"),
    (nn.GroupNorm, "group"),
    (nn.LayerNorm, "layer"),
    (nn.RMSNorm, "rms"),
)
LARGEST = 1_000_000  # parameters of a leaf that might be a norm
EPS = "eps", "variance_epsilon", "epsilon", "norm_eps", "layer_norm_eps"


@dataclass
class Call:
    """One call of a norm: what was given and made, in a pass that records it."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    entered: int = -1  # values of the graph
    left: int = -1


@dataclass
class Site:
    """A norm in the model: the module, what calls it, what was measured."""

    path: str
    module: Any  # a torch module, whose attributes vary
    class_name: str
    calls: list[Call] = field(default_factory=list)
    sample: Sample | None = None
    probe: Probe = field(default_factory=Probe)
    place: str | None = None
    written: str | None = None  # its kind, where it is no module but a function that was called
    of_batch: bool = False  # and at inference it took its statistics from the batch

    @property
    def kind(self) -> str | None:
        """What it was measured to be; where nothing can be measured, what its class is."""
        if self.written:
            return self.written
        if self.probe.constant or self.probe.kind is None:
            return of_class(self.module) or self.probe.kind
        return self.probe.kind

    @property
    def is_known(self) -> bool:
        """Whether PyTorch wrote it."""
        return type(self.module).__module__.startswith("torch.nn.")

    @property
    def eps(self) -> float | None:
        """ε as measured, else as it says; where PyTorch leaves it open, that of the type."""
        named = next((getattr(self.module, e) for e in EPS if hasattr(self.module, e)), None)
        if isinstance(self.module, KNOWN) and self.is_known and self.module.eps is None:
            return float(torch.finfo(self.dtype or torch.float32).eps)
        measured = self.probe.eps
        if not isinstance(named, float) or (measured is not None and not _near(named, measured)):
            return measured
        return named  # which the measurement, of three digits, confirms

    @property
    def form(self) -> tuple:
        """Its class, the shapes that it has and is given, its options: norms alike share it."""
        sample = self.sample or Sample(self.calls[0].shape)
        options = {k: v for k, v in vars(self.module).items() if isinstance(v, (int, float, str))}
        forms = [(n, tuple(p.shape)) for n, p in self.module.named_parameters()]
        return type(self.module), sample.shape, str(options), str(forms), sample.is_alone

    @property
    def dtype(self) -> torch.dtype | None:
        """The type of its parameters, else of what it was given."""
        own = (t for t in (*self.module.parameters(), *self.module.buffers()))
        given = (call.dtype for call in self.calls)
        return next((t.dtype for t in own if t.is_floating_point()), next(given, None))

    @property
    def weight(self) -> Tensor | None:
        """γ, by its usual name, or as the only parameter that is not called a shift."""
        for name in ("weight", "gamma", "scale"):
            found = getattr(self.module, name, None)
            if isinstance(found, Tensor):
                return found
        named = [p for n, p in self.module.named_parameters() if not n.startswith(("b", "shift"))]
        return named[0] if len(named) == 1 else None

    @property
    def has_statistics(self) -> bool:
        """Whether it keeps a running mean and variance."""
        return isinstance(getattr(self.module, "running_var", None), Tensor)

    @property
    def batches(self) -> int | None:
        """How many batches its running statistics have seen, where it counts them."""
        counter = getattr(self.module, "num_batches_tracked", None)
        return int(counter) if isinstance(counter, Tensor) and not counter.is_meta else None


def size(module: nn.Module) -> int:
    """How many numbers a module learns; those of a lazy one are not counted yet."""
    return sum(p.numel() for p in module.parameters() if not is_lazy(p))


def _near(a: float, b: float) -> bool:
    return abs(a - b) <= 0.01 * abs(b)


def of_class(module: nn.Module) -> str | None:
    """What the class says, for PyTorch's own."""
    return next((kind for known, kind in CLASSES if isinstance(module, known)), None)


def named_norms(model: nn.Module) -> dict[str, nn.Module]:
    """Return the modules that are norms by class or by name, by path."""
    found = {}
    for path, module in model.named_modules():
        if ".parametrizations." in f".{path}.":
            continue
        named = "norm" in type(module).__name__.lower()
        if isinstance(module, KNOWN) or (named and not _holds_more(module)):
            found[path] = module
    return found


def _holds_more(module: nn.Module) -> bool:
    """Whether a module holds a norm, or layers with weights: then it is more than a norm."""
    return any(
        isinstance(child, KNOWN)
        or "norm" in type(child).__name__.lower()
        or any(p.ndim > 1 for p in child.parameters(recurse=False))
        for child in module.modules()
        if child is not module
    )


def suspects(model: nn.Module, known: Iterable[str]) -> dict[str, nn.Module]:
    """Return the leaves of classes that are not PyTorch's, which might be norms."""
    known = set(known)
    return {
        path: module
        for path, module in model.named_modules()
        if path
        and path not in known
        and not any(module.children())
        and not type(module).__module__.startswith("torch.nn")
        and "parametrizations" not in path
        and size(module) <= LARGEST
        and not isinstance(module, torch.jit.ScriptModule)
    }


def first_tensor(value: Any) -> Tensor | None:
    """The tensor of real numbers that a norm is given or returns first."""
    values = value if isinstance(value, (list, tuple)) else [value]
    return next((v for v in values if isinstance(v, Tensor) and v.is_floating_point()), None)
