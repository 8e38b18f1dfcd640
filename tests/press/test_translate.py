"""Translation of the real pages and assignments: only words differ between the languages."""

import pytest
from nbformat import from_dict

from press import LANGUAGES, PressError, code, run, sources, strings
from press.catalogue import Identity, load
from press.translate import SVG, messages, translate

PAGES = [*run.pages(sources.TOC, sources.BOOK), *sorted(sources.SOLUTIONS.glob("*.md"))]


def domain(path):
    return f"{path.parent.name}/{path.stem}"


@pytest.fixture(scope="module", params=PAGES, ids=domain)
def page(request):
    return run.read(request.param)


def test_the_identity_returns_the_page_byte_for_byte(page):
    assert translate(page, Identity()) == page


def test_every_message_is_asked_for_and_no_other(page):
    marked = translate(page, {block.message: block.message for block in messages(page)})
    assert marked == page


@pytest.mark.parametrize("language", list(LANGUAGES)[1:])
def test_the_code_is_equal_without_comments_and_docstrings(page, language):
    domain = page.metadata.path.removesuffix(".md")
    quoted = ["normkit"] * domain.startswith("book/")  # a page may quote the package
    words, printed = load(language, *quoted, domain), strings.spoken(page)
    before = silent(page, printed)
    after = silent(translate(page, words), {words[text] for text in printed})
    assert list(map(code.bare, after)) == list(map(code.bare, before))


def silent(page, printed):
    """The code of the cells without the words that they print: that of tests as it is."""
    for cell in page.cells:
        if cell.cell_type == "code":
            spoken = () if "nbgrader" in cell.metadata else printed
            yield strings.rewrite(cell.source, spoken, lambda _: "")[0]


def test_a_message_without_translation_names_page_line_and_message(page):
    first = messages(page)[0]
    where = rf"{page.metadata.path}:\d+: not translated: "
    with pytest.raises(PressError, match=where) as error:
        translate(page, {})
    assert repr(first.message) in str(error.value)


def test_an_error_names_the_line_of_the_page(tmp_path):
    path = tmp_path / "page.md"
    header = PAGES[0].read_text("utf-8").split("\n# ")[0]
    path.write_text(f"{header}\n# A page\n\nWords.\n\n```{{magic}}\n```\n", "utf-8")
    line = path.read_text("utf-8").split("\n").index("```{magic}") + 1
    with pytest.raises(PressError, match=rf"page\.md:{line}: the directive {{magic}} is unknown"):
        messages(run.read(path))


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
