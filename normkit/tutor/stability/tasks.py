"""The tasks of the assignment on the variance and its digits."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from normkit.messages import N_
from normkit.tutor.by_hand import OURS, SUMS, VARIANCES
from normkit.tutor.probes import INTEGERS, WORKED, tokens
from normkit.tutor.tasks import Named, Probe, Task, add, by_name, parts


class Chunk(NamedTuple):
    """What is kept of some values: their number, their mean, the sum of squared deviations."""

    n: int
    mean: np.ndarray
    m2: np.ndarray


def _chunk(values: np.ndarray) -> Chunk:
    """What is to be known of values in at least float32."""
    x = values.astype(np.result_type(values, np.float32))
    mean = x.sum(axis=0) / max(len(x), 1)
    return Chunk(len(x), mean, ((x - mean) ** 2).sum(axis=0))


# Ways to compute a variance, right and wrong, for an experiment to try
WAYS = {
    "two_pass": lambda x: _chunk(x).m2 / len(x),
    "one_pass": lambda x: np.mean(x * x) - np.mean(x) ** 2,
    "unbiased": lambda x: np.var(x, ddof=1),
    "mean_of_squares": lambda x: np.mean(x * x),
    "zero": lambda x: 0.0,
    "negative": lambda x: -8.0,
}

# 1024 normal numbers each: how their variance is computed, in which dtype, their mean and spread
CASES = {
    "near": ("one pass", np.float32, 10, 1),
    "far": ("one pass", np.float32, 1e4, 1),
    "double": ("one pass", np.float64, 1e4, 1),
    "double_far": ("one pass", np.float64, 1e9, 1),
    "spread": ("one pass", np.float32, 1e4, 1e4),
    "narrow": ("one pass", np.float32, 10, 1e-4),
    "two_passes": ("two passes", np.float32, 1e4, 1),
    "half": ("two passes", np.float16, 100, 1),
}


def relative_error(case: str, seed: int = 0) -> float:
    """How wrong the variance of such numbers is, when every step and every sum has their dtype."""
    way, dtype, mean, spread = CASES[case]
    x = (np.random.default_rng(seed).normal(size=1024) * spread + mean).astype(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        found = (x * x).sum() / 1024 - (x.sum() / 1024) ** 2
        if way == "two passes":
            found = ((x - x.sum() / 1024) ** 2).sum() / 1024
    return abs(float(found) / x.astype(float).var() - 1)


def _wide(value: Any) -> Any:
    """Numbers in float64, whatever type they came in: more digits than asked for are welcome."""
    if isinstance(value, (int, float, np.number, np.ndarray)):
        return np.asarray(value, dtype=float)
    return value


def _use_variance(answer, x, sign=False) -> Named:
    variance = answer(x)
    if sign:
        good = variance >= -1e-15  # less is more than rounding
        yield N_("whether a variance is below 0 or nan"), not np.all(good)
    else:
        yield "variance", _wide(variance)


def _moments(result: Any) -> Named:
    for name, value in parts(result, "n", "mean", "M2"):
        whole = name == "n" and isinstance(value, (int, float, np.number)) and value == value // 1
        yield name, int(value) if whole else value if name == "result" else _wide(value)


class _Watched(np.ndarray):
    """A list of numbers that notes which of them are read one by one, in which order."""

    reads: list[int]

    def __array_finalize__(self, _of: Any) -> None:
        self.reads = []

    def __iter__(self) -> Iterator:
        for i, value in enumerate(np.asarray(self)):
            self.reads.append(i)
            yield value

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, (int, np.integer)):
            self.reads.append(int(key) % max(len(self), 1))
        return np.asarray(self)[key]

    def passes(self) -> int:
        """How often each value was read; the same one several times in a row counts once."""
        visits = [
            i for i, before in zip(self.reads, [-1, *self.reads], strict=False) if i != before
        ]
        return min(map(visits.count, range(len(self))), default=0)


_Watched.__name__ = "numpy.ndarray"  # as exceptions call it


def _use_welford(answer, x, watched=False) -> Named:
    if watched:
        x = x.view(_Watched)
        answer(x)
        yield N_("whether each value is seen only once"), x.passes() < 2
    else:
        yield from _moments(answer(x))


def _use_merge(answer, a, b) -> Named:
    chunks = _chunk(a), _chunk(b)
    for name, value in _moments(answer(*chunks)):
        empty = name in ("mean", "M2") and not len(a) + len(b) and np.shape(value) == ()
        yield name, value + 0 * chunks[0].mean if empty else value  # one 0 will do for all
    for values, chunk in zip((a, b), chunks, strict=True):
        if not all(map(np.array_equal, chunk, _chunk(values))):
            values += 1  # a change of what was made of an input is told as one of the input


def _use_limit(answer, variance, numbers, offsets) -> Named:
    offset = answer(WAYS[variance], numbers, offsets)
    number = isinstance(offset, (int, float, np.number))
    yield "first_failure(variance, numbers, offsets)", float(offset) if number else offset


def _use_predictions(answer) -> Named:
    predictions = answer() if callable(answer) else answer
    predictions = by_name(predictions, CASES)
    yield from ((f"predictions[{name!r}]", predictions.get(name)) for name in CASES)


# --- Probes -----------------------------------------------------------------------------------


def _columns(rng, *shape):
    """Random values along axis 0; each column has its own mean and scale."""
    return np.moveaxis(tokens(rng, *shape[1:], shape[0]), -1, 0)


def _far(rng, *shape):
    """Of 64 such numbers float32 holds the mean exactly: that of the deviations is 0, no noise."""
    return (rng.integers(-3, 4, size=shape) + 1e4).astype(np.float32)


FAR = N_("float32 numbers around 10 000")
PAIR = N_("two float32 numbers"), np.array([10000, 10002], dtype=np.float32)  # in one pass: 0
TABLE = np.array([[1.0, 2], [3, 10], [5, 6], [7, 14]])
DOUBLE = [  # float32 cannot tell them apart; squares of the second pair lose digits in float64
    (N_("two float64 numbers"), np.array([40_000_000.0, 40_000_002])),
    (N_("two float64 numbers"), np.array([1e9, 1e9 + 2])),
    (N_("two float64 numbers"), np.array([1e12, 1e12 + 2])),  # and these in 80 bits, too
]
DIGITS = Probe(  # float32 holds neither these nor their squares; what it makes of them is exact
    N_("two float64 numbers"), {"x": np.array([-1.0, 1]) * (2**30 + 32)}, tolerance=1e-10
)


def _variance_probes(rng) -> list[Probe]:
    constant = np.tile(rng.uniform(1, 100, 500).astype(np.float32), (3, 1))
    single = (_columns(rng, 8, 5) * 64).round() / 64  # as exact as in _far
    inputs = [
        (WORKED, np.array([0.0, 2, 4, 6])),
        (WORKED, TABLE),
        PAIR,
        *DOUBLE,
        (N_("a table of values"), _columns(rng, 7, 4)),
        (N_("values close together"), np.array([0.0, 2, 4, 6]) / 1024),  # nothing is to be added
        (N_("values with two axes"), _columns(rng, 5, 2, 3)),
        (N_("a transposed array"), _columns(rng, 4, 6).T),
        (INTEGERS, rng.integers(-9, 10, size=(7, 3))),
    ]
    return [Probe(name, {"x": x}) for name, x in inputs] + [
        Probe(N_("an array of dtype float32"), {"x": single.astype(np.float32)}, tolerance=1e-4),
        Probe(FAR, {"x": _far(rng, 64, 8)}, tolerance=0.02, rough=True),
        Probe(N_("columns of three equal numbers"), {"x": constant, "sign": True}),
        DIGITS,
    ]


def _half_probes(rng) -> list[Probe]:
    """What fits into float16 is exact here in any order of the sums, the rest is infinite."""
    lone = np.zeros((16, 1))
    lone[3] = 800
    around = np.array([1500, 1800, 2000]) + np.outer(rng.permutation([2, -2] * 32), [1, 2, 3])
    inputs = [
        (N_("64 numbers around 1 500, 1 800 and 2 000, in float16"), around),
        (N_("300 and -300 in float16"), np.array([300, -300, 300, -300])),
        (N_("two neighbours in float16"), np.array([2048, 2050])),
        (N_("one large number among zeros, in float16"), lone),
    ]
    half = [Probe(name, {"x": x.astype(np.float16)}, tolerance=1e-4) for name, x in inputs]
    three = {"x": np.array([1000, 1049, 1049], np.float16)}  # their deviations are rounded
    others = [probe for probe in _variance_probes(rng) if probe.name != INTEGERS]
    rounded = Probe(N_("three numbers in float16"), three, tolerance=1e-5, rough=True)
    return [*half, rounded, *others]


def _welford_probes(rng) -> list[Probe]:
    inputs = [
        (WORKED, np.array([0.0, 2, 4, 6])),
        PAIR,
        *DOUBLE,
        (N_("a single value"), rng.normal(size=1) + 3),
        (N_("a list of numbers"), rng.normal(scale=2, size=9) + 3),
        (N_("a table of values"), _columns(rng, 7, 4)),
        (INTEGERS, rng.integers(-9, 10, size=8)),
    ]
    return [Probe(name, {"x": x}) for name, x in inputs] + [
        Probe(FAR, {"x": _far(rng, 64, 3)}, tolerance=0.02, rough=True),
        DIGITS,
        Probe(N_("a list of numbers"), {"x": rng.normal(size=5), "watched": True}),
    ]


def _merge_probes(rng) -> list[Probe]:
    worked, whole, far = np.array([1.0, 3, 5, 7]), _columns(rng, 7, 4), _far(rng, 64)
    one = DIGITS.inputs["x"][1:]  # 1e-8 beside n is seen there, and float32
    return [
        Probe(name, {"a": x[:cut], "b": x[cut:]}, 0.02 if x is far else 1e-6, rough=x is far)
        for name, x, cut in (
            (WORKED, worked, 1),
            (WORKED, worked, 3),
            (N_("a chunk of five and one of two"), whole, 5),
            (N_("a chunk of two and one of five"), whole, 2),
            (N_("a first chunk without values"), whole, 0),
            (N_("a second chunk without values"), whole, 7),
            (N_("two chunks without values"), whole[:0], 0),
            (FAR, far, 16),
        )
    ] + [Probe(DIGITS.name, {"a": one, "b": 3 * one}, DIGITS.tolerance)]


def _limit_probes(rng) -> list[Probe]:
    """At each offset the error is below 10 %, or above, however a machine rounds."""
    numbers = tokens(rng, 64)
    numbers = (numbers - numbers.mean()) / numbers.std()
    pair = np.array([-1.0, 1])
    threes = rng.permutation([3.0, -3] * 32)  # plus 5000, in float16: 5004 and 4996
    half, single, double = (np.dtype(name) for name in ("float16", "float32", "float64"))
    trials = [
        ("one_pass", numbers, single, (10, 100, 10_000)),
        ("one_pass", numbers, double, (10, 100, 10_000)),
        ("one_pass", pair, single, (10, 20_006)),  # 32
        ("one_pass", pair * 2, double, (10, 10**8 + 3)),  # 2 instead of 4
        ("two_pass", numbers, single, (10, 100, 10_000)),
        ("one_pass", numbers, half, (1, 1000)),  # nan
        ("two_pass", threes, half, (10, 2000)),
        ("two_pass", threes, half, (10, 5000)),
        ("zero", threes, half, (2000,)),  # 0 is not within 10 % of infinity
        ("two_pass", threes * 100, half, (0, 10)),  # their squares do not fit into float16
        ("two_pass", np.array([0.0, 2]), single, (10, 2**24)),  # nor, into float32, their mean
        ("two_pass", numbers, double, (10, 10**9 + 32)),  # float32 has multiples of 64
        ("mean_of_squares", numbers, single, (0, 2, 20)),
        ("mean_of_squares", numbers, single, (10, 20)),
        ("mean_of_squares", numbers * 100, double, (15, 20, 30)),  # 9 %; 12 % at 15 + 20
        ("mean_of_squares", numbers * 100, double, (10, 33, 50, 69)),  # 10.9, 25, 48 %
        (
            "mean_of_squares",
            numbers - 20,
            double,
            (0, 20, 40),
        ),  # it fails, then does not, then does
        ("mean_of_squares", numbers / 2 - 0.5, double, (0, 0.5)),  # 0.25 + 0.25: σ, not σ²
        ("mean_of_squares", numbers / 2 - 0.87, double, (0, 0.87)),  # 0.25 + 0.76: 1
        ("mean_of_squares", numbers * 2 - 3.46, double, (0, 3.46)),  # 4 + 11.97: 16, σ⁴
        ("negative", numbers, single, (0, 10)),
        ("zero", numbers / 100, single, (0, 1)),
        ("unbiased", numbers * 100, single, (0, 1000)),
    ]
    names = {
        half: N_("float16 numbers"),
        single: N_("float32 numbers"),
        double: N_("float64 numbers"),
    }
    return [
        Probe(names[dtype], {"variance": way, "numbers": x.astype(dtype), "offsets": offsets})
        for way, x, dtype, offsets in trials
    ]


add(
    Task(
        "stability/two_pass",
        by_hand=(OURS, *VARIANCES),
        programs=("stability/two_pass",),
        chapter="why#why-variance",
        use=_use_variance,
        reference="normkit.variance:two_pass",
        probes=_variance_probes,
    ),
    Task(
        "stability/half",
        by_hand=(OURS, *VARIANCES),
        programs=("stability/half_precision",),
        chapter="why#why-overflow",
        use=_use_variance,
        reference="normkit.variance:two_pass",
        probes=_half_probes,
    ),
    Task(
        "stability/welford",
        by_hand=(OURS, *VARIANCES, *SUMS),
        programs=("stability/welford",),
        chapter="why#why-variance",
        use=_use_welford,
        reference="normkit.variance:welford",
        probes=_welford_probes,
    ),
    Task(
        "stability/merge",
        by_hand=(OURS,),
        programs=("stability/merge",),
        chapter="why#why-variance",
        use=_use_merge,
        probes=_merge_probes,
    ),
    Task(
        "stability/limit",
        by_hand=(OURS,),
        programs=("stability/first_failure",),
        chapter="why#why-variance",
        use=_use_limit,
        probes=_limit_probes,
    ),
    Task(
        "stability/predict",
        programs=("stability/variance_predictions",),
        sees=("_arrays", "typing", "variance"),
        chapter="why#why-variance",
        use=_use_predictions,
        probes=lambda rng: [Probe(N_("your predictions"), {})],
        at_once=len(CASES),  # they do not depend on each other
    ),
)
