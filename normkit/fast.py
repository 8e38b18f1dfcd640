"""RMSNorm, layer normalisation and DyT at the speed of the memory, on a CPU: the extra `fast`.

Each function has the name, the arguments and the results of the ordinary one, and loops once over
the rows, in machine code that Numba makes at the first call. It takes NumPy arrays and PyTorch
tensors on the CPU, float32 or float64 (DyT: float32), contiguous, with parameters of the same
dtype; tensors have a gradient, once. Whatever else comes, where numba is missing, in
`torch.compile` and in `torch.func`, the ordinary function answers: but for rounding, a result does
not depend on what is installed.
"""

import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from normkit import alternatives, functions
from normkit._arrays import check_eps
from normkit.typing import A

_kernels: Any = None
with suppress(ImportError):  # no numba, or one that is too old for this NumPy
    _kernels = import_module("normkit._kernels")

# Above such a mean square the dtype no longer holds the scale: then the ordinary function answers.
LIMITS = {"float32": 2.0**220, "float64": 2.0**1000}
SINGLE, BOTH = ("float32",), tuple(LIMITS)


def rms_norm(x: A, gamma: A | None = None, eps: float | None = None) -> A:
    r"""RMSNorm over the last axis, in one pass over memory: `normkit.rms_norm`.

    $$ y = \gamma \odot x\, r, \quad r = 1 / \sqrt{\overline{x^2} + \varepsilon} $$

    x: (..., D). gamma: (D,), 1 if left out. eps: None for the machine epsilon of x.
    Returns y: the shape and dtype of x; the mean square is computed in float64.
    Raises what `normkit.rms_norm` raises.
    Source: Zhang & Sennrich (2019), Root Mean Square Layer Normalization, eq. 4 (without ε).

    See: systems-fast in book/systems.md; tests/normkit/test_fast.py.

    >>> rms_norm(np.array([1.0, 7.0, 5.0, 5.0]))
    array([0.2, 1.4, 1. , 1. ])
    """
    if not _suits(BOTH, x, gamma):
        return functions.rms_norm(x, gamma, eps)
    return _forward(_RMS_NORM, x, _eps(eps, x), _full(x, gamma, 1))


def rms_norm_backward(dy: A, x: A, gamma: A | None = None, eps: float | None = None) -> tuple[A, A]:
    r"""Gradients of `rms_norm` with respect to x and γ, one loop: `normkit.rms_norm_backward`.

    $$ dx = r \left(d\hat x - \hat x\, \overline{d\hat x \odot \hat x}\right),
    \quad d\hat x = \gamma \odot dy, \quad d\gamma = \sum dy \odot \hat x $$

    dy, x: (..., D); gamma: (D,), 1 if left out; eps: that of `rms_norm`.
    Returns dx like x, and dγ of shape (D,) in the dtype of x, summed in float64.
    Raises what `normkit.rms_norm_backward` raises.

    See: systems-fast in book/systems.md; tests/normkit/test_fast.py.

    >>> rms_norm_backward(np.array([5.0, 0, 0, 0]), np.array([1.0, 7, 5, 5]))[0]
    array([ 0.99, -0.07, -0.05, -0.05])
    """
    if not _suits(BOTH, x, gamma, dy=dy):
        return functions.rms_norm_backward(dy, x, gamma, eps)
    dx, dgamma = _backward(_RMS_NORM, dy, x, _eps(eps, x), _full(x, gamma, 1))
    return dx, dgamma


