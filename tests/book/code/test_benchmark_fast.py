"""The measurement of the fast path: what it compares computes the same, and its tables."""

import json
import subprocess

import numpy as np
import pytest
import torch

import normkit
from book.code import benchmark_fast

SHAPES = [(2, 4, 8), (3, 2, 16)]


@pytest.mark.parametrize("name", benchmark_fast.layers(1))
def test_what_is_compared_computes_the_same(name):
    x = torch.randn(5, 6)
    eager, *others = benchmark_fast.layers(6)[name].values()
    for layer in others:
        torch.testing.assert_close(layer(x), eager(x))


def test_one_loop_adds_and_normalises():
    x, h = np.random.default_rng(0).normal(size=(2, 4, 6)).astype(np.float32)
    gamma, z, y = np.arange(6, dtype=np.float32), np.empty_like(x), np.empty_like(x)
    benchmark_fast.add_rms_norm(x, h, gamma, 1e-5, z, y)
    np.testing.assert_array_equal(z, x + h)
    np.testing.assert_allclose(y, normkit.rms_norm(x + h, gamma, 1e-5), rtol=1e-5)


@pytest.fixture(scope="module")
def found():
    return benchmark_fast.measure(SHAPES, [3, 2], compiling=False)


def test_a_record_for_every_layer_shape_and_step(found):
    assert json.loads(json.dumps(found)) == found
    records = {(r["what"], r["by"], r["shape"], r["step"]): r for r in found["records"]}
    assert len(records) == len(found["records"]) == len(SHAPES) * (3 * 3 * 2 + 3)
    assert all(r["best"] >= 0 and r["median"] >= 0 for r in records.values())
    assert list(found["bandwidth"]) == list(map(str, SHAPES))


def test_the_tables_have_a_line_for_each(found, monkeypatch):
    text = benchmark_fast.table(found | {"skipped": {"torch.compile": "CppCompileError"}})
    for record in found["records"]:
        assert f"{record['what']:14} {record['by']}" in text
    assert text.count("a copy moves") == text.count("forward.") == 2
    assert text.endswith("torch.compile could not run here: CppCompileError.")


def test_it_measures_in_a_process_of_its_own(monkeypatch):
    def child(command, env, **options):
        assert command[2:] == ["--measure", "--quick"]
        assert env.items() >= benchmark_fast.BENCHMARK["SETTINGS"].items()
        return subprocess.CompletedProcess(command, 0, stdout='noise\n{"records": []}\n')

    monkeypatch.setattr(subprocess, "run", child)
    assert benchmark_fast.run(quick=True) == {"records": []}


def test_the_data_of_the_page_are_what_the_command_writes():
    data = json.loads(benchmark_fast.DATA.read_text("utf-8"))
    assert list(data["bandwidth"]) == list(map(str, benchmark_fast.SHAPES))
    assert data["command"] == "python book/code/benchmark_fast.py --write"
    for shape in map(str, benchmark_fast.SHAPES):
        by = [r["by"] for r in data["records"] if (r["shape"], r["what"]) == (shape, "RMSNorm")]
        assert set(by) == {"eager", "normkit", "fast", "torch.compile"}
