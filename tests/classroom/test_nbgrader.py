"""A small class graded with nbgrader's ordinary commands: three languages, right, wrong, broken."""

import csv
import html
import json
import os
import re
import shutil
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from normkit.messages import translator
from normkit.tutor.mistakes import catalogue, mistakes_of, written
from normkit.tutor.programs import find_program
from press.release import release
from press.run import read

ROOT = Path(__file__).parents[2]
NAME = "layer_norm"
SOURCE = read(ROOT / "solutions" / f"{NAME}.md")
GRADIENTS = {"test_dx": 4, "test_dgamma_dbeta": 2}
FULL = {"test_forward": 6, "test_layer": 4, **GRADIENTS, "test_invariance": 2, "written": 0}
NOTHING = dict.fromkeys(FULL, 0)


def reference(cell) -> str:
    """The answer in a cell of the source, as a student would write it."""
    return re.sub(r"^\s*### (BEGIN|END) SOLUTION\n?", "", cell.source, flags=re.MULTILINE)


ANSWERS = {
    cell.metadata.nbgrader["grade_id"]: reference(cell)
    for cell in SOURCE.cells
    if cell.metadata.get("nbgrader", {}).get("solution")
}


def filled(language, **answers):
    """The release in a language with some answers in it, as a student hands it in."""
    path = ROOT / "exercises" / language / NAME / f"{NAME}.ipynb"
    notebook = json.loads(path.read_text("utf-8"))
    for cell in notebook["cells"]:
        cell["source"] = answers.get(cell["id"], cell["source"])
    return notebook


def damaged():
    """All right, but a test stands at the top too, one is deleted, one lost its metadata."""
    notebook = filled("zh", **{**ANSWERS, "written": "因为每个词元各有自己的均值。"})
    cells = {cell["id"]: cell for cell in notebook["cells"]}
    notebook["cells"].remove(cells["test_layer"])
    notebook["cells"].insert(0, {**deepcopy(cells["test_forward"]), "id": "a-copy"})
    cells["test_dx"]["metadata"] = {}
    return notebook


UNBIASED = """
def layer_norm(x, gamma, beta, eps=1e-5):
    moyenne = x.mean(axis=-1, keepdims=True)
    variance = x.var(axis=-1, keepdims=True, ddof=1)
    return gamma * (x - moyenne) / np.sqrt(variance + eps) + beta
"""
EPS_OUTSIDE = """
def layer_norm(x, gamma, beta, eps=1e-5):
    离差 = x - x.mean(axis=-1, keepdims=True)
    return gamma * 离差 / (np.sqrt((离差**2).mean(axis=-1, keepdims=True)) + eps) + beta
"""


def mistaken(name, program, mistake):
    """An answer that makes a mistake of the catalogue."""
    known = {m.name: m for m in mistakes_of(f"layer_norm/{program}")}
    called = find_program(f"layer_norm/{program}").calls().values()
    texts = [written(of, known[mistake]) for of in (*called, f"layer_norm/{program}")]
    return "\n\n".join([*texts, f"{name} = {program}\n"])


# Honest, and it says so on stderr: warnings, prints and logging cost no points.
LOUD = f"""
import logging, sys, warnings
{ANSWERS["forward"]}
quiet = layer_norm
def layer_norm(*given, **named):
    warnings.warn("this may take long", UserWarning)
    logging.warning("still running")
    print("and running", file=sys.stderr)
    return quiet(*given, **named)
"""
# Prints the test that calls it, and all that ran before.
CURIOUS = f"""
{ANSWERS["forward"]}
told = layer_norm
def layer_norm(*given, **named):
    print(In[-1])
    return told(*given, **named)
"""


