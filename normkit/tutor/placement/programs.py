"""Placements of the norms: the right programs for NumPy, as the chapter prints them."""

import math

import numpy as np

from normkit.tutor.programs import program


@program
def post_block(x, attention, feed_forward, norms):
    a = attention(x)
    u = norms[0](x + a)
    f = feed_forward(u)
    return norms[1](u + f)


@program
def deep_block(x, attention, feed_forward, norms, alpha):
    a = attention(x)
    u = norms[0](alpha * x + a)
    f = feed_forward(u)
    return norms[1](alpha * u + f)


@program
def pre_block(x, attention, feed_forward, norms):
    a = attention(norms[0](x))
    u = x + a
    f = feed_forward(norms[1](u))
    return u + f


@program
def output_block(x, attention, feed_forward, norms):
    a = norms[0](attention(x))
    u = x + a
    f = norms[1](feed_forward(u))
    return u + f


@program
def peri_block(x, attention, feed_forward, norms):
    a = norms[1](attention(norms[0](x)))
    u = x + a
    f = norms[3](feed_forward(norms[2](u)))
    return u + f


@program
def deepnorm_constants(n, m):
    if n and m:
        product = n**4 * m
        alpha_e = 0.81 * product ** (1 / 16)
        beta_e = 0.87 * product ** (-1 / 16)
        alpha_d = (3 * m) ** (1 / 4)
        beta_d = (12 * m) ** (-1 / 4)
        return {"encoder": (alpha_e, beta_e), "decoder": (alpha_d, beta_d)}
    layers = n or m
    alpha = (2 * layers) ** (1 / 4)
    beta = (8 * layers) ** (-1 / 4)
    return {"encoder" if n else "decoder": (alpha, beta)}


@program
def qk_attention(q, k, v, heads, qk_norm, gamma_q, gamma_k, eps=1e-6):
    d = q.shape[-1] // heads

    def rms(a):
        mean_square = (a**2).mean(axis=-1, keepdims=True)
        return a / np.sqrt(mean_square + eps)

    def by_head(a):
        split = a.reshape(len(a), heads, d)
        return split.swapaxes(0, 1)

    rows = (len(q), -1) if qk_norm == "full" else (len(q), heads, d)
    queries = by_head(gamma_q * rms(q.reshape(rows)))
    keys = by_head(gamma_k * rms(k.reshape(rows)))
    values = by_head(v)
    scores = queries @ keys.swapaxes(1, 2) / math.sqrt(d)
    past = np.tril(np.ones(scores.shape[1:])) > 0
    masked = np.where(past, scores, -math.inf)
    e = np.exp(masked - masked.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    mixed = (weights @ values).swapaxes(0, 1)
    return mixed.reshape(len(v), -1)
