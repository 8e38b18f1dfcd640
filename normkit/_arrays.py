"""What all functions ask of their arrays: one library, the right shapes, enough precision.

Private to the package: what stands here may change with it.
"""

import math

import numpy as np
from array_api_compat import array_namespace


def mean_over(xp, x, axis):
    return xp.mean(x, axis=axis, keepdims=True)


def mean_product(xp, a, b, axis):
    """The mean of a b; over the last axis a dot product, which writes no array of products."""
    if axis == -1:
        return xp.linalg.vecdot(a, b)[..., None] / a.shape[-1]
    return mean_over(xp, a * b, axis)


def without_overflow(xp, measure, x):
    """What `measure` returns of x, last a mean square; and the scale of x in which that is.

    The scale is 1; in rows whose squares overflow a power of two, which changes no digit. What is
    traced, in `jit` or `vmap`, cannot go two ways: there, squares that overflow are nan.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        *measured, square = measure(x)
    fits = xp.isfinite(square)
    all_fit = known(xp.all(fits))
    if all_fit:
        return *measured, square, 1
    if all_fit is None:
        return *measured, xp.where(fits, square, math.nan), 1
    exponent = math.frexp(float(xp.finfo(x.dtype).max))[1]  # 128 in float32
    scale = xp.where(fits, xp.ones_like(square), 2.0 ** (-3 * exponent // 4))
    return *measure(x * scale), scale


def known(condition):
    """Whether a condition holds, or None while it is traced."""
    try:
        return bool(condition)
    except (TypeError, RuntimeError):  # JAX's and PyTorch's
        return None


def float_dtype(xp, x):
    """The dtype of the result: that of x, or the library's default float for integers."""
    if xp.isdtype(x.dtype, "complex floating"):
        raise TypeError(
            f"x must hold real numbers, and its dtype is {x.dtype}: a complex variance is not "
            f"defined here. Normalise the real and the imaginary part as two features."
        )
    return xp.zeros(()).dtype if xp.isdtype(x.dtype, ("bool", "integral")) else x.dtype


def widen(xp, x):
    """x in at least float32: sums of squares overflow early in float16, and bfloat16 has 8 bits."""
    return xp.astype(x, xp.result_type(float_dtype(xp, x), xp.float32), copy=False)


def as_dtype_of(xp, result, array):
    """The result in the dtype of the array that it belongs to."""
    return xp.astype(result, float_dtype(xp, array), copy=False)


def namespace(**arrays):
    """The library that all the arrays come from."""
    needed = {"x", "dy", "v", "g", "dw"}
    given = {n: array for n, array in arrays.items() if array is not None or n in needed}
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


def check_features(x, **parameters):
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


def check_channels(x, **parameters):
    if x.ndim < 2:
        raise ValueError(
            f"x must have at least two axes, examples and channels: (N, C, ...); its shape is "
            f"{tuple(x.shape)}. A single example becomes a batch of one with x[None]."
        )
    channels = (x.shape[1],)
    for name, array in parameters.items():
        if array is not None and tuple(array.shape) != channels:
            raise ValueError(
                f"{name} must have shape {channels}, one number per channel, and the channels are "
                f"axis 1 of x, of shape {tuple(x.shape)}; it has shape {tuple(array.shape)}. If "
                f"the channels of x come last, move them: np.moveaxis(x, -1, 1)."
            )


def check_gradient(dy, x):
    if dy.shape != x.shape:
        raise ValueError(
            f"dy must have the shape of x, {tuple(x.shape)}: one gradient for each output. "
            f"It has {tuple(dy.shape)}."
        )


def check_eps(eps):
    if not eps >= 0:
        raise ValueError(
            f"eps must not be negative, or the root may not exist; it is {eps}. It is added to "
            f"the variance to keep the division finite: 1e-5 is usual."
        )
