"""normkit: normalisations of neural networks, right to the last digit, and feedback on yours."""

from typing import Any

from normkit.diagnose import check, diagnose
from normkit.functions import layer_norm, layer_norm_backward
from normkit.messages import speak

__version__ = "0.1.0"
__all__ = ["LayerNorm", "check", "diagnose", "layer_norm", "layer_norm_backward", "speak"]


def __getattr__(name: str) -> Any:
    """The torch layers, imported when first asked for: importing torch takes seconds."""
    if name == "LayerNorm":
        from normkit.layers import LayerNorm

        return LayerNorm
    raise AttributeError(f"module 'normkit' has no attribute {name!r}")
