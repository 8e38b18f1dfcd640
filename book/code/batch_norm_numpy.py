"""Batch normalisation in NumPy, on the worked example."""

import numpy as np


def batch_norm(x, gamma, beta, running, training, momentum=0.1, eps=1e-5):
    """Normalise each channel; return y and the running statistics."""
    shared = (0, *range(2, x.ndim))  # examples and positions
    channels = (-1, *[1] * (x.ndim - 2))
    running_mean, running_var = running
    mean, variance = running_mean, running_var
    if training:
        mean, variance = x.mean(axis=shared), x.var(axis=shared)
        unbiased = x.var(axis=shared, ddof=1)
        running_mean = (1 - momentum) * running_mean + momentum * mean
        running_var = (1 - momentum) * running_var + momentum * unbiased
    centred = x - mean.reshape(channels)
    x_hat = centred / np.sqrt(variance.reshape(channels) + eps)
    y = gamma.reshape(channels) * x_hat + beta.reshape(channels)
    return y, (running_mean, running_var)


x = np.array([[1.0, 2.0], [3.0, 6.0], [5.0, 4.0], [7.0, 8.0]])
gamma, beta = np.ones(2), np.zeros(2)
start = np.zeros(2), np.ones(2)  # mean 0, variance 1
y, running = batch_norm(x, gamma, beta, start, training=True)
new = np.array([[4.0, 5.0]])
z, _ = batch_norm(new, gamma, beta, running, training=False)
