"""Large values, and what is done about them: 8-bit integers, attention logits, output logits.

A quantised tensor shares its step with its largest value; a softmax gives its weight to the
largest logit. What is here moves, bounds or penalises that largest value.
"""

from typing import Any

from normkit._arrays import as_dtype_of, known, namespace, widen
from normkit.typing import A

LEVELS = 127  # of each sign in int8: -128 is left out, so that x and -x have the same size


# --- 8 bits -----------------------------------------------------------------------------------


def quantise(x: A, axis: int | None = None) -> tuple[A, A]:
    r"""The nearest 8-bit integers q and their step s: symmetric quantisation by the maximum.

    $$ q = \operatorname{round}\left(\frac{x}{s}\right), \quad
    s = \frac{\max \lvert x \rvert}{127}, \quad x \approx s\, q $$

    x: any shape. axis: what the maximum runs over, -1 for a step per row; None for one step.
    Returns q like x in int8, and s with length 1 along the axis, in at least float32; s is 1
    where all of x is 0. No value moves by more than s/2. Halves go to the even integer.
    Raises TypeError for a list, ValueError for values that are not finite.
    Source: Dettmers, Lewis, Belkada & Zettlemoyer (2022), LLM.int8().

    See: outliers-int8 in book/outliers.md; tests/normkit/test_outliers.py.

    >>> import numpy as np
    >>> q, step = quantise(np.array([0.6, -1.0, 2.0, 127.0]))
    >>> q, step
    (array([  1,  -1,   2, 127], dtype=int8), array([1.]))
    >>> quantise(np.array([0.6, -1.0, 2.0, 1270.0]))[0]
    array([  0,   0,   0, 127], dtype=int8)
    """
    xp = namespace(x=x)
    largest = xp.max(xp.abs(widen(xp, x)), axis=axis, keepdims=True)
    if known(xp.all(xp.isfinite(largest))) is False:
        raise ValueError(
            "x must be finite to be quantised: one inf or nan would take the step of all the "
            "values that share it. Find where it arises first."
        )
    step = xp.where(largest > 0, largest / LEVELS, xp.ones_like(largest))
    return xp.astype(xp.round(widen(xp, x) / step), xp.int8), step


def migrate_scale(gamma: A, beta: A | None, weight: A, scale: A) -> tuple[A, A | None, A]:
    r"""A scale per feature, moved from a norm's γ and β into the weights that follow.

    $$ \gamma' = \frac{\gamma}{s}, \quad \beta' = \frac{\beta}{s}, \quad
    W' = W \operatorname{diag}(s), \qquad W'(\gamma' \odot \hat x + \beta') =
    W(\gamma \odot \hat x + \beta) $$

    What lies between the two is divided by s. s = γ moves all of γ, as `fold_affine` does.

    gamma, beta, scale: (D,), the scale positive; beta None for a norm without shift.
    weight: (outputs, D), as in a Linear; its bias stays. If the norm feeds several, migrate the
    same scale into each.
    Returns γ', β' and W' in the dtypes of γ, β and W. Raises TypeError for lists or mixed
    libraries, ValueError for a wrong shape or a scale that is not positive.
    Source: Xiao, Lin, Seznec, Wu, Demouth & Han (2023), SmoothQuant.

    See: outliers-migrate in book/outliers.md; tests/normkit/test_outliers.py.

    >>> import numpy as np
    >>> one = np.ones(2)
    >>> migrate_scale(np.array([1.0, 50.0]), one, np.array([[3.0, 0.5]]), np.array([1.0, 10.0]))
    (array([1., 5.]), array([1. , 0.1]), array([[3., 5.]]))
    """
    xp = namespace(gamma=gamma, beta=beta, weight=weight, scale=scale)
    features = tuple(scale.shape)
    for name, array in (("gamma", gamma), ("beta", beta), ("weight", weight)):
        if array is not None and (len(features) != 1 or tuple(array.shape[-1:]) != features):
            raise ValueError(
                f"scale must hold one number per feature, (D,), and gamma, beta and the last axis "
                f"of weight the same D; scale has shape {features}, {name} {tuple(array.shape)}."
            )
    s = widen(xp, scale)
    if known(xp.all(s > 0)) is False:
        raise ValueError(
            "scale must be positive: the norm is divided by it, and the weights multiplied. Bound "
            "it from below, as by maximum(scale, 1e-5)."
        )
    shift = None if beta is None else as_dtype_of(xp, widen(xp, beta) / s, beta)
    return (
        as_dtype_of(xp, widen(xp, gamma) / s, gamma),
        shift,
        as_dtype_of(xp, widen(xp, weight) * s, weight),
    )


