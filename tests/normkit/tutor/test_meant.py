"""What is perhaps meant by an unknown name, in answers as students write them: what is likely."""

import linecache

import numpy as np
import pytest
import torch

from normkit.tutor.meant import _misspelt
from normkit.tutor.observing import observe

FORWARD = """
def layer_norm(x, gamma, beta, eps=1e-5):
    mean = x.mean(axis=-1, keepdims=True)
    var = x.var(axis=-1, keepdims=True)
    xhat = (x - mean) / np.sqrt(var + eps)
    return gamma * xhat + beta
"""
BACKWARD = """
def layer_norm_backward(dy, x, gamma, eps=1e-5):
    rstd = 1 / np.sqrt(x.var(axis=-1, keepdims=True) + eps)
    xhat = (x - x.mean(axis=-1, keepdims=True)) * rstd
    dgamma = (dy * xhat).sum(axis=0)
    dbeta = dy.sum(axis=0)
    dxhat = dy * gamma
    a = dxhat.mean(axis=-1, keepdims=True)
    dx = rstd * (dxhat - a - xhat * (xhat * dxhat).mean(axis=-1, keepdims=True))
    return dx, dgamma, dbeta
"""
LAYER = """
class LayerNorm(torch.nn.Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = torch.nn.Parameter(torch.ones(features))
        self.register_parameter("bias", torch.nn.Parameter(torch.zeros(features)))

    def forward(self, x):
        mean = x.mean(dim=-1, keepdim=True)
        var = x.var(dim=-1, keepdim=True, correction=0)
        return self.weight * (x - mean) / torch.sqrt(var + self.eps) + self.bias
"""
BLOCK = """
def post_block(x, attention, feed_forward, norms):
    u = norms[0](x + attention(x))
    return norms[1](u + feed_forward(u))
"""
TASKS = {
    FORWARD: "layer_norm/forward",
    BACKWARD: "layer_norm/backward",
    LAYER: "layer_norm/layer",
    BLOCK: "placement/post",
}


NOT_IMPORTED = "    globals().pop('torch')\n    torch.sqrt(x)\n    mean ="  # torch.torch is no help


def told(program, before, after):
    """What is meant in a program in which a student writes one thing in place of another."""
    assert before in program
    source, name = program.replace(before, after), f"/tmp/ipykernel_1/{hash((program, after))}.py"
    linecache.cache[name] = len(source), None, source.splitlines(True), name
    names = {"__name__": "__main__", "np": np, "torch": torch, "In": [], "Out": {}}
    exec(compile(source, name, "exec"), names)
    answer = next(value for key, value in names.items() if key.lower()[:4] in ("laye", "post"))
    results = observe(answer, TASKS[program]).results
    return next(result for result in results if result.error).meant


@pytest.mark.parametrize(
    ("program", "before", "after", "meant"),
    [
        (FORWARD, "x - mean", "x - meen", "mean"),
        (FORWARD, "x - mean", "x - maen", "mean"),
        (FORWARD, "gamma * xhat", "gamma * x_hat", "xhat"),
        (FORWARD, "return gamma", "return Gamma", "gamma"),
        (FORWARD, "var + eps", "var + epsilon", "eps"),
        (FORWARD, "np.sqrt", "numpy.sqrt", "np"),
        (FORWARD, "np.sqrt", "sqrt", "np.sqrt"),
        (FORWARD, "keepdims=True", "keepdims=true", "True"),
        (BACKWARD, "dx, dgamma", "dx, dgama", "dgamma"),
        (BLOCK, "attention(x)", "atention(x)", "attention"),
        (BLOCK, "feed_forward(u)", "feedforward(u)", "feed_forward"),
        (LAYER, "torch.nn.Parameter(torch.ones", "nn.Parameter(torch.ones", "torch.nn"),
        (LAYER, "torch.nn.Parameter(torch.ones", "Parameter(torch.ones", "torch.nn.Parameter"),
        (LAYER, "torch.sqrt", "sqrt", "torch.sqrt"),
        (LAYER, "torch.sqrt", "F.relu", "torch.nn.functional"),
        (FORWARD, "x - mean", "x - mean[:, newaxis]", "np.newaxis"),
        (LAYER, "return self.weight", "return weight", "self.weight"),
        (LAYER, "var + self.eps", "var + eps", "self.eps"),
        (LAYER, "(x - mean)", "(x - mean / features)", "self.features"),
    ],
)
def test_a_name_that_is_probably_misspelt(program, before, after, meant):
    assert told(program, before, after) == meant


