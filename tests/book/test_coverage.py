"""The table of coverage: every error of the sources is there once, and every link holds."""

import re
from pathlib import Path

import pytest

from normkit.tutor.listing import anchor, pages

TABLE = Path(__file__).with_name("coverage.md")
ERRORS = {"000": 13, "001": 22, "002": 9, "003": 11, "004": 7}
BLOCKS = [block.splitlines() for block in TABLE.read_text("utf-8").split("\n\n")]
ROWS = [row for lines in BLOCKS if lines[0].startswith("|") for row in lines[2:]]
LINK = re.compile(r"\[`([\w-]+)`\]\((\S+)\)")
LINKS = sorted({link for row in ROWS for link in LINK.findall(row)})


def test_every_error_stands_there_once():
    listed = re.findall(r"^\| (\d{3}-\d+) \|", "\n".join(ROWS), re.MULTILINE)
    assert listed == [f"{source}-{n + 1}" for source, last in ERRORS.items() for n in range(last)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split(" | ")[0].strip("| "))
def test_every_row_leads_somewhere(row):
    *said, places = row.strip("| ").split(" | ")
    assert all(said) and LINK.search(places) and not LINK.sub("", places).strip(", ")


@pytest.mark.parametrize(("label", "target"), LINKS)
def test_every_link_leads_to_its_label(label, target):
    page = TABLE.parent / target
    listed = {anchor(mistake) for mistake in pages().get(page.stem, [])}
    assert f"\n({label})=\n" in page.read_text("utf-8") or label in listed
    assert f"- file: {page.stem}\n" in TABLE.parents[2].joinpath("_toc.yml").read_text("utf-8")
