"""Marks the written answers of a class: a local page for each question, with a key for each mark.

`python -m classroom.written ASSIGNMENT`, after `make grade`, prints the address
of a page that only this machine can open. All answers to a question are there, without names,
identical ones together. A mark is in the gradebook as soon as its key is pressed.
"""

import argparse
import json
import os
import secrets
import sys
from functools import lru_cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import jinja2
from nbformat import NotebookNode
from nbformat.v4 import new_notebook
from nbgrader.api import Grade, Gradebook
from nbgrader.coursedir import CourseDirectory
from pygments.formatters import HtmlFormatter

from classroom import answers
from classroom.answers import Group, Question
from classroom.exports import number
from classroom.feedback import TAGS, FeedbackPage
from classroom.marks import Mark, digest, mark, write
from classroom.points import WrittenAnswers, waits
from classroom.report import course
from classroom.shown import Shown
from normkit.messages import LANGUAGES, N_, translator

TEMPLATES = Path(__file__).parent / "templates"
SMALL = 5  # points; up to here a mark may end in a half
LARGEST = 10_000  # bytes of a request; a mark has a hundred
NAMES = {"en": "English", "fr": "français", "zh": "中文"}
CHANGED = N_("This answer was graded again and has changed. Load the page again.")
NOTHING = N_("There is nothing to undo.")


class Refused(Exception):
    """What is not done, and why."""


class Marking:
    """The written answers of an assignment, as a page shows them and a person marks them."""

    def __init__(self, course: CourseDirectory, assignment: str, language: str = "en") -> None:
        self.course, self.assignment, self.language = course, assignment, language
        self.settings = WrittenAnswers(parent=course)
        self.lock = Lock()  # one request at a time writes
        self.shown: dict[str, dict[str, Group]] = {}
        self.done: list[tuple[str, str, list[Mark]]] = []
        with self.open() as gradebook:
            found = answers.questions(gradebook, assignment)
        part = self.settings.part(assignment)
        found = [question for question in found if part.counts(question.cell, "markdown")]
        if not found:
            raise SystemExit(
                f"{assignment} must have written answers that are graded, and has none: see "
                f"c.WrittenAnswers.written in nbgrader_config.py, and TASKS of make grade."
            )
        self.questions = {f"{question.notebook}/{question.cell}": question for question in found}

    def open(self) -> Gradebook:
        """The gradebook; to be closed."""
        return Gradebook(self.course.db_url)

    def page(self, key: str, root: str, nonce: str) -> str:
        """The page of a question; ``root`` is where all pages are."""
        question = self.questions[key]
        with self.lock, self.open() as gradebook:
            groups = answers.groups(gradebook, self.course, self.assignment, question)
        self.shown[key] = {group.key: group for group in groups}
        text, notes = self.asked(question)
        template = jinja2.Environment(
            loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True
        ).get_template("written.html.j2")
        return template.render(
            assignment=self.assignment,
            question=question,
            root=root,
            here=key,
            questions=self.questions,
            text=text,
            notes=notes,
            sections=self.sections(groups),
            choices=(marks := choices(question.most)),
            halves=any(keys == "h1" for keys, _ in marks),
            prose=prose,
            points=self.points,
            language=TAGS.get(self.language, self.language),
            say=translator(self.language),
            names=NAMES,
            restricted=set(LANGUAGES) - set(self.settings.languages),
            nonce=nonce,
            script=(TEMPLATES / "written.js").read_text("utf-8"),
            light=styles("friendly"),
            dark=styles("github-dark"),
        )

    def sections(self, groups: list[Group]) -> list[tuple[str, list[Group]]]:
        """The groups by kind: to be read, in a language that is not accepted, blank."""
        languages = self.settings.languages
        kinds: dict[str, list[Group]] = {"answers": [], "foreign": [], "blank": []}
        for group in groups:
            accepted = "answers" if group.accepted(languages) else "foreign"
            kinds["blank" if group.blank else accepted].append(group)
        return [(kind, of) for kind, of in kinds.items() if of]

    def asked(self, question: Question) -> tuple[str, str]:
        """The question and its model answer, in the instructor's language where they are built."""
        source = self.course.source_directory
        for step in (source.replace("/en/", f"/{self.language}/"), source):
            folder = self.course.format_path(step, ".", self.assignment)
            if notebook := answers.notebook_at(Path(folder, f"{question.notebook}.ipynb")):
                return answers.asked(notebook, question)
        return "", ""

    def points(self, points: float) -> str:
        """Points as this page writes them."""
        return number(points).replace(".", "," if self.language == "fr" else ".")

    def mark(self, key: str, group_key: str, points: float) -> dict:
        """Give all answers of a group their points; say so."""
        question, group = self.questions[key], self.shown[key][group_key]
        if points not in [choice for _, choice in choices(question.most)]:
            raise Refused(f"{points} are no points of {key}.")
        with self.lock, self.open() as gradebook:
            for path in {answer.path for answer in group.answers}:
                notebook = answers.notebook_at(path)
                cell = notebook and answers.cell_of(notebook, question)
                if not cell or digest(cell) != group.key:
                    raise Refused(translator(self.language)(CHANGED))
            ids = [answer.grade_id for answer in group.answers]
            self.done.append((key, group_key, mark(gradebook, ids, group_key, points)))
        return self.now(question, group_key, points, False)

    def undo(self, key: str) -> dict:
        """Take the last mark back that was given on a page; say what stands there now."""
        question = self.questions[key]
        with self.lock, self.open() as gradebook:
            mine = [done for done in self.done if done[0] == key]
            if not mine:
                raise Refused(translator(self.language)(NOTHING))
            self.done.remove(mine[-1])
            _, group_key, before = mine[-1]
            write(gradebook, before)
            grades = [gradebook.db.get(Grade, mark.grade_id) for mark in before]
            marks = {answers.points(grade) for grade in grades}
            waiting = any(map(waits, grades))
        return self.now(question, group_key, marks.pop() if len(marks) == 1 else None, waiting)

    def now(self, question: Question, group: str, points: float | None, waiting: bool) -> dict:
        """What a page shows of a group after a mark."""
        label = "" if points is None else f"{self.points(points)} / {self.points(question.most)}"
        return {"group": group, "points": points, "label": label, "waits": waiting}


