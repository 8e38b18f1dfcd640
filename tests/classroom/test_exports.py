"""Grades for an LMS: read back as such programs read them, column by column."""

import csv
import shutil

import pytest
from nbgrader.api import Gradebook

from classroom.exports import CanvasExporter, ChineseExporter, MoodleExporter


def fill(book):
    for name, points in (("layer_norm", 20), ("rms_norm", 10)):
        book.add_assignment(name)
        book.add_notebook(name, name)
        book.add_grade_cell("test_it", name, name, max_score=points, cell_type="code")
    book.add_student("ada", first_name="Ada", last_name="Lovelace", email="ada@example.org")
    book.add_student("chongzhi", first_name="冲之", last_name="祖")
    book.add_student("zoe")
    for student, points in (("ada", 17.456), ("chongzhi", 0)):
        book.add_submission("layer_norm", student)
        grade = book.find_grade("test_it", "layer_norm", "layer_norm", student)
        grade.auto_score, grade.needs_manual_grade = points, False
    book.db.commit()


@pytest.fixture(scope="module")
def filled(alembic, tmp_path_factory):
    """The file of a gradebook: made once, because nbgrader takes seconds to make one."""
    file = tmp_path_factory.mktemp("grades") / "gradebook.db"
    with Gradebook(f"sqlite:///{file}") as book:
        fill(book)
    return file


@pytest.fixture
def gradebook(filled, tmp_path):
    with Gradebook(f"sqlite:///{shutil.copy(filled, tmp_path)}") as book:
        yield book


def table(exporter, gradebook, path, **chosen):
    exporter(to=str(path), **chosen).export(gradebook)
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {row.get("ID number") or row.get("SIS Login ID") or "": row for row in rows}


def test_moodle_finds_each_student_by_email_or_id_number(gradebook, tmp_path):
    rows = table(MoodleExporter, gradebook, tmp_path / "moodle.csv")
    assert rows["ada"] == {
        "First name": "Ada",
        "Last name": "Lovelace",
        "ID number": "ada",
        "Email address": "ada@example.org",
        "layer_norm": "17.46",
        "rms_norm": "",
    }
    assert rows["chongzhi"]["layer_norm"] == "0"
    assert (rows["zoe"]["Email address"], rows["zoe"]["layer_norm"]) == ("", "")


def test_canvas_has_its_columns_in_order_and_the_points_possible(gradebook, tmp_path):
    rows = table(CanvasExporter, gradebook, tmp_path / "canvas.csv")
    possible, ada, zu = rows[""], rows["ada"], rows["chongzhi"]
    header = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "layer_norm", "rms_norm"]
    assert list(possible) == header and next(iter(rows)) == ""
    assert possible["Student"].strip() == "Points Possible"
    assert (possible["layer_norm"], possible["rms_norm"]) == ("20", "10")
    assert ada["Student"] == "Lovelace, Ada"
    assert (ada["layer_norm"], ada["rms_norm"]) == ("17.46", "")
    assert (zu["Student"], zu["layer_norm"]) == ("祖, 冲之", "0")
    assert rows["zoe"]["Student"] == "zoe"


def test_the_chinese_table_opens_in_excel_with_number_name_and_score(gradebook, tmp_path):
    path = tmp_path / "chinese.csv"
    ChineseExporter(to=str(path), assignment=["layer_norm"]).export(gradebook)
    header, *rows = path.read_bytes().decode("utf-8").splitlines()
    assert header == "\ufeff学号,姓名,成绩"
    assert sorted(rows) == ["ada,Ada Lovelace,17.46", "chongzhi,祖冲之,0", "zoe,,"]
    ChineseExporter(to=str(path)).export(gradebook)
    header = path.read_text("utf-8-sig").splitlines()[0]
    assert header == "学号,姓名,layer_norm,rms_norm"


@pytest.mark.parametrize("exporter", [MoodleExporter, CanvasExporter])
def test_only_what_is_asked_for(exporter, gradebook, tmp_path):
    chosen = {"student": ["ada"], "assignment": ["rms_norm"]}
    rows = table(exporter, gradebook, tmp_path / "some.csv", **chosen)
    assert set(rows) - {""} == {"ada"}
    assert all("layer_norm" not in row and "rms_norm" in row for row in rows.values())


def test_a_late_penalty_is_taken_off(gradebook, tmp_path):
    submission = gradebook.find_submission("layer_norm", "ada")
    submission.notebooks[0].late_submission_penalty = 2.456
    gradebook.db.commit()
    rows = table(MoodleExporter, gradebook, tmp_path / "moodle.csv")
    assert rows["ada"]["layer_norm"] == "15"
