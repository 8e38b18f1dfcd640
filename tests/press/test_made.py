"""Whether there is anything to build: whatever is read or left counts."""

import pytest

from press import made


@pytest.fixture
def house(tmp_path, monkeypatch):
    """A project that was built."""
    monkeypatch.chdir(tmp_path)
    for name in (*(f"{folder}/a.md" for folder in made.FOLDERS), *made.FILES):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    for folder in (made.SITE, made.EXERCISES):
        folder.mkdir(parents=True)
        (folder / "made").write_text("made")
    (made.SITE / made.PYTHON).mkdir(parents=True)
    made.remember()
    return tmp_path


def test_what_was_built_is_current(house):
    assert made.is_current()


def test_a_site_that_was_built_without_python_is_built_again(house):
    (made.SITE / made.PYTHON).rmdir()
    assert not made.is_current()


@pytest.mark.parametrize("name", ["book/a.md", "locale/a.md", "_toc.yml", "_build/site/made"])
def test_a_file_that_changed_is_seen(house, name):
    (house / name).write_text("changed")
    assert not made.is_current()


@pytest.mark.parametrize("name", ["press/a.md", "exercises/made", "_build/made"])
def test_a_file_that_is_gone_is_seen(house, name):
    (house / name).unlink()
    assert not made.is_current()


def test_an_address_that_was_set_is_seen(house, monkeypatch):
    monkeypatch.setenv("NORMKIT_BOOK", "https://example.org/course")
    assert not made.is_current()
