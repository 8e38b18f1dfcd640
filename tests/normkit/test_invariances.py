"""What changes an output and what does not: for data that hypothesis draws, dtypes, layouts."""

from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from normkit import (
    batch_norm,
    batch_norm_backward,
    dyt,
    group_norm,
    instance_norm,
    layer_norm,
    layer_norm_backward,
    rms_norm,
    rms_norm_backward,
    weight_norm,
    weight_norm_backward,
)

modest = settings(max_examples=50, deadline=None, derandomize=True)

# --- The table of invariances -----------------------------------------------------------------
# y = Norm(Wx) without ε and bias. W holds one weight vector w per row, X one example x per row.
# Zhang & Sennrich (2019), table 1; DyT added.

TABLE = """
           | W scaled | W shifted | one w scaled | X scaled | X shifted | one x scaled
BatchNorm  |    ✓     |     ✗     |      ✓       |    ✓     |     ✓     |      ✗
WeightNorm |    ✓     |     ✗     |      ✓       |    ✗     |     ✗     |      ✗
LayerNorm  |    ✓     |     ✓     |      ✗       |    ✓     |     ✗     |      ✓
RMSNorm    |    ✓     |     ✗     |      ✗       |    ✓     |     ✗     |      ✓
pRMSNorm   |    ✓     |     ✗     |      ✗       |    ✓     |     ✗     |      ✓
DyT        |    ✗     |     ✗     |      ✗       |    ✗     |     ✗     |      ✗
"""
NORMS = {
    "BatchNorm": lambda W, X: batch_norm(X @ W.T, training=True, eps=0)[0],
    "WeightNorm": lambda W, X: X @ weight_norm(W, np.ones(len(W))).T,
    "LayerNorm": lambda W, X: layer_norm(X @ W.T, eps=0),
    "RMSNorm": lambda W, X: rms_norm(X @ W.T, eps=0),
    "pRMSNorm": lambda W, X: rms_norm(X @ W.T, eps=0, p=0.5),
    "DyT": lambda W, X: dyt(X @ W.T),
}
CHANGES = {
    "W scaled": lambda c: (c.scale * c.W, c.X),
    "W shifted": lambda c: (c.W + c.shift, c.X),  # all weight vectors alike: W + 1gᵀ
    "one w scaled": lambda c: (c.W * c.only(c.W), c.X),
    "X scaled": lambda c: (c.W, c.scale * c.X),
    "X shifted": lambda c: (c.W, c.X + c.shift),  # all examples alike
    "one x scaled": lambda c: (c.W, c.X * c.only(c.X)),
}


class Case(NamedTuple):
    """Weights (outputs, inputs), examples (N, inputs), and how to change them."""

    W: np.ndarray
    X: np.ndarray
    scale: float
    shift: np.ndarray  # (inputs,)
    row: int

    def only(self, rows):
        """A column of ones, but for the scale in a single row."""
        return np.where(np.arange(len(rows)) == self.row, self.scale, 1)[:, None]


