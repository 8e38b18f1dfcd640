"""RMSNorm and what is made of it: the right programs, as the chapter prints them."""

import math

import numpy as np

from normkit.tutor.programs import program


@program
def rms_norm(x, gamma, eps=1e-5):
    squares = x**2
    mean_square = squares.mean(axis=-1, keepdims=True)
    rms = np.sqrt(mean_square + eps)
    xhat = x / rms
    y = gamma * xhat
    return y


@program
def partial_rms_norm(x, gamma, p, eps=1e-5):
    k = math.ceil(p * x.shape[-1])
    first = x[..., :k]
    squares = first**2
    mean_square = squares.mean(axis=-1, keepdims=True)
    rms = np.sqrt(mean_square + eps)
    xhat = x / rms
    y = gamma * xhat
    return y


@program
def half_rms_norm(x, gamma, eps=1e-5):
    wide = x.astype(np.float32)
    squares = wide**2
    mean_square = squares.mean(axis=-1, keepdims=True)
    rms = np.sqrt(mean_square + eps)
    xhat = wide / rms
    y = gamma * xhat
    return y.astype(x.dtype)


@program
def rms_norm_backward(dy, x, gamma, eps=1e-5):
    squares = x**2
    mean_square = squares.mean(axis=-1, keepdims=True)
    rms = np.sqrt(mean_square + eps)
    xhat = x / rms
    dxhat = dy * gamma
    projection = (dxhat * xhat).mean(axis=-1, keepdims=True)
    xhat_term = xhat * projection
    dx = (dxhat - xhat_term) / rms
    tokens = tuple(range(x.ndim - 1))
    dgamma = (dy * xhat).sum(axis=tokens)
    return dx, dgamma


@program
def rms_norm_backward_staged(dy, x, gamma, eps=1e-5):
    squares = x**2
    mean_square = squares.mean(axis=-1, keepdims=True)
    rms = np.sqrt(mean_square + eps)
    xhat = x / rms
    dxhat = dy * gamma
    drms = -(dxhat * x).sum(axis=-1, keepdims=True) / rms**2
    dmean_square = drms / (2 * rms)
    dsquares = dmean_square / x.shape[-1]
    dx = dxhat / rms + 2 * x * dsquares
    tokens = tuple(range(x.ndim - 1))
    dgamma = (dy * xhat).sum(axis=tokens)
    return dx, dgamma


@program
def partial_rms_norm_backward(dy, x, gamma, p, eps=1e-5):
    k = math.ceil(p * x.shape[-1])
    first = x[..., :k]
    squares = first**2
    mean_square = squares.mean(axis=-1, keepdims=True)
    rms = np.sqrt(mean_square + eps)
    xhat = x / rms
    dxhat = dy * gamma
    projection = (dxhat * xhat).sum(axis=-1, keepdims=True) / k
    counted = np.arange(x.shape[-1]) < k
    xhat_term = np.where(counted, xhat * projection, 0)
    dx = (dxhat - xhat_term) / rms
    tokens = tuple(range(x.ndim - 1))
    dgamma = (dy * xhat).sum(axis=tokens)
    return dx, dgamma


@program
def layer_norm_from_rms_norm(x, gamma, beta, eps, rms_norm):
    mean = x.mean(axis=-1, keepdims=True)
    centred = x - mean
    scaled = rms_norm(centred, gamma, eps)
    y = scaled + beta
    return y


# torch keeps a weight as (outputs, inputs): gamma belongs to the inputs, axis 1


@program
def fold_affine(weight, bias, gamma, beta):
    new_weight = weight * gamma
    new_bias = bias + weight @ beta
    return new_weight, new_bias


@program
def fold_centring(weight, bias):
    new_weight = weight - weight.mean(axis=0)
    new_bias = bias - bias.mean()
    return new_weight, new_bias
