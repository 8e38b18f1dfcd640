"""Translation of the real pages and assignments: only words differ between the languages."""

import pytest
from nbformat import from_dict

from press import LANGUAGES, PressError, code, run, sources
from press.catalogue import Identity, load
from press.translate import SVG, messages, translate

PAGES = [*run.pages(sources.TOC, sources.BOOK), *sorted(sources.SOLUTIONS.glob("*.md"))]


def domain(path):
    return f"{path.parent.name}/{path.stem}"


@pytest.fixture(params=PAGES, ids=domain)
def page(request):
    return run.read(request.param)


def test_the_identity_returns_the_page_byte_for_byte(page):
    assert translate(page, Identity()) == page


def test_every_message_is_asked_for_and_no_other(page):
    marked = translate(page, {block.message: block.message for block in messages(page)})
    assert marked == page


@pytest.mark.parametrize("language", list(LANGUAGES)[1:])
def test_the_code_is_equal_without_comments_and_docstrings(page, language):
    turned = translate(page, load(language, page.metadata.path.removesuffix(".md")))
    for cell, other in zip(page.cells, turned.cells, strict=True):
        if cell.cell_type == "code":
            assert code.bare(other.source) == code.bare(cell.source)


def test_a_message_without_translation_names_page_line_and_message(page):
    first = messages(page)[0]
    with pytest.raises(PressError, match=rf"{page.metadata.path}.* not translated: ") as error:
        translate(page, {})
    assert repr(first.message) in str(error.value)


def test_words_in_figures_alternative_texts_and_captions_are_translated():
    notebook = run.read(PAGES[0])
    cell = notebook.cells[-1]
    cell.update(
        cell_type="code",
        source="1 + 1",
        metadata={"mystnb": {"image": {"alt": "A figure"}, "figure": {"caption": "Its caption"}}},
        outputs=[from_dict({"output_type": "display_data", "data": {SVG: "<text>mean</text>"}})],
    )
    notebook.cells, notebook.metadata.source_map = [cell], [0]
    turned = translate(
        notebook, {"A figure": "Une figure", "Its caption": "Sa légende", "mean": "moyenne"}
    )
    assert turned.cells[0].metadata.mystnb == {
        "image": {"alt": "Une figure"},
        "figure": {"caption": "Sa légende"},
    }
    assert turned.cells[0].outputs[0]["data"][SVG] == "<text>moyenne</text>"
    assert turned.cells[0].source == "1 + 1"
