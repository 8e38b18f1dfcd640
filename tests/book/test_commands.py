"""The commands of the pages for instructors and students: each one exists, with its options."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [(ROOT / f"book/{name}.md").read_text("utf-8") for name in ("instructors", "exercises")]
TEXT = "\n".join(PAGES)
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")


@pytest.mark.parametrize("line", sorted(set(re.findall(r"python -m classroom\.\w+.*", TEXT))))
def test_a_module_knows_its_options(line):
    module = re.search(r"classroom\.(\w+)", line)[1]
    source = (ROOT / f"classroom/{module}.py").read_text("utf-8")
    options = re.findall(r"--[a-z-]+", line)
    if "option of" in line:  # the head of a table of options
        options = re.findall(r"^\| `(--[a-z-]+)", TEXT, re.MULTILINE)
        assert len(options) > 4
    assert all(f'"{option}"' in source for option in options)


@pytest.mark.parametrize("line", sorted(set(re.findall(r"\bmake [a-z]\w* ?[A-Z=\w]*", TEXT))))
def test_make_knows_its_targets(line):
    _make, target, *rest = line.split()
    if "=" in line or f"`make {target}`" in TEXT:
        assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)
        assert all(f"$({word.partition('=')[0]})" in MAKEFILE for word in rest if "=" in word)


@pytest.mark.parametrize("name", sorted(set(re.findall(r"classroom\.exports\.(\w+)", TEXT))))
def test_an_exporter_is_there(name):
    assert f"class {name}(" in (ROOT / "classroom/exports.py").read_text("utf-8")


@pytest.mark.parametrize("setting", sorted(set(re.findall(r"`c\.(\w+)\.(\w+) = ", TEXT))))
def test_a_setting_is_there(setting):
    owner, name = setting
    sources = [path.read_text("utf-8") for path in (ROOT / "classroom").glob("*.py")]
    assert any(f"class {owner}(" in text and f"\n    {name} = " in text for text in sources)
