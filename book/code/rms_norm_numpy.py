"""RMSNorm in NumPy, on the worked example."""

import numpy as np


def rms_norm(x, gamma, eps=1e-6):
    """Divide each row of x by its root mean square, then scale."""
    mean_square = (x**2).mean(axis=-1, keepdims=True)
    return gamma * x / np.sqrt(mean_square + eps)


x = np.array([[1.0, 2.0, 2.0, 4.0], [1.0, 7.0, 5.0, 5.0]])
gamma = np.array([5.0, 1.0, 2.0, 1.0])
y = rms_norm(x, gamma)
