"""Batch normalisation as students write it: what is right passes, what is wrong is named."""

import numpy as np
import pytest
import torch

from normkit.tutor.judging import judge
from normkit.tutor.observing import observe


def judged(answer, part, seed=5):
    return judge(observe(answer, f"batch_norm/{part}", seed), f"batch_norm/{part}", seed)


def axes(x):
    return tuple(axis for axis in range(x.ndim) if axis != 1)


def wide(v, x):
    """v lined up with the channels of x."""
    return v.reshape((1, -1) + (1,) * (x.ndim - 2))


# --- Right, in different styles ---------------------------------------------------------------


def loops(x, gamma, beta, eps):
    y = np.empty(x.shape, dtype=np.result_type(x, gamma))
    for c in range(x.shape[1]):
        values = x[:, c].ravel().tolist()
        mean = sum(values) / len(values)
        var = sum((value - mean) ** 2 for value in values) / len(values)
        y[:, c] = (x[:, c] - mean) / (var + eps) ** 0.5 * gamma[c] + beta[c]
    return y


def rows(x, gamma, beta, eps):
    last = np.moveaxis(x, 1, -1)
    flat = last.reshape(-1, x.shape[1])
    y = gamma * (flat - flat.mean(0)) / np.sqrt(flat.var(0) + eps) + beta
    return np.moveaxis(y.reshape(last.shape), -1, 1)


def einsum(x, gamma, beta, eps):
    flat = x.reshape(*x.shape[:2], -1)
    count = x.size // x.shape[1]
    centred = flat - np.einsum("ncp->c", flat)[:, None] / count
    var = np.einsum("ncp,ncp->c", centred, centred) / count
    y = np.einsum("ncp,c->ncp", centred, gamma / np.sqrt(var + eps)) + beta[:, None]
    return y.reshape(x.shape)


def in_place_on_a_copy(x, gamma, beta, eps):
    y = np.array(x, dtype=gamma.dtype)
    y -= y.mean(axes(x), keepdims=True)
    y /= np.sqrt(y.var(axes(x), keepdims=True) + eps)
    y *= wide(gamma, x)
    y += wide(beta, x)
    return y


def torch_inside(x, gamma, beta, eps):
    gamma, beta = wide(torch.tensor(gamma), x), wide(torch.tensor(beta), x)
    x = torch.tensor(x).to(gamma.dtype)
    var, mean = torch.var_mean(x, axes(x), correction=0, keepdim=True)
    return torch.addcmul(beta, gamma, (x - mean) * torch.rsqrt(var + eps)).numpy()


def running_loops(x, gamma, beta, running_mean, running_var, momentum, eps):
    new_mean, new_var = running_mean.copy(), running_var.copy()
    for c in range(x.shape[1]):
        values = x[:, c]
        m = values.size
        new_mean[c] = new_mean[c] * (1 - momentum) + values.mean() * momentum
        new_var[c] += momentum * (values.var() * m / (m - 1) - new_var[c])
    return loops(x, gamma, beta, eps), new_mean, new_var


def functional(x, gamma, beta, eps):
    gamma, beta = torch.tensor(gamma), torch.tensor(beta)
    x = torch.tensor(x).to(gamma.dtype)
    return torch.nn.functional.batch_norm(x, None, None, gamma, beta, True, eps=eps).numpy()


def running_functional(x, gamma, beta, running_mean, running_var, momentum, eps):
    given = [torch.tensor(a) for a in (running_mean, running_var, gamma, beta)]
    x = torch.tensor(x).to(given[0].dtype)
    y = torch.nn.functional.batch_norm(x, *given, True, momentum, eps)
    return [tensor.numpy() for tensor in (y, *given[:2])]


def scale_and_shift(x, gamma, beta, running_mean, running_var, eps):
    a = gamma / np.sqrt(running_var + eps)
    return x * wide(a, x) + wide(beta - a * running_mean, x)


def inference_loops(x, gamma, beta, running_mean, running_var, eps):
    y = np.zeros(x.shape, dtype=gamma.dtype)
    for c, (mean, var) in enumerate(zip(running_mean, running_var, strict=True)):
        y[:, c] = gamma[c] * (x[:, c] - mean) * (var + eps) ** -0.5 + beta[c]
    return y


def staged(dy, x, gamma, running_mean, running_var, training, eps):
    """Through the variance, the mean and x itself, one after the other."""
    mean, var = (x.mean(axes(x)), x.var(axes(x))) if training else (running_mean, running_var)
    centred, r = x - wide(mean, x), wide(1 / np.sqrt(var + eps), x)
    dgamma, dbeta = (dy * centred * r).sum(axes(x)), dy.sum(axes(x))
    dxhat = wide(gamma, x) * dy
    if not training:
        return dxhat * r, dgamma, dbeta
    m = x.size // x.shape[1]
    dvar = wide((dxhat * centred * -0.5 * r**3).sum(axes(x)), x)
    dmean = wide((-dxhat * r).sum(axes(x)), x) + dvar * -2 * wide(centred.mean(axes(x)), x)
    return dxhat * r + dvar * 2 * centred / m + dmean / m, dgamma, dbeta


def from_the_parameters(dy, x, gamma, running_mean, running_var, training, eps):
    """dx from dgamma and dbeta, which are the two sums that it needs."""
    if training:
        running_mean, running_var = x.mean(axes(x)), x.var(axes(x))
    r = 1 / np.sqrt(running_var + eps)
    xhat = (x - wide(running_mean, x)) * wide(r, x)
    dgamma, dbeta = np.sum(dy * xhat, axis=axes(x)), np.sum(dy, axis=axes(x))
    m = x.size / x.shape[1]
    taken = (wide(dbeta, x) + xhat * wide(dgamma, x)) / m if training else 0
    return (wide(gamma * r, x) * (dy - taken)).astype(dy.dtype), dgamma, dbeta


def autograd(dy, x, gamma, running_mean, running_var, training, eps):
    dy, gamma, mean, var = map(torch.tensor, (dy, gamma, running_mean, running_var))
    leaves = torch.tensor(x).to(dy.dtype), gamma, torch.zeros_like(gamma)
    x, gamma, beta = (leaf.requires_grad_() for leaf in leaves)
    y = torch.nn.functional.batch_norm(x, mean, var, gamma, beta, training, eps=eps)
    y.backward(dy)
    return tuple(leaf.grad.numpy() for leaf in (x, gamma, beta))


def fold_by_probing(weight, bias, gamma, beta, running_mean, running_var, eps):
    """What the two layers make of 0 and of each unit vector."""

    def both(x):
        z = x @ weight.T + (0 if bias is None else bias)
        return gamma * (z - running_mean) / np.sqrt(running_var + eps) + beta

    origin = both(np.zeros(weight.shape[1]))
    return (both(np.eye(weight.shape[1])) - origin).T, origin


def fold_with_diag(weight, bias, gamma, beta, running_mean, running_var, eps):
    a = gamma * (running_var + eps) ** -0.5
    bias = np.zeros(len(a)) if bias is None else bias
    return np.diag(a) @ weight, (bias - running_mean) * a + beta


class ByHand(torch.nn.Module):
    """Buffers changed in place under no_grad."""

    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.bias = torch.nn.Parameter(torch.zeros(channels))
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.make_statistics(channels)

    def make_statistics(self, channels):
        self.register_buffer("num_batches_tracked", torch.zeros((), dtype=torch.long))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def update(self, mean, var, x):
        self.num_batches_tracked += 1
        share = self.momentum or 1 / self.num_batches_tracked.item()
        m = x.numel() / x.shape[1]
        with torch.no_grad():
            self.running_mean.mul_(1 - share).add_(share * mean)
            self.running_var.mul_(1 - share).add_(share * var * m / (m - 1))

    def statistics(self, x):
        if not self.training:
            return self.running_mean, self.running_var
        mean, var = x.mean(axes(x)), x.var(axes(x), correction=0)
        self.update(mean, var, x)
        return mean, var

    def forward(self, x):
        mean, var = self.statistics(x)
        xhat = (x - wide(mean, x)) * torch.rsqrt(wide(var, x) + self.eps)
        return wide(self.weight, x) * xhat + wide(self.bias, x)


class Assigned(ByHand):
    """Buffers replaced by new tensors."""

    def update(self, mean, var, x):
        self.num_batches_tracked = self.num_batches_tracked + 1
        share = 1 / self.num_batches_tracked if self.momentum is None else self.momentum
        self.running_mean = self.running_mean.lerp(mean.detach(), share)
        self.running_var = self.running_var.lerp(x.detach().var(axes(x)), share)


class Functional(ByHand):
    def forward(self, x):
        if self.training:
            self.num_batches_tracked += 1
        share = self.momentum or 1 / max(int(self.num_batches_tracked), 1)
        statistics = self.running_mean, self.running_var, self.weight, self.bias
        return torch.nn.functional.batch_norm(x, *statistics, self.training, share, self.eps)


class Torch(torch.nn.modules.batchnorm._BatchNorm):
    def _check_input_dim(self, x):
        """Any number of axes."""


# --- Right, and unusual -----------------------------------------------------------------------


def by_channels(x):
    """One row for each channel."""
    return np.swapaxes(x, 0, 1).reshape(x.shape[1], -1)


def back(rows, x):
    return np.swapaxes(rows.reshape(x.shape[1], len(x), *x.shape[2:]), 0, 1)


def in_float64(x, gamma, beta, eps):
    return loops(x.astype(np.float64), gamma, beta, eps).astype(gamma.dtype)


def transposed(x, gamma, beta, eps):
    rows = by_channels(x)
    rows = (rows.T - rows.mean(1)) / np.sqrt(rows.var(1) + eps) * gamma + beta
    return back(rows.T, x)


