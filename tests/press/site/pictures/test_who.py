"""Picture 1, who shares a mean: its numbers are normkit's."""

import numpy as np
import pytest

import normkit
from press import LANGUAGES
from tests.pictures import choose, drag, errors, key, numbers, put, said, shown

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


def after(kind, action):
    """The numbers before and after an action."""
    x, (*places, how) = {"table": TABLE, "cube": CUBE}[kind], ACTIONS[action]
    place, edited = places[kind == "cube"], x.copy()
    edited[place] = how(edited[place])
    return x, edited


def outputs(page):
    return numbers(page, ".y [data-value]")


def predict(page, action, place=0):
    """Take an action and guess; return how many outputs changed, and what is said of it."""
    page.value(
        f"document.querySelector('.ask select').value = '{action}';"
        "document.querySelector('.ask select').dispatchEvent(new Event('change'));"
        f"document.querySelectorAll('.guess button')[{place}].click()"
    )
    return page.value("document.querySelectorAll('.y .moved').length"), said(page)


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
        put(page, ".x input", value, place)
        np.testing.assert_allclose(outputs(page), NORMS[kind, norm](x).ravel(), atol=1e-9)


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
    drag(page, ".x input", (0, -24), 5)
    edited = TABLE.copy()
    edited[1, 1] += 3
    np.testing.assert_allclose(outputs(page), normkit.layer_norm(edited).ravel(), atol=1e-9)
    assert page.value("document.querySelectorAll('.y .moved').length") == 4


def test_a_number_is_typed_as_the_language_writes_it(browser, site):
    page, edited = shown(browser, site[1], "who", "fr"), TABLE.copy()
    for text, value in [("-3,5", -3.5), ("−3,5", -3.5), ("-3.5", -3.5)]:
        put(page, ".x input", text)
        edited[0, 0] = value
        np.testing.assert_allclose(outputs(page), normkit.layer_norm(edited).ravel(), atol=1e-9)
    page.value("document.querySelector('.x input').dispatchEvent(new Event('blur'))")
    assert page.value("document.querySelector('.x input').value") == "−3,5"


def test_it_counts_right_predictions_from_the_second_on(page):
    assert "predicted" not in predict(page, "one", 3)[1]
    assert predict(page, "one", 1)[1].endswith("1 of 2 predicted.")


def test_it_speaks_each_language(browser, site):
    first = {"en": "1.18", "fr": "1,18", "zh": "1.18"}
    messages = set()
    for lang in LANGUAGES:
        page = shown(browser, site[1], "who", lang)
        assert page.value("document.querySelector('.y .value').textContent") == first[lang]
        for kind, norm in NORMS:
            choose(page, "kind", kind), choose(page, "norm", norm)
            for action in ACTIONS:
                words = predict(page, action)[1]
                assert "undefined" not in words and "{" not in words
                messages.add((lang, words.split(". ")[1] if lang == "en" else words))
        assert not errors(page)
    assert len(messages) > 3 * 20


def test_no_numbers_tie_and_every_change_can_be_seen():
    for rows in (TABLE, TABLE.T, CUBE):
        assert all(len(set(row)) == len(row) for row in rows)
    for (kind, _), apply in NORMS.items():
        for action in ACTIONS:
            x, edited = after(kind, action)
            change = abs(apply(edited) - apply(x))
            assert not ((change > 5e-4) & (change < 0.03)).any()
