"""What an LMS gives is read as its own source code writes it, and nothing leads astray.

Moodle: `mod/assign/classes/downloader.php`; Canvas: `lib/content_zipper.rb`.
"""

import json
import os
import stat
import subprocess
import unicodedata
import zipfile
from datetime import datetime
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from classroom import collect as collecting
from classroom.collect import NEW, OLDER, OTHERS, REFUSED, REPLACED, TWICE, UNKNOWN, collect
from classroom.report import course

ROOT = Path(__file__).parents[2]
EARLY, LATE = (2026, 3, 1, 12, 0, 0), (2026, 3, 2, 12, 0, 0)
CLASS = [
    (7, "Ada Lovelace", "ada@example.org", "ada"),
    (8, "Zoé Ångström", "zoe@example.org", "zoe"),
    (9, "祖冲之", "zu@example.org", "2023009"),
]
ADA = "Ada Lovelace_7_assignsubmission_file"


@pytest.fixture
def packed(tmp_path):
    """A zip of these files; of each its bytes, or its bytes and its time."""

    def packed(files, name="class.zip"):
        path = tmp_path / name
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for inside, content in files.items() if isinstance(files, dict) else files:
                content, time = content if isinstance(content, tuple) else (content, EARLY)
                archive.writestr(zipfile.ZipInfo(inside, time), content)
        return path

    return packed


@pytest.fixture
def students(classroom):
    """Write students into the gradebook."""

    def students(*people):
        with Gradebook(course().db_url) as gradebook:
            for student, first, last in people:
                gradebook.add_student(student, first_name=first, last_name=last)

    return students


def handed_in(folder=Path()):
    """What stands in ``submitted/``: the answer that tells each notebook from the others."""
    paths = (folder / "submitted").glob("*/*/*.ipynb")
    return {
        path.relative_to(folder / "submitted").as_posix(): json.loads(path.read_bytes())[
            "metadata"
        ]["answer"]
        for path in paths
    }


def lines(summary, what):
    return "\n".join(summary.told.get(what, []))


@pytest.mark.parametrize(
    "inside",
    [
        f"{ADA}/layer_norm.ipynb",
        f"{ADA}_/layer_norm.ipynb",  # before Moodle 4.1
        f"{ADA}_layer_norm.ipynb",  # without folders
        f"{ADA}/my work/Untitled (2).ipynb",
        f"{ADA}/batch_norm.ipynb",
        f"{ADA}/layer_norm.ipynb.txt",
        f"{ADA}/devoir final",
        "Participant_7_assignsubmission_file/x.ipynb",
        "Participant 7_assignsubmission_file/x.ipynb",
        "参与者_7_assignsubmission_file/x.ipynb",
        "downloads/Somebody Else_7_assignsubmission_file/x.ipynb",  # the number decides
        f"{ADA}\\layer_norm.ipynb",
    ],
)
def test_moodles_names_say_whose_it_is_and_the_cells_say_what(
    classroom, exercise, packed, worksheet, inside
):
    summary = collect([packed({inside: exercise(answer="7")})], [worksheet(*CLASS)])
    assert handed_in() == {"ada/layer_norm/layer_norm.ipynb": "7"}
    assert not summary.told and summary.collected == {"layer_norm": 1}


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "exercises/zh").iterdir()))
@pytest.mark.parametrize("language", ["en", "fr", "zh"])
def test_each_assignment_is_known_in_each_language(
    classroom, exercise, packed, worksheet, name, language
):
    content = exercise(name, "its own", language)
    collect([packed({f"{ADA}/Untitled.ipynb": content})], [worksheet(*CLASS)])
    assert handed_in() == {f"ada/{name}/{name}.ipynb": "its own"}


def without(notebook, kept):
    """A notebook with no grade ids but these: the rest was deleted, or lost its metadata."""
    notebook = json.loads(notebook)
    for cell in notebook["cells"]:
        if cell["id"] not in kept:
            cell["metadata"], cell["id"] = {}, "x"
    return json.dumps(notebook).encode()


