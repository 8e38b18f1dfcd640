"""Names choose graded cells; whatever counts points agrees on them."""

import csv

import pytest
from nbgrader.api import Gradebook

from classroom import part
from classroom.exports import MoodleExporter
from classroom.handback import hand_back
from classroom.part import Part, choice, chosen, keep, split
from classroom.points import WrittenAnswers, outcome
from classroom.report import course, read
from classroom.written import Marking

NAME = "layer_norm"
CELLS = {
    "test_forward": 'layer_norm(1)\ncheck(layer_norm, "layer_norm/forward", seed=1)\n',
    "test_dx": 'check(layer_norm_backward, "layer_norm/dx", seed=1)',
    "test_dgamma_dbeta": 'check(layer_norm_backward, "layer_norm/dgamma_dbeta", seed=1)',
    "written": "✎",
}
NORMS = {
    "test_rows": 'check(batch_norm, "batch_norm/rows", seed=1)',
    "test_training": "batch_norm(1)",
    "test_backward": 'check(batch_norm_backward, "batch_norm/backward", seed=1)',
    "test_backward_inference": 'check(b, "batch_norm/backward_inference", seed=1)',
}


@pytest.mark.parametrize(
    ("names", "cells"),
    [
        ("forward", "test_forward"),
        ("written dx", "written test_dx"),
        ("backward", "test_dx test_dgamma_dbeta"),
        ("backward,dx", "test_dx test_dgamma_dbeta"),
        ("all", ""),
    ],
)
def test_a_name_is_that_of_a_cell_or_of_a_task_with_its_parts(names, cells):
    assert choice(NAME, split(names), CELLS) == set(cells.split())


def test_a_grade_id_is_its_cell_alone_and_the_task_of_that_name_is_all_of_it():
    assert choice("batch_norm", ["test_backward"], NORMS) == {"test_backward"}
    both = {"test_backward", "test_backward_inference"}
    assert choice("batch_norm", ["backward"], NORMS) == both
    assert choice("batch_norm", ["forward", "training"], NORMS) == {"test_rows", "test_training"}


@pytest.mark.parametrize("name", ["no_such", "layer_norm/dx", "all", "Forward"])
def test_an_unknown_name_is_an_error_that_lists_the_known(name):
    with pytest.raises(ValueError, match="name: forward, dx, dgamma_dbeta, written, backward, all"):
        choice(NAME, ["forward", name], CELLS)


def test_what_counts_is_scaled_to_the_whole():
    cells = [("test_a", "code", 6.0), ("test_b", "code", 2.0), ("written", "markdown", 2.0)]
    assert Part().scale(cells) == 1
    assert Part(written=False).scale(cells) == pytest.approx(10 / 8)
    assert Part(frozenset({"test_b", "written"})).scale(cells) == pytest.approx(10 / 4)
    assert Part(frozenset({"test_b", "written"}), written=False).scale(cells) == pytest.approx(5)


def test_a_choice_is_kept_for_its_assignment_until_another_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keep(NAME, frozenset())
    assert not part.FOLDER.exists() and chosen(NAME) == frozenset()
    keep(NAME, frozenset({"written", "test_dx"}))
    assert chosen(NAME) == {"written", "test_dx"} and chosen("rms_norm") == frozenset()
    before = part.file(NAME).stat().st_mtime_ns
    keep(NAME, chosen(NAME))
    assert part.file(NAME).stat().st_mtime_ns == before
    keep(NAME, frozenset())
    assert chosen(NAME) == frozenset()


@pytest.fixture
def graded(classroom):
    """Ada has half the points of forward, all of dx, none else; a written answer waits."""
    with Gradebook(course().db_url) as book:
        book.add_student("ada")
        book.update_or_create_submission(NAME, "ada")
        for grade in book.find_submission(NAME, "ada").notebooks[0].grades:
            share = {"test_forward": 0.5, "test_dx": 1}.get(grade.name, 0)
            grade.auto_score = share * grade.max_score
            grade.needs_manual_grade = grade.name == "written"
        book.db.commit()


def test_exports_report_and_worksheet_agree(graded, worksheet):
    keep(NAME, frozenset({"test_forward", "test_dx"}))
    points = (3 + 4) * 20 / 10  # of 20, of which these two have 10
    with Gradebook(course().db_url) as book:
        so_far = outcome(book.find_submission(NAME, "ada"), WrittenAnswers())
        MoodleExporter(to="moodle.csv", assignment=[NAME]).export(book)
    assert (so_far.points, so_far.most, so_far.provisional) == (points, 20, False)
    with open("moodle.csv", encoding="utf-8") as file:
        assert [row[NAME] for row in csv.DictReader(file)] == [f"{points:g}"]
    attempts = {a.test: (a.points, a.most) for a in read(course(), NAME)}
    assert attempts == {"test_forward": (6, 12), "test_dx": (8, 8)}
    returned = hand_back(NAME, worksheet((7, "Ada", "", "ada"), most="20"))
    with (returned.folder / "grading.csv").open(encoding="utf-8") as file:
        assert [row["Grade"] for row in csv.DictReader(file)] == [f"{points:g}"]


def test_a_written_answer_that_is_left_out_is_not_marked(graded):
    assert Marking(course(), NAME).questions
    keep(NAME, frozenset({"test_forward"}))
    with pytest.raises(SystemExit, match="TASKS of make grade"):
        Marking(course(), NAME)
