"""Experiments with Transformers: the numbers that the course relies on, with wide margins."""

import numpy as np
import pytest
import torch

from normkit import experiments
from normkit.data import unigram_entropy
from normkit.experiments import transformers
from normkit.experiments.training import loss
from normkit.experiments.transformers import NORMS
from normkit.placement import CharacterTransformer


def trained(placement):
    """The row of a model of 12 layers, which takes seconds to train."""
    return experiments.depth_sweep([placement], depths=[12])


def test_post_norm_is_stuck_at_12_layers(values):
    """At the loss of a model that knows no more than how often each character comes."""
    depths = trained("post")
    (loss,), (entropy,) = (values(depths, of) for of in ("loss", "entropy"))
    assert entropy == pytest.approx(2.92, abs=0.01)
    assert 2.85 <= loss == pytest.approx(entropy, abs=0.05)
    assert values(depths, "curve")[0, -20:].mean() > 2.85


@pytest.mark.parametrize("placement", ["pre", pytest.param("deep", marks=pytest.mark.proof)])
def test_other_placements_train(placement, values):
    depths = trained(placement)
    assert values(depths, "loss") < 2.5
    (curve,) = values(depths, "curve")
    assert curve.shape == (150,) and curve[0] > 3 and curve[-20:].mean() < 2.55


@pytest.fixture(scope="module")
def gradients():
    return experiments.gradient_norms(seeds=[0, 1])


def slope(values, gradients, placement):
    """Of the gradient of the last layer against the depth, both logarithmic."""
    depths = [4, 8, 16, 32, 64]
    norms = [
        values(gradients, "gradient", placement=placement, layers=n, layer=n).mean() for n in depths
    ]
    return np.polyfit(np.log(depths), np.log(norms), 1)[0]


@pytest.mark.parametrize(
    ("placement", "expected"), [("post", 0.08), ("pre", -0.45), ("deep", -0.48)]
)
def test_how_the_last_gradient_depends_on_depth(gradients, placement, expected, values):
    assert slope(values, gradients, placement) == pytest.approx(expected, abs=0.15)


def test_the_gradient_is_that_of_the_second_matrix(gradients, values):
    """The first matrix receives about half of it."""
    last = values(gradients, "gradient", placement="deep", layers=4, layer=4)
    assert last.mean() == pytest.approx(0.148, abs=0.04)


def test_only_deepnorm_starts_with_equal_gradients(gradients, values):
    def ratio(placement):
        ends = (
            values(gradients, "gradient", placement=placement, layers=64, layer=layer).mean()
            for layer in (64, 1)
        )
        return next(ends) / next(ends)

    assert 0.8 < ratio("deep") < 1.25 and ratio("pre") < 0.6
    assert len(values(gradients, "layer", placement="pre", layers=64, seed=0)) == 64


def test_layer_and_rms_norm_coincide_and_none_explodes(values):
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


def test_batch_norm_trains_the_transformer_too(values):
    (loss,) = values(experiments.same_task(["batch"], layers=2, steps=60), "train")
    assert loss < 2.6


def test_alpha_is_where_dyt_starts():
    one, other = (
        experiments.same_task(["dyt", "layer"], layers=1, steps=1, alpha=alpha)
        for alpha in (0.5, 1.0)
    )
    assert one[0] != other[0] and one[1] == other[1]


def test_the_trained_model_is_better_than_the_entropy_and_the_same_twice():
    first, text = transformers.trained(layers=1, steps=60)
    again, _ = transformers.trained(layers=1, steps=60)
    for a, b in zip(first.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)
    assert loss(first, *transformers._rows(text.development)) < unigram_entropy(text.train.numpy())