def comprehension(x, gamma, beta, eps):
    def one(v, g, b):
        return g * (v - np.average(v)) / np.sqrt(np.mean(np.square(v - np.average(v))) + eps) + b

    return np.stack([one(x[:, c], gamma[c], beta[c]) for c in range(len(gamma))], axis=1)


def case_by_case(x, gamma, beta, eps):
    if x.ndim == 2:
        return gamma * (x - x.mean(0)) / np.sqrt(x.var(0) + eps) + beta
    over = (0, 2) if x.ndim == 3 else (0, 2, 3)
    gamma, beta = (np.expand_dims(v, tuple(range(1, x.ndim - 1))) for v in (gamma, beta))
    return gamma * (x - x.mean(over, keepdims=True)) / x_std(x, over, eps) + beta


def x_std(x, over, eps):
    return (x.var(over, keepdims=True) + eps) ** 0.5


def covariance(x, gamma, beta, eps):
    rows = by_channels(x)
    var = np.array([np.cov(row, bias=True) for row in rows], dtype=gamma.dtype)
    a = gamma / np.sqrt(var + eps)
    centred = rows - rows.sum(1, keepdims=True) / rows.shape[1]
    return back(np.diag(a) @ centred + beta[:, None], x).astype(gamma.dtype)


def welford(x, gamma, beta, eps):
    """Number by number, in Python's floats."""
    y = np.empty(x.shape, gamma.dtype)
    for c in range(x.shape[1]):
        mean = squares = 0.0
        for n, value in enumerate(x[:, c].ravel().tolist(), 1):
            gap = value - mean
            mean += gap / n
            squares += gap * (value - mean)
        y[:, c] = gamma[c] * (x[:, c] - mean) / (squares / n + eps) ** 0.5 + beta[c]
    return y


def running_lerp(x, gamma, beta, running_mean, running_var, momentum, eps):
    """A list, and in float64 whatever comes."""
    x = np.asarray(x, float)
    y = in_place_on_a_copy(x, gamma.astype(float), beta.astype(float), eps)
    gaps = x.mean(axes(x)) - running_mean, np.var(x, axes(x), ddof=1) - running_var
    moved = [
        old + momentum * gap for old, gap in zip((running_mean, running_var), gaps, strict=True)
    ]
    return [y, *moved]


def running_zeros(x, gamma, beta, running_mean, running_var, momentum, eps):
    """The new statistics are made with the default dtype."""
    new_mean, new_var = np.zeros(x.shape[1]), np.zeros(x.shape[1])
    for c, values in enumerate(by_channels(x)):
        new_mean[c] = running_mean[c] * (1 - momentum) + momentum * values.mean()
        squares = sum((value - values.mean()) ** 2 for value in values)
        new_var[c] = running_var[c] * (1 - momentum) + momentum * squares / (len(values) - 1)
    return transposed(x, gamma, beta, eps), new_mean, new_var


def inference_zeros(x, gamma, beta, running_mean, running_var, eps):
    y = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        c = index[1]
        y[index] = gamma[c] * (x[index] - running_mean[c]) / (running_var[c] + eps) ** 0.5 + beta[c]
    return y


def inference_last(x, gamma, beta, running_mean, running_var, eps):
    y = gamma * (np.moveaxis(x, 1, -1) - running_mean) / np.sqrt(running_var + eps) + beta
    return np.moveaxis(y, -1, 1)


def inference_matrix(x, gamma, beta, running_mean, running_var, eps):
    a = np.diag(gamma / np.sqrt(running_var + eps))
    return np.einsum("cd,nd...->nc...", a, x - wide(running_mean, x)) + wide(beta, x)


def jacobians(dy, x, gamma, running_mean, running_var, training, eps):
    """The matrix of the derivatives of each channel, times the gradient at its output."""
    if not training:
        return staged(dy, x, gamma, running_mean, running_var, False, eps)
    rows, given = by_channels(x), by_channels(dy)
    centred, m = rows - rows.mean(1, keepdims=True), rows.shape[1]
    dx, dgamma = np.zeros(rows.shape), np.zeros(len(gamma))
    for c, row in enumerate(centred):
        root = np.sqrt((row**2).mean() + eps)
        xhat = row / root
        matrix = (np.eye(m) - 1 / m - np.outer(xhat, xhat) / m) * gamma[c] / root
        dx[c], dgamma[c] = matrix @ given[c], given[c] @ xhat
    return back(dx, x), dgamma, given.sum(1)


def nine_steps(dy, x, gamma, running_mean, running_var, training, eps):
    """The computational graph, node by node."""
    if training:
        running_mean, running_var = x.mean(axes(x)), x.var(axes(x))
    xmu, sqrtvar = x - wide(running_mean, x), wide(np.sqrt(running_var + eps), x)
    ivar, m = 1 / sqrtvar, x.size / x.shape[1]
    dbeta, dgamma = dy.sum(axes(x)), np.sum(dy * xmu * ivar, axes(x))
    dxhat = dy * wide(gamma, x)
    dxmu1 = dxhat * ivar
    if not training:
        return dxmu1, dgamma, dbeta
    divar = np.sum(dxhat * xmu, axes(x), keepdims=True)
    dsqrtvar = -divar / sqrtvar**2
    dvar = 0.5 * dsqrtvar / sqrtvar
    dsq = np.ones(x.shape) / m * dvar
    dx1 = dxmu1 + 2 * xmu * dsq
    dmu = -np.sum(dx1, axes(x), keepdims=True)
    return dx1 + np.ones(x.shape) / m * dmu, dgamma, dbeta


def rows_of_channels(dy, x, gamma, running_mean, running_var, training, eps):
    """Layer normalisation of rows, each of which has a gamma of its own."""
    rows, dxhat = by_channels(x).astype(float), by_channels(dy) * gamma[:, None]
    mean, var = (rows.mean(1), rows.var(1)) if training else (running_mean, running_var)
    r = (var[:, None] + eps) ** -0.5
    xhat = (rows - mean[:, None]) * r
    dgamma, dbeta = (by_channels(dy) * xhat).sum(1), by_channels(dy).sum(1)
    if training:
        projected = xhat * np.einsum("cm,cm->c", dxhat, xhat)[:, None] / rows.shape[1]
        dxhat = dxhat - dxhat.mean(1, keepdims=True) - projected
    return [back(r * dxhat, x), dgamma, dbeta]


def fold_rows(weight, bias, gamma, beta, running_mean, running_var, eps):
    new_weight, new_bias = np.empty_like(weight), []
    for c, row in enumerate(weight):
        scale = gamma[c] / (running_var[c] + eps) ** 0.5
        new_weight[c] = scale * row
        old = bias[c] if bias is not None else 0.0
        new_bias.append(scale * (old - running_mean[c]) + beta[c])
    return new_weight, np.array(new_bias)


def fold_augmented(weight, bias, gamma, beta, running_mean, running_var, eps):
    """The bias as one more column of the weight."""
    bias = 0 * beta if bias is None else bias
    both = np.concatenate([weight, (bias - running_mean)[:, None]], axis=1)
    both = np.einsum("o,oi->oi", gamma / np.sqrt(running_var + eps), both)
    return both[:, :-1], both[:, -1] + beta


def fold_transposed(weight, bias, gamma, beta, running_mean, running_var, eps):
    a = gamma / np.sqrt(running_var + eps)
    shift = beta - a * running_mean
    return (weight.T * a).T, shift if bias is None else shift + bias * a


class Lerped(ByHand):
    """Buffers moved in their own memory, parameters registered by hand."""

    def __init__(self, features, eps=1e-5, momentum=0.1):
        super().__init__(features, eps, momentum)
        del self.weight, self.bias
        self.register_parameter("weight", torch.nn.Parameter(torch.empty(features)))
        self.register_parameter("bias", torch.nn.Parameter(torch.empty(features)))
        torch.nn.init.ones_(self.weight)
        torch.nn.init.zeros_(self.bias)

    @torch.no_grad()
    def update(self, mean, var, x):
        self.num_batches_tracked.add_(1)
        share = 1 / int(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, share)
        self.running_var.lerp_(x.var(axes(x)), share)


class Copied(ByHand):
    """New values copied into the data of the buffers."""

    def update(self, mean, var, x):
        self.num_batches_tracked += 1
        share = 1 / self.num_batches_tracked if self.momentum is None else self.momentum
        rows = x.detach().transpose(0, 1).flatten(1)
        unbiased = ((rows.T - rows.mean(1)) ** 2).sum(0) / (rows.shape[1] - 1)
        self.running_mean.data.copy_((1 - share) * self.running_mean + share * rows.mean(1))
        self.running_var.data.copy_((1 - share) * self.running_var + share * unbiased)


class InFloat64(ByHand):
    def forward(self, x):
        return super().forward(x.double()).to(x.dtype)


class TwoWays(ByHand):
    """One method for each mode."""

    def forward(self, x):
        return self.learn(x) if self.training else self.predict(x)

    def learn(self, x):
        var, mean = torch.var_mean(x, axes(x), correction=0)
        self.update(mean.detach(), var.detach(), x)
        return self.normalised(x, mean, var)

    def predict(self, x):
        return self.normalised(x, self.running_mean, self.running_var)

    def normalised(self, x, mean, var):
        scale = self.weight / (var + self.eps).sqrt()
        return torch.einsum("nc...,c->nc...", x - wide(mean, x), scale) + wide(self.bias, x)


