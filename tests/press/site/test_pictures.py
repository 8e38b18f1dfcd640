"""Pictures that act, in a browser: their numbers are normkit's, and every reader can use them."""

import gzip
import json

import jinja2
import numpy as np
import pytest

import normkit
from press import LANGUAGES
from press.catalogue import load
from press.site import HERE as SITE
from tests.browser import chromium, serving

pytestmark = pytest.mark.needs("chromium")
TABLE = np.array([[9.0, 2, 7, 6], [2, 4, 9, 5], [1, 6, 5, 4]])
CUBE = np.array([[1.0, 8, 6, 0, 7, 2], [5, 1, 6, 0, 4, 2], [0, 2, 7, 8, 4, 9], [9, 8, 7, 4, 3, 5]])
ACTIONS = {  # what each does to the table and to the cube: which numbers, and how
    "one": (np.s_[1, 2], np.s_[1, 1], lambda v: v + 10),
    "row": (np.s_[1], np.s_[1, :3], lambda v: v + 10),
    "times": (np.s_[1], np.s_[:, :3], lambda v: v * 4),
    "column": (np.s_[:, 2], np.s_[1], lambda v: v + 10),
}
COUNTS = {  # how many of 12, in the order of the actions
    "layer": [4, 0, 0, 12],
    "batch": [3, 12, 12, 0],
    "group": [0, 0, 0, 0],
    "instance": [0, 0, 0, 0],
    "rms": [4, 4, 0, 12],
}


def images(x):
    """The grid of a cube (channels down; examples, then positions across) as (N, C, positions)."""
    return x.reshape(4, 2, 3).swapaxes(0, 1)


def grid(x):
    return x.swapaxes(0, 1).reshape(4, 6)


