"""The checks: one function for each finding, with its level and the place that explains it."""

from normkit.examining.checks import comparing, following, probing, reading
from normkit.examining.checks.listing import CHECKS, CONSEQUENCES, Check, Hit

__all__ = ["CHECKS", "CONSEQUENCES", "Check", "Hit", "comparing", "following", "probing", "reading"]
