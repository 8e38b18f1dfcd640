"""Deep residual networks without norms: variances at the start, rates at which they train."""

import numpy as np
import pytest
import torch

from normkit.experiments.residuals import GAIN, METHODS, ResidualPerceptron, residual_methods
from normkit.without_norms import activation_gain, expected_scales


def test_the_variance_by_depth_is_as_derived():
    rows = residual_methods(lrs=[0.01], steps=1)
    start = {row["method"]: row["variance"] / row["variance"][0] for row in rows}
    assert 0.9 < np.log2(start["none"][-1]) / 16 < 1.05  # twice in each block
    assert 1.8 < start["scaled"][-1] < 3.2  # about e
    assert 12 < start["layer"][-1] < 19  # 1 + 16
    for method in ("skipinit", "fixup"):
        np.testing.assert_allclose(start[method], 1, rtol=1e-6)
    np.testing.assert_allclose(start["nf"], expected_scales(16) ** 2, rtol=0.15)
    assert 1 < start["dyt"][-1] < start["derf"][-1] < start["layer"][-1]


def test_without_norm_it_diverges_and_with_a_small_branch_it_trains(values):
    rows = residual_methods(["none", "layer", "skipinit"], lrs=[0.03], steps=40)
    accuracy = {row["method"]: row["accuracy"] for row in rows}
    assert np.isnan(accuracy.pop("none"))
    assert all(share > 0.8 for share in accuracy.values())
    assert np.isnan(values(rows, "loss", method="none")[0, -1])
    assert np.isfinite(values(rows, "loss", method="skipinit")).all()


@pytest.mark.proof
def test_a_large_rate_needs_a_norm_or_clipping(values):
    rows = residual_methods(seeds=(0, 1, 2))
    for method in METHODS:
        slow, fast = (values(rows, "accuracy", method=method, lr=lr) for lr in (0.03, 0.3))
        assert np.isnan(slow).all() if method == "none" else (slow > 0.9).all()
        if method in ("layer", "nf_agc"):
            assert (fast > 0.75).all()
        elif method in ("dyt", "derf"):
            assert (fast < 0.3).all()  # bounded, at chance
        else:
            assert np.isnan(fast).all()


def test_only_the_factor_of_skipinit_has_a_gradient_at_first():
    torch.manual_seed(0)
    model = ResidualPerceptron("skipinit", 3)
    model(torch.randn(5, 64)).square().sum().backward()
    for block in model.blocks:
        assert block.alpha.grad.abs() > 0
        assert all(not p.grad.any() for p in block.branch.parameters())


def test_the_scalars_of_fixup_have_a_tenth_of_the_rate():
    groups = ResidualPerceptron("fixup", 3).groups(0.1)
    assert [group["lr"] for group in groups] == [0.1, pytest.approx(0.01)]
    assert len(groups[1]["params"]) == 3 * 5 and len(groups[0]["params"]) == 3 * 2 + 4
    assert not ResidualPerceptron("nf", 3).groups(0.1)[1]["params"]


def test_the_constant_and_unknown_methods():
    assert pytest.approx(activation_gain(lambda z: np.maximum(z, 0)), rel=1e-6) == GAIN
    with pytest.raises(ValueError, match="methods must be a list of some of"):
        residual_methods(["rezero"])
