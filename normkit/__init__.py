"""normkit: normalisations of neural networks, right to the last digit, and feedback on yours."""

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
_LAYERS = (
    "BatchNorm1d",
    "BatchNorm2d",
    "Derf",
    "DyT",
    "GroupNorm",
    "InstanceNorm2d",
    "LayerNorm",
    "RMSNorm",
)
__all__ = [
    *_LAYERS,
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
    """The torch layers, imported when first asked for: importing torch takes seconds."""
    if name in _LAYERS:
        from normkit import layers

        return getattr(layers, name)
    raise AttributeError(f"module 'normkit' has no attribute {name!r}")
