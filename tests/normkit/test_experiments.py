"""Experiments: the numbers that the course relies on, at a small size and with wide margins."""

import io
import math
import sys

import numpy as np
import pytest
import torch
from torch import nn

from normkit import experiments
from normkit.experiments.training import (
    checkpoints,
    draw_batches,
    fit,
    summary,
    table,
    with_population_statistics,
)
from normkit.experiments.transformers import NORMS
from normkit.layers import BatchNorm1d
from normkit.placement import CharacterTransformer

SMALL = {  # each experiment, as short as it can be
    "depth_sweep": {"placements": ["pre"], "depths": [1], "steps": 3},
    "elongated_bowl": {},
    "gradient_norms": {"depths": [2]},
    "names_model": {"starts": ["small"], "at": [0, 20]},
    "running_mean": {"momenta": [0.1]},
    "running_statistics": {"momenta": [0.1], "at": [5, 10]},
    "s_curve": {"layers": 1, "steps": 3, "tokens": 40},
    "same_task": {"norms": ["rms", "dyt"], "layers": 1, "steps": 3},
    "saturation": {"gains": [1.0], "layers": 2, "width": 16},
    "small_batches": {"batches": [32], "norms": ["batch", "none"], "passes": 1},
    "trainability": {"norms": ["batch"], "lrs": [0.1], "layers": 1, "passes": 1},
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


def values(rows, of, **settings):
    found = [row[of] for row in rows if all(row[name] == v for name, v in settings.items())]
    assert found, settings
    return np.array(found)


# --- Tables -----------------------------------------------------------------------------------


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


def test_torch_is_as_it_was_after_an_error_too():
    def fail(generator, norm):
        torch.rand(1)
        raise RuntimeError("no")

    before = torch.get_rng_state()
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(RuntimeError, match="no"):
            table("failing", fail, norm=["batch"], seed=[0])
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(torch.get_rng_state(), before)


def test_all_combinations_with_the_same_numbers():
    def draw(generator, a, b):
        yield {"weight": torch.rand(1).item(), "batch": torch.rand(1, generator=generator).item()}

    rows = table("drawing", draw, a=[1, 2], b="xy", seed=[0, 1])
    assert [(row["a"], row["b"], row["seed"]) for row in rows] == [
        (a, b, seed) for a in (1, 2) for b in "xy" for seed in (0, 1)
    ]
    for what in ("weight", "batch"):
        assert len(set(values(rows, what, seed=0))) == len(set(values(rows, what, seed=1))) == 1
        assert values(rows, what, seed=0)[0] != values(rows, what, seed=1)[0]


def test_the_summary_of_several_seeds():
    rows = [{"lr": lr, "seed": s, "loss": lr * (s - 1) ** 2} for lr in (1, 2) for s in range(4)]
    assert summary(rows, "loss", ["lr"]) == [
        {"lr": 1, "median": 1, "least": 0, "greatest": 4},
        {"lr": 2, "median": 2, "least": 0, "greatest": 8},
    ]
    assert len(summary(rows, "loss", ["lr", "seed"])) == 8 and summary([], "loss", []) == []


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


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: run("trainability", norms=["rms"]), 'norms must be .*"none", "batch".*\'rms\''),
        (lambda: run("trainability", activations=["gelu"]), "activations must .*'gelu'"),
        (lambda: run("small_batches", norms="batch"), "norms must be a list .*'b'"),
        (lambda: run("small_batches", norms=["batch", ""]), "in it is ''"),
        (lambda: run("saturation", norms=["Batch"]), "'Batch'"),
        (lambda: run("names_model", starts=["xavier"]), "starts must .*'xavier'"),
        (lambda: run("same_task", norms=["group"]), 'norms must .*"layer", "rms".*\'group\''),
        (lambda: run("depth_sweep", placements=["before"]), "placement must .*'before'"),
        (lambda: run("small_batches", batches=[2000]), "1 to 1437 examples.*not 2000"),
        (lambda: run("running_mean", momenta=[1]), "between 0 and 1.*got 1"),
        (lambda: run("elongated_bowl", tolerance=0), "tolerance must be positive.*it is 0"),
    ],
)
def test_what_is_refused(use, message):
    with pytest.raises(ValueError, match=message):
        use()


