"""The page that a student gets back: the language, the formulas, and what it leaves out."""

import html
import re
from pathlib import Path

import nbformat
import nbformat.v4 as nb
import nh3
import pytest
from nbconvert.exporters import HTMLExporter
from traitlets.config import Config, PyFileConfigLoader

from classroom import part
from classroom.feedback import (
    MATHML,
    FeedbackPage,
    ForStudents,
    language_of,
    sanitised,
    with_formulas,
)
from normkit.messages import translator
from normkit.tutor.mistakes import catalogue

ROOT = Path(__file__).parents[2]

SPEAK = 'import normkit\n\n\n@normkit.speak\ndef {name}():\n    """{language}"""'
TEST = (
    "assert half(4) == 2\n### BEGIN HIDDEN TESTS\ncheck(half, 'half', seed=7)\n### END HIDDEN TESTS"
)


def exported(*cells, **settings):
    """The page of a notebook with these cells."""
    config = {"Exporter": {"default_preprocessors": []}, "WrittenAnswers": settings}  # as nbgrader
    page = FeedbackPage(config=Config(config))
    page.register_preprocessor(ForStudents, enabled=True)
    known = {"notebook": "half", "assignment": "half", "late_penalty": 0}
    return page.from_notebook_node(nb.new_notebook(cells=list(cells)), {"nbgrader": known})[0]


def body(page):
    """What stands on a page below the points."""
    return page.partition("</table>")[2].rpartition("</body>")[0]


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


@pytest.mark.parametrize(
    "formula",
    [
        r"\frac{a}{\sqrt[3]{b}}",
        r"\sum_{i=1}^D x_i",
        r"\begin{pmatrix}a & b\\c & d\end{pmatrix}",
        r"\hat{x} \qquad \left( \mathbf{y} \right)",
        r"\underbrace{a}_{b}",
        r"\text{if } a < b",
    ],
)
def test_formulas_survive_being_sanitised(formula):
    def parts(page):
        found = re.findall(r'<\w+|[\w:]+="[^"]*"|>[^<]+<', page)
        return sorted(map(html.unescape, found))

    made = with_formulas(f"$${formula}$$")
    assert parts(sanitised(made)) == parts(made)


def test_all_prose_of_the_course_survives_being_sanitised():
    for path in (ROOT / "exercises").glob("*/layer_norm/*.ipynb"):
        notebook = nbformat.read(path, as_version=4)
        prose = (cell.source for cell in notebook.cells if cell.cell_type == "markdown")
        page = exported(*map(nb.new_markdown_cell, prose))
        for tag in ("<h2>", "<details>", "<summary>", "<table>", "<math", "<code>"):
            assert tag in page
        assert "<mfrac>" in page and "$" not in page


@pytest.mark.parametrize(
    "written",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "<svg onload=alert(1)>",
        "[click](javascript:alert(1))",
        "[click](data:text/html;base64,PHNjcmlwdD4=)",
        "[click](../../autograded/)",
        "![](https://example.org/who.png)",
        "![](data:image/svg+xml;base64,PHN2Zz4=)",
        "<form action='https://example.org'><input name=a><button>Send</button></form>",
        "<iframe src='https://example.org'></iframe>",
        "<base href='https://example.org'>",
        "<meta http-equiv=refresh content='0;https://example.org'>",
        "<link rel=stylesheet href='https://example.org'>",
        "<style>.graded { display: none }</style>",
        "<p style='position: fixed'>20 / 20</p>",
        "<section class='graded' id='test_half'>20 / 20</section>",
        "<div class='graded'><div id=test_half>20 / 20</div></div>",
        r"$\href{javascript:alert(1)}{x}$",
        r"$\text{<script>alert(1)</script>}$",
        r"$\text{&lt;img/src=x/onerror=alert(1)&gt;}$",
        "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)></style></mglyph></table>",
        "</body></html><script>alert(1)</script>",
    ],
)
def test_what_a_student_writes_runs_nothing_loads_nothing_and_looks_like_no_points(written):
    page = body(exported(nb.new_markdown_cell(written)))
    tags = re.findall(r"<[a-z][^>]*>", page)
    names = {re.match(r"<(\w+)", tag)[1] for tag in tags}
    assert names <= nh3.ALLOWED_TAGS | MATHML
    assert not [
        t for t in tags if re.search(r'\s((on\w+|id|style|action|href|src)=|class="[^"])', t)
    ]


def test_formgrader_runs_no_script_in_markdown_and_shows_formulas_and_pictures():
    config = PyFileConfigLoader("nbgrader_config.py", str(ROOT)).load_config()
    text = "$x$ ![a](attachment:a.png) <b>yes</b> <script>alert(1)</script>"
    cell = nb.new_markdown_cell(text, attachments={"a.png": {"image/png": "aGk="}})
    page, _ = HTMLExporter(config=config).from_notebook_node(nb.new_notebook(cells=[cell]))
    assert all(part in page for part in ("</math>", "image/png;base64,aGk=", "<b>yes</b>"))
    assert "alert(1)" not in page


def test_a_picture_that_is_not_there_stops_nothing():
    assert "attachment:a.png" in exported(nb.new_markdown_cell("See ![a](attachment:a.png)"))


