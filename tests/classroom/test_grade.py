"""A class is graded by one command: once each, again when it changes, whatever kills it."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook
from sqlalchemy import create_engine
from sqlalchemy.exc import OperationalError

from classroom import trial
from classroom.grading import grade_class
from classroom.marks import digest, is_written, mark, write
from classroom.points import WrittenAnswers, outcome

ROOT = Path(__file__).parents[2]
NAME = "layer_norm"
pytestmark = pytest.mark.needs("bubblewrap")
FORWARD = """
def layer_norm(x, gamma, beta, eps=1e-5):
    centred = x - x.mean(-1, keepdims=True)
    return gamma * centred / np.sqrt((centred**2).mean(-1, keepdims=True) + {eps}) + beta
"""
RIGHT, WRONG = FORWARD.format(eps="eps"), FORWARD.format(eps="2 * eps")
STUDENTS = {f"s{number}": (RIGHT, WRONG, "1 / 0")[number % 3] for number in range(9)}


def hand_in(folder, student, answer, written="✎"):
    notebook = json.loads(trial.released(folder, NAME))
    for cell in notebook["cells"]:
        cell["source"] = {"forward": answer, "written": written}.get(cell["id"], cell["source"])
    path = folder / "submitted" / student / NAME / f"{NAME}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook), "utf-8")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A course with a class that has handed in; nothing is graded."""
    folder = tmp_path_factory.mktemp("made") / "course"
    trial.course(folder, [NAME])
    for student, answer in STUDENTS.items():
        hand_in(folder, student, answer)
    return folder


@pytest.fixture
def course(made, tmp_path, monkeypatch):
    folder = shutil.copytree(made, tmp_path / "course")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(scope="module")
def undisturbed(made, tmp_path_factory):
    """The same course, graded in one go: its gradebook and its files."""
    folder = shutil.copytree(made, tmp_path_factory.mktemp("undisturbed") / "course")
    begun = time.monotonic()
    assert start(folder).wait() == 0
    (folder.parent / "seconds").write_text(str(time.monotonic() - begun))
    return folder


def start(folder, *arguments):
    """Begin to grade, as the command does."""
    command = [sys.executable, "-W", "ignore", "-m", "classroom.grade", NAME, *arguments]
    given = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, cwd=folder, env=given, **quiet)


def scores(folder):
    with Gradebook(f"sqlite:///{folder}/gradebook.db") as book:
        return {s.student.id: s.score for s in book.assignment_submissions(NAME)}


def result(folder):
    """All that grading leaves, without what is drawn or measured anew: ids, times."""
    with Gradebook(f"sqlite:///{folder}/gradebook.db") as book:
        rows = {
            (submission.student.id, thing.name): tuple(getattr(thing, name) for name in names)
            for submission in book.assignment_submissions(NAME)
            for notebook in submission.notebooks
            for things, names in (
                (notebook.grades, ("auto_score", "manual_score", "needs_manual_grade")),
                (notebook.comments, ("auto_comment", "manual_comment")),
            )
            for thing in things
        }
    files = {}
    for path in sorted((folder / "autograded").rglob("*.ipynb")):
        notebook = json.loads(path.read_text("utf-8"))
        notebook["metadata"]["normkit"].pop("seconds")
        notebook["metadata"]["normkit"].pop("submission")  # it depends on the secret
        files[str(path.relative_to(folder))] = notebook["metadata"], len(notebook["cells"])
    others = sorted(p.name for p in (folder / "autograded").iterdir())
    return rows, files, others


def test_a_right_answer_has_its_points_and_nobody_is_graded_twice(undisturbed):
    assert scores(undisturbed) == {s: 6 * (a == RIGHT) for s, a in STUDENTS.items()}
    before = {p: p.stat().st_mtime_ns for p in (undisturbed / "autograded").rglob("*.ipynb")}
    assert start(undisturbed).wait() == 0
    assert before == {
        p: p.stat().st_mtime_ns for p in (undisturbed / "autograded").rglob("*.ipynb")
    }


def test_what_changes_is_graded_again_and_what_a_person_gave_stays(course):
    hand_in(course, "s0", RIGHT, "Because of its mean.")
    assert grade_class([NAME], ["s0"]).graded == 1
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        written = book.find_grade("written", NAME, NAME, "s0")
        assert written.needs_manual_grade
        written.manual_score, written.needs_manual_grade = 1.5, False
        book.db.commit()
    assert grade_class([NAME], ["s0"]).unchanged == 1
    hand_in(course, "s0", WRONG, "Because of its mean.")
    assert grade_class([NAME], ["s0"]).graded == 1
    assert scores(course) == {"s0": 1.5}
    assert grade_class([NAME], ["s0"], force=True).graded == 1