# --- Training ---------------------------------------------------------------------------------


def toy(seed=0):
    generator = torch.Generator().manual_seed(seed)
    model = nn.Linear(3, 2)
    for parameter in model.parameters():
        nn.init.normal_(parameter, generator=generator)
    x, y = torch.randn(20, 3, generator=generator), torch.randint(2, (20,), generator=generator)
    return model, [(x, y)] * 6


def test_fit_is_gradient_descent():
    model, batches = toy()
    losses = fit(model, batches, torch.optim.SGD(model.parameters(), 0.5))
    by_hand, ((x, y), *_) = toy()
    for loss in losses:
        now = nn.functional.cross_entropy(by_hand(x), y)
        assert loss == pytest.approx(now.item(), rel=1e-6)
        gradients = torch.autograd.grad(now, list(by_hand.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(by_hand.parameters(), gradients, strict=True):
                parameter -= 0.5 * gradient
    torch.testing.assert_close(model.weight, by_hand.weight)


def test_the_rate_warms_up():
    model, batches = toy()
    optimiser, rates = torch.optim.SGD(model.parameters(), 0.8), []
    model.register_forward_pre_hook(lambda *_: rates.append(optimiser.param_groups[0]["lr"]))
    fit(model, batches, optimiser, warmup=4)
    assert rates == pytest.approx([0.2, 0.4, 0.6, 0.8, 0.8, 0.8])


def test_pauses_change_nothing():
    (one, batches), (other, _) = toy(), toy()
    fit(one, batches, torch.optim.SGD(one.parameters(), 0.5))
    optimiser, weights, modes = torch.optim.SGD(other.parameters(), 0.5), [], []
    other.register_forward_pre_hook(lambda *_: modes.append(other.training))
    for step in checkpoints(other, batches, optimiser, at=[4, 0, 6]):
        other.eval()
        weights.append((step, other.weight.clone()))
    assert [step for step, _ in weights] == [0, 4, 6]
    assert torch.equal(weights[-1][1], one.weight)
    assert torch.equal(weights[0][1], toy()[0].weight)
    assert len(modes) == 6 and all(modes)  # although each look leaves it in evaluation


@pytest.mark.parametrize("size", [1, 4, 10])
def test_batches_go_through_the_data(size):
    x = torch.arange(10)
    batches = draw_batches(x, -x, size, 3 * (10 // size), torch.Generator().manual_seed(0))
    assert len(batches) == 3 * (10 // size)
    assert all(len(x) == size and torch.equal(x, -y) for x, y in batches)
    passes = np.array([x.tolist() for x, _ in batches]).reshape(3, -1)
    assert all(len(set(each)) == len(each) for each in passes.tolist())
    assert not (passes == passes[0]).all()


def test_population_statistics_are_those_of_all_data():
    x = 3 * torch.randn(50, 4, generator=torch.Generator().manual_seed(0)) + 2
    model = nn.Sequential(BatchNorm1d(4), nn.Linear(4, 4))
    settled = with_population_statistics(model.eval(), x)
    torch.testing.assert_close(settled[0].running_mean, x.mean(0))
    torch.testing.assert_close(settled[0].running_var, x.var(0))
    assert not settled.training and model[0].running_mean.eq(0).all()
    assert model[0].momentum == 0.1


# --- What the course relies on ----------------------------------------------------------------


@pytest.fixture(scope="module")
def sigmoids():
    return experiments.trainability(["sigmoid"], lrs=[0.1], seeds=[0, 1])


def test_batch_norm_makes_deep_sigmoids_train(sigmoids):
    assert values(sigmoids, "accuracy", norm="batch").min() >= 0.9
    assert values(sigmoids, "accuracy", norm="none").max() <= 0.2


def test_batch_norm_bears_a_greater_rate():
    rows = experiments.trainability(["relu"], lrs=[1.0], seeds=[0, 1])
    assert values(rows, "accuracy", norm="batch").min() > 0.75
    assert values(rows, "accuracy", norm="none").max() < 0.3


@pytest.fixture(scope="module")
def batches_of_two():
    return experiments.small_batches([2], ["batch", "layer"], seeds=[0, 1])


def test_batch_norm_fails_on_batches_of_two(batches_of_two):
    assert values(batches_of_two, "error", norm="batch").min() > 0.35
    assert values(batches_of_two, "error", norm="layer").max() < 0.2


def test_it_is_training_that_fails(batches_of_two):
    """Other statistics do not help, and the loss in training hardly fell."""
    assert values(batches_of_two, "population_error", norm="batch").min() > 0.35
    assert values(batches_of_two, "loss", norm="batch").min() > 1.5
    assert values(batches_of_two, "loss", norm="layer").max() < 0.25
    for norm, alike in (("batch", False), ("layer", True)):
        errors = (values(batches_of_two, of, norm=norm) for of in ("error", "population_error"))
        assert np.array_equal(*errors) == alike


def test_larger_batches_do_not_hurt_batch_norm():
    rows = experiments.small_batches([32], ["batch"], seeds=[0])
    assert values(rows, "error").max() < 0.1


def test_positions_count_as_examples():
    rows = experiments.small_batches([2], ["batch"], seeds=[0], convolutional=True, passes=1)
    assert values(rows, "error").max() < 0.15
    norms = ["none", "batch", "layer", "group"]
    rows = experiments.small_batches([32], norms, seeds=[0], convolutional=True, passes=1)
    assert len(set(values(rows, "loss"))) == 4


def test_slow_running_statistics_are_late():
    rows = experiments.running_statistics(momenta=[0.1, 0.001], at=[130], seeds=[0, 1])
    fast, slow = (values(rows, "running", momentum=m) for m in (0.1, 0.001))
    population = values(rows, "population", momentum=0.1)
    assert np.array_equal(population, values(rows, "population", momentum=0.001))
    assert (fast > population - 0.05).all() and (slow < population - 0.05).all()
    assert population.min() > 0.9


def test_delay_and_noise_of_a_running_mean():
    for row in experiments.running_mean(momenta=[0.1, 0.01]):
        assert row["steps"] == pytest.approx(row["expected_steps"], rel=0.08)
        assert row["std"] == pytest.approx(row["expected_std"], rel=0.1)
    (row,) = experiments.running_mean(momenta=[0.9])
    assert row["std"] == pytest.approx(0.320, rel=0.1)


@pytest.fixture(scope="module")
def bowls():
    return experiments.elongated_bowl()


def test_only_standardising_makes_the_bowl_round(bowls):
    bounds = {
        "raw": (4e4, 6e4),
        "centred": (8e3, 1.1e4),
        "scaled": (2e3, 3e3),
        "standardised": (1, 1.3),
    }
    for inputs, (low, high) in bounds.items():
        condition = values(bowls, "condition", inputs=inputs)
        assert low < condition.min() <= condition.max() < high, inputs
    assert values(bowls, "steps", inputs="raw").min() > 50_000
    assert values(bowls, "steps", inputs="standardised").max() <= 3


@pytest.mark.parametrize("inputs", ["scaled", "standardised"])
def test_steps_are_those_of_gradient_descent(bowls, inputs):
    from normkit.experiments.descent import _problems

    ((x, y),) = ((x, y) for name, x, y in _problems(0, 500) if name == inputs)
    (expected,) = values(bowls, "steps", inputs=inputs, seed=0)
    h, target = x.T @ x / 500, x.T @ y / 500
    rate, w, best = 1 / np.linalg.eigvalsh(h)[-1], np.zeros(4), np.linalg.lstsq(x, y)[0]
    least, steps = ((x @ best - y) ** 2).mean(), 0
    while ((x @ w - y) ** 2).mean() > 1.01 * least:
        w, steps = w - rate * (h @ w - target), steps + 1
    assert steps == expected


@pytest.fixture(scope="module")
def signals():
    return experiments.saturation(gains=[0.5, 3.0, 10.0])


def test_without_norm_the_signal_fades_or_saturates(signals):
    def plain(of, gain, layer):
        return values(signals, of, norm="none", gain=gain, layer=layer).item()

    assert plain("std", 0.5, 10) < 0.002
    assert plain("saturated", 3.0, 1) == pytest.approx(0.474, abs=0.04)
    assert plain("saturated", 3.0, 10) == pytest.approx(0.400, abs=0.04)
    assert plain("saturated", 10.0, 10) == pytest.approx(0.828, abs=0.04)
    assert plain("gradient", 10.0, 1) > 100 * plain("gradient", 10.0, 10)


@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_with_norm_the_gain_does_not_matter(signals, norm):
    for layer in (1, 10):
        assert values(signals, "std", norm=norm, layer=layer) == pytest.approx(0.63, abs=0.02)
        saturated = values(signals, "saturated", norm=norm, layer=layer)
        assert saturated == pytest.approx(0.034, abs=0.01) and np.ptp(saturated) < 1e-3
        gradients = [
            values(signals, "gradient", norm=norm, layer=layer, gain=gain).item()
            for gain in (0.5, 3.0, 10.0)
        ]
        assert gradients == pytest.approx([gradients[0], gradients[0] / 6, gradients[0] / 20], 0.02)


@pytest.fixture(scope="module")
def names():
    return experiments.names_model(["normal", "small"], at=[0, 500])


def test_the_names_model_starts_saturated_without_norm(names):
    def at(of, **settings):
        return values(names, of, **settings).item()

    assert at("saturated", start="normal", norm="none", step=0) == pytest.approx(0.68, abs=0.1)
    assert at("saturated", start="normal", norm="batch", step=0) < 0.06
    assert at("train", start="normal", norm="none", step=0) > 15
    assert at("train", start="small", norm="none", step=0) == pytest.approx(math.log(35), abs=0.1)
    for norm in ("none", "batch"):
        assert at("development", start="small", norm=norm, step=500) < 2.7
    bad, good = (at("development", start="normal", norm=n, step=500) for n in ("none", "batch"))
    assert bad > good + 1


@pytest.fixture(scope="module")
def depths():
    return experiments.depth_sweep(["post", "pre", "deep"], depths=[12])


def test_post_norm_is_stuck_at_12_layers(depths):
    """At the loss of a model that knows no more than how often each character comes."""
    (loss,), (entropy,) = (values(depths, of, placement="post") for of in ("loss", "entropy"))
    assert entropy == pytest.approx(2.92, abs=0.01)
    assert 2.85 <= loss == pytest.approx(entropy, abs=0.05)
    assert values(depths, "curve", placement="post")[0, -20:].mean() > 2.85


@pytest.mark.parametrize("placement", ["pre", "deep"])
def test_other_placements_train(depths, placement):
    assert values(depths, "loss", placement=placement) < 2.5
    (curve,) = values(depths, "curve", placement=placement)
    assert curve.shape == (150,) and curve[0] > 3 and curve[-20:].mean() < 2.55


@pytest.mark.parametrize("option", [{"warmup": 3}, {"qk_norm": "full"}, {"lr": 1e-2}])
def test_the_options_of_training_arrive(option):
    plain, other = (run("depth_sweep", **given)[0]["curve"] for given in ({}, option))
    assert plain[2] != other[2] and (plain[0] == other[0]) == ("qk_norm" not in option)


@pytest.fixture(scope="module")
def gradients():
    return experiments.gradient_norms(seeds=[0, 1])


def slope(gradients, placement):
    """Of the gradient of the last layer against the depth, both logarithmic."""
    depths = [4, 8, 16, 32, 64]
    norms = [
        values(gradients, "gradient", placement=placement, layers=n, layer=n).mean() for n in depths
    ]
    return np.polyfit(np.log(depths), np.log(norms), 1)[0]


@pytest.mark.parametrize(
    ("placement", "expected"), [("post", 0.08), ("pre", -0.45), ("deep", -0.48)]
)
def test_how_the_last_gradient_depends_on_depth(gradients, placement, expected):
    assert slope(gradients, placement) == pytest.approx(expected, abs=0.15)


def test_the_gradient_is_that_of_the_second_matrix(gradients):
    """The first matrix receives about half of it."""
    last = values(gradients, "gradient", placement="deep", layers=4, layer=4)
    assert last.mean() == pytest.approx(0.148, abs=0.04)


def test_only_deepnorm_starts_with_equal_gradients(gradients):
    def ratio(placement):
        ends = (
            values(gradients, "gradient", placement=placement, layers=64, layer=layer).mean()
            for layer in (64, 1)
        )
        return next(ends) / next(ends)

    assert 0.8 < ratio("deep") < 1.25 and ratio("pre") < 0.6
    assert len(values(gradients, "layer", placement="pre", layers=64, seed=0)) == 64


def test_layer_and_rms_norm_coincide_and_none_explodes():
    rows = experiments.same_task(["layer", "rms", "none"], layers=8, steps=60)
    layer, rms, none = (values(rows, "train", norm=n).item() for n in ("layer", "rms", "none"))
    assert layer == pytest.approx(rms, abs=0.05) and layer < 2.6
    assert not none < 2.9  # or not a number


def test_batch_norm_of_tokens_is_over_batch_and_positions():
    layer = NORMS["batch"](4)
    x = 3 * torch.randn(5, 7, 4, generator=torch.Generator().manual_seed(0)) + 2
    y = layer(x)
    assert y.shape == x.shape
    torch.testing.assert_close(y.mean((0, 1)), torch.zeros(4), atol=1e-5, rtol=0)
    torch.testing.assert_close(y.var((0, 1), correction=0), torch.ones(4), atol=1e-4, rtol=0)
    torch.testing.assert_close(layer.running_mean, 0.1 * x.mean((0, 1)))


def test_batch_norm_sees_the_future_in_training_only():
    torch.manual_seed(0)
    tokens = torch.randint(9, (4, 16))
    other = tokens.clone()
    other[0, -1] = (other[0, -1] + 1) % 9
    for norm, leaks in (("batch", True), ("layer", False)):
        model = CharacterTransformer(9, layers=2, norm=NORMS[norm])
        for training in (True, False):
            change = (model.train(training)(other) - model(tokens)).abs().amax(-1)
            seen = [bool(part.max() > 1e-4) for part in (change[0, :-1], change[1:])]
            assert seen == [leaks and training] * 2


def test_batch_norm_trains_the_transformer_too():
    (loss,) = values(experiments.same_task(["batch"], layers=2, steps=60), "train")
    assert loss < 2.6


def test_alpha_is_where_dyt_starts():
    one, other = (
        experiments.same_task(["dyt", "layer"], layers=1, steps=1, alpha=alpha)
        for alpha in (0.5, 1.0)
    )
    assert one[0] != other[0] and one[1] == other[1]


@pytest.fixture(scope="module")
def curves():
    return {row["norm"]: row for row in experiments.s_curve(steps=150)}


def test_the_final_norm_bends_and_the_first_hardly_does(curves):
    first, final = curves["first"], curves["final"]
    assert final["variation"] > 1.5 * first["variation"]
    assert final["far"] < 0.8 * final["near"] and first["far"] > 0.8 * first["near"]
    assert first["line"] > 0.93 and final["tanh"] > final["line"] + 0.005


@pytest.mark.parametrize("norm", ["first", "final"])
def test_each_token_is_a_straight_line(curves, norm):
    x, y, sigma = (curves[norm][name] for name in ("x", "y", "sigma"))
    assert x.shape == y.shape == (1024, 32) and sigma.shape == (1024,)
    centred = x - x.mean(1, keepdims=True)
    np.testing.assert_allclose(y, centred / sigma[:, None], rtol=1e-3, atol=1e-3)
    line, squashed = (curves[norm][name] for name in ("line", "tanh"))
    assert line <= squashed <= 1
    exact = 1 - np.linalg.lstsq(x.reshape(-1, 1), y.ravel())[1].item() / (y**2).sum()
    assert line == pytest.approx(exact)
