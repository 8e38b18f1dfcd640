"""What runs Python in the page: proved by hashes, small enough, and without what is hidden."""

import gzip
import io
import json
import zipfile
from pathlib import Path

import pytest

from press import LANGUAGES, PressError, workbench
from press.packs import build_wheel

MOST = 9e6  # bytes before the first check, with the editor


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """The folder of Python's files."""
    build_wheel()
    target = tmp_path_factory.mktemp("python")
    name = workbench.pack(target, LANGUAGES)
    assert name, "npm or PyPI did not answer: the site would be built without the workbench"
    return target / name


def names(packed, file):
    with zipfile.ZipFile(io.BytesIO(gzip.decompress((packed / file).read_bytes()))) as archive:
        return archive.namelist()


@pytest.mark.parametrize("language", LANGUAGES)
def test_it_is_small(packed, built, language):
    sizes = json.loads((packed / "sizes.json").read_text())
    assert sizes == {name: (packed / name).stat().st_size for name in sizes}
    loaded = [n for n in sizes if not n.startswith("normkit-") or n == f"normkit-{language}.zip.gz"]
    total = sum(
        size if name.endswith(".gz") else len(gzip.compress((packed / name).read_bytes()))
        for name, size in sizes.items()
        if name in loaded
    )
    scripts = [path for path in (built / "static/workbench").iterdir() if path.suffix != ".css"]
    total += sum(len(gzip.compress(path.read_bytes())) for path in scripts)
    assert total < MOST


def test_no_solution_and_no_seed_is_in_it(packed):
    for language in LANGUAGES:
        found = names(packed, f"normkit-{language}.zip.gz")
        assert "run.py" in found and "normkit/tutor/feedback.py" in found
        assert not [name for name in found if "solutions" in name or "classroom" in name]
        messages = [name for name in found if name.endswith(".mo")]
        assert messages == [f"normkit/locale/{language}.mo"] * (language != "en")


def test_the_same_files_have_the_same_name(packed, tmp_path):
    assert workbench.pack(tmp_path, LANGUAGES) == packed.name
    (tmp_path / "old").mkdir()
    workbench.pack(tmp_path, LANGUAGES)
    assert [path.name for path in tmp_path.iterdir()] == [packed.name]


def test_a_file_that_its_hash_does_not_prove_is_not_used(tmp_path):
    with pytest.raises(PressError, match="must have the SHA-256"):
        workbench._keep(tmp_path, "pyodide.mjs", b"export const evil = true")
    assert not list(tmp_path.iterdir())


def test_where_it_cannot_be_fetched_the_site_is_built_without(tmp_path, monkeypatch, capsys):
    def unreachable(*_):
        raise PressError("npm does not answer")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(workbench, "npm", unreachable)
    assert workbench.pack(tmp_path / "site", LANGUAGES) is None
    assert "WITHOUT the workbench: npm does not answer" in capsys.readouterr().out


def test_the_cache_lies_outside_the_build():
    assert Path("_build").absolute() not in workbench.cache().absolute().parents
