"""Runs a submission in the sandbox and judges here what came out of it: values, never verdicts."""

import base64
import json
import pickle
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import is_grade
from traitlets import Bool, Enum, Float

from classroom.feedback import language_of
from classroom.planting import CALL
from classroom.sandbox import SECONDS, WHOLE, Running, Sandbox, Work, sandbox
from classroom.secret import secret, seed
from classroom.shown import HIDDEN
from classroom.suspicions import Text, behind, ready_made, text_of, unusual
from classroom.verdicts import KEY
from normkit.messages import N_, translator
from normkit.tutor.judging import Trial, Verdict, differences, drawn, judge, trials
from normkit.tutor.observing import Observation, Result
from normkit.tutor.tasks import Task, every_task, find

OBSERVED = "application/vnd.normkit.observed+json"  # as `classroom/inside/cells.py` says it
LOUDEST = 2_000_000  # characters of one cell's outputs
KEPT = "text/plain", "image/png", "image/jpeg", "text/latex"  # nothing that a browser would run
# what a child's audit hook tells, and what takes the watch off
OFF = (
    *("sys.", "gc.", "code.__new__", "ctypes.", "object.__", "exec", "compile", "_thread."),
    *("marshal.", "socket.", "mmap."),
)
EXCESS = {
    "ran out of memory": ("MemoryError", "can't allocate memory", "far too large"),
    "filled its disk": ("[Errno 27]", "[Errno 28]"),
    "took too long and was stopped": ("KeyboardInterrupt",),
    "a script was left out of an output": ("<script", "javascript"),
}
ENDED = N_("The process was ended, by this cell or by one before it.")
STOPPED = N_("Stopped: this took longer than {seconds} seconds.")
ELSEWHERE = N_(
    "✗ {task}: right on the numbers that are made for showing, wrong on others, which stay hidden."
)


class JudgedOutside(NbGraderPreprocessor):
    """Runs the cells in the sandbox; writes the outputs, the verdicts and what wants a look."""

    seconds = Float(SECONDS, help="What a cell may take, and an answer on its probes.").tag(
        config=True
    )
    sandbox = Enum(
        ["bubblewrap", "none"],
        "bubblewrap",
        help="Where students' code runs; none: with your rights, nothing is held back.",
    ).tag(config=True)
    trusted = Bool(False, help="For the project's own mutants: they see all of normkit.").tag(
        config=True
    )

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        known = resources["nbgrader"]
        of = secret(Path.cwd())  # nbgrader works in the folder of the course
        box = sandbox(self.sandbox == "bubblewrap")
        grade(nb, known["assignment"], of, box, self.seconds, self.trusted)
        for flag in nb.metadata[KEY]["flags"]:
            self.log.warning("%s, %s: %s", known["student"], known["assignment"], flag)
        return nb, resources


def expected(assignment: str, of: bytes) -> Iterator[Trial]:
    """What every mistake that is looked for makes of the probes for showing."""
    for name, task in sorted(every_task().items()):
        if name.startswith(f"{assignment}/"):
            yield from trials(task, seed(of, name, "shown"))


@dataclass(frozen=True)
class Test:
    """A graded cell's answer: an expression, the task that observes it."""

    expression: str
    task: str


@dataclass
class Ran:
    """What came out of the sandbox: cells by number, tests by cell and task."""

    cells: dict[int, dict[str, Any]] = field(default_factory=dict)
    tests: dict[tuple[int, str], dict[str, Any]] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)


