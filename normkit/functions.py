"""Normalisations of tokens, over the features on the last axis: LayerNorm and RMSNorm.

One body each for NumPy, PyTorch and JAX arrays, beside its gradient. What all normalisations
share is `_standardise` on the way forward and `_backward` on the way back.
"""

import math

from normkit._arrays import (
    as_dtype_of,
    check_eps,
    check_features,
    check_gradient,
    float_dtype,
    mean_over,
    mean_product,
    namespace,
    widen,
    without_overflow,
)
from normkit.typing import A

# --- LayerNorm, and what all share ------------------------------------------------------------


def layer_norm(x: A, gamma: A | None = None, beta: A | None = None, eps: float = 1e-5) -> A:
    r"""Layer normalisation over the last axis.

    $$ y = \gamma \odot \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} + \beta $$

    where μ and σ² (biased) are the mean and the variance of the features of one token.

    x: (..., D), any floating dtype; integers become the library's default float.
    gamma, beta: (D,), shared by all tokens; 1 and 0 if left out.
    Returns y: the shape and dtype of x; statistics are computed in at least float32.
    Raises TypeError for lists or mixed libraries, ValueError for a wrong shape or eps.
    Source: Ba, Kiros & Hinton (2016), Layer Normalization, eq. 4 (there without ε).

    See: ln-formula in book/layer_norm.md; tests/normkit/test_functions.py.

    >>> import numpy as np
    >>> layer_norm(np.array([[1.0, 3.0, 5.0, 7.0], [0.0, 0.0, 0.0, 4.0]])).round(4)
    array([[-1.3416, -0.4472,  0.4472,  1.3416],
           [-0.5773, -0.5773, -0.5773,  1.732 ]])
    """
    xp = namespace(x=x, gamma=gamma, beta=beta)
    check_features(x, gamma=gamma, beta=beta)
    check_eps(eps)
    xhat, _ = _standardise(xp, widen(xp, x), -1, eps)
    y = xhat if gamma is None else gamma * xhat
    y = y if beta is None else y + beta
    return xp.astype(y, float_dtype(xp, x), copy=False)


def layer_norm_backward(dy: A, x: A, gamma: A | None = None, eps: float = 1e-5) -> tuple[A, A, A]:
    r"""Gradients of a loss with respect to x, γ and β, from its gradient dy at the output.

    $$ dx = r \left(d\hat x - \overline{d\hat x} - \hat x\, \overline{d\hat x \odot \hat x}\right),
    \quad d\hat x = \gamma \odot dy, \quad r = 1 / \sqrt{\sigma^2 + \varepsilon} $$

    $$ d\gamma = \sum dy \odot \hat x, \quad d\beta = \sum dy $$

    The bars are means over the features of a token, the sums run over all tokens.

    dy, x: (..., D); gamma: (D,), 1 if left out.
    Returns dx like x, and dγ, dβ of shape (D,) in the dtype of gamma (of x if left out).
    Raises TypeError for lists or mixed libraries, ValueError for a wrong shape or eps.

    See: ln-backward in book/layer_norm.md; tests/normkit/test_functions.py.

    >>> import numpy as np
    >>> x, dy = np.array([0.0, 0.0, 3.0, 3.0]), np.array([1.0, 0.0, 0.0, 0.0])
    >>> dx, dgamma, dbeta = layer_norm_backward(dy, x, eps=0)
    >>> dx.round(4)
    array([ 0.3333, -0.3333,  0.    ,  0.    ])
    """
    xp = namespace(dy=dy, x=x, gamma=gamma)
    check_features(x, gamma=gamma)
    check_gradient(dy, x)
    check_eps(eps)
    xhat, r = _standardise(xp, widen(xp, x), -1, eps)
    dy = widen(xp, dy)
    dxhat = dy if gamma is None else gamma * dy
    dx = _backward(xp, dxhat, xhat, r, -1)
    return _gradients(xp, dx, dy, xhat, x, gamma, tuple(range(x.ndim - 1)))


def _standardise(xp, x, axis, eps):
    """x̂ = (x - μ) r and r = 1/√(σ² + ε), the variance being that of the centred x (two passes)."""
    centred, var, scale = _deviations(xp, x, axis)
    r = 1 / xp.sqrt(var + eps * scale**2)
    return centred * r, r * scale


def _deviations(xp, x, axis):
    """x - μ and σ², both of x times the scale that comes with them, see `without_overflow`."""

    def measure(x):
        centred = _centre(xp, x, axis)
        return centred, mean_product(xp, centred, centred, axis)

    return without_overflow(xp, measure, x)


def _centre(xp, x, axis):
    """x - μ, with one of the values subtracted before the mean.

    That changes only the rounding: a large mean costs no digits, and equal values become 0.
    """
    axes = (x.ndim - 1,) if axis == -1 else axis
    one = x[tuple(slice(1) if i in axes else slice(None) for i in range(x.ndim))]
    shifted = x - one
    return shifted - mean_over(xp, shifted, axis)


