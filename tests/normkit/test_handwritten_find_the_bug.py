"""Finding bugs: right answers of any style pass, wrong tests of students are named."""

from pathlib import Path

import numpy as np
import pytest
import torch

from normkit.mistakes.find_the_bug import BUGS, CODES, NAMES
from normkit.tasks import judge, observe
from normkit.tasks.find_the_bug import UNMENDED, accepts
from press.run import read

SOURCE = Path(__file__).parents[2] / "solutions" / "find_the_bug.md"
CLASSES = {"batch_norm_layer": "WrongBatchNorm", "layer_norm_layer": "WrongLayerNorm"}
RIGHT = {bug: BUGS[bug].program() for bug in BUGS}
layer_norm, rms_norm = RIGHT["layer_norm"], RIGHT["rms_norm"]


def named(answer, task):
    task = f"find_the_bug/{task}"
    return [mistake.name for mistake in judge(observe(answer, task), task).mistakes]


def passes(answer, task):
    verdict = judge(observe(answer, f"find_the_bug/{task}"), f"find_the_bug/{task}")
    assert verdict.passed, verdict.explain()


# --- The programs that students are given -----------------------------------------------------


def given():
    """The wrong programs of the assignment, as they stand there."""
    names = {"np": np, "torch": torch}
    for cell in read(SOURCE).cells:
        if cell.source.startswith(("def wrong_", "class Wrong")):
            exec(cell.source, names)
    return {bug: names[CLASSES.get(bug, f"wrong_{bug}")] for bug in BUGS}


@pytest.mark.parametrize("bug", BUGS)
def test_the_given_program_is_wrong_in_one_way_which_is_not_told(bug):
    task = f"find_the_bug/{bug}"
    verdict = judge(observe(given()[bug], task), task)
    (mistake,) = verdict.mistakes
    assert mistake.name == BUGS[bug].mistake and mistake.message == UNMENDED
    assert BUGS[bug].mistake not in verdict.explain()


@pytest.mark.parametrize("bug", BUGS)
def test_the_right_program_passes_and_its_relatives_do_not(bug):
    passes(RIGHT[bug], bug)
    for name in BUGS[bug].relatives:
        assert named(BUGS[bug].program(name), bug) == [name]


def test_the_codes():
    right = {bug: NAMES[bug]() for bug in BUGS}
    assert set(right.values()) < set(CODES)
    assert len(CODES) - len(set(right.values())) == 3  # as the assignment says
    for bug in BUGS:
        passes(right, f"{bug}_fault")
        passes({bug: right[bug]}, f"{bug}_fault")
        verdict = judge(
            observe({bug: "colour"}, f"find_the_bug/{bug}_fault"), f"find_the_bug/{bug}_fault"
        )
        assert not verdict.passed and right[bug] in verdict.explain()


# --- Right tests ------------------------------------------------------------------------------


def by_torch(function):
    x = np.random.default_rng(3).normal(size=(2, 5, 4)) + 7
    gamma, beta = np.random.default_rng(4).normal(size=(2, 4))
    affine = map(torch.tensor, (gamma, beta))
    expected = torch.nn.functional.layer_norm(torch.tensor(x), (4,), *affine)
    np.testing.assert_allclose(function(x, gamma, beta), expected.numpy(), rtol=1e-6)


def by_properties(function):
    """No expected numbers: mean 0, and nothing leaks."""
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    y = function(x, np.ones(4), np.zeros(4))
    assert np.abs(y.mean(-1)).max() < 1e-9
    x[0, 0] += np.arange(4)
    assert (function(x, np.ones(4), np.zeros(4))[0, 1] == y[0, 1]).all(), "tokens leak"


def by_raising(function):
    tokens = [[0.0, 0, 3, 3], [1, 5, 1, 5], [2, 2, 8, 8], [0, 4, 0, 4], [7, 1, 1, 7], [3, 3, 9, 9]]
    tokens = np.array(tokens).reshape(3, 2, 4)
    y = function(tokens, np.ones(4), np.zeros(4))
    if abs(abs(y) - 1).max() > 1e-4:
        raise AssertionError("every number must be 1 or -1")
    print("fine")
    return True


@pytest.mark.parametrize("test", [by_torch, by_properties, by_raising])
def test_right_tests_of_any_style_pass(test):
    passes(test, "layer_norm_test")