RIGHT = {
    "forward": [
        *(loops, rows, einsum, in_place_on_a_copy, torch_inside, in_float64, transposed),
        *(comprehension, case_by_case, covariance, welford),
    ],
    "running": [running_loops, running_lerp, running_zeros],
    "inference": [
        *(scale_and_shift, inference_loops, inference_zeros, inference_last, inference_matrix),
    ],
    "layer": [ByHand, Assigned, Lerped, Copied, InFloat64, TwoWays],
    "backward": [staged, from_the_parameters, jacobians, nine_steps, rows_of_channels],
    "fold": [fold_by_probing, fold_with_diag, fold_rows, fold_augmented, fold_transposed],
}


@pytest.mark.parametrize(("part", "answer"), [(p, a) for p, many in RIGHT.items() for a in many])
def test_a_right_answer_of_any_style_passes(part, answer):
    for seed in range(3):
        verdict = judged(answer, part, seed)
        assert verdict.passed, verdict.explain()


READY_MADE = {
    "torch.nn.functional.batch_norm": [
        *(("forward", functional), ("running", running_functional), ("layer", Functional)),
        ("backward", autograd),
    ],
    "torch.nn.modules.batchnorm._BatchNorm": [("layer", Torch)],
}


@pytest.mark.parametrize(
    ("name", "part", "answer"),
    [(name, *answer) for name, answers in READY_MADE.items() for answer in answers],
)
def test_a_ready_made_answer_is_refused(name, part, answer):
    difference = judged(answer, part).difference
    assert (difference.what, difference.name) == ("ready_made", name)


# --- Wrong ------------------------------------------------------------------------------------


def mean_and_std(x, gamma, beta, eps, **options):
    centred = x - x.mean(axes(x), keepdims=True)
    return wide(gamma, x) * centred / np.sqrt(x.var(axes(x), **options) + eps) + wide(beta, x)


def notebook(x, gamma, beta, eps):
    """With the defaults of torch, and without eps."""
    mean, std = x.mean(axes(x), keepdims=True), x.std(axes(x), keepdims=True, ddof=1)
    return wide(gamma, x) * (x - mean) / std + wide(beta, x)


def per_pixel(x, gamma, beta, eps):
    mu, var = np.mean(x, 0), np.var(x, 0)
    return (x - mu) / np.sqrt(var + eps) * wide(gamma, x) + wide(beta, x)


def book(x, gamma, beta, eps):
    """As in d2l: fully connected, or else convolutional."""
    if x.ndim == 2:
        mean, var = x.mean(axis=0), ((x - x.mean(axis=0)) ** 2).mean(axis=0)
    else:
        mean = x.mean(axis=(0, 2, 3), keepdims=True)
        var = ((x - mean) ** 2).mean(axis=(0, 2, 3), keepdims=True)
    return wide(gamma, x) * (x - mean) / np.sqrt(var + eps) + wide(beta, x)


def not_reshaped(x, gamma, beta, eps):
    x_hat = mean_and_std(x, np.ones_like(gamma), np.zeros_like(beta), eps, keepdims=True)
    return gamma * x_hat + beta


def flattened(x, gamma, beta, eps):
    flat = x.reshape(-1, x.shape[1])
    return rows(flat, gamma, beta, eps).reshape(x.shape)


def each_image(x, gamma, beta, eps):
    inside = tuple(range(x.ndim))[2:]
    mean, var = x.mean(axis=inside, keepdims=True), x.var(axis=inside, keepdims=True)
    return (x - mean) * (var + eps) ** -0.5 * wide(gamma, x) + wide(beta, x)


def each_image_and_rows(x, gamma, beta, eps):
    over = 0 if x.ndim == 2 else axes(x)[1:]
    mean, var = x.mean(over, keepdims=True), x.var(over, keepdims=True)
    return wide(gamma, x) * (x - mean) / np.sqrt(var + eps) + wide(beta, x)


def left_too_early(x, gamma, beta, eps):
    y = np.zeros(x.shape, gamma.dtype)
    for c in range(x.shape[1]):
        y[:, c] = gamma[c] * (x[:, c] - x[:, c].mean()) / np.sqrt(x[:, c].var() + eps) + beta[c]
        return y


def averaged_variances(x, gamma, beta, eps):
    """The means and variances of the images, averaged over the images."""
    mean, var = x.mean(0), x.var(0)
    if x.ndim > 2:
        mean, var = x.mean(axes(x)[1:]).mean(0), x.var(axes(x)[1:]).mean(0)
    return wide(gamma, x) * (x - wide(mean, x)) / np.sqrt(wide(var, x) + eps) + wide(beta, x)


def keep(x):
    return x.mean(axes(x), keepdims=True)


def in_place(mean, x, gamma, beta, eps):
    x -= mean(x, axes(x), keepdims=True)
    return wide(gamma, x) * x / np.sqrt((x**2).mean(axes(x), keepdims=True) + eps) + wide(beta, x)


def one_variance(x, gamma, beta, eps):
    centred = x - keep(x)
    return wide(gamma, x) * centred / (np.mean(centred**2) + eps) ** 0.5 + wide(beta, x)


def lined_up(x, gamma, beta, eps, keep_mean=True, keep_var=True):
    mean = np.mean(x, axis=axes(x), keepdims=keep_mean)
    var = np.mean((x - mean) ** 2, axis=axes(x), keepdims=keep_var)
    return wide(gamma, x) * (x - mean) / np.sqrt(var + eps) + wide(beta, x)


def reshaped(x, gamma, beta, eps, shape):
    xhat = (x - keep(x)) / x_std(x, axes(x), eps)
    return np.reshape(gamma, shape) * xhat + np.reshape(beta, shape)


def divided_by_examples(x, gamma, beta, eps, by=0):
    d = x - x.sum(axes(x), keepdims=True) / x.shape[by]
    xhat = d / np.sqrt((d * d).sum(axes(x), keepdims=True) / x.shape[by] + eps)
    return wide(gamma, x) * xhat + wide(beta, x)


def over_these(chosen):
    """The right program, over other axes."""

    def answer(x, gamma, beta, eps):
        mean, var = x.mean(chosen(x), keepdims=True), x.var(chosen(x), keepdims=True)
        return wide(gamma, x) * (x - mean) / np.sqrt(var + eps) + wide(beta, x)

    return answer


def with_root(root):
    """The right program, with another root."""

    def answer(x, gamma, beta, eps):
        xhat = (x - keep(x)) / root(x.var(axes(x), keepdims=True), eps)
        return wide(gamma, x) * xhat + wide(beta, x)

    return answer


def four_axes(x, gamma, beta, eps):
    if x.ndim != 4:
        raise ValueError("images only")
    return rows(x, gamma, beta, eps)


def filled(x, gamma, beta, eps):
    y = np.zeros_like(x)
    for c in range(len(gamma)):
        y[:, c] = gamma[c] * (x[:, c] - x[:, c].mean()) / np.sqrt(x[:, c].var() + eps) + beta[c]
    return y


FORWARD = [
    (filled, ["integers_returned"]),
    (divided_by_examples, ["sums_divided_by_examples"]),
    (per_pixel, ["first_axis_only"]),
    (book, ["sequences_forgotten"]),
    (not_reshaped, ["gamma_on_last_axis"]),
    (flattened, ["reshaped_to_rows"]),
    (each_image, ["instance_norm_instead"]),
    (each_image_and_rows, ["instance_norm_of_images"]),
    (averaged_variances, ["variance_within_examples"]),
    (left_too_early, ["first_channel_alone"]),
    (lambda *a: mean_and_std(*a, ddof=1, keepdims=True), ["unbiased_variance"]),
    (
        lambda x, g, b, eps: (x - x.mean()) * wide(g, x) / np.sqrt(x.var() + eps) + wide(b, x),
        ["one_mean_for_all"],
    ),
    (notebook, ["no_eps", "unbiased_variance"]),
    (
        lambda x, g, b, eps: in_place_on_a_copy(x, b, g, eps).astype(g.dtype),
        ["gamma_and_beta_exchanged"],
    ),
    (lambda x, g, b, eps: wide(g, x) * (x - keep(x)) + wide(b, x), ["not_divided"]),
    (lambda *a: in_place(np.ndarray.mean, *a), ["changed_in_place"]),
    (lambda *a: one_variance(*a), ["statistic_of_whole_array"]),
    (lambda *a: lined_up(*a, keep_mean=False), ["one_statistic_on_last_axis"]),
    (lambda *a: lined_up(*a, keep_var=False), ["one_statistic_on_last_axis"]),
    (lambda *a: lined_up(*a, keep_mean=False, keep_var=False), ["statistics_on_last_axis"]),
    (lambda *a: reshaped(*a, (1, -1, 1, 1)), ["parameters_shaped_for_images"]),
    (lambda *a: reshaped(*a, (-1, 1, 1)), ["parameters_shaped_for_images"]),
    (
        lambda x, *a: reshaped(x, *a, (1, -1, 1, 1) if x.ndim == 4 else (1, -1)),
        ["sequences_forgotten"],
    ),
    (four_axes, ["images_only"]),
    (lambda x, g, b, eps: rows(x, g, -b, eps), ["beta_subtracted"]),
    (lambda x, g, b, eps: rows(-x, g, b, eps), ["deviations_reversed"]),
    (over_these(lambda x: (0, 2) if x.ndim > 2 else 0), ["positions_left_out"]),
    (over_these(lambda x: (0, *range(2, x.ndim - 1))), ["positions_left_out"]),
    (
        lambda x, g, b, eps: g * rows(x, g**0, 0 * b, eps) + wide(b, x),
        ["one_parameter_on_last_axis"],
    ),
    (lambda *a: divided_by_examples(*a, by=1), ["sums_divided_by_channels"]),
    (with_root(lambda var, eps: np.sqrt(np.sqrt(var) + eps)), ["root_taken_twice"]),
    (with_root(lambda var, eps: np.sqrt(var) + np.sqrt(eps)), ["eps_otherwise"]),
    (with_root(lambda var, eps: (var + eps) ** 1 / 2), ["power_halved"]),
]


