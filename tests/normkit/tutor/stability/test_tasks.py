"""The variance as students compute it, rightly and wrongly."""

import functools
import math
import operator
import statistics
from fractions import Fraction

import numpy as np
import pytest
import torch

from normkit.tutor.judging import differences, judge
from normkit.tutor.observing import observe
from normkit.tutor.stability.tasks import CASES, relative_error
from normkit.tutor.tasks import find
from normkit.variance import Moments, merge, moments, two_pass, welford


def judged(answer, task, seed=5):
    return judge(observe(answer, task, seed), task, seed)


def named(answer, task):
    return sorted(mistake.name for mistake in judged(answer, task).mistakes)


# --- Right answers ----------------------------------------------------------------------------


def wide(x):
    return x.astype(np.result_type(x, np.float32))


def sum_of_squares(x):
    """Of the deviations from the mean."""
    return ((wide(x) - wide(x).mean(axis=0)) ** 2).sum(axis=0)


def two_passes(x):
    return sum_of_squares(x) / len(x)


def shifted_by_the_first(x):
    """One pass over differences from x[0]: as good as two passes."""
    d = wide(x) - wide(x[0])
    return np.mean(d * d, axis=0) - np.mean(d, axis=0) ** 2


def einsum(x):
    centred = x - x.mean(axis=0, dtype=float)
    return np.einsum("n...,n...->...", centred, centred) / len(x)


def torch_inside(x):
    x = torch.from_numpy(x.astype(float))
    return (x - x.mean(dim=0)).square().mean(dim=0).numpy()


def in_place_on_a_copy(x):
    y = np.array(x, dtype=np.result_type(x, np.float32))
    y -= y.mean(axis=0)
    y *= y
    return y.mean(axis=0)


def column_by_column(x):
    columns = x.reshape(len(x), -1).T.astype(float).tolist()
    means = [statistics.fmean(column) for column in columns]
    found = [
        math.fsum((value - mean) ** 2 for value in column) / len(column)
        for column, mean in zip(columns, means, strict=True)
    ]
    return np.array(found).reshape(x.shape[1:])


def streaming(x):
    n, mean, m2 = 0, np.zeros(x.shape[1:], dtype=float), np.zeros(x.shape[1:], dtype=float)
    for value in x:
        n += 1
        delta = value - mean
        mean = mean + delta / n
        m2 = m2 + delta * delta * (n - 1) / n
    return n, mean, m2


def starts_with_the_first(x):
    n, mean, m2 = 1, x[0] * 1.0, x[0] * 0.0
    for k in range(1, len(x)):
        old, n = mean, k + 1
        mean = (k * old + x[k]) / n
        m2 = m2 + (x[k] - old) * (x[k] - mean)
    return [n, mean, m2]


def merged_with_weights(a, b):
    n = a.n + b.n
    if not n:
        return 0, a.mean, a.m2
    mean = (a.n * a.mean + b.n * b.mean) / n
    m2 = a.m2 + b.m2 + a.n * (a.mean - mean) ** 2 + b.n * (b.mean - mean) ** 2
    return n, mean, m2


def unpacked(a, b):
    (na, mean_a, m2_a), (nb, mean_b, m2_b) = a, b
    if na == 0 or nb == 0:
        return b if na == 0 else a
    delta = mean_a - mean_b
    return Moments(
        na + nb, mean_b + delta * na / (na + nb), m2_a + m2_b + delta**2 / (1 / na + 1 / nb)
    )


def all_at_once(variance, numbers, offsets):
    tried = [numbers + offset for offset in offsets]
    right = np.array([np.var(x, dtype=float) for x in tried])
    good = np.isclose([variance(x) for x in tried], right, rtol=0.1, atol=0)
    return np.inf if good.all() else offsets[int(np.argmin(good))]


def nan_asked_for(variance, numbers, offsets):
    for offset in offsets:
        x = numbers + offset
        found, right = float(variance(x)), statistics.pvariance(x.astype(float).tolist())
        if math.isnan(found) or not 0.9 * right <= found <= 1.1 * right:
            return offset
    return float("inf")


def fractions(x):
    columns = [[Fraction(value) for value in c] for c in x.reshape(len(x), -1).T.tolist()]
    means = [sum(column) / len(column) for column in columns]
    sums = [sum((v - m) ** 2 for v in c) for c, m in zip(columns, means, strict=True)]
    return np.array([float(s / len(x)) for s in sums]).reshape(x.shape[1:])


def compensated(x):
    """What rounding leaves of the sum of the deviations is taken out again."""
    d = wide(x) - wide(x).mean(axis=0)
    return ((d * d).sum(axis=0) - d.sum(axis=0) ** 2 / len(x)) / len(x)


def pair_by_pair(x):
    x = x.astype(float)
    return sum((x[i] - x[j]) ** 2 for i in range(len(x)) for j in range(i)) / len(x) ** 2


def differences_of_all(x):
    x = x.astype(float)
    return ((x[:, None] - x[None]) ** 2).mean(axis=(0, 1)) / 2


def lengths(x):
    x = x.astype(float)
    return np.linalg.norm(x - x.mean(axis=0), axis=0) ** 2 / x.shape[0]


def added_in_a_loop(x):
    x, total, squares = wide(x), 0, 0
    for value in x:
        total = total + value
    for value in x:
        squares = squares + (value - total / len(x)) ** 2
    return squares / len(x)


def reduced(x):
    x = wide(x)
    mean = functools.reduce(np.add, x) / len(x)
    return functools.reduce(np.add, [(value - mean) ** 2 for value in x]) / len(x)


def axis_moved(x):
    x = np.moveaxis(wide(x), 0, -1)
    return np.average(np.square(x - np.average(x, axis=-1)[..., None]), axis=-1)


def by_welford(x):
    n, _mean, m2 = streaming(x.astype(float))
    return m2 / n


VARIANCES = [
    two_passes,
    fractions,
    compensated,
    pair_by_pair,
    differences_of_all,
    lengths,
    added_in_a_loop,
    reduced,
    axis_moved,
    by_welford,
    shifted_by_the_first,
    einsum,
    torch_inside,
    in_place_on_a_copy,
    column_by_column,
]


def widened_if_need_be(x):
    if x.dtype == np.float16:
        x = x.astype(np.float32)
    return ((x - x.mean(axis=0)) ** 2).mean(axis=0)


def asked_for_by_dtype(x):
    dtype = np.promote_types(x.dtype, np.float32)
    centred = np.subtract(x, x.mean(axis=0, dtype=dtype), dtype=dtype)
    return np.mean(centred**2, axis=0, dtype=dtype)


def in_place(x):
    n, mean, m2 = 0, np.zeros(x.shape[1:]), np.zeros(x.shape[1:])
    for i in range(x.shape[0]):
        old, n = mean.copy(), n + 1
        mean += (x[i] - mean) / n
        m2 += (x[i] - old) * (x[i] - mean)
    return n, mean, m2


