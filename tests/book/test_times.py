"""What pages promise: chapters can be read, and notebooks done, in the time that they say."""

import re
from pathlib import Path

import pytest

from press.reading import length

ROOT = Path(__file__).parents[2]
BOOK = ROOT / "book"
PROMISE = re.compile(r"\*You need: .*?About\s+(\d+)\s+minutes", re.S)
CHAPTERS = (
    *("why", "layer_norm", "batch_norm", "group_instance_norm", "rms_norm", "dyt", "placement"),
    *("choosing", "cost", "interview", "jax", "placements", "conditional", "decay", "outliers"),
    "without_norms",
    "inside",
    "systems",
)
LONGEST = 3500  # open words


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_can_be_read_in_one_sitting_as_long_as_it_says(name):
    page = (BOOK / f"{name}.md").read_text("utf-8")
    found, said = length(page), PROMISE.search(page)
    assert found.words <= LONGEST
    assert said and int(said[1]) == found.minutes


@pytest.mark.parametrize("source", sorted((ROOT / "solutions").glob("*.md")), ids=lambda p: p.stem)
def test_a_notebook_takes_as_long_as_its_tasks_and_is_worth_20_points(source):
    task = r"^\| \d+\. .* \| ([\d.]+) \| \w+ \| (\d+) min \|$"
    points, minutes = zip(*re.findall(task, source.read_text("utf-8"), re.M), strict=True)
    assert sum(map(float, points)) == 20
    row = rf"^\| {{doc}}.*<exercises/{source.stem}\.zip>.* \| (\d+) min \|$"
    said = re.search(row, (BOOK / "exercises.md").read_text("utf-8"), re.M)
    assert said and int(said[1]) == sum(map(int, minutes))