def refused(folder):
    """What nobody may open: it would wait forever, fill the disk, or show what is another's."""
    (folder / f"{NAME}.ipynb").symlink_to(ROOT / "solutions" / f"{NAME}.md")
    os.mkfifo(folder / "timestamp.txt")
    os.mkfifo(folder / "a_fifo")
    (folder / "a_link").symlink_to("/dev/zero")
    (folder / "two\nlines").touch()
    (folder / "sparse").touch()
    os.truncate(folder / "sparse", 10**12)
    (folder / "data.csv").write_text("1,2", "utf-8")


pytestmark = pytest.mark.needs("bubblewrap")
INVARIANCE = "\npredictions, unchanged = answer()"
# The order matters: whoever spoils a run spoils it for those who come later in the alphabet.
HANDED_IN = {
    "aaron": damaged(),
    "abe": refused,
    "abel": "My answers are in the mail.",
    "abigail": None,
    "blaise": filled(
        "fr",
        **{
            **ANSWERS,
            "forward": CURIOUS,
            "layer": ANSWERS["layer"] + "\nprint(In, __import__('inspect').stack())",
            "written": "Parce que la moyenne est par token.",
        },
    ),
    "carl": filled(
        "fr",
        forward=UNBIASED,
        layer=mistaken("LayerNorm", "LayerNorm", "gamma_forgotten"),
        backward=mistaken("layer_norm_backward", "layer_norm_backward", "detached_statistics"),
        invariance=mistaken("answer", "layer_norm_invariance", "exact_equality") + INVARIANCE,
    ),
    "chen": filled(
        "zh",
        forward=EPS_OUTSIDE,
        layer=mistaken("LayerNorm", "LayerNorm", "batch_axis"),
        backward=mistaken("layer_norm_backward", "layer_norm_backward", "mean_term_dropped"),
        invariance=mistaken("answer", "layer_norm_invariance", "negation_accepted") + INVARIANCE,
    ),
    "dora": json.dumps(filled("en", forward=LOUD)).encode("utf-16"),
}
SCORES = {
    "aaron": FULL,
    "abe": NOTHING,
    "abel": NOTHING,
    "abigail": NOTHING,
    "blaise": FULL,
    "carl": {**NOTHING, "test_dgamma_dbeta": 2},
    "chen": {**NOTHING, "test_dgamma_dbeta": 2},
    "dora": {**NOTHING, "test_forward": 6},
}
WAITING = {"aaron", "blaise"}  # who wrote something that a person must read
NAMED = {
    "carl": ["unbiased_variance", "gamma_forgotten", "detached_statistics", "exact_equality"],
    "chen": ["eps_outside_root", "batch_axis", "mean_term_dropped", "negation_accepted"],
}


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A course in which all commands have run, from the release to the export."""
    course = tmp_path_factory.mktemp("course")
    shutil.copy(ROOT / "nbgrader_config.py", course)
    build, config = course / "_build/nbgrader", course / "nbgrader_config.py"
    release({"en": {NAME: SOURCE}}, course / "exercises", build, config)
    for student, notebook in HANDED_IN.items():
        hand_in(course / "submitted" / student / NAME, notebook)
    hand_in(course / "submitted" / "zeno\nWARNING" / NAME, filled("en"))
    for command in (
        f"generate_assignment {NAME}",
        "db student add zoe",
        f"autograde {NAME}",
        f"generate_feedback {NAME}",
        "export --to grades.csv",
        "export --exporter classroom.exports.MoodleExporter --to moodle.csv",
    ):
        run(course, f"nbgrader {command}")
    run(course, f"classroom.report {NAME} --language fr")
    return course


def hand_in(folder, notebook):
    folder.mkdir(parents=True)
    if callable(notebook):
        notebook(folder)
    elif notebook is not None:
        text = notebook if isinstance(notebook, str | bytes) else json.dumps(notebook)
        data = text if isinstance(text, bytes) else text.encode()
        (folder / f"{NAME}.ipynb").write_bytes(data)


def run(course, command):
    """Run a module as in an activated environment: nbgrader calls alembic by its name."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [sys.executable, "-m", *command.split()],
        cwd=course,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,  # a hang is a failure
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def grades(course):
    """The grades of each student by cell, from the gradebook."""
    with Gradebook(f"sqlite:///{course}/gradebook.db") as gradebook:
        return {
            submission.student.id: {grade.name: grade.to_dict() for grade in notebook.grades}
            for submission in gradebook.assignment_submissions(NAME)
            for notebook in submission.notebooks
        }


