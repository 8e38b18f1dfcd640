"""Both halves of a task, one after the other, as a notebook calls them."""

import warnings

import numpy as np
import pytest

from normkit import check, diagnose
from normkit.tutor.feedback import VERDICT
from normkit.tutor.mistakes import combine, mistakes_of

LAYER_NORM = "layer_norm/layer_norm"
RIGHT = combine(LAYER_NORM)
WRONG = {m.name: combine(LAYER_NORM, m) for m in mistakes_of(LAYER_NORM)}


def test_right(capsys):
    diagnose(RIGHT, "layer_norm/forward")
    assert capsys.readouterr().out == "✓ layer_norm/forward: right in all 13 checks.\n"
    check(RIGHT, "layer_norm/forward", seed=1)


def test_check_raises_what_diagnose_prints():
    with pytest.raises(AssertionError, match="divides by n - 1"):
        check(WRONG["unbiased_variance"], "layer_norm/forward")


def test_the_verdict_is_left_in_the_notebook_for_programs(monkeypatch):
    IPython = pytest.importorskip("IPython")
    left = []
    monkeypatch.setattr(IPython, "get_ipython", object)
    monkeypatch.setattr(IPython.display, "publish_display_data", left.append)
    diagnose(WRONG["unbiased_variance"], "layer_norm/forward")
    (data,) = left
    assert data[VERDICT] == {
        "task": "layer_norm/forward",
        "passed": False,
        "mistakes": ["layer_norm/unbiased_variance"],
    }


def test_the_warnings_of_an_answer_stay_quiet(capfd):
    def noisy(*arguments):
        warnings.warn("look at me", stacklevel=1)
        return np.log(-np.ones(3)) / np.zeros(3)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        diagnose(noisy, "layer_norm/forward")
    assert "look at me" not in capfd.readouterr().err
