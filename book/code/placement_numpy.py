"""A Post-Norm and a Pre-Norm block in NumPy, on the worked example."""

import numpy as np


def norm(v, eps=1e-5):
    """Layer normalisation, with scale 1 and shift 0."""
    centred = v - v.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps)


def branch(v):
    """A toy sub-layer: the third feature first, then zeros."""
    return v[..., [2, 0, 0]] * np.array([1.0, 0.0, 0.0])


def post_block(x, attention, feed_forward):
    """Normalise each sum."""
    u = norm(x + attention(x))
    return norm(u + feed_forward(u))


def pre_block(x, attention, feed_forward):
    """Normalise the input of each sub-layer."""
    u = x + attention(norm(x))
    return u + feed_forward(norm(u))


x = np.array([[0.0, 2.0, 4.0]])
post = post_block(x, branch, branch)
pre = pre_block(x, branch, branch)
final = norm(pre)  # after the last block
