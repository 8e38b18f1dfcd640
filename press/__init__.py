"""The press: runs the pages, translates them and typesets the site and the exercises."""

import sys
from typing import NamedTuple


class PressError(Exception):
    """What stops the press: the message names the page, the line and what to do."""


class BlockError(PressError):
    """What is wrong with a block of a text: the text's own line, from 0, and what must change."""

    def __init__(self, row: int, what: str) -> None:
        super().__init__(f"line {row + 1}: {what}")
        self.row, self.what = row, what


def report(who: str, what: str) -> None:
    """Tell how far somebody is; in one call, because the languages report side by side."""
    sys.stdout.write(f"  {who:<4} {what}\n")
    sys.stdout.flush()


class Language(NamedTuple):
    """A language of the course: what readers, Sphinx (and Babel) and browsers call it."""

    name: str
    sphinx: str
    html: str


LANGUAGES = {  # the first is the source
    "en": Language("English", "en", "en"),
    "fr": Language("Français", "fr", "fr"),
    "zh": Language("中文", "zh_CN", "zh-Hans"),
}
