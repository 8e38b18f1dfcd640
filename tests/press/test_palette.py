"""The palette: told apart, readable, and the one of the figures."""

import re

import pytest

from normkit import plotting
from press.palette import THEMES, paint, palette
from press.site import HERE

NAMES = {name for name in dir(plotting) if re.fullmatch(r"[A-D]|[A-Z]+(_FILL)?", name)}


def luminance(colour):
    """Relative luminance, after WCAG 2.2."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


@pytest.mark.parametrize("theme", THEMES)
def test_text_can_be_read_on_all_it_stands_on(theme):
    of = palette(theme)
    for ground in ("paper", "raised", "sunk"):
        for text in ("ink", "muted", "link", "shift", "scale", "right", "wrong"):
            assert contrast(of[text], of[ground]) >= 4.5, (text, ground)
    for fill in "abcd":
        for text in ("ink", "shift", "scale"):
            assert contrast(of[text], of[f"{fill}-fill"]) >= 4.5, (text, fill)
    assert contrast(of["right"], of["right-fill"]) >= 4.5
    assert contrast(of["wrong"], of["wrong-fill"]) >= 4.5
    assert contrast(of["paper"], of["ink"]) >= 7  # what is pressed


@pytest.mark.parametrize("theme", THEMES)
def test_lines_and_borders_can_be_seen(theme):
    of = palette(theme)
    for line in (*"abcd", "edge", "right", "wrong"):
        assert contrast(of[line], of["paper"]) >= 3, line


def test_both_themes_have_the_same_names():
    light, dark = map(palette, THEMES)
    assert light.keys() == dark.keys() and len(light) >= 20


def test_figures_use_the_colours_of_the_style_sheet():
    light = palette("light")
    colours = {
        name: value
        for name in NAMES
        if isinstance(value := getattr(plotting, name), str) and value.startswith("#")
    }
    assert {"A", "D_FILL", "SHIFT", "INK", "PAPER"} <= colours.keys()
    for name, value in colours.items():
        assert light[name.lower().replace("_", "-")] == value


def test_dark_values_are_for_the_screen_alone():
    css = (HERE / "static/book.css").read_text()
    assert re.search(r'@media screen \{[^{}]*html\[data-theme="dark"\] \{', css)


def test_a_painted_figure_has_both_themes_and_no_other_colour():
    svg = paint('<svg width="3"><path style="fill: #1F7BBF; stroke: #123456"/></svg>')
    assert 'fill: var(--a); stroke: #123456"' in svg  # what is foreign stays, to be found
    style = re.search(r"<style>(.*)</style>", svg)[1]
    assert "svg{--a:#1f7bbf}" in style
    assert "@media screen and (prefers-color-scheme: dark){svg{--a:#4aa8f5}}" in style
    assert svg.startswith('<svg width="3"><style>')
