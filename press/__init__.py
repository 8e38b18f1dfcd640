"""The press: runs the pages, translates them and typesets the site and the exercises."""

import os
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


def book() -> str:
    """The address of the site, or nothing where it does not know its own."""
    return os.environ.get("NORMKIT_BOOK", "").rstrip("/")


def address(lang: str, page: str) -> str:
    """Where a page is read, or nothing."""
    return f"{book()}/{lang}/{page}.html" if book() else ""


class Language(NamedTuple):
    """A language of the course: what readers, Sphinx (and Babel) and browsers call it."""

    name: str
    sphinx: str
    html: str
    locale: str  # of Open Graph


LANGUAGES = {  # the first is the source
    "en": Language("English", "en", "en", "en_GB"),
    "fr": Language("Français", "fr", "fr", "fr_FR"),
    "zh": Language("中文", "zh_CN", "zh-Hans", "zh_CN"),
}
