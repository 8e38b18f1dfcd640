"""How fast: normkit's layers beside PyTorch's, and layer normalisation in NumPy, step by step.

`make bench` prints the table. All times are medians of interleaved rounds, processor time of one
thread. They are given as multiples of the time in which the same process copies x, to mean
something on another machine.
"""

import argparse
import json
import logging
import math
import os
import random
import statistics
import subprocess
import sys
import warnings
from functools import partial
from time import process_time

import numpy as np
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile
from tqdm import tqdm

import normkit
from normkit import fast

SHAPES = [(32, 128, 512), (8, 1024, 1024)]
ROUNDS, QUICK_ROUNDS = [200, 60], [20, 5]
STEPS = ["forward", "forward + backward"]
SETTINGS = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    # Keep freed memory: fresh pages from the system cost more than the arithmetic.
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**32),
    "MALLOC_TOP_PAD_": str(2**28),
    "KINETO_LOG_LEVEL": "6",  # a quiet profiler
}

# Layer normalisation in NumPy.


def naive(x, gamma, beta, eps=1e-5):
    """Mean and variance as NumPy has them."""
    mean, var = x.mean(axis=-1, keepdims=True), x.var(axis=-1, keepdims=True)
    return gamma * (x - mean) / np.sqrt(var + eps) + beta


def centre_once(x, gamma, beta, eps=1e-5):
    """Few passes, but the error of a rounded mean stays in the output."""
    centred = x - x.mean(axis=-1, keepdims=True)
    var = np.vecdot(centred, centred)[..., None] / x.shape[-1]
    return gamma * (centred * (1 / np.sqrt(var + eps))) + beta


def in_place(x, gamma, beta, eps=1e-5, out=None):
    """The steps of normkit, each written over the one before; the mean is a dot product."""
    weights = np.full(x.shape[-1], 1 / x.shape[-1], x.dtype)
    y = np.subtract(x, x[..., :1], out=out)
    y -= (y @ weights)[..., None]
    y *= 1 / np.sqrt((np.vecdot(y, y) / x.shape[-1] + eps)[..., None])
    y *= gamma
    y += beta
    return y


def blocked(x, gamma, beta, eps=1e-5, size=256):
    """In place, some tokens at a time, which stay in the cache of the core."""
    y = np.empty(x.shape, x.dtype)
    tokens, out = (array.reshape(-1, x.shape[-1]) for array in (x, y))
    for first in range(0, len(tokens), size):
        block = slice(first, first + size)
        in_place(tokens[block], gamma, beta, eps, out[block])
    return y


def with_numba():
    """All steps for one token, then the next: each value is read from memory once."""
    normkit.need("numba")  # or the ordinary function would be timed
    return fast.layer_norm


def with_torch_compile():
    """The very function of normkit, fused by PyTorch's compiler, which needs a C++ compiler."""
    torch._logging.set_logs(dynamo=logging.ERROR)  # a check of eps breaks the graph, and is told
    compiled = torch.compile(normkit.layer_norm, dynamic=False)

    def layer_norm(x, gamma, beta, eps=1e-5):
        return compiled(*map(torch.from_numpy, (x, gamma, beta)), eps).numpy()

    return layer_norm


def naive_rms(x, gamma, eps=1e-5):
    """The mean square as NumPy has it."""
    return gamma * x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps)


VARIANTS = {
    "naive": naive,
    "centred once": centre_once,
    "normkit": normkit.layer_norm,
    "in place": in_place,
    "blocked": blocked,
}
COMPILERS = {"numba": with_numba, "torch.compile": with_torch_compile}
RMS_VARIANTS = {"naive": naive_rms, "normkit": partial(normkit.rms_norm, eps=1e-5)}


def compiled(*arrays):
    """The compiled variants by name, run once, and for those that fail here the reason."""
    variants, skipped = {}, {}
    for name, make in COMPILERS.items():
        try:
            with warnings.catch_warnings(action="ignore"):
                variant = make()
                variant(*arrays)
        except Exception as error:  # no package, no C++ compiler, not for this Python, …
            skipped[name] = type(error).__name__
        else:
            variants[name] = variant
    return variants, skipped


# Layers of PyTorch.


class Plain(nn.Module):
    """DyT or Derf without a gradient of its own: PyTorch differentiates each operation."""

    def __init__(self, layer, squash):
        super().__init__()
        self.layer = layer
        self.squash = squash

    def forward(self, x):
        layer = self.layer
        z = layer.alpha * x
        z = z + layer.shift if hasattr(layer, "shift") else z
        return layer.weight * self.squash(z) + layer.bias


def layers(shape):
    """For each name, PyTorch's layer and normkit's."""
    channels, features = shape[1:]
    groups = math.gcd(32, channels)
    return {
        "LayerNorm": {"torch": nn.LayerNorm(features), "normkit": normkit.LayerNorm(features)},
        "BatchNorm": {"torch": nn.BatchNorm1d(channels), "normkit": normkit.BatchNorm1d(channels)},
        "GroupNorm": {
            "torch": nn.GroupNorm(groups, channels),
            "normkit": normkit.GroupNorm(groups, channels),
        },
        "RMSNorm": {"torch": nn.RMSNorm(features), "normkit": normkit.RMSNorm(features)},
        "DyT": {
            "plain": Plain(normkit.DyT(features), torch.tanh),
            "normkit": normkit.DyT(features),
        },
        "Derf": {
            "plain": Plain(normkit.Derf(features), torch.erf),
            "normkit": normkit.Derf(features),
        },
    }


def forward(layer, x):
    with torch.no_grad():
        layer(x)


def forward_backward(layer, x, dy):
    torch.autograd.grad(layer(x), [x, *layer.parameters()], dy)


