"""What in the measurements is a failure, and what deserves a note."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, isinf, log
from typing import Any

import numpy as np
import torch
from torch import nn

from normkit.watching.history import GRADIENT, SCALE, WEIGHT, Growth, History, Row
from normkit.watching.places import Place

GROWN = 10.0  # a scale that grew by this factor, ...
STILL = 2.0  # ... and by this one in the second half of the steps, is told
GREAT = 100.0  # so is one that grew by this factor, and above this value, in whatever time
VANISHED = 1e-3  # the gradient of the first γ, in those of the last, compared with the beginning
SETTLED = 10  # updates after which running statistics lie near those of the data
JUMP = 10.0  # of the running variance, in one update
MOVED = 3.0  # standard deviations that the running mean moves, in one update
SILENT = 10  # measured steps with a gradient of 0
SHRUNK = 0.01  # of its first value

Found = Mapping[tuple[str, int, str], float]  # (what, place, buffer): the value measured


@dataclass(frozen=True)
class Stop:
    """The first tensor that is not finite, and the place that it belongs to (-1: to none)."""

    step: int
    path: str
    direction: Any
    place: int = -1


@dataclass(frozen=True)
class Note:
    """Something to look at: its name, where, and the numbers that its sentence has."""

    name: str
    path: str
    fields: dict[str, Any] = field(default_factory=dict)


# --- What is not finite -----------------------------------------------------------------------


def first_broken(
    model: nn.Module, places: Sequence[Place], order: Sequence[int], found: Found, step: int
) -> Stop:
    """Where it began: a parameter came before the forward pass, which came before the backward.

    order: the places as they were called. Statistics are written in the forward pass.
    """
    for name, parameter in model.named_parameters():
        if not torch.isfinite(parameter.detach()).all():
            return Stop(step - 1, name, "parameter")
    called = [*order, *(i for i in range(len(places)) if i not in order)]
    for index in called:
        path, buffers = places[index].path, _broken_buffers(places[index], found, index)
        scale = found.get(("scale", index, ""), 0.0)
        if not isfinite(scale) and not (isinf(scale) and buffers == ["running_var"]):
            return Stop(step, path, "forward", index)
        if buffers:
            return Stop(step, ".".join(filter(None, (path, buffers[0]))), "buffers", index)
    broken = (i for i in reversed(called) if not isfinite(found.get(("gradient", i, ""), 0.0)))
    index = next(broken, called[0])
    return Stop(step, places[index].path, "backward", index)


def _broken_buffers(place: Place, found: Found, index: int) -> list[str]:
    """Its buffers that are not finite. The variance alone: the input was, but not its square."""
    named = dict(place.buffers())
    broken = [name for name, buffer in named.items() if not torch.isfinite(buffer).all()]
    return broken or [n for n in named if not isfinite(found.get(("buffer", index, n), 0.0))]


# --- Running statistics that one batch ruins --------------------------------------------------


class Ruins:
    """Jumps of running statistics in one update, the greatest for each place."""

    def __init__(self) -> None:
        self.notes = dict[tuple[int, str], Note]()
        self._last = dict[int, tuple[float, float]]()  # the greatest σ, the greatest |μ|
        self._updates = dict[int, int]()

    def add(self, step: int, index: int, place: Place, deviation: float, mean: float) -> None:
        """Compare with the update before, once the statistics have settled."""
        before, self._last[index] = self._last.get(index), (deviation, mean)
        self._updates[index] = count = self._updates.get(index, 0) + 1
        if before is None or count <= SETTLED or not before[0] > 0:
            return
        grown, moved = (deviation / before[0]) ** 2, (mean - before[1]) / before[0]
        if grown >= JUMP:
            self._keep(step, index, place, "variance_ruined", grown)
        elif moved >= MOVED:
            self._keep(step, index, place, "mean_ruined", moved)

    def _keep(self, step: int, index: int, place: Place, name: str, factor: float) -> None:
        known = self.notes.get((index, name))
        if known is None or known.fields["factor"] < factor:
            fields = {"step": step, "factor": factor, "batches": _batches(place, factor)}
            self.notes[index, name] = Note(name, place.path, fields)


def _batches(place: Place, factor: float) -> int | None:
    """How many batches bring the variance back to twice what it was; None for an average of all."""
    momentum = getattr(place.module, "momentum", None)
    if not isinstance(momentum, float) or not 0 < momentum < 1:
        return None
    return max(1, round(log(factor) / -log(1 - momentum)))


class Silence:
    """Since which step, and for how many measured ones, the gradient of a γ has been 0."""

    def __init__(self, places: int) -> None:
        self._since = np.zeros(places, int)
        self._run = np.zeros(places, int)

    def add(self, step: int, gradients: Row) -> None:
        """Add what was measured in a step; nan where nothing was."""
        silent = gradients == 0
        self._since[silent & (self._run == 0)] = step
        self._run[silent] += 1
        self._run[gradients > 0] = 0

    def long(self) -> dict[int, int]:
        """Where it has lasted for some time: the first step of each."""
        return {int(i): int(self._since[i]) for i in np.flatnonzero(self._run >= SILENT)}


# --- Notes ------------------------------------------------------------------------------------


def notes(
    places: Sequence[Place], history: History, called: Sequence[int], silent: Mapping[int, int]
) -> Iterator[Note]:
    """What grows, gradients that vanish, and γ that die.

    called: the places in their order. silent: since which step the gradient of a γ has been 0.
    """
    shrunk = [i for i in called if history.last(WEIGHT, i) < SHRUNK * history.first[WEIGHT, i]]
    for index in called:
        path, growth = places[index].path, history.growth(index)
        if growth and (name := _grown(history, index, growth)):
            yield Note(name, path, vars(growth))
        if index in shrunk:
            first, last = float(history.first[WEIGHT, index]), history.last(WEIGHT, index)
            since = min(s for s, v in history.series(WEIGHT, index) if v < SHRUNK * first)
            yield Note("shrunk", path, {"first": first, "last": last, "since": since})
        if index in silent:
            before = _usual(history, index, silent[index])
            name = "silent" if before else "always_silent"
            yield Note(name, path, {"since": silent[index], "before": before})
    if not shrunk:  # which also shortens the gradients of all layers before
        yield from _vanishing(places, history, called)


def _grown(history: History, index: int, growth: Growth) -> str:
    """Whether a scale grew for long, or by very much; not where it only started small."""
    series = history.series(SCALE, index)
    half = max(value for _, value in series[: (len(series) + 1) // 2])
    if growth.factor >= GROWN and growth.last >= STILL * half:
        return "grows"
    return "grew" if growth.factor >= GREAT and growth.last >= GREAT else ""


def _usual(history: History, index: int, until: int) -> float:
    """The gradient of γ before a step: the median of what was not 0."""
    values = sorted(v for step, v in history.series(GRADIENT, index) if v > 0 and step < until)
    return values[len(values) // 2] if values else 0.0


def _vanishing(places: Sequence[Place], history: History, called: Sequence[int]) -> Iterator[Note]:
    """Compare the gradient of the first γ with that of the last, now and in the beginning."""
    ends = [index for index in called if history.first[GRADIENT, index] >= 0]
    if len(ends) < 2:
        return
    first, last = (dict(history.series(GRADIENT, index)) for index in (ends[0], ends[-1]))
    ratios = [(s, first[s] / last[s]) for s in first if first[s] > 0 and last.get(s, 0) > 0]
    if len(ratios) < SILENT or any(r > VANISHED * min(1, ratios[0][1]) for _, r in ratios[-3:]):
        return
    since = max(step for step, ratio in ratios if ratio > 0.1 * ratios[0][1])
    fields = {"end": places[ends[-1]].path, "since": since}
    numbers = {"first": ratios[0][1], "last": ratios[-1][1]}
    yield Note("vanishes", places[ends[0]].path, fields | numbers)