def test_half_the_cells_are_enough(classroom, exercise, packed, worksheet):
    half = without(exercise(), ["forward", "test_layer", "invariance", "written"])
    collect([packed({f"{ADA}/x.ipynb": half})], [worksheet(*CLASS)])
    assert list(handed_in()) == ["ada/layer_norm/layer_norm.ipynb"]


@pytest.mark.parametrize("content", [b"", b"My answers.", b'{"cells": 1}', b"[" * 100_000, None])
def test_a_notebook_that_does_not_say_what_it_is(classroom, exercise, packed, worksheet, content):
    content = without(exercise(), []) if content is None else content
    sheet = worksheet(*CLASS)
    summary = collect([packed({f"{ADA}/x.ipynb": content})], [sheet])
    assert not handed_in_paths() and "--assignment" in lines(summary, REFUSED)
    named = packed({f"{ADA}/Layer norm (1).ipynb": content}, "named.zip")
    assert collect([named], [sheet]).collected == {"layer_norm": 1}
    chosen = packed({"Zoé Ångström_8_assignsubmission_file/x.ipynb": content}, "chosen.zip")
    assert collect([chosen], [sheet], "rms_norm").collected == {"rms_norm": 1}
    assert Path("submitted/ada/layer_norm/layer_norm.ipynb").read_bytes() == content


def handed_in_paths():
    return list(Path("submitted").rglob("*.ipynb"))


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_accents_however_they_are_written(classroom, exercise, packed, students, form):
    students(("zoe", "Zoé", "Ångström"), ("ada", "Ada", "Lovelace"))
    inside = unicodedata.normalize(form, "Zoé Ångström_8_assignsubmission_file/x.ipynb")
    summary = collect([packed({inside: exercise(answer="8")})])  # without a worksheet
    assert handed_in() == {"zoe/layer_norm/layer_norm.ipynb": "8"} and not summary.told


def test_homonyms_need_the_worksheet(classroom, exercise, packed, students, worksheet):
    students(("w1", "Wei", "Wang"), ("w2", "Wei", "Wang"))
    files = {f"Wei Wang_{n}_assignsubmission_file/x.ipynb": exercise(answer=n) for n in "56"}
    summary = collect([packed(files)])
    assert not handed_in_paths()
    assert lines(summary, UNKNOWN).count("2 students have this name") == 2
    collect([packed(files)], [worksheet((5, "Wei Wang", "", "w1"), (6, "Wei Wang", "", "w2"))])
    assert handed_in() == {f"w{n - 4}/layer_norm/layer_norm.ipynb": str(n) for n in (5, 6)}


def test_anonymous_students_are_participants(classroom, exercise, packed, worksheet):
    files = {"Participant_7_assignsubmission_file/x.ipynb": exercise(answer="7")}
    sheet = worksheet((7, "", "", ""), (8, "", "", ""))
    assert not collect([packed(files)], [sheet]).told
    assert handed_in() == {"participant-7/layer_norm/layer_norm.ipynb": "7"}


def test_who_is_unknown_is_told_and_not_collected(classroom, exercise, packed, worksheet):
    files = {
        "Mallory_66_assignsubmission_file/Ada Lovelace_7_assignsubmission_file/ada.ipynb": (
            exercise()
        ),
        "Mallory_66_assignsubmission_file_Ada Lovelace_7_assignsubmission_file_x.ipynb": exercise(),
        "Default group_assignsubmission_file/x.ipynb": exercise(),
    }
    summary = collect([packed(files)], [worksheet(*CLASS)])
    assert len(summary.told[UNKNOWN]) == 3 and not handed_in_paths()
    assert "Mallory_66" in str(summary) and "--worksheet" in str(summary)


def test_of_two_attempts_the_newest_counts_and_is_said(classroom, exercise, packed, worksheet):
    files = {
        f"{ADA}/b.ipynb": (exercise(answer="first"), EARLY),
        f"{ADA}/a.ipynb": (exercise(answer="second"), LATE),
        f"{ADA}/c.ipynb": (exercise(answer="second"), EARLY),  # a copy of what counts
        f"{ADA}/d.ipynb": (exercise("rms_norm", "other"), EARLY),
    }
    summary = collect([packed(files)], [worksheet(*CLASS)])
    assert handed_in() == {
        "ada/layer_norm/layer_norm.ipynb": "second",
        "ada/rms_norm/rms_norm.ipynb": "other",
    }
    (told,) = summary.told[TWICE]
    assert f"{ADA}/a.ipynb (2026-03-02 12:00), not {ADA}/b.ipynb (2026-03-01" in told


