"""Norms of tokens and their gradients: against torch, finite differences, numbers by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.nn import functional

from normkit import layer_norm, layer_norm_backward, rms_norm, rms_norm_backward

SHAPES = [(5,), (4, 7), (2, 3, 6), (2, 3, 4, 5), (4, 4), (3, 1)]
LIBRARIES = {
    "numpy": (np.asarray, np.asarray),
    "torch": (torch.tensor, lambda t: t.detach().numpy()),
    "jax": (jnp.asarray, np.asarray),
}
X = np.array([[0.2, 0.1, 0.3], [0.5, 0.1, 0.1]])


pytestmark = pytest.mark.usefixtures("double_precision")


def draw(shape, seed=0):
    """x, gamma, beta and dy, with a mean and a scale of its own for each token."""
    rng = np.random.default_rng(seed)
    rows = (*shape[:-1], 1)
    x = rng.normal(size=shape) * rng.uniform(0.1, 5, rows) + rng.normal(scale=3, size=rows)
    features = shape[-1:]
    return x, rng.normal(size=features), rng.normal(size=features), rng.normal(size=shape)


@pytest.mark.sample(18)
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("eps", [1e-5, 0.1])
@pytest.mark.parametrize("shape", SHAPES)
def test_forward_and_backward_agree_with_torch(shape, eps, library, torch_gradients):
    make, back = LIBRARIES[library]
    x, gamma, beta, dy = draw(shape)
    expected = functional.layer_norm(*map(torch.tensor, (x,)), shape[-1:], eps=eps).numpy()
    np.testing.assert_allclose(back(layer_norm(make(x), eps=eps)), expected, atol=1e-12)
    y = back(layer_norm(make(x), make(gamma), make(beta), eps))
    np.testing.assert_allclose(y, expected * gamma + beta, atol=1e-12)
    gradients = layer_norm_backward(make(dy), make(x), make(gamma), eps)

    def norm(x, gamma, beta):
        return functional.layer_norm(x, shape[-1:], gamma, beta, eps)

    right = torch_gradients(norm, dy, x, gamma, beta)
    for ours, theirs in zip(gradients, right, strict=True):
        np.testing.assert_allclose(back(ours), theirs, atol=1e-10)


def test_the_gradient_is_what_finite_differences_find():
    x, gamma, beta, dy = draw((3, 5))
    step = 1e-6

    def slope(argument, name):
        found = np.zeros_like(argument)
        for index in np.ndindex(argument.shape):
            losses = []
            for sign in (1, -1):
                moved = argument.copy()
                moved[index] += sign * step
                inputs = {"x": x, "gamma": gamma, "beta": beta, name: moved}
                losses.append((dy * layer_norm(**inputs)).sum())
            found[index] = (losses[0] - losses[1]) / (2 * step)
        return found

    expected = slope(x, "x"), slope(gamma, "gamma"), slope(beta, "beta")
    for ours, found in zip(layer_norm_backward(dy, x, gamma), expected, strict=True):
        np.testing.assert_allclose(ours, found, rtol=1e-6, atol=1e-7)


def test_the_worked_example():
    plain = [[0, -1.2238, 1.2238], [1.4140, -0.7070, -0.7070]]
    affine = [[0, -2.4477, 4.6715], [1.4140, -1.4140, -1.1210]]
    np.testing.assert_allclose(layer_norm(X), plain, atol=5e-5)
    gamma, beta = np.array([1, 2, 3]), np.array([0, 0, 1])
    np.testing.assert_allclose(layer_norm(X, gamma, beta), affine, atol=5e-5)


@pytest.mark.parametrize(
    ("x", "gamma", "dy", "dx"),
    [
        ([0, 0, 3, 3], [1, 1, 1, 1], [1, 0, 0, 0], [1 / 3, -1 / 3, 0, 0]),
        ([0, 0, 3, 3], [1, 2, 1, 2], [1, 1, 0, 2], [-1 / 3, 1 / 3, -4 / 3, 4 / 3]),
        ([1, 3, 5, 7], [1, 1, 1, 1], [1, 2, 3, 4], [0, 0, 0, 0]),
        ([2, 0, 4], [1, 1, 1], [1, 0, 0], [0.408248, -0.204124, -0.204124]),
        ([1, 3], [1, 1], [5, -2], [0, 0]),
    ],
)
def test_gradients_worked_by_hand(x, gamma, dy, dx):
    arrays = (np.array(a, dtype=float) for a in (dy, x, gamma))
    np.testing.assert_allclose(layer_norm_backward(*arrays, eps=0)[0], dx, atol=1e-6)


def test_the_gradient_of_a_token_sums_to_zero():
    x, gamma, _, dy = draw((6, 7))
    dx = layer_norm_backward(dy, x, gamma)[0]
    np.testing.assert_allclose(dx.sum(axis=-1), 0, atol=1e-12)


@pytest.mark.parametrize("library", LIBRARIES)
def test_half_precision_is_rounded_once_at_the_end(library):
    make, _ = LIBRARIES[library]
    half = {"numpy": np.float16, "torch": torch.bfloat16, "jax": jnp.bfloat16}[library]
    single = {"numpy": np.float32, "torch": torch.float32, "jax": jnp.float32}[library]

    def cast(array, dtype):
        return array.to(dtype) if library == "torch" else array.astype(dtype)

    x, gamma, beta, dy = (cast(make(a), half) for a in draw((4, 64)))
    x = cast(200 * x, half)  # squares beyond the largest float16
    wide = [cast(a, single) for a in (x, gamma, beta, dy)]
    y = layer_norm(x, gamma, beta)
    assert y.dtype == half
    assert (y == cast(layer_norm(*wide[:3]), half)).all()
    gradients = layer_norm_backward(dy, x, gamma)
    assert all(g.dtype == half for g in gradients)
    right = layer_norm_backward(wide[3], wide[0], wide[1])
    assert all((g == cast(r, half)).all() for g, r in zip(gradients, right, strict=True))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8"])
def test_integers_become_the_default_float(library, dtype):
    make, back = LIBRARIES[library]
    x = np.array([[1, 5, 9], [100, 90, 110]], dtype=dtype)
    y = layer_norm(make(x))
    default = {"numpy": np.float64, "torch": torch.float32, "jax": jnp.zeros(()).dtype}[library]
    assert y.dtype == default
    np.testing.assert_allclose(back(y), layer_norm(x.astype(float)), rtol=1e-5)


def test_parameters_may_have_another_precision():
    x, gamma, beta, dy = draw((2, 3))
    single = x.astype(np.float32)
    assert layer_norm(single, gamma, beta).dtype == np.float32
    dx, dgamma, dbeta = layer_norm_backward(dy, single, gamma)
    assert (dx.dtype, dgamma.dtype, dbeta.dtype) == (np.float32, np.float64, np.float64)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("mean", [10, 1e4, -1e6])
def test_a_large_mean_costs_no_digits(mean, library):
    make, back = LIBRARIES[library]
    x = (draw((3, 1024))[0] * 0.1 + mean).astype(np.float32)
    np.testing.assert_allclose(back(layer_norm(make(x))), layer_norm(x.astype(float)), atol=1e-5)


@pytest.mark.parametrize("feature", [0, 1, -1])
def test_one_feature_may_be_far_from_the_others(feature):
    x = draw((3, 1024))[0].astype(np.float32)
    x[:, feature] = [1e3, -1e6, 1e12]
    right = layer_norm(x.astype(float))
    np.testing.assert_allclose(layer_norm(x), right, atol=2e-6 * np.abs(right).max())


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("features", [3, 10, 512])
@pytest.mark.parametrize("value", [0.0, 3.0, 0.1, 33.3, 1000.1, -123456.7, -1e6])
def test_a_constant_token_becomes_beta(value, features, dtype, library):
    """Also where the mean of equal numbers is rounded, and so is not that number."""
    make, back = LIBRARIES[library]
    gamma, beta = np.ones(features, dtype), np.arange(features, dtype=dtype)
    y = layer_norm(*map(make, (np.full((2, features), value, dtype), gamma, beta)))
    assert (back(y) == beta).all()


def test_any_layout_and_the_inputs_stay_as_they_are():
    x, gamma, beta, dy = draw((6, 4))
    x, dy = x.T, dy.T
    gamma, beta = np.ones(12)[::2] * 2, np.arange(12.0)[::-2]
    arrays = (x, gamma, beta, dy)
    before = [a.copy() for a in arrays]
    y = layer_norm(x, gamma, beta)
    np.testing.assert_allclose(y, layer_norm(x.copy(), gamma.copy(), beta.copy()))
    layer_norm_backward(dy, x, gamma)
    assert all((a == b).all() for a, b in zip(arrays, before, strict=True))


def test_examples_do_not_see_each_other():
    x, gamma, beta, _ = draw((4, 6))
    y = layer_norm(x, gamma, beta)
    x[2] = 100
    assert (np.delete(layer_norm(x, gamma, beta), 2, 0) == np.delete(y, 2, 0)).all()


def test_torch_differentiates_through_it():
    x, gamma, beta, dy = draw((2, 3, 4))
    tensors = [torch.tensor(a, requires_grad=True) for a in (x, gamma, beta)]
    layer_norm(*tensors).backward(torch.tensor(dy))
    for tensor, right in zip(tensors, layer_norm_backward(dy, x, gamma), strict=True):
        np.testing.assert_allclose(tensor.grad, right, atol=1e-12)


def test_jax_differentiates_and_compiles_it():
    x, gamma, beta, dy = draw((2, 3, 4))

    def loss(x, gamma, beta):
        return (dy * layer_norm(x, gamma, beta)).sum()

    found = jax.jit(jax.grad(loss, argnums=(0, 1, 2)))(*map(jnp.asarray, (x, gamma, beta)))
    compiled = jax.jit(layer_norm_backward)(*map(jnp.asarray, (dy, x, gamma)))
    for ours, auto, right in zip(compiled, found, layer_norm_backward(dy, x, gamma), strict=True):
        np.testing.assert_allclose(auto, right, atol=1e-12)
        np.testing.assert_allclose(ours, right, atol=1e-12)


@pytest.mark.parametrize("gamma", [np.ones((2, 3)), np.ones(2), np.ones((3, 1)), np.ones(())])
def test_a_parameter_of_another_shape_is_refused(gamma):
    with pytest.raises(ValueError, match=r"must have shape \(3,\), one number per feature"):
        layer_norm(X, gamma)
    with pytest.raises(ValueError, match="beta must have shape"):
        layer_norm(X, np.ones(3), gamma)
    with pytest.raises(ValueError, match="gamma must have shape"):
        layer_norm_backward(X, X, gamma)


def test_what_is_no_array_is_refused():
    with pytest.raises(TypeError, match=r"x must be an array, not a list: write np\.array\(x\)"):
        layer_norm([[1.0, 2.0]])
    with pytest.raises(TypeError, match="x must be an array, not a NoneType"):
        layer_norm(None)
    with pytest.raises(TypeError, match="x must hold real numbers"):
        layer_norm(np.ones(3) * 1j)
    with pytest.raises(TypeError, match="gamma must be an array, not a float"):
        layer_norm(X, 1.0)
    with pytest.raises(ValueError, match="at least one axis"):
        layer_norm(np.float64(3))
    with pytest.raises(TypeError, match=r"one library.*x: ndarray, gamma: Tensor"):
        layer_norm(X, torch.ones(3))
    with pytest.raises(ValueError, match=r"dy must have the shape of x, \(2, 3\)"):
        layer_norm_backward(np.ones(3), X)


@pytest.mark.parametrize("eps", [-1e-5, float("nan")])
def test_a_negative_eps_is_refused(eps):
    with pytest.raises(ValueError, match=f"eps must not be negative.*it is {eps}"):
        layer_norm(X, eps=eps)
    with pytest.raises(ValueError, match="eps must not be negative"):
        layer_norm_backward(X, X, eps=eps)


# --- RMSNorm ----------------------------------------------------------------------------------


@pytest.mark.parametrize("eps", [None, 1e-5, 0.1])
@pytest.mark.parametrize("shape", SHAPES)
def test_rms_norm_agrees_with_torch(shape, eps, torch_gradients, same):
    rng = np.random.default_rng(0)
    x, dy, gamma = (
        3 * rng.normal(size=shape) + 1,
        rng.normal(size=shape),
        rng.normal(size=shape[-1]),
    )

    def norm(x, gamma):
        return functional.rms_norm(x, x.shape[-1:], gamma, eps)

    same([rms_norm(x, gamma, eps)], [norm(torch.tensor(x), torch.tensor(gamma))])
    same(rms_norm_backward(dy, x, gamma, eps), torch_gradients(norm, dy, x, gamma))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_the_default_eps_is_that_of_the_dtype_that_computes(dtype):
    x = np.array([[1e-3, -2e-3, 5e-4]], dtype=dtype)
    theirs = functional.rms_norm(torch.tensor(x), (3,)).numpy()
    np.testing.assert_allclose(rms_norm(x), theirs, rtol=2 * np.finfo(dtype).eps)


def test_rms_norm_by_hand(same):
    expected = [[0.9258, 0.4629, 1.3887], [1.6667, 0.3333, 0.3333]]
    np.testing.assert_allclose(rms_norm(X), expected, atol=5e-5)
    same([rms_norm(np.array([1.0, 2, 2, 4]))], [[0.4, 0.8, 0.8, 1.6]])
    np.testing.assert_allclose(rms_norm(np.array([3.0, 4])), [0.8485, 1.1314], atol=5e-5)
    dx, _ = rms_norm_backward(np.array([1.0, 0, 0, 0]), np.array([1.0, 2, 2, 4]))
    same([dx], [[0.384, -0.032, -0.032, -0.064]])
    x = np.array([3.0, 4, 0, 12])
    np.testing.assert_allclose(rms_norm(x), [0.4615, 0.6154, 0, 1.8462], atol=5e-5)
    np.testing.assert_allclose(rms_norm(x, p=0.5), [0.8485, 1.1314, 0, 3.3941], atol=5e-5)


@pytest.mark.parametrize(("p", "k"), [(0.01, 1), (0.07, 7), (0.075, 8), (0.5, 50), (1, 100)])
def test_partial_rms_counts_the_first_features(p, k, same):
    x = np.random.default_rng(0).normal(size=(3, 100))
    root = np.sqrt((x[:, :k] ** 2).mean(-1, keepdims=True))
    same([rms_norm(x, eps=0, p=p)], [x / root])


def test_layer_norm_is_rms_norm_of_the_centred_x(same):
    x = np.random.default_rng(0).normal(3, size=(4, 7))
    centred = x - x.mean(-1, keepdims=True)
    same([layer_norm(x, eps=0.01)], [rms_norm(centred, eps=0.01)])


def test_bad_input_to_rms_norm():
    for p in (0, -1, 1.5):
        with pytest.raises(ValueError, match=f"above 0 and at most 1; it is {p}"):
            rms_norm(X, p=p)


def test_the_gradient_of_rms_norm_is_at_right_angles_to_the_token():
    x, _, _, dy = draw((3, 4, 2, 5))
    dx = rms_norm_backward(dy, x, eps=0)[0]
    np.testing.assert_allclose((dx * x).sum(axis=-1), 0, atol=1e-12)


@pytest.mark.parametrize("eps", [-1e-5, float("nan")])
def test_a_negative_eps_is_refused_by_rms_norm_too(eps):
    with pytest.raises(ValueError, match="eps must not be negative"):
        rms_norm(X, eps=eps)
    with pytest.raises(ValueError, match="eps must not be negative"):
        rms_norm_backward(X, X, eps=eps)
