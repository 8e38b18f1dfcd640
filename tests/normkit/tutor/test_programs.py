"""Right programs, and where each of their lines stands."""

import traceback

import numpy as np
import pytest

from normkit.tutor.programs import Edit, Stale, find_program, margin, pattern, places

NORM = find_program("layer_norm/layer_norm")


def test_each_statement_has_its_lines_and_what_it_assigns():
    found = places("@mark\ndef f(a):\n    b = (\n        a\n    )\n    return b\n")
    assert [(p.text, p.target, p.first, p.last) for p in found] == [
        ("@mark", "", 1, 1),
        ("def f(a):", "", 2, 2),
        ("b = a", "b", 3, 5),
        ("return b", "return", 6, 6),
    ]


def test_a_head_without_a_body_stands_for_the_head_alone():
    assert [place.text for place in pattern(["if a:", "    b = 1", "else:"])] == [
        "if a:",
        "b = 1",
        "else:",
    ]
    assert [place.text for place in pattern(["with no_grad():"])] == ["with no_grad():"]
    assert [place.text for place in pattern(["@decorated"])] == ["@decorated"]


def test_spaces_quotes_and_comments_do_not_matter():
    (written,) = pattern(["xhat = ( x-mean )/np.sqrt(var+eps)  # the formula"])
    assert [place.target for place in NORM.find([written.text])] == ["xhat"]


def test_what_is_not_there_once_is_stale():
    with pytest.raises(Stale, match="must have 'sigma = 1' once, but has it 0 times"):
        NORM.find(["sigma = 1"])


def test_a_body_moves_to_the_left_when_its_head_goes():
    source = "def f(x):\n    if x:\n        y = 1\n        z = 2\n    return x\n"
    program = type(NORM)("f/f", source, {})
    edit = Edit(first=2, last=2, lines=(), end=4, left=4)
    assert program.rewrite([edit]) == "def f(x):\n    y = 1\n    z = 2\n    return x\n"
    assert margin("    y") == 4


def test_a_traceback_inside_a_wrong_program_names_it_with_the_line():
    wrong = NORM.made(NORM.source.replace("return ", "return 1 / 0 * "), "divided")
    with pytest.raises(ZeroDivisionError) as caught:
        wrong(np.ones(2), np.ones(2), np.ones(2))
    said = "".join(traceback.format_exception(caught.value))
    assert "<layer_norm/layer_norm: divided>" in said and "return 1 / 0 *" in said


def test_a_program_knows_which_others_it_calls():
    found = find_program("layer_norm/layer_norm_invariance")
    assert found.calls() == {"unchanged": "layer_norm/unchanged"} and NORM.calls() == {}


def test_a_program_that_does_not_exist_is_said_so():
    with pytest.raises(LookupError, match="There is no program 'layer_norm/none'"):
        find_program("layer_norm/none")
