"""Typesets the site: one Jupyter Book per language, side by side, then one pass over the pages."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.metadata import version
from pathlib import Path

import yaml
from babel.messages import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo

from normkit import __version__
from press import LANGUAGES, PressError, address, book, report, terms
from press.files import digest, under, write
from press.finish import Edition, finish
from press.made import PYTHON
from press.printed import NAME, print_book
from press.site import HERE as SITE
from press.site.readme import missing, note

ROOT = Path(__file__).parent.parent
CONFIG = ROOT / "_config.yml"
# what makes pages in Sphinx; the rest only finishes them
SPHINX = [
    *SITE.glob("*.py"),
    *under(SITE / "templates"),
    Path(__file__),
    ROOT / "press/__init__.py",
]


def typeset(
    stages: dict[str, Path], strings: Callable[[str], Callable[[str], str]], site: Path, build: Path
) -> list["Book"]:
    """Build `site` from the staged pages of each language; do nothing when nothing changed.

    What was printed of a site that changed is removed.
    """
    house = digest([*SPHINX, CONFIG], *versions())
    books = [Book(lang, stages, strings(lang), build / lang, house) for lang in stages]
    with ThreadPoolExecutor(len(books)) as pool:
        failures = [failure for failure in pool.map(Book.build, books) if failure]
    if failures:  # the source comes first: its translations only repeat it
        raise PressError(failures[0])
    ours = [*under(SITE), *Path(__file__).parent.glob("*.py"), terms.FILE]
    stamp = digest(ours, *(book.stamp for book in books), str(site.absolute()))
    done = build / "finished"
    same = (site / "index.html").exists() and done.exists() and done.read_text() == stamp
    if not same:
        finish(_editions(books), site)
        done.write_text(stamp if (site / PYTHON).exists() else "")  # else it is tried again
    return books


def print_site(books: Iterable["Book"], site: Path) -> None:
    """Print the site that was built of these books, and let it link to the files.

    One language after the other: each takes more than a gigabyte while it is printed.
    """
    printed = {book.lang: book.print(site) for book in books}
    finish(_editions(books), site, printed=True)
    for lang, file in printed.items():
        write(site / lang / NAME, file.read_bytes())


def _editions(books: Iterable["Book"]) -> dict[str, Edition]:
    return {b.lang: Edition(b.title, b.html, b.how, b.missing) for b in books}


@cache  # each language asks the same
def messages() -> list[tuple[str, int, str]]:
    """The site's own strings, to translate: file, line and message."""
    config = yaml.safe_load(CONFIG.read_text())
    own = [(CONFIG.name, 1, config[key]) for key in ("title", "copyright")]
    methods = [("**.py", "python"), ("templates/**.html", "jinja2")]
    found = extract_from_dir(SITE, methods, keywords={"_": None})
    return [*own, *((f"press/site/{file}", line, str(text)) for file, line, text, *_ in found)]


