"""Batch normalisation: the right programs, as the chapter prints them."""

import numpy as np

from normkit.tutor.programs import program


@program
def batch_norm(x, gamma, beta, eps=1e-5):
    axes = (0, *range(2, x.ndim))
    shape = (-1, *[1] * (x.ndim - 2))
    mean = x.mean(axis=axes, keepdims=True)
    var = ((x - mean) ** 2).mean(axis=axes, keepdims=True)
    xhat = (x - mean) / np.sqrt(var + eps)
    y = gamma.reshape(shape) * xhat + beta.reshape(shape)
    return y


@program
def batch_norm_training(x, gamma, beta, running_mean, running_var, momentum=0.1, eps=1e-5):
    axes = (0, *range(2, x.ndim))
    shape = (-1, *[1] * (x.ndim - 2))
    mean = x.mean(axis=axes, keepdims=True)
    var = ((x - mean) ** 2).mean(axis=axes, keepdims=True)
    batch_mean = x.mean(axis=axes)
    batch_var = x.var(axis=axes, ddof=1)
    new_mean = (1 - momentum) * running_mean + momentum * batch_mean
    new_var = (1 - momentum) * running_var + momentum * batch_var
    xhat = (x - mean) / np.sqrt(var + eps)
    y = gamma.reshape(shape) * xhat + beta.reshape(shape)
    return y, new_mean, new_var


@program
def batch_norm_inference(x, gamma, beta, running_mean, running_var, eps=1e-5):
    shape = (-1, *[1] * (x.ndim - 2))
    mean = running_mean.reshape(shape)
    var = running_var.reshape(shape)
    xhat = (x - mean) / np.sqrt(var + eps)
    y = gamma.reshape(shape) * xhat + beta.reshape(shape)
    return y


@program
class PlainBatchNorm:
    def __init__(self, features, eps=1e-5, momentum=0.1):
        self.eps = eps
        self.momentum = momentum
        self.training = True
        self.num_batches_tracked = 0
        self.weight = np.ones(features)
        self.bias = np.zeros(features)
        self.running_mean = np.zeros(features)
        self.running_var = np.ones(features)

    def share(self):
        self.num_batches_tracked += 1
        return 1 / self.num_batches_tracked if self.momentum is None else self.momentum

    def forward(self, x):
        scaled = self.weight, self.bias
        running = self.running_mean, self.running_var
        if self.training:
            share = self.share()
            y, new_mean, new_var = batch_norm_training(x, *scaled, *running, share, self.eps)
            self.running_mean = new_mean
            self.running_var = new_var
        else:
            y = batch_norm_inference(x, *scaled, *running, self.eps)
        return y


@program
def batch_norm_backward(dy, x, gamma, running_mean, running_var, training, eps=1e-5):
    axes = (0, *range(2, x.ndim))
    shape = (-1, *[1] * (x.ndim - 2))
    mean = running_mean.reshape(shape)
    var = running_var.reshape(shape)
    if training:
        mean = x.mean(axis=axes, keepdims=True)
        var = ((x - mean) ** 2).mean(axis=axes, keepdims=True)
    r = 1 / np.sqrt(var + eps)
    xhat = (x - mean) * r
    dxhat = dy * gamma.reshape(shape)
    mean_term = dxhat.mean(axis=axes, keepdims=True)
    xhat_term = xhat * (dxhat * xhat).mean(axis=axes, keepdims=True)
    dx = r * (dxhat - mean_term - xhat_term) if training else r * dxhat
    dgamma = (dy * xhat).sum(axis=axes)
    dbeta = dy.sum(axis=axes)
    return dx, dgamma, dbeta


@program
def batch_norm_backward_staged(dy, x, gamma, running_mean, running_var, training, eps=1e-5):
    axes = (0, *range(2, x.ndim))
    shape = (-1, *[1] * (x.ndim - 2))
    mean = running_mean.reshape(shape)
    var = running_var.reshape(shape)
    if training:
        mean = x.mean(axis=axes, keepdims=True)
        var = ((x - mean) ** 2).mean(axis=axes, keepdims=True)
    r = 1 / np.sqrt(var + eps)
    xhat = (x - mean) * r
    dxhat = dy * gamma.reshape(shape)
    m = x.size // x.shape[1]
    dvar = (dxhat * (x - mean)).sum(axis=axes, keepdims=True) * -0.5 * r**3
    dmean = -(dxhat * r).sum(axis=axes, keepdims=True)  # nothing through var: sum(x - mean) is 0
    dx = dxhat * r
    if training:
        dx = dx + dvar * 2 * (x - mean) / m + dmean / m
    dgamma = (dy * xhat).sum(axis=axes)
    dbeta = dy.sum(axis=axes)
    return dx, dgamma, dbeta


@program
def fold_batch_norm(weight, bias, gamma, beta, running_mean, running_var, eps=1e-5):
    a = gamma / np.sqrt(running_var + eps)
    c = beta - a * running_mean
    new_weight = a[:, None] * weight
    old_bias = 0 if bias is None else bias
    new_bias = a * old_bias + c
    return new_weight, new_bias
