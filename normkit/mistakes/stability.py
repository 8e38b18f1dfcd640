"""The variance without loss of digits: its steps and its mistakes."""

from collections.abc import Callable

import numpy as np

from normkit.messages import N_
from normkit.mistakes.chains import ALGORITHMS, Algorithm, Steps, chain, of, run


@chain
class TWO_PASS:
    def wide(x):
        return x.astype(np.result_type(x, np.float32))

    def axis():
        return 0

    def mean(wide, axis):
        return np.mean(wide, axis=axis, keepdims=True)

    def deviations(wide, mean):
        return wide - mean

    def squares(deviations):
        return deviations**2

    def var(squares, axis):
        return np.mean(squares, axis=axis)

    def result(var):
        return var


@chain
class START:
    def n():
        return 0

    def mean():
        return 0.0

    def m2():
        return 0.0


@chain
class WELFORD:
    def count(n):
        return n + 1

    def before(value, mean):
        return value - mean

    def new_mean(mean, before, count):
        return mean + before / count

    def after(value, new_mean):
        return value - new_mean

    def new_m2(m2, before, after):
        return m2 + before * after


@chain
class END:
    def moments(n, mean, m2):
        return n, mean, m2


@chain
class MERGE:
    def n(a, b):
        return a[0] + b[0]

    def share(b, n):
        return b[0] / n if n else 0.0

    def delta(a, b):
        return b[1] - a[1]

    def mean(a, delta, share):
        return a[1] + delta * share

    def within(a, b):
        return a[2] + b[2]

    def between(a, delta, share):
        return delta**2 * (a[0] * share)

    def m2(within, between):
        return within + between

    def moments(n, mean, m2):
        return n, mean, m2


@chain
class TRIAL:
    def shifted(numbers, offset):
        return numbers + offset

    def found(variance, shifted):
        return variance(shifted)

    def right(shifted):
        return np.var(shifted.astype(float))

    def error(found, right):
        return abs(found - right) / right

    def failed(error):
        return not error <= 0.1  # a nan fails


@chain
class TRIALS:
    def first(failures):
        return failures[0] if failures else np.inf


@chain
class PREDICTIONS:
    def near():
        return True

    def far():
        return False

    def double():
        return True

    def double_far():
        return False

    def spread():
        return True

    def narrow():
        return False

    def two_passes():
        return True

    def half():
        return False


def _variance(steps: Steps) -> Callable:
    return lambda x: run(steps, x=x)["result"]


def _welford(steps: Steps) -> Callable:
    start, loop, end = ({k: steps[k] for k in part} for part in (START, WELFORD, END))

    def welford(x):
        began = run(start, x=x)
        state = {name: began[name] for name in START}
        for value in x:
            done = run(loop, value=value, **state)
            state = {"n": done["count"], "mean": done["new_mean"], "m2": done["new_m2"]}
        return run(end, x=x, **state)["moments"]

    return welford


def _merge(steps: Steps) -> Callable:
    def merge(a, b):
        return run(steps, a=a, b=b)["moments"]

    return merge


def _first_failure(steps: Steps) -> Callable:
    trial, end = ({k: steps[k] for k in part} for part in (TRIAL, TRIALS))

    def first_failure(variance, numbers, offsets):
        given = {"variance": variance, "numbers": numbers}
        failures = [
            offset
            for i, offset in enumerate(offsets)
            if run(trial, offset=offset, tried=offsets[: i + 1], **given)["failed"]
        ]
        return run(end, failures=failures, offsets=offsets)["first"]

    return first_failure


ALGORITHMS |= {
    name: Algorithm(steps, assemble, f"why#why-{place}", "variance", contains)
    for name, steps, assemble, place, *contains in (
        ("two_pass", TWO_PASS, _variance, "variance"),
        ("half_precision", TWO_PASS, _variance, "overflow", "two_pass"),
        ("welford", START | WELFORD | END, _welford, "variance"),
        ("merge", MERGE, _merge, "variance"),
        ("first_failure", TRIAL | TRIALS, _first_failure, "variance"),
        ("variance_predictions", PREDICTIONS, run, "variance"),
    )
}


# --- In two passes ----------------------------------------------------------------------------


@of("two_pass")
class one_pass:
    message = N_(
        "The variance is mean(x²) - mean(x)²: one pass, right on paper. Both terms are large, and "
        "rounded: in float32, those of [10000, 10002] are multiples of 8, and their difference is "
        "0 instead of 1. Subtract the mean first, then square."
    )

    def var(wide, axis):
        return np.mean(wide**2, axis=axis) - np.mean(wide, axis=axis) ** 2


