"""What goes back is read as Moodle and Canvas read it, by the rules of their source code.

Moodle: `mod/assign/feedback/file/importziplib.php`; Canvas: `Assignment#generate_comments…`.
"""

import csv
import os
import re
import sys
import zipfile
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from classroom import collect, handback, part
from classroom.handback import WAITING, hand_back
from classroom.report import course

NAME = "layer_norm"
POINTS = {"ada": 17.456, "zoe": 0, "2023009": 12}
MOODLE = {
    "ada": "Ada Lovelace_7_assignsubmission_file/",
    "zoe": "Zoé Ångström_8_assignsubmission_file_/",
    "2023009": "祖冲之_9_assignsubmission_file_",
}
CLASS = [
    (7, "Ada Lovelace", "", "ada"),
    (8, "Zoé Ångström", "", "zoe"),
    (9, "祖冲之", "", "2023009"),
    (10, "Nobody", "", "nil"),
]


def grade(student, points, feedback="<p>Good.</p>"):
    """What `nbgrader autograde` and `generate_feedback` leave behind."""
    with Gradebook(course().db_url) as book:
        book.update_or_create_student(student)
        book.add_submission(NAME, student)
        for cell in book.find_submission(NAME, student).notebooks[0].grades:
            cell.auto_score = points if cell.name == "test_forward" else 0
            cell.needs_manual_grade = (cell.name, student) == ("written", "zoe")
        book.db.commit()
    if feedback:
        path = Path("feedback", student, NAME, f"{NAME}.html")
        path.parent.mkdir(parents=True)
        path.write_text(f"{feedback} {student}", "utf-8")


@pytest.fixture
def graded(classroom):
    for student, points in POINTS.items():
        grade(student, points)
    return classroom


@pytest.fixture
def from_lms():
    """Have collected submissions that an LMS called by these names."""

    def from_lms(named):
        rows = [("student", "assignment", "lms"), *((s, NAME, lms) for s, lms in named.items())]
        collect.write(collect.record_of(course()), collect.worksheet.as_csv(rows).encode())

    return from_lms


def moodle_reads(path):
    """For whom Moodle takes each file, and the name it gives it."""
    parts, rest = path.split("/"), None
    while parts:
        info = parts.pop(0).split("_", 4)
        if len(info) >= 4 and info[1].isdigit() and info[2:4] == ["assignsubmission", "file"]:
            rest = [*info[4:], *parts]
            return int(info[1]), "/".join(part for part in rest if part)
    return None


def test_moodle_finds_each_student_in_the_zip(graded, from_lms):
    from_lms(MOODLE)
    returned = hand_back(NAME)
    with zipfile.ZipFile("returned/layer_norm/feedback.zip") as archive:
        found = {moodle_reads(name): archive.read(name).decode() for name in archive.namelist()}
        assert sorted(archive.namelist()) == sorted(
            f"{lms}layer_norm.html" for lms in MOODLE.values()
        )
    page = "layer_norm.html"
    assert found == {
        (7, page): "<p>Good.</p> ada",
        (8, page): "<p>Good.</p> zoe",
        (9, page): "<p>Good.</p> 2023009",
    }
    assert "feedback of 3 students" in str(returned)


def test_canvas_finds_each_student_in_the_zip(graded, from_lms):
    from_lms({"ada": "lovelaceada_LATE_123_9000_"})
    returned = hand_back(NAME)
    with zipfile.ZipFile("returned/layer_norm/feedback.zip") as archive:
        (name,) = archive.namelist()
    numbers = [part for part in name.split("_") if part.isdigit()]
    assert numbers == ["123", "9000"] and name.endswith("_layer_norm.html")
    (told,) = [which for what, which in returned.told.items() if "Not in feedback.zip" in what]
    assert told == ["2023009", "zoe"]


def test_there_is_a_folder_for_each_student_and_no_empty_zip(graded):
    hand_back(NAME)
    written = {path.as_posix() for path in Path("returned").rglob("*.*")}
    assert written == {f"returned/layer_norm/{student}/layer_norm.html" for student in POINTS}


def grades(path):
    with path.open(encoding="utf-8", newline="") as file:
        return {row["ID number"]: row["Grade"] for row in csv.DictReader(file)}


