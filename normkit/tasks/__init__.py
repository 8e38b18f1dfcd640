"""The tasks of the course: how each answer is used, and on which probes.

A module for each assignment records its own.
"""

from normkit.judging import Verdict, judge
from normkit.observing import TASKS, Observation, Probe, Task, observe
from normkit.tasks import (  # noqa: F401  (each module records its own)
    batch_norm,
    dyt,
    find_the_bug,
    group_instance_norm,
    layer_norm,
    placement,
    rms_norm,
    stability,
)

__all__ = ["TASKS", "Observation", "Probe", "Task", "Verdict", "judge", "observe"]
