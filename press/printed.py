"""The book as one file to print, in each language: its finished pages, one after the other.

Chromium prints them, because it is what the site is made for: the same styles, formulas and
figures. Where there is none, the site is built without the files and without the links to them.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlparse

import jinja2
import yaml
from bs4 import BeautifulSoup, Tag

from press import LANGUAGES, PressError, report
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
    *("--no-pdf-header-footer", "--generate-pdf-document-outline"),
]
# what only a screen can do, and figures' code, which a screen folds away
SCREEN = "a.headerlink, button, script, details.hide, .sd-tab-set > input, template"


@cache
def browser() -> str | None:
    """Return the program that prints: CHROMIUM if it is set, else the first that is found."""
    named = os.environ.get("CHROMIUM")
    found = filter(None, map(shutil.which, [named] if named else [*NAMES, *PLACES]))
    return next(found, None)


def print_book(lang: str, title: str, contents: Path, site: Path, build: Path) -> None:
    """Print the pages of a language into its folder of the site, unless they are as before."""
    source, printed = build / "print.html", build / NAME
    if write(source, one_page(lang, title, contents, site).encode()) or not printed.exists():
        printed.unlink(missing_ok=True)
        report(lang, "printing")
        _print(source, printed)
    write(site / lang / NAME, printed.read_bytes())


def one_page(lang: str, title: str, contents: Path, site: Path) -> str:
    """Return the finished pages of a language as one page of HTML, in the order of the contents."""
    parts = list(_parts(yaml.safe_load(contents.read_text("utf-8"))))
    pages = {name: _article(site / lang, name) for _caption, names in parts for name in names}
    for page in pages.values():
        _bring_together(page, pages, site / lang)
    template = jinja2.Template((SITE / "templates/print.html").read_text("utf-8"), autoescape=True)
    return template.render(
        language=LANGUAGES[lang].html,
        title=title,
        styles=[(site / "static/book.css").as_uri(), (SITE / "static/print.css").as_uri()],
        parts=[(caption, [pages[name] for name in names]) for caption, names in parts],
        titles={name: page.select("h1")[0].get_text() for name, page in pages.items()},
    )


def _parts(contents: dict) -> Iterable[tuple[str, list[str]]]:
    yield "", [contents["root"]]
    for part in contents.get("parts", []):
        yield part["caption"], [chapter["file"] for chapter in part["chapters"]]


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
    """Let links and images lead where they led when each page was a file."""
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
            link["href"] = f"#{_place(page, url.fragment)}"


def _place(page: str, anchor: str) -> str:
    return f"{page}--{anchor}" if anchor else page


def _print(source: Path, target: Path) -> None:
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            [str(browser()), *FLAGS, f"--user-data-dir={profile}",
             f"--print-to-pdf={target.absolute()}", source.absolute().as_uri()],
            capture_output=True, text=True,
        )  # fmt: skip
    if not target.exists():
        raise PressError(f"{browser()} did not print {source}:\n{done.stderr.strip()}")
