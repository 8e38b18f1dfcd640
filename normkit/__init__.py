"""normkit: normalisations of neural networks, right to the last digit, and feedback on yours."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from normkit._extras import need
from normkit.messages import say, speak

if TYPE_CHECKING:
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
    from normkit.examining import examine
    from normkit.folding import (
        centre_reader,
        centre_writer,
        fold_affine,
        fold_batch_norm,
        fold_centring,
        fold_transformer,
    )
    from normkit.functions import layer_norm, layer_norm_backward, rms_norm, rms_norm_backward
    from normkit.layers import (
        BatchNorm1d,
        BatchNorm2d,
        Derf,
        DyT,
        GroupNorm,
        InstanceNorm2d,
        LayerNorm,
        RMSNorm,
    )
    from normkit.placement import (
        Attention,
        CharacterTransformer,
        FeedForward,
        Residual,
        deepnorm_constants,
        deepnorm_init,
    )
    from normkit.tutor.feedback import check, diagnose
    from normkit.watching import NotFinite, watch

__version__ = "0.1.0"
__all__ = [
    "Attention",
    "BatchNorm1d",
    "BatchNorm2d",
    "CharacterTransformer",
    "Derf",
    "DyT",
    "FeedForward",
    "GroupNorm",
    "InstanceNorm2d",
    "LayerNorm",
    "NotFinite",
    "RMSNorm",
    "Residual",
    "batch_norm",
    "batch_norm_backward",
    "centre_reader",
    "centre_writer",
    "check",
    "deepnorm_constants",
    "deepnorm_init",
    "derf",
    "derf_backward",
    "diagnose",
    "dyt",
    "dyt_alpha_init",
    "dyt_backward",
    "examine",
    "fold_affine",
    "fold_batch_norm",
    "fold_centring",
    "fold_transformer",
    "group_norm",
    "group_norm_backward",
    "instance_norm",
    "instance_norm_backward",
    "layer_norm",
    "layer_norm_backward",
    "need",
    "rms_norm",
    "rms_norm_backward",
    "say",
    "speak",
    "variance",
    "watch",
    "weight_norm",
    "weight_norm_backward",
]
# imported when first asked for: importing torch takes seconds, and some need little of the rest
_LATER = {
    "alternatives": (
        "derf derf_backward dyt dyt_alpha_init dyt_backward weight_norm weight_norm_backward"
    ),
    "channels": (
        "batch_norm batch_norm_backward group_norm group_norm_backward instance_norm "
        "instance_norm_backward"
    ),
    "examining": "examine",
    "folding": (
        "centre_reader centre_writer fold_affine fold_batch_norm fold_centring fold_transformer"
    ),
    "functions": "layer_norm layer_norm_backward rms_norm rms_norm_backward",
    "layers": "BatchNorm1d BatchNorm2d Derf DyT GroupNorm InstanceNorm2d LayerNorm RMSNorm",
    "placement": (
        "Attention CharacterTransformer FeedForward Residual deepnorm_constants deepnorm_init"
    ),
    "tutor.feedback": "check diagnose",
    "watching": "NotFinite watch",
}


def __getattr__(name: str) -> Any:
    """What is imported later, from then on an ordinary name of the package."""
    if name == "variance":
        return import_module("normkit.variance")
    for module, names in _LATER.items():
        if name in names.split():
            found = import_module(f"normkit.{module}")
            globals().update({each: getattr(found, each) for each in names.split()})
            return globals()[name]
    raise AttributeError(f"module 'normkit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