# --- Attention logits -------------------------------------------------------------------------


def soft_cap(logits: A, cap: float = 50.0) -> A:
    r"""Soft-capping: logits squashed to less than the cap, smoothly, in the same order.

    $$ c \tanh\left(\frac{z}{c}\right) $$

    The mask comes after it: a logit of -inf becomes -c, which the softmax sees.

    logits: any shape. cap: c, positive; 50 in the attention of Gemma 2, 30 at its output.
    Returns the shape and dtype of logits, computed in at least float32.
    Raises TypeError for a list, ValueError for a cap that is not positive.
    Source: Gemma Team (2024), Gemma 2; google/gemma_pytorch `gemma/model.py`.

    See: outliers-cap in book/outliers.md; tests/normkit/test_outliers.py.

    >>> import numpy as np
    >>> soft_cap(np.array([-10.0, 10.0, 100.0]), 50.0).round(2)
    array([-9.87,  9.87, 48.2 ])
    """
    xp = namespace(logits=logits)
    return as_dtype_of(xp, cap * _squashed(xp, logits, cap), logits)


def soft_cap_backward(dy: A, logits: A, cap: float = 50.0) -> A:
    r"""The gradient of a loss with respect to the logits, from its gradient dy after the cap.

    $$ dz = dy \odot \left(1 - \tanh^2 \frac{z}{c}\right) $$

    dy, logits: the same shape. Returns dz like logits. Raises as `soft_cap`, and ValueError for
    different shapes.

    See: outliers-cap in book/outliers.md; tests/normkit/test_outliers.py.

    >>> import numpy as np
    >>> soft_cap_backward(np.ones(4), np.array([10.0, 50.0, 100.0, 500.0])).round(3)
    array([0.961, 0.42 , 0.071, 0.   ])
    """
    xp = namespace(dy=dy, logits=logits)
    _check_gradient(dy, tuple(logits.shape), "logits")
    t = _squashed(xp, logits, cap)
    return as_dtype_of(xp, widen(xp, dy) * (1 - t * t), logits)


def _squashed(xp: Any, logits: Any, cap: float) -> Any:
    """tanh(z/c)."""
    _check_positive("cap", cap, "To have no cap, leave the function out; 0 would make all equal")
    return xp.tanh(widen(xp, logits) / cap)


def qk_clip(w_q: A, w_k: A, largest: A, threshold: float = 100.0) -> tuple[A, A]:
    r"""QK-Clip: the weights of queries and keys, shrunk in the heads whose logits are too large.

    $$ W^h \leftarrow \sqrt{\min\left(1, \frac{\tau}{S^h}\right)}\, W^h $$

    for the queries and the keys of head h, where S is above 0; other heads keep their weights. The
    next logits of the head are τ/S times as large, hence at most τ if the input stays.

    w_q, w_k: (H d, D), the rows of a head side by side; or biases (H d,), which shrink alike.
    largest: (H,), S, the largest logit of each head in the last forward pass, unmasked positions
    only. threshold: τ, positive. Called after each step of the optimiser.
    Returns new w_q and w_k. Raises TypeError for lists or mixed libraries, ValueError for a wrong
    shape, logits that are not finite or a threshold that is not positive.
    Source: Kimi Team (2025), Kimi K2, section 2.1 and algorithm 1.

    See: outliers-clip in book/outliers.md; tests/normkit/test_outliers.py.

    >>> import numpy as np
    >>> qk_clip(np.ones((2, 1)), np.ones((2, 1)), np.array([250.0, 80.0]))[0].round(3)
    array([[0.632],
           [1.   ]])
    """
    xp = namespace(w_q=w_q, w_k=w_k, largest=largest)
    _check_positive("threshold", threshold, "100 was published for a large model")
    rows, heads = w_q.shape[0], tuple(largest.shape)
    if len(heads) != 1 or tuple(w_k.shape) != tuple(w_q.shape) or rows % heads[0]:
        raise ValueError(
            f"w_q and w_k must have the same shape, (H d, D), and largest one number per head, "
            f"(H,); their shapes are {tuple(w_q.shape)}, {tuple(w_k.shape)} and {heads}."
        )
    largest = widen(xp, largest)
    if known(xp.all(xp.isfinite(largest))) is False:
        raise ValueError(
            "largest must be finite: an inf would set the weights of its head to 0, a nan to nan. "
            "A step with such logits should be skipped."
        )
    # The larger of S and τ below the bar leaves the other heads alone, negative S too.
    factor = xp.sqrt(threshold / xp.clip(largest, threshold, None))

    def shrunk(weight: Any) -> Any:
        by_head = xp.reshape(widen(xp, weight), (heads[0], -1)) * factor[:, None]
        return as_dtype_of(xp, xp.reshape(by_head, weight.shape), weight)

    return shrunk(w_q), shrunk(w_k)