class Book:
    """The book in one language, between its staged pages and its HTML."""

    def __init__(
        self,
        lang: str,
        stages: dict[str, Path],
        say: Callable[[str], str],
        folder: Path,
        house: str,
    ) -> None:
        self.lang, self.stage, self.folder = lang, stages[lang].absolute(), folder.absolute()
        self.html = self.folder / "_build/html"
        self.catalogue = {m: say(m) for _file, _line, m in messages() if say(m) != m}
        wheel = next(self.stage.glob("*.whl")).name
        self.how = note(wheel, address(lang, "exercises"), say)
        self.missing = missing(say)
        self.title = say(yaml.safe_load(CONFIG.read_text())["title"])
        self.config = yaml.safe_dump(self.configure(say, list(stages)), allow_unicode=True)
        self.house = digest([], house, self.config, json.dumps(self.catalogue))
        self.stamp = digest(under(self.stage), self.house)

    def configure(self, say: Callable[[str], str], languages: list[str]) -> dict:
        """The one configuration, made this language's."""
        config = yaml.safe_load(CONFIG.read_text())
        config |= {key: say(config[key]) for key in ("title", "copyright")}
        config["sphinx"]["local_extensions"] = {"press.site": str(ROOT)}
        sphinx = config["sphinx"]["config"]
        sphinx["extensions"].append("press.site")
        sphinx |= {
            "language": LANGUAGES[self.lang].sphinx,
            "locale_dirs": [str(self.folder / "locale")],
            "templates_path": [str(SITE / "templates")],
            "html_sidebars": {"**": ["sidebar"], "index": []},
            "html_context": {
                "site": {
                    "language": self.lang,
                    "languages": {code: LANGUAGES[code]._asdict() for code in languages},
                    "version": __version__,
                    "date": revised(),
                    "book": book(),
                    "source": os.environ.get("NORMKIT_SOURCE", "").rstrip("/"),
                }
            },
        }
        return config

    def build(self) -> str | None:
        """Run Jupyter Book unless nothing changed; return its warnings if there are any."""
        before = self.read_stamps()
        if before.get("stamp") == self.stamp:
            report(self.lang, "unchanged")
            return None
        if before.get("house") != self.house:
            # Sphinx does not see that its extension has changed
            shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "stamps.json").unlink(missing_ok=True)
        self.prepare()
        start = time.monotonic()
        warnings = self.run()
        if warnings:
            # unchanged pages would not be read, and not be warned about, next time
            shutil.rmtree(self.folder, ignore_errors=True)
            report(self.lang, "failed")
            return f"{self.lang}: " + f"\n{self.lang}: ".join(warnings)
        stamps = {"stamp": self.stamp, "house": self.house}
        (self.folder / "stamps.json").write_text(json.dumps(stamps))
        report(self.lang, f"typeset in {time.monotonic() - start:.1f} s")
        return None

    def read_stamps(self) -> dict[str, str]:
        file = self.folder / "stamps.json"
        return json.loads(file.read_text()) if file.exists() else {}

    def prepare(self) -> None:
        """Write this language's configuration and the catalogue that Sphinx will read."""
        catalogue = Catalog(locale=LANGUAGES[self.lang].sphinx)
        for message, translation in self.catalogue.items():
            catalogue.add(message, translation)
        folder = self.folder / "locale" / LANGUAGES[self.lang].sphinx / "LC_MESSAGES"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "sphinx.mo").open("wb") as file:
            write_mo(file, catalogue)
        (self.folder / "_config.yml").write_text(self.config, encoding="utf8")

    def run(self) -> list[str]:
        """Run Jupyter Book, showing where it is."""
        command = [Path(sys.executable).parent / "jupyter-book", "build", self.stage]
        command += ["--path-output", self.folder, "--config", self.folder / "_config.yml"]
        with (self.folder / "warnings.txt").open("w+", encoding="utf8") as errors:
            with subprocess.Popen(
                [*map(str, command), "-W", "-n", "--keep-going"],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                encoding="utf8",
                env=os.environ | {"PYTHONUTF8": "1"},
            ) as process:
                tail = [line for line in process.stdout or () if not self.progress(line)]
            errors.seek(0)
            shown = plain(errors.read()).replace(f"{self.stage}/", "")
            lines = shown.replace(".ipynb:", ".md:").splitlines()  # notebooks keep the page's lines
        return (lines or tail) if process.returncode else []

    def print(self, site: Path) -> Path:
        """Print the pages of this language; return the file."""
        contents = self.stage / "_toc.yml"
        return print_book(self.lang, self.title, contents, site.absolute(), self.folder)

    def progress(self, line: str) -> bool:
        """Report each step of Sphinx once."""
        step = re.match(r"(reading sources|writing output)\.\.\. \[ *(\d+)%\]", plain(line))
        if step and step[2] == "100":
            report(self.lang, {"reading sources": "read", "writing output": "written"}[step[1]])
        return bool(step)


def revised() -> str:
    """The date of the last commit, or nothing where there is no repository."""
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%cs"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def plain(text: str) -> str:
    """Text without a terminal's colours."""
    return re.sub(r"\x1b\[[\d;]*m", "", text)


def versions() -> list[str]:
    names = ("jupyter-book", "sphinx", "myst-nb", "sphinx-book-theme", "pydata-sphinx-theme")
    return [version(name) for name in (*names, "sphinx-design", "sphinxcontrib-bibtex")]