def buffers_and_output(function):
    torch.manual_seed(0)
    ours, theirs = function(3), torch.nn.BatchNorm1d(3)
    for _ in range(2):
        x = torch.randn(6, 3) + 2
        torch.testing.assert_close(ours.train()(x), theirs.train()(x))
        torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))


def still_in_evaluation(function):
    layer = function(2, momentum=0.5)
    layer(torch.tensor([[1.0, 0], [3, 4]]))
    layer.eval()
    before = layer.running_mean.clone()
    alone = layer(torch.tensor([[5.0, 5]]))
    together = layer(torch.tensor([[5.0, 5], [9, 1]]))
    assert torch.equal(alone[0], together[0])
    assert torch.equal(layer.running_mean, before)


@pytest.mark.parametrize("test", [buffers_and_output, still_in_evaluation])
def test_right_tests_of_a_layer_pass(test):
    passes(test, "batch_norm_layer_test")


def folded_sum(function):
    rng = np.random.default_rng(1)
    weight, bias, gamma, beta = (
        rng.normal(size=(4, 2)),
        *rng.normal(size=(1, 4)),
        *rng.normal(size=(2, 2)),
    )
    new_weight, new_bias = function(weight, bias, gamma, beta)
    for xhat in np.eye(2):
        assert np.allclose(new_weight @ xhat + new_bias, weight @ (gamma * xhat + beta) + bias)


def test_a_right_test_of_folding_passes():
    passes(folded_sum, "fold_affine_test")


# --- Wrong tests ------------------------------------------------------------------------------

X = np.array([[0.2, 0.1, 0.3], [0.5, 0.1, 0.1]])
Y = np.array([[0, -1.2238, 1.2238], [1.4140, -0.7070, -0.7070]])
ONE, ZERO = np.ones(3), np.zeros(3)


def never_called(function):
    np.testing.assert_allclose(layer_norm(X, ONE, ZERO), Y, atol=1e-3)


def all_in_a_try(function):
    try:
        np.testing.assert_allclose(function(X, ONE, ZERO), Y, atol=1e-3)
        print("passed")
    except Exception as error:
        print("failed", error)


def returned(function):
    return np.allclose(function(X, ONE, ZERO), Y, atol=1e-3)


def printed(function):
    print(np.abs(function(X, ONE, ZERO) - Y).max() < 1e-3)


def asserted_tuple(function):
    close = np.allclose(function(X, ONE, ZERO), Y, atol=1e-3)
    claim = close, "wrong numbers"
    assert claim


def forgotten_assert(function):
    np.allclose(function(X, ONE, ZERO), Y, atol=1e-3)


def itself(function):
    expected = function(X, ONE, ZERO)
    assert np.allclose(function(X, ONE, ZERO), expected)


def shape_alone(function):
    assert function(X, ONE, ZERO).shape == X.shape


def one_token(function):
    y = function(X[:1], ONE, ZERO)
    assert np.allclose(y, Y[:1], atol=1e-3)


def of_the_wrong_one(function):
    wrong = [[-0.1, -0.8, 0.6], [2.0, -0.8, -0.8]]
    assert np.allclose(function(X, ONE, ZERO), wrong, atol=0.1)


def rounded(function):
    assert np.allclose(function(X, ONE, ZERO), Y)


def equal_to_rounded(function):
    assert (function(X, ONE, ZERO) == Y).all()


def float32_by_torch(function):
    expected = torch.nn.LayerNorm(3)(torch.tensor(X).float()).detach().numpy()
    np.testing.assert_allclose(function(X, ONE, ZERO), expected)


def float64_to_torch(function):
    expected = torch.nn.LayerNorm(3)(torch.tensor(X)).detach().numpy()
    np.testing.assert_allclose(function(X, ONE, ZERO), expected)


def tensors_expected(function):
    assert torch.allclose(function(X, ONE, ZERO), torch.tensor(Y), atol=1e-3)


def equal(function):
    y = function(np.array([[[0.0, 2], [0, 2]], [[1, 5], [4, 0]]]), np.ones(2), np.zeros(2), eps=0)
    assert y.tolist() == [[[-1, 1], [-1, 1]], [[-1, 1], [1, -1]]]


