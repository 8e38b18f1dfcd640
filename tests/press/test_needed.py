import sys
from pathlib import Path
from subprocess import run

import pytest

from press.needed import PACKAGE, files, needed

FRONT = """\
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from normkit import later
    from normkit.layers import LayerNorm
"""
MODULES = {
    "__init__.py": FRONT,
    "functions.py": "",
    "layers.py": "def late():\n    from normkit.functions import layer_norm",
    "later.py": "",
    "lonely.py": "",
    "tutor/__init__.py": "",
    "tutor/tasks.py": "from normkit import lonely",
    "tutor/mistakes.diff": "",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("needed")
    for name, text in MODULES.items():
        path = root / PACKAGE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("program", "reached"),
    [
        ("", []),
        ("import numpy", []),
        ("import normkit.functions", ["functions.py"]),
        ("from normkit import later", ["later.py"]),
        ("import normkit\nnormkit.later", ["later.py"]),
        ("import normkit\nnormkit.LayerNorm", ["layers.py", "functions.py"]),
        ("from normkit import LayerNorm", ["layers.py", "functions.py"]),
        ("from normkit.layers import late", ["layers.py", "functions.py"]),
        (
            "from normkit.tutor import tasks",
            ["tutor/__init__.py", "tutor/tasks.py", "tutor/mistakes.diff", "lonely.py"],
        ),
        ("%time 1", list(MODULES)),  # not Python: perhaps anything
    ],
)
def test_a_program_reaches_what_it_imports(root: Path, program: str, reached: list[str]):
    names = {path.relative_to(root / PACKAGE).as_posix() for path in needed(program, root=root)}
    assert names == {"__init__.py", *reached}


@pytest.mark.parametrize(
    "program",
    [
        "import normkit; normkit.layer_norm",
        "from normkit.plotting import draw",
        "import normkit; normkit.examine",
        "from normkit.tutor.listing import listing",
        "from normkit import experiments",
    ],
)
def test_what_python_imports_is_reached(program: str):
    told = (
        f"import sys\n{program}\nprint(*(getattr(m, '__file__', '') for m in sys.modules.values()))"
    )
    done = run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    home = Path(PACKAGE).resolve()
    loaded = {Path(name) for name in done.stdout.split() if home in Path(name).parents}
    assert loaded <= {path.resolve() for path in needed(program)}
    assert needed(program) <= files(Path(PACKAGE))
