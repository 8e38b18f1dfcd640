"""The report tells what the graded notebooks keep: time, what needs a look, mistakes by year."""

import csv
import html
import json
import re
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from classroom.report import course, report
from classroom.verdicts import KEY
from normkit.messages import translator
from normkit.tutor.mistakes import catalogue

NAME = "layer_norm"
UNBIASED, AXIS, GONE = (f"{NAME}/{name}" for name in ("unbiased_variance", "batch_axis", "gone"))
LOOK = "unusual: <b>import os</b>"


def keep(folder, student, *made, **facts):
    """Write a graded notebook that names mistakes, as `make grade` leaves it."""
    verdict = {"task": f"{NAME}/forward", "passed": not made, "mistakes": list(made)}
    of = {"grade_id": "test_forward", "grade": True, "solution": False, "schema_version": 3}
    cell = {
        **{"cell_type": "code", "id": "test", "source": "", "outputs": []},
        **{"execution_count": None, "metadata": {"nbgrader": of, KEY: {"verdicts": [verdict]}}},
    }
    notebook = {"cells": [cell], "metadata": {KEY: facts}, "nbformat": 4, "nbformat_minor": 5}
    path = folder / "autograded" / student / NAME / f"{NAME}.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(notebook), "utf-8")


@pytest.fixture
def graded(classroom):
    """A class of four, in which one wants a look and another takes long."""
    keep(classroom, "ada", flags=[], seconds=0.2)
    keep(classroom, "blaise", UNBIASED, flags=[LOOK, "is slow"], seconds=0.4)
    keep(classroom, "carl", UNBIASED, AXIS, flags=[], seconds=30.0)
    keep(classroom, "dora", flags=[])
    with Gradebook(course().db_url) as book:
        for student in ("ada", "blaise", "carl", "dora"):
            book.update_or_create_student(student)
            book.add_submission(NAME, student)
    return classroom


@pytest.fixture
def older(tmp_path):
    """Two older courses, and one in which the assignment did not exist."""
    for student in "abcdefghij":
        keep(tmp_path / "2024", student, *[AXIS, GONE][: "jihgfedcba".find(student)])
    for student in "abcde":
        keep(tmp_path / "2025", student, *[UNBIASED] * (student == "a"))
    (tmp_path / "2023" / "autograded").mkdir(parents=True)
    return [tmp_path / name for name in ("2025", "2023", "2024")]


def written(language="en", older=()):
    """The words of the page, and the rows of the table."""
    page, table = report(NAME, language, older=older)
    with table.open(encoding="utf-8", newline="") as file:
        return page.read_text("utf-8"), list(csv.DictReader(file))


def test_the_page_says_who_needs_a_look_and_how_long_it_took(graded):
    page, _ = written()
    assert "Grading took 0.4 s for each submission (median); the slowest took 30 s (carl)." in page
    assert re.findall(r'<tr><td>(\w+)</td><td lang="en">(.*?)</td>', page) == [
        ("blaise", f"{html.escape(LOOK)}; is slow")
    ]
    assert "over the years" not in page
    french, _ = written("fr")
    assert "0,4\u202fs" in french and translator("fr")("Needs a look") in html.unescape(french)


def test_the_table_says_it_once_for_each_student(graded):
    _, rows = written()
    said = {r["student"]: (r["seconds"], r["look"]) for r in rows if r["seconds"] or r["look"]}
    assert said == {"ada": ("0.2", ""), "blaise": ("0.4", f"{LOOK}; is slow"), "carl": ("30", "")}
    assert sum(bool(r["seconds"]) for r in rows) == 3


def test_nothing_is_said_of_time_or_looks_where_nothing_is_known(classroom):
    keep(classroom, "ada")
    with Gradebook(course().db_url) as book:
        book.add_student("ada")
        book.add_submission(NAME, "ada")
    page, rows = written()
    assert "Grading took" not in page and "Needs a look" not in page
    assert {(r["seconds"], r["look"]) for r in rows} == {("", "")}


def test_shares_are_compared_over_the_years_and_the_common_ones_come_first(graded, older):
    page, _ = written(older=older)
    table = page[page.index("over the years") :]
    rows = [re.findall(r"<t[dh].*?>(.*?)</t[dh]>", row) for row in table.split("<tr>")[1:]]
    rows = [[re.sub("<.*?>", "", cell) for cell in row] for row in rows]
    assert rows == [
        ["Mistake", "2023", "2024", "2025", "course"],
        ["Students", "0", "10", "5", "4"],
        ["unbiased_variance", "–", "0", "20", "50"],
        ["batch_axis", "–", "90", "0", "25"],
        [GONE, "–", "80", "0", "0"],
    ]
    assert {"unbiased_variance", "batch_axis"} <= {m.name for m in catalogue(NAME)[""]}


def test_older_courses_are_only_read_and_nothing_of_theirs_runs(graded, older):
    for folder in older:
        (folder / "nbgrader_config.py").write_text("raise SystemExit('it ran')")
        (folder / "gradebook.db").write_text("no gradebook")
    before = {p: p.stat().st_mtime_ns for folder in older for p in [folder, *folder.rglob("*")]}
    written(older=older)
    assert before == {
        p: p.stat().st_mtime_ns for folder in older for p in [folder, *folder.rglob("*")]
    }


def test_a_notebook_that_something_else_graded_counts_for_no_share(graded, older):
    path = older[0] / "autograded/stock" / NAME / f"{NAME}.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text('{"cells": [{"metadata": {}}], "metadata": {}}')
    assert ">5</td>" in written(older=older)[0]


def test_a_folder_that_is_no_course_is_refused_by_name(graded, older):
    with pytest.raises(SystemExit, match=r"autograded/: not .*nowhere$"):
        report(NAME, older=[*older, Path("nowhere")])
    assert not Path("reports").exists()
