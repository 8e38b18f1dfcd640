"""A check-up of the norms in a reader's own PyTorch model."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from normkit._extras import missing

try:
    import torch
    from torch import Tensor, nn
except ModuleNotFoundError as error:
    raise missing(error) from error

from normkit.examining.checks import CHECKS, CONSEQUENCES, Check, Hit
from normkit.examining.passes import ReachedError, quietly, real, unwrapped
from normkit.examining.probes import Sample
from normkit.examining.progress import Progress
from normkit.examining.report import ERROR, LEVELS, Finding, Norm, Report, Skipped
from normkit.examining.sites import Site, named_norms, size
from normkit.examining.subject import Subject
from normkit.messages import N_

__all__ = ["Finding", "Norm", "Report", "Skipped", "examine"]
COPY, INFERENCE = N_("a copy of the model"), N_("the model at inference")


def examine(
    model: nn.Module | Callable[[], nn.Module],
    *inputs: Any,
    optimizer: torch.optim.Optimizer | None = None,
    mask: Tensor | None = None,
    batch_axis: int = 0,
    other: nn.Module | None = None,
    static: bool = False,
    **named: Any,
) -> Report:
    """Check up the norms of a model, on a batch of its own, and change nothing in it.

    model: a PyTorch model, or a function that builds one, for models that cannot be copied.
    inputs, named: what the model is called with: a real batch, since statistics of noise mean
        little; of at least two examples, since one has nothing to be compared with.
    optimizer: the one that trains the model; then its groups are checked too.
    mask: (N, T), 1 where something is and 0 where the batch is padded. Taken from a named
        `attention_mask` where there is one.
    batch_axis: the axis of the inputs that counts examples.
    other: an averaged copy of the model (EMA, SWA), whose running statistics are compared.
    static: only read the modules, without a copy and without a pass; no batch is needed then.
    Returns a report: `norms`, `findings`, `skipped`. It shows itself as text, in a notebook as
    tables, in the language of `normkit.speak`, and gives `to_json()`.
    Raises TypeError where model is neither. What fails in a measurement is a line in `skipped`.

    See: examine-model in book/examine.md; tests/normkit/examining/test_checks.py.

    >>> import torch
    >>> from torch import nn
    >>> report = examine(nn.Sequential(nn.Linear(4, 4), nn.GroupNorm(4, 4)), torch.randn(8, 4))
    >>> [(finding.level, finding.name, finding.paths) for finding in report.findings]
    [('error', 'one_value_per_group', ('1',))]
    """
    started = time.perf_counter()
    built = model if isinstance(model, nn.Module) else model()
    if not isinstance(built, nn.Module):
        raise TypeError(
            f"examine takes a torch.nn.Module, or a function that returns one; "
            f"{type(built).__name__} came. Pass the model itself, not its output or its weights."
        )
    whole = unwrapped(built)
    progress = Progress()
    subject = Subject(
        whole,
        inputs,
        named,
        optimizer=optimizer,
        mask=mask,
        batch_axis=batch_axis,
        other=unwrapped(other) if other is not None else None,
        progress=progress,
    )
    with progress, quietly():
        findings = _static(subject) if static else _whole(subject)
    return Report(
        model=type(whole).__name__,
        norms=[_row(site) for site in subject.sites.values()],
        findings=findings,
        skipped=[Skipped(*each) for each in dict.fromkeys(subject.skipped)],
        parameters=sum(size(site.module) for site in subject.sites.values()),
        seconds=time.perf_counter() - started,
        is_noise=_is_noise(subject),
    )


def _static(subject: Subject) -> list[Finding]:
    """What the modules say, each norm probed alone, and the checks that only read."""
    for path, module in named_norms(subject.original).items():
        site = subject.sites[path] = Site(path, module, type(module).__name__)
        sample = _likely(site)
        if sample is not None:
            site.sample = sample
            subject._probe(site)
    return _gathered(subject, [check for check in CHECKS if check.static])


def _likely(site: Site) -> Sample | None:
    """A shape that a norm may be called with, from its class and γ alone."""
    from torch.nn.modules.batchnorm import _BatchNorm

    width = getattr(site.module, "num_features", None) or getattr(site.module, "num_channels", None)
    shape = getattr(site.module, "normalized_shape", None)
    weight = site.weight
    if isinstance(site.module, (_BatchNorm, nn.GroupNorm)) or width:
        two = type(site.module).__name__.endswith(("2d", "2D"))
        return Sample((4, int(width), *((5, 6) if two else (5,)))) if width else None
    if shape:
        return Sample((4, 5, *shape))
    return Sample((4, 5, weight.numel())) if weight is not None and weight.ndim == 1 else None


def _whole(subject: Subject) -> list[Finding]:
    """The record of one pass, then every check."""
    if subject.unfit:
        subject.skipped.append((COPY, subject.unfit))
        return _static(subject)
    try:
        subject.progress(COPY)
        assert subject.model is not None  # copied here
    except Exception as error:
        said = str(error).split("\n")[0]
        subject.skipped.append((COPY, f"{type(error).__name__}: {said}"))
        return _static(subject)
    try:
        subject.progress(INFERENCE)
        subject.record()
        if subject.failure is None and subject.other is not None:
            subject.twin = subject.attempt(N_("the averaged model"), subject.averaged)
    except ReachedError as error:
        subject.skipped.append((COPY, str(error)))
        subject.sites.clear()
        return _static(subject)
    except Exception as error:
        subject.failure = error
        subject.skipped.append((INFERENCE, f"{type(error).__name__}: {error}"[:200]))
    return _gathered(subject, CHECKS)


def _gathered(subject: Subject, checks: list[Check]) -> list[Finding]:
    """Findings of all checks: one for each name and level, worst first, consequences folded."""
    found: list[Finding] = []
    if subject.failure is not None:
        found.append(Finding("forward_pass_fails", ERROR, ("",), {"passes": 1}, "practice"))
    for check in checks:
        hits = subject.attempt(check.name, partial(_found, check, subject))
        found += _grouped(check, hits or [])
    return _folded(sorted(found, key=lambda each: LEVELS.index(each.level)))


def _found(check: Check, subject: Subject) -> list[Hit]:
    return list(check.find(subject))


def _grouped(check: Check, hits: list[Hit]) -> Iterator[Finding]:
    """One finding for each name and level, with the numbers of the worst place."""
    kinds = dict.fromkeys((hit.name or check.name, hit.level or check.level) for hit in hits)
    for name, level in kinds:
        same = [h for h in hits if (h.name or check.name, h.level or check.level) == (name, level)]
        worst = max(same, key=lambda hit: abs(next(iter(hit.values.values()))))
        heading = worst.heading or check.heading
        heading = heading if "#" in heading else f"practice#{heading}"
        yield Finding(name, level, tuple(h.path for h in same), dict(worst.values), heading)


def _folded(found: list[Finding]) -> list[Finding]:
    """Put each consequence under its cause, where the cause is at the same norms."""
    folded: dict[int, list[int]] = {}
    gone: set[int] = set()
    for i, cause in enumerate(found):
        for j, effect in enumerate(found):
            wanted = effect.name in CONSEQUENCES.get(cause.name, ())
            where = set(effect.paths) <= {*cause.paths, ""} or effect.name == "several_eps"
            if wanted and where and i not in gone and j not in gone and i != j:
                folded.setdefault(i, []).append(j)
                gone.add(j)

    def whole(i: int) -> Finding:
        return replace(found[i], consequences=tuple(whole(j) for j in folded.get(i, ())))

    return [whole(i) for i in range(len(found)) if i not in gone]


def _row(site: Site) -> Norm:
    measured = bool(site.probe.axes)
    shape = site.calls[0].shape if site.calls else (site.sample.shape if site.sample else ())
    parameters = size(site.module)
    momentum = getattr(site.module, "momentum", None)
    return Norm(
        path=site.path,
        class_name=site.class_name,
        kind=site.kind,
        axes=site.probe.axes if measured else None,
        count=site.probe.count(shape) if (measured or site.probe.constant) and site.calls else None,
        eps=site.eps,
        momentum=momentum if isinstance(momentum, float) else None,
        affine=parameters > 0,
        parameters=parameters,
        dtype=str(site.dtype).removeprefix("torch.") if site.dtype else None,
        place=site.place,
        calls=len(site.calls),
    )


def _is_noise(subject: Subject) -> bool:
    """Whether the batch looks drawn from a normal distribution."""
    given = [t for t in real((subject.inputs, subject.named)) if t.layout == torch.strided]
    values = [t.detach().float() for t in given if t.numel() > 64 and not t.is_meta]
    return bool(values) and all(
        abs(float(v.mean())) < 0.1 and abs(float(v.std()) - 1) < 0.1 for v in values
    )
