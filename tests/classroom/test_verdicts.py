"""The verdicts of a submission are kept with its graded cells, whatever a student publishes."""

import nbformat.v4 as nb
import pytest

from classroom.verdicts import KEY, KeepVerdicts, address, mistakes
from normkit.tutor.feedback import VERDICT

FORWARD, LAYER = "layer_norm/forward", "layer_norm/layer"
UNBIASED = "layer_norm/unbiased_variance"


def verdict(task, *names, passed=False):
    return {"task": task, "passed": passed, "mistakes": list(names)}


def cell(*verdicts, test=None):
    """A cell that published these; graded if it has a name."""
    outputs = [nb.new_output("display_data", data={VERDICT: v}) for v in verdicts]
    metadata = {"nbgrader": {"grade": True, "grade_id": test}} if test else {}
    return nb.new_code_cell("", outputs=outputs, metadata=metadata)


def kept(*cells):
    """What is kept with each graded cell."""
    notebook, _ = KeepVerdicts().preprocess(nb.new_notebook(cells=list(cells)), {})
    assert not [c for c in notebook.cells if KEY in c.metadata and "nbgrader" not in c.metadata]
    return [c.metadata[KEY]["verdicts"] for c in notebook.cells if "nbgrader" in c.metadata]


def test_a_verdict_stands_with_the_test_in_or_before_which_it_was_given():
    first, second = verdict(FORWARD, UNBIASED), verdict(LAYER, passed=True)
    assert kept(cell(first), cell(test="a"), cell(second, test="b"), cell(first)) == [
        [first],
        [second],
    ]
    assert kept(cell(test="a")) == [[]]


def test_of_several_on_one_task_the_last_counts():
    first, last = verdict(FORWARD, UNBIASED), verdict(FORWARD, passed=True)
    assert kept(cell(first, last, test="a")) == [[last]]


@pytest.mark.parametrize(
    "forged",
    [
        "passed",
        ["layer_norm/forward"],
        {},
        {"task": ["layer_norm/forward"]},
        {"task": "os/system", "passed": True},
        {"task": "../layer_norm/forward", "passed": True},
    ],
)
def test_what_is_no_verdict_is_left_out(forged):
    assert kept(cell(forged, test="a")) == [[]]


@pytest.mark.parametrize(
    ("names", "known"),
    [
        (["layer_norm/no_such", [], {}, None, UNBIASED, UNBIASED], [UNBIASED]),
        (UNBIASED, []),
        (None, []),
        (["x" * 1000] * 1000, []),
    ],
)
def test_of_a_forged_verdict_only_what_the_course_knows_is_kept(names, known):
    forged = {"task": FORWARD, "passed": "yes", "mistakes": names, "more": "x" * 1000}
    assert kept(cell(forged, test="a")) == [[verdict(FORWARD, *known)]]


def test_the_mistakes_are_read_from_the_metadata_alone():
    graded = cell(verdict(FORWARD, UNBIASED), test="a")
    assert mistakes(graded) == ()
    kept(graded)
    graded.outputs = []
    assert [mistake.key for mistake in mistakes(graded)] == [UNBIASED]


def test_a_task_or_mistake_that_is_gone_is_passed_over():
    gone = [verdict("layer_norm/gone", UNBIASED), verdict(FORWARD, "layer_norm/gone")]
    graded = nb.new_code_cell("", metadata={KEY: {"verdicts": gone}})
    assert mistakes(graded) == ()


def test_the_address_is_that_of_the_book_or_none(monkeypatch):
    (mistake,) = mistakes(
        nb.new_code_cell("", metadata={KEY: {"verdicts": [verdict(FORWARD, UNBIASED)]}})
    )
    monkeypatch.setenv("NORMKIT_BOOK", "https://example.org/")
    assert address("fr")(mistake).startswith("https://example.org/fr/")
    monkeypatch.delenv("NORMKIT_BOOK")
    assert address("fr")(mistake) == ""
