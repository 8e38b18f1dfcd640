"""Written answers: grouped without names, marked on the page, kept, undone; no mark is no 0."""

import json
import re
import shutil
import threading
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import nbformat
import pytest
from nbgrader.api import Gradebook
from traitlets.config import PyFileConfigLoader

from classroom import answers
from classroom.answers import Question
from classroom.exports import MoodleExporter
from classroom.points import WrittenAnswers, outcome
from classroom.report import as_page, course
from classroom.report import read as read_report
from classroom.scores import VerdictsScore
from classroom.written import Marking, Server, choices
from press import run

ROOT = Path(__file__).parents[2]
NAME, CELL = "layer_norm", "written"
KEY = f"{NAME}/{CELL}"
ENGLISH = "The mean is the same for each token, and it is not changed by the other tokens."
FRENCH = "La moyenne est la même dans chaque token, et ne dépend pas du reste."
CHINESE = "每个词元 (token) 都有自己的均值。"

ANSWERS = {
    "ada": ENGLISH,
    "blaise": f"  {ENGLISH} \n\n",
    "chongzhi": CHINESE,
    "dora": "✎",
    "emil": " \n",
    "fanny": FRENCH,
}


def hand_in(student, answer, language="en", points=18):
    """What `nbgrader autograde` leaves behind of a submission; no kernel runs."""
    notebook = nbformat.read(ROOT / f"exercises/{language}/{NAME}/{NAME}.ipynb", as_version=4)
    (cell,) = (cell for cell in notebook.cells if cell.id == CELL)
    cell.source = answer
    path = Path("autograded", student, NAME, f"{NAME}.ipynb")
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)
    with Gradebook(course().db_url) as book:
        book.update_or_create_student(student)
        book.update_or_create_submission(NAME, student)
    save(notebook, student)
    with Gradebook(course().db_url) as book:
        for grade in book.find_submission(NAME, student).notebooks[0].grades:
            if grade.cell.cell_type == "code":
                grade.auto_score = points / 18 * grade.max_score
                grade.needs_manual_grade = False
        book.db.commit()


def save(notebook, student):
    """Run what nbgrader and the settings run when the points are saved."""
    known = {"notebook": NAME, "assignment": NAME, "student": student, "db_url": course().db_url}
    for step in (VerdictsScore(),):
        step.preprocess(notebook, {"nbgrader": known})


def grade(student):
    with Gradebook(course().db_url) as book:
        found = book.find_grade(CELL, NAME, NAME, student)
        return found.manual_score, found.needs_manual_grade


def set_up(setting):
    """Change a setting of the course."""
    with Path("nbgrader_config.py").open("a", encoding="utf-8") as file:
        file.write(f"c.WrittenAnswers.{setting}\n")


def grouped():
    marking = Marking(course(), NAME)
    with marking.open() as book:
        found = answers.groups(book, marking.course, NAME, marking.questions[KEY])
        return marking, dict(marking.sections(found))


@pytest.fixture(scope="module")
def graded_once(assignments_known, tmp_path_factory):
    """The folder of a course in which these answers are graded: made once."""
    folder = tmp_path_factory.mktemp("graded")
    shutil.copy(assignments_known, folder / "gradebook.db")
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for student, answer in ANSWERS.items():
            hand_in(student, answer)
    return folder


@pytest.fixture
def graded(graded_once, tmp_path, monkeypatch):
    """Such a course, the current folder; a test may change it."""
    monkeypatch.chdir(shutil.copytree(graded_once, tmp_path / "course"))


@pytest.fixture
def server(graded):
    with Server(Marking(course(), NAME)) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def get(address):
    with urlopen(address, timeout=30) as answer:
        return answer.read().decode()


def post(server, what, **headers):
    headers = {"Content-Type": "application/json", **headers}
    request = Request(server.address + KEY, json.dumps(what).encode(), headers)
    with urlopen(request, timeout=30) as answer:
        return json.load(answer)


def cards(page):
    """The groups of a page by their text: the key, how many, whether they wait."""
    form = r'<article [^>]*?id="(\w+)" data-count="(\d+)" data-waits="(\w+)".*?</article>'
    found = re.finditer(form, page, re.DOTALL)
    return {card[0]: (card[1], int(card[2]), card[3] == "true") for card in found}


def card(page, words):
    """The key of the group that holds these words."""
    (key,) = (of[0] for text, of in cards(page).items() if words in text)
    return key


def test_identical_answers_are_together_and_blank_ones_apart(graded):
    _, sections = grouped()
    assert sorted(len(group.answers) for group in sections["answers"]) == [1, 1, 2]
    (blank,) = sections["blank"]
    assert len(blank.answers) == 2 and blank.blank and blank.waits


def test_the_order_is_stable_and_tells_nothing_of_the_names(graded):
    before = [group.key for group in grouped()[1]["answers"]]
    assert before == [group.key for group in grouped()[1]["answers"]]
    for student in ("ada", "blaise", "chongzhi"):
        shutil.rmtree(f"autograded/{student}")
    for student, answer in (("zoe", ENGLISH), ("abe", CHINESE)):
        hand_in(student, answer)
    assert [group.key for group in grouped()[1]["answers"]] == before


