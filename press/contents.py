"""The table of contents: its chapters in the order in which they are read."""

from collections.abc import Iterator
from typing import Any


def chapters(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the chapters of a part, each followed by the pages that belong to it."""
    for chapter in part.get("chapters", []):
        yield chapter
        yield from chapter.get("sections", [])
