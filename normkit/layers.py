"""Normalisations as PyTorch layers, with the names, defaults and state of `torch.nn`.

Where PyTorch has one fused kernel for the CPU, the layer calls it. Where it has none, for RMSNorm,
DyT and Derf, the gradient derived by hand saves most of the passes over memory that automatic
differentiation makes.
"""

import math
from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Any, TypeVar

from normkit._arrays import check_eps
from normkit._extras import missing

try:
    import torch
    from torch import Tensor, nn
    from torch.autograd.function import once_differentiable
    from torch.nn import functional
except ModuleNotFoundError as error:
    raise missing(error) from error

_Eps = TypeVar("_Eps", float, float | None)


class _Affine(nn.Module):
    """γ and β, as `weight` and `bias`; what is not wanted is None."""

    weight: nn.Parameter | None
    bias: nn.Parameter | None

    def __init__(
        self,
        shape: int | tuple[int, ...],
        weight: bool,
        bias: bool,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        for name, wanted in (("weight", weight), ("bias", bias)):
            values = torch.empty(shape, device=device, dtype=dtype) if wanted else None
            self.register_parameter(name, None if values is None else nn.Parameter(values))

    def reset_parameters(self) -> None:
        """Set γ to 1 and β to 0."""
        if self.weight is not None:
            nn.init.ones_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)


def _checked(eps: _Eps) -> _Eps:
    """eps, refused where the functions refuse it."""
    if eps is not None:
        check_eps(eps)
    return eps


def _check_floating(layer: nn.Module, x: Tensor) -> None:
    """A result in the dtype of integers would be cut to whole numbers."""
    if not isinstance(x, Tensor) or not x.is_floating_point():
        came = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise TypeError(
            f"{type(layer).__name__} needs a tensor of floating-point numbers; it got {came}. "
            f"torch.as_tensor(x, dtype=torch.float32) makes one."
        )


