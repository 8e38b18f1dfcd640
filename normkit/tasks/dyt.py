"""The tasks of the assignment on DyT, Derf and weight normalisation."""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from normkit.alternatives import (
    derf,
    derf_backward,
    dyt,
    dyt_alpha_init,
    dyt_backward,
    weight_norm,
    weight_norm_backward,
)
from normkit.messages import N_
from normkit.observing import Named, Probe, Task, add, parts
from normkit.tasks.layer_norm import NEW, TRAINED, _shapes
from normkit.tasks.probes import INTEGERS, WORKED, token_probe, token_probes, tokens

X = [-2.0, -1.0, 0.0, 1.0, 2.0, 10.0]


def _use_dyt(answer, x, alpha, gamma, beta) -> Named:
    yield "y", answer(x, alpha, gamma, beta)


def _use_derf(answer, x, alpha, shift, gamma, beta) -> Named:
    yield "y", answer(x, alpha, shift, gamma, beta)


def _named(result, *names: str) -> Named:
    """The results by name, single numbers as floats, whatever type they came in."""
    for name, value in parts(result, *names):
        single = isinstance(value, (int, float, np.ndarray, np.generic)) and np.ndim(value) == 0
        yield name, float(value) if single else value


def _use_dyt_backward(answer, dy, x, alpha, gamma) -> Named:
    yield from _named(answer(dy, x, alpha, gamma), "dx", "dalpha", "dgamma", "dbeta")


def _use_derf_backward(answer, dy, x, alpha, shift, gamma) -> Named:
    result = answer(dy, x, alpha, shift, gamma)
    yield from _named(result, "dx", "dalpha", "dshift", "dgamma", "dbeta")


def _use_initial(answer, width) -> Named:
    yield from _named(answer(width), "attention", "other")


DEFAULT = N_("the output of a new layer, alpha_init left out")


def _use_layer(answer, dy, x, alpha, gamma, beta, shift=None) -> Named:
    """A new layer, then one with trained weights; x shares its memory, to see it modified."""
    import torch

    x, dy, weight, bias = map(torch.from_numpy, (x, dy, gamma, beta))
    trained = {"alpha": torch.tensor([2 * alpha]), "weight": weight, "bias": bias}
    trained |= {} if shift is None else {"shift": torch.tensor([shift])}
    layer = answer(x.shape[-1], alpha_init=alpha)
    yield "state_dict()", _shapes(layer.state_dict().items())
    yield "alpha", float(torch.as_tensor(layer.alpha).mean())
    layer = layer.to(x.dtype)
    yield NEW, layer(x)
    yield DEFAULT, answer(x.shape[-1]).to(x.dtype)(x)
    yield "named_parameters()", _shapes(layer.named_parameters())
    layer.load_state_dict(trained)
    x = x.requires_grad_()
    y = layer(x)
    yield TRAINED, y
    y.backward(dy)
    yield "dx", x.grad
    yield from ((f"d{name}", getattr(layer, name).grad) for name in trained)


def _torch_layer(name: str) -> Callable:
    def layer():
        from normkit import layers

        return getattr(layers, name)

    return layer


def _use_weight_norm(answer, v, g) -> Named:
    yield "w", answer(v, g)


def _use_weight_norm_backward(answer, dw, v, g) -> Named:
    yield from parts(answer(dw, v, g), "dv", "dg")


# --- Probes -----------------------------------------------------------------------------------


def _token_probes(rng) -> list[Probe]:
    """Those of every norm, with alpha and shift, and one that makes exponentials overflow."""
    large = tokens(rng, 3, 4)
    large[1, 2], large[2, 0] = 3000.0, -3000.0
    drawn = [p for p in token_probes(rng) if p.inputs["eps"] < 0.1 and not p.rough]
    drawn.append(token_probe(rng, N_("two large numbers among small ones"), large))
    alphas = itertools.cycle((0.3, 0.7, 1.5, 0.4))  # neither 1 nor 0.5, where it starts
    return [
        replace(probe, inputs={**probe.inputs, "alpha": alpha, "shift": rng.uniform(0.2, 1)})
        for probe, alpha in zip(drawn, alphas, strict=False)
    ]


def _probes(
    names: str,
    *worked: tuple,
    random: Callable[[np.random.Generator], Iterable[Probe]] = _token_probes,
    without: tuple[str, ...] = (),
) -> Callable[[np.random.Generator], list[Probe]]:
    """What draws the worked probes, then the random ones, with these inputs."""

    def array(value):
        return np.array(value, dtype=float) if isinstance(value, list) else value

    def draw(rng):
        examples = [
            Probe(WORKED, dict(zip(names.split(), map(array, v), strict=True))) for v in worked
        ]
        return examples + [
            replace(probe, inputs={name: probe.inputs[name] for name in names.split()})
            for probe in random(rng)
            if probe.name not in without
        ]

    return draw


