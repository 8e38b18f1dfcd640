"""Layer normalisation: the right programs, as the chapter prints them."""

import numpy as np

from normkit.tutor.programs import program


@program
def layer_norm(x, gamma=1, beta=0, eps=1e-5):
    mean = x.mean(axis=-1, keepdims=True)
    var = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    xhat = (x - mean) / np.sqrt(var + eps)
    return gamma * xhat + beta


@program
class PlainLayerNorm:
    def __init__(self, features, eps=1e-5):
        self.eps = eps
        self.weight = np.ones(features)
        self.bias = np.zeros(features)

    def forward(self, x):
        return layer_norm(x, self.weight, self.bias, self.eps)


@program
def layer_norm_backward(dy, x, gamma=1, eps=1e-5):
    mean = x.mean(axis=-1, keepdims=True)
    var = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    r = 1 / np.sqrt(var + eps)
    xhat = (x - mean) * r
    dxhat = dy * gamma
    mean_term = dxhat.mean(axis=-1, keepdims=True)
    xhat_term = xhat * (dxhat * xhat).mean(axis=-1, keepdims=True)
    dx = r * (dxhat - mean_term - xhat_term)
    tokens = tuple(range(x.ndim - 1))
    dgamma = (dy * xhat).sum(axis=tokens)
    dbeta = dy.sum(axis=tokens)
    return dx, dgamma, dbeta


@program
def layer_norm_backward_staged(dy, x, gamma=1, eps=1e-5):
    mean = x.mean(axis=-1, keepdims=True)
    var = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    r = 1 / np.sqrt(var + eps)
    xhat = (x - mean) * r
    dxhat = dy * gamma
    n = x.shape[-1]
    dvar = (dxhat * (x - mean)).sum(axis=-1, keepdims=True) * -0.5 * r**3
    dmean = -(dxhat * r).sum(axis=-1, keepdims=True)  # nothing through var: sum(x - mean) is 0
    dx = dxhat * r + dvar * 2 * (x - mean) / n + dmean / n
    tokens = tuple(range(x.ndim - 1))
    dgamma = (dy * xhat).sum(axis=tokens)
    dbeta = dy.sum(axis=tokens)
    return dx, dgamma, dbeta


@program
def unchanged(norm, change, x):
    return np.allclose(norm(change(x)), norm(x))


@program
def layer_norm_invariance():
    predictions = {}
    predictions["shift_tokens"] = True
    predictions["scale_tokens"] = True
    predictions["scale_dataset"] = True
    predictions["negate_tokens"] = False
    predictions["shift_dataset"] = False
    predictions["scale_feature"] = False
    return predictions, unchanged