def choices(most: float) -> list[tuple[str, float]]:
    """The marks that may be given, each with the keys to type: 2 for 2 points, h1 for 1.5."""
    wholes = [(str(points), float(points)) for points in range(int(most) + 1)]
    halves = [(f"h{key}", points + 0.5) for key, points in wholes if points + 0.5 <= most]
    found = wholes + (halves if most <= SMALL else [])
    if most not in [points for _, points in found]:
        found.append(("m", most))
    return sorted(found, key=lambda choice: choice[1])


def prose(cell: NotebookNode | str) -> str:
    """An answer, or a text, as the feedback page shows it: nothing in it can run or load."""
    if isinstance(cell, str):
        return _prose(cell, "{}")
    shown = NotebookNode(cell_type="markdown", source=cell.source, metadata=NotebookNode())
    shown.attachments = cell.get("attachments", NotebookNode())
    Shown(new_notebook()).cut(shown)
    return _prose(shown.source, json.dumps(shown.attachments)) + ("[…]" * shown.metadata.cut)


@lru_cache(maxsize=5000)
def _prose(source: str, attachments: str) -> str:
    return FeedbackPage().prose(source, json.loads(attachments))


def styles(name: str) -> str:
    """The colours of code."""
    return HtmlFormatter(style=name).get_style_defs(".highlight")


