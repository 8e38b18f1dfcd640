"""A model under examination: its copy, its norms, and the passes that the checks compare."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode

from normkit.examining import padding, passes
from normkit.examining.graph import Graph, Record, handwritten, place
from normkit.examining.pairs import Seen, culprits
from normkit.examining.passes import (
    fresh,
    guarded,
    hooked,
    mapped,
    real,
    restored,
    seeded,
    tensors,
)
from normkit.examining.probes import Probe, Sample, probe
from normkit.examining.sites import Call, Site, first_tensor, named_norms, suspects
from normkit.messages import N_

T = TypeVar("T")
KINDS = {
    "batch_norm": "batch",
    "instance_norm": "instance",
    "group_norm": "group",
    "layer_norm": "layer",
    "rms_norm": "rms",
}
FUNCTIONS = {getattr(of, name): name for name in KINDS for of in (F, torch)}
FUNCTIONS |= {getattr(torch.ops.aten, name).default: name for name in KINDS}  # of exported models
DROPOUTS = (
    F.dropout,
    F.dropout1d,
    F.dropout2d,
    F.dropout3d,
    F.alpha_dropout,
    F.feature_alpha_dropout,
)
COMPILED = N_("torch.jit has compiled it: examine the model that it was made of.")
META = N_("On the device meta there are no numbers.")
UNUSABLE = N_("A mask has the shape (N, T), 0 where the batch is padded and 1 elsewhere.")
SINGLE = N_("The batch has one example; it takes two to see whether they depend on each other.")
FEW = 32  # values of a channel, from which a variance is compared


@dataclass
class Moments:
    """Of what one call of a norm was given: mean and variance of each group of values."""

    mean: Tensor
    variance: Tensor
    count: int


@dataclass
class Training:
    """What a forward and a backward pass in training mode left behind."""

    counts: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    moved: dict[str, bool] = field(default_factory=dict)
    moments: dict[str, list[Moments]] = field(default_factory=dict)
    modes: dict[str, bool] = field(default_factory=dict)


class Subject:
    """What is examined, and what has been seen of it; a pass that fails is a line in `skipped`."""

    def __init__(
        self,
        model: nn.Module,
        inputs: tuple,
        named: dict[str, Any],
        *,
        optimizer: torch.optim.Optimizer | None,
        mask: Tensor | None,
        batch_axis: int,
        other: nn.Module | None,
        progress: Callable[[str], None],
    ) -> None:
        self.original, self.optimizer, self.other = model, optimizer, other
        self.inputs, self.named = inputs, named
        self.mask = padding.found(mask, named)
        self.batch_axis = batch_axis
        self.progress = progress
        self.skipped: list[tuple[str, str]] = []
        if mask is not None and self.mask is None:
            self.skipped.append((N_("padding"), UNUSABLE))
        self.failure: Exception | None = None  # of the plain pass at inference
        self.graph: Graph | None = None
        self.functional: set[str] = set()  # paths of norms called as functions
        self.handwritten: set[str] = set()  # and of those written inside a forward
        self.drops = False  # whether dropout is called, by a module or as a function
        self.twin: Subject | None = None  # the averaged model
        self.sites: dict[str, Site] = {}
        self.probed: dict[tuple, Probe] = {}

    # the model, run

    @cached_property
    def model(self) -> nn.Module:
        """The copy that all passes run."""
        return passes.copied(self.original)

    @cached_property
    def batch(self) -> int:
        """How many examples the batch has."""
        sizes = [t.shape[self.batch_axis] for t in self.given if t.ndim > self.batch_axis]
        return sizes[0] if sizes else 1

    @property
    def given(self) -> list[Tensor]:
        """The tensors that the model is given."""
        return tensors((self.inputs, self.named))

    def run(self, change: Callable[[Any], Any] = lambda value: value) -> Any:
        """Run the copy once from the seed, on inputs that may be changed first."""
        inputs, named = fresh(change(self.inputs)), fresh(change(self.named))
        seeded()
        with guarded(self._own):
            return self.model(*inputs, **named)

    @cached_property
    def _own(self) -> set[int]:
        return {id(module) for module in self.original.modules()}

    @property
    def unfit(self) -> str:
        """Why no pass can be run, if none can."""
        if isinstance(self.original, torch.jit.ScriptModule):
            return COMPILED
        held = (*self.original.parameters(), *self.original.buffers(), *self.given)
        return META if any(t.is_meta for t in held) else ""

    def attempt(self, what: str, measure: Callable[[], T]) -> T | None:
        """Return what a measurement gives; if it fails, one line says so."""
        self.progress(what)
        try:
            return measure()
        except Exception as error:
            said = str(error).strip().split("\n")[0]
            self.skipped.append((what, f"{type(error).__name__}: {said}"[:200]))
            return None

    def averaged(self) -> "Subject":
        """The averaged model, seen on the same batch."""
        assert self.other is not None
        twin = Subject(
            self.other,
            self.inputs,
            self.named,
            optimizer=None,
            mask=self.mask,
            batch_axis=self.batch_axis,
            other=None,
            progress=self.progress,
        )
        twin.record()
        return twin

    # the record: norms, values, places

    def record(self) -> None:
        """Run the model once at inference, and note every norm, operator and value."""
        self._initialise()
        known = named_norms(self.model)
        maybe = suspects(self.model, known)
        for path, module in known.items():
            self.sites[path] = Site(path, module, type(module).__name__)
        spotted: dict[str, Site] = {
            path: Site(path, module, type(module).__name__) for path, module in maybe.items()
        }
        names = dict(self.model.named_parameters()) | dict(self.model.named_buffers())
        record = Record({name: t for name, t in names.items()})
        watched = self.sites | spotted
        modules = dict(self.model.named_modules())
        hooks = hooked({p: modules[p] for p in self._eager(modules)}, *_noting(record, watched))
        plain = restored(self.model, train=False)
        with plain, torch.no_grad(), hooks, Functions(record, self), record:
            self.run()
        if record.is_full:
            self.skipped.append((N_("dataflow"), N_("more operators than can be followed")))
        self._settle(spotted, None if record.is_full else Graph(record.nodes))
        record.forget()

    def _eager(self, modules: dict[str, nn.Module]) -> Iterator[str]:
        """The paths that hooks can be put on; a line for each part that torch.jit has compiled."""
        compiled = {p for p, m in modules.items() if isinstance(m, torch.jit.ScriptModule)}
        for path in modules:
            if path not in compiled:
                yield path
            elif path.rpartition(".")[0] not in compiled:
                self.skipped.append((path, COMPILED))

    def _initialise(self) -> None:
        """Run lazy modules once: they learn the sizes of their weights from what they are given."""
        held = (*self.model.parameters(), *self.model.buffers())
        if any(is_lazy(tensor) for tensor in held):
            self.model.eval()
            with torch.no_grad():
                self.run()

    def _settle(self, spotted: dict[str, Site], graph: Graph | None) -> None:
        """Measure every norm; keep those of unknown name that behave like one."""
        for path, site in spotted.items():
            if site.calls and self._probe(site).scales and site.probe.kind and site.probe.axes:
                self.sites[path] = site
        for path in [p for p in self.functional if p.rpartition(".")[0] in self.sites]:
            del self.sites[path]  # a norm's own call
        self._written(graph)
        for site in self.sites.values():
            if site.calls and not site.written:
                self._probe(site)
                if site.probe.trouble:
                    self.skipped.append((site.path, site.probe.trouble))
        order = {path: i for i, (path, _) in enumerate(self.model.named_modules())}
        self.sites = dict(sorted(self.sites.items(), key=lambda item: order.get(item[0], 1 << 30)))
        self.graph = graph
        if graph:
            calls = [call for site in self.sites.values() for call in site.calls]
            graph.normed = {call.left for call in calls}
            for site in self.sites.values():
                found = {place(graph, c.entered, c.left) for c in site.calls if c.left >= 0}
                site.place = found.pop() if len(found) == 1 else None

    def _written(self, graph: Graph | None) -> None:
        """A row for each norm that a larger forward writes out."""
        for found in handwritten(graph) if graph else ():
            inside = any(_within(found.where, path) for path in self.sites if path)
            if inside or found.where in self.sites:
                continue
            path = f"{found.where}.forward()" if found.where else "forward()"
            stub = NoModule()
            site = self.sites.setdefault(path, Site(path, stub, "forward", written=found.kind))
            site.of_batch = found.kind == "batch"
            site.probe = Probe(found.kind, found.axes, (1.0,) * len(found.shape))
            self.handwritten.add(path)
            call = Call(found.shape, (), torch.float32, found.entered, found.left)
            site.calls.append(call)

    def _probe(self, site: Site) -> Probe:
        """The probe of a norm: one for all that are of one class, form and options."""
        sample, key = site.sample or Sample(site.calls[0].shape), site.form
        if key not in self.probed:
            with passes.probing():
                self.probed[key] = probe(site.module, sample)
        site.probe = self.probed[key]
        return site.probe

    # passes that are compared

    @contextmanager
    def watching(self, call: Callable[[Site, Tensor, Tensor], None]) -> Iterator[None]:
        """Within it, each call of a norm is shown: the norm, what it is given, what it makes."""
        entered: dict[str, Tensor] = {}

        def before(path: str, _: nn.Module, args: tuple, named: dict) -> None:
            x = first_tensor([*args, *named.values()])
            if x is not None:
                entered[path] = x.detach().clone()  # what follows may write into it

        def after(path: str, _: nn.Module, args: tuple, named: dict, output: Any) -> None:
            y = first_tensor(output)
            if path in entered and y is not None:
                call(self.sites[path], entered.pop(path), y.detach())

        modules = {path: site.module for path, site in self.sites.items() if not site.written}
        with hooked(modules, before, after):
            yield

    def kept(
        self,
        change: Callable[[Any], Any] = lambda value: value,
        part: int = 1,
        prepare: Callable[[], Any] = lambda: None,
    ) -> dict[str, list[Seen]]:
        """Run once at inference and keep what norms are given and make: of one part of the rows."""
        seen: dict[str, list[Seen]] = {}

        def note(site: Site, x: Tensor, y: Tensor) -> None:
            x, y = (self._part(t, part).float().cpu() for t in (x, y))
            seen.setdefault(site.path, []).append(Seen(x, y.clone()))

        with restored(self.model, train=False), torch.no_grad(), self.watching(note):
            prepare()
            out = self.run(change)
        whole = [self._part(t.detach(), part) for t in real(out) if self._has_batch(t)]
        seen[""] = [Seen(t, t.float().cpu()) for t in whole]
        return seen

    def _has_batch(self, tensor: Tensor) -> bool:
        axis = self.batch_axis
        return tensor.ndim > axis and tensor.shape[axis] == self.batch

    def _part(self, tensor: Tensor, part: int) -> Tensor:
        """One part in so many of a tensor: what belongs to the first example, on axis 0."""
        if part > 1 and self._has_batch(tensor):
            return tensor.narrow(self.batch_axis, 0, 1).movedim(self.batch_axis, 0)
        return tensor[: math.ceil(tensor.shape[0] / part)] if tensor.ndim else tensor

    @cached_property
    def alike(self) -> tuple[dict, dict] | None:
        """What norms do to the first example in its batch, and among copies of itself."""
        if self.batch < 2:
            self.skipped.append((N_("copies of one example"), SINGLE))
            return None
        return self.attempt(N_("copies of one example"), self._alike)

    @cached_property
    def culprits(self) -> dict[str, float]:
        """Of each norm so compared, how far one example's output differs with the others."""
        return culprits(*self.alike) if self.alike else {}

    def _alike(self) -> tuple[dict, dict]:
        axis, size = self.batch_axis, self.batch

        def copies(t: Tensor) -> Tensor:
            if not self._has_batch(t) or t.layout != torch.strided:
                return t
            return t.narrow(axis, 0, 1).expand_as(t).clone()

        return self.kept(part=size), self.kept(lambda value: mapped(copies, value), part=size)

    @cached_property
    def moments(self) -> dict[str, list[Moments]]:
        """Mean and variance of what each norm is given at inference."""
        found: dict[str, list[Moments]] = {}

        def measure() -> None:
            watched = self.watching(partial(_noted, found))
            with restored(self.model, train=False), torch.no_grad(), watched:
                self.run()

        self.attempt(N_("statistics at inference"), measure)
        return found

    @cached_property
    def training(self) -> Training | None:
        """What a training step does to the running statistics."""
        if self.failure:
            return None
        self.progress(N_("a training pass"))
        try:
            return self._train(_wanting)
        except Exception:  # some models set requires_grad of their inputs themselves
            return self.attempt(N_("a training pass"), partial(self._train, lambda t: t))

    def _train(self, prepare: Callable[[Tensor], Tensor]) -> Training:
        seen = Training()
        kept = {p: s for p, s in self.sites.items() if s.has_statistics}
        forward = [True]  # a checkpoint calls norms in the backward pass again

        def note(site: Site, x: Tensor, _: Tensor) -> None:
            seen.modes[site.path] = site.module.training
            if forward and site.has_statistics and x.ndim > 1:
                _add(seen.moments, site, x)

        with restored(self.model, train=True), torch.enable_grad(), self.watching(note):
            before = {p: s.batches or 0 for p, s in kept.items()}
            old = {p: s.module.running_mean.clone() for p, s in kept.items()}
            out = self.run(partial(mapped, prepare))
            after = {p: s.batches or 0 for p, s in kept.items()}
            new = {p: s.module.running_mean.clone() for p, s in kept.items()}
            forward.clear()
            _loss(out).backward()
            for path, site in kept.items():
                last = site.batches or 0
                seen.counts[path] = (before[path], after[path], last)
                seen.moved[path] = not _equal(old[path], new[path])
                if last == after[path] and not _equal(new[path], site.module.running_mean):
                    seen.counts[path] = (before[path], after[path], last + 1)  # kept uncounted
        return seen

    @cached_property
    def dropped(self) -> dict[str, tuple[list[Moments], list[Moments]]]:
        """For each batch norm, what it is given in training without dropout, and with it."""
        batch = [s for s in self.sites.values() if s.kind == "batch" and not s.written]
        if not self.drops or not batch or self.failure:
            return {}
        pair = self.attempt(N_("dropout before batch norms"), lambda: self._dropped(batch))
        if pair is None:
            return {}
        without, dropped = pair
        return {p: (without[p], dropped[p]) for p in without if p in dropped}

    def _dropped(self, batch: list[Site]) -> tuple[dict, dict]:
        found: list[dict[str, list[Moments]]] = [{}, {}]
        for on, moments in enumerate(found):
            with restored(self.model, train=False), torch.no_grad():
                _turned_on([s.module for s in batch])
                dropping = Dropping() if on else nullcontext()
                with self.watching(partial(_noted, moments)), dropping:
                    self.run()
        return found[0], found[1]

    @cached_property
    def padded(self) -> list[tuple[dict, dict, bool]]:
        """Pairs of passes that differ under the mask: at inference, then with batch statistics."""
        if self.mask is None or self.failure:
            return []
        batch = [s.module for s in self.sites.values() if s.kind == "batch" and not s.written]
        pairs = []
        for training in (False, True) if batch else (False,):
            prepare = partial(_turned_on, batch if training else [])
            first = self.attempt(N_("padding"), partial(self.kept, prepare=prepare))
            for what, change in padding.changes(self.mask):
                second = self.attempt(what, partial(self.kept, change, prepare=prepare))
                if first and second:
                    pairs.append((first, second, training))
        return pairs


