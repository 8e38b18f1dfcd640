"""The language of feedback: gettext catalogues, English where a translation is missing.

And where feedback finds the book.
"""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

LANGUAGES = ("en", "fr", "zh")
CATALOGUES = ("{here}/locale/{language}.po", "{here}/../locale/{language}/normkit.po")

F = TypeVar("F", bound=Callable)
_language = LANGUAGES[0]


def speak(function: F) -> F:
    """Give feedback in the language that the docstring of `function` names: en, fr or zh.

    A docstring is translated with the notebook that it stands in, so a notebook says by itself
    which language it speaks. Anything else means English.

    >>> @speak
    ... def language():
    ...     "en"
    >>> current_language()
    'en'
    """
    global _language
    wanted = (function.__doc__ or "").strip()
    _language = wanted if wanted in LANGUAGES else LANGUAGES[0]
    return function


def current_language() -> str:
    """The code of the language that feedback is given in."""
    return _language


def translator(language: str) -> Callable[[str], str]:
    """The function that translates messages into `language`."""
    messages = _catalogue(language)
    return lambda text: messages.get(text, text)


def N_(text: str) -> str:
    """`text` itself: marks a message that is translated when it is shown."""
    return text


def book() -> str:
    """The address of the book: that of `NORMKIT_BOOK`, else of the site a student's zip is from."""
    written = Path(__file__).with_name("book.txt")
    return os.environ.get("NORMKIT_BOOK") or (written.read_text() if written.is_file() else "")


@cache
def _catalogue(language: str) -> dict[str, str]:
    """All messages of a language; inside the installed package first, then in a checkout."""
    here = Path(__file__).parent
    paths = (Path(path.format(here=here, language=language)) for path in CATALOGUES)
    path = next((path for path in paths if path.is_file()), None)
    if path is None or language == LANGUAGES[0]:
        return {}
    from babel.messages.pofile import read_po

    with path.open("rb") as file:
        return {
            str(m.id): str(m.string) for m in read_po(file) if m.id and m.string and not m.fuzzy
        }
