"""Dynamic tanh in NumPy, on the worked example."""

import numpy as np


def dyt(x, alpha, gamma, beta):
    """Squash each number of x, then scale and shift each feature."""
    return gamma * np.tanh(alpha * x) + beta


x = np.array([[-2.0, 1.0, 10.0], [2.0, 0.0, -1.0]])
gamma, beta = np.array([1.0, 2.0, 1.0]), np.array([0.0, 1.0, 0.0])
y = dyt(x, 0.5, gamma, beta)