def _shape(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    if isinstance(normalized_shape, int | Integral):
        return (int(normalized_shape),)
    return tuple(normalized_shape)


# --- Over the features of a token -------------------------------------------------------------


class _OverFeatures(_Affine):
    """A layer over the last axes, those of `normalized_shape`."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        elementwise_affine: bool,
        bias: bool,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        shape = _shape(normalized_shape)
        super().__init__(shape, elementwise_affine, elementwise_affine and bias, device, dtype)
        self.normalized_shape = shape
        self.elementwise_affine = elementwise_affine

    def _check(self, x: Tensor) -> None:
        _check_floating(self, x)
        if tuple(x.shape[-len(self.normalized_shape) :]) != self.normalized_shape:
            raise ValueError(
                f"{type(self).__name__}({self.normalized_shape}) needs an x whose last axes are "
                f"{self.normalized_shape}, the features; its shape is {tuple(x.shape)}."
            )


class LayerNorm(_OverFeatures):
    r"""Layer normalisation over the last axes, those of `normalized_shape`.

    $$ y = \gamma \odot \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} + \beta $$

    normalized_shape: D, or the last axes, for example (C, H, W).
    weight (γ) starts at 1 and bias (β) at 0, both of shape normalized_shape; they are None
    with elementwise_affine=False, and the bias alone is None with bias=False.
    forward(x): (..., *normalized_shape) to the same shape and dtype.
    Its `state_dict` is that of `torch.nn.LayerNorm`.
    Source: Ba, Kiros & Hinton (2016), Layer Normalization, eq. 4 (there without ε).

    See: ln-formula in book/layer_norm.md; tests/normkit/test_layers.py.

    >>> LayerNorm(3)(torch.tensor([[0.2, 0.1, 0.3]]))
    tensor([[ 0.0000, -1.2238,  1.2238]], grad_fn=<NativeLayerNormBackward0>)
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(normalized_shape, elementwise_affine, bias, device, dtype)
        self.eps = _checked(eps)
        self.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        self._check(x)
        return functional.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(_OverFeatures):
    r"""Root mean square normalisation over the last axes, those of `normalized_shape`.

    $$ y = \gamma \odot x\, r, \quad r = 1 / \sqrt{\overline{x^2} + \varepsilon} $$

    eps: None stands for the machine epsilon of the dtype that computes, at least float32.
    weight (γ) starts at 1, of shape normalized_shape; None with elementwise_affine=False.
    forward(x): (..., *normalized_shape) to the same shape and dtype. Differentiable once. A token
    whose squares overflow becomes nan, as it does in LayerNorm and GroupNorm.
    Its `state_dict` is that of `torch.nn.RMSNorm`.
    Source: Zhang & Sennrich (2019), Root Mean Square Layer Normalization, eq. 4 (without ε).

    See: rms-formula in book/rms_norm.md; tests/normkit/test_layers.py.

    >>> RMSNorm(4)(torch.tensor([1.0, 7.0, 5.0, 5.0])).detach()
    tensor([0.2000, 1.4000, 1.0000, 1.0000])
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(normalized_shape, elementwise_affine, False, device, dtype)
        self.eps = _checked(eps)
        self.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        self._check(x)
        return _RMSNorm.apply(x, _or(self.weight, 1, self.normalized_shape, x), self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class _Squashed(_OverFeatures):
    """α, and where a subclass has it s: single numbers beside γ and β."""

    shifted = False

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        alpha_init: float = 0.5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(normalized_shape, elementwise_affine, bias, device, dtype)
        self.alpha_init = alpha_init
        self.alpha = nn.Parameter(torch.empty(1, device=device, dtype=dtype))
        if self.shifted:
            self.shift = nn.Parameter(torch.empty_like(self.alpha))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set α to alpha_init, s to 0, γ to 1 and β to 0."""
        super().reset_parameters()
        nn.init.constant_(self.alpha, self.alpha_init)
        if self.shifted:
            nn.init.zeros_(self.shift)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, alpha_init={self.alpha_init}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class DyT(_Squashed):
    r"""Dynamic tanh, in the place of a normalisation.

    $$ y = \gamma \odot \tanh(\alpha x) + \beta $$

    normalized_shape: that of the parameters, D or the last axes.
    alpha_init: where the single number alpha starts: 0.5; other values in language models, see
    `dyt_alpha_init`.
    weight (γ) starts at 1 and bias (β) at 0; None with elementwise_affine=False, the bias alone
    with bias=False.
    forward(x): (..., *normalized_shape) to the same shape and dtype. Differentiable once.
    The `state_dict` has the authors' names: alpha, weight, bias.
    Source: Zhu, Chen, He, LeCun & Liu (2025), Transformers without Normalization.

    See: dyt-formula in book/dyt.md; tests/normkit/test_layers.py.

    >>> DyT(2)(torch.tensor([1.0, -2.0])).detach()
    tensor([ 0.4621, -0.7616])
    """

    def forward(self, x: Tensor) -> Tensor:
        self._check(x)
        weight = _or(self.weight, 1, self.normalized_shape, x)
        return _DyT.apply(x, self.alpha, weight, _or(self.bias, 0, self.normalized_shape, x))


class Derf(_Squashed):
    r"""Dynamic erf, in the place of a normalisation.

    $$ y = \gamma \odot \operatorname{erf}(\alpha x + s) + \beta $$

    As `DyT`, with one more number, shift (s), which starts at 0.
    Source: Chen, Lu, Zhu, Sun & Liu (2025), Stronger Normalization-Free Transformers.

    See: dyt-derf in book/dyt.md; tests/normkit/test_layers.py.

    >>> Derf(2)(torch.tensor([1.0, -2.0])).detach()
    tensor([ 0.5205, -0.8427])
    """

    shifted = True

    def forward(self, x: Tensor) -> Tensor:
        self._check(x)
        weight = _or(self.weight, 1, self.normalized_shape, x)
        bias = _or(self.bias, 0, self.normalized_shape, x)
        return _Derf.apply(x, self.alpha, self.shift, weight, bias)


