"""The public face: what `import normkit` costs, shows, and promises to tools."""

import ast
import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import normkit

ROOT = Path(normkit.__file__).parent
# the modules whose functions and classes are offered as normkit's own
OFFERED = ["alternatives", "channels", "folding", "functions", "layers", "placement"]


def in_a_fresh_process(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def imported_for_type_checkers():
    """What stands under `if TYPE_CHECKING`: each module and the names from it."""
    tree = ast.parse((ROOT / "__init__.py").read_text("utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    return {line.module: " ".join(name.name for name in line.names) for line in block.body}


def test_importing_it_loads_neither_other_libraries_nor_the_tutor():
    loaded = in_a_fresh_process(
        "import sys, numpy, normkit; normkit.layer_norm(numpy.ones(3)); print(*sys.modules)"
    )
    foreign = ["torch", "jax", "babel", "wcwidth", "matplotlib", "sklearn", "IPython"]
    assert {*foreign, "normkit.tutor"}.isdisjoint(loaded)


def test_dir_shows_all_that_is_public():
    shown = in_a_fresh_process("import normkit; print(*dir(normkit))")
    assert {*normkit.__all__, "__version__"} <= {*shown}


def test_all_that_is_public_is_there():
    for name in normkit.__all__:
        assert getattr(normkit, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'Layernorm'"):
        _ = normkit.Layernorm


def test_it_offers_every_public_function_and_class_of_its_modules():
    for module in map(import_module, (f"normkit.{name}" for name in OFFERED)):
        defined = {
            name
            for name, thing in inspect.getmembers(module)
            if not name.startswith("_") and getattr(thing, "__module__", "") == module.__name__
        }
        assert defined <= {*normkit.__all__}, module.__name__


def test_type_checkers_see_what_is_imported_later():
    later = {f"normkit.{module}": names for module, names in normkit._LATER.items()}
    assert imported_for_type_checkers() == later | {"normkit": "variance"}
    assert (ROOT / "py.typed").exists()


@pytest.mark.parametrize("first", ["check", "diagnose", "LayerNorm"])
def test_each_name_stays_what_it_is_whichever_is_asked_for_first(first):
    code = f"import normkit; normkit.{first}\nfor _ in range(2): print("
    kinds = "type(normkit.check).__name__, type(normkit.diagnose).__name__)"
    assert {*in_a_fresh_process(code + kinds)} == {"function"}


def test_the_version_is_written_once():
    from importlib.metadata import version

    assert version("normkit") == normkit.__version__
    assert f"## {normkit.__version__}" in (ROOT.parent / "CHANGELOG.md").read_text("utf-8")
    assert normkit.__version__ not in (ROOT.parent / "pyproject.toml").read_text("utf-8")