def _backward(xp, dxhat, xhat, r, axis):
    """dx = r (dx̂ - mean(dx̂) - x̂ mean(dx̂ x̂)): what is left of dx̂ beside the two statistics."""
    return r * (dxhat - mean_over(xp, dxhat, axis) - xhat * mean_product(xp, dxhat, xhat, axis))


def _gradients(xp, dx, dy, xhat, x, gamma, shared):
    """dx, and dγ and dβ summed over the axes that share them, each in the dtype of its own."""
    gamma = x if gamma is None else gamma
    dgamma, dbeta = xp.sum(dy * xhat, axis=shared), xp.sum(dy, axis=shared)
    return as_dtype_of(xp, dx, x), as_dtype_of(xp, dgamma, gamma), as_dtype_of(xp, dbeta, gamma)


# --- RMSNorm: the same without the mean -------------------------------------------------------


def rms_norm(x: A, gamma: A | None = None, eps: float | None = None, p: float = 1.0) -> A:
    r"""Root mean square normalisation over the last axis.

    $$ y = \gamma \odot \frac{x}{\sqrt{\frac{1}{k} \sum_{i \le k} x_i^2 + \varepsilon}},
    \quad k = \lceil p D \rceil $$

    x: (..., D), any floating dtype; integers become the library's default float.
    gamma: (D,), shared by all tokens; 1 if left out.
    eps: None stands for the machine epsilon of the dtype that computes, as in torch.
    p: the share of the features, the first ones, that the mean square is taken over (pRMSNorm).
    Returns y: the shape and dtype of x; the mean square is computed in at least float32.
    Raises TypeError for lists or mixed libraries, ValueError for a wrong shape, eps or p.
    Source: Zhang & Sennrich (2019), Root Mean Square Layer Normalization, eq. 4 (without ε).

    See: rms-formula in book/rms_norm.md; tests/normkit/test_functions.py.

    >>> import numpy as np
    >>> rms_norm(np.array([1.0, 7.0, 5.0, 5.0]))
    array([0.2, 1.4, 1. , 1. ])
    >>> rms_norm(np.array([3.0, 4.0, 0.0, 12.0]), p=0.5).round(4)
    array([0.8485, 1.1314, 0.    , 3.3941])
    """
    xp = namespace(x=x, gamma=gamma)
    check_features(x, gamma=gamma)
    xhat, _, _ = _divide_by_rms(xp, widen(xp, x), eps, p)
    return as_dtype_of(xp, xhat if gamma is None else gamma * xhat, x)


def rms_norm_backward(
    dy: A, x: A, gamma: A | None = None, eps: float | None = None, p: float = 1.0
) -> tuple[A, A]:
    r"""Gradients of a loss with respect to x and γ, from its gradient dy at the output.

    $$ dx = r \left(d\hat x - \hat x\, \overline{d\hat x \odot \hat x}\right),
    \quad d\hat x = \gamma \odot dy, \quad d\gamma = \sum dy \odot \hat x $$

    That is `layer_norm_backward` without the term of the mean. With p < 1 only the first k
    features have the second term, whose sum over all D features is divided by k.

    dy, x: (..., D); gamma: (D,), 1 if left out; eps, p: those of `rms_norm`.
    Returns dx like x, and dγ of shape (D,) in the dtype of gamma (of x if left out).
    Raises TypeError for lists or mixed libraries, ValueError for a wrong shape, eps or p.

    See: rms-backward in book/rms_norm.md; tests/normkit/test_functions.py.

    >>> import numpy as np
    >>> dx, dgamma = rms_norm_backward(np.array([5.0, 0, 0, 0]), np.array([1.0, 7, 5, 5]))
    >>> dx
    array([ 0.99, -0.07, -0.05, -0.05])
    """
    xp = namespace(dy=dy, x=x, gamma=gamma)
    check_features(x, gamma=gamma)
    check_gradient(dy, x)
    xhat, r, counted = _divide_by_rms(xp, widen(xp, x), eps, p)
    dy = widen(xp, dy)
    dxhat = dy if gamma is None else gamma * dy
    dx = r * (dxhat - counted * xhat * mean_product(xp, dxhat, xhat, -1))
    return _gradients(xp, dx, dy, xhat, x, gamma, tuple(range(x.ndim - 1)))[:2]


def _divide_by_rms(xp, x, eps, p):
    """x̂ = x r, r, and the weight of each feature in the mean square: 1, or D/k for the first k."""
    eps = float(xp.finfo(x.dtype).eps) if eps is None else eps
    check_eps(eps)
    if not 0 < p <= 1:
        raise ValueError(f"p is a share of the features, above 0 and at most 1; it is {p}.")
    features = x.shape[-1]
    counted = 1
    if p < 1:
        k = math.ceil(round(p * features, 9))  # 0.07 * 100 is a little more than 7
        counted = xp.astype(xp.arange(features) < k, x.dtype) * (features / k)

    def measure(x):
        return x, mean_product(xp, x if p == 1 else counted * x, x, -1)

    x, square, scale = without_overflow(xp, measure, x)
    r = 1 / xp.sqrt(square + eps * scale**2)
    return x * r, r * scale, counted
