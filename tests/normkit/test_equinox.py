"""The Equinox modules: torch's numbers, a state of leaves, the same under jit and vmap."""

import io
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import normkit
from normkit.equinox import BatchNorm, LayerNorm

TORCH = [
    (torch.nn.BatchNorm1d, (6, 3)),
    (torch.nn.BatchNorm1d, (4, 3, 5)),
    (torch.nn.BatchNorm2d, (2, 3, 4, 5)),
]
both_forms = pytest.mark.parametrize("name", [None, "batch"])


pytestmark = pytest.mark.usefixtures("double_precision")


def draw(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(3, 2, shape))


def to_torch(array):
    return torch.tensor(np.asarray(array))


def over_batch(model):
    """The model of one example, for a batch."""
    return jax.vmap(model, axis_name="batch", in_axes=(0, None), out_axes=(0, None))


def whole(model, name):
    return model if name is None else over_batch(model)


def batch_norm(name=None, channels=3, **options):
    """The layer with random parameters, and its state."""
    layer, state = eqx.nn.make_with_state(BatchNorm)(channels, name, **options)
    return affine(layer), state


def affine(layer, seed=1):
    parameters = tuple(draw(2, *layer.weight.shape, seed=seed))
    return eqx.tree_at(lambda layer: (layer.weight, layer.bias), layer, parameters)


def copied(state):
    """The same state again: the first is void once the layer has returned a newer one."""
    return jax.tree.map(lambda leaf: leaf, state)


@eqx.filter_value_and_grad(has_aux=True)
def loss(model_and_x, state, dy, name=None):
    model, x = model_and_x
    y, state = whole(model, name)(x, state)
    return jnp.sum(y * dy), (y, state)


def assert_close(a, b):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-10, atol=1e-10)


def same(a, b):
    return bool(eqx.tree_equal(a, b))


# --- Numbers ----------------------------------------------------------------------------------


@both_forms
@pytest.mark.parametrize(("theirs", "shape"), TORCH)
def test_batch_norm_is_torchs(theirs, shape, name):
    layer, state = batch_norm(name, momentum=0.3, eps=0.1)
    theirs = theirs(3, momentum=0.3, eps=0.1, dtype=torch.float64)
    for parameter in ("weight", "bias"):
        getattr(theirs, parameter).data = to_torch(getattr(layer, parameter))
    for step in range(6):
        if step == 4:
            layer, _ = eqx.nn.inference_mode(layer), theirs.eval()
        x, dy = draw(*shape, seed=10 + step), draw(*shape, seed=20 + step)
        (_, (y, state)), (gradient, dx) = eqx.filter_jit(loss)((layer, x), state, dy, name)
        theirs.zero_grad()
        tx = to_torch(x).requires_grad_()
        ty = theirs(tx)
        ty.backward(to_torch(dy))
        mean, var = state.get(layer.running)
        assert_close(y, ty.detach())
        assert_close(dx, tx.grad)
        assert_close(gradient.weight, theirs.weight.grad)
        assert_close(gradient.bias, theirs.bias.grad)
        assert_close(mean, theirs.running_mean)
        assert_close(var, theirs.running_var)


def test_layer_norm_is_the_function_and_torchs():
    layer = affine(LayerNorm(5, eps=0.1))
    x = draw(2, 4, 5)
    y = layer(x)
    tx, weight, bias = (to_torch(array) for array in (x, layer.weight, layer.bias))
    assert_close(y, torch.nn.functional.layer_norm(tx, (5,), weight, bias, eps=0.1))
    assert_close(y, normkit.layer_norm(x, layer.weight, layer.bias, 0.1))
    assert_close(y, jax.vmap(jax.vmap(layer))(x))
    assert_close(y, eqx.filter_jit(layer)(x))