def test_copies_of_one_time_are_counted(classroom, exercise, packed, worksheet):
    names = ["x (2)", "x (10)", "x"]
    files = {f"{ADA}/{name}.ipynb": exercise(answer=name) for name in names}
    collect([packed(files)], [worksheet(*CLASS)])
    assert handed_in() == {"ada/layer_norm/layer_norm.ipynb": "x (10)"}


def test_a_second_collection_replaces_by_what_is_newer_only(classroom, exercise, packed, worksheet):
    sheet, inside = worksheet(*CLASS), f"{ADA}/x.ipynb"
    first = packed({inside: (exercise(answer="1"), EARLY)}, "1.zip")
    second = packed({inside: (exercise(answer="2"), LATE)}, "2.zip")
    assert not collect([first], [sheet]).told
    again = collect([first], [sheet])
    assert (again.unchanged, again.collected, dict(again.told)) == (1, {}, {})
    assert "ada, layer_norm" in lines(collect([second], [sheet]), REPLACED)
    assert "ada, layer_norm" in lines(collect([first], [sheet]), OLDER)
    assert handed_in() == {"ada/layer_norm/layer_norm.ipynb": "2"}
    both = collect([second, first], [sheet])
    assert both.unchanged == 1 and list(both.told) == [TWICE]


CANVAS = "Student,ID,SIS User ID,SIS Login ID,Section\n    Points Possible,,,,\n"


@pytest.mark.parametrize("late", ["", "LATE_"])
def test_canvas_numbers_its_users(classroom, exercise, packed, tmp_path, late):
    table = tmp_path / "canvas.csv"
    table.write_text(f'{CANVAS}"Lovelace, Ada",123,,ada,\n"Lovelace, Ada",124,,ada2,\n', "utf-8")
    files = {
        f"lovelaceada_{late}123_9000_layer_norm-1.ipynb": exercise(answer="second"),
        f"lovelaceada_{late}123_8999_layer_norm.ipynb": (exercise(answer="first"), LATE),
        f"lovelaceada_{late}124_8000_ada_7_8_x.ipynb": exercise(answer="another"),
        "anon_x7Gh2_777_layer_norm.ipynb": exercise(),
    }
    summary = collect([packed(files)], [table])
    assert handed_in() == {
        "ada/layer_norm/layer_norm.ipynb": "second",
        "ada2/layer_norm/layer_norm.ipynb": "another",
    }
    assert list(summary.told) == [UNKNOWN, TWICE]


def test_canvas_without_a_table_names_its_users(classroom, exercise, packed, students):
    students(("ada", "Ada", "Lovelace"), ("zu", "冲之", "祖"))
    files = {
        "lovelaceada_123_9000_x.ipynb": exercise(answer="ada"),
        "祖冲之_LATE_124_9001_x.ipynb": exercise(answer="zu"),
    }
    assert not collect([packed(files)]).told
    assert handed_in() == {f"{s}/layer_norm/layer_norm.ipynb": s for s in ("ada", "zu")}


@pytest.mark.parametrize(
    "inside",
    [
        "ada/layer_norm/layer_norm.ipynb",
        "ada/Untitled.ipynb",
        "ada.ipynb",
        "ada_layer_norm.ipynb",
        "class B/layer_norm - ada (1).ipynb",
        "Ada Lovelace/x.ipynb",
        "layer_norm-Lovelace Ada.ipynb",
        "2023009-祖冲之-作业.ipynb",
        "祖冲之（2023009）.ipynb",
        "祖冲之_layer_norm.ipynb",
    ],
)
def test_a_folder_of_notebooks_works_as_well(classroom, exercise, students, tmp_path, inside):
    students(("ada", "Ada", "Lovelace"), ("2023009", "冲之", "祖"), ("1", "Bo", "B"))
    path = tmp_path / "class" / inside
    path.parent.mkdir(parents=True)
    path.write_bytes(exercise(answer="x"))
    summary = collect([tmp_path / "class"])
    student = "ada" if "ada" in inside.lower() else "2023009"
    assert handed_in() == {f"{student}/layer_norm/layer_norm.ipynb": "x"} and not summary.told


