"""The tasks of the assignment on outliers and large logits."""

from functools import partial
from numbers import Real
from typing import Any

import numpy as np

from normkit.messages import N_
from normkit.tutor.by_hand import GRADIENTS, NORMS, OURS
from normkit.tutor.probes import WORKED, usual_eps
from normkit.tutor.tasks import Named, Probe, Task, add, by_name, parts

# --- By hand ----------------------------------------------------------------------------------

# 35 features of 1 and one of 17: what is to be predicted of them
QUESTIONS = ("others", "large", "limit", "clipped", "gradient", "step", "integer")
TOKEN = np.array([1.0] * 35 + [17])


def _use_predictions(answer) -> Named:
    predictions = answer() if callable(answer) else answer
    predictions = by_name(predictions, QUESTIONS)
    for name in QUESTIONS:
        yield f"predictions[{name!r}]", _number(predictions.get(name))


def _number(value: Any) -> Any:
    """A number of any type, also in an array without axes, as a float; what is none as it is."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    number = isinstance(value, (Real, np.number)) and not isinstance(value, bool)
    return float(value) if number else value


# --- Functions of NumPy arrays ----------------------------------------------------------------


def _array(value: Any) -> Any:
    """A number as an array without axes; what is no number as it is."""
    return np.asarray(value) if isinstance(value, (int, float, np.number)) else value


def _use_to_int8(answer, x, axis=None) -> Named:
    result = answer(x) if axis is None else answer(x, axis)
    for name, value in parts(result, "q", "step"):
        value = _array(value)
        yield name, _step(value, x, axis) if name == "step" else value
        if name == "q":
            yield N_("the dtype of q"), str(getattr(value, "dtype", ""))


def _step(step: Any, x: np.ndarray, axis: int | None) -> Any:
    """A single step may have any number of axes; that of zeros may be any positive number."""
    if not isinstance(step, np.ndarray):
        return step
    largest = np.abs(x).max(axis=axis, keepdims=True)
    if axis is None and step.size == 1:
        step = step.reshape(largest.shape)
    free = step.shape == largest.shape and (largest == 0) & (step > 0) & np.isfinite(step)
    return np.where(free, 1.0, step)


def _use(_result, answer, /, **given) -> Named:
    """The arguments in their order, whatever their names."""
    yield _result, answer(*given.values())


def _use_logits(answer, eps, **given) -> Named:
    yield "logits", answer(*given.values(), *usual_eps(answer, eps, 1e-6))


def _use_migrate(answer, **given) -> Named:
    yield from parts(answer(*given.values()), "new_gamma", "new_beta", "new_w")


def _use_clip(answer, **given) -> Named:
    yield from parts(answer(*given.values()), "new_w_q", "new_w_k")


# --- Probes -----------------------------------------------------------------------------------


def _int8_probes(rng) -> list[Probe]:
    """The largest is below 0 here and there, and no number lies halfway between two integers."""
    table = rng.normal(size=(4, 6)) * rng.uniform(1, 30, (4, 1))
    table[np.arange(4), np.abs(table).argmax(axis=1)] *= [1, -1, 1, -1]
    zeros = rng.normal(size=(3, 5))
    zeros[1] = 0
    square = rng.normal(size=(5, 5)) * rng.uniform(1, 30, (5, 1))
    negative = -np.abs(rng.normal(size=7)) - 1
    inputs = [
        (WORKED, np.array([0.6, -1, 2, 127]), None),
        (WORKED, np.array([0.6, -1, 2, 1270]), None),
        (WORKED, np.array([[0.6, -1, 2, 127], [0, 2.54, 0.814, -0.364]]), -1),
        (N_("numbers below 0"), negative, None),
        (N_("a batch of tokens, one step"), table, None),
        (N_("a batch of tokens, a step for each"), table, -1),
        (N_("a batch of tokens, a step for each feature"), table, 0),
        (N_("a square array"), square, -1),
        (N_("a token of zeros"), zeros, -1),
        (N_("a batch of sequences"), rng.normal(size=(2, 3, 4)), -1),
        (N_("very small numbers"), np.array([0.6, -1, 2, 127]) * 5e-8, None),
    ]
    return [
        Probe(name, {"x": x} | ({} if axis is None else {"axis": axis})) for name, x, axis in inputs
    ]


def _with_outliers(rng, tokens: int, features: int, outputs: int, *spikes: float) -> dict:
    """Ordinary features up to 3, each of the last ones times a large number, in every token."""
    x = rng.uniform(0.5, 3, (tokens, features)) * rng.choice([-1, 1], (tokens, features))
    for place, spike in enumerate(spikes, 1):
        x[:, -place] = spike * np.abs(x[:, -place])
    x = rng.permutation(x.T).T
    w = rng.normal(size=(outputs, features)) * rng.uniform(0.3, 3, (outputs, 1))
    return {"x": x, "w": w}


def _product_probes(rng) -> list[Probe]:
    worked = {"x": np.array([[0.504, 1.27, 10], [-2.54, 0.314, 9]])}
    worked |= {"w": np.array([[1.27, 0.1234, 2]])}
    below, above = _with_outliers(rng, 4, 7, 3), _with_outliers(rng, 5, 7, 3)
    below["x"][2, 4], below["x"][1, 2] = -40, 15  # the threshold itself
    above["x"][1:, 3] = 25
    inputs = [
        (WORKED, worked, 6.0),
        (N_("a feature with large numbers"), _with_outliers(rng, 5, 8, 3, -60), 10.0),
        (N_("two features with large numbers"), _with_outliers(rng, 3, 9, 4, 90, -40), 6.0),
        (N_("one large number, below 0"), below, 15.0),
        (N_("large numbers in all tokens but one"), above, 15.0),
        (N_("no feature with large numbers"), _with_outliers(rng, 4, 6, 5), 10.0),
        (N_("as many tokens as outputs"), _with_outliers(rng, 4, 6, 4, 50), 6.0),
        (N_("a higher threshold"), _with_outliers(rng, 5, 7, 3, 30, 3), 15.0),
    ]
    single, plain = _with_outliers(rng, 12, 5, 3), _with_outliers(rng, 20, 5, 3)
    single["x"][0, 2], single["x"][1, 1] = 22, 8
    single["x"][::2, 3], single["x"][1::2, 3] = 30, -30
    plain["x"][:, 1] /= 10  # so that its norm is small as well
    plain["w"][0, 2] = 9
    inputs += [
        (N_("a feature that is large in one token, another in all"), single, 20.0),
        (N_("many tokens without large numbers"), plain, 6.0),
    ]
    return [Probe(name, {**given, "threshold": bound}) for name, given, bound in inputs]


def _migrate_probes(rng) -> list[Probe]:
    worked = {
        "y": np.array([[4.0, -36], [-1, 20]]),
        "gamma": np.array([2.0, 18]),
        "beta": np.array([2.0, 3]),
        "w": np.array([[1.0, 4], [-0.25, 1]]),
    }

    def one(name, tokens, features, outputs, dtype="d", tolerance=1e-6, size=1):
        y = rng.normal(size=(tokens, features)) * rng.uniform(1, 30, features) * size
        y[np.abs(y).argmax(axis=0), np.arange(features)] *= np.where(np.arange(features) % 2, 1, -1)
        w = rng.normal(size=(outputs, features)) * rng.uniform(0.3, 3, features)
        given = {"y": y, "gamma": rng.uniform(0.5, 20, features), "beta": rng.normal(size=features)}
        given |= {"w": w}
        return Probe(name, {k: v.astype(dtype) for k, v in given.items()}, tolerance)

    return [
        Probe(WORKED, worked),
        one(N_("a batch of tokens"), 5, 4, 3),
        one(N_("a square array"), 4, 4, 4),
        one(N_("an array of dtype float32"), 6, 3, 5, "f", 1e-4),
        one(N_("small numbers"), 5, 4, 3, size=1e-2),
    ]


def _logits_probes(rng) -> list[Probe]:
    def one(name, heads, tokens, d, eps=1e-6, dtype="d", tolerance=1e-6):
        q, k = rng.normal(size=(2, tokens, heads * d)) * rng.uniform(0.5, 3, (2, tokens, 1)) + 0.5
        gammas = rng.uniform(0.5, 2, (2, d))
        given = {"q": q.astype(dtype), "k": k.astype(dtype), "heads": heads}
        given |= dict(zip(("gamma_q", "gamma_k"), gammas.astype(dtype), strict=True))
        return Probe(name, {**given, "eps": eps}, tolerance)

    worked = {"q": np.array([[3.0, 4]]), "k": np.array([[1.0, 7]]), "heads": 1}
    worked |= {"gamma_q": np.ones(2), "gamma_k": np.ones(2), "eps": 1e-9}
    return [
        Probe(WORKED, worked),
        one(N_("one head"), 1, 3, 4),
        one(N_("two heads"), 2, 5, 4),
        one(N_("three heads of two features"), 3, 4, 2),
        one(N_("a large eps, 0.1"), 2, 3, 5, eps=0.1),
        one(N_("a square array"), 2, 6, 3),
        one(N_("an array of dtype float32"), 2, 4, 3, dtype="f", tolerance=1e-4),
    ]


def _cap_probes(rng) -> list[Probe]:
    def one(name, mask, cap, dtype="d", tolerance=1e-6):
        logits = (rng.normal(size=mask.shape) * 1.5 * cap).astype(dtype)
        return Probe(name, {"logits": logits, "mask": mask, "cap": cap}, tolerance)

    def past(*shape):
        return np.tril(np.ones(shape)) > 0

    def low(*shape):
        return rng.normal(size=shape) * 10 - 200

    worked = {"logits": np.array([[-4.0, 9]]), "mask": np.array([[True, False]]), "cap": 5.0}
    two = {"logits": np.array([[-20.0, 5, 3]]), "mask": np.array([[True, True, False]]), "cap": 5.0}
    some = rng.permutation(np.array([True] * 4 + [False] * 2))
    return [
        Probe(WORKED, worked),
        Probe(WORKED, two),
        one(N_("nothing is masked"), np.ones((3, 4)) > 0, 4.0),
        one(N_("later positions are masked"), past(5, 5), 3.0),
        one(N_("two heads"), past(2, 4, 4), 2.0),
        one(N_("some positions are masked"), np.tile(some, (3, 1)), 5.0),
        one(N_("an array of dtype float32"), past(4, 4), 3.0, "f", 1e-4),
        Probe(
            N_("capped logits near -cap"), {"logits": low(3, 3), "mask": past(3, 3), "cap": 50.0}
        ),
    ]


def _slope_probes(rng) -> list[Probe]:
    z = np.array([10.0, 50, 100, -50])
    inputs = [
        (WORKED, np.ones(4), z, 50.0),
        (WORKED, np.array([1.0, 2, 3, 4]), z, 50.0),
        (N_("a batch of tokens"), rng.normal(size=(3, 4)), rng.normal(size=(3, 4)) * 6, 5.0),
        (N_("two heads"), rng.normal(size=(2, 3, 3)), rng.normal(size=(2, 3, 3)) * 3, 2.0),
    ]
    return [Probe(name, {"dy": dy, "logits": x, "cap": cap}) for name, dy, x, cap in inputs]


def _clip_probes(rng) -> list[Probe]:
    def one(name, largest, d, features, threshold):
        rows = len(largest) * d
        w_q, w_k = rng.normal(size=(2, rows, features)) * 3
        largest = np.array(largest, dtype=float)
        given = {"w_q": w_q, "w_k": w_k, "largest": largest, "threshold": threshold}
        return Probe(name, given)

    worked = {"w_q": np.ones((2, 1)), "w_k": np.full((2, 1), 2.0)}
    worked |= {"largest": np.array([400.0, 80]), "threshold": 100.0}
    return [
        Probe(WORKED, worked),
        one(N_("two heads"), [250, 30], 3, 4, 100.0),
        one(N_("three heads, all above the threshold"), [30, 90, 25], 2, 5, 20.0),
        one(N_("heads whose largest logit is below 0"), [-60, 45, -3], 2, 5, 20.0),
        one(N_("no head is above the threshold"), [5, 19], 2, 3, 20.0),
        one(N_("as many features as rows"), [5, 1], 3, 6, 2.0),
    ]


def _z_probes(rng) -> list[Probe]:
    def one(name, tokens, classes, shift, c, tolerance=1e-6):
        logits = rng.normal(size=(tokens, classes)) * 2 + shift
        given = {"logits": logits, "targets": rng.integers(classes, size=tokens), "c": c}
        return Probe(name, given, tolerance)

    worked = {"logits": np.array([[2.0, 2]]), "targets": np.array([0]), "c": 0.1}
    far = np.array([[0], [1000]])
    spike = {"logits": np.array([[1000.0, 1, 0, -1]]), "targets": np.array([0])}
    return [
        Probe(WORKED, worked),
        one(N_("a batch of tokens"), 4, 3, 1, 0.1),
        one(N_("without z-loss: c = 0"), 3, 5, 2, 0.0),
        one(N_("logits below 0"), 3, 4, -6, 0.05),
        one(N_("logits around 1000"), 3, 4, 1000, 1e-4),
        one(N_("as many tokens as classes"), 4, 4, 1, 0.3),
        one(N_("logits around 0 in one token, around 1000 in another"), 2, 3, far, 1e-4),
        Probe(N_("a logit of 1000 among others around 0"), {**spike, "c": 1e-4}),
    ]


CHAPTER = "outliers#outliers-"


def _ours(*names: str) -> tuple[str, ...]:
    return tuple(f"normkit.outliers.{name}" for name in names)


add(
    Task(
        "outliers/predict",
        use=_use_predictions,
        probes=lambda rng: [Probe(N_("your predictions"), {}, tolerance=0.005)],
        programs=("outliers/outlier_predictions",),
        chapter=f"{CHAPTER}norm",
        at_once=len(QUESTIONS),  # they do not depend on each other
    ),
    Task(
        "outliers/int8",
        use=_use_to_int8,
        probes=_int8_probes,
        programs=("outliers/to_int8",),
        chapter=f"{CHAPTER}int8",
        by_hand=_ours("quantise"),
        any_dtype=("step",),
    ),
    Task(
        "outliers/product",
        use=partial(_use, "y"),
        probes=_product_probes,
        programs=("outliers/mixed_product",),
        sees=("_arrays", "outliers", "typing"),
        chapter=f"{CHAPTER}migrate",
    ),
    Task(
        "outliers/migrate",
        use=_use_migrate,
        probes=_migrate_probes,
        programs=("outliers/migrate",),
        chapter=f"{CHAPTER}migrate",
        by_hand=_ours("migrate_scale"),
        any_dtype=("new_gamma", "new_beta", "new_w"),
    ),
    Task(
        "outliers/qk_norm",
        use=_use_logits,
        probes=_logits_probes,
        programs=("outliers/qk_logits",),
        chapter="placement#placement-qk",
        by_hand=(OURS, *NORMS),
        any_dtype=("logits",),
    ),
    Task(
        "outliers/cap",
        use=partial(_use, "weights"),
        probes=_cap_probes,
        programs=("outliers/capped_weights",),
        chapter=f"{CHAPTER}cap",
        by_hand=_ours("soft_cap"),
        any_dtype=("weights",),
    ),
    Task(
        "outliers/cap_backward",
        use=partial(_use, "dlogits"),
        probes=_slope_probes,
        programs=("outliers/soft_cap_backward",),
        chapter=f"{CHAPTER}cap",
        by_hand=(*_ours("soft_cap_backward"), *GRADIENTS),
    ),
    Task(
        "outliers/clip",
        use=_use_clip,
        probes=_clip_probes,
        programs=("outliers/qk_clip",),
        chapter=f"{CHAPTER}clip",
        by_hand=_ours("qk_clip"),
    ),
    Task(
        "outliers/z_loss",
        use=partial(_use, "loss"),
        probes=_z_probes,
        programs=("outliers/loss_with_z",),
        chapter=f"{CHAPTER}z-loss",
        by_hand=_ours("z_loss"),
    ),
    Task(
        "outliers/z_loss_backward",
        use=partial(_use, "dlogits"),
        probes=_z_probes,
        programs=("outliers/loss_with_z_backward",),
        chapter=f"{CHAPTER}z-loss",
        by_hand=(*_ours("z_loss_backward"), *GRADIENTS),
    ),
)
