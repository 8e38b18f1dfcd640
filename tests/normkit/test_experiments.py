"""What holds for every experiment, as short as it can be: seeds, tables, refusals."""

import io
import sys

import numpy as np
import pytest
import torch

from normkit import experiments
from normkit.experiments.training import draw_batches

SMALL = {  # each experiment, as short as it can be
    "depth_sweep": {"placements": ["pre"], "depths": [1], "steps": 3},
    "elongated_bowl": {},
    "gradient_norms": {"depths": [2]},
    "logit_growth": {"cures": ["qk_clip"], "steps": 3},
    "names_model": {"starts": ["small"], "at": [0, 20]},
    "residual_methods": {"methods": ["skipinit"], "lrs": [0.03], "blocks": 2, "steps": 3},
    "running_mean": {"momenta": [0.1]},
    "same_task": {"norms": ["rms", "dyt"], "layers": 1, "steps": 3},
    "saturation": {"gains": [1.0], "layers": 2, "width": 16},
    "trainability": {"norms": ["batch"], "lrs": [0.1], "layers": 1, "epochs": 1},
}
each = pytest.mark.parametrize("name", SMALL)


def run(name, **settings):
    return getattr(experiments, name)(**(SMALL[name] | {"seeds": [0]} | settings))


def same(a, b):
    """Equal to the last bit, and of the same type."""
    if isinstance(a, dict | list | tuple):
        values = (a.values(), b.values()) if isinstance(a, dict) else (a, b)
        return type(a) is type(b) and all(map(same, *values)) and len(a) == len(b)
    return type(a) is type(b) and np.array_equal(a, b)


def test_all_experiments_are_here():
    assert set(SMALL) == set(experiments.__all__) - {"summary"}


@each
def test_a_row_is_plain_numbers_and_arrays(name):
    rows = run(name)
    assert rows and len({tuple(row) for row in rows}) == 1  # the same columns in all
    kinds = {type(value) for row in rows for value in row.values()}
    assert kinds <= {int, float, str, np.ndarray}, kinds
    assert all("seed" in row for row in rows)


@each
def test_the_same_seed_gives_the_same_table(name):
    first = run(name)
    torch.manual_seed(7)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        torch.set_default_dtype(torch.float64)
        with torch.no_grad():
            assert same(run(name), first)
        assert torch.get_num_threads() == 2 and torch.get_default_dtype() == torch.float64
    finally:
        torch.set_num_threads(threads)
        torch.set_default_dtype(torch.float32)


@each
def test_a_run_does_not_depend_on_those_before_it(name):
    first, both = run(name), run(name, seeds=[5, 0])
    assert len(both) == 2 * len(first)
    again = [row for row in both if row["seed"] == 0]
    assert same(again, first)
    other = [row | {"seed": 0} for row in both if row["seed"] == 5]
    assert not same(other, first)


@each
def test_the_random_numbers_of_the_caller_stay(name):
    torch.manual_seed(3)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    np.random.seed(3)
    run(name)
    assert torch.equal(torch.get_rng_state(), before)
    assert np.random.rand() == np.random.RandomState(3).rand()
    assert torch.get_num_threads() == threads
    assert torch.get_default_dtype() == torch.float32 and torch.is_grad_enabled()


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_bar_is_for_terminals_and_does_not_stay(monkeypatch, capsys):
    run("trainability")
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    run("trainability")
    shown = terminal.getvalue()
    assert "trainability" in shown and "steps" in shown
    assert shown.split("\r")[-2].isspace()  # the last thing that it writes wipes the line


def test_without_tqdm(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(ModuleNotFoundError, match=r'tqdm.*pip install "normkit\[experiments\]"'):
        run("saturation")


def batches_of(size):
    return draw_batches(torch.ones(9, 1), torch.ones(9), size, 1, torch.Generator())


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: run("trainability", norms=["rms"]), 'norms must be .*"none", "batch".*\'rms\''),
        (lambda: run("trainability", activations=["gelu"]), "activations must .*'gelu'"),
        (lambda: run("trainability", norms="batch"), "norms must be a list .*'b'"),
        (lambda: run("trainability", norms=["batch", ""]), "in it is ''"),
        (lambda: run("saturation", norms=["Batch"]), "'Batch'"),
        (lambda: run("names_model", starts=["xavier"]), "starts must .*'xavier'"),
        (lambda: run("same_task", norms=["group"]), 'norms must .*"layer", "rms".*\'group\''),
        (lambda: run("depth_sweep", placements=["before"]), "placement must .*'before'"),
        (lambda: batches_of(10), "1 to 9 examples.*not 10"),
        (lambda: run("running_mean", momenta=[1]), "between 0 and 1.*got 1"),
        (lambda: run("elongated_bowl", tolerance=0), "tolerance must be positive.*it is 0"),
    ],
)
def test_what_is_refused(use, message):
    with pytest.raises(ValueError, match=message):
        use()


@pytest.mark.parametrize("option", [{"warmup": 3}, {"qk_norm": "full"}, {"lr": 1e-2}])
def test_the_options_of_training_arrive(option):
    plain, other = (run("depth_sweep", **given)[0]["curve"] for given in ({}, option))
    assert plain[2] != other[2] and (plain[0] == other[0]) == ("qk_norm" not in option)
