"""What all experiments are made of: tables, seeds, gradient descent, batches."""

import numpy as np
import pytest
import torch
from torch import nn

from normkit.experiments.training import (
    checkpoints,
    draw_batches,
    fit,
    summary,
    table,
    with_population_statistics,
)
from normkit.layers import BatchNorm1d


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


def test_all_combinations_with_the_same_numbers(values):
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
