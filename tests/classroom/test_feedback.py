"""The page that a student gets back: the language, the formulas, and what it leaves out."""

import nbformat.v4 as nb
import pytest
from nbformat import NotebookNode

from classroom.feedback import ForStudents, language_of, plain, with_formulas

SPEAK = 'import normkit\n\n\n@normkit.speak\ndef {name}():\n    """{language}"""'
TEST = (
    "assert half(4) == 2\n### BEGIN HIDDEN TESTS\ncheck(half, 'half', seed=7)\n### END HIDDEN TESTS"
)


@pytest.mark.parametrize(
    ("name", "said", "language"),
    [("language", "fr", "fr"), ("langue", "zh", "zh"), ("language", "xx", "en")],
)
def test_the_notebook_says_its_language(name, said, language):
    cell = nb.new_code_cell(SPEAK.format(name=name, language=said))
    assert language_of(nb.new_notebook(cells=[cell])) == language
    assert language_of(nb.new_notebook()) == "en"


def test_formulas_are_set_by_the_browser_and_code_is_left_alone():
    page = with_formulas(r"Take $\sigma^2$, `$x$` and" "\n\n$$\n\\frac{a}{b}\n$$\n\n```\n$y$\n```")
    assert page.count("<math") == 2 and '<math xmlns="' in page and "<mfrac>" in page
    assert "`$x$`" in page and "\n$y$\n" in page
    assert with_formulas("It costs 5 $, or less.") == "It costs 5 $, or less."


def test_an_error_is_told_without_its_traceback():
    def error(name, text):
        return nb.new_output("error", ename=name, evalue=text, traceback=["check(half, seed=7)"])

    assert plain(error("ValueError", "no")) == {"kind": "error", "text": "ValueError: no"}
    assert plain(error("AssertionError", "✗ half: not right yet."))["text"].startswith("✗")


def test_what_could_run_or_load_something_is_left_out():
    data = {"text/html": "<script>alert(1)</script>", "text/plain": "a table"}
    assert plain(nb.new_output("display_data", data=data)) == {"kind": "text", "text": "a table"}
    assert plain(nb.new_output("display_data", data={"text/html": "<b>"})) is None


def test_hidden_tests_are_left_out():
    cell = nb.new_code_cell(TEST, outputs=[nb.new_output("stream", text="1\n")])
    page, resources = ForStudents().preprocess(nb.new_notebook(cells=[cell]), {})
    assert page.cells[0].source == "assert half(4) == 2"
    assert page.cells[0].metadata.told == [NotebookNode(kind="text", text="1\n")]
    assert resources["feedback"]["language"] == "en"