def grade(
    nb: NotebookNode,
    assignment: str,
    of: bytes,
    box: Sandbox,
    seconds: float = SECONDS,
    trusted: bool = False,
) -> None:
    """Run and judge a submission whose cells are mended.

    Each graded cell is given its outputs and, in its metadata, the verdicts and whether it has
    passed; the notebook's metadata say what wants a look.
    """
    start = time.monotonic()
    tests = {i: tests_in(cell) for i, cell in enumerate(nb.cells) if cell.cell_type == "code"}
    last = max((i for i, some in tests.items() if some), default=-1)
    sources = [(i, HIDDEN.sub("", nb.cells[i].source)) for i in tests if i <= last]
    number = int.from_bytes(sha256("\0".join(s for _, s in sources).encode()).digest()[:4], "big")
    asked = {i: [(t.expression, t.task) for t in some] for i, some in tests.items() if some}
    view = WHOLE if trusted else assignment
    work = Work(view, sources, asked, probes(assignment, of), number, seconds)
    with box.run(work) as running:
        Judge(nb, of, running, tests, last).write(trusted)
    nb.metadata[KEY]["seconds"] = round(time.monotonic() - start, 3)


def tests_in(cell: NotebookNode) -> list[Test]:
    """What a graded cell tests, from the calls of `check` in it."""
    if not is_grade(cell):
        return []
    return [
        Test(names, task) for call, names, task, _ in CALL.findall(cell.source) if call == "check"
    ]


@lru_cache(16)
def probes(assignment: str, of: bytes) -> bytes:
    """The probes of an assignment's tasks, by task and purpose, as the sandbox reads them."""
    tasks = [
        task for name, task in sorted(every_task().items()) if name.startswith(f"{assignment}/")
    ]
    return pickle.dumps(
        {(t.name, use): t.draw(seed(of, t.name, use)) for t in tasks for use in ("secret", "shown")}
    )