def updated(mean=None, var=None, y=None):
    """One step of the running statistics, some of it replaced."""

    def answer(x, gamma, beta, running_mean, running_var, momentum, eps):
        m = x.size // x.shape[1]
        old = running_mean, running_var
        mu, sigma2 = x.mean(axes(x)), x.var(axes(x))
        new_mean = mean(old[0], mu, momentum) if mean else old[0] + momentum * (mu - old[0])
        used = (old[1], sigma2, m, momentum)
        new_var = var(*used) if var else old[1] + momentum * (sigma2 * m / (m - 1) - old[1])
        seen = y(old, (new_mean, new_var)) if y else (mu, sigma2)
        xhat = (x - wide(seen[0], x)) / np.sqrt(wide(seen[1], x) + eps)
        return wide(gamma, x) * xhat + wide(beta, x), new_mean, new_var

    return answer


def running_in_place(x, gamma, beta, running_mean, running_var, momentum, eps):
    y, mean, var = updated()(x, gamma, beta, running_mean, running_var, momentum, eps)
    running_mean[:] = mean
    running_var[:] = var
    return y, running_mean, running_var


def kept_axes(x, gamma, beta, running_mean, running_var, momentum, eps):
    """The statistics of the forward pass, as they are, go into the running ones."""
    y = in_place_on_a_copy(x, gamma, beta, eps)
    new_mean = (1 - momentum) * running_mean + momentum * keep(x)
    unbiased = x.var(axes(x), keepdims=True, ddof=1)
    return y, new_mean, (1 - momentum) * running_var + momentum * unbiased


RUN = [
    (updated(var=lambda old, s2, m, mom: (1 - mom) * old + mom * s2), ["biased_running_var"]),
    (
        updated(
            lambda old, mu, mom: mom * old + (1 - mom) * mu,
            lambda old, s2, m, mom: mom * old + (1 - mom) * s2 * m / (m - 1),
        ),
        ["swapped_momentum"],
    ),
    (updated(lambda old, mu, mom: mom * old + (1 - mom) * mu), ["swapped_momentum"]),
    (updated(lambda old, mu, mom: old), ["one_never_updated"]),
    (updated(var=lambda old, s2, m, mom: old), ["one_never_updated"]),
    (updated(lambda old, mu, mom: old + mom * (old - mu)), ["moved_away"]),
    (lambda *a: [updated()(*a)[i] for i in (0, 1, 1)], ["one_returned_twice"]),
    (lambda *a: [updated()(*a)[i] for i in (1, 2, 0)], ["y_returned_last"]),
    (updated(var=lambda old, s2, m, mom: old - mom * (old - s2**0.5)), ["biased_running_std"]),
    (
        updated(var=lambda old, s2, m, mom: (1 - mom) * old + mom * np.sqrt(m * s2 / (m - 1))),
        ["running_std"],
    ),
    (updated(y=lambda old, new: new), ["running_in_training"]),
    (updated(y=lambda old, new: old), ["old_running_in_training"]),
    (
        updated(lambda old, mu, mom: mu, lambda old, s2, m, mom: s2 * m / (m - 1)),
        ["last_batch_only"],
    ),
    (running_in_place, ["running_in_place"]),
    (
        updated(
            lambda old, mu, mom: old + mom * mu,
            lambda old, s2, m, mom: old + mom * s2 * m / (m - 1),
        ),
        ["old_value_in_full"],
    ),
    (
        updated(
            lambda old, mu, mom: (1 - mom) * old + mu,
            lambda old, s2, m, mom: (1 - mom) * old + s2 * m / (m - 1),
        ),
        ["batch_in_full"],
    ),
    (
        updated(var=lambda old, s2, m, mom: (1 - mom) * old + mom * s2 * (m - 1) / m),
        ["correction_inverted"],
    ),
    (
        updated(var=lambda old, s2, m, mom: (1 - mom) * old + mom * s2 * (m / (m - 1)) ** 2),
        ["corrected_twice"],
    ),
    (
        updated(var=lambda old, s2, m, mom: ((1 - mom) * old + mom * s2) * m / (m - 1)),
        ["sum_corrected"],
    ),
    (lambda *a: updated()(*a)[::2] + updated()(*a)[1:2], ["statistics_returned_in_reverse"]),
    (kept_axes, ["running_keeps_axes"]),
]


def evaluated(statistics):
    def answer(x, gamma, beta, running_mean, running_var, eps):
        mean, var = statistics(x, running_mean, running_var)
        return wide(gamma, x) * (x - mean) / np.sqrt(var + eps) + wide(beta, x)

    return answer


def for_images(x, *arrays):
    *arrays, eps = arrays
    gamma, beta, mean, var = (a.reshape(1, -1, 1, 1) for a in arrays)
    return gamma * (x - mean) / np.sqrt(var + eps) + beta


INFER = [
    (evaluated(lambda x, mean, var: (mean, var)), ["running_on_last_axis"]),
    (for_images, ["shaped_for_images"]),
    (
        evaluated(lambda x, *s: (x.mean(axes(x), keepdims=True), x.var(axes(x), keepdims=True))),
        ["batch_in_inference"],
    ),
    (
        lambda x, g, b, mean, var, eps: (
            wide(g, x) * (x - wide(mean, x)) / wide(var + eps, x) + wide(b, x)
        ),
        ["no_root"],
    ),
    (
        lambda x, g, b, mean, var, eps: (x - wide(mean, x)) / wide((var + eps) ** 0.5, x),
        ["beta_forgotten", "gamma_forgotten"],
    ),
    (
        lambda x, g, b, mean, var, eps: (
            wide(g, x) * (x - wide(mean, x)) / wide(np.sqrt(var), x) + wide(b, x)
        ),
        ["no_eps"],
    ),
    (
        lambda x, g, b, mean, var, eps: scale_and_shift(x, g, b, var, mean, eps),
        ["statistics_exchanged"],
    ),
    (
        lambda x, g, b, mean, var, eps: scale_and_shift(x, g, b, 0 * mean, var, eps),
        ["running_mean_not_subtracted"],
    ),
]


class Notes(ByHand):
    """From notes: plain tensors, ones and zeros, everything in the graph."""

    def make_statistics(self, channels):
        self.running_mean, self.running_var = torch.ones(channels), torch.zeros(channels)
        self.register_buffer("num_batches_tracked", torch.tensor(0))


class Graph(ByHand):
    def update(self, mean, var, x):
        self.num_batches_tracked += 1
        share = self.momentum or 1 / self.num_batches_tracked.item()
        m = x.numel() / x.shape[1]
        self.running_mean = (1 - share) * self.running_mean + share * mean
        self.running_var = (1 - share) * self.running_var + share * var * m / (m - 1)


class Everything(ByHand):
    """The statistics of the batch under no_grad, not only the update."""

    def statistics(self, x):
        with torch.no_grad():
            return super().statistics(x)


class Shared(ByHand):
    """With the method that the assignment gives."""

    def share(self):
        self.num_batches_tracked += 1
        return 1 / self.num_batches_tracked if self.momentum is None else self.momentum

    def update(self, mean, var, x):
        share = self.share()
        with torch.no_grad():
            self.running_mean += share * (mean - self.running_mean)
            self.running_var += share * (x.var(axes(x), correction=1) - self.running_var)


class ShareTwice(Shared):
    def update(self, mean, var, x):
        with torch.no_grad():
            self.running_mean += self.share() * (mean - self.running_mean)
            self.running_var += self.share() * (x.var(axes(x), correction=1) - self.running_var)


class CountsToo(Shared):
    def update(self, mean, var, x):
        self.num_batches_tracked += 1
        super().update(mean, var, x)


class NoStatistics(Shared):
    """The buffers are not made at all."""

    def make_statistics(self, channels):
        self.register_buffer("num_batches_tracked", torch.tensor(0))


class NoShare(Shared):
    def share(self):
        return self.momentum


class Plain(Shared):
    def make_statistics(self, channels):
        super().make_statistics(channels)
        del self.running_mean, self.running_var
        self.running_mean = torch.zeros(channels)
        self.running_var = torch.ones(channels)


class PlainMean(Shared):
    def make_statistics(self, channels):
        super().make_statistics(channels)
        del self.running_mean
        self.running_mean = torch.zeros(channels)


class MeanAlone(ByHand):
    def update(self, mean, var, x):
        before = self.running_var.clone()
        super().update(mean, var, x)
        self.running_var = before


class MovedAway(ByHand):
    def update(self, mean, var, x):
        before = self.running_mean.clone()
        super().update(mean, var, x)
        self.running_mean = 2 * before - self.running_mean


class FirstBatch(ByHand):
    def statistics(self, x):
        mean, var = super().statistics(x)
        late = self.num_batches_tracked > 1
        return (self.running_mean, self.running_var) if late else (mean, var)


class Argument(ByHand):
    def forward(self, x, training=True):
        self.training = training
        return super().forward(x)


class Always(ByHand):
    """Updates before it asks for the mode."""

    def statistics(self, x):
        mean, var = x.mean(axes(x)), x.var(axes(x), correction=0)
        self.update(mean, var, x)
        return (mean, var) if self.training else (self.running_mean, self.running_var)


class Float(ByHand):
    """Without a thought for momentum=None."""

    def update(self, mean, var, x):
        self.num_batches_tracked += 1
        with torch.no_grad():
            self.running_mean.mul_(1 - self.momentum).add_(self.momentum * mean)
            self.running_var.mul_(1 - self.momentum).add_(self.momentum * x.var(axes(x)))