def test_the_worksheet_comes_back_filled(graded, from_lms, worksheet):
    from_lms(MOODLE)
    returned = hand_back(NAME, worksheet(*CLASS, most="20.00"))
    written = Path("returned/layer_norm/grading.csv")
    assert grades(written) == {"ada": "17.46", "zoe": "", "2023009": "12", "nil": ""}
    assert f"{written}: 2 grades\n" in str(returned) and returned.told == {WAITING: ["zoe"]}


def test_points_are_rescaled_aloud(graded, worksheet):
    returned = hand_back(NAME, worksheet(*CLASS, most="100.00"))
    assert grades(Path("returned/layer_norm/grading.csv"))["2023009"] == "60"
    assert "2 grades, of 100 points instead of 20" in str(returned)


def test_a_participant_of_anonymous_marking_gets_the_grade(classroom, from_lms, worksheet):
    grade("participant-7", 5)
    from_lms({"participant-7": "Participant_7_assignsubmission_file/"})
    hand_back(NAME, worksheet((7, "", "", ""), (8, "", "", ""), most="20"))
    with Path("returned/layer_norm/grading.csv").open(encoding="utf-8") as file:
        assert [row["Grade"] for row in csv.DictReader(file)] == ["5", ""]


def test_the_worksheet_of_another_assignment_is_refused(graded, from_lms, worksheet):
    from_lms(MOODLE)
    others = [(number + 70, *person) for number, *person in CLASS]
    with pytest.raises(SystemExit, match="must be the worksheet of layer_norm: ada is number 77"):
        hand_back(NAME, worksheet(*others))
    assert not Path("returned/layer_norm/grading.csv").exists()


def test_who_is_in_no_worksheet_or_has_no_feedback_is_told(graded, worksheet):
    grade("late", 3, feedback="")
    returned = str(hand_back(NAME, worksheet(*CLASS)))
    assert re.search(r"Graded, but not in grading.csv \(1\):\n  late", returned)
    assert re.search(r"No feedback: nbgrader generate_feedback .*\n  late", returned)


def test_feedback_that_is_older_than_the_grading_is_told(graded):
    path = Path("autograded/ada/layer_norm/layer_norm.ipynb")
    path.parent.mkdir(parents=True)
    path.touch()
    os.utime(path, (2e9, 2e9))
    assert re.search(r"older than the grading: .* --force \(1\):\n  ada", str(hand_back(NAME)))


def test_feedback_that_is_older_than_the_choice_of_tasks_is_told(graded):
    part.keep(NAME, frozenset({"test_forward"}))
    os.utime(part.file(NAME), (2e9, 2e9))
    assert "older than the grading" in str(hand_back(NAME))


@pytest.mark.parametrize(
    ("name", "reason"), [("no_norm", "knows no no_norm"), (NAME, "Nothing is graded yet")]
)
def test_there_must_be_something_to_hand_back(classroom, name, reason):
    with pytest.raises(SystemExit, match=reason):
        hand_back(name)
    assert not Path("returned").exists()


def test_a_class_goes_from_the_zip_to_the_zip_in_three_commands(
    classroom, exercise, worksheet, tmp_path, monkeypatch, capsys
):
    sheet, path = worksheet(*CLASS, most="20.00"), tmp_path / "class.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for lms in MOODLE.values():
            archive.writestr(f"{lms}Untitled.ipynb", exercise())
    monkeypatch.setattr(sys, "argv", ["collect", str(path), "--worksheet", str(sheet)])
    collect.main()
    assert "layer_norm: 3 collected" in capsys.readouterr().out
    for student, points in POINTS.items():  # what the second command does
        grade(student, points)
    monkeypatch.setattr(sys, "argv", ["handback", NAME, "--worksheet", str(sheet)])
    handback.main()
    assert "feedback of 3 students" in capsys.readouterr().out
    with zipfile.ZipFile("returned/layer_norm/feedback.zip") as archive:
        assert sorted(archive.namelist()) == sorted(
            f"{lms}layer_norm.html" for lms in MOODLE.values()
        )
    assert grades(Path("returned/layer_norm/grading.csv"))["ada"] == "17.46"
