"""The table of a class that an LMS gives: who is who there, and where a grade goes.

Moodle's grading worksheet (*Download grading worksheet*), with its columns in English, French or
Chinese, or the CSV that Canvas exports from its gradebook. All that is not a grade stays as it is:
Moodle compares it with what it knows.
"""

import csv
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nbgrader.api import Student

from classroom.exports import number

# What is told apart, by the names that Moodle (and Canvas, last) gives its column.
COLUMNS = {
    "number": ("identifier", "identifiant", "标识符", "id"),
    "name": ("full name", "nom complet", "全名", "姓名", "student"),
    "id": ("id number", "numéro d'identification", "学号", "id 号", "sis login id"),
    "login": ("username", "nom d'utilisateur", "用户名", "sis user id"),
    "email": ("email address", "adresse de courriel", "电子邮件地址", "email地址", "邮箱地址"),
    "grade": ("grade", "note", "成绩"),
    "most": ("maximum grade", "note maximale", "最高成绩", "最高分"),
}
IDENTIFIER = re.compile(r"[^\W_][\w.@+ -]*")  # it becomes the name of a folder
MUST = "It must be Moodle's grading worksheet, or the CSV of Canvas's gradebook"


@dataclass(frozen=True)
class Person:
    """A student, by identifier in nbgrader."""

    id: str
    name: str = ""
    email: str = ""


@dataclass(frozen=True)
class Worksheet:
    """A table: its header and rows as they came, and how they were written."""

    path: Path
    header: list[str]
    rows: list[list[str]]
    delimiter: str
    line_end: str
    encoding: str

    def of(self, row: list[str], kind: str) -> str:
        """The cell of a row in one of the ``COLUMNS``, empty where the table has none."""
        place = self.place(kind)
        return "" if place is None or place >= len(row) else row[place].strip()

    def place(self, kind: str) -> int | None:
        """Where a column stands."""
        heads = [head.strip().casefold().replace("’", "'") for head in self.header]
        return next((heads.index(head) for head in COLUMNS[kind] if head in heads), None)

    def number(self, row: list[str]) -> str:
        """The number by which the LMS names who hands in: 7 for *Participant 7*."""
        found = re.search(r"(\d+)$", self.of(row, "number"))
        return found[1] if found else ""

    def people(self, known: Iterable[Student]) -> dict[str, Person]:
        """Who has which number; whoever the gradebook knows keeps the identifier of there."""
        known = list(known)
        rows = {number: row for row in self.rows if (number := self.number(row))}
        people = {number: self._person(row, known) for number, row in rows.items()}
        for person in people.values():
            if not IDENTIFIER.fullmatch(person.id):
                raise SystemExit(
                    f"{self.path}: an identifier becomes the name of a folder, and must hold "
                    f"letters, digits and .@+_- alone; it is {person.id!r}."
                )
        count = Counter(person.id for person in people.values())
        if twice := [id for id, times in count.items() if times > 1]:
            raise SystemExit(
                f"{self.path}: each student must have an identifier of their own, and "
                f"{', '.join(twice)} stands in more than one row: correct the ID number there."
            )
        return people

    def _person(self, row: list[str], known: list[Student]) -> Person:
        name, email = self.of(row, "name"), self.of(row, "email")
        said = [word for kind in ("id", "login", "email") if (word := self.of(row, kind))]
        for student in known:
            if student.id in said or (email and folded(email) == folded(student.email or "")):
                return Person(student.id, name, email)
        if not said:  # a name alone: whoever the gradebook knows by it, if only one has it
            here = [row for row in self.rows if folded(self.of(row, "name")) == folded(name)]
            same = {student.id for student in known if folded(name) in names(student)}
            sure = len(same) == len(here) == 1
            return Person(same.pop() if sure else f"participant-{self.number(row)}", name)
        return Person(unicodedata.normalize("NFC", said[0]), name, email)

    def filled(self, points: Mapping[str, float], most: float) -> "Worksheet":
        """This table with a grade for each number that has points; other rows stay as they are.

        Points are rescaled to the maximum that the table gives, where it differs.
        """
        grade = self.place("grade")
        if grade is None:
            expected = ", ".join(COLUMNS["grade"])
            raise SystemExit(
                f"{self.path}: a column of grades must be there ({expected}); its columns are "
                f"{', '.join(self.header)}. Download the worksheet with Moodle in English."
            )
        rows = [list(row) for row in self.rows]
        for row in rows:
            if self.number(row) in points:
                row += [""] * (grade + 1 - len(row))
                scale = (self.most(row) or most) / most if most else 1
                row[grade] = number(points[self.number(row)] * scale)
        return replace(self, rows=rows)

    def most(self, row: list[str]) -> float | None:
        """The points that Moodle gives at most, if it says so."""
        try:
            return float(self.of(row, "most").replace(",", "."))
        except ValueError:
            return None

    def write(self, path: Path) -> None:
        """Write the table as it was written."""
        text = as_csv([self.header, *self.rows], self.delimiter, self.line_end)
        path.write_bytes(text.encode(self.encoding))


def read(path: Path) -> Worksheet:
    """Read a table; what is none ends the program, and says why."""
    try:
        raw = path.read_bytes()
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise SystemExit(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SystemExit(f"{path} must be UTF-8. In Excel, save it as *CSV UTF-8*.") from None
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
    table = Worksheet(
        path,
        rows[0] if rows else [],
        rows[1:],
        delimiter,
        line_end="\r\n" if first.endswith("\r") else "\n",
        encoding="utf-8-sig" if raw.startswith(b"\xef\xbb\xbf") else "utf-8",
    )
    if table.place("number") is None:
        raise SystemExit(
            f"{path}: {MUST}, with a column {COLUMNS['number'][0].title()}; its columns are "
            f"{', '.join(table.header) or 'none'}."
        )
    return table


def as_csv(rows: Iterable[Sequence[str]], delimiter: str = ",", line_end: str = "\n") -> str:
    """Rows as the text of a table."""
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter, lineterminator=line_end).writerows(rows)
    return text.getvalue()


def folded(words: str) -> str:
    """What two ways to write a name share: an LMS drops signs, spaces and case from some."""
    return "".join(c for c in unicodedata.normalize("NFKC", words).casefold() if c.isalnum())


def names(student: Student) -> set[str]:
    """How a student of the gradebook may be called, folded."""
    first, last = student.first_name or "", student.last_name or ""
    return {folded(first + last), folded(last + first)} - {""}
