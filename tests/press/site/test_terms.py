"""The course's terms in the text of pages: which are marked, and how a reader is told of them."""

import json
import re

import jinja2
import pytest

from press import LANGUAGES
from press.catalogue import load
from press.marks import marks
from press.site import HERE as SITE
from tests.browser import chromium, node, serving
from tests.pictures import errors, key

LAYOUT = (SITE / "templates/layout.html").read_text("utf-8")
FRAME = re.search(r'<template id="terms">.*</template>', LAYOUT)[0]
RUN = """
import { readFileSync } from "node:fs";
const { markTerms } = await import(process.argv[1]);
const { pages, terms } = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(markTerms(pages, terms)));
"""


def frame(language):
    return jinja2.Template(FRAME).render(_=load(language, "site").__getitem__)


def marked(pages, frames=True):
    """The HTML of some articles, `language/name: article`, after it was marked."""
    told = {
        name: f"<article>{html}</article>" + (frame(name[:2]) if frames else "")
        for name, html in pages.items()
    }
    given = {"pages": told, "terms": {language: marks(language) for language in LANGUAGES}}
    return node(RUN, (SITE / "terms.mjs").as_uri(), **given)


def found(html, language="en"):
    """The words of an article that are marked."""
    return links(marked({f"{language}/page": html})[f"{language}/page"])


def links(html):
    return re.findall(r'<a class="term" href="glossary\.html#[\w-]+">([^<]*)</a>', html)


@pytest.mark.parametrize(
    ("language", "text", "words"),
    [
        ("en", "Softmax, softmax, two softmaxes.", ["Softmax"]),
        ("en", "Residual\nconnections, MLPs, a nonsoftmax", ["Residual\nconnections", "MLPs"]),
        ("en", "synchronised batch normalisation of batches", ["synchronised batch normalisation"]),
        ("en", "In BN, the mean of a batch; pre-softmax", ["BN"]),
        ("fr", "des connexions résiduelles, l’entropie croisée, les canaux",
         ["connexions résiduelles", "entropie croisée", "canaux"]),
        ("fr", "Une sortie invariante par translation", ["invariante par"]),
        ("zh", "同步批归一化与批归一化，超参数，BN 层", ["同步批归一化", "批归一化", "超参数"]),
    ],
)  # fmt: skip
def test_the_first_place_of_a_term_is_marked(language, text, words):
    assert found(f"<p>{text}</p>", language) == words


@pytest.mark.parametrize(
    "html",
    [
        "<h2>softmax</h2>",
        "<p><strong>softmax</strong></p>",
        '<p><a href="x.html">the softmax</a> <code>softmax</code></p>',
        '<p><span class="math notranslate">softmax</span></p>',
        '<p class="meta">softmax</p>',
        "<details><summary>softmax</summary><p>softmax</p></details>",
        "<figure><figcaption><p>softmax</p></figcaption></figure>",
        "<table><tr><td><p>softmax</p></td></tr></table>",
        '<div class="admonition note"><p>softmax</p></div>',
        '<p><img alt="softmax > 0"></p>',
        "<!-- <p>softmax</p> -->",
        "<div>softmax</div>",
    ],
)
def test_only_running_text_is_marked(html):
    assert found(html) == []
    text = "<ul><li><p>A <em>word</em> of<br> softmax.</p></li></ul>"
    assert found(html + text) == ["softmax"]


def test_what_a_page_is_about_is_not_marked_on_it():
    title = '<h1>Batch normalisation<a class="headerlink">#</a></h1>'
    assert found(f"{title}<p>Batch normalisation, BN, layer normalisation</p>") == [
        "layer normalisation"
    ]


def test_of_too_many_terms_the_rarest_are_marked():
    every = [mark["words"][0] for mark in marks("zh") if mark["words"] and not mark["common"]]
    some = [word for word in every if re.fullmatch("[\u4e00-\u9fff]{4,}", word)][:24]
    assert len(some) == 24
    common, rare = some[:8], some[8:]
    pages = marked({
        "zh/one": "".join(f"<p>{word}。</p>" for word in some),
        "zh/two": "".join(f"<p>{word}。</p>" for word in common),
    })  # fmt: skip
    assert links(pages["zh/one"]) == common[:4] + rare and links(pages["zh/two"]) == common


def test_a_page_has_the_meanings_of_its_terms_and_no_others():
    page = marked({"fr/page": "<p>le softmax, le softmax et les canaux</p>"})["fr/page"]
    template = page.split('<template id="terms">')[1]
    assert re.findall(r'data-term="([\w-]+)"', template) == ["term-softmax", "term-channel"]
    assert "exponentielles" in template and "Dans le glossaire" in template


def test_other_pages_stay_as_they_are():
    pages = {"en/glossary": "<p>softmax $& </p>"}
    assert marked(pages, frames=False)["en/glossary"] == "<article><p>softmax $& </p></article>"


