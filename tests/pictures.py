"""Pictures that act, each alone on a page in each language, and a reader's hands."""

import json

import jinja2
import numpy as np

from press import LANGUAGES
from press.catalogue import load
from press.site import HERE as SITE

FOLDER = SITE / "pictures"
NAMES = sorted(file.stem for file in FOLDER.glob("*.js") if file.stem != "common")


def written(name, lang, norm="layer"):
    """A page that holds a figure and the picture which takes its place."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(SITE / "templates"), autoescape=True
    )
    templates.globals["_"] = load(lang, "site").__getitem__
    told = {"figure": "still", "norm": norm, "kinds": ["table", "cube"]}
    # the search of every page is here, too: book.js opens it
    picture = templates.get_template(f"pictures/{name}.html").render(told)
    return (
        f'<!DOCTYPE html><html lang="{LANGUAGES[lang].html}"><meta charset="utf-8">'
        '<title>picture</title><meta name="viewport" content="width=device-width">'
        '<link rel="stylesheet" href="book.css"><link rel="icon" href="data:,">'
        # as layout.html; nothing is kept from one test to the next
        '<script>if (location.protocol !== "file:") document.documentElement.dataset.live = "";'
        "delete Navigator.prototype.serviceWorker;</script>"
        '<script defer src="book.js"></script>'
        '<div class="top"><a class="search" href="#">search</a></div>'
        '<dialog><form class="finder"><input name="q"></form></dialog><main><h1>picture</h1>'
        '<figure class="coming" id="still"><p>still</p><figcaption>caption</figcaption></figure>'
        f"{picture}</main>"
    )


def write_all(folder):
    """Write the page of each picture in each language, and all that they load."""
    (folder / "pictures").mkdir()
    for file in [SITE / "static/book.js", SITE / "static/book.css", *FOLDER.iterdir()]:
        place = "pictures" if file.parent == FOLDER else "."
        (folder / place / file.name).write_bytes(file.read_bytes())
    for name in NAMES:
        for lang in LANGUAGES:
            (folder / f"{name}.{lang}.html").write_text(written(name, lang), "utf-8")


def shown(page, address, name, lang="en"):
    """Open a picture, and wait until it can be used."""
    page.events.clear()
    page.open(f"{address}/{name}.{lang}.html")
    page.wait("!!document.querySelector('.picture .verdict')")
    page.value("requestAnimationFrame(() => setTimeout(() => { window.drawn = true; }))")
    page.wait("window.drawn")  # in their first frame drawings learn their size
    return page


def errors(page):
    bad = {"Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"}
    return [event for event in page.events if event.get("method") in bad]


def numbers(page, selector):
    """What elements say of themselves in full precision."""
    found = f"[...document.querySelectorAll('{selector}')].map(e => +e.dataset.value)"
    return np.array(json.loads(page.value(f"JSON.stringify({found})")))


def choose(page, name, value):
    page.value(f"document.querySelector('[name={name}][value={value}]').click()")


def put(page, selector, value, place=0):
    """Type a value into a field, or move a slider there."""
    page.value(
        f"(input => {{ input.value = '{value}'; input.dispatchEvent(new Event('input')) }})"
        f"(document.querySelectorAll('{selector}')[{place}])"
    )


def guess(page, place):
    """Take a choice of the card; return what is said of it."""
    page.value(f"document.querySelectorAll('.guess button')[{place}].click()")
    return said(page)


def said(page):
    return page.value("document.querySelector('.verdict').textContent")


def key(page, name, **more):
    for kind in ("keyDown", "keyUp"):
        page.ask("Input.dispatchKeyEvent", type=kind, key=name, **more)


def drag(page, selector, by, place=0):
    """Press the mouse on an element, and move it by some pixels, in two steps."""
    x, y = json.loads(
        page.value(
            "(e => { e.scrollIntoView({ block: 'center' });"
            "const { x, y, width, height } = e.getBoundingClientRect();"
            "return JSON.stringify([x + width / 2, y + height / 2]) })"
            f"(document.querySelectorAll('{selector}')[{place}])"
        )
    )
    end = (x + by[0], y + by[1])
    steps = [("mousePressed", (x, y)), ("mouseMoved", (x + by[0] / 2, y + by[1] / 2))]
    for kind, (left, top) in [*steps, ("mouseMoved", end), ("mouseReleased", end)]:
        held = {"button": "left", "buttons": 1, "clickCount": 1}
        page.ask("Input.dispatchMouseEvent", type=kind, x=left, y=top, **held)
