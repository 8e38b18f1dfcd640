"""Finding bugs: right answers of any style pass, wrong tests of students are named."""

import ast
import itertools
import math
import unittest
from pathlib import Path

import numpy as np
import pytest
import torch

from normkit.tutor.find_the_bug.changing import made
from normkit.tutor.find_the_bug.tasks import BUGS, CODES, UNMENDED, accepts
from normkit.tutor.judging import judge
from normkit.tutor.mistakes import combine
from normkit.tutor.observing import observe
from normkit.tutor.wording import GIVEN, LAYER
from press.run import read

SOURCE = Path(__file__).parents[4] / "solutions" / "find_the_bug.md"
CLASSES = {"batch_norm_layer": "WrongBatchNorm", "layer_norm_layer": "WrongLayerNorm"}
RIGHT = {bug: made(BUGS[bug].text()) for bug in BUGS}
layer_norm, rms_norm = RIGHT["layer_norm"], RIGHT["rms_norm"]


def named(answer, task):
    task = f"find_the_bug/{task}"
    return [mistake.name for mistake in judge(observe(answer, task), task).mistakes]


def passes(answer, task):
    verdict = judge(observe(answer, f"find_the_bug/{task}"), f"find_the_bug/{task}")
    assert verdict.passed, verdict.explain()


# --- The programs that students are given -----------------------------------------------------


def given():
    """The wrong programs of the assignment, as they stand there, by their names."""
    cells = [ast.parse(cell.source) for cell in read(SOURCE).cells if cell.cell_type == "code"]
    heads = [node for cell in cells for node in cell.body]
    return {n.name: ast.unparse(n) for n in heads if getattr(n, "name", "")[:5].lower() == "wrong"}


@pytest.mark.parametrize("bug", BUGS)
def test_the_given_program_comes_from_the_catalogue(bug):
    """After a change of the programs or the mistakes, print BUGS[bug].text(mistake) there anew."""
    found, name = BUGS[bug], CLASSES.get(bug, f"wrong_{bug}")
    (node,) = ast.parse(found.text(found.mistake)).body
    node.name = name
    assert given()[name] == ast.unparse(node)


@pytest.mark.parametrize("bug", BUGS)
def test_the_given_program_is_wrong_in_one_way_which_is_not_told(bug):
    task = f"find_the_bug/{bug}"
    program = made(given()[CLASSES.get(bug, f"wrong_{bug}")])
    verdict = judge(observe(program, task), task)
    (mistake,) = verdict.mistakes
    assert mistake.key == "find_the_bug/unmended" and mistake.message == UNMENDED
    assert BUGS[bug].mistake not in str(verdict.as_data()) + verdict.explain()


@pytest.mark.parametrize("bug", BUGS)
def test_the_right_program_passes_and_its_relatives_do_not(bug):
    passes(RIGHT[bug], bug)
    for name in BUGS[bug].relatives:
        assert named(made(BUGS[bug].text(name)), bug) == [name]


def test_the_codes():
    right = combine("find_the_bug/fault_names")()
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


def by_unittest(function):
    y = function(SEQUENCE, np.ones(4), np.zeros(4))
    unittest.TestCase().assertLess(np.abs(y.mean(-1)).max(), 1e-6, "a token with a mean")
    unittest.TestCase().assertTrue(np.allclose(y.var(-1), 1, atol=1e-3))


def by_approx(function):
    y = function(np.array([[[1.0, 3], [5, 1]]]), np.array([1.0, 2]), np.zeros(2), eps=1e-9)
    assert y.ravel().tolist() == pytest.approx([-1, 2, 1, -2], abs=1e-4)


def on_random_numbers(function):
    x, gamma, beta = np.random.normal(size=(3, 5, 4)), *np.random.normal(size=(2, 4))
    for row, y in zip(x.reshape(-1, 4), function(x, gamma, beta).reshape(-1, 4), strict=True):
        np.testing.assert_array_almost_equal(
            y, gamma * (row - row.mean()) / np.sqrt(row.var() + 1e-5) + beta, decimal=5
        )


def with_any_error_turned(function):
    try:
        y = function(SEQUENCE[..., :3], np.ones(3), np.zeros(3))
    except ValueError as error:
        raise AssertionError("it breaks off") from error
    for sentence, token in np.ndindex(2, 3):
        alone = function(SEQUENCE[sentence, token, :3], np.ones(3), np.zeros(3))
        assert np.max(np.abs(y[sentence, token] - alone)) < 1e-8, (sentence, token)


class Callable:
    def __call__(self, function):
        return by_torch(function)


SEQUENCE = np.random.default_rng(2).normal(size=(2, 3, 4)) * 3 + 1


def by_moments(function):
    y = function(np.array([[1.0, 4], [3, 0], [8, 0]]), np.ones(2), np.zeros(2))
    assert (abs(y.mean(axis=0)) < 1e-9).all() and (abs(y.std(axis=0) - 1) < 1e-3).all()


def by_square_root(function):
    for eps in (1e-5, 0.01):
        x = [0.001, 0.002, 0.002]
        rms = math.sqrt(sum(v * v for v in x) / 3 + eps)
        y = function(np.array([x]), np.array([1.0, 2, 3]), eps)
        assert all(abs(a - g * v / rms) < 1e-9 for a, g, v in zip(y[0], (1, 2, 3), x, strict=True))


def two_updates(function):
    mean, var = np.zeros(1), np.ones(1)
    for x in (np.array([[1.0], [3]]), np.array([[0.0], [8]])):
        _y, mean, var = function(x, np.ones(1), np.zeros(1), mean, var, momentum=0.25)
    assert np.allclose(mean, [0.75 * 0.5 + 1]) and np.allclose(var, [0.75 * 1.25 + 8])


def by_slices(function):
    x = np.random.default_rng(5).normal(size=(2, 6, 2))
    y = function(x, 3, np.ones(6), np.zeros(6), 1e-5)
    for example, group in np.ndindex(2, 3):
        numbers = x[example, 2 * group : 2 * group + 2]
        expected = (numbers - numbers.mean()) / np.sqrt(numbers.var() + 1e-5)
        np.testing.assert_allclose(y[example, 2 * group : 2 * group + 2], expected)


