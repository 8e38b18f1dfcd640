"""DyT, Derf and weight normalisation: worked numbers, torch, refusals."""

import math

import numpy as np
import pytest
import torch

from normkit import (
    derf,
    derf_backward,
    dyt,
    dyt_alpha_init,
    dyt_backward,
    weight_norm,
    weight_norm_backward,
)

X = np.array([-2.0, -1, 0, 1, 2, 10])


def test_dyt_by_hand():
    expected = [-0.7616, -0.4621, 0, 0.4621, 0.7616, 0.9999]
    np.testing.assert_allclose(dyt(X), expected, atol=5e-5)
    dx = [0.2100, 0.3932, 0.5, 0.3932, 0.2100, 0.0001]
    dalpha = [-0.8399, -0.7864, 0, 0.7864, 0.8399, 0.0018]
    for i in range(6):
        found = dyt_backward(np.eye(6)[i], X)
        np.testing.assert_allclose(found[0][i], dx[i], atol=1e-4)
        np.testing.assert_allclose(found[1], dalpha[i], atol=5e-5)


def test_derf_by_hand():
    expected = [-0.8427, -0.5205, 0, 0.5205, 0.8427, 1.0000]
    np.testing.assert_allclose(derf(X), expected, atol=5e-5)
    np.testing.assert_allclose(derf(X, 1.0, -1.0)[3], 0)
    slope = derf_backward(np.ones(1), np.zeros(1), 0.5)[0]
    np.testing.assert_allclose(slope, 1 / math.sqrt(math.pi))


def test_numbers_may_be_plain_or_arrays_of_one():
    x, dy = np.random.default_rng(0).normal(size=(2, 3, 4))
    for alpha in (0.8, np.float64(0.8), np.array(0.8), np.array([0.8])):
        np.testing.assert_allclose(dyt(x, alpha), np.tanh(0.8 * x))
        assert dyt_backward(dy, x, alpha)[1].shape == np.shape(alpha)
        assert derf_backward(dy, x, alpha, alpha)[2].shape == np.shape(alpha)
    assert dyt(torch.ones(2), np.float64(0.8)).dtype == torch.float32
    for function in (dyt, derf):
        with pytest.raises(ValueError, match=r"alpha must be a single number.*\(4,\)"):
            function(x, np.ones(4))
    with pytest.raises(ValueError, match="shift must be a single number"):
        derf(x, 0.5, np.ones(4))
    with pytest.raises(TypeError, match="alpha must be an array, not a str"):
        dyt(x, "0.5")


def test_weight_norm_agrees_with_torch():
    rng = np.random.default_rng(0)
    for shape in [(4, 3), (4, 3, 2, 2)]:
        v, g, dw = rng.normal(size=shape), rng.normal(size=4), rng.normal(size=shape)
        tensors = torch.tensor(v, requires_grad=True), torch.tensor(g, requires_grad=True)
        w = torch._weight_norm(tensors[0], tensors[1].reshape(-1, *[1] * (v.ndim - 1)), 0)
        w.backward(torch.tensor(dw))
        np.testing.assert_allclose(weight_norm(v, g), w.detach(), atol=1e-12)
        for ours, tensor in zip(weight_norm_backward(dw, v, g), tensors, strict=True):
            np.testing.assert_allclose(ours, tensor.grad, atol=1e-12)


def test_weight_norm_sets_the_length_and_its_gradient_is_at_right_angles():
    rng = np.random.default_rng(0)
    v, g, dw = rng.normal(size=(4, 3)), rng.uniform(1, 2, 4), rng.normal(size=(4, 3))
    np.testing.assert_allclose(np.linalg.norm(weight_norm(v, g), axis=1), g)
    np.testing.assert_allclose((weight_norm_backward(dw, v, g)[0] * v).sum(1), 0, atol=1e-12)
    for wrong in (np.ones(3), np.ones((4, 1))):
        with pytest.raises(ValueError, match="g one number per output"):
            weight_norm(v, wrong)
    with pytest.raises(ValueError, match="v must have shape"):
        weight_norm(np.ones(3), np.ones(3))


def test_the_published_alphas():
    assert [dyt_alpha_init(width) for width in (4096, 5120, 8192)] == [
        (0.8, 0.2),
        (0.6, 0.15),
        (0.2, 0.05),
    ]
    with pytest.raises(ValueError, match="4096, 5120, 8192, not for 768"):
        dyt_alpha_init(768)