@of("two_pass")
class one_pass_clipped:
    message = N_(
        "mean(x²) - mean(x)² is computed, and what falls below 0 is set to 0. That hides the nan "
        "of the root, but the digits are lost all the same: in float32, [10000, 10002] has 0 "
        "instead of 1. Subtract the mean first, then square."
    )

    def var(wide, axis):
        return np.maximum(np.mean(wide**2, axis=axis) - np.mean(wide, axis=axis) ** 2, 0)


@of("two_pass")
class one_pass_in_float64:
    message = N_(
        "The variance is mean(x²) - mean(x)², in float64. That only moves the limit: near 10¹⁸, "
        "float64 has the multiples of 128, and [10⁹, 10⁹ + 2] has the variance 0 instead of 1. "
        "Subtract the mean first, then square."
    )

    def var(x):
        x = x.astype(float)
        return np.mean(x**2, axis=0) - np.mean(x, axis=0) ** 2


@of("two_pass")
class always_float32:
    message = N_(
        "x becomes float32 whatever it was. That takes half of the digits of float64 away: in "
        "float32, 40 000 002 is 40 000 000. Leave float64 as it is; where float16 must become "
        "wider, np.result_type(x, np.float32) does both."
    )

    def wide(x):
        return x.astype(np.float32)


@of("two_pass")
class divided_by_n_minus_1:
    message = N_(
        "The sum of the squares is divided by n - 1. That estimates the variance of a population "
        "from a sample; here the variance of the n values themselves is asked for, and a norm "
        "uses that one. For [0, 2, 4, 6] it is 5, not 6.67."
    )

    def var(squares, axis):
        return np.sum(squares, axis=axis) / (np.size(squares) / np.sum(squares, axis).size - 1)


@of("two_pass")
class not_divided:
    message = N_(
        "The squared deviations are summed, but the sum is not divided by their number. The "
        "variance is their mean: for [0, 2, 4, 6] it is 5, not 20."
    )

    def var(squares, axis):
        return np.sum(squares, axis=axis)


@of("two_pass")
class divided_by_size:
    message = N_(
        "The sum of the squares is divided by x.size. That counts all entries of x, in a table "
        "those of every column. The values are x[0], x[1], …: their number is len(x)."
    )

    def var(squares, axis):
        return np.sum(squares, axis=axis) / np.size(squares)


@of("two_pass")
class sums_divided_by_size:
    message = N_(
        "Both sums, that of the mean and that of the squares, are divided by x.size. That counts "
        "all entries of x, in a table those of every column. The values are x[0], x[1], …: their "
        "number is len(x)."
    )

    def mean(wide, axis):
        return np.sum(wide, axis=axis, keepdims=True) / np.size(wide)

    def var(squares, axis):
        return np.sum(squares, axis=axis) / np.size(squares)


@of("two_pass")
class divided_by_n_plus_1:
    message = N_(
        "The sum of the squares is divided by n + 1. The variance is the mean of the n squares: "
        "for [0, 2, 4, 6] it is 5, not 4."
    )

    def var(squares, axis):
        return np.sum(squares, axis=axis) / (np.size(squares) / np.sum(squares, axis).size + 1)


@of("two_pass")
class along_the_last_axis:
    message = N_(
        "The variance runs over the last axis. The values are x[0], x[1], …: they lie along axis "
        "0, and each entry of x[0] gets a variance of its own."
    )

    def axis():
        return -1


@of("two_pass")
class along_axis_1:
    message = N_(
        "The means run along axis 1, which an array with one axis does not even have. The values "
        "are x[0], x[1], …: they lie along axis 0, and each entry of x[0] gets a variance of its "
        "own."
    )

    def axis():
        return 1


@of("two_pass")
class over_everything:
    message = N_(
        "One variance is computed over all of x. The values are x[0], x[1], …: they lie along "
        "axis 0, and each entry of x[0] gets a variance of its own. Pass axis=0 to both means."
    )

    def axis():
        return None


@of("two_pass")
class mean_over_everything:
    message = N_(
        "The mean that is subtracted is one number for all of x: mean() has no axis there. Each "
        "entry of x[0] has a mean of its own, over x[0], x[1], …: pass axis=0."
    )

    def mean(wide):
        return np.mean(wide, keepdims=True)


