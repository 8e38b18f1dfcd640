"""The intermediate values of the right program, for a student whose mistake nobody knows."""

import ast
import sys
from types import FrameType
from typing import Any

import numpy as np

from normkit.tutor.judging import SMALL, Difference
from normkit.tutor.mistakes import combine
from normkit.tutor.observing import copied
from normkit.tutor.programs import find_program
from normkit.tutor.tasks import Task

SHOWN = 6  # values


def steps(task: Task, found: Difference) -> dict[str, Any]:
    """What the first program of a task computes last on the way to a difference, by name.

    Of a large array that has the shape of the result, or keeps its axes, the row that differs.
    """
    place, needed = _place(found), _needed(find_program(task.programs[0]).source, found.name)
    kept = {name: _row(value, found, place) for name, value in _locals(task, found).items()}
    unused = "_term" if found.probe.inputs.get("training") is False else "\0"  # of dx in training
    small = {n: v for n, v in kept.items() if 0 < np.size(v) <= SMALL and not n.endswith(unused)}
    return dict([(n, v) for n, v in small.items() if n in needed][-SHOWN:])


def _needed(source: str, result: str) -> set[str]:
    """The variables that a result is made of; all of them if it is none itself."""
    steps = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Assign)]
    needed, every = {result}, set[str]()
    for step in sorted(steps, key=lambda step: -step.lineno):
        names = [node for node in ast.walk(step) if isinstance(node, ast.Name)]
        made = {node.id for node in names if isinstance(node.ctx, ast.Store)}
        every |= made
        if made & needed:
            needed |= {node.id for node in names}
    return needed - {result} if result in every else every


def _locals(task: Task, found: Difference) -> dict[str, np.ndarray]:
    """The variables of the right program, its arguments aside, when it last returns before that."""
    program, seen = task.programs[0], dict[str, Any]()

    def witness(frame: FrameType, event: str, _returned: Any) -> None:
        nonlocal seen
        code = frame.f_code
        own = code.co_filename.startswith(f"<{program}:")
        if event == "return" and own and code.co_name in (program.rpartition("/")[2], "forward"):
            arguments = code.co_varnames[: code.co_argcount]
            seen = {name: v for name, v in frame.f_locals.items() if name not in arguments}

    before, answer = sys.getprofile(), combine(program)
    sys.setprofile(witness)
    try:
        with np.errstate(all="ignore"):
            results = task.use(answer, **copied(found.probe))
            next((name for name, _value in results if name == found.name), None)
    finally:
        sys.setprofile(before)
    return {name: value for name, value in seen.items() if _is_array(value)}


def _is_array(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.floating)) or hasattr(value, "detach")


def worst(came: np.ndarray, expected: np.ndarray) -> tuple[int, ...]:
    """Where two arrays differ most."""
    gap = np.where(np.isfinite(came), np.abs(came - expected), np.inf)
    return tuple(map(int, np.unravel_index(np.argmax(gap), gap.shape)))


def _place(found: Difference) -> tuple[int, ...]:
    """Where the result differs most, which is shown, its last axis aside."""
    if found.what in ("axes", "shape") or np.ndim(found.expected) < 2:
        return ()
    return worst(found.came, found.expected)[:-1]


def _row(value: Any, found: Difference, place: tuple[int, ...]) -> np.ndarray:
    value = np.asarray(value.detach() if hasattr(value, "detach") else value)
    fits = value.ndim == np.ndim(found.expected) and value.size > SMALL
    return value[place] if fits and value.shape[:-1] == np.shape(found.expected)[:-1] else value
