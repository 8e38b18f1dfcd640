"""Normalisations of channels, on axis 1: BatchNorm, GroupNorm and InstanceNorm.

They are layer normalisation over other axes: those of a channel in the whole batch, or of some
channels of one example.
"""

import math
from numbers import Integral
from typing import Any

from normkit._arrays import (
    as_dtype_of,
    check_channels,
    check_eps,
    check_gradient,
    known,
    namespace,
    widen,
)
from normkit.functions import _backward, _deviations, _gradients, _standardise
from normkit.typing import A

# --- BatchNorm: statistics of a channel over the batch ----------------------------------------


def batch_norm(
    x: A,
    gamma: A | None = None,
    beta: A | None = None,
    running_mean: A | None = None,
    running_var: A | None = None,
    *,
    training: bool,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> tuple[A, A, A]:
    r"""Batch normalisation of each channel, axis 1: (y, running_mean, running_var).

    $$ y = \gamma_c\, \frac{x - \mu_c}{\sqrt{\sigma_c^2 + \varepsilon}} + \beta_c $$

    In training, μ and σ² are those of the m values of the channel in this batch, over examples
    and positions: σ² is biased, Σ(x - μ)²/m. The running statistics move towards them, with the
    unbiased variance, Σ(x - μ)²/(m - 1):

    $$ \mu_r \leftarrow (1 - q)\, \mu_r + q\, \mu, \quad
    \sigma_r^2 \leftarrow (1 - q)\, \sigma_r^2 + q\, \frac{m}{m - 1}\, \sigma^2 $$

    At inference, μ and σ² are the running ones, which do not change: y depends on its own
    example alone.

    x: (N, C) or (N, C, ...), any floating dtype.
    gamma, beta: (C,), 1 and 0 if left out. running_mean, running_var: (C,); in training they
    start at 0 and 1 if left out, at inference they are needed.
    momentum: q, the share of the new batch, 0.1 in torch; Keras and Flax call 0.9 what is left to
    the old value. With 1/k at the k-th batch, the running statistics are plain averages.
    Returns y like x, and the running statistics in their dtype (at least float32 if left out);
    nothing is changed in place. Detach them when torch tracks gradients.
    Raises TypeError for lists or mixed libraries, ValueError for a wrong shape, momentum or eps,
    for less than two values per channel in training, for statistics of the batch that do not fit
    the dtype, and for inference without statistics.
    Source: Ioffe & Szegedy (2015), Batch Normalization, algorithms 1 and 2.

    See: bn-formula in book/batch_norm.md; tests/normkit/test_channels.py.

    >>> import numpy as np
    >>> x = np.array([[1.0, 2.0], [3.0, 6.0], [5.0, 4.0], [7.0, 8.0]])
    >>> y, mean, var = batch_norm(x, training=True)
    >>> y[:, 0].round(4), mean, var.round(4)
    (array([-1.3416, -0.4472,  0.4472,  1.3416]), array([0.4, 0.5]), array([1.5667, 1.5667]))
    >>> batch_norm(np.array([[4.0, 5.0]]), None, None, mean, var, training=False)[0].round(4)
    array([[2.8762, 3.5952]])
    """
    arrays = dict(gamma=gamma, beta=beta, running_mean=running_mean, running_var=running_var)
    xp = namespace(x=x, **arrays)
    check_channels(x, **arrays)
    check_eps(eps)
    wide, shared = widen(xp, x), _all_but_channels(x)
    if training:
        count = _check_batch(x)
        centred, var, scale = _deviations(xp, wide, shared)
        mean = xp.mean(wide, axis=shared)
        unbiased = xp.reshape(var / scale / scale, mean.shape) * (count / (count - 1))
        _check_fit(xp, x, mean, unbiased)
        running_mean = xp.zeros_like(mean) if running_mean is None else running_mean
        running_var = xp.ones_like(mean) if running_var is None else running_var
        running_mean = _move(xp, running_mean, mean, momentum)
        running_var = _move(xp, running_var, unbiased, momentum)
    else:
        running_mean, running_var = _check_running(running_mean, running_var)
        centred, scale = wide - _spread(xp, widen(xp, running_mean), x), 1
        var = _spread(xp, widen(xp, running_var), x)
    xhat = centred / xp.sqrt(var + eps * scale**2)
    return _affine(xp, xhat, x, gamma, beta), running_mean, running_var


def batch_norm_backward(
    dy: A,
    x: A,
    gamma: A | None = None,
    running_mean: A | None = None,
    running_var: A | None = None,
    *,
    training: bool,
    eps: float = 1e-5,
) -> tuple[A, A, A]:
    r"""Gradients of a loss with respect to x, γ and β, from its gradient dy at the output.

    In training, μ and σ² depend on x, and each channel is treated like a token in
    `layer_norm_backward`; the bars are means over the m values of the channel:

    $$ dx = r \left(d\hat x - \overline{d\hat x} - \hat x\, \overline{d\hat x \odot \hat x}\right),
    \quad d\hat x = \gamma_c\, dy, \quad r = 1 / \sqrt{\sigma^2 + \varepsilon} $$

    At inference, μ and σ² are constants, and only the first term is left: $dx = r\, d\hat x$.
    In both, $d\gamma_c = \sum dy \odot \hat x$ and $d\beta_c = \sum dy$ over the channel.

    dy, x: (N, C) or (N, C, ...); gamma, running_mean, running_var: (C,), as in `batch_norm`.
    Returns dx like x, and dγ, dβ of shape (C,) in the dtype of gamma (of x if left out).
    Raises TypeError and ValueError as `batch_norm` does.

    See: bn-backward in book/batch_norm.md; tests/normkit/test_channels.py.

    >>> import numpy as np
    >>> x, dy = np.array([[1.0], [3.0], [5.0], [7.0]]), np.array([[1.0], [0.0], [0.0], [0.0]])
    >>> batch_norm_backward(dy, x, training=True)[0][:, 0].round(4)
    array([ 0.1342, -0.1789, -0.0447,  0.0894])
    """
    arrays = dict(gamma=gamma, running_mean=running_mean, running_var=running_var)
    xp = namespace(dy=dy, x=x, **arrays)
    check_channels(x, **arrays)
    check_gradient(dy, x)
    check_eps(eps)
    wide, dy = widen(xp, x), widen(xp, dy)
    dxhat = dy if gamma is None else _spread(xp, gamma, x) * dy
    shared = _all_but_channels(x)
    if training:
        _check_batch(x)
        xhat, r = _standardise(xp, wide, shared, eps)
        dx = _backward(xp, dxhat, xhat, r, shared)
    else:
        _check_running(running_mean, running_var)
        r = 1 / xp.sqrt(_spread(xp, widen(xp, running_var), x) + eps)
        xhat = (wide - _spread(xp, running_mean, x)) * r
        dx = r * dxhat
    return _gradients(xp, dx, dy, xhat, x, gamma, shared)


def _move(xp: Any, running: A, batch: A, momentum: float) -> A:
    """The running statistic, moved towards that of the batch."""
    if momentum is None or not 0 <= momentum <= 1:
        raise ValueError(
            f"momentum is the share of the new batch in the running statistics, between 0 and 1; "
            f"it is {momentum}. For the plain average of all batches, pass 1/k at the k-th."
        )
    return as_dtype_of(xp, (1 - momentum) * running + momentum * batch, running)


def _check_batch(x):
    """The number of values per channel, at least two."""
    count = x.shape[0] * math.prod(x.shape[2:])
    if count < 2:
        raise ValueError(
            f"Training needs at least two values per channel, over examples and positions; x of "
            f"shape {tuple(x.shape)} has {count}. With a single one, the output would be β "
            f"whatever x is. Use a larger batch, or drop the last, incomplete one."
        )
    return count


def _check_fit(xp, x, mean, var):
    """Running statistics that are infinite would make all later outputs 0, in silence."""
    fits = xp.isfinite(mean) & xp.isfinite(var)
    if not known(xp.any(~fits)) or not known(xp.all(xp.isfinite(x))):
        return  # or x is itself not finite, which shows in y
    channel = next(c for c in range(x.shape[1]) if not fits[c])
    raise ValueError(
        f"The mean and the variance of each channel, and the sums behind them, must fit "
        f"{var.dtype}, to be kept as running statistics; those of channel {channel} of x do not. "
        f"Pass x in float64, or divide it by a constant, which normalisation does not see."
    )


def _check_running(running_mean: A | None, running_var: A | None) -> tuple[A, A]:
    if running_mean is None or running_var is None:
        raise ValueError(
            "Inference needs running_mean and running_var, the statistics that training returns; "
            "to normalise with those of this batch, pass training=True."
        )
    return running_mean, running_var


# --- GroupNorm and InstanceNorm: statistics of some channels of one example -------------------


def group_norm(
    x: A,
    num_groups: int,
    gamma: A | None = None,
    beta: A | None = None,
    eps: float = 1e-5,
) -> A:
    r"""Group normalisation: each example by itself, over groups of C/G neighbouring channels.

    $$ y = \gamma_c\, \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} + \beta_c $$

    where μ and σ² (biased) are those of one group of one example, over its channels and all
    positions. One group is layer normalisation over (C, H, W); C groups, instance normalisation.

    x: (N, C) or (N, C, ...), any floating dtype. num_groups: G, a divisor of C.
    gamma, beta: (C,), one number per channel, not per group; 1 and 0 if left out.
    Returns y: the shape and dtype of x; statistics are computed in at least float32.
    Raises TypeError for lists or mixed libraries, ValueError for a wrong shape, eps or number.
    Source: Wu & He (2018), Group Normalization, eq. 1, 2, 6 and 7.

    See: gn-formula in book/group_instance_norm.md; tests/normkit/test_channels.py.

    >>> import numpy as np
    >>> x = np.array([[[1.0, 3.0], [5.0, 7.0], [0.0, 0.0], [2.0, 2.0]]])
    >>> group_norm(x, 2).round(4)[0]
    array([[-1.3416, -0.4472],
           [ 0.4472,  1.3416],
           [-1.    , -1.    ],
           [ 1.    ,  1.    ]])
    """
    xp = namespace(x=x, gamma=gamma, beta=beta)
    check_channels(x, gamma=gamma, beta=beta)
    check_eps(eps)
    xhat, _ = _standardise(xp, _grouped(xp, widen(xp, x), num_groups), -1, eps)
    return _affine(xp, xp.reshape(xhat, x.shape), x, gamma, beta)


def group_norm_backward(
    dy: A, x: A, num_groups: int, gamma: A | None = None, eps: float = 1e-5
) -> tuple[A, A, A]:
    r"""Gradients of a loss with respect to x, γ and β, from its gradient dy at the output.

    $$ dx = r \left(d\hat x - \overline{d\hat x} - \hat x\, \overline{d\hat x \odot \hat x}\right),
    \quad d\hat x = \gamma_c\, dy, \quad r = 1 / \sqrt{\sigma^2 + \varepsilon} $$

    $$ d\gamma_c = \sum dy \odot \hat x, \quad d\beta_c = \sum dy $$

    The bars are means over one group of one example, the sums run over examples and positions.

    dy, x: (N, C) or (N, C, ...); num_groups: G; gamma: (C,), 1 if left out.
    Returns dx like x, and dγ, dβ of shape (C,) in the dtype of gamma (of x if left out).
    Raises TypeError and ValueError as `group_norm` does.

    See: gn-backward in book/group_instance_norm.md; tests/normkit/test_channels.py.
    """
    xp = namespace(dy=dy, x=x, gamma=gamma)
    check_channels(x, gamma=gamma)
    check_gradient(dy, x)
    check_eps(eps)
    dy = widen(xp, dy)
    dxhat = dy if gamma is None else _spread(xp, gamma, x) * dy
    xhat, r = _standardise(xp, _grouped(xp, widen(xp, x), num_groups), -1, eps)
    dx = _backward(xp, _grouped(xp, dxhat, num_groups), xhat, r, -1)
    dx, xhat = xp.reshape(dx, x.shape), xp.reshape(xhat, x.shape)
    return _gradients(xp, dx, dy, xhat, x, gamma, _all_but_channels(x))


def instance_norm(x: A, gamma: A | None = None, beta: A | None = None, eps: float = 1e-5) -> A:
    r"""Instance normalisation: each channel of each example by itself, over its positions.

    It is `group_norm` with as many groups as channels.

    x: (N, C, ...) with at least two positions; the rest as for `group_norm`,
    errors too.
    Source: Ulyanov, Vedaldi & Lempitsky (2016), Instance Normalization.

    See: gn-instance in book/group_instance_norm.md; tests/normkit/test_channels.py.

    >>> import numpy as np
    >>> instance_norm(np.array([[[1.0, 3.0], [0.0, 0.0]]])).round(4)
    array([[[-1.,  1.],
            [ 0.,  0.]]])
    """
    namespace(x=x)
    _check_positions(x)
    return group_norm(x, x.shape[1], gamma, beta, eps)


def instance_norm_backward(
    dy: A, x: A, gamma: A | None = None, eps: float = 1e-5
) -> tuple[A, A, A]:
    """Gradients with respect to x, γ and β: `group_norm_backward` with one channel per group.

    See: gn-backward in book/group_instance_norm.md; tests/normkit/test_channels.py.
    """
    namespace(x=x)
    _check_positions(x)
    return group_norm_backward(dy, x, x.shape[1], gamma, eps)


def _grouped(xp, x, num_groups):
    """x as (N, G, values of the group)."""
    examples, channels = x.shape[:2]
    if not isinstance(num_groups, Integral) or num_groups < 1 or channels % num_groups:
        raise ValueError(
            f"num_groups must divide the number of channels, {channels}; it is {num_groups}. It "
            f"counts the groups, not the channels of a group."
        )
    return xp.reshape(x, (examples, num_groups, math.prod(x.shape[1:]) // num_groups))


def _check_positions(x):
    check_channels(x)
    if x.ndim < 3 or math.prod(x.shape[2:]) < 2:
        raise ValueError(
            f"Instance normalisation needs at least two positions per channel, x of shape "
            f"(N, C, ...); its shape is {tuple(x.shape)}. With a single one, the output would be "
            f"β whatever x is. Features without positions are for layer_norm."
        )


# --- Channels on axis 1 -----------------------------------------------------------------------


def _all_but_channels(x):
    return (0, *range(2, x.ndim))


def _spread(xp, parameter, x):
    """One number per channel, shaped to line up with axis 1 of x."""
    return xp.reshape(parameter, (x.shape[1], *(1 for _ in x.shape[2:])))


def _affine(xp, xhat, x, gamma, beta):
    y = xhat if gamma is None else _spread(xp, gamma, x) * xhat
    return as_dtype_of(xp, y if beta is None else y + _spread(xp, beta, x), x)
