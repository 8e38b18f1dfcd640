"""An instructor opens Formgrader in a browser: marks are kept, and no student's script runs."""

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from classroom import trial
from tests.browser import Page, chromium, until

ROOT = Path(__file__).parents[2]
NAME = "layer_norm"
pytestmark = [pytest.mark.needs("bubblewrap"), pytest.mark.needs("chromium"), pytest.mark.proof]
RIGHT = """
def layer_norm(x, gamma, beta, eps=1e-5):
    centred = x - x.mean(-1, keepdims=True)
    return gamma * centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps) + beta
"""
WRONG, WITHHELD = RIGHT.replace("+ eps", "+ 2 * eps"), "import gc\n" + RIGHT
ATTACK = """Because $\\sigma$ is a **scale**.
<script>ran.push("script")</script><img src="x" onerror="ran.push('image')">
<svg onload="ran.push('svg')"></svg><details open ontoggle="ran.push('toggle')"></details>
<iframe srcdoc="<script>parent.ran.push('frame')</script>"></iframe>
<form action="javascript:ran.push('form')"><button id="forward">a</button></form>
<a href="javascript:ran.push('link')">b</a> [c](javascript:ran.push%28'prose'%29)
![d](attachment:p.png) <style>nav { display: none }</style><input class="score" id="written">
"""
SHOWS = """
from IPython.display import HTML, Javascript, Latex, display
display(HTML("<script>ran.push('html')</script>"), Javascript("ran.push('javascript')"))
display(Latex("<script>ran.push('latex')</script>"))
display({"image/png": '"><script>ran.push("png")</script>'}, raw=True)
print("<script>ran.push('print')</script>")
"""
STUDENTS = {
    "right": (RIGHT, "Because of its mean."),
    "wrong": (WRONG, "À cause de sa moyenne."),
    "withheld": (WITHHELD, "因为它的均值。"),
    "hostile": (SHOWS + RIGHT, ATTACK),
}


def hand_in(folder, student, answer, written):
    notebook = json.loads(trial.released(folder, NAME))
    for cell in notebook["cells"]:
        cell["source"] = {"forward": answer, "written": written}.get(cell["id"], cell["source"])
    if student == "hostile":
        picture = {"p.png": {"image/png": '"><script>ran.push("picture")</script>'}}
        own = {"metadata": {}, "source": ATTACK}
        notebook["cells"] += [
            {**own, "id": "own", "cell_type": "markdown", "attachments": picture},
            {**own, "id": '"><script>ran.push("id")</script>', "cell_type": "raw"},
        ]
    path = folder / "submitted" / student / NAME / f"{NAME}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook), "utf-8")


