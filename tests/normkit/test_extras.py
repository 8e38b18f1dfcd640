"""What is missing is answered by the command that installs it."""

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from normkit import _extras, need, speak

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
PACKAGES = {"IPython": "ipython", "sklearn": "scikit-learn"}  # where it is not the module's name
HIDDEN = "import sys; sys.modules.update(dict.fromkeys({modules})); "


@pytest.fixture(autouse=True)
def english():
    yield
    speak("en")


def error_of(code, *hidden):
    """The last line that a fresh process prints in which some packages are absent."""
    code = HIDDEN.format(modules=hidden) + code
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    return done.stderr.strip().splitlines()[-1]


def test_the_wheel_itself_needs_numpy_and_array_api_compat_alone():
    names = [re.match(r"[\w-]+", line)[0] for line in PROJECT["project"]["dependencies"]]
    assert names == ["array-api-compat", "numpy"]


def test_every_extra_installs_the_modules_that_it_is_named_for():
    extras = PROJECT["project"]["optional-dependencies"]
    for module, extra in _extras.EXTRAS.items():
        names = [re.match(r"[\w-]+", line)[0] for line in extras[extra]]
        assert PACKAGES.get(module, module) in names


def test_what_is_there_is_imported():
    assert need("json").dumps([1]) == "[1]"


@pytest.mark.parametrize(
    ("code", "hidden", "extra"),
    [
        ("import normkit; normkit.LayerNorm(3)", "torch", "torch"),
        ("import normkit.folding", "torch", "torch"),
        ("import normkit.placement", "torch", "torch"),
        ("import normkit.experiments", "torch", "torch"),
        ("import normkit; normkit.need('torch')", "torch", "torch"),
        ("import normkit.equinox", "jax", "jax"),
        ("import normkit.equinox", "equinox", "jax"),
        ("import normkit.nnx", "flax", "jax"),
        ("from normkit import data; data.digits()", "sklearn", "experiments"),
        ("from normkit import data; data.french_names()", "faker", "experiments"),
        ("from normkit import plotting\nwith plotting.draw(): pass", "matplotlib", "plots"),
        ("from normkit import plotting; plotting.listing(print)", "IPython", "plots"),
    ],
)
def test_a_missing_package_is_answered_by_its_command(code, hidden, extra):
    said = error_of(code, hidden)
    assert said.startswith(f"ModuleNotFoundError: {hidden} is needed")
    assert f'. In a terminal, type: python -m pip install "normkit[{extra}]"' in said


def test_in_a_folder_that_is_not_installed_it_is_the_folder_s_extra(monkeypatch):
    def absent(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    told = str(_extras.missing(ModuleNotFoundError(name="torch.nn")))
    assert 'python -m pip install ".[torch]" --extra-index-url https://' in told


def test_what_no_extra_installs_stays_the_error_that_it_is():
    with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_module'"):
        need("no_such_module")
