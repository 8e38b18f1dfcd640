"""The addresses of headings: one for each, no two the same."""

from nbformat import v4

from press.headings import addresses


def test_each_heading_has_an_address_of_its_own():
    cells = [
        v4.new_markdown_cell("# A page\n\nWords.\n\n(label)=\n## Two words: `x`"),
        v4.new_code_cell("# no heading"),
        v4.new_markdown_cell("## A page\n\n```\n# no heading\n```\n\n### A page\n\n## 中文"),
    ]
    found = addresses(v4.new_notebook(cells=cells))
    assert found == ["a-page", "two-words-x", "a-page--1", "a-page--2", "section"]
