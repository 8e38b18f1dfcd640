"""What a student downloads: the released notebook and the package, nothing that gives answers."""

import contextlib
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import normkit
from press import LANGUAGES
from press.packs import build_wheel, packs
from press.stage import EXERCISES

ROOT = Path(__file__).parents[2]
SOLUTIONS = sorted(path.stem for path in (ROOT / "solutions").glob("*.md"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    with contextlib.chdir(ROOT):
        return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module", params=LANGUAGES)
def zips(request, wheel):
    with contextlib.chdir(ROOT):
        of_language = EXERCISES / request.param
        found = dict(packs(of_language, lambda name: f"# {name} {request.param}\n", wheel))
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
        assert wanted | {"hatch_build.py", "normkit/locale/fr.mo", "normkit/py.typed"} < held


def test_no_answer_and_no_hidden_test_travels_with_it(zips):
    for archive in zips[1].values():
        for entry in archive.namelist():
            text = archive.read(entry).decode("utf-8", "replace")
            assert "BEGIN SOLUTION" not in text and "BEGIN HIDDEN" not in text, entry


def in_an_empty_environment(code, *places):
    """What a process prints that sees only these places beside what is installed."""
    paths = os.pathsep.join(map(str, places))
    environment = {k: v for k, v in os.environ.items() if k != "NORMKIT_BOOK"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=places[0],
        env=environment | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_it_knows_the_address_of_the_site(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("NORMKIT_BOOK", "https://example.org/course/")
    wheel = build_wheel(tmp_path / "wheel")
    content = dict(packs(EXERCISES / "fr", str, wheel))["layer_norm.zip"]
    zipfile.ZipFile(io.BytesIO(content)).extractall(tmp_path)
    code = 'import normkit; normkit.diagnose(lambda *a: 1.0, "layer_norm/forward")'
    said = in_an_empty_environment(code, tmp_path / "layer_norm")
    assert "https://example.org/course/en/layer_norm.html" in said


def test_the_wheel_speaks_every_language_without_babel_or_torch(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['torch', 'jax', 'babel', 'wcwidth']))\n"
        "import normkit, numpy; normkit.speak({language!r})\n"
        "from normkit.tutor.mistakes import combine\n"
        "normkit.diagnose(combine('layer_norm/layer_norm'), 'layer_norm/forward')\n"
        "normkit.diagnose(lambda *a: 1.0, 'layer_norm/forward')"
    )
    said = {
        language: in_an_empty_environment(code.format(language=language), tmp_path)
        for language in LANGUAGES
    }
    assert len({*said.values()}) == len(LANGUAGES)


def test_the_same_files_make_the_same_wheel_and_the_same_zip(monkeypatch, wheel, tmp_path):
    monkeypatch.chdir(ROOT)
    again = build_wheel(tmp_path)
    assert again.read_bytes() == wheel.read_bytes()
    assert list(packs(EXERCISES / "en", str, again)) == list(packs(EXERCISES / "en", str, wheel))


def test_an_older_wheel_goes(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    (tmp_path / "normkit-0.0.1-py3-none-any.whl").touch()
    assert [*tmp_path.glob("*")] != [wheel := build_wheel(tmp_path)] == [*tmp_path.glob("*")]
    assert normkit.__version__ in wheel.name
