"""The proof by mutants: all are looked at, none that survives is missed, the report counts."""

import json
import sys

import numpy as np
import pytest

from classroom import mutants
from classroom.mutants import pairs_of, passing, report
from classroom.planting import Answer, answers, filled, note, same, showing, turns
from classroom.trial import ROOT
from normkit.tutor import judging, mistakes
from normkit.tutor.judging import trials
from normkit.tutor.tasks import find
from press.run import read

NAMES = sorted(path.stem for path in (ROOT / "solutions").glob("*.md"))
FORWARD, INVARIANCE = "layer_norm/forward", "layer_norm/invariance"


def of(name):
    return answers(read(ROOT / "solutions" / f"{name}.md"))


HARMLESS = """\
--- layer_norm

@@ same_mean
 All is well.
+ mean = 1 * x.mean(axis=-1, keepdims=True)

@@ same_root
 All is well, too.
+ xhat = (x - mean) / (var + eps) ** 0.5
"""


@pytest.fixture
def harmless(monkeypatch):
    """Two mistakes of layer_norm that are none."""
    made = mistakes.read(HARMLESS, "layer_norm")
    monkeypatch.setattr(mistakes, "catalogue", lambda assignment: made)
    caches = mistakes.mistakes_of, judging.trials, showing
    for cached in caches:
        cached.cache_clear()
    yield made[""]
    for cached in caches:
        cached.cache_clear()


def test_a_pair_that_passes_is_found(harmless):
    assert [trial.mistakes[0] for trial in trials(find(FORWARD), 0)] == harmless
    assert passing(FORWARD, 0, [(0, 1)]) == [f"same_mean + same_root ({FORWARD})"]


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", NAMES)
def test_every_test_and_every_mistake_is_looked_at(name):
    cells = read(ROOT / "solutions" / f"{name}.md").cells
    facts = [cell.metadata.get("nbgrader", {}) for cell in cells]
    points = {fact["grade_id"]: fact["points"] for fact in facts if fact.get("locked")}
    assert {t: p for answer in of(name) for t, (*_, p) in answer.tests.items()} == points
    for answer in of(name):
        tested = {t.mistakes[0].key for task, *_ in answer.tests.values() for t in showing(task)}
        known = {trial.mistakes[0].key for trial in trials(find(answer.task), 0)}
        assert tested <= known


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", NAMES)
def test_every_mistake_has_a_turn_and_every_answer_is_right_in_one(name):
    every = turns(of(name))
    assert all(any(turn) for turn in every)
    for answer, made in zip(of(name), zip(*every, strict=True), strict=True):
        assert None in made
        assert sorted(map(id, filter(None, made))) == sorted(map(id, answer.mistakes))


def test_the_cells_of_the_answers_are_filled_and_no_others():
    mistake = named(FORWARD, "unbiased_variance")
    cells = [{"id": "forward", "source": "stub"}, {"id": "other", "source": "1 + 1"}]
    made = [Answer("wrong", "forward", FORWARD), Answer("(a, b)", "forward", INVARIANCE)]
    first, second = json.loads(filled(json.dumps({"cells": cells}), made, [mistake, None]))["cells"]
    names = {}
    exec(first["source"], names)
    x = np.array([[0.2, 0.1, 0.3]])
    np.testing.assert_array_equal(names["wrong"](x), mistake.answer(x))
    assert isinstance(names["a"], dict) and second == cells[1]


def named(task, name):
    return next(trial for trial in trials(find(task), 0) if trial.mistakes[0].name == name)


def test_pairs_are_different_mistakes_and_a_sample_is_always_the_same():
    made, pairs = trials(find(FORWARD), 0), pairs_of(FORWARD, 1000)
    assert all(made[a].mistakes != made[b].mistakes for a, b in pairs)
    sample = pairs_of(FORWARD, 10)
    assert len(set(sample)) == 10 and set(sample) < set(pairs) and sample == pairs_of(FORWARD, 10)


