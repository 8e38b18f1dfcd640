"""Conditional norms as PyTorch layers: AdaLN, AdaLN-Zero, FiLM, conditional BatchNorm.

Each has one linear map from the condition to its modulation, which starts at zero.
"""

from collections.abc import Callable
from typing import Any

from normkit._arrays import as_dtype_of, check_eps, namespace
from normkit._extras import missing

try:
    import torch
    from torch import Tensor, nn
    from torch.nn import functional
except ModuleNotFoundError as error:
    raise missing(error) from error

from normkit.conditional import _lined_up, modulate
from normkit.layers import BatchNorm2d


class _Conditional(nn.Module):
    """A linear map from the condition to `parts` vectors of the width, in DiT's order."""

    parts = 2  # shift, scale
    axis = -1  # of the features of x

    def __init__(
        self,
        width: int,
        condition_width: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.width, self.condition_width = width, condition_width
        self.modulation = nn.Linear(condition_width, self.parts * width, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the modulation to 0, whatever the condition."""
        nn.init.zeros_(self.modulation.weight)
        nn.init.zeros_(self.modulation.bias)

    def _modulation(self, x: Tensor, condition: Tensor) -> tuple[Tensor, ...]:
        if x.ndim < 2 or x.shape[self.axis] != self.width:
            shape = f"(N, {self.width}, ...)" if self.axis == 1 else f"(N, ..., {self.width})"
            raise ValueError(
                f"This {type(self).__name__} needs an x of shape {shape}, examples first; its "
                f"shape is {tuple(x.shape)}."
            )
        if condition.shape[-1:] != (self.condition_width,) or condition.shape[0] != x.shape[0]:
            raise ValueError(
                f"The condition must have shape ({x.shape[0]}, {self.condition_width}), one row "
                f"for each example of x; it has {tuple(condition.shape)}. A class number becomes a "
                f"row with nn.Embedding."
            )
        return self.modulation(condition).chunk(self.parts, dim=-1)

    def extra_repr(self) -> str:
        return f"width={self.width}, condition_width={self.condition_width}"


class AdaLN(_Conditional):
    r"""Adaptive layer normalisation over the last axis.

    $$ y = (1 + \gamma(c)) \odot \operatorname{LN}(x) + \beta(c), \quad
    (\beta, \gamma) = W \operatorname{SiLU}(c) + b $$

    LN has no scale and shift of its own. W and b start at 0: at first the layer is LN, whatever
    the condition.

    width: D. condition_width: features of the condition c. eps: 1e-6 as in DiT.
    forward(x, condition): (N, ..., D) and (N, condition_width) to the shape and dtype of x.
    Raises ValueError for a width or condition of the wrong shape.
    Source: Peebles & Xie (2023), Scalable Diffusion Models with Transformers, section 3.2; the
    rows of W are in the order of facebookresearch/DiT, first those of β, then those of γ.

    See: conditional-adaln in book/conditional.md; tests/normkit/test_conditional.py.

    >>> AdaLN(3, 5)(torch.tensor([[0.0, 2.0, 4.0]]), torch.randn(1, 5)).detach()
    tensor([[-1.2247,  0.0000,  1.2247]])
    """

    def __init__(
        self,
        width: int,
        condition_width: int,
        eps: float = 1e-6,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        check_eps(eps)
        super().__init__(width, condition_width, device, dtype)
        self.eps = eps

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        shift, scale = self._modulation(x, functional.silu(condition))
        return self._normalised(x, scale, shift)

    def _normalised(self, x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        xhat = functional.layer_norm(x, (self.width,), eps=self.eps)
        return modulate(xhat, scale, shift)


class AdaLNZero(AdaLN):
    r"""A residual branch F behind an adaptive layer normalisation, and with a gate.

    $$ y = x + g(c) \odot F\bigl((1 + \gamma(c)) \odot \operatorname{LN}(x) + \beta(c)\bigr), \quad
    (\beta, \gamma, g) = W \operatorname{SiLU}(c) + b $$

    W and b start at 0, and with them the gate g: at first y = x. F must not end with zeros too,
    or neither it nor its gate ever gets a gradient.

    branch: F, keeps the shape. The other arguments, and the source, are those of `AdaLN`.
    forward(x, condition): (N, ..., D) and (N, condition_width) to the shape and dtype of x.
    Raises ValueError for a width or condition of the wrong shape.

    See: conditional-zero in book/conditional.md; tests/normkit/test_conditional.py.

    >>> block = AdaLNZero(nn.Linear(3, 3), 3, 5)
    >>> block(torch.tensor([[0.0, 2.0, 4.0]]), torch.randn(1, 5)).detach()
    tensor([[0., 2., 4.]])
    """

    parts = 3  # shift, scale, gate

    def __init__(
        self,
        branch: Callable[[Tensor], Tensor],
        width: int,
        condition_width: int,
        eps: float = 1e-6,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(width, condition_width, eps, device, dtype)
        self.branch = branch

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        shift, scale, gate = self._modulation(x, functional.silu(condition))
        out = self.branch(self._normalised(x, scale, shift))
        if out.shape != x.shape:
            raise ValueError(
                f"The branch must keep the shape of x, {tuple(x.shape)}, because the two are "
                f"added; it returns {tuple(out.shape)}."
            )
        xp = namespace(x=x)
        return x + as_dtype_of(xp, _lined_up(xp, "gate", gate, x, -1) * out, x)


class FiLM(_Conditional):
    r"""Feature-wise linear modulation of channels, axis 1.

    $$ y = (1 + \gamma(c)) \odot x + \beta(c), \quad (\beta, \gamma) = W c + b $$

    It normalises nothing. W and b start at 0, so that at first y = x (the authors' own W is drawn
    at random).

    width: C. condition_width: features of the condition c.
    forward(x, condition): (N, C, ...) and (N, condition_width) to the shape and dtype of x.
    Raises ValueError for channels or a condition of the wrong shape.
    Source: Perez et al. (2018), FiLM, eq. 1 and 2, where γ stands for our 1 + γ.

    See: conditional-film in book/conditional.md; tests/normkit/test_conditional.py.

    >>> FiLM(2, 5)(torch.ones(1, 2, 3), torch.randn(1, 5)).detach()
    tensor([[[1., 1., 1.],
             [1., 1., 1.]]])
    """

    axis = 1

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        shift, scale = self._modulation(x, condition)
        return modulate(x, scale, shift, axis=1)


class ConditionalBatchNorm2d(FiLM):
    r"""Batch normalisation whose scale and shift come from a condition.

    $$ y = (1 + \gamma(c)) \odot \operatorname{BN}(x) + \beta(c), \quad (\beta, \gamma) = W c + b $$

    The statistics, running ones too, are those of the whole batch, whatever the conditions in it.

    num_features, eps, momentum, track_running_stats: those of `BatchNorm2d`, which has no γ and β
    here. condition_width: features of the condition c.
    forward(x, condition): (N, C, H, W) and (N, condition_width) to the shape and dtype of x.
    Raises ValueError for an x or a condition of the wrong shape.
    Source: de Vries et al. (2017), Modulating early visual processing by language; with 1 + γ as
    in Brock, Donahue & Simonyan (2019), BigGAN.

    See: conditional-bn in book/conditional.md; tests/normkit/test_conditional.py.

    >>> layer = ConditionalBatchNorm2d(1, 5)
    >>> x = torch.tensor([1.0, 3.0, 5.0, 7.0]).reshape(4, 1, 1, 1)
    >>> layer(x, torch.randn(4, 5)).detach().flatten()
    tensor([-1.3416, -0.4472,  0.4472,  1.3416])
    """

    def __init__(
        self,
        num_features: int,
        condition_width: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        track_running_stats: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(num_features, condition_width, device, dtype)
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        self.norm = BatchNorm2d(num_features, eps, momentum, False, track_running_stats, **options)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        return super().forward(self.norm(x), condition)