TEXTS = {
    "en": "The softmax of a long row of scores, and then more and more words: residual streams.",
    "fr": "Le softmax d’une longue ligne de scores, puis encore des mots : des flux résiduels.",
    "zh": "对一长行分数求 softmax，然后还有许多许多许多许多许多许多许多许多的字，以及残差流。",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A page in each language, with the styles and scripts that it loads."""
    folder = tmp_path_factory.mktemp("terms")
    for name in ("book.css", "terms.css", "terms.js"):
        (folder / name).write_bytes((SITE / "static" / name).read_bytes())
    pages = marked({f"{language}/page": f"<p>{text}</p>" for language, text in TEXTS.items()})
    for name, html in pages.items():
        language = name[:2]
        head = (
            f'<!DOCTYPE html><html lang="{LANGUAGES[language].html}"><meta charset="utf-8">'
            '<title>terms</title><meta name="viewport" content="width=device-width">'
            '<link rel="stylesheet" href="book.css"><link rel="icon" href="data:,">'
            '<script defer src="terms.js"></script><main><h1>Terms</h1>'
        )
        html = html.replace("<article>", '<article class="bd-article">')
        (folder / f"{language}.html").write_text(f"{head}{html}</main>", "utf-8")
    with serving(folder) as address:
        yield address


@pytest.fixture(scope="module")
def browser():
    with chromium() as page:
        page.ask("Runtime.enable"), page.ask("Log.enable")
        yield page


@pytest.fixture(params=LANGUAGES)
def page(browser, site, request):
    browser.events.clear()
    size = {"width": 320, "height": 600, "deviceScaleFactor": 1, "mobile": False}
    browser.ask("Emulation.setDeviceMetricsOverride", **size)
    browser.open(f"{site}/{request.param}.html")
    browser.wait("[...document.styleSheets].some(sheet => sheet.href?.endsWith('terms.css'))")
    move(browser, 1, 500)
    yield browser
    assert not errors(browser)


def place(page, term):
    found = page.value(
        "(r => JSON.stringify([r.x + r.width / 2, r.y + r.height / 2]))"
        f"(document.querySelectorAll('.term')[{term}].getClientRects()[0])"
    )
    return json.loads(found)


def move(page, x, y):
    page.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)


def tap(page, term):
    x, y = place(page, term)
    page.ask("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
    page.ask("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])


OPEN = "document.querySelector('article .meaning [data-term]')?.dataset.term ?? ''"
CLOSED = f"({OPEN}) === ''"
EXPANDED = (
    "[...document.querySelectorAll('.term')].map(term => term.getAttribute('aria-expanded')).join()"
)
SIDEWAYS = "document.documentElement.scrollWidth - innerWidth"


def opened(page, term):
    return page.wait(f"({OPEN}) === 'term-{term}'")


@pytest.mark.needs("chromium")
def test_it_shows_while_the_mouse_is_on_it_or_on_its_meaning(page):
    move(page, *place(page, 0))
    opened(page, "softmax")
    box = "document.querySelector('.meaning').getBoundingClientRect()"
    assert page.value(f"{box}.left >= 0 && {box}.right <= innerWidth") and page.value(SIDEWAYS) <= 0
    assert page.value(EXPANDED) == "true,false"
    assert page.value("document.querySelector('.meaning').matches(':popover-open')")
    move(page, *json.loads(page.value(f"JSON.stringify([{box}.x + 20, {box}.y + 20])")))
    page.value("new Promise(done => setTimeout(done, 400))")
    opened(page, "softmax")
    move(page, 1, 500)
    page.wait(CLOSED)
    assert page.value(EXPANDED) == "false,false"


@pytest.mark.needs("chromium")
def test_it_shows_on_focus_and_escape_closes_it(page):
    key(page, "Tab", code="Tab", windowsVirtualKeyCode=9)
    opened(page, "softmax")
    described = "document.activeElement.getAttribute('aria-describedby')"
    assert page.value(f"document.getElementById({described}) !== null")
    key(page, "Tab", code="Tab", windowsVirtualKeyCode=9)  # the link in the meaning
    assert page.value("document.activeElement.href").endswith("glossary.html#term-softmax")
    opened(page, "softmax")
    key(page, "Escape")
    page.wait(CLOSED)
    assert page.value("document.activeElement.className") == "term"
    key(page, " ", code="Space", text=" ")
    opened(page, "softmax")
    for _ in range(2):
        key(page, "Tab", code="Tab", windowsVirtualKeyCode=9)
    opened(page, "residual-stream")


@pytest.mark.needs("chromium")
def test_a_tap_unfolds_it_below_its_line_and_the_next_folds_it(page):
    height = page.value("document.querySelector('p').offsetHeight")
    for term, name in enumerate(["softmax", "residual-stream"]):
        tap(page, term)
        opened(page, name)
        line, below = (
            page.value(f"document.querySelector('.{of}').getBoundingClientRect().{edge}")
            for of, edge in (("term[aria-expanded=true]", "bottom"), ("meaning", "top"))
        )
        assert line - 2 < below < line + 40  # in the text, after the line
        assert page.value("document.querySelector('p').offsetHeight") > height + 40
        assert page.value(EXPANDED) == ["true,false", "false,true"][term]
        assert page.value(SIDEWAYS) <= 0
    tap(page, 1)
    page.wait(CLOSED)
    tap(page, 0)
    opened(page, "softmax")
    key(page, "Escape")
    page.wait(CLOSED)
    assert page.value("document.querySelector('p').offsetHeight") == height


@pytest.mark.needs("chromium")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(page, theme):
    page.value(f"document.documentElement.dataset.theme = '{theme}'")
    asked = {
        "": lambda: None,
        "softmax": lambda: tap(page, 0),
        "residual-stream": lambda: move(page, *place(page, 1)),
    }
    for term, ask in asked.items():
        ask()
        page.wait(CLOSED) if not term else opened(page, term)
        assert page.axe("'main'") == []
