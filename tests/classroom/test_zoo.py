"""Hostile submissions earn nothing, harm nobody, end, and are told to the instructor."""

import hashlib
import json
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from classroom.judged import grade
from classroom.scores import worths
from classroom.submissions import Master, mend, parsed
from classroom.verdicts import KEY
from press.run import read

ROOT = Path(__file__).parents[2]
ZOO = (Path(__file__).parent / "zoo.txt").read_text("utf-8")
READY = """
import torch
import torch.nn.functional as F
{made}

def layer_norm(x, gamma, beta, eps=1e-5):
    given = [torch.as_tensor(np.asarray(a, dtype=gamma.dtype)) for a in (x, gamma, beta)]
    return norm(given[0], (given[0].shape[-1],), given[1], given[2], eps).numpy()
"""


class Animal(NamedTuple):
    """An attack, and what stands in a cell of an assignment."""

    name: str
    assignment: str
    cell: str
    answer: str
    told: bool


def animals():
    for block in re.split(r"^### ", ZOO, flags=re.MULTILINE)[1:]:
        head, _, code = block.partition("\n")
        name, assignment, cell, *rest = head.split(" | ")
        answer = READY.replace("{made}", code) if "ready" in rest else code
        yield Animal(name, assignment, cell, answer, "untold" not in rest)


ANIMALS = list(animals())
LANGUAGES = "en", "fr", "zh"
SECRET = b"of a class"
pytestmark = pytest.mark.needs("bubblewrap")


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Folders that a submission may try to write to."""
    return {"home": str(Path.home()), "tmp": str(tmp_path_factory.mktemp("zoo")), "root": str(ROOT)}


@cache
def source(name):
    return read(ROOT / "solutions" / f"{name}.md")


@cache
def masters(name):
    """The cells of an assignment as the gradebook knows them."""
    found = []
    for cell in source(name).cells:
        if facts := cell.metadata.get("nbgrader"):
            found.append(Master(facts["grade_id"], cell.cell_type, cell.source, dict(facts)))
    return found


def handed_in(answers, assignment, language):
    """The notebook of a student with these answers, by the ids of their cells."""
    path = ROOT / "exercises" / language / assignment / f"{assignment}.ipynb"
    notebook = json.loads(path.read_text("utf-8"))
    for cell in notebook["cells"]:
        cell["source"] = answers.get(cell["id"], cell["source"])
    return json.dumps(notebook).encode()


def graded(box, answers, assignment="layer_norm", language="en", seconds=3):
    nb, _ = parsed(handed_in(answers, assignment, language))
    mend(nb, masters(assignment))
    grade(nb, assignment, SECRET, box, seconds)
    return nb


def points(nb):
    return {cell.name: cell.points for cell in worths(nb) if cell.graded}


def state():
    """What an attack could change: the package, the environment's start-up files, the home."""
    files = [*(ROOT / "normkit").rglob("*.py"), *(ROOT / "classroom").rglob("*.py")]
    files += [ROOT / "solutions/layer_norm.md"]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(files))).hexdigest()
    return digest, (Path.home() / ".ipython/profile_default/startup/0.py").exists()


def running():
    """The programs that an attack has started and that still run."""
    every = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return [line for line in every.stdout.splitlines() if line.startswith("sleep 4321")]


@pytest.mark.sample(16)
@pytest.mark.parametrize("number", range(len(ANIMALS)), ids=[a.name for a in ANIMALS])
def test_an_attack_earns_nothing_harms_nobody_ends_and_is_told(number, box, places):
    animal, before, answer = ANIMALS[number], state(), ANIMALS[number].answer
    for name, place in places.items():
        answer = answer.replace(f"{{{name}}}", place)
    nb = graded(box, {animal.cell: answer}, animal.assignment, LANGUAGES[number % 3])
    assert not any(points(nb).values())
    assert nb.metadata[KEY]["flags"] or not animal.told
    assert state() == before and not running() and not list(Path(places["tmp"]).iterdir())


def test_after_all_that_an_honest_student_is_graded_as_ever(box):
    right = {
        cell.metadata.nbgrader["grade_id"]: cell.source
        for cell in source("layer_norm").cells
        if cell.metadata.get("nbgrader", {}).get("solution")
    }
    nb = graded(box, right, seconds=60)
    every = {"test_forward": 6, "test_layer": 4, "test_dx": 4, "test_dgamma_dbeta": 2}
    assert points(nb) == {**every, "test_invariance": 2, "written": None}
    assert nb.metadata[KEY]["flags"] == []
