"""The pages as notebooks to download: plain Markdown, which runs where only normkit is."""

import re

import nbformat
import pytest
from nbclient import NotebookClient

from press import LANGUAGES
from press.commands import SITE

MYST = r":::|`\{|\{[a-z:]+\}`|\\begin\{split\}|\]\((?!https?://)"  # relative links lead nowhere


@pytest.fixture(scope="module")
def notebooks(built):
    found = {path: nbformat.read(path, 4) for path in SITE.glob("*/notebooks/*.ipynb")}
    assert len(found) >= 11 * len(LANGUAGES)
    return found


def text(notebook):
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    return re.sub(r"base64,[^\"]*", "", "\n\n".join(cells))


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_they_are_plain_markdown(notebooks):
    for path, notebook in notebooks.items():
        nbformat.validate(notebook)
        words = re.sub(r"(```|\$\$).*?\1", "", text(notebook), flags=re.S)
        assert not re.findall(MYST, words), path
        assert words.startswith("# ") and "normkit-" in words.split("\n\n")[1], path
        assert set(re.findall(r"<(\w+) ", words)) <= {"img"}, path


def test_pages_without_code_offer_none(notebooks):
    offered = {
        SITE / language / "notebooks" / f"{page.stem}.ipynb"
        for language in LANGUAGES
        for page in (SITE / language).glob("*.html")
        if f'href="notebooks/{page.stem}.ipynb"' in page.read_text("utf-8")
    }
    assert offered == set(notebooks)
    assert all(code(notebook) for notebook in notebooks.values())


def test_nothing_hidden_is_in_them(notebooks):
    for path, notebook in notebooks.items():
        source = "\n".join(cell.source for cell in code(notebook))
        assert "same(" not in source and "normkit.tutor" not in source, path


def ran(notebook, folder):
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": folder}}).execute()


def test_one_runs_in_an_empty_folder(notebooks, tmp_path):
    ran(notebooks[SITE / "fr/notebooks/interview.ipynb"], tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.proof
def test_each_runs_in_an_empty_folder(notebooks, tmp_path):
    for path, notebook in notebooks.items():
        if "en" in path.parts:
            ran(notebook, tmp_path)
