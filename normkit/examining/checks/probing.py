"""Checks of one norm: what it makes of numbers of ours, and of those that it is given."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from normkit.examining import likeness
from normkit.examining.checks.listing import Hit, check, is_sound, kept, measured
from normkit.examining.passes import probing
from normkit.examining.probes import called, materialised, shapes
from normkit.examining.report import ERROR, NOTE, WARNING
from normkit.examining.sites import Site
from normkit.examining.subject import FEW, Moments, Subject

MANY = 128  # values of a channel, below which its moments are too noisy to judge
IMAGES = 8  # from as many on, one value for each of them is told as a note


@check("one_value_per_group", ERROR, "practice-constant")
def one_value_per_group(s: Subject) -> Iterator[Hit]:
    """A norm whose output ignores its input."""
    for site in measured(s):
        if site.probe.constant:
            yield Hit(site.path, {"values": 1})


@check("not_finite_on_constants", ERROR, "practice-overflow")
def not_finite_on_constants(s: Subject) -> Iterator[Hit]:
    """Forward or backward, a constant input gives nan: nothing is added in the root."""
    broken = {site.path for site, mean, variance in kept(s) if not is_sound(mean, variance)}
    known: dict[tuple, list[float]] = {}  # by what decides it: the form, not the numbers in γ
    for site in measured(s):
        if site.path in broken or not site.sample or not site.sample.is_alone:
            continue
        finite = all(bool(p.isfinite().all()) for p in site.module.parameters())
        key = (*site.form, site.dtype, finite)
        if key not in known and not site.probe.constant:
            with probing():
                known[key] = [v for v in (0.0, 3.0) if not _finite_on(site, v)]
        if known.get(key) and not site.probe.constant:
            yield Hit(site.path, {"constant": known[key][0]})


def _finite_on(site: Site, value: float) -> bool:
    module = materialised(site.module).train(site.kind == "batch")
    module.requires_grad_(False)
    for shape in shapes(site.sample) if site.sample else ():
        x = torch.full(shape, value, dtype=site.dtype)
        try:
            y = called(module, x.requires_grad_())
            (dx,) = torch.autograd.grad(y.float().sum() + y.float().square().sum(), x)
        except (RuntimeError, ValueError, StopIteration):
            continue  # the shape, the mode or the type asks for more
        return bool(y.isfinite().all() and dx.isfinite().all())
    return True


@check("overflows_in_half_precision", ERROR, "practice-overflow")
def overflows_in_half_precision(s: Subject) -> Iterator[Hit]:
    """In float16, inputs around 1000 are not normalised: their squares are infinite."""
    for site in measured(s, "layer", "rms", "group", "instance", "batch"):
        if site.is_known or not site.sample or not site.sample.is_alone or site.probe.constant:
            continue
        with probing():
            wrong = _wrong_in_half(site)
        if wrong:  # harmless while nothing has 16 bits
            level = None if torch.float16 in {site.dtype, site.calls[0].dtype} else NOTE
            yield Hit(site.path, {"input": 1000, "most": 65504}, level)


def _wrong_in_half(site: Site) -> bool:
    try:
        module = materialised(site.module).train(site.kind == "batch").requires_grad_(False)
        torch.manual_seed(0)
        shape = site.calls[0].shape
        x = 1000 * torch.randn(min(shape[0], 4) if len(shape) > 1 else shape[0], *shape[1:])
        right = called(module.double(), x.double())
        came = called(module.half(), x.half())
    except Exception:
        return False
    size = right.abs().mean()
    return bool(size > 0 and not ((came.double() - right).abs().mean() < 0.1 * size))


@check("one_value_per_image", WARNING, "practice-one-value")
def one_value_per_image(s: Subject) -> Iterator[Hit]:
    """A batch norm that has one value of each example: a batch of 1 raises."""
    for site in measured(s, "batch"):
        for call in site.calls:
            images = len(call.shape) > 2 or call.shape[0] == 1
            if images and _each(call.shape) == 1 and call.shape[0] <= max(s.batch, 1):
                level = NOTE if call.shape[0] >= IMAGES else None
                yield Hit(site.path, {"examples": call.shape[0]}, level)
                break


def _each(shape: tuple[int, ...]) -> int:
    """How many values of a channel an example has, channels on axis 1."""
    return torch.Size(shape[2:]).numel()


@check("two_values_per_group", WARNING, "practice-constant")
def two_values_per_group(s: Subject) -> Iterator[Hit]:
    """Two values share their statistics: the output is ±1, whatever they are."""
    for site in measured(s, "batch", "layer", "group", "instance"):
        counts = [site.probe.count(call.shape) for call in site.calls]
        if min(counts) == 2 and not site.probe.constant and not _is_one_per_image(site):
            yield Hit(site.path, {"values": 2})


def _is_one_per_image(site: Site) -> bool:
    return site.kind == "batch" and any(
        len(call.shape) > 2 and _each(call.shape) == 1 for call in site.calls
    )


@check("positions_share_statistics", WARNING, "practice-axes")
def positions_share_statistics(s: Subject) -> Iterator[Hit]:
    """A layer norm of sequences whose mean runs over the positions too."""
    for site in measured(s, "layer", "rms"):
        if site.probe.axes == (1, 2) and len(site.calls[0].shape) == 3:
            yield Hit(site.path, {"positions": site.calls[0].shape[1]})


@check("unbiased_variance", WARNING, "layer_norm#ln-mistake-unbiased-variance")
def unbiased_variance(s: Subject) -> Iterator[Hit]:
    """A norm of unknown class that divides by n − 1."""
    for site in measured(s):
        if not site.is_known and site.probe.unbiased:
            n = site.probe.count(site.calls[0].shape)
            yield Hit(site.path, {"too_small": 1 - math.sqrt((n - 1) / n), "values": n})


@check("eps_outside_the_root", WARNING, "layer_norm#ln-mistake-eps-outside-root")
def eps_outside_the_root(s: Subject) -> Iterator[Hit]:
    """A norm of unknown class that adds ε to the deviation, not to the variance."""
    for site in measured(s):
        if not site.is_known and site.probe.eps_inside is False and site.probe.eps:
            yield Hit(site.path, {"eps": site.probe.eps})


@check("behaves_like_a_mistake", WARNING, "practice-eps")
def behaves_like_a_mistake(s: Subject) -> Iterator[Hit]:
    """A norm of unknown class that computes what a mistake of the catalogue computes."""
    for site in measured(s):
        last = len(site.calls[0].shape) - 1
        plain = site.probe.axes in {(last,), ()} and site.kind in {
            "layer",
            "rms",
            "pointwise",
            None,
        }
        named = "norm" in site.class_name.lower() or site.kind in {"layer", "rms"}
        told = site.probe.unbiased or site.probe.eps_inside is False  # by findings of their own
        if plain and named and not site.is_known and not told:
            with probing():
                found = likeness.mistake(site)
            if found is not None:
                values = {"values": site.calls[0].shape[-1]}
                yield Hit(site.path, values, None, found.name, f"{found.page}#{found.label}")


@check("one_added_to_a_weight_of_one", WARNING, "practice-gain-two")
def one_added_to_a_weight_of_one(s: Subject) -> Iterator[Hit]:
    """γ is 1, and the norm multiplies by 2: it adds 1 to what it stores."""
    for site in measured(s, "layer", "rms", "group", "instance", "batch"):
        weight = site.weight
        if site.is_known or weight is None or weight.is_meta or not (weight == 1).all():
            continue
        with probing():
            gain = _multiplies(site)
        if gain is not None and abs(gain - 2) < 0.05:
            yield Hit(site.path, {"gain": gain})


def _multiplies(site: Site) -> float | None:
    """The scale of what a norm makes of large inputs."""
    try:
        module = materialised(site.module).double().train(site.kind == "batch")
        torch.manual_seed(0)
        y = called(module, 1e3 * torch.randn(site.calls[0].shape, dtype=torch.float64), site.sample)
        return float(y.detach().std(correction=0))
    except Exception:
        return None


@check("eps_dominates", WARNING, "practice-eps")
def eps_dominates(s: Subject) -> Iterator[Hit]:
    """Over half of the variances that a norm is given lie below its ε."""
    level = NOTE if _is_at_birth(s) else None
    for site in measured(s):
        eps = site.eps or 0.0
        for moments in s.moments.get(site.path, []) if not site.probe.constant else []:
            below = float((moments.variance < eps).float().mean())
            if below > 0.5 and moments.count > 1:
                median = float(moments.variance.median())
                yield Hit(site.path, {"below": below, "variance": median, "eps": eps}, level)
                break


def _is_at_birth(s: Subject) -> bool:
    """Every γ is constant, or a batch norm has seen no batch: the weights were just drawn."""
    weights = [w for site in s.sites.values() if (w := site.weight) is not None and w.numel() > 1]
    unused = any(site.batches == 0 for site in s.sites.values())
    return unused or all(bool((w == w.flatten()[0]).all()) for w in weights)


@check("running_statistics_do_not_fit", WARNING, "practice-noisy")
def running_statistics_do_not_fit(s: Subject) -> Iterator[Hit]:
    """At inference, what a norm is given has another mean or variance than it remembers."""
    for site, mean, variance in kept(s):
        initial = bool((mean == 0).all() and (variance == 1).all())
        if not is_sound(mean, variance) or (initial and not site.batches):
            continue  # statistics that were converted may have a counter of 0
        for moments in s.moments.get(site.path, []):
            if _given(moments, mean) >= MANY:
                away, times = _misfit(moments, mean.float().cpu(), variance.float().cpu())
                if away > 1 or max(times, 1 / times) > 4:
                    yield Hit(site.path, {"away": away, "times": times})
                    break


@check("averaged_statistics_do_not_fit", WARNING, "practice-averaged")
def averaged_statistics_do_not_fit(s: Subject) -> Iterator[Hit]:
    """The averaged model's running statistics are not those of its own activations."""
    if s.twin is None:
        return
    for site, mean, variance in kept(s.twin):
        for moments in s.twin.moments.get(site.path, []):
            if _given(moments, mean) >= FEW and is_sound(mean, variance):
                away, times = _misfit(moments, mean.float().cpu(), variance.float().cpu())
                if away > 1 or max(times, 1 / times) > 4:
                    yield Hit(site.path, {"away": away, "times": times})
                    break


def _given(moments: Moments, mean: Tensor) -> int:
    return moments.count if moments.mean.shape == mean.shape else 0


def _misfit(moments: Moments, mean: Tensor, variance: Tensor) -> tuple[float, float]:
    """For the median channel: deviations between the means; ratio of the variances."""
    away = (moments.mean.float() - mean).abs() / (variance + 1e-12).sqrt()
    times = (moments.variance.float() + 1e-12) / (variance + 1e-12)
    return float(away.median()), float(times.median())
