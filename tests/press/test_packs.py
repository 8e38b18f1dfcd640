"""What a student downloads: the released notebook and the package, nothing that gives answers."""

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from press import LANGUAGES
from press.packs import packs
from press.stage import EXERCISES

ROOT = Path(__file__).parents[2]
SOLUTIONS = sorted(path.stem for path in (ROOT / "solutions").glob("*.md"))


@pytest.fixture(params=LANGUAGES)
def zips(request, monkeypatch):
    monkeypatch.chdir(ROOT)
    found = dict(packs(EXERCISES / request.param, lambda name: f"# {name} {request.param}\n"))
    return request.param, {
        name: zipfile.ZipFile(io.BytesIO(content)) for name, content in found.items()
    }


def test_there_is_one_for_each_assignment(zips):
    assert sorted(zips[1]) == [f"{name}.zip" for name in SOLUTIONS]


def test_it_holds_the_notebook_of_the_language_and_what_installs_normkit(zips):
    language, found = zips
    for name in SOLUTIONS:
        archive = found[f"{name}.zip"]
        released = EXERCISES / language / name / f"{name}.ipynb"
        assert archive.read(f"{name}/{name}.ipynb") == released.read_bytes()
        assert archive.read(f"{name}/README.md").decode() == f"# {name} {language}\n"
        assert archive.read(f"{name}/pyproject.toml") == Path("pyproject.toml").read_bytes()
        held = {entry.removeprefix(f"{name}/") for entry in archive.namelist()}
        wanted = {path.as_posix() for path in Path("normkit").rglob("*.py")}
        assert wanted | {"locale/fr/normkit.po", "locale/zh/normkit.po"} < held


def test_no_answer_and_no_hidden_test_travels_with_it(zips):
    for archive in zips[1].values():
        for entry in archive.namelist():
            text = archive.read(entry).decode("utf-8")
            assert "BEGIN SOLUTION" not in text and "BEGIN HIDDEN" not in text, entry


def test_it_knows_the_address_of_the_site(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("NORMKIT_BOOK", "https://example.org/course/")
    content = dict(packs(EXERCISES / "fr", str))["layer_norm.zip"]
    zipfile.ZipFile(io.BytesIO(content)).extractall(tmp_path)
    answer = 'import normkit; normkit.diagnose(lambda *a: 1.0, "layer_norm/forward")'
    done = subprocess.run(
        [sys.executable, "-c", answer],
        cwd=tmp_path / "layer_norm",
        env={k: v for k, v in os.environ.items() if k != "NORMKIT_BOOK"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "https://example.org/course/en/layer_norm.html" in done.stdout


def test_the_same_files_make_the_same_zip(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert list(packs(EXERCISES / "en", str)) == list(packs(EXERCISES / "en", str))
