"""Conditional norms: the right programs for NumPy, as the chapter prints them."""

import numpy as np

from normkit.tutor.programs import program


@program
def film(x, scale, shift):
    per_channel = (*scale.shape, *[1] * (x.ndim - 2))
    gamma = scale.reshape(per_channel)
    beta = shift.reshape(per_channel)
    return (1 + gamma) * x + beta


@program
def adaptive_layer_norm(x, scale, shift, eps=1e-6):
    mean = x.mean(axis=-1, keepdims=True)
    var = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    xhat = (x - mean) / np.sqrt(var + eps)
    gamma = scale[:, None]
    beta = shift[:, None]
    return (1 + gamma) * xhat + beta


@program
def adaln_zero(x, modulation, norm, branch):
    rows = modulation[:, None]
    beta, gamma, gate = np.split(rows, 3, axis=-1)
    xhat = norm(x)
    h = (1 + gamma) * xhat + beta
    f = branch(h)
    return x + gate * f


@program
def adaln_zero_backward(dy, x, shift, scale, gate, weight, eps=1e-6):
    mean = x.mean(axis=-1, keepdims=True)
    var = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    r = 1 / np.sqrt(var + eps)
    xhat = (x - mean) * r
    gamma = scale[:, None]
    beta = shift[:, None]
    h = (1 + gamma) * xhat + beta
    f = h @ weight
    df = gate[:, None] * dy
    dh = df @ weight.T
    dxhat = (1 + gamma) * dh
    dgate = (dy * f).sum(axis=1)
    dscale = (dh * xhat).sum(axis=1)
    dshift = dh.sum(axis=1)
    mean_term = dxhat.mean(axis=-1, keepdims=True)
    xhat_term = xhat * (dxhat * xhat).mean(axis=-1, keepdims=True)
    dx = dy + r * (dxhat - mean_term - xhat_term)
    return dx, dshift, dscale, dgate


@program
def conditional_batch_norm(x, labels, scales, shifts, eps=1e-5):
    per_channel = (len(x), -1, *[1] * (x.ndim - 2))
    axes = (0, *range(2, x.ndim))
    mean = x.mean(axis=axes, keepdims=True)
    var = ((x - mean) ** 2).mean(axis=axes, keepdims=True)
    xhat = (x - mean) / np.sqrt(var + eps)
    gamma = scales[labels].reshape(per_channel)
    beta = shifts[labels].reshape(per_channel)
    return (1 + gamma) * xhat + beta


@program
def adaptive_instance_norm(x, style, eps=1e-5):
    axes = tuple(range(2, x.ndim))
    mean = x.mean(axis=axes, keepdims=True)
    var = ((x - mean) ** 2).mean(axis=axes, keepdims=True)
    style_mean = style.mean(axis=axes, keepdims=True)
    style_var = ((style - style_mean) ** 2).mean(axis=axes, keepdims=True)
    xhat = (x - mean) / np.sqrt(var + eps)
    deviation = np.sqrt(style_var + eps)
    return deviation * xhat + style_mean