def text_of(course, student):
    """The words of a student's feedback page."""
    page = (course / "feedback" / student / NAME / f"{NAME}.html").read_text("utf-8")
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", page)).split())


@pytest.mark.parametrize("student", HANDED_IN)
def test_each_task_has_the_points_that_it_deserves(grades, student):
    found = {name: grade["auto_score"] or 0 for name, grade in grades[student].items()}
    assert found == SCORES[student]


def test_only_a_written_answer_waits_for_a_person(grades):
    waiting = {
        (student, name)
        for student, of_student in grades.items()
        for name, grade in of_student.items()
        if grade["needs_manual_grade"]
    }
    assert waiting == {(student, "written") for student in WAITING}


def test_the_points_sum_to_twenty(grades):
    assert sum(grade["max_score"] for grade in grades["dora"].values()) == 20


@pytest.mark.parametrize(
    ("student", "report"),
    [
        ("aaron", "repeated.*: test_forward"),
        ("aaron", "missing, put back: test_layer"),
        ("aaron", "metadata lost or changed, restored: test_dx"),
        ("abe", "layer_norm.ipynb: refused: a symbolic link.*, graded as empty"),
        ("abe", "timestamp.txt'?: refused: no regular file, left out"),
        ("abe", "a_fifo'?: refused: no regular file, left out"),
        ("abe", "a_link'?: refused: a symbolic link.*, left out"),
        ("abe", r"two\\nlines'?: refused: a line end.*, left out"),
        ("abe", "sparse'?: refused: 1000000 MB; at most 20 MB are read, left out"),
        ("zeno", r"\\nWARNING/layer_norm'?: refused: a line end.*, left out"),
        ("abel", "cannot be read"),
        ("abigail", "was not handed in"),
    ],
)
def test_what_is_amiss_is_reported_by_name(course, student, report):
    assert re.search(f"WARNING.*{student}.*{report}", (course / ".nbgrader.log").read_text("utf-8"))


def test_no_line_of_the_log_is_forged(course):
    log = (course / ".nbgrader.log").read_text("utf-8")
    assert not re.search("^(WARNING/|lines)", log, re.MULTILINE)


def test_only_ordinary_files_are_copied_beside_a_graded_notebook(course):
    copied = {path.name for path in (course / "autograded" / "abe" / NAME).iterdir()}
    assert copied == {f"{NAME}.ipynb", "data.csv"}


def test_only_who_looks_around_is_reported_for_a_look(course):
    log = (course / ".nbgrader.log").read_text("utf-8")
    reported = {s for s in HANDED_IN if s > "abigail" and re.search(rf"WARNING\] {s},", log)}
    assert reported == {"blaise"} and "unusual: import inspect" in log


@pytest.mark.parametrize(
    ("student", "answer"),
    [
        ("aaron", "因为每个词元各有自己的均值。"),
        ("blaise", "Parce que la moyenne est par token."),
        ("carl", "moyenne = x.mean(axis=-1, keepdims=True)"),
        ("chen", "离差 = x - x.mean(axis=-1, keepdims=True)"),
    ],
)
def test_feedback_shows_the_students_own_answers(course, student, answer):
    assert answer in text_of(course, student)


@pytest.mark.parametrize(("student", "language"), [("carl", "fr"), ("chen", "zh")])
def test_feedback_names_each_mistake_in_the_students_language(course, student, language):
    messages = {mistake.name: mistake.message for mistake in catalogue(NAME)[""]}
    page = "".join(text_of(course, student).split())  # feedback is wrapped
    for name in NAMED[student]:
        assert "".join(translator(language)(messages[name]).split()) in page, name