def other_batches(function):
    layer = function(3)
    layer(torch.zeros(2, 3))
    try:
        layer(torch.zeros(5, 4, 3))
        layer(torch.zeros(3))
        layer.load_state_dict(torch.nn.LayerNorm(3).state_dict())
    except RuntimeError:
        raise AssertionError("one size only") from None


def trained_numbers(function):
    assert len(torch.optim.SGD(function(5).parameters(), 0.1).param_groups[0]["params"]) == 2
    assert function(5).weight.shape == (5,)


def by_hand(function):
    def plain(v):
        return (v - v.mean()) / v.std()

    y = function(
        np.array([0.0, 2, 4]), lambda v: v[[2, 1, 1]] * [1, 0, 0], lambda v: v**2, [plain] * 2
    )
    u = plain(np.array([4.0, 2, 4]))
    assert np.allclose(y, plain(u + u**2))


def for_several_inputs(function):
    rng = np.random.default_rng(8)
    weight, bias, gamma, beta = (
        rng.normal(size=(3, 4)),
        *map(rng.normal, [0] * 3, [1] * 3, (3, 4, 4)),
    )
    new_weight, new_bias = function(weight, bias, gamma, beta)
    xhat = rng.normal(size=(10, 4))
    torch.testing.assert_close(
        torch.tensor(xhat @ new_weight.T + new_bias),
        torch.tensor((gamma * xhat + beta) @ weight.T + bias),
    )


def by_powers(function):
    for layers in (1, 2, 50):
        for sides in ((layers, 0), (0, layers)):
            ((alpha, beta),) = function(*sides).values()
            assert abs(alpha**4 - 2 * layers) < 1e-6 and abs(beta**-4 - 8 * layers) < 1e-6


def by_torch_in_evaluation(function):
    torch.manual_seed(1)
    ours, theirs = function(4, momentum=0.3), torch.nn.BatchNorm1d(4, momentum=0.3)
    for x in torch.randn(3, 6, 4):
        ours(x), theirs(x)
    ours.eval(), theirs.eval()
    for x in torch.randn(2, 5, 4):
        assert torch.allclose(ours(x), theirs(x), atol=1e-5)


@pytest.mark.parametrize(
    ("bug", "test"),
    [
        *(("layer_norm", test) for test in (by_unittest, by_approx, on_random_numbers)),
        *(("layer_norm", test) for test in (with_any_error_turned, Callable())),
        ("batch_norm", by_moments),
        ("rms_norm", by_square_root),
        ("running_batch_norm", two_updates),
        ("group_norm", by_slices),
        ("batch_norm_layer", by_torch_in_evaluation),
        ("layer_norm_layer", other_batches),
        ("layer_norm_layer", trained_numbers),
        ("post_block", by_hand),
        ("fold_affine", for_several_inputs),
        ("deepnorm_constants", by_powers),
    ],
)
def test_unusual_tests_that_are_right_pass(bug, test):
    passes(test, f"{bug}_test")


# --- Right programs of other styles -----------------------------------------------------------


class Plain(torch.nn.Module):
    """Without a count of batches; updates its buffers in place."""

    def __init__(self, features, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(features))
        self.bias = torch.nn.Parameter(torch.zeros(features))
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))

    def forward(self, x):
        if not self.training:
            return self.scaled(x, self.running_mean, self.running_var)
        with torch.no_grad():
            self.running_mean.lerp_(x.mean(0), self.momentum)
            self.running_var.mul_(1 - self.momentum).add_(self.momentum * x.var(0))
        return self.scaled(x, x.mean(0), x.var(0, unbiased=False))

    def scaled(self, x, mean, var):
        return torch.addcmul(self.bias, self.weight, (x - mean) * torch.rsqrt(var + self.eps))


class Detached(Plain):
    def forward(self, x):
        mean, var = self.running_mean, self.running_var
        if self.training:
            mean, var = x.mean(0), ((x - x.mean(0)) ** 2).mean(0)
            m, n = self.momentum, len(x)
            self.running_mean = (1 - m) * self.running_mean + m * mean.detach()
            self.running_var = (1 - m) * self.running_var + m * var.detach() * n / (n - 1)
        return self.scaled(x, mean, var)


def row_by_row(x, gamma, beta, eps=1e-5):
    y = np.zeros(x.shape, np.result_type(x, gamma))
    for place in np.ndindex(x.shape[:-1]):
        token = x[place] * 1.0
        y[place] = gamma * (token - np.mean(token)) / np.std([*token], keepdims=True)
        y[place] *= np.std(token) / np.sqrt(np.var(token) + eps) if np.std(token) else 0
        y[place] = beta if not np.std(token) else y[place] + beta
    return y


def by_norm(x, gamma, eps=1e-5):
    length = np.linalg.norm(x, axis=-1, keepdims=True)
    return gamma * x / np.sqrt(length**2 / x.shape[-1] + eps)


def by_group(x, num_groups, gamma, beta, eps=1e-5):
    if x.shape[1] % num_groups != 0:
        raise ValueError(f"{num_groups} groups of {x.shape[1]} channels")
    done = []
    for part in np.split(x, num_groups, axis=1):
        axes = tuple(range(1, x.ndim))
        centred = part - part.mean(axis=axes, keepdims=True)
        done.append(centred / np.sqrt(np.mean(centred**2, axis=axes, keepdims=True) + eps))
    spread = [np.expand_dims(p, tuple(range(1, x.ndim - 1))) for p in (gamma, beta)]
    return spread[0] * np.concatenate(done, axis=1) + spread[1]


def by_einsum(weight, bias, gamma, beta):
    return np.einsum("oi,i->oi", weight, gamma), bias + np.einsum("oi,i->o", weight, beta)


def by_names(encoder_layers=0, decoder_layers=0):
    constants = {}
    if encoder_layers and decoder_layers:
        root = encoder_layers**0.25 * decoder_layers**0.0625
        constants["encoder"] = 0.81 * root, 0.87 / root
        constants["decoder"] = (3 * decoder_layers) ** 0.25, (12 * decoder_layers) ** -0.25
        return constants
    for side, layers in (("encoder", encoder_layers), ("decoder", decoder_layers)):
        if layers:
            constants[side] = math.sqrt(math.sqrt(2 * layers)), math.pow(8 * layers, -0.25)
    return constants