def test_a_gradebook_that_lacks_a_student_gets_the_points_again(course):
    assert grade_class([NAME], ["s0"]).graded == 1
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        book.remove_submission(NAME, "s0")
    assert grade_class([NAME], ["s0"]).graded == 1
    assert scores(course) == {"s0": 6}


def test_the_summary_names_what_needs_a_look(course):
    hand_in(course, "s0", RIGHT.replace("\n", "\nimport gc\n", 1))
    hand_in(course, "s1\nx", RIGHT)
    (course / "submitted/s2" / NAME / f"{NAME}.ipynb").write_text("no notebook")
    summary = grade_class([NAME], ["s0", "s2", "s1\nx"])
    text = str(summary)
    assert "2 graded" in text and "s0, layer_norm: looks behind the tests" in text
    assert "s2, layer_norm: cannot be read" in text and r"'s1\nx': refused" in text
    assert scores(course) == {"s0": 0, "s2": 0}


LATE = """
from nbgrader.plugins import LateSubmissionPlugin

class TwoPoints(LateSubmissionPlugin):
    def late_submission_penalty(self, student_id, score, total_seconds_late):
        return 2
"""


def test_who_is_late_has_the_penalty_of_the_course(course, monkeypatch):
    (course / "late.py").write_text(LATE)
    monkeypatch.syspath_prepend(course)
    with Path("nbgrader_config.py").open("a") as file:
        file.write('c.AssignLatePenalties.plugin_class = "late.TwoPoints"\n')
    for student, day in (("s0", 2), ("s3", 4)):  # both right
        when = course / "submitted" / student / NAME / "timestamp.txt"
        when.write_text(f"2026-11-0{day} 12:00:00 UTC")
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        book.update_or_create_assignment(NAME, duedate="2026-11-03 00:00:00 UTC")
    assert grade_class([NAME], ["s0", "s3"]).graded == 2
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        found = {s.student.id: s.late_submission_penalty for s in book.assignment_submissions(NAME)}
    assert found == {"s0": 0, "s3": 2}


def test_without_a_sandbox_it_says_so_aloud(course, capsys):
    summary = grade_class([NAME], ["s0"], confined=False)
    assert "NO SANDBOX" in str(summary) and "NO SANDBOX" in capsys.readouterr().err
    assert scores(course) == {"s0": 6}


def test_tasks_choose_what_counts_and_nothing_is_graded_twice(course):
    assert grade_class([NAME], ["s0"]).graded == 1
    summary = grade_class([NAME], ["s0"], tasks=["forward", "backward"])
    assert (summary.graded, summary.unchanged) == (0, 1)
    assert f"{NAME}: only forward, dx, dgamma_dbeta count" in str(summary)
    assert "only forward, dx" in str(grade_class([NAME], ["s0"]))  # it stays
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        so_far = outcome(book.find_submission(NAME, "s0"), WrittenAnswers())
    assert (so_far.points, so_far.most) == (pytest.approx(6 * 20 / 12), pytest.approx(20))
    assert "only" not in str(grade_class([NAME], ["s0"], tasks=["all"]))


def test_tasks_that_nobody_knows_are_an_error_that_names_the_known(course):
    known = "forward, layer, dx, dgamma_dbeta, invariance, written, backward, all"
    with pytest.raises(SystemExit, match=f"no task 'backwards'; TASKS may name: {known}"):
        grade_class([NAME], tasks=["forward", "backwards"])
    with (course / "nbgrader_config.py").open("a") as file:
        file.write('c.WrittenAnswers.written = "off"\n')
    with pytest.raises(SystemExit, match="Nothing of layer_norm would count"):
        grade_class([NAME], tasks=["written"])
    assert not Path("gradebook.tasks").exists()


@pytest.mark.parametrize("assignments", [[], [NAME, "rms_norm"]])
def test_tasks_need_one_assignment(course, assignments):
    with pytest.raises(SystemExit, match="TASKS needs one assignment"):
        grade_class(assignments, tasks=["forward"])


def test_an_assignment_that_nobody_knows_is_an_error(course):
    with pytest.raises(SystemExit, match="nbgrader generate_assignment no_such"):
        grade_class(["no_such"])


def test_two_runs_do_not_write_at_once(course):
    running = start(course)
    for _ in range(200):
        time.sleep(0.05)
        if (course / ".grading/lock").exists():
            break
    time.sleep(0.2)
    with pytest.raises(SystemExit, match="Another run"):
        grade_class([NAME])
    running.kill()
    running.wait()