class Server(ThreadingHTTPServer):
    """Serves the pages to this machine alone, under an address that nobody can guess."""

    daemon_threads = True

    def __init__(self, marking: Marking, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.marking, self.token = marking, secrets.token_urlsafe(24)
        self.origins = {f"http://{name}:{self.server_port}" for name in ("127.0.0.1", "localhost")}

    @property
    def address(self) -> str:
        """Where the pages are."""
        return f"http://127.0.0.1:{self.server_port}/{self.token}/"


class Handler(BaseHTTPRequestHandler):
    """Answers whoever knows the token and asks from a page of its own.

    Any site that the instructor visits can send requests here, even under a name of its own that
    leads to this machine: hence the token, and the host and the origin that are checked.
    """

    server: Server

    def do_GET(self) -> None:
        """Show the page of a question; the first one if none is named."""
        if not self.trusted():
            return self.reply(HTTPStatus.FORBIDDEN, "Open the address that the command printed.")
        marking, key = self.server.marking, self.asked_for()
        if not key:
            self.send_response(HTTPStatus.SEE_OTHER)
            self.send_header("Location", self.root + quote(next(iter(marking.questions))))
            self.send_header("Content-Length", "0")
            return self.end_headers()
        if key not in marking.questions:
            return self.reply(HTTPStatus.NOT_FOUND, f"{marking.assignment} asks for no {key}.")
        nonce = secrets.token_urlsafe(16)
        return self.reply(HTTPStatus.OK, marking.page(key, self.root, nonce), "text/html", nonce)

    def do_POST(self) -> None:
        """Write a mark, or take the last one back."""
        if not self.trusted() or self.headers.get("Content-Type") != "application/json":
            return self.reply(HTTPStatus.FORBIDDEN, "Marks are given on the page alone.")
        try:
            done = self.act(self.sent())
        except Refused as refused:
            return self.reply(HTTPStatus.CONFLICT, str(refused))
        except (KeyError, TypeError, ValueError, AttributeError):
            return self.reply(HTTPStatus.BAD_REQUEST, "This is no mark.")
        return self.reply(HTTPStatus.OK, json.dumps(done), "application/json")

    def trusted(self) -> bool:
        """Whether a request knows the token, and comes to this host from no other page."""
        token = self.parts()[0]
        host, origin = f"http://{self.headers.get('Host')}", self.headers.get("Origin")
        return (
            secrets.compare_digest(token.encode(), self.server.token.encode())
            and host in self.server.origins
            and origin in (None, host)
        )

    @property
    def root(self) -> str:
        """The path of all pages."""
        return f"/{self.server.token}/"

    def asked_for(self) -> str:
        """The question that stands behind the token in the address."""
        return self.parts()[1]

    def parts(self) -> tuple[str, str]:
        """The token and the question of the address."""
        token, _, key = unquote(urlsplit(self.path).path).strip("/").partition("/")
        return token, key

    def sent(self) -> Any:
        """What was sent, as JSON."""
        length = int(self.headers.get("Content-Length", 0))
        if not 0 <= length <= LARGEST:
            raise ValueError("too long")
        return json.loads(self.rfile.read(length))

    def act(self, sent: dict) -> dict:
        """Do what was asked for."""
        marking, key = self.server.marking, self.asked_for()
        if key not in marking.questions:
            raise KeyError(key)
        if sent["do"] == "undo":
            return marking.undo(key)
        return marking.mark(key, sent["group"], float(sent["points"]))

    def reply(
        self, status: HTTPStatus, text: str, kind: str = "text/plain", nonce: str = ""
    ) -> None:
        """Send a text, with a policy that lets nothing else load."""
        own = f"'nonce-{nonce}'" if nonce else "'none'"
        policy = f"script-src {own}; style-src {own}; img-src data:; connect-src 'self'"
        body = text.encode("utf-8", "replace")
        self.send_response(status)
        for name, value in {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(body)),
            "Content-Security-Policy": f"default-src 'none'; {policy}; form-action 'none'; "
            "base-uri 'none'; frame-ancestors 'none'",
            "Referrer-Policy": "same-origin",  # the token stays here
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the token stands in each line."""


def main() -> None:
    """Serve the pages of the assignment that the command line names, until Ctrl+C."""
    parser = argparse.ArgumentParser(prog="classroom.written", description=__doc__)
    parser.add_argument("assignment")
    parser.add_argument("--language", choices=LANGUAGES, default=LANGUAGES[0])
    parser.add_argument("--port", type=int, default=0, help="a free one if none is named")
    chosen = parser.parse_args()
    sys.path.insert(0, os.getcwd())  # nbgrader_config.py may import from the course
    with Server(Marking(course(), chosen.assignment, chosen.language), chosen.port) as server:
        print(f"Open {server.address} in a browser on this machine. Ctrl+C ends.", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    main()