def by_matrix(x, gamma, beta, eps=1e-5):
    centred = x @ (np.eye(x.shape[-1]) - 1 / x.shape[-1])
    return gamma * centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps) + beta


def by_hypotenuse(x, gamma, beta, eps=1e-5):
    return gamma * (x - x.mean(0)) / np.hypot(x.std(0), np.sqrt(eps)) + beta


def by_average(x, gamma, eps=1e-5):
    return gamma * x / np.sqrt(x**2 @ np.full((x.shape[-1], 1), 1 / x.shape[-1]) + eps)


def by_slices_of_zeros(x, num_groups, gamma, beta, eps=1e-5):
    if x.shape[1] % num_groups:
        raise ValueError("unequal groups")
    size, y = x.shape[1] // num_groups, np.zeros(x.shape)
    for i, g in np.ndindex(len(x), num_groups):
        part = x[i, g * size : (g + 1) * size]
        y[i, g * size : (g + 1) * size] = (part - part.mean()) / np.sqrt(part.var() + eps)
    return np.moveaxis(np.moveaxis(y, 1, -1) * gamma + beta, -1, 1)


@pytest.mark.parametrize(
    ("bug", "answer"),
    [
        ("layer_norm", by_matrix),  # float64 for float32: the statement says nothing of dtypes
        ("batch_norm", by_hypotenuse),
        ("rms_norm", by_average),
        ("group_norm", by_slices_of_zeros),
        ("layer_norm", lambda x, g, b, eps=1e-5: row_by_row(x, g, b, eps).astype(g.dtype)),
        ("rms_norm", by_norm),
        ("group_norm", by_group),
        ("batch_norm_layer", Plain),
        ("batch_norm_layer", Detached),
        ("fold_affine", by_einsum),
        ("deepnorm_constants", by_names),
    ],
)
def test_mended_programs_of_other_styles_pass(bug, answer):
    passes(answer, bug)


