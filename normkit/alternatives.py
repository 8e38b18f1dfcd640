"""What stands in for a normalisation: DyT and Derf squash x, weight normalisation scales weights.

None of them measures its input, so their gradients have no terms of statistics.
"""

import math

import numpy as np
from array_api_compat import is_jax_namespace, is_torch_namespace

from normkit._arrays import (
    as_dtype_of,
    check_features,
    check_gradient,
    namespace,
    widen,
    without_overflow,
)
from normkit.functions import _gradients
from normkit.typing import A


def dyt(x: A, alpha: float | A = 0.5, gamma: A | None = None, beta: A | None = None) -> A:
    r"""Dynamic tanh.

    $$ y = \gamma \odot \tanh(\alpha x) + \beta $$

    x: (..., D), any floating dtype. alpha: a single number, shared by all features.
    gamma, beta: (D,); 1 and 0 if left out.
    Returns y: the shape and dtype of x, computed in at least float32.
    Raises TypeError for lists or mixed libraries, ValueError for a wrong shape.
    Source: Zhu, Chen, He, LeCun & Liu (2025), Transformers without Normalization.

    See: dyt-formula in book/dyt.md; tests/normkit/test_alternatives.py.

    >>> import numpy as np
    >>> dyt(np.array([-2.0, -1.0, 0.0, 1.0, 2.0, 10.0])).round(4)
    array([-0.7616, -0.4621,  0.    ,  0.4621,  0.7616,  0.9999])
    """
    xp = namespace(x=x, alpha=_array(alpha), gamma=gamma, beta=beta)
    check_features(x, gamma=gamma, beta=beta)
    y = xp.tanh(_single(xp, "alpha", alpha) * widen(xp, x))
    y = y if gamma is None else gamma * y
    return as_dtype_of(xp, y if beta is None else y + beta, x)


def dyt_backward(dy: A, x: A, alpha: float | A = 0.5, gamma: A | None = None) -> tuple[A, A, A, A]:
    r"""Gradients of a loss with respect to x, α, γ and β, from its gradient dy at the output.

    $$ dx = \alpha\, u, \quad d\alpha = \sum u \odot x, \quad
    u = \gamma \odot dy \odot (1 - t^2), \quad t = \tanh(\alpha x) $$

    $$ d\gamma = \sum dy \odot t, \quad d\beta = \sum dy $$

    The sum of dα runs over everything, those of dγ and dβ over all tokens.

    dy, x: (..., D); gamma: (D,), 1 if left out.
    Returns dx like x, dα like alpha, and dγ, dβ of shape (D,) in the dtype of gamma (or of x).

    See: dyt-backward in book/dyt.md; tests/normkit/test_alternatives.py.

    >>> import numpy as np
    >>> dx, dalpha, dgamma, dbeta = dyt_backward(np.ones(3), np.array([-1.0, 0.0, 2.0]))
    >>> dx.round(4), float(dalpha.round(4))
    (array([0.3932, 0.5   , 0.21  ]), 0.0535)
    """
    xp = namespace(dy=dy, x=x, alpha=_array(alpha), gamma=gamma)
    check_features(x, gamma=gamma)
    check_gradient(dy, x)
    one, x_wide, dy = _single(xp, "alpha", alpha), widen(xp, x), widen(xp, dy)
    t = xp.tanh(one * x_wide)
    u = dy * (1 - t * t) if gamma is None else gamma * dy * (1 - t * t)
    dalpha = _shaped_like(xp, xp.sum(u * x_wide), alpha, x)
    dx, dgamma, dbeta = _gradients(xp, one * u, dy, t, x, gamma, tuple(range(x.ndim - 1)))
    return dx, dalpha, dgamma, dbeta


