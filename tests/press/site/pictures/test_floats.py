"""Picture 7, numbers in a computer: each bit is that of NumPy and ml_dtypes."""

import json
import operator

import ml_dtypes
import numpy as np
import pytest

from normkit import variance
from tests.pictures import choose, drag, guess, key, put, said, shown

pytestmark = pytest.mark.needs("chromium")
FORMATS = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16, "float16": np.float16}
BITS = {"float32": (np.uint32, 32), "bfloat16": (np.uint16, 16), "float16": (np.uint16, 16)}
MEANS = [0, *(digit * 10**power for power in range(6) for digit in (1, 3)), 10**6]
SIZES = [float(f"1e{power}") for power in range(-4, 21)]
DEFAULT = MEANS.index(10_000), SIZES.index(1)
OPERATIONS = {
    "a + b": operator.add,
    "a - b": operator.sub,
    "a * b": operator.mul,
    "a / b": operator.truediv,
}


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def bits(values, name):
    whole, width = BITS[name]
    return [format(int(v), f"0{width}b") for v in np.atleast_1d(values).view(whole)]


def computed(page, name, expression, *operands):
    """What the picture's format makes of an expression of a and b, as bits."""
    told = json.dumps([np.asarray(v, float).tolist() for v in operands])
    found = page.ask(
        "Runtime.evaluate", awaitPromise=True, returnByValue=True,
        expression="import('./pictures/floats.js').then(m => {"
        f"const {{ round, bits }} = m.format('{name}'), [as, bs = as] = {told};"
        f"return as.map((a, i) => {{ const b = bs[i]; return bits(round({expression})) }}) }})",
    )  # fmt: skip
    return found["result"]["value"]


def anything(name, draws, count=3000):
    """Numbers of a format: every size, subnormal ones and infinity as well."""
    whole, _ = BITS[name]
    x = draws.integers(0, np.iinfo(whole).max, count, whole).view(FORMATS[name])
    return x[np.isfinite(x)][: count // 2]


def agree(found, wanted, name):
    """Bits agree; of nan there are many, and all are right."""
    real = ~np.isnan(wanted.astype(float))
    assert np.array(found)[real].tolist() == np.array(bits(wanted, name))[real].tolist()


@pytest.mark.parametrize("name", FORMATS)
def test_each_operation_rounds_as_numpy_does(page, name):
    draws = np.random.default_rng(0)
    a, b = anything(name, draws), anything(name, draws)
    near = (a.astype(float) * draws.uniform(-2, 2, len(a))).astype(FORMATS[name])
    for expression, apply in OPERATIONS.items():
        for other in (b[: len(a)], near):
            size = min(len(a), len(other))
            wanted = apply(a[:size], other[:size])
            agree(computed(page, name, expression, a[:size], other[:size]), wanted, name)
    agree(computed(page, name, "Math.sqrt(a)", abs(a)), np.sqrt(abs(a)), name)


@pytest.mark.parametrize("name", FORMATS)
def test_rounding_is_to_the_nearest_and_to_even(page, name):
    draws = np.random.default_rng(1)
    a = anything(name, draws)
    a = a[np.isfinite(np.nextafter(a, FORMATS[name](np.inf)))]
    middle = (a.astype(float) + np.nextafter(a, FORMATS[name](np.inf)).astype(float)) / 2
    close = [middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)]
    largest = float(ml_dtypes.finfo(FORMATS[name]).max)
    edges = largest * np.array([1, 1 + 2.0**-30, 1.1, -1.1])
    for values in (*close, edges):
        agree(computed(page, name, "a", values), as_format(values, name), name)


def as_format(values, name):
    """Rounded once: ml_dtypes goes through float32, which may round twice."""
    if name != "bfloat16":
        return values.astype(FORMATS[name])
    odd = values.astype(np.float32)
    # Round to odd first: what float32 cannot hold leaves its last bit set.
    toward = np.where(abs(odd.astype(float)) > abs(values), np.nextafter(odd, np.float32(0)), odd)
    inexact = toward.astype(float) != values
    toward = (toward.view(np.uint32) | inexact.astype(np.uint32)).view(np.float32)
    return toward.astype(ml_dtypes.bfloat16)