def rows(function):
    assert np.allclose(function(X, ONE, ZERO), Y, atol=1e-3)


@pytest.mark.parametrize(
    ("test", "name"),
    [
        (never_called, "program_not_called"),
        (all_in_a_try, "error_caught"),
        (returned, "truth_returned"),
        (printed, "result_printed"),
        (asserted_tuple, "tuple_asserted"),
        (forgotten_assert, "tuple_asserted"),
        (itself, "compared_with_itself"),
        (shape_alone, "shapes_compared"),
        (one_token, "lone_token"),
        (of_the_wrong_one, "expected_from_wrong"),
        (rounded, "rounded_numbers"),
        (equal_to_rounded, "rounded_numbers"),
        (float32_by_torch, "rounded_numbers"),
        (float64_to_torch, "broken_off"),
        (tensors_expected, "broken_off"),
        (equal, "equality_demanded"),
        (rows, "rows_alone"),
    ],
)
def test_wrong_tests_are_named(test, name):
    assert named(test, "layer_norm_test") == [name]


def trained_alone(function):
    y = function(1)(torch.tensor([[1.0], [3.0]]))
    assert torch.allclose(y, torch.tensor([[-1.0], [1.0]]), atol=1e-3)


def mean_stays(function):
    layer = function(1)
    layer.eval()
    layer(torch.tensor([[1.0], [3.0]]))
    assert layer.running_mean == 0


def default_momentum(function):
    x = np.array([[1.0], [3], [5], [7]])
    _y, mean, _var = function(x, np.ones(1), np.zeros(1), np.zeros(1), np.ones(1))
    assert abs(mean[0] - 0.4) < 1e-6


def four_channels(function):
    x = np.array([[1.0, 3, 5, 9]])
    assert np.allclose(function(x, 2, np.ones(4), np.zeros(4)), [-1, 1, -1, 1], atol=1e-3)


def first_output(function):
    assert np.allclose(function(3)(torch.tensor(X)).detach(), Y, atol=1e-3)


def one_is_larger(function):
    alpha, beta = function(decoder_layers=8)["decoder"]
    assert alpha > 1 > beta


def zero_shift(function):
    weight, gamma = np.array([[1.0, 2], [3, 4]]), np.array([2.0, 10])
    weight, bias = function(weight, np.ones(2), gamma, np.zeros(2))
    assert np.allclose(weight, [[2, 20], [6, 40]]) and np.allclose(bias, 1)


@pytest.mark.parametrize(
    ("bug", "test", "name"),
    [
        ("batch_norm_layer", trained_alone, "evaluation_forgotten"),
        ("batch_norm_layer", mean_stays, "statistics_alone"),
        ("running_batch_norm", default_momentum, "usual_momentum"),
        ("group_norm", four_channels, "square_number_of_channels"),
        ("layer_norm_layer", first_output, "first_call_alone"),
        ("deepnorm_constants", one_is_larger, "sides_of_one"),
        ("fold_affine", zero_shift, "beta_zero"),
    ],
)
def test_tests_that_look_elsewhere_are_named(bug, test, name):
    assert named(test, f"{bug}_test") == [name]


# --- Tests that do not run --------------------------------------------------------------------


def misspelt(function):
    assert np.allclose(functoin(X, ONE, ZERO), Y)  # noqa: F821


def without_argument():
    assert True


@pytest.mark.parametrize(
    ("test", "error"), [(misspelt, "NameError"), (without_argument, "argument")]
)
def test_an_error_of_the_test_is_told(test, error):
    task = "find_the_bug/layer_norm_test"
    verdict = judge(observe(test, task), task)
    assert verdict.difference.what == "error" and error in verdict.explain()
    assert named(test, "layer_norm_test") == ["broken_off"]


def test_a_program_that_breaks_off_is_refused_but_a_missing_test_is_no_test():
    def missing(function):
        raise NotImplementedError

    assert named(missing, "layer_norm_test") == []
    assert not accepts(rows, lambda *a: 1 / 0)
    with pytest.raises(NotImplementedError):
        accepts(missing, layer_norm)


def test_a_test_cannot_flood_the_notebook(capsys):
    observe(printed, "find_the_bug/layer_norm_test")
    assert capsys.readouterr().out == ""