def peak(layer, shape):
    """The most memory that forward and backward hold at once, x and dy aside, in copies of x."""
    x, dy = torch.randn(shape, requires_grad=True), torch.randn(shape)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        forward_backward(layer, x, dy)
    events = [e for e in seen.profiler.kineto_results.events() if e.name() == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most / x.nbytes


# Measurement.


def cases(shape):
    """What to time, by (what, by whom, step), and what could not run."""
    rng = np.random.default_rng(0)
    x, dy = rng.normal(size=(2, *shape)).astype(np.float32)
    gamma, beta = np.ones(shape[-1], np.float32), np.zeros(shape[-1], np.float32)
    work = {("copy", "", STEPS[0]): partial(np.copyto, np.empty_like(x), x)}
    tensor, gradient = torch.tensor(x, requires_grad=True), torch.tensor(dy)
    for name, pair in layers(shape).items():
        for by, layer in pair.items():
            work[name, by, STEPS[0]] = partial(forward, layer, tensor)
            work[name, by, STEPS[1]] = partial(forward_backward, layer, tensor, gradient)
    more, skipped = compiled(x, gamma, beta)
    for by, function in (VARIANTS | more).items():
        work["layer_norm in NumPy", by, STEPS[0]] = partial(function, x, gamma, beta)
    for by, function in RMS_VARIANTS.items():
        work["rms_norm in NumPy", by, STEPS[0]] = partial(function, x, gamma)
    return work, skipped


def timed(work, rounds, label=""):
    """The times of each case, one per round, in a new order each round; the first is not kept."""
    times, order = {name: [] for name in work}, list(work)
    for _ in tqdm(range(rounds + 1), desc=label, unit="round", disable=None):
        random.shuffle(order)
        for name in order:
            start = process_time()
            work[name]()
            times[name].append(process_time() - start)
    return {name: values[1:] for name, values in times.items()}


def summary(times, shape):
    """One record per case: its time in copies, and how many times as fast as the first of its kind.

    The spread is half the distance between the quartiles, as a share of the median.
    """
    median = {name: statistics.median(values) for name, values in times.items()}
    copy, first = median.pop(("copy", "", STEPS[0])), {}
    for (what, by, step), time in median.items():
        low, _, high = statistics.quantiles(times[what, by, step], n=4)
        yield {
            "what": what,
            "by": by,
            "shape": str(shape),
            "step": step,
            "copies": time / copy,
            "speed": first.setdefault((what, step), time) / time,
            "spread": (high - low) / 2 / time,
        }


def measure(shapes, rounds):
    """All that the table shows, as data: see `summary` for the records."""
    torch.manual_seed(0)
    found = {"records": [], "copy_ms": {}, "skipped": {}, "memory": []}
    for shape, count in zip(shapes, rounds, strict=True):
        work, skipped = cases(shape)
        found["skipped"] |= skipped
        times = timed(work, count, str(shape))
        found["copy_ms"][str(shape)] = 1000 * statistics.median(times["copy", "", STEPS[0]])
        found["records"] += summary(times, shape)
    for what, pair in layers(shapes[0]).items():
        for by, layer in pair.items():
            found["memory"].append({"what": what, "by": by, "copies": peak(layer, shapes[0])})
    return found


def run(quick=False):
    """What `measure` finds in a process of its own, which has SETTINGS from its start."""
    command = [sys.executable, __file__, "--measure", *(["--quick"] if quick else [])]
    done = subprocess.run(
        command, env=os.environ | SETTINGS, stdout=subprocess.PIPE, check=True, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


# The table.


def table(found):
    """The findings as text, one line for each layer or variant."""
    shapes = list(found["copy_ms"])
    steps = [f"{step:>15}" for _ in shapes for step in ("forward", "and back")]
    lines = [
        _line("", "", [f"{shape:>31}" for shape in shapes], ""),
        _line("", "", steps, "memory"),
    ]
    cells = {(r["what"], r["by"], r["shape"], r["step"]): _cell(r) for r in found["records"]}
    memory = {(r["what"], r["by"]): f"{r['copies']:.2f}" for r in found["memory"]}
    for what, by in dict.fromkeys((what, by) for what, by, *_ in cells):
        times = [cells.get((what, by, shape, step), " " * 15) for shape in shapes for step in STEPS]
        lines.append(_line(what, by, times, memory.get((what, by), "")))
    return "\n".join([*lines, "", *_notes(found)])


def _line(what, by, columns, last):
    return f"{what:20} {by:13} {' '.join(columns)} {last:>7}".rstrip()


def _cell(record):
    return f"{record['copies']:7.1f} {record['speed']:6.2f}×"


def _notes(found):
    copies = ", ".join(f"{ms:.2f} ms for {shape}" for shape, ms in found["copy_ms"].items())
    spread = [record["spread"] for record in found["records"]]
    yield "Processor time in copies of x; ×: how many times as fast as the first line of its kind."
    yield f"x is float32. A copy takes {copies}."
    yield "Memory is the most that forward and backward hold at once, in copies of x."
    yield (
        f"Half of the rounds lie within {statistics.median(spread):.0%} of a median "
        f"({max(spread):.0%} where they vary most)."
    )
    yield "One thread; " + " ".join(f"{k}={v}" for k, v in SETTINGS.items() if "MALLOC" in k)
    for name, reason in found["skipped"].items():
        yield f"{name} could not run here: {reason}."


def main():
    parser = argparse.ArgumentParser(description="Measure the speed of normkit, as ratios.")
    parser.add_argument("--quick", action="store_true", help="few rounds")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(SHAPES, QUICK_ROUNDS if options.quick else ROUNDS)))
    else:
        print(table(run(options.quick)))


if __name__ == "__main__":
    main()