# --- Output logits ----------------------------------------------------------------------------


def z_loss(logits: A, coefficient: float = 1e-4) -> A:
    r"""The z-loss of each token: what is added to the cross-entropy to keep log Z near 0.

    $$ c\, (\log Z)^2, \quad Z = \sum_j e^{z_j} $$

    logits: (..., classes), those that enter the softmax: of log-probabilities, log Z is 0.
    coefficient: c. Returns one number per token, (...), in the dtype of logits.
    Raises TypeError for a list, ValueError for a single number.
    Source: Chowdhery et al. (2022), PaLM, section 5; google-research/t5x `t5x/losses.py`.

    See: outliers-z-loss in book/outliers.md; tests/normkit/test_outliers.py.

    >>> import numpy as np
    >>> z_loss(np.array([2.0, 2.0]), 0.1).round(4)
    np.float64(0.7253)
    """
    xp = namespace(logits=logits)
    log_z, _ = _log_normaliser(xp, logits)
    return as_dtype_of(xp, coefficient * (log_z * log_z)[..., 0], logits)


def z_loss_backward(dy: A, logits: A, coefficient: float = 1e-4) -> A:
    r"""The gradient of a loss with respect to the logits, from its gradient dy at the z-loss.

    $$ dz = dy \cdot 2c \log Z \cdot p, \quad p = \operatorname{softmax}(z) $$

    dy: (...), one number per token; logits: (..., classes). Returns dz like logits. Raises as
    `z_loss`, and ValueError for a dy of another shape.

    See: outliers-z-loss in book/outliers.md; tests/normkit/test_outliers.py.

    >>> import numpy as np
    >>> z_loss_backward(np.array(1.0), np.array([2.0, 2.0]), 0.1).round(4)
    array([0.2693, 0.2693])
    """
    xp = namespace(dy=dy, logits=logits)
    log_z, p = _log_normaliser(xp, logits)
    _check_gradient(dy, tuple(logits.shape[:-1]), "logits without the classes")
    return as_dtype_of(xp, widen(xp, dy)[..., None] * (2 * coefficient) * log_z * p, logits)


def _log_normaliser(xp: Any, logits: Any) -> tuple[Any, Any]:
    """log Z and the probabilities, with the classes' axis kept."""
    if logits.ndim == 0:
        raise ValueError("logits must have at least one axis, the classes; it is a single number.")
    z = widen(xp, logits)
    largest = xp.max(z, axis=-1, keepdims=True)
    p = xp.exp(z - largest)
    total = xp.sum(p, axis=-1, keepdims=True)
    return largest + xp.log(total), p / total


# --- Checks -----------------------------------------------------------------------------------


def _check_positive(name: str, number: float, advice: str) -> None:
    if not number > 0:
        raise ValueError(f"{name} must be positive; it is {number}. {advice}.")


def _check_gradient(dy: Any, shape: tuple[int, ...], of: str) -> None:
    if tuple(dy.shape) != shape:
        raise ValueError(
            f"dy must have the shape of {of}, {shape}: one gradient for each output. It has "
            f"{tuple(dy.shape)}."
        )
