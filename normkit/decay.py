r"""Weights whose norm does not change the output: where weight decay leaves them, how they turn.

A weight is free if L(cw) = L(w) for every c > 0, as before a normalisation. Its gradient is then
orthogonal to it and shrinks as 1/‖w‖, and what counts in a step is the angle by which w turns.
"""

import math
from typing import Any, NamedTuple, cast

from normkit._arrays import as_dtype_of, known, namespace, widen
from normkit.functions import rms_norm
from normkit.typing import A

# Of Muon: five steps bring singular values from 0.002 to 1 into the band from 0.68 to 1.21.
COEFFICIENTS = (3.4445, -4.7750, 2.0315)


# --- The equilibrium --------------------------------------------------------------------------


class Equilibrium(NamedTuple):
    """Where a free weight settles: its norm, its angle per step, and the steps that it takes.

    norm: ‖w‖. angle: in radians. steps: in which decay alone divides the norm by e.
    """

    norm: float
    angle: float
    steps: float


def sgd_equilibrium(lr: float, decay: float, slope: float, momentum: float = 0.0) -> Equilibrium:
    r"""The equilibrium of a free weight under SGD with L2 decay, as in `torch.optim.SGD`.

    $$ \lVert w \rVert^4 = \frac{\eta\, s^2}{(1 - \alpha)(2\lambda - \eta\lambda^2)}, \quad
    \text{angle} = \sqrt{\frac{2\eta\lambda}{1 + \alpha}}, \quad
    \text{steps} = \frac{1 - \alpha}{\eta\lambda} $$

    lr: η. decay: λ. momentum: α. slope: s, the root mean square of ‖w‖‖g‖ over the steps, that is,
    of the norm of the gradient of the loss alone if w had norm 1.
    The angle follows from a constant norm alone. The norm is exact for α = 0; otherwise it
    supposes gradients that are uncorrelated from step to step.
    Raises ValueError for a momentum outside of [0, 1), other numbers that are not positive, or
    lr times decay of 1 or more.
    Source: Kosson, Messmer & Jaggi (2024), Rotational Equilibrium; derived on the page.

    See: decay-equilibrium in book/decay.md; tests/normkit/test_decay.py.

    >>> norm, angle, steps = sgd_equilibrium(lr=0.02, decay=0.01, slope=4)
    >>> round(norm, 4), round(angle, 4), round(steps)
    (2.0001, 0.02, 5000)
    """
    _check(lr, decay, momentum=momentum, slope=slope)
    fourth = lr * slope**2 / ((1 - momentum) * (2 * decay - lr * decay**2))
    angle = math.sqrt(2 * lr * decay / (1 + momentum))
    return Equilibrium(fourth**0.25, angle, (1 - momentum) / (lr * decay))


def adamw_equilibrium(lr: float, decay: float, size: int = 1, beta1: float = 0.9) -> Equilibrium:
    r"""The equilibrium of a free weight under AdamW, if its gradients are like noise.

    $$ \lVert w \rVert = \sqrt{\frac{\eta\, C}{2\lambda}}, \quad
    \text{angle} = \sqrt{2\eta\lambda\, \frac{1 - \beta_1}{1 + \beta_1}}, \quad
    \text{steps} = \frac{1}{\eta\lambda} $$

    lr: η. decay: λ, multiplied by lr in each step, as in `torch.optim.AdamW`. size: C, how many
    numbers share the free norm, those of a row before batch normalisation; 1 for the root mean
    square of w. beta1: of the first moment.
    Raises ValueError as `sgd_equilibrium`, and for a size below 1.
    Source: the same, with its code, epfml/REQ `shared/optimizers/rotational_wrapper.py`.

    See: decay-adamw in book/decay.md; tests/normkit/test_decay.py.

    >>> norm, angle, steps = adamw_equilibrium(lr=3e-4, decay=0.1)
    >>> round(norm, 4), round(angle, 4), round(steps)
    (0.0387, 0.0018, 33333)
    """
    _check(lr, decay, beta1=beta1, size=size)
    angle = math.sqrt(2 * lr * decay * (1 - beta1) / (1 + beta1))
    return Equilibrium(math.sqrt(lr * size / (2 * decay)), angle, 1 / (lr * decay))


# --- Directions -------------------------------------------------------------------------------


def unit(x: A) -> A:
    r"""Vectors of Euclidean norm 1 along the last axis, `justnorm` of nGPT.

    $$ \frac{x}{\lVert x \rVert} = \frac{1}{\sqrt{D}} \operatorname{RMSNorm}(x), \quad
    \varepsilon = 0 $$

    x: (..., D), without a vector of zeros. Returns the shape and dtype of x.
    Raises TypeError for a list, ValueError for a single number or a vector of norm 0.
    Source: Loshchilov et al. (2025), nGPT; NVIDIA/ngpt `model.py`.

    See: decay-ngpt in book/decay.md; tests/normkit/test_decay.py.

    >>> import numpy as np
    >>> unit(np.array([3.0, 4.0]))
    array([0.6, 0.8])
    """
    xp = namespace(x=x)
    if x.ndim and known(xp.all(xp.max(xp.abs(widen(xp, x)), axis=-1) != 0)) is False:
        raise ValueError(
            "Every vector of x must have a norm above 0: zeros have no direction. Where they are "
            "to stay zeros, use rms_norm, whose eps keeps the division finite."
        )
    wide = rms_norm(widen(xp, x), eps=0.0)
    return as_dtype_of(xp, wide / math.sqrt(x.shape[-1]), x)


