"""The right algorithms as chains of named steps, each of which a mistake can replace.

A step is a function whose parameters name the inputs and the earlier steps that it needs; `xp` is
the library of the arrays. `assemble` makes of a chain what a student is asked to write.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np
from array_api_compat import array_namespace

Steps = Mapping[str, Callable]


def run(steps: Steps, **values: Any) -> dict[str, Any]:
    """The inputs and what every step of the chain makes of them."""
    for name, step in steps.items():
        code = step.__code__
        values[name] = step(*(values[wanted] for wanted in code.co_varnames[: code.co_argcount]))
    return values


def chain(steps: type) -> Steps:
    """The functions of a class body, by name and in order."""
    return {name: step for name, step in vars(steps).items() if isinstance(step, FunctionType)}


# --- Layer normalisation ----------------------------------------------------------------------


@chain
class FORWARD:
    def axis(x):
        return -1

    def mean(xp, x, axis):
        return xp.mean(x, axis=axis, keepdims=True)

    def var(xp, x, mean, axis):
        return xp.mean((x - mean) ** 2, axis=axis, keepdims=True)

    def root(xp, var, eps):
        return xp.sqrt(var + eps)

    def xhat(x, mean, root):
        return (x - mean) / root

    def scaled(gamma, xhat, beta):
        return gamma * xhat

    def y(scaled, beta):
        return scaled + beta


@chain
class GRADIENTS:
    def dxhat(dy, gamma):
        return dy * gamma

    def mean_term(xp, dxhat, axis):
        return xp.mean(dxhat, axis=axis, keepdims=True)

    def xhat_term(xp, dxhat, xhat, axis):
        return xhat * xp.mean(dxhat * xhat, axis=axis, keepdims=True)

    def dx(dxhat, mean_term, xhat_term, root):
        return (dxhat - mean_term - xhat_term) / root

    def tokens(x):
        return tuple(range(x.ndim - 1))

    def dgamma(xp, dy, xhat, tokens):
        return xp.sum(dy * xhat, axis=tokens)

    def dbeta(xp, dy, tokens):
        return xp.sum(dy, axis=tokens)


@chain
class PARAMETERS:
    def weight(torch, features):
        return torch.ones(features)

    def bias(torch, features):
        return torch.zeros(features)

    def register(torch, layer, weight, bias):
        layer.weight, layer.bias = torch.nn.Parameter(weight), torch.nn.Parameter(bias)


@chain
class CALL:
    def prepare(layer, x):
        """Nothing: the parameters exist since the layer was made."""

    def gamma(layer, prepare):
        return layer.weight

    def beta(layer, prepare):
        return layer.bias


@chain
class INVARIANCE:
    def shift_tokens():
        return True

    def scale_tokens():
        return True

    def scale_dataset():
        return True

    def negate_tokens():
        return False

    def shift_dataset():
        return False

    def scale_feature():
        return False

    def unchanged():
        return lambda norm, change, x: np.allclose(norm(change(x)), norm(x))


BACKWARD = {name: FORWARD[name] for name in ("axis", "mean", "var", "root", "xhat")} | GRADIENTS


# --- From steps to what a student writes ------------------------------------------------------


def _layer_norm(steps: Steps) -> Callable:
    def layer_norm(x, gamma=None, beta=None, eps=1e-5):
        xp = array_namespace(x)
        gamma = xp.ones(x.shape[-1]) if gamma is None else gamma
        beta = xp.zeros(x.shape[-1]) if beta is None else beta
        return run(steps, xp=xp, x=x, gamma=gamma, beta=beta, eps=eps)["y"]

    return layer_norm


def _layer_norm_backward(steps: Steps) -> Callable:
    def layer_norm_backward(dy, x, gamma=None, eps=1e-5):
        xp = array_namespace(x)
        gamma = xp.ones(x.shape[-1]) if gamma is None else gamma
        done = run(steps, xp=xp, dy=dy, x=x, gamma=gamma, eps=eps)
        return done["dx"], done["dgamma"], done["dbeta"]

    return layer_norm_backward


def _layer_norm_layer(steps: Steps) -> type:
    import torch

    made = {name: steps[name] for name in PARAMETERS}
    called = {name: steps[name] for name in CALL | FORWARD}

    class LayerNorm(torch.nn.Module):
        def __init__(self, features, eps=1e-5):
            super().__init__()
            self.eps = eps
            run(made, torch=torch, layer=self, features=features)

        def forward(self, x):
            xp = array_namespace(x)
            return run(called, torch=torch, layer=self, xp=xp, x=x, eps=self.eps)["y"]

    return LayerNorm


def _layer_norm_invariance(steps: Steps) -> tuple[dict[str, bool], Callable]:
    done = run(steps)
    return {name: done[name] for name in steps if name != "unchanged"}, done["unchanged"]


@dataclass(frozen=True)
class Algorithm:
    """Steps, what they make, and the page that teaches them, whose labels bear the prefix."""

    steps: Steps
    assemble: Callable[[Steps], Any]
    page: str
    prefix: str
    contains: str = ""  # the algorithm whose steps, and so whose mistakes, are part of it


ALGORITHMS = {
    name: Algorithm(steps, assemble, "layer_norm", "ln", contains)
    for name, steps, assemble, contains in (
        ("layer_norm", FORWARD, _layer_norm, ""),
        ("layer_norm_backward", BACKWARD, _layer_norm_backward, "layer_norm"),
        ("LayerNorm", PARAMETERS | CALL | FORWARD, _layer_norm_layer, "layer_norm"),
        ("layer_norm_invariance", INVARIANCE, _layer_norm_invariance, ""),
    )
}