def test_in_folders_of_nbgrader_whoever_is_new_is_taken_in(classroom, exercise, tmp_path):
    for student in ("ada", "-rf"):
        path = tmp_path / "class" / student / "layer_norm/x.ipynb"
        path.parent.mkdir(parents=True)
        path.write_bytes(exercise(answer="x"))
    (tmp_path / "class/x.ipynb").write_bytes(exercise())
    summary = collect([tmp_path / "class"])
    assert handed_in() == {"ada/layer_norm/layer_norm.ipynb": "x"}
    assert summary.told[NEW] == ["ada"] and len(summary.told[UNKNOWN]) == 2


def test_two_students_in_one_name_are_nobody(classroom, exercise, packed, students):
    students(("ada", "", ""), ("zoe", "", ""))
    summary = collect([packed({"ada-zoe.ipynb": exercise()})])
    assert "may mean ada, zoe" in lines(summary, UNKNOWN) and not handed_in_paths()


def test_who_handed_in_something_else_is_told(classroom, exercise, packed, worksheet):
    files = {
        f"{ADA}/report.pdf": b"%PDF",
        "Zoé Ångström_8_assignsubmission_file/notes.txt": b"see below",
        "Zoé Ångström_8_assignsubmission_file/x.ipynb": exercise(),
        "__MACOSX/._x.ipynb": b"x",
        f"{ADA}/.ipynb_checkpoints/x-checkpoint.ipynb": exercise(),
    }
    summary = collect([packed(files)], [worksheet(*CLASS)])
    assert summary.told == {OTHERS: [f"ada: {ADA}/report.pdf"]}


def test_the_gradebook_learns_who_is_in_the_class(classroom, exercise, packed, worksheet):
    collect([packed({f"{ADA}/x.ipynb": exercise()})], [worksheet(*CLASS)])
    collect([packed({f"{ADA}/x.ipynb": exercise()})], [worksheet(*CLASS)])
    with Gradebook(course().db_url) as gradebook:
        known = {s.id: (s.last_name, s.email) for s in gradebook.students}
    assert known == {student: (name, email) for _, name, email, student in CLASS}


# What is hostile.


@pytest.mark.parametrize(
    "inside",
    [
        "../../Ada Lovelace_7_assignsubmission_file/x.ipynb",
        f"{ADA}/../../../x.ipynb",
        f"/{ADA}/x.ipynb",
        f"..\\..\\{ADA}\\x.ipynb",
        f"{ADA}/x\n{ADA}/y.ipynb",
        f"{ADA}/x\u2028.ipynb",
        f"{ADA}/\x1b[2Jx.ipynb",
    ],
)
def test_names_that_mislead_are_refused_on_one_line(
    classroom, exercise, packed, worksheet, inside, tmp_path
):
    before = sorted(tmp_path.rglob("*"))
    summary = collect([packed({inside: exercise()})], [worksheet(*CLASS)])
    (told,) = summary.told[REFUSED]
    assert collecting.printable(told)
    new = {path.name for path in set(tmp_path.rglob("*")) - set(before)}
    assert new == {"class.zip", "grading.csv"}


def linked(inside, target):
    entry = zipfile.ZipInfo(inside)
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return entry, target


def test_a_link_in_a_zip_is_refused(classroom, worksheet, tmp_path):
    path = tmp_path / "class.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(*linked(f"{ADA}/layer_norm.ipynb", "../../solutions/layer_norm.md"))
    summary = collect([path], [worksheet(*CLASS)])
    assert "link" in lines(summary, REFUSED) and not handed_in_paths()


