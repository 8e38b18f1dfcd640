"""Gettext catalogues: what there is to translate, what is translated, and what has gone stale.

One catalogue for each page, assignment and set of messages: `locale/<language>/<domain>.po`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from io import SEEK_END, BytesIO
from itertools import chain
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po

from press import LANGUAGES, PressError
from press.files import write
from press.markup import problems

LOCALE = Path("locale")
HEADER = b'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'


@dataclass(frozen=True)
class Entry:
    """A message to translate: its text, its kind, and where it stands."""

    message: str
    kind: str
    path: str
    line: int  # from 1

    def __str__(self) -> str:
        shown = " ".join(self.message.split())
        return f"{self.path}:{self.line}: {shown[:70] + '…' if len(shown) > 70 else shown}"


class Translations(dict[str, str]):
    """The finished translations of some catalogues, from each English message."""

    def __init__(self, language: str, known: Iterable[dict[str, str]]) -> None:
        super().__init__(chain.from_iterable(of.items() for of in known))
        self.language = language

    def __missing__(self, message: str) -> str:
        raise PressError(
            f"no up-to-date translation ({self.language}): {message!r}\n"
            "Run `make messages`, and translate what it lists; `make english` builds without."
        )


class Identity(dict[str, str]):
    """The catalogue of the source language: each message is its own translation."""

    def __missing__(self, message: str) -> str:
        return message


def load(language: str, *domains: str, folder: Path = LOCALE) -> dict[str, str]:
    """Return the translations of domains, the last one first where two have a message.

    A translation that is missing or fuzzy is an error when used.
    """
    if language == next(iter(LANGUAGES)):
        return Identity()
    known = (_finished(language, d, folder, _state(language, d, folder)) for d in domains)
    return Translations(language, known)


def update(language: str, domain: str, entries: Iterable[Entry], folder: Path = LOCALE) -> None:
    """Bring a catalogue up to date with the English: what changed becomes fuzzy, what went goes."""
    template = Catalog(charset="utf-8")
    for entry in entries:
        template.add(entry.message, auto_comments=[entry.kind])
    catalogue = _read(language, domain, folder)
    catalogue.update(template)
    for message in catalogue:
        message.flags -= {"python-format", "python-brace-format"}  # Babel's guesses at prose
        message.auto_comments = message.auto_comments[:1]
    # Neither lines nor dates, which would change with every edit.
    body = BytesIO(HEADER)
    body.seek(0, SEEK_END)
    write_po(body, catalogue, width=100, no_location=True, omit_header=True, ignore_obsolete=True)
    write(path_of(language, domain, folder), body.getvalue())


def check(
    language: str, domain: str, entries: Iterable[Entry], folder: Path = LOCALE
) -> Iterator[str]:
    """Yield what is wrong with a catalogue, a line each: it names page, line and message."""
    catalogue = _read(language, domain, folder)
    wanted = {entry.message: entry for entry in entries}
    for text, entry in wanted.items():
        message = catalogue.get(text)
        if message is None or not message.string:
            yield f"{language}: {entry}: missing"
        elif message.fuzzy:
            yield f"{language}: {entry}: fuzzy (the English has changed)"
        else:
            same = "same" in message.flags
            for problem in problems(text, str(message.string), entry.kind, language, same):
                yield f"{language}: {entry}: {problem}"
    known = [str(message.id) for message in catalogue if message.id]
    for text in [*known, *map(str, catalogue.obsolete)]:
        if text not in wanted:
            shown = Entry(text, "", path_of(language, domain, folder).as_posix(), 0)
            yield f"{language}: {shown}: obsolete (run `make messages`)"


def prune(language: str, folder: Path = LOCALE) -> Iterator[Path]:
    """Remove the catalogues of pages and assignments that are gone, and yield their paths."""
    for path in sorted((folder / language).glob("*/*.po")):
        source = path.relative_to(folder / language).with_suffix("")
        if not (source.with_suffix(".md").exists() or source.is_dir()):
            path.unlink()
            yield path


@lru_cache(256)  # the largest serves every page
def _finished(language: str, domain: str, folder: Path, state: tuple[int, int]) -> dict[str, str]:
    """The finished translations of a catalogue in this state."""
    of = _read(language, domain, folder)
    return {str(m.id): str(m.string) for m in of if m.id and m.string and not m.fuzzy}


def _state(language: str, domain: str, folder: Path) -> tuple[int, int]:
    path = path_of(language, domain, folder)
    return (path.stat().st_mtime_ns, path.stat().st_size) if path.exists() else (0, 0)


def _read(language: str, domain: str, folder: Path) -> Catalog:
    path = path_of(language, domain, folder)
    if not path.exists():
        return Catalog(locale=LANGUAGES[language].sphinx, charset="utf-8")
    with path.open("rb") as file:
        try:
            return read_po(
                file, locale=LANGUAGES[language].sphinx, charset="utf-8", abort_invalid=True
            )
        except Exception as error:  # Babel's PoFileError names the line
            raise PressError(f"{path}: not a catalogue: {error}") from error


def path_of(language: str, domain: str, folder: Path = LOCALE) -> Path:
    """Return where a catalogue lies."""
    return folder / language / f"{domain}.po"