def layer_norm(x: A, gamma: A | None = None, beta: A | None = None, eps: float = 1e-5) -> A:
    r"""Layer normalisation over the last axis, in one pass over memory: `normkit.layer_norm`.

    $$ y = \gamma \odot \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} + \beta $$

    x: (..., D). gamma, beta: (D,), 1 and 0 if left out.
    Returns y: the shape and dtype of x; the statistics are computed in float64.
    Raises what `normkit.layer_norm` raises.
    Source: Ba, Kiros & Hinton (2016), Layer Normalization, eq. 4 (there without ε).

    See: systems-fast in book/systems.md; tests/normkit/test_fast.py.

    >>> layer_norm(np.array([1.0, 3.0, 5.0, 7.0])).round(4)
    array([-1.3416, -0.4472,  0.4472,  1.3416])
    """
    if not _suits(BOTH, x, gamma, beta):
        return functions.layer_norm(x, gamma, beta, eps)
    return _forward(_LAYER_NORM, x, _eps(eps, x), _full(x, gamma, 1), _full(x, beta, 0))


def layer_norm_backward(dy: A, x: A, gamma: A | None = None, eps: float = 1e-5) -> tuple[A, A, A]:
    r"""Gradients of `layer_norm` with respect to x, γ and β, in one loop.

    $$ dx = r \left(d\hat x - \overline{d\hat x} - \hat x\, \overline{d\hat x \odot \hat x}\right),
    \quad d\hat x = \gamma \odot dy, \quad d\gamma = \sum dy \odot \hat x, \quad d\beta = \sum dy $$

    dy, x: (..., D); gamma: (D,), 1 if left out.
    Returns dx like x, and dγ, dβ of shape (D,) in the dtype of x, summed in float64.
    Raises what `normkit.layer_norm_backward` raises.

    See: systems-fast in book/systems.md; tests/normkit/test_fast.py.

    >>> x, dy = np.array([0.0, 0.0, 3.0, 3.0]), np.array([1.0, 0.0, 0.0, 0.0])
    >>> layer_norm_backward(dy, x, eps=0)[0].round(4)
    array([ 0.3333, -0.3333,  0.    ,  0.    ])
    """
    if not _suits(BOTH, x, gamma, dy=dy):
        return functions.layer_norm_backward(dy, x, gamma, eps)
    dx, dgamma, dbeta = _backward(
        _LAYER_NORM, dy, x, _eps(eps, x), _full(x, gamma, 1), _full(x, None, 0)
    )
    return dx, dgamma, dbeta


def dyt(x: A, alpha: float | A = 0.5, gamma: A | None = None, beta: A | None = None) -> A:
    r"""Dynamic tanh in one pass over memory: `normkit.dyt`.

    $$ y = \gamma \odot \tanh(\alpha x) + \beta $$

    Its tanh is a quotient of two polynomials, wrong by at most 5 units in the last place.

    x: (..., D), float32; float64 is left to `normkit.dyt`. alpha: a single number.
    gamma, beta: (D,); 1 and 0 if left out.
    Returns y: the shape and dtype of x. Raises what `normkit.dyt` raises.
    Source: Zhu, Chen, He, LeCun & Liu (2025), Transformers without Normalization.

    See: systems-fast in book/systems.md; tests/normkit/test_fast.py.

    >>> dyt(np.array([-2.0, 0.0, 2.0], np.float32)).round(4)
    array([-0.7616,  0.    ,  0.7616], dtype=float32)
    """
    if not _suits(SINGLE, x, gamma, beta, alpha=alpha):
        return alternatives.dyt(x, alpha, gamma, beta)
    return _forward(_DYT, x, 0, _single(x, alpha), _full(x, gamma, 1), _full(x, beta, 0))


