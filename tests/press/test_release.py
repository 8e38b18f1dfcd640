"""The release: nothing leaks, the same bytes every time, nothing written in vain."""

import json
import os
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from press import PressError, stage
from press.release import release

ROOT = Path(__file__).parents[2]
WORDS = {
    "en": ("Half of it", "# divide"),
    "fr": ("La moitié", "# diviser"),
    "zh": ("一半", "# 除以"),
}


def graded(grade_id, **flags):
    flags = {"grade": False, "locked": False, "solution": False, "task": False, **flags}
    return {"nbgrader": {"grade_id": grade_id, "schema_version": 3, **flags}}


def source(language):
    title, comment = WORDS[language]
    answer = (
        f"def f(x):\n    ### BEGIN SOLUTION\n    {comment}\n    return x / 2\n    ### END SOLUTION"
    )
    test = "assert f(2) == 1\n### BEGIN HIDDEN TESTS\nassert f(6) == 3\n### END HIDDEN TESTS"
    return new_notebook(
        metadata={"source_map": [0, 3], "path": "solutions/half.md"},
        cells=[
            new_markdown_cell(title),
            new_code_cell("2 + 2", outputs=[new_output("stream", text="4")], execution_count=7),
            new_code_cell(answer, metadata=graded("half", solution=True)),
            new_code_cell(test, metadata=graded("test_half", grade=True, locked=True, points=3)),
            new_markdown_cell("So.", metadata=graded("why", grade=True, solution=True, points=1)),
        ],
    )


def sources(*names):
    return {language: {name: source(language) for name in names} for language in WORDS}


@pytest.fixture
def press(tmp_path, monkeypatch):
    """Release into an empty course that has this repository's settings."""
    monkeypatch.chdir(tmp_path)

    def run(given):
        return [path.as_posix() for path in release(given, config=ROOT / "nbgrader_config.py")]

    return run


def cells(path):
    return {cell["id"]: cell for cell in json.loads(Path(path).read_text("utf-8"))["cells"]}


def test_one_notebook_for_each_language_and_assignment(press):
    released = press(sources("half", "third"))
    assert sorted(released) == sorted(
        f"exercises/{language}/{name}/{name}.ipynb"
        for language in WORDS
        for name in ("half", "third")
    )
    assert sorted(released) == sorted(p.as_posix() for p in Path("exercises").rglob("*.*"))


@pytest.mark.parametrize("language", WORDS)
def test_no_answer_nor_hidden_test_nor_output_leaks(press, language):
    press(sources("half"))
    text = Path(f"exercises/{language}/half/half.ipynb").read_text("utf-8")
    assert not [leak for leak in ("x / 2", "f(6)", "So.", "solutions/") if leak in text]
    found = cells(f"exercises/{language}/half/half.ipynb")
    assert found["cell-1"]["outputs"] == [] and found["cell-1"]["execution_count"] is None
    assert "".join(found["cell-0"]["source"]) == WORDS[language][0]
    assert json.loads(text)["metadata"]["language"] == language


def test_the_stubs_are_the_same_in_every_language(press):
    press(sources("half"))
    stubs = [cells(f"exercises/{language}/half/half.ipynb") for language in WORDS]
    for name in ("half", "test_half", "why"):
        assert stubs[0][name] == stubs[1][name] == stubs[2][name]
    assert "".join(stubs[0]["half"]["source"]) == "def f(x):\n    raise NotImplementedError"


def test_a_second_run_does_nothing(press, monkeypatch):
    press(sources("half"))
    monkeypatch.setattr("press.release._generate", pytest.fail)
    assert press(sources("half")) == []


def test_only_what_changed_is_written(press):
    press(sources("half", "third"))
    before = {path: path.stat().st_mtime_ns for path in Path("exercises").rglob("*.ipynb")}
    given = sources("half", "third")
    given["fr"]["half"].cells[0].source = "Une moitié"
    assert press(given) == ["exercises/fr/half/half.ipynb"]
    touched = [path for path, time in before.items() if path.stat().st_mtime_ns != time]
    assert touched == [Path("exercises/fr/half/half.ipynb")]


