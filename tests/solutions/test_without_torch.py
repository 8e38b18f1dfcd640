"""Where PyTorch is not installed: tasks in NumPy run, the others say what to type."""

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from press.run import read

SOLUTIONS = Path(__file__).parents[2] / "solutions"
NAMES = sorted(path.stem for path in SOLUTIONS.glob("*.md"))
PLAY = """
import json, sys
sys.modules["torch"] = None
names, errors = {"__name__": "__main__"}, []
for cell in json.load(sys.stdin):
    try:
        exec(cell, names)
        errors.append("")
    except Exception as error:
        errors.append(f"{type(error).__name__}: {error}")
print("\\n" + json.dumps(errors))
"""


@cache
def play(name):
    """The code cells, each with the number of its section and the error that it raises."""
    cells, section = [], 0
    for cell in read(SOLUTIONS / f"{name}.md").cells:
        section += len(re.findall(r"^## ", cell.source, re.MULTILINE))
        if cell.cell_type == "code":
            cells.append((section, cell.source))
    sources = json.dumps([source for _, source in cells])
    command = [sys.executable, "-c", PLAY]
    done = subprocess.run(command, input=sources, capture_output=True, text=True, check=True)
    errors = json.loads(done.stdout.splitlines()[-1])
    return [(*cell, error) for cell, error in zip(cells, errors, strict=True)]


@pytest.mark.parametrize("name", NAMES)
def test_every_task_in_numpy_is_right(name):
    played = play(name)
    in_torch = {section for section, source, _ in played if "torch" in source}
    numpy = [(source, error) for section, source, error in played if section not in in_torch]
    assert numpy and [(source, error) for source, error in numpy if error] == []


@pytest.mark.parametrize("name", NAMES)
def test_the_cell_that_needs_it_says_the_command(name):
    played = play(name)
    using = [(source, error) for _, source, error in played if "torch" in source]
    for source, error in using[:1]:  # the others come after it
        assert source.startswith('normkit.need("torch")\nimport torch')
        assert 'python -m pip install "normkit[torch]"' in error