@of("two_pass")
class one_mean_of_squares:
    message = N_(
        "The squared deviations are right, but their mean is taken over all of x: mean() has no "
        "axis there, and one number is left. Each entry of x[0] has a variance of its own: pass "
        "axis=0."
    )

    def var(squares):
        return np.mean(squares)


@of("two_pass")
class standard_deviation:
    message = N_(
        "The standard deviation is returned: the root of the variance. A norm adds eps to the "
        "variance before it takes the root. For [0, 2, 4, 6] the variance is 5."
    )

    def result(var):
        return np.sqrt(var)


@of("two_pass")
class absolute_deviations:
    message = N_(
        "The absolute deviations are averaged instead of their squares. That measures spread too, "
        "but is not the variance: for [0, 2, 4, 6] it is 2, the variance 5."
    )

    def squares(deviations):
        return np.abs(deviations)


@of("two_pass")
class deviations_not_squared:
    message = N_(
        "The deviations from the mean are averaged before they are squared, or are not squared at "
        "all. Those above and below the mean cancel: the result is 0, rounding aside, for any x."
    )

    def squares(deviations):
        return deviations


@of("two_pass")
class only_the_mean_squared:
    message = N_(
        "The square is that of the mean alone: x - mean ** 2. The power comes before the "
        "difference: put that in brackets, (x - mean) ** 2. For [0, 2, 4, 6] the variance is 5, "
        "not -6."
    )

    def squares(wide, mean):
        return wide - mean**2


@of("two_pass")
class mean_of_squares:
    message = N_(
        "The mean is not subtracted: this is mean(x²), as in RMSNorm. For [0, 2, 4, 6] it is 14, "
        "the variance 5; the difference is the square of the mean."
    )

    def deviations(wide):
        return wide


@of("two_pass")
class about_the_first_value:
    message = N_(
        "The squares are those of the distances from the first value, which is not the mean. "
        "Subtracting x[0] first is a good idea, but then the square of the mean of the "
        "differences has to go too: for [0, 2, 4, 6], 14 - 9 = 5."
    )

    def mean(wide):
        return wide[:1]


# --- In half precision ------------------------------------------------------------------------


@of("half_precision")
class all_in_half:
    message = N_(
        "The mean, the deviations and the squares have the dtype of x. float16 ends at 65 504, so "
        "the square of 256 is infinite already, and the mean is rounded. Converting the result "
        "comes too late: make x float32 first."
    )

    def wide(x):
        return x


@of("half_precision")
class sums_in_half:
    message = N_(
        "The sums are added up in the dtype of x. In float16 they end at 65 504: 64 values of "
        "2 000 are enough to reach infinity. np.sum and np.var do that (np.mean adds up in "
        "float32, and rounds at the end). Make x float32 first."
    )

    def wide(x):
        return x

    def mean(x):
        return np.sum(x, axis=0, keepdims=True) / len(x)

    def var(squares):
        return np.sum(squares, axis=0) / len(squares)


@of("half_precision")
class squares_in_half:
    message = N_(
        "The deviations are squared in the dtype of x, before the sum is made in a wider one. In "
        "float16 the square of 256 is infinite already. Make x float32 first, before the "
        "squares."
    )

    def squares(x, deviations):
        return (deviations.astype(x.dtype) ** 2).astype(deviations.dtype)


@of("half_precision")
class mean_in_half:
    message = N_(
        "The mean is rounded to the dtype of x before it is subtracted. Above 2048, float16 only "
        "has every second number, and the variance grows by the square of the error: for "
        "[2048, 2050] it becomes 2 instead of 1."
    )

    def mean(x, wide, axis):
        return np.mean(wide, axis=axis, keepdims=True).astype(x.dtype)


@of("half_precision")
class mean_summed_in_half:
    message = N_(
        "The mean is made of a sum in the dtype of x. In float16 that ends at 65 504: 64 values of "
        "2 000 are enough to reach infinity. Make x float32 before the sum."
    )

    def mean(x):
        return np.sum(x, axis=0, keepdims=True) / len(x)


@of("half_precision")
class result_in_half:
    message = N_(
        "The variance is rounded to the dtype of x at the end. A variance is a square: values of "
        "300 and -300 fit into float16, their variance, 90 000, does not. Return float32; only "
        "the output of a norm goes back to the dtype of x."
    )

    def result(x, var):
        return var.astype(x.dtype)


