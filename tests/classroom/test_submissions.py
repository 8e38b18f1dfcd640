"""Whatever is handed in is read; what is amiss is mended and named."""

import json
import os
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from classroom.submissions import LARGEST, Master, mend, read, refusal


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


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]
)
def test_whatever_unicode_a_file_is_in_it_is_read(hand_in, encoding):
    notebook, amiss = hand_in(json.dumps(released(), ensure_ascii=False).encode(encoding))
    assert amiss == []
    assert_complete(notebook, **ANSWERS)


def a_link(path):
    good = path.with_name("other.txt")
    good.write_text(json.dumps(released()), "utf-8")
    path.symlink_to(good)


def sparse(path):
    path.touch()
    os.truncate(path, 10**12)


REFUSED = {
    "link": (a_link, "a symbolic link"),
    "link to nothing": (lambda path: path.symlink_to("nowhere"), "a symbolic link"),
    "link to itself": (lambda path: path.symlink_to(path), "a symbolic link"),
    "link to a device": (lambda path: path.symlink_to("/dev/zero"), "a symbolic link"),
    "FIFO": (os.mkfifo, "no regular file"),
    "folder": (Path.mkdir, "no regular file"),
    "sparse": (sparse, "1000000 MB; at most 20 MB"),
}


@pytest.mark.parametrize(("make", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_ordinary_file_is_refused_unopened(tmp_path, time_limit, make, reason):
    path = tmp_path / "half.ipynb"
    make(path)
    notebook, (remark,) = read(path)
    assert notebook.cells == []
    assert remark.startswith(f"refused: {reason}") and remark.endswith(", graded as empty")


def test_a_device_is_refused_unopened(time_limit):
    assert read(Path("/dev/zero"))[1] == ["refused: no regular file, graded as empty"]


@pytest.mark.parametrize("which", ["layer_norm", "ada"])
def test_what_lies_behind_a_linked_folder_is_refused(tmp_path, which):
    real = tmp_path / "real" / "layer_norm"
    real.mkdir(parents=True)
    (real / "half.ipynb").write_text(json.dumps(released()), "utf-8")
    folder = tmp_path / "submitted" / "ada" / "layer_norm"
    link = folder if which == "layer_norm" else folder.parent
    link.parent.mkdir(parents=True)
    link.symlink_to(real if which == "layer_norm" else real.parent)
    assert read(folder / "half.ipynb")[1][0].startswith("refused: a symbolic link")
    assert read(real / "half.ipynb")[1] == []


def test_the_largest_file_is_read_and_nothing_larger(tmp_path):
    path = tmp_path / "half.ipynb"
    path.touch()
    os.truncate(path, LARGEST)
    assert refusal(path) == ""
    os.truncate(path, LARGEST + 1)
    assert refusal(path)


@pytest.mark.parametrize("end", ["\n", "\r", "\x1b", "\u2028", "\x85"])
def test_a_name_with_a_line_end_is_refused_and_forges_no_report(tmp_path, end):
    bad = tmp_path / f"half{end}WARNING blaise, half.ipynb"
    bad.write_text(json.dumps(released()), "utf-8")
    assert read(bad)[1][0].startswith("refused: a line end")
    _, (remark,) = read(tmp_path / "half.ipynb")
    assert "WARNING blaise" in remark and end not in remark


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
