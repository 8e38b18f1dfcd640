"""Normalisations as functions: one body each for NumPy, PyTorch and JAX arrays."""

from typing import Any, TypeAlias

from array_api_compat import array_namespace

Array: TypeAlias = Any  # a NumPy array, a PyTorch tensor or a JAX array


def layer_norm(
    x: Array, gamma: Array | None = None, beta: Array | None = None, eps: float = 1e-5
) -> Array:
    r"""Layer normalisation over the last axis.

    $$ y = \gamma \odot \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} + \beta $$

    where μ and σ² (biased) are the mean and the variance of the features of one token.

    x: (..., D), any floating dtype; integers become the library's default float.
    gamma, beta: (D,), shared by all tokens; 1 and 0 if left out.
    Returns y: the shape and dtype of x; statistics are computed in at least float32.
    Raises TypeError for lists or mixed libraries, ValueError for a wrong shape.
    Source: Ba, Kiros & Hinton (2016), Layer Normalization, eq. 4 (there without ε).

    >>> import numpy as np
    >>> layer_norm(np.array([[1.0, 3.0, 5.0, 7.0], [0.0, 0.0, 0.0, 4.0]])).round(4)
    array([[-1.3416, -0.4472,  0.4472,  1.3416],
           [-0.5773, -0.5773, -0.5773,  1.732 ]])
    """
    xp = _namespace(x=x, gamma=gamma, beta=beta)
    _check_features(x, gamma=gamma, beta=beta)
    xhat, _ = _standardise(xp, _widen(xp, x), -1, eps)
    y = xhat if gamma is None else gamma * xhat
    y = y if beta is None else y + beta
    return xp.astype(y, _float_dtype(xp, x), copy=False)


def layer_norm_backward(
    dy: Array, x: Array, gamma: Array | None = None, eps: float = 1e-5
) -> tuple[Array, Array, Array]:
    r"""Gradients of a loss with respect to x, γ and β, from its gradient dy at the output.

    $$ dx = r \left(d\hat x - \overline{d\hat x} - \hat x\, \overline{d\hat x \odot \hat x}\right),
    \quad d\hat x = \gamma \odot dy, \quad r = 1 / \sqrt{\sigma^2 + \varepsilon} $$

    $$ d\gamma = \sum dy \odot \hat x, \quad d\beta = \sum dy $$

    The bars are means over the features of a token, the sums run over all tokens.

    dy, x: (..., D); gamma: (D,), 1 if left out.
    Returns dx like x, and dγ, dβ of shape (D,) in the dtype of gamma (of x if left out).
    Raises TypeError for lists or mixed libraries, ValueError for a wrong shape.

    >>> import numpy as np
    >>> x, dy = np.array([0.0, 0.0, 3.0, 3.0]), np.array([1.0, 0.0, 0.0, 0.0])
    >>> dx, dgamma, dbeta = layer_norm_backward(dy, x, eps=0)
    >>> dx.round(4)
    array([ 0.3333, -0.3333,  0.    ,  0.    ])
    """
    xp = _namespace(dy=dy, x=x, gamma=gamma)
    _check_features(x, gamma=gamma)
    if dy.shape != x.shape:
        raise ValueError(
            f"dy must have the shape of x, {tuple(x.shape)}: one gradient for each output. "
            f"It has {tuple(dy.shape)}."
        )
    dtype = _float_dtype(xp, x)
    xhat, r = _standardise(xp, _widen(xp, x), -1, eps)
    dy = _widen(xp, dy)
    dxhat = dy if gamma is None else gamma * dy
    dx = r * (dxhat - _mean(xp, dxhat, -1) - xhat * _mean(xp, dxhat * xhat, -1))
    tokens = tuple(range(x.ndim - 1))
    dgamma, dbeta = xp.sum(dy * xhat, axis=tokens), xp.sum(dy, axis=tokens)
    shared = dtype if gamma is None else _float_dtype(xp, gamma)
    return (
        xp.astype(dx, dtype, copy=False),
        xp.astype(dgamma, shared, copy=False),
        xp.astype(dbeta, shared, copy=False),
    )


def _mean(xp, x, axis):
    return xp.mean(x, axis=axis, keepdims=True)


def _standardise(xp, x, axis, eps):
    """x̂ = (x - μ) r and r = 1/√(σ² + ε), the variance being that of the centred x (two passes)."""
    centred = x - _mean(xp, x, axis)
    r = 1 / xp.sqrt(_mean(xp, centred * centred, axis) + eps)
    return centred * r, r


def _float_dtype(xp, x):
    """The dtype of the result: that of x, or the library's default float for integers."""
    return xp.zeros(()).dtype if xp.isdtype(x.dtype, ("bool", "integral")) else x.dtype


def _widen(xp, x):
    """x in at least float32: sums of squares overflow early in float16, and bfloat16 has 8 bits."""
    return xp.astype(x, xp.result_type(_float_dtype(xp, x), xp.float32), copy=False)


def _namespace(**arrays):
    """The library that all the arrays come from."""
    given = {name: array for name, array in arrays.items() if array is not None}
    for name, array in given.items():
        if not hasattr(array, "shape"):
            raise TypeError(
                f"{name} must be an array, not a {type(array).__name__}: "
                f"write np.array({name}), torch.tensor({name}) or jnp.array({name})."
            )
    try:
        return array_namespace(*given.values())
    except TypeError:
        kinds = ", ".join(f"{name}: {type(array).__name__}" for name, array in given.items())
        raise TypeError(
            f"All arrays must come from one library, NumPy, PyTorch or JAX; got {kinds}."
        ) from None


def _check_features(x, **parameters):
    if x.ndim == 0:
        raise ValueError("x must have at least one axis, the features; it is a single number.")
    features = (x.shape[-1],)
    for name, array in parameters.items():
        if array is not None and tuple(array.shape) != features:
            raise ValueError(
                f"{name} must have shape {features}, one number per feature, because all tokens "
                f"share it; it has shape {tuple(array.shape)}. Batch and sequence length are not "
                f"part of it."
            )
