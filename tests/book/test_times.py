"""What a chapter promises: its reading time is the one that is counted, and it stays short."""

import re
from pathlib import Path

import pytest

from press.reading import length

BOOK = Path(__file__).parents[2] / "book"
PROMISE = re.compile(r"\*You need: .*?About\s+(\d+)\s+minutes", re.S)
CHAPTERS = (
    *("why", "layer_norm", "batch_norm", "group_instance_norm", "rms_norm", "dyt", "placement"),
    *("choosing", "cost", "interview", "jax"),
)
LONGEST = 3500  # open words


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_can_be_read_in_one_sitting_as_long_as_it_says(name):
    page = (BOOK / f"{name}.md").read_text("utf-8")
    found, said = length(page), PROMISE.search(page)
    assert found.words <= LONGEST
    assert said and int(said[1]) == found.minutes
