"""Conditional norms: scale and shift are computed from a condition, such as a class or a time.

The norm itself has no γ and β. What all conditional norms share is `modulate`, on features or
channels, and its gradient.
"""

from typing import Any

from normkit._arrays import as_dtype_of, check_eps, check_gradient, namespace, widen
from normkit.channels import _check_positions, batch_norm, instance_norm
from normkit.functions import _deviations, layer_norm, layer_norm_backward
from normkit.typing import A

# --- Scale and shift --------------------------------------------------------------------------


def modulate(x: A, scale: A, shift: A, axis: int = -1) -> A:
    r"""Scale and shift what has been normalised.

    $$ y = (1 + \gamma) \odot x + \beta $$

    The scale counts from 1: where a network returns 0 for γ and β, x stays as it is.

    x: (N, ..., D). axis: where its features are, -1 for tokens, 1 for channels (N, C, ...).
    scale, shift: γ and β. (D,), for all alike; (N, D), one row per example, for all its positions;
    or as many axes as x, each of its length or 1.
    Returns y: the shape and dtype of x, computed in at least float32.
    Raises TypeError for lists or mixed libraries, ValueError for a wrong shape.
    Source: Peebles & Xie (2023), Scalable Diffusion Models with Transformers, section 3.2.

    See: conditional-modulate in book/conditional.md; tests/normkit/test_conditional.py.

    >>> import numpy as np
    >>> x, scale = np.ones((2, 3, 2)), np.array([[0.0, 1.0], [2.0, -1.0]])
    >>> modulate(x, scale, 0 * scale)[:, 0]
    array([[1., 2.],
           [3., 0.]])
    """
    xp = namespace(x=x, scale=scale, shift=shift)
    gamma = _lined_up(xp, "scale", scale, x, axis)
    beta = _lined_up(xp, "shift", shift, x, axis)
    return as_dtype_of(xp, (1 + gamma) * widen(xp, x) + beta, x)


def modulate_backward(dy: A, x: A, scale: A, axis: int = -1) -> tuple[A, A, A]:
    r"""Gradients of a loss with respect to x, γ and β, from its gradient dy at the output.

    $$ dx = (1 + \gamma) \odot dy, \quad d\gamma = \sum dy \odot x, \quad d\beta = \sum dy $$

    The sums run over the positions, and the examples, that share a number.

    dy, x: (N, ..., D); scale, axis: those of `modulate`, where shift has the shape of scale.
    Returns dx like x, and dγ and dβ like scale.
    Raises TypeError and ValueError as `modulate` does.

    See: conditional-backward in book/conditional.md; tests/normkit/test_conditional.py.

    >>> import numpy as np
    >>> x = np.array([[[1.0, 2.0], [3.0, 4.0]]])
    >>> dx, dscale, dshift = modulate_backward(np.ones_like(x), x, np.array([[1.0, 0.0]]))
    >>> dx[0, 0], dscale, dshift
    (array([2., 1.]), array([[4., 6.]]), array([[2., 2.]]))
    """
    xp = namespace(dy=dy, x=x, scale=scale)
    check_gradient(dy, x)
    gamma = _lined_up(xp, "scale", scale, x, axis)
    dy = widen(xp, dy)
    shared = tuple(i for i in range(x.ndim) if gamma.shape[i] == 1)
    dgamma, dbeta = xp.sum(dy * widen(xp, x), axis=shared), xp.sum(dy, axis=shared)
    dx = as_dtype_of(xp, (1 + gamma) * dy, x)
    return dx, *(as_dtype_of(xp, xp.reshape(d, scale.shape), scale) for d in (dgamma, dbeta))


