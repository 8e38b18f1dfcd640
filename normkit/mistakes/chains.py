"""Right algorithms as chains of named steps, and mistakes as other versions of some steps.

A step is a function whose parameters name the inputs and the earlier steps that it needs; `xp` is
the library of the arrays. An algorithm assembles its chain into what a student is asked to write.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any

Steps = Mapping[str, Callable]


def run(steps: Steps, **values: Any) -> dict[str, Any]:
    """The inputs and what every step of the chain makes of them."""
    for name, step in steps.items():
        code = step.__code__
        values[name] = step(*(values[wanted] for wanted in code.co_varnames[: code.co_argcount]))
    return values


def chain(steps: type) -> Steps:
    """The functions of a class body, by name and in order."""
    return {name: step for name, step in vars(steps).items() if isinstance(step, FunctionType)}


@dataclass(frozen=True)
class Algorithm:
    """Steps, what they make, the chapter that teaches them, and where their mistakes are explained.

    chapter: the page of the book, or a place on it, such as why#why-variance.
    prefix: begins the labels of its mistakes, on the page `book`.
    contains: the algorithms whose steps, and so whose mistakes, are part of it.
    """

    steps: Steps
    assemble: Callable[[Steps], Any] | None
    chapter: str
    prefix: str
    contains: tuple[str, ...] = ()
    book: str = "mistakes"


ALGORITHMS: dict[str, Algorithm] = {}


@dataclass(frozen=True, eq=False)
class Mistake:
    """A mistake by name: the steps of the algorithm `of` that it changes, and what to say of it.

    label: the place in the book, on the page `page`, that explains it.
    met: where it was met in the wild, if it was.
    """

    name: str
    of: str
    changes: Steps
    message: str
    label: str
    met: str = ""

    @property
    def page(self) -> str:
        return ALGORITHMS[self.of].book

    @property
    def wrong(self) -> Any:
        """The answer of a student who makes this mistake and no other."""
        return combine(self.of, self)


MISTAKES: list[Mistake] = []


def combine(algorithm: str, *mistakes: Mistake) -> Any:
    """The algorithm with these mistakes in it; without any, the right one."""
    steps = dict(ALGORITHMS[algorithm].steps)
    for mistake in mistakes:
        steps |= mistake.changes
    return ALGORITHMS[algorithm].assemble(steps)


def mistakes_of(algorithm: str) -> list[Mistake]:
    """The mistakes that `algorithm` can carry: its own and those of what it contains.

    One of its own replaces those of the same name, to say the same thing in other words.
    """
    steps, origins = ALGORITHMS[algorithm].steps, _origins(algorithm)
    own = {m.name for m in MISTAKES if m.of == algorithm}
    return [
        m
        for m in MISTAKES
        if m.of in origins
        and (m.of == algorithm or m.name not in own)
        and m.changes.keys() <= steps.keys()
        and not m.changes.items() <= steps.items()  # right here, a mistake elsewhere
    ]


def _origins(algorithm: str) -> set[str]:
    return {algorithm}.union(*map(_origins, ALGORITHMS[algorithm].contains))


def of(algorithm: str) -> Callable[[type], Mistake]:
    """Make a Mistake of a class: its name, its `message`, and as functions the wrong steps."""

    def record(wrong: type) -> Mistake:
        slug = f"{ALGORITHMS[algorithm].prefix}-mistake-{wrong.__name__.replace('_', '-')}"
        label = getattr(wrong, "label", slug)
        met = getattr(wrong, "met", "")
        mistake = Mistake(wrong.__name__, algorithm, chain(wrong), wrong.message, label, met)
        MISTAKES.append(mistake)
        return mistake

    return record
