"""The book as one file to print, in each language: its finished pages, printed and bound.

Chromium prints them, because it is what the site is made for: the same styles, formulas and
figures.
"""

import io
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import unquote, urljoin, urlparse

import jinja2
import yaml
from bs4 import BeautifulSoup, Tag
from pypdf import PdfReader, PdfWriter
from pypdf.generic import NameObject, TextStringObject

from press import LANGUAGES, PressError, book, report
from press.contents import chapters
from press.files import write
from press.site import HERE as SITE

Part = tuple[str, list[str]]  # a caption and names of pages
NAME = "normalisation.pdf"
HOME = "index"  # the front page of the site; on paper, the cover
TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(SITE / "templates"), autoescape=True, trim_blocks=True
)
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
ELSEWHERE = "https://elsewhere.invalid/#"  # begins a link to the other file, until they are bound
# what only a screen can do or speak, and figures' code, which a screen folds away
SCREEN = """
.katex-mathml, a.headerlink, button, script, details.hide, .sd-tab-set > input, template, .glyph
"""


def browser() -> str | None:
    """Return the program that prints: CHROMIUM if it is set, else the first that is found."""
    named = os.environ.get("CHROMIUM")
    found = filter(None, map(shutil.which, [named] if named else [*NAMES, *PLACES]))
    return next(found, None)


def print_book(lang: str, title: str, contents: Path, site: Path, build: Path) -> Path:
    """Print the pages of a language as one file, unless they are as before; return it.

    The contents come last, when it is known on which sheet each page begins.
    """
    parts = list(_parts(yaml.safe_load(contents.read_text("utf-8"))))
    articles = collect(lang, parts, site)
    whole = _render("print.html", lang, title, site, {"pages": articles})
    pages = _printed(lang, build / "print/pages.html", whole)
    cover = _cover(lang, title, parts, site, articles, _starts(pages))
    front = _printed(lang, build / "print/cover.html", cover)
    write(build / NAME, bind([front, pages], title))
    return build / NAME


def _printed(lang: str, source: Path, html: str) -> Path:
    """Print a file, unless it is as it was."""
    file = source.with_suffix(".pdf")
    if write(source, html.encode()) or not file.exists():
        file.unlink(missing_ok=True)
        report(lang, f"printing {source.stem}")
        _print(source, file)
    return file


def collect(lang: str, parts: list[Part], site: Path) -> dict[str, Tag]:
    """Return the finished pages of a language in the order of the contents, linked as one."""
    pages = {name: _article(site / lang, name) for _caption, names in parts for name in names}
    for page in pages.values():
        _bring_together(page, pages, lang, site / lang)
    return pages


def _starts(file: Path) -> dict[str, int]:
    """The sheet on which each place of a printed file lies, from 1."""
    printed = PdfReader(file)
    places = printed.named_destinations
    found = {name: printed.get_destination_page_number(place) for name, place in places.items()}
    return {name.lstrip("/"): number + 1 for name, number in found.items() if number is not None}


def _cover(
    lang: str,
    title: str,
    parts: list[Part],
    site: Path,
    articles: Mapping[str, Tag],
    starts: Mapping[str, int],
) -> str:
    """The title, and the contents with the number of the sheet on which each page begins."""
    titles = {name: page.select("h1")[0].get_text() for name, page in articles.items()}
    shown = [(part, [(n, titles[n], starts[n]) for n in names]) for part, names in parts]
    page = BeautifulSoup((site / lang / f"{HOME}.html").read_text("utf-8"), "html.parser")
    footer = page.select_one(".bd-footer-content")
    told = {"parts": shown, "elsewhere": ELSEWHERE, "address": book(), "footer": footer}
    return _render("cover.html", lang, title, site, told)


def _render(name: str, lang: str, title: str, site: Path, told: Mapping[str, object]) -> str:
    styles = [(site / "static/book.css").as_uri(), (SITE / "static/print.css").as_uri()]
    template = TEMPLATES.get_template(name)
    common = {"language": LANGUAGES[lang].html, "title": title, "styles": styles}
    return template.render({**common, **told})


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


def _parts(contents: dict) -> Iterable[Part]:
    """The parts of the book, each with its pages; mistakes and exercises stay on the site."""
    for part in contents.get("parts", []):
        names = [chapter["file"] for chapter in chapters(part)]
        left = [name for name in names if name.startswith(("mistakes_", "exercises/"))]
        yield part["caption"], [name for name in names if name not in left]


def _article(folder: Path, name: str) -> Tag:
    """Return what a page says, without what only a screen can do; its id is its name."""
    page = BeautifulSoup((folder / f"{name}.html").read_text("utf-8"), "html.parser")
    article = page.select_one("article.bd-article")
    if article is None:
        raise PressError(f"{folder / name}.html has no article.bd-article: has the theme changed?")
    for useless in article.select(SCREEN):
        useless.decompose()
    for term in article.select("a.term"):
        term.unwrap()
    for element in article.select("[id]"):
        element["id"] = _place(name, str(element["id"]))
    article["id"] = name
    return article


def _bring_together(article: Tag, pages: dict[str, Tag], lang: str, folder: Path) -> None:
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
        if page in {*pages, HOME}:
            link["href"] = (ELSEWHERE if page == HOME else "#") + _place(page, url.fragment)
        elif book():  # a mistake, a notebook, a program: on the site
            link["href"] = urljoin(f"{book()}/{lang}/", str(link["href"]))
        else:
            link.name, link.attrs = "span", {}


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