@of("half_precision")
class overflow_clipped:
    message = N_(
        "Squares that overflow are cut to the largest number of the dtype, 65 504 in float16. "
        "The infinity is gone, the error is not: the square of 300 is 90 000. Make x float32 "
        "first, and nothing overflows."
    )

    def squares(x, deviations):
        squares = np.minimum(deviations.astype(x.dtype) ** 2, np.finfo(x.dtype).max)
        return squares.astype(deviations.dtype)


@of("half_precision")
class mean_always_float32:
    message = N_(
        "The mean is float32 whatever x was. That is right for float16; of float64 numbers, "
        "float32 keeps seven digits, and the mean of 40 000 000 and 40 000 002 becomes "
        "40 000 000. Ask for at least float32: np.result_type(x, np.float32)."
    )

    def mean(wide, axis):
        return np.mean(wide, axis=axis, keepdims=True).astype(np.float32)


# --- Value by value ---------------------------------------------------------------------------


@of("welford")
class old_mean_twice:
    message = N_(
        "M2 grows by the square of the distance from the old mean. One factor must be taken from "
        "the old mean and one from the new: (x - old)·(x - new). For [0, 2, 4, 6] M2 becomes 29 "
        "instead of 20."
    )

    def new_m2(m2, before):
        return m2 + before**2


@of("welford")
class new_mean_twice:
    message = N_(
        "M2 grows by the square of the distance from the new mean: the mean was updated before "
        "the distance from the old one was stored. One factor must be taken from the old mean and "
        "one from the new. For [0, 2, 4, 6] M2 becomes 14 instead of 20."
    )

    def new_m2(m2, after):
        return m2 + after**2


@of("welford")
class divided_by_old_count:
    message = N_(
        "The step of the mean is divided by the number of values before this one. At the first "
        "value that is 0, hence inf or nan. Count the value first, then divide."
    )

    def new_mean(mean, before, n):
        return mean + before / n


@of("welford")
class divided_by_old_count_or_1:
    message = N_(
        "The step of the mean is divided by the number of values before this one, or by 1 where "
        "there is none. That number lacks the value itself: the second one pulls the mean all the "
        "way. Count the value first, then divide."
    )

    def new_mean(mean, before, n):
        return mean + before / max(n, 1)


@of("welford")
class divided_by_count_plus_1:
    message = N_(
        "The step of the mean is divided by n + 1 after the value was counted: it is counted "
        "twice. Divide by the new n, or by n + 1 before n goes up."
    )

    def new_mean(mean, before, count):
        return mean + before / (count + 1)


@of("welford")
class step_rounded_down:
    message = N_(
        "The step of the mean is rounded down to an integer: // divides that way. Divide with /."
    )

    def new_mean(mean, before, count):
        return mean + before // count


@of("welford")
class count_starts_at_one:
    message = N_(
        "The count starts at 1, so that n is one too large in the end. The mean then counts a "
        "value 0 that nobody gave. Start at 0, and add 1 for each value."
    )

    def n():
        return 1


@of("welford")
class first_value_twice:
    message = N_(
        "The first value counts twice: n and the mean start with it, and the loop begins with it "
        "again. Start with zeros, or let the loop begin with x[1]."
    )

    def n():
        return 1

    def mean(x):
        return x[0]


@of("welford")
class returned_in_the_loop:
    message = N_(
        "Only the first value is seen: the return stands inside the loop, which it ends. Indent "
        "it as far as the for."
    )

    def moments(x):
        return 1, x[0] * 1.0, x[0] * 0.0


@of("welford")
class value_over_n:
    message = N_(
        "The mean grows by value / n. It must move by (value - mean)/n, towards the new value: a "
        "value that equals the mean leaves it where it is."
    )

    def new_mean(mean, value, count):
        return mean + value / count


@of("welford")
class halfway_to_the_value:
    message = N_(
        "The mean becomes (mean + value)/2: each new value counts as much as all before it "
        "together. It must move by (value - mean)/n, less and less."
    )

    def new_mean(mean, value):
        return (mean + value) / 2


@of("welford")
class step_not_divided:
    message = N_(
        "The mean moves by value - mean, so it is always the last value. The step is divided by "
        "n, the number of values so far, this one included."
    )

    def new_mean(mean, before):
        return mean + before


@of("welford")
class sum_for_mean:
    message = N_(
        "The mean is the sum of the values: the division by n is missing. With each value the "
        "mean moves by (value - mean)/n."
    )

    def new_mean(mean, value):
        return mean + value


@of("welford")
class m2_divided_at_each_step:
    message = N_(
        "What M2 grows by is divided by n at each step. M2 is a sum of squares; only in the end, "
        "to have the variance, is it divided, once, by the number of all values."
    )

    def new_m2(m2, before, after, count):
        return m2 + before * after / count


