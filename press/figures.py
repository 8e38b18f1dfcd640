"""Words inside SVG figures, which matplotlib writes as text when `svg.fonttype` is "none"."""

import html
import re

from press.blocks import WORD, Block, Turn

# One <text> holds one line of a label; mathematics is drawn as paths.
TEXT = re.compile(r"(<text\b[^>]*>)([^<]+)(</text>)")


def rewrite(svg: str, turn: Turn) -> str:
    """Return the figure with each label that holds words replaced by `turn(block)`."""

    def label(found: re.Match) -> str:
        message = html.unescape(found[2]).strip()
        if not WORD.search(message):
            return found[0]
        turned = turn(Block(message, 0, "figure"))
        return found[0] if turned == message else found[1] + html.escape(turned) + found[3]

    return TEXT.sub(label, svg)
