"""Batch normalisation: the numbers that its messages state, and what its probes must tell apart."""

import numpy as np
import pytest
import torch

import normkit
from normkit.folding import fold_batch_norm
from normkit.layers import BatchNorm1d, BatchNorm2d
from normkit.tutor.judging import judge, trials
from normkit.tutor.mistakes import combine, mistakes_of
from normkit.tutor.observing import observe
from normkit.tutor.tasks import find

COLUMNS = np.array([[1.0, 2], [3, 6], [5, 4], [7, 8]])
PLAIN = np.ones(2), np.zeros(2), np.zeros(2), np.ones(2)


def right(program):
    return combine(f"batch_norm/{program}")


def wrong(program):
    """What each mistake makes of a program, by name."""
    name = f"batch_norm/{program}"
    return {mistake.name: combine(name, mistake) for mistake in mistakes_of(name)}


@pytest.mark.parametrize(
    ("name", "var"),
    [
        ("swapped_momentum", 6.1),
        ("biased_running_var", 1.4),
        ("variances_swapped", 1.4),
        ("running_std", 0.9 + 0.1 * np.sqrt(20 / 3)),
        ("biased_running_std", 0.9 + 0.1 * 2.236),
        ("never_updated", 1),
        ("last_batch_only", 20 / 3),
        ("updated_twice", 0.81 + 0.19 * 20 / 3),
    ],
)
def test_each_slip_has_its_own_running_variance(name, var):
    moved = right("batch_norm_training")(COLUMNS, *PLAIN)
    np.testing.assert_allclose(moved[1:], [[0.4, 0.5], [1.5667, 1.5667]], atol=1e-4)
    found = wrong("batch_norm_training")[name](COLUMNS, *PLAIN)[2]
    np.testing.assert_allclose(found, [var, var], atol=1e-4)


def test_deviations_of_batches_of_two_average_to_less_than_one():
    x = np.random.default_rng(0).normal(size=(2, 100_000))
    assert abs(x.std(axis=0, ddof=1).mean() - 0.80) < 0.01
    assert abs(x.var(axis=0, ddof=1).mean() - 1) < 0.02


def test_the_correction_counts_positions():
    x = np.random.default_rng(0).normal(size=(2, 1, 2, 2))
    given = np.ones(1), np.zeros(1), np.zeros(1), np.zeros(1), 1.0
    moved = right("batch_norm_training")(x, *given)[2]
    found = wrong("batch_norm_training")["positions_not_counted"](x, *given)[2]
    np.testing.assert_allclose([moved, found], np.array([[8 / 7], [2]]) * x.var())


def test_a_new_layer_that_starts_wrongly_blows_everything_up():
    x = torch.tensor([[2.0, 3.0]])
    for name, shift in (("starts_at_one_and_zero", 1), ("running_var_starts_at_zero", 0)):
        y = wrong("BatchNorm")[name](2).eval()(x)
        np.testing.assert_allclose(y.detach(), (x - shift) * 316.2278, rtol=1e-4)


def test_what_is_left_of_a_single_row():
    beta = np.array([5.0, 6])
    row, others = COLUMNS[:1], (np.ones(2), beta, np.zeros(2), np.ones(2))
    alone = wrong("batch_norm_inference")["batch_in_inference"](row, *others)
    np.testing.assert_allclose(alone, [beta])
    instance = wrong("batch_norm")["instance_norm_instead"](COLUMNS, np.ones(2), beta)
    np.testing.assert_allclose(instance, np.tile(beta, (4, 1)))


def test_the_shape_of_everything_made_for_images():
    made = wrong("batch_norm_inference")["shaped_for_images"](COLUMNS[:3], *PLAIN)
    assert made.shape == (1, 2, 3, 2)


def test_the_graph_of_a_layer_grows_only_by_mistake():
    for layer, kept in ((right("BatchNorm"), False), (wrong("BatchNorm")["graph_kept"], True)):
        layer = layer(3)
        for _ in range(3):
            layer(torch.randn(4, 3, requires_grad=True))
        assert layer.running_mean.requires_grad is kept


def test_no_axis_passes_for_another():
    for probe in find("batch_norm/running").draw(0):
        x, names = probe.inputs["x"], ("gamma", "beta", "running_mean", "running_var")
        assert all(probe.inputs[name].shape == x.shape[1:2] for name in names)
        assert len(set(x.shape)) == x.ndim or "worked" in probe.name or "as wide" in probe.name


def close(ours, theirs, probe):
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=probe.tolerance, atol=10 * probe.tolerance)


@pytest.mark.parametrize("seed", range(3))
def test_the_programs_are_those_of_the_library(seed):
    for probe in find("batch_norm/running").draw(seed):
        x, gamma, beta, mean, var, momentum, eps = probe.inputs.values()
        given = {"training": True, "momentum": momentum, "eps": eps}
        theirs = normkit.batch_norm(x, gamma, beta, mean, var, **given)
        close(right("batch_norm_training")(*probe.inputs.values()), theirs, probe)
        close([right("batch_norm")(x, gamma, beta, eps)], theirs[:1], probe)
    for probe in find("batch_norm/inference").draw(seed):
        *given, eps = probe.inputs.values()
        theirs = normkit.batch_norm(*given, training=False, eps=eps)[:1]
        close([right("batch_norm_inference")(*given, eps)], theirs, probe)


