"""What holds for every function and its gradient: libraries, derivatives, dtypes, layouts."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import normkit

TO = {"numpy": np.asarray, "torch": torch.tensor, "jax": jnp.asarray}


pytestmark = pytest.mark.usefixtures("double_precision")


@dataclass
class Norm:
    """A function of x and parameters, its gradient, and the shapes of the parameters."""

    forward: Callable
    backward: Callable
    shapes: dict[str, tuple[int, ...]]
    x: tuple[int, ...] = (3, 2, 5)
    constant: tuple[str, ...] = ()  # parameters without gradient

    def draw(self, seed=0):
        """dy and the inputs by name: x with a mean and a scale of its own for each row."""
        rng = np.random.default_rng(seed)
        rows = (*self.x[:-1], 1)
        x = rng.normal(size=self.x) * rng.uniform(0.5, 3, rows) + rng.normal(size=rows)
        inputs = {name: rng.uniform(0.5, 2, shape) for name, shape in self.shapes.items()}
        return rng.normal(size=self.x), {"x": x, **inputs}

    def learnt(self, inputs):
        return [name for name in inputs if name not in self.constant]


def batch_norm(training):
    names = ("running_mean", "running_var")
    norm = Norm(
        lambda **inputs: normkit.batch_norm(**inputs, training=training)[0],
        lambda dy, x, beta, **inputs: normkit.batch_norm_backward(
            dy, x, **inputs, training=training
        ),
        {"gamma": (4,), "beta": (4,)} | {name: (4,) for name in names},
        x=(3, 4, 2, 5),
        constant=names,
    )
    return norm


def without_beta(backward, **options):
    return lambda dy, beta, **inputs: backward(dy, **inputs, **options)


def squashing(*numbers):
    return {**{name: () for name in numbers}, "gamma": (5,), "beta": (5,)}


NORMS = {
    "layer_norm": Norm(
        normkit.layer_norm,
        without_beta(normkit.layer_norm_backward),
        {"gamma": (5,), "beta": (5,)},
    ),
    "rms_norm": Norm(normkit.rms_norm, normkit.rms_norm_backward, {"gamma": (5,)}),
    "partial_rms_norm": Norm(
        lambda **inputs: normkit.rms_norm(**inputs, eps=0.1, p=0.5),
        lambda dy, **inputs: normkit.rms_norm_backward(dy, **inputs, eps=0.1, p=0.5),
        {"gamma": (5,)},
    ),
    "batch_norm_training": batch_norm(True),
    "batch_norm_inference": batch_norm(False),
    "group_norm": Norm(
        lambda **inputs: normkit.group_norm(**inputs, num_groups=3),
        without_beta(normkit.group_norm_backward, num_groups=3),
        {"gamma": (12,), "beta": (12,)},
        x=(2, 12, 2, 3),
    ),
    "instance_norm": Norm(
        normkit.instance_norm,
        without_beta(normkit.instance_norm_backward),
        {"gamma": (3,), "beta": (3,)},
        x=(2, 3, 4, 5),
    ),
    "dyt": Norm(normkit.dyt, without_beta(normkit.dyt_backward), squashing("alpha")),
    "derf": Norm(normkit.derf, without_beta(normkit.derf_backward), squashing("alpha", "shift")),
    "weight_norm": Norm(
        lambda x, g: normkit.weight_norm(x, g),
        lambda dy, x, g: normkit.weight_norm_backward(dy, x, g),
        {"g": (3,)},
    ),
}


def test_every_function_with_a_gradient_is_here():
    functions = [n for n in normkit.__all__ if f"{n}_backward" in normkit.__all__]
    assert all(any(name.startswith(function) for name in NORMS) for function in functions)
    assert len(functions) > 5


every_norm = pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)


def slope(norm, inputs, dy, name, step=1e-6):
    found = np.zeros_like(inputs[name])
    for index in np.ndindex(found.shape):
        losses = []
        for sign in (1, -1):
            moved = inputs[name].copy()
            moved[index] += sign * step
            losses.append((dy * norm.forward(**inputs | {name: moved})).sum())
        found[index] = (losses[0] - losses[1]) / (2 * step)
    return found


@every_norm
def test_the_gradients_are_what_finite_differences_find(norm):
    dy, inputs = norm.draw()
    gradients = norm.backward(dy, **inputs)
    for name, gradient in zip(norm.learnt(inputs), gradients, strict=True):
        assert gradient.shape == inputs[name].shape
        found = slope(norm, inputs, dy, name)
        np.testing.assert_allclose(gradient, found, rtol=1e-6, atol=1e-7, err_msg=name)


@pytest.mark.sample(10)
@every_norm
@pytest.mark.parametrize("library", ["torch", "jax"])
def test_all_libraries_agree(norm, library):
    dy, inputs = norm.draw()
    given = {name: TO[library](array) for name, array in inputs.items()}
    right = [norm.forward(**inputs), *norm.backward(dy, **inputs)]
    found = [norm.forward(**given), *norm.backward(TO[library](dy), **given)]
    for a, b in zip(found, right, strict=True):
        assert isinstance(a, type(given["x"]))
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-12, atol=1e-12)


@every_norm
def test_torch_differentiates_through_it(norm):
    dy, inputs = norm.draw()
    tensors = {
        name: torch.tensor(array, requires_grad=name not in norm.constant)
        for name, array in inputs.items()
    }
    norm.forward(**tensors).backward(torch.tensor(dy))
    for name, right in zip(norm.learnt(inputs), norm.backward(dy, **inputs), strict=True):
        np.testing.assert_allclose(tensors[name].grad, right, atol=1e-11, err_msg=name)


@every_norm
def test_jax_compiles_it(norm):
    dy, inputs = norm.draw()
    compiled = jax.jit(lambda inputs: norm.forward(**inputs))(inputs)
    np.testing.assert_allclose(compiled, norm.forward(**inputs), atol=1e-12)
    gradients = jax.jit(lambda dy, inputs: norm.backward(dy, **inputs))(dy, inputs)
    for a, b in zip(gradients, norm.backward(dy, **inputs), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-11)


@every_norm
def test_any_layout_and_the_inputs_stay_as_they_are(norm):
    dy, inputs = norm.draw()

    def shuffled(array):
        """The same values, the last axis first in memory."""
        if array.ndim < 2:
            return array
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, -1, 0)), 0, -1)

    strange = {name: shuffled(array) for name, array in inputs.items()}
    before = {name: array.copy() for name, array in strange.items()}
    assert not strange["x"].flags.c_contiguous
    np.testing.assert_allclose(norm.forward(**strange), norm.forward(**inputs), atol=1e-12)
    pairs = zip(norm.backward(shuffled(dy), **strange), norm.backward(dy, **inputs), strict=True)
    for a, b in pairs:
        np.testing.assert_allclose(a, b, atol=1e-12)
    assert all((strange[name] == before[name]).all() for name in strange)


@every_norm
@pytest.mark.parametrize("library", ["torch", "numpy"])
def test_half_precision_is_rounded_once_at_the_end(norm, library):
    half, single = {
        "torch": (torch.bfloat16, torch.float32),
        "numpy": (np.float16, np.float32),
    }[library]

    def cast(array, dtype):
        return torch.as_tensor(array).to(dtype) if library == "torch" else array.astype(dtype)

    dy, inputs = norm.draw()
    scale = 300 if "running_mean" in inputs else 1000  # squares beyond the largest float16
    halves = {name: cast(array, half) for name, array in inputs.items()}
    if "alpha" not in inputs:
        halves["x"] = cast(scale * inputs["x"], half)
    dy = cast(dy, half)
    wide = {name: cast(array, single) for name, array in halves.items()}
    found = [norm.forward(**halves), *norm.backward(dy, **halves)]
    right = [norm.forward(**wide), *norm.backward(cast(dy, single), **wide)]
    for a, b in zip(found, right, strict=True):
        assert a.dtype == half
        assert (a == cast(b, half)).all() and (a == a).all()


def single(inputs, library):
    """The inputs in float32, and one row of x so large that its squares overflow there."""
    x = inputs["x"].copy()
    x[0] *= 1e30
    return {n: TO[library](a.astype(np.float32)) for n, a in {**inputs, "x": x}.items()}


def wide(inputs):
    return {name: np.asarray(array).astype(np.float64) for name, array in inputs.items()}


@pytest.mark.sample(15)
@every_norm
@pytest.mark.parametrize("library", TO)
def test_squares_that_overflow_give_what_float64_gives(norm, library):
    dy, inputs = norm.draw()
    inputs = single(inputs, library)
    dy = TO[library](dy.astype(np.float32))
    if norm is NORMS["batch_norm_training"]:
        with pytest.raises(ValueError, match=r"must fit .*float32.*channel 0 of x do not"):
            norm.forward(**inputs)
        return
    results = [norm.forward(**inputs), *norm.backward(dy, **inputs)]
    right = wide(inputs)
    expected = [norm.forward(**right), *norm.backward(np.asarray(dy, np.float64), **right)]
    for a, b in zip(results, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@every_norm
def test_under_jit_squares_that_overflow_are_never_zeros(norm):
    _, inputs = norm.draw()
    inputs = single(inputs, "jax")
    y = np.asarray(jax.jit(lambda inputs: norm.forward(**inputs))(inputs))
    right = norm.forward(**wide(inputs))
    np.testing.assert_allclose(np.where(np.isnan(y), right, y), right, rtol=1e-4, atol=1e-5)


@every_norm
def test_what_is_not_finite_stays_nan(norm):
    _, inputs = norm.draw()
    inputs["x"][0] = np.nan
    with np.errstate(invalid="ignore"):
        assert np.isnan(norm.forward(**inputs)[0]).all()


@every_norm
def test_integers_become_the_default_float(norm):
    _, inputs = norm.draw()
    x = np.arange(np.prod(norm.x)).reshape(norm.x)
    y = norm.forward(**inputs | {"x": x})
    assert y.dtype == np.float64
    np.testing.assert_allclose(y, norm.forward(**inputs | {"x": x.astype(float)}))


@every_norm
@pytest.mark.parametrize("library", TO)
def test_an_empty_batch_comes_back_empty(norm, library):
    _, inputs = norm.draw()
    inputs = {name: TO[library](array) for name, array in inputs.items()}
    empty = inputs["x"][:0]
    if norm is NORMS["batch_norm_training"]:
        with pytest.raises(ValueError, match="at least two values per channel"):
            norm.forward(**inputs | {"x": empty})
        return
    if norm is NORMS["weight_norm"]:
        inputs["g"] = inputs["g"][:0]
    assert norm.forward(**inputs | {"x": empty}).shape == empty.shape
    gradients = norm.backward(empty, **inputs | {"x": empty})
    for name, gradient in zip(norm.learnt(inputs), gradients, strict=True):
        assert gradient.shape == (empty if name == "x" else inputs[name]).shape
        assert (gradient == 0).all()


@every_norm
def test_lists_and_mixed_libraries_are_refused(norm):
    dy, inputs = norm.draw()
    with pytest.raises(TypeError, match="must be an array, not a list"):
        norm.forward(**inputs | {"x": inputs["x"].tolist()})
    last = list(inputs)[-1]
    with pytest.raises(TypeError, match="must come from one library"):
        norm.forward(**inputs | {last: torch.tensor(inputs[last])})
    with pytest.raises(ValueError, match=r"must have the shape of [xv]"):
        norm.backward(dy[..., :1], **inputs)


@every_norm
def test_a_parameter_of_another_shape_is_refused(norm):
    dy, inputs = norm.draw()
    for name, shape in norm.shapes.items():
        longer = np.ones((*shape, 2))
        with pytest.raises(ValueError, match=rf"{name}.*its? .*shape|shape.*{name}"):
            norm.forward(**inputs | {name: longer})
        if name != "beta":
            with pytest.raises(ValueError, match="shape"):
                norm.backward(dy, **inputs | {name: longer})
