"""Stands for `normkit.tutor.feedback` in the sandbox: values are recorded, judged elsewhere."""

from collections.abc import Callable
from typing import Any


def record(answer: Any, task: str) -> None:
    """Replaced by the runner of the submission."""


def diagnose(answer: Any, task: Any, seed: int = 0) -> None:
    """Record what an answer does on the probes of a task; the grader writes the verdict here."""
    record(answer, str(getattr(task, "name", task)))


check: Callable[..., None] = diagnose  # it raises where it judges; nothing is judged here
