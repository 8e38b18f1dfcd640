"""Batch normalisation: the numbers that its messages state, and what its probes must tell apart."""

import numpy as np
import pytest
import torch

from normkit.mistakes import combine, mistakes_of
from normkit.tasks import TASKS, judge, observe

COLUMNS = np.array([[1.0, 2], [3, 6], [5, 4], [7, 8]])
PLAIN = np.ones(2), np.zeros(2), np.zeros(2), np.ones(2)


def wrong(algorithm):
    return {mistake.name: mistake.wrong for mistake in mistakes_of(algorithm)}


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
    right = combine("batch_norm_running")(COLUMNS, *PLAIN)
    np.testing.assert_allclose(right[1:], [[0.4, 0.5], [1.5667, 1.5667]], atol=1e-4)
    found = wrong("batch_norm_running")[name](COLUMNS, *PLAIN)[2]
    np.testing.assert_allclose(found, [var, var], atol=1e-4)


def test_deviations_of_batches_of_two_average_to_less_than_one():
    x = np.random.default_rng(0).normal(size=(2, 100_000))
    assert abs(x.std(axis=0, ddof=1).mean() - 0.80) < 0.01
    assert abs(x.var(axis=0, ddof=1).mean() - 1) < 0.02


def test_the_correction_counts_positions():
    x = np.random.default_rng(0).normal(size=(2, 1, 2, 2))
    given = np.ones(1), np.zeros(1), np.zeros(1), np.zeros(1), 1.0
    right = combine("batch_norm_running")(x, *given)[2]
    found = wrong("batch_norm_running")["positions_not_counted"](x, *given)[2]
    np.testing.assert_allclose([right, found], np.array([[8 / 7], [2]]) * x.var())


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
    instance = wrong("batch_norm_forward")["instance_norm_instead"](COLUMNS, np.ones(2), beta)
    np.testing.assert_allclose(instance, np.tile(beta, (4, 1)))


def test_the_shape_of_everything_made_for_images():
    made = wrong("batch_norm_inference")["shaped_for_images"](COLUMNS[:3], *PLAIN)
    assert made.shape == (1, 2, 3, 2)


def test_the_graph_of_a_layer_grows_only_by_mistake():
    for layer, kept in ((combine("BatchNorm"), False), (wrong("BatchNorm")["graph_kept"], True)):
        layer = layer(3)
        for _ in range(3):
            layer(torch.randn(4, 3, requires_grad=True))
        assert layer.running_mean.requires_grad is kept


def test_no_axis_passes_for_another():
    for probe in TASKS["batch_norm/running"].draw(0):
        x, names = probe.inputs["x"], ("gamma", "beta", "running_mean", "running_var")
        assert all(probe.inputs[name].shape == x.shape[1:2] for name in names)
        assert len(set(x.shape)) == x.ndim or "worked" in probe.name or "as wide" in probe.name


def test_the_worked_folds_can_be_redone_by_hand():
    fold = combine("fold_batch_norm")
    first, second = (probe.inputs.values() for probe in TASKS["batch_norm/fold"].draw(0)[:2])
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
            "channels_last reshaped_to_rows",
        ),
        (
            "statistics",
            "running",
            "eps_outside_root no_eps fixed_eps no_root mean_not_subtracted gamma_forgotten "
            "beta_forgotten beta_before_gamma unbiased_variance sum_of_squares one_pass_variance "
            "mean_of_squares brackets_forgotten brackets_around_product_forgotten "
            "running_in_training old_running_in_training",
        ),
        (
            "backward_inference",
            "backward",
            "unbiased_variance sum_of_squares one_pass_variance detached_statistics "
            "mean_term_dropped xhat_term_dropped xhat_term_added sums_instead_of_means "
            "mean_of_squares means_of_everything mean_of_everything product_mean_of_everything "
            "gamma_forgotten_in_mean gamma_forgotten_in_product product_with_x exact_projection "
            "product_mean_without_xhat "
            "statistics_on_last_axis inference_formula_always running_statistics_in_dx "
            "divided_by_examples factor_two_lost factor_half_lost",
        ),
    ],
)
def test_a_part_is_lost_by_its_own_mistakes_only(part, whole, right):
    task, kept = TASKS[f"batch_norm/{part}"], set()
    for mistake in TASKS[f"batch_norm/{whole}"].mistakes:
        verdict = judge(observe(combine(task.algorithm, mistake), task), task)
        if verdict.passed:
            kept.add(mistake.name)
        else:
            assert len(verdict.mistakes) == 1, mistake.name
    assert kept == set(right.split())
