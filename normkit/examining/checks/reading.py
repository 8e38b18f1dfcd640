"""Checks that only read the modules."""

from collections.abc import Iterator

import torch
from torch import nn

from normkit.examining.checks.listing import Hit, check, kept
from normkit.examining.report import ERROR, NOTE, WARNING
from normkit.examining.sites import Site
from normkit.examining.subject import Subject

LEFT = 0.01  # of the initial statistics: later ones have replaced them
HALF = (torch.float16, torch.bfloat16)


@check("running_statistics_not_finite", ERROR, "practice-not-finite", static=True)
def running_statistics_not_finite(s: Subject) -> Iterator[Hit]:
    """An infinite value or nan among the running statistics."""
    for site, mean, variance in kept(s):
        bad = ~(torch.isfinite(mean) & torch.isfinite(variance))
        if bad.any():
            yield Hit(site.path, {"channels": int(bad.sum()), "of": bad.numel()})


@check("running_variance_negative", ERROR, "practice-not-finite", static=True)
def running_variance_negative(s: Subject) -> Iterator[Hit]:
    """A running variance below 0, which no average of variances is."""
    for site, _, variance in kept(s):
        if (variance < 0).any():
            yield Hit(site.path, {"least": float(variance.min())})


@check("statistics_in_half_precision", ERROR, "practice-half-statistics", static=True)
def statistics_in_half_precision(s: Subject) -> Iterator[Hit]:
    """Running statistics of 16 bits, in which small increments are lost."""
    for site, mean, _ in kept(s):
        if mean.dtype in HALF:
            yield Hit(site.path, {"bits": 16})


@check("late_running_statistics", WARNING, "practice-late", static=True)
def late_running_statistics(s: Subject) -> Iterator[Hit]:
    """More than one per cent of the initial statistics is left."""
    for site, _, _ in kept(s):
        momentum, batches = getattr(site.module, "momentum", None), site.batches
        if momentum and batches and 0 < momentum < 1 and (1 - momentum) ** batches > LEFT:
            left = (1 - momentum) ** batches
            yield Hit(site.path, {"left": left, "batches": batches, "momentum": momentum})


@check("momentum_of_another_library", WARNING, "practice-late", static=True)
def momentum_of_another_library(s: Subject) -> Iterator[Hit]:
    """A momentum that keeps nothing, or takes nothing: the weight of the new in PyTorch."""
    for site, _, _ in kept(s):
        momentum = getattr(site.module, "momentum", None)
        if momentum is not None and (momentum >= 0.9 or momentum == 0):
            yield Hit(site.path, {"momentum": momentum})


@check("instance_norm_with_running_statistics", WARNING, "practice-instance-eval", static=True)
def instance_norm_with_running_statistics(s: Subject) -> Iterator[Hit]:
    """An instance norm that is a fixed map at inference."""
    for site, mean, _ in kept(s):
        if isinstance(site.module, nn.modules.instancenorm._InstanceNorm):
            yield Hit(site.path, {"channels": mean.numel()})


def _norm_parameters(s: Subject) -> Iterator[tuple[Site, str, nn.Parameter]]:
    """The parameters of norms in the model itself: an optimizer knows those."""
    originals = dict(s.original.named_modules())
    for site in s.sites.values():
        if site.path in originals and not site.written:
            for name, parameter in originals[site.path].named_parameters(recurse=False):
                yield site, name, parameter


@check("norm_not_in_the_optimizer", WARNING, "practice-left-out", static=True)
def norm_not_in_the_optimizer(s: Subject) -> Iterator[Hit]:
    """γ or β wants a gradient, and no group of the optimizer has it."""
    if s.optimizer is None:
        return
    known = {id(p) for group in s.optimizer.param_groups for p in group["params"]}
    lost: dict[str, int] = {}
    for site, _, parameter in _norm_parameters(s):
        if parameter.requires_grad and id(parameter) not in known:
            lost[site.path] = lost.get(site.path, 0) + parameter.numel()
    yield from (Hit(path, {"parameters": n}) for path, n in lost.items())


@check("weight_decay_on_norm", NOTE, "practice-decay", static=True)
def weight_decay_on_norm(s: Subject) -> Iterator[Hit]:
    """Weight decay pulls γ and β to 0: disputed."""
    groups = s.optimizer.param_groups if s.optimizer else []
    decays = {
        id(p): g["weight_decay"] for g in groups if g.get("weight_decay") for p in g["params"]
    }
    decayed = {i.path: decays[id(p)] for i, _, p in _norm_parameters(s) if id(p) in decays}
    yield from (Hit(path, {"decay": decay}) for path, decay in decayed.items())


@check("one_norm_under_two_names", NOTE, "practice-shared", static=True)
def one_norm_under_two_names(s: Subject) -> Iterator[Hit]:
    """One module that stands at several places."""
    names: dict[int, list[str]] = {}
    for path, module in s.original.named_modules(remove_duplicate=False):
        names.setdefault(id(module), []).append(path)
    modules = dict(s.original.named_modules())
    for path in s.sites:
        if path in modules and len(names[id(modules[path])]) > 1 and _is_outermost(path, s, names):
            yield Hit(path, {"names": len(names[id(modules[path])])})


def _is_outermost(path: str, s: Subject, names: dict[int, list[str]]) -> bool:
    """Whether the norm itself is shared, and not a block that holds it."""
    parent = path.rpartition(".")[0]
    modules = dict(s.original.named_modules())
    return len(names[id(modules[parent])]) == 1 if parent in modules else True


@check("several_eps", NOTE, "practice-eps", static=True)
def several_eps(s: Subject) -> Iterator[Hit]:
    """Several ε within one kind of norm."""
    by_kind: dict[str, dict[float, list[str]]] = {}
    for site in s.sites.values():
        if site.kind and site.eps is not None and site.kind not in {"affine", "none", "pointwise"}:
            by_kind.setdefault(site.kind, {}).setdefault(site.eps, []).append(site.path)
    for found in by_kind.values():
        if len(found) > 1:
            usual = max(found, key=lambda eps: len(found[eps]))
            for eps, paths in found.items():
                if eps != usual:
                    yield from (Hit(path, {"eps": eps, "usual": usual}) for path in paths)