def dyt_backward(dy: A, x: A, alpha: float | A = 0.5, gamma: A | None = None) -> tuple[A, A, A, A]:
    r"""Gradients of `dyt` with respect to x, α, γ and β, in one loop: `normkit.dyt_backward`.

    $$ dx = \alpha\, u, \quad d\alpha = \sum u \odot x, \quad u = \gamma \odot dy \odot (1 - t^2) $$

    with t = tanh(α x), which is computed again instead of kept.

    dy, x: (..., D), float32; gamma: (D,), 1 if left out.
    Returns dx like x, dα like alpha, and dγ, dβ of shape (D,) in the dtype of x.
    Raises what `normkit.dyt_backward` raises.

    See: systems-fast in book/systems.md; tests/normkit/test_fast.py.

    >>> x = np.array([1.0, -1.0], np.float32)
    >>> dyt_backward(np.ones_like(x), x)[0].round(4)
    array([0.3932, 0.3932], dtype=float32)
    """
    if not _suits(SINGLE, x, gamma, dy=dy, alpha=alpha):
        return alternatives.dyt_backward(dy, x, alpha, gamma)
    dx, dalpha, dgamma, dbeta = _backward(
        _DYT, dy, x, 0, _single(x, alpha), _full(x, gamma, 1), _full(x, None, 0)
    )
    return dx, dalpha, dgamma, dbeta


# --- What suits -------------------------------------------------------------------------------


def _suits(
    dtypes: tuple[str, ...], x: Any, *parameters: Any, dy: Any = None, alpha: Any = 1.0
) -> bool:
    """Whether the kernels know these arrays; the ordinary functions know the rest, and complain."""
    if _kernels is None or not (type(x) is np.ndarray or _is_tensor(x)) or not x.ndim:
        return False
    others = [array for array in parameters if array is not None]
    given = others + ([] if dy is None else [dy])
    if not isinstance(alpha, int | float):
        given.append(alpha)
    return (
        str(x.dtype).removeprefix("torch.") in dtypes
        and x.shape[-1] > 0
        and all(_alike(array, x) for array in given)
        and all(map(_contiguous, (x, *others)))
        and all(tuple(array.shape) == (x.shape[-1],) for array in others)
        and (dy is None or (dy.shape == x.shape and not _recorded(dy, x, *others)))
        and (isinstance(alpha, int | float) or all(length == 1 for length in alpha.shape))
    )


def _is_tensor(x: Any) -> bool:
    """Whether x is an ordinary tensor of PyTorch, on the CPU and nowhere traced."""
    torch = sys.modules.get("torch")  # not imported: nothing is a tensor
    return (
        torch is not None
        and type(x) in (torch.Tensor, torch.nn.Parameter)
        and (x.device.type, x.layout) == ("cpu", torch.strided)
        and not torch.compiler.is_compiling()
        and not torch._C._are_functorch_transforms_active()
        and torch.autograd.forward_ad._current_level < 0
    )


def _alike(array: Any, x: Any) -> bool:
    """Whether the array is of the library of x, in the dtype of x."""
    known = type(array) is np.ndarray if type(x) is np.ndarray else _is_tensor(array)
    return known and array.dtype == x.dtype


def _contiguous(array: Any) -> bool:
    return array.flags.c_contiguous if type(array) is np.ndarray else array.is_contiguous()


def _recorded(*arrays: Any) -> bool:
    """Whether autograd differentiates what is computed of them: kernels hide it from autograd."""
    return any(
        type(array) is not np.ndarray
        and array.requires_grad
        and sys.modules["torch"].is_grad_enabled()
        for array in arrays
    )


def _eps(eps: float | None, x: Any) -> float:
    if eps is None:
        return float(np.finfo(str(x.dtype).removeprefix("torch.")).eps)
    check_eps(eps)
    return float(eps)


def _full(x: Any, parameter: Any, value: float) -> Any:
    """The parameter, or a constant in its place."""
    return _filled(x, x.shape[-1:], value) if parameter is None else parameter


def _single(x: Any, alpha: Any) -> Any:
    return _filled(x, (), alpha) if isinstance(alpha, int | float) else alpha


def _filled(x: Any, shape: tuple[int, ...], value: float) -> Any:
    return np.full(shape, value, x.dtype) if type(x) is np.ndarray else x.new_full(shape, value)


# --- Rows -------------------------------------------------------------------------------------


