"""Finding bugs: the programs to mend, names for their faults, tests for them; and mistakes in both.

A test looks at what a program does, and compares that with what the mended program does.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from normkit.functions import layer_norm
from normkit.messages import N_
from normkit.mistakes.chains import (
    ALGORITHMS,
    Algorithm,
    Steps,
    chain,
    combine,
    mistakes_of,
    of,
    run,
)


@dataclass(frozen=True)
class Bug:
    """A program to mend: the algorithm that it should be, and the mistake in it.

    relatives: other mistakes of the same kind, which a good test catches as well.
    """

    algorithm: str
    mistake: str
    relatives: tuple[str, ...]

    def program(self, mistake: str = "") -> Any:
        """The right program, or the one with this mistake."""
        made = [m for m in mistakes_of(self.algorithm) if m.name == mistake]
        return combine(self.algorithm, *made)


BUGS = {
    name: Bug(algorithm, mistake, tuple(relatives))
    for name, algorithm, mistake, *relatives in (
        ("layer_norm", "layer_norm", "last_two_axes", "batch_axis", "all_but_batch"),
        ("batch_norm", "batch_norm_forward", "unbiased_variance", "sum_of_squares", "no_root"),
        ("rms_norm", "rms_norm", "eps_added_to_rms", "rms_without_eps", "rms_fixed_eps"),
        (
            *("running_batch_norm", "batch_norm_running"),
            *("swapped_momentum", "fixed_momentum", "never_updated"),
        ),
        ("group_norm", "group_norm", "group_size_for_number", "one_group", "groups_interleaved"),
        (
            *("batch_norm_layer", "BatchNorm"),
            *("eval_ignored", "updated_in_evaluation", "batch_in_inference"),
        ),
        ("layer_norm_layer", "LayerNorm", "gamma_per_example", "gamma_per_position"),
        ("post_block", "post_block", "nested_residuals", "parallel_branches", "stale_stream"),
        (
            *("fold_affine", "fold_affine"),
            *("folded_into_previous", "new_weight_on_beta", "old_bias_lost"),
        ),
        (
            *("deepnorm_constants", "deepnorm_constants"),
            *("alpha_below_one", "square_root", "two_and_eight_exchanged"),
        ),
    )
}

CODES = (
    *("axes", "eps", "groups", "layer", "mean", "mode", "momentum", "order"),
    *("residual", "shape", "sign", "start", "variance"),
)


@chain
class NAMES:
    def layer_norm():
        return "axes"

    def batch_norm():
        return "variance"

    def rms_norm():
        return "eps"

    def running_batch_norm():
        return "momentum"

    def group_norm():
        return "groups"

    def batch_norm_layer():
        return "mode"

    def layer_norm_layer():
        return "shape"

    def post_block():
        return "residual"

    def fold_affine():
        return "layer"

    def deepnorm_constants():
        return "sign"


@chain
class TEST:
    def look(bug):
        return LOOKS[bug]

    def expected(look, mended):
        return look(mended)

    def seen(look, function):
        return look(function)

    def alike():
        return lambda a, b: np.allclose(a, b, atol=1e-5)

    def told(alike, seen, expected):
        assert alike(seen, expected)


def _flat(*results: Any) -> np.ndarray:
    """All numbers of some results in a row."""
    arrays = [r.detach().numpy() if hasattr(r, "detach") else np.asarray(r) for r in results]
    return np.concatenate([array.ravel() for array in arrays])


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape) * 2 + 1


def _tensor(*shape: int) -> Any:
    import torch

    return torch.from_numpy(_random(*shape).astype("f"))


@chain
class LOOKS:
    """What a good test of each program looks at."""

    def layer_norm(function):
        return _flat(function(_random(2, 3, 4), np.array([1, 2, 3, 4]), np.array([0, 1, 0, 2])))

    def batch_norm(function):
        return _flat(function(_random(4, 3), np.array([1, 2, 3]), np.array([0, 1, 2])))

    def rms_norm(function):
        return _flat(function(_random(2, 3) * 1e-3, np.array([1, 2, 3]), eps=1e-4))

    def running_batch_norm(function):
        start = np.array([1, 2, 3]), np.array([1, 2, 4])
        return _flat(*function(_random(4, 3), np.ones(3), np.zeros(3), *start, momentum=0.3))

    def group_norm(function):
        return _flat(function(_random(2, 6, 3), 2, np.arange(1, 7), np.arange(6)))

    def batch_norm_layer(function):
        layer = function(3)
        trained = layer(_tensor(5, 3))
        layer.eval()
        return _flat(trained, layer(_tensor(4, 3)), layer.running_mean, layer.running_var)

    def layer_norm_layer(function):
        layer = function(4)
        count = sum(parameter.numel() for parameter in layer.parameters())
        return _flat(layer(_tensor(2, 3, 4)), count)

    def post_block(function):
        branches = np.tanh, lambda v: v @ _random(3, 3)
        return _flat(function(_random(2, 3), *branches, [layer_norm, layer_norm]))

    def fold_affine(function):
        gamma, beta = np.array([1.0, 2, 3]), np.array([1.0, 0, 2])
        return _flat(*function(_random(3, 3), _random(3), gamma, beta))

    def deepnorm_constants(function):
        return _flat(function(0, 18)["decoder"])


def _names(steps: Steps) -> dict[str, str]:
    return {name: step() for name, step in steps.items()}


def _test(bug: str, steps: Steps) -> Callable:
    programs = {"mended": BUGS[bug].program(), "given": BUGS[bug].program(BUGS[bug].mistake)}

    def test(function):
        return run(steps, bug=bug, function=function, **programs)["told"]

    return test


def _own(bug: str) -> str:
    return f"test_{bug}"


ALGORITHMS["fault_names"] = Algorithm(NAMES, _names, "mistakes", "test")
ALGORITHMS["program_test"] = Algorithm(TEST, None, "mistakes", "test")
ALGORITHMS |= {
    _own(bug): Algorithm(TEST, partial(_test, bug), "mistakes", "test", ("program_test",))
    for bug in BUGS
}


# --- Names for faults: what is taken for the fault instead ------------------------------------
# The page of mistakes does not show these, which would give the right names away.

FINDING = "test-finding"  # there, the section on finding faults


@of("fault_names")
class gamma_blamed:
    label = FINDING
    message = N_(
        "layer_norm: the shape of gamma and beta is right, one number per feature. Ask which "
        "numbers share a mean: give it a batch of two, and change one example only."
    )

    def layer_norm():
        return "shape"


@of("fault_names")
class axis_of_the_batch_blamed:
    label = FINDING
    message = N_(
        "batch_norm: axis 0 is right, each channel is normalised over the examples. Compute the "
        "output for two rows by hand: it must be 1 and -1, up to eps."
    )

    def batch_norm():
        return "axes"


@of("fault_names")
class missing_mean_blamed:
    label = FINDING
    message = N_(
        "rms_norm: no mean is missing, RMSNorm subtracts none. Try features as small as the root "
        "of eps, where its place matters."
    )

    def rms_norm():
        return "mean"


@of("fault_names")
class unbiased_update_blamed:
    label = FINDING
    message = N_(
        "running_batch_norm: the two variances are right. The output takes the biased one, "
        "running_var the unbiased one. Work one update by hand, with momentum = 0.1."
    )

    def running_batch_norm():
        return "variance"


@of("fault_names")
class group_axes_blamed:
    label = FINDING
    message = N_(
        "group_norm: a mean runs over the numbers of one group, as it should. Count the groups, "
        "for 6 channels and num_groups = 2."
    )

    def group_norm():
        return "axes"


@of("fault_names")
class layer_momentum_blamed:
    label = FINDING
    message = N_(
        "batch_norm_layer: momentum is the share of the new batch, as in PyTorch. Ask what "
        "changes in forward after layer.eval()."
    )

    def batch_norm_layer():
        return "momentum"


@of("fault_names")
class layer_axes_blamed:
    label = FINDING
    message = N_(
        "layer_norm_layer: the mean and the variance run over the features of a token, as they "
        "should. Ask what the optimiser finds in a new layer."
    )

    def layer_norm_layer():
        return "axes"


@of("fault_names")
class sublayers_blamed:
    label = FINDING
    message = N_(
        "post_block: attention comes before the feed-forward part, as it should. Follow what is "
        "added to what, with the blocks of the formula beside it."
    )

    def post_block():
        return "order"


@of("fault_names")
class weight_shape_blamed:
    label = FINDING
    message = N_(
        "fold_affine: the shape is an effect. A weight that is not square fails because gamma "
        "meets the outputs of a layer; ask on which side of the norm that layer stands."
    )

    def fold_affine():
        return "shape"


@of("fault_names")
class initial_values_blamed:
    label = FINDING
    message = N_(
        "deepnorm_constants: beta is a gain for the initial weights, and it is right. Compute "
        "alpha for 8 layers: it must be 2."
    )

    def deepnorm_constants():
        return "start"


# --- Tests that cannot fail -------------------------------------------------------------------


@of("program_test")
class program_not_called:
    message = N_(
        "Your test never calls the function that it is given. Perhaps it calls one of the "
        "notebook by its name: then it tests the same program every time. Call the argument, "
        "function(...)."
    )

    def seen(look, mended):
        return look(mended)


@of("program_test")
class error_caught:
    message = N_(
        "Your test catches the AssertionError: an except (for Exception, or without a class) "
        "ends it in silence. A test fails by raising. Leave out the try."
    )

    def told(alike, seen, expected):
        try:
            assert alike(seen, expected)
        except AssertionError:
            print("wrong")


@of("program_test")
class truth_returned:
    message = N_(
        "Your test returns its result, True or False. Nobody looks at what a test returns: it "
        "fails only by raising. Write assert before the comparison instead of return."
    )

    def told(alike, seen, expected):
        return alike(seen, expected)


@of("program_test")
class result_printed:
    message = N_(
        "Your test prints its result. Someone must then read it each time; a test fails by "
        "raising. Write assert before the comparison instead of print."
    )

    def told(alike, seen, expected):
        print("right" if alike(seen, expected) else "wrong")


@of("program_test")
class tuple_asserted:
    message = N_(
        "Your test cannot fail, whatever numbers come. Perhaps it asserts a tuple: assert (a, b) "
        "is always true; the message of an assert goes without brackets, assert a, b. Or it "
        "compares, and asserts nothing."
    )

    def told(alike, seen, expected):
        claim = (alike(seen, expected), "the numbers differ")
        assert claim


@of("program_test")
class compared_with_itself:
    message = N_(
        "Your test compares the function with itself: the expected numbers come from the function "
        "that is tested, so they always agree. Take them from a calculation by hand, or from a "
        "program that you trust."
    )

    def seen(look, function):
        return look(function)

    def expected(look, function):
        return look(function)


@of("program_test")
class shapes_compared:
    message = N_(
        "Your test looks at the shape of the result only. Most bugs return the right shape with "
        "wrong numbers: compare the numbers."
    )

    def alike():
        return lambda a, b: np.shape(a) == np.shape(b)


# --- Tests that refuse what is right ----------------------------------------------------------


@of("program_test")
class expected_from_wrong:
    message = N_(
        "Your test refuses the right program and accepts the wrong one: its expected numbers are "
        "those of the program that you were given. Compute them by hand, or with a program that "
        "you trust."
    )

    def expected(look, given):
        return look(given)


@of("program_test")
class rounded_numbers:
    message = N_(
        "Your test refuses the right program. Are the expected numbers right, or do you compare "
        "with ==? Rounded numbers, and those of a float32 layer of torch, need a tolerance that "
        "fits: with four digits after the point, np.allclose(a, b, atol=1e-4)."
    )

    def expected(look, mended):
        return np.round(look(mended), 2)


@of("program_test")
class broken_off:
    message = N_(
        "Your test breaks off on the right program, with the error below instead of an "
        "AssertionError. Call it on your mended program to find the line. Perhaps it mixes arrays "
        "with tensors, or float64 numbers with a float32 layer of torch."
    )

    def seen(look, function):
        return look(function).detach()


@of("program_test")
class equality_demanded:
    message = N_(
        "Your test asks for exact equality. Written in another way, the same formula gives other "
        "last digits, and your test refuses a right program. Compare up to rounding: "
        "np.allclose(a, b), not a == b."
    )

    def alike():
        return np.array_equal


# --- Tests that look where the fault does not show --------------------------------------------


@of("test_layer_norm")
class lone_token:
    message = N_(
        "The fault does not show on your input. Where there is one token, nothing can leak from "
        "another: give the function several, and compare numbers."
    )

    def look():
        return lambda f: _flat(f(_random(1, 4), np.array([1, 2, 3, 4]), np.zeros(4)))


@of("test_layer_norm")
class rows_alone:
    message = N_(
        "Your test gives the function rows, (N, D). In sequences, (N, T, D), tokens of the same "
        "example can share a mean, which rows cannot show: test them too."
    )

    def look():
        return lambda f: _flat(f(_random(5, 4), np.array([1, 2, 3, 4]), np.zeros(4)))


@of("test_batch_norm")
class many_rows:
    message = N_(
        "The fault does not show on your input, or in what you compare. For many rows it makes "
        "next to no difference, and signs and means are the same: take three rows or four, and "
        "compare numbers."
    )

    def look():
        return lambda f: _flat(f(_random(100_000, 2), np.array([1, 2]), np.zeros(2)))


@of("test_rms_norm")
class large_features:
    message = N_(
        "The fault does not show on your input. For features of about 1, eps is too small to be "
        "seen, wherever it stands. Take features of about 0.001, or a large eps."
    )

    def look():
        return lambda f: _flat(f(_random(2, 3) * 10, np.array([1, 2, 3])))


@of("test_rms_norm")
class usual_eps:
    message = N_(
        "Your test leaves eps as it is by default. A program that ignores the argument passes "
        "it: give eps another value."
    )

    def look():
        return lambda f: _flat(f(_random(2, 3) * 1e-3, np.array([1, 2, 3])))


@of("test_running_batch_norm")
class momentum_one_half:
    message = N_(
        "The fault does not show on your input, or in what you compare. The old value and the "
        "batch must have different shares and be different numbers; and compare what is "
        "returned beside y."
    )

    def look():
        start = np.array([1, 2, 3]), np.array([1, 2, 4])
        return lambda f: _flat(*f(_random(4, 3), np.ones(3), np.zeros(3), *start, momentum=0.5))


@of("test_running_batch_norm")
class usual_momentum:
    message = N_(
        "Your test leaves momentum at 0.1. A program that always takes 0.1, whatever it is "
        "asked for, passes it: give momentum another value."
    )

    def look():
        start = np.array([1, 2, 3]), np.array([1, 2, 4])
        return lambda f: _flat(*f(_random(4, 3), np.ones(3), np.zeros(3), *start))


@of("test_group_norm")
class square_number_of_channels:
    message = N_(
        "The fault does not show on your input. Are there as many groups as channels in a "
        "group? Take a number of channels that is no square, and the number of groups neither "
        "1 nor all."
    )

    def look():
        return lambda f: _flat(f(_random(2, 4, 3), 2, np.ones(4), np.zeros(4)))


@of("test_group_norm")
class one_group_tried:
    message = N_(
        "Your test asks for one group only. Then it cannot tell whether num_groups is obeyed, nor "
        "which channels are together: ask for another number, such as 2 of 6 channels."
    )

    def look():
        return lambda f: _flat(f(_random(2, 6, 3), 1, np.ones(6), np.zeros(6)))


@of("test_batch_norm_layer")
class evaluation_forgotten:
    message = N_(
        "The fault does not show where your test looks. In training the given layer is right: "
        "train a layer on a batch, call eval(), and give it another batch."
    )

    def look():
        return lambda f: _flat(f(3)(_tensor(5, 3)))


@of("test_batch_norm_layer")
class statistics_alone:
    message = N_(
        "Your test looks at the running statistics only. A layer may leave them alone in "
        "evaluation and still normalise with the batch: compare its output too."
    )

    def look():
        def look(function):
            layer = function(3)
            layer(_tensor(5, 3))
            layer.eval()
            return _flat(layer(_tensor(4, 3))[:0], layer.running_mean, layer.running_var)

        return look


@of("test_layer_norm_layer")
class first_call_alone:
    message = N_(
        "The fault does not show where your test looks. All weights are 1 at first, whatever "
        "their shape, so the first output is right: look at the parameters of a new layer, or "
        "call it with batches of two sizes."
    )

    def look():
        return lambda f: _flat(f(4)(_tensor(2, 3, 4)))


@of("test_layer_norm_layer")
class same_length:
    message = N_(
        "Your test changes the number of examples, but not the length of the sequences. A layer "
        "with a weight for each position passes it: change both, or look at the shape of weight."
    )

    def look():
        def look(function):
            layer = function(4)
            return _flat(layer(_tensor(2, 3, 4)), layer(_tensor(5, 3, 4)))

        return look


@of("test_post_block")
class silent_branches:
    message = N_(
        "The fault does not show on your input, or in what you compare. Branches that return 0 "
        "leave nothing to add in the wrong place, and tokens that are normalised already stay as "
        "they are: take others."
    )

    def look():
        tokens, branches = np.array([[-1.0, 1]]), [lambda v: 0 * v] * 2
        return lambda f: _flat(f(tokens, *branches, [layer_norm, layer_norm]))


@of("test_post_block")
class silent_feed_forward:
    message = N_(
        "In your test the feed-forward part returns 0, so the test cannot see what that part "
        "reads. Give both branches something to do."
    )

    def look():
        branches = np.tanh, lambda v: 0 * v
        return lambda f: _flat(f(_random(2, 3), *branches, [layer_norm, layer_norm]))


@of("test_fold_affine")
class same_gamma_everywhere:
    message = N_(
        "The fault does not show on your input. A gamma whose numbers are all equal is the same "
        "on rows and on columns; and where beta and the bias are 0, nobody sees what becomes of "
        "them. Take numbers that differ."
    )

    def look():
        gamma, nothing = np.array([2.0, 2, 2]), np.zeros(3)
        return lambda f: _flat(*f(_random(3, 3), nothing, gamma, nothing))


@of("test_fold_affine")
class beta_zero:
    message = N_(
        "In your test beta is 0, so the test cannot see what the weight makes of it. Take a beta "
        "and a gamma whose numbers all differ."
    )

    def look():
        gamma, beta = np.array([1.0, 2, 3]), np.zeros(3)
        return lambda f: _flat(*f(_random(3, 3), _random(3), gamma, beta))


@of("test_deepnorm_constants")
class beta_alone:
    message = N_(
        "The fault does not show where your test looks. Compare both constants, alpha and beta, "
        "with numbers that you computed."
    )

    def look():
        return lambda f: _flat(f(0, 18)["decoder"][1])


@of("test_deepnorm_constants")
class sides_of_one:
    message = N_(
        "Your test asks only whether alpha is above 1 and beta below. A program with another root "
        "passes it: compare with numbers, such as alpha = 2 and beta = 0.3536 for 8 layers."
    )

    def look():
        return lambda f: np.less(f(0, 18)["decoder"], 1) * 1.0
