"""The benchmark: what it compares computes the same, and its table has what it promises."""

import json
import subprocess

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import normkit
from book.code import benchmark

SHAPES = [(2, 4, 8), (3, 2, 16)]
SQUASHED = {"DyT": torch.tanh, "Derf": torch.erf}


def draw(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("name", [*benchmark.VARIANTS, "numba"])
@pytest.mark.parametrize("shape", [(5,), (1, 7), (600, 12), (2, 3, 4, 5), (3, 1)])
def test_all_variants_are_layer_normalisation(name, shape):
    variant = benchmark.VARIANTS[name] if name != "numba" else benchmark.with_numba()
    x, gamma, beta = 3 * draw(*shape) + 2, draw(shape[-1]), draw(shape[-1])[::-1]
    before = x.copy()
    right = normkit.layer_norm(*(array.astype(float) for array in (x, gamma, beta)), eps=0.1)
    y = variant(x, gamma, beta, eps=0.1)
    assert (y.dtype, y.shape) == (np.float32, shape)
    assert_allclose(y, right, atol=1e-5)
    assert_allclose(variant(x, gamma, beta), variant(x, gamma, beta, eps=1e-5))
    assert (x == before).all()


def test_rms_variants_agree():
    naive, ours = benchmark.RMS_VARIANTS.values()
    assert_allclose(naive(draw(4, 6), draw(6)), ours(draw(4, 6), draw(6)), rtol=1e-5)


@pytest.mark.parametrize("name", SQUASHED)
def test_the_plain_modules_compute_what_normkit_does(name):
    layer = getattr(normkit, name)(5)
    with torch.no_grad():
        for seed, parameter in enumerate(layer.parameters()):
            parameter += 0.1 * (seed + 1)
    x = torch.from_numpy(draw(3, 5))
    torch.testing.assert_close(benchmark.Plain(layer, SQUASHED[name])(x), layer(x))


@pytest.fixture
def found(monkeypatch):
    def missing():
        raise ModuleNotFoundError

    monkeypatch.setattr(benchmark, "COMPILERS", {"a compiler": missing})
    return benchmark.measure(SHAPES, [3, 2])


def test_a_record_for_every_layer_variant_shape_and_step(found):
    assert json.loads(json.dumps(found)) == found
    records = {(r["what"], r["by"], r["shape"], r["step"]): r for r in found["records"]}
    assert len(records) == len(found["records"])
    for shape in map(str, SHAPES):
        for what, pair in benchmark.layers(SHAPES[0]).items():
            for step in benchmark.STEPS:
                assert {(what, by, shape, step) for by in pair} <= records.keys()
                assert records[what, next(iter(pair)), shape, step]["speed"] == 1
        for by in benchmark.VARIANTS:
            assert ("layer_norm in NumPy", by, shape, "forward") in records
    assert all(r["copies"] > 0 and r["speed"] > 0 and r["spread"] >= 0 for r in found["records"])
    assert found["skipped"] == {"a compiler": "ModuleNotFoundError"}


def test_the_table_has_a_line_for_each_and_says_how_it_was_measured(found):
    text = benchmark.table(found)
    lines = text.splitlines()
    for record in found["memory"]:
        (line,) = (li for li in lines if li.split()[:2] == [record["what"], record["by"]])
        assert line.count("×") == 4 and line.endswith(f"{record['copies']:.2f}")
    assert sum("in NumPy" in line for line in lines) == len(benchmark.VARIANTS) + 2
    assert max(map(len, lines[:2])) == len(lines[2])
    assert all(str(shape) in lines[0] for shape in SHAPES)
    assert "One thread; MALLOC_MMAP_THRESHOLD_=1073741824" in text
    assert "a compiler could not run here: ModuleNotFoundError." in text


@pytest.mark.parametrize("name", benchmark.layers(SHAPES[0]))
def test_no_layer_needs_more_memory_than_that_of_torch(name, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    shape = (16, 64, 1024)  # four blocks of rows
    theirs, ours = (
        benchmark.peak(layer, shape) for layer in benchmark.layers(shape)[name].values()
    )
    assert 2 <= ours <= theirs  # y and dx at least


def test_it_measures_in_a_process_of_its_own(monkeypatch):
    def child(command, env, **options):
        assert command[2:] == ["--measure", "--quick"]
        assert env.items() >= benchmark.SETTINGS.items()
        return subprocess.CompletedProcess(command, 0, stdout='noise\n{"records": []}\n')

    monkeypatch.setattr(subprocess, "run", child)
    assert benchmark.run(quick=True) == {"records": []}
