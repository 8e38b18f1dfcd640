"""RMSNorm, layer normalisation and DyT: eager, compiled, normkit's layers, `normkit.fast`.

`make bench` prints the tables. All times are in copies of x, those of the best round and of the
median one, processor time of one thread. With --write the findings become the data of the page.
"""

import argparse
import json
import logging
import math
import os
import runpy
import subprocess
import sys
import warnings
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import normkit
from normkit import fast

BENCHMARK = runpy.run_path(str(Path(__file__).with_name("benchmark.py")))
DATA = Path(__file__).parents[1] / "data" / "fast.json"
SHAPES = [(32, 128, 512), (16, 512, 2048)]  # 8 and 64 MiB: within a cache of today, and beyond
ROUNDS, QUICK_ROUNDS = [100, 30], [12, 0]
STEPS = BENCHMARK["STEPS"]
EPS = 1e-5


class Called(nn.Module):
    """A function with the parameters of a layer."""

    def __init__(self, layer, function):
        super().__init__()
        self.layer, self.function = layer, function

    def forward(self, x):
        return self.function(x, self.layer)


def layers(features):
    """For each name, the layer in PyTorch, in normkit, and on the fast path."""
    return {
        "RMSNorm": {
            "eager": nn.RMSNorm(features, EPS),
            "normkit": normkit.RMSNorm(features, EPS),
            "fast": Called(
                normkit.RMSNorm(features, EPS), lambda x, own: fast.rms_norm(x, own.weight, EPS)
            ),
        },
        "LayerNorm": {
            "eager": nn.LayerNorm(features),
            "normkit": normkit.LayerNorm(features),
            "fast": Called(
                normkit.LayerNorm(features), lambda x, own: fast.layer_norm(x, own.weight, own.bias)
            ),
        },
        "DyT": {
            "eager": BENCHMARK["Plain"](normkit.DyT(features), torch.tanh),
            "normkit": normkit.DyT(features),
            "fast": Called(
                normkit.DyT(features),
                lambda x, own: fast.dyt(x, own.alpha, own.weight, own.bias),
            ),
        },
    }


