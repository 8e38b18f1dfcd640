"""The assignment layer_norm: the reference scores in full, the stub nothing, a mistake less."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from nbgrader.preprocessors import ClearHiddenTests, ClearSolutions

from normkit.mistakes import combine
from normkit.tasks import TASKS
from press.run import read

SOURCE = Path(__file__).parents[2] / "solutions" / "layer_norm.md"
ANSWERS = {
    "layer_norm/forward": ("test_forward", "layer_norm"),
    "layer_norm/layer": ("test_layer", "LayerNorm"),
    "layer_norm/backward": ("test_backward", "layer_norm_backward"),
    "layer_norm/invariance": ("test_invariance", "predictions, unchanged"),
}
MADE = [(name, mistake) for name in ANSWERS for mistake in TASKS[name].mistakes]


def facts(cell):
    return cell.metadata.get("nbgrader", {})


def play(notebook):
    """Run the code cells as a kernel would, and go on after errors."""
    names, errors = {"__name__": "__main__"}, {}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            try:
                exec(cell.source, names)
            except Exception as error:
                errors[facts(cell).get("grade_id", cell.source.split("\n")[0])] = error
    return names, errors


@pytest.fixture
def source():
    return read(SOURCE)


@pytest.fixture(scope="module")
def solved():
    return play(read(SOURCE))


def test_the_reference_scores_in_full(solved, capsys):
    assert solved[1] == {}


def test_every_diagnosis_of_the_reference_is_right(source, capsys):
    play(source)
    assert capsys.readouterr().out.count("✓") == len(ANSWERS)


def test_the_untouched_release_scores_nothing(source):
    clear = ClearSolutions(code_stub={"python": "raise NotImplementedError"})
    released, resources = clear.preprocess(source, {})
    tests = {facts(c).grade_id for c in released.cells if facts(c).get("locked")}
    assert tests <= play(released)[1].keys()
    released, _ = ClearHiddenTests().preprocess(released, resources)
    assert tests <= play(released)[1].keys()
    text = "\n".join(cell.source for cell in released.cells)
    assert "BEGIN" not in text and "END" not in text and "Rubric" not in text


@pytest.mark.parametrize(("task", "mistake"), MADE, ids=[f"{t}:{m.name}" for t, m in MADE])
def test_a_mistake_loses_the_points_of_its_task(task, mistake, solved, source):
    grade_id, names = ANSWERS[task]
    test = next(cell for cell in source.cells if facts(cell).get("grade_id") == grade_id)
    wrong = {"wrong": combine(TASKS[task].algorithm, mistake)}
    with pytest.raises((AssertionError, ValueError, RuntimeError, TypeError)):
        exec(f"{names} = wrong\n{test.source}", {**solved[0], **wrong})


def test_points_and_cells(source):
    graded = {facts(c)["grade_id"]: facts(c) for c in source.cells if facts(c)}
    points = {name: fact["points"] for name, fact in graded.items() if fact["grade"]}
    assert points == {
        "test_forward": 6,
        "test_layer": 4,
        "test_backward": 6,
        "test_invariance": 2,
        "written": 2,
    }
    assert all(fact["schema_version"] == 3 for fact in graded.values())
    assert {"forward", "layer", "backward", "invariance"} == graded.keys() - points.keys()
    for cell in source.cells:
        if cell.cell_type == "markdown":
            assert facts(cell).get("grade_id") in (None, "written")


def test_a_test_cell_hides_one_line_and_holds_no_prose(source):
    for cell in source.cells:
        if facts(cell).get("locked"):
            shown, hidden = cell.source.split("### BEGIN HIDDEN TESTS\n")
            line, _, rest = hidden.partition("\n")
            assert line.startswith("check(") and rest == "### END HIDDEN TESTS"
            assert "#" not in shown and '"""' not in shown


def test_a_machine_without_normkit_is_told_what_to_do(source, tmp_path):
    first = next(cell.source for cell in source.cells if cell.cell_type == "code")
    (tmp_path / "normkit.py").write_text("raise ModuleNotFoundError('normkit')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", first], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert "pip install" in done.stderr and "restart the kernel" in done.stderr
