"""What the pages of the site have beside text and figures: pictures that act, links to chapters."""

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
    app.add_directive("workbench", Workbench)
    app.add_role("chapter", Chapter())
