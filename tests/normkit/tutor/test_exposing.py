"""A mistake on a page: its lines, and what right and wrong code make of numbers."""

import numpy as np
import pytest

from normkit.tutor.exposing import diff, expose, wrong
from normkit.tutor.mistakes import mistakes_of


def test_the_wrong_program_makes_this_mistake():
    assert wrong("layer_norm/layer_norm", "no_root")(np.array([0.0, 4.0]), eps=0).tolist() == [
        -0.5,
        0.5,
    ]


def test_lines_keep_their_indentation_among_themselves(capsys):
    plain = {"num_groups": 1, "gamma": np.ones(2), "beta": np.zeros(2)}
    expose("group_instance_norm/group_norm", "layer_norm_of_positions", [[1, 3]], **plain)
    told = capsys.readouterr().out.splitlines()
    assert told[1] == "    - if x.shape[1] % num_groups:"
    assert told[2].startswith("    -     raise ValueError(")


def test_an_array_keeps_its_dtype_and_its_rows_stand_below_each_other(capsys):
    x = np.array([300, -300], np.float16)
    expose("stability/half_precision", "all_in_half", x, show=lambda var: [[var], [var]])
    assert capsys.readouterr().out.splitlines()[-4:] == [
        "    right [[90000.]",
        "           [90000.]]",
        "    wrong [[inf]",
        "           [inf]]",
    ]


def test_an_unknown_mistake_is_an_error():
    with pytest.raises(LookupError, match="carries no mistake 'no_such_mistake'; it carries "):
        wrong("layer_norm/layer_norm", "no_such_mistake")


def test_the_diff_shows_what_a_student_writes():
    (mistake,) = (m for m in mistakes_of("layer_norm/layer_norm") if m.name == "eps_outside_root")
    assert diff("layer_norm/layer_norm", mistake).splitlines() == [
        "-    xhat = (x - mean) / np.sqrt(var + eps)",
        "+    xhat = (x - mean) / (np.sqrt(var) + eps)",
    ]