def _equal(first: Tensor, second: Tensor) -> bool:
    return torch.allclose(first, second, rtol=0, atol=0, equal_nan=True)


def _within(where: str, path: str) -> bool:
    return where.startswith(path + ".")


def _wanting(tensor: Tensor) -> Tensor:
    """Real inputs want gradients too: checkpointing asks for it."""
    return tensor.detach().clone().requires_grad_(tensor.is_floating_point())


def _loss(out: Any) -> Tensor:
    loss = getattr(out, "loss", None)
    if isinstance(loss, Tensor) and loss.requires_grad:
        return loss.sum()
    parts = [t.float().square().mean() for t in real(out) if t.requires_grad]
    if not parts:
        raise ValueError("no output has a gradient")
    return torch.stack(parts).sum()


def _noted(found: dict[str, list[Moments]], site: Site, x: Tensor, _: Tensor) -> None:
    _add(found, site, x)


def _turned_on(modules: list[nn.Module]) -> None:
    for module in modules:
        module.training = True


def _add(found: dict[str, list[Moments]], site: Site, x: Tensor) -> None:
    """Note mean and variance of each group of values that share statistics."""
    axes = site.probe.axes if site.probe.axes and max(site.probe.axes) < x.ndim else None
    if axes is None and site.has_statistics and x.ndim > 1:
        axes = (0, *range(2, x.ndim))
    if axes is None:
        return
    values = x.detach().double().cpu() if x.dtype == torch.float64 else x.detach().float().cpu()
    variance, mean = torch.var_mean(values, dim=axes, correction=0)
    if site.kind == "rms":
        variance = values.square().mean(dim=axes)
    count = (
        site.probe.count(tuple(x.shape)) if site.probe.axes else x.numel() // max(mean.numel(), 1)
    )
    found.setdefault(site.path, []).append(Moments(mean.flatten(), variance.flatten(), count))