class Moving(ByHand):
    def make_statistics(self, channels):
        super().make_statistics(channels)
        del self.running_mean, self.running_var
        self.register_buffer("moving_mean", torch.zeros(channels))
        self.register_buffer("moving_var", torch.ones(channels))

    def statistics(self, x):
        if not self.training:
            return self.moving_mean, self.moving_var
        mean, var = x.mean(axes(x)), x.var(axes(x), correction=0)
        self.num_batches_tracked += 1
        share = self.momentum or 1 / self.num_batches_tracked.item()
        with torch.no_grad():
            self.moving_mean += share * (mean - self.moving_mean)
            self.moving_var += share * (x.var(axes(x)) - self.moving_var)
        return mean, var


class Learnt(ByHand):
    def make_statistics(self, channels):
        super().make_statistics(channels)
        del self.running_mean, self.running_var
        self.running_mean = torch.nn.Parameter(torch.zeros(channels))
        self.running_var = torch.nn.Parameter(torch.ones(channels))


class NoCounter(Float):
    def make_statistics(self, channels):
        super().make_statistics(channels)
        del self.num_batches_tracked

    def update(self, mean, var, x):
        self.running_mean = (1 - self.momentum) * self.running_mean + self.momentum * mean.detach()
        s2 = x.detach().var(axes(x))
        self.running_var = (1 - self.momentum) * self.running_var + self.momentum * s2


class Zero(Shared):
    def __init__(self, features, eps=1e-5, momentum=0.1):
        super().__init__(features, eps, momentum)
        self.weight = torch.nn.Parameter(torch.zeros(features))


class Ones(Shared):
    def __init__(self, features, eps=1e-5, momentum=0.1):
        super().__init__(features, eps, momentum)
        self.bias = torch.nn.Parameter(torch.ones_like(self.weight))


class Buffers(Shared):
    def __init__(self, features, eps=1e-5, momentum=0.1):
        super().__init__(features, eps, momentum)
        del self.weight, self.bias
        self.register_buffer("weight", torch.ones(features))
        self.register_buffer("bias", torch.zeros(features))


class Book(Shared):
    """The parameters of d2l."""

    def __init__(self, features, eps=1e-5, momentum=0.1):
        super().__init__(features, eps, momentum)
        self.weight = torch.nn.Parameter(torch.ones((1, features)))
        self.bias = torch.nn.Parameter(torch.zeros((1, features)))


class OtherWay(Shared):
    """Asks for the mode the wrong way round."""

    def statistics(self, x):
        if self.training:
            return self.running_mean, self.running_var
        mean, var = x.mean(axes(x)), x.var(axes(x), correction=0)
        self.update(mean, var, x)
        return mean, var


class CountsAlways(Shared):
    def statistics(self, x):
        self.share()
        if not self.training:
            return self.running_mean, self.running_var
        self.num_batches_tracked -= 1
        return super().statistics(x)


class Added(Shared):
    def update(self, mean, var, x):
        share = self.share()
        with torch.no_grad():
            self.running_mean += share * mean
            self.running_var += share * x.var(axes(x))


class OneInTheGraph(Shared):
    def update(self, mean, var, x):
        share = self.share()
        with torch.no_grad():
            self.running_mean += share * (mean - self.running_mean)
        self.running_var = (1 - share) * self.running_var + share * x.var(axes(x))


class FixedMean(Shared):
    def statistics(self, x):
        mean, var = super().statistics(x)
        return (mean.detach(), var) if self.training else (mean, var)


class Exchanged(Shared):
    def forward(self, x):
        self.weight, self.bias = self.bias, self.weight
        y = super().forward(x)
        self.weight, self.bias = self.bias, self.weight
        return y


LAYERS = [
    (Zero, ["weight_starts_at_zero"]),
    (Ones, ["bias_starts_at_one"]),
    (Buffers, ["buffers_not_parameters"]),
    (Book, ["parameters_with_axes"]),
    (OtherWay, ["modes_exchanged"]),
    (CountsAlways, ["counted_in_evaluation"]),
    (Added, ["old_value_in_full"]),
    (OneInTheGraph, ["graph_kept"]),
    (FixedMean, ["mean_detached"]),
    (Exchanged, ["gamma_and_beta_exchanged"]),
    (Notes, ["starts_at_one_and_zero", "statistics_not_registered"]),
    (Graph, ["graph_kept"]),
    (Everything, ["batch_statistics_detached"]),
    (ShareTwice, ["share_called_twice"]),
    (NoStatistics, ["statistics_not_registered"]),
    (CountsToo, ["counted_twice"]),
    (NoShare, ["batches_not_counted", "no_plain_average"]),
    (Plain, ["statistics_not_registered"]),
    (PlainMean, ["running_mean_not_registered"]),
    (Argument, ["eval_ignored"]),
    (Always, ["updated_in_evaluation"]),
    (Float, ["no_plain_average"]),
    (Moving, ["statistics_names"]),
    (Learnt, ["statistics_as_parameters"]),
    (NoCounter, ["counter_missing", "no_plain_average"]),
    (FirstBatch, ["first_batch_only"]),
    (MeanAlone, ["one_never_updated"]),
    (MovedAway, ["moved_away"]),
]


def long_way(half=-0.5, two=2, over=None, in_training=True, sums=axes):
    """`staged`, with slips."""

    def answer(dy, x, gamma, running_mean, running_var, training, eps):
        mean, var = (x.mean(axes(x)), x.var(axes(x))) if training else (running_mean, running_var)
        centred, r = x - wide(mean, x), wide(1 / np.sqrt(var + eps), x)
        dgamma, dbeta = (dy * centred * r).sum(sums(x)), dy.sum(sums(x))
        dxhat = wide(gamma, x) * dy
        if in_training and not training:
            return dxhat * r, dgamma, dbeta
        m = over(x) if over else x.size // x.shape[1]
        dvar = wide((dxhat * centred * half * r**3).sum(axes(x)), x)
        dmean = wide((-dxhat * r).sum(axes(x)), x)
        return dxhat * r + dvar * two * centred / m + dmean / m, dgamma, dbeta

    return answer


def eval_only(dy, x, gamma, running_mean, running_var, training, eps):
    return staged(dy, x, gamma, running_mean, running_var, False, eps)


def train_only(dy, x, gamma, running_mean, running_var, training, eps):
    return staged(dy, x, gamma, running_mean, running_var, True, eps)


def constants(dy, x, gamma, running_mean, running_var, training, eps):
    """The statistics of each mode, but both as if they were fixed."""
    if training:
        running_mean, running_var = x.mean(axes(x)), x.var(axes(x))
    return staged(dy, x, gamma, running_mean, running_var, False, eps)


def dx_alone(dy, x, gamma, running_mean, running_var, training, eps):
    """xhat is computed once, from the batch; the mode is asked for dx only."""
    _, dgamma, dbeta = staged(dy, x, gamma, running_mean, running_var, True, eps)
    dx = staged(dy, x, gamma, running_mean, running_var, training, eps)[0]
    return dx, dgamma, dbeta


def other_mode(dy, x, gamma, running_mean, running_var, training, eps):
    """The condition that chooses the statistics is reversed, that of dx is not."""
    mean, var = (running_mean, running_var) if training else (x.mean(axes(x)), x.var(axes(x)))
    r = wide(1 / np.sqrt(var + eps), x)
    xhat, dxhat = (x - wide(mean, x)) * r, dy * wide(gamma, x)
    return closed(r, dxhat, xhat, training), (dy * xhat).sum(axes(x)), dy.sum(axes(x))


def slip(dx=None, dgamma=None, dbeta=None, order=(0, 1, 2)):
    """The closed form, with slips."""

    def answer(dy, x, gamma, running_mean, running_var, training, eps):
        mean, var = (x.mean(axes(x)), x.var(axes(x))) if training else (running_mean, running_var)
        r, wider = wide(1 / np.sqrt(var + eps), x), wide(gamma, x)
        xhat, dxhat = (x - wide(mean, x)) * r, wider * dy
        bracket = dxhat - keep(dxhat) - xhat * keep(dxhat * xhat) if training else dxhat
        found = dx(r, dxhat, xhat, training) if dx else r * bracket
        made = dgamma(dy, x, mean, dxhat, xhat) if dgamma else dy * xhat
        seen = dbeta(dxhat) if dbeta else dy
        result = found, np.sum(made, axes(x)), np.sum(seen, axes(x))
        return tuple(result[i] for i in order)

    return answer


def closed(r, dxhat, xhat, training, first=keep, second=keep, factor=None):
    factor = r if factor is None else factor
    return factor * (dxhat - first(dxhat) - xhat * second(dxhat * xhat)) if training else r * dxhat


def over_examples(values):
    return values.mean(axis=0)


def dy_in_place(dy, x, gamma, *others):
    dx, dgamma, dbeta = nine_steps(dy, x, gamma, *others)
    dy *= wide(gamma, x)
    return dx, dgamma * gamma, dbeta * gamma


def count(x):
    """How many numbers share a mean."""
    return x.size // x.shape[1]


def brackets_forgotten(r, dxhat, xhat, training):
    return r * dxhat - (keep(dxhat) + xhat * keep(dxhat * xhat) if training else 0)


def terms_exchanged(r, dxhat, xhat, training):
    taken = keep(dxhat * xhat) + xhat * keep(dxhat)
    return r * (dxhat - taken) if training else r * dxhat


def parameters_in_training_only(dy, x, gamma, running_mean, running_var, training, eps):
    dx, *found = staged(dy, x, gamma, running_mean, running_var, training, eps)
    return dx, *(gradient if training else 0 * gradient for gradient in found)


