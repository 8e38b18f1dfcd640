"""The press: runs the pages, translates them and typesets the site and the exercises."""

from typing import NamedTuple


class PressError(Exception):
    """What stops the press: the message names the page, the line and what to do."""


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