class _Norm(NamedTuple):
    """A norm on rows in NumPy.

    `forward` fills y and returns what `backward` needs, or None where the ordinary function must
    answer; `backward` fills dx and returns the gradients of the parameters in float64.
    """

    forward: Callable[..., Any]
    backward: Callable[..., Any]
    ordinary: Callable[..., Any]
    ordinary_backward: Callable[..., Any]


def _rms_forward(x, y, eps, gamma):
    r = np.empty(len(x), x.dtype)
    return None if _kernels.rms_norm(x, gamma, eps, LIMITS[x.dtype.name], y, r) else (r,)


def _rms_backward(dy, x, dx, kept, gamma):
    dgamma = np.zeros(gamma.shape)
    _kernels.rms_norm_backward(dy, x, gamma, *kept, dx, dgamma)
    return (dgamma,)


def _layer_forward(x, y, eps, gamma, beta):
    kept = np.empty((2, len(x)), x.dtype)
    beyond = _kernels.layer_norm(x, gamma, beta, eps, LIMITS[x.dtype.name], y, *kept)
    return None if beyond else kept


def _layer_backward(dy, x, dx, kept, gamma, beta):
    sums = np.zeros((2, *gamma.shape))
    _kernels.layer_norm_backward(dy, x, gamma, *kept, dx, *sums)
    return sums


def _dyt_forward(x, y, eps, alpha, gamma, beta):
    _kernels.dyt(x, alpha.reshape(-1)[0], gamma, beta, y)
    return ()


def _dyt_backward(dy, x, dx, kept, alpha, gamma, beta):
    sums = np.zeros((2, *gamma.shape))
    dalpha = _kernels.dyt_backward(dy, x, alpha.reshape(-1)[0], gamma, dx, *sums)
    return (np.array(dalpha), *sums)


_RMS_NORM = _Norm(_rms_forward, _rms_backward, functions.rms_norm, functions.rms_norm_backward)
_LAYER_NORM = _Norm(
    _layer_forward, _layer_backward, functions.layer_norm, functions.layer_norm_backward
)
_DYT = _Norm(_dyt_forward, _dyt_backward, alternatives.dyt, alternatives.dyt_backward)


def _rows(x: np.ndarray) -> np.ndarray:
    return x.reshape(-1, x.shape[-1])


def _gradients(norm: _Norm, dy: Any, x: Any, dx: Any, kept: Any, parameters: Any) -> list[Any]:
    """dx, now filled, and the gradients of the parameters, in their shapes and dtypes."""
    found = norm.backward(_rows(np.ascontiguousarray(dy)), _rows(x), _rows(dx), kept, *parameters)
    like = zip(found, parameters, strict=True)
    return [dx, *(total.astype(p.dtype).reshape(p.shape) for total, p in like)]


def _forward(norm: _Norm, x: Any, eps: float, *parameters: Any) -> Any:
    if type(x) is not np.ndarray:
        from normkit._autograd import Fast  # needs torch, which is there: x is a tensor

        return Fast.apply(norm, eps, x, *parameters)
    y = np.empty_like(x)
    if norm.forward(_rows(x), _rows(y), eps, *parameters) is None:
        return norm.ordinary(x, *parameters, eps)
    return y


def _backward(norm: _Norm, dy: Any, x: Any, eps: float, *parameters: Any) -> Any:
    """The gradients, after a forward pass for what it keeps; its y is written where dx will be."""
    if type(x) is not np.ndarray:
        found = _backward(
            norm,
            *(a.detach().numpy() for a in (dy, x)),
            eps,
            *(p.detach().numpy() for p in parameters),
        )
        return [sys.modules["torch"].from_numpy(np.asarray(array)) for array in found]
    dx = np.empty_like(x)
    kept = norm.forward(_rows(x), _rows(dx), eps, *parameters)
    if kept is None:
        return norm.ordinary_backward(dy, x, parameters[0], eps)
    return _gradients(norm, dy, x, dx, kept, parameters)
