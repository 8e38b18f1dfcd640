"""The loops of `normkit.fast`, one over rows each, which Numba turns into machine code.

All take rows, (N, D), and parameters of one dtype, float32 or float64, contiguous, and fill what
they are given last. Private to the package; importing it needs numba.
"""

import math

import numpy as np
from numba import njit

# A sum is vectorised only if it may be reordered. That values are never nan or infinite, which
# fastmath=True promises too, stays unpromised; and a division by zero is not an error.
_compiled = njit(fastmath={"reassoc", "contract", "nsz"}, error_model="numpy", nogil=True)
_in_order = njit(fastmath={"contract"}, error_model="numpy")  # without it, the caller's would hold

BLOCK = 64  # rows whose gradients are summed in the dtype of x, before these sums go to float64

# tanh z = z P(z²)/Q(z²) as far as float32 tells it from 1: our fit of least relative error, 2.1e-8.
FLAT = np.float32(9.02)
P0, P1, P2, P3, P4 = np.array(
    [1.0, 0.13379718, 3.494034760e-3, 2.058348492e-5, 1.331907742e-8], np.float32
)
Q0, Q1, Q2, Q3, Q4 = np.array(
    [1.0, 0.46713033, 2.587107393e-2, 3.283093184e-4, 7.762021611e-7], np.float32
)
ONE = np.float32(1)


@_compiled
def rms_norm(x, gamma, eps, limit, y, r):
    """y and r; whether a mean square is above the limit, so that y is not to be used.

    In float64 no square of a float32 overflows, and the loop is no slower.
    """
    count, features = x.shape
    beyond = False
    for n in range(count):
        total = 0.0
        for i in range(features):
            total += np.float64(x[n, i]) * np.float64(x[n, i])
        beyond |= total / features > limit
        r[n] = 1 / math.sqrt(total / features + eps)
        for i in range(features):
            y[n, i] = gamma[i] * (x[n, i] * r[n])
    return beyond


@_compiled
def rms_norm_backward(dy, x, gamma, r, dx, dgamma):
    """dx = r (γ dy - x̂ mean(γ dy x̂)); dγ, in float64, is added to."""
    count, features = x.shape
    part = np.empty_like(gamma)
    for first in range(0, count, BLOCK):
        part[:] = 0
        for n in range(first, min(first + BLOCK, count)):
            total = 0.0
            for i in range(features):
                total += np.float64(gamma[i] * dy[n, i]) * np.float64(x[n, i] * r[n])
            share = x.dtype.type(total / features)
            for i in range(features):
                xhat = x[n, i] * r[n]
                dx[n, i] = r[n] * (gamma[i] * dy[n, i] - xhat * share)
                part[i] += dy[n, i] * xhat
        dgamma += part


@_in_order
def _centred(value, one, shift):
    """A large mean costs no digits if one of the values is subtracted first."""
    return (value - one) - shift


@_compiled
def layer_norm(x, gamma, beta, eps, limit, y, shift, r):
    """y, r and the mean of x minus its first value; whether a variance is above the limit."""
    count, features = x.shape
    beyond = False
    for n in range(count):
        one, total, squares = x[n, 0], 0.0, 0.0
        for i in range(features):
            total += np.float64(x[n, i]) - np.float64(one)
        mean = total / features
        for i in range(features):
            squares += (np.float64(x[n, i]) - np.float64(one) - mean) ** 2
        beyond |= squares / features > limit
        shift[n], r[n] = mean, 1 / math.sqrt(squares / features + eps)
        for i in range(features):
            y[n, i] = gamma[i] * (_centred(x[n, i], one, shift[n]) * r[n]) + beta[i]
    return beyond


@_compiled
def layer_norm_backward(dy, x, gamma, shift, r, dx, dgamma, dbeta):
    """dx = r (γ dy - mean(γ dy) - x̂ mean(γ dy x̂)); dγ and dβ, in float64, are added to."""
    count, features = x.shape
    part, sums = np.empty_like(gamma), np.empty_like(gamma)
    for first in range(0, count, BLOCK):
        part[:] = 0
        sums[:] = 0
        for n in range(first, min(first + BLOCK, count)):
            one, total, along = x[n, 0], 0.0, 0.0
            for i in range(features):
                xhat = _centred(x[n, i], one, shift[n]) * r[n]
                total += np.float64(gamma[i] * dy[n, i])
                along += np.float64(gamma[i] * dy[n, i]) * np.float64(xhat)
            mean, share = x.dtype.type(total / features), x.dtype.type(along / features)
            for i in range(features):
                xhat = _centred(x[n, i], one, shift[n]) * r[n]
                dx[n, i] = r[n] * ((gamma[i] * dy[n, i] - mean) - xhat * share)
                part[i] += dy[n, i] * xhat
                sums[i] += dy[n, i]
        dgamma += part
        dbeta += sums


@_compiled
def _tanh(z):
    """tanh in float32, wrong by 5 units in the last place at most, without a branch."""
    z = FLAT if z > FLAT else z  # comparisons with nan are false: it stays
    z = -FLAT if z < -FLAT else z
    u = z * z
    above = (((P4 * u + P3) * u + P2) * u + P1) * u + P0
    t = z * above / ((((Q4 * u + Q3) * u + Q2) * u + Q1) * u + Q0)
    t = ONE if t > ONE else t
    return -ONE if t < -ONE else t


@_compiled
def dyt(x, alpha, gamma, beta, y):
    count, features = x.shape
    for n in range(count):
        for i in range(features):
            y[n, i] = gamma[i] * _tanh(alpha * x[n, i]) + beta[i]


@_compiled
def dyt_backward(dy, x, alpha, gamma, dx, dgamma, dbeta):
    """dx = α u; dα = Σ u x is returned, with u = γ dy (1 - t²); t is computed again, not kept."""
    count, features = x.shape
    dalpha = 0.0
    part, sums = np.empty_like(gamma), np.empty_like(gamma)
    for first in range(0, count, BLOCK):
        part[:] = 0
        sums[:] = 0
        for n in range(first, min(first + BLOCK, count)):
            total = x.dtype.type(0)
            for i in range(features):
                t = _tanh(alpha * x[n, i])
                u = gamma[i] * dy[n, i] * (ONE - t * t)
                total += u * x[n, i]
                dx[n, i] = alpha * u
                part[i] += dy[n, i] * t
                sums[i] += dy[n, i]
            dalpha += total
        dgamma += part
        dbeta += sums
    return dalpha