def compiled(layer, x, dy):
    """The layer after torch.compile, which has run both ways, or the error."""
    torch._logging.set_logs(dynamo=logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"):
            found = torch.compile(layer, dynamic=False)
            BENCHMARK["forward"](found, x)
            BENCHMARK["forward_backward"](found, x, dy)
    except Exception as error:  # no C++ compiler, not for this Python, …
        return error
    return found


# The sum of a residual connection and the RMSNorm after it.


def add_rms_norm(x, h, gamma, eps, z, y):
    """z = x + h, the new stream, and y = RMSNorm(z), in one loop over the rows."""
    count, features = x.shape
    for n in range(count):
        total = 0.0
        for i in range(features):
            z[n, i] = x[n, i] + h[n, i]
            total += np.float64(z[n, i]) * np.float64(z[n, i])
        r = x.dtype.type(1 / math.sqrt(total / features + eps))
        for i in range(features):
            y[n, i] = gamma[i] * (z[n, i] * r)


def added(shape):
    """What is timed of x + h, then RMSNorm: operation by operation, and in one loop."""
    x, h = np.random.default_rng(1).normal(size=(2, math.prod(shape[:-1]), shape[-1]))
    x, h = x.astype(np.float32), h.astype(np.float32)
    gamma, z, y = np.ones(shape[-1], np.float32), np.empty_like(x), np.empty_like(x)
    tensors = list(map(torch.from_numpy, (x, h, gamma)))

    def eager():
        stream = torch.add(tensors[0], tensors[1])
        return stream, functional.rms_norm(stream, shape[-1:], tensors[2], EPS)

    def two_loops():
        return fast.rms_norm(np.add(x, h, out=z), gamma, EPS)

    work = {"eager": eager, "add, then fast": two_loops}
    if fast._kernels is not None:
        one_loop = fast._kernels._compiled(add_rms_norm)
        work["one loop"] = partial(one_loop, x, h, gamma, EPS, z, y)
    return work


# Measurement.


def cases(shape, compiling):
    """What to time, by (what, by whom, step), and what could not run."""
    x, dy = torch.randn(shape, requires_grad=True), torch.randn(shape)
    target = np.empty(shape, np.float32)
    work, skipped = {("copy", "", STEPS[0]): partial(np.copyto, target, x.detach().numpy())}, {}
    for what, by_whom in layers(shape[-1]).items():
        if compiling:
            found = compiled(by_whom["eager"], x, dy)
            if isinstance(found, Exception):
                skipped["torch.compile"] = type(found).__name__
            else:
                by_whom["torch.compile"] = found
        for by, layer in by_whom.items():
            work[what, by, STEPS[0]] = partial(BENCHMARK["forward"], layer, x)
            work[what, by, STEPS[1]] = partial(BENCHMARK["forward_backward"], layer, x, dy)
    for by, function in added(shape).items():
        work["add + RMSNorm", by, STEPS[0]] = function
    return work, skipped


def summary(times, shape):
    """One record per case: its best and its median time, in best and in median copies."""
    copy = times.pop(("copy", "", STEPS[0]))
    for (what, by, step), values in times.items():
        yield {
            "what": what,
            "by": by,
            "shape": str(shape),
            "step": step,
            "best": round(min(values) / min(copy), 2),
            "median": round(median(values) / median(copy), 2),
        }


def measure(shapes, rounds, compiling=True):
    """All that the tables show, as data: see `summary` for the records."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    found = {"records": [], "bandwidth": {}, "skipped": {}}
    for shape, count in zip(shapes, rounds, strict=True):
        if count:
            work, skipped = cases(shape, compiling)
            times = BENCHMARK["timed"](work, count, str(shape))
            best = min(times["copy", "", STEPS[0]])
            found["bandwidth"][str(shape)] = round(8 * math.prod(shape) / best / 1e9)
            found["skipped"] |= skipped
            found["records"] += summary(times, shape)
    return found


def run(quick=False):
    """What `measure` finds in a process of its own; quick: one shape, without torch.compile."""
    command = [sys.executable, __file__, "--measure", *(["--quick"] if quick else [])]
    settings = os.environ | BENCHMARK["SETTINGS"]
    done = subprocess.run(command, env=settings, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


# The tables.


def table(found):
    """The findings as text, one line for each layer and each way to run it."""
    cells = {(r["what"], r["by"], r["shape"], r["step"]): r for r in found["records"]}
    lines = []
    for shape, bandwidth in found["bandwidth"].items():
        lines += ["", f"{shape}: a copy moves {bandwidth} GB/s, at best"]
        lines += [f"{'':30}{'forward':>16}{'and backward':>16}  best (median), in copies"]
        for what, by in dict.fromkeys(key[:2] for key in cells if key[2] == shape):
            times = (_cell(cells.get((what, by, shape, step))) for step in STEPS)
            lines.append(f"{what:14} {by:15}{''.join(times)}".rstrip())
        best = cells["RMSNorm", "fast", shape, STEPS[0]]["best"]
        lines.append(f"The fast RMSNorm moves {1 / best:.0%} of what the copy moves, forward.")
    lines += [f"{name} could not run here: {why}." for name, why in found["skipped"].items()]
    return "\n".join(lines)


def _cell(record):
    return f"{record['best']:8.2f} ({record['median']:5.2f})" if record else " " * 16


def main():
    parser = argparse.ArgumentParser(description="Measure normkit.fast, in copies of x.")
    parser.add_argument("--quick", action="store_true", help="few rounds, no torch.compile")
    parser.add_argument("--write", action="store_true", help=f"write {DATA.name}, too")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        rounds = QUICK_ROUNDS if options.quick else ROUNDS
        print(json.dumps(measure(SHAPES, rounds, not options.quick)))
        return
    found = run(options.quick)
    print(table(found))
    if options.write:
        versions = {name: version(name) for name in ("numba", "numpy", "torch")}
        command = "python book/code/benchmark_fast.py --write"
        facts = {"command": command, "versions": versions}
        DATA.write_text(json.dumps(facts | found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
