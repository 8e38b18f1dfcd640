"""A submission runs to its end."""

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from classroom.execute import ExecuteToTheEnd

DEAF = (
    "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: time.sleep(1)"
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("ending", ["import os; os._exit(1)", DEAF])
def test_what_ran_before_the_kernel_ended_counts(ending):
    cells = [new_code_cell("1 + 1"), new_code_cell(ending)]
    notebook = new_notebook(cells=[*cells, new_markdown_cell("So."), new_code_cell("2 + 2")])
    execute = ExecuteToTheEnd(timeout=3)
    notebook, _ = execute.preprocess(notebook, {"nbgrader": {"student": "ada"}})
    first, ended, _, after = notebook.cells
    assert first.outputs[0].data["text/plain"] == "2"
    assert ended.outputs[-1].output_type == after.outputs[-1].output_type == "error"
