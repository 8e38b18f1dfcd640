"""Tasks: found by name, drawn from a seed, and observed where what judges is not installed."""

import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import normkit
from normkit.tutor.judging import judge
from normkit.tutor.observing import Observation
from normkit.tutor.programs import find_program
from normkit.tutor.tasks import every_task, find, first_half, part

PACKAGE = Path(normkit.__file__).parent
OBSERVED = """
import builtins, pickle, sys
folder, torch = sys.argv[1:]
sys.path.insert(0, folder)
if torch == "absent":
    sys.modules["torch"] = None  # as if it were not installed
import normkit
from normkit.tutor.observing import observe
assert normkit.__file__.startswith(folder)
done = {}
for task, (source, name, probes) in pickle.load(sys.stdin.buffer).items():
    known = {"program": lambda made: made, "__name__": "answer"}
    exec(source, known)
    answer = known[name]
    done[task] = observe(answer, task, 7, probes).to_bytes()
for absent in ("judging", "mistakes", "programs", "layer_norm.programs"):
    assert "normkit.tutor." + absent not in sys.modules
sys.stdout.buffer.write(pickle.dumps(done))
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A package with nothing but what runs beside a student's code."""
    folder = tmp_path_factory.mktemp("first_half")
    for file in first_half():
        (folder / "normkit" / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PACKAGE / file, folder / "normkit" / file)
    return folder


def module_of(program):
    return sys.modules[find_program(program).knows["__name__"]]


def source_of(program):
    """The right programs of a module, as a student may have written them; of a test, a poor one."""
    if program.startswith("find_the_bug/"):  # a right one needs the mended program
        return f"def {program.rpartition('/')[2]}(function):\n    function"
    lines = Path(module_of(program).__file__).read_text("utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith("from normkit.tutor.programs"))


def needs_torch(task):
    return hasattr(module_of(task.programs[0]), "torch")


@pytest.mark.parametrize("torch", ["absent", "there"])
def test_answers_are_observed_where_what_judges_them_is_absent(package, torch):
    tasks = {n: t for n, t in every_task().items() if needs_torch(t) == (torch == "there")}
    work = {}
    for name, task in tasks.items():
        program = task.programs[0]
        work[name] = source_of(program), program.rpartition("/")[2], drawn_here(name)
    done = subprocess.run(
        [sys.executable, "-I", "-c", OBSERVED, str(package), torch],
        input=pickle.dumps(work),
        capture_output=True,
    )
    assert not done.returncode, done.stderr.decode()[-2000:]
    for name, data in pickle.loads(done.stdout).items():
        verdict = judge(Observation.from_bytes(data), name, 7)
        poor = tasks[name].programs[0].startswith("find_the_bug/")
        assert verdict.passed != poor, verdict.explain()


def drawn_here(name):
    """The probes that need the catalogue: those that hold programs, for a test to try."""
    return find(name).draw(7) if name.startswith("find_the_bug/") else None


def test_an_unknown_task_is_named():
    with pytest.raises(ValueError, match=r"no task 'layernorm'; .*layer_norm/forward"):
        find("layernorm")


def test_a_part_keeps_some_probes_and_what_it_is_part_of():
    whole = find("layer_norm/forward")
    rows = part("layer_norm/rows", whole, lambda x, **_: x.ndim == 2)
    assert rows.whole == whole.name and rows.chapter == whole.chapter
    assert 0 < len(rows.draw(0)) < len(whole.draw(0))
    assert all(probe.inputs["x"].ndim == 2 for probe in rows.draw(0))


@pytest.mark.parametrize("name", every_task())
def test_a_seed_always_draws_the_same(name):
    one, other = (every_task()[name].draw(3) for _ in range(2))
    for a, b in zip(one, other, strict=True):
        assert a.name == b.name and a.inputs.keys() == b.inputs.keys()
        for key, value in a.inputs.items():
            if isinstance(value, np.ndarray):
                np.testing.assert_array_equal(value, b.inputs[key])


def test_the_probes_tell_axes_apart():
    for probe in find("layer_norm/forward").draw(0):
        x, gamma, beta = (probe.inputs[name] for name in ("x", "gamma", "beta"))
        assert gamma.shape == beta.shape == x.shape[-1:]
        assert len(set(x.shape)) == x.ndim or "square" in probe.name
        assert "worked" in probe.name or np.ptp(gamma) > 0.1
