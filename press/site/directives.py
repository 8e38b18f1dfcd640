"""What pages have beside text and figures: pictures that act, the table of models, links."""

import csv
import re
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.util.docutils import SphinxDirective, SphinxRole


class Picture(SphinxDirective):
    """A picture that acts: `pictures/<name>.js` fills what its template writes.

    figure: the name of the figure whose place it takes once its module runs. Without scripts, and
    on paper, that figure is all there is.
    """

    required_arguments = 1
    option_spec = {  # noqa: RUF012
        "figure": directives.unchanged,
        "norm": directives.unchanged,  # chosen at first
        "kinds": directives.unchanged,  # what comes in, each a tab
    }

    def run(self) -> list[nodes.Node]:
        builder = self.env.app.builder
        if not isinstance(builder, StandaloneHTMLBuilder):
            return []
        options = {"figure": "", "norm": "layer", "kinds": "table"} | self.options
        options["kinds"] = options["kinds"].split()
        html = builder.templates.render(f"pictures/{self.arguments[0]}.html", options)
        return [nodes.raw("", html, format="html")]


class Workbench(SphinxDirective):
    """The desk of an assignment: what it holds is what `workbench/bench.js` must know."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        builder = self.env.app.builder
        if not isinstance(builder, StandaloneHTMLBuilder):
            return []
        manifest = "\n".join(self.content).replace("</", "<\\/")
        html = builder.templates.render("workbench.html", {"manifest": manifest})
        return [nodes.raw("", html, format="html")]


class Models(SphinxDirective):
    """The table of models, from `data/models.csv`: whole without scripts; `models.js` sorts it."""

    def run(self) -> list[nodes.Node]:
        builder = self.env.app.builder
        if not isinstance(builder, StandaloneHTMLBuilder):
            return []
        file = Path(self.env.srcdir, "data/models.csv")
        self.env.note_dependency(str(file))
        html = builder.templates.render("models.html", {"rows": models(file)})
        return [nodes.raw("", html, format="html")]


def models(file: Path) -> list[dict[str, str]]:
    """The rows of the table; `at` is what the link to code or to a paper says."""
    with file.open(encoding="utf8", newline="") as lines:
        return [row | {"at": _place(row["link"])} for row in csv.DictReader(lines)]


def _place(link: str) -> str:
    """Repository and commit, or number."""
    if found := re.match(r"https://github\.com/[^/]+/([^/]+)/\w+/([\da-f]{7}|v[\d.]+)", link):
        return f"{found[1]}@{found[2]}"
    return link.replace("https://arxiv.org/abs/", "arXiv ")


class Chapter(SphinxRole):
    """A link to a page by its title, with its glyph (templates/glyphs.html)."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        glyph = f'<svg class="glyph" aria-hidden="true"><use href="#glyph-{self.text}"></use></svg>'
        link = pending_xref(
            self.rawtext, nodes.inline(), refdomain="std", reftype="doc", reftarget=self.text,
            refdoc=self.env.docname, refexplicit=False, refwarn=True,
        )  # fmt: skip
        return [nodes.raw("", glyph, format="html"), link], []


def setup(app: Sphinx) -> None:
    """Register these with Sphinx."""
    app.add_directive("picture", Picture)
    app.add_directive("models", Models)
    app.add_directive("workbench", Workbench)
    app.add_role("chapter", Chapter())
