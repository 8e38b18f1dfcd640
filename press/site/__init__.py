"""The site: what this course changes in Sphinx and its theme, as one Sphinx extension."""

import gc
import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.environment import BuildEnvironment
from sphinx.locale import _
from sphinx.util import logging
from sphinx.util.images import get_image_size

from press import LANGUAGES

from . import directives, references
from .chapter import dress, fold_entries
from .sidebar import sidebar

HERE = Path(__file__).parent
LICENSE = "https://creativecommons.org/licenses/by/4.0/"
SHEET = (HERE / "templates/glyphs.html").read_text("utf-8")
GLYPHS = re.findall(r'(?:\b(?:table|lines)\("|symbol id="glyph-)(\w+)"', SHEET)  # names
FEW = 8  # pages
CORNER = '<td class="head"></td>'  # of a table whose first column has no name
log = logging.getLogger(__name__)


def set_strings(app: Sphinx) -> None:
    """Set the strings that extensions and themes take from the configuration; index nothing."""
    if isinstance(app.builder, StandaloneHTMLBuilder):
        app.builder.search = False  # the search is the site's own
        app.builder.theme_options["toc_title"] = str(_("On this page"))


def collect_seldom(_app: Sphinx, _env: BuildEnvironment, changed: list[str]) -> None:
    """Collect garbage seldom: the trees of all pages are kept, and it takes up to half the time."""
    if len(changed) < FEW:  # it ends before its memory is large
        gc.disable()
    else:
        gc.set_threshold(200_000, 20, 1000)


def forget(_app: Sphinx, env: BuildEnvironment, changed: list[str]) -> None:
    """Forget pages before any is read again: a label that has moved would be there twice."""
    for page in changed:
        env.clear_doc(page)


def add_search(app: Sphinx) -> Iterator[tuple[str, dict, str]]:
    """The page of the search, whose title Sphinx does not know."""
    yield "search", {"title": str(_("Search the course"))}, "search.html"


def theirs() -> list[str]:
    """What Sphinx and its themes say, but do not say (or say badly) in French or Chinese."""
    return [
        _("Color mode"),
        _("Link to this code"),
        _("Link to this equation"),
        _("Link to this heading"),
        _("Link to this image"),
        _("Link to this table"),
        _("System Settings"),
        _("next"),
        _("previous"),
    ]


def describe(doctree: nodes.document | None, longest: int = 200) -> str:
    """The page's first paragraph that does not tell what it needs, for search engines."""
    paragraphs = doctree.findall(nodes.paragraph) if doctree else ()
    own = (p for p in paragraphs if isinstance(p.parent, nodes.section))
    first = next((p for p in own if "meta" not in p["classes"]), None)
    text = re.sub(r" *\[\d+\]", "", " ".join(first.astext().split())) if first else ""
    if len(text) <= longest:
        return text
    return (text[:longest].rpartition(" ")[0] or text[:longest]) + "…"


def linked_data(context: dict, front: bool) -> str:
    """What the page is, in the words of schema.org."""
    common = {"inLanguage": context["language"], "license": LICENSE}
    if book := context["site"]["book"]:
        common["url"] = f"{book}/{context['site']['language']}/{context['pagename']}.html"
    course = {"@type": "Course", "name": context["docstitle"]}
    course["provider"] = {"@type": "Organization", "name": context["copyright"]}
    name = re.sub("<.*?>", "", context["title"])
    chapter = {"@type": "LearningResource", "name": name}
    told = course if front else {**chapter, "isPartOf": course}
    told |= {"@context": "https://schema.org", "description": context["description"], **common}
    return json.dumps(told, ensure_ascii=False).replace("</", "<\\/")


def prompts() -> dict[str, str]:
    """MyST-NB's prompts on what unfolds; it lets us translate only a part of each."""
    return {
        "Show code cell source": _("Show the code"),
        "Hide code cell source": _("Hide the code"),
        "Show code cell output": _("Show the output"),
        "Hide code cell output": _("Hide the output"),
        "Show code cell content": _("Show the code and its output"),
        "Hide code cell content": _("Hide the code and its output"),
    }


def tell_sides(body: str) -> str:
    """Say in words which lines of a diff are right and which wrong, in the place of - and +."""
    words = {"gd": _("right"), "gi": _("wrong")}

    def run(found: re.Match) -> str:
        side = found[1]
        lines = re.findall(rf'<span class="{side}">[-+](.*?)</span>', found[0])
        return f'<span class="{side}" data-side="{words[side]}">' + "\n".join(lines) + "</span>"

    def block(found: re.Match) -> str:
        line = r'<span class="{}">[^<\n]*</span>\n?'
        more = line.format(r"\1")
        return re.sub(f"{line.format('(gd|gi)')}(?:{more})*", run, found[0])

    return re.sub(r'<div class="highlight-diff.*?</pre>', block, body, flags=re.DOTALL)


