"""The form of a chapter, from its text."""

from docutils import nodes
from docutils.utils import new_document

from press.site.chapter import dress


def fold(*classes):
    body = nodes.paragraph("", "", nodes.math("", "22.6"))
    return nodes.container(
        "", nodes.rubric("", "A choice"), body,
        design_component="dropdown", container_classes=list(classes),
    )  # fmt: skip


def section(*children, label="part"):
    return nodes.section("", nodes.title("", "Title"), *children, ids=[label])


def paragraph(*children):
    content = children or [nodes.Text("words")]
    return nodes.paragraph("", "", nodes.Text(""), *content, nodes.Text(""))  # as MyST does


def dressed(*children, **options):
    document = new_document("page")
    document += section(*children, **options)
    dress(None, document)
    return document[0]


def test_of_a_run_with_a_right_choice_the_others_are_wrong():
    choices = fold(), fold("right"), fold()
    alone = fold()
    dressed(paragraph(), *choices, paragraph(), alone)
    assert [c["container_classes"] for c in choices] == [["wrong"], ["right"], ["wrong"]]
    assert alone["container_classes"] == []  # an open question


def test_a_chapter_opens_with_what_it_needs_and_a_question():
    needs, lede = paragraph(nodes.emphasis("", "You need")), paragraph()
    question, answer, after = paragraph(nodes.strong("", "How many?")), fold(), paragraph()
    chapter = dressed(needs, lede, question, answer, after)
    opening = chapter[3]
    assert opening["classes"] == ["opening"] and opening.children == [question, answer]
    assert (needs["classes"], lede["classes"], after["classes"]) == (["meta"], ["lede"], [])
    assert answer[1]["classes"] == ["huge"]


def test_a_page_without_a_question_stays_as_it_is():
    chapter = dressed(paragraph(), paragraph(), fold())
    assert not any(isinstance(c, nodes.container) and c["classes"] for c in chapter.children)
    assert [c["classes"] for c in chapter.findall(nodes.paragraph)] == [[], [], []]


def test_endings_are_known_by_their_label():
    assert dressed(paragraph(), label="ln-remember")["classes"] == ["remember"]
    one = fold()
    assert dressed(one, label="ln-mistakes")["classes"] == ["mistakes"]
    assert one["container_classes"] == ["mistake"]