NORMS = {
    ("table", "layer"): normkit.layer_norm,
    ("table", "batch"): lambda x: normkit.batch_norm(x, training=True)[0],
    ("table", "group"): lambda x: normkit.group_norm(x, 2),
    ("table", "instance"): lambda x: normkit.group_norm(x, 4),
    ("table", "rms"): lambda x: normkit.rms_norm(x, eps=1e-5),
    ("cube", "layer"): lambda x: grid(normkit.group_norm(images(x), 1)),
    ("cube", "batch"): lambda x: grid(normkit.batch_norm(images(x), training=True)[0]),
    ("cube", "group"): lambda x: grid(normkit.group_norm(images(x), 2)),
    ("cube", "instance"): lambda x: grid(normkit.instance_norm(images(x))),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A page with a figure and its picture in each language, served; yields folder and address."""
    folder = tmp_path_factory.mktemp("pictures")
    (folder / "pictures").mkdir()
    for name in ("static/book.js", "static/book.css", "pictures/who.js", "pictures/who.css"):
        (folder / name.removeprefix("static/")).write_bytes((SITE / name).read_bytes())
    for lang in LANGUAGES:
        (folder / f"{lang}.html").write_text(written(lang), "utf-8")
    with serving(folder) as address:
        yield folder, address


def written(lang):
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(SITE / "templates"), autoescape=True
    )
    templates.globals["_"] = load(lang, "site").__getitem__
    told = {"figure": "still", "norm": "layer", "kinds": ["table", "cube"]}
    picture = templates.get_template("pictures/who.html").render(told)
    return (
        f'<!DOCTYPE html><html lang="{LANGUAGES[lang].html}"><meta charset="utf-8">'
        '<link rel="stylesheet" href="book.css"><link rel="icon" href="data:,">'
        '<script defer src="book.js"></script>'
        f'<figure id="still"><p>still</p><figcaption>caption</figcaption></figure>{picture}'
    )


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as page:
        page.ask("Runtime.enable"), page.ask("Log.enable")
        yield page


@pytest.fixture
def page(browser, site):
    yield shown(browser, site, "en")
    assert not errors(browser)


def shown(page, site, lang):
    page.events.clear()
    page.open(f"{site[1]}/{lang}.html")
    page.wait("!!document.querySelector('.who .y [data-value]')")
    return page


def errors(page):
    bad = {"Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"}
    return [event for event in page.events if event.get("method") in bad]


def after(kind, action):
    """The numbers before and after an action."""
    x, (*places, how) = {"table": TABLE, "cube": CUBE}[kind], ACTIONS[action]
    place, edited = places[kind == "cube"], x.copy()
    edited[place] = how(edited[place])
    return x, edited


def choose(page, name, value):
    page.value(f"document.querySelector('[name={name}][value={value}]').click()")


def outputs(page):
    found = page.value(
        "JSON.stringify([...document.querySelectorAll('.y [data-value]')]"
        ".map(e => +e.dataset.value))"
    )
    return np.array(json.loads(found))


def predict(page, action, place=0):
    """Take an action and guess; return how many outputs changed, and what is said of it."""
    page.value(
        f"document.querySelector('.ask select').value = '{action}';"
        "document.querySelector('.ask select').dispatchEvent(new Event('change'));"
        f"document.querySelectorAll('.guess button')[{place}].click()"
    )
    return page.value("document.querySelectorAll('.y .moved').length"), said(page)


def said(page):
    return page.value("document.querySelector('.verdict').textContent")


@pytest.mark.parametrize(("kind", "norm"), NORMS)
def test_as_many_outputs_change_as_under_normkit(page, kind, norm):
    choose(page, "kind", kind), choose(page, "norm", norm)
    apply, reasons = NORMS[kind, norm], set()
    for index, action in enumerate(ACTIONS):
        x, edited = after(kind, action)
        count = int((abs(apply(edited) - apply(x)) > 5e-4).sum())
        assert kind == "cube" or count == COUNTS[norm][index]
        moved, words = predict(page, action)
        assert moved == count
        assert f"changed {count} of {x.size} outputs" in words
        assert ("Right." in words) == (count == 0)
        reasons.add(words.split("outputs. ")[1])
        np.testing.assert_allclose(outputs(page), apply(edited).ravel(), atol=1e-9)
    assert len(reasons) == 4


@pytest.mark.parametrize(("kind", "norm"), NORMS)
def test_outputs_are_those_of_normkit_after_any_edit(page, kind, norm):
    choose(page, "kind", kind), choose(page, "norm", norm)
    x, draws = {"table": TABLE, "cube": CUBE}[kind].copy(), np.random.default_rng(0)
    for _ in range(10):
        place, value = int(draws.integers(x.size)), float(draws.integers(-30, 60) / 4)
        x.flat[place] = value
        page.value(
            f"(input => {{ input.value = {value}; input.dispatchEvent(new Event('input')) }})"
            f"(document.querySelectorAll('.x input')[{place}])"
        )
        np.testing.assert_allclose(outputs(page), NORMS[kind, norm](x).ravel(), atol=1e-9)


def key(page, name, **more):
    for kind in ("keyDown", "keyUp"):
        page.ask("Input.dispatchKeyEvent", type=kind, key=name, **more)


def test_a_number_is_reached_moved_and_typed_with_the_keyboard(page):
    page.value("document.querySelector('[name=norm]').focus()")
    key(page, "Tab", windowsVirtualKeyCode=9)
    assert page.value("document.activeElement.ariaLabel") == "example 1, feature 1"
    key(page, "ArrowUp", windowsVirtualKeyCode=38)
    edited = TABLE.copy()
    edited[0, 0] = 10
    np.testing.assert_allclose(outputs(page), normkit.layer_norm(edited).ravel(), atol=1e-9)
    assert said(page).startswith("This edit changed 4 of 12 outputs.")
    page.value("document.activeElement.select()")
    page.ask("Input.insertText", text="-3.5")
    edited[0, 0] = -3.5
    np.testing.assert_allclose(outputs(page), normkit.layer_norm(edited).ravel(), atol=1e-9)
    page.value("document.querySelector('.reset').click()")
    np.testing.assert_allclose(outputs(page), normkit.layer_norm(TABLE).ravel(), atol=1e-9)


def test_a_number_is_dragged(page):
    x, y = json.loads(
        page.value(
            "document.querySelector('.x').scrollIntoView();"
            "(box => JSON.stringify([box.x + 9, box.y + 9]))"
            "(document.querySelectorAll('.x input')[5].getBoundingClientRect())"
        )
    )
    steps = [("mousePressed", y), ("mouseMoved", y - 12), ("mouseMoved", y - 24)]
    for kind, where in [*steps, ("mouseReleased", y - 24)]:
        held = {"button": "left", "buttons": 1, "clickCount": 1}
        page.ask("Input.dispatchMouseEvent", type=kind, x=x, y=where, **held)
    edited = TABLE.copy()
    edited[1, 1] += 3
    np.testing.assert_allclose(outputs(page), normkit.layer_norm(edited).ravel(), atol=1e-9)
    assert page.value("document.querySelectorAll('.y .moved').length") == 4


def test_it_counts_right_predictions_from_the_second_on(page):
    assert "predicted" not in predict(page, "one", 3)[1]
    assert predict(page, "one", 1)[1].endswith("1 of 2 predicted.")


def test_it_speaks_each_language(browser, site):
    first = {"en": "1.18", "fr": "1,18", "zh": "1.18"}
    messages = set()
    for lang in LANGUAGES:
        page = shown(browser, site, lang)
        assert page.value("document.querySelector('.y .value').textContent") == first[lang]
        for kind, norm in NORMS:
            choose(page, "kind", kind), choose(page, "norm", norm)
            for action in ACTIONS:
                words = predict(page, action)[1]
                assert "undefined" not in words and "{" not in words
                messages.add((lang, words.split(". ")[1] if lang == "en" else words))
        assert (
            page.value("document.querySelectorAll('[aria-live], [role=status], output').length")
            == 1
        )
        assert not errors(page)
    assert len(messages) > 3 * 20


def test_on_paper_and_without_modules_the_figure_stays(browser, site):
    browser.events.clear()
    browser.open((site[0] / "en.html").as_uri())
    browser.value("new Promise(done => setTimeout(done, 300))")
    assert not errors(browser)
    assert browser.value("document.querySelector('#still p').checkVisibility()")
    assert not browser.value("document.querySelector('.who')")
    page = shown(browser, site, "en")
    assert not page.value("document.querySelector('#still p').checkVisibility()")
    assert page.value("document.querySelector('#still figcaption').checkVisibility()")
    page.ask("Emulation.setEmulatedMedia", media="print")
    assert page.value("document.querySelector('#still p').checkVisibility()")
    assert not page.value("document.querySelector('.who').checkVisibility()")
    page.ask("Emulation.setEmulatedMedia", media="")


@pytest.mark.parametrize("width", [320, 390, 900, 1200, 3840])
def test_nothing_scrolls_sideways_and_everything_can_be_touched(browser, site, width):
    size = {"height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.ask("Emulation.setDeviceMetricsOverride", width=width, **size)
    page = shown(browser, site, "fr")
    for kind, norm in NORMS:
        choose(page, "kind", kind), choose(page, "norm", norm)
        assert page.value("document.documentElement.scrollWidth - innerWidth") <= 0
        low = page.value(
            "Math.min(..."
            "[...document.querySelectorAll('.x input, .picture :is(button, label, select)')]"
            ".map(e => e.getBoundingClientRect().height || 99))"
        )
        assert low >= 44
    page.ask("Emulation.clearDeviceMetricsOverride")


@pytest.mark.parametrize("lang", LANGUAGES)
def test_it_is_light(lang):
    parts = [written(lang).encode(), *(file.read_bytes() for file in SITE.glob("pictures/who.*"))]
    assert sum(len(gzip.compress(part)) for part in parts) <= 15_000


def test_no_numbers_tie_and_every_change_can_be_seen():
    for rows in (TABLE, TABLE.T, CUBE):
        assert all(len(set(row)) == len(row) for row in rows)
    for (kind, _), apply in NORMS.items():
        for action in ACTIONS:
            x, edited = after(kind, action)
            change = abs(apply(edited) - apply(x))
            assert not ((change > 5e-4) & (change < 0.03)).any()