def working_in(folder):
    """The processes that work in a folder, or name it on their command line."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            place, args = os.readlink(process / "cwd"), (process / "cmdline").read_bytes().decode()
            found += [args] if place == str(folder) or str(folder) in args else []
    return found


@pytest.mark.parametrize("kills", [1, pytest.param(15, marks=pytest.mark.proof)])
def test_killed_at_any_moment_it_ends_with_the_same_grades_and_files(
    made, tmp_path, undisturbed, kills
):
    folder = shutil.copytree(made, tmp_path / "course")
    most = float((undisturbed.parent / "seconds").read_text())
    for number in range(kills):
        running = start(folder)
        time.sleep(random.Random(number).uniform(0.2, 1) * most)
        running.send_signal(signal.SIGKILL)
        running.wait()
        time.sleep(0.5)
        assert not working_in(folder)
    assert start(folder).wait() == 0
    assert result(folder) == result(undisturbed)
    assert [path.name for path in (folder / ".grading").iterdir()] == ["lock"]


@pytest.mark.proof
def test_on_a_cluster_whose_workers_die_everybody_is_graded(course):
    """One of two workers is killed while it works; then another."""
    from dask.distributed import Client, LocalCluster

    given = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**given) as cluster, Client(cluster) as client:
        client.run(sys.path.insert, 0, str(ROOT))

        def kill():
            for _ in range(2):
                time.sleep(3)
                os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        summary = grade_class([NAME], workers=cluster(cluster.scheduler_address))
        killer.join()
    assert summary.graded == len(STUDENTS) and not summary.failed
    assert scores(course) == {s: 6 * (a == RIGHT) for s, a in STUDENTS.items()}


@pytest.fixture
def postgresql(postgres):
    """A database of a server that lasts as long as the test."""
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    user = [] if os.getuid() else user  # root may not run it
    with tempfile.TemporaryDirectory(dir="/tmp") as place:  # not pytest's: none may enter it
        if user:
            shutil.chown(place, "postgres")
        initdb, server = (postgres(name) for name in ("initdb", "postgres"))
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        make = [*user, initdb, "-D", f"{place}/data", "-A", "trust", "-U", "postgres"]
        subprocess.run(make, check=True, **quiet)
        serve = [*user, server, "-D", f"{place}/data", "-k", place, "-h", ""]
        running = subprocess.Popen(serve, **quiet)
        try:
            yield ready(f"postgresql+psycopg2://postgres@/postgres?host={place}")
        finally:
            running.send_signal(signal.SIGINT)
            running.wait()


def ready(address):
    """The address of a database, when it answers."""
    for _ in range(100):
        with suppress(OperationalError):
            create_engine(address).connect().close()
            return address
        time.sleep(0.1)
    raise TimeoutError(f"No database answers at {address}.")


@pytest.mark.needs("postgresql")
@pytest.mark.proof
def test_in_postgresql_a_class_has_the_points_that_it_has_in_sqlite(
    course, undisturbed, postgresql
):
    with (course / "nbgrader_config.py").open("a") as config:
        config.write(f'\nc.CourseDirectory.db_url = "{postgresql}"\n')
    command = [sys.executable, "-m", "nbgrader", "generate_assignment", NAME]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PYTHONPATH": ROOT})
    assert start(course).wait() == 0
    assert grades(postgresql) == grades(f"sqlite:///{undisturbed}/gradebook.db")
    hand_in(course, "s0", RIGHT, "Because of its mean.")
    assert start(course).wait() == 0
    with Gradebook(postgresql) as book:
        written = book.find_grade("written", NAME, NAME, "s0")
        assert written.needs_manual_grade
        path = course / "autograded/s0" / NAME / f"{NAME}.ipynb"
        cells = nbformat.read(path, as_version=4).cells
        answer = next(digest(cell) for cell in cells if is_written(cell))
        before = mark(book, [written.id], answer, 1.5)
        write(book, before)
        assert book.find_grade("written", NAME, NAME, "s0").manual_score is None
        mark(book, [written.id], answer, 1.5)
    hand_in(course, "s0", WRONG, "Because of its mean.")
    assert start(course, "--force").wait() == 0
    assert grades(postgresql)["s0", "written"] == (None, 1.5, False)
    assert grades(postgresql)["s0", "test_forward"] == (0, None, False)


def grades(address):
    """What a gradebook says of each student's cells: points, a mark, whether they wait."""
    with Gradebook(address) as book:
        return {
            (submission.student.id, grade.name): (
                *(grade.auto_score, grade.manual_score, grade.needs_manual_grade),
            )
            for submission in book.assignment_submissions(NAME)
            for notebook in submission.notebooks
            for grade in notebook.grades
        }
