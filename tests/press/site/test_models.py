"""The table of models in a browser: whole without scripts; with them sorted and filtered."""

import gzip
import json

import jinja2
import pytest

from press import LANGUAGES
from press.catalogue import load
from press.site import HERE as SITE
from press.site.directives import models
from tests.browser import chromium, serving

pytestmark = pytest.mark.needs("chromium")
DATA = SITE.parents[1] / "book/data/models.csv"
ROWS = models(DATA)
SHOWN = "[...document.querySelectorAll('tbody tr:not(.full)')].filter(r => !r.hidden)"
ONE = {"height": 900, "deviceScaleFactor": 1, "mobile": False}
FILES = ("book.css", "models.css", "models.js")


def written(lang):
    """A page that holds the table, and offers the file."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(SITE / "templates"), autoescape=True
    )
    templates.globals["_"] = load(lang, "site").__getitem__
    table = templates.get_template("models.html").render(rows=ROWS)
    return (
        f'<!DOCTYPE html><html lang="{LANGUAGES[lang].html}"><meta charset="utf-8">'
        '<title>models</title><meta name="viewport" content="width=device-width">'
        '<link rel="icon" href="data:,">'
        '<link rel="stylesheet" href="book.css"><link rel="stylesheet" href="models.css">'
        '<script defer src="models.js"></script><main class="bd-article"><article><h1>models</h1>'
        f'<p><a href="models.csv">models.csv</a></p><section>{table}</section></article></main>'
    )


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for lang in LANGUAGES:
        (folder / f"{lang}.html").write_text(written(lang), "utf-8")
    for name in FILES:
        (folder / name).write_bytes((SITE / "static" / name).read_bytes())
    (folder / "models.csv").write_bytes(DATA.read_bytes())
    with serving(folder) as found:
        yield found


@pytest.fixture(scope="module")
def browser():
    with chromium() as page:
        page.ask("Runtime.enable")
        yield page


@pytest.fixture
def page(browser, address):
    browser.events.clear()
    browser.ask("Emulation.clearDeviceMetricsOverride")
    browser.open(f"{address}/en.html")
    browser.wait("!!document.querySelector('thead button')")
    yield browser
    assert not [e for e in browser.events if e.get("method") == "Runtime.exceptionThrown"]


def names(page):
    """The models that are shown, in order."""
    found = f"{SHOWN}.map(r => r.querySelector('th').textContent)"
    return json.loads(page.value(f"JSON.stringify({found})"))


def put(page, name, value):
    page.value(
        f"(e => {{ e.value = {json.dumps(value)};"
        "e.dispatchEvent(new Event('input', { bubbles: true })) })"
        f"(document.querySelector('form.models [name={name}]'))"
    )


def click_head(page, place):
    page.value(f"document.querySelectorAll('thead button')[{place}].click()")


def main(row, column):
    return row[column].split(", ")[0]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_table_is_whole_without_scripts(browser, address, lang):
    browser.ask("Emulation.setScriptExecutionDisabled", value=True)
    browser.ask("Page.navigate", url=f"{address}/{lang}.html")
    browser.wait("document.querySelectorAll('tbody tr').length == 79")
    assert not browser.value("document.querySelector('form').checkVisibility()")
    assert not browser.value("document.querySelector('table button')")
    assert browser.value("document.querySelectorAll('tbody a').length") == len(ROWS)
    browser.ask("Emulation.setScriptExecutionDisabled", value=False)


PLACES = (
    "JSON.stringify([...document.querySelectorAll('.models :is(th, td, summary, [type=reset])')]"
    ".map(e => e.getBoundingClientRect()).map(r => [r.x, r.y, r.width, r.height].map(Math.round)))"
)


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("lang", LANGUAGES)
def test_nothing_moves_when_the_script_has_run(page, address, lang, width):
    page.ask("Emulation.setDeviceMetricsOverride", width=width, **ONE)
    page.ask("Network.enable")
    page.ask("Network.setBlockedURLs", urls=["*/models.js"])
    page.open(f"{address}/{lang}.html")
    assert not page.value("!!document.querySelector('table button')")
    before = page.value(PLACES)
    page.ask("Network.setBlockedURLs", urls=[])
    page.ask("Page.reload")
    page.wait("!!document.querySelector('tbody button')")
    assert page.value(PLACES) == before


def test_at_first_all_rows_are_there_in_their_order(page):
    assert names(page) == [row["model"] for row in ROWS]
    assert page.value("document.querySelector('[role=status]').textContent") == "79 of 79 models"


@pytest.mark.parametrize(
    ("column", "value"),
    [("norm", "RMSNorm"), ("place", "branch end"), ("eps", "1e-6"), ("multiply", "cast first"),
     ("weight", "1 + weight"), ("qk", "per head"), ("bias", "QKV"), ("year", "2025")],
)  # fmt: skip
def test_a_column_filters_as_the_data_say(page, column, value):
    put(page, column, value)
    wanted = [row["model"] for row in ROWS if value in row[column].split(", ")]
    assert wanted and names(page) == wanted
    put(page, column, "")
    assert len(names(page)) == len(ROWS)


def test_filters_combine_and_stand_in_the_address(page, address):
    put(page, "norm", "RMSNorm"), put(page, "place", "Peri"), put(page, "q", "gemma")
    assert names(page) == ["Gemma 2", "Gemma 3", "Gemma 3n", "Gemma 4"]
    found = page.value("location.href")
    page.open(f"{address}/en.html")
    page.open(found)
    page.wait(f"{SHOWN}.length == 4")
    page.value("document.querySelector('[type=reset]').click()")
    page.wait(f"{SHOWN}.length == {len(ROWS)}")
    assert page.value("location.search") == ""


@pytest.mark.parametrize(("column", "of"), [("year", int), ("eps", float), ("norm", str.lower)])
def test_heads_sort_up_down_and_back(page, column, of):
    listed = "[...document.querySelectorAll('thead th')].map(h => h.dataset.name).indexOf"
    place = page.value(f"{listed}('{column}')")
    by_name = {row["model"]: row for row in ROWS}
    told = sorted(of(main(row, column)) for row in ROWS if main(row, column) not in ("", "–"))
    for state in ("ascending", "descending"):
        click_head(page, place)
        assert page.value(f"document.querySelectorAll('thead th')[{place}].ariaSort") == state
        order = [main(by_name[name], column) for name in names(page)]
        assert [of(value) for value in order[: len(told)]] == told
        assert not {*order[len(told) :]} - {"", "–"}  # those without a value come last
        told.reverse()
    click_head(page, place)
    assert names(page) == [row["model"] for row in ROWS]


def test_a_row_opens_its_full_wording_and_takes_it_along(page):
    page.value("document.querySelectorAll('tbody th button')[6].click()")
    page.wait("!!document.querySelector('.full dd')")
    row = ROWS[6]
    said = page.value("document.querySelector('.full').textContent")
    for column, words in row.items():
        if column.endswith("_full") or column in ("source", "verified", "notes"):
            assert words in said, column
    assert page.value("[...document.querySelectorAll('.full dd')].every(d => d.lang == 'en')")
    click_head(page, 1)
    before = page.value("document.querySelector('.full').previousElementSibling.textContent")
    assert before.startswith(row["model"])
    put(page, "norm", "BatchNorm")
    assert not page.value("document.querySelector('.full').checkVisibility()")
    page.value("document.querySelector('[aria-expanded=true]').click()")
    assert not page.value("document.querySelector('.full')")


def test_every_row_s_wording_is_read_as_it_was_written(page):
    """Commas and quotes within a cell do not move the others."""
    page.value("document.querySelectorAll('tbody th button').forEach(b => b.click())")
    page.wait(f"document.querySelectorAll('.full dl').length == {len(ROWS)}")
    found = "[...document.querySelectorAll('.full dl')].map(list => list.lastChild.textContent)"
    assert json.loads(page.value(f"JSON.stringify({found})")) == [
        row["notes"] or row["verified"] for row in ROWS
    ]


@pytest.mark.parametrize("width", [320, 390, 900, 1400])
@pytest.mark.parametrize("lang", LANGUAGES)
def test_nothing_but_the_table_scrolls_sideways(browser, address, lang, width):
    one = {"height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.ask("Emulation.setDeviceMetricsOverride", width=width, **one)
    browser.open(f"{address}/{lang}.html")
    browser.wait("!!document.querySelector('form.models')")
    browser.value("document.querySelector('form details').open = true")
    browser.value("document.querySelector('tbody th button').click()")
    browser.wait("!!document.querySelector('.full dd')")
    assert browser.value("document.documentElement.scrollWidth - innerWidth") <= 0
    assert browser.value("(d => d.right - d.left)(document.querySelector('.full div')"
                         ".getBoundingClientRect())") <= width  # fmt: skip
    low = "[...document.querySelectorAll('form :is(input, select, button), th button')]"
    assert browser.value(f"Math.min(...{low}.map(e => e.getBoundingClientRect().height))") >= 43.9
    browser.value("document.querySelector('div.models').scrollLeft = 300")
    left = "document.querySelector('tbody th').getBoundingClientRect().left"
    assert browser.value(left) >= 0  # the first column stays
    browser.ask("Emulation.clearDeviceMetricsOverride")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(page, theme):
    page.value(f"document.documentElement.dataset.theme = '{theme}'")
    page.value("document.querySelector('tbody th button').click()")
    page.wait("!!document.querySelector('.full dd')")
    assert page.axe("'main'") == []
    live = "document.querySelectorAll('[aria-live], [role=status], output').length"
    assert page.value(live) == 1


@pytest.mark.parametrize("lang", LANGUAGES)
def test_no_token_is_left_in_english(lang):
    if lang == "en":
        return
    table = written(lang)
    for word in ("branch end", "per head", "sinusoidal", "learned"):
        assert f">{word}<" not in table and f'data-v="{word}"' in table


@pytest.mark.parametrize("lang", LANGUAGES)
def test_it_is_light(lang):
    """With the whole table; the full wording comes when a row is opened."""
    files = [(SITE / "static" / name).read_bytes() for name in FILES if name != "book.css"]
    parts = [written(lang).encode(), *files]
    assert sum(len(gzip.compress(part)) for part in parts) <= 15_000
