"""Watch the normalisation layers of a model while it is trained."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf, isfinite, sqrt
from operator import is_
from time import monotonic
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np

from normkit._extras import missing

try:
    import torch
    from torch import Tensor, nn
    from torch.optim import Optimizer
    from torch.optim.optimizer import (
        register_optimizer_step_post_hook,
        register_optimizer_step_pre_hook,
    )
except ModuleNotFoundError as error:
    raise missing(error) from error

from normkit.watching import report, telling
from normkit.watching.history import GRADIENT, QUANTITIES, SCALE, VARIANCE, WEIGHT, History
from normkit.watching.places import Place, followed
from normkit.watching.reading import (
    Alike,
    Group,
    Key,
    Measured,
    Passed,
    alike,
    by_key,
    norm,
    norms,
    read,
    scalars,
)
from normkit.watching.signs import Note, Ruins, Silence, Stop, first_broken, notes

FEW = 10  # discarded backward passes that a GradScaler may need to find its scale
WEIGHTS = 10  # γ changes slowly: it is measured in one step of so many
ROWS = {"scale": SCALE, "gradient": GRADIENT, "weight": WEIGHT}


class NotFinite(FloatingPointError):
    """A tensor of a watched model is not finite.

    step, path, direction: where. In `"forward"` it is what entered the layer `path`, in
    `"backward"` the gradient of its γ, in `"buffers"` and `"parameter"` the tensor `path` itself.
    """

    def __init__(
        self,
        message: str,
        step: int,
        path: str,
        direction: Literal["forward", "backward", "buffers", "parameter"],
    ) -> None:
        super().__init__(message)
        self.step, self.path, self.direction = step, path, direction


def watch(model: nn.Module, *, also: Sequence[str] = (), every: int = 1) -> "Watch":
    """Follow the normalisation layers of a model through a training loop, as a context.

    A step ends when an optimiser of `torch.optim` that holds a parameter of the model updates it;
    two optimisers after one forward pass count once. So neither gradient accumulation counts, nor
    an update that a GradScaler skips. Passes in evaluation mode or without gradients are not
    measured. Where no such optimiser updates the model, call the method `step()` of the watch.

    In each step, and for each layer, it keeps the root mean square (RMS) of the input, of the
    gradient of γ and, every tenth step, of γ; and the greatest running variance. At the first
    tensor that is not finite it raises NotFinite, before the update: the parameters are those of
    the step before. A gradient that a GradScaler discards is counted, not refused; running
    statistics are refused in any case, because they keep the damage.

    model: its layers of `torch.nn` and `normkit`, and others with "norm" in the name of the class.
    also: paths of other modules, with * for any text: the RMS of their output is kept, of a softmax
    that of its input; values that are not finite (a mask) count as 0 there.
    every: measure one step in so many.
    Returns a `Watch`. Printed, or shown in a notebook, it is the report; `steps`, `notes`,
    `history` and `to_json()` have its parts. A history has 200 points at most, then each is the
    greatest value of 2, 4, 8, … steps. In a terminal, it says a line a minute (stderr).
    Raises NotFinite in the loop; TypeError or ValueError for a model or a path without layers.
    Nothing in the model changes; no random number is drawn. What is no module's input or output is
    not seen, attention scores for example. With torch.compile, enter the context before the first
    call. An input beyond 1e19 in float32, whose square overflows, is refused as not finite.
    With DDP each process watches its own batches; FSDP and tensor parallelism were not tried.

    See: examine-watch in book/examine.md; tests/normkit/test_watching.py.

    >>> model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 1))
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> with watch(model) as seen:
    ...     for _ in range(3):
    ...         optimizer.zero_grad()
    ...         model(torch.ones(2, 4)).sum().backward()
    ...         optimizer.step()
    >>> seen.steps, list(seen.history), seen.notes
    (3, ['1'], [])
    """
    if not isinstance(every, int) or every < 1:
        raise ValueError(f"every must be a whole number of steps, at least 1; it is {every!r}.")
    return Watch(model, [also] if isinstance(also, str) else also, every)


class _Hook:
    """Measures what enters or leaves a module; in a copy of the model, nothing.

    It does nothing that waits for the device, or that torch.compile cannot trace.
    """

    def __init__(self, watch: "Watch", index: int, place: Place) -> None:
        self.watch, self.index, self.place, self.leaves = watch, index, place, place.leaves

    def __call__(self, _module: nn.Module, args: tuple[Any, ...], last: Any) -> None:
        """Keep the norm, on its device. last: keyword arguments, or what leaves."""
        watch, place = self.watch, self.place
        if not (torch.is_grad_enabled() and watch.model.training):
            return
        watch.fresh = True
        x = last if self.leaves else args[0] if args else next(iter(last.values()), None)
        if isinstance(x, tuple):
            x = x[0]
        if watch.on and isinstance(x, Tensor) and x.is_floating_point():
            place.dtype = x.dtype
            x = x.detach() if place.norm else torch.nan_to_num(x.detach(), 0.0, 0.0, 0.0)
            watch.passed.add(self.index, x)

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return _no_hook, ()


def _no_hook() -> Callable[..., None]:
    return _nothing


def _nothing(*_arguments: Any) -> None:
    pass


class Watch:
    """What `watch` follows, and what it has seen so far.

    steps: how many have ended. discarded: after how many backward passes gradients were not finite,
    and no update used them. stopped: where the first tensor stood that was not finite, or None.
    """

    def __init__(self, model: nn.Module, also: Sequence[str], every: int) -> None:
        self.steps = 0
        self.discarded = 0
        self.stopped: Stop | None = None
        self.every = every
        self.places: list[Place] = followed(model, also)
        self.log = History(len(self.places))
        self.model = model
        self._row = self.log.empty()
        self._ruins, self._silence = Ruins(), Silence(len(self.places))
        self._order: Sequence[int] = ()  # the places as they were called last
        self.on = True  # whether this step is measured
        self.fresh = False  # whether a forward pass came since the last step
        self.passed = Passed(len(self.places))  # since the last reading
        self._backward = list[Tensor]()  # one gradient for each backward pass
        self._named = [
            (place.module._parameters, place.name) for place in self.places if place.name
        ]
        self._buffered = [(i, p) for i, p in enumerate(self.places) if p.module._buffers]
        self._gammas: list[Any] = [None] * len(self._named)
        self._learn, self._alike = list[bool](), list[Alike]()  # which do; the γ of each shape
        self._ours: WeakKeyDictionary[Optimizer, bool] = WeakKeyDictionary()
        self._handles = list[Any]()
        self._told = monotonic()

    # --- As a context -------------------------------------------------------------------------

    def __enter__(self) -> "Watch":
        if self._handles:
            raise RuntimeError("This watch is in use already; for another, call normkit.watch.")
        handles = [self._follow(index, place) for index, place in enumerate(self.places)]
        if (last := self._last_to_arrive()) is not None:
            handles.append(last.register_post_accumulate_grad_hook(self._on_backward))
        handles.append(register_optimizer_step_pre_hook(self._before))
        handles.append(register_optimizer_step_post_hook(self._after))
        self._handles = handles
        return self

    def __exit__(self, kind: object, *_error: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        if kind is None:
            self._read(update=False)
        self.passed.clear()
        self._backward.clear()

    def _follow(self, index: int, place: Place) -> Any:
        hook = _Hook(self, index, place)
        if place.leaves:
            return place.module.register_forward_hook(hook)
        return place.module.register_forward_pre_hook(hook, with_kwargs=True)

    def _last_to_arrive(self) -> nn.Parameter | None:
        """The parameter whose gradient ends a backward pass: the first γ, else the first of all."""
        gammas = [gamma for place in self.places if (gamma := place.gamma) is not None]
        others = (p for p in self.model.parameters() if p.requires_grad)
        return gammas[0] if gammas else next(others, None)

    def _on_backward(self, parameter: Tensor) -> None:
        """A backward pass ends. If no update followed the one before, read what that one left."""
        if self.on and parameter.grad is not None:
            self._backward.append(norm(parameter.grad.detach(), inf))
            if len(self._backward) > 1:
                self._read(update=False)

    # --- Around the update --------------------------------------------------------------------

    def _before(self, optimizer: Optimizer, *_arguments: Any) -> None:
        if self.on and self.fresh and self._holds(optimizer):
            self._read(True, optimizer)

    def _after(self, optimizer: Optimizer, *_arguments: Any) -> None:
        if self.fresh and self._holds(optimizer):
            self.step()

    def _holds(self, optimizer: Optimizer) -> bool:
        """Whether an optimiser has a parameter of this model."""
        if optimizer not in self._ours:
            ours = {id(p) for p in self.model.parameters()}
            theirs = (id(p) for group in optimizer.param_groups for p in group["params"])
            self._ours[optimizer] = any(p in ours for p in theirs)
        return self._ours[optimizer]

    def step(self) -> None:
        """End a step: for a model that no optimiser of `torch.optim` updates, after each update."""
        if self.passed:
            self._read(update=True)
        self.steps += 1
        self.fresh = False
        if self.on:
            self._silence.add(self.steps, self._row[GRADIENT])
            self.log.add(self.steps, self._row)
            self._row = self.log.empty()
        self.on = self.steps % self.every == 0
        self._told = telling.line_a_minute(self, self._told)

    # --- Reading ------------------------------------------------------------------------------

    def _read(self, update: bool, optimizer: Optimizer | None = None) -> None:
        """Bring all that was measured here, keep it, and raise at the first that is not finite."""
        backward = self._backward if update else self._backward[:-1]
        passes = [(number, value, 1) for number, value in enumerate(backward)]
        measured = [*norms(self._statistics(), inf), *(self._gradients() if update else ())]
        self._order = self.passed.order() or self._order
        groups = [*self.passed.taken("scale"), *scalars("backward", passes), *measured]
        read(groups)
        del self._backward[: len(passes)]
        lost = sum(int((~np.isfinite(g.values)).sum()) for g in groups if g.what == "backward")
        groups = [group for group in groups if group.what != "backward"]
        if getattr(optimizer, "found_inf", None) is not None:  # a GradScaler drives it
            _forget_overflow(groups)
        self._keep(groups, _scale_of(optimizer))
        if not all(np.isfinite(group.values).all() for group in groups):
            self._stop(by_key(groups), optimizer is not None)
        self.discarded += lost

    def _gradients(self) -> Iterator[Group]:
        """The gradient of each γ, and now and then γ itself."""
        often = self.steps // self.every % WEIGHTS == 0
        gammas = [parameters.get(name) for parameters, name in self._named]
        learn = [gamma is not None and gamma.requires_grad for gamma in gammas]
        if often or learn != self._learn or not all(map(is_, gammas, self._gammas)):
            self._gammas, self._learn = gammas, learn
            every = enumerate(place.gamma for place in self.places)
            self._alike = alike((i, gamma) for i, gamma in every if gamma is not None)
        for group in self._alike:
            yield group.norms("gradient")
            if often:
                yield group.norms("weight")

    def _statistics(self) -> Iterator[Measured]:
        for index, place in self._buffered:
            for name, buffer in place.buffers():
                yield ("buffer", index, name), buffer, 1

    def _keep(self, groups: Sequence[Group], scale: float) -> None:
        """Write what was found into the row of this step, the greatest of each."""
        statistics = defaultdict[str, dict[int, float]](dict)
        for group in groups:
            if group.what == "buffer":
                statistics[group.name].update(zip(group.places, group.values.tolist(), strict=True))
            else:
                values = group.values / scale if group.what == "gradient" else group.values
                values = np.where(np.isfinite(values), values, np.nan)
                np.fmax.at(self._row[ROWS[group.what]], group.places, values)
        for index, variance in statistics["running_var"].items():
            if isfinite(variance):
                self._row[VARIANCE, index] = variance
                mean = statistics["running_mean"].get(index, 0.0)
                self._ruins.add(self.steps + 1, index, self.places[index], sqrt(variance), mean)

    def _stop(self, found: dict[Key, float], in_time: bool) -> None:
        step = self.steps + 1
        self.stopped = stop = first_broken(self.model, self.places, self._order, found, step)
        self.log.add(step, self._row)
        self._row = self.log.empty()
        message = telling.why(self, stop, in_time)
        raise NotFinite(message, stop.step, stop.path, stop.direction)

    # --- What was seen ------------------------------------------------------------------------

    @property
    def called(self) -> list[int]:
        """The places that were measured, as they were called last, then the others."""
        measured: list[int] = np.flatnonzero(~np.isnan(self.log.first[SCALE])).tolist()
        known = set(measured)
        return [i for i in dict.fromkeys([*self._order, *measured]) if i in known]

    @property
    def notes(self) -> list[Note]:
        """What deserves a look: growth, ruined statistics, a γ without gradient, and the like."""
        found = [*self._general(), *self._ruins.notes.values()]
        return [*found, *notes(self.places, self.log, self.called, self._silence.long())]

    def _general(self) -> Iterator[Note]:
        if not self.steps and not np.isnan(self._row).all():
            yield Note("no_optimizer", "")
        called = {*self.called}
        for index, place in enumerate(self.places):
            if self.steps and index not in called:
                yield Note("never_called", place.path)
        if self.discarded > max(FEW, self.steps / 10):
            yield Note("discarded", "", {"count": self.discarded})

    @property
    def history(self) -> dict[str, dict[str, list[tuple[int, float]]]]:
        """For each path, the points (step, value) of each quantity that it has."""
        found: dict[str, dict[str, list[tuple[int, float]]]] = {}
        for index, place in enumerate(self.places):
            each = {name: self.log.series(row, index) for row, name in enumerate(QUANTITIES)}
            found[place.path] = {name: series for name, series in each.items() if series}
        return found

    def to_json(self) -> str:
        """All that was seen, the same in every language."""
        stop = self.stopped and {k: v for k, v in vars(self.stopped).items() if k != "place"}
        return json.dumps(
            {
                "steps": self.steps,
                "every": self.every,
                "stride": self.log.stride,
                "discarded": self.discarded,
                "stopped": stop,
                "notes": [vars(note) for note in self.notes],
                "layers": {place.path: place.kind for place in self.places},
                "history": self.history,
            },
            ensure_ascii=False,
        )

    def __repr__(self) -> str:
        return report.text(self)

    def _repr_html_(self) -> str:
        return report.html(self)


def _forget_overflow(groups: Iterable[Group]) -> None:
    """Leave out gradients that are not finite, as a fused optimiser leaves out its update."""
    for group in groups:
        if group.what == "gradient":
            fine = np.isfinite(group.values)
            group.places = np.array(group.places)[fine].tolist()
            group.values = group.values[fine]


def _scale_of(optimizer: Optimizer | None) -> float:
    """What a GradScaler has multiplied gradients by that a fused optimiser is about to undo."""
    found = getattr(optimizer, "found_inf", None) is not None
    scale = getattr(optimizer, "grad_scale", None) if found else None
    return 1.0 if scale is None else float(scale)
