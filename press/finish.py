"""Finishes the site: one pass over the built pages, then what they share, and the landing page."""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import NamedTuple

import jinja2
import pydata_sphinx_theme

from press import LANGUAGES, address, book, report, workbench
from press.benches import listed
from press.files import mirror, under, write
from press.made import EXERCISES
from press.marks import marks
from press.node import NODE, install, run_node
from press.packs import WHEELS
from press.printed import NAME
from press.site import HERE as SITE
from press.terms import synonyms

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
OURS = ("book.js", "progress.js")
# style sheets that only some pages load
OWN = {
    **{f"static/{name}.css": f"{name}.css" for name in ("front", "mistakes", "models", "terms")},
    "search/search.css": "search.css",
    "workbench/bench.css": "workbench/bench.css",
}
# what pages load from a language's own folder
KEPT = re.compile(r"_(downloads|images)/.*|_static/documentation_options\.js")


class Edition(NamedTuple):
    """The book in one language, as Jupyter Book made it; `how` says what its notebooks need."""

    title: str
    html: Path
    how: str
    missing: str  # what a page says that is not there


def finish(editions: Mapping[str, Edition], site: Path, printed: bool = False) -> None:
    """Render the formulas, bundle styles and scripts, and copy what pages link to.

    printed: whether the site will hold each language as one file: only then is it linked to.
    """
    install(NODE)
    static = next(iter(editions.values())).html / "_static"
    styles = [file for pattern in STYLES for file in static.glob(pattern)]
    scripts = [*(static / name for name in SCRIPTS), *(SITE / "static" / name for name in OURS)]
    pages = [
        (str(page), str(site.absolute() / language / name), f"{language}/{name}")
        for language, edition in editions.items()
        for page, name in listing(edition.html, ".*html")
    ]
    job = {
        "pages": pages,
        "styles": [*map(str, styles), str(SITE / "static/book.css")],
        "scripts": [*map(str, scripts)],
        "own": [*((str(SITE / name), to) for name, to in OWN.items()), *_pictures()],
        "synonyms": synonyms(),
        "terms": {lang: marks(lang) for lang in editions},
        "icons": str(ICONS),
        "missing": None if printed else NAME,
        "cards": bool(book()),
        "languages": [(lang, str(site.absolute() / lang)) for lang in editions],
        "notebooks": [
            told for lang, edition in editions.items() for told in _notebooks(lang, edition, site)
        ],
        "out": str(site.absolute() / "static"),
        "python": workbench.pack(site / "static/python", editions),
        "editor": str(SITE / "workbench/editor.js"),
    }
    run_node([str(SITE / "finish.mjs")], cwd=NODE, input=json.dumps(job))
    for language, edition in editions.items():
        copy(edition.html, site / language)
    for name in ("favicon.svg", "mistakes.js", "models.js", "terms.js"):
        write(site / "static" / name, (SITE / "static" / name).read_bytes())
    for file in (SITE / "pictures").glob("*.js"):  # modules: fetched where a page shows them
        write(site / "static/pictures" / file.name, file.read_bytes())
    for language, name in product(editions, listed()):
        released = EXERCISES / language / Path(name).stem / f"{Path(name).stem}.ipynb"
        write(site / language / f"{name}.ipynb", released.read_bytes())
    for file in (SITE / "workbench").glob("[!e]*.js"):  # the editor is bundled
        write(site / "static/workbench" / file.name, file.read_bytes())
    write(site / "sw.js", (SITE / "sw.js").read_bytes())
    for wheel in WHEELS.glob("*.whl"):  # pip installs it from here
        write(site / wheel.name, wheel.read_bytes())
    write(site / "index.html", landing(editions, printed).encode())
    _announce(editions, site)
    write(site / ".nojekyll", b"")  # else GitHub Pages drops folders that begin with _
    report("site", str(site))


def _pictures() -> list[tuple[str, str]]:
    """The style sheets of the pictures, which are loaded with them."""
    return [(str(file), f"pictures/{file.name}") for file in (SITE / "pictures").glob("*.css")]


def _notebooks(lang: str, edition: Edition, site: Path) -> Iterator[dict[str, str]]:
    """What `notebook.mjs` makes of each page that shows code."""
    for file, name in listing(edition.html / "_sources", r"\w+\.ipynb"):
        page = name.removesuffix(".ipynb")
        yield {
            "page": str(edition.html / f"{page}.html"),
            "name": f"{lang}/{page}.html",
            "source": str(file),
            "to": str(site.absolute() / lang / "notebooks" / name),
            "base": address(lang, page),
            "how": edition.how,
        }


def copy(html: Path, target: Path) -> None:
    """Copy what the pages of one language load, and remove what is no longer there."""
    pages = {name for _file, name in listing(html, r".*\.html")}
    pages |= {f"notebooks/{name.removesuffix('.html')}.ipynb" for name in pages}
    pages |= {"mistakes-data.js", *(f"{name}.ipynb" for name in listed())}
    kept = {name: file.read_bytes() for file, name in listing(html, KEPT.pattern)}
    mirror(kept, target, [file for file, name in listing(target, ".*") if name not in pages])


def _announce(editions: Mapping[str, Edition], site: Path) -> None:
    """What an address of its own allows: a map of the pages, a page for what is not there."""
    for name in ("404.html", "robots.txt", "sitemap.xml"):
        (site / name).unlink(missing_ok=True)
    if not book():
        return
    urls = "".join(
        f"<url><loc>{address(lang, name.removesuffix('.html'))}</loc></url>\n"
        for lang, edition in editions.items()
        for _file, name in listing(edition.html, r"(?!search)\w+\.html")
    )
    kind = "http://www.sitemaps.org/schemas/sitemap/0.9"
    write(site / "sitemap.xml", f'<urlset xmlns="{kind}">\n{urls}</urlset>\n'.encode())
    robots = f"User-agent: *\nAllow: /\nSitemap: {book()}/sitemap.xml\n"
    write(site / "robots.txt", robots.encode())
    write(site / "404.html", landing(editions, printed=False, missing=True).encode())


def landing(editions: Mapping[str, Edition], printed: bool, missing: bool = False) -> str:
    """The page at the root, which sends readers to their language; or that of a missing page."""
    template = jinja2.Template((SITE / "templates/landing.html").read_text(), autoescape=True)
    shown = {code: e._asdict() | LANGUAGES[code]._asdict() for code, e in editions.items()}
    base = f"{book()}/" if book() else ""
    return template.render(
        editions=shown, printed=NAME if printed else None, missing=missing, base=base
    )


def listing(folder: Path, pattern: str) -> list[tuple[Path, str]]:
    """The files of a folder whose name in it matches."""
    named = ((file, file.relative_to(folder).as_posix()) for file in under(folder))
    return [(file, name) for file, name in named if re.fullmatch(pattern, name)]