# --- Gradients by hand ------------------------------------------------------------------------
# Rows are tokens. A sum over features or over tokens is a matrix-vector product, which reads the
# matrix once; `out=` and methods in place write where the values are in the cache already.


class _RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps):
        rows, gamma = _rows(x, weight), _flat(weight, x)
        eps = torch.finfo(rows.dtype).eps if eps is None else eps
        r = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
        r.masked_fill_(r.square().isinf(), math.nan)  # else all of the token would become 0
        r = r.square_().div_(gamma.numel()).add_(eps).rsqrt_()
        ctx.save_for_backward(x, weight, r)
        return _back(torch.mul(rows, r).mul_(gamma), x)

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        """dx = r (γ dy - x r² mean(γ dy x)) and dγ = Σ dy x r, both from the products dy x."""
        x, weight, r = ctx.saved_tensors
        rows, gamma, dy = _rows(x, weight), _flat(weight, x), _rows(dy, weight)
        dx, dgamma = torch.empty_like(rows), torch.zeros_like(gamma)
        for here in _blocks(rows):
            products, scale = torch.mul(dy[here], rows[here], out=dx[here]), r[here]
            dgamma.addmv_(products.T, scale.view(-1))
            share = torch.mv(products, gamma).div_(-gamma.numel()).view_as(scale)
            share.mul_(scale).mul_(scale)
            torch.mul(rows[here], share, out=products).addcmul_(dy[here], gamma).mul_(scale)
        return _back(dx, x), _back(dgamma, weight), None


class _DyT(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, alpha, weight, bias):
        rows, gamma, beta = _rows(x, weight), _flat(weight, x), _flat(bias, x)
        t = _tanh_(torch.mul(rows, 2 * _flat(alpha, x)))
        ctx.save_for_backward(x, t, alpha, weight, bias)
        return _back(torch.addcmul(beta, t, gamma), x)

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        """dx = α γ h, dα = Σ γ h x with h = dy (1 - t²); dγ = Σ dy t, dβ = Σ dy."""
        x, t, alpha, weight, bias = ctx.saved_tensors
        rows, gamma, dy = _rows(x, weight), _flat(weight, x), _rows(dy, weight)
        dx, dalpha = torch.empty_like(rows), gamma.new_zeros(())
        dgamma, dbeta = torch.zeros_like(gamma), torch.zeros_like(gamma)
        for here in _blocks(rows):
            dbeta += _over_tokens(dy[here])
            products = dy[here] * t[here]
            dgamma += _over_tokens(products)
            h = torch.addcmul(dy[here], products, t[here], value=-1, out=dx[here])
            dalpha += torch.mv(torch.mul(h, rows[here], out=products), gamma).sum()
            h.mul_(gamma * _flat(alpha, x))
        return _back(dx, x), _back(dalpha, alpha), _back(dgamma, weight), _back(dbeta, bias)


class _Derf(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, alpha, shift, weight, bias):
        rows, gamma, beta = _rows(x, weight), _flat(weight, x), _flat(bias, x)
        squashed = torch.mul(rows, _flat(alpha, x)).add_(_flat(shift, x)).erf_()
        ctx.save_for_backward(x, squashed, alpha, shift, weight, bias)
        return _back(torch.addcmul(beta, squashed, gamma), x)

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        """dx = α h, dα = Σ h x, ds = Σ h with h = γ dy (2/√π) exp(-(αx + s)²)."""
        x, squashed, alpha, shift, weight, bias = ctx.saved_tensors
        rows, gamma, dy = _rows(x, weight), _flat(weight, x), _rows(dy, weight)
        dx, slope = torch.empty_like(rows), gamma * (2 / math.sqrt(math.pi))
        dgamma, dbeta = torch.zeros_like(gamma), torch.zeros_like(gamma)
        dalpha, dshift = gamma.new_zeros(()), gamma.new_zeros(())
        for here in _blocks(rows):
            dbeta += _over_tokens(dy[here])
            products = dy[here] * squashed[here]
            dgamma += _over_tokens(products)
            h = torch.mul(rows[here], _flat(alpha, x), out=dx[here]).add_(_flat(shift, x))
            h.square_().neg_().exp_().mul_(dy[here])
            dshift += torch.mv(h, slope).sum()
            dalpha += torch.mv(torch.mul(h, rows[here], out=products), slope).sum()
            h.mul_(slope * _flat(alpha, x))
        gradients = ((dx, x), (dalpha, alpha), (dshift, shift), (dgamma, weight), (dbeta, bias))
        return tuple(_back(gradient, tensor) for gradient, tensor in gradients)


