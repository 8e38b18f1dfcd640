"""What holds for each picture that acts: every reader can use it, and it weighs little."""

import gzip
import json

import pytest

from press import LANGUAGES
from tests.pictures import FOLDER, NAMES, choose, errors, guess, shown, written

pytestmark = pytest.mark.needs("chromium")
ONE = {"height": 800, "deviceScaleFactor": 1, "mobile": False}
CHOICES = "[...document.querySelectorAll('.picture .seg input')].map(e => [e.name, e.value])"


def modes(page):
    """Take each choice that the picture offers, one after the other."""
    yield
    for name, value in page.value(CHOICES):
        if page.value(f"document.querySelector('[name={name}][value={value}]').checkVisibility()"):
            choose(page, name, value)
            yield


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", NAMES)
def test_it_speaks_each_language(browser, site, name):
    for lang in LANGUAGES:
        page = shown(browser, site[1], name, lang)
        for _ in modes(page):
            answers = page.value("document.querySelectorAll('.guess button').length")
            assert 3 <= answers <= 5
            verdicts = [guess(page, place) for place in range(answers)]
            assert sum("✓" in verdict for verdict in verdicts) == 1
            text = page.value("document.querySelector('.picture').innerText")
            assert not [bad for bad in ("undefined", "NaN", "{", "}", "**") if bad in text]
        live = "document.querySelectorAll('[aria-live], [role=status], output').length"
        assert page.value(live) == 1
        assert not errors(page)


@pytest.mark.parametrize("name", NAMES)
def test_french_numbers_have_a_comma(browser, site, name):
    page = shown(browser, site[1], name, "fr")
    found = page.value("document.querySelector('.picture').innerText.match(/\\d\\.\\d/g)")
    assert found is None


@pytest.mark.parametrize("name", NAMES)
def test_on_paper_and_without_modules_the_figure_stays(browser, site, name):
    browser.events.clear()
    browser.open((site[0] / f"{name}.en.html").as_uri())
    browser.value("new Promise(done => setTimeout(done, 300))")
    assert not errors(browser)
    assert browser.value("document.querySelector('#still p').checkVisibility()")
    assert not browser.value("document.querySelector('.picture .verdict')")
    page = shown(browser, site[1], name)
    page.wait("!document.querySelector('#still p').checkVisibility()")
    assert page.value("document.querySelector('#still figcaption').checkVisibility()")
    page.ask("Emulation.setEmulatedMedia", media="print")
    assert page.value("document.querySelector('#still p').checkVisibility()")
    assert not page.value("document.querySelector('.picture').checkVisibility()")
    page.ask("Emulation.setEmulatedMedia", media="")


def test_the_figure_comes_back_where_the_module_does_not(browser, site):
    browser.ask("Network.enable")
    browser.ask("Network.setBlockedURLs", urls=["*/fan.js"])
    browser.open(f"{site[1]}/fan.en.html")
    browser.wait("document.querySelector('#still p').checkVisibility()")
    browser.ask("Network.setBlockedURLs", urls=[])


@pytest.mark.sample(14)
@pytest.mark.parametrize("width", [320, 390, 900, 1200, 3840])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_scrolls_sideways_and_everything_can_be_touched(browser, site, name, width):
    browser.ask("Emulation.setDeviceMetricsOverride", width=width, **ONE)
    page = shown(browser, site[1], name, "fr")
    for _ in modes(page):
        assert page.value("document.documentElement.scrollWidth - innerWidth") <= 0
        low = page.value(
            "Math.min(...[...document.querySelectorAll('.picture :is(input, button, label, select)"
            ":not(label *), .picture .seg input, .picture .handle')]"
            ".map(e => e.getBoundingClientRect().height || 99))"
        )
        assert low >= 43.9
    page.ask("Emulation.clearDeviceMetricsOverride")


@pytest.mark.sample(5)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_axe_finds_nothing(browser, site, name, theme):
    page = shown(browser, site[1], name)
    page.value(f"document.documentElement.dataset.theme = '{theme}'")
    for _ in modes(page):
        guess(page, 0)
        assert page.axe("'main'") == []


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("name", NAMES)
def test_it_is_light(name, lang):
    files = [file for file in FOLDER.iterdir() if file.stem in {name, "common", "drawing"}]
    parts = [written(name, lang).encode(), *(file.read_bytes() for file in files)]
    assert sum(len(gzip.compress(part)) for part in parts) <= 15_000


@pytest.mark.parametrize("name", NAMES)
def test_every_control_has_a_name(browser, site, name):
    page = shown(browser, site[1], name)
    tree = page.ask("Accessibility.getFullAXTree")["nodes"]
    roles = {"slider", "spinbutton", "button", "radio", "checkbox", "combobox"}
    unnamed = [
        node for node in tree
        if node.get("role", {}).get("value") in roles and not node.get("name", {}).get("value")
    ]  # fmt: skip
    assert unnamed == [], json.dumps(unnamed)
