"""Reads what a class handed in, as an LMS gives it, into ``submitted/``.

`python -m classroom.collect FILE.zip` takes the zip of *Download all submissions* (Moodle, Canvas)
or a folder of notebooks. Whose a notebook is, the LMS says by the name of the folder or file; of
which assignment, the notebook says by the grade ids of its cells, whatever it is named. Nothing is
unpacked: of all that is there, only the bytes of a notebook are ever written, under a name made
here. Of several attempts the newest counts. What is not as expected is told at the end.
"""

import argparse
import csv
import json
import os
import re
import stat
import sys
import unicodedata
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial
from itertools import chain
from pathlib import Path, PurePosixPath

from nbgrader.api import Gradebook
from nbgrader.coursedir import CourseDirectory

from classroom import worksheet
from classroom.report import course
from classroom.worksheet import Person, folded

MEGABYTE = 2**20
MOST = 50 * MEGABYTE  # of one notebook
MOST_OF_ONE = 200 * MEGABYTE  # of one student, in one run
MOST_OF_ALL = 8192 * MEGABYTE
# How an LMS names what it gives: Moodle a folder or, without folders, the beginning of a name …
MOODLE = re.compile(r"(?P<lms>(?P<name>[^_]*)[_ ](?P<number>\d+)_assignsubmission_[a-z]+)(_|$)")
# … and Canvas the beginning of a name, with the numbers of a user and of an attachment.
CANVAS = re.compile(r"(?P<lms>(?P<name>.*?)(_LATE)?_(?P<number>\d+)_(?P<attempt>\d+))_")
COPY = re.compile(r"\((\d+)\)$|-(\d+)$")  # what a browser or an LMS appends to a second file

NEW = "New, and not in the gradebook"
UNKNOWN = "Unknown students, not collected"
REFUSED = "Not collected"
OTHERS = "Handed in, but no notebook"
TWICE = "Handed in more than once, the newest counts"
REPLACED = "Replaced by a newer attempt, to be graded again"
OLDER = "Older than what is in submitted/, which stays"


class Refused(Exception):
    """Why a file is not collected."""


class Unknown(Refused):
    """Why nobody can be said to have handed a file in."""


@dataclass(frozen=True)
class Found:
    """A file in a zip or a folder: its path there, its time, and its first bytes."""

    path: PurePosixPath
    time: float
    read: Callable[[int], bytes]

    def __str__(self) -> str:
        """The path, on one line."""
        path = str(self.path)
        return path if printable(path) else ascii(path)[1:-1]


@dataclass(frozen=True)
class Attempt:
    """A notebook that a student handed in for an assignment; ``lms``: what the LMS calls it."""

    student: str
    assignment: str
    found: Found
    content: int  # a hash
    lms: str
    number: int

    @property
    def order(self) -> tuple[int, float, int]:
        """Grows with each attempt: by Canvas's number (its zip has no times), by time, by name."""
        copy = COPY.search(self.found.path.stem)
        return self.number, self.found.time, int(copy[1] or copy[2]) if copy else 0

    def __str__(self) -> str:
        when = datetime.fromtimestamp(self.found.time).strftime("%Y-%m-%d %H:%M")
        return f"{self.found} ({when})"


@dataclass(frozen=True)
class Known:
    """What the gradebook and the tables of an LMS know."""

    assignments: dict[str, set[str]]  # their grade ids
    ids: set[str]
    names: dict[str, set[str]]  # whom a name means, folded
    people: dict[str, Person]  # by the number that an LMS gives
    chosen: str = ""  # the assignment of notebooks that do not say it

    @cached_property
    def every_id(self) -> re.Pattern[str]:
        """Finds the identifiers in a name; numbers of one or two digits count copies."""
        long = [i for i in self.ids if len(i) > 2 or not i.isdecimal()]
        any_of = "|".join(map(re.escape, sorted(long, key=len, reverse=True)))
        return re.compile(rf"(?<![^\W_])(?:{any_of or '(?!)'})(?![^\W_])")


@dataclass
class Summary:
    """What was collected, and all that needs a look."""

    collected: Counter[str] = field(default_factory=Counter)
    unchanged: int = 0
    told: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def __str__(self) -> str:
        lines = [f"{name}: {count} collected" for name, count in sorted(self.collected.items())]
        lines += [f"{self.unchanged} had been collected before"] if self.unchanged else []
        return "\n".join([*(lines or ["No notebook was collected."]), *listed(self.told)])


