"""The Flax NNX modules: torch's numbers, statistics that change in place, under nnx.jit too."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

import normkit
from normkit.nnx import BatchNorm, DyT, LayerNorm, RMSNorm

TORCH = {LayerNorm: torch.nn.LayerNorm, RMSNorm: torch.nn.RMSNorm, DyT: normkit.DyT}

pytestmark = pytest.mark.usefixtures("double_precision")


def draw(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(3, 2, shape))


def close(a, b):
    b = b.detach() if isinstance(b, torch.Tensor) else b
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-10, atol=1e-10)


def with_parameters(ours, theirs):
    """Both with the same random parameters, by name."""
    theirs = theirs.double()
    for seed, (name, parameter) in enumerate(theirs.named_parameters(), start=1):
        values = draw(*parameter.shape, seed=seed)
        getattr(ours, name)[...] = values
        parameter.data = torch.tensor(np.asarray(values))
    return ours, theirs


def compare(ours, theirs, x, dy):
    """The outputs, and the gradients of x and of every parameter."""

    def loss(model, x):
        y = model(x)
        return jnp.sum(y * dy), y

    (_, y), (gradient, dx) = nnx.value_and_grad(loss, argnums=(0, 1), has_aux=True)(ours, x)
    theirs.zero_grad()
    tx = torch.tensor(np.asarray(x), requires_grad=True)
    ty = theirs(tx)
    ty.backward(torch.tensor(np.asarray(dy)))
    close(y, ty)
    close(dx, tx.grad)
    named = dict(theirs.named_parameters())
    assert set(gradient) == set(named)
    for name, parameter in named.items():
        close(gradient[name][...], parameter.grad)


@pytest.mark.parametrize("layer", TORCH)
def test_over_the_features_it_is_torchs(layer):
    ours, theirs = with_parameters(layer(5), TORCH[layer](5))
    compare(ours, theirs, draw(2, 4, 5), draw(2, 4, 5, seed=9))


@pytest.mark.parametrize("shape", [(6, 3), (4, 3, 5)])
def test_batch_norm_is_torchs(shape):
    ours = BatchNorm(3, momentum=0.3, eps=0.1)
    ours, theirs = with_parameters(ours, torch.nn.BatchNorm1d(3, momentum=0.3, eps=0.1))
    for step in range(6):
        if step == 4:
            ours.eval(), theirs.eval()
        compare(ours, theirs, draw(*shape, seed=10 + step), draw(*shape, seed=20 + step))
        close(ours.running_mean[...], theirs.running_mean)
        close(ours.running_var[...], theirs.running_var)


@pytest.mark.parametrize("layer", TORCH)
def test_the_defaults_are_torchs(layer):
    ours, theirs = layer(3), TORCH[layer](3)
    assert getattr(ours, "eps", None) == getattr(theirs, "eps", None)
    for name, parameter in theirs.named_parameters():
        close(getattr(ours, name)[...], parameter)
    norm = torch.nn.BatchNorm1d(3)
    assert (BatchNorm(3).momentum, BatchNorm(3).eps) == (norm.momentum, norm.eps)


def test_parameters_and_statistics_are_told_apart():
    _, parameters, statistics = nnx.split(BatchNorm(3), nnx.Param, nnx.BatchStat)
    assert set(parameters) == {"weight", "bias"}
    assert set(statistics) == {"running_mean", "running_var"}


def test_split_merge_and_a_pure_function():
    layer, x = BatchNorm(3), draw(6, 3)
    graph, state = nnx.split(layer)

    @jax.jit
    def step(state, x):
        model = nnx.merge(graph, state)
        return model(x), nnx.state(model)

    y, new = step(state, x)
    close(layer.running_mean[...], np.zeros(3))
    nnx.update(layer, new)
    expected, mean, variance = normkit.batch_norm(x, training=True)
    close(y, expected)
    close(layer.running_mean[...], mean)
    close(layer.running_var[...], variance)


def test_nnx_jit_keeps_the_statistics_and_compiles_once_per_mode():
    traces = []

    @nnx.jit
    def call(model, x):
        traces.append(1)
        return model(x)

    fast, slow = BatchNorm(3), BatchNorm(3)
    for training in (True, False):
        for model in (fast, slow):
            model.train() if training else model.eval()
        for seed in range(3):
            x = draw(6, 3, 4, seed=seed)
            close(call(fast, x), slow(x))
            close(fast.running_mean[...], slow.running_mean[...])
    assert len(traces) == 2


def test_no_gradient_flows_into_the_running_statistics():
    def of_the_statistics(x):
        layer = BatchNorm(3)
        layer(x)
        return jnp.sum(layer.running_mean[...]) + jnp.sum(layer.running_var[...])

    x = draw(4, 3)
    assert of_the_statistics(x) != of_the_statistics(2 * x)
    assert (jax.grad(of_the_statistics)(x) == 0).all()


@pytest.mark.parametrize("layer", [*TORCH, BatchNorm])
def test_the_dtype_stays(layer):
    assert layer(4)(jnp.ones((2, 4), jnp.bfloat16)).dtype == jnp.bfloat16


@pytest.mark.parametrize(
    ("layer", "shape", "message"),
    [
        (LayerNorm, (2, 4), r"LayerNorm\(3\) takes 3 features on axis -1.*\(2, 4\)"),
        (RMSNorm, (), r"RMSNorm\(3\) takes 3 features.*\(\)"),
        (DyT, (3, 2), r"DyT\(3\) takes 3"),
        (BatchNorm, (4, 2, 3), r"BatchNorm\(3\) takes 3 features on axis 1.*\(4, 2, 3\)"),
        (BatchNorm, (3,), r"BatchNorm\(3\) takes 3 features on axis 1"),
    ],
)
def test_another_width_is_refused(layer, shape, message):
    with pytest.raises(ValueError, match=message):
        layer(3)(jnp.ones(shape))
