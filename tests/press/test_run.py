"""Pages: run once, kept by content, stopped by an error that says where."""

import pytest

from press import PressError
from press.run import read, run

PAGE = """\
---
file_format: mystnb
kernelspec:
  name: python3
  display_name: Python 3
---

# A page

Words.

```{{code-cell}} ipython3
:tags: [hide-input]

with open("runs.txt", "a") as file:
    file.write("x")
{code}
```
"""


@pytest.fixture
def page(tmp_path):
    def write(code):
        path = tmp_path / "page.md"
        path.write_text(PAGE.format(code=code), "utf-8")
        return path

    return write


def runs(path):
    return len((path.parent / "runs.txt").read_text())


def test_a_page_runs_again_only_when_its_code_or_its_inputs_change(page, tmp_path):
    path, cache, inputs = page("print(1 + 1)"), tmp_path / "cache", tmp_path / "inputs.py"
    inputs.write_text("a = 1")
    for _ in range(2):
        (notebook,) = run([path], cache, [inputs])
        assert notebook.cells[1].outputs[0].text == "2\n"
    assert runs(path) == 1
    path.write_text(path.read_text().replace("Words", "Other words"))
    (notebook,) = run([path], cache, [inputs])
    assert (runs(path), notebook.cells[0].source) == (1, "# A page\n\nOther words.")
    inputs.write_text("a = 2")
    run([path], cache, [inputs])
    assert runs(path) == 2
    run([page("print(3)")], cache, [inputs])
    assert runs(path) == 3


def test_a_cell_that_raises_stops_the_run_with_page_line_and_traceback(page, tmp_path):
    path = page("raise ValueError('no such norm')")
    with pytest.raises(PressError, match=r"(?s)page\.md, cell at line 15, raises:.*no such norm"):
        run([path], tmp_path / "cache")
    with pytest.raises(PressError):  # it is not kept as if it had run
        run([path], tmp_path / "cache")


def test_what_ran_beside_a_page_that_raises_is_kept(page, tmp_path):
    right, wrong = page("print(1)"), tmp_path / "wrong.md"
    wrong.write_text(right.read_text().replace("print(1)", "raise ValueError"))
    for _ in range(2):
        with pytest.raises(PressError, match=r"wrong\.md"):
            run([wrong, right], tmp_path / "cache")
    assert runs(right) == 3  # the right one once, the wrong one twice


def test_cells_know_their_lines_and_have_fixed_ids(page):
    path = page("pass")
    notebook, lines = read(path), path.read_text().split("\n")
    for cell, first in zip(notebook.cells, notebook.metadata.source_map, strict=True):
        assert cell.source.split("\n")[0] == lines[first]
    assert [cell.id for cell in notebook.cells] == [cell.id for cell in read(path).cells]


def test_what_a_progress_line_leaves_behind_is_no_output(page, tmp_path):
    path = page(
        "from IPython.display import display\n"
        "line = display({'text/plain': 'Measured now'}, raw=True, display_id=True)\n"
        "line.update({'text/plain': ''}, raw=True)\n"
        "1 + 1"
    )
    (notebook,) = run([path], tmp_path / "cache", [])
    assert [o.data["text/plain"] for o in notebook.cells[1].outputs] == ["2"]
