"""The catalogue: every mistake is wrong, differs from all others, and is named when made."""

import itertools

import numpy as np
import pytest

from normkit.judging import distance
from normkit.mistakes import ALGORITHMS, MISTAKES, combine, mistakes_of
from normkit.observing import run_probe
from normkit.tasks import TASKS, judge, observe

SEEDS = 0, 4703
MADE = [(name, mistake) for name, task in TASKS.items() for mistake in task.mistakes]
NAMES = [f"{name}:{mistake.name}" for name, mistake in MADE]


def gap(a, b, probe):
    """How many tolerances lie between two results."""
    if bool(a.error) != bool(b.error) or a.values.keys() != b.values.keys():
        return np.inf
    gaps = (distance(a.values[name], b.values[name]) for name in a.values)
    return max(gaps, default=0) / probe.tolerance


@pytest.mark.parametrize("name", TASKS)
def test_the_chain_of_steps_is_the_reference(name):
    task = TASKS[name]
    for seed in SEEDS:
        assert judge(observe(combine(task.algorithm), task, seed), task, seed).passed


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", TASKS)
def test_right_and_wrong_answers_lie_far_apart(name, seed):
    task = TASKS[name]
    probes = task.draw(seed)
    answers = {"right": combine(task.algorithm)} | {
        mistake.name: combine(task.algorithm, mistake) for mistake in task.mistakes
    }
    results = {n: [run_probe(answer, task, p) for p in probes] for n, answer in answers.items()}
    table = {
        (a, b): max(map(gap, results[a], results[b], probes))
        for a, b in itertools.combinations(results, 2)
    }
    for (a, b), tolerances in sorted(table.items(), key=lambda item: item[1]):
        print(f"{a:28} {b:28} {tolerances:.3g}")
    assert min(table.values()) > 20


@pytest.mark.parametrize(("name", "mistake"), MADE, ids=NAMES)
def test_a_mistake_fails_its_task_and_is_named(name, mistake):
    task = TASKS[name]
    verdict = judge(observe(combine(task.algorithm, mistake), task), task)
    assert not verdict.passed
    assert verdict.mistakes == (mistake,)
    assert mistake.label in verdict.explain()
    assert len(verdict.explain().splitlines()) <= 10


@pytest.mark.parametrize("name", [name for name, task in TASKS.items() if task.at_once > 1])
def test_two_mistakes_at_once_are_explained(name):
    task, told = TASKS[name], 0
    pairs = list(itertools.combinations(task.mistakes, 2))
    pairs = [(a, b) for a, b in pairs if not a.changes.keys() & b.changes.keys()]
    sample = pairs[:: 1 + len(pairs) // 25]
    for pair in sample:
        verdict = judge(observe(combine(task.algorithm, *pair), task), task)
        if not verdict.passed:
            assert verdict.mistakes, [m.name for m in pair]
        told += set(verdict.mistakes) == set(pair)
    # The others hide each other: one fails before the second shows
    assert told > len(sample) / 2 or not sample


def named(task, *names):
    return {mistake for mistake in TASKS[task].mistakes if mistake.name in names}


@pytest.mark.parametrize(
    ("task", "names"),
    [
        ("layer_norm/forward", {"unbiased_variance", "eps_outside_root"}),
        ("layer_norm/forward", {"batch_axis", "no_eps"}),
        ("layer_norm/forward", {"one_pass_variance", "gamma_forgotten"}),
        ("layer_norm/layer", {"unbiased_variance", "gamma_beta_names"}),
        ("layer_norm/backward", {"gamma_forgotten_in_dx", "gradients_averaged"}),
        ("layer_norm/invariance", {"dataset_recentring", "exact_equality"}),
    ],
)
def test_likely_pairs_are_both_named(task, names):
    made = named(task, *names)
    answer = combine(TASKS[task].algorithm, *made)
    assert set(judge(observe(answer, task), task).mistakes) == made


def test_numbers_that_the_messages_state():
    wrong = {mistake.name: mistake.wrong for mistake in mistakes_of("layer_norm")}
    x = np.array([[0.2, 0.1, 0.3]])
    right = combine("layer_norm")
    np.testing.assert_allclose(wrong["unbiased_variance"](x, eps=0), right(x, eps=0) * 0.8165, 1e-4)
    small = np.array([1e-4, -1e-4])
    np.testing.assert_allclose(wrong["eps_outside_root"](small), [0.909, -0.909], atol=1e-3)
    np.testing.assert_allclose(right(small), [0.0316, -0.0316], atol=1e-4)
    x = np.array([1.0, 7, 5, 5])
    np.testing.assert_allclose(wrong["rms_instead"](x), [0.2, 1.4, 1, 1], atol=1e-4)
    np.testing.assert_allclose(right(x), [-1.61, 1.15, 0.23, 0.23], atol=5e-3)
    with np.errstate(invalid="ignore"):
        assert np.isnan(wrong["no_eps"](np.ones(3))).all()


def test_every_entry_is_complete():
    assert len({(m.of, m.name) for m in MISTAKES}) == len(MISTAKES)
    for mistake in MISTAKES:
        steps = ALGORITHMS[mistake.of].steps
        assert mistake.changes and mistake.changes.keys() <= steps.keys(), mistake.name
        assert mistake.message.endswith((".", ".)")) and len(mistake.message) < 275, mistake.name
        assert mistake.label.startswith(ALGORITHMS[mistake.of].prefix + "-")