def dyt_alpha_init(width: int) -> tuple[float, float]:
    """The published initial α of DyT in language models: before attention, and elsewhere.

    The wider the model, the smaller α; elsewhere is before the feed-forward part and at the end.
    Source: Zhu, Chen, He, LeCun & Liu (2025), for LLaMA of 7B (width 4096), 13B (5120), 34B and
    70B parameters (8192). Other models than language models start at 0.5.

    See: dyt-alpha-init in book/dyt.md; tests/normkit/test_alternatives.py.

    >>> dyt_alpha_init(5120)
    (0.6, 0.15)
    """
    published = {4096: (0.8, 0.2), 5120: (0.6, 0.15), 8192: (0.2, 0.05)}
    if width not in published:
        raise ValueError(
            f"α was published for the widths {', '.join(map(str, published))}, not for {width}. "
            f"Try the value of the nearest width: more for a narrower model, less for a wider one."
        )
    return published[width]


def derf(
    x: A,
    alpha: float | A = 0.5,
    shift: float | A = 0.0,
    gamma: A | None = None,
    beta: A | None = None,
) -> A:
    r"""Dynamic erf.

    $$ y = \gamma \odot \operatorname{erf}(\alpha x + s) + \beta $$

    x: (..., D), any floating dtype. alpha, shift (s): single numbers, shared by all features.
    gamma, beta: (D,); 1 and 0 if left out.
    Returns y: the shape and dtype of x, computed in at least float32. NumPy has no erf: there
    the values are computed one by one, which is slow.
    Raises TypeError for lists or mixed libraries, ValueError for a wrong shape.
    Source: Chen, Lu, Zhu, Sun & Liu (2025), Stronger Normalization-Free Transformers.

    See: dyt-derf in book/dyt.md; tests/normkit/test_alternatives.py.

    >>> import numpy as np
    >>> derf(np.array([-2.0, -1.0, 0.0, 1.0, 2.0, 10.0])).round(4)
    array([-0.8427, -0.5205,  0.    ,  0.5205,  0.8427,  1.    ])
    """
    xp = namespace(x=x, alpha=_array(alpha), shift=_array(shift), gamma=gamma, beta=beta)
    check_features(x, gamma=gamma, beta=beta)
    one, s = _single(xp, "alpha", alpha), _single(xp, "shift", shift)
    y = _erf(xp, one * widen(xp, x) + s)
    y = y if gamma is None else gamma * y
    return as_dtype_of(xp, y if beta is None else y + beta, x)


def derf_backward(
    dy: A,
    x: A,
    alpha: float | A = 0.5,
    shift: float | A = 0.0,
    gamma: A | None = None,
) -> tuple[A, A, A, A, A]:
    r"""Gradients of a loss with respect to x, α, s, γ and β, from its gradient dy at the output.

    $$ dx = \alpha\, u, \quad d\alpha = \sum u \odot x, \quad ds = \sum u, \quad
    u = \gamma \odot dy \odot \tfrac{2}{\sqrt\pi} e^{-(\alpha x + s)^2} $$

    $$ d\gamma = \sum dy \odot \operatorname{erf}(\alpha x + s), \quad d\beta = \sum dy $$

    dy, x: (..., D); gamma: (D,), 1 if left out.
    Returns dx like x, dα like alpha, ds like shift, and dγ, dβ of shape (D,) in the dtype of
    gamma (or of x).

    See: dyt-derf in book/dyt.md; tests/normkit/test_alternatives.py.
    """
    xp = namespace(dy=dy, x=x, alpha=_array(alpha), shift=_array(shift), gamma=gamma)
    check_features(x, gamma=gamma)
    check_gradient(dy, x)
    one, s = _single(xp, "alpha", alpha), _single(xp, "shift", shift)
    x_wide, dy = widen(xp, x), widen(xp, dy)
    z = one * x_wide + s
    u = dy * (2 / math.sqrt(math.pi)) * xp.exp(-z * z)
    u = u if gamma is None else gamma * u
    dalpha = _shaped_like(xp, xp.sum(u * x_wide), alpha, x)
    dshift = _shaped_like(xp, xp.sum(u), shift, x)
    tokens = tuple(range(x.ndim - 1))
    dx, dgamma, dbeta = _gradients(xp, one * u, dy, _erf(xp, z), x, gamma, tokens)
    return dx, dalpha, dshift, dgamma, dbeta


