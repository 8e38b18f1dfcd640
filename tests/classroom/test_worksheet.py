"""The table that an LMS gives: who is who, where grades go, and that all else stays."""

import csv
import unicodedata

import pytest
from nbgrader.api import Student

from classroom.worksheet import Person, folded, names, read

ADA = (7, "Ada Lovelace", "ada@example.org", "2023001")


def rows(path):
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def people(path, *known):
    return {number: person.id for number, person in read(path).people(known).items()}


def test_a_student_is_the_id_number_else_the_email_else_the_participant(worksheet):
    path = worksheet(ADA, (8, "Blaise", "b@example.org", ""), (9, "", "", ""))
    assert people(path) == {"7": "2023001", "8": "b@example.org", "9": "participant-9"}
    assert read(path).people([])["7"] == Person("2023001", "Ada Lovelace", "ada@example.org")


def test_whom_the_gradebook_knows_keeps_the_identifier_of_there(worksheet):
    by_email = Student(id="ada", email="Ada@Example.org")
    by_number = Student(id="2023001")
    assert people(worksheet(ADA), by_email) == {"7": "ada"}
    assert people(worksheet(ADA), by_number) == {"7": "2023001"}


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_name_alone_is_enough_where_only_one_has_it(worksheet, form):
    path = worksheet((7, unicodedata.normalize(form, "Zoé Ångström"), "", ""))
    zoe = Student(id="zoe", first_name="Zoé", last_name="Ångström")
    assert people(path, zoe, Student(id="ada")) == {"7": "zoe"}
    assert people(path, zoe, Student(id="zoe2", first_name="Zoé", last_name="Ångström")) == {
        "7": "participant-7"
    }


def test_homonyms_of_one_worksheet_are_two_people(worksheet):
    path = worksheet((7, "Wang Wei", "", ""), (8, "Wang Wei", "", ""))
    wei = Student(id="wei", first_name="Wei", last_name="Wang")
    assert people(path, wei) == {"7": "participant-7", "8": "participant-8"}


@pytest.mark.parametrize(
    ("second", "reason"),
    [("2023001", "2023001 stands in more than one row"), ("../x", "'../x'"), (".x", "'.x'")],
)
def test_an_identifier_is_that_of_one_and_names_a_folder(worksheet, second, reason):
    with pytest.raises(SystemExit, match=reason):
        people(worksheet(ADA, (8, "Blaise", "", second)))


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", [False, True])
def test_only_grades_change(worksheet, tmp_path, newline, bom):
    path = worksheet(ADA, (8, "Zoé", "", ""), most="", newline=newline, bom=bom)
    read(path).write(tmp_path / "same.csv")
    read(path).filled({"7": 17.456}, 20).write(tmp_path / "new.csv")
    before, after = rows(path), rows(tmp_path / "new.csv")
    assert after[0].pop("Grade") == "17.46" and before[0].pop("Grade") == ""
    assert after == before
    assert rows(tmp_path / "same.csv") == rows(path)
    for written in ("same.csv", "new.csv"):
        raw = (tmp_path / written).read_bytes()
        assert raw.startswith(b"\xef\xbb\xbf") == bom
        assert raw.count(newline.encode()) == raw.count(b"\n") == 3


@pytest.mark.parametrize(
    ("most", "grade"), [("20.00", "15"), ("100.00", "75"), ("10,00", "7.5"), ("-", "15")]
)
def test_points_are_out_of_what_the_worksheet_says(worksheet, tmp_path, most, grade):
    path = worksheet(ADA, most=f'"{most}"')
    read(path).filled({"7": 15}, 20).write(tmp_path / "new.csv")
    assert rows(tmp_path / "new.csv")[0]["Grade"] == grade


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_french_worksheet_is_read(tmp_path, delimiter):
    head = ["Identifiant", "Nom complet", "Adresse de courriel", "Numéro d’identification", "Note"]
    row = ["Participant 7", "Zoé", "z@example.org", "42", ""]
    path = tmp_path / "notes.csv"
    path.write_text(f"{delimiter.join(head)}\n{delimiter.join(row)}\n", "utf-8")
    assert people(path) == {"7": "42"}
    read(path).filled({"7": 3}, 20).write(path)
    assert path.read_text("utf-8").splitlines()[1] == delimiter.join([*row[:-1], "3"])


def test_the_gradebook_of_canvas_says_who_is_who_and_takes_no_grade(tmp_path):
    path = tmp_path / "canvas.csv"
    path.write_text(
        "Student,ID,SIS User ID,SIS Login ID,Section\n    Points Possible,,,,\n"
        '"Lovelace, Ada",12345,s1,ada,A\n',
        "utf-8",
    )
    assert read(path).people([]) == {"12345": Person("ada", "Lovelace, Ada")}
    with pytest.raises(SystemExit, match="column of grades"):
        read(path).filled({}, 20)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "its columns are none"),
        (b"a,b\n1,2\n", "its columns are a, b"),
        ("Identifier,Prénom\n".encode("latin-1"), "UTF-8"),
        (None, "cannot be read"),
    ],
)
def test_what_is_no_worksheet_is_refused(tmp_path, content, reason):
    path = tmp_path / "x.csv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SystemExit, match=reason):
        read(path)


def test_names_are_the_same_however_an_lms_writes_them():
    student = Student(id="x", first_name="Anne-Marie", last_name="O'Brien")
    assert {folded("Anne-Marie OBrien"), folded("o'brien, anne-marie")} == names(student)
    assert names(Student(id="x")) == set()