def _or(parameter: Tensor | None, value: float, shape: tuple[int, ...], x: Tensor) -> Tensor:
    """The parameter, or a constant in its place."""
    return x.new_full(shape, value) if parameter is None else parameter


def _computing(x: Tensor) -> torch.dtype:
    """The dtype that computes: that of x, but at least float32."""
    return torch.promote_types(x.dtype, torch.float32)


def _rows(x: Tensor, weight: Tensor) -> Tensor:
    """One token per row."""
    return x.to(_computing(x)).reshape(-1, weight.numel())


def _flat(parameter: Tensor, x: Tensor) -> Tensor:
    return parameter.to(_computing(x)).reshape(-1)


def _back(result: Tensor, tensor: Tensor) -> Tensor:
    """The result in the shape and dtype of the tensor that it belongs to."""
    return result.to(tensor.dtype).reshape(tensor.shape)


def _blocks(rows: Tensor) -> Iterator[slice]:
    """Slices of rows that stay in the cache of a core; on other devices, all rows at once."""
    count, width = rows.shape
    size = 2**18 * torch.get_num_threads() // width if rows.device.type == "cpu" else count
    return (slice(i, i + max(size, 1)) for i in range(0, count, max(size, 1)))


def _over_tokens(rows: Tensor) -> Tensor:
    return torch.mv(rows.T, rows.new_ones(rows.shape[0]))


def _tanh_(doubled: Tensor) -> Tensor:
    """tanh z from 2z: e / (e + 2) with e = exp(2z) - 1; torch's own tanh is slower on CPU."""
    e = doubled.clamp_(max=40).expm1_()  # beyond z = 20 all digits are those of 1
    return e.div_(e + 2)


# --- Over channels ----------------------------------------------------------------------------


