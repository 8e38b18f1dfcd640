"""What the types promise: `make test` checks these lines with mypy, and then runs them."""

from typing import assert_type

import jax
import numpy as np
import pytest
import torch
from jax import numpy as jnp
from torch import Tensor, nn

from normkit.channels import batch_norm
from normkit.functions import layer_norm, layer_norm_backward
from normkit.typing import Array
from normkit.variance import moments


def test_what_comes_in_goes_out() -> None:
    assert isinstance(assert_type(layer_norm(torch.ones(2, 3)), Tensor), Tensor)
    assert isinstance(assert_type(layer_norm(jnp.ones((2, 3))), jax.Array), jax.Array)
    array: np.ndarray = np.ones((2, 3))
    assert isinstance(assert_type(layer_norm(array), np.ndarray), np.ndarray)


def test_parameters_are_tensors() -> None:
    x, gamma = torch.ones(2, 3), nn.Parameter(torch.ones(3))
    assert isinstance(assert_type(layer_norm(x, gamma), Tensor), Tensor)


def test_all_that_comes_out_is_of_the_same_library() -> None:
    x = torch.ones(2, 3)
    gradients = assert_type(layer_norm_backward(x, x), tuple[Tensor, Tensor, Tensor])
    normed = assert_type(batch_norm(x, training=True), tuple[Tensor, Tensor, Tensor])
    assert all(isinstance(tensor, Tensor) for tensor in (*gradients, *normed))
    assert isinstance(assert_type(moments(x).variance(), Tensor), Tensor)


def test_a_list_is_no_array() -> None:
    with pytest.raises(TypeError, match="must be an array"):
        layer_norm([1.0, 2.0])  # type: ignore[type-var]  # refused by mypy as when run


def test_arrays_of_every_library_count() -> None:
    arrays: list[Array] = [np.ones(3), torch.ones(3), jnp.ones(3)]
    assert all((2 * x - x[0]).shape == (3,) for x in arrays)