def folded(x):
    def step(state, value):
        n, mean, m2 = state
        new = mean + (value - mean) / (n + 1)
        return n + 1, new, m2 + (value - mean) * (value - new)

    return functools.reduce(step, x, (0, 0.0, 0.0))


def halved(x):
    if len(x) == 1:
        return 1, x[0] * 1.0, x[0] * 0.0
    a, b = Moments(*halved(x[: len(x) // 2])), Moments(*halved(x[len(x) // 2 :]))
    return merged_with_weights(a, b)


def shifted_sums(x):
    n, total, squares = 0, 0.0, 0.0
    for value in x:
        n += 1
        total = total + (value - x[0])
        squares = squares + (value - x[0]) ** 2
    return float(n), x[0] + total / n, squares - total * total / n


def replaced(a, b):
    n, share = a.n + b.n, b.n / max(a.n + b.n, 1)
    between = n * share * (1 - share) * (b.mean - a.mean) ** 2
    mean = (1 - share) * a.mean + share * b.mean
    return a._replace(n=n, mean=mean, m2=a.m2 + b.m2 + between)


def zeros_for_nothing(a, b):
    return merged_with_weights(a, b) if a.n + b.n else (0, 0.0, 0.0)


def value_by_value(a, b):
    n, mean, m2 = a
    for _ in range(b.n):
        n, old = n + 1, mean
        mean = mean + (b.mean - mean) / n
        m2 = m2 + (b.mean - old) * (b.mean - mean)
    return n, mean, m2 + b.m2


def division_tried(a, b):
    try:
        share = b.n / (a.n + b.n)
    except ZeroDivisionError:
        return b
    delta = b.mean - a.mean
    return [a.n + b.n, a.mean + share * delta, a.m2 + b.m2 + delta * delta * share * a.n]


def smallest_of_all(variance, numbers, offsets):
    def good(x):
        return 0.9 <= float(variance(x)) / np.var(x.astype(float)) <= 1.1

    return min([offset for offset in offsets if not good(numbers + offset)], default=np.inf)


def from_the_end(variance, numbers, offsets):
    first = math.inf
    for offset in reversed(offsets):
        x = (numbers + offset).astype(numbers.dtype)
        if not abs(variance(x) - np.var(x, dtype=float)) <= 0.1 * np.var(x, dtype=float):
            first = offset
    return first


def offset_of_the_dtype(variance, numbers, offsets):
    for offset in offsets:
        x = numbers + numbers.dtype.type(offset)
        error = np.abs(np.float64(variance(x)) / x.astype(np.float64).std() ** 2 - 1)
        if error > 0.1 or np.isnan(error):
            return np.float64(offset)
    return float("inf")


def column_for_column(x):
    """Each number once, not each row."""
    if x.ndim == 1:
        return streaming(x)
    found = [streaming(np.array([x[i][j] for i in range(len(x))])) for j in range(x.shape[1])]
    return len(x), *(np.array([part[i] for part in found]) for i in (1, 2))


def shape_of_the_first(x):
    """The first value is read for its shape too."""
    mean, m2 = np.zeros(np.shape(x[0])), np.zeros(np.shape(x[0]))
    for n, value in enumerate(x, 1):
        before = value - mean
        mean += before / n
        m2 += before * (value - mean)
    return n, mean, m2


RIGHT = {
    "stability/two_pass": VARIANCES,
    "stability/half": [*VARIANCES, widened_if_need_be, asked_for_by_dtype],
    "stability/welford": [
        streaming,
        starts_with_the_first,
        in_place,
        folded,
        halved,
        shifted_sums,
        column_for_column,
        shape_of_the_first,
    ],
    "stability/merge": [
        merged_with_weights,
        unpacked,
        replaced,
        zeros_for_nothing,
        value_by_value,
        division_tried,
    ],
    "stability/limit": [
        all_at_once,
        nan_asked_for,
        smallest_of_all,
        from_the_end,
        offset_of_the_dtype,
    ],
}


@pytest.mark.parametrize(
    ("task", "answer"), [(task, answer) for task, answers in RIGHT.items() for answer in answers]
)
def test_right_answers_of_any_style_pass(task, answer):
    for seed in range(3):
        verdict = judged(answer, task, seed)
        assert verdict.passed, verdict.explain()


def torch_variance(x):
    return torch.from_numpy(x.astype(float)).var(dim=0, correction=0).numpy()


def python_variance(x):
    columns = x.reshape(len(x), -1).T.astype(float).tolist()
    return np.array([statistics.pvariance(column) for column in columns]).reshape(x.shape[1:])


def compared_with_ours(variance, numbers, offsets):
    for offset in offsets:
        x = numbers + offset
        if not abs(variance(x) / two_pass(x.astype(float)) - 1) <= 0.1:
            return offset
    return np.inf


READY_MADE = {
    "stability/two_pass": {
        "normkit.variance.two_pass": two_pass,
        "numpy.var": lambda x: np.var(x, axis=0, dtype=np.result_type(x, np.float32)),
        "numpy.ndarray.var": lambda x: wide(x).var(axis=0),
        "numpy.std": lambda x: np.std(wide(x), axis=0) ** 2,
        "torch.Tensor.var": torch_variance,
        "statistics.pvariance": python_variance,
    },
    "stability/half": {
        "normkit.variance.moments": lambda x: moments(x).variance(),
        "numpy.ndarray.var": lambda x: wide(x).var(axis=0),
    },
    "stability/welford": {
        "normkit.variance.welford": welford,
        "normkit.variance.moments": moments,
        "numpy.ndarray.mean": lambda x: (len(x), wide(x).mean(axis=0), sum_of_squares(x)),
    },
    "stability/merge": {"normkit.variance.merge": lambda a, b: merge(Moments(*a), Moments(*b))},
    "stability/limit": {"normkit.variance.two_pass": compared_with_ours},
}


@pytest.mark.parametrize(
    ("task", "name"), [(task, name) for task, answers in READY_MADE.items() for name in answers]
)
def test_right_answers_that_are_ready_made_are_refused(task, name):
    answer, task = READY_MADE[task][name], find(task)
    observation = observe(answer, task, 5)
    assert observation.ready_made[0] == name and not any(differences(observation, task, 5))
    assert judge(observation, task, 5).difference.what == "ready_made"


# --- Wrong answers ----------------------------------------------------------------------------


def online(step):
    """Welford's loop around this step, from (n, mean, M2) and a value to the next three."""

    def answer(x):
        state = 0, np.zeros(x.shape[1:], (x * 1.0).dtype), np.zeros(x.shape[1:], (x * 1.0).dtype)
        for value in x:
            state = step(*state, value)
        return state

    return answer


def as_deviation(n, mean, m2):
    return n, mean, (m2 / n) ** 0.5


def in_two_loops(x):
    n, mean, m2 = len(x), 0.0, 0.0
    for i in range(n):
        mean = mean + x[i] / n
    for value in x:
        m2 = m2 + (value - mean) ** 2
    return n, mean, m2


def counted_late(x):
    """n starts at 1, and grows after each value."""
    n, mean, m2 = streaming(x)
    return n + 1, mean, m2


def printing(variance, numbers, offsets):
    print(all_at_once(variance, numbers, offsets))


def mean_first(n, mean, m2, value):
    mean = mean + (value - mean) / (n + 1)
    return n + 1, mean, m2 + (value - mean) ** 2


def running_sums(x):
    total = squares = 0 * x[0]
    for value in x:
        total, squares = total + value, squares + value * value
    return len(x), total / len(x), squares - total * total / len(x)


def merging(mean, m2):
    def answer(a, b):
        n = a.n + b.n
        return (n, mean(a, b, n), m2(a, b, n)) if n else b

    return answer


def searching(failed, dtype=None):
    def answer(variance, numbers, offsets):
        for offset in offsets if dtype is None else np.array(offsets, dtype):
            x = numbers + offset
            if failed(variance(x), x, numbers):
                return offset
        return np.inf

    return answer


def off(found, x, numbers):
    return not abs(found / x.astype(float).var() - 1) <= 0.1


def right_mean(a, b, n):
    return (a.n * a.mean + b.n * b.mean) / n


def right_m2(a, b, n):
    return a.m2 + b.m2 + (b.mean - a.mean) ** 2 * a.n * b.n / n


def one_pass_in_float64(x):
    x = x.astype(float)
    return (x**2).mean(axis=0) - x.mean(axis=0) ** 2


def stepping(step):
    """Welford's method with this step of the mean, from value - mean and the new n."""

    def answer(x):
        n, mean, m2 = 0, 0.0, 0.0
        for value in x:
            n += 1
            before = value - mean
            mean = mean + step(before, n)
            m2 = m2 + before * (value - mean)
        return n, mean, m2

    return answer


def first_value_twice(x):
    n, mean, m2 = 1, x[0], 0.0
    for value in x:
        n += 1
        before = value - mean
        mean = mean + before / n
        m2 = m2 + before * (value - mean)
    return n, mean, m2


def divided_by_all(x):
    mean = m2 = 0.0
    for value in x:
        before = value - mean
        mean = mean + before / len(x)
        m2 = m2 + before * (value - mean)
    return len(x), mean, m2


def returned_in_the_loop(x):
    n, mean, m2 = 0, 0.0, 0.0
    for value in x:
        n = n + 1
        before = value - mean
        mean = mean + before / n
        m2 = m2 + before * (value - mean)
        return n, mean, m2


def compared_with(right):
    """The search with this as the right variance."""
    return searching(lambda found, x, _: not abs(found - right(x)) / right(x) <= 0.1)


def offset_not_added(variance, numbers, offsets):
    for offset in offsets:
        if off(variance(numbers), numbers, None):
            return offset
    return np.inf


def offsets_add_up(variance, numbers, offsets):
    for offset in offsets:
        numbers = numbers + offset
        if off(variance(numbers), numbers, None):
            return offset
    return np.inf


def only_the_first_offset(variance, numbers, offsets):
    for offset in offsets:
        x = numbers + offset
        if off(variance(x), x, None):
            return offset
        else:
            return np.inf


def last_success(variance, numbers, offsets, good=None):
    for offset in offsets:
        x = numbers + offset
        if off(variance(x), x, None):
            return good
        good = offset
    return np.inf


def none_at_the_end(variance, numbers, offsets):
    for offset in offsets:
        if off(variance(numbers + offset), numbers + offset, None):
            return offset


def error_returned(variance, numbers, offsets):
    for offset in offsets:
        x = numbers + offset
        error = abs(variance(x) - np.var(x, dtype=float)) / np.var(x, dtype=float)
        if not error <= 0.1:
            return error
    return np.inf


def place_of_the_offset(variance, numbers, offsets):
    for i in range(len(offsets)):
        x = numbers + offsets[i]
        if off(variance(x), x, None):
            return i
    return np.inf


def divided(moments, less):
    """The moments with M2 divided by their number, less this."""

    def answer(x):
        n, mean, m2 = moments(x)
        return n, mean, m2 / (n - less)

    return answer


def centred_in_place(x):
    x -= x.mean(axis=0)
    return (x * x).mean(axis=0)


def mean_dropped(x):
    n, mean, m2 = 0, 0.0, 0.0
    for value in x:
        n += 1
        new = mean + (value - mean) / n
        m2 = m2 + (value - mean) * (value - new)
    return n, mean, m2


def never_divided_by_0(a, b):
    n = max(a.n + b.n, 1)
    return n, right_mean(a, b, n), right_m2(a, b, n)


def starting_with_a_view(x):
    n, mean, m2 = 1, x[0], 0 * x[0]
    for value in x[1:]:
        n += 1
        before = value - mean
        mean += before / n
        m2 = m2 + before * (value - mean)
    return n, mean, m2


def into_the_first(a, b):
    n, mean, m2 = a
    if n + b.n == 0:
        return a
    delta, n = b.mean - mean, n + b.n
    mean += delta * b.n / n
    m2 += b.m2 + delta**2 * a.n * b.n / n
    return n, mean, m2


WRONG = {
    "stability/two_pass": {
        "sum_subtracted": lambda x: ((x - x.sum(axis=0)) ** 2).mean(axis=0),
        "one_pass": lambda x: np.mean(x * x, axis=0) - np.square(np.mean(x, axis=0)),
        "one_pass_clipped": lambda x: np.clip(
            np.einsum("n...,n...->...", x, x) / len(x) - x.mean(axis=0) ** 2, 0, None
        ),
        "divided_by_n_minus_1": lambda x: sum_of_squares(x) / (len(x) - 1),
        "along_the_last_axis": lambda x: np.square(x - x.mean(axis=-1, keepdims=True)).mean(
            axis=-1
        ),
        "eps_added": lambda x: two_passes(x) + 1e-5,
        "value_left_out": lambda x: sum((v - x.mean(axis=0)) ** 2 for v in x[1:]) / len(x),
        "divided_by_last_length": lambda x: sum_of_squares(x) / x.shape[-1],
        "over_everything": lambda x: ((x - x.mean()) ** 2).mean(),
        "mean_over_everything": lambda x: ((x - x.mean()) ** 2).mean(axis=0),
        "one_mean_of_squares": lambda x: ((x - x.mean(axis=0)) ** 2).mean(),
        "standard_deviation": lambda x: np.sqrt(two_passes(x)),
        "about_the_first_value": lambda x: ((x - x[0]) ** 2).mean(axis=0),
        "one_pass_in_float64": one_pass_in_float64,
        "always_float32": lambda x: two_passes(x.astype(np.float32)),
        "divided_by_size": lambda x: sum_of_squares(x) / x.size,
        "sums_divided_by_size": lambda x: ((x - x.sum(axis=0) / x.size) ** 2).sum(axis=0) / x.size,
        "divided_by_n_plus_1": lambda x: sum_of_squares(x) / (len(x) + 1),
        "along_axis_1": lambda x: ((x - x.mean(axis=1, keepdims=True)) ** 2).mean(axis=1),
        "only_the_mean_squared": lambda x: (x - x.mean(axis=0) ** 2).mean(axis=0),
        "deviations_not_squared": lambda x: (x - x.mean(axis=0)).mean(axis=0) ** 2,
        "deviations_in_float32": lambda x: np.mean(
            (x - x.mean(axis=0)).astype(np.float32) ** 2, axis=0
        ),
        "mean_always_float32": lambda x: ((x - np.float32(x.mean(axis=0))) ** 2).mean(axis=0),
        "mean_returned": lambda x: sum(x) / len(x),
        "not_averaged": lambda x: (x - x.mean(axis=0)) ** 2,
        "divided_rounding_down": lambda x: sum_of_squares(x) // x.shape[0],
        "axis_kept": lambda x: two_passes(x)[None],
        "result_in_integers": lambda x: two_passes(x).astype(x.dtype),
        "mean_in_integers": lambda x: np.mean((x - x.mean(0).astype(x.dtype)) ** 2, 0),
        "changed_in_place": centred_in_place,
    },
    "stability/half": {
        "one_pass_in_float64": one_pass_in_float64,
        "mean_summed_in_half": lambda x: np.mean((wide(x) - x.sum(axis=0) / len(x)) ** 2, axis=0),
        "mean_in_half": lambda x: np.mean((wide(x) - x.mean(axis=0)) ** 2, axis=0),
        "all_in_half": lambda x: ((x - x.mean(axis=0)) ** 2).mean(axis=0).astype(float),
        "result_in_half": lambda x: two_passes(x).astype(x.dtype),
        "squares_in_half": lambda x: np.mean(
            (x - x.mean(axis=0, dtype=np.result_type(x, "f4"))).astype(x.dtype) ** 2,
            axis=0,
            dtype=np.result_type(x, "f4"),
        ),
        "sums_in_half": lambda x: np.add.reduce((x - np.add.reduce(x) / len(x)) ** 2) / len(x),
        "mean_always_float32": lambda x: ((x - x.mean(axis=0, dtype="f4")) ** 2).mean(axis=0),
        "deviations_in_half": lambda x: np.mean(
            wide((wide(x) - wide(x).mean(axis=0)).astype(x.dtype)) ** 2, axis=0
        ),
        "something_in_float32": lambda x: np.float32(two_passes(x)),
        "always_float32": lambda x: ((np.float32(x) - np.float32(x).mean(0)) ** 2).mean(0),
        "one_pass": lambda x: (
            np.mean(x.astype(np.result_type(x, "f4")) ** 2, axis=0)
            - np.mean(x.astype(np.result_type(x, "f4")), axis=0) ** 2
        ),
    },
    "stability/welford": {
        "mean_alone_over_n": online(
            lambda n, m, m2, v: (
                n + 1,
                m + v - m / (n + 1),
                m2 + (v - m) * (m / (n + 1) - m),
            )
        ),
        "step_for_mean": online(
            lambda n, m, m2, v: (
                n + 1,
                (v - m) / (n + 1),
                m2 + (v - m) * (v - (v - m) / (n + 1)),
            )
        ),
        "mean_not_kept": mean_dropped,
        "first_value_changed": starting_with_a_view,
        "along_another_axis": lambda x: streaming(x.T),
        "new_mean_twice": online(mean_first),
        "old_mean_twice": online(
            lambda n, mean, m2, v: (n + 1, mean + (v - mean) / (n + 1), m2 + (v - mean) ** 2)
        ),
        "sums_of_squares": running_sums,
        "m2_divided_by_n": divided(streaming, 0),
        "m2_divided_by_n_minus_1": divided(streaming, 1),
        "halfway_to_the_value": online(
            lambda n, m, m2, v: (n + 1, 0.5 * m + 0.5 * v, m2 + (v - m) * (v - (m + v) / 2))
        ),
        "values_in_float32": lambda x: streaming(x.astype(np.float32)),
        "sums_of_squares_in_float64": lambda x: running_sums(x.astype(float)),
        "divided_by_old_count_or_1": stepping(lambda before, n: before / max(n - 1, 1)),
        "divided_by_count_plus_1": stepping(lambda before, n: before / (n + 1)),
        "step_rounded_down": stepping(lambda before, n: before // n),
        "first_value_twice": first_value_twice,
        "returned_in_the_loop": returned_in_the_loop,
        "n_at_the_end": lambda x: (*streaming(x)[1:], len(x)),
        "m2_before_mean": lambda x: operator.itemgetter(0, 2, 1)(streaming(x)),
        "m2_as_deviation": lambda x: as_deviation(*streaming(x)),
        "seen_twice": in_two_loops,
        "n_one_too_large": counted_late,
        "n_one_too_small": lambda x: (len(x) - 1, *streaming(x)[1:]),
        "value_left_out": lambda x: streaming(x[1:]),
        "place_for_value": lambda x: streaming(np.arange(len(x))),
        "mean_and_value_over_n": online(
            lambda n, m, m2, v: (
                n + 1,
                (m + v) / (n + 1),
                m2 + (v - m) * (v - (m + v) / (n + 1)),
            )
        ),
        "away_from_the_value": online(
            lambda n, m, m2, v: (
                n + 1,
                m - (v - m) / (n + 1),
                m2 + (v - m) * (v - m + (v - m) / (n + 1)),
            )
        ),
        "m2_not_squared": online(
            lambda n, m, m2, v: (n + 1, m + (v - m) / (n + 1), m2 + abs(v - m))
        ),
        "m2_of_the_values": online(
            lambda n, mean, m2, v: (n + 1, mean + (v - mean) / (n + 1), m2 + v * v)
        ),
        "divided_by_all": divided_by_all,
        "every_entry_a_value": lambda x: streaming(x.reshape(-1)),
        "deviations_in_float32": online(
            lambda n, mean, m2, v: (
                n + 1,
                mean + (v - mean) / (n + 1),
                m2 + np.float32(v - mean) * np.float32((v - mean) * n / (n + 1)),
            )
        ),
    },
    "stability/merge": {
        "all_of_delta": merging(lambda a, b, n: a.mean + (b.mean - a.mean), right_m2),
        "delta_times_n_b": merging(lambda a, b, n: a.mean + (b.mean - a.mean) * b.n, right_m2),
        "one_m2_left_out": merging(
            right_mean, lambda a, b, n: a.m2 + (b.mean - a.mean) ** 2 * a.n * b.n / n
        ),
        "chunk_changed": into_the_first,
        "count_of_one_for_empty_chunks": never_divided_by_0,
        "n_at_the_end": lambda a, b: [merged_with_weights(a, b)[i] for i in (1, 2, 0)],
        "means_averaged": merging(
            lambda a, b, n: (a.mean + b.mean) / 2,
            lambda a, b, n: a.m2 + b.m2 + (a.mean - b.mean) ** 2 * a.n * b.n / n,
        ),
        "between_forgotten": merging(right_mean, lambda a, b, n: a.m2 + b.m2),
        "delta_not_squared": merging(
            right_mean, lambda a, b, n: a.m2 + b.m2 + (b.mean - a.mean) * a.n * b.n / n
        ),
        "between_divided_twice": merging(
            right_mean,
            lambda a, b, n: a.m2 + b.m2 + (b.mean - a.mean) ** 2 * a.n / n * b.n / n,
        ),
        "empty_chunks_nan": lambda a, b: (
            a.n + b.n,
            right_mean(a, b, a.n + b.n),
            a.m2 + b.m2 + (b.mean - a.mean) ** 2 * a.n * b.n / (a.n + b.n),
        ),
        "empty_chunks_refused": lambda a, b: (
            a.n + b.n,
            a.mean + (b.mean - a.mean) * (b.n / (a.n + b.n)),
            a.m2 + b.m2 + (b.mean - a.mean) ** 2 * (a.n * b.n / (a.n + b.n)),
        ),
        "m2_times_n": merging(
            right_mean,
            lambda a, b, n: a.n * a.m2 + b.n * b.m2 + (b.mean - a.mean) ** 2 * a.n * b.n / n,
        ),
        "means_added": merging(lambda a, b, n: a.mean + b.mean, right_m2),
        "delta_from_the_new_mean": merging(
            right_mean,
            lambda a, b, n: a.m2 + b.m2 + (b.mean - right_mean(a, b, n)) ** 2 * a.n * b.n / n,
        ),
        "a_for_any_empty_chunk": lambda a, b: (
            a if a.n == 0 or b.n == 0 else merged_with_weights(a, b)
        ),
        "m2_before_mean": lambda a, b: [merged_with_weights(a, b)[i] for i in (0, 2, 1)],
        "mean_not_divided": merging(lambda a, b, n: a.n * a.mean + b.n * b.mean, right_m2),
        "between_unweighted": merging(
            right_mean, lambda a, b, n: a.m2 + b.m2 + (a.mean - b.mean) ** 2
        ),
        "between_without_a": merging(
            right_mean, lambda a, b, n: a.m2 + b.m2 + (a.mean - b.mean) ** 2 * a.n / n
        ),
        "from_mean_b": merging(lambda a, b, n: b.mean + (b.mean - a.mean) * b.n / n, right_m2),
        "brackets_missing": merging(
            lambda a, b, n: a.mean + (b.mean - a.mean) * b.n / a.n + b.n, right_m2
        ),
        "mean_stays_at_a": merging(
            lambda a, b, n: a.mean + (b.mean - a.mean) * (b.n // n), right_m2
        ),
        "merged_by_squares": merging(
            right_mean,
            lambda a, b, n: (
                (a.m2 + a.n * a.mean**2)
                + (b.m2 + b.n * b.mean**2)
                - (a.n * a.mean + b.n * b.mean) ** 2 / n
            ),
        ),
    },
    "stability/limit": {
        "nan_passes": searching(lambda found, x, _: abs(found / np.var(x.astype(float)) - 1) > 0.1),
        "too_small_passes": searching(lambda found, x, _: not found / x.astype(float).var() <= 1.1),
        "too_large_passes": searching(lambda found, x, _: not found >= 0.9 * x.astype(float).var()),
        "absolute_error": searching(
            lambda found, x, _: not abs(found - np.var(x, dtype=float)) <= 0.1
        ),
        "before_the_offset": searching(lambda found, _, numbers: off(found, numbers, None)),
        "right_in_the_same_dtype": searching(
            lambda found, x, _: not abs(found - x.var()) / x.var() <= 0.1
        ),
        "tried_in_float64": searching(off, dtype=int),
        "divided_by_the_found": searching(
            lambda found, x, _: not abs(found - np.var(x.astype(float))) / found <= 0.1
        ),
        "limit_of_10": searching(
            lambda found, x, _: not abs(found / np.var(x, dtype=float) - 1) <= 10
        ),
        "first_success": searching(lambda *tried: not off(*tried)),
        "right_in_two_passes": compared_with(lambda x: ((x - x.mean()) ** 2).mean()),
        "right_in_float32": compared_with(lambda x: np.var(x.astype(np.float32))),
        "right_in_at_least_float32": compared_with(two_passes),
        "right_unbiased": compared_with(lambda x: np.var(x, ddof=1, dtype=float)),
        "right_is_a_deviation": compared_with(lambda x: np.std(x.astype(float))),
        "offset_not_added": offset_not_added,
        "offsets_add_up": offsets_add_up,
        "only_the_first_offset": only_the_first_offset,
        "place_of_the_offset": place_of_the_offset,
        "last_success": last_success,
        "always_inf": lambda variance, numbers, offsets: np.inf,
        "only_nan_fails": searching(lambda found, x, _: np.isnan(found)),
        "inf_forgotten": none_at_the_end,
        "nothing_returned": printing,
        "right_by_the_method": lambda variance, *given: compared_with(
            lambda x: variance(x.astype(float))
        )(variance, *given),
        "error_returned": error_returned,
    },
}


@pytest.mark.parametrize(
    ("task", "name"), [(task, name) for task, answers in WRONG.items() for name in answers]
)
def test_a_wrong_answer_is_named(task, name):
    assert named(WRONG[task][name], task) == [name]


def returned_in_the_loop_over_squares(x):
    total = 0
    for value in x:
        total = total + (value - x.mean(0)) ** 2
        return total / len(x)


def in_integers(x):
    """Both sums are divided with //."""
    mean = sum(x) // len(x)
    return sum((value - mean) ** 2 for value in x) // len(x)


def as_other_numbers(x):
    """view converts nothing."""
    c = x.view(np.result_type(x, np.float32))
    return ((c - c.mean(0)) ** 2).mean(0)


def none_for_nothing(a, b):
    if a.n + b.n > 0:
        return unpacked(a, b)


def eps_beside_n(eps):
    def answer(a, b):
        n, delta = a.n + b.n, b.mean - a.mean
        mean = a.mean + delta * b.n / (n + eps)
        return n, mean, a.m2 + b.m2 + delta**2 * a.n * b.n / (n + eps)

    return answer


def starting_with_the_first(x):
    """The mean starts with x[0], but n with 0."""
    n, mean, m2 = 0, x[0], 0.0
    for value in x[1:]:
        n += 1
        before = value - mean
        mean = mean + before / n
        m2 = m2 + before * (value - mean)
    return n, mean, m2


def old_changed_too(x):
    """Arrays alone: of numbers, += makes new ones."""
    n, mean, m2 = 0, 0.0, 0.0
    for value in x:
        n, old = n + 1, mean
        mean += (value - mean) / n
        m2 += (value - old) * (value - mean)
    return n, mean, m2


def halved_again_and_again(variance, numbers, offsets):
    low, high = 0, len(offsets)
    while low < high:
        middle = (low + high) // 2
        x = numbers + offsets[middle]
        low, high = (low, middle) if off(variance(x), x, None) else (middle + 1, high)
    return offsets[low] if low < len(offsets) else np.inf


def multiplied(variance, numbers, offsets):
    for offset in offsets:
        if off(variance(numbers * offset), numbers * offset, None):
            return offset
    return np.inf


def largest_success(variance, numbers, offsets):
    for offset in offsets[::-1]:
        if not off(variance(numbers + offset), numbers + offset, None):
            return offset
    return np.inf


def else_returned(end):
    """What comes where the variance is right at all offsets."""

    def answer(*given):
        found = all_at_once(*given)
        return end if found == np.inf else found

    return answer


def variance_of(x):
    return x.astype(float).var()


def meant(x, mean):
    """The mean of the squared distances from this, in the dtype that they have."""
    return ((x - mean) ** 2).mean(axis=0)


OTHERWISE = [
    (
        "stability/merge",
        "n_at_the_end",
        lambda a, b: [unpacked(a, b)[i] for i in (1, 2, 0)] if a.n + b.n else a,
    ),
    *(
        (
            "stability/limit",
            "limit_below_10",
            searching(
                lambda found, x, _, limit=limit: not abs(found / variance_of(x) - 1) <= limit
            ),
        )
        for limit in (0.05, 0.01, 0.001)
    ),
    (
        "stability/limit",
        "divided_by_the_found",
        searching(lambda found, x, _: not np.isclose(variance_of(x), found, rtol=0.1)),
    ),
    *(
        ("stability/half", "float32_after_the_mean", answer)
        for answer in (
            lambda x: meant(np.float32(x), x.mean(axis=0)),
            lambda x: meant(np.float32(x), np.float32(x.mean(axis=0))),
        )
    ),
    ("stability/half", "something_in_float32", lambda x: np.float32(two_passes(x))),
    ("stability/half", "result_in_half", lambda x: two_passes(x).astype(np.float16)),
    (
        "stability/half",
        "all_in_half",
        lambda x: ((x - (x / len(x)).sum(axis=0)) ** 2 / len(x)).sum(axis=0),
    ),
    (
        "stability/two_pass",
        "divided_by_last_length",
        lambda x: ((x - x.sum(axis=0) / x.shape[-1]) ** 2).sum(axis=0) / x.shape[-1],
    ),
    (
        "stability/two_pass",
        "mean_subtracted_twice",
        lambda x: two_passes(x) - x.mean(axis=0) ** 2,
    ),
    ("stability/welford", "new_mean_twice", old_changed_too),
    ("stability/welford", "first_value_not_counted", starting_with_the_first),
    (
        "stability/merge",
        "step_of_one_value",
        merging(lambda a, b, n: a.mean + (b.mean - a.mean) / n, right_m2),
    ),
    (
        "stability/merge",
        "step_rounded_down",
        merging(lambda a, b, n: a.mean + (b.mean - a.mean) * b.n // n, right_m2),
    ),
    (
        "stability/merge",
        "between_squared",
        merging(right_mean, lambda a, b, n: a.m2 + b.m2 + ((b.mean - a.mean) * a.n * b.n / n) ** 2),
    ),
    ("stability/limit", "failures_thought_to_last", halved_again_and_again),
    ("stability/limit", "last_success", largest_success),
    *(("stability/limit", "inf_forgotten", else_returned(end)) for end in (0, np.nan)),
    (
        "stability/limit",
        "last_success",
        lambda variance, numbers, offsets: last_success(variance, numbers, offsets, good=0),
    ),
    (
        "stability/limit",
        "limit_of_isclose",
        searching(lambda found, x, _: not np.isclose(found, variance_of(x))),
    ),
    ("stability/limit", "right_is_one", compared_with(lambda x: 1)),
    ("stability/limit", "right_is_a_deviation", compared_with(lambda x: x.astype(float).std())),
    ("stability/limit", "right_squared", compared_with(lambda x: variance_of(x) ** 2)),
    ("stability/limit", "offset_multiplied", multiplied),
    ("stability/two_pass", "first_square_alone", returned_in_the_loop_over_squares),
    ("stability/two_pass", "divided_rounding_down", in_integers),
    ("stability/half", "bytes_read_anew", as_other_numbers),
    ("stability/half", "bytes_read_anew", lambda x: two_passes(x.view(np.float32))),
    ("stability/merge", "nothing_for_empty_chunks", none_for_nothing),
    ("stability/merge", "a_unless_empty", lambda a, b: a if a.n or b.n == 0 else unpacked(a, b)),
    (
        "stability/limit",
        "error_squared",
        searching(lambda found, x, _: not (found / x.astype(float).var() - 1) ** 2 <= 0.1),
    ),
    *(("stability/merge", "eps_beside_n", eps_beside_n(eps)) for eps in (1e-5, 1e-6, 1e-8)),
    (
        "stability/two_pass",
        "one_pass_clipped",
        lambda x: abs(np.mean(x * x, 0) - np.mean(x, 0) ** 2),
    ),
    ("stability/two_pass", "one_mean_of_squares", lambda x: ((x - x.mean(0)) ** 2).sum() / len(x)),
    ("stability/two_pass", "deviations_in_float32", lambda x: np.float32(two_passes(x))),
    ("stability/half", "all_in_half", lambda x: np.mean((x - x.mean(0)) ** 2, 0, dtype=float)),
    ("stability/half", "overflow_clipped", lambda x: np.minimum(two_passes(x), 65504)),
    (
        "stability/half",
        "overflow_clipped",
        lambda x: np.nan_to_num(np.mean((x - x.mean(0)) ** 2, 0)),
    ),
    ("stability/merge", "a_for_any_empty_chunk", lambda a, b: unpacked(a, b) if a.n and b.n else b),
    (
        "stability/limit",
        "offset_not_added",
        lambda variance, numbers, offsets: all_at_once(
            lambda x: variance(numbers), numbers, offsets
        ),
    ),
    (
        "stability/limit",
        "inf_forgotten",
        lambda *given: given[2][-1] if all_at_once(*given) == np.inf else all_at_once(*given),
    ),
    (
        "stability/limit",
        "limit_of_10",
        searching(lambda found, x, _: not abs(found / x.astype(float).var() - 1) <= 1),
    ),
]


def shape_of_all(x):
    n, mean, m2 = 0, np.zeros(x.shape), np.zeros(x.shape)
    for value in x:
        n, before = n + 1, value - mean
        mean = mean + before / n
        m2 = m2 + before * (value - mean)
    return n, mean, m2


def summed_into_the_first(x):
    total = x[0]
    for value in x[1:]:
        total += value
    return ((x - total / len(x)) ** 2).mean(axis=0)


def apart(a, b):
    if not a.n + b.n:
        return a
    n, distance = a.n + b.n, abs(a.mean - b.mean)
    return n, a.mean + distance * b.n / n, a.m2 + b.m2 + distance**2 * a.n * b.n / n


OTHERWISE += [
    ("stability/welford", "made_like_x", shape_of_all),
    ("stability/two_pass", "first_value_changed", summed_into_the_first),
    ("stability/merge", "delta_without_sign", apart),
]


def from_wikipedia(x):
    count, mean, m2 = 0, 0.0, 0.0
    for value in x:
        count += 1
        delta = value - mean
        mean = mean + delta / count
        m2 = m2 + delta * (value - mean)
    if count < 2:
        return float("nan")
    return mean, m2 / count, m2 / (count - 1)


def with_sums(x):
    n, total, squares = 0, 0.0, 0.0
    for value in x:
        n, total, squares = n + 1, total + value, squares + value * value
    return n, total / n, squares / n - (total / n) ** 2


def streamed(end):
    return lambda x: end(*streaming(x))


OTHERWISE += [
    ("stability/welford", "statistics_returned", from_wikipedia),
    *(
        ("stability/welford", "statistics_returned", streamed(end))
        for end in (
            lambda n, mean, m2: (mean, m2 / n, n),
            lambda n, mean, m2: (n, m2 / n, mean),
            lambda n, mean, m2: (mean, m2 / n, m2 / max(n - 1, 1)),
        )
    ),
    (
        "stability/welford",
        "m2_divided_by_n_minus_1",
        streamed(lambda n, mean, m2: (n, mean, m2 / (n - 1) if n > 1 else m2)),
    ),
    ("stability/welford", "one_pass_for_m2", with_sums),
    (
        "stability/merge",
        "variance_merged",
        merging(right_mean, lambda a, b, n: right_m2(a, b, n) / (n - 1)),
    ),
    (
        "stability/two_pass",
        "mean_over_everything",
        lambda x: ((x - np.sum(x) / len(x)) ** 2).sum(axis=0) / len(x),
    ),
    (
        "stability/limit",
        "before_the_offset",
        lambda variance, numbers, offsets: next(
            (
                offset
                for offset in offsets
                if off(variance(numbers + offset), numbers.astype(float) + offset, None)
            ),
            np.inf,
        ),
    ),
]


def test_another_order_is_told_of_all_that_it_exchanges():
    exchanged = merging(right_m2, right_mean)
    assert named(lambda a, b: (7, *exchanged(a, b)[1:]), "stability/merge") == ["m2_before_mean"]
    mean_first = streamed(lambda n, mean, m2: (mean, np.sqrt(m2 / n), n))
    assert not named(mean_first, "stability/welford")


@pytest.mark.parametrize(("task", "name", "answer"), OTHERWISE)
def test_a_mistake_written_otherwise_is_named(task, name, answer):
    assert named(answer, task) == [name]


@pytest.mark.parametrize(
    "failed",
    [
        lambda found, x, _: found != np.var(x),
        lambda found, x, _: found == 0,
        lambda found, x, _: not abs(found / variance_of(x) - 1) <= 0.5,
    ],
)
def test_what_is_not_known_is_not_named(failed):
    assert not named(searching(failed), "stability/limit")


def test_one_pass_fails_in_80_bits_too():
    def answer(x):
        x = x.astype(np.longdouble)
        return (np.mean(x * x, axis=0) - np.mean(x, axis=0) ** 2).astype(float)

    assert np.finfo(np.longdouble).nmant > 64 or not judged(answer, "stability/two_pass").passed


def test_nothing_is_near_infinity():
    answer = searching(lambda found, x, _: not abs(found - x.var()) <= 0.1 * x.var())
    assert not judged(answer, "stability/limit").passed


def test_the_last_success_is_named_whatever_comes_before_the_first():
    def answer(variance, numbers, offsets):
        return last_success(variance, numbers, offsets, good=-1)

    assert named(answer, "stability/limit") == ["last_success"]


def test_what_is_changed_in_place_is_in_no_other_order():
    def answer(a, b):
        n, mean, m2 = merged_with_weights(a, b)
        delta = b.mean
        delta -= a.mean
        return n, mean, m2

    verdict = judged(answer, "stability/merge")
    assert not verdict.order and not verdict.mistakes
    assert "Changed in place: b." in verdict.explain() and "another order" not in verdict.explain()


def test_two_mistakes_by_hand_are_both_named():
    answer = merging(lambda a, b, n: (a.mean + b.mean) / 2, lambda a, b, n: a.m2 + b.m2)
    assert named(answer, "stability/merge") == ["between_forgotten", "means_averaged"]


@pytest.mark.parametrize(
    ("task", "names", "answer"),
    [
        (
            "stability/two_pass",
            ["divided_by_n_minus_1", "one_pass"],
            lambda x: ((x**2).sum(0) - len(x) * x.mean(0) ** 2) / (len(x) - 1),
        ),
        (
            "stability/two_pass",
            ["one_pass", "standard_deviation"],
            lambda x: np.sqrt((x**2).mean(0) - x.mean(0) ** 2),
        ),
        (
            "stability/half",
            ["result_in_half", "standard_deviation"],
            lambda x: np.sqrt(two_passes(x)).astype(x.dtype),
        ),
    ],
)
def test_two_mistakes_in_one_line_are_both_named(task, names, answer):
    assert named(answer, task) == names


def streaming_wrongly(start=0, grown=lambda m2, step: m2 + step):
    """The variance in the place of M2, and another mistake."""

    def answer(x):
        n, mean, m2 = start, 0.0, 0.0
        for value in x:
            n, before = n + 1, value - mean
            mean = mean + before / n
            m2 = grown(m2, before * (value - mean))
        return n, mean, m2 / n

    return answer


def in_float64(error):
    """The numbers become float64 too early, and the error has a sign."""

    def answer(variance, numbers, offsets):
        for offset in offsets:
            x = numbers.astype(float) + offset
            if not error(variance(x), np.var(x)) <= 0.1:
                return offset
        return np.inf

    return answer


def merged_without_a_quotient(a, b):
    n, delta = a.n + b.n, b.mean - a.mean
    return n, a.mean + delta * b.n, a.m2 + b.m2 + delta**2 * a.n * b.n / n


@pytest.mark.parametrize(
    ("task", "names", "answer"),
    [
        (
            "welford",
            {"m2_not_accumulated", "m2_divided_by_n"},
            streaming_wrongly(grown=lambda m2, step: step),
        ),
        ("welford", {"count_starts_at_one", "m2_divided_by_n"}, streaming_wrongly(start=1)),
        (
            "limit",
            {"too_small_passes", "tried_in_float64"},
            in_float64(lambda found, right: (found - right) / right),
        ),
        (
            "limit",
            {"too_large_passes", "tried_in_float64"},
            in_float64(lambda found, right: (right - found) / right),
        ),
        ("merge", {"delta_times_n_b", "empty_chunks_nan"}, merged_without_a_quotient),
    ],
)
def test_of_two_mistakes_the_second_is_not_taken_for_another(task, names, answer):
    assert set(named(answer, f"stability/{task}")) == names


@pytest.mark.parametrize("answer", [[True, False] * 4, {"near"}, None])
def test_predictions_that_are_no_dictionary_are_told(answer):
    text = judged(answer, "stability/predict").explain()
    assert "Leave it a dictionary" in text and type(answer).__name__ in text


def test_what_welford_returns_is_told_by_its_kinds():
    assert "n (int), mean (ndarray)" in judged(lambda x: x[0], "stability/welford").explain()


@pytest.mark.parametrize(
    "answer",
    [
        lambda x: sum((x - sum(x) / len(x)) ** 2) / len(x),
        lambda x: ((x - x.sum(axis=0) / len(x)) ** 2).sum(axis=0) / len(x),
        lambda x: np.add.accumulate((x - np.add.accumulate(x)[-1] / len(x)) ** 2)[-1] / len(x),
    ],
)
def test_sums_in_half_are_named_in_any_order(answer):
    assert named(answer, "stability/half") == ["sums_in_half"]


def test_shifting_by_the_mean_in_place_is_seen():
    def answer(x):
        variance = two_passes(x)
        x -= x.mean(axis=0).astype(x.dtype)
        return variance

    assert judged(answer, "stability/two_pass").difference.what == "modified"


@pytest.mark.parametrize("chunk", ["a", "b"])
@pytest.mark.parametrize("shortcut", [False, True])
def test_merging_in_place_is_seen(chunk, shortcut):
    def answer(a, b):
        if shortcut and not (a.n and b.n):
            return a if a.n else b
        n, mean, m2 = merged_with_weights(a, b)
        of_one, of_other = (a.m2, b.m2) if chunk == "a" else (b.m2, a.m2)
        of_one += of_other
        return n, mean, m2

    difference = judged(answer, "stability/merge").difference
    assert (difference.what, difference.name) == ("modified", chunk)


def test_predictions_may_be_numpys():
    found = {case: np.float64(relative_error(case)) < 0.1 for case in CASES}
    assert type(found["near"]) is np.bool_ and judged(found, "stability/predict").passed


def test_sums_in_half_are_shown_where_a_sum_overflows():
    difference = judged(WRONG["stability/half"]["sums_in_half"], "stability/half").difference
    assert (difference.probe.inputs["x"].sum(axis=0, dtype=float) > 65504).any()


def test_more_digits_and_other_numbers_are_welcome():
    def pythons(x):
        n, mean, m2 = streaming(x)
        return np.int64(n), np.asarray(mean, dtype=float), np.asarray(m2, dtype=float)

    assert judged(pythons, "stability/welford").passed
    assert judged(lambda x: two_passes(x.astype(float)), "stability/half").passed


def test_a_single_chunk_of_numbers_is_told():
    text = judged(WRONG["stability/merge"]["means_averaged"], "stability/merge").explain()
    assert "a = [1] · b = [3, 5, 7]" in text
    assert math.isclose(merge(moments(np.array([1.0])), moments(np.array([3.0, 5, 7]))).mean, 4)


def test_a_mean_rounded_down_is_not_said_to_hide():
    def answer(x):
        return np.mean((x - x.sum(axis=0) // len(x)) ** 2, axis=0)

    (mistake,) = judged(answer, "stability/two_pass").mistakes
    assert mistake.name == "divided_rounding_down" and "worked" not in mistake.message


@pytest.mark.parametrize(
    "name",
    [f"{what}_in_half" for what in ("all", "sums", "squares", "deviations", "mean_summed")],
)
def test_who_is_told_to_widen_is_not_led_to_narrow_float64(name):
    (mistake,) = judged(WRONG["stability/half"][name], "stability/half").mistakes
    assert "where it is narrower than float32, and only there" in mistake.message


def begun_again(*parts):
    """Welford's method, but some of n, mean and m2 are 0 again before each value."""

    def answer(x):
        now = dict(n=0, mean=0.0, m2=0.0)
        for value in x:
            now |= dict.fromkeys(parts, 0)
            now["n"] += 1
            before = value - now["mean"]
            now["mean"] = now["mean"] + before / now["n"]
            now["m2"] = now["m2"] + before * (value - now["mean"])
        return now["n"], now["mean"], now["m2"]

    return answer


def never_counted(x):
    n, mean, m2 = 1, 0.0, 0.0
    for value in x:
        before = value - mean
        mean = mean + before / n
        m2 = m2 + before * (value - mean)
    return n, mean, m2


@pytest.mark.parametrize("parts", [("n", "mean", "m2"), ("n",), ("mean",)])
def test_a_loop_that_begins_again_with_each_value_does_not_return_at_once(parts):
    assert judged(begun_again(), "stability/welford").passed
    assert named(begun_again(*parts), "stability/welford") == ["begun_again_in_the_loop"]


def test_a_count_that_never_grows_is_said_not_to_grow():
    (mistake,) = judged(never_counted, "stability/welford").mistakes
    assert mistake.message.startswith("n does not grow")


def test_a_first_offset_that_is_left_out_is_named():
    def answer(variance, numbers, offsets):
        for i in range(1, len(offsets)):
            shifted = numbers + offsets[i]
            right = np.var(shifted.astype(float))
            if not abs(variance(shifted) - right) / right <= 0.1:
                return offsets[i]
        return np.inf

    assert named(answer, "stability/limit") == ["first_offset_left_out"]


def test_the_parts_of_a_chunk_are_not_its_values():
    def answer(a, b):
        n, delta = len(a) + len(b), b.mean - a.mean
        within = a.m2 + b.m2
        return n, a.mean + delta * len(b) / n, within + delta**2 * len(a) * len(b) / n

    assert named(answer, "stability/merge") == ["parts_counted"]


def test_a_square_that_is_multiplied_out_is_no_other_one_pass():
    def answer(x):
        mean = x.mean(axis=0)
        return (x * x - 2 * mean * x + mean * mean).mean(axis=0)

    assert named(answer, "stability/two_pass") == ["square_multiplied_out"]


def test_offsets_that_fail_may_be_printed_but_not_returned():
    def answer(variance, numbers, offsets):
        for offset in offsets:
            right = np.var((numbers + offset).astype(float))
            if not abs(variance(numbers + offset) - right) / right <= 0.1:
                print(offset)
        return np.inf

    verdict = judged(answer, "stability/limit")
    assert [mistake.name for mistake in verdict.mistakes] == ["always_inf"]
    assert "as if no offset failed" in " ".join(verdict.explain().split())