def test_layer_norms_gradient_is_the_one_by_hand():
    layer, x, dy = affine(LayerNorm(5)), draw(4, 5), draw(4, 5, seed=2)
    gradient, dx = eqx.filter_grad(lambda pair: jnp.sum(pair[0](pair[1]) * dy))((layer, x))
    right = normkit.layer_norm_backward(dy, x, layer.weight)
    for a, b in zip((dx, gradient.weight, gradient.bias), right, strict=True):
        assert_close(a, b)


@both_forms
def test_the_state_before_training_is_0_and_1(name):
    layer, state = batch_norm(name, eps=0.0)
    mean, var = state.get(layer.running)
    assert (mean == 0).all() and (var == 1).all()
    x = draw(4, 3)
    y, after = whole(eqx.nn.inference_mode(layer), name)(x, copied(state))
    assert_close(y, layer.weight * x + layer.bias)
    assert same(after, state)


def test_the_defaults_are_torchs():
    theirs, ours, norm = torch.nn.BatchNorm1d(3), BatchNorm(3), LayerNorm(3)
    assert (ours.momentum, ours.eps) == (theirs.momentum, theirs.eps)
    assert norm.eps == torch.nn.LayerNorm(3).eps
    for layer in (ours, norm):
        assert (layer.weight == 1).all() and (layer.bias == 0).all()


# --- What JAX asks of a module ----------------------------------------------------------------


@pytest.mark.sample(1)
@both_forms
def test_jit_compiles_once_per_mode(name):
    traces = []

    @eqx.filter_jit
    def step(model, state, x):
        traces.append(1)
        (_, (y, state)), gradient = loss((model, x), state, jnp.sin(x), name)
        return y, state, gradient

    layer, state = batch_norm(name)
    slow = copied(state)
    for mode in (layer, eqx.nn.inference_mode(layer)):
        for seed in range(3):
            x = draw(6, 3, 4, seed=seed)
            y, state, gradient = step(mode, state, x)
            (_, (right, slow)), (right_gradient, _) = loss((mode, x), slow, jnp.sin(x), name)
            assert_close(y, right)
            assert_close(gradient[0].weight, right_gradient.weight)
            jax.tree.map(assert_close, state, slow)
    assert len(traces) == 2


@both_forms
def test_the_state_is_a_pytree_of_arrays_and_no_parameter(name):
    layer, state = batch_norm(name)
    assert [leaf.shape for leaf in jax.tree.leaves(state)] == [(3,), (3,)]
    assert all(eqx.is_array(leaf) for leaf in jax.tree.leaves(state))
    parameters = jax.tree.leaves(eqx.filter(layer, eqx.is_array))
    assert len(parameters) == 2 and same(parameters, [layer.weight, layer.bias])


def test_model_and_state_are_saved_and_read_again():
    layer, state = batch_norm()
    _, state = layer(draw(5, 3), state)
    file = io.BytesIO()
    eqx.tree_serialise_leaves(file, (layer, state))
    file.seek(0)
    read = eqx.tree_deserialise_leaves(file, eqx.nn.make_with_state(BatchNorm)(3))
    assert same(read, (layer, state))
    layer, x = eqx.nn.inference_mode(layer), draw(2, 3, seed=1)
    assert same(eqx.nn.inference_mode(read[0])(x, read[1])[0], layer(x, state)[0])


@both_forms
def test_no_gradient_flows_into_the_running_statistics(name):
    layer, state = batch_norm(name)

    def of_the_state(x):
        _, new = whole(layer, name)(x, copied(state))
        return sum(jnp.sum(statistic) for statistic in new.get(layer.running))

    x = draw(4, 3)
    assert of_the_state(x) != of_the_state(2 * x)
    assert (jax.grad(of_the_state)(x) == 0).all()