def turn(before: A, after: A) -> A:
    r"""The angle between two weights, in radians, small angles included.

    $$ 2 \arcsin \frac{1}{2} \left\lVert \frac{w'}{\lVert w' \rVert} -
    \frac{w}{\lVert w \rVert} \right\rVert $$

    In float32 the arccosine of the scalar product is 0, or noise, for angles below 0.0003.

    before, after: w and w', (..., D), the same shape; a matrix as a whole is flattened first.
    Returns (...), in the dtype of before. Raises as `unit`, and ValueError for different shapes.

    See: decay-rate in book/decay.md; tests/normkit/test_decay.py.

    >>> import numpy as np
    >>> turn(np.array([1.0, 0.0]), np.array([0.0, 5.0])).round(4)
    np.float64(1.5708)
    """
    xp = namespace(before=before, after=after)
    if tuple(before.shape) != tuple(after.shape):
        raise ValueError(
            f"Both weights must have the same shape; they have {tuple(before.shape)} and "
            f"{tuple(after.shape)}."
        )
    apart = unit(widen(xp, after)) - unit(widen(xp, before))
    half = xp.sqrt(xp.sum(apart * apart, axis=-1)) / 2
    return as_dtype_of(xp, 2 * xp.asin(xp.clip(half, None, 1.0)), before)


def spherical_step(h: A, block: A, alpha: float | A) -> A:
    r"""The residual update of nGPT: from h towards the output of a block, on the unit sphere.

    $$ h \leftarrow u\bigl(h + \alpha\,(u(F) - h)\bigr), \quad u(x) = \frac{x}{\lVert x \rVert} $$

    h: (..., D), made unit first. block: F, the output of attention or of the feed-forward part,
    the same shape. alpha: the learnt step, a number or (D,); its absolute value is used.
    Returns unit vectors like h. Raises as `unit`, and ValueError for different shapes.
    Source: Loshchilov et al. (2025), nGPT; NVIDIA/ngpt `model.py`.

    See: decay-ngpt in book/decay.md; tests/normkit/test_decay.py.

    >>> import numpy as np
    >>> spherical_step(np.array([1.0, 0.0]), np.array([0.0, 1.0]), 0.05).round(4)
    array([0.9986, 0.0526])
    """
    xp = namespace(h=h, block=block)
    if tuple(h.shape) != tuple(block.shape):
        raise ValueError(
            f"block must have the shape of h, {tuple(h.shape)}, because the two are mixed; it has "
            f"{tuple(block.shape)}."
        )
    start, end = unit(widen(xp, h)), unit(widen(xp, block))
    return as_dtype_of(xp, unit(start + abs(cast(Any, alpha)) * (end - start)), h)


def orthogonalise(x: A, steps: int = 5) -> A:
    r"""Muon's update: almost the nearest matrix with orthogonal rows, or columns if it is tall.

    $$ X \leftarrow aX + bX X^\top X + c\,(X X^\top)^2 X, \quad X_0 = x / \lVert x \rVert_F $$

    Each singular value s becomes as + bs³ + cs⁵, five times; the singular vectors stay. The
    results lie between 0.68 and 1.21, except for values that start below 0.002.

    x: (A, B), a gradient or a momentum. steps: of the Newton–Schulz iteration.
    Returns the shape and dtype of x, computed in at least float32 (Muon computes in bfloat16).
    Raises TypeError for a list, ValueError for another shape or a matrix of zeros.
    Source: Jordan et al. (2024), Muon; KellerJordan/Muon `muon.py`.

    See: decay-muon in book/decay.md; tests/normkit/test_decay.py.

    >>> import numpy as np
    >>> orthogonalise(np.diag([3.0, 4.0])).round(2)
    array([[0.72, 0.  ],
           [0.  , 1.12]])
    """
    xp = namespace(x=x)
    if x.ndim != 2:
        raise ValueError(
            f"x must be a matrix, (A, B); its shape is {tuple(x.shape)}. Flatten the kernel of a "
            f"convolution to (outputs, rest); vectors such as γ stay with another optimiser."
        )
    a, b, c = COEFFICIENTS
    rows, columns = x.shape
    wide = xp.reshape(unit(xp.reshape(widen(xp, x), (-1,))), (rows, columns))
    wide = wide.T if rows > columns else wide  # the smaller of the two products
    for _ in range(steps):
        gram = wide @ wide.T
        wide = a * wide + (b * gram + c * gram @ gram) @ wide
    return as_dtype_of(xp, wide.T if rows > columns else wide, x)


# --- Checks -----------------------------------------------------------------------------------


def _check(lr: float, decay: float, **others: float) -> None:
    for name, share in others.items():
        if name in ("momentum", "beta1") and not 0 <= share < 1:
            raise ValueError(f"{name} must be at least 0 and below 1; it is {share}.")
    for name, number in {"lr": lr, "decay": decay, **others}.items():
        if name not in ("momentum", "beta1") and not number > 0:
            raise ValueError(
                f"{name} must be positive; it is {number}. Without decay or steps there is no "
                f"equilibrium: the norm only grows."
            )
    if lr * decay >= 1:
        raise ValueError(
            f"lr times decay must be below 1, or one step takes away the whole weight; it is "
            f"{lr * decay}."
        )
