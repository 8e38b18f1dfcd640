"""Whatever is handed in is read; what is amiss is mended and named."""

import json

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from classroom.submissions import Master, mend, read


def master(name, cell_type="code", source="the master's", **metadata):
    flags = {"grade": False, "solution": False, "locked": False, "task": False}
    known = {"schema_version": 3, "grade_id": name, "cell_type": cell_type, "checksum": "0" * 32}
    return Master(name, cell_type, source, {**known, **flags, **metadata})


MASTERS = [
    master("half", solution=True),
    master("test_half", grade=True, locked=True, points=3.0),
    master("double", solution=True),
    master("test_double", grade=True, locked=True, points=2.0),
    master("why", "markdown", "✎", grade=True, solution=True, points=1.0),
]
ANSWERS = {"half": "x / 2", "double": "2 * x", "why": "Parce que. 因为。"}


def released():
    """A notebook as it is released and filled in, with a title and a cell of the student's own."""
    graded = [
        master.cell(ANSWERS.get(master.name, "what the student sees of a test"))
        for master in MASTERS
    ]
    return new_notebook(cells=[new_markdown_cell("# Half"), *graded, new_code_cell("1 + 1")])


@pytest.fixture
def hand_in(tmp_path):
    """Hand a notebook in, as text, bytes or cells; return it mended, and what was amiss."""

    def hand_in(notebook):
        text = notebook if isinstance(notebook, str | bytes) else json.dumps(notebook)
        path = tmp_path / "half.ipynb"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        mended, refusals = read(path)
        repairs = mend(mended, MASTERS)
        return mended, refusals or repairs

    return hand_in


def sources(notebook):
    return {cell.id: cell.source for cell in notebook.cells}


def assert_complete(notebook, **answers):
    """Each cell that nbgrader knows is there once, with these answers and the master's tests."""
    graded = [cell for cell in notebook.cells if cell.metadata]
    assert sorted(cell.id for cell in graded) == sorted(master.name for master in MASTERS)
    for master in MASTERS:
        (cell,) = (cell for cell in graded if cell.id == master.name)
        assert cell == master.cell(answers.get(master.name))


def test_a_good_submission_keeps_its_answers_and_gets_the_masters_tests(hand_in):
    notebook, amiss = hand_in(released())
    assert amiss == []
    assert_complete(notebook, **ANSWERS)
    assert [cell.source for cell in notebook.cells][::6] == ["# Half", "1 + 1"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "NotJSONError"),
        ("My homework", "NotJSONError"),
        (b"\xff\xfe\x00", "UnicodeDecodeError"),
        ("[]", "AttributeError"),
        ("{}", "cannot be read"),
        ('{"nbformat": 4, "nbformat_minor": 5, "metadata": {}}', "cells"),
        ('{"nbformat": 99, "nbformat_minor": 0, "metadata": {}, "cells": []}', "cannot be read"),
    ],
)
def test_what_is_not_a_notebook_is_graded_as_empty(hand_in, text, reason):
    notebook, (remark,) = hand_in(text)
    assert reason in remark and "graded as empty" in remark and "\n" not in remark
    assert [cell.id for cell in notebook.cells] == ["test_half", "test_double", "why"]
    assert sources(notebook)["why"] == "✎"


def test_a_missing_notebook_is_graded_as_empty(tmp_path):
    notebook, remarks = read(tmp_path / "half.ipynb")
    assert (notebook.cells, remarks) == ([], ["was not handed in, graded as empty"])


def test_a_renamed_notebook_is_found(tmp_path):
    (tmp_path / "half (1).ipynb").touch()
    _, (remark,) = read(tmp_path / "half.ipynb")
    assert "half (1).ipynb" in remark


def test_a_deleted_test_comes_back_after_its_answer(hand_in):
    notebook = released()
    del notebook.cells[2]
    notebook, amiss = hand_in(notebook)
    assert amiss == ["missing, put back: test_half"]
    assert_complete(notebook, **ANSWERS)
    assert [cell.id for cell in notebook.cells][1:4] == ["half", "test_half", "double"]


def test_where_the_answer_is_deleted_too_the_test_runs_last(hand_in):
    notebook = released()
    del notebook.cells[1:3]
    notebook, amiss = hand_in(notebook)
    assert amiss == ["missing: half", "missing, put back: test_half"]
    assert notebook.cells[-1] == MASTERS[1].cell()


def test_of_repeated_cells_the_last_that_was_changed_counts(hand_in):
    notebook = released()
    notebook.cells.append(MASTERS[4].cell("✎"))
    notebook.cells.insert(0, MASTERS[4].cell("My first idea."))
    notebook.cells.append(MASTERS[1].cell())
    for number, cell in enumerate(notebook.cells):
        cell.id = str(number)  # as JupyterLab does in copies
    notebook, (remark,) = hand_in(notebook)
    assert remark.endswith("counts: test_half, why")
    assert_complete(notebook, **ANSWERS)


def test_a_retyped_cell_is_turned_back(hand_in):
    notebook = released()
    for index in (2, 3):
        cell = notebook.cells[index]
        notebook.cells[index] = new_markdown_cell(cell.source, metadata=cell.metadata)
    notebook, amiss = hand_in(notebook)
    assert amiss == ["turned into another type of cell, turned back: test_half, double"]
    assert_complete(notebook, **ANSWERS)


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"nbgrader": []},
        {"nbgrader": {"schema_version": 99}},
        {"nbgrader": {"grade_id": ["half"]}},
    ],
)
def test_a_cell_without_its_metadata_is_known_by_its_id(hand_in, metadata):
    notebook = released()
    for cell in notebook.cells:
        cell.metadata = metadata
    notebook, amiss = hand_in(notebook)
    assert amiss == [f"metadata lost or changed, restored: {', '.join(m.name for m in MASTERS)}"]
    assert_complete(notebook, **ANSWERS)


def test_points_are_the_masters(hand_in):
    notebook = released()
    notebook.cells[2].metadata.nbgrader["points"] = 100
    notebook, amiss = hand_in(notebook)
    assert amiss == ["metadata lost or changed, restored: test_half"]
    assert_complete(notebook, **ANSWERS)


def test_cells_that_nbgrader_does_not_know_are_ordinary(hand_in):
    notebook = released()
    notebook.cells[0].metadata = {"nbgrader": {"grade_id": "bonus", "grade": True, "points": 9}}
    notebook, amiss = hand_in(notebook)
    assert amiss == []
    assert_complete(notebook, **ANSWERS)


def test_outputs_and_tags_are_dropped_and_pictures_kept(hand_in):
    picture = {"a.png": {"image/png": "aGk="}}
    notebook = released()
    notebook.cells[0] = new_markdown_cell("![](attachment:a.png)", attachments=picture)
    notebook.cells[1].metadata["tags"] = ["skip-execution"]
    notebook.cells[1].outputs = [{"output_type": "stream", "name": "stdout", "text": "12/12"}]
    notebook, amiss = hand_in(notebook)
    assert amiss == []
    assert notebook.cells[0].attachments == picture
    assert_complete(notebook, **ANSWERS)


def test_half_a_character_does_not_stop_the_reader(hand_in):
    notebook = released()
    notebook.cells[1].source = "'\ud83d'"
    notebook, _ = hand_in(notebook)
    assert sources(notebook)["half"] == "'?'"
