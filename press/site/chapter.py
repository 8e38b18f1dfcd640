"""The form of a chapter, from its text: what it needs, its opening, quizzes, mistakes, its end.

The style sheet knows these parts by their classes; the text has no marks for them but the class
`right` on the right choice of a quiz.
"""

from collections.abc import Mapping
from itertools import groupby

from docutils import nodes
from sphinx.application import Sphinx

ENDINGS = {"-remember": "remember", "-mistakes": "mistakes"}  # of a section's label


def dress(app: Sphinx, doctree: nodes.document) -> None:
    """Give each part of a chapter its class."""
    for section in doctree.findall(nodes.section):
        for label in section["ids"]:
            section["classes"] += [c for end, c in ENDINGS.items() if label.endswith(end)]
        for fold in filter(is_fold, section.children if "mistakes" in section["classes"] else ()):
            fold["container_classes"].append("mistake")
        judge(section)
    if (chapter := next(doctree.findall(nodes.section), None)) is not None:
        open_chapter(chapter)


def fold_entries(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Fold each entry of a page of mistakes below its heading."""
    for section in doctree.findall(nodes.section) if page.startswith("mistakes_") else ():
        if not any(isinstance(child, nodes.section) for child in section) and len(section) > 1:
            title, *rest = section.children
            links = [follow(link, app.env.titles) for link in [*title.findall(nodes.reference)]]
            opening, middle, end = (
                nodes.raw("", html, format="html")
                for html in ('<details class="folded"><summary>', "</summary>", "</details>")
            )
            section.children = [opening, title, middle, *rest, *links, end]
            for child in section.children:
                child.parent = section


def follow(link: nodes.reference, titles: Mapping[str, nodes.title]) -> nodes.paragraph:
    """Take a link out of a heading that unfolds; return it, to end what unfolds."""
    page = link["refuri"].partition(".html")[0]
    link.parent.replace(link, link.children)
    named = nodes.reference("", titles[page].astext(), refuri=link["refuri"], internal=True)
    return nodes.paragraph("", "", named)


def is_fold(node: nodes.Node) -> bool:
    """Whether a node is a dropdown of sphinx-design."""
    return isinstance(node, nodes.container) and node.get("design_component") == "dropdown"


def judge(section: nodes.Element) -> None:
    """In each run of choices of which one is right, mark the others as wrong."""
    for choices, run in groupby(section.children, key=is_fold):
        marks = [fold["container_classes"] for fold in run] if choices else []
        if any("right" in classes for classes in marks):
            for classes in marks:
                classes += [] if "right" in classes else ["wrong"]


def open_chapter(chapter: nodes.Element) -> None:
    """Mark what a chapter needs and its lede, and frame the question that it opens with."""
    children = chapter.children
    places = [i for i, child in enumerate(children) if is_fold(child)]
    asked = places[0] - 1 if places and places[0] > 1 else 0
    if not asked or not is_only(children[asked], nodes.strong):
        return
    needs, *lede = (c for c in children[1:asked] if isinstance(c, nodes.paragraph))
    needs["classes"].append("meta")
    for paragraph in lede:
        paragraph["classes"].append("lede")
    question, fold = children[asked], children[asked + 1]
    answer = next(fold.findall(nodes.paragraph), None)
    if answer is not None and is_only(answer, nodes.math):
        answer["classes"].append("huge")
    chapter[asked : asked + 2] = [nodes.container("", question, fold, classes=["opening"])]


def is_only(node: nodes.Node, kind: type[nodes.Node]) -> bool:
    """Whether a paragraph is one node of a kind, but for the empty texts that MyST leaves."""
    content = [type(child) for child in node.children if child.astext()]
    return isinstance(node, nodes.paragraph) and content == [kind]
