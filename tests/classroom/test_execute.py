"""A submission runs to its end."""

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from classroom.execute import ExecuteToTheEnd


@pytest.mark.filterwarnings("ignore")
def test_what_ran_before_the_kernel_ended_counts():
    cells = [new_code_cell("1 + 1"), new_code_cell("import os; os._exit(1)")]
    notebook = new_notebook(cells=[*cells, new_markdown_cell("So."), new_code_cell("2 + 2")])
    notebook, _ = ExecuteToTheEnd().preprocess(notebook, {"nbgrader": {"student": "ada"}})
    first, ended, _, after = notebook.cells
    assert first.outputs[0].data["text/plain"] == "2"
    assert ended.outputs[-1].output_type == after.outputs[-1].output_type == "error"