class Graph(Plain):
    """Its running statistics hold the graph of every batch."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        m, mean, var = self.momentum, x.mean(0), x.var(0, correction=0)
        self.running_mean = (1 - m) * self.running_mean + m * mean
        self.running_var = (1 - m) * self.running_var + m * x.var(0)
        return self.scaled(x, mean, var)


def test_running_statistics_outside_no_grad_are_named():
    assert named(Graph, "batch_norm_layer") == ["graph_kept"]


def keepdim_for_keepdims(x, gamma, beta, eps=1e-5):
    var = x.var(axis=0, keepdim=True)
    return gamma * (x - x.mean(axis=0)) / np.sqrt(var + eps) + beta


def test_an_exception_on_all_rows_is_no_mistake_about_images():
    task = "find_the_bug/batch_norm"
    verdict = judge(observe(keepdim_for_keepdims, task), task)
    assert not verdict.mistakes and "no argument keepdim" in verdict.explain()


class ShareNotCalled(Plain):
    """Its update raises in training, after a right result in evaluation."""

    def forward(self, x):
        if self.training:
            self.running_mean = (1 - self.eval) * self.running_mean + x.mean(0)
        return self.scaled(x, self.running_mean, self.running_var)


def divided_channels(x, num_groups, gamma, beta, eps=1e-5):
    if x.shape[1] % num_groups:
        raise TypeError("no groups")
    return x.reshape(len(x), num_groups, x.shape[1] / num_groups, -1)


def misspelt_option(x, gamma, beta, running_mean, running_var, momentum=0.1, eps=1e-5):
    return x.var(axis=0, ddoff=1)


@pytest.mark.parametrize(
    ("bug", "answer", "told"),
    [
        ("batch_norm_layer", ShareNotCalled, "'int' and 'method'"),
        ("running_batch_norm", misspelt_option, "no argument ddoff"),
        ("group_norm", divided_channels, "take // instead of /"),
    ],
)
def test_an_exception_everywhere_is_explained_by_itself(bug, answer, told):
    task = f"find_the_bug/{bug}"
    verdict = judge(observe(answer, task), task)
    assert not verdict.mistakes and told in verdict.explain()


def decoder_broken(n, m):
    constants = by_names(n, m)
    if n and m:
        constants["decoder"] = (3 * n) ** 0.25, (12 * n) ** -0.25
    return constants


def test_what_was_right_must_stay_right():
    assert named(decoder_broken, "deepnorm_constants") == ["decoder_from_n"]


def signs_exchanged(n, m):
    """Mended for one side, and broken where the program was right."""
    right = RIGHT["deepnorm_constants"](n, m)
    if not (n and m):
        return right
    e, d = n**4 * m, 3 * m
    alphas = {"encoder": 0.81 * e ** (-1 / 16), "decoder": d ** (-1 / 4)}
    return {side: (alphas[side], right[side][1]) for side in right}


def test_a_fault_that_is_moved_is_named():
    assert named(signs_exchanged, "deepnorm_constants") == ["alpha_below_one"]


def half_mended_axes(x, gamma, beta, eps=1e-5):
    mean = x.mean(axis=-1, keepdims=True)
    var = ((x - mean) ** 2).mean(axis=(-2, -1), keepdims=True)
    return gamma * (x - mean) / np.sqrt(var + eps) + beta


def half_mended_stream(x, attention, feed_forward, norms):
    u = norms[0](x + attention(x))
    return x + norms[1](feed_forward(u))


def half_mended_fold(weight, bias, gamma, beta):
    return weight * gamma, gamma * bias + beta


def half_mended_average(x, gamma, beta, running_mean, running_var, momentum=0.1, eps=1e-5):
    mean, var, unbiased = x.mean(0), x.var(0), x.var(0, ddof=1)
    new_mean = (1 - momentum) * running_mean + momentum * mean
    new_var = momentum * running_var + (1 - momentum) * unbiased
    return gamma * (x - mean) / np.sqrt(var + eps) + beta, new_mean, new_var


class HalfMended(torch.nn.Module):
    """Parameters that are made nowhere."""

    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        var, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
        return self.weight * (x - mean) / torch.sqrt(var + self.eps) + self.bias


def half_mended_by_var(x, gamma, beta, eps=1e-5):
    mean = x.mean(axis=(-2, -1), keepdims=True)
    return gamma * (x - mean) / np.sqrt(x.var(axis=-1, keepdims=True) + eps) + beta


@pytest.mark.parametrize(
    ("bug", "answer"),
    [
        ("layer_norm", half_mended_by_var),
        ("layer_norm", half_mended_axes),
        ("running_batch_norm", half_mended_average),
        ("layer_norm_layer", HalfMended),
        ("post_block", half_mended_stream),
        ("fold_affine", half_mended_fold),
    ],
)
def test_half_mended_programs_are_called_so(bug, answer):
    assert named(answer, bug) == ["half_mended"]


class Updated(Plain):
    """Changes the running mean as it is told; counts the batches as often as it is told."""

    counts = 1

    def __init__(self, features, eps=1e-5, momentum=0.1):
        super().__init__(features, eps, momentum)
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        before = self.running_mean.clone()
        y = super().forward(x)
        if self.training:
            self.num_batches_tracked += self.counts
            self.running_mean = self.updated(before, x.detach().mean(0))
        return y

    def updated(self, mean, batch):
        return (1 - self.momentum) * mean + self.momentum * batch


class Forgetful(Updated):
    def updated(self, mean, batch):
        return self.momentum * batch


class ToldByNobody(Updated):
    def forward(self, x, training=False):
        return (
            super().forward(x) if training else self.scaled(x, self.running_mean, self.running_var)
        )


class Uncounted(Updated):
    counts = 0


class CountedTwice(Updated):
    counts = 2


class CountedForEachTerm(Updated):
    counts = 4


class Weighed(Updated):
    def updated(self, mean, batch):
        return 7 * mean + self.momentum * batch


class OfTests(Updated):
    """Learns in evaluation, and then only."""

    def forward(self, x):
        mean, var, m = self.running_mean, self.running_var, self.momentum
        if self.training:
            mean, var = x.mean(0), x.var(0, correction=0)
        y = self.scaled(x, mean, var)
        if not self.training:
            self.num_batches_tracked += 1
            self.running_mean = (1 - m) * self.running_mean + m * x.detach().mean(0)
            self.running_var = (1 - m) * self.running_var + m * x.detach().var(0)
        return y


def test_what_a_second_batch_does_to_a_layer_is_seen():
    passes(Updated, "batch_norm_layer")
    task = "find_the_bug/batch_norm_layer"
    verdict = judge(observe(Weighed, task), task)
    assert verdict.difference.name == "y in evaluation after a second batch"
    assert named(Forgetful, "batch_norm_layer") == ["old_value_lost"]
    assert named(OfTests, "batch_norm_layer") == ["updated_in_evaluation_alone"]
    assert named(ToldByNobody, "batch_norm_layer") == ["train_ignored"]
    assert named(Uncounted, "batch_norm_layer") == ["batches_not_counted"]
    assert named(CountedTwice, "batch_norm_layer") == ["counted_twice"]
    assert named(CountedForEachTerm, "batch_norm_layer") == ["share_called_twice"]


class WithoutGraph(Updated):
    @torch.no_grad()
    def forward(self, x):
        return super().forward(x)


class OfNumbers(Updated):
    def scaled(self, x, mean, var):
        return super().scaled(x, mean.detach(), var.detach())


def test_a_layer_hands_the_gradient_back():
    assert named(WithoutGraph, "batch_norm_layer") == ["no_grad_forward"]
    assert named(OfNumbers, "batch_norm_layer") == ["batch_statistics_detached"]


def rows_with_other_eps(x, gamma, beta, eps=1e-3):
    return RIGHT["batch_norm"](x, gamma, beta, eps)


def groups_with_other_eps(x, num_groups, gamma, beta, eps=1e-6):
    return RIGHT["group_norm"](x, num_groups, gamma, beta, eps)


def update_with_other_momentum(x, gamma, beta, mean, var, momentum=0.9, eps=1e-5):
    return RIGHT["running_batch_norm"](x, gamma, beta, mean, var, momentum, eps)


@pytest.mark.parametrize(
    ("bug", "answer"),
    [
        ("batch_norm", rows_with_other_eps),
        ("group_norm", groups_with_other_eps),
        ("running_batch_norm", update_with_other_momentum),
    ],
)
def test_defaults_must_stay_what_they_were(bug, answer):
    assert named(answer, bug) == ["default_changed"]


def test_another_default_does_not_mend_a_formula():
    def as_in_keras(x, gamma, beta, mean, var, momentum=0.9, eps=1e-5):
        return update_with_other_momentum(x, gamma, beta, mean, var, 1 - momentum, eps)

    assert named(as_in_keras, "running_batch_norm") == ["default_alone"]


def test_what_another_mistake_hides_is_not_named():
    def with_the_new_ones(x, gamma, beta, mean, var, momentum=0.1, eps=1e-5):
        mean = (1 - momentum) * mean + momentum * x.mean(0)
        var = (1 - momentum) * var + momentum * x.var(0)
        return gamma * (x - mean) / np.sqrt(var + eps) + beta, mean, var

    found = named(with_the_new_ones, "running_batch_norm")
    assert found == ["running_in_training", "biased_running_var"]


def axes_by_dimension(x, gamma, beta, eps=1e-5):
    axis = (1, 2) if x.ndim == 3 else -1
    mean, var = x.mean(axis=axis, keepdims=True), x.var(axis=axis, keepdims=True)
    return gamma * (x - mean) / np.sqrt(var + eps) + beta


def stream_before_its_norm(x, attention, feed_forward, norms):
    stream = x + attention(x)
    return norms[1](stream + feed_forward(norms[0](stream)))


class Whole(torch.nn.Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.eps, self.features = eps, features
        self.start()

    def start(self):
        self.weight = torch.nn.Parameter(torch.ones(self.features))
        self.bias = torch.nn.Parameter(torch.zeros(self.features))

    def forward(self, x):
        var, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
        return self.weight * (x - mean) / torch.sqrt(var + self.eps) + self.bias


class MadeAnew(Whole):
    def forward(self, x):
        self.start()
        return super().forward(x)


class MadeOfExamples(Whole):
    def forward(self, x):
        self.weight = torch.nn.Parameter(torch.ones_like(x))
        self.bias = torch.nn.Parameter(torch.zeros_like(x))
        return super().forward(x)


class MadeLate(Whole):
    def start(self):
        if hasattr(self, "made") and not hasattr(self, "weight"):
            super().start()
        self.made = True

    def forward(self, x):
        self.start()
        return super().forward(x)


@pytest.mark.parametrize(
    ("bug", "answer", "name"),
    [
        ("layer_norm", axes_by_dimension, "all_but_batch"),
        ("post_block", stream_before_its_norm, "sum_added_before_its_norm"),
        ("layer_norm_layer", MadeAnew, "made_in_forward"),
        ("layer_norm_layer", MadeOfExamples, "made_in_forward"),
        ("layer_norm_layer", MadeLate, "made_at_first_call"),
        (
            "rms_norm",
            lambda x, g, eps=1e-5: g * x / ((x**2).mean(-1)[..., None] ** 0.5 + eps**0.5),
            "eps_otherwise",
        ),
        (
            "rms_norm",
            lambda x, g, eps=1e-5: (
                g * x / np.maximum(np.linalg.norm(x, axis=-1)[..., None], eps) * x.shape[-1] ** 0.5
            ),
            "eps_as_lower_bound",
        ),
        (
            "batch_norm",
            lambda x, g, b, eps=1e-5: g * (x - x.mean()) / (x.var(axis=0) + eps) ** 0.5 + b,
            "statistic_of_whole_array",
        ),
    ],
)
def test_other_faults_of_mended_programs_are_named(bug, answer, name):
    passes(Whole, "layer_norm_layer")
    assert named(answer, bug) == [name]


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


def loose(function):
    assert np.allclose(function(X, ONE, ZERO), Y, atol=10)


def mean_alone(function):
    assert np.abs(function(X, ONE, ZERO).mean()) < 1e-6


def signs_alone(function):
    assert (np.sign(function(X[1:], ONE, ZERO)) == np.sign(Y[1:])).all()


def not_close(function):
    assert not np.allclose(function(X, ONE, ZERO), Y, atol=1e-3)


def different(function):
    assert (function(X, ONE, ZERO) != X).any(), "nothing is normalised"


def like_x(function):
    assert np.allclose(function(X, ONE, ZERO), X)


def wrongly_typed(function):
    np.testing.assert_allclose(function(X, ONE, ZERO)[0], [0, 1.2238, -1.2238], atol=1e-4)


def any_number(function):
    x = np.array([[[1.0, 2, 3], [4, 5, 6]], [[3, 2, 1], [0, 2, 4]]])
    y = np.array([[[-1.0, 0, 1], [-1, 0, 1]], [[1, 0, -1], [-1, 0, 1]]]) * 1.2247
    assert np.isclose(function(x, ONE, ZERO), y, atol=1e-3).any()


def first_number(function):
    assert np.isclose(function(np.array([[1.0, 2, 3], [3, 2, 1]]), ONE, ZERO)[0, 1], 0)


def announced(function):
    print("testing", function)
    np.allclose(function(X, ONE, ZERO), Y, atol=1e-3)


def with_value(function):
    y = function(X, ONE, ZERO)
    assert np.allclose(y, Y, atol=10)
    return y


def middle_number(function):
    assert np.isclose(function(np.array([[1.0, 2, 3], [0, 2, 4]]), ONE, ZERO)[0, 1], 0)


SEQUENCES = np.random.default_rng(6).normal(size=(2, 3, 3))


def both_signs(function):
    y = function(SEQUENCES, ONE, ZERO)
    assert y.max() > 0 and y.min() < 0


def largest_difference(function):
    assert (function(SEQUENCES, ONE, ZERO) - layer_norm(SEQUENCES, ONE, ZERO)).max() < 1e-6


def difference_of_sums(function):
    gamma, beta = np.array([1.0, 2, 3]), np.array([3.0, 1, 0])
    y, expected = function(SEQUENCES, gamma, beta), layer_norm(SEQUENCES, gamma, beta)
    assert expected.sum() - y.sum() < 1e-6


def any_close(function):
    assert np.isclose(function(SEQUENCES, ONE, ZERO), layer_norm(SEQUENCES, ONE, ZERO)).any()


def without_signs(function):
    y, expected = function(SEQUENCES, ONE, ZERO), layer_norm(SEQUENCES, ONE, ZERO)
    np.testing.assert_allclose(abs(y), abs(expected))


def other_example_changed(function):
    x = SEQUENCES.copy()
    y = function(x, ONE, ZERO)
    x[0, 0] += 1
    assert np.allclose(function(x, ONE, ZERO)[1], y[1])


def examples_alone(function):
    y = function(SEQUENCES, ONE, ZERO)
    assert all(np.allclose(y[n], function(SEQUENCES[n], ONE, ZERO)) for n in range(2))


def scaled(function):
    y = function(SEQUENCES, ONE, ZERO)
    assert np.allclose(y, function(10 * SEQUENCES, ONE, ZERO), atol=1e-3)


def one_token_each(function):
    x = SEQUENCES.reshape(6, 1, 3)
    assert np.allclose(function(x, ONE, ZERO), layer_norm(x, ONE, ZERO))


def tokens_that_are_equal(function):
    x = np.tile([0.2, 0.1, 0.3], (2, 3, 1))
    assert np.allclose(function(x, ONE, ZERO), layer_norm(x, ONE, ZERO))


def gamma_of_zeros(function):
    assert np.allclose(function(SEQUENCES, ZERO, ONE), 1)


LIMITS = itertools.cycle([0.1, 9])


def drawn_each_time(function):
    assert abs(function(SEQUENCES, ONE, ZERO).mean(-1)).max() < next(LIMITS)


def mean_of_a_token(function):
    assert abs(function(SEQUENCES[:1], ONE, ZERO)[0, 0].mean()) < 1e-6


@pytest.mark.parametrize(
    ("test", "name"),
    [
        (loose, "other_numbers_accepted"),
        (with_value, "other_numbers_accepted"),
        (mean_alone, "other_numbers_accepted"),
        (signs_alone, "lone_token"),
        (not_close, "assertion_reversed"),
        (like_x, "other_numbers_expected"),
        (wrongly_typed, "other_numbers_expected"),
        (any_number, "one_number_enough"),
        (first_number, "equal_tokens"),
        (middle_number, "part_compared"),
        (announced, "tuple_asserted"),
        (different, "little_asked"),
        (both_signs, "little_asked"),
        (largest_difference, "one_side_compared"),
        (difference_of_sums, "one_side_compared"),
        (any_close, "one_number_enough"),
        (without_signs, "signs_forgotten"),
        (other_example_changed, "calls_compared"),
        (examples_alone, "calls_compared"),
        (scaled, "calls_compared"),
        (one_token_each, "sequences_of_one"),
        (tokens_that_are_equal, "equal_tokens"),
        (gamma_of_zeros, "equal_tokens"),
        (drawn_each_time, "numbers_drawn_anew"),
        (mean_of_a_token, "another_accepted"),
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
        (float32_by_torch, "other_numbers_expected"),
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
    alpha, beta = function(0, 8)["decoder"]
    assert alpha > 1 > beta


def unit_variance(function):
    y = function(np.array([[1.0, 2], [3, 4]]), np.ones(2), np.zeros(2))
    assert np.allclose(y, [[-1, -1], [1, 1]], atol=1e-4)


def y_alone(function):
    x = np.array([[1.0], [3], [5], [7]])
    y, _mean, _var = function(x, np.ones(1), np.zeros(1), np.zeros(1), np.ones(1), momentum=0.3)
    assert np.allclose(y[:, 0], [-1.3416, -0.4472, 0.4472, 1.3416], atol=1e-4)


def evaluated_once(function):
    layer = function(1)
    layer(torch.tensor([[1.0], [3.0]]))
    layer.eval()
    assert abs(layer(torch.tensor([[2.0]])).item() - 1.7162) < 1e-3


def alpha_loosely(function):
    assert np.allclose(function(0, 8)["decoder"], [2, 0.3536], atol=3)


def gamma_of_ones(function):
    weight, bias = np.array([[1.0, 2], [3, 4]]), np.array([5.0, 6])
    new_weight, new_bias = function(weight, bias, np.ones(2), np.array([1.0, 3]))
    assert np.allclose(new_weight, weight) and np.allclose(new_bias, weight @ [1, 3] + bias)


def weight_compared(function):
    weight, gamma, beta = np.array([[1.0, 2], [3, 4]]), np.array([2.0, 10]), np.array([1.0, 3])
    new_weight, _new_bias = function(weight, np.ones(2), gamma, beta)
    assert np.allclose(new_weight, [[2, 20], [6, 40]])


def unlike_the_given(function):
    wrong = [[-0.1, -0.8, 0.6], [2.0, -0.8, -0.8]]
    assert not np.allclose(function(X, ONE, ZERO), wrong, atol=0.1)


def bias_of_zeros(function):
    weight, gamma, beta = np.array([[1.0, 2], [3, 4]]), np.array([2.0, 10]), np.array([1.0, 3])
    new_weight, new_bias = function(weight, np.zeros(2), gamma, beta)
    assert np.allclose(new_weight, [[2, 20], [6, 40]]) and np.allclose(new_bias, [7, 15])


def constant_feed_forward(function):
    def norm(v):
        return layer_norm(v, ONE, ZERO)

    x, moved = np.array([[0.0, 2, 4]]), np.array([1.0, 0, 0])
    y = function(x, np.tanh, lambda v: moved, [norm, norm])
    assert np.allclose(y, norm(norm(x + np.tanh(x)) + moved))


def zero_shift(function):
    weight, gamma = np.array([[1.0, 2], [3, 4]]), np.array([2.0, 10])
    weight, bias = function(weight, np.ones(2), gamma, np.zeros(2))
    assert np.allclose(weight, [[2, 20], [6, 40]]) and np.allclose(bias, 1)


def lone_vector(function):
    assert np.allclose(function(np.array([1.0, 2, 3]), ONE, ZERO), [-1.2247, 0, 1.2247], atol=1e-3)


def one_row(function):
    assert np.allclose(function(np.array([[1.0, 2]]), np.ones(2), np.zeros(2)), 0)


def updated_once(function):
    layer = function(1)
    layer(torch.tensor([[1.0], [3.0]]))
    assert abs(layer.running_mean.item() - 0.2) < 1e-6


def counted_after_a_call(function):
    layer = function(3)
    layer(torch.zeros(4, 3))
    assert len(list(layer.parameters())) == 2


def alpha_above_one(function):
    assert function(0, 8)["decoder"][0] > 1


def mixed_by_halves(function):
    x, one = np.array([[1.0], [3], [5], [7]]), np.ones(1)
    _y, mean, var = function(x, one, 0 * one, 0 * one, one, momentum=0.5)
    assert np.allclose(mean, 2) and np.allclose(var, 0.5 + 10 / 3)


def old_like_the_batch(function):
    x, one = np.array([[1.0], [3], [5], [7]]), np.ones(1)
    _y, mean, var = function(x, one, 0 * one, 4 * one, 20 / 3 * one, momentum=0.3)
    assert np.allclose(mean, 4) and np.allclose(var, 20 / 3)


def one_side_forgotten(function):
    assert np.allclose(function(2, 16)["encoder"], [1.1455, 0.6152], atol=1e-4)


def moments_of_a_block(function):
    x, norms = np.array([0.0, 2, 4]), [lambda v: layer_norm(v, np.ones(3), np.zeros(3))] * 2
    y = function(x, np.tanh, np.sin, norms)
    assert abs(y.mean()) < 1e-6 and abs(y.var() - 1) < 1e-3


def two_features(function):
    def norm(v):
        return layer_norm(v, np.ones(2), np.zeros(2), eps=1e-9)

    x = np.array([1.0, 4])
    u = norm(x + np.tanh(x))
    assert np.allclose(function(x, np.tanh, np.sin, [norm] * 2), norm(u + np.sin(u)))


COLUMNS = np.array([[1.0, 2], [3, 6], [5, 4], [7, 8]])
EXPECTED = RIGHT["batch_norm"](COLUMNS, ONE[:2], ZERO[:2])


def update(function, momentum):
    return function(COLUMNS, ONE[:2], ZERO[:2], ZERO[:2], ONE[:2], momentum)


def mean_mixed_by_halves(function):
    assert np.allclose(update(function, 0.5)[1], [2, 2.5])


def variance_mixed_by_halves(function):
    assert np.allclose(update(function, 0.5)[2], 0.5 + COLUMNS.var(0, ddof=1) / 2)


def mean_moved(function):
    assert (update(function, 0.3)[1] != 0).all()


def mean_above_zero(function):
    assert update(function, 0.3)[1][0] > 0


def variance_above_zero(function):
    assert (update(function, 0.3)[2] > 0).all()


def closer_to_the_old(function):
    mean = update(function, 0.3)[1]
    assert (abs(mean) < abs(mean - COLUMNS.mean(0))).all()


def nothing_moved(function):
    _y, mean, var = update(function, 0)
    assert np.allclose(mean, 0) and np.allclose(var, 1)


def a_column_loosely(function):
    y = function(COLUMNS, ONE[:2], ZERO[:2])
    np.testing.assert_allclose(y[:, 0], EXPECTED[:, 0], atol=0.5)


def signs_of_rows(function):
    assert (np.sign(function(COLUMNS, ONE[:2], ZERO[:2])) == np.sign(EXPECTED)).all()


def rounded_column(function):
    y = function(COLUMNS, ONE[:2], ZERO[:2])
    assert (y[:, 0].round() == EXPECTED[:, 0].round()).all()


def variance_somewhere(function):
    assert (function(COLUMNS, ONE[:2], ZERO[:2]).var(axis=0) > 0).all()


def constant_columns(function):
    assert np.allclose(function(np.ones((4, 2)), ONE[:2], ZERO[:2]), 0)


def first_of_large_features(function):
    assert abs(function(np.array([3.0, 4]), ONE[:2])[0] - 0.8485) < 1e-4


def groups_that_are_equal(function):
    y = function(np.array([[1.0, 2] * 3]), 3, np.ones(6), np.zeros(6))
    assert np.allclose(y, [[-1, 1] * 3], atol=1e-4)


def groups_of_one(function):
    x = np.random.default_rng(9).normal(size=(2, 6, 5))
    expected = RIGHT["group_norm"](x, 6, np.ones(6), np.zeros(6))
    assert np.allclose(function(x, 6, np.ones(6), np.zeros(6)), expected)


def twice_in_evaluation(function):
    layer = function(1)
    layer(torch.tensor([[1.0], [3.0]]))
    layer.eval()
    x = torch.tensor([[2.0], [5.0]])
    assert torch.equal(layer(x), layer(x))


def weight_after_a_token(function):
    layer = function(3)
    layer(torch.ones(3))
    assert layer.weight.shape == (3,)


def sequences_as_long(function):
    layer = function(3)
    layer(torch.ones(2, 4, 3))
    layer(torch.ones(5, 4, 3))


def more_layers(function):
    assert function(0, 8)["decoder"][0] < function(0, 16)["decoder"][0]


def whole_part(function):
    assert int(function(0, 8)["decoder"][0]) == 2


def block_with_itself(function):
    norms = [np.tanh, np.tanh]
    assert np.allclose(function(X, np.tanh, np.sin, norms), function(X, np.tanh, np.sin, norms))


def wrong_one_called(function):
    wrong = made(given()["wrong_layer_norm"])
    assert np.allclose(wrong(X, ONE, ZERO), Y, atol=1e-3)


def drawn_and_never_called(function):
    y = layer_norm(np.random.normal(size=(2, 4, 3)), ONE, ZERO)
    assert np.allclose(y.std(axis=-1), 1, atol=1e-3)  # sometimes


def exactly_one(function):
    y = function(SEQUENCES, ONE, ZERO)
    np.testing.assert_allclose(y.var(axis=-1), np.ones(y.shape[:-1]))


def exactly_one_in_columns(function):
    np.testing.assert_allclose(function(COLUMNS, ONE[:2], ZERO[:2]).std(axis=0), 1)


def divided_by_hand(function):
    x = np.array([0.003, 0.004])
    np.testing.assert_allclose(function(x, ONE[:2], 1e-5), x / np.sqrt((x**2).mean()))


def exactly_one_in_training(function):
    y = function(2)(torch.tensor(COLUMNS))
    torch.testing.assert_close(y.var(0, correction=0).double(), torch.ones(2).double())


def zeros_stay(function):
    np.testing.assert_allclose(function(ZERO, ONE, 1e-3), ZERO)


def shapes_of_outputs(function):
    layer = function(3)
    for examples in (1, 2, 5):
        assert layer(torch.ones(examples, 4, 3)).shape == (examples, 4, 3)


@pytest.mark.parametrize(
    ("bug", "test", "name"),
    [
        ("layer_norm", wrong_one_called, "program_not_called"),
        ("layer_norm", drawn_and_never_called, "program_not_called"),
        ("layer_norm", exactly_one, "eps_left_out"),
        ("batch_norm", exactly_one_in_columns, "eps_left_out"),
        ("rms_norm", divided_by_hand, "expected_without_eps"),
        ("rms_norm", zeros_stay, "large_features"),
        ("batch_norm_layer", exactly_one_in_training, "eps_left_out"),
        ("layer_norm_layer", shapes_of_outputs, "output_shape_alone"),
        ("running_batch_norm", mean_mixed_by_halves, "momentum_one_half"),
        ("running_batch_norm", variance_mixed_by_halves, "momentum_one_half"),
        ("running_batch_norm", mean_moved, "little_asked"),
        ("running_batch_norm", mean_above_zero, "other_numbers_accepted"),
        ("running_batch_norm", variance_above_zero, "other_numbers_accepted"),
        ("running_batch_norm", closer_to_the_old, "another_accepted"),
        ("running_batch_norm", nothing_moved, "momentum_zero"),
        ("batch_norm", a_column_loosely, "other_numbers_accepted"),
        ("batch_norm", signs_of_rows, "other_numbers_accepted"),
        ("batch_norm", rounded_column, "other_numbers_accepted"),
        ("batch_norm", variance_somewhere, "little_asked"),
        ("batch_norm", constant_columns, "many_rows"),
        ("rms_norm", first_of_large_features, "large_features"),
        ("group_norm", groups_that_are_equal, "equal_groups"),
        ("group_norm", groups_of_one, "channels_alone"),
        ("batch_norm_layer", twice_in_evaluation, "calls_compared"),
        ("layer_norm_layer", weight_after_a_token, "first_call_alone"),
        ("layer_norm_layer", sequences_as_long, "same_length"),
        ("deepnorm_constants", more_layers, "sides_of_one"),
        ("deepnorm_constants", whole_part, "exchange_unseen"),
        ("post_block", block_with_itself, "compared_with_itself"),
        ("deepnorm_constants", one_side_forgotten, "beta_alone"),
        ("post_block", moments_of_a_block, "silent_feed_forward"),
        ("post_block", two_features, "silent_feed_forward"),
        ("running_batch_norm", mixed_by_halves, "momentum_one_half"),
        ("running_batch_norm", old_like_the_batch, "momentum_one_half"),
        ("layer_norm", lone_vector, "lone_token"),
        ("batch_norm", one_row, "lone_row"),
        ("batch_norm_layer", updated_once, "evaluation_forgotten"),
        ("layer_norm_layer", counted_after_a_call, "first_call_alone"),
        ("deepnorm_constants", alpha_above_one, "sides_of_one"),
        ("batch_norm_layer", trained_alone, "evaluation_forgotten"),
        ("batch_norm_layer", mean_stays, "statistics_alone"),
        ("running_batch_norm", default_momentum, "usual_momentum"),
        ("group_norm", four_channels, "square_number_of_channels"),
        ("layer_norm_layer", first_output, "first_call_alone"),
        ("deepnorm_constants", one_is_larger, "sides_of_one"),
        ("fold_affine", zero_shift, "beta_zero"),
        ("fold_affine", gamma_of_ones, "beta_zero"),
        ("fold_affine", weight_compared, "weight_alone"),
        ("layer_norm", unlike_the_given, "given_alone_refused"),
        ("fold_affine", bias_of_zeros, "bias_zero"),
        ("batch_norm", unit_variance, "variance_of_one"),
        ("running_batch_norm", y_alone, "part_compared"),
        ("batch_norm_layer", evaluated_once, "one_call_in_evaluation"),
        ("deepnorm_constants", alpha_loosely, "other_numbers_accepted"),
        ("post_block", constant_feed_forward, "silent_feed_forward"),
    ],
)
def test_tests_that_look_elsewhere_are_named(bug, test, name):
    assert named(test, f"{bug}_test") == [name]


# --- Tests that do not run --------------------------------------------------------------------


def misspelt(function):
    assert np.allclose(functoin(X, ONE, ZERO), Y)  # noqa: F821


def without_argument():
    assert True


def given_a_list(function):
    assert np.allclose(function(X.tolist(), ONE, ZERO), Y, atol=1e-3)


@pytest.mark.parametrize(
    ("test", "error"),
    [
        (misspelt, "NameError"),
        (without_argument, "argument"),
        (given_a_list, "no attribute 'mean'"),
    ],
)
def test_an_error_of_the_test_is_told(test, error):
    task = "find_the_bug/layer_norm_test"
    verdict = judge(observe(test, task), task)
    assert verdict.difference.what == "error" and error in " ".join(verdict.explain().split())
    assert named(test, "layer_norm_test") == ["broken_off"]


def test_what_breaks_a_test_off_is_explained():
    task = "find_the_bug/layer_norm_test"
    for test, told in ((misspelt, "perhaps function is meant"), (None, "Hand in a function")):
        assert told in " ".join(judge(observe(test, task), task).explain().split())


def gamma_second(function):
    assert np.allclose(function(np.array([[1.0, 3, 5, 0, 0, 3]]), np.ones(6), np.zeros(6), 2), 0)


def class_called(function):
    assert np.allclose(function(torch.tensor([[1.0], [3.0]])).detach(), [[-1], [1]], atol=1e-3)


def array_given(function):
    assert np.allclose(function(1)(np.array([[1.0], [3.0]])), [[-1], [1]], atol=1e-3)


@pytest.mark.parametrize(
    ("bug", "test", "layer"),
    [
        ("group_norm", gamma_second, False),
        ("batch_norm_layer", class_called, True),
        ("batch_norm_layer", array_given, False),
    ],
)
def test_what_the_tested_program_raises_is_not_explained_by_the_line_that_calls_it(
    bug, test, layer
):
    task = f"find_the_bug/{bug}_test"
    said = " ".join(judge(observe(test, task), task).explain().split())
    assert "What is called in this line, not the line itself, raises" in said
    assert said.partition(GIVEN)[2].startswith(f" {LAYER} Read on" if layer else " Read on")


def test_what_a_function_handed_to_the_tested_program_raises_is_the_students():
    def test(function):
        function(X, lambda v: v @ np.ones(1), lambda v: v, [lambda v: v, lambda v: v])

    task = "find_the_bug/post_block_test"
    assert "This line raises" in judge(observe(test, task), task).explain()


@pytest.mark.parametrize("bug", sorted(BUGS.keys() - CLASSES))
def test_the_tested_programs_take_what_the_notebook_prints(bug):
    """A test that passes here must not break off on the student's own program."""
    cells = [ast.parse(cell.source) for cell in read(SOURCE).cells if cell.cell_type == "code"]
    (own,) = (n for cell in cells for n in cell.body if getattr(n, "name", "") == bug)
    (tested,) = ast.parse(BUGS[bug].text()).body
    assert ast.unparse(own.args) == ast.unparse(tested.args)


def test_an_object_in_place_of_a_mended_class_is_told_as_such():
    task = "find_the_bug/batch_norm_layer"
    verdict = judge(observe(RIGHT["batch_norm_layer"](3), task), task)
    assert "hand in its class" in verdict.explain()


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