def spare_readers(body: str) -> str:
    """Leave out what screen readers stumble over: empty heads of tables, roles given up."""
    empty = r"<th[^>]*>\s*(?:<p>\s*</p>\s*)?</th>"
    body = re.sub(rf"<thead>\s*<tr[^>]*>(?:\s*{empty})+\s*</tr>\s*</thead>\s*", "", body)
    body = re.sub(empty, CORNER, body).replace(' role="doc-biblioentry"', "")
    body = re.sub(r"<table.*?</table>", name_rows, body, flags=re.DOTALL)
    return body.replace('<div role="list" class="citation-list">', '<div class="citation-list">')


def name_rows(table: re.Match[str]) -> str:
    """Make the first cell of each row its head, in a table whose first column has none."""
    head, end, rows = table[0].partition("</thead>")
    if not re.search(rf"<tr[^>]*>\s*{CORNER}", head):
        return table[0]
    first = r"(<tr[^>]*>\s*)<td([^>]*)>(.*?)</td>"
    return head + end + re.sub(first, r'\1<th scope="row"\2>\3</th>', rows, flags=re.DOTALL)


def offer_sidebar(app: Sphinx, page: str, template: str, context: dict, doctree: object) -> None:
    """Give the templates the sidebar, before the theme renders them to see which are empty."""
    context["outline"] = partial(sidebar, page=page)


def complete_page(
    app: Sphinx, page: str, template: str, context: dict, doctree: nodes.document | None
) -> None:
    """Give the page its language and description; name what scrolls and what unfolds."""
    context["language"] = LANGUAGES[context["site"]["language"]].html
    context["metatags"] = re.sub("<meta name=.viewport.*?>", "", context.get("metatags", ""))
    context["description"] = describe(doctree) or _("Search the course")
    context["card"] = next((name for name in GLYPHS if re.match(f"{name}(_|$)", page)), GLYPHS[0])
    context["linked_data"] = doctree and linked_data(context, page == app.config.root_doc)
    body = context.get("body", "").replace(' aria-label="Toggle hidden content"', "")
    for theirs, ours in prompts().items():
        body = re.sub(f'(admonition-title">){theirs}s?(</p>)', rf"\1{ours}\2", body)
    # attributes give way to the style sheet where a phone is narrower; docutils' styles do not
    body = re.sub(r'style="width: (\d+)px; height: (\d+)px;"', r'width="\1" height="\2"', body)
    body = spare_readers(tell_sides(body))
    formula = _("Formula")
    scrolls = f'<div tabindex="0" role="group" aria-label="{formula}" class="math '
    context["body"] = body.replace('<div class="math ', scrolls)


def complete_images(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Say how large each image is, so that the text does not jump; insist on an alt text."""
    for image in doctree.findall(nodes.image):
        if not image.get("alt"):
            log.warning("an image has no alt text: add `alt`", location=image)
        size = get_image_size(str(Path(app.srcdir, image["uri"])))
        if size and "width" not in image:
            image["width"], image["height"] = (str(n) for n in size)


def address_headings(app: Sphinx, doctree: nodes.document) -> None:
    """Let each heading have the address of the English one, before its own."""
    page = json.loads(Path(app.env.doc2path(app.env.docname)).read_text("utf-8"))
    sections = list(doctree.findall(nodes.section))
    addresses = page["metadata"].get("addresses", [section["ids"][0] for section in sections])
    for section, address in zip(sections, addresses, strict=True):
        section["ids"] = [address, *(name for name in section["ids"] if name not in addresses)]


def rewrite_all_if_titles_changed(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Every sidebar shows every title, which Sphinx does not know."""
    titles = {page: title.astext() for page, title in env.titles.items()}
    before = getattr(env, "site_titles", titles)
    env.site_titles = titles  # type: ignore[attr-defined]  # Sphinx keeps what is put there
    return [] if before == titles else sorted(env.found_docs)


def sweep(app: Sphinx, exception: Exception | None) -> None:
    """Remove what pages that are gone, or changed, have left in the output."""
    if exception:
        return
    env, out = app.env, Path(app.outdir)
    pages = {*env.found_docs, "search"}
    keep = {f"{page}.html" for page in pages}
    keep |= {f"_sources/{env.doc2path(page, base=False)}" for page in env.found_docs}
    keep |= {f"_images/{name}" for _docs, name in env.images.values()}
    keep |= {f"_downloads/{name}" for _docs, name in env.dlfiles.values()}
    for file in out.rglob("*"):
        name = file.relative_to(out).as_posix()
        if file.is_file() and re.search(r"\.html$|^_(sources|images|downloads)/", name):
            file.unlink() if name not in keep else None


def setup(app: Sphinx) -> dict:
    """Register all this with Sphinx."""
    references.register()
    directives.setup(app)
    app.connect("builder-inited", set_strings, priority=100)
    app.connect("env-before-read-docs", collect_seldom)
    app.connect("env-before-read-docs", forget)
    app.connect("doctree-read", address_headings, priority=100)  # before Sphinx collects them
    app.connect("doctree-read", dress)
    app.connect("doctree-resolved", complete_images)
    app.connect("doctree-resolved", fold_entries)
    app.connect("env-updated", rewrite_all_if_titles_changed)
    app.connect("html-collect-pages", add_search)
    app.connect("html-page-context", offer_sidebar, priority=100)
    app.connect("html-page-context", complete_page, priority=900)
    app.connect("build-finished", sweep)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
