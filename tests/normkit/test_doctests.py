"""The examples in docstrings, as a reader would try them."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((ROOT / "normkit").rglob("*.py"))
    if any(">>> " in line and "+SKIP" not in line for line in path.read_text("utf-8").splitlines())
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module(name):
    found = doctest.testmod(import_module(name))
    assert found.attempted and not found.failed


def test_there_are_examples():
    assert len(MODULES) > 5
