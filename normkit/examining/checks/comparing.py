"""Checks that compare passes: what differs where nothing may differ."""

from collections.abc import Iterator

import torch
from torch import Tensor

from normkit.examining import padding
from normkit.examining.checks.listing import Hit, channels, check, measured
from normkit.examining.pairs import CHANGED, UNCHANGED, Seen, apart
from normkit.examining.report import ERROR, NOTE, WARNING
from normkit.examining.sites import Site
from normkit.examining.subject import FEW, Moments, Subject

GREATER = 1.2  # variance with dropout, in units of that without; between the calls of a norm
DIFFERENT = 0.25  # standard deviations between the means of its calls


@check("depends_on_the_batch_in_eval", ERROR, "practice-other-rows")
def depends_on_the_batch_in_eval(s: Subject) -> Iterator[Hit]:
    """At inference, what a norm makes of one example depends on the others."""
    compared = s.culprits
    for site in s.sites.values():
        if compared.get(site.path):
            yield Hit(site.path, {"change": compared[site.path]})
        elif site.path not in compared and _is_batch_in_eval(site):
            yield Hit(site.path, {"change": 1.0})
        elif site in _of_batch(s):
            yield Hit(site.path, {"change": _mixed(s) or 1.0})


def _of_batch(s: Subject) -> list[Site]:
    """Norms that are no modules, and that mix the examples where no module is found to."""
    mixes = _mixed(s) and not any(s.culprits.values()) if s.batch > 1 else True
    written = [site for site in s.sites.values() if site.of_batch]
    return [site for site in written if mixes and (s.batch > 1 or site.path in s.functional)]


def _mixed(s: Subject) -> float:
    """How far the model's answer for the first example differs among copies of itself."""
    if not s.alike:
        return 0.0
    pairs = zip(s.alike[0][""], s.alike[1][""], strict=False)
    changes = [float(apart(a.y, b.y).max()) for a, b in pairs if a.y.shape == b.y.shape]
    return max((change for change in changes if change > CHANGED), default=0.0)


def _is_batch_in_eval(site: Site) -> bool:
    """Whether a probe at inference moved values along axis 0: asked where nothing was compared."""
    axes = site.probe.eval_axes or ()
    return bool(site.calls) and site.kind == "batch" and 0 in axes


@check("rows_mix_outside_norms", NOTE, "practice-other-rows")
def rows_mix_outside_norms(s: Subject) -> Iterator[Hit]:
    """The answer for an example depends on the others, and no norm is to blame."""
    if _mixed(s) and not any(s.culprits.values()) and not _of_batch(s):
        yield Hit("", {"change": _mixed(s)})


@check("padding_enters_the_statistics", ERROR, "practice-padding")
def padding_enters_the_statistics(s: Subject) -> Iterator[Hit]:
    """What stands under the mask changes what a norm makes of the rest."""
    found: dict[str, Hit] = {}
    for first, second, training in s.padded:
        for site in measured(s):
            for a, b in zip(first.get(site.path, []), second.get(site.path, []), strict=False):
                change = _under_the_mask(site, a, b, s.mask)
                if change > CHANGED and site.path not in found:
                    level = WARNING if training else ERROR
                    found[site.path] = Hit(site.path, {"change": change}, level)
    yield from found.values()


def _under_the_mask(site: Site, a: Seen, b: Seen, mask: Tensor | None) -> float:
    """How far outputs differ at positions whose own numbers do not."""
    axis = channels(site, a.x.ndim)
    if axis is None or mask is None or a.x.shape != a.y.shape or a.x.ndim != b.x.ndim:
        return 0.0
    before = bool(mask[:, -1].all()) and not bool(mask[:, 0].all())
    x, other = padding.cropped(a.x, b.x, before)
    y, changed = padding.cropped(a.y, b.y, before)
    given = (x - other).abs().amax(axis) / (x.abs().mean() + 1e-12)
    made = (y - changed).abs().amax(axis) / (y.abs().mean() + 1e-12)
    same = given <= UNCHANGED
    return float(made[same].max()) if same.any() else 0.0