@of("welford")
class m2_not_accumulated:
    message = N_(
        "M2 is replaced at each value instead of growing: only the last value counts. Add to "
        "what was there: m2 += (value - old mean)·(value - new mean)."
    )

    def new_m2(before, after):
        return before * after


@of("welford")
class one_difference_reversed:
    message = N_(
        "M2 goes down instead of up: one of the two differences is value - mean, the other mean - "
        "value. The old and the new mean lie on the same side of the value, so that with equal "
        "signs the product is never negative."
    )

    def after(value, new_mean):
        return new_mean - value


@of("welford")
class sums_of_squares:
    message = N_(
        "The values and their squares are summed, and M2 is Σx² - n·mean². That needs one pass, "
        "but subtracts two large, nearly equal numbers: in float32, [10000, 10002] has 0 instead "
        "of 2. Welford's M2 only ever adds what is small."
    )

    def new_m2(m2, value):
        return m2 + value**2

    def moments(n, mean, m2):
        return n, mean, m2 - n * mean**2


@of("welford")
class sums_of_squares_in_float64:
    message = N_(
        "The values and their squares are summed in float64, and M2 is Σx² - n·mean². That only "
        "moves the limit: near 10¹⁸, float64 has the multiples of 128, and [10⁹, 10⁹ + 2] has "
        "M2 = 0 instead of 2. Welford's M2 only ever adds what is small."
    )

    def new_mean(mean, value, count):
        return mean + (np.asarray(value, dtype=float) - mean) / count

    def new_m2(m2, value):
        return m2 + np.asarray(value, dtype=float) ** 2

    def moments(n, mean, m2):
        return n, mean, m2 - n * mean**2


@of("welford")
class values_in_float32:
    message = N_(
        "The values become float32 whatever they were. That takes half of the digits of float64 "
        "away: in float32, 40 000 002 is 40 000 000, and M2 of both is 0 instead of 2. Leave "
        "them as they are."
    )

    def before(value, mean):
        return np.asarray(value, dtype=np.float32) - mean

    def after(value, new_mean):
        return np.asarray(value, dtype=np.float32) - new_mean


@of("welford")
class m2_divided_by_n:
    message = N_(
        "The variance M2/n is returned in the place of M2. M2 is the sum of the squared distances "
        "from the mean; undivided, it can be merged, and lets the caller choose between n and "
        "n - 1. For [0, 2, 4, 6] it is 20."
    )

    def moments(n, mean, m2):
        return n, mean, m2 / n


@of("welford")
class m2_divided_by_n_minus_1:
    message = N_(
        "The unbiased variance M2/(n - 1) is returned in the place of M2. M2 is the sum of the "
        "squared distances from the mean; undivided, it can be merged, and lets the caller choose. "
        "For [0, 2, 4, 6] it is 20."
    )

    def moments(n, mean, m2):
        return n, mean, m2 / (n - 1)


@of("welford")
class n_at_the_end:
    message = N_(
        "The three come in another order: mean, M2, n. They are asked for as n, mean, M2, and who "
        "takes them apart goes by the order."
    )

    def moments(n, mean, m2):
        return mean, m2, n


# --- Chunk by chunk ---------------------------------------------------------------------------


@of("merge")
class means_averaged:
    message = N_(
        "The mean is (mean_a + mean_b)/2. That is right for chunks of equal size only: of [1] and "
        "[3, 5, 7] it makes 3 instead of 4. Each mean weighs as much as its chunk has values."
    )

    def mean(a, b):
        return (a[1] + b[1]) / 2


@of("merge")
class means_added:
    message = N_(
        "The two means are added. The common mean lies between them: from mean_a, go the part "
        "n_b/n of the way to mean_b. For [1] and [3, 5, 7] it is 4, not 6."
    )

    def mean(a, b):
        return a[1] + b[1]


@of("merge")
class weights_swapped:
    message = N_(
        "The weights of the two means are swapped: the mean of the small chunk counts for the "
        "large one. From mean_a, go the part n_b/n of the way to mean_b: for [1] and [3, 5, 7] "
        "the mean is 4, not 2."
    )

    def mean(a, delta, share):
        return a[1] + delta * (1 - share)


@of("merge")
class away_from_b:
    message = N_(
        "The mean moves away from that of b: δ has the wrong sign. With δ = mean_b - mean_a, the "
        "mean is mean_a + δ·n_b/n, and lies between the two."
    )

    def mean(a, delta, share):
        return a[1] - delta * share


