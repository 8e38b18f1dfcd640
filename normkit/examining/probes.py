"""What one norm does, measured: which values share statistics, centred or not, ε and its place.

A probe runs a neutral copy of the module (γ = 1, β = 0, in float64, on the CPU) on numbers of its
own. The class and its names decide nothing.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from normkit.examining.passes import local, mapped, real, seeded, tensors

ROWS = 4
LARGEST = 1 << 20  # values in a probe
SMALL = 8  # positions along an axis that does not matter
FAR = 3.0  # of a moved value: times the root of how many share its statistics
MOVED = 1e-3
SAME = 1e-5
SHIFTS = "bias", "beta", "shift", "offset"


@dataclass(frozen=True)
class Probe:
    """What was measured of one norm. None where it could not be."""

    kind: str | None = None
    axes: tuple[int, ...] = ()
    share: tuple[float, ...] = ()  # for each axis, the part of it that one value moves
    eps: float | None = None
    eps_inside: bool | None = None
    centred: bool = True
    unbiased: bool = False
    scales: bool = True  # its output is the same for 10x
    eval_axes: tuple[int, ...] | None = None
    constant: bool = False  # its output ignores its input
    shift_per_channel: bool = False  # a shift of each channel changes nothing
    trouble: str = field(default="", compare=False)

    def count(self, shape: tuple[int, ...]) -> int:
        """How many values of an input share one mean or mean square."""
        found = 1.0
        for axis in self.axes:
            found *= shape[axis] * (self.share[axis] if axis else 1.0)
        return max(1, round(found))


@dataclass
class Sample:
    """How a norm was called: what a probe imitates."""

    shape: tuple[int, ...]
    args: tuple = ()  # the others, if it takes more than one
    named: dict = field(default_factory=dict)

    @property
    def is_alone(self) -> bool:
        """Whether the norm takes one tensor and nothing else that matters."""
        return not tensors((self.args, self.named))


def neutral(module: nn.Module, dtype: torch.dtype = torch.float64) -> nn.Module:
    """Return a copy whose γ is 1, β 0, running statistics 0 and 1, and activation the identity."""
    twin = materialised(module).to(dtype)
    with torch.no_grad():
        for name, parameter in twin.named_parameters():
            last = name.rsplit(".")[-1]
            shift = last == "b" or any(word in last for word in SHIFTS)
            parameter.fill_(0.0 if shift else 1.0)
        for name, buffer in twin.named_buffers():
            if buffer.is_floating_point() and ("mean" in name or "var" in name):
                buffer.fill_(1.0 if "var" in name else 0.0)
    for name, child in twin.named_modules():
        if name and type(child).__module__.startswith("torch.nn.modules.activation"):
            parent = twin.get_submodule(name.rpartition(".")[0])
            parent._modules[name.rpartition(".")[2]] = nn.Identity()
    return twin


def materialised(module: nn.Module) -> nn.Module:
    """Return a copy on the CPU, with memory where there was none (on `meta`)."""
    twin = local(copy.deepcopy(module))
    if any(t.is_meta for t in (*twin.parameters(), *twin.buffers())):
        return twin.to_empty(device="cpu")
    return twin.cpu()


def called(module: nn.Module, x: Tensor, sample: Sample | None = None) -> Tensor:
    """Return what a norm makes of x: its first real tensor of the same shape."""
    args, named = (sample.args, sample.named) if sample else ((), {})
    dtype = next((t.dtype for t in module.parameters() if t.is_floating_point()), x.dtype)

    def fit(t: Tensor) -> Tensor:
        if t.is_floating_point() and sample and t.shape == sample.shape:
            return torch.ones_like(x)  # a gate, which would bend every line
        return t.detach().cpu().to(dtype if t.is_floating_point() else t.dtype)

    out = module(x, *mapped(fit, args), **mapped(fit, named))
    return next(t for t in real(out) if t.shape == x.shape)


def probe(module: nn.Module, sample: Sample) -> Probe:
    """Measure one norm at the shape at which it is called."""
    last = ""
    for shape in shapes(sample):
        for dtype in (torch.float64, torch.float32):
            try:
                return _measured(neutral(module, dtype), shape, dtype, sample)
            except Exception as error:
                last = f"{type(error).__name__}: {error}".split("\n")[0]
    return Probe(trouble=last)


def shapes(sample: Sample) -> list[tuple[int, ...]]:
    """Shapes to try: small ones whose sizes differ, then the one that the norm was called with."""
    full = sample.shape
    if not sample.is_alone or len(full) < 2:
        return [full]
    sizes = [n for n in (5, 7, 6, 9, 10, 11) if n not in full]
    between = tuple(sizes[: len(full) - 2])
    tried = [(ROWS, *between, full[-1]), (ROWS, full[1], *between), (ROWS, *full[1:]), full]
    return [s for s in dict.fromkeys(tried) if torch.Size(s).numel() <= LARGEST] or [full]


def _measured(norm: nn.Module, shape: tuple[int, ...], dtype: torch.dtype, sample: Sample) -> Probe:
    seeded()
    x = torch.randn(shape, dtype=torch.float64).to(dtype)

    def f(values: Tensor) -> Tensor:
        return called(norm, values, sample).double()

    with torch.no_grad():
        axes_eval, share_eval, kind_eval = _reach(norm.eval(), f, x)
        axes, share, kind = _training(norm, f, x)
        training = (kind not in {None, "affine"} and kind_eval == "affine") or 0 in axes
        if not training:
            axes, share, kind = axes_eval, share_eval, kind_eval
        norm.train(training)
        found = Probe(kind, axes, share, eval_axes=axes_eval)
        if kind in {"affine", "none", "pointwise"}:
            ignores = kind == "affine" and _ignores(norm.train(training), f, x)
            return replace(found, scales=False, constant=ignores)
        return _fitted(found, f, x)


def _training(norm: nn.Module, f: Callable, x: Tensor) -> tuple:
    try:
        return _reach(norm.train(), f, x)
    except Exception:  # a mode that needs more than one value, or a norm that cannot train
        return (), (), None


def _ignores(norm: nn.Module, f: Callable, x: Tensor) -> bool:
    return bool((f(x) - f(torch.flip(x, [0]) * 2 + 1)).abs().max() < SAME)


def _reach(norm: nn.Module, f: Callable, x: Tensor) -> tuple[tuple, tuple, str | None]:
    """Move one value far: which outputs move with it, and what kind of norm does that."""
    y = f(x)
    moved = torch.zeros(x.shape, dtype=torch.bool)
    for times in (FAR, -0.7 * FAR, 0.4 * FAR):  # an output that one move leaves, another moves
        far = x.clone()
        far[tuple(n // 2 for n in x.shape)] += times * x.numel() ** 0.5
        moved |= (f(far) - y).abs() > MOVED * (1e-12 + y.abs().mean())
    spread = [_along(moved, axis) for axis in range(x.ndim)]
    axes = tuple(axis for axis, n in enumerate(spread) if n > 1)
    share = tuple(n / size for n, size in zip(spread, x.shape, strict=True))
    if moved.any() and int(moved.sum()) != torch.Size(spread).numel():
        return axes, share, None  # no block of values: nothing that is known here
    return axes, share, _kind(norm, f, x, y, axes, share)


def _along(moved: Tensor, axis: int) -> int:
    others = [other for other in range(moved.ndim) if other != axis]
    return int((moved.any(dim=others) if others else moved).sum())


def _kind(
    norm: nn.Module, f: Callable, x: Tensor, y: Tensor, axes: tuple, share: tuple
) -> str | None:
    if not axes:
        return _pointwise(f, x, y)
    if not _is_norm(f, x, axes, share):
        return None
    if 0 in axes and x.ndim > 1:
        return "batch"
    if not _centred(f, x):
        return "rms"
    without = x.ndim > 3 or isinstance(norm, nn.modules.instancenorm._InstanceNorm)
    if axes == tuple(range(2, x.ndim)) and _per_channel(norm, x, without):
        return "instance"
    if axes == tuple(range(1, x.ndim)) and (
        share[1] < 1 or (x.ndim > 2 and _per_channel(norm, x, isinstance(norm, nn.GroupNorm)))
    ):
        return "group"
    return "layer"


def _pointwise(f: Callable, x: Tensor, y: Tensor) -> str:
    if torch.allclose(y, x.double(), rtol=1e-6, atol=1e-6):
        return "none"
    straight = (f(2 * x) - f(torch.zeros_like(x))) - 2 * (y - f(torch.zeros_like(x)))
    return "affine" if straight.abs().max() <= SAME * (1 + y.abs().max()) else "pointwise"


def _per_channel(norm: nn.Module, x: Tensor, without: bool) -> bool:
    """Whether γ has a value for each channel of axis 1; `without`: what to say if there is no γ."""
    sizes = [p.numel() for p in norm.parameters()]
    return x.shape[1] in sizes if sizes else without


def _is_norm(f: Callable, x: Tensor, axes: tuple, share: tuple) -> bool:
    """Unchanged from 10x to 10⁴x, and within a group a straight line of the input."""
    near, far = f(10 * x), f(1e4 * x)
    scale = far.abs().mean() + 1e-12
    if (f(1e3 * x) - far).abs().max() > 1e-2 * scale or (near - far).abs().mean() > 0.05 * scale:
        return False
    both = f(-1e4 * x) + far  # twice the shift, of an odd function
    if (both - both.mean()).abs().mean() > 0.05 * scale:
        return False  # an activation, which saturates
    if any(share[axis] < 1 for axis in axes):  # groups: no line through all of them
        return True
    a, b = (t - t.mean(dim=axes, keepdim=True) for t in (x.double(), far))
    together = (a * b).sum(axes) ** 2 / ((a * a).sum(axes) * (b * b).sum(axes) + 1e-300)
    return bool((together > 1 - 1e-4).all()) or bool((b.abs() < 1e-6 * scale).all())


def _centred(f: Callable, x: Tensor) -> bool:
    scale = f(x).abs().mean() + 1e-12
    return bool((f(x + 5) - f(x)).abs().mean() < 1e-2 * scale)


def _fitted(found: Probe, f: Callable, x: Tensor) -> Probe:
    """ε, n or n − 1, what a shift of a channel does: for a norm whose axes are known."""
    centred = _centred(f, x)
    n = found.count(tuple(x.shape))
    gain = _gain(found, f, x, 1e3, centred)
    ratio = gain**2 if gain else 1.0
    sizes = [1.0, 4.0]  # γ = 1, and 1 + w with w = 1
    unbiased = n > 1 and any(abs(ratio / s - (n - 1) / n) < 0.2 / n for s in sizes)
    top = next((s for s in sizes if abs(ratio / s - 1) < 0.6 / max(n, 2)), None)
    eps, inside = _epsilon(found, f, x, centred, (gain or 1.0)) if top or unbiased else (None, None)
    if eps and unbiased:  # the root of (n − 1) / n was taken for part of the gain
        eps *= (n / (n - 1)) ** (1 if inside else 0.5)
    return replace(
        found,
        eps=eps if eps is None else float(f"{eps:.3g}"),
        eps_inside=inside,
        centred=centred,
        unbiased=unbiased,
        constant=bool((f(x) - f(-2 * x.roll(1, -1) + x**2)).abs().max() < SAME),
        shift_per_channel=_ignores_shift(f, x),
    )


def _gain(found: Probe, f: Callable, x: Tensor, size: float, centred: bool) -> float | None:
    """What the norm multiplies by, times the deviation (or root mean square) of its input."""
    block = _block(found, x)
    y = f(size * x)[block]
    given = (size * x.double())[block]
    if centred:
        y, given = y - y.mean(), given - given.mean()
    spread = given.square().mean().sqrt()
    slope = (y * given).sum() / (given * given).sum()
    found_gain = float(slope * spread)
    return found_gain if found_gain == found_gain and found_gain > 0 else None


def _block(found: Probe, x: Tensor) -> tuple[slice, ...]:
    """The values that share statistics with the one in the middle."""
    block = []
    for axis, size in enumerate(x.shape):
        if axis not in found.axes:
            block.append(slice(size // 2, size // 2 + 1))
        else:
            part = max(1, round(size * found.share[axis]))
            start = size // 2 // part * part
            block.append(slice(start, start + part))
    return tuple(block)


def _epsilon(
    found: Probe, f: Callable, x: Tensor, centred: bool, gain: float
) -> tuple[float | None, bool | None]:
    """ε from the gains at two small sizes: one law fits it inside the root, one outside."""
    block = _block(found, x)
    given = x.double()[block]
    spread = float((given - given.mean() if centred else given).square().mean().sqrt())

    def divisor(size: float) -> float | None:
        now = _gain(found, f, x, size, centred)
        return gain * size * spread / now if now else None

    least = divisor(1e-13)
    if least is None:
        return (0.0, None) if divisor(1e-5) else (None, None)
    if least < 5e-13:
        return 0.0, None
    middle = divisor(least / spread)  # where ε and the spread weigh the same
    if middle is None:
        return None, None
    if abs(middle / (2**0.5 * least) - 1) < 0.02:
        return least**2, True
    if abs(middle / (2 * least) - 1) < 0.02:
        return least, False
    return None, None


def _ignores_shift(f: Callable, x: Tensor) -> bool:
    """A shift of each channel (axis 1) changes nothing: a bias before the norm is useless."""
    if x.ndim < 2:
        return False
    shift = torch.randn(x.shape[1], dtype=x.dtype).view(1, -1, *[1] * (x.ndim - 2))
    y = f(x)
    return bool((f(x + shift) - y).abs().max() < 1e-3 * (y.abs().mean() + 1e-12))