def test_links_code_and_pasted_pictures_are_kept():
    text = "[book](https://example.org/) `x`\n\n```python\nx = 1\n```\n\n![a](attachment:a.png)"
    page = exported(nb.new_markdown_cell(text, attachments={"a.png": {"image/png": "aGk="}}))
    assert 'href="https://example.org/" rel="noopener noreferrer"' in page
    assert 'src="data:image/png;base64,aGk="' in page
    assert '<div class="highlight"><pre>' in page and '<span class="o">=</span>' in page


@pytest.mark.parametrize(
    "part", ["`", "```", "`x", "$", "$$", "$a\n", "[", "![", "<", "> ", "*a ", "${"]
)
def test_no_markdown_holds_the_page_up(part, time_limit):
    assert "</html>" in exported(nb.new_markdown_cell(part * 20_001))


def test_the_page_forbids_what_it_does_not_need():
    policy = re.search(r'content="([^"]*)" http-equiv="Content-Security', exported())[1].split("; ")
    wanted = {"default-src 'none'", "form-action 'none'", "base-uri 'none'"}
    assert wanted <= set(policy) and not any("script-src" in part for part in policy)


@pytest.mark.parametrize(("language", "word"), [("en", "fits"), ("fr", "coupé"), ("zh", "删节")])
def test_the_page_says_where_it_is_cut(language, word):
    speak = nb.new_code_cell(SPEAK.format(name="language", language=language))
    whole = nb.new_code_cell("1", outputs=[nb.new_output("stream", text="1")])
    long = nb.new_code_cell("2", outputs=[nb.new_output("stream", text="x" * 1_000_000)])
    assert word not in exported(speak, whole) and "[…]" not in exported(speak, whole)
    page = exported(speak, whole, long)
    assert word in page and page.count("[…]</p>") == 1
    assert len(page) < 50_000


def test_whatever_is_handed_in_the_page_has_a_bounded_size():
    picture = nb.new_output("display_data", data={"image/png": "A" * 900_000})
    text = nb.new_output("stream", text="<&\x1b[31m" * 100_000)
    cells = [nb.new_code_cell("+" * 20_000, outputs=[picture, text]) for _ in range(50)]
    cells += [nb.new_markdown_cell("<" * size) for size in [20_000] * 50 + [1] * 5000]
    assert len(exported(*cells)) < 25_000_000


def test_hidden_tests_are_left_out():
    metadata = {"nbgrader": {"grade": True, "grade_id": "test_half", "score": 1, "points": 1}}
    outputs = [nb.new_output("stream", text=TEST), nb.new_output("stream", text="1\n")]
    page = exported(nb.new_code_cell(TEST, metadata=metadata, outputs=outputs))
    assert "seed" not in page and "HIDDEN" not in page and "[hidden test]" in page
    assert "<pre>1\n</pre>" in page


def test_the_overview_names_the_mistakes_of_a_test_that_lost_points():
    verdict = {"task": "layer_norm/forward", "passed": False}
    verdict["mistakes"] = ["layer_norm/unbiased_variance"]
    metadata = {"normkit": {"verdicts": [verdict]}}
    for score in (0, 6):
        nbgrader = {"grade": True, "grade_id": "test_forward", "score": score, "points": 6}
        cell = nb.new_code_cell("1", metadata={**metadata, "nbgrader": nbgrader})
        page = exported(nb.new_code_cell(SPEAK.format(name="langue", language="fr")), cell)
        assert ("<b>unbiased_variance</b>" in page) == (score == 0)
        mistake = next(m for m in catalogue("layer_norm")[""] if m.name == "unbiased_variance")
        assert (html.escape(translator("fr")(mistake.message)) in page) == (score == 0)


def graded(name, make, **of):
    metadata = {"grade": True, "grade_id": name, "score": 1, **of}
    return make("Because.", metadata={"nbgrader": metadata})


def test_without_written_answers_the_tests_have_all_the_points():
    cells = (
        graded("test_half", nb.new_code_cell, points=6),
        graded("written", nb.new_markdown_cell, points=2, solution=True),
    )
    assert "2.0 / 8.0" in exported(*cells) and "1.33 / 8.0" not in exported(*cells)
    page = exported(*cells, written="off")
    assert page.count("1.33 / 8.0") == 3 and "/ 2" not in page  # in the table, in all, at the test
    assert "Because." in page and page.count(">not graded<") == 2


def test_what_is_left_out_is_shown_as_not_graded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    verdict = {"task": "layer_norm/forward", "mistakes": ["layer_norm/unbiased_variance"]}
    third = graded("test_third", nb.new_code_cell, points=2)
    third.metadata["normkit"] = {"verdicts": [verdict]}
    cells = graded("test_half", nb.new_code_cell, points=6), third
    assert "2.0 / 8.0" in exported(*cells) and "not graded" not in exported(*cells)
    part.keep("half", frozenset({"test_half"}))
    page = exported(*cells)
    assert page.count("1.33 / 8.0") == 3 and page.count(">not graded<") == 2
    assert "unbiased_variance" not in page