def started(folder, *arguments, **others):
    """A process in the folder of the course, which knows this project and no one's settings."""
    own = {name: str(folder.parent / "settings") for name in ("HOME", "JUPYTER_CONFIG_DIR")}
    given = {**os.environ, **own, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-m", *arguments]
    return subprocess.Popen(command, cwd=folder, env=given, stderr=subprocess.PIPE, **others)


def grade(folder, *arguments):
    assert started(folder, "classroom.grade", NAME, *arguments).wait() == 0


class Formgrader(Page):
    """A page of Formgrader; what ran on it stands in `ran`."""

    def __init__(self, address):
        super().__init__(address)
        self.ask("Page.addScriptToEvaluateOnNewDocument", source="window.ran = []")

    def open(self, address):
        """Load a page, its scripts and what they fetch."""
        super().open(address)
        self.wait("window.jQuery && !jQuery.active && !document.querySelector('.dataTables_empty')")

    def write(self, field, text):
        """Type into a field and leave it, which saves it; wait until it is saved."""
        self.value(f"document.querySelector({field!r}).select()")
        self.ask("Input.insertText", text=text)
        self.save("document.activeElement.blur()")

    def press(self, field, button):
        """Press a button that stands beside a field."""
        self.save(f"$({field!r}).closest('.panel-heading').find({button!r}).click()")

    def save(self, script):
        self.value("window.saved = false; $(document).on('finished_saving', () => saved = true)")
        self.value(script + "; 0")
        self.wait("saved && !jQuery.active")


@contextmanager
def jupyter(folder):
    """JupyterLab, started as the instructors' page says; yields where Formgrader is."""
    data = folder.parent / "runtime"
    options = ["--no-browser", "--allow-root", "--ServerApp.token=", "--ServerApp.port=0"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_RUNTIME_DIR", str(data))
        running = started(folder, "jupyterlab", *options)
    try:
        told = until(lambda: json.loads(next(data.glob("jpserver-*.json")).read_text() or "{}"))
        yield f"http://127.0.0.1:{told['port']}/formgrader"
    finally:
        running.terminate()
        running.communicate()


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    folder = tmp_path_factory.mktemp("formgrader") / "course"
    trial.course(folder, [NAME])
    for student, (answer, written) in STUDENTS.items():
        hand_in(folder, student, answer, written)
    grade(folder)
    return folder


@pytest.fixture(scope="module")
def formgrader(course):
    with jupyter(course) as address:
        yield address


@pytest.fixture
def page():
    with chromium(Formgrader) as page:
        yield page


@pytest.fixture
def submission(page, formgrader):
    """Open the submission of a student from the list, as an instructor does."""

    def submission(student):
        page.open(f"{formgrader}/gradebook/{NAME}/{NAME}")
        names = "[...document.querySelectorAll('a.name-shown')]"
        page.open(page.value(f"{names}.find(a => a.textContent == {student!r}).href") + "/")
        page.wait("document.querySelectorAll('input.extra-credit[placeholder]').length >= 6")
        return page

    return submission


def row(page, formgrader, student):
    """The line of a student in the list: points, points of code and of words, what waits."""
    page.open(f"{formgrader}/gradebook/{NAME}/{NAME}")
    cells = "[...r.cells].slice(2, 5).map(c => c.textContent)"
    waits = "!!r.querySelector('.needs-manual-grade .glyphicon-ok')"
    rows = "[...document.querySelectorAll('#main-table tr')]"
    found = f"{rows}.filter(r => r.querySelector('a.name-shown').textContent == {student!r})"
    return page.value(f"{found}.map(r => [...{cells}, {waits}])[0]")


def field(page, name):
    """What a field of points shows: what was typed, what grading gave, whether it waits."""
    waits = "f.classList.contains('needs_manual_grade')"
    return page.value(f"(f => [f.value, f.placeholder, {waits}])({name})")


def test_the_class_is_listed_with_its_points_and_what_waits(page, formgrader):
    listed = {student: row(page, formgrader, student) for student in STUDENTS}
    no_points, six = ["0 / 20", "0 / 18", "0 / 2", True], ["6 / 20", "6 / 18", "0 / 2", True]
    assert listed == dict.fromkeys(STUDENTS, six) | dict.fromkeys(["wrong", "withheld"], no_points)


def test_points_and_a_comment_are_kept_when_another_notebook_is_graded(
    course, formgrader, submission
):
    page = submission("wrong")
    assert "À cause de sa moyenne." in page.value("document.body.innerText")
    assert field(page, "written") == ["", "", True]
    page.write("#written", "1.5")
    page.write("#written-comment", "Laquelle ?")
    assert row(page, formgrader, "wrong") == ["1.5 / 20", "0 / 18", "1.5 / 2", False]
    hand_in(course, "wrong", RIGHT, "Par sa moyenne.")
    grade(course, "--student", "wrong")
    grade(course, "--student", "wrong", "--force")
    assert row(page, formgrader, "wrong") == ["7.5 / 20", "6 / 18", "1.5 / 2", True]
    submission("wrong")
    assert "Par sa moyenne." in page.value("document.body.innerText")
    assert field(page, "written") == ["1.5", "", True]
    assert page.value("document.querySelector('#written-comment').value") == "Laquelle ?"
    page.press("#written", ".mark-graded")
    assert row(page, formgrader, "wrong") == ["7.5 / 20", "6 / 18", "1.5 / 2", False]


def test_points_that_are_withheld_wait_and_can_be_given(course, formgrader, submission):
    page = submission("withheld")
    assert field(page, "test_forward") == ["", "0", True]
    assert field(page, "test_dx") == ["", "0", False]
    page.press("#test_forward", ".full-credit")
    assert row(page, formgrader, "withheld") == ["6 / 20", "6 / 18", "0 / 2", True]
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        given = book.find_grade("test_forward", NAME, NAME, "withheld")
        assert given.manual_score == 6 and not given.needs_manual_grade


def test_no_script_of_a_student_runs(submission):
    page = submission("hostile")
    assert page.value("document.body.innerText").count("is a scale") == 2  # the attack is there
    page.value("document.querySelectorAll('.rendered_html *').forEach(e => e.click && e.click())")
    time.sleep(0.5)  # nothing tells that nothing comes
    assert page.value("ran") == []
    assert page.value("document.querySelectorAll('.rendered_html :is(math, b, strong)').length")
    assert page.value("document.querySelectorAll('input.score').length") == 6
    dangers = ":is(script, iframe, form, input, style, [onerror], [href^=javascript])"
    assert not page.value(f"document.querySelectorAll('.rendered_html {dangers}').length")