def _lined_up(xp: Any, name: str, parameter: A, x: A, axis: int) -> Any:
    """A scale or shift, in at least float32, with as many axes as x.

    Broadcasting alone would line (N, D) up with the last axes of (N, T, D), tokens and features,
    and where T = N that is no error.
    """
    if not hasattr(parameter, "shape"):
        raise TypeError(f"{name} must be an array; it is {parameter!r}. Zeros leave x as it is.")
    if axis not in (-1, 1) or x.ndim <= max(axis, 0):
        raise ValueError(
            f"axis must be -1, where the features of x are last, or 1, where its channels are; it "
            f"is {axis}, and x has shape {tuple(x.shape)}."
        )
    full, given, axis = tuple(x.shape), tuple(parameter.shape), axis % x.ndim
    of_all, of_example = (full[axis],), (full[0], full[axis])
    kept = {of_all: (axis,), of_example: (0, axis)}.get(given)
    if kept is not None and len(given) != x.ndim:
        given = tuple(length if i in kept else 1 for i, length in enumerate(full))
    if len(given) != x.ndim or any(n not in (1, m) for n, m in zip(given, full, strict=True)):
        raise ValueError(
            f"{name} must have shape {of_all}, one number per feature, or {of_example}, one row "
            f"per example, or that of x, {full}, with 1 for the axes that share a number; its "
            f"shape is {tuple(parameter.shape)}."
        )
    return widen(xp, xp.reshape(parameter, given))


# --- LayerNorm --------------------------------------------------------------------------------


def adaptive_layer_norm(x: A, scale: A, shift: A, eps: float = 1e-6) -> A:
    r"""Adaptive layer normalisation (AdaLN): scale and shift come from a condition.

    $$ y = (1 + \gamma) \odot \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} + \beta $$

    x: (N, ..., D), any floating dtype. scale, shift: (N, D), (D,), or the axes of x.
    eps: 1e-6 in DiT, where torch's LayerNorm has 1e-5.
    Returns y: the shape and dtype of x, computed in at least float32.
    Raises TypeError for lists or mixed libraries, ValueError for a wrong shape or eps.
    Source: Peebles & Xie (2023), Scalable Diffusion Models with Transformers, section 3.2.

    See: conditional-adaln in book/conditional.md; tests/normkit/test_conditional.py.

    >>> import numpy as np
    >>> x, scale, shift = np.array([[0.0, 2, 4], [1.0, 0, -0.5], [0.0, 1, 0]])
    >>> adaptive_layer_norm(x, scale, shift).round(4)
    array([-2.4495,  1.    ,  0.6124])
    """
    xp = namespace(x=x, scale=scale, shift=shift)
    xhat = layer_norm(widen(xp, x), eps=eps)
    return as_dtype_of(xp, modulate(xhat, scale, shift), x)


def adaptive_layer_norm_backward(dy: A, x: A, scale: A, eps: float = 1e-6) -> tuple[A, A, A]:
    r"""Gradients of a loss with respect to x, scale and shift, from its gradient dy at the output.

    $$ dx = r \left(d\hat x - \overline{d\hat x} - \hat x\, \overline{d\hat x \odot \hat x}\right),
    \quad d\hat x = (1 + \gamma) \odot dy $$

    $$ d\gamma = \sum dy \odot \hat x, \quad d\beta = \sum dy $$

    The sums run over the tokens that share a number, those of one example.

    dy, x: (N, ..., D); scale: as in `adaptive_layer_norm`.
    Returns dx like x, and dγ and dβ like scale.
    Raises TypeError for lists or mixed libraries, ValueError for a wrong shape or eps.

    See: conditional-backward in book/conditional.md; tests/normkit/test_conditional.py.

    >>> import numpy as np
    >>> x, scale, dy = np.array([[0.0, 2, 4], [1.0, 0, -0.5], [0.0, 0, 0.5]])
    >>> dx, dscale, dshift = adaptive_layer_norm_backward(dy, x, scale)
    >>> dx.round(4), dscale.round(4), dshift
    (array([ 0.0255, -0.051 ,  0.0255]), array([0.    , 0.    , 0.6124]), array([0. , 0. , 0.5]))
    """
    xp = namespace(dy=dy, x=x, scale=scale)
    check_gradient(dy, x)
    wide = widen(xp, x)
    dxhat, dgamma, dbeta = modulate_backward(widen(xp, dy), layer_norm(wide, eps=eps), scale)
    return as_dtype_of(xp, layer_norm_backward(dxhat, wide, eps=eps)[0], x), dgamma, dbeta


