"""Feedback: what a student reads."""

import warnings

import numpy as np
import pytest

from normkit import check, diagnose
from normkit.mistakes import combine, mistakes_of

RIGHT = combine("layer_norm")
WRONG = {mistake.name: mistake.wrong for mistake in mistakes_of("layer_norm")}


def test_right(capsys):
    diagnose(RIGHT, "layer_norm/forward")
    assert capsys.readouterr().out == "✓ layer_norm/forward: right on all 13 inputs.\n"
    check(RIGHT, "layer_norm/forward", seed=1)


def test_a_mistake_with_its_numbers_and_where_to_read(capsys, monkeypatch):
    monkeypatch.setenv("NORMKIT_BOOK", "https://example.org/")
    diagnose(WRONG["unbiased_variance"], "layer_norm/forward")
    said = capsys.readouterr().out
    assert "divides by n - 1" in said
    assert "x = [[0.2, 0.1, 0.3], [0.5, 0.1, 0.1]]" in said
    assert "[[0, -0.9995, 0.9995], [1.1546, -0.5773, -0.5773]]" in said
    assert "[[0, -1.2238, 1.2238], [1.414, -0.707, -0.707]]" in said
    address = "https://example.org/en/layer_norm.html#ln-mistake-unbiased-variance"
    assert said.strip().endswith(address)


def test_two_mistakes_are_numbered(capsys):
    two = [m for m in mistakes_of("layer_norm") if m.name in ("no_eps", "gamma_forgotten")]
    diagnose(combine("layer_norm", *two), "layer_norm/forward")
    said = capsys.readouterr().out
    assert "1. eps is not used" in said and "2. gamma has no effect" in said


def test_check_raises_what_diagnose_prints():
    with pytest.raises(AssertionError, match="divides by n - 1"):
        check(WRONG["unbiased_variance"], "layer_norm/forward")


def test_small_differences_are_shown_with_enough_digits(capsys):
    diagnose(lambda *a: RIGHT(*a) * (1 + 1e-5), "layer_norm/forward")
    said = capsys.readouterr().out
    ours, expected = (line.split()[1:] for line in said.splitlines() if line.startswith("  "))
    assert ours != expected


def test_a_large_array_is_shown_where_it_is_worst(capsys):
    def answer(x, *rest):
        y = RIGHT(x, *rest)
        if y.shape == (5, 7):
            y[3, 2] += 1
        return y

    diagnose(answer, "layer_norm/forward")
    assert "y[3, 2]" in capsys.readouterr().out


def test_the_warnings_of_an_answer_stay_quiet(capfd):
    def noisy(*arguments):
        warnings.warn("look at me", stacklevel=1)
        return np.log(-np.ones(3)) / np.zeros(3)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        diagnose(noisy, "layer_norm/forward")
    assert "look at me" not in capfd.readouterr().err
