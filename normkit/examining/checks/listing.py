"""The list of checks, and what they share."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from normkit.examining.report import Number
from normkit.examining.sites import Site
from normkit.examining.subject import Subject


@dataclass(frozen=True)
class Hit:
    """One place at which a check found something; the first number says how bad."""

    path: str
    values: Mapping[str, Number]
    level: str | None = None
    name: str = ""  # where the check has no name of its own
    heading: str = ""


@dataclass(frozen=True)
class Check:
    """A check: its name, level, the label that explains it, what it runs; what it needs."""

    name: str
    level: str
    heading: str
    find: Callable[[Subject], Iterator[Hit]]
    static: bool


CHECKS: list[Check] = []


Find = Callable[[Subject], Iterator[Hit]]


def check(name: str, level: str, heading: str, static: bool = False) -> Callable[[Find], Find]:
    """List a function among the checks; `static`: it only reads the modules."""

    def listed(find: Find) -> Find:
        CHECKS.append(Check(name, level, heading, find, static))
        return find

    return listed


def kept(s: Subject) -> Iterator[tuple[Site, Tensor, Tensor]]:
    """Norms with running statistics that are in memory."""
    for site in s.sites.values():
        mean, variance = (getattr(site.module, n, None) for n in ("running_mean", "running_var"))
        if isinstance(mean, Tensor) and isinstance(variance, Tensor) and not variance.is_meta:
            yield site, mean, variance


def measured(s: Subject, *kinds: str) -> Iterator[Site]:
    for site in s.sites.values():
        if site.calls and not site.written and (not kinds or site.kind in kinds):
            yield site


def channels(site: Site, ndim: int) -> int | None:
    """The axis of channels or features, for which a norm has its γ."""
    axes = site.probe.axes
    if not axes or ndim < 2:
        return None
    if site.kind == "batch":
        return next((axis for axis in range(1, ndim) if axis not in axes), None)
    if site.kind in {"layer", "rms"}:
        return axes[0] if ndim > 3 else axes[-1]
    return 1


def is_sound(mean: Tensor, variance: Tensor) -> bool:
    return bool(
        torch.isfinite(mean).all() and torch.isfinite(variance).all() and (variance >= 0).all()
    )


CONSEQUENCES: dict[str, set[str]] = {
    "running_statistics_not_finite": {"running_variance_negative", "running_statistics_do_not_fit"},
    "statistics_in_half_precision": {"forward_pass_fails", "running_statistics_do_not_fit"},
    "late_running_statistics": {"running_statistics_do_not_fit"},
    "momentum_of_another_library": {"late_running_statistics", "running_statistics_do_not_fit"},
    "depends_on_the_batch_in_eval": {
        "padding_enters_the_statistics",
        "one_value_per_image",
        "two_values_per_group",
        "rows_mix_outside_norms",
        "channels_on_another_axis",
    },
    "one_value_per_group": {"bias_before_norm", "two_values_per_group", "eps_dominates"},
    "eps_outside_the_root": {"not_finite_on_constants", "several_eps"},
    "unbiased_variance": {"not_finite_on_constants", "eps_outside_the_root"},
    "not_finite_on_constants": {"several_eps"},
    "shared_running_statistics": {"one_norm_under_two_names", "running_statistics_do_not_fit"},
    "frozen_but_statistics_move": {"running_statistics_do_not_fit"},
    "one_value_per_image": {"two_values_per_group"},
    "channels_on_another_axis": {"positions_share_statistics", "padding_enters_the_statistics"},
    "positions_share_statistics": {"padding_enters_the_statistics"},
}