@check("updated_again_in_backward", ERROR, "practice-checkpointing")
def updated_again_in_backward(s: Subject) -> Iterator[Hit]:
    """The backward pass updates running statistics again: a checkpoint computes the norm twice."""
    for path, (before, after, last) in (s.training.counts if s.training else {}).items():
        if last > after:
            yield Hit(path, {"updates": last - before})


@check("shared_running_statistics", WARNING, "practice-shared")
def shared_running_statistics(s: Subject) -> Iterator[Hit]:
    """One norm, called for several sources, with one set of running statistics.

    Two views of one source do no harm: their statistics differ as those of two batches do.
    """
    for path, seen in (s.training.moments if s.training else {}).items():
        if len(seen) > 1 and s.training and s.training.moved.get(path):
            away, times = _between(seen)
            noise = 3 * (2 / min(m.count for m in seen)) ** 0.5
            differ = away > DIFFERENT + noise or times > GREATER * (1 + noise) ** 2
            values = {"apart": away, "times": times, "calls": len(seen)}
            yield Hit(path, values, None if differ else NOTE)


def _between(seen: list[Moments]) -> tuple[float, float]:
    """Between the calls of a norm, for the median channel: deviations, ratio of variances."""
    same = [m for m in seen if m.mean.shape == seen[0].mean.shape]
    means, variances = (torch.stack([getattr(m, n) for m in same]) for n in ("mean", "variance"))
    spread = variances.mean(0).sqrt() + 1e-12
    ratio = (variances.amax(0) + 1e-12) / (variances.amin(0) + 1e-12)
    return float(((means.amax(0) - means.amin(0)) / spread).median()), float(ratio.median())


@check("frozen_but_statistics_move", WARNING, "practice-frozen")
def frozen_but_statistics_move(s: Subject) -> Iterator[Hit]:
    """γ and β are frozen, and the running statistics are not."""
    for path, moved in (s.training.moved if s.training else {}).items():
        own = list(s.sites[path].module.parameters())
        if moved and own and not any(p.requires_grad for p in own):
            yield Hit(path, {"parameters": sum(p.numel() for p in own)})


@check("stays_in_eval", NOTE, "practice-frozen")
def stays_in_eval(s: Subject) -> Iterator[Hit]:
    """In training mode, a norm with running statistics still uses them."""
    for path, training in (s.training.modes if s.training else {}).items():
        if not training and s.sites[path].has_statistics:
            yield Hit(path, {"statistics": int(s.sites[path].module.running_mean.numel())})


@check("statistics_never_updated", NOTE, "practice-frozen")
def statistics_never_updated(s: Subject) -> Iterator[Hit]:
    """In training, running statistics stay as they are although the norm is in training mode."""
    for path, moved in (s.training.moved if s.training else {}).items():
        site = s.sites[path]
        trains = site.kind == "batch" and s.training and s.training.modes.get(path)
        if not moved and site.calls and trains:
            yield Hit(path, {"batches": site.batches or 0})


@check("norm_never_called", NOTE, "practice-left-out")
def norm_never_called(s: Subject) -> Iterator[Hit]:
    """A norm that no pass reaches."""
    if s.failure:
        return
    for site in s.sites.values():
        used = s.training.modes if s.training else {}
        if not site.calls and site.path not in used:
            yield Hit(site.path, {"parameters": sum(p.numel() for p in site.module.parameters())})


@check("dropout_before_batch_norm", WARNING, "practice-dropout")
def dropout_before_batch_norm(s: Subject) -> Iterator[Hit]:
    """Dropout raises the variance that a batch norm stores, and is gone at inference."""
    for path, (without, dropped) in s.dropped.items():
        for a, b in zip(without, dropped, strict=False):
            if a.variance.shape == b.variance.shape and min(a.count, b.count) >= FEW:
                eps = s.sites[path].eps or 1e-12  # a variance far below it may do what it likes
                ratio = float(((b.variance + eps) / (a.variance + eps)).median())
                if ratio > GREATER:
                    yield Hit(path, {"times": ratio})
                    break
