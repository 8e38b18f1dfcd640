"""Plants mistakes of the catalogue in a released assignment, in the place of the answers."""

import json
import re
from dataclasses import dataclass, field

from nbformat import NotebookNode

from normkit.mistakes import Mistake
from normkit.tasks import TASKS

CALL = re.compile(r'^(check|diagnose)\((.+), "([^"]+)"(?:, seed=(\d+))?\)$', re.MULTILINE)
IMPORTS = "from normkit.mistakes import combine\nfrom normkit.tasks import TASKS"

Turn = list[Mistake | None]  # what a notebook makes of each answer: a mistake, or none


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
    def mistakes(self) -> list[Mistake]:
        return TASKS[self.task].mistakes


def answers(notebook: NotebookNode) -> list[Answer]:
    """The auto-graded answers of an assignment, from the calls of `diagnose` and `check`."""
    found, where = [], ""
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


def program(answer: Answer, mistake: Mistake | None) -> str:
    name = mistake and mistake.name
    found = f"*[m for m in TASKS[{answer.task!r}].mistakes if m.name == {name!r}]"
    return f"{answer.names} = combine({TASKS[answer.task].algorithm!r}, {found})"


def note(answer: Answer, mistake: Mistake | None, scores: dict, said: dict) -> None:
    """Add to an answer what its tests and its feedback made of a mistake, or of none."""
    if wrong := said[answer.cell]:
        raise RuntimeError(f"The answer to {answer.task} does not run: {wrong}")
    if mistake is None:
        full = {test: points for test, (*_, points) in answer.tests.items()}
        answer.lost += [test for test in full if scores[test] != full[test]]
        return
    answer.graded += 1
    targets = [t for t, (task, *_) in answer.tests.items() if mistake in TASKS[task].mistakes]
    if any(scores[test] for test in targets) or all(scores[test] for test in answer.tests):
        answer.escaped.append(mistake.name)
    cells = f'diagnose({answer.names}, "{answer.task}")', *answer.tests
    message = "".join(mistake.message.split())
    if not any(message in said.get(cell, "") for cell in cells):
        answer.unnamed.append(mistake.name)