class Judge:
    """Writes the verdicts on a submission into its notebook."""

    def __init__(
        self,
        nb: NotebookNode,
        of: bytes,
        running: Running,
        tests: Mapping[int, list[Test]],
        last: int,
    ) -> None:
        self.nb, self.of, self.tests, self.last = nb, of, tests, last
        self.running, self.ran = running, Ran()
        self.language = language_of(nb)
        self.say = translator(self.language)
        self.flags: list[str] = []
        self.pending: dict[str, dict[str, Any]] = {}  # verdicts since the last graded cell
        self.called: dict[int, Verdict] = {}  # verdicts on what `diagnose` was called with
        self.seen: dict[tuple[int, Test], tuple[Observation, bool]] = {}
        own = [c.source for c in nb.cells if c.cell_type == "code" and not is_grade(c)]
        self.text: Text = text_of(own)
        self.of_task = {(i, test.task): test for i, some in tests.items() for test in some}
        self.forbidden = {
            test: ready_made(self.text, test.expression, find(test.task).by_hand)
            for test in self.of_task.values()
        }
        for message in running:
            self.receive(message)

    def receive(self, message: dict[str, Any]) -> None:
        """Keep what the sandbox sent; of two messages on one thing the first counts."""
        cell, task, ran = message.get("cell"), message.get("task"), self.ran
        if isinstance(message.get("seen"), str):
            ran.seen.append(message["seen"][:200])
        elif isinstance(cell, int) and isinstance(task, str):
            wrong = (cell, task) in self.of_task and (cell, task) not in ran.tests
            if wrong:
                ran.tests[cell, task] = message
                wrong = not self.secret(cell, self.of_task[cell, task])[1]
            self.running.say(wrong)
            message["shown"] = self.running.next().get("shown") if wrong else None
        elif isinstance(cell, int) and isinstance(message.get("outputs"), list):
            ran.cells.setdefault(cell, message)

    def write(self, trusted: bool = False) -> None:
        """Judge every cell, in their order."""
        past = [] if trusted else self.past()
        for number, cell in enumerate(self.nb.cells):
            if cell.cell_type != "code":
                continue
            cell.outputs = list(self.outputs(number)) if number <= self.last else []
            if self.tests[number]:
                passed = all([self.test(number, cell, test) for test in self.tests[number]])
                facts = {"verdicts": list(self.pending.values()), "passed": passed}
                cell.metadata[KEY] = facts | ({"withheld": True} if passed and past else {})
                self.pending = {}
        self.nb.metadata[KEY] = {"flags": list(dict.fromkeys(self.flags))}

    def past(self) -> list[str]:
        """What takes the watch off: points are given by a person, then."""
        found = behind(self.text)
        found += [seen for seen in self.ran.seen if seen.startswith(OFF)]
        others = [seen for seen in self.ran.seen if not seen.startswith(OFF)]
        if found:
            self.flags.append(f"looks behind the tests, points withheld: {', '.join(found[:8])}")
        if others := [*unusual(self.text), *others]:
            self.flags.append(f"unusual: {', '.join(others[:8])}")
        return found

    def outputs(self, number: int) -> Iterator[NotebookNode]:
        """The outputs of a cell, with the verdicts where it asked for them."""
        ran = self.ran.cells.get(number)
        if ran is None:
            self.flags.append("its process was ended")
            yield error("ProcessEnded", self.say(ENDED))
            return
        self.flags += excess(str(ran["outputs"]))
        for output in ran["outputs"]:
            try:
                yield self.output(output)
            except Exception as problem:  # what comes out of the sandbox may be anything
                self.flags.append(f"an output is none ({type(problem).__name__})")

    def output(self, output: dict[str, Any]) -> NotebookNode:
        """One output: as it came, or the verdict in its place."""
        if OBSERVED in output.get("data", {}):
            asked = output["data"][OBSERVED]
            verdict = self.shown(int(asked["number"]), str(asked["task"]))
            self.pending[verdict.task.name] = verdict.as_data()
            return stream(verdict.explain(self.language) + "\n")
        if len(json.dumps(output)) > LOUDEST:
            raise ValueError("an output is too large")
        return clean(output, self.say(STOPPED).format(seconds=f"{self.running.work.seconds:g}"))

    def test(self, number: int, cell: NotebookNode, test: Test) -> bool:
        """Judge one test of a cell; leave the verdict in its outputs."""
        observation, passed = self.secret(number, test)
        verdict = self.explained(number, test) if not passed else None
        if verdict:
            told = verdict.explain(self.language)
            if verdict.passed:  # on the probes for showing
                told = self.say(ELSEWHERE).format(task=test.task)
                hidden = seed(self.of, test.task, "secret")
                verdict = self.judged(observation, find(test.task), hidden)
            cell.outputs.append(error("AssertionError", told))
            if verdict.first.what == "ready_made":
                self.flags.append(f"{test.task} is ready-made: {verdict.first.name}")
        facts = verdict.as_data() if verdict else {"task": test.task, "mistakes": []}
        self.pending[test.task] = facts | {"passed": passed}
        return passed

    def secret(self, number: int, test: Test) -> tuple[Observation, bool]:
        """What an answer made of the secret probes, and whether that is right."""
        if (number, test) not in self.seen:
            came = self.came(number, test)
            seen = self.observation(test.task, came.get("secret"), self.forbidden[test])
            right = self.passes(seen, find(test.task), seed(self.of, test.task, "secret"))
            self.seen[number, test] = seen, right
        return self.seen[number, test]

    def came(self, number: int, test: Test) -> dict[str, Any]:
        """The message on a test, if it came."""
        return self.ran.tests.get((number, test.task), {})

    def explained(self, number: int, test: Test) -> Verdict:
        """The verdict that a student is shown, on the probes for showing."""
        return self.on_shown(test.task, self.came(number, test), self.forbidden[test])

    def shown(self, number: int, task: str) -> Verdict:
        """The verdict on what `diagnose` was called with: a test of the same answer may know it."""
        if number not in self.called:
            self.called[number] = self.of_call(number, task)
        return self.called[number]

    def of_call(self, number: int, task: str) -> Verdict:
        for (cell, of), test in self.of_task.items():
            asked = self.came(cell, test).get("asked")
            if of == task and isinstance(asked, list) and number in asked:
                right = self.secret(cell, test)[1]
                return (
                    Verdict(find(task), self.count(task)) if right else self.explained(cell, test)
                )
        self.running.say(number)
        return self.on_shown(task, self.running.next(), [])

    def on_shown(self, task: str, answer: dict[str, Any], forbidden: list[str]) -> Verdict:
        """The verdict on what came for the probes for showing."""
        seen = self.observation(task, answer.get("shown"), forbidden, "shown")
        return self.judged(seen, find(task), seed(self.of, task, "shown"))

    def passes(self, seen: Observation, task: Task, number: int) -> bool:
        """Whether the values are right; what cannot be compared is not."""
        try:
            return not seen.ready_made and not any(differences(seen, task, number))
        except Exception as problem:
            self.flags.append(f"the values of {task.name} are none ({type(problem).__name__})")
            return False

    def judged(self, seen: Observation, task: Task, number: int) -> Verdict:
        """The verdict on values; what cannot be judged is an answer that failed."""
        try:
            return verdict_on(seen.to_bytes(), task, number)
        except Exception as problem:
            self.flags.append(f"the values of {task.name} are none ({type(problem).__name__})")
            failed = Result(error=self.say(ENDED))
            return judge(Observation([failed] * len(seen.results)), task, number)

    def count(self, task: str, purpose: str = "shown") -> int:
        """How many probes a task has."""
        return len(drawn(find(task), seed(self.of, task, purpose))[0])

    def observation(
        self, task: str, data: Any, forbidden: list[str], purpose: str = "secret"
    ) -> Observation:
        """The values that came; those of an answer that failed, where none came."""
        count = self.count(task, purpose)
        found = Observation([Result(error=self.say(ENDED))] * count)
        try:
            if data is not None:
                found = Observation.from_bytes(base64.b64decode(data))
        except Exception as problem:
            self.flags.append(f"the values of {task} cannot be read ({type(problem).__name__})")
        if len(found.results) != count:
            found = Observation([Result(error=self.say(ENDED))] * count)
        self.flags += excess(" ".join(str(result.error) for result in found.results))
        found.ready_made = list(dict.fromkeys([*found.ready_made, *forbidden]))
        return found