def _noting(record: Record, watched: dict[str, Site]) -> tuple[Callable, Callable]:
    """Hooks that keep the record's stack, and note the calls of norms."""
    open_calls: dict[str, list[Call]] = {}

    def before(path: str, module: nn.Module, args: tuple, named: dict) -> None:
        record.stack.append(path)
        site = watched.get(path)
        x = first_tensor([*args, *named.values()])
        if site is None or x is None:
            return
        entered = -1 if record.is_full else record.node(x)
        call = Call(tuple(x.shape), tuple(x.stride()), x.dtype, entered)
        open_calls.setdefault(path, []).append(call)
        if site.sample is None:
            site.sample = Sample(tuple(x.shape), *_besides(x, args, named))

    def after(path: str, module: nn.Module, args: tuple, named: dict, output: Any) -> None:
        while len(record.stack) > 1 and record.stack.pop() != path:
            pass  # a module that raised was left without a word
        y = first_tensor(output)
        if open_calls.get(path) and y is not None:
            call = open_calls[path].pop()
            call.left = -1 if record.is_full else record.node(y)
            watched[path].calls.append(call)

    return before, after


def _besides(x: Tensor, args: tuple, named: dict) -> tuple[tuple, dict]:
    """What a norm is given besides its tensor, kept for the probe."""
    rest = tuple(fresh(a) for a in args if a is not x)
    return rest, {name: fresh(value) for name, value in named.items() if value is not x}


