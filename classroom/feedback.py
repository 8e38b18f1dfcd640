"""The page that a student gets back: in the notebook's language, without the hidden tests.

nbgrader's own page is in English, shows the hidden tests, and loads its formulas from the network.
"""

import re
from collections.abc import Iterator
from copy import copy
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import nh3
from jinja2 import pass_context
from jinja2.runtime import Context
from latex2mathml.converter import convert
from nbconvert.exporters import HTMLExporter
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import is_grade
from pygments.formatters import HtmlFormatter
from pygments.token import STANDARD_TYPES
from traitlets.config import Config

from classroom.points import WrittenAnswers, waits
from classroom.shown import BLANK, Shown
from classroom.verdicts import address, mistakes
from normkit.messages import LANGUAGES, translator

TEMPLATES = Path(__file__).parent / "templates"
TAGS = {"zh": "zh-Hans"}  # what browsers call a language, where it differs
SPEAKS = re.compile(r"^@normkit\.speak\s+def \w+\(\):\s+[\"']+(\w+)[\"']+", re.MULTILINE)
# code, which stays as it is, or a formula
FORMULA = re.compile(
    r"(?P<code>```.*?(?:```|\Z)|`[^`\n]*`)|\$\$(?P<shown>.+?)\$\$"
    r"|\$(?P<inline>[^$\n]+(?:\n[^$\n]+)*)\$",
    re.DOTALL,
)
# the tags of MathML that latex2mathml writes, and their attributes
MATHML, LOOKS = (
    set(names.split())
    for names in (
        "math menclose mfrac mi mmultiscripts mn mo mover mpadded mphantom mprescripts mroot mrow"
        " mspace msqrt mstyle msub msubsup msup mtable mtd mtext mtr munder munderover",
        "accent columnalign depth display displaystyle fence form height linethickness lspace"
        " mathvariant maxsize minsize movablelimits notation rspace scriptlevel separator stretchy"
        " symmetric width xmlns",
    )
)
PICTURE = re.compile(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]*")


class FeedbackPage(HTMLExporter):
    """Writes the page: nbgrader's ``GenerateFeedback.exporter_class``."""

    @property
    def default_config(self) -> Config:
        own = {
            "template_name": "feedback_page",
            "extra_template_basedirs": [str(TEMPLATES)],
            "exclude_anchor_links": True,
        }
        config = Config({"FeedbackPage": own})  # nbgrader sets its own template for HTMLExporter
        config.merge(super().default_config)
        return config

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if self.parent:  # nbgrader would hand out whatever the student's code left beside
            self.parent.coursedir = copy(self.parent.coursedir)
            self.parent.coursedir.ignore = ["*"]

    def default_filters(self) -> Iterator[tuple]:
        yield from super().default_filters()
        yield "prose", self.prose

    def prose(self, source: str, attachments: dict) -> str:
        """Markdown as HTML, with its formulas and pictures, without what could run or load."""
        try:
            page = self.markdown2html({"cell": {"attachments": attachments}}, with_formulas(source))
        except Exception:  # a picture that is not there, and whatever a student may think of
            page = f"<pre>{escape(source)}</pre>"
        return sanitised(page)


@pass_context
def harmless(context: Context, source: str) -> str:
    """Markdown in Formgrader, whose own filter runs a student's scripts as the instructor."""
    return FeedbackPage().prose(source, context["cell"].get("attachments", {}))


class Total(NamedTuple):
    """The points of a notebook so far, of those that are marked, and what they leave out."""

    points: float
    most: float
    penalty: float
    provisional: bool
    rescaled: bool


class ForStudents(NbGraderPreprocessor):
    """Leaves out what is not for students, and gives the template its language."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        language = language_of(nb)
        say = translator(language)
        shown = Shown(nb, say(BLANK))
        for cell in nb.cells:
            shown.cut(cell)
        resources["feedback"] = {
            "language": TAGS.get(language, language),
            "say": say,
            "styles": HtmlFormatter(style="friendly").get_style_defs(".highlight"),
            "mistakes": {
                c.metadata.nbgrader["grade_id"]: mistakes(c) for c in nb.cells if is_grade(c)
            },
            "address": address(language),
            "total": self.count(nb, resources["nbgrader"]),
            "cut": any(cell.metadata.cut for cell in nb.cells),
        }
        # a page that is full shows no empty cells
        nb.cells = [c for c in nb.cells if c.source or c.metadata.told or "nbgrader" in c.metadata]
        return nb, resources

    def count(self, nb: NotebookNode, known: dict) -> Total:
        """Tell the points that count, scaled to the whole; none where a mark is missing."""
        part = WrittenAnswers(parent=self).part(known["assignment"])
        cells = [cell for cell in nb.cells if is_grade(cell)]
        facts = [(cell.cell_type, cell.metadata.nbgrader) for cell in cells]
        scale = part.scale([(fact["grade_id"], kind, fact["points"]) for kind, fact in facts])
        waiting = waiting_cells(known)
        for kind, fact in facts:
            fact["counts"] = part.counts(fact["grade_id"], kind)
            fact["points"] *= scale
            fact["score"] = None if fact["grade_id"] in waiting else fact["score"] * scale
        counting = [fact for _, fact in facts if fact["counts"]]
        marked = [fact for fact in counting if fact["score"] is not None]
        penalty = known["late_penalty"] * scale
        return Total(
            max(0.0, sum(fact["score"] for fact in marked) - penalty),
            sum(fact["points"] for fact in marked),
            penalty,
            provisional=len(marked) < len(counting),
            rescaled=len(counting) < len(facts),
        )


def waiting_cells(known: dict) -> set[str]:
    """The graded cells of a notebook that wait for a mark, as the gradebook knows."""
    if "db_url" not in known:  # nobody's notebook
        return set()
    with Gradebook(known["db_url"]) as gradebook:
        where = known["notebook"], known["assignment"], known["student"]
        grades = gradebook.find_submission_notebook(*where).grades
        return {grade.name for grade in grades if waits(grade)}


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


def sanitised(page: str) -> str:
    """HTML with its prose, tables, code, formulas and the pictures that it holds, and no more."""
    return nh3.clean(
        page,
        tags=nh3.ALLOWED_TAGS | MATHML,
        attributes=nh3.ALLOWED_ATTRIBUTES | dict.fromkeys(MATHML, LOOKS),
        attribute_filter=_attribute,
        allowed_classes={"div": {"highlight"}, "span": set(STANDARD_TYPES.values())},
        url_schemes={"http", "https", "mailto", "data"},
        url_relative="deny",
    )


def _attribute(tag: str, name: str, value: str) -> str | None:
    """What an attribute may say: only a picture lies in the page, and no picture elsewhere."""
    if (tag, name) == ("img", "src"):
        return value if PICTURE.fullmatch(value) else None
    return None if name == "href" and value.strip().lower().startswith("data:") else value