@pytest.mark.parametrize("student", HANDED_IN)
def test_feedback_shows_no_hidden_test_and_loads_nothing(course, student):
    page = (course / "feedback" / student / NAME / f"{NAME}.html").read_text("utf-8")
    assert "HIDDEN" not in page and "seed" not in page and "Traceback (most" not in page
    assert not re.search(r"<script|<link|src=\"(?!data:)|@import|\\\\frac", page)


@pytest.mark.parametrize("student", HANDED_IN)
def test_nothing_but_the_page_is_given_back(course, student):
    folder = course / "feedback" / student / NAME
    assert [path.name for path in folder.iterdir()] == [f"{NAME}.html"]


@pytest.mark.parametrize("student", NAMED)
def test_the_graded_notebook_keeps_the_verdicts(course, student):
    graded = course / "autograded" / student / NAME / f"{NAME}.ipynb"
    cells = json.loads(graded.read_text("utf-8"))["cells"]
    kept = [v for c in cells for v in c["metadata"].get("normkit", {}).get("verdicts", [])]
    named = [name.rpartition("/")[2] for verdict in kept for name in verdict["mistakes"]]
    assert list(dict.fromkeys(named)) == NAMED[student]
    assert all(verdict["passed"] != bool(verdict["mistakes"]) for verdict in kept)


def test_feedback_is_in_the_students_language(course):
    pages = {student: text_of(course, student) for student in ("carl", "chen", "dora")}
    assert "Réponse rédigée" in pages["carl"] and "书面回答" in pages["chen"]
    assert "Written answer" in pages["dora"]


@pytest.mark.parametrize("student", sorted(WAITING))
def test_feedback_is_provisional_while_a_mark_is_missing(course, student):
    page = text_of(course, student)
    assert "– / 2.0" in page and "18.0 / 18.0" in page and "/ 20.0" not in page
    assert "20.0" in text_of(course, "carl")


def test_the_export_has_a_row_for_everyone(course):
    with (course / "grades.csv").open(encoding="utf-8") as file:
        scores = {row["student_id"]: float(row["score"]) for row in csv.DictReader(file)}
    expected = {student: sum(scores.values()) for student, scores in SCORES.items()}
    assert scores == {**expected, "zoe": 0}


def test_moodle_gets_the_same_points_and_none_for_who_waits_or_handed_in_nothing(course):
    with (course / "moodle.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["ID number"]: row for row in csv.DictReader(file)}
    points = {student: f"{sum(of.values()):g}" for student, of in SCORES.items()}
    for column, has in ((NAME, set(SCORES) - WAITING), (f"{NAME} (provisional)", WAITING)):
        told = {student: row[column] for student, row in rows.items()}
        assert told == {"zoe": "", **{s: p if s in has else "" for s, p in points.items()}}


def test_the_report_counts_points_and_mistakes(course):
    with (course / "reports" / f"{NAME}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(r["student"], r["test"]): r["points"] for r in rows} == {
        (student, test): "" if test == "written" and student in WAITING else f"{points:g}"
        for student, of in SCORES.items()
        for test, points in of.items()
    }
    for student, names in NAMED.items():
        assert [r["mistakes"] for r in rows if r["student"] == student and r["mistakes"]] == names


def test_the_report_says_what_went_wrong_in_the_instructors_language(course):
    page = html.unescape((course / "reports" / f"{NAME}.html").read_text("utf-8"))
    messages = {mistake.name: mistake.message for mistake in catalogue(NAME)[""]}
    assert all(translator("fr")(messages[name]) in page for name in NAMED["chen"])
    assert f"Étudiants\u202f: {len(SCORES)}." in page
    assert f"{translator('fr')('Solved by nobody:')} {translator('fr')('no task.')}" in page
    assert "<script" not in page
