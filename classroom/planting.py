"""Plants mistakes of the catalogue in a released assignment, in the place of the answers."""

import json
import re
from dataclasses import dataclass, field
from functools import cache
from types import FunctionType
from typing import Any

from nbformat import NotebookNode

from normkit.tutor.judging import Trial, agree, trials
from normkit.tutor.mistakes import combine
from normkit.tutor.tasks import find

CALL = re.compile(r'^(check|diagnose)\((.+), "([^"]+)"(?:, seed=(\d+))?\)$', re.MULTILINE)
IMPORTS = """\
from normkit.tutor.judging import trials
from normkit.tutor.mistakes import combine
from normkit.tutor.tasks import find"""

Turn = list[Trial | None]  # what a notebook makes of each answer: a mistake, or none


@dataclass
class Answer:
    """What a student writes: its names, its cell, the task that diagnoses it; what came of it.

    tests: the task, the seed and the points by grade id.
    """

    names: str
    cell: str
    task: str
    tests: dict[str, tuple[str, int, float]] = field(default_factory=dict)
    graded: int = 0
    pairs: int = 0
    escaped: list[str] = field(default_factory=list)
    unnamed: list[str] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    @property
    def mistakes(self) -> list[Trial]:
        return showing(self.task)


@cache
def showing(task: str) -> list[Trial]:
    """The mistakes that show in a task, of several that look alike there the first."""
    told: list[Trial] = []
    for trial in trials(find(task), 0):
        if trial.wrong and not any(alike(trial, other) for other in told):
            told.append(trial)
    return told


def alike(one: Trial, other: Trial) -> bool:
    """Whether two wrong programs return the same on all probes."""
    of = enumerate(one.probes)
    return all(agree(one.result(i), other.result(i), probe) for i, probe in of)


def same(one: Trial, other: Trial) -> bool:
    """Whether this is the same wrong program, in two tasks."""
    facts = ((t.program, t.mistakes, t.ways) for t in (one, other))
    return len(set(facts)) == 1


def answers(notebook: NotebookNode) -> list[Answer]:
    """The auto-graded answers of an assignment, from the calls of `diagnose` and `check`."""
    found, where = list[Answer](), ""
    for cell in notebook.cells:
        facts = cell.metadata.get("nbgrader", {})
        where = facts["grade_id"] if facts.get("solution") else where
        for call, names, task, seed in CALL.findall(cell.source):
            known = (a for a in found if a.names == names and (a.cell == where or a.task == task))
            if (answer := next(known, None)) is None:
                found.append(answer := Answer(names, where, task))
            if call == "check":
                answer.tests[facts["grade_id"]] = task, int(seed), facts["points"]
    return found


def turns(of: list[Answer]) -> list[Turn]:
    """What each notebook makes of the answers: each has every mistake once, and then is right.

    As it is right while others are wrong, they must not cost its points.
    """
    size = 1 + max(len(answer.mistakes) for answer in of)
    rings = [[*answer.mistakes, *[None] * (size - len(answer.mistakes))] for answer in of]
    return [[ring[(turn + i) % size] for i, ring in enumerate(rings)] for turn in range(size)]


def filled(release: str, of: list[Answer], turn: Turn) -> str:
    """A release with these answers in it; the mistakes are looked up where the notebook runs."""
    notebook = json.loads(release)
    for cell in notebook["cells"]:
        programs = [program(a, m) for a, m in zip(of, turn, strict=True) if a.cell == cell["id"]]
        if programs:
            cell["source"] = "\n".join([IMPORTS, *programs])
    return json.dumps(notebook)


def program(answer: Answer, trial: Trial | None) -> str:
    """The line that makes an answer right, or makes this mistake."""
    task = find(answer.task)
    right, made = combine(task.programs[0]), f"combine(find({task.name!r}).programs[0])"
    if trial:
        number = next(i for i, t in enumerate(trials(task, 0)) if same(t, trial))
        right, made = trial.answer, f"trials(find({task.name!r}), 0)[{number}].answer"
    return f"{answer.names} = {made}{'()' * is_bundle(right)}"


def is_bundle(made: Any) -> bool:
    """Whether a program returns what a student writes, as it takes nothing."""
    return isinstance(made, FunctionType) and not made.__code__.co_argcount


def note(answer: Answer, trial: Trial | None, scores: dict, said: dict) -> None:
    """Add to an answer what its tests and its feedback made of a mistake, or of none."""
    if wrong := said[answer.cell]:
        raise RuntimeError(f"The answer to {answer.task} does not run: {wrong}")
    if trial is None:
        full = {test: points for test, (*_, points) in answer.tests.items()}
        answer.lost += [test for test in full if scores[test] != full[test]]
        return
    answer.graded += 1
    targets = [
        test
        for test, (task, *_) in answer.tests.items()
        if any(same(trial, other) for other in trials(find(task), 0) if other.wrong)
    ]
    (mistake,) = trial.mistakes
    if any(scores[test] for test in targets) or all(scores[test] for test in answer.tests):
        answer.escaped.append(mistake.name)
    cells = f'diagnose({answer.names}, "{answer.task}")', *answer.tests
    message = "".join(mistake.message.split())
    if not any(message in said.get(cell, "") for cell in cells):
        answer.unnamed.append(mistake.name)