def _weights(rng) -> list[Probe]:
    """Rows of different lengths; the square matrix aside, no axis passes for another."""

    def probe(name, v, **options):
        dtype = v.dtype if v.dtype.kind == "f" else float
        g, dw = rng.normal(scale=2, size=v.shape[0]), rng.normal(size=v.shape)
        inputs = {"v": v, "g": g.astype(dtype), "dw": dw.astype(dtype)}
        return Probe(name, inputs, **options)

    return [
        probe(N_("a matrix"), tokens(rng, 4, 3)),
        probe(N_("the kernel of a convolution"), tokens(rng, 3, 4, 2, 5)),
        probe(N_("a square matrix"), tokens(rng, 4, 4)),
        probe(N_("short rows"), tokens(rng, 3, 5) * 1e-3),
        probe(N_("a transposed array"), tokens(rng, 5, 3).T),
        probe(N_("an array of dtype float32"), tokens(rng, 5, 6).astype("f4"), tolerance=1e-4),
        probe(INTEGERS, rng.integers(1, 10, size=(3, 7))),
    ]


def _widths(rng) -> list[Probe]:
    return [Probe(N_("a published width"), {"width": width}) for width in (4096, 5120, 8192)]


PLAIN, SCALES, SHIFTS = [1.0] * 6, [1.0, 2, 3, 1, 2, 3], [0.0, 1, 0, 0, 2, 0]
WEIGHTS = ([[3, 4], [0, 2]], [10, 1])

add(
    Task(
        "dyt/forward",
        algorithm="dyt",
        use=_use_dyt,
        reference=lambda: dyt,
        probes=_probes("x alpha gamma beta", (X, 0.5, PLAIN, [0.0] * 6), (X, 0.5, SCALES, SHIFTS)),
    ),
    Task(
        "dyt/backward",
        algorithm="dyt_backward",
        use=_use_dyt_backward,
        reference=lambda: dyt_backward,
        probes=_probes(
            "dy x alpha gamma",
            ([0.0, 0, 0, 1, 0, 0], X, 0.5, PLAIN),
            ([1.0, 0, 0, 0, 0, 2], X, 0.5, SCALES),
        ),
    ),
    Task(
        "dyt/derf",
        algorithm="derf",
        use=_use_derf,
        reference=lambda: derf,
        probes=_probes(
            "x alpha shift gamma beta",
            (X, 0.5, 0.0, PLAIN, [0.0] * 6),
            (X, 0.5, -0.5, SCALES, SHIFTS),
        ),
    ),
    Task(
        "dyt/derf_backward",
        algorithm="derf_backward",
        use=_use_derf_backward,
        reference=lambda: derf_backward,
        probes=_probes(
            "dy x alpha shift gamma",
            ([0.0, 0, 1, 0, 0, 0], X, 0.5, 0.0, PLAIN),
            ([0.0, 0, 0, 1, 1, 0], X, 0.5, -0.5, SCALES),
        ),
    ),
    Task(
        "dyt/layer",
        algorithm="DyT",
        use=_use_layer,
        reference=_torch_layer("DyT"),
        probes=_probes(
            "dy x alpha gamma beta",
            ([0.0, 0, 0, 1, 0, 0], X, 0.25, SCALES, SHIFTS),
            without=(INTEGERS,),
        ),
    ),
    Task(
        "dyt/derf_layer",
        algorithm="Derf",
        use=_use_layer,
        reference=_torch_layer("Derf"),
        probes=_probes(
            "dy x alpha shift gamma beta",
            ([0.0, 0, 0, 1, 0, 0], X, 0.25, -0.5, SCALES, SHIFTS),
            without=(INTEGERS,),
        ),
    ),
    Task(
        "dyt/initial",
        algorithm="dyt_alpha_init",
        use=_use_initial,
        reference=lambda: dyt_alpha_init,
        probes=_widths,
    ),
    Task(
        "dyt/weight_norm",
        algorithm="weight_norm",
        use=_use_weight_norm,
        reference=lambda: weight_norm,
        probes=_probes("v g", WEIGHTS, random=_weights),
    ),
    Task(
        "dyt/weight_norm_backward",
        algorithm="weight_norm_backward",
        use=_use_weight_norm_backward,
        reference=lambda: weight_norm_backward,
        probes=_probes("dw v g", ([[1, 0], [1, 1]], *WEIGHTS), random=_weights),
    ),
)
