"""The pages of the assignments: the released notebook, cut into tasks that run in the page."""

import json
import re
from pathlib import Path

import pytest

from normkit.tutor.tasks import every_task, find
from press.benches import ANYWHERE, listed, pages, without_torch

EXERCISES = Path("exercises")
NAMES = [name.rpartition("/")[2] for name in listed()]


def same(words):
    return words


@pytest.fixture(scope="module")
def made():
    return pages(EXERCISES, "en", same)


def manifest(page):
    return json.loads(page.cells[-1].source.splitlines()[1])


def released(name):
    return json.loads((EXERCISES / f"en/{name}/{name}.ipynb").read_text("utf-8"))["cells"]


def test_every_assignment_has_a_page(made):
    assert sorted(made) == sorted(listed()) and len(made) == len(list(EXERCISES.glob("en/*/")))


@pytest.mark.parametrize("name", NAMES)
def test_every_answer_is_asked_for_and_no_test_is_shown(made, name):
    page = made[f"exercises/{name}"]
    asked = {c["id"] for task in manifest(page)["tasks"] for c in task["cells"]}
    facts = {cell["id"]: cell["metadata"].get("nbgrader", {}) for cell in released(name)}
    assert {known for known, own in facts.items() if own.get("solution")} <= asked
    tests = [known for known, own in facts.items() if own.get("grade") and not own["solution"]]
    text = "\n".join(cell.source for cell in page.cells)
    assert tests and not asked & set(tests) and "check(" not in text and "seed=" not in text


@pytest.mark.parametrize("name", NAMES)
def test_points_are_those_of_the_tasks_that_run(made, name):
    told = manifest(made[f"exercises/{name}"])
    assert told["points"] == 20 == sum(task["points"] for task in told["tasks"])
    assert told["here"] == sum(task["points"] for task in told["tasks"] if task["runs"])


@pytest.mark.parametrize("name", NAMES)
def test_the_page_of_the_exercises_says_how_many(made, name):
    told = manifest(made[f"exercises/{name}"])
    page = Path("book/exercises.md").read_text("utf-8")
    assert f"<exercises/{name}>` | {told['here']} of {told['points']} |" in page


def test_five_assignments_are_whole_and_two_have_layers(made):
    whole = {name for name in NAMES if manifest(made[f"exercises/{name}"])["here"] == 20}
    assert len(whole) >= 5 and {"layer_norm", "batch_norm"} <= whole


@pytest.mark.parametrize("name", NAMES)
def test_a_class_without_torch_may_begin_where_its_task_accepts_one(made, name):
    sources = "\n".join("".join(cell["source"]) for cell in released(name))
    for task in manifest(made[f"exercises/{name}"])["tasks"]:
        for cell in task["cells"]:
            if start := cell.get("plain"):
                asked = re.search(
                    rf'diagnose\({re.search("class (.*?):", start)[1]}, "(.*?)"', sources
                )
                assert ANYWHERE in sources and find(asked[1]).plain in every_task()
                compile(start, "start", "exec")


def test_a_layer_of_torch_becomes_a_plain_class():
    source = """class BatchNorm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.tensor(0))
"""
    plain = without_torch(source)
    assert "self.training = True" in plain and "self.count = 0" in plain and "super" not in plain
    with pytest.raises(ValueError, match="must not name torch"):
        without_torch(source + "        self.weight = torch.ones(3)\n")
