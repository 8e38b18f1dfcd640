"""Checks that follow the values of one pass from norm to norm."""

from collections.abc import Iterator

import torch

from normkit.examining.checks.listing import Hit, channels, check, measured
from normkit.examining.graph import Node
from normkit.examining.report import NOTE, WARNING
from normkit.examining.sites import Call, Site
from normkit.examining.subject import Subject


@check("functional_norm", NOTE, "practice-left-out")
def functional_norm(s: Subject) -> Iterator[Hit]:
    """A norm that is called as a function: it is no module, so other tools overlook it."""
    for path in s.functional & s.sites.keys():
        yield Hit(path, {"calls": len(s.sites[path].calls)})


@check("norm_inside_forward", NOTE, "practice-left-out")
def norm_inside_forward(s: Subject) -> Iterator[Hit]:
    """A norm written in the forward of something larger: it has no boundary to probe."""
    for path in s.handwritten & s.sites.keys():
        yield Hit(path, {"calls": len(s.sites[path].calls)})


@check("bias_before_norm", NOTE, "batch_norm#bn-bias")
def bias_before_norm(s: Subject) -> Iterator[Hit]:
    """A bias that the next norm subtracts again."""
    for site in measured(s, "batch", "instance"):
        if not s.graph or not site.probe.shift_per_channel or len(site.calls) != 1:
            continue
        node = s.graph.nodes[site.calls[0].entered]
        bias = _bias(s, site, node.op, node.parameters)
        inside = all(_is_within(where, site.path) for _, where in node.readers)
        if bias and inside:
            yield Hit(site.path, {"parameters": bias})


def _bias(s: Subject, site: Site, op: str, names: tuple[str, ...]) -> int:
    """How many numbers the product that made the input of a norm adds to its channels."""
    biased = {"convolution": 2, "addmm": 0, "linear": 2, "_convolution": 2, "baddbmm": 0}
    own = dict(s.model.named_parameters())
    at = biased.get(op)
    if at is None or at >= len(names) or names[at] not in own or own[names[at]].ndim != 1:
        return 0
    shape = site.calls[0].shape
    return own[names[at]].numel() if own[names[at]].numel() == shape[1] else 0


def _is_within(where: str, path: str) -> bool:
    return where == path or where.startswith(path + ".")


@check("norm_after_norm", WARNING, "practice-twice")
def norm_after_norm(s: Subject) -> Iterator[Hit]:
    """A norm reads what another of its kind made, and nothing else does."""
    yield from (Hit(second.path, {"values": n}) for second, n, alone in _in_a_row(s) if alone)


@check("norm_after_norm_on_a_branch", NOTE, "practice-twice")
def norm_after_norm_on_a_branch(s: Subject) -> Iterator[Hit]:
    """A norm reads what another of its kind made; so does the residual connection."""
    yield from (Hit(second.path, {"values": n}) for second, n, alone in _in_a_row(s) if not alone)


def _in_a_row(s: Subject) -> Iterator[tuple[Site, int, bool]]:
    if not s.graph:
        return
    made = {call.left: site for site in s.sites.values() for call in site.calls if call.left >= 0}
    for site in s.sites.values():
        for call in site.calls:
            first = made.get(call.entered)
            if call.entered < 0 or first is None or first is site or not _alike(first, site):
                continue
            readers = s.graph.nodes[call.entered].readers
            alone = all(_is_within(w, site.path) or _is_within(w, first.path) for _, w in readers)
            yield site, site.probe.count(call.shape), alone
            break


def _alike(first: Site, second: Site) -> bool:
    same = first.kind == second.kind and first.probe.axes == second.probe.axes
    return same and first.kind in {"batch", "layer", "rms", "group", "instance"}


@check("no_final_norm_after_pre_norm", WARNING, "practice-final-norm")
def no_final_norm_after_pre_norm(s: Subject) -> Iterator[Hit]:
    """A stream that only its branches normalise leaves the model as it grew."""
    graph, sites = s.graph, list(s.sites.values())
    pre = [(site, call) for site in sites if site.place == "pre" for call in site.calls]
    if not graph or len(pre) < 2:
        return
    chains: dict[int, list] = {}
    for site, call in pre:
        last = max((x.node for x in graph.sums if call.entered in graph.chain(x.node)), default=-1)
        chains.setdefault(last, []).append(site)
    last = max(chains, key=lambda node: len(chains[node]))
    if last < 0 or len(chains[last]) < 2:
        return
    below = (call for site in sites for call in site.calls if call.entered >= 0)
    if not any(graph.leads(last, call.entered) for call in below):
        yield Hit(chains[last][-1].path, {"norms": len(chains[last])})


@check("channels_on_another_axis", WARNING, "practice-axes")
def channels_on_another_axis(s: Subject) -> Iterator[Hit]:
    """A norm takes for channels what the layer before it made as positions."""
    for site in measured(s, "batch", "group", "instance", "layer", "rms"):
        for call in site.calls if s.graph else []:
            if call.entered >= 0 and s.graph and _is_mistaken(s.graph.producer(call.entered), site):
                yield Hit(site.path, {"channels": call.shape[channels(site, len(call.shape)) or 1]})
                break


def _is_mistaken(made: Node, site: Site) -> bool:
    call = site.calls[0]
    dense = {"addmm", "mm", "linear", "bmm", "matmul"}
    if site.kind in {"batch", "group", "instance"}:
        plain = len(call.shape) == 3 and call.shape[-1] == made.shape[-1] and _is_packed(call)
        first = channels(site, len(call.shape)) == 1
        return made.op in dense and any(made.parameters) and plain and first
    conv = made.op in {"convolution", "_convolution"} and made.shape == call.shape
    return conv and made.strides == call.strides and site.probe.axes == (len(call.shape) - 1,)


def _is_packed(call: Call) -> bool:
    """Whether the last axis lies together in memory, as a linear layer leaves it."""
    sizes = [*call.shape[1:], 1]
    expected = [torch.Size(sizes[i:]).numel() for i in range(len(call.shape))]
    return list(call.strides) == expected