@lru_cache(2000)
def verdict_on(values: bytes, task: Task, number: int) -> Verdict:
    """The verdict on values: who makes the same mistake mostly has the same bits."""
    return judge(Observation.from_bytes(values), task, number)


def excess(text: str) -> Iterator[str]:
    """What a limit has stopped, or what was left out of an output, by the words of it."""
    for what, words in EXCESS.items():
        if any(word in text for word in words):
            yield what


def error(name: str, text: str) -> NotebookNode:
    return output_of("error", ename=name, evalue=text, traceback=[f"{name}: {text}"])


def output_of(kind: str, **facts: Any) -> NotebookNode:
    """An output; nbformat's own function would check it too, for a tenth of all time."""
    return NotebookNode(output_type=kind, **facts)


def stream(text: str) -> NotebookNode:
    return output_of("stream", name="stdout", text=text)


def clean(output: dict[str, Any], stopped: str) -> NotebookNode:
    """An output of a submission as a notebook holds it, without what could run in a browser."""
    kind = output["output_type"]
    if kind == "stream":
        name = "stderr" if output["name"] == "stderr" else "stdout"
        return output_of("stream", name=name, text=str(output["text"]))
    if kind == "error":
        if output["ename"] == "KeyboardInterrupt":
            return error("KeyboardInterrupt", stopped)
        lines = [str(line) for line in output["traceback"]]
        return output_of(
            "error", ename=str(output["ename"]), evalue=str(output["evalue"]), traceback=lines
        )
    data = {name: str(output["data"][name]) for name in KEPT if name in output["data"]}
    return output_of("display_data", data=NotebookNode(data), metadata=NotebookNode())