@of("merge")
class mean_of_a:
    message = N_(
        "The mean is that of a alone: b is only counted. From mean_a, it must go the part n_b/n "
        "of the way to mean_b."
    )

    def mean(a):
        return a[1]


@of("merge")
class between_forgotten:
    message = N_(
        "M2 is the sum of the two, without δ²·n_a·n_b/n. Each M2 is measured from the mean of its "
        "own chunk; when these differ, the chunks also spread about the common mean. [1] and "
        "[3, 5, 7] have M2 = 20, not 8."
    )

    def between():
        return 0.0


@of("merge")
class delta_from_the_new_mean:
    message = N_(
        "δ is the distance of mean_b from the new mean. In δ²·n_a·n_b/n it is that of the two old "
        "means, mean_b - mean_a: compute it before the mean changes. [1] and [3, 5, 7] then have "
        "M2 = 20, not 8.75."
    )

    def between(a, b, mean, share):
        return (b[1] - mean) ** 2 * (a[0] * share)


@of("merge")
class delta_not_squared:
    message = N_(
        "δ is not squared in δ²·n_a·n_b/n. As it is, what M2 gains depends on which chunk comes "
        "first, and may be negative; and its unit is that of x, not of x²."
    )

    def between(a, delta, share):
        return delta * (a[0] * share)


@of("merge")
class between_subtracted:
    message = N_(
        "δ²·n_a·n_b/n is subtracted; it must be added. Joining two chunks with different means "
        "adds spread; with the minus sign, M2 may even become negative."
    )

    def between(a, delta, share):
        return -(delta**2) * (a[0] * share)


@of("merge")
class between_not_divided:
    message = N_(
        "δ²·n_a·n_b lacks the division by n = n_a + n_b. [1] and [3, 5, 7] then have M2 = 56 "
        "instead of 20."
    )

    def between(a, b, delta):
        return delta**2 * (a[0] * b[0])


@of("merge")
class between_divided_twice:
    message = N_(
        "δ²·n_a·n_b is divided by n². That would be right for variances; M2 is n times the "
        "variance, so one division is enough: δ²·n_a·n_b/n."
    )

    def between(delta, share):
        return delta**2 * share * (1 - share)


@of("merge")
class between_without_a:
    message = N_(
        "δ²·n_b/n lacks the factor n_a. The term must be the same when the two chunks are "
        "swapped, and 0 when one of them is empty: δ²·n_a·n_b/n."
    )

    def between(delta, share):
        return delta**2 * share


@of("merge")
class m2_averaged:
    message = N_(
        "The two M2 are averaged. They are sums, of n_a and of n_b squares: the M2 of both "
        "begins with their sum. (Variances would be averaged, weighted with n_a and n_b.)"
    )

    def within(a, b):
        return (a[2] + b[2]) / 2


@of("merge")
class m2_weighted:
    message = N_(
        "The two M2 are averaged with the weights n_a/n and n_b/n. That is how variances are "
        "averaged; M2 is not divided by the number of values, so the two are simply added."
    )

    def within(a, b, share):
        return a[2] * (1 - share) + b[2] * share


@of("merge")
class m2_times_n:
    message = N_(
        "Each M2 is multiplied by the number of its values. That would be right for variances; M2 "
        "is n times the variance already, so the two are simply added."
    )

    def within(a, b):
        return a[0] * a[2] + b[0] * b[2]


@of("merge")
class variance_merged:
    message = N_(
        "The variance is returned in the place of M2. M2 is the sum of the squared distances; "
        "undivided, it can be merged with the next chunk. Divide by n once, at the end."
    )

    def m2(within, between, n):
        return (within + between) / max(n, 1)


@of("merge")
class a_for_any_empty_chunk:
    message = N_(
        "a is returned when either chunk is empty. If a is the empty one, the values of b are "
        "lost: return b then."
    )

    def moments(a, b, n, mean, m2):
        return (n, mean, m2) if a[0] and b[0] else tuple(a)


@of("merge")
class m2_before_mean:
    message = N_(
        "The three come in another order: n, M2, mean. They are asked for as n, mean, M2, and who "
        "takes them apart goes by the order."
    )

    def moments(n, mean, m2):
        return n, m2, mean


@of("merge")
class empty_chunks_refused:
    message = N_(
        "Two empty chunks raise an exception: the division by n = 0. Merging starts from nothing, "
        "and a chunk may be empty: of two empty ones, return either."
    )

    def share(b, n):
        return b[0] / n


