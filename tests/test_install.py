"""The wheel that the site serves, installed as the page says in an empty environment."""

import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from press.packs import build_wheel
from press.stage import WHEEL

ROOT = Path(__file__).parents[1]
TRIED = """
import sys, numpy, normkit
normkit.speak("zh")
normkit.diagnose(lambda *a: 1.0, "layer_norm/forward")
print(normkit.layer_norm(numpy.array([1.0, 3.0])).round(2))
normkit.LayerNorm(3)
"""


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """A folder with the wheel, and an environment that holds pip alone."""
    folder = tmp_path_factory.mktemp("empty")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        build_wheel(folder)
    venv.create(folder / "course", with_pip=True)
    return folder


def run(folder, *command):
    """Run its Python there, without what this process adds to the path."""
    python = folder / "course" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    return subprocess.run([python, "-I", *command], cwd=folder, capture_output=True, text=True)


def test_the_line_of_the_page_installs_what_runs_without_torch(empty):
    page = (ROOT / "book/exercises.md").read_text("utf-8")
    (line,) = re.findall(rf"^python (-m pip install \S*{WHEEL})$", page, re.MULTILINE)
    (wheel,) = empty.glob("*.whl")
    installed = run(empty, *line.replace(WHEEL, wheel.name).split())
    if "from versions: none" in installed.stderr:
        pytest.skip("no index of packages answers")
    assert installed.returncode == 0, installed.stderr
    tried = run(empty, "-c", TRIED)
    assert "layer_norm/forward" in tried.stdout and "[-1.  1.]" in tried.stdout, tried.stderr
    assert re.search("[\u4e00-\u9fff]", tried.stdout)
    assert 'python -m pip install "normkit[torch]"' in tried.stderr.splitlines()[-1]