def weight_norm(v: A, g: A) -> A:
    r"""Weight normalisation: each row of the weights gets its own length g.

    $$ w = g\, \frac{v}{\lVert v \rVert} $$

    It normalises parameters, not activations: no statistics, no ε, and no v of length 0.

    v: (outputs, ...), the norm is taken over all axes but the first. g: (outputs,).
    Returns w: the shape and dtype of v, computed in at least float32.
    Raises TypeError for lists or mixed libraries, ValueError for a wrong shape.
    Source: Salimans & Kingma (2016), Weight Normalization, eq. 2.

    See: dyt-weight-norm in book/dyt.md; tests/normkit/test_alternatives.py.

    >>> import numpy as np
    >>> weight_norm(np.array([[3.0, 4.0], [0.0, 2.0]]), np.array([10.0, 1.0]))
    array([[6., 8.],
           [0., 1.]])
    """
    xp = namespace(v=v, g=g)
    direction, _, g_wide = _direction(xp, v, g)
    return as_dtype_of(xp, g_wide * direction, v)


def weight_norm_backward(dw: A, v: A, g: A) -> tuple[A, A]:
    r"""Gradients of a loss with respect to v and g, from its gradient dw at the weights.

    $$ dv = \frac{g}{\lVert v \rVert} \left(dw - \hat v \sum dw \odot \hat v\right), \quad
    dg = \sum dw \odot \hat v, \quad \hat v = \frac{v}{\lVert v \rVert} $$

    The sums run over a row: dv is at right angles to v, as dx of `rms_norm` is to x.

    dw, v: (outputs, ...); g: (outputs,).
    Returns dv like v and dg like g. Source: the same, eq. 3.

    See: dyt-weight-norm in book/dyt.md; tests/normkit/test_alternatives.py.
    """
    xp = namespace(dw=dw, v=v, g=g)
    direction, norm, g_wide = _direction(xp, v, g)
    if dw.shape != v.shape:
        raise ValueError(
            f"dw must have the shape of v, {tuple(v.shape)}: one gradient for each weight. "
            f"It has {tuple(dw.shape)}."
        )
    dw = widen(xp, dw)
    dg = xp.sum(dw * direction, axis=tuple(range(1, v.ndim)), keepdims=True)
    dv = g_wide / norm * (dw - direction * dg)
    return as_dtype_of(xp, dv, v), as_dtype_of(xp, xp.reshape(dg, g.shape), g)


def _direction(xp, v, g):
    """v/‖v‖, ‖v‖, and g shaped to line up with the rows of v."""
    if v.ndim < 2 or tuple(g.shape) != (v.shape[0],):
        raise ValueError(
            f"v must have shape (outputs, inputs, ...) and g one number per output; their shapes "
            f"are {tuple(v.shape)} and {tuple(g.shape)}."
        )
    v = widen(xp, v)
    axes = tuple(range(1, v.ndim))
    v, square, scale = without_overflow(
        xp, lambda v: (v, xp.sum(v * v, axis=axes, keepdims=True)), v
    )
    norm = xp.sqrt(square)
    return v / norm, norm / scale, xp.reshape(widen(xp, g), norm.shape)


def _array(number: float | A) -> A | None:
    """The number if it is an array: plain Python numbers go with every library."""
    return None if isinstance(number, int | float) else number


def _single(xp, name, number):
    """The number as such or as an array without axes."""
    if number is None:
        raise TypeError(
            f"{name} must be a number, or an array of one; it is None. Leave it out for its "
            f"default value."
        )
    if _array(number) is None:
        return number
    if math.prod(number.shape) != 1:
        raise ValueError(
            f"{name} must be a single number, shared by all features; it has shape "
            f"{tuple(number.shape)}. One number per feature is the part of gamma and beta."
        )
    return xp.reshape(widen(xp, number), ())


def _shaped_like(xp, gradient, number, x):
    """The gradient of a single number in its shape and dtype (in those of x for a plain one)."""
    if _array(number) is None:
        return as_dtype_of(xp, gradient, x)
    return as_dtype_of(xp, xp.reshape(gradient, number.shape), number)


def _erf(xp, x):
    """The error function, which the array API lacks."""
    if is_torch_namespace(xp):
        return x.erf()
    if is_jax_namespace(xp):
        from jax.scipy.special import erf

        return erf(x)
    return np.vectorize(math.erf, otypes=[x.dtype])(x)