@of("merge")
class empty_chunks_nan:
    message = N_(
        "Two empty chunks give nan: 0/0, for n = 0. One nan spoils everything that is merged "
        "with it later: of two empty chunks, return either."
    )

    def share(b, n):
        return np.float64(b[0]) / n


# --- Where it breaks --------------------------------------------------------------------------


@of("first_failure")
class nan_passes:
    message = N_(
        "A nan passes for a good variance: every comparison with nan is False, so error > 0.1 is "
        "False too. Ask for what must hold, and negate that: not (error <= 0.1)."
    )

    def failed(error):
        return error > 0.1


@of("first_failure")
class too_small_passes:
    message = N_(
        "The error has a sign: v - σ² is negative where the variance v is too small, hence below "
        "every limit. A variance of 0, or of -8, then counts as good. Take the absolute "
        "value."
    )

    def error(found, right):
        return (found - right) / right


@of("first_failure")
class too_large_passes:
    message = N_(
        "The error has a sign: σ² - v is negative where the variance v is too large, hence below "
        "every limit. An infinite variance then counts as good. Take the absolute value."
    )

    def error(found, right):
        return (right - found) / right


@of("first_failure")
class divided_by_the_found:
    message = N_(
        "The error is divided by the variance that was found. Where that is negative, as in one "
        "pass it may be, so is the error, and it lies below every limit. Divide by the right "
        "variance."
    )

    def error(found, right):
        return abs(found - right) / found


@of("first_failure")
class limit_of_10:
    message = N_(
        "The limit is 10, and that is 1000 %. A variance of 0 has the error 1 and counts as good. "
        "10 % is 0.1."
    )

    def failed(error):
        return not error <= 10


@of("first_failure")
class first_success:
    message = N_(
        "The condition is the wrong way round: the first offset at which the variance is right is "
        "returned. Return the first at which it is not."
    )

    def failed(error):
        return error <= 0.1


@of("first_failure")
class offset_not_added:
    message = N_(
        "The offset is never added: each time, the numbers as they came are tried. The variance to "
        "be judged, and the right one, are those of numbers + offset."
    )

    def shifted(numbers):
        return numbers


@of("first_failure")
class offsets_add_up:
    message = N_(
        "The offsets add up: numbers is replaced by numbers + offset, and the next offset is added "
        "to that. Give the sum a name of its own, so that each trial starts with the numbers as "
        "they came."
    )

    def shifted(numbers, tried):
        for offset in tried:
            numbers = numbers + offset
        return numbers


@of("first_failure")
class absolute_error:
    message = N_(
        "The error is not compared with the variance itself. An error of 1 is nothing next to a "
        "variance of 10 000, and everything next to 0.01: divide it by the right variance."
    )

    def error(found, right):
        return abs(found - right)


@of("first_failure")
class before_the_offset:
    message = N_(
        "The result is compared with the variance of the numbers before the offset was added. The "
        "addition rounds them: near 5 000, float16 has only every fourth number. That is not the "
        "fault of the method, which never saw others. Compare with that of numbers + offset."
    )

    def right(numbers):
        return np.var(numbers.astype(float))


@of("first_failure")
class right_in_the_same_dtype:
    message = N_(
        "The variance to compare with is computed in the dtype of the numbers, and so breaks down "
        "itself: in float16, np.var is infinite or nan where a sum exceeds 65 504. Convert to "
        "float64 first."
    )

    def right(shifted):
        return np.var(shifted)


@of("first_failure")
class right_in_two_passes:
    message = N_(
        "The variance to compare with is computed in two passes in the dtype of the numbers, and "
        "so breaks down itself: in float16, the square of 300 is infinite. Convert to float64 "
        "first."
    )

    def right(shifted):
        return np.mean((shifted - np.mean(shifted)) ** 2)


@of("first_failure")
class right_in_float32:
    message = N_(
        "The variance to compare with is computed in float32, and so breaks down itself: near "
        "10⁹, float32 has only the multiples of 64. Convert to float64."
    )

    def right(shifted):
        return np.var(shifted.astype(np.float32))


@of("first_failure")
class right_in_at_least_float32:
    message = N_(
        "The variance to compare with is computed in float32, unless the numbers are float64, and "
        "so breaks down itself: of 16 777 216 and 16 777 218 float32 does not hold the mean. "
        "Convert to float64."
    )

    def right(shifted):
        return np.var(shifted.astype(np.result_type(shifted, np.float32)))


