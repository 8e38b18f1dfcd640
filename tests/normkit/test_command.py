"""`python -m normkit examine`, as a reader types it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import normkit
from normkit.__main__ import main

MODULE = """
import torch
from torch import nn

def sound():
    return nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8)), (3 * torch.randn(4, 8) + 1,)

def constant():
    model = nn.Sequential(nn.Linear(8, 8), nn.GroupNorm(8, 8))
    return {"model": model, "inputs": torch.randn(4, 8)}

class Outside(nn.Module):
    def forward(self, x):
        root = x.float().square().mean(-1, keepdim=True).sqrt()
        return (x / (root + 1e-4)).to(x.dtype)

def folded():
    return nn.Sequential(nn.Linear(8, 8), Outside()), 3 * torch.randn(4, 8) + 1

def noted():
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
    return {"model": model, "inputs": [3 * torch.randn(16, 8) + 1]}
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    (tmp_path / "models.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "models", raising=False)

    def command(*arguments):
        status = main(["examine", *arguments])
        normkit.speak("en")
        return status, capsys.readouterr()

    return command


def test_the_module_is_found_where_the_command_is_typed(tmp_path):
    (tmp_path / "models.py").write_text(MODULE)
    known = {**os.environ, "PYTHONPATH": str(Path(normkit.__file__).parents[1])}
    line = [sys.executable, "-m", "normkit", "examine", "models:sound"]
    told = subprocess.run(line, cwd=tmp_path, env=known, capture_output=True, text=True)
    assert told.returncode == 0 and "Sequential" in told.stdout, told.stderr


def test_the_status_says_how_bad_it_is(run):
    status, told = run("models:constant", "--language", "fr")
    assert status == 1 and "one_value_per_group" in told.out
    assert run("models:noted")[0] == 0
    status, told = run("models:noted", "--fail-on", "note", "--json")
    assert status == 1 and json.loads(told.out)["findings"][0]["name"] == "bias_before_norm"
    assert run("models:constant", "--ignore", "one_value_per_group")[0] == 0
    assert run("models:constant", "--only", "bias_before_norm")[0] == 0


def test_a_name_that_no_finding_has_is_refused(run):
    for option in ("--only", "--ignore"):
        status, told = run("models:constant", option, "one_value_per_gruop")
        assert status == 2 and "one_value_per_gruop" in told.err
    assert run("models:constant", "--ignore", "sum_of_squares")[0] == 1  # of the catalogue


def test_a_consequence_is_kept_or_left_out_like_any_finding(run):
    shown = run("models:folded", "--json")[1].out
    (cause,) = json.loads(shown)["findings"]
    assert cause["level"] == "warning" and cause["consequences"][0]["level"] == "error"
    effect = cause["consequences"][0]["name"]
    assert run("models:folded")[0] == 1  # a consequence counts
    assert run("models:folded", "--ignore", effect)[0] == 0
    for options in (("--only", effect), ("--ignore", cause["name"])):
        status, told = run("models:folded", *options, "--json")
        assert status == 1
        assert [f["name"] for f in json.loads(told.out)["findings"]] == [effect]


def test_a_terminal_that_lacks_the_letters_gets_question_marks(tmp_path):
    (tmp_path / "models.py").write_text(MODULE)
    known = {**os.environ, "PYTHONPATH": str(Path(normkit.__file__).parents[1])}
    line = [sys.executable, "-m", "normkit", "examine", "models:sound", "--language", "zh"]
    known |= {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    told = subprocess.run(line, cwd=tmp_path, env=known, capture_output=True, text=True)
    assert told.returncode == 0 and "Sequential" in told.stdout and "?" in told.stdout


def test_what_cannot_be_examined_is_said_with_status_2(run):
    status, told = run("models:nothing")
    assert status == 2 and "nothing" in told.err and "Traceback" not in told.err
    assert "package.module:function" in run("models")[1].err
