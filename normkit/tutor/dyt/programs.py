"""DyT, Derf and weight normalisation: the right programs, as the chapter prints them."""

import math

import numpy as np

from normkit.tutor.programs import program


def erf(z):
    """The error function of each number, which NumPy lacks."""
    return np.vectorize(math.erf, otypes=[z.dtype])(z)


@program
def dyt(x, alpha, gamma, beta):
    z = alpha * x
    t = np.tanh(z)
    return gamma * t + beta


@program
def derf(x, alpha, shift, gamma, beta):
    z = alpha * x + shift
    t = erf(z)
    return gamma * t + beta


@program
def dyt_backward(dy, x, alpha, gamma):
    z = alpha * x
    t = np.tanh(z)
    slope = 1 - t**2
    dt = dy * gamma
    u = dt * slope
    dx = alpha * u
    dalpha = (u * x).sum()
    tokens = tuple(range(x.ndim - 1))
    dgamma = (dy * t).sum(axis=tokens)
    dbeta = dy.sum(axis=tokens)
    return dx, dalpha, dgamma, dbeta


@program
def derf_backward(dy, x, alpha, shift, gamma):
    z = alpha * x + shift
    t = erf(z)
    slope = 2 / math.sqrt(math.pi) * np.exp(-(z**2))
    dt = dy * gamma
    u = dt * slope
    dx = alpha * u
    dalpha = (u * x).sum()
    dshift = u.sum()
    tokens = tuple(range(x.ndim - 1))
    dgamma = (dy * t).sum(axis=tokens)
    dbeta = dy.sum(axis=tokens)
    return dx, dalpha, dshift, dgamma, dbeta


@program
def dyt_alpha_init(width):
    other = {4096: 0.2, 5120: 0.15, 8192: 0.05}[width]
    attention = 4 * other
    return attention, other


@program
def weight_norm(v, g):
    g_column = g.reshape(-1, *[1] * (v.ndim - 1))
    axes = tuple(range(1, v.ndim))
    length = np.sqrt((v**2).sum(axis=axes, keepdims=True))
    direction = v / length
    return g_column * direction


@program
def weight_norm_backward(dw, v, g):
    g_column = g.reshape(-1, *[1] * (v.ndim - 1))
    axes = tuple(range(1, v.ndim))
    length = np.sqrt((v**2).sum(axis=axes, keepdims=True))
    direction = v / length
    along = (dw * direction).sum(axis=axes, keepdims=True)
    across = dw - direction * along
    dv = g_column / length * across
    dg = along.reshape(-1)
    return dv, dg
