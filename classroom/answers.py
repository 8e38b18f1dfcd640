"""The written answers of a class, by question: without names, identical ones together."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from nbformat import NotebookNode
from nbformat.v4 import reads
from nbgrader.api import Grade, Gradebook, MissingEntry
from nbgrader.coursedir import CourseDirectory

from classroom.feedback import language_of
from classroom.marks import digest, is_written, keep, text_of
from classroom.points import waits

NO_WORDS = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|\$\$.+?\$\$|\$[^$\n]+\$|<[^>]*>|https?:\S+", re.DOTALL
)
HAN, WORD, LATIN = (
    re.compile(letters) for letters in ("[\u3400-\u9fff]", r"[^\W\d_]+", "[a-z\u00df-\u024f]+")
)
# words that few sentences of a language lack, and that the other one does not have
COMMON = {
    code: set(words.split())
    for code, words in (
        ("en", "the of and is are to it that by not with this from because each which be has"),
        ("fr", "le la les des une est sont et du que qui dans par pas car ne ce sur chaque"),
    )
}
SHORT = 12  # words; fewer say too little on their language
MARKERS = re.compile(r"^[ \t]*### (?:BEGIN|END) SOLUTION\n?", re.MULTILINE)


class Question(NamedTuple):
    """A written answer that an assignment asks for: its notebook and cell, the points at most."""

    notebook: str
    cell: str
    most: float


@dataclass(frozen=True)
class Answer:
    """What one student wrote, and what the gradebook says of it; nobody's name."""

    grade_id: str
    path: Path
    cell: NotebookNode
    language: str | None
    points: float | None
    waits: bool


@dataclass(frozen=True)
class Group:
    """Identical answers to a question."""

    key: str
    answers: list[Answer]

    @property
    def blank(self) -> bool:
        """Whether nothing was answered."""
        return not text_of(self.answers[0].cell) and not self.answers[0].cell.get("attachments")

    @property
    def language(self) -> str | None:
        """The language of the answer, where it can be told."""
        return self.answers[0].language

    @property
    def waits(self) -> bool:
        """Whether one of them has no mark, or one that was given to an earlier answer."""
        return any(answer.waits for answer in self.answers)

    @property
    def points(self) -> float | None:
        """The mark of all of them; None where they have none, or different ones."""
        marks = {answer.points for answer in self.answers}
        return marks.pop() if len(marks) == 1 else None

    @property
    def changed(self) -> bool:
        """Whether the mark of one of them was given to an earlier answer."""
        return any(answer.waits and answer.points is not None for answer in self.answers)

    def accepted(self, languages: Iterable[str]) -> bool:
        """Whether the answer is in one of these languages, as far as can be told."""
        return self.blank or self.language is None or self.language in languages


def questions(gradebook: Gradebook, assignment: str) -> list[Question]:
    """The written answers that an assignment asks for."""
    try:
        notebooks = gradebook.find_assignment(assignment).notebooks
    except MissingEntry:
        raise SystemExit(
            f"The gradebook must know the assignment, and it knows no {assignment}: nbgrader "
            f"generate_assignment {assignment}"
        ) from None
    return [
        Question(notebook.name, cell.name, cell.max_score)
        for notebook in notebooks
        for cell in notebook.grade_cells
        if cell.cell_type == "markdown"
    ]


def groups(
    gradebook: Gradebook, course: CourseDirectory, assignment: str, question: Question
) -> list[Group]:
    """The answers to a question by what was written, in an order that tells nothing of names."""
    together: dict[str, list[Answer]] = {}
    for answer in read(gradebook, course, assignment, question):
        together.setdefault(digest(answer.cell), []).append(answer)
    gradebook.db.commit()  # the marks that were kept

    def shuffled(key: str) -> str:
        return hashlib.sha256(f"{assignment} {question} {key}".encode()).hexdigest()

    return [Group(key, together[key]) for key in sorted(together, key=shuffled)]


def read(
    gradebook: Gradebook, course: CourseDirectory, assignment: str, question: Question
) -> Iterator[Answer]:
    """All answers to a question; a mark that was given to this very answer is kept."""
    for submission in gradebook.assignment_submissions(assignment):
        student = submission.student.id
        folder = course.format_path(course.autograded_directory, student, assignment)
        path = Path(folder, f"{question.notebook}.ipynb")
        notebook = notebook_at(path)
        cell = notebook and cell_of(notebook, question)
        if notebook and cell:
            where = question.cell, question.notebook, assignment, student
            grade = gradebook.find_grade(*where)
            keep(gradebook, grade, digest(cell))
            spoken = language(text_of(cell), language_of(notebook))
            yield Answer(grade.id, path, cell, spoken, points(grade), waits(grade))


def notebook_at(path: Path) -> NotebookNode | None:
    """A notebook that nbgrader wrote, if it is there."""
    if not path.exists():
        return None
    return reads(path.read_text("utf-8"))  # not validated, which takes long: nbgrader wrote it


def cell_of(notebook: NotebookNode, question: Question) -> NotebookNode | None:
    """The cell of a notebook that answers a question."""
    cells = filter(is_written, notebook.cells)
    return next((c for c in cells if c.metadata.nbgrader["grade_id"] == question.cell), None)


def points(grade: Grade) -> float | None:
    """The points of an answer, if anybody gave it any; nbgrader gives 0 to an untouched one."""
    none = grade.manual_score is None and grade.auto_score is None
    return None if none else grade.score


def asked(source: NotebookNode, question: Question) -> tuple[str, str]:
    """What a source notebook says of a question: its text, and the model answer with its notes."""
    text: list[str] = []
    for cell in source.cells:
        if is_written(cell) and cell.metadata.nbgrader["grade_id"] == question.cell:
            return "\n\n".join(text), MARKERS.sub("", cell.source).strip()
        prose = cell.cell_type == "markdown" and "nbgrader" not in cell.metadata
        text = [*text, cell.source] if prose else []
    return "", ""


def language(text: str, notebook: str) -> str | None:
    """The language of an answer, by its script and its commonest words; None if they do not say.

    A short one in Latin letters is taken for one in the language of its notebook.
    """
    text = NO_WORDS.sub(" ", text.lower())
    characters, words = len(HAN.findall(text)), WORD.findall(HAN.sub(" ", text))
    if characters > len(words):  # a character is nearly a word, and many terms are English
        return "zh"
    votes = {code: sum(word in common for word in words) for code, common in COMMON.items()}
    first, second = sorted(votes, key=lambda code: -votes[code])
    if votes[first] > 2 * votes[second] and votes[first] * 10 >= len(words):
        return first
    latin = bool(words) and all(map(LATIN.fullmatch, words))
    return notebook if len(words) < SHORT and latin and notebook in COMMON else None
