"""The palette: the colours of the style sheet by name, for figures and for the tests."""

import re
from functools import cache

from press.site import HERE as SITE

STYLES = SITE / "static/book.css"
THEMES = {"light": r":root \{(.*?)\}", "dark": r'html\[data-theme="dark"\] \{(.*?)\}'}
VALUE = re.compile(r"--([\w-]+): (#[0-9a-f]{3,6});")


@cache
def palette(theme: str) -> dict[str, str]:
    """Return the colours of a theme, light or dark, as the style sheet has them."""
    css = STYLES.read_text("utf-8")
    rules = re.findall(THEMES[theme], css, re.DOTALL)
    return {name: _full(value) for rule in rules for name, value in VALUE.findall(rule)}


def _full(value: str) -> str:
    return value if len(value) == 7 else "#" + "".join(2 * digit for digit in value[1:])


def paint(svg: str) -> str:
    """Return a figure whose colours are variables, with their values for both themes.

    In an `<img>` the theme is the colour scheme of the element, where browsers know that, and
    otherwise the system's.
    """
    names = {value: name for name, value in reversed(palette("light").items())}
    used = set()

    def variable(found: re.Match) -> str:
        name = names.get(found[0].lower())
        used.add(name)
        return f"var(--{name})" if name else found[0]

    body = re.sub(r"#[0-9a-fA-F]{6}\b", variable, svg)
    light, dark = (_rule(theme, used) for theme in THEMES)
    style = f"<style>{light}@media screen and (prefers-color-scheme: dark){{{dark}}}</style>"
    return re.sub(r"(<svg\b[^>]*>)", lambda found: found[1] + style, body, count=1)


def _rule(theme: str, names: set) -> str:
    values = palette(theme)
    return f"svg{{{';'.join(f'--{name}:{values[name]}' for name in sorted(filter(None, names)))}}}"