@st.composite
def cases(draw):
    """Far from what hides a change: few values per statistic, small changes, saturated tanh."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    examples, inputs, outputs = (draw(st.integers(4, 9)) for _ in range(3))
    scale = draw(st.floats(1.5, 4) | st.floats(0.2, 0.6))
    shift = rng.uniform(0.5, 2, inputs) * rng.choice([-1, 1], inputs)
    W, X = rng.normal(size=(outputs, inputs)), rng.normal(0.5, 1, (examples, inputs))
    return Case(W / np.sqrt(inputs), X, scale, shift, draw(st.integers(0, 3)))


def cells():
    """(norm, change, whether the output stays the same)."""
    header, *rows = ([cell.strip() for cell in line.split("|")] for line in TABLE.split("\n")[1:-1])
    return [
        (norm, change, {"✓": True, "✗": False}[mark])
        for norm, *marks in rows
        for change, mark in zip(header[1:], marks, strict=True)
    ]


def differ(a, b):
    return np.abs(a - b).max()


@pytest.mark.sample(18)
@pytest.mark.parametrize(("norm", "change", "invariant"), cells())
@modest
@given(case=cases())
def test_every_cell_of_the_table(norm, change, invariant, case):
    norm = NORMS[norm]
    difference = differ(norm(*CHANGES[change](case)), norm(case.W, case.X))
    assert difference < 1e-10 if invariant else difference > 1e-3


over_features = pytest.mark.parametrize("norm", [layer_norm, rms_norm])


@over_features
@modest
@given(case=cases())
def test_eps_has_the_scale_of_a_variance(norm, case):
    y = norm(case.X, eps=0.1)
    assert differ(norm(case.scale * case.X, eps=0.1 * case.scale**2), y) < 1e-10
    assert differ(norm(case.scale * case.X, eps=0.1), y) > 1e-3


@over_features
@modest
@given(case=cases())
def test_a_bias_before_the_norm_has_to_be_scaled_with_the_weights(norm, case):
    bias = np.linspace(1, 2, len(case.W))
    z = case.X @ case.W.T
    y = norm(z + bias, eps=0)
    assert differ(norm(case.scale * (z + bias), eps=0), y) < 1e-10
    assert differ(norm(case.scale * z + bias, eps=0), y) > 1e-3


# --- Order and orientation --------------------------------------------------------------------


@modest
@given(case=cases(), seed=st.integers(0, 2**32 - 1))
def test_the_order_of_features_and_of_examples_does_not_matter(case, seed):
    rng, X = np.random.default_rng(seed), case.X
    gamma, beta = rng.normal(size=(2, X.shape[1]))
    features, examples = (rng.permutation(n) for n in X.shape[::-1])
    y = layer_norm(X[:, features], gamma[features], beta[features])
    assert differ(y, layer_norm(X, gamma, beta)[:, features]) < 1e-12
    y = rms_norm(X[:, features], gamma[features])
    assert differ(y, rms_norm(X, gamma)[:, features]) < 1e-12
    y, mean, var = batch_norm(X[examples], training=True)
    right, right_mean, right_var = batch_norm(X, training=True)
    assert differ(y, right[examples]) < 1e-12
    assert differ(mean, right_mean) < 1e-12 and differ(var, right_var) < 1e-12


@modest
@given(case=cases(), seed=st.integers(0, 2**32 - 1), eps=st.floats(0, 1))
def test_batch_norm_is_layer_norm_of_the_transposed(case, seed, eps):
    x, dy = case.X, np.random.default_rng(seed).normal(size=case.X.shape)
    y = batch_norm(x, training=True, eps=eps)[0]
    assert differ(y, layer_norm(x.T, eps=eps).T) < 1e-12
    dx = batch_norm_backward(dy, x, training=True, eps=eps)[0]
    assert differ(dx, layer_norm_backward(dy.T, x.T, eps=eps)[0].T) < 1e-11


# --- Gradients --------------------------------------------------------------------------------


@modest
@given(case=cases(), seed=st.integers(0, 2**32 - 1))
def test_the_gradient_of_a_token_is_at_right_angles_to_it_and_to_ones(case, seed):
    dy, gamma = np.random.default_rng(seed).normal(size=(2, *case.X.shape))
    dx = layer_norm_backward(dy, case.X, gamma[0], eps=0)[0]
    assert differ(dx.sum(-1), 0) < 1e-11 and differ((dx * case.X).sum(-1), 0) < 1e-11


@pytest.mark.parametrize(
    "backward",
    [
        lambda dy, x: layer_norm_backward(dy, x, eps=0),
        lambda dy, x: rms_norm_backward(dy, x, eps=0, p=0.5),
        lambda dy, x: batch_norm_backward(dy, x, training=True, eps=0),
        lambda dw, v: weight_norm_backward(dw, v, np.ones(len(v))),
    ],
    ids=["layer_norm", "rms_norm", "batch_norm", "weight_norm"],
)
@modest
@given(case=cases())
def test_what_is_larger_learns_more_slowly(backward, case):
    """The output forgets the scale s of its input, so the gradient is divided by s."""
    dy = case.X[::-1]
    dx = backward(dy, case.X)[0]
    assert differ(backward(dy, case.scale * case.X)[0], dx / case.scale) < 1e-9


# --- Dtype and layout, against torch ----------------------------------------------------------

PAIRS = {
    "layer_norm": (layer_norm, lambda x: functional.layer_norm(x, x.shape[-1:])),
    "rms_norm": (rms_norm, lambda x: functional.rms_norm(x, x.shape[-1:])),
    "batch_norm": (
        lambda x: batch_norm(x, training=True)[0],
        lambda x: functional.batch_norm(x, None, None, training=True),
    ),
    "group_norm": (lambda x: group_norm(x, 2), lambda x: functional.group_norm(x, 2)),
    "instance_norm": (instance_norm, functional.instance_norm),
}
LAYOUTS = {
    "channels last": lambda x: x.movedim(1, -1).contiguous().movedim(-1, 1),
    "last two axes swapped": lambda x: x.mT.contiguous().mT,
    "every second": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "one example, expanded": lambda x: x[:1].expand(x.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(2, 4, 3, 5), (2, 4, 3, 2, 5)])
@pytest.mark.parametrize("norm", PAIRS)
def test_every_dtype_and_layout_as_torch(norm, shape, dtype, layout):
    """Values whose squares are beyond the largest float16."""
    x = 300 * torch.randn(shape, generator=torch.Generator().manual_seed(0)) + 100
    x = LAYOUTS[layout](x.to(dtype))
    ours, theirs = (function(x) for function in PAIRS[norm])
    assert not x.is_contiguous() and ours.dtype == dtype
    digits = 4 * torch.finfo(dtype).eps
    torch.testing.assert_close(ours, theirs, rtol=digits, atol=digits)
