"""Parts of tasks: a share of a task, with points of its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from normkit.judging import _agree
from normkit.mistakes import Mistake, combine
from normkit.observing import Probe, Result, Task, find, run_probe


@dataclass(frozen=True, eq=False)
class Part(Task):
    """A share of another task, with points of its own: its mistakes are those that show there.

    Of several that look alike there it knows one, if possible of its own algorithm.
    """

    @cached_property
    def mistakes(self) -> list[Mistake]:
        probes = self.draw(0)
        own_first = sorted(super().mistakes, key=lambda mistake: mistake.of != self.algorithm)
        told: dict[Mistake | None, list[Result]] = {}
        for made in (None, *own_first):
            answer = combine(self.algorithm, *([made] if made else []))
            results = [run_probe(answer, self, probe) for probe in probes]
            if not any(_same(results, others, probes) for others in told.values()):
                told[made] = results
        return [mistake for mistake in told if mistake]


def _same(results: Sequence[Result], others: Sequence[Result], probes: Sequence[Probe]) -> bool:
    return all(map(_agree, results, others, probes))


def any_inputs(**_given) -> bool:
    """Keep every probe."""
    return True


def part(name: str, whole: Task | str, keep: Callable[..., bool] = any_inputs, **others) -> Part:
    """The part of a task on the probes whose inputs are to keep; `others` change its fields."""

    def probes(rng):
        return [probe for probe in find(whole).probes(rng) if keep(**probe.inputs)]

    return Part(**{**vars(find(whole)), "name": name, "probes": probes, **others})