def test_the_page_shows_answers_and_no_names(server):
    page = get(server.address)
    assert page.count(ENGLISH) == 1 and CHINESE in page and FRENCH in page
    assert not re.search(r"\b(ada|blaise|chongzhi|dora|emil|fanny)\b", page)
    assert {of[1:] for of in cards(page).values()} == {(2, True), (1, True)}


def test_a_mark_is_in_the_gradebook_at_once_and_can_be_undone(server):
    page = get(server.address)
    done = post(server, {"do": "mark", "group": card(page, ENGLISH), "points": "1.5"})
    assert done == {**done, "points": 1.5, "label": "1.5 / 2", "waits": False}
    assert grade("ada") == grade("blaise") == (1.5, False) and grade("fanny") == (None, True)
    post(server, {"do": "mark", "group": done["group"], "points": 2})
    assert grade("ada") == (2, False)
    assert post(server, {"do": "undo"})["points"] == 1.5
    undone = post(server, {"do": "undo"})
    assert (undone["points"], undone["waits"]) == (None, True) and grade("ada") == (None, True)
    with pytest.raises(HTTPError, match="409"):
        post(server, {"do": "undo"})


def test_blank_answers_get_0_only_when_the_instructor_says_so(server):
    assert grade("emil") == (None, True)  # emptied; the untouched one has nbgrader's own 0
    *_, (key, *_) = cards(get(server.address)).values()  # blank ones come last
    post(server, {"do": "mark", "group": key, "points": "0"})
    assert grade("emil") == grade("dora") == (0, False)


@pytest.mark.parametrize("points", ["3", "-1", "0.7", "nan", "two", None, [1]])
def test_only_the_marks_on_the_page_are_given(server, points):
    key = card(get(server.address), ENGLISH)
    with pytest.raises(HTTPError, match=r"40[09]"):
        post(server, {"do": "mark", "group": key, "points": points})
    assert grade("ada") == (None, True)


def test_a_mark_for_an_answer_that_has_changed_is_refused(server):
    key = card(get(server.address), ENGLISH)
    hand_in("blaise", "Something else.")
    with pytest.raises(HTTPError, match="409"):
        post(server, {"do": "mark", "group": key, "points": "2"})
    assert grade("ada") == grade("blaise") == (None, True)


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "/", {}),
        ("GET", f"/guessed/{KEY}", {}),
        ("GET", None, {"Host": "example.org"}),
        ("POST", None, {"Host": "example.org", "Content-Type": "application/json"}),
        ("POST", None, {"Origin": "https://example.org", "Content-Type": "application/json"}),
        ("POST", None, {"Origin": "null", "Content-Type": "application/json"}),
        ("POST", None, {"Content-Type": "text/plain"}),
        ("POST", f"/guessed/{KEY}", {"Content-Type": "application/json"}),
    ],
)
def test_other_sites_and_other_names_of_this_machine_are_refused(server, method, path, headers):
    key = card(get(server.address), ENGLISH)
    here = urlsplit(server.address + KEY)
    body = json.dumps({"do": "mark", "group": key, "points": 2})
    with closing(HTTPConnection(here.hostname, here.port, timeout=30)) as connection:
        connection.request(method, path or here.path, body if method == "POST" else None, headers)
        answer = connection.getresponse()
        assert answer.status == 403 and ENGLISH not in answer.read().decode()
    assert grade("ada") == (None, True)


def test_the_page_is_for_this_machine_alone_and_loads_nothing(server):
    assert server.server_address[0] == "127.0.0.1"
    with urlopen(server.address, timeout=30) as answer:
        policy = answer.headers["Content-Security-Policy"].split("; ")
    assert {"default-src 'none'", "form-action 'none'", "base-uri 'none'"} <= set(policy)
    assert not [part for part in policy if "unsafe" in part or "http" in part]


def test_the_question_and_its_rubric_come_from_the_source():
    text, notes = answers.asked(run.read(ROOT / f"solutions/{NAME}.md"), Question(NAME, CELL, 2))
    assert text.startswith("## 5.") and "colours of pixels" in text and "SOLUTION" not in notes
    assert notes.startswith("All three become") and "Rubric: 1 point" in notes


