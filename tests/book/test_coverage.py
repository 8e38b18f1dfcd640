"""The table of coverage: it has every error once, its links hold, and its topics are so taught."""

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
TOPICS = [row for lines in BLOCKS if lines[0] == "| topic | how | taught in |" for row in lines[2:]]
SHOWN = r"^```\{code-cell\}(?:(?!^```$|\btags: .*remove-(?:cell|input))[\s\S])*^```$"
HOW = {  # what one of the sections must hold
    "picture": r"^    alt: ",
    "table": r"^\|[-|: ]+\|$",
    "worked numbers": r"^\$\$$|\$[^$]*\d[^$]*\$",
    "code": SHOWN + r"|^```\{literalinclude\}",
    "experiment": r"\bseeds?\b|[Mm]easured",
    "proof": r"-proofs>`|[Dd]erivation",
    "exercise": r"<exercises/\w+\.zip>",
    "answer": r"^\*\*30 seconds\.\*\*",
}


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


@pytest.mark.parametrize("row", TOPICS, ids=lambda row: row.split(" | ")[0].strip("| "))
def test_a_topic_is_taught_as_the_table_says(row):
    _topic, how, places = row.strip("| ").split(" | ")
    sections = [section(*link) for link in LINK.findall(places)]
    for word in how.split(", "):
        assert any(re.search(HOW[word], text, re.MULTILINE) for text in sections), word


def test_every_topic_tells_how():
    assert len(TOPICS) > 60
    assert {word for row in TOPICS for word in row.split(" | ")[1].split(", ")} == set(HOW)


def section(label, target):
    """What stands under a label, down to the next heading of its level."""
    page = (TABLE.parent / target).read_text("utf-8")
    level, fenced, lines = 0, False, []
    for line in page.partition(f"\n({label})=\n")[2].splitlines():
        fenced ^= line.startswith("```")
        heading = None if fenced else re.match("#+ ", line)
        if heading and level and len(heading[0]) <= level:
            break
        level = level or (len(heading[0]) if heading else 0)
        lines.append(line)
    return "\n".join(lines)
