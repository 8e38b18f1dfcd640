"""A mistake on a page: the lines that it changes, and what right and wrong code make of numbers."""

import difflib
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np

from normkit.tutor.mistakes import Mistake, combine, mistakes_of, written
from normkit.tutor.programs import find_program


def wrong(program: str, name: str) -> Any:
    """The program of a student who makes this mistake and no other."""
    return combine(program, _named(program, name))


def expose(
    program: str,
    name: str,
    *inputs: Any,
    show: Callable[[Any], Any] = lambda result: result,
    **options: Any,
) -> None:
    """Print the lines that a mistake changes, and what right and wrong code make of the inputs.

    inputs: arrays, or lists that become arrays of floats. show: what to print of a result.

    >>> expose("layer_norm/layer_norm", "gamma_forgotten", [1, 5], [2, 1])
    gamma_forgotten
        - return gamma * xhat + beta
        + return xhat + beta
        right [-2.  1.]
        wrong [-1.  1.]
    """
    print(name)
    print(*(f"    {line}" for line in changed(program, _named(program, name))), sep="\n")
    arrays = [np.asarray(array, getattr(array, "dtype", float)) for array in inputs]
    for word, answer in (("right", combine(program)), ("wrong", wrong(program, name))):
        with np.errstate(all="ignore"):
            result = np.round(show(answer(*arrays, **options)), 4) + 0.0
        print("   ", word, str(result).replace("\n\n", "\n").replace("\n", "\n          "))


def changed(program: str, mistake: Mistake) -> list[str]:
    """The lines that a mistake changes, from the margin: the right with -, the wrong with +."""
    lines = diff(program, mistake).splitlines()
    texts = textwrap.dedent("\n".join(line[1:] for line in lines)).splitlines()
    return [f"{line[0]} {text}".rstrip() for line, text in zip(lines, texts, strict=True)]


def diff(name: str, mistake: Mistake, way: int = 0) -> str:
    """What a mistake changes in a program: the right lines with -, the wrong ones with +.

    Lines that only come stand below the line that they follow.
    """
    right, wrong = find_program(name).source, written(name, mistake, ways=[way])
    texts = right.splitlines(), wrong.splitlines()
    lines = []
    for what, a, b, c, d in difflib.SequenceMatcher(None, *texts).get_opcodes():
        if what != "equal":
            above = texts[0][a - 1 : a] if what == "insert" else []
            lines += [f" {line}" for line in above]
            lines += [f"-{line}" for line in texts[0][a:b]] + [f"+{line}" for line in texts[1][c:d]]
    return "\n".join(lines)


def _named(program: str, name: str) -> Mistake:
    found = {mistake.name: mistake for mistake in mistakes_of(program)}
    if name not in found:
        raise LookupError(f"{program} carries no mistake {name!r}; it carries {', '.join(found)}.")
    return found[name]