def listed(told: dict[str, list[str]]) -> Iterator[str]:
    """What needs a look, as lines."""
    for what, which in told.items():
        yield from ("", f"{what} ({len(which)}):", *(f"  {line}" for line in sorted(which)))


def collect(sources: Iterable[Path], sheets: Iterable[Path] = (), chosen: str = "") -> Summary:
    """Collect what these zips and folders hold into the course of this folder."""
    into, summary = course(), Summary()
    of = known_in(into, [worksheet.read(path) for path in sheets], chosen)
    with ExitStack() as stack:
        every = chain.from_iterable(files(source, stack) for source in sources)
        groups = defaultdict[tuple[str, str], list[Attempt]](list)
        for attempt in attempts(every, of, summary):
            groups[attempt.student, attempt.assignment].append(attempt)
        newest = [pick(group, summary) for group in groups.values()]
        for attempt in newest:
            put(attempt, into, summary)
    keep_record(into, newest)
    return summary


def known_in(into: CourseDirectory, sheets: list[worksheet.Worksheet], chosen: str) -> Known:
    """Ask the gradebook and the tables who and what is known; add who is new to the gradebook."""
    with Gradebook(into.db_url) as gradebook:
        assignments = {
            a.name: {cell.name for notebook in a.notebooks for cell in notebook.source_cells}
            for a in gradebook.assignments
        }
        if not assignments or (chosen and chosen not in assignments):
            raise SystemExit(
                f"The gradebook must know {chosen or 'the assignments'}; it knows "
                f"{', '.join(assignments) or 'none'}: nbgrader generate_assignment "
                f"{chosen or 'layer_norm'}"
            )
        people = {n: p for sheet in sheets for n, p in sheet.people(gradebook.students).items()}
        ids = {student.id for student in gradebook.students}
        for person in {p.id: p for p in people.values() if p.id not in ids}.values():
            last, _, first = person.name.partition(", ")  # as Canvas writes names
            gradebook.add_student(
                person.id,
                first_name=first or None,
                last_name=last or None,
                email=person.email or None,
            )
        names = defaultdict[str, set[str]](set)
        for student in gradebook.students:
            for name in (folded(student.email or ""), *worksheet.names(student)):
                names[name].add(student.id)
        for person in people.values():
            names[folded(person.name)].add(person.id)
        names.pop("", None)
        ids |= {person.id for person in people.values()}
    return Known(assignments, ids, dict(names), people, chosen)


def files(source: Path, stack: ExitStack) -> Iterator[Found]:
    """All files of a zip or a folder, but for the hidden ones."""
    if source.is_dir():
        every = of_folder(source)
    else:
        try:
            every = of_zip(stack.enter_context(zipfile.ZipFile(source)))
        except (OSError, zipfile.BadZipFile) as error:
            raise SystemExit(f"{source} must be a zip or a folder: {error}") from None
    for found in every:
        hidden = (part.startswith(".") and part != ".." for part in found.path.parts)
        if not any(hidden) and "__MACOSX" not in found.path.parts:
            yield found


def of_folder(folder: Path) -> Iterator[Found]:
    """The files of a folder, and links and devices, in the order of their names."""

    def read(path: Path, size: int) -> bytes:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise Refused("it must be a file, and is a link or a device")
        with path.open("rb") as file:
            return file.read(size)

    for place, folders, names in os.walk(folder):
        folders.sort()
        links = [name for name in folders if Path(place, name).is_symlink()]
        for path in (Path(place, name) for name in sorted(names + links)):
            inside = PurePosixPath(path.relative_to(folder).as_posix())
            yield Found(inside, path.lstat().st_mtime, partial(read, path))


def of_zip(archive: zipfile.ZipFile) -> Iterator[Found]:
    """The files of a zip, in its order."""

    def read(entry: zipfile.ZipInfo, size: int) -> bytes:
        if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG):
            raise Refused("it must be a file, and is a link or a device")
        try:
            with archive.open(entry) as file:
                return file.read(size)  # the size that a zip gives may be wrong
        except Exception as error:  # a zip may be damaged, encrypted, or made to do damage
            raise Refused(f"it cannot be read ({type(error).__name__}: {error})") from None

    for entry in archive.infolist():
        if not entry.is_dir():
            inside = PurePosixPath(entry.filename.replace("\\", "/"))
            yield Found(inside, time_of(entry), partial(read, entry))


