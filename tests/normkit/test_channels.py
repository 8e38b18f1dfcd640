"""Batch, group and instance normalisation: against torch, worked numbers, identities, refusals."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from normkit import (
    batch_norm,
    batch_norm_backward,
    group_norm,
    group_norm_backward,
    instance_norm,
    instance_norm_backward,
    layer_norm,
)

SHAPES = [(6, 4), (3, 4, 7), (2, 4, 3, 5), (2, 4, 3, 2, 2), (1, 4, 3), (5, 4, 1, 1)]
BATCH = np.array([[1.0, 2], [3, 6], [5, 4], [7, 8]])
IMAGE = np.array([[[[1.0, 3]], [[5, 7]], [[0, 0]], [[2, 2]]]])


def draw(shape, parameters, seed=0):
    """x, dy and as many parameters, one number per channel, positive."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape) * rng.uniform(0.5, 3, shape) + 2
    return x, rng.normal(size=shape), *rng.uniform(0.5, 2, (parameters, shape[1]))


# --- BatchNorm --------------------------------------------------------------------------------


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("eps", [1e-5, 0.1])
@pytest.mark.parametrize("shape", SHAPES)
def test_batch_norm_agrees_with_torch(shape, eps, training, torch_gradients, same):
    x, dy, gamma, beta, mean, var = draw(shape, 4)

    def norm(x, gamma, beta, mean=mean, var=var):
        running = torch.tensor(mean), torch.tensor(var)
        y = functional.batch_norm(x, *running, gamma, beta, training, 0.3, eps)
        return y, *running

    options = dict(training=training, eps=eps)
    ours = batch_norm(x, gamma, beta, mean, var, momentum=0.3, **options)
    same(ours, norm(*map(torch.tensor, (x, gamma, beta))))
    gradients = torch_gradients(lambda *inputs: norm(*inputs)[0], dy, x, gamma, beta)
    same(batch_norm_backward(dy, x, gamma, mean, var, **options), gradients)


def test_batch_norm_by_hand(same):
    y, mean, var = batch_norm(BATCH, training=True, eps=0)
    column = [-1.3416, -0.4472, 0.4472, 1.3416]
    np.testing.assert_allclose(y[:, 0], column, atol=5e-5)
    np.testing.assert_allclose(y[:, 1], np.array(column)[[0, 2, 1, 3]], atol=5e-5)
    same((mean, var), ([0.4, 0.5], [0.9 + 0.1 * 20 / 3] * 2))
    y = batch_norm(np.array([[4.0, 5.0]]), None, None, mean, var, training=False)[0]
    np.testing.assert_allclose(y, [[2.8762, 3.5952]], atol=5e-5)
    dy = np.array([[1.0, 0], [0, 0], [0, 0], [0, 1]])
    dx = [[0.1342, 0.0894], [-0.1789, -0.1789], [-0.0447, -0.0447], [0.0894, 0.1342]]
    np.testing.assert_allclose(batch_norm_backward(dy, BATCH, training=True)[0], dx, atol=5e-5)


def test_two_examples_become_one_and_minus_one_and_learn_nothing(same):
    x, dy = np.array([[1.0], [3.0]]), np.array([[5.0], [-2.0]])
    same(batch_norm(x, training=True, eps=0)[:1], [[[-1], [1]]])
    np.testing.assert_allclose(batch_norm_backward(dy, x, training=True, eps=0)[0], 0, atol=1e-12)


def test_a_momentum_of_one_over_k_averages_all_batches(same):
    layer = torch.nn.BatchNorm1d(3, momentum=None).double()
    mean = var = None
    for k in range(1, 6):
        x = draw((7, 3), 0, seed=k)[0]
        _, mean, var = batch_norm(x, None, None, mean, var, training=True, momentum=1 / k)
        layer(torch.tensor(x))
    same((mean, var), (layer.running_mean, layer.running_var))


def test_inference_looks_at_one_example_and_changes_nothing():
    x, _, gamma, beta, mean, var = draw((6, 4, 3), 4)
    y, same_mean, same_var = batch_norm(x, gamma, beta, mean, var, training=False)
    assert same_mean is mean and same_var is var
    one = batch_norm(x[2:3], gamma, beta, mean, var, training=False)[0]
    assert (one == y[2:3]).all()


def test_statistics_stay_in_their_precision():
    x, _, mean, var = draw((6, 4), 2)
    x, mean = x.astype(np.float16), mean.astype(np.float64)
    y, mean, var = batch_norm(x, None, None, mean, var, training=True)
    assert (y.dtype, mean.dtype, var.dtype) == (np.float16, np.float64, np.float64)
    assert batch_norm(x, training=True)[1].dtype == np.float32


@pytest.mark.parametrize("shape", [(1, 4), (1, 4, 1), (0, 4, 3)])
def test_a_batch_of_one_value_is_refused(shape):
    with pytest.raises(ValueError, match=r"at least two values per channel.*has [01]\."):
        batch_norm(np.ones(shape), training=True)
    with pytest.raises(ValueError, match="at least two values per channel"):
        batch_norm_backward(np.ones(shape), np.ones(shape), training=True)


