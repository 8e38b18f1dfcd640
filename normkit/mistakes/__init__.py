"""The classic mistakes, each a few steps of the right algorithm written wrongly.

Two mistakes combine by merging their steps. One entry serves the book, the feedback to students,
the tests of the package and the report to the instructor. A module for each family of algorithms.
"""

from normkit.mistakes import (  # noqa: F401  (each module records its own)
    batch_norm,
    dyt,
    find_the_bug,
    group_instance_norm,
    layer_norm,
    placement,
    rms_norm,
    stability,
)
from normkit.mistakes.chains import ALGORITHMS, MISTAKES, Algorithm, Mistake, combine, mistakes_of

__all__ = ["ALGORITHMS", "MISTAKES", "Algorithm", "Mistake", "combine", "mistakes_of"]
