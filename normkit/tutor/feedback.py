"""Feedback on an answer: both halves of a task, one after the other, in the notebook's kernel."""

import sys
from typing import Any

from normkit.messages import current_language
from normkit.tutor.judging import Verdict, judge
from normkit.tutor.observing import observe
from normkit.tutor.tasks import Task

VERDICT = "application/vnd.normkit.verdict+json"  # of an output that holds a verdict


def diagnose(answer: Any, task: Task | str, seed: int = 0) -> None:
    """Print whether an answer is right; otherwise which mistake it behaves like.

    answer: the function, the layer class, or what else the task asks for. Whatever it does, no
    exception leaves this function.

    >>> import numpy as np
    >>> def dyt(x, alpha, gamma, beta):
    ...     return gamma * np.tanh(alpha * x) + beta
    >>> diagnose(dyt, "dyt/forward")
    ✓ dyt/forward: right in all 13 checks.
    """
    print(_verdict(answer, task, seed).explain(current_language()))


def check(answer: Any, task: Task | str, seed: int = 0) -> None:
    """Raise AssertionError, with the diagnosis, unless the answer is right."""
    verdict = _verdict(answer, task, seed)
    if not verdict.passed:
        raise AssertionError(verdict.explain(current_language()))


def _verdict(answer: Any, task: Task | str, seed: int) -> Verdict:
    verdict = judge(observe(answer, task, seed), task, seed)
    _publish(verdict)
    return verdict


def _publish(verdict: Verdict) -> None:
    """Leave the verdict in the notebook, for programs: front ends show nothing of this type."""
    IPython = sys.modules.get("IPython")
    if IPython and IPython.get_ipython() is not None:
        IPython.display.publish_display_data({VERDICT: verdict.as_data()})