BACK = [
    (slip(dgamma=lambda dy, x, mean, dxhat, xhat: dy * x), ["dgamma_with_x"]),
    (
        slip(dgamma=lambda dy, x, mean, dxhat, xhat: dy * (x - wide(mean, x))),
        ["r_forgotten_in_xhat"],
    ),
    (slip(dbeta=lambda dxhat: dxhat), ["dbeta_with_gamma"]),
    (
        slip(dbeta=lambda dxhat: dxhat, dgamma=lambda dy, x, mean, dxhat, xhat: dxhat * xhat),
        ["dbeta_with_gamma", "dgamma_with_gamma"],
    ),
    (dy_in_place, ["dy_changed_in_place"]),
    (slip(order=(0, 2, 1)), ["parameters_returned_in_reverse"]),
    (slip(order=(1, 2, 0)), ["dx_returned_last"]),
    (slip(dx=lambda *a: closed(*a, factor=1)), ["r_forgotten"]),
    (slip(dx=lambda r, *a: closed(r, *a, factor=r * r)), ["r_twice"]),
    (slip(dx=lambda r, *a: r * closed(r, *a)), ["r_twice"]),
    (slip(dx=lambda *a: closed(*a, over_examples, over_examples)), ["means_over_examples"]),
    (slip(dx=lambda r, dxhat, xhat, t: closed(r, dxhat, xhat, not t)), ["modes_exchanged_in_dx"]),
    (
        slip(dx=lambda *a: closed(*a, first=lambda v: v.sum(axes(v), keepdims=True))),
        ["one_sum_instead_of_mean"],
    ),
    (slip(dx=lambda *a: closed(*a, first=lambda v: -keep(v))), ["mean_term_added"]),
    (long_way(half=0.5), ["xhat_term_added"]),
    (long_way(over=np.size), ["divided_by_everything"]),
    (long_way(two=1), ["factor_two_lost"]),
    (long_way(half=-1), ["factor_half_lost"]),
    (long_way(over=len), ["divided_by_examples"]),
    (long_way(in_training=False), ["terms_in_inference"]),
    (long_way(sums=lambda x: 0), ["summed_over_examples"]),
    (long_way(two=0), ["xhat_term_dropped"]),
    (eval_only, ["inference_formula_always"]),
    (train_only, ["training_formula_always"]),
    (dx_alone, ["dgamma_from_batch"]),
    (constants, ["detached_statistics"]),
    (other_mode, ["statistics_of_the_other_mode"]),
    (slip(dx=lambda r, *a: closed(-r, *a, factor=-r)), ["dx_negated"]),
    (slip(dx=lambda r, dxhat, xhat, t: dxhat), ["dxhat_returned"]),
    (slip(dx=brackets_forgotten), ["brackets_forgotten_in_dx"]),
    (slip(dx=terms_exchanged), ["terms_exchanged"]),
    (slip(dx=lambda r, d, *a: closed(r, d, *a, factor=r * count(d))), ["compact_form_incomplete"]),
    (slip(dx=lambda r, d, *a: closed(r, d, *a, factor=r / count(d))), ["divided_by_n_again"]),
    (
        slip(dgamma=lambda dy, x, mean, dxhat, xhat: dy * xhat / count(dy)),
        ["one_gradient_averaged"],
    ),
    (parameters_in_training_only, ["no_gradients_in_inference"]),
    (slip(dx=lambda r, *a: closed(1 / r, *a)), ["divided_by_r"]),
    (slip(dx=lambda r, *a: closed(r, *a, factor=1 / r)), ["divided_by_r"]),
    (slip(dx=lambda r, *a: closed(1 / r, *a, factor=r)), ["divided_by_r"]),
]


def folded(a=None, c=None, bias=None, weight=None):
    def answer(W, b, gamma, beta, mean, var, eps):
        b = np.zeros(len(gamma)) if b is None else b
        scale = a(gamma, var, eps) if a else gamma / np.sqrt(var + eps)
        shift = c(beta, mean, scale) if c else beta - scale * mean
        new = weight(W, scale) if weight else (W.T * scale).T
        return new, bias(b, scale, shift) if bias else scale * b + shift

    return answer


def mean_as_it_is(weight, bias, gamma, beta, running_mean, running_var, eps):
    a = gamma / np.sqrt(running_var + eps)
    return a[:, None] * weight, a * bias + beta - running_mean


FOLDED = [
    (folded(lambda gamma, var, eps: gamma / (np.sqrt(var) + eps)), ["eps_outside_root"]),
    (folded(lambda gamma, var, eps: gamma * (var + eps) ** 0.5), ["root_multiplied"]),
    (
        lambda W, b, gamma, beta, mean, var, eps: fold_rows(W, b, gamma, beta, var, mean, eps),
        ["statistics_exchanged"],
    ),
    (mean_as_it_is, ["mean_not_scaled", "no_bias_not_handled"]),
    (folded(c=lambda beta, mean, a: beta - mean), ["mean_not_scaled"]),
    (folded(c=lambda beta, mean, a: -beta - a * mean), ["beta_subtracted"]),
    (folded(lambda gamma, var, eps: (var + eps) ** 0.5 / gamma), ["scale_inverted"]),
    (
        lambda W, b, gamma, beta, mean, var, eps: fold_rows(W, b, beta, gamma, mean, var, eps),
        ["scale_and_shift_exchanged"],
    ),
    (
        folded(c=lambda beta, mean, a: beta + a * mean, bias=lambda b, a, c: c - a * b),
        ["bias_minus_mean_reversed"],
    ),
    (folded(lambda gamma, var, eps: (var + eps) ** -0.5), ["gamma_not_folded"]),
    (folded(lambda gamma, var, eps: gamma / (var + eps)), ["running_var_as_std"]),
    (folded(c=lambda beta, mean, a: a * (beta - mean)), ["beta_scaled"]),
    (folded(c=lambda beta, mean, a: beta), ["mean_not_folded"]),
    (folded(bias=lambda b, a, c: b + c), ["bias_not_scaled"]),
    (folded(weight=lambda W, a: W @ np.diag(a)), ["columns_scaled"]),
    (folded(bias=lambda b, a, c: c, weight=lambda W, a: W), ["bias_dropped", "weight_not_scaled"]),
]

# --- Wrong, as written without sight of the list of mistakes -----------------------------------


def learnt(mean=None, var=None):
    """Written with task 1 and hint 3, with slips in what the running statistics take in."""

    def answer(x, gamma, beta, running_mean, running_var, momentum, eps):
        y, all_axes = loops(x, gamma, beta, eps), axes(x)
        batch_mean = mean(x, y, all_axes) if mean else x.mean(all_axes)
        batch_var = var(x, y, all_axes, eps) if var else x.var(all_axes, ddof=1)
        running_mean = running_mean + momentum * (batch_mean - running_mean)
        return y, running_mean, running_var + momentum * (batch_var - running_var)

    return answer


def kept_wide(x, gamma, beta, running_mean, running_var, momentum, eps):
    y, mean, var = running_loops(x, gamma, beta, running_mean, running_var, momentum, eps)
    return y, wide(mean, x), wide(var, x)


RUN += [
    (learnt(var=lambda x, y, a, eps: x.var(a, ddof=1) + eps), ["eps_in_running_var"]),
    (
        learnt(lambda x, y, a: y.mean(a), lambda x, y, a, eps: y.var(a, ddof=1)),
        ["statistics_of_output"],
    ),
    (
        learnt(lambda x, y, a: x.mean(0), lambda x, y, a, eps: x.var(0, ddof=1)),
        ["first_axis_only"],
    ),
    (kept_wide, ["running_keeps_axes"]),
    (
        learnt(lambda x, y, a: x.mean(), lambda x, y, a, eps: x.var(ddof=1)),
        ["running_of_whole_array"],
    ),
]


def shift_added(x, gamma, beta, running_mean, running_var, eps):
    a = gamma / np.sqrt(running_var + eps)
    return x * wide(a, x) + wide(beta + a * running_mean, x)


def mean_as_it_is(x, gamma, beta, running_mean, running_var, eps):
    a = gamma / np.sqrt(running_var + eps)
    return x * wide(a, x) + wide(beta - running_mean, x)


def moved_first(x, gamma, beta, running_mean, running_var, eps):
    mean = 0.9 * running_mean + 0.1 * x.mean(axes(x))
    var = 0.9 * running_var + 0.1 * x.var(axes(x))
    return scale_and_shift(x, gamma, beta, mean, var, eps)


def made_biased(x, gamma, beta, running_mean, running_var, eps):
    m = x.size / x.shape[1]
    return scale_and_shift(x, gamma, beta, running_mean, (1 - 1 / m) * running_var, eps)


INFER += [
    (shift_added, ["running_mean_added"]),
    (mean_as_it_is, ["running_mean_not_scaled"]),
    (moved_first, ["updated_in_inference"]),
    (made_biased, ["correction_undone"]),
]


class OverRows(ByHand):
    """Hint 3, with axis 0 for all axes: the buffers cannot take what images make of it."""

    def forward(self, x):
        mean, var = self.running_mean, self.running_var
        if self.training:
            mean, var = x.mean(0), x.var(0, correction=0)
            with torch.no_grad():
                share = self.share()
                self.running_mean += share * (mean - self.running_mean)
                self.running_var += share * (x.var(0) - self.running_var)
        xhat = (x - wide(mean, x)) / torch.sqrt(wide(var, x) + self.eps)
        return wide(self.weight, x) * xhat + wide(self.bias, x)

    def share(self):
        self.num_batches_tracked += 1
        return 1 / self.num_batches_tracked if self.momentum is None else self.momentum


LAYERS += [(OverRows, ["first_axis_only"])]