def time_of(entry: zipfile.ZipInfo) -> float:
    """When a file was handed in; a zip knows no time zone, and may hold no date at all."""
    try:
        return datetime(*entry.date_time).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0


def printable(name: str) -> bool:
    """Whether a name holds no line end and no other sign that a terminal would obey."""
    return not any(unicodedata.category(sign) in {"Cc", "Cs", "Zl", "Zp"} for sign in name)


def attempts(every: Iterable[Found], of: Known, summary: Summary) -> Iterator[Attempt]:
    """The notebooks of known students, of known assignments; tells what else there is."""
    spent: Counter[str] = Counter()
    others, handed_in, new = defaultdict[str, list[str]](list), set(), set()
    for found in every:
        try:
            safe(found)
            is_one = is_notebook(found)
            student, lms, number = owner(found, of)
            if not is_one:
                others[student].append(str(found))
                continue
            content = whole(found, student, spent)
            assignment = assignment_of(content, found, of)
        except Refused as why:
            summary.told[UNKNOWN if isinstance(why, Unknown) else REFUSED].append(f"{found}: {why}")
        else:
            handed_in.add(student)
            new |= {student} - of.ids
            yield Attempt(student, assignment, found, hash(content), lms, number)
    for student in others.keys() - handed_in:
        summary.told[OTHERS].append(f"{student}: {', '.join(others[student])}")
    if new:
        summary.told[NEW].extend(new)


def safe(found: Found) -> None:
    """Refuse a name that would mislead whoever reads it, a person or a program."""
    if not printable(str(found.path)):
        raise Refused("its name must not hold line ends or control signs")
    if found.path.is_absolute() or ".." in found.path.parts:
        raise Refused("its name must not lead out of the folder")


def is_notebook(found: Found) -> bool:
    """Whether a file is a notebook, or named as one; browsers add .txt or .json to the name."""
    start = found.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
    looks = start.startswith(b"{") and re.search(rb'"(cells|metadata|nbformat)"', start)
    return found.path.suffix.lower() == ".ipynb" or bool(looks)


def whole(found: Found, student: str, spent: Counter[str]) -> bytes:
    """All bytes of a notebook, unless it is too large, or what came before."""
    for size, most, what in (
        (spent[student], MOST_OF_ONE, "what one student hands in"),
        (spent.total(), MOST_OF_ALL, "what is collected at once"),
    ):
        if size > most:  # what comes now is not even read
            raise Refused(f"{what} must not be larger than {most // MEGABYTE} MB")
    content = found.read(MOST + 1)
    spent[student] += len(content)
    if len(content) > MOST:
        raise Refused(f"a notebook must not be larger than {MOST // MEGABYTE} MB")
    return content


def assignment_of(content: bytes, found: Found, of: Known) -> str:
    """Which assignment a notebook is of: its cells say it, else its name, else the instructor."""
    marks = grade_ids(content) & set().union(*of.assignments.values())
    likeness = Counter(
        {name: len(marks & ids) / len(marks | ids or {0}) for name, ids in of.assignments.items()}
    )
    (best, high), (_, next_best) = [*likeness.most_common(2), ("", 0.0)][:2]
    if len(marks) > 1 and high > next_best:
        return best
    words = [folded(part) for part in reversed(found.path.parts)]
    named = [name for word in words for name in of.assignments if folded(name) in word]
    if named or of.chosen:
        return named[0] if named else of.chosen
    raise Refused("neither its cells nor its name tell the assignment: give --assignment")


def grade_ids(content: bytes) -> set[str]:
    """What the cells of a notebook are called: by nbgrader, and by the notebook itself."""
    try:
        cells = json.loads(content)["cells"]
        nbgrader = [cell["metadata"].get("nbgrader") or {} for cell in cells]
        found = [*(cell.get("id") for cell in cells), *(of.get("grade_id") for of in nbgrader)]
    except Exception:  # a submission may be anything
        return set()
    return {name for name in found if isinstance(name, str)}


