"""Prose that a page computes is prose like any other."""

import pytest

from press import PressError
from press.prose import write_out
from press.run import run
from press.translate import messages, translate

PAGE = """\
---
file_format: mystnb
kernelspec:
  name: python3
  display_name: Python 3
---

# A page

```{code-cell} ipython3
:tags: [prose]

from IPython.display import Markdown, display

display(Markdown("(here)=\\n## Found"))
Markdown("Three is `%d`." % 3)
```
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prose")
    (folder / "page.md").write_text(PAGE, "utf-8")
    return write_out(run([folder / "page.md"], folder / "cache")[0])


def test_what_a_cell_displays_takes_its_place(page):
    computed = page.cells[-1]
    assert computed.cell_type == "markdown"
    assert computed.source == "(here)=\n## Found\n\nThree is `3`."


def test_it_is_translated(page):
    words = {"A page": "Une page", "Found": "Trouvé", "Three is `3`.": "Trois est `3`."}
    assert {block.message for block in messages(page)} == words.keys()
    assert "Trois est `3`." in translate(page, words).cells[-1].source


def test_its_messages_have_the_line_of_the_cell(page):
    lines = {block.message: block.line + 1 for block in messages(page)}
    cell = PAGE.split("\n").index("from IPython.display import Markdown, display") + 1
    assert lines["Found"] == lines["Three is `3`."] == cell
    with pytest.raises(PressError, match=rf"page\.md:{cell}: not translated: 'Found'"):
        translate(page, {"A page": "Une page"})
