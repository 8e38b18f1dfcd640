"""The table of contents: every page once, in order."""

from press.contents import chapters

PART = {
    "caption": "First",
    "chapters": [{"file": "a", "sections": [{"file": "b"}, {"file": "c"}]}, {"file": "d"}],
}


def test_a_chapter_comes_before_the_pages_that_belong_to_it():
    assert [chapter["file"] for chapter in chapters(PART)] == ["a", "b", "c", "d"]
    assert list(chapters({"caption": "Empty"})) == []
