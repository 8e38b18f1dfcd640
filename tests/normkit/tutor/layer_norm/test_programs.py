"""The programs of the assignment and their mistakes: what messages state, what is told together."""

import numpy as np
import pytest

from normkit.tutor.judging import judge
from normkit.tutor.mistakes import combine, mistakes_of
from normkit.tutor.observing import observe
from normkit.tutor.tasks import find

PROGRAM = "layer_norm/layer_norm"


def wrong(name, program=PROGRAM, way=0):
    (mistake,) = (m for m in mistakes_of(program) if m.name == name)
    return combine(program, mistake, ways=[way])


def test_numbers_that_the_messages_state():
    x = np.array([[0.2, 0.1, 0.3]])
    right = combine(PROGRAM)
    np.testing.assert_allclose(wrong("unbiased_variance")(x, eps=0), right(x, eps=0) * 0.8165, 1e-4)
    np.testing.assert_allclose(wrong("sum_of_squares")(x, eps=0), right(x, eps=0) / 1.7321, 1e-4)
    small = np.array([1e-4, -1e-4])
    np.testing.assert_allclose(wrong("eps_outside_root")(small), [0.909, -0.909], atol=1e-3)
    np.testing.assert_allclose(right(small), [0.0316, -0.0316], atol=1e-4)
    x = np.array([1.0, 7, 5, 5])
    np.testing.assert_allclose(wrong("rms_instead")(x), [0.2, 1.4, 1, 1], atol=1e-4)
    np.testing.assert_allclose(right(x), [-1.61, 1.15, 0.23, 0.23], atol=5e-3)
    with np.errstate(invalid="ignore"):
        assert np.isnan(wrong("no_eps")(np.ones(3))).all()
    far = np.array([10_001, 10_003, 10_005, 10_007], np.float32)
    assert np.abs(right(far)).max() < 1.4 < 900 < wrong("one_pass_variance")(far).max()


def test_the_tests_that_the_messages_of_the_gradients_state():
    x, dy = np.array([[1.0, 3, 5, 7]]), np.array([[1.0, 2, 3, 4]])
    program = "layer_norm/layer_norm_backward"
    assert np.abs(combine(program)(dy, x)[0]).max() < 1e-5
    assert np.abs(wrong("detached_statistics", program)(dy, x)[0]).min() > 0.1
    x, dy = np.array([[0.0, 2, 7]]), np.array([[1.0, 5, 0]])
    right = combine(program)
    for name in ("mean_term_dropped", "mean_term_added"):
        assert abs(right(dy, x)[0].sum()) < 1e-9 < 0.1 < abs(wrong(name, program)(dy, x)[0].sum())
    assert abs((right(dy, x)[0] * x).sum()) < 1e-5
    assert abs((wrong("xhat_term_dropped", program)(dy, x)[0] * right(dy, x)[1]).sum()) > 0.1


def test_the_closed_form_and_the_stages_agree():
    rng = np.random.default_rng(0)
    given = rng.normal(size=(2, 3, 5)), rng.normal(size=(2, 3, 5)), rng.normal(size=5)
    programs = find("layer_norm/backward").programs
    closed, staged = (combine(program)(*given) for program in programs)
    for one, other in zip(closed, staged, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.parametrize(
    ("task", "names"),
    [
        ("layer_norm/forward", {"unbiased_variance", "eps_outside_root"}),
        ("layer_norm/forward", {"batch_axis", "no_eps"}),
        ("layer_norm/forward", {"one_pass_variance", "gamma_forgotten"}),
        ("layer_norm/forward", {"unbiased_variance", "affine_forgotten"}),
        ("layer_norm/layer", {"unbiased_variance", "gamma_beta_names"}),
        ("layer_norm/layer", {"weight_starts_at_zero", "bias_starts_at_one"}),
        ("layer_norm/backward", {"gamma_forgotten_in_dx", "gradients_averaged"}),
        ("layer_norm/invariance", {"dataset_recentring", "exact_equality"}),
    ],
)
def test_likely_pairs_are_both_named(task, names):
    program = find(task).programs[0]
    made = [mistake for mistake in mistakes_of(program) if mistake.name in names]
    found = judge(observe(combine(program, *made), task), task).mistakes
    assert {mistake.name for mistake in found} == names
