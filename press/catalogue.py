"""Gettext catalogues: what there is to translate, what is translated, and what has gone stale.

One catalogue for each page, assignment and set of messages: `locale/<language>/<domain>.po`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.pofile import read_po, write_po

from press import LANGUAGES, PressError
from press.markup import problems

LOCALE = Path("locale")


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


class Identity(Mapping[str, str]):
    """The catalogue of the source language: each message is its own translation."""

    def __contains__(self, message: object) -> bool:
        return True

    def __getitem__(self, message: str) -> str:
        return message

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def load(language: str, domain: str, folder: Path = LOCALE) -> Mapping[str, str]:
    """Return the finished translations of a domain, from each English message."""
    if language == "en":
        return Identity()
    catalogue = _read(language, domain, folder)
    return {message.id: message.string for message in catalogue if _finished(message)}


def update(language: str, domain: str, entries: Iterable[Entry], folder: Path = LOCALE) -> None:
    """Bring a catalogue up to date with the English: what changed becomes fuzzy, what went goes."""
    template = Catalog(charset="utf-8")
    for entry in entries:
        template.add(entry.message, auto_comments=[entry.kind])
    catalogue = _read(language, domain, folder)
    catalogue.update(template)
    for message in catalogue:
        message.flags.discard("python-format")  # Babel takes "5 % of" for a format
        message.auto_comments = message.auto_comments[:1]
    path = _path(language, domain, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        write_po(
            file,
            catalogue,
            width=100,
            no_location=True,  # lines would change with every edit
            omit_header=True,
            ignore_obsolete=True,
            include_previous=True,
        )


def check(
    language: str, domain: str, entries: Iterable[Entry], folder: Path = LOCALE
) -> Iterator[str]:
    """Yield what is wrong with a catalogue, a line each: it names page, line and message."""
    catalogue = _read(language, domain, folder)
    entries = {entry.message: entry for entry in entries}
    for text, entry in entries.items():
        message = catalogue.get(text)
        if message is None or not message.string:
            yield f"{language}: {entry}: missing"
        elif message.fuzzy:
            yield f"{language}: {entry}: fuzzy (the English has changed)"
        else:
            same = "same" in message.flags
            for problem in problems(text, message.string, entry.kind, language, same):
                yield f"{language}: {entry}: {problem}"
    known = [message.id for message in catalogue if message.id]
    for text in [*known, *catalogue.obsolete]:
        if text not in entries:
            shown = Entry(text, "", _path(language, domain, folder).as_posix(), 0)
            yield f"{language}: {shown}: obsolete (run `make messages`)"


def prune(language: str, domains: Iterable[str], folder: Path = LOCALE) -> None:
    """Remove the catalogues of pages and assignments that are gone."""
    kept = {_path(language, domain, folder) for domain in domains}
    for path in (folder / language).rglob("*.po"):
        if path not in kept:
            path.unlink()


def strings(language: str, domain: str, folder: Path = LOCALE) -> Callable[[str], str]:
    """Return gettext's `_` for a domain: a string that is not translated stays in English."""
    known = load(language, domain, folder)
    return lambda message: known.get(message, message)


def _finished(message: Message) -> bool:
    return bool(message.id and message.string and not message.fuzzy)


def _read(language: str, domain: str, folder: Path) -> Catalog:
    path = _path(language, domain, folder)
    if not path.exists():
        return Catalog(locale=LANGUAGES[language].sphinx, charset="utf-8")
    with path.open("rb") as file:
        try:
            return read_po(
                file, locale=LANGUAGES[language].sphinx, charset="utf-8", abort_invalid=True
            )
        except Exception as error:  # Babel's PoFileError names the line
            raise PressError(f"{path}: not a catalogue: {error}") from error


def _path(language: str, domain: str, folder: Path) -> Path:
    return folder / language / f"{domain}.po"
