"""Group normalisation in NumPy, on the worked example."""

import numpy as np


def group_norm(x, num_groups, gamma, beta, eps=1e-5):
    """Normalise groups of channels, axis 1, of each example by itself."""
    groups = x.reshape(len(x), num_groups, -1)
    mean = groups.mean(axis=-1, keepdims=True)
    variance = groups.var(axis=-1, keepdims=True)  # biased by default
    x_hat = (groups - mean) / np.sqrt(variance + eps)
    # One scale and one shift per channel, for all its positions.
    channels = (-1, *[1] * (x.ndim - 2))
    gamma, beta = gamma.reshape(channels), beta.reshape(channels)
    return gamma * x_hat.reshape(x.shape) + beta


x = np.array([[[1.0, 3.0], [5.0, 7.0], [0.0, 0.0], [2.0, 2.0]]])
gamma = np.array([1.0, 2.0, 3.0, 4.0])
beta = np.array([0.0, 0.0, 1.0, 2.0])
y = group_norm(x, 2, gamma, beta)
