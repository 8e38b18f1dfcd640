"""Mistakes with the variance: the numbers that their messages state, and the predictions."""

import numpy as np
import pytest

from normkit.mistakes import combine, mistakes_of
from normkit.tasks import TASKS, judge, observe
from normkit.tasks.stability import CASES, relative_error
from normkit.variance import moments, one_pass, two_pass, welford

X = np.array([0.0, 2, 4, 6])
HALF = np.finfo(np.float16)


def wrong(algorithm):
    return {m.name: combine(algorithm, m) for m in mistakes_of(algorithm)}


def test_numbers_of_the_two_passes():
    others = {name: answer for name, answer in wrong("two_pass").items() if name != "along_axis_1"}
    found = {name: float(answer(X)) for name, answer in others.items()}
    assert combine("two_pass")(X) == 5
    assert found["not_divided"] == 20 and found["absolute_deviations"] == 2
    assert found["mean_of_squares"] == found["about_the_first_value"] == 14
    assert found["deviations_not_squared"] == 0 and found["divided_by_n_plus_1"] == 4
    assert found["only_the_mean_squared"] == -6
    assert abs(found["divided_by_n_minus_1"] - 6.67) < 0.005


def test_one_pass_leaves_multiples_of_eight():
    x = np.array([10000, 10002], dtype=np.float32)
    assert not np.mean(x**2) % 8 and not np.mean(x) ** 2 % 8
    assert one_pass(x) == 0 and two_pass(x) == 1 and welford(x).m2 == 2
    found = wrong("two_pass")
    assert found["one_pass"](x) == found["one_pass_clipped"](x) == 0
    assert wrong("welford")["sums_of_squares"](x)[2] == 0
    assert np.spacing(np.float32(1e8)) == 8
    x = np.array([1e9, 1e9 + 2])
    assert np.spacing(1e18) == 128 and two_pass(x) == 1 and welford(x).m2 == 2
    assert found["one_pass_in_float64"](x) == 0
    assert wrong("welford")["sums_of_squares_in_float64"](x)[2] == 0
    assert wrong("welford")["values_in_float32"](np.array([40_000_000.0, 40_000_002]))[2] == 0


def test_numbers_of_half_precision():
    assert HALF.max == 65504 and np.isfinite(np.float16(255) ** 2)
    with np.errstate(over="ignore"):
        assert np.isinf(np.float16(256) ** 2)
        assert np.isinf(np.float16(90_000))
        x = np.tile(np.array([1998, 2002], dtype=np.float16), 32)
        assert np.isinf(x.sum()) and not np.isfinite(np.var(x)) and np.mean(x) == 2000
    x = np.array([2048, 2050], dtype=np.float16)
    assert combine("half_precision")(x) == 1 and wrong("half_precision")["mean_in_half"](x) == 2
    assert np.spacing(np.float16(2048)) == 2

    x = np.array([40_000_000.0, 40_000_002])
    assert np.float32(x[1]) == x[0] and wrong("half_precision")["always_float32"](x) == 0
    assert combine("half_precision")(x) == 1 and np.mean(x, dtype=np.float32) == x[0]


def test_numbers_of_the_limit():
    assert np.float16(5003) == 5004 and np.spacing(np.float16(5000)) == 4
    assert np.spacing(np.float32(1e9)) == 64 and float(HALF.max) < 300**2
    pair = np.array([16_777_216, 16_777_218], dtype=np.float32)
    assert pair[1] - pair[0] == 2 and np.mean(pair) != np.float64(16_777_217)
    assert np.var([-1, 1], ddof=1) == 2 and np.var([-1, 1]) == 1
    single = np.zeros(1, dtype=np.float32)
    assert (single + np.array([1])[0]).dtype == float and (single + 1).dtype == np.float32


def test_numbers_of_welford():
    with np.errstate(divide="ignore", invalid="ignore"):
        found = {name: answer(X) for name, answer in wrong("welford").items()}
    assert combine("welford")(X) == (4, 3, 20)
    assert found["old_mean_twice"][2] == 29 and found["new_mean_twice"][2] == 14
    assert not np.isfinite(found["divided_by_old_count"][1])
    assert found["step_not_divided"][1] == 6 and found["sum_for_mean"][1] == 12


def test_numbers_of_merging():
    a, b = moments(np.array([1.0])), moments(np.array([3.0, 5, 7]))
    found = {name: answer(a, b) for name, answer in wrong("merge").items()}
    assert combine("merge")(a, b) == (4, 4, 20)
    assert found["means_averaged"][1] == 3 and found["weights_swapped"][1] == 2
    assert found["between_forgotten"][2] == 8 and found["between_not_divided"][2] == 56
    assert found["means_added"][1] == 6 and found["delta_from_the_new_mean"][2] == 8.75


@pytest.mark.parametrize("case", CASES)
def test_predictions_are_what_happens(case):
    errors = [relative_error(case, seed) for seed in range(50)]
    if combine("variance_predictions")[case]:
        assert max(errors) < 1e-3
    else:
        assert min(errors) > 0.5


def test_numbers_of_the_predictions():
    assert CASES.keys() == combine("variance_predictions").keys()
    assert np.spacing(np.float32(100)) / 2 < 1e-5
    assert round(float(np.spacing(np.float32(100))), 7) == 7.6e-6
    assert np.spacing(1e8) / 2 < 1e-8 and np.spacing(1e18) == 128


def test_all_wrong_predictions_are_named():
    right = combine("variance_predictions")
    upside_down = {name: not value for name, value in right.items()}
    verdict = judge(observe(upside_down, "stability/predict"), "stability/predict")
    assert set(verdict.mistakes) == set(TASKS["stability/predict"].mistakes)
