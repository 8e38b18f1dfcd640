"""The points come from the verdicts on values, whatever a cell says."""

import nbformat.v4 as nb
import pytest
from nbgrader.utils import compute_checksum

from classroom.scores import Worth, worth
from classroom.verdicts import KEY

WRONG = nb.new_output("error", ename="AssertionError", evalue="no", traceback=["no"])
LOUD = nb.new_output("stream", name="stderr", text="UserWarning: divide by zero")
SHOWN = nb.new_output("execute_result", data={"text/plain": "1.5"})


def test_cell(verdict, *outputs):
    known = {"grade": True, "grade_id": "test", "points": 2, "solution": False}
    metadata = {"nbgrader": known} | ({KEY: verdict} if verdict is not None else {})
    return nb.new_code_cell("", outputs=list(outputs), metadata=metadata)


test_cell.__test__ = False


@pytest.mark.parametrize("outputs", [(), (LOUD,), (SHOWN,), (WRONG,), (LOUD, SHOWN, WRONG)])
def test_an_output_neither_earns_nor_costs_points(outputs):
    assert worth(test_cell({"passed": True}, *outputs)) == Worth("test", 2)
    assert worth(test_cell({"passed": False}, *outputs)) == Worth("test", 0)
    assert worth(test_cell(None, *outputs)) == Worth("test", 0)


def test_points_that_are_withheld_wait_for_a_person_as_0():
    assert worth(test_cell({"passed": True, "withheld": True})) == Worth("test", 0, held=True)


@pytest.mark.parametrize("blank", [True, False])
def test_a_written_answer_waits_for_a_person_unless_it_is_blank(blank):
    known = {"grade": True, "grade_id": "written", "points": 2, "solution": True}
    cell = nb.new_markdown_cell("✎", metadata={"nbgrader": known})
    cell.metadata.nbgrader["checksum"] = compute_checksum(cell) if blank else "another"
    found = worth(cell)
    assert (found.points, found.blank, bool(found.answer)) == (0 if blank else None, blank, True)
