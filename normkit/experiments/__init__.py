"""Experiments of the course: small, on one thread, the same numbers from the same seed.

Each function returns a table, a list of rows, and each row is a dict: the settings of one run,
its seed, and what was measured. `summary` takes the runs with different seeds together. The
numbers in the docstrings are from PyTorch 2.13 on a CPU; another machine rounds differently, and
what training makes of that may change the last digits shown.

The extras `torch` and `experiments` install what they need.
"""

from normkit.experiments.descent import elongated_bowl
from normkit.experiments.logits import logit_growth
from normkit.experiments.perceptrons import (
    names_model,
    running_mean,
    saturation,
    trainability,
)
from normkit.experiments.residuals import residual_methods
from normkit.experiments.training import summary
from normkit.experiments.transformers import depth_sweep, gradient_norms, same_task

__all__ = [
    "depth_sweep",
    "elongated_bowl",
    "gradient_norms",
    "logit_growth",
    "names_model",
    "residual_methods",
    "running_mean",
    "same_task",
    "saturation",
    "summary",
    "trainability",
]
