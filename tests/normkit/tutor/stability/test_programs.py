"""Mistakes with the variance: the numbers that their messages state, and the predictions."""

import numpy as np
import pytest

from normkit.tutor.judging import judge
from normkit.tutor.mistakes import combine, mistakes_of
from normkit.tutor.observing import observe
from normkit.tutor.stability.tasks import CASES, DIGITS, relative_error
from normkit.tutor.tasks import find
from normkit.variance import merge, moments, one_pass, two_pass, welford

X = np.array([0.0, 2, 4, 6])
HALF = np.finfo(np.float16)


def right(program):
    return combine(f"stability/{program}")


def wrong(program):
    name = f"stability/{program}"
    return {m.name: combine(name, m) for m in mistakes_of(name)}


def test_numbers_of_the_two_passes():
    others = {name: answer for name, answer in wrong("two_pass").items() if name != "along_axis_1"}
    found = {name: answer(X.copy()) for name, answer in others.items()}
    assert right("two_pass")(X) == 5 and found["mean_returned"] == 3
    assert found["not_divided"] == 20 and found["absolute_deviations"] == 2
    assert found["mean_of_squares"] == found["about_the_first_value"] == 14
    assert found["deviations_not_squared"] == 0 and found["divided_by_n_plus_1"] == 4
    assert found["only_the_mean_squared"] == -6 and found["mean_subtracted_twice"] == -4
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
    found = wrong("half_precision")
    assert right("half_precision")(x) == 1
    assert found["mean_in_half"](x) == found["float32_after_the_mean"](x) == 2
    assert np.spacing(np.float16(2048)) == 2
    x = np.array([1000, 1049, 1049], dtype=np.float16)
    error = wrong("half_precision")["deviations_in_half"](x) / right("half_precision")(x) - 1
    assert abs(error + 0.0006) < 0.0001

    x = np.array([40_000_000.0, 40_000_002])
    assert np.float32(x[1]) == x[0] and wrong("half_precision")["always_float32"](x) == 0
    assert right("half_precision")(x) == 1 and np.mean(x, dtype=np.float32) == x[0]


def test_float32_holds_neither_the_digits_nor_their_squares():
    x = DIGITS.inputs["x"]
    for exact in (x, x**2):
        assert (abs(np.float32(exact) / exact - 1) > 1e-8).all()
    assert (np.float32(x) ** 2 == np.float32(x).astype(float) ** 2).all()


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
    assert right("welford")(X) == (4, 3, 20)
    assert found["m2_of_the_values"][2] == 56 and found["m2_before_mean"] == (4, 20, 3)
    assert found["old_mean_twice"][2] == 29 and found["new_mean_twice"][2] == 14
    assert not np.isfinite(found["divided_by_old_count"][1])
    assert found["step_not_divided"][1] == 6 and found["sum_for_mean"][1] == 12


def test_merging_agrees_with_the_library():
    for probe in find("stability/merge").draw(0):
        chunks = [moments(values) for values in probe.inputs.values()]
        for ours, expected in zip(right("merge")(*chunks), merge(*chunks), strict=True):
            np.testing.assert_allclose(ours, expected, rtol=1e-6)


def test_numbers_of_merging():
    a, b = moments(np.array([1.0])), moments(np.array([3.0, 5, 7]))
    found = {name: answer(a, b) for name, answer in wrong("merge").items()}
    assert right("merge")(a, b) == (4, 4, 20)
    assert found["means_averaged"][1] == 3 and found["weights_swapped"][1] == 2
    assert found["between_forgotten"][2] == 8 and found["between_not_divided"][2] == 56
    assert found["mean_not_divided"][1] == 16 and found["between_unweighted"][2] - 8 == 16
    assert found["step_of_one_value"][1] == 2 and found["between_squared"][2] - 8 == 9
    assert found["means_added"][1] == 6 and found["delta_from_the_new_mean"][2] == 8.75


@pytest.mark.parametrize("case", CASES)
def test_predictions_are_what_happens(case):
    errors = [relative_error(case, seed) for seed in range(50)]
    if right("variance_predictions")()[case]:
        assert max(errors) < 1e-3
    else:
        assert min(errors) > 0.5


def test_numbers_of_the_predictions():
    assert CASES.keys() == right("variance_predictions")().keys()
    assert np.spacing(np.float32(100)) / 2 < 1e-5
    assert round(float(np.spacing(np.float32(100))), 7) == 7.6e-6
    assert np.spacing(1e8) / 2 < 1e-8 and np.spacing(1e18) == 128


def test_all_wrong_predictions_are_named():
    upside_down = {name: not value for name, value in right("variance_predictions")().items()}
    verdict = judge(observe(upside_down, "stability/predict"), "stability/predict")
    assert set(verdict.mistakes) == set(mistakes_of("stability/variance_predictions"))
