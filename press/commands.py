"""What the commands of the press do."""

import os
from collections.abc import Callable
from pathlib import Path

from press import LANGUAGES, PressError, catalogue, lighthouse, made, sources, stage
from press.printed import NAME
from press.typeset import Book, print_site, typeset

SITE, BUILD, DRAFT = made.SITE, Path("_build"), Path("_build/draft")
TRANSLATIONS = list(LANGUAGES)[1:]


def build() -> None:
    """Release the assignments and typeset the site."""
    exercises()
    site()
    made.remember()
    print(made.WHERE)


def site() -> list[Book]:
    """Run the pages, translate them and typeset them in every language."""
    stages = stage.stage(sources.book())
    return typeset(stages, _strings, SITE, BUILD)


def pdf() -> None:
    """Print each language of the site as one PDF, and link to it."""
    print_site(site(), SITE)
    print(f"The files to print: {SITE}/<language>/{NAME}")


def bench() -> None:
    """Build the site where it knows its address, and measure all of its pages (two hours)."""
    os.environ["NORMKIT_BOOK"] = lighthouse.ADDRESS
    folder = BUILD / "bench"
    stages = stage.stage(sources.book(), folder / "stage")
    typeset(stages, _strings, folder / "site", folder)
    lighthouse.measure(folder / "site")


def english() -> None:
    """Typeset the English pages alone, to see them before they are translated."""
    stages = stage.stage(sources.book(), DRAFT / "stage", ["en"])
    typeset(stages, _strings, DRAFT / "site", DRAFT)
    print(f"The English pages: {DRAFT}/site/en/index.html")


def exercises() -> None:
    """Release the assignments in every language."""
    from press.release import release

    release(stage.assignments(), made.EXERCISES)


def solutions() -> None:
    """Run the corrected assignments in every language, for students after the deadline."""
    from press.corrected import FOLDER, write_corrected

    write_corrected(stage.assignments())
    print(f"The solutions: {FOLDER}/<language>/<assignment>.ipynb")


def messages() -> None:
    """Bring the catalogues up to date with the English, and list what to translate."""
    entries = sources.entries()
    for language in TRANSLATIONS:
        for domain, of_domain in entries.items():
            catalogue.update(language, domain, of_domain)
        for path in catalogue.prune(language):
            print(f"{path}: removed, its page is gone")
        problems = _problems(language, entries)
        print("\n".join([*problems, ""]), end="")
        print(f"{language}: {len(problems)} to translate or mend in {catalogue.LOCALE / language}/")


def check() -> None:
    """Check the translations: complete, up to date, markup kept, nothing left in English."""
    entries = sources.entries()
    problems = [line for language in TRANSLATIONS for line in _problems(language, entries)]
    if problems:
        raise PressError("\n".join([*problems, f"{len(problems)} problems in the translations"]))
    total = sum(map(len, entries.values()))
    print(f"Translations: {total} messages, each in {' and '.join(TRANSLATIONS)}: right.")


def _strings(language: str) -> Callable[[str], str]:
    return catalogue.load(language, "site").__getitem__


def _problems(language: str, entries: dict[str, list[catalogue.Entry]]) -> list[str]:
    found = [catalogue.check(language, domain, of) for domain, of in entries.items()]
    return [line for lines in found for line in lines]