# --- BatchNorm and InstanceNorm ---------------------------------------------------------------


def conditional_batch_norm(
    x: A,
    scale: A,
    shift: A,
    running_mean: A | None = None,
    running_var: A | None = None,
    *,
    training: bool,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> tuple[A, A, A]:
    r"""Conditional batch normalisation: (y, running_mean, running_var).

    $$ y = (1 + \gamma) \odot \operatorname{BN}(x) + \beta $$

    Scale and shift are those of an example, the statistics those of the whole batch, whatever
    the conditions in it.

    x: (N, C, ...). scale, shift: (N, C), (C,), or the axes of x, as for SPADE.
    The rest, and the errors, are those of `batch_norm` and `modulate`.
    Source: de Vries et al. (2017), Modulating early visual processing by language; with 1 + γ as
    in Brock, Donahue & Simonyan (2019), BigGAN.

    See: conditional-bn in book/conditional.md; tests/normkit/test_conditional.py.

    >>> import numpy as np
    >>> x, scale, shift = np.array([[[1.0], [3], [5], [7]], [[0.0], [0], [1], [1]],
    ...                             [[0.0], [0], [2], [2]]])
    >>> conditional_batch_norm(x, scale, shift, training=True)[0][:, 0].round(4)
    array([-1.3416, -0.4472,  2.8944,  4.6833])
    """
    xp = namespace(x=x, scale=scale, shift=shift)
    y, running_mean, running_var = batch_norm(
        widen(xp, x), None, None, running_mean, running_var,
        training=training, momentum=momentum, eps=eps,
    )  # fmt: skip
    return as_dtype_of(xp, modulate(y, scale, shift, axis=1), x), running_mean, running_var


def adaptive_instance_norm(x: A, style: A, eps: float = 1e-5) -> A:
    r"""Adaptive instance normalisation (AdaIN): x with the statistics of a style.

    $$ y = \sigma_s\, \frac{x - \mu_x}{\sigma_x} + \mu_s $$

    Means and deviations (biased) are those of one channel of one example, over its positions;
    ε stands in both roots, so that AdaIN(x, x) = x. The authors' code has it in that of x alone.

    x, style: (N, C, ...), each with at least two positions, which may differ in number.
    Returns y: the shape and dtype of x, computed in at least float32.
    Raises TypeError for lists or mixed libraries, ValueError for a wrong shape or eps.
    Source: Huang & Belongie (2017), Arbitrary Style Transfer in Real-time with Adaptive Instance
    Normalization.

    See: conditional-adain in book/conditional.md; tests/normkit/test_conditional.py.

    >>> import numpy as np
    >>> x, style = np.array([[[1.0, 3, 5, 7]]]), np.array([[[10.0, 10, 20, 20]]])
    >>> adaptive_instance_norm(x, style).round(4)
    array([[[ 8.2918, 12.7639, 17.2361, 21.7082]]])
    """
    xp = namespace(x=x, style=style)
    for array in (x, style):
        _check_positions(array)
    if style.shape[:2] != x.shape[:2]:
        raise ValueError(
            f"x and style must have the same examples and channels, their first two axes; their "
            f"shapes are {tuple(x.shape)} and {tuple(style.shape)}."
        )
    check_eps(eps)
    positions, wide = tuple(range(2, style.ndim)), widen(xp, style)
    _, var, rescaled = _deviations(xp, wide, positions)
    deviation = xp.sqrt(var + eps * rescaled**2) / rescaled
    of_style = deviation, xp.mean(wide, axis=positions)
    deviation, mean = (xp.reshape(v, x.shape[:2] + (1,) * (x.ndim - 2)) for v in of_style)
    return as_dtype_of(xp, deviation * instance_norm(widen(xp, x), eps=eps) + mean, x)