@pytest.mark.parametrize(
    ("program", "line"),
    [
        (FORWARD, "    xhat = (x - mean) / np.sqrt(var + eps)\n"),
        (FORWARD, "    var = x.var(axis=-1, keepdims=True)\n"),
        (BACKWARD, "    dxhat = dy * gamma\n"),  # which is not xhat
        (BACKWARD, "    dgamma = (dy * xhat).sum(axis=0)\n"),
        (BACKWARD, BACKWARD.splitlines(True)[8]),  # dx, which is not x
        (LAYER, "        mean = x.mean(dim=-1, keepdim=True)\n"),
    ],
)
def test_what_is_not_computed_is_no_misspelling(program, line):
    assert told(program, line, "") == ""


@pytest.mark.parametrize(
    ("program", "before", "after"),
    [
        (FORWARD, "gamma * xhat + beta", "layer_norm_of(x)"),  # nor does it mean itself
        (LAYER, "return self.weight", "return layer_norm(x) * self.weight"),
        (FORWARD, "gamma * xhat + beta", "out"),  # Out is the notebook's
        (LAYER, "        mean =", "        if train: pass\n        mean ="),  # not the method
        (LAYER, "(x - mean)", "(x - nn)"),
        (FORWARD, "    mean =", NOT_IMPORTED),
    ],
)
def test_what_is_unlikely_is_not_said(program, before, after):
    assert told(program, before, after) == ""


@pytest.mark.parametrize(
    ("program", "before", "after", "meant"),
    [
        (FORWARD, "x.mean", "x.Mean", "mean"),
        (FORWARD, "x.var", "x.variance", "var"),
        (FORWARD, "np.sqrt", "np.squrt", "sqrt"),
        (FORWARD, "np.sqrt", "np.rsqrt", ""),  # which PyTorch has
        (FORWARD, "xhat + beta", "xhat.unsqueeze(0) + beta", ""),
        (LAYER, "return self.weight", "return self.wieght", "weight"),
        (LAYER, "torch.sqrt(var", "torch.silu(var", "torch.nn.functional.silu"),
        (LAYER, "torch.ones(features)", "torch.uniform_(features)", "torch.nn.init.uniform_"),
        (LAYER, "return self.weight", "return self.forwad(x) + self.weight", "forward"),
        (LAYER, "return self.weight", "return self.softmax(x) + self.weight", ""),
        (LAYER, "self.register_parameter", "self.registr_parameter", "register_parameter"),
        (LAYER, "self.register_parameter", "self.parameter", ""),  # but not parameters
        (LAYER, "torch.nn.Parameter(torch.ones", "self.Parameter(torch.ones", "torch.nn.Parameter"),
        (
            LAYER,
            "torch.nn.Parameter(torch.ones",
            "torch.Parameter(torch.ones",
            "torch.nn.Parameter",
        ),
        (LAYER, "var + self.eps", "var + self.features", ""),
    ],
)
def test_an_attribute(program, before, after, meant):
    assert told(program, before, after) == meant


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("runing_var", "running_var running_mean", "running_var"),
        ("runningmean", "running_var running_mean", "running_mean"),
        ("centerd", "centred", "centred"),
        ("normalised", "normalized", "normalized"),
        ("tahn", "tan tanh", "tanh"),
        ("sqrrt", "sqrt sqrt_", "sqrt"),
        ("is_training", "train training", "training"),
        ("dgamma", "gamma", ""),
        ("dgama", "gamma", ""),
        ("new_bias", "bias", ""),
        ("new_var", "new_mean", ""),
        ("new_running_var", "new_running_mean", ""),
        ("batch_mean", "batch_norm", ""),
        ("batch_norm", "batch_norm_training", ""),
        ("share", "shape", ""),
        ("scaled", "scale", ""),
        ("norm2", "norm1 norm", ""),
        ("sum_x", "sum_y", ""),
        ("dy", "dx", ""),
    ],
)
def test_a_misspelling_is_told_from_another_thing(name, known, meant):
    assert _misspelt(name, known.split()) == meant