def for_rows(dy, x, gamma, running_mean, running_var, training, eps):
    mean, var = (x.mean(0), x.var(0)) if training else (running_mean, running_var)
    r = 1 / np.sqrt(var + eps)
    xhat, d = (x - mean) * r, dy * gamma
    dx = r * (d - d.mean(0) - xhat * (d * xhat).mean(0)) if training else r * d
    return dx, (dy * xhat).sum(0), dy.sum(0)


BACK += [(for_rows, ["rows_only"])]


def asked_for_truth(weight, bias, gamma, beta, running_mean, running_var, eps):
    bias = bias if bias else np.zeros(len(gamma))
    return fold_rows(weight, bias, gamma, beta, running_mean, running_var, eps)


def beta_for_no_bias(weight, bias, *others):
    new_weight, new_bias = fold_rows(weight, bias, *others)
    return new_weight, others[1] if bias is None else new_bias


def divided_weight(weight, bias, gamma, beta, running_mean, running_var, eps):
    _, new_bias = fold_rows(weight, bias, gamma, beta, running_mean, running_var, eps)
    return weight / np.sqrt(running_var + eps)[:, None], new_bias


FOLDED += [
    (folded(weight=lambda W, a: a @ W), ["rows_summed"]),
    (divided_weight, ["gamma_missing_in_weight"]),
    (lambda *given: fold_rows(*given)[::-1], ["bias_returned_first"]),
    (asked_for_truth, ["array_asked_for_truth"]),
    (beta_for_no_bias, ["mean_not_folded"]),
]


# --- Wrong, as written by those who read another book, or one sentence of this one otherwise ---


def over_examples_first(x, gamma, beta, eps):
    """Over all examples, and then over all positions."""
    positions = tuple(range(1, x.ndim - 1))
    mean, var = x.mean(0).mean(positions), x.var(0).mean(positions)
    return scale_and_shift(x, gamma, beta, mean, var, eps)


