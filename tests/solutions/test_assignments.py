"""Every assignment: the reference scores in full, the stub nothing, a mistake less."""

import ast
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from copy import deepcopy
from functools import cache
from io import StringIO
from pathlib import Path
from string import Formatter

import pytest
from nbgrader.preprocessors import ClearHiddenTests, ClearSolutions

from classroom.planting import is_bundle, showing
from normkit.messages import LANGUAGES, translator
from press.run import read

SOLUTIONS = Path(__file__).parents[2] / "solutions"
NAMES = sorted(path.stem for path in SOLUTIONS.glob("*.md"))
each = pytest.mark.parametrize(  # one worker for each assignment: it runs once
    "name", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in NAMES]
)
HIDDEN = re.compile(
    r"### BEGIN HIDDEN TESTS\ncheck\((.+), \"(\S+)\", seed=(\d+)\)\n### END HIDDEN TESTS$"
)


@cache
def source(name):
    return read(SOLUTIONS / f"{name}.md")


def facts(cell):
    return cell.metadata.get("nbgrader", {})


@cache
def checks(name):
    """The tests of an assignment: their code, and in the hidden line the answer and its task."""
    found = [cell.source for cell in source(name).cells if facts(cell).get("locked")]
    return [(code, *HIDDEN.search(code).groups()[:2]) for code in found]


TESTS = [
    pytest.param(name, *check, id=check[2], marks=pytest.mark.xdist_group(name))
    for name in NAMES
    for check in checks(name)
]


def play(notebook, whole=False):
    """Run the code cells as a kernel would, and go on after errors: names, errors, what it says.

    Up to the last test, unless whole: the experiments behind it train models.
    """
    last = max(place for place, cell in enumerate(notebook.cells) if facts(cell).get("locked"))
    names, errors, said = {"__name__": "__main__"}, {}, StringIO()
    for cell in notebook.cells[: None if whole else last + 1]:
        if cell.cell_type == "code":
            try:
                with redirect_stdout(said):
                    exec(cell.source, names)
            except Exception as error:
                errors[facts(cell).get("grade_id", cell.source.split("\n")[0])] = error
    return names, errors, said.getvalue()


@cache
def solved(name):
    return play(source(name))


@each
def test_the_reference_scores_in_full(name):
    _, errors, said = solved(name)
    assert errors == {}
    diagnoses = sum(cell.source.startswith("diagnose(") for cell in source(name).cells)
    assert said.count("✓") == diagnoses > 0


@pytest.mark.proof
@each
def test_the_experiments_run(name):
    assert play(source(name), whole=True)[1] == {}


@each
def test_the_untouched_release_scores_nothing(name):
    clear = ClearSolutions(code_stub={"python": "raise NotImplementedError"})
    released, resources = clear.preprocess(deepcopy(source(name)), {})
    tests = {facts(c).grade_id for c in released.cells if facts(c).get("locked")}
    assert tests <= play(released)[1].keys()
    released, _ = ClearHiddenTests().preprocess(released, resources)
    assert tests <= play(released)[1].keys()
    text = "\n".join(cell.source for cell in released.cells)
    assert "BEGIN" not in text and "END" not in text and "Rubric" not in text


@pytest.mark.sample(16)
@pytest.mark.parametrize(("name", "test", "answer", "task"), TESTS)
def test_every_mistake_loses_the_points_of_its_task(name, test, answer, task, capsys):
    for trial in showing(task):
        with pytest.raises(Exception) as caught:
            wrong = trial.answer() if is_bundle(trial.answer) else trial.answer
            names = {**solved(name)[0], "wrong": wrong}
            exec(f"{answer.strip('()')} = wrong\n{test}", names)
        # it is the test that refuses it
        assert not isinstance(caught.value, NameError | SyntaxError), trial.mistakes[0].where


@each
def test_points_and_cells(name):
    graded = {facts(c)["grade_id"]: facts(c) for c in source(name).cells if facts(c)}
    assert sum(fact["points"] for fact in graded.values() if fact["grade"]) == 20
    assert 0 < graded["written"]["points"] <= 3
    assert all(fact["schema_version"] == 3 for fact in graded.values())
    tests = {grade_id for grade_id, fact in graded.items() if fact["locked"]}
    assert all(grade_id.startswith("test_") and graded[grade_id]["grade"] for grade_id in tests)
    for cell in source(name).cells:
        if cell.cell_type == "markdown":
            assert facts(cell).get("grade_id") in (None, "written")


@each
def test_a_test_cell_hides_one_line_and_holds_no_prose(name):
    for code, _answer, _task in checks(name):
        shown = code.split("### BEGIN HIDDEN TESTS\n")[0]
        assert "#" not in shown and '"""' not in shown


def asserted(name):
    """The assertions of an assignment, each with its message and whether it is graded."""
    for cell in source(name).cells:
        for node in ast.walk(ast.parse(cell.source if cell.cell_type == "code" else "")):
            if isinstance(node, ast.Assert):
                yield node, node.msg, facts(cell).get("locked", False)


@each
def test_an_assertion_says_what_failed_in_the_students_language(name):
    for node, message, graded in asserted(name):
        where = ast.unparse(node)
        if message is None:
            assert not graded, where
            continue
        assert isinstance(message, ast.Call) and ast.unparse(message.func) == "say", where
        (text,) = map(ast.literal_eval, message.args)
        wanted = {field for _, field, _, _ in Formatter().parse(text) if field}
        assert {keyword.arg for keyword in message.keywords} == wanted, where
        for language in LANGUAGES[1:]:
            assert translator(language)(text) != text, where


@each
def test_a_machine_without_normkit_is_told_what_to_do(name, tmp_path):
    first = next(cell.source for cell in source(name).cells if cell.cell_type == "code")
    (tmp_path / "normkit.py").write_text("raise ModuleNotFoundError('normkit')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", first], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert "pip install" in done.stderr and "restart the kernel" in done.stderr