def test_the_same_bytes_in_another_place(press, tmp_path, monkeypatch):
    press(sources("half"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    press(sources("half"))
    for path in Path("exercises").rglob("*.ipynb"):
        assert path.read_bytes() == (tmp_path / path).read_bytes()


def test_a_deleted_assignment_leaves_nothing(press):
    press(sources("half", "third"))
    press(sources("half"))
    assert {path.name for path in Path("exercises").rglob("*")} == {*WORDS, "half", "half.ipynb"}
    assert not list(Path("_build").rglob("third"))


def test_a_release_edited_by_hand_is_made_again(press):
    press(sources("half"))
    path = Path("exercises/en/half/half.ipynb")
    text = path.read_text("utf-8")
    path.write_text(text.replace("Half", "A third"), "utf-8")
    assert press(sources("half")) == [path.as_posix()]
    assert path.read_text("utf-8") == text


def test_somebodys_work_is_not_written_over(press):
    press(sources("half"))
    path = Path("exercises/en/half/half.ipynb")
    work = path.read_text("utf-8").replace('"outputs": []', '"outputs": [{"output_type": 1}]')
    path.write_text(work, "utf-8")
    with pytest.raises(PressError, match=r"half\.ipynb.*work"):
        press(sources("half"))
    assert path.read_text("utf-8") == work


def test_other_files_beside_a_release_are_left_alone(press):
    press(sources("half", "third"))
    mine = Path("exercises/en/third/mine.ipynb")
    mine.write_text('{"cells": [{"outputs": [1]}]}')
    press(sources("half"))
    assert list(mine.parent.iterdir()) == [mine]


def test_no_gradebook_is_touched(press):
    press(sources("half"))
    assert not list(Path().rglob("*.db"))


def test_nbgraders_own_message_is_passed_on(press):
    given = sources("half")
    given["zh"]["half"].cells[2].source = "### BEGIN SOLUTION\n1"
    with pytest.raises(PressError, match=r"(?s)zh.*no end solution statement found"):
        press(given)


@pytest.mark.filterwarnings("ignore:Non-unique cell id")
def test_a_grade_id_used_twice_is_named(press):
    given = sources("half")
    given["en"]["half"].cells[3].metadata["nbgrader"]["grade_id"] = "half"
    with pytest.raises(PressError, match="half"):
        press(given)


def test_the_working_folder_is_left_as_it_was(press):
    here = os.getcwd()
    press(sources("half"))
    assert os.getcwd() == here


@pytest.fixture(scope="module")
def exercises(tmp_path_factory):
    """The assignments of this repository, released anew: text by path."""
    folder, here = tmp_path_factory.mktemp("exercises"), os.getcwd()
    os.chdir(ROOT)
    try:
        release(stage.assignments(), folder / "exercises", folder / "build")
    finally:
        os.chdir(here)
    return {
        path.relative_to(folder).as_posix(): path.read_text("utf-8")
        for path in folder.glob("exercises/*/*/*.ipynb")
    }


def test_the_exercises_of_this_repository_are_up_to_date(exercises):
    assert exercises == {
        path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
        for path in ROOT.glob("exercises/*/*/*.ipynb")
    }


def test_tests_and_stubs_of_written_answers_are_the_same_in_every_language(exercises):
    """They come from one gradebook; an untouched answer that differs would wait for a grade."""
    graded = {}
    for path, text in exercises.items():
        _, language, name, _ = path.split("/")
        cells = [cell for cell in json.loads(text)["cells"] if "nbgrader" in cell["metadata"]]
        assert {cell["id"] for cell in cells} == {
            cell["metadata"]["nbgrader"]["grade_id"] for cell in cells
        }
        graded.setdefault(name, {})[language] = [
            cell for cell in cells if cell["metadata"]["nbgrader"]["grade"]
        ]
    for of_language in graded.values():
        assert all(cells == of_language["en"] for cells in of_language.values())