# --- What becomes of one mistake --------------------------------------------------------------

BOTH, ROWS = "batch_norm/forward", "batch_norm/rows"
ANYWHERE = named(BOTH, "unbiased_variance")
IMAGES_ONLY = next(
    t for t in showing(BOTH) if not any(same(t, o) and o.wrong for o in trials(find(ROWS), 0))
)


def noted(mistake, rows, both, feedback=None, cell=""):
    """An answer whose tests, of 2 points each, gave these scores."""
    answer = Answer("f", "cell", BOTH, {"test_rows": (ROWS, 1, 2), "test_both": (BOTH, 1, 2)})
    told = mistake.mistakes[0].message if mistake and feedback is None else feedback or ""
    said = {"cell": cell, f'diagnose(f, "{BOTH}")': "".join(told.split())}
    note(answer, mistake, {"test_rows": rows, "test_both": both}, said)
    return answer


@pytest.mark.parametrize(
    ("mistake", "scores", "escapes"),
    [
        (ANYWHERE, (0, 0), False),
        (ANYWHERE, (2, 0), True),
        (ANYWHERE, (0, 2), True),
        (IMAGES_ONLY, (2, 0), False),
        (IMAGES_ONLY, (2, 2), True),
    ],
)
def test_a_mistake_must_lose_every_test_that_targets_it(mistake, scores, escapes):
    answer = noted(mistake, *scores)
    assert (answer.graded, bool(answer.escaped), answer.unnamed) == (1, escapes, [])


def test_a_mistake_must_be_named_by_its_own_message():
    assert noted(ANYWHERE, 0, 0, "Another message.").unnamed == ["unbiased_variance"]


def test_a_right_answer_must_keep_its_points():
    assert noted(None, 2, 0).lost == ["test_both"] and noted(None, 2, 2).lost == []


def test_a_cell_that_does_not_run_is_no_mistake_caught():
    with pytest.raises(RuntimeError, match=r"batch_norm/forward does not run: NameError"):
        noted(ANYWHERE, 0, 0, cell="NameError")


# --- The report -------------------------------------------------------------------------------


def test_the_report_counts_and_names_what_is_wrong():
    first = Answer("f", "cell", "a/b", graded=30, pairs=7, unnamed=["vague"])
    second = Answer("g", "cell", "a/long_name", graded=10, pairs=3, escaped=["sly"], passed=["x"])
    text = report([first, second]).splitlines()
    assert [" ".join(line.split()) for line in text] == [
        "task mistakes caught named named % pairs passed",
        "a/b 30 30 29 96.7 7 0",
        "a/long_name 10 9 10 100.0 3 1",
        "total 40 39 39 97.5 10 1",
        "Not caught:",
        "a/long_name: sly",
        "Not named:",
        "a/b: vague",
        "Pairs that pass:",
        "a/long_name: x",
    ]


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({}, 0),
        ({"unnamed": ["a"]}, 0),
        ({"unnamed": ["a", "b"]}, 1),
        ({"escaped": ["a"]}, 1),
        ({"passed": ["a + b"]}, 1),
        ({"lost": ["test"]}, 1),
    ],
)
def test_the_command_fails_unless_all_is_proved(wrong, code, monkeypatch, capsys):
    asked = []
    every = [Answer("f", "cell", "a/b", graded=20, pairs=1, **wrong)]
    monkeypatch.setattr(mutants, "prove", lambda *args: asked.append(args) or every)
    monkeypatch.setattr(sys, "argv", ["mutants", "rms_norm", "--pairs", "9", "--sample", "3"])
    assert mutants.main() == code
    assert asked == [(["rms_norm"], 9, 3)] and "total" in capsys.readouterr().out


def test_an_unknown_assignment_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["mutants", "layernorm"])
    with pytest.raises(SystemExit):
        mutants.main()
    assert "no layernorm; there are: batch_norm" in capsys.readouterr().err
