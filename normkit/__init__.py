"""normkit: normalisations of neural networks, right to the last digit, and feedback on yours."""

from importlib import import_module
from typing import Any

from normkit import variance
from normkit.alternatives import (
    derf,
    derf_backward,
    dyt,
    dyt_alpha_init,
    dyt_backward,
    weight_norm,
    weight_norm_backward,
)
from normkit.channels import (
    batch_norm,
    batch_norm_backward,
    group_norm,
    group_norm_backward,
    instance_norm,
    instance_norm_backward,
)
from normkit.diagnose import check, diagnose
from normkit.functions import layer_norm, layer_norm_backward, rms_norm, rms_norm_backward
from normkit.messages import speak

__version__ = "0.1.0"
_NEED_TORCH = {
    "Attention": "placement",
    "BatchNorm1d": "layers",
    "BatchNorm2d": "layers",
    "CharacterTransformer": "placement",
    "Derf": "layers",
    "DyT": "layers",
    "FeedForward": "placement",
    "GroupNorm": "layers",
    "InstanceNorm2d": "layers",
    "LayerNorm": "layers",
    "RMSNorm": "layers",
    "Residual": "placement",
    "deepnorm_constants": "placement",
    "deepnorm_init": "placement",
    "fold_affine": "folding",
    "fold_batch_norm": "folding",
    "fold_centring": "folding",
}
__all__ = [
    *_NEED_TORCH,
    "batch_norm",
    "batch_norm_backward",
    "check",
    "derf",
    "derf_backward",
    "diagnose",
    "dyt",
    "dyt_alpha_init",
    "dyt_backward",
    "group_norm",
    "group_norm_backward",
    "instance_norm",
    "instance_norm_backward",
    "layer_norm",
    "layer_norm_backward",
    "rms_norm",
    "rms_norm_backward",
    "speak",
    "variance",
    "weight_norm",
    "weight_norm_backward",
]


def __getattr__(name: str) -> Any:
    """What needs torch, imported when first asked for: importing torch takes seconds."""
    if name in _NEED_TORCH:
        return getattr(import_module(f"normkit.{_NEED_TORCH[name]}"), name)
    raise AttributeError(f"module 'normkit' has no attribute {name!r}")