class NoModule(nn.Module):
    """Stands for a norm that is no module: nothing but its ε."""

    def __init__(self, eps: float | None = None) -> None:
        super().__init__()
        self.eps = eps


class Functions(TorchFunctionMode):
    """Within it, norms that are called as functions get a row of their own."""

    def __init__(self, record: Record, subject: Subject) -> None:
        super().__init__()
        self.record, self.subject = record, subject

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        path, name = self.record.stack[-1], FUNCTIONS.get(func)
        self.subject.drops |= func in DROPOUTS
        x = first_tensor([*args, *kwargs.values()])
        if name is None or x is None or path in self.subject.sites or self.record.is_full:
            return func(*args, **kwargs)
        entered = self.record.node(x)
        out = func(*args, **kwargs)
        if self.record.nodes[entered].data:  # else weights are standardised
            self._found(path, name, KINDS[name], x, entered, self.record.node(out), args, kwargs)
        return out

    def _found(
        self, path: str, name: str, kind: str, x: Tensor, entered: int, left: int, *given: Any
    ) -> None:
        where = f"{path}.{name}()" if path else f"{name}()"
        site = self.subject.sites.get(where)
        if site is None:
            stub = NoModule(_eps(name, *given))
            site = Site(where, stub, f"F.{name}", written=kind)
            shape = given[0][1] if len(given[0]) > 1 else given[1].get("normalized_shape")
            site.probe = Probe(kind, _axes(kind, x, shape), (1.0,) * x.ndim, centred=kind != "rms")
            self.subject.sites[where] = site
            self.subject.functional.add(where)
            site.of_batch = kind == "batch" and bool(_argument(given[0], given[1], 5, "training"))
        site.calls.append(Call(tuple(x.shape), tuple(x.stride()), x.dtype, entered, left))


class Dropping(TorchFunctionMode):
    """Within it, dropout drops, although the model is at inference."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in DROPOUTS and len(args) > 2:  # x, p, training, inplace
            args = (*args[:2], True, *args[3:])
        elif func in DROPOUTS:
            kwargs = kwargs | {"training": True}
        return func(*args, **kwargs)


def _eps(name: str, args: tuple, named: dict) -> float:
    at = {"batch_norm": 7, "instance_norm": 7, "group_norm": 4, "layer_norm": 4, "rms_norm": 3}
    value = _argument(args, named, at[name], "eps", None if name == "rms_norm" else 1e-5)
    return float(torch.finfo(torch.float32).eps) if value is None else float(value)


def _argument(args: tuple, named: dict, at: int, name: str, otherwise: Any = None) -> Any:
    return named.get(name, args[at] if len(args) > at else otherwise)


def _axes(kind: str, x: Tensor, shape: Any) -> tuple[int, ...]:
    rest = tuple(range(1, x.ndim))
    if kind in {"layer", "rms"}:
        return tuple(range(x.ndim - len(tuple(shape)), x.ndim))
    return {"batch": (0, *rest[1:]), "instance": rest[1:], "group": rest}[kind]
