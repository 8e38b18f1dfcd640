"""Figures: words change, numbers and drawings do not."""

from press import figures

SVG = (
    '<svg><text style="font-size: 10px" x="1">mean &amp; scale</text>'
    '<text x="2">0.5</text><path d="M 0 0"/></svg>'
)


def test_words_are_messages_and_numbers_are_not():
    found = []
    assert figures.rewrite(SVG, lambda block: found.append(block.message) or block.message) == SVG
    assert found == ["mean & scale"]


def test_a_translation_is_escaped():
    turned = figures.rewrite(SVG, lambda block: "均值 < 1")
    assert turned == SVG.replace("mean &amp; scale", "均值 &lt; 1")