class _OverChannels(_Affine):
    """What batch and instance normalisation share: γ, β and running statistics per channel."""

    axes: tuple[int, ...]  # how many axes x may have
    running_mean: Tensor | Any  # these three are None without track_running_stats
    running_var: Tensor | Any
    num_batches_tracked: Tensor | Any

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, affine, affine and bias, device, dtype)
        self.num_features = num_features
        self.eps = _checked(eps)
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        mean = var = batches = None
        if track_running_stats:
            mean = torch.empty(num_features, device=device, dtype=dtype)
            var, batches = torch.empty_like(mean), torch.tensor(0, device=device)
        self.register_buffer("running_mean", mean)
        self.register_buffer("running_var", var)
        self.register_buffer("num_batches_tracked", batches)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget all batches: mean 0, variance 1."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Set γ to 1 and β to 0, and forget all batches."""
        super().reset_parameters()
        self.reset_running_stats()

    def _check(self, x: Tensor, channel: int) -> None:
        _check_floating(self, x)
        if x.ndim not in self.axes or x.shape[channel] != self.num_features:
            raise ValueError(
                f"{type(self).__name__}({self.num_features}) needs an x of "
                f"{' or '.join(map(str, self.axes))} axes with {self.num_features} channels on "
                f"axis {channel}; its shape is {tuple(x.shape)}."
            )

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_OverChannels):
    def forward(self, x: Tensor) -> Tensor:
        self._check(x, 1)
        learning = self.training and self.track_running_stats
        momentum = self.momentum
        if learning:
            self.num_batches_tracked.add_(1)
            if momentum is None:  # the plain average of all batches
                momentum = 1 / self.num_batches_tracked.item()
        return functional.batch_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            momentum or 0.0,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    r"""Batch normalisation of vectors or sequences: (N, C) or (N, C, L).

    $$ y = \gamma_c\, \frac{x - \mu_c}{\sqrt{\sigma_c^2 + \varepsilon}} + \beta_c $$

    μ and σ² are those of the batch in training, of `running_mean` and `running_var` in
    evaluation: `train()` and `eval()` switch. With track_running_stats=False they are always
    those of the batch.

    num_features: C. weight (γ) and bias (β) are None with affine=False, the bias alone with
    bias=False. momentum: the share of the new batch in the running statistics; None for the
    plain average of all batches.
    forward(x): the same shape and dtype; one value per channel in training is refused.
    Its `state_dict` is that of `torch.nn.BatchNorm1d`.
    Source: Ioffe & Szegedy (2015), Batch Normalization, algorithms 1 and 2.

    See: bn-formula in book/batch_norm.md; tests/normkit/test_layers.py.

    >>> layer = BatchNorm1d(1)
    >>> _ = layer(torch.tensor([[1.0], [3.0], [5.0], [7.0]]))
    >>> layer.running_mean, layer.running_var
    (tensor([0.4000]), tensor([1.5667]))
    """

    axes = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of images, (N, C, H, W): see `BatchNorm1d`.

    The statistics of a channel run over examples and positions.
    """

    axes = (4,)


class InstanceNorm2d(_OverChannels):
    r"""Instance normalisation of images, (N, C, H, W) or (C, H, W).

    $$ y = \gamma_c\, \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} + \beta_c $$

    μ and σ² are those of one channel of one example, in training and, unless
    track_running_stats, in evaluation.

    num_features: C. affine: whether there are weight (γ) and bias (β), by default not.
    forward(x): the same shape and dtype; a single position is refused in training.
    Its `state_dict` is that of `torch.nn.InstanceNorm2d`.
    Source: Ulyanov, Vedaldi & Lempitsky (2016), Instance Normalization.

    See: gn-instance in book/group_instance_norm.md; tests/normkit/test_layers.py.
    """

    axes = (3, 4)

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def forward(self, x: Tensor) -> Tensor:
        self._check(x, x.ndim - 3)
        y = functional.instance_norm(
            x if x.ndim == 4 else x[None],
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum or 0.0,
            self.eps,
        )
        return y if x.ndim == 4 else y[0]


class GroupNorm(_Affine):
    r"""Group normalisation: each example by itself, over groups of C/G neighbouring channels.

    $$ y = \gamma_c\, \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} + \beta_c $$

    num_groups: G, which divides num_channels (C). weight (γ) and bias (β), of shape (C,), are
    None with affine=False, the bias alone with bias=False.
    forward(x): (N, C, ...) to the same shape and dtype.
    Its `state_dict` is that of `torch.nn.GroupNorm`.
    Source: Wu & He (2018), Group Normalization, eq. 1, 2, 6 and 7.

    See: gn-formula in book/group_instance_norm.md; tests/normkit/test_layers.py.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        if (
            not isinstance(num_groups, int | Integral)
            or num_groups < 1
            or num_channels % num_groups
        ):
            raise ValueError(
                f"num_groups must divide num_channels, {num_channels}; it is {num_groups}. It "
                f"counts the groups, not the channels of a group."
            )
        super().__init__(num_channels, affine, affine and bias, device, dtype)
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = _checked(eps)
        self.affine = affine
        self.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        _check_floating(self, x)
        if x.ndim < 2 or x.shape[1] != self.num_channels:
            raise ValueError(
                f"GroupNorm needs {self.num_channels} channels on axis 1 of x, of shape "
                f"(N, C, ...); its shape is {tuple(x.shape)}."
            )
        return functional.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, "
            f"affine={self.affine}, bias={self.bias is not None}"
        )