@pytest.mark.parametrize("attack", ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>"])
def test_what_a_student_writes_runs_nothing(server, attack):
    hand_in("guy", f"{attack} So.")
    (text,) = (text for text in cards(get(server.address)) if "So." in text)
    assert "<script" not in text and "onerror" not in text


@pytest.mark.parametrize(
    ("language", "word"), [("en", "Written"), ("fr", "Réponse"), ("zh", "书面回答")]
)
def test_the_page_speaks_the_instructors_language(graded, language, word):
    page = Marking(course(), NAME, language).page(KEY, "/", "n")
    assert word in page
    assert f'<html lang="{ {"zh": "zh-Hans"}.get(language, language) }">' in page


def test_a_mark_survives_being_graded_again_while_the_answer_is_the_same(server):
    key = card(get(server.address), ENGLISH)
    post(server, {"do": "mark", "group": key, "points": "1"})
    hand_in("ada", ENGLISH, points=9)
    hand_in("blaise", "Another answer, which nobody has read.")
    assert grade("ada") == (1, False)
    assert grade("blaise") == (1, True)
    page = get(server.address)
    assert "changed since it was marked" in page


def test_a_mark_given_elsewhere_is_kept_and_asked_for_again(graded):
    with Gradebook(course().db_url) as book:
        mark = book.find_grade(CELL, NAME, NAME, "ada")
        mark.manual_score, mark.needs_manual_grade = 2, False
        book.db.commit()
    hand_in("ada", ENGLISH)
    assert grade("ada") == (2, True)


@pytest.mark.parametrize(
    ("most", "keys"),
    [
        (2, {"0": 0, "h0": 0.5, "1": 1, "h1": 1.5, "2": 2}),
        (0.75, {"0": 0, "h0": 0.5, "m": 0.75}),
        (6, {str(points): points for points in range(7)}),
    ],
)
def test_each_mark_has_its_keys(most, keys):
    assert dict(choices(most)) == keys


@pytest.mark.parametrize(
    ("text", "notebook", "language"),
    [
        (ENGLISH, "zh", "en"),
        (FRENCH, "en", "fr"),
        (CHINESE, "en", "zh"),
        ("LayerNorm 与 BatchNorm 不同", "en", "zh"),
        ("Same mean.", "fr", "fr"),
        ("Same mean.", "zh", None),
        ("Потому что среднее у каждого токена своё.", "en", None),
        ("$x^2$ `the of and is`", "en", None),
        (
            "Weil der Mittelwert jedes Tokens für sich allein genommen wird, und nichts vom"
            " Rest des Stapels darin vorkommt.",
            "en",
            None,
        ),
        ("", "en", None),
    ],
)
def test_the_language_of_an_answer_is_told_or_said_to_be_unknown(text, notebook, language):
    assert answers.language(text, notebook) == language


def test_answers_in_other_languages_are_set_apart_and_not_marked(graded):
    set_up('languages = ["en"]')
    _, sections = grouped()
    assert {group.language for group in sections["foreign"]} == {"fr", "zh"}
    assert all(group.waits and group.points is None for group in sections["foreign"])
    page = Marking(course(), NAME).page(KEY, "/", "n")
    order = [page.index(words) for words in (ENGLISH, "not accepted", FRENCH)]
    assert order == sorted(order)


def moodle():
    config = PyFileConfigLoader("nbgrader_config.py", ".").load_config()
    with Gradebook(course().db_url) as book:
        MoodleExporter(config=config, to="m.csv", assignment=[NAME]).export(book)
    rows = [line.split(",") for line in Path("m.csv").read_text("utf-8").splitlines()]
    return {row[2]: row[4:] for row in rows}


def test_what_is_not_marked_is_provisional_in_the_export_and_never_0(graded):
    table = moodle()
    assert table["ID number"] == [NAME, f"{NAME} (provisional)"]
    assert table["ada"] == ["", "18"] and table["dora"] == ["18", ""]
    marking, sections = grouped()
    marking.page(KEY, "/", "n")
    for kind in sections.values():
        for group in kind:
            marking.mark(KEY, group.key, 1)
    assert moodle()["ID number"] == [NAME] and moodle()["ada"] == ["19"]


def test_without_written_answers_the_code_counts_for_the_whole(graded):
    hand_in("half", "Words.", points=9)
    set_up('written = "off"')
    table = moodle()
    assert table["ID number"] == [NAME]
    assert (table["ada"], table["half"], table["dora"]) == (["20"], ["10"], ["20"])
    attempts = list(read_report(course(), NAME))
    assert {a.test for a in attempts} >= {"test_forward"} and CELL not in {a.test for a in attempts}
    assert sum(a.most for a in attempts if a.student == "ada") == pytest.approx(20)
    with pytest.raises(SystemExit, match=r"WrittenAnswers\.written"):
        Marking(course(), NAME)


def test_the_report_counts_what_is_marked(graded):
    attempts = [a for a in read_report(course(), NAME) if a.test == CELL]
    assert {a.student: a.points for a in attempts} == {
        **dict.fromkeys(("ada", "blaise", "chongzhi", "emil", "fanny")),
        "dora": 0,
    }
    page = as_page(NAME, attempts, "en")
    assert "not counted: 5." in page and "Solved by nobody: no task." in page


def test_lateness_is_rescaled_with_the_points(graded):
    with Gradebook(course().db_url) as book:
        submission = book.find_submission(NAME, "ada")
        submission.notebooks[0].late_submission_penalty = 18
        book.db.commit()
        settings = WrittenAnswers(written="off")
        assert outcome(submission, settings).points == pytest.approx(0)
