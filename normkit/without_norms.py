"""Training without norms: initial scales, standardised weights, clipped gradients; two other BNs.

Nothing here but the last section measures an activation: weights are standardised or divided by
their largest singular value, branches start small, gradients are kept small beside the weights.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import is_jax_array, is_torch_array

from normkit._arrays import as_dtype_of, check_channels, check_eps, namespace, widen
from normkit.channels import (
    _affine,
    _all_but_channels,
    _spread,
    batch_norm,
    batch_norm_backward,
)
from normkit.decay import unit
from normkit.typing import A

# --- Scales at the start ----------------------------------------------------------------------


def fixup_scale(blocks: int, layers: int = 2) -> float:
    r"""By how much Fixup shrinks the first weights of a residual branch; its last layer is 0.

    $$ L^{-1/(2m - 2)} $$

    blocks: L, the residual blocks of the network. layers: m, the weight layers of a branch, of
    which the m - 1 first ones are multiplied.
    Returns the factor. Raises ValueError for less than one block or two layers.
    Source: Zhang, Dauphin & Ma (2019), Fixup Initialization; hongyi-zhang/Fixup
    `cifar/models/fixup_resnet_cifar.py`.

    See: without-fixup in book/without_norms.md; tests/normkit/test_without_norms.py.

    >>> fixup_scale(64), fixup_scale(16, layers=3)
    (0.125, 0.5)
    """
    if blocks < 1 or layers < 2:
        raise ValueError(
            f"There must be at least one block, and two layers in its branch: the last starts at "
            f"0, the others are shrunk. blocks is {blocks} and layers is {layers}."
        )
    return blocks ** (-1 / (2 * layers - 2))


def expected_scales(blocks: int, alpha: float = 0.2) -> np.ndarray:
    r"""What NF-ResNets divide the input of each branch by: its expected standard deviation.

    $$ \beta_l = \sqrt{1 + l \alpha^2}, \quad x_{l+1} = x_l + \alpha F(x_l / \beta_l) $$

    for branches F that keep a variance of 1 and an input of variance 1.

    blocks: of one stage; each stage counts from 0 anew. alpha: α, the scale of the branches.
    Returns β for l = 0 to blocks, (blocks + 1,): the last is that of the output.
    Raises ValueError for a negative number of blocks.
    Source: Brock, De & Smith (2021), Characterizing Signal Propagation; deepmind-research
    `nfnets/nf_resnet.py`.

    See: without-nf in book/without_norms.md; tests/normkit/test_without_norms.py.

    >>> expected_scales(64)[[0, 1, 64]].round(4)
    array([1.    , 1.0198, 1.8868])
    """
    if blocks < 0:
        raise ValueError(f"blocks must not be negative; it is {blocks}.")
    return np.sqrt(1 + alpha**2 * np.arange(blocks + 1))


def activation_gain(activation: Callable[[np.ndarray], np.ndarray]) -> float:
    r"""The constant γ after an activation f that gives it variance 1 for standard normal input.

    $$ \gamma = \frac{1}{\sqrt{\operatorname{Var} f(z)}}, \quad z \sim \mathcal{N}(0, 1) $$

    It is the variance that becomes 1, and not the mean square, because standardised weights remove
    the mean.

    activation: f, on NumPy arrays, value by value. Integrated from -12 to 12.
    Raises ValueError for an f that is constant or not finite.
    Source: Brock, De & Smith (2021), Characterizing Signal Propagation; deepmind-research
    `nfnets/base.py`, whose constants were sampled (1.7140 for ReLU).

    See: without-nf in book/without_norms.md; tests/normkit/test_without_norms.py.

    >>> round(activation_gain(lambda z: np.maximum(z, 0)), 4)
    1.7129
    """
    z = np.linspace(-12, 12, 48001)
    density = np.exp(-(z**2) / 2)
    density /= density.sum()
    f = np.asarray(activation(z), dtype=float)
    variance = float(density @ (f - density @ f) ** 2)
    if not 1e-20 < variance < math.inf:
        raise ValueError(
            f"The activation must be finite and not constant: its variance for normal input is "
            f"{variance}, which no factor turns into 1."
        )
    return 1 / math.sqrt(variance)


# --- Weights ----------------------------------------------------------------------------------


def standardise_weight(weight: A, gain: A | None = None, eps: float = 1e-4) -> A:
    r"""Scaled weight standardisation: the weights of each output have mean 0 and norm g.

    $$ \hat W = g\, \frac{W - \mu}{\sqrt{\max(n \sigma^2, \varepsilon)}} $$

    μ and σ² are those of the n weights of one output; n is the fan-in. Without the n it is plain
    weight standardisation, √n times as large (Qiao et al., 2019).

    weight: (outputs, ...), as in Linear and Conv2d. gain: g, (outputs,), 1 if left out.
    Returns the shape and dtype of weight, computed in at least float32.
    Raises TypeError for lists or mixed libraries, ValueError for a wrong shape or eps.
    Source: Brock, De & Smith (2021), Characterizing Signal Propagation; deepmind-research
    `nfnets/base.py`.

    See: without-nf in book/without_norms.md; tests/normkit/test_without_norms.py.

    >>> standardise_weight(np.array([[1.0, 2.0, 3.0, 6.0], [0.0, 0.0, 2.0, 2.0]])).round(4)
    array([[-0.5345, -0.2673,  0.    ,  0.8018],
           [-0.5   , -0.5   ,  0.5   ,  0.5   ]])
    """
    xp = namespace(weight=weight, gain=gain)
    direction, _, _ = _standardised(xp, weight, gain, eps)
    return as_dtype_of(xp, direction * _per_output(xp, gain, weight), weight)


def standardise_weight_backward(
    dw: A, weight: A, gain: A | None = None, eps: float = 1e-4
) -> tuple[A, A]:
    r"""Gradients of a loss with respect to W and g, from its gradient at the standardised weights.

    $$ dW = \frac{g}{s} \left(dw - \overline{dw} - u \sum dw \odot u\right), \quad
    dg = \sum dw \odot u, \quad u = \frac{W - \mu}{s} $$

    with s the root in the denominator; the sums and the mean run over one output. Where ε is the
    larger of the two, s is constant and the last term of dW is absent.

    dw, weight: (outputs, ...); gain: (outputs,), 1 if left out.
    Returns dW like weight, and dg, (outputs,), like gain. Raises as `standardise_weight`.

    See: without-nf in book/without_norms.md; tests/normkit/test_without_norms.py.

    >>> w, dw = np.array([[0.0, 0.0, 2.0, 2.0]]), np.array([[1.0, 0.0, 0.0, 0.0]])
    >>> standardise_weight_backward(dw, w)
    (array([[ 0.25, -0.25,  0.  ,  0.  ]]), array([-0.5]))
    """
    xp = namespace(dw=dw, weight=weight, gain=gain)
    if tuple(dw.shape) != tuple(weight.shape):
        raise ValueError(
            f"dw must have the shape of weight, {tuple(weight.shape)}: one gradient for each "
            f"weight. It has {tuple(dw.shape)}."
        )
    u, root, free = _standardised(xp, weight, gain, eps)
    axes, dw = tuple(range(1, weight.ndim)), widen(xp, dw)
    dg = xp.sum(dw * u, axis=axes, keepdims=True)
    inner = dw - xp.mean(dw, axis=axes, keepdims=True) - xp.where(free, u * dg, 0 * u)
    dweight = as_dtype_of(xp, inner * (_per_output(xp, gain, weight) / root), weight)
    return dweight, as_dtype_of(xp, xp.reshape(dg, (-1,)), weight if gain is None else gain)


def _standardised(xp: Any, weight: Any, gain: Any, eps: float) -> tuple[Any, Any, Any]:
    """u; the root; and where the root depends on the weights, because ε is smaller."""
    check_eps(eps)
    if weight.ndim < 2:
        raise ValueError(
            f"weight must have one row per output, (outputs, ...); its shape is "
            f"{tuple(weight.shape)}. Biases and gains are not standardised."
        )
    if gain is not None and tuple(gain.shape) != (weight.shape[0],):
        raise ValueError(
            f"gain must have one number per output, ({weight.shape[0]},); its shape is "
            f"{tuple(gain.shape)}."
        )
    wide, axes = widen(xp, weight), tuple(range(1, weight.ndim))
    centred = wide - xp.mean(wide, axis=axes, keepdims=True)
    square = xp.sum(centred * centred, axis=axes, keepdims=True)  # n σ²
    root = xp.sqrt(xp.clip(square, eps, None))
    return centred / root, root, square > eps


def _per_output(xp: Any, gain: Any, weight: Any) -> Any:
    if gain is None:
        return 1.0
    return xp.reshape(widen(xp, gain), (-1, *(1 for _ in weight.shape[1:])))


def spectral_norm(weight: A, u: A, steps: int = 1) -> tuple[A, A]:
    r"""Weights divided by an estimate of their largest singular value, and the next vector u.

    $$ v \leftarrow \frac{W^\top u}{\lVert W^\top u \rVert}, \quad
    u \leftarrow \frac{W v}{\lVert W v \rVert}, \quad \hat W = \frac{W}{u^\top W v} $$

    A convolution is taken as the matrix (outputs, rest), whose largest singular value is not that
    of the map on images. No gradient flows through u and v.

    weight: (outputs, ...). u: (outputs,), random at first, then what the last call returned.
    steps: of the power iteration.
    Returns the weights like weight, and u. Raises TypeError for lists or mixed libraries,
    ValueError for a wrong shape, no step, or weights of zeros.
    Source: Miyato, Kataoka, Koyama & Yoshida (2018), Spectral Normalization; torch
    `torch/nn/utils/parametrizations.py`.

    See: without-spectral in book/without_norms.md; tests/normkit/test_without_norms.py.

    >>> w, u = spectral_norm(np.diag([4.0, 2.0]), np.array([0.6, 0.8]), steps=20)
    >>> w.round(4), u.round(4)
    (array([[1. , 0. ],
           [0. , 0.5]]), array([1., 0.]))
    """
    xp = namespace(weight=weight, u=u)
    if weight.ndim < 2 or tuple(u.shape) != (weight.shape[0],) or steps < 1:
        raise ValueError(
            f"weight must have one row per output, (outputs, ...), u one number per output, and "
            f"steps must be at least 1; the shapes are {tuple(weight.shape)} and "
            f"{tuple(u.shape)}, steps is {steps}."
        )
    matrix = xp.reshape(widen(xp, weight), (weight.shape[0], -1))
    fixed, left = _constant(matrix), widen(xp, u)
    right = unit(fixed.T @ left)
    for _ in range(steps - 1):
        right = unit(fixed.T @ (fixed @ right))
    left = unit(fixed @ right)
    largest = left @ (matrix @ right)
    return as_dtype_of(xp, widen(xp, weight) / largest, weight), as_dtype_of(xp, left, u)


def _constant(array: Any) -> Any:
    """The same numbers, through which no gradient flows."""
    if is_torch_array(array):
        return array.detach()
    if is_jax_array(array):
        from jax.lax import stop_gradient

        return stop_gradient(array)
    return array


# --- Gradients --------------------------------------------------------------------------------


def clip_by_unit(gradient: A, weight: A, limit: float = 0.01, floor: float = 1e-3) -> A:
    r"""Adaptive gradient clipping: per output, the gradient is at most a share of the weights.

    $$ G_i \leftarrow G_i \min\left(1, \lambda\, \frac{\max(\lVert W_i \rVert, \varepsilon)}
    {\lVert G_i \rVert}\right) $$

    gradient, weight: G and W, (outputs, ...), row i is what leads to output i; a vector (a bias)
    or a number counts as one unit. limit: λ. floor: ε, so that weights of 0 can move.
    Returns the shape and dtype of gradient. Raises TypeError for lists or mixed libraries,
    ValueError for different shapes or a limit or floor that is not positive.
    Source: Brock, De, Smith & Simonyan (2021), High-Performance Large-Scale Image Recognition
    Without Normalization; deepmind-research `nfnets/agc_optax.py`.

    See: without-agc in book/without_norms.md; tests/normkit/test_without_norms.py.

    >>> clip_by_unit(np.array([[3.0, 4.0], [0.0, 0.01]]), np.array([[6.0, 8.0], [0.0, 2.0]]))
    array([[0.06, 0.08],
           [0.  , 0.01]])
    """
    xp = namespace(gradient=gradient, weight=weight)
    if tuple(gradient.shape) != tuple(weight.shape):
        raise ValueError(
            f"gradient must have the shape of weight, {tuple(weight.shape)}; it has "
            f"{tuple(gradient.shape)}."
        )
    if not (limit > 0 and floor > 0):
        raise ValueError(
            f"limit and floor must be positive, or nothing would move; they are {limit} and "
            f"{floor}."
        )
    axes = tuple(range(1 if gradient.ndim > 1 else 0, gradient.ndim))
    g, w = (
        xp.sqrt(xp.sum(wide * wide, axis=axes, keepdims=True))
        for wide in (widen(xp, gradient), widen(xp, weight))
    )
    most = limit * xp.clip(w, floor, None)
    factor = xp.where(g > most, most / xp.clip(g, 1e-12, None), xp.ones_like(g))
    return as_dtype_of(xp, widen(xp, gradient) * factor, gradient)


# --- Batch normalisation, otherwise -----------------------------------------------------------


def batch_renorm(
    x: A,
    running_mean: A,
    running_var: A,
    gamma: A | None = None,
    beta: A | None = None,
    r_max: float = 3.0,
    d_max: float = 5.0,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> tuple[A, A, A]:
    r"""Batch renormalisation in training: (y, running_mean, running_var).

    $$ y = \gamma_c \left(\frac{x - \mu_B}{\sigma_B}\, r + d\right) + \beta_c, \quad
    r = \operatorname{clip}\left(\frac{\sigma_B}{\sigma_r}, \frac{1}{r_{\max}}, r_{\max}\right),
    \quad d = \operatorname{clip}\left(\frac{\mu_B - \mu_r}{\sigma_r}, \pm d_{\max}\right) $$

    Each σ is a root with ε inside; r and d use the running statistics before this batch moves
    them, and no gradient flows through them. Where neither is clipped, y is that of inference;
    with r_max = 1 and d_max = 0 it is `batch_norm`, which serves for inference too.

    x: (N, C) or (N, C, ...). running_mean, running_var, gamma, beta: (C,), as in `batch_norm`.
    r_max: at least 1. d_max: at least 0. momentum: the share of the new batch. The defaults of
    r_max and d_max are where the paper arrives; it begins with 1 and 0.
    Returns y like x, and the new running statistics. Raises as `batch_norm`, and ValueError for
    other bounds.
    Source: Ioffe (2017), Batch Renormalization, algorithm 1, which averages σ instead of σ².

    See: without-renorm in book/without_norms.md; tests/normkit/test_without_norms.py.

    >>> x, zero, one = np.array([[1.0], [3.0]]), np.zeros(1), np.ones(1)
    >>> batch_renorm(x, zero, one, eps=0)[0][:, 0], batch_renorm(x, zero, one, d_max=0)[0][:, 0]
    (array([1., 3.]), array([-0.999995,  0.999995]))
    """
    xhat, new_mean, new_var = batch_norm(
        x, None, None, running_mean, running_var, training=True, momentum=momentum, eps=eps
    )
    xp = namespace(x=x, gamma=gamma, beta=beta)
    r, d = _corrections(xp, x, running_mean, running_var, r_max, d_max, eps)
    return _affine(xp, widen(xp, xhat) * r + d, x, gamma, beta), new_mean, new_var


def batch_renorm_backward(
    dy: A,
    x: A,
    running_mean: A,
    running_var: A,
    gamma: A | None = None,
    r_max: float = 3.0,
    d_max: float = 5.0,
    eps: float = 1e-5,
) -> tuple[A, A, A]:
    r"""Gradients of a loss with respect to x, γ and β, from its gradient dy at the output.

    dx is r times that of `batch_norm_backward`, and $d\gamma_c = \sum dy \odot (\hat x r + d)$.

    dy, x: (N, C) or (N, C, ...); the rest as in `batch_renorm`, errors too.
    Returns dx like x, and dγ, dβ of shape (C,) in the dtype of gamma (of x if left out).

    See: without-renorm in book/without_norms.md; tests/normkit/test_without_norms.py.
    """
    xp = namespace(dy=dy, x=x, gamma=gamma)
    dx, dgamma, dbeta = batch_norm_backward(dy, x, gamma, training=True, eps=eps)
    r, d = _corrections(xp, x, running_mean, running_var, r_max, d_max, eps)
    flat_r, flat_d = (xp.reshape(number, (-1,)) for number in (r, d))
    dgamma = as_dtype_of(xp, dgamma * flat_r + dbeta * flat_d, dgamma)
    return as_dtype_of(xp, widen(xp, dx) * r, x), dgamma, dbeta


def _corrections(
    xp: Any, x: A, mean: A, var: A, r_max: float, d_max: float, eps: float
) -> tuple[Any, Any]:
    """r and d, lined up with the channels of x."""
    if not (r_max >= 1 and d_max >= 0):
        raise ValueError(
            f"r_max must be at least 1 and d_max at least 0, so that batch normalisation, r = 1 "
            f"and d = 0, is within the bounds; they are {r_max} and {d_max}."
        )
    wide, shared = _constant(widen(xp, x)), _all_but_channels(x)
    batch_std = xp.sqrt(xp.var(wide, axis=shared) + eps)
    std = xp.sqrt(widen(xp, var) + eps)
    r = xp.clip(batch_std / std, 1 / r_max, r_max)
    d = xp.clip((xp.mean(wide, axis=shared) - widen(xp, mean)) / std, -d_max, d_max)
    return _spread(xp, r, x), _spread(xp, d, x)


def ghost_batch_norm(
    x: A, size: int, gamma: A | None = None, beta: A | None = None, eps: float = 1e-5
) -> A:
    r"""Ghost batch normalisation in training: statistics per part of the batch.

    It is `batch_norm` of each `size` consecutive examples, with one γ and β for all.

    x: (N, C) or (N, C, ...). size: of a part, a divisor of N. gamma, beta: (C,), 1 and 0 if left
    out. Returns y: the shape and dtype of x.
    Raises as `batch_norm`, and ValueError for a size that does not divide N: a last part of one
    example would be β, whatever it is.
    Source: Hoffer, Hubara & Soudry (2017), Train longer, generalize better, algorithm 1.

    See: without-ghost in book/without_norms.md; tests/normkit/test_without_norms.py.

    >>> ghost_batch_norm(np.array([[1.0], [3.0], [10.0], [30.0]]), 2, eps=0)[:, 0]
    array([-1.,  1., -1.,  1.])
    """
    xp = namespace(x=x, gamma=gamma, beta=beta)
    check_channels(x, gamma=gamma, beta=beta)
    if size < 1 or x.shape[0] % size:
        raise ValueError(
            f"size must divide the batch of {x.shape[0]} examples; it is {size}. Drop the last, "
            f"incomplete part, or choose another size."
        )
    # The parts become channels: (N, C, ...) to (size, parts · C, ...) and back.
    parts, channels, rest = x.shape[0] // size, x.shape[1], tuple(x.shape[2:])
    apart = xp.moveaxis(xp.reshape(x, (parts, size, channels, *rest)), 1, 0)
    y = batch_norm(xp.reshape(apart, (size, parts * channels, *rest)), training=True, eps=eps)[0]
    together = xp.moveaxis(xp.reshape(y, (size, parts, channels, *rest)), 0, 1)
    return _affine(xp, xp.reshape(together, x.shape), x, gamma, beta)
