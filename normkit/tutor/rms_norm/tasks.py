"""The tasks of the assignment on RMSNorm: NumPy functions, on tokens and on weights."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from normkit.messages import N_
from normkit.tutor.by_hand import READY_MADE
from normkit.tutor.probes import WORKED, probes, token_probe, token_probes, tokens, usual_eps
from normkit.tutor.tasks import Named, Probe, Task, add, part, parts

ZEROS = N_("a token of zeros")
TENFOLD = N_("the result when rms_norm returns ten times as much")


def _use_forward(answer, x, gamma, eps) -> Named:
    yield "y", answer(x, gamma, *usual_eps(answer, eps))


def _use_partial(answer, x, gamma, p, eps) -> Named:
    yield "y", answer(x, gamma, p, *usual_eps(answer, eps))


def _use_half(answer, x, gamma, eps) -> Named:
    y = answer(x, gamma, *usual_eps(answer, eps))
    yield "y", y
    yield "y.dtype == x.dtype", y.dtype == x.dtype


def _use_layer_norm(answer, x, gamma, beta, eps) -> Named:
    """Once with rms_norm, once with another function in its place, to see that it is called."""

    def rms_norm(x, gamma, eps=1e-5):
        xhat = x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + eps)
        return (gamma * xhat).astype(xhat.dtype)

    rms_norm.__qualname__ = "rms_norm"  # which exceptions call it
    yield "y", answer(x, gamma, beta, eps, rms_norm)
    yield TENFOLD, answer(x, gamma, beta, eps, lambda *a, **options: 10 * rms_norm(*a, **options))


def _use_pair(*names: str) -> Callable[..., Named]:
    """How a function is used that returns two arrays."""

    def use(answer, **given):
        yield from parts(answer(*given.values()), *names)

    return use


def _use_backward(answer, eps, **given) -> Named:
    yield from parts(answer(*given.values(), *usual_eps(answer, eps)), "dx", "dgamma")


def _use_gradient(wanted: str) -> Callable[..., Named]:
    """How a backward pass is used of which one gradient counts."""

    def use(answer, **given):
        for name, value in _use_backward(answer, **given):
            if name in (wanted, "result"):
                yield name, value

    return use


_use_fold = _use_pair(N_("the new weight"), N_("the new bias"))


# --- Probes -----------------------------------------------------------------------------------


def _with_zeros(rng) -> list[Probe]:
    """The usual ones, and tokens that eps decides on: one of zeros, and a nearly empty one."""
    empty = tokens(rng, 3, 5)
    empty[1] = 0
    empty[2] *= 1e-7
    return [*token_probes(rng), token_probe(rng, ZEROS, empty)]


def _partial(rng) -> list[Probe]:
    """Shares p of which p·D is whole, just above a whole number, and just below one."""
    single = tokens(rng, 4, 5).astype(np.float32)
    one = token_probe
    drawn = [
        (0.4, one(rng, N_("3 features, p·D = 1.2"), tokens(rng, 4, 3))),
        (0.4, one(rng, N_("7 features, p·D = 2.8"), tokens(rng, 5, 7))),
        (0.0625, one(rng, N_("8 features, p·D = 0.5"), tokens(rng, 3, 8))),
        (0.5, one(rng, N_("a large eps, 0.1"), tokens(rng, 3, 6), eps=0.1)),
        (0.5, one(rng, N_("a batch of sequences"), tokens(rng, 2, 5, 4))),
        (0.5, one(rng, N_("a square array"), tokens(rng, 4, 4), eps=0.01)),
        (0.7, one(rng, N_("a single token"), tokens(rng, 6))),
        (0.5, one(rng, N_("very small numbers"), tokens(rng, 3, 5) * 1e-4)),
        (0.3, one(rng, N_("a transposed array"), tokens(rng, 6, 4).T)),
        (0.5, one(rng, N_("an array of dtype float32"), single, tolerance=1e-4)),
        (1.0, one(rng, N_("all features, p = 1"), tokens(rng, 4, 6))),
        (0.5, one(rng, ZEROS, np.outer([1.0, 0, 2e-7], np.arange(1.0, 6)))),
    ]
    return [replace(probe, inputs={**probe.inputs, "p": p}) for p, probe in drawn]


def _half(rng) -> list[Probe]:
    """Numbers whose squares, or the sum of whose squares, lie beyond float16: 65504.

    The reference multiplies by gamma before it rounds, as OLMo 2 does, Llama after; within this
    tolerance, two units in the last place, both are right.
    """
    large = tokens(rng, 3, 8) * 0.1
    large[:, 2] = 300, -320, 500
    mixed = tokens(rng, 2, 5, 4)
    drawn = [
        (WORKED, [300, 400, 0, 0], [1, 1, 1, 1], 1e-5),
        (WORKED, [[1, 7, 5, 5], [3, -4, 0, 12]], [1, 2, 0.5, 1], 1e-5),
        (N_("one large feature in a token"), large, None, 1e-5),
        (N_("all features around 1 000"), rng.normal(1000, 100, (4, 6)), None, 1e-5),
        (N_("1 000 features around 10"), rng.normal(10, 1, (2, 1000)), None, 1e-5),
        (N_("numbers near the end of float16"), rng.uniform(3e4, 6e4, (3, 5)), None, 1e-5),
        (N_("small numbers"), tokens(rng, 3, 6) * 3e-3, None, 1e-5),
        (N_("a large eps, 0.1"), tokens(rng, 3, 4) * 0.2, [0.25] * 4, 0.1),
        (N_("a batch of sequences"), mixed, None, 1e-5),
        (N_("a square array"), tokens(rng, 4, 4), None, 0.01),
        (N_("a transposed array"), tokens(rng, 6, 4).T, None, 1e-5),
        (ZEROS, np.outer([1.0, 0, 4e-7], np.arange(1.0, 6)), None, 1e-5),
    ]
    found = []
    for name, x, gamma, eps in drawn:
        gamma = rng.uniform(0.5, 2, np.shape(x)[-1]) if gamma is None else gamma
        x, gamma = (np.asarray(array).astype(np.float16) for array in (x, gamma))
        found.append(Probe(name, {"x": x, "gamma": gamma, "eps": eps}, tolerance=2e-3))
    equal = np.array([[65408, -65408], [-62720, 62720]], np.float16)  # 1/RMS is nearly 0: rounded
    exact = {"x": equal, "gamma": np.array([1, 2], np.float16), "eps": 1e-5}
    return [*found, Probe(N_("features of one size"), exact, tolerance=5e-5)]


def _weights(rng) -> list[Probe]:
    """Small numbers, to be redone by hand; square first, where a wrong side goes unnoticed."""

    def one(name, weight, bias, gamma, beta):
        arrays = {"weight": weight, "bias": bias, "gamma": gamma, "beta": beta}
        arrays = {k: np.array(v, dtype=float, order="K") for k, v in arrays.items()}
        return Probe(name, arrays)

    def drawn(name, outputs, inputs, transposed=False):
        weight = rng.integers(-4, 5, (inputs, outputs) if transposed else (outputs, inputs)) + 0.5
        gamma = rng.choice([-2, 2, 3, 4, 5], inputs, replace=False)
        others = rng.integers(1, 9, outputs), gamma, rng.integers(1, 9, inputs)
        return one(name, weight.T if transposed else weight, *others)

    return [
        one(WORKED, [[1, 2], [0, 1]], [5, 6], [10, 100], [1, 3]),
        one(WORKED, [[1, 2, 3], [0, 1, 4]], [5, 6], [10, 100, 2], [1, 0, 1]),
        drawn(N_("as many outputs as inputs"), 3, 3),
        drawn(N_("more outputs than inputs"), 4, 2),
        drawn(N_("more inputs than outputs"), 2, 5),
        drawn(N_("a transposed weight"), 3, 3, transposed=True),
    ]


def _weights_before(rng) -> list[Probe]:
    """The same without a norm."""
    return [
        replace(probe, inputs={name: probe.inputs[name] for name in ("weight", "bias")})
        for probe in _weights(rng)
    ]


ROWS = [[1, 7, 5, 5], [3, -4, 0, 12]]
BACKWARD = probes(
    "dy x gamma",
    ([[1, 0, 0, 0]], [[1, 2, 2, 4]], [1, 1, 1, 1]),
    ([[5, 0, 0, 0]], [[1, 7, 5, 5]], [2, 1, 1, 3]),
    ([[1, 2, 2, 4]], [[1, 2, 2, 4]], [1, 1, 1, 1]),
    random=_with_zeros,
)

add(
    Task(
        "rms_norm/forward",
        by_hand=READY_MADE,
        programs=("rms_norm/rms_norm",),
        chapter="rms_norm#rms-formula",
        use=_use_forward,
        reference="normkit.functions:rms_norm",
        probes=probes(
            "x gamma",
            (ROWS, [1, 1, 1, 1]),
            (ROWS, [1, 2, 0.5, 3]),
            ([[0.0001, -0.0001]], [1, 1]),
            random=_with_zeros,
        ),
    ),
    Task(
        "rms_norm/partial",
        by_hand=READY_MADE,
        programs=("rms_norm/partial_rms_norm",),
        chapter="rms_norm#rms-partial",
        use=_use_partial,
        probes=probes(
            "x gamma p",
            ([[3, 4, 0, 12]], [1, 1, 1, 1], 0.5),
            ([[[3, 4, 0, 12]]], [1, 1, 1, 1], 0.5),
            ([[1, -2, 5]], [1, 2, 3], 0.4),
            random=_partial,
        ),
    ),
    Task(
        "rms_norm/backward",
        by_hand=READY_MADE,
        programs=("rms_norm/rms_norm_backward", "rms_norm/rms_norm_backward_staged"),
        chapter="rms_norm#rms-backward",
        use=_use_backward,
        reference="normkit.functions:rms_norm_backward",
        probes=probes(
            "dy x gamma",
            ([[1, 0, 0, 0]], [[1, 2, 2, 4]], [1, 1, 1, 1]),
            ([[5, 0, 0, 0]], [[1, 7, 5, 5]], [2, 1, 1, 3]),
            ([[1, 2, 2, 4]], [[1, 2, 2, 4]], [1, 1, 1, 1]),
            random=_with_zeros,
        ),
        any_dtype=("dx", "dgamma"),
    ),
    Task(
        "rms_norm/partial_backward",
        by_hand=READY_MADE,
        programs=("rms_norm/partial_rms_norm_backward",),
        chapter="rms_norm#rms-partial",
        use=_use_backward,
        probes=probes(
            "dy x gamma p",
            ([[1, 0, 0, 5]], [[3, 4, 0, 12]], [1, 1, 1, 2], 0.5),
            ([[[1, 0, 0, 5]]], [[[3, 4, 0, 12]]], [1, 1, 1, 2], 0.5),
            random=_partial,
        ),
        any_dtype=("dx", "dgamma"),
    ),
    Task(
        "rms_norm/layer_norm",
        by_hand=READY_MADE,
        programs=("rms_norm/layer_norm_from_rms_norm",),
        chapter="rms_norm#rms-formula",
        use=_use_layer_norm,
        probes=probes(
            "x gamma beta",
            (ROWS, [1, 1, 1, 1], [0, 0, 0, 0]),
            (ROWS, [1, 2, 0.5, 3], [0, 0, 1, -1]),
        ),
        rows=("y",),
        sees=("_arrays", "functions", "typing"),
    ),
    Task(
        "rms_norm/half",
        by_hand=READY_MADE,
        programs=("rms_norm/half_rms_norm",),
        chapter="rms_norm#rms-half",
        use=_use_half,
        reference="normkit.functions:rms_norm",
        probes=_half,
    ),
    Task(
        "rms_norm/fold",
        by_hand=READY_MADE,
        programs=("rms_norm/fold_affine",),
        chapter="rms_norm#rms-folding",
        use=_use_fold,
        probes=_weights,
    ),
    Task(
        "rms_norm/fold_centring",
        by_hand=READY_MADE,
        programs=("rms_norm/fold_centring",),
        chapter="rms_norm#rms-folding",
        use=_use_fold,
        probes=_weights_before,
    ),
)
add(
    *(
        part(f"rms_norm/{gradient}", "rms_norm/backward", use=_use_gradient(gradient))
        for gradient in ("dx", "dgamma")
    )
)
