"""Where there is no bubblewrap, the grader goes on in a container, once."""

import sys
from pathlib import Path

import pytest

from classroom import container, grade, grading
from classroom.sandbox import SandboxError


def test_the_container_has_the_course_and_no_network():
    made = container.command("podman", "image", Path("/a/course"), ["layer_norm", "--force"])
    assert made[-4:] == ["-m", "classroom.grade", "layer_norm", "--force"]
    assert made[made.index("--network") + 1] == "none"
    assert made[made.index("--volume") + 1] == "/a/course:/course"


def test_another_set_of_packages_is_another_image(monkeypatch, tmp_path):
    first = container.image()
    for file in (container.RECIPE, "requirements.txt", "pyproject.toml"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_bytes((container.ROOT / file).read_bytes())
    monkeypatch.setattr(container, "ROOT", tmp_path)
    assert container.image() == first
    (tmp_path / "requirements.txt").write_text("numpy==1")
    assert container.image() != first


@pytest.mark.parametrize(("engine", "goes_on"), [("podman", True), ("", False)])
def test_without_a_sandbox_it_goes_on_in_a_container_or_stops(monkeypatch, engine, goes_on):
    def refuse(*_):
        raise SandboxError("bwrap is missing.")

    asked = []
    monkeypatch.setattr(sys, "argv", ["grade", "layer_norm"])
    monkeypatch.setattr(grading, "grade_class", refuse)
    monkeypatch.setattr(container, "engine", lambda: engine)
    monkeypatch.setattr(container, "grade", lambda arguments: asked.append(arguments) or 0)
    with pytest.raises(SystemExit) as end:
        grade.main()
    assert asked == [["layer_norm"]] * goes_on
    assert end.value.code == (0 if goes_on else "No sandbox: bwrap is missing.")


def test_inside_a_container_there_is_no_other(monkeypatch):
    monkeypatch.setenv(container.INSIDE, "1")
    container.engine.cache_clear()
    assert container.engine() == ""
    container.engine.cache_clear()