@of("first_failure")
class right_unbiased:
    message = N_(
        "The variance to compare with is divided by n - 1. Those that are tried are divided by n: "
        "of -1 and 1 the one is 2, the other 1. Leave ddof out."
    )

    def right(shifted):
        return np.var(shifted.astype(float), ddof=1)


@of("first_failure")
class right_is_a_deviation:
    message = N_(
        "The standard deviation is what the variance is compared with. Compare with the variance: "
        "np.var, not np.std."
    )

    def right(shifted):
        return np.std(shifted.astype(float))


@of("first_failure")
class tried_in_float64:
    message = N_(
        "The method is given float64, whatever the numbers were: nothing breaks there. Keep their "
        "dtype. (A float32 array plus an offset taken from an array is float64, plus a plain "
        "Python number it stays float32.)"
    )

    def shifted(numbers, offset):
        return numbers.astype(float) + offset


@of("first_failure")
class only_the_first_offset:
    message = N_(
        "Only the first offset is tried: np.inf is returned in the loop as soon as one is right. "
        "That return belongs after the loop, once all have been tried."
    )

    def first(failures, offsets):
        return offsets[0] if offsets[0] in failures else np.inf


@of("first_failure")
class place_of_the_offset:
    message = N_(
        "The place of the offset in the list is returned; the offset itself was asked for."
    )

    def first(failures, offsets):
        return offsets.index(failures[0]) if failures else np.inf


@of("first_failure")
class last_success:
    message = N_(
        "The last offset at which the variance is still right is returned; the first at which it "
        "is wrong was asked for, the one after it."
    )

    def first(failures, offsets):
        before = dict(zip(offsets[1:], offsets, strict=False))
        return before.get(failures[0]) if failures else np.inf


@of("first_failure")
class always_inf:
    message = N_(
        "np.inf is returned each time: no offset ever fails. Print the error at each offset: it is "
        "that of numbers + offset, and where it is above 0.1 or nan, the offset must be returned."
    )

    def first():
        return np.inf


@of("first_failure")
class last_failure:
    message = N_(
        "The last offset at which the variance is wrong is returned; the first was asked for. "
        "Leave the loop as soon as one fails."
    )

    def first(failures):
        return failures[-1] if failures else np.inf


# --- What keeps its digits --------------------------------------------------------------------


@of("variance_predictions")
class near_denied:
    message = N_(
        "near: mean² is 100 here, and float32 rounds it by less than 0.00001: next to a variance "
        "of 1 that is nothing. One pass does no harm where the mean is not much larger than the "
        "spread."
    )

    def near():
        return False


@of("variance_predictions")
class far_accepted:
    message = N_(
        "far: mean² is 100 000 000 here. Of numbers of that size, float32 has only the multiples "
        "of 8, and the difference of two of them should be 1: no digit is left."
    )

    def far():
        return True


@of("variance_predictions")
class double_denied:
    message = N_(
        "double: float64 has about 16 digits. mean² = 100 000 000 is rounded by less than "
        "0.00000001: next to a variance of 1 that is nothing."
    )

    def double():
        return False


@of("variance_predictions")
class double_far_accepted:
    message = N_(
        "double_far: float64 only moves the limit. mean² is 10¹⁸ here; of numbers of that size, "
        "float64 has only the multiples of 128, and the difference should be 1."
    )

    def double_far():
        return True


@of("variance_predictions")
class spread_denied:
    message = N_(
        "spread: mean² is as large as in far, but so is the variance, 100 000 000: next to that, "
        "an error of 8 is nothing. What counts is the mean compared with the spread."
    )

    def spread():
        return False


@of("variance_predictions")
class narrow_accepted:
    message = N_(
        "narrow: mean² is only 100, but float32 rounds it to multiples of 0.0000076, and the "
        "variance is 0.00000001. What counts is the mean compared with the spread."
    )

    def narrow():
        return True


@of("variance_predictions")
class two_passes_denied:
    message = N_(
        "two_passes: subtracting the mean first leaves small numbers, and their squares are small "
        "too: nothing cancels. The error of the mean itself enters only by its square."
    )

    def two_passes():
        return False


@of("variance_predictions")
class half_accepted:
    message = N_(
        "half: two passes do not help where the sums overflow. 1024 numbers around 100 add up to "
        "102 400, and float16 ends at 65 504: the mean is infinite. Add up in float32."
    )

    def half():
        return True