@pytest.mark.parametrize("program", ["batch_norm_backward", "batch_norm_backward_staged"])
def test_both_gradients_are_those_of_the_library(program):
    for probe in find("batch_norm/backward").draw(0):
        *given, training, eps = probe.inputs.values()
        theirs = normkit.batch_norm_backward(*given, training=training, eps=eps)
        close(right(program)(*given, training, eps), theirs, probe)


@pytest.mark.parametrize(("theirs", "shape"), [(BatchNorm1d, (5, 3)), (BatchNorm2d, (4, 3, 2, 5))])
def test_the_layer_is_that_of_the_library(theirs, shape):
    ours, theirs = right("BatchNorm")(3), theirs(3)
    theirs.load_state_dict(ours.state_dict())
    for layer in (ours, theirs):
        torch.manual_seed(0)
        for _ in range(3):
            layer(2 * torch.randn(shape) + 1)
        layer.eval()
    for name, learnt in ours.state_dict().items():
        torch.testing.assert_close(learnt, theirs.state_dict()[name], msg=name)
    x = torch.randn(shape)
    torch.testing.assert_close(ours(x), theirs(x))


def test_the_fold_is_that_of_the_library():
    for probe in find("batch_norm/fold").draw(0):
        weight, bias, gamma, beta, mean, var, eps = probe.inputs.values()
        options = {"dtype": torch.float64}
        linear = torch.nn.Linear(*weight.shape[::-1], bias=bias is not None, **options)
        norm = torch.nn.BatchNorm1d(len(gamma), eps=eps, **options).eval()
        values = {linear.weight: weight, norm.weight: gamma, norm.bias: beta}
        values |= {norm.running_mean: mean, norm.running_var: var}
        values |= {} if bias is None else {linear.bias: bias}
        for tensor, value in values.items():
            tensor.data = torch.tensor(value)
        (folded,) = fold_batch_norm(linear, norm)
        theirs = folded.weight.detach().numpy(), folded.bias.detach().numpy()
        close(right("fold_batch_norm")(*probe.inputs.values()), theirs, probe)


def test_the_worked_folds_can_be_redone_by_hand():
    fold = right("fold_batch_norm")
    first, second = (probe.inputs.values() for probe in find("batch_norm/fold").draw(0)[:2])
    weight, bias = fold(*first)
    assert (weight.item(), bias.item()) == (2, -3)
    weight, bias = fold(*second)
    np.testing.assert_array_equal(weight, [[2, 4, 6], [0, 3, 12]])
    np.testing.assert_array_equal(bias, [5, 8])


@pytest.mark.parametrize(
    ("part", "whole", "right"),
    [
        (
            "rows",
            "forward",
            "first_axis_only sequences_forgotten statistics_on_last_axis gamma_on_last_axis "
            "channels_last reshaped_to_rows one_statistic_on_last_axis sums_divided_by_examples "
            "instance_norm_of_images variance_within_examples positions_left_out "
            "one_parameter_on_last_axis variance_within_positions moved_back_by_reshape",
        ),
        (
            "statistics",
            "running",
            "eps_outside_root no_eps fixed_eps no_root mean_not_subtracted gamma_forgotten "
            "beta_forgotten beta_before_gamma unbiased_variance sum_of_squares one_pass_variance "
            "mean_of_squares brackets_forgotten "
            "running_in_training old_running_in_training not_divided deviations_not_squared "
            "statistic_of_whole_array gamma_and_beta_exchanged root_multiplied "
            "variance_within_examples instance_norm_of_images sums_divided_by_examples "
            "eps_otherwise variance_squared root_taken_twice beta_subtracted deviations_reversed "
            "power_halved sums_divided_by_channels variance_within_positions eps_of_keras "
            "affine_twice one_parameter_twice not_normalised mean_and_var_exchanged",
        ),
        (
            "backward_inference",
            "backward",
            "unbiased_variance sum_of_squares one_pass_variance detached_statistics "
            "mean_term_dropped xhat_term_dropped xhat_term_added sums_instead_of_means "
            "mean_of_squares means_of_everything "
            "gamma_forgotten_in_mean gamma_forgotten_in_product product_with_x exact_projection "
            "product_mean_without_xhat "
            "statistics_on_last_axis inference_formula_always running_statistics_in_dx "
            "divided_by_examples factor_two_lost factor_half_lost deviations_not_squared "
            "statistic_of_whole_array one_statistic_on_last_axis means_over_channels "
            "means_over_examples "
            "divided_by_everything mean_term_added one_sum_instead_of_mean r_forgotten "
            "r_forgotten_in_a_path power_of_r x_for_deviation eps_forgotten_in_dvar "
            "direct_term_dropped variance_within_examples r_twice divided_by_r "
            "compact_form_incomplete dxhat_returned root_taken_twice brackets_forgotten_in_dx "
            "terms_exchanged divided_by_n_again variance_within_positions eps_in_one_mode "
            "gradient_of_unbiased_variance gradient_cut_to_integers",
        ),
    ],
)
def test_a_part_is_lost_by_its_own_mistakes_only(part, whole, right):
    task, kept = find(f"batch_norm/{part}"), set()
    for trial in trials(find(f"batch_norm/{whole}"), 0):
        verdict = judge(observe(trial.answer, task), task)
        if verdict.passed:
            kept.add(trial.mistakes[0].name)
        elif trial.mistakes[0].name not in task.without:
            assert len(verdict.mistakes) == 1, trial.mistakes[0].name
    assert kept == set(right.split())
