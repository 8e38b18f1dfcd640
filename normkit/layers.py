"""Normalisations as PyTorch layers, with the names, defaults and state of `torch.nn`."""

from collections.abc import Sequence
from numbers import Integral

import torch
from torch import Tensor, nn
from torch.nn import functional


class LayerNorm(nn.Module):
    r"""Layer normalisation over the last axes, those of `normalized_shape`.

    $$ y = \gamma \odot \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} + \beta $$

    normalized_shape: D, or the last axes, for example (C, H, W).
    weight (γ) starts at 1 and bias (β) at 0, both of shape normalized_shape; they are None
    with elementwise_affine=False, and the bias alone is None with bias=False.
    forward(x): (..., *normalized_shape) to the same shape and dtype.
    Its `state_dict` is that of `torch.nn.LayerNorm`.
    Source: Ba, Kiros & Hinton (2016), Layer Normalization, eq. 4 (there without ε).

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
        super().__init__()
        one = isinstance(normalized_shape, Integral)
        self.normalized_shape = (int(normalized_shape),) if one else tuple(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine

        def parameter(wanted: bool) -> nn.Parameter | None:
            if wanted:
                return nn.Parameter(torch.empty(self.normalized_shape, device=device, dtype=dtype))

        self.register_parameter("weight", parameter(elementwise_affine))
        self.register_parameter("bias", parameter(elementwise_affine and bias))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set γ to 1 and β to 0."""
        if self.weight is not None:
            nn.init.ones_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        return functional.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )
