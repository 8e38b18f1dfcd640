"""What the experiments share: the table of their runs, one training loop, batches."""

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise, product
from typing import Any, TypeAlias, TypeVar

import numpy as np

from normkit._extras import missing, need

try:
    import torch
    from torch import Tensor, nn
    from torch.nn import functional
except ModuleNotFoundError as error:
    raise missing(error) from error

from normkit.layers import BatchNorm1d, BatchNorm2d

T = TypeVar("T")
M = TypeVar("M", bound=nn.Module)
Row: TypeAlias = dict[str, Any]  # settings, seed and measurements of a run
Batch: TypeAlias = tuple[Tensor, Tensor]  # x and the right answers


# --- Tables -----------------------------------------------------------------------------------


def table(what: str, run: Callable[..., Iterable[Row]], **settings: Sequence) -> list[Row]:
    """Run every combination of the settings; each row has them and what the run measured.

    One of the settings is the seed. The run gets the others, and before them a generator for its
    batches; its weights come from PyTorch's own random numbers.
    """
    rows = []
    with reproducible():
        for values in progress(list(product(*settings.values())), what):
            setting = dict(zip(settings, values, strict=True))
            generator = _seeded(setting["seed"])
            given = {name: value for name, value in setting.items() if name != "seed"}
            rows += [setting | measured for measured in run(generator, **given)]
    return rows


@contextmanager
def reproducible() -> Iterator[None]:
    """One thread and float32 inside; PyTorch as it was afterwards, its random numbers too."""
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    try:
        torch.set_num_threads(1)  # sums in one order, whatever the number of cores
        torch.set_default_dtype(torch.float32)
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            yield
    finally:
        torch.set_num_threads(threads)
        torch.set_default_dtype(dtype)


def _seeded(seed: int) -> torch.Generator:
    torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed the GPUs too
    return torch.Generator().manual_seed(seed)


def progress(items: Sequence[T], what: str) -> Iterable[T]:
    """A bar on a terminal while the items are gone through; elsewhere, on a page say, nothing."""
    return need("tqdm").tqdm(items, desc=what, leave=False, disable=None)


def known(what: str, names: Iterable[str], options: Iterable[str]) -> None:
    """Refuse a wrong name before anything runs."""
    for name in names:
        if name not in options:
            listed = ", ".join(f'"{option}"' for option in options)
            raise ValueError(f"{what} must be a list of some of {listed}; in it is {name!r}.")


def summary(rows: Sequence[Row], of: str, by: Sequence[str]) -> list[Row]:
    """Return one row per different setting: the median, least and greatest of a measurement.

    of: what was measured. by: the settings; runs that agree in them are taken together.
    Raises KeyError for names that the rows do not have.

    >>> rows = [{"lr": 0.1, "seed": seed, "loss": loss} for seed, loss in enumerate([3, 1, 2])]
    >>> summary(rows, of="loss", by=["lr"])
    [{'lr': 0.1, 'median': 2.0, 'least': 1.0, 'greatest': 3.0}]
    """
    measures: dict[str, Callable[[list[float]], Any]]
    measures = {"median": np.median, "least": np.min, "greatest": np.max}
    groups: dict[tuple, list[float]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row[of])
    return [
        dict(zip(by, settings, strict=True))
        | {name: float(measure(values)) for name, measure in measures.items()}
        for settings, values in groups.items()
    ]


# --- Training ---------------------------------------------------------------------------------


def fit(
    model: nn.Module,
    batches: Sequence[Batch],
    optimiser: torch.optim.Optimizer,
    warmup: int = 0,
) -> np.ndarray:
    """Take one step per batch on the cross-entropy; return the loss before each.

    warmup: over so many steps the learning rate grows linearly to its value.
    """
    rates = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min(1, (step + 1) / max(warmup, 1))
    )
    losses = []
    for x, y in progress(batches, "steps"):
        error = cross_entropy(model(x), y)
        optimiser.zero_grad()
        error.backward()
        optimiser.step()
        rates.step()
        losses.append(error.item())
    return np.array(losses)


def checkpoints(
    model: nn.Module,
    batches: Sequence[Batch],
    optimiser: torch.optim.Optimizer,
    at: Sequence[int],
) -> Iterator[int]:
    """Train, and pause after each of these numbers of steps."""
    for before, step in pairwise((0, *sorted(at))):
        fit(model.train(), batches[before:step], optimiser)
        yield step


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """The mean over all answers: logits (..., classes), y (...)."""
    return functional.cross_entropy(logits.flatten(0, -2), y.flatten())


@torch.no_grad()
def loss(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """The cross-entropy, in evaluation."""
    return cross_entropy(model.eval()(x), y).item()


@torch.no_grad()
def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """The share of right answers, in evaluation."""
    return (model.eval()(x).argmax(-1) == y).float().mean().item()


@torch.no_grad()
def with_population_statistics(model: M, x: Tensor) -> M:
    """A copy whose batch normalisations have the statistics of all of x, for evaluation.

    Source: Ioffe & Szegedy (2015), algorithm 2, which leaves running averages to practice.
    """
    model = copy.deepcopy(model).train()
    for layer in model.modules():
        if isinstance(layer, BatchNorm1d | BatchNorm2d):
            layer.momentum = 1.0
    model(x)
    return model.eval()


def draw_batches(
    x: Tensor, y: Tensor, size: int, steps: int, generator: torch.Generator
) -> list[Batch]:
    """Batches of as many epochs as the steps need, each in a new order.

    What does not fill a batch at the end of an epoch is left out: the statistics of a smaller
    batch would be noisier than those of all others.
    """
    if not 0 < size <= len(x):
        raise ValueError(f"A batch must have 1 to {len(x)} examples, all there are; not {size}.")
    epochs = math.ceil(steps / (len(x) // size))
    orders = (torch.randperm(len(x), generator=generator) for _ in range(epochs))
    parts = [part for order in orders for part in order.split(size) if len(part) == size]
    return [(x[part], y[part]) for part in parts[:steps]]
