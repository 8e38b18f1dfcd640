"""Group normalisation, and what it is the same as: the right programs, as the chapter prints them.

A group is a row of numbers: normalised like a token.
"""

import numpy as np

from normkit.tutor.programs import program


@program
def group_norm(x, num_groups, gamma, beta, eps=1e-5):
    if x.shape[1] % num_groups:
        raise ValueError("num_groups must divide the number of channels")
    shape = (-1, *[1] * (x.ndim - 2))
    groups = x.reshape(len(x), num_groups, -1)
    axes = -1
    mean = groups.mean(axis=axes, keepdims=True)
    var = ((groups - mean) ** 2).mean(axis=axes, keepdims=True)
    xhat = ((groups - mean) / np.sqrt(var + eps)).reshape(x.shape)
    y = gamma.reshape(shape) * xhat + beta.reshape(shape)
    return y


@program
def group_norm_backward(dy, x, num_groups, gamma, eps=1e-5):
    shape = (-1, *[1] * (x.ndim - 2))
    groups = x.reshape(len(x), num_groups, -1)
    axes = -1
    mean = groups.mean(axis=axes, keepdims=True)
    var = ((groups - mean) ** 2).mean(axis=axes, keepdims=True)
    r = 1 / np.sqrt(var + eps)
    xhat = (groups - mean) * r
    dxhat = (dy * gamma.reshape(shape)).reshape(groups.shape)
    mean_term = dxhat.mean(axis=axes, keepdims=True)
    xhat_term = xhat * (dxhat * xhat).mean(axis=axes, keepdims=True)
    dx = r * (dxhat - mean_term - xhat_term)
    others = (0, *range(2, x.ndim))
    dgamma = (dy * xhat.reshape(x.shape)).sum(axis=others)
    dbeta = dy.sum(axis=others)
    return dx.reshape(x.shape), dgamma, dbeta


@program
def group_norm_backward_staged(dy, x, num_groups, gamma, eps=1e-5):
    shape = (-1, *[1] * (x.ndim - 2))
    groups = x.reshape(len(x), num_groups, -1)
    axes = -1
    mean = groups.mean(axis=axes, keepdims=True)
    var = ((groups - mean) ** 2).mean(axis=axes, keepdims=True)
    r = 1 / np.sqrt(var + eps)
    xhat = (groups - mean) * r
    dxhat = (dy * gamma.reshape(shape)).reshape(groups.shape)
    m = groups.shape[-1]
    dvar = (dxhat * (groups - mean)).sum(axis=axes, keepdims=True) * -0.5 * r**3
    dmean = -(dxhat * r).sum(axis=axes, keepdims=True)  # nothing through var: sum(x - mean) is 0
    dx = dxhat * r + dvar * 2 * (groups - mean) / m + dmean / m
    others = (0, *range(2, x.ndim))
    dgamma = (dy * xhat.reshape(x.shape)).sum(axis=others)
    dbeta = dy.sum(axis=others)
    return dx.reshape(x.shape), dgamma, dbeta


@program
def groups_like(norm, group_norm, x):
    channels = x.shape[1]
    for number in range(1, channels + 1):
        if channels % number == 0 and np.allclose(group_norm(x, number), norm(x)):
            return number
    return 0


@program
def group_norm_identities():
    numbers = {}
    numbers["layer_norm_of_examples"] = 1
    numbers["layer_norm_of_positions"] = 0
    numbers["instance_norm"] = 6
    numbers["batch_norm"] = 0
    numbers["batch_norm_of_single_examples"] = 6
    numbers["pairs_of_channels"] = 3
    numbers["every_other_channel"] = 0
    return numbers, groups_like


@program
def independent(norm, x):
    y = norm(x)
    return all(np.allclose(norm(x[i : i + 1])[0], y[i]) for i in range(len(x)))


@program
def group_norm_batch():
    predictions = {}
    predictions["batch_norm_training"] = False
    predictions["batch_norm_inference"] = True
    predictions["layer_norm"] = True
    predictions["instance_norm"] = True
    predictions["group_norm"] = True
    return predictions, independent