def ways(numbers, kind):
    """The variance in one pass and in two, each result rounded, and 1/√(σ² + ε) of both."""

    def mean(values):
        total = values[0]
        for value in values[1:]:
            total = kind(total + value)
        return kind(total / kind(4))

    x = [kind(v) for v in numbers]
    squares, mu = mean([kind(v * v) for v in x]), mean(x)
    square = kind(mu * mu)
    two = mean([kind(d * d) for d in (kind(v - mu) for v in x)])
    both = [kind(squares - square), two]
    roots = [kind(kind(1) / kind(np.sqrt(kind(v + kind(1e-5))))) for v in both]
    return x, [both[0], roots[0], both[1], roots[1]], [squares, square]


def state(page):
    script = "JSON.stringify([...document.querySelectorAll('{}')].map(e => e.dataset.value))"
    cells = [json.loads(page.value(script.format(f"{at} [data-value]"))) for at in (".four", "td")]
    table = page.value(script.format("td[data-value]"))
    terms = page.value("document.querySelector('.bits').dataset.bits").split(" ")
    return [float(v) for v in cells[0]], [float(v) for v in json.loads(table)], terms


@pytest.mark.parametrize("name", FORMATS)
def test_variances_are_those_of_numpy(page, name):
    choose(page, "format", name)
    draws = np.random.default_rng(2)
    places = [DEFAULT, *draws.integers((len(MEANS), len(SIZES)), size=(60, 2))]
    for mean, size in places:
        put(page, "[name=mean]", mean), put(page, "[name=size]", size)
        exact = MEANS[mean] + SIZES[size] * np.arange(1, 5)
        x, wanted, terms = ways(exact, FORMATS[name])
        inputs, table, found = state(page)
        assert inputs == [float(v) for v in x]
        np.testing.assert_allclose(table[:2], [s := 1.25 * SIZES[size] ** 2, (s + 1e-5) ** -0.5])
        np.testing.assert_array_equal(table[2:], np.array(wanted, float))
        if np.isfinite(np.array(terms, float)).all():
            assert found == bits(np.array(terms, FORMATS[name]), name)
        if name == "float32":
            own = [way(np.array(x)) for way in (variance.one_pass, variance.two_pass)]
            np.testing.assert_array_equal(table[2::2], np.array(own, float))


@pytest.mark.parametrize(
    ("name", "right", "place"), [("float32", -8, 2), ("bfloat16", 0, 1), ("float16", np.nan, 3)]
)
def test_the_right_answer_is_right(page, name, right, place):
    choose(page, "format", name)
    put(page, "[name=mean]", 3)
    np.testing.assert_equal(float(ways(10_000 + np.arange(1, 5), FORMATS[name])[1][0]), right)
    assert guess(page, place).startswith("✓")
    np.testing.assert_equal(state(page)[1][2], right)
    assert np.var([10001, 10002, 10003, 10004]) == 1.25


def test_the_keyboard_and_the_mouse_move_the_numbers(page):
    page.value("document.querySelector('[name=mean]').focus()")
    key(page, "ArrowLeft", windowsVirtualKeyCode=37)
    assert state(page)[0] == [3001, 3002, 3003, 3004]
    drag(page, "[name=size]", (60, 0))
    assert state(page)[0][3] - state(page)[0][0] > 100
    page.value("document.querySelector('.reset').click()")
    assert state(page)[0] == [10001, 10002, 10003, 10004]
    assert "Choose" in said(page)


def test_large_and_small_numbers_fit_a_narrow_page(browser, site):
    narrow = {"width": 320, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.ask("Emulation.setDeviceMetricsOverride", **narrow)
    page = shown(browser, site[1], "floats", "fr")
    for name in FORMATS:
        choose(page, "format", name)
        for size in range(0, len(SIZES), 3):
            put(page, "[name=size]", size)
            assert page.value("document.documentElement.scrollWidth - innerWidth") <= 0
    page.ask("Emulation.clearDeviceMetricsOverride")
