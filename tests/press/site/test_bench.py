"""The workbench in a browser: the same verdicts as on the desk, and a notebook that is graded."""

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook

from classroom import trial
from normkit.messages import speak
from normkit.tutor.programs import find_program
from normkit.tutor.tasks import assignments
from press import LANGUAGES
from press.run import read
from press.site import HERE
from tests.browser import chromium, serving, until

sys.path.insert(0, str(HERE / "workbench"))
import run

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.xdist_group("bench")]

PATIENCE = 180  # seconds: Python may be loaded beside other tests
SETUP = "import numpy as np\nfrom normkit import check, diagnose, say\n"
RIGHT = """def layer_norm(x, gamma, beta, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    var = (centred**2).mean(axis=-1, keepdims=True)
    return gamma * centred / np.sqrt(var + eps) + beta
"""
WRONG = RIGHT.replace("np.sqrt(var + eps)", "(np.sqrt(var) + eps)")
SOLUTIONS = Path("solutions")
PLAIN = {
    name: find_program(f"{name}/Plain{layer}").source.replace(f"Plain{layer}", layer)
    for name, layer in (("layer_norm", "LayerNorm"), ("batch_norm", "BatchNorm"))
}
# what each task makes of its right program and of its first three mistakes, a line each
TRIED = """
from importlib import import_module
from normkit.tutor.judging import judge
from normkit.tutor.mistakes import combine, mistakes_of
from normkit.tutor.observing import observe
from normkit.tutor.tasks import TASKS
import_module("normkit.tutor.{0}.tasks")
for name, task in sorted(TASKS.items()):
    try:
        program = task.programs[0]
        ways = [(), *((mistake,) for mistake in mistakes_of(program)[:3])]
        for way in ways if name.startswith("{0}/") else ():
            verdict = judge(observe(combine(program, *way), task), task)
            found = [mistake.key for mistake in verdict.mistakes]
            print(name, *(mistake.name for mistake in way), "->", verdict.passed, *found)
    except ModuleNotFoundError:  # torch
        pass
"""


@pytest.fixture(scope="module")
def address(built):
    with serving(built) as base:
        yield base


@contextmanager
def opened(address, language="en", name="layer_norm", answers=None):
    """The page of an assignment, with these answers kept in the browser."""
    with chromium() as page:
        page.open(f"{address}/{language}/exercises/{name}.html")
        if answers:
            text = json.dumps({name: answers})
            page.value(f"localStorage.setItem('normkit-bench', {json.dumps(text)})")
            page.open(f"{address}/{language}/exercises/{name}.html?again")
        yield page


def press(page, name):
    page.value(f"[...document.querySelectorAll('.{name}')].find(b => b.checkVisibility()).click()")


def told(page):
    """What the page says of the answer, once it does."""
    end = "[...document.querySelectorAll('.verdicts')].find(v => v.checkVisibility())?.innerText"
    return page.wait(f"({end} ?? '').trim()", PATIENCE)


def verdict(source, language):
    """What Python here makes of an answer, as the page is told it."""
    asked = {
        "language": language,
        "setup": [SETUP],
        "cells": [{"id": "forward", "source": source}],
        "check": 'diagnose(layer_norm, "layer_norm/forward")',
    }
    try:
        return run.work(asked)["verdicts"][0]
    finally:
        speak("en")


def words(text):
    return "".join(text.split())


@pytest.mark.sample(1)
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_wrong_answer_is_told_what_diagnose_tells(address, language):
    with opened(address, language, answers={"forward": WRONG}) as page:
        press(page, "check")
        said, expected = told(page), verdict(WRONG, language)
        assert "eps_outside_root" in said and expected["names"] == ["eps_outside_root"]
        for part in [*expected["paragraphs"], *(text for row in expected["rows"] for text in row)]:
            assert words(part) in words(said)
            assert words(part).replace("·", "") in words(expected["text"]).replace("·", "")
        (link,) = expected["links"]
        found = page.value(f"!!document.querySelector('.verdicts a[href=\"{link['href']}\"]')")
        assert (
            found and (Path("_build/site") / language / link["href"][3:].partition("#")[0]).exists()
        )
        assert page.axe() == []


def test_right_answers_stay_after_a_reload_and_are_marked(address):
    with opened(address, answers={"forward": RIGHT}) as page:
        press(page, "check")
        assert "13" in told(page)
        page.open(f"{address}/en/exercises/layer_norm.html?later")
        assert kept(page)["forward"] == RIGHT and kept(page)["right"] == ["forward"]
        assert page.value("document.querySelector('.steps').innerText.includes('✓')")


def test_an_endless_loop_can_be_stopped(address):
    with opened(address, answers={"forward": "while True:\n    pass\n"}) as page:
        press(page, "run")
        running = "document.querySelector('.state').textContent.includes('Python is running')"
        page.wait(running, PATIENCE)
        press(page, "stop")
        page.wait("document.querySelector('.state').textContent.includes('Stopped')")


def test_what_was_used_once_is_there_without_a_connection(built):
    with chromium() as page:
        with serving(built) as base:
            place = f"{base}/fr/exercises/layer_norm.html"
            page.open(place)
            page.value("navigator.serviceWorker.ready.then(() => { window.served = true; })")
            page.wait("window.served")
            page.open(f"{place}?again")  # through the service worker
            press(page, "check")
            told(page)
            page.open(f"{base}/fr/layer_norm.html")
        page.open(place)
        press(page, "check")
        assert "NotImplementedError" in told(page)
        page.open(f"{base}/fr/layer_norm.html")
        assert page.value("document.querySelector('h1').textContent").startswith("Normalisation")


@pytest.mark.proof
def test_an_exception_names_the_line_of_the_answer(address):
    with opened(address, answers={"forward": "x = 1\nx / 0\n"}) as page:
        press(page, "check")
        assert "ZeroDivisionError" in told(page) and "2" in told(page)