@pytest.mark.sample(1)
@both_forms
def test_an_ensemble_under_vmap(name):
    def make(seed):
        return eqx.nn.make_with_state(BatchNorm)(3, name)

    models, states = eqx.filter_vmap(make)(jnp.arange(4))
    models = affine(models)
    x = draw(4, 6, 3, 5)
    call = eqx.filter_vmap(lambda model, state, x: whole(model, name)(x, state))
    y, after = call(models, copied(states), x)
    for i in range(4):
        parameters = (models.weight[i], models.bias[i])
        right, mean, var = normkit.batch_norm(x[i], *parameters, training=True)
        assert_close(y[i], right)
        for a, b in zip(after.get(models.running), (mean, var), strict=True):
            assert_close(a[i], b)


@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", [(6, 3), (2, 3, 4, 5)])
def test_an_example_at_a_time_is_the_whole_batch(shape):
    (layer, state), (single, single_state) = batch_norm(), batch_norm("batch")
    for seed in range(3):
        x, dy = draw(*shape, seed=seed), draw(*shape, seed=seed + 5)
        (_, (y, state)), (gradient, dx) = loss((layer, x), state, dy)
        (_, (y2, single_state)), (gradient2, dx2) = loss((single, x), single_state, dy, "batch")
        for a, b in [(y, y2), (dx, dx2), (gradient.weight, gradient2.weight)]:
            assert_close(a, b)
        jax.tree.map(assert_close, jax.tree.leaves(state), jax.tree.leaves(single_state))


def test_one_example_in_inference_needs_no_vmap():
    layer, state = batch_norm("batch")
    _, state = over_batch(layer)(draw(5, 3, 2), state)
    layer, x = eqx.nn.inference_mode(layer), draw(5, 3, 2, seed=1)
    one, _ = layer(x[2], state)
    assert_close(one, over_batch(layer)(x, state)[0][2])


def test_in_a_sequential_with_two_states():
    def make(keys):
        layers = [
            eqx.nn.Conv2d(1, 3, 3, key=keys[0]),
            BatchNorm(3, "batch"),
            eqx.nn.Conv2d(3, 2, 3, key=keys[1]),
            BatchNorm(2, "batch"),
            eqx.nn.Lambda(jnp.ravel),
            LayerNorm(8),
        ]
        return eqx.nn.Sequential(layers)

    model, state = eqx.nn.make_with_state(make)(jax.random.split(jax.random.key(0)))
    x = draw(4, 1, 6, 6)
    y, state = eqx.filter_jit(lambda model, x, state: over_batch(model)(x, state))(model, x, state)
    hidden = jax.vmap(model[0])(x)
    second, mean, var = normkit.batch_norm(hidden, training=True)
    third, *right = normkit.batch_norm(jax.vmap(model[2])(second), training=True)
    for a, b in zip(jax.tree.leaves(state), (mean, var, *right), strict=True):
        assert_close(a, b)
    assert_close(y, normkit.layer_norm(third.reshape(4, 8)))


# --- Training ---------------------------------------------------------------------------------


class Classifier(eqx.Module):
    """A hidden layer between two normalisations."""

    first: eqx.nn.Linear
    norm: BatchNorm
    last: eqx.nn.Linear

    def __init__(self, key, name):
        one, two = jax.random.split(key)
        self.first = eqx.nn.Linear(2, 8, key=one)
        self.norm = BatchNorm(8, name)
        self.last = eqx.nn.Linear(8, 1, key=two)

    def __call__(self, x, state):
        many = jax.vmap if self.norm.axis_name is None else lambda layer: layer
        x, state = self.norm(many(self.first)(x), state)
        return many(self.last)(jnp.tanh(x))[..., 0], state


@pytest.mark.sample(1)
@both_forms
def test_a_network_trains_and_infers(name):
    @eqx.filter_jit
    def step(model, state, x, target):
        @eqx.filter_value_and_grad(has_aux=True)
        def squared_error(model, state):
            y, state = whole(model, name)(x, state)
            return jnp.mean((y - target) ** 2), state

        (error, state), gradient = squared_error(model, state)
        moves = jax.tree.map(lambda g: -0.3 * g, gradient)
        return eqx.apply_updates(model, moves), state, error

    model, state = eqx.nn.make_with_state(Classifier)(jax.random.key(0), name)
    x = draw(64, 2)
    target = jnp.sign((x[:, 0] - 3) * (x[:, 1] - 3))
    errors = []
    for _ in range(60):
        model, state, error = step(model, state, x, target)
        errors.append(float(error))
    assert errors[-1] < 0.3 * errors[0]
    y, after = whole(eqx.nn.inference_mode(model), name)(x, copied(state))
    assert abs(jnp.mean((y - target) ** 2) - errors[-1]) < 0.05
    assert same(after, state)