def measured_from(new):
    def answer(x, gamma, beta, running_mean, running_var, momentum, eps):
        y, mean, _ = running_loops(x, gamma, beta, running_mean, running_var, momentum, eps)
        squares = (x - wide(mean if new else running_mean, x)) ** 2
        var = squares.sum(axes(x)) / (x.size // x.shape[1] - 1)
        return y, mean, (1 - momentum) * running_var + momentum * var

    return answer


def share_alone(x, gamma, beta, running_mean, running_var, momentum, eps):
    running_mean, running_var = 0 * running_mean, 0 * running_var
    return running_loops(x, gamma, beta, running_mean, running_var, momentum, eps)


def each_by_itself(x, gamma, beta, running_mean, running_var, eps):
    return np.concatenate([loops(example[None], gamma, beta, eps) for example in x])


def each_as_a_token(x, gamma, beta, running_mean, running_var, eps):
    xhat = np.stack([(one - one.mean()) / np.sqrt(one.var() + eps) for one in x])
    return wide(gamma, x) * xhat + wide(beta, x)


def twice(x, gamma, beta, running_mean, running_var, eps):
    x = loops(x, np.ones_like(gamma), np.zeros_like(beta), eps)
    return scale_and_shift(x, gamma, beta, running_mean, running_var, eps)


def eps_in(modes):
    def answer(dy, x, gamma, running_mean, running_var, training, eps):
        eps = eps if training in modes else 0
        return staged(dy, x, gamma, running_mean, running_var, training, eps)

    return answer


def fixed(dx):
    """A slip in the formula of inference alone."""

    def answer(dy, x, gamma, running_mean, running_var, training, eps):
        given = running_mean, running_var, training, eps
        found, *others = staged(dy, x, gamma, *given)
        r = wide(1 / np.sqrt(running_var + eps), x)
        return found if training else dx(dy, wide(gamma, x), r), *others

    return answer


def without_bias(of):
    def answer(weight, bias, gamma, beta, mean, var, eps):
        new_weight, new_bias = fold_rows(weight, bias, gamma, beta, mean, var, eps)
        return new_weight, of(beta, mean) if bias is None else new_bias

    return answer


class Keras(ByHand):
    """Its defaults."""

    def __init__(self, features, eps=1e-3, momentum=0.99):
        super().__init__(features, eps, momentum)


class Told(ByHand):
    """An argument, which train() does not set."""

    def forward(self, x, training=False):
        mode, self.training = self.training, training
        y = super().forward(x)
        self.training = mode
        return y


class OrATenth(ByHand):
    def update(self, mean, var, x):
        momentum, self.momentum = self.momentum, self.momentum or 0.1
        super().update(mean, var, x)
        self.momentum = momentum


class ForImages(ByHand):
    def forward(self, x):
        mean, var, weight, bias = (
            v.reshape(1, -1, 1, 1) for v in (*self.statistics(x), self.weight, self.bias)
        )
        return weight * (x - mean) / torch.sqrt(var + self.eps) + bias


FORWARD += [(over_examples_first, ["variance_within_positions"])]
RUN += [
    (measured_from(new=True), ["measured_from_running_mean"]),
    (measured_from(new=False), ["measured_from_running_mean"]),
    (share_alone, ["old_value_lost"]),
]
INFER += [
    (each_by_itself, ["example_in_inference"]),
    (each_as_a_token, ["example_in_inference"]),
    (twice, ["normalised_again"]),
]
LAYERS += [
    (Keras, ["defaults_of_keras"]),
    (Told, ["train_ignored"]),
    (OrATenth, ["no_plain_average"]),
    (ForImages, ["shaped_for_images"]),
]
BACK += [
    (eps_in([True]), ["eps_in_one_mode"]),
    (eps_in([False]), ["eps_in_one_mode"]),
    (fixed(lambda dy, gamma, r: dy * r), ["gamma_forgotten_in_dx"]),
    (fixed(lambda dy, gamma, r: dy * gamma * r**2), ["r_twice"]),
]
FOLDED += [
    (without_bias(lambda beta, mean: 0 * beta), ["no_bias_left"]),
    (without_bias(lambda beta, mean: beta - mean), ["mean_not_scaled"]),
]


def moved_to_the_end(x, gamma, beta, eps):
    return np.moveaxis(rows(x, gamma, beta, eps), 1, -1).reshape(x.shape)


def moved(nearer_mean, nearer_var):
    """The running statistics, each by a rule of its own for the old value, the new one, a share."""

    def answer(x, gamma, beta, running_mean, running_var, momentum, eps):
        mean = nearer_mean(running_mean, x.mean(axes(x)), momentum)
        var = nearer_var(running_var, x.var(axes(x), ddof=1), momentum)
        return loops(x, gamma, beta, eps), mean, var

    return answer


def nearer(old, new, share):
    return old + share * (new - old)


ONE_MOVED = {
    "last_batch_only": lambda old, new, share: new,
    "fixed_momentum": lambda old, new, share: nearer(old, new, 0.1),
    "updated_twice": lambda old, new, share: nearer(nearer(old, new, share), new, share),
    "old_value_in_full": lambda old, new, share: old + share * new,
    "batch_in_full": lambda old, new, share: old - share * old + new,
}


def unbiased(dx):
    """The gradient of an unbiased variance, in training."""

    def answer(dy, x, gamma, running_mean, running_var, training, eps):
        right, *others = staged(dy, x, gamma, running_mean, running_var, training, eps)
        m = x.size / x.shape[1]
        r = 1 / np.sqrt(x.var(axes(x), keepdims=True) + eps)
        xhat, dxhat = (x - x.mean(axes(x), keepdims=True)) * r, dy * wide(gamma, x)
        sums = [a.sum(axes(x), keepdims=True) for a in (dxhat, dxhat * xhat)]
        return dx(dxhat, xhat, r, m, *sums) if training else right, *others

    return answer


def summed_so(of_gamma, of_beta):
    def answer(dy, x, gamma, running_mean, running_var, training, eps):
        dx, *_others = staged(dy, x, gamma, running_mean, running_var, training, eps)
        mean, var = (x.mean(axes(x)), x.var(axes(x))) if training else (running_mean, running_var)
        xhat = (x - wide(mean, x)) / np.sqrt(wide(var, x) + eps)
        return dx, of_gamma(dy * xhat), of_beta(dy)

    return answer


def all_but_channels(a):
    return a.sum(axes(a))


class ByGradients(ByHand):
    """Gradients on, taken for the mode."""

    def forward(self, x):
        mode, self.training = self.training, torch.is_grad_enabled()
        y = super().forward(x)
        self.training = mode
        return y


def by_eps_alone(x, gamma, beta, eps):
    """The variance is missing under the root."""
    centred = x - x.mean(axes(x), keepdims=True)
    return wide(gamma, x) * centred / np.sqrt(eps) + wide(beta, x)


def four_thirds(x, gamma, beta, running_mean, running_var, momentum, eps):
    """The m / (m - 1) of the worked example."""
    y, mean, _ = running_loops(x, gamma, beta, running_mean, running_var, momentum, eps)
    return y, mean, (1 - momentum) * running_var + momentum * 4 / 3 * x.var(axes(x))


def pasted(dy, x, gamma, running_mean, running_var, training, eps):
    """The backward pass of layer normalisation."""
    r = 1 / np.sqrt(x.var(axis=-1, keepdims=True) + eps)
    xhat, dxhat = (x - x.mean(axis=-1, keepdims=True)) * r, dy * gamma
    along = xhat * (dxhat * xhat).mean(axis=-1, keepdims=True)
    dx = r * (dxhat - dxhat.mean(axis=-1, keepdims=True) - along)
    lead = tuple(range(x.ndim - 1))
    return dx, (dy * xhat).sum(lead), dy.sum(lead)


def cut_off(dy, x, *others):
    """Written into an array of the dtype of x."""
    dx = np.zeros_like(x)
    dx[...], dgamma, dbeta = staged(dy, x, *others)
    return dx, dgamma, dbeta


def bias_without_the_root(weight, bias, gamma, beta, running_mean, running_var, eps):
    old = 0 if bias is None else bias
    scale = gamma / np.sqrt(running_var + eps)
    return weight * scale[:, None], (old - running_mean) * gamma + beta


class Unfinished(ByHand):
    def forward(self, x):
        return wide(self.weight, x) * x + wide(self.bias, x)


class BatchAlone(ByHand):
    """The forward pass in training, pasted."""

    def statistics(self, x):
        return x.mean(axes(x)), x.var(axes(x), correction=0)


class WeightTwice(ByHand):
    def forward(self, x):
        return super().forward(x) - wide(self.bias, x) + wide(self.weight, x)


class VarianceFirst(ByHand):
    def statistics(self, x):
        return super().statistics(x)[::-1] if self.training else super().statistics(x)


class BiasForgotten(ByHand):
    def __init__(self, *given, **options):
        super().__init__(*given, **options)
        del self.bias


class WeightForgotten(ByHand):
    def __init__(self, *given, **options):
        super().__init__(*given, **options)
        del self.weight


LAYERS += [
    (Unfinished, ["not_normalised"]),
    (BatchAlone, ["batch_in_inference", "never_updated"]),
    (WeightTwice, ["one_parameter_twice"]),
    (VarianceFirst, ["mean_and_var_exchanged"]),
    (BiasForgotten, ["no_bias"]),
    (WeightForgotten, ["one_not_a_parameter"]),
]
RUN += [(four_thirds, ["number_of_the_example"])]
BACK += [(pasted, ["layer_norm_backward_instead"]), (cut_off, ["gradient_cut_to_integers"])]
FOLDED += [(bias_without_the_root, ["root_missing_in_bias"])]
FORWARD += [
    (moved_to_the_end, ["moved_back_by_reshape"]),
    (lambda x, gamma, beta, eps: rows(x, gamma, beta, 1e-3), ["eps_of_keras"]),
    (lambda x, gamma, beta, eps: rows(x, gamma**2, beta, eps), ["affine_twice"]),
    (lambda x, g, b, eps: rows(x, g, b, eps) * wide(g, x) + wide(b, x), ["affine_twice"]),
]
FORWARD += [
    (lambda x, g, b, eps: rows(x, g, g, eps), ["one_parameter_twice"]),
    (lambda x, g, b, eps: wide(g, x) * x + wide(b, x), ["not_normalised"]),
    (by_eps_alone, ["deviations_not_squared"]),
]
INFER += [(lambda *given: scale_and_shift(*given[:-1], 1e-3), ["eps_of_keras"])]
RUN += [(moved(rule, nearer), [name]) for name, rule in ONE_MOVED.items()]
RUN += [(moved(nearer, rule), [name]) for name, rule in ONE_MOVED.items()]
LAYERS += [(ByGradients, ["eval_ignored"])]
BACK += [
    (unbiased(of), ["gradient_of_unbiased_variance"])
    for of in (
        lambda dxhat, xhat, r, m, a, b: r / m * (m * dxhat - a - m / (m - 1) * xhat * b),
        lambda dxhat, xhat, r, m, a, b: r * (dxhat - (a + xhat * b) / (m - 1)),
    )
]
BACK += [
    (summed_so(all_but_channels, np.sum), ["gradients_of_all"]),
    (summed_so(np.sum, np.sum), ["gradients_of_all"]),
    (summed_so(lambda a: a.sum(0), all_but_channels), ["summed_over_examples"]),
    (summed_so(all_but_channels, lambda a: a.sum(axes(a), keepdims=True)), ["gradients_keep_axes"]),
]

WRONG = {
    "forward": FORWARD,
    "running": RUN,
    "inference": INFER,
    "layer": LAYERS,
    "backward": BACK,
    "fold": FOLDED,
}


@pytest.mark.parametrize(
    ("part", "answer", "names"), [(p, *pair) for p, many in WRONG.items() for pair in many]
)
def test_a_wrong_answer_is_named(part, answer, names):
    verdict = judged(answer, part)
    assert sorted(mistake.name for mistake in verdict.mistakes) == names, verdict.explain()
    assert not verdict.passed


def test_a_folded_layer_in_place_is_told_nothing_of_an_order():
    def answer(weight, bias, gamma, beta, running_mean, running_var, eps):
        a = gamma / np.sqrt(running_var + eps)
        weight *= a[:, None]
        return weight, beta + a * ((0 if bias is None else bias) - running_mean)

    said = judged(answer, "fold").explain()
    assert "Changed in place: weight." in said and "order" not in said


def test_a_gradient_for_one_mode_only_is_told_as_such():
    def answer(dy, x, gamma, running_mean, running_var, training, eps):
        if training:
            return RIGHT["backward"][0](dy, x, gamma, running_mean, running_var, training, eps)

    assert "without return gives None" in judged(answer, "backward").explain()


def test_a_gradient_that_does_not_arrive_is_no_missing_return():
    class Cut(ByHand):
        def forward(self, x):
            return super().forward(x.detach())

    def answer(dy, x, gamma, running_mean, running_var, training, eps):
        dx, *others = staged(dy, x, gamma, running_mean, running_var, training, eps)
        return dx, *(others if training else (None, None))

    for part, wrong in (("layer", Cut), ("backward", answer)):
        said = judged(wrong, part).explain()
        assert "NoneType" in said and "without return" not in said


def test_a_mistake_is_not_the_only_one_where_another_may_hide():
    class Random(ByHand):
        def __init__(self, features, eps=1e-5, momentum=0.1):
            super().__init__(features, eps, momentum)
            self.weight.data = torch.linspace(1, 2, features)
            self.running_var.zero_()

    assert "old_value_lost" not in [mistake.name for mistake in judged(Random, "layer").mistakes]


def test_shapes_that_fail_do_not_hide_the_momentum():
    class Both(OrATenth, ForImages):
        pass

    names = sorted(mistake.name for mistake in judged(Both, "layer").mistakes)
    assert names == ["no_plain_average", "shaped_for_images"]


def test_one_number_for_all_channels_is_not_said_to_be_a_mean():
    given = summed_so(all_but_channels, np.sum)

    def answer(dy, x, gamma, running_mean, running_var, training, eps):
        return given(dy, x, gamma, running_mean, running_var, training, 0)

    names = sorted(mistake.name for mistake in judged(answer, "backward").mistakes)
    assert names == ["gradients_of_all", "no_eps"]


def test_an_exception_on_rows_is_no_mistake_in_images():
    def answer(x, gamma, beta, eps):
        return gamma.reshape(3, 4, 5) * x

    verdict = judged(answer, "rows")
    assert not verdict.mistakes and "reshape" in verdict.explain()


@pytest.mark.parametrize("cell", [TwoWays, Assigned, Lerped])
def test_a_layer_that_returns_nothing_is_told_so_and_nothing_else(cell):
    class Silent(cell):
        def forward(self, x):
            super().forward(x)

    verdict = judged(Silent, "layer")
    assert not verdict.mistakes and "None instead of a result" in verdict.explain()


def test_statistics_taken_for_constants_are_explained_where_there_are_two_modes():
    said = judged(constants, "backward").explain()
    assert "at inference only" in said and "#bn-mistake-detached-statistics" in said
    assert "layer_norm.html" not in said


class WithoutTorch:
    """Arrays for its state."""

    def __init__(self, features, eps=1e-5, momentum=0.1):
        self.eps, self.momentum, self.num_batches_tracked = eps, momentum, 0
        self.weight, self.bias = np.ones(features), np.zeros(features)
        self.running_mean, self.running_var = np.zeros(features), np.ones(features)

    def forward(self, x):
        given, running = (x, self.weight, self.bias), (self.running_mean, self.running_var)
        if not self.training:
            return scale_and_shift(*given, *running, self.eps)
        self.num_batches_tracked += 1
        share = self.momentum or 1 / self.num_batches_tracked
        y, self.running_mean, self.running_var = running_loops(*given, *running, share, self.eps)
        return y


class InTraining(WithoutTorch):
    training = True


def test_a_plain_layer_knows_its_mode_from_the_start():
    assert judged(InTraining, "layer").passed
    said = judged(WithoutTorch, "layer").explain()
    assert "AttributeError" in said and "self.training = ..." in said
    verdict = judged(type("Late", (WithoutTorch,), {"training": False}), "layer")
    assert [mistake.name for mistake in verdict.mistakes] == ["starts_in_evaluation"]


def test_a_plain_layer_is_not_told_of_modules():
    class Deaf(InTraining):
        def forward(self, x):
            self.training = True
            return super().forward(x)

    said = judged(Deaf, "layer").explain()
    assert "self.training has no effect" in said and "eval()" not in said


def test_a_plain_layer_that_raises_in_training_is_told_of_no_other_axes():
    class Misspelt(InTraining):
        def forward(self, x):
            return super().forward(x) if not self.training else mean_of(x)  # noqa: F821

    verdict = judged(Misspelt, "layer")
    assert not verdict.mistakes and "NameError" in verdict.explain()


def test_one_gradient_says_nothing_of_two_modes():
    def answer(dy, x, gamma, running_mean, running_var, training, eps):
        right = staged(dy, x, gamma, running_mean, running_var, training, eps)
        other = staged(dy, x, gamma, running_mean, running_var, not training, eps)
        return 2 * right[0], other[1], right[2]

    assert not judged(answer, "backward").mistakes


def test_zeros_for_a_missing_bias_must_be_as_many_as_the_outputs():
    def answer(weight, bias, *others):
        bias = np.zeros(weight.shape[1]) if bias is None else bias
        return fold_rows(weight, bias, *others)

    assert "as many as the outputs" in judged(answer, "fold").explain()