def test_other_bad_input_to_batch_norm():
    ones = np.ones(2)
    for momentum in (-0.1, 1.1):
        with pytest.raises(ValueError, match=f"between 0 and 1; it is {momentum}"):
            batch_norm(BATCH, training=True, momentum=momentum)
    for statistics in ((None, None), (ones, None), (None, ones)):
        with pytest.raises(ValueError, match="Inference needs running_mean and running_var"):
            batch_norm(BATCH, None, None, *statistics, training=False)
        with pytest.raises(ValueError, match="Inference needs running_mean and running_var"):
            batch_norm_backward(BATCH, BATCH, None, *statistics, training=False)
    with pytest.raises(ValueError, match=r"two axes, examples and channels: \(N, C, ...\)"):
        batch_norm(ones, training=True)
    with pytest.raises(ValueError, match=r"gamma must have shape \(3,\).*np\.moveaxis\(x, -1, 1\)"):
        batch_norm(np.ones((2, 3, 5)), np.ones(5), training=True)
    with pytest.raises(TypeError, match="training"):
        batch_norm(BATCH)


# --- GroupNorm and InstanceNorm ---------------------------------------------------------------


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != (1, 4, 1, 1)])
def test_group_norm_agrees_with_torch(shape, groups, torch_gradients, same):
    x, dy, gamma, beta = draw(shape, 2)

    def norm(x, gamma, beta):
        return functional.group_norm(x, groups, gamma, beta, 1e-3)

    same([group_norm(x, groups, gamma, beta, 1e-3)], [norm(*map(torch.tensor, (x, gamma, beta)))])
    right = torch_gradients(norm, dy, x, gamma, beta)
    same(group_norm_backward(dy, x, groups, gamma, 1e-3), right)


@pytest.mark.parametrize("shape", SHAPES[1:5])
def test_instance_norm_agrees_with_torch(shape, torch_gradients, same):
    x, dy, gamma, beta = draw(shape, 2)

    def norm(x, gamma, beta):
        return functional.instance_norm(x, weight=gamma, bias=beta)

    same([instance_norm(x, gamma, beta)], [norm(*map(torch.tensor, (x, gamma, beta)))])
    same(instance_norm_backward(dy, x, gamma), torch_gradients(norm, dy, x, gamma, beta))


def test_group_norm_by_hand():
    two = [[-1.3416, -0.4472], [0.4472, 1.3416], [-1, -1], [1, 1]]
    one = [[-0.6547, 0.2182], [1.0911, 1.9640], [-1.0911, -1.0911], [-0.2182, -0.2182]]
    np.testing.assert_allclose(group_norm(IMAGE, 2)[0, :, 0], two, atol=6e-5)
    np.testing.assert_allclose(group_norm(IMAGE, 1)[0, :, 0], one, atol=6e-5)
    four = [[-1, 1], [-1, 1], [0, 0], [0, 0]]
    np.testing.assert_allclose(instance_norm(IMAGE)[0, :, 0], four, atol=1e-5)


def test_one_group_is_layer_norm_and_as_many_as_channels_instance_norm(same):
    x = draw((3, 6, 2, 5), 0)[0]
    flat = layer_norm(x.reshape(3, -1)).reshape(x.shape)
    same([group_norm(x, 1), group_norm(x, 6)], [flat, instance_norm(x)])
    alone = batch_norm(x[:1], training=True)[0]
    same([instance_norm(x[:1])], [alone])


def test_bad_input_to_group_and_instance_norm():
    x = np.ones((2, 6, 3))
    for groups in (4, 0, -1, 12):
        with pytest.raises(ValueError, match=f"divide the number of channels, 6; it is {groups}"):
            group_norm(x, groups)
    for shape in [(2, 6), (2, 6, 1), (2, 6, 1, 1)]:
        with pytest.raises(ValueError, match="at least two positions per channel"):
            instance_norm(np.ones(shape))
        with pytest.raises(ValueError, match="at least two positions per channel"):
            instance_norm_backward(np.ones(shape), np.ones(shape))


# --- All --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("backward", "axis"),
    [
        (lambda dy, x: batch_norm_backward(dy, x, training=True, eps=0)[0], (0, 2, 3)),
        (lambda dy, x: instance_norm_backward(dy, x, eps=0)[0], (2, 3)),
        (lambda dy, x: group_norm_backward(dy, x, 1, eps=0)[0], (1, 2, 3)),
    ],
)
def test_the_gradient_leaves_the_statistics_as_they_are(backward, axis):
    x, dy = draw((3, 4, 2, 5), 0)
    dx = backward(dy, x)
    np.testing.assert_allclose(dx.sum(axis=axis), 0, atol=1e-12)
    np.testing.assert_allclose((dx * x).sum(axis=axis), 0, atol=1e-12)


@pytest.mark.parametrize(
    "norm",
    [
        lambda eps: batch_norm(BATCH, training=True, eps=eps),
        lambda eps: batch_norm_backward(BATCH, BATCH, training=True, eps=eps),
        lambda eps: group_norm(BATCH, 1, eps=eps),
        lambda eps: group_norm_backward(BATCH, BATCH, 1, eps=eps),
        lambda eps: instance_norm(IMAGE, eps=eps),
    ],
)
@pytest.mark.parametrize("eps", [-1e-5, float("nan")])
def test_a_negative_eps_is_refused(norm, eps):
    with pytest.raises(ValueError, match="eps must not be negative"):
        norm(eps)


@pytest.mark.parametrize(
    "norm",
    [
        lambda x: batch_norm(x, training=True)[0],
        lambda x: group_norm(x, 2),
        instance_norm,
    ],
)
@pytest.mark.parametrize("offset", [7.0, 33.3, -123456.7])
def test_a_constant_input_becomes_zero_and_a_large_mean_costs_no_digits(norm, offset):
    x = (draw((3, 4, 50), 0)[0] * 0.1 + offset).astype(np.float32)
    assert (norm(np.full_like(x, offset)) == 0).all()
    np.testing.assert_allclose(norm(x), norm(x.astype(float)), atol=1e-5)