def kept(page):
    return json.loads(page.value("localStorage.getItem('normkit-bench')"))["layer_norm"]


def test_answers_go_on_on_another_device_and_come_back_from_a_notebook(address, tmp_path):
    answers = {"forward": RIGHT, "written": "« Parce que », 因为"}
    files = tmp_path / "files"
    files.mkdir()
    with opened(address, answers=answers) as page:
        press(page, "elsewhere")
        link = page.wait("document.querySelector('.handin .link').value")
        page.download_into(files)
        press(page, "download")
        file = until(lambda: next(files.glob("*.ipynb")))
    arrived = "(localStorage.getItem('normkit-bench') ?? '').includes('forward')"
    with chromium() as page:
        page.ask("Page.navigate", url=link)
        page.wait(arrived)
        assert {name: kept(page)[name] for name in answers} == answers
    with opened(address) as page:
        field = page.ask(
            "Runtime.evaluate", expression="document.querySelector('.handin [type=file]')"
        )
        page.ask("DOM.setFileInputFiles", files=[str(file)], objectId=field["result"]["objectId"])
        page.wait(arrived)
        assert {name: kept(page)[name] for name in answers} == answers
        press(page, "erase")
        page.value("document.querySelector('.sure .yes').click()")
        page.wait(f"!{arrived}")


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A class that has two assignments."""
    folder = tmp_path_factory.mktemp("class") / "course"
    trial.course(folder, ["layer_norm", "batch_norm"])
    return folder


def solved(name):
    """The right answers to an assignment, its layer without PyTorch."""
    cells = [c for c in read(SOLUTIONS / f"{name}.md").cells if facts(c).get("solution")]
    answers = {facts(c)["grade_id"]: re.sub(r" *### (BEGIN|END).*\n?", "", c.source) for c in cells}
    return answers | {"layer": PLAIN[name], "written": "Because."}


def facts(cell):
    return cell.metadata.get("nbgrader", {})


@pytest.mark.needs("bubblewrap")
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("language", "name"),
    [("en", "layer_norm"), ("fr", "layer_norm"), ("zh", "layer_norm"), ("fr", "batch_norm")],
)
def test_the_downloaded_notebook_has_all_points(address, course, tmp_path, language, name):
    files, answers = tmp_path / "files", solved(name)
    files.mkdir()
    with opened(address, language, name, answers) as page:
        page.download_into(files)
        press(page, "download")
        file = until(lambda: next(files.glob("*.ipynb")))
    assert file.name == f"{name}.ipynb"
    notebook = nbformat.read(file, as_version=4)
    released = nbformat.read(f"exercises/{language}/{name}/{name}.ipynb", as_version=4)
    for ours, theirs in zip(notebook.cells, released.cells, strict=True):
        assert ours == theirs | {"source": answers.get(ours.id, theirs.source)}
    assert notebook.metadata == released.metadata
    given = course / "submitted" / language / name
    given.mkdir(parents=True)
    shutil.copy(file, given)
    command = [sys.executable, "-W", "ignore", "-m", "classroom.grade", name]
    subprocess.run(
        command, cwd=course, env=os.environ | {"PYTHONPATH": str(Path.cwd())}, check=True
    )
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        grades = book.find_submission_notebook(name, name, language).grades
        scores = {grade.name: grade.auto_score for grade in grades if grade.name != "written"}
    due = {
        facts(c)["grade_id"]: facts(c)["points"] for c in released.cells if facts(c).get("grade")
    }
    assert scores == {known: points for known, points in due.items() if known != "written"}


@pytest.mark.sample(1)
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_chapter_runs_and_says_what_it_cannot_run(address, language):
    with chromium() as page:
        page.open(f"{address}/{language}/group_instance_norm.html")
        page.value("document.querySelector('.run-page').click()")
        page.wait("document.querySelectorAll('.live').length > 3", PATIENCE)
        stored = "cell.querySelector('.cell_output:not(.live)')?.textContent.trim()"
        cells = f"""[...document.querySelectorAll('.cell')].filter(c => c.querySelector('.live'))
            .map(cell => [{stored}, cell.querySelector('.live').textContent.trim()])"""
        ran = page.value(cells)
        same = [words(then) == words(now) for then, now in ran if then]
        assert len(same) > 3 and sum(same) >= len(same) - 1  # one ends in rounding noise
        needs = page.value("[...document.querySelectorAll('.needs')].map(p => p.textContent)")
        assert needs and all("PyTorch" in told for told in needs)
        assert page.axe() == []


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", assignments())
def test_tasks_have_the_same_verdicts_as_here(address, name):
    source = TRIED.replace("{0}", name)
    here = run.work(
        {"language": "en", "setup": [], "cells": [{"id": "here", "source": source}], "check": ""}
    )
    with opened(address, name=name) as page:
        folder = json.loads(page.value("document.querySelector('.workbench script').textContent"))
        asked = {"setup": [], "cells": [{"id": "there", "source": source}], "check": ""}
        page.value(
            f"import(new URL('{folder['scripts']}client.js', location)).then(({{ Python }}) => {{"
            f"const python = new Python({{ base: new URL('{folder['python']}', location).href,"
            f"language: 'en', changed: () => {{}} }});"
            f"python.run({json.dumps(asked)}).then((found) => {{ window.found = found; }}); }})"
        )
        there = page.wait("window.found", PATIENCE)
    assert there["error"] is None and here["error"] is None
    ours = dict(line.split(" -> ") for line in here["printed"].splitlines())
    theirs = dict(line.split(" -> ") for line in there["printed"].splitlines())
    assert theirs and theirs == {told: ours[told] for told in theirs}
