"""What the tests of the functions share."""

import numpy as np
import pytest


@pytest.fixture
def double_precision():
    """JAX computes in float64 when asked to."""
    import jax

    with jax.enable_x64(True):
        yield


@pytest.fixture
def torch_gradients():
    """What torch's automatic differentiation finds for each array."""
    import torch

    def gradients(function, dy, *arrays):
        tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
        function(*tensors).backward(torch.tensor(dy))
        return [tensor.grad.numpy() for tensor in tensors]

    return gradients


@pytest.fixture
def same():
    """Assert that arrays are the same, one by one, but for rounding."""

    def same(ours, theirs):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-11)

    return same