# --- Precision and bad input ------------------------------------------------------------------


@pytest.mark.sample(3)
@both_forms
@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16, jnp.float32])
def test_the_output_has_the_dtype_of_x_and_the_statistics_keep_theirs(dtype, name):
    with jax.enable_x64(False):
        layer, state = batch_norm(name)
        x = jnp.asarray(500 * draw(8, 3), dtype)  # squares beyond the largest float16
        before = np.asarray(x).copy()
        y, state = whole(layer, name)(x, state)
        parameters = (layer.weight, layer.bias)
        right, mean, var = normkit.batch_norm(x.astype(jnp.float32), *parameters, training=True)
        assert y.dtype == LayerNorm(3)(x).dtype == dtype
        assert same(y, right.astype(dtype))
        assert same(state.get(layer.running), (mean, var)) and mean.dtype == jnp.float32
        assert (np.asarray(x) == before).all()


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        (None, (4, 5), "takes the whole batch, .N, 3.* is .4, 5."),
        (None, (4, 5, 5, 3), "channels on axis 1"),
        (None, (3,), "give it the vmap's axis_name"),
        (None, (1, 3), "at least two values per channel"),
        (None, (0, 3), "at least two values per channel"),
        ("batch", (4, 5), "takes one example, .3,."),
        ("batch", (), "takes one example"),
        ("batch", (4, 3), "without axis_name, it takes the whole batch"),
    ],
)
def test_wrong_shapes(name, shape, words):
    layer, state = batch_norm(name)
    with pytest.raises(ValueError, match=words):
        layer(jnp.ones(shape), state)


def test_layer_norm_of_another_width():
    for shape in [(2, 5), ()]:
        with pytest.raises(ValueError, match=r"LayerNorm\(4\) normalises the last axis"):
            LayerNorm(4)(jnp.ones(shape))


def test_a_batch_of_one_example_under_vmap():
    layer, state = batch_norm("batch")
    with pytest.raises(ValueError, match="at least two values per channel"):
        over_batch(layer)(jnp.ones((1, 3)), state)
    y, _ = over_batch(eqx.nn.inference_mode(layer))(jnp.ones((1, 3)), state)
    assert y.shape == (1, 3)


def test_an_example_in_training_without_its_vmap():
    layer, state = batch_norm("batch")
    with pytest.raises(NameError, match=r"jax.vmap\(model, axis_name='batch', in_axes"):
        layer(jnp.ones(3), state)


@pytest.mark.parametrize(
    ("options", "words"), [({"momentum": 1.5}, "momentum is the share"), ({"eps": -1.0}, "eps")]
)
def test_wrong_numbers(options, words):
    layer, state = batch_norm(**options)
    with pytest.raises(ValueError, match=words):
        layer(jnp.ones((4, 3)), state)


@pytest.mark.parametrize("x", [[[1.0, 2.0, 3.0]] * 4, np.ones((4, 3)), torch.ones(4, 3)])
def test_arrays_of_jax_only(x):
    layer, state = batch_norm()
    for call in (LayerNorm(3), lambda x: layer(x, state)):
        with pytest.raises(TypeError, match=r"must be an array|must come from one library"):
            call(x)


def test_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "equinox", None)
    monkeypatch.delitem(sys.modules, "normkit.equinox")
    with pytest.raises(ModuleNotFoundError, match=r'pip install "normkit\[jax\]"'):
        import normkit.equinox  # noqa: F401
