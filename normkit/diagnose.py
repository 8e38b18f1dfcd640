"""Feedback on an answer: both halves of a task, one after the other, in the notebook's kernel."""

from typing import Any

from normkit.messages import current_language
from normkit.tasks import Task, Verdict, judge, observe


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
    return judge(observe(answer, task, seed), task, seed)