def owner(found: Found, of: Known) -> tuple[str, str, int]:
    """Whose a file is, what the LMS calls that submission, and the number of the attempt.

    The outer folders are read first: they are the LMS's, what is inside is the student's.
    """
    *folders, file = (unicodedata.normalize("NFC", part) for part in found.path.parts)
    for part in (*folders, file):
        if named := MOODLE.match(part):
            return member(named, of), f"{named['lms']}_" if part is file else f"{part}/", 0
        if part is file and (named := CANVAS.match(part)):
            return member(named, of), f"{named['lms']}_", int(named["attempt"])
        if len(meant := mentioned(part, of)) > 1:
            raise Unknown(f"its name may mean {', '.join(sorted(meant))}")
        if meant:
            return meant.pop(), "", 0
    *_, student, assignment = ("", "", *folders)
    if assignment in of.assignments and worksheet.IDENTIFIER.fullmatch(student):
        return student, "", 0  # the folders are those of nbgrader itself
    raise Unknown("neither folder nor name says whose it is (nbgrader db student import)")


def member(named: re.Match[str], of: Known) -> str:
    """The student whom an LMS names, by a number or else by a name that only one has."""
    if person := of.people.get(named["number"]):
        return person.id
    same = of.names.get(folded(named["name"]), set())
    if len(same) == 1:
        return next(iter(same))
    why = f"{len(same)} students have this name" if same else "nobody known has this name"
    raise Unknown(f"{why}: give the table of this assignment as --worksheet")


def mentioned(part: str, of: Known) -> set[str]:
    """The students whom a name that was not given by an LMS may mean, by identifier or name."""
    stem = part.removesuffix(".ipynb")
    if stem in of.ids:
        return {stem}
    words = [folded(word) for word in (stem, *re.split(r"[-_.,()（）\[\]]+", stem))]
    ids = set(of.every_id.findall(stem))
    return ids or set().union(*(of.names.get(word, set()) for word in words))


def pick(group: list[Attempt], summary: Summary) -> Attempt:
    """The newest attempt of a student; tells of the others, unless they are the same."""
    *others, newest = sorted(group, key=lambda attempt: attempt.order)
    if differ := [str(other) for other in others if other.content != newest.content]:
        kept = f"{newest.student}, {newest.assignment}: {newest}, not {', '.join(differ)}"
        summary.told[TWICE].append(kept)
    return newest


def put(attempt: Attempt, into: CourseDirectory, summary: Summary) -> None:
    """Write a notebook where nbgrader looks for it, unless a newer one is there."""
    step, student, assignment = into.submitted_directory, attempt.student, attempt.assignment
    path = Path(into.format_path(step, student, assignment), f"{assignment}.ipynb")
    content = attempt.found.read(MOST)
    if path.exists():
        if path.read_bytes() == content:
            summary.unchanged += 1
            return
        newer = path.stat().st_mtime > attempt.found.time
        summary.told[OLDER if newer else REPLACED].append(f"{student}, {assignment}: {attempt}")
        if newer:
            return
    write(path, content)
    os.utime(path, (attempt.found.time, attempt.found.time))
    summary.collected[assignment] += 1


def write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(content)
    part.replace(path)


def record(of: CourseDirectory) -> dict[tuple[str, str], str]:
    """What the LMS calls the submission of a student for an assignment, for what goes back."""
    path = record_of(of)
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {(row["student"], row["assignment"]): row["lms"] for row in csv.DictReader(file)}


def keep_record(of: CourseDirectory, newest: Iterable[Attempt]) -> None:
    """Add to what is recorded."""
    named = {(attempt.student, attempt.assignment): attempt.lms for attempt in newest}
    rows = sorted((*key, lms) for key, lms in (record(of) | named).items() if lms)
    if rows:
        lines = worksheet.as_csv([("student", "assignment", "lms"), *rows])
        write(record_of(of), lines.encode())


def record_of(of: CourseDirectory) -> Path:
    """The file of the record: beside the students' folders, where only people look."""
    return Path(of.root, of.submitted_directory, "collected.csv")


def main() -> None:
    """Collect what the command line names."""
    parser = argparse.ArgumentParser(prog="classroom.collect", description=__doc__)
    parser.add_argument("source", type=Path, nargs="+", help="a zip or a folder")
    parser.add_argument(
        *("--worksheet", "-w"),
        action="append",
        default=[],
        type=Path,
        help="Moodle's grading worksheet or Canvas's gradebook, as CSV; may be repeated",
    )
    parser.add_argument("--assignment", default="", help="that of notebooks which do not say it")
    chosen = parser.parse_args()
    sys.path.insert(0, os.getcwd())  # nbgrader_config.py may import from the course
    print(collect(chosen.source, chosen.worksheet, chosen.assignment))


if __name__ == "__main__":
    main()