def test_links_and_devices_in_a_folder_are_refused(classroom, exercise, students, tmp_path):
    students(("ada", "", ""))
    folder = tmp_path / "class/ada"
    folder.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/x.ipynb").write_bytes(exercise())
    (folder / "a.ipynb").symlink_to(tmp_path / "elsewhere/x.ipynb")
    (folder / "b").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(folder / "c.ipynb")  # which would hang for ever
    summary = collect([tmp_path / "class"])
    assert lines(summary, REFUSED).count("link or a device") == 3 and not handed_in_paths()


def test_what_is_too_large_is_refused(classroom, exercise, packed, worksheet, monkeypatch):
    monkeypatch.setattr(collecting, "MOST", 100_000)
    monkeypatch.setattr(collecting, "MOST_OF_ONE", 250_000)
    bomb = exercise() + b" " * 10_000_000
    files = [(f"{ADA}/bomb.ipynb", bomb)]
    files += [(f"{ADA}/{n}.ipynb", (exercise(answer=n), LATE)) for n in range(20)]
    files += [("Zoé Ångström_8_assignsubmission_file/x.ipynb", exercise(answer="8"))]
    summary = collect([packed(files)], [worksheet(*CLASS)])
    assert "a notebook must not be larger" in lines(summary, REFUSED)
    assert "what one student hands in must not" in lines(summary, REFUSED)
    assert handed_in()["zoe/layer_norm/layer_norm.ipynb"] == "8"
    monkeypatch.setattr(collecting, "MOST_OF_ALL", 100)
    summary = collect([packed(files)], [worksheet(*CLASS)])
    assert "collected at once" in lines(summary, REFUSED)


def test_a_zip_that_lies_about_a_size_is_no_harm(classroom, exercise, packed, worksheet):
    path = packed({f"{ADA}/x.ipynb": exercise(), f"{ADA}/y.ipynb": exercise("rms_norm")})
    raw = bytearray(path.read_bytes())
    size = len(exercise()).to_bytes(4, "little")
    assert raw.count(size) >= 2
    path.write_bytes(raw.replace(size, (10).to_bytes(4, "little")))
    summary = collect([path], [worksheet(*CLASS)])
    assert summary.collected == {"rms_norm": 1} and len(summary.told[REFUSED]) == 1


def test_a_damaged_entry_is_told(classroom, exercise, packed, worksheet):
    path = packed({f"{ADA}/x.ipynb": exercise()})
    raw = bytearray(path.read_bytes())
    raw[300:400] = bytes(100)
    path.write_bytes(raw)
    assert "cannot be read" in lines(collect([path], [worksheet(*CLASS)]), REFUSED)


@pytest.mark.parametrize("content", [None, b"PK", b"<html>log in</html>"])
def test_what_is_neither_zip_nor_folder_is_an_error(classroom, tmp_path, content):
    if content:
        (tmp_path / "class.zip").write_bytes(content)
    with pytest.raises(SystemExit, match="must be a zip or a folder"):
        collect([tmp_path / "class.zip"])


def test_the_gradebook_must_know_the_assignment(classroom, packed):
    with pytest.raises(SystemExit, match="generate_assignment layer"):
        collect([packed({})], chosen="layer")


def test_git_ignores_whatever_the_commands_write():
    folders = ["submitted", "autograded", "feedback", "reports", "returned"]
    tables = ["grades", "moodle", "canvas", "chinese", "students", "grading"]
    written = [f"{folder}/ada/x" for folder in folders] + [f"{name}.csv" for name in tables]
    written += ["gradebook.db", "gradebook.db.2026-03-01", "gradebook.tasks/layer_norm.txt"]
    written += [".nbgrader.log", "class.zip"]
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    asked = ["git", "check-ignore", "--no-index", *written]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.split() == written


def test_times_of_a_zip_become_those_of_the_files(classroom, exercise, packed, worksheet):
    files = {
        f"{ADA}/x.ipynb": (exercise(), LATE),
        "祖冲之_9_assignsubmission_file/x.ipynb": (exercise(), (1980, 0, 0, 0, 0, 0)),
    }
    collect([packed(files)], [worksheet(*CLASS)])
    times = {path.parts[1]: path.stat().st_mtime for path in handed_in_paths()}
    assert times == {"ada": datetime(*LATE).timestamp(), "2023009": 0}
