"""The page that a student gets back: in the notebook's language, without the hidden tests.

nbgrader's own page is in English, shows the hidden tests, and loads its formulas from the network.
"""

import re
from pathlib import Path

from latex2mathml.converter import convert
from nbconvert.exporters import HTMLExporter
from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor
from pygments.formatters import HtmlFormatter
from traitlets.config import Config

from normkit.messages import LANGUAGES, translator

TEMPLATES = Path(__file__).parent / "templates"
TAGS = {"zh": "zh-Hans"}  # what browsers call a language, where it differs
SPEAKS = re.compile(r"^@normkit\.speak\s+def \w+\(\):\s+[\"']+(\w+)[\"']+", re.MULTILINE)
HIDDEN = re.compile(r"\n?### BEGIN HIDDEN TESTS\n.*?(### END HIDDEN TESTS\n?|\Z)", re.DOTALL)
# code, which stays as it is, or a formula
FORMULA = re.compile(
    r"(?P<code>```.*?```|`[^`\n]*`)|\$\$(?P<shown>.+?)\$\$|\$(?P<inline>[^$\n]+(?:\n[^$\n]+)*)\$",
    re.DOTALL,
)


class FeedbackPage(HTMLExporter):
    """Writes the page: nbgrader's ``GenerateFeedback.exporter_class``."""

    @property
    def default_config(self) -> Config:
        own = {"template_name": "feedback_page", "extra_template_basedirs": [str(TEMPLATES)]}
        config = Config({"FeedbackPage": own})  # nbgrader sets its own template for HTMLExporter
        config.merge(super().default_config)
        return config


class ForStudents(NbGraderPreprocessor):
    """Leaves out the hidden tests, and gives the template its language and its formulas."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        language = language_of(nb)
        resources["feedback"] = {
            "language": TAGS.get(language, language),
            "say": translator(language),
            "styles": HtmlFormatter(style="friendly").get_style_defs(".highlight"),
        }
        for cell in nb.cells:
            if cell.cell_type == "markdown":
                cell.source = with_formulas(cell.source)
            elif cell.cell_type == "code":
                cell.source = HIDDEN.sub("", cell.source)
                told = map(plain, cell.outputs)
                cell.metadata.told, cell.outputs = list(filter(None, told)), []
        return nb, resources


def language_of(notebook: NotebookNode) -> str:
    """The language that a notebook asks to be spoken; English if it does not say."""
    for cell in notebook.cells:
        found = SPEAKS.search(cell.source) if cell.cell_type == "code" else None
        if found and found[1] in LANGUAGES:
            return found[1]
    return LANGUAGES[0]


def with_formulas(source: str) -> str:
    """Markdown with its formulas as MathML, which browsers set by themselves."""

    def render(found: re.Match) -> str:
        if found["code"]:
            return found[0]
        formula, display = (
            (found["shown"], "block") if found["shown"] else (found["inline"], "inline")
        )
        try:
            return convert(formula.strip(), display=display)
        except Exception:  # a student may write anything between dollars
            return found[0]

    return FORMULA.sub(render, source)


def plain(output: NotebookNode) -> NotebookNode | None:
    """An output as text or a picture: no traceback, which quotes tests, and no HTML of others."""
    if output.output_type == "stream":
        return NotebookNode(kind="text", text=output.text)
    if output.output_type == "error":
        checked = output.ename == "AssertionError" and output.evalue[:1] in "✗"
        text = output.evalue if checked else f"{output.ename}: {output.evalue}"
        return NotebookNode(kind="error", text=text)
    data = output.get("data", {})
    if "image/png" in data:
        return NotebookNode(kind="picture", data="".join(data["image/png"].split()))
    if "text/plain" in data:
        return NotebookNode(kind="text", text=data["text/plain"])
    return None
