"""The corrected assignments: answers in, run, without what must stay hidden."""

import nbformat
import nbformat.v4 as nb
import pytest

from press import PressError
from press.corrected import corrected, write_corrected

ANSWER = "def half(x):\n    ### BEGIN SOLUTION\n    return x / 2\n    ### END SOLUTION"
TEST = "assert half(4) == 2\n### BEGIN HIDDEN TESTS\nassert half(6) == 3\n### END HIDDEN TESTS"


def source(*codes: str) -> nbformat.NotebookNode:
    cells = [nb.new_code_cell(code, metadata={"nbgrader": {"grade_id": code}}) for code in codes]
    kernel = {"name": "python3", "display_name": "Python 3"}
    metadata = {"kernelspec": kernel, "source_map": list(range(len(codes)))}
    return nb.new_notebook(cells=cells, metadata=metadata)


def test_the_answer_stays_and_the_hidden_test_goes():
    answer, test = corrected(source(ANSWER, TEST)).cells
    assert answer.source == "def half(x):\n    return x / 2"
    assert test.source == "assert half(4) == 2"
    assert not answer.metadata


def test_they_are_written_run_in_each_language(tmp_path):
    given = {"en": {"half": source(ANSWER, "half(4)")}, "fr": {"half": source(ANSWER)}}
    written = write_corrected(given, tmp_path)
    assert written == [tmp_path / "en/half.ipynb", tmp_path / "fr/half.ipynb"]
    cells = nbformat.read(written[0], 4).cells
    assert cells[1].outputs[0].data["text/plain"] == "2.0"


def test_a_wrong_solution_stops_it(tmp_path):
    with pytest.raises(PressError, match=r"en/half\.ipynb.*\n(.*\n)*.*ZeroDivisionError"):
        write_corrected({"en": {"half": source("1 / 0")}}, tmp_path)
