"""The language of feedback: gettext catalogues, English where a translation is missing.

And where feedback finds the book.
"""

import os
import unicodedata
import warnings
from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, overload

if TYPE_CHECKING:
    from gettext import NullTranslations

LANGUAGES = ("en", "fr", "zh")
HERE = Path(__file__).parent
COMPILED = HERE / "locale"  # one file for each language: in a wheel
SOURCES = HERE.parent / "locale"  # what translators edit: in a checkout

F = TypeVar("F", bound=Callable)
_language = LANGUAGES[0]


@overload
def speak(language: str) -> None: ...
@overload
def speak(language: F) -> F: ...
def speak(language: str | F) -> F | None:
    """Give feedback in a language: en, fr or zh.

    language: its code; or, as a decorator, a function whose docstring is the code. A docstring
    is translated with the notebook that it stands in, so a notebook says by itself which
    language it speaks; there, anything else means English.
    Raises ValueError for another code.

    >>> speak("fr")
    >>> @speak
    ... def language():
    ...     "en"
    >>> current_language()
    'en'
    """
    global _language
    if isinstance(language, str):
        _language = _known(language)
        return None
    wanted = (language.__doc__ or "").strip()
    _language = wanted if wanted in LANGUAGES else LANGUAGES[0]
    return language


def _known(language: str) -> str:
    if language not in LANGUAGES:
        raise ValueError(
            f"normkit speaks {', '.join(LANGUAGES[:-1])} and {LANGUAGES[-1]}; {language!r} is none "
            f"of these codes. For another language, translate its messages: see CONTRIBUTING.md."
        )
    return language


def say(message: str, /, **fields: object) -> str:
    """A message in the language of the notebook, with its fields filled in.

    message: in English, with its fields in braces, as str.format knows them. It comes back in
    English where no translation is known.
    fields: the value of each.
    Returns the message, for an assertion or for print. Raises KeyError if a field has no value.

    >>> speak("fr")
    >>> say("{name} is None.", name="dx")
    'dx vaut None.'
    >>> speak("en")
    >>> say("{name} is None.", name="dx")
    'dx is None.'
    """
    return translator(current_language())(message).format(**fields)


def known(text: str) -> str:
    """What may be a message, in the language of the notebook; else, an exception's text, itself."""
    return translator(current_language())(text)


def current_language() -> str:
    """The code of the language that feedback is given in."""
    return _language


def translator(language: str) -> Callable[[str], str]:
    """The function that translates messages into `language`."""
    catalogue = _catalogue(language)
    return lambda text: catalogue.gettext(text) if text else ""  # "" is the catalogue's header


def N_(text: str) -> str:
    """`text` itself: marks a message that is translated when it is shown."""
    return text


def columns(text: str) -> int:
    """How many columns a line takes in a terminal: a Chinese character two, an accent none.

    >>> columns("x\u0302"), columns("层归一化")
    (1, 8)
    """
    if text.isascii():
        return len(text)
    seen = (c for c in text if not unicodedata.combining(c))
    return sum(1 + (unicodedata.east_asian_width(c) in "FW") for c in seen)


def book() -> str:
    """The address of the book: that of `NORMKIT_BOOK`, else of the site a student's zip is from."""
    written = HERE / "book.txt"
    return os.environ.get("NORMKIT_BOOK") or (written.read_text() if written.is_file() else "")


@cache
def _catalogue(language: str) -> "NullTranslations":
    from gettext import GNUTranslations, NullTranslations

    found = binary(language)
    return GNUTranslations(BytesIO(found)) if found else NullTranslations()


def binary(language: str) -> bytes:
    """All messages of a language, as gettext reads them: shipped in a wheel, made in a checkout."""
    shipped, source = COMPILED / f"{language}.mo", SOURCES / language / "normkit.po"
    if shipped.is_file():
        return shipped.read_bytes()
    if not source.is_file():
        return b""
    try:
        return compiled(source)
    except ModuleNotFoundError:
        warnings.warn(
            f"Feedback is in English: {source} is not compiled, and Babel, which does it, is not "
            f"installed. In a terminal, type: python -m pip install babel",
            stacklevel=4,
        )
        return b""


def compiled(source: Path) -> bytes:
    """A catalogue as gettext reads it; what is fuzzy stays out, so that it reads in English."""
    from datetime import UTC, datetime

    from babel.messages.mofile import write_mo
    from babel.messages.pofile import read_po

    with source.open("rb") as file:
        catalogue = read_po(file)
    # the same messages make the same file: else Babel writes the minute into it
    catalogue.creation_date = catalogue.revision_date = datetime(2020, 1, 1, tzinfo=UTC)
    write_mo(binary := BytesIO(), catalogue)
    return binary.getvalue()
