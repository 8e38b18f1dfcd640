"""The book as one file to print, in each language: its finished pages, printed and bound.

Chromium prints them, because it is what the site is made for: the same styles, formulas and
figures.
"""

import io
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlparse

import jinja2
import yaml
from bs4 import BeautifulSoup, Tag
from pypdf import PdfReader, PdfWriter
from pypdf.generic import NameObject, TextStringObject

from press import LANGUAGES, PressError, report
from press.contents import chapters
from press.files import write
from press.site import HERE as SITE

NAME = "normalisation.pdf"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PLACES = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
PRINTS = ["--no-pdf-header-footer", "--generate-pdf-document-outline"]
ELSEWHERE = "https://elsewhere.invalid/#"  # begins a link to another page, until they are bound
# what only a screen can do, and figures' code, which a screen folds away
SCREEN = "a.headerlink, button, script, details.hide, .sd-tab-set > input, template, .glyph"


def browser() -> str | None:
    """Return the program that prints: CHROMIUM if it is set, else the first that is found."""
    named = os.environ.get("CHROMIUM")
    found = filter(None, map(shutil.which, [named] if named else [*NAMES, *PLACES]))
    return next(found, None)


def print_book(lang: str, title: str, contents: Path, site: Path, build: Path) -> Path:
    """Print the pages of a language as one file, unless they are as before; return it.

    Each page is printed by itself: for the whole book at once, Chromium takes five gigabytes.
    """
    files, count = [], 0
    for name, page in one_by_one(lang, title, contents, site):
        source = build / "print" / f"{name}.html"
        files.append(source.with_suffix(".pdf"))
        if write(source, page(count).encode()) or not files[-1].exists():
            files[-1].unlink(missing_ok=True)
            report(lang, f"printing {name}")
            _print(source, files[-1])
        count += len(PdfReader(files[-1]).pages)
    write(build / NAME, bind(files, title))
    return build / NAME


def one_by_one(
    lang: str, title: str, contents: Path, site: Path
) -> Iterable[tuple[str, Callable[[int], str]]]:
    """Yield each finished page of a language, in the order of the contents: its name, its HTML.

    The HTML depends on how many sheets come before it.
    """
    parts = list(_parts(yaml.safe_load(contents.read_text("utf-8"))))
    pages = {name: _article(site / lang, name) for _caption, names in parts for name in names}
    for page in pages.values():
        _bring_together(page, pages, site / lang)
    template = jinja2.Template((SITE / "templates/print.html").read_text("utf-8"), autoescape=True)
    told = {
        "language": LANGUAGES[lang].html,
        "title": title,
        "styles": [(site / "static/book.css").as_uri(), (SITE / "static/print.css").as_uri()],
        "parts": parts,
        "titles": {name: page.select("h1")[0].get_text() for name, page in pages.items()},
        "elsewhere": ELSEWHERE,
    }
    wanted = {
        str(a["href"]) for page in pages.values() for a in page.select(f'a[href^="{ELSEWHERE}"]')
    }
    places = sorted({*pages, *(href.removeprefix(ELSEWHERE) for href in wanted)})
    for name, page in pages.items():
        own = [place for place in places if place.split("--")[0] == name]
        yield name, partial(_render, template, told | {"page": page, "places": own})


def _render(template: jinja2.Template, told: dict[str, object], before: int) -> str:
    return template.render(told, before=before)


def bind(files: Iterable[Path], title: str) -> bytes:
    """Return printed pages as one file, in which a link to another page leads there."""
    book, bound = PdfWriter(), io.BytesIO()
    for file in files:
        book.append(file)
    book.add_metadata({"/Title": title})
    for link in (link.get_object() for page in book.pages for link in page.get("/Annots", [])):
        place = link.get("/Dest") or link.get("/A", {}).get("/URI", "")
        place = str(place).replace(ELSEWHERE, "/")
        if place.startswith("/"):
            link.pop("/A", None)
            link[NameObject("/Dest")] = TextStringObject(place)
    book.write(bound)
    return bound.getvalue()


def _parts(contents: dict) -> Iterable[tuple[str, list[str]]]:
    yield "", [contents["root"]]
    for part in contents.get("parts", []):
        yield part["caption"], [chapter["file"] for chapter in chapters(part)]


def _article(folder: Path, name: str) -> Tag:
    """Return what a page says, without what only a screen can do; its id is its name."""
    page = BeautifulSoup((folder / f"{name}.html").read_text("utf-8"), "html.parser")
    article = page.select_one("article.bd-article")
    if article is None:
        raise PressError(f"{folder / name}.html has no article.bd-article: has the theme changed?")
    for useless in article.select(SCREEN):
        useless.decompose()
    for element in article.select("[id]"):
        element["id"] = _place(name, str(element["id"]))
    article["id"] = name
    return article


def _bring_together(article: Tag, pages: dict[str, Tag], folder: Path) -> None:
    """Let links and images lead where they led on the site."""
    for details in article.select("details"):
        details["open"] = ""
    for paragraph in article.select(f'p:has(a[href="{NAME}"])'):
        paragraph.decompose()
    for image in article.select("img"):
        image["src"] = (folder / unquote(str(image["src"]))).resolve().as_uri()
    for link in article.select("a[href]"):
        url = urlparse(str(link["href"]))
        if url.scheme:
            continue
        page = unquote(url.path).removesuffix(".html") or article["id"]
        if page not in pages:  # a file of the site: a notebook, a program
            link.name, link.attrs = "span", {}
        else:
            here = page == article["id"]
            link["href"] = ("#" if here else ELSEWHERE) + _place(page, url.fragment)


def _place(page: str, anchor: str) -> str:
    return f"{page}--{anchor}" if anchor else page


def _print(source: Path, target: Path) -> None:
    if not browser():
        raise PressError("Chromium prints: install it, or Chrome, or name its program in CHROMIUM")
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            [str(browser()), *FLAGS, *PRINTS, f"--user-data-dir={profile}",
             f"--print-to-pdf={target.absolute()}", source.absolute().as_uri()],
            capture_output=True, text=True,
        )  # fmt: skip
    if not target.exists():
        raise PressError(f"{browser()} did not print {source}:\n{done.stderr.strip()}")
