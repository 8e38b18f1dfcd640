"""Errors that teach: what must hold, what came, the likely fix; beside those of the other files."""

import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn

import normkit as nk
from normkit.variance import merge, moments, one_pass, two_pass, welford

TOKENS, IMAGES, ONE = np.ones((4, 6)), np.ones((2, 6, 3)), np.float64(3)
LIST, TENSOR, COMPLEX = [[1.0, 2.0]], torch.ones(4, 6), np.ones((4, 6)) * 1j
GROUPED, NO_SINGLE = np.ones(2), "must be a single number"  # γ per group; α per feature
LAYER, BATCH = nn.LayerNorm(3, bias=False), nn.BatchNorm1d(3).eval()
REAL, LIBRARY = "must hold real numbers", "must come from one library, NumPy, PyTorch or JAX"
AXES, EPS = r"at least two axes, examples and channels: (N, C, ...)", "eps must not be negative"
PAIR = nk.deepnorm_constants(decoder_layers=8)["decoder"]


def model(**options):
    return nk.CharacterTransformer(vocabulary=5, width=4, layers=1, length=8, **options)


def residual(branch=torch.zeros_like, placement="pre", alpha=None, **options):
    return nk.Residual(branch, 3, placement, alpha, **options)


# Each call, what it raises, and words of the message.
FUNCTIONS = {
    "rms_norm, x without axes": (
        lambda: nk.rms_norm(ONE),
        (ValueError, "at least one axis, the features", "a single number"),
    ),
    "rms_norm, complex x": (
        lambda: nk.rms_norm(COMPLEX),
        (TypeError, REAL, "complex128", "real and the imaginary part as two features"),
    ),
    "rms_norm, gamma of one row per example": (
        lambda: nk.rms_norm(TOKENS, TOKENS),
        (ValueError, "gamma must have shape (6,), one number per feature", "(4, 6)"),
    ),
    "rms_norm_backward, x without axes": (
        lambda: nk.rms_norm_backward(ONE, ONE),
        (ValueError, "at least one axis, the features"),
    ),
    "rms_norm_backward, a percentage": (
        lambda: nk.rms_norm_backward(TOKENS, TOKENS, p=50),
        (ValueError, "above 0 and at most 1", "it is 50"),
    ),
    "layer_norm_backward, a number for dy": (
        lambda: nk.layer_norm_backward(1.0, TOKENS),
        (TypeError, "dy must be an array, not a float", "np.array(dy)"),
    ),
    "layer_norm_backward, no dy": (
        lambda: nk.layer_norm_backward(None, TOKENS),
        (TypeError, "dy must be an array, not a NoneType"),
    ),
    "layer_norm_backward, dy of torch": (
        lambda: nk.layer_norm_backward(TENSOR, TOKENS),
        (TypeError, LIBRARY, "dy: Tensor, x: ndarray"),
    ),
    "batch_norm, gamma of one number per example": (
        lambda: nk.batch_norm(TOKENS, np.ones(4), training=True),
        (ValueError, "gamma must have shape (6,), one number per channel", "(4,)"),
    ),
    "batch_norm, a single token": (
        lambda: nk.batch_norm(np.ones(6), training=True),
        (ValueError, AXES, "its shape is (6,)", "x[None]"),
    ),
    "batch_norm, running_var of one number": (
        lambda: nk.batch_norm(TOKENS, None, None, np.ones(6), np.ones(1), training=False),
        (ValueError, "running_var must have shape (6,)", "(1,)"),
    ),
    "batch_norm, no momentum": (
        lambda: nk.batch_norm(TOKENS, training=True, momentum=None),
        (ValueError, "between 0 and 1", "it is None", "pass 1/k at the k-th"),
    ),
    "batch_norm, complex x": (
        lambda: nk.batch_norm(COMPLEX, training=True),
        (TypeError, REAL, "complex128"),
    ),
    "batch_norm_backward, a single token": (
        lambda: nk.batch_norm_backward(np.ones(6), np.ones(6), training=True),
        (ValueError, AXES, "x[None]"),
    ),
    "batch_norm_backward, dy of jax": (
        lambda: nk.batch_norm_backward(jnp.ones((4, 6)), TOKENS, training=True),
        (TypeError, LIBRARY, "x: ndarray"),
    ),
    "group_norm, a single example": (
        lambda: nk.group_norm(np.ones(6), 2),
        (ValueError, AXES, "x[None]"),
    ),
    "group_norm, gamma of one number per group": (
        lambda: nk.group_norm(IMAGES, 2, GROUPED),
        (ValueError, "gamma must have shape (6,), one number per channel", "(2,)"),
    ),
    "group_norm, half a number of groups": (
        lambda: nk.group_norm(IMAGES, 6 / 4),
        (ValueError, "num_groups must divide the number of channels, 6", "it is 1.5"),
    ),
    "group_norm, complex x": (
        lambda: nk.group_norm(COMPLEX, 2),
        (TypeError, REAL, "complex128"),
    ),
    "group_norm_backward, groups that do not divide": (
        lambda: nk.group_norm_backward(IMAGES, IMAGES, 4),
        (ValueError, "num_groups must divide the number of channels, 6", "it is 4", "counts"),
    ),
    "group_norm_backward, gamma of one number per group": (
        lambda: nk.group_norm_backward(IMAGES, IMAGES, 2, GROUPED),
        (ValueError, "gamma must have shape (6,), one number per channel", "(2,)"),
    ),
    "instance_norm, no batch": (
        lambda: nk.instance_norm(np.ones(6)),
        (ValueError, AXES, "x[None]"),
    ),
    "instance_norm, channels last": (
        lambda: nk.instance_norm(IMAGES, np.ones(3)),
        (ValueError, "gamma must have shape (6,)", "np.moveaxis(x, -1, 1)"),
    ),
    "instance_norm, a list": (
        lambda: nk.instance_norm(LIST),
        (TypeError, "x must be an array, not a list", "np.array(x)"),
    ),
    "instance_norm_backward, a negative eps": (
        lambda: nk.instance_norm_backward(IMAGES, IMAGES, eps=-1),
        (ValueError, EPS, "it is -1", "1e-5 is usual"),
    ),
    "dyt, x without axes": (
        lambda: nk.dyt(ONE),
        (ValueError, "at least one axis, the features"),
    ),
    "dyt, complex x": (lambda: nk.dyt(COMPLEX), (TypeError, REAL)),
    "dyt, no alpha": (
        lambda: nk.dyt(TOKENS, None, np.ones(6)),
        (TypeError, "alpha must be a number, or an array of one", "it is None", "default"),
    ),
    "dyt, alpha of torch": (
        lambda: nk.dyt(TOKENS, torch.tensor(0.5)),
        (TypeError, LIBRARY, "x: ndarray, alpha: Tensor"),
    ),
    "dyt_backward, an alpha per feature": (
        lambda: nk.dyt_backward(TOKENS, TOKENS, np.ones(6)),
        (ValueError, f"alpha {NO_SINGLE}", "it has shape (6,)", "gamma and beta"),
    ),
    "dyt_backward, no alpha": (
        lambda: nk.dyt_backward(TOKENS, TOKENS, None),
        (TypeError, "alpha must be a number", "it is None"),
    ),
    "derf, no shift": (
        lambda: nk.derf(TOKENS, 0.5, None),
        (TypeError, "shift must be a number", "it is None", "default"),
    ),
    "derf, complex x": (lambda: nk.derf(COMPLEX), (TypeError, REAL)),
    "derf_backward, a shift per feature": (
        lambda: nk.derf_backward(TOKENS, TOKENS, 0.5, np.ones(6)),
        (ValueError, f"shift {NO_SINGLE}", "it has shape (6,)"),
    ),
    "dyt_alpha_init, the size of a model": (
        lambda: nk.dyt_alpha_init("7B"),
        (ValueError, "published for the widths 4096, 5120, 8192", "not for 7B", "nearest width"),
    ),
    "weight_norm, one g for all": (
        lambda: nk.weight_norm(TOKENS, 2.0),
        (TypeError, "g must be an array, not a float", "np.array(g)"),
    ),
    "weight_norm, no g": (
        lambda: nk.weight_norm(TOKENS, None),
        (TypeError, "g must be an array, not a NoneType"),
    ),
    "weight_norm_backward, no dw": (
        lambda: nk.weight_norm_backward(None, TOKENS, np.ones(4)),
        (TypeError, "dw must be an array, not a NoneType"),
    ),
    "weight_norm, complex v": (
        lambda: nk.weight_norm(COMPLEX, np.ones(4)),
        (TypeError, REAL),
    ),
    "weight_norm_backward, a single row": (
        lambda: nk.weight_norm_backward(np.ones(6), np.ones(6), np.ones(6)),
        (ValueError, "v must have shape (outputs, inputs, ...)", "(6,)"),
    ),
    "weight_norm_backward, dw of torch": (
        lambda: nk.weight_norm_backward(TENSOR, TOKENS, np.ones(4)),
        (TypeError, LIBRARY, "dw: Tensor, v: ndarray"),
    ),
}
VARIANCE = {
    f"{way.__name__}, complex x": (lambda way=way: way(COMPLEX), (TypeError, REAL, "complex128"))
    for way in (moments, welford, one_pass, two_pass)
} | {
    f"{way.__name__}, no values": (
        lambda way=way: way(np.ones((0, 3))),
        (ValueError, "needs more than 0 values", "there are 0"),
    )
    for way in (one_pass, two_pass)
}
VARIANCE |= {
    "merge, arrays": (
        lambda: merge(TOKENS, moments(TOKENS)),
        (TypeError, "a must be Moments, not a ndarray", "merge(moments(x), moments(y))"),
    ),
    "merge, two widths": (
        lambda: merge(moments(TOKENS), moments(TOKENS[:, :1])),
        (ValueError, "must have the same shape", "(6,)", "(1,)", "Only axis 0"),
    ),
    "merge, two libraries": (
        lambda: merge(moments(TOKENS), moments(TENSOR)),
        (TypeError, LIBRARY, "a: ndarray, b: Tensor"),
    ),
}
LAYERS = {
    "BatchNorm2d, a single value per channel": (
        lambda: nk.BatchNorm2d(3)(torch.ones(1, 3, 1, 1)),
        (ValueError, "more than 1 value per channel when training", "[1, 3, 1, 1]"),
    ),
    "InstanceNorm2d, a single position": (
        lambda: nk.InstanceNorm2d(3)(torch.ones(2, 3, 1, 1)),
        (ValueError, "more than 1 spatial element", "[2, 3, 1, 1]"),
    ),
    "GroupNorm, a single example": (
        lambda: nk.GroupNorm(2, 6)(torch.ones(6)),
        (ValueError, "needs 6 channels on axis 1 of x, of shape (N, C, ...)", "(6,)"),
    ),
    "GroupNorm, arguments swapped": (
        lambda: nk.GroupNorm(6, 2),
        (ValueError, "num_groups must divide num_channels, 2", "it is 6", "counts the groups"),
    ),
}
MAKERS = {
    "LayerNorm": lambda: nk.LayerNorm(3),
    "RMSNorm": lambda: nk.RMSNorm(3),
    "DyT": lambda: nk.DyT(3),
    "Derf": lambda: nk.Derf(3),
    "BatchNorm1d": lambda: nk.BatchNorm1d(3),
    "BatchNorm2d": lambda: nk.BatchNorm2d(3),
    "InstanceNorm2d": lambda: nk.InstanceNorm2d(3),
    "GroupNorm": lambda: nk.GroupNorm(1, 3),
}
LAYERS |= {
    f"{name}, {came}": (
        lambda make=make, x=x: make()(x),
        (TypeError, f"{name} needs a tensor of floating-point numbers", came, "dtype=torch.float"),
    )
    for name, make in MAKERS.items()
    for came, x in {
        "torch.int64": torch.ones((2, 3, 3, 3), dtype=torch.int64),
        "torch.complex64": torch.ones((2, 3, 3, 3)) * 1j,
        "ndarray": np.ones((2, 3, 3, 3)),
    }.items()
}
PLACEMENTS = {
    "Residual, a branch to another width": (
        lambda: residual(nn.Linear(3, 1))(torch.ones(2, 3)),
        (ValueError, "must keep the shape of the stream, (2, 3)", "it returns (2, 1)"),
    ),
    "Residual, a branch over all examples": (
        lambda: residual(lambda v: v.sum(0), "post")(torch.ones(2, 3)),
        (ValueError, "must keep the shape of the stream, (2, 3)", "it returns (3,)"),
    ),
    "Residual, both constants for alpha": (
        lambda: residual(placement="deep", alpha=PAIR),
        (TypeError, "alpha must be a single number", "(2.0, 0.35", 'decoder_layers=8)["decoder"]'),
    ),
    "Residual, a negative alpha": (
        lambda: residual(placement="deep", alpha=-2.0),
        (ValueError, "alpha must be positive", "it is -2.0", "deepnorm_constants"),
    ),
    "Residual, a norm ready made": (
        lambda: residual(norm=nk.RMSNorm(3)),
        (TypeError, "RMSNorm and not RMSNorm(8)", "It is a RMSNorm"),
    ),
    "Residual, the name of a norm": (
        lambda: residual(norm="rms"),
        (TypeError, "norm must be a class or function that makes a norm", "It is a str"),
    ),
    "deepnorm_init, both constants for beta": (
        lambda: nk.deepnorm_init(nk.Attention(6, 2), PAIR),
        (TypeError, "beta must be a single number", "(2.0, 0.35"),
    ),
    "deepnorm_init, no gain": (
        lambda: nk.deepnorm_init(nk.Attention(6, 2), 0),
        (ValueError, "beta must be positive", "it is 0"),
    ),
    "Attention, another width": (
        lambda: nk.Attention(6, 2)(torch.ones(2, 5, 4)),
        (ValueError, "This Attention needs", "(..., T, 6)", "its shape is (2, 5, 4)"),
    ),
    "Attention, a single position": (
        lambda: nk.Attention(6, 2)(torch.ones(6)),
        (ValueError, "(..., T, 6)", "its shape is (6,)"),
    ),
    "FeedForward, another width": (
        lambda: nk.FeedForward(6)(torch.ones(2, 4)),
        (ValueError, "This FeedForward needs", "(..., 6)", "its shape is (2, 4)"),
    ),
    "CharacterTransformer, no layers": (
        lambda: nk.CharacterTransformer(5, layers=0),
        (ValueError, "at least 1", "layers is 0"),
    ),
    "CharacterTransformer, no characters": (
        lambda: nk.CharacterTransformer(0),
        (ValueError, "at least 1", "vocabulary is 0"),
    ),
    "CharacterTransformer, heads that do not divide": (
        lambda: model(heads=3),
        (ValueError, "heads must divide width, 4", "it is 3"),
    ),
    "CharacterTransformer, an unknown qk_norm": (
        lambda: model(qk_norm="both"),
        (ValueError, 'qk_norm must be None, "full" or "head"', "it is 'both'"),
    ),
    "CharacterTransformer, a norm ready made": (
        lambda: model(norm=nk.RMSNorm(4)),
        (TypeError, "RMSNorm and not RMSNorm(8)"),
    ),
    "CharacterTransformer, one-hot vectors": (
        lambda: model()(torch.eye(5)),
        (TypeError, "integers of shape (batch, length)", "torch.float32 of shape (5, 5)", "argmax"),
    ),
    "CharacterTransformer, a single character": (
        lambda: model()(torch.tensor(3)),
        (TypeError, "integers of shape (batch, length)", "of shape ()"),
    ),
    "CharacterTransformer, characters numbered from 1": (
        lambda: model()(torch.arange(1, 6)[None]),
        (ValueError, "the characters 0 to 4", "from 1 to 5", "a larger vocabulary"),
    ),
}
FOLDING = {
    "fold_batch_norm, no norm": (
        lambda: nk.fold_batch_norm(nn.Linear(2, 3), nn.Linear(3, 2)),
        (TypeError, "BatchNorm1d folds into a Linear or Conv1d", "Linear and Linear"),
    ),
    "fold_batch_norm, two norms": (
        lambda: nk.fold_batch_norm(BATCH, BATCH),
        (TypeError, "BatchNorm1d folds into a Linear or Conv1d", "BatchNorm1d and BatchNorm1d"),
    ),
    "fold_affine, arguments swapped": (
        lambda: nk.fold_affine(nn.Linear(3, 3), LAYER),
        (TypeError, "norm must be a LayerNorm, RMSNorm", "they are Linear and LayerNorm"),
    ),
    "fold_centring, arguments swapped": (
        lambda: nk.fold_centring(LAYER, nn.Linear(3, 3)),
        (TypeError, "norm must be a LayerNorm, and linear a Linear", "are Linear and LayerNorm"),
    ),
    "fold_centring, DyT": (
        lambda: nk.fold_centring(nn.Linear(3, 3), nk.DyT(3)),
        (TypeError, "norm must be a LayerNorm", "they are DyT and Linear"),
    ),
}
REFUSED = FUNCTIONS | VARIANCE | LAYERS | PLACEMENTS | FOLDING


@pytest.mark.parametrize(("call", "expected"), REFUSED.values(), ids=REFUSED)
def test_refused_with_a_reason(call, expected):
    error, *words = expected
    with pytest.raises(error) as raised:
        call()
    message = str(raised.value)
    assert [word for word in words if word not in message] == [], message


# --- What is not refused ----------------------------------------------------------------------


def test_edges_that_are_allowed():
    """No sequences, one character, one layer; a single number per token; moments of nothing."""
    net = model(placement="deep")
    assert net(torch.zeros(0, 3, dtype=torch.int32)).shape == (0, 3, 5)
    assert net(torch.tensor([[4]])).shape == (1, 1, 5)
    assert (nk.layer_norm(np.ones((3, 1))) == 0).all()
    assert merge(moments(TOKENS[:0]), moments(TOKENS)).n == 4


def test_importing_normkit_imports_no_library_but_numpy():
    heavy = {"torch", "jax", "equinox", "flax", "sklearn", "faker", "tqdm", "matplotlib", "babel"}
    code = f"import sys, normkit; print(*sorted({heavy} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
