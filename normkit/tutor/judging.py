"""Second half of a task: compare what was observed with the reference and with every mistake.

No student's code runs here: the inputs are drawn again from the seed.
"""

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from math import isfinite
from pkgutil import resolve_name
from typing import Any

import numpy as np

from normkit.tutor.mistakes import Mistake, combine
from normkit.tutor.observing import Observation, Result, one_thread, run_probe
from normkit.tutor.tasks import Probe, Task, find
from normkit.tutor.troubles import kind, refuses

MANY = 4  # results are tried in all orders
DECIMALS = range(1, 6)  # to which results are rounded
NOTHING = np.empty(0)  # a result that is missing
SMALL = 8  # an array of so many numbers is shown whole


@dataclass(frozen=True)
class Difference:
    """How a result first differs: `what`, on which probe, in which result, what came for what."""

    what: str
    probe: Probe
    name: str = ""
    came: Any = None
    expected: Any = None


@dataclass(frozen=True)
class Verdict:
    """The judgement: passed, or the mistakes that explain the results, and what first differs.

    program: the right program whose mistakes these are. alone: the mistakes that explain one
    result each, where none explain all. right: the results that are right on all probes. missing:
    those that are None. unfilled: those that are arrays of zeros. shared: wrong gradients that hold
    the same numbers. order: for each result, which came in its place. rounded: whether all are
    right but for that. changed: the inputs that were changed in place. seen: what was observed on
    the probe of the difference. unlike: whether the mistakes raise another exception there. raised:
    the same of one that they do not explain.
    """

    task: Task
    count: int
    difference: Difference | None = None
    mistakes: tuple[Mistake, ...] = ()
    program: str = ""
    alone: Mapping[str, tuple[Mistake, ...]] = field(default_factory=dict)
    right: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unfilled: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    order: Mapping[str, str] = field(default_factory=dict)
    rounded: bool = False
    changed: tuple[str, ...] = ()
    seen: Result = field(default_factory=Result)
    unlike: bool = False
    raised: "Verdict | None" = None

    @property
    def passed(self) -> bool:
        return self.difference is None

    @property
    def first(self) -> Difference:
        """The difference, where there is one."""
        if self.difference is None:
            raise ValueError(f"{self.task.name} is right: nothing differs.")
        return self.difference

    @property
    def untouched(self) -> bool:
        found = self.difference
        unwritten = NotImplementedError.__name__
        return bool(found and found.what == "error" and found.came == unwritten)

    def as_data(self) -> dict[str, Any]:
        """What a report needs, without words: the mistakes by their names."""
        names = [mistake.key for mistake in self.mistakes]
        return {"task": self.task.name, "passed": self.passed, "mistakes": names}

    def explain(self, language: str = "en") -> str:
        """The verdict in words, with numbers and where to read on; at most about ten lines."""
        from normkit.tutor.wording import explain  # which needs verdicts

        return explain(self, language)


def judge(observation: Observation, task: Task | str, seed: int = 0) -> Verdict:
    """Compare an observation with the reference and with the mistakes; runs no student's code."""
    task = _judged_by(observation, find(task))
    with one_thread():
        return _judged(observation, task, seed)


def _judged(observation: Observation, task: Task, seed: int) -> Verdict:
    case = _case(observation, task, seed)
    verdict = Verdict(task, len(case.probes))
    if observation.ready_made:
        called = Difference("ready_made", case.probes[0], observation.ready_made[0])
        return replace(verdict, difference=called)
    if (first := case.first_difference()) is None:
        return verdict
    number = next(i for i, probe in enumerate(case.probes) if probe is first.probe)
    verdict = replace(verdict, difference=first, seen=case.seen[number])
    return verdict if verdict.untouched else _diagnosed(verdict, case)


def differences(observation: Observation, task: Task, seed: int = 0) -> list[Difference | None]:
    """How the result on each probe first differs from the reference, None where it does not."""
    return _case(observation, _judged_by(observation, task), seed).differences()


def _judged_by(observation: Observation, task: Task) -> Task:
    """The task, or that which takes its place for a layer without PyTorch."""
    return find(task.plain) if observation.plain and task.plain else task


def reference(task: Task) -> Any:
    """What is right: the function of the library that the task names, or its first program."""
    return resolve_name(task.reference) if task.reference else combine(task.programs[0])


# --- What was seen, what is right, and what mistakes make of the probes -----------------------


@dataclass(frozen=True)
class Case:
    """The probes of a task, what was seen on them, and what is right."""

    task: Task
    seed: int
    probes: Sequence[Probe]
    seen: Sequence[Result]
    right: Sequence[Result]

    def differences(self) -> list[Difference | None]:
        of = zip(self.probes, self.seen, self.right, strict=True)
        return [_difference(self.task, *one) for one in of]

    def first_difference(self) -> Difference | None:
        return next(filter(None, self.differences()), None)

    def only(self, names: Iterable[str]) -> "Case":
        """The case as if these were all results."""
        kept = set(names)
        return replace(self, seen=_only(kept, self.seen), right=_only(kept, self.right))

    @cached_property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for result in self.right for name in result.values))

    @cached_property
    def wrong(self) -> frozenset[tuple[int, str]]:
        """The results that are wrong, by the number of the probe and the name; "" for an error."""
        return _wrong(self.task, self.probes, self.seen, self.right)

    @cached_property
    def returned_wrong(self) -> bool:
        """Whether a wrong result was returned, rather than prevented by an exception."""
        return any(name in self.seen[number].values for number, name in self.wrong)

    @cached_property
    def wrong_on(self) -> frozenset[int]:
        """The numbers of the probes where a result is wrong."""
        return frozenset(number for number, _name in self.wrong)


def _case(observation: Observation, task: Task, seed: int) -> Case:
    probes, right = drawn(task, seed)
    if len(observation.results) != len(probes):
        came = len(observation.results)
        raise ValueError(f"{task.name} has {len(probes)} probes, but {came} were observed.")
    return Case(task, seed, probes, observation.results, right)


@lru_cache(64)
def drawn(task: Task, seed: int) -> tuple[Sequence[Probe], Sequence[Result]]:
    """The probes of a seed, and what is right on them."""
    probes, right = task.draw(seed), reference(task)
    return probes, [run_probe(right, task, probe) for probe in probes]


def _only(names: set[str], results: Sequence[Result]) -> list[Result]:
    def part(of: Mapping) -> dict:
        return {name: value for name, value in of.items() if name in names}

    return [Result(part(r.values), part(r.kinds)) for r in results]


def _wrong(
    task: Task, probes: Sequence[Probe], seen: Sequence[Result], right: Sequence[Result]
) -> frozenset[tuple[int, str]]:
    found = set()
    for i, (probe, a, b) in enumerate(zip(probes, seen, right, strict=True)):
        found |= {(i, name) for name in b.values if not _near(a, b, name, probe.tolerance)}
        found |= {(i, name) for name in b.kinds if a.kinds.get(name) != b.kinds[name]}
        found |= {(i, "")} if a.error != b.error else set()
        found |= {(i, "modified")} if a.modified != b.modified else set()
    return frozenset(found)


def _near(a: Result, b: Result, name: str, tolerance: float) -> bool:
    both = name in a.values and name in b.values
    return both and distance(a.values[name], b.values[name]) <= tolerance


class Trial:
    """Mistakes in a program, and what they make of the probes: each is run once, if ever."""

    def __init__(
        self,
        task: Task,
        seed: int,
        program: str,
        mistakes: tuple[Mistake, ...],
        ways: tuple[int, ...] = (),
    ) -> None:
        self.task, self.program, self.mistakes, self.ways = task, program, mistakes, ways
        self.probes, self.right = drawn(task, seed)
        self.results: dict[tuple[int, bool], Result] = {}

    @cached_property
    def answer(self) -> Any:
        return combine(self.program, *self.mistakes, ways=self.ways)

    def result(self, number: int, exact: bool = False) -> Result:
        """What comes on a probe; exact: on the same numbers in float64."""
        if (number, exact) not in self.results:
            probe = self.probes[number]
            probe = replace(probe, inputs=_precise(probe.inputs)) if exact else probe
            self.results[number, exact] = run_probe(self.answer, self.task, probe)
        return self.results[number, exact]

    @cached_property
    def wrong(self) -> frozenset[tuple[int, str]]:
        seen = [self.result(number) for number in range(len(self.probes))]
        return _wrong(self.task, self.probes, seen, self.right)

    def explains(self, case: Case, names: set[str] | None = None) -> bool:
        """Whether these mistakes return what was seen on all probes; of these results only.

        Where all probes raise, and nothing wrong is returned, the exceptions must be the same.
        """
        if not all(self.returns(case, i, names) for i in range(len(self.probes))):
            return False
        told = case.returned_wrong or not all(seen.error for seen in case.seen)
        return told or all(self.raises_like(case, i) for i in range(len(self.probes)))

    def raises_like(self, case: Case, number: int) -> bool:
        """Whether the exception on a probe is the one that was seen, names and shapes aside."""
        return _opening(self.result(number).error) == _opening(case.seen[number].error)

    def number_explained(self, case: Case, names: set[str] | None = None) -> int:
        """On how many probes they return what was seen: the more, the likelier among several."""
        return sum(self.returns(case, i, names) for i in range(len(self.probes)))

    def spares(self, names: Container[str]) -> bool:
        """Whether they leave these results right."""
        return not any(name in names for _number, name in self.wrong)

    def repeats(self, case: Case, names: set[str] | None, like: bool) -> bool:
        """Whether they return what was seen and raise the same; like: but for names and shapes.

        The probes where the answer is wrong come first: they tell most.
        """
        numbers = sorted(range(len(self.probes)), key=case.wrong_on.__contains__, reverse=True)
        return all(
            self.returns(case, i, names)
            and (self.raises_like(case, i) if like else self.result(i).error == case.seen[i].error)
            for i in numbers
        )

    def exchanges(self) -> bool:
        """Whether every wrong result is a right one, of another name."""
        return all(
            any(
                other != name and distance(self.result(i).values.get(name, NOTHING), value) == 0
                for other, value in self.right[i].values.items()
            )
            for i, name in self.wrong
        )

    def is_part_of(self, other: "Trial") -> bool:
        """Whether they spoil fewer results than others, and return the same where they do."""
        own, whole = ({name for _number, name in trial.wrong} for trial in (self, other))
        return own < whole and all(
            _near(self.result(i), other.result(i), name, self.probes[i].tolerance)
            for i, name in self.wrong
        )

    def agrees_on(self, case: Case, places: Iterable[tuple[int, str]]) -> bool:
        """Whether they return what was seen in these places."""
        return all(
            _fail_alike(case.seen[i], self.result(i))
            if name == ""
            else _near(case.seen[i], self.result(i), name, self.probes[i].tolerance)
            for i, name in places
        )

    def returns(self, case: Case, number: int, names: set[str] | None = None) -> bool:
        """Whether what was seen on a probe comes of them, or the same failure; of these results."""
        probe, seen = self.probes[number], case.seen[number]

        def part(result: Result) -> Result:
            return result if names is None else _only(names, [result])[0]

        if not set(self.result(number).modified) <= set(seen.modified):
            return False
        if not probe.rough:
            return agree(seen, part(self.result(number)), probe)
        exact = part(self.result(number, exact=True))
        return agree(seen, exact, probe) == agree(part(self.result(number)), exact, probe)


Trials = tuple[Trial, ...]


@lru_cache(64)
def trials(task: Task, seed: int) -> list[Trial]:
    """Every mistake that is looked for, in each program of the task and each way to write it."""
    return [
        Trial(task, seed, program, (mistake,), (way,))
        for program in task.programs
        for mistake in task.mistakes(program)
        for way in range(mistake.number_of_ways(program))
    ]


# --- What explains it -------------------------------------------------------------------------


def _diagnosed(verdict: Verdict, case: Case) -> Verdict:
    """What explains all results; else what explains those that are not None; else each alone."""
    fine = tuple(n for n in case.names if case.only([n]).first_difference() is None)
    missing = tuple(n for n in case.names if _is_none(n, case))
    unfilled = tuple(n for n in case.names if _is_unfilled(n, case))
    shared = _shared([n for n in case.names if n not in (*fine, *unfilled)], case)
    verdict = replace(verdict, right=fine, missing=missing, unfilled=unfilled, shared=shared)
    if missing and any(result.error for result in case.seen):
        return _broken(verdict, case)
    order = _order(case)
    if trial := _explaining(case, several=not order):
        return _told(replace(verdict, right=(), missing=()), trial, case)
    if order:
        return replace(verdict, right=(), order=order, changed=_changed(case))
    if any(_is_rounded(case, decimals) for decimals in DECIMALS):
        return replace(verdict, right=(), rounded=True)
    if missing:
        written = set(case.names) - set(missing)
        rest = case.only(written)
        if (first := rest.first_difference()) is None:
            return replace(verdict, difference=Difference("missing", case.probes[0]))
        verdict = replace(verdict, difference=first)
        if trial := _explaining(rest, written):
            return _told(verdict, trial, rest)
    several = len(case.names) > 1
    verdict = verdict if several else replace(verdict, right=())
    if verdict.first.what == "error":  # which says more than any mistake about other results
        return verdict
    if trial := _but_for_exceptions(case):
        return _told(replace(verdict, right=(), raised=_raised(verdict, case)), trial, case)
    if changed := _changed(case):  # whatever else is wrong may come of that
        return replace(verdict, changed=changed if verdict.first.what != "modified" else ())
    return _each_alone(verdict, case) if several else verdict


def _broken(verdict: Verdict, case: Case) -> Verdict:
    """With the first exception of a student's line; without one, if they all come of a None."""
    for probe, seen in zip(case.probes, case.seen, strict=True):
        if seen.line and not seen.tested and "NoneType" not in seen.error:
            raised = Difference("error", probe, came=seen.error)
            return replace(verdict, difference=raised, seen=seen)
    return replace(verdict, difference=Difference("missing", case.probes[0]))


def _but_for_exceptions(case: Case) -> Trial | None:
    """The only mistake that returns all that was, where at most half of the probes raise."""
    returned = {i for i, seen in enumerate(case.seen) if not seen.error}
    if not len(case.seen) / 2 <= len(returned) < len(case.seen):
        return None
    every = trials(case.task, case.seed)
    able = {t.mistakes: t for t in every if all(t.returns(case, i) for i in returned)}
    return next(iter(able.values())) if len(able) == 1 else None


def _raised(verdict: Verdict, case: Case) -> Verdict:
    """What there is to tell of the first exception."""
    number = next(i for i, seen in enumerate(case.seen) if seen.error)
    found = Difference("error", case.probes[number], came=case.seen[number].error)
    return replace(verdict, difference=found, seen=case.seen[number])


def _order(case: Case) -> dict[str, str]:
    """For each result, which came in its place: if all are right, but in another order."""
    every = [result.values.keys() for result in (*case.seen, *case.right)]
    if not 1 < len(case.names) <= MANY or any(keys != {*case.names} for keys in every):
        return {}
    orders = (dict(zip(case.names, of, strict=True)) for of in itertools.permutations(case.names))
    found = next((order for order in orders if _is_order(case, order)), {})
    return {} if list(found) == list(found.values()) else found  # the first: as they should come


def _is_order(case: Case, order: Mapping[str, str]) -> bool:
    return all(
        distance(seen.values[name], right.values[came]) <= probe.tolerance
        for probe, seen, right in zip(case.probes, case.seen, case.right, strict=True)
        for name, came in order.items()
    )


def _is_rounded(case: Case, decimals: int) -> bool:
    """Whether the results are what is right, rounded to so many decimals; not those by hand."""

    def part(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {n: v.round(decimals) if v.dtype.kind == "f" else v for n, v in values.items()}

    rounded = [replace(result, values=part(result.values)) for result in case.right]
    computed = all(probe.inputs for probe in case.probes)
    return computed and bool(case.wrong) and not _wrong(case.task, case.probes, case.seen, rounded)


def _changed(case: Case, but: Container[str] = ()) -> tuple[str, ...]:
    """The inputs that were changed in place."""
    every = dict.fromkeys(name for result in case.seen for name in result.modified)
    return tuple(name for name in every if name not in but)


def _told(verdict: Verdict, trial: Trial, case: Case) -> Verdict:
    """With these mistakes, and the inputs that were changed although they do not change them."""
    own = {name for i in range(len(case.probes)) for name in trial.result(i).modified}
    mistakes, program = tuple(trial.mistakes), trial.program
    number = next(i for i, probe in enumerate(case.probes) if probe is verdict.first.probe)
    unlike = not trial.raises_like(case, number)
    verdict = replace(verdict, mistakes=mistakes, program=program, unlike=unlike)
    return replace(verdict, changed=_changed(case, own))


def _is_none(name: str, case: Case) -> bool:
    """Whether a result is None wherever it was returned, and was to be something else."""
    pairs = zip(case.seen, case.right, strict=True)
    kinds = {(a.kinds[name], b.kinds.get(name)) for a, b in pairs if name in a.kinds}
    return bool(kinds) and all(kind == "NoneType" != wanted for kind, wanted in kinds)


def _is_unfilled(name: str, case: Case) -> bool:
    """Whether a result is an array of zeros, as np.zeros makes it, wherever it was returned."""
    came = [result.values[name] for result in case.seen if name in result.values]
    return bool(came) and all(a.ndim and a.dtype.kind in "if" and not a.any() for a in came)


def _shared(wrong: Sequence[str], case: Case) -> tuple[str, ...]:
    """The first gradients that hold the same numbers on all probes, as one array would."""

    def same(a: str, b: str) -> bool:
        have = all({a, b} <= seen.values.keys() for seen in case.seen)
        pairs = ((seen.values[a], seen.values[b]) for seen in case.seen)
        return have and all(x.ndim and np.array_equal(x, y) for x, y in pairs)

    gradients = [name for name in wrong if re.match("d[a-z]+$", name)]
    alike = (tuple(b for b in gradients if same(a, b)) for a in gradients)
    return next((names for names in alike if len(names) > 1), ())


def _explaining(case: Case, names: set[str] | None = None, several: bool = True) -> Trial | None:
    """The mistake that returns on all probes what was seen; failing that, several together.

    Where nothing is returned, several would explain no more than the one that raises.
    """
    every = trials(case.task, case.seed)
    if found := next((trial for trial in every if trial.explains(case, names)), None):
        return found
    several = several and case.task.at_once > 1 and any(result.values for result in case.seen)
    return _together(case, every, names) if several else None


def _together(case: Case, every: list[Trial], names: set[str] | None) -> Trial | None:
    """Two mistakes that return what was seen, or as many as do not depend on each other.

    Only those are tried of which each is wrong somewhere, and one wherever a result is wrong.
    Exceptions must be those that were seen: after its first value, one is as good as another.
    """
    able = [trial for trial in every if trial.wrong & case.wrong]
    able.sort(key=lambda trial: trial.number_explained(case, names), reverse=True)
    sets: Iterable[Trials] = itertools.combinations(able, 2)
    if case.task.at_once > 2:
        sets = [_gathered(case, able)]
    covering = [of for of in sets if _cover(case, of)]
    likely = sorted(covering, key=lambda of: _unlikely(case, of))[: case.task.pairs]
    likely = [tuple(sorted(of, key=every.index)) for of in likely]
    for of in likely:
        if both := _repeating(case, of, names):
            if any(_repeating(case, rival, names) for rival in _rivals(case, of, likely)):
                return None
            less = (_repeating(case, some, names) for some in _narrower(case, of, able))
            return next(filter(None, less), both)
    return None


def _rivals(case: Case, of: Trials, likely: list[Trials]) -> Iterator[Trials]:
    """Those with another in the place of one that only spoils truths, words or whole numbers.

    Those fit easily, where an exception hides the rest.
    """
    facts = _facts(case.names, case) | {""}
    for one, kept in itertools.permutations(of, 2) if len(of) == 2 else ():
        own = {name for _number, name in (one.wrong - kept.wrong) & case.wrong}
        if own and own <= facts:
            every = (some for some in likely if kept in some)
            yield from (some for some in every if one.mistakes not in [t.mistakes for t in some])


def _repeating(case: Case, of: Trials, names: set[str] | None) -> Trial | None:
    """Mistakes together, if they return what was seen."""
    with suppress(ValueError):  # they rewrite the same words
        both = _both(of, case.seed)
        return both if both.repeats(case, names, case.returned_wrong) else None
    return None


def _narrower(case: Case, of: Trials, able: list[Trial]) -> Iterator[Trials]:
    """With a part of one in its place: what another one hides of it goes unsaid."""
    for old, new in itertools.product(of, able):
        some = tuple(new if trial is old else trial for trial in of)
        if new.is_part_of(old) and _cover(case, some):
            yield some


def _gathered(case: Case, able: list[Trial]) -> Trials:
    """Mistakes that are wrong in different places, as the answer is there."""
    chosen, left = list[Trial](), case.wrong
    for trial in sorted(able, key=lambda trial: -len(trial.wrong)):
        if trial.wrong <= left and trial.agrees_on(case, trial.wrong):
            chosen, left = [*chosen, trial], left - trial.wrong
    return tuple(chosen)


def _cover(case: Case, of: Sequence[Trial]) -> bool:
    """Whether mistakes of one program, no two of one name, are wrong wherever the answer is."""
    one = len({trial.program for trial in of}) == 1
    different = len({trial.mistakes for trial in of}) == len(of)
    return one and different and case.wrong <= frozenset().union(*(trial.wrong for trial in of))


def _unlikely(case: Case, of: Sequence[Trial]) -> bool:
    """Whether the answer is not as one of them where that alone is wrong."""
    wrong = Counter(place for trial in of for place in trial.wrong)
    alone = {place for place, count in wrong.items() if count == 1 and place[1] in case.names}
    return not all(trial.agrees_on(case, sorted(trial.wrong & alone)[:3]) for trial in of)


@lru_cache(8192)  # in a class the same are tried again and again
def _both(of: Trials, seed: int) -> Trial:
    mistakes = [mistake for trial in of for mistake in trial.mistakes]
    ways = [way for trial in of for way in trial.ways]
    return Trial(of[0].task, seed, of[0].program, tuple(mistakes), tuple(ways))


def _each_alone(verdict: Verdict, case: Case) -> Verdict:
    """With the mistake that explains a wrong result by itself, for each for which just one does.

    It must leave right what is right; and be seen wherever it makes a truth or a whole number
    wrong, which fit easily; and a word, such as names and shapes, unless it explains words. One
    that is not seen there keeps others from being the only one: it may be there with another.
    Another order, and what explains but a truth, must be seen in all that they make wrong.
    """
    alone = dict[str, tuple[Mistake, ...]]()
    for names in _together_by_call(case.names):
        told = (*verdict.right, *verdict.missing, *verdict.unfilled)
        wrong = [name for name in names if name not in told]
        if wrong and all(_came(name, case) for name in names):
            part, every = case.only(names), trials(case.task, case.seed)
            facts = _facts(names, case)
            able = {
                trial.mistakes: trial
                for trial in every
                if trial.explains(part, {*names}) and trial.spares(verdict.right)
            }
            if len(able) != 1 or not part.wrong:
                continue
            ((found, trial),) = able.items()
            whole = trial.exchanges() or facts.issuperset(names)
            if trial.agrees_on(case, (p for p in trial.wrong if whole or p[1] in facts)):
                alone |= dict.fromkeys(wrong, found)
                verdict = replace(verdict, program=trial.program)
    made = tuple(dict.fromkeys(mistake for some in alone.values() for mistake in some))
    return replace(verdict, alone=alone, mistakes=made) if made else verdict


def _together_by_call(names: Iterable[str]) -> list[list[str]]:
    """The results one by one, but what one function returned for several inputs together."""
    groups = defaultdict[str, list[str]](list)
    for name in names:
        called = re.fullmatch(r"(\w+)\(.*\)", name)
        groups[called[1] if called else name].append(name)
    return list(groups.values())


def _facts(names: Iterable[str], case: Case) -> set[str]:
    """The results that are no real numbers; but no words, where these results are words."""
    kinds = {name: {r.kinds[name] for r in case.right if name in r.kinds} for name in case.names}
    words = all(kinds[name] == {"str"} for name in names)
    plain = {"bool", "int"} | (set() if words else {"str"})
    truths = {n for r in case.right for n, value in r.values.items() if value.dtype.kind == "b"}
    return {name for name, of in kinds.items() if of <= plain} | truths


def _came(name: str, case: Case) -> bool:
    """Whether a result was returned on all probes, without nan.

    What an exception has prevented says nothing, and nan comes of too much.
    """
    pairs = zip(case.seen, case.right, strict=True)
    return all(_is_told(seen.values.get(name)) for seen, right in pairs if name in right.values)


def _is_told(value: np.ndarray | None) -> bool:
    return value is not None and not (value.dtype.kind == "f" and np.isnan(value).any())


# --- Whether two results agree ----------------------------------------------------------------


def _precise(inputs: Mapping[str, Any]) -> dict[str, Any]:
    def wide(value: Any) -> Any:  # labels stay integers
        floats = isinstance(value, np.ndarray) and value.dtype.kind == "f"
        return value.astype(float) if floats else value

    return {name: wide(value) for name, value in inputs.items()}


# what libraries raise, now this and now that, for an array or a layer that does not fit
MISFITS = {"AxisError", "IndexError", "RuntimeError", "TypeError", "ValueError"}
NO_GRAPH = "does not have a grad_fn"


def agree(a: Result, b: Result, probe: Probe) -> bool:
    """Whether two results on a probe are the same, or fail in the same way."""
    return (
        _fail_alike(a, b)
        and a.values.keys() == b.values.keys()
        and all((a.kinds[k] == "NoneType") == (b.kinds[k] == "NoneType") for k in a.values)
        and all(distance(a.values[k], b.values[k]) <= probe.tolerance for k in a.values)
    )


def _fail_alike(a: Result, b: Result) -> bool:
    """Whether both fail in the same way; where b refuses on purpose, a does, too."""
    return _failure(a) == _failure(b) and (refuses(a.error) or not refuses(b.error))


def _failure(result: Result) -> str:
    """Whether and how it failed, the misfits being of one kind; after its first value most are."""
    name = result.error.split(":")[0]
    if NO_GRAPH in result.error:  # where nothing is recorded, nothing is spoilt in place
        return "graph"
    late = bool(name and result.values) and name != "AttributeError"
    return "misfit" if late else kind(result.error) if name in MISFITS else name


def _opening(error: str) -> list[str]:
    """The name of an exception, and the first words of what it says."""
    return re.findall(r"\w+", re.sub("'[^']*'", "", error))[:4]  # without names


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference, relative to the largest number of b; inf if not comparable."""
    if a.shape != b.shape:
        return np.inf
    if a.dtype.kind not in "iuf" or b.dtype.kind not in "iuf":
        return 0.0 if a.dtype.kind == b.dtype.kind and np.array_equal(a, b) else np.inf
    a, b = a.astype(float, copy=False), b.astype(float, copy=False)
    if not (finite := np.isfinite(b)).all():
        if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
            return np.inf
        a, b = a[finite], b[finite]
    gap = float(np.abs(a - b).max(initial=0))
    return gap / max(float(np.abs(b).max(initial=0)), 1e-3) if isfinite(gap) else np.inf


def _difference(task: Task, probe: Probe, seen: Result, right: Result) -> Difference | None:
    """What first differs from the reference, from the coarsest to the finest."""
    for name, expected in right.values.items():
        if name not in seen.values:
            break
        kinds = seen.kinds.get(name), right.kinds[name]
        if kinds[0] != kinds[1]:
            return Difference("type", probe, name, *kinds)
        came = seen.values[name]
        free = name in task.any_dtype
        if what := _array_difference(came, expected, probe, name in task.rows, free):
            return Difference(what, probe, name, came, expected)
    if seen.error:
        return Difference("error", probe, came=seen.error)
    if seen.values.keys() != right.values.keys():
        return Difference("results", probe, "", seen.kinds, right.kinds)
    if seen.modified:
        return Difference("modified", probe, ", ".join(seen.modified))
    return None


def _array_difference(
    came: np.ndarray, expected: np.ndarray, probe: Probe, rows: bool, free: bool
) -> str:
    if expected.dtype.kind != "f":
        return "" if distance(came, expected) == 0 else "values"
    if came.shape != expected.shape:
        return "axes" if _transposed(came, expected, probe.tolerance) else "shape"
    if came.dtype != expected.dtype and not (free and came.dtype.kind == "f"):
        return "dtype"
    if distance(came, expected) <= probe.tolerance:
        return ""
    if came.ndim and not np.isfinite(came).all():  # a number shows by itself that it is infinite
        return "nan"
    if rows and first_row(came, expected, probe.tolerance) is not None:
        return "statistics"
    return "values"


def _transposed(came: np.ndarray, expected: np.ndarray, tolerance: float) -> bool:
    """Whether the numbers are right, but the axes stand in another order."""
    if came.ndim != expected.ndim:
        return False
    orders = itertools.permutations(range(came.ndim))
    return any(distance(came.transpose(axes), expected) <= tolerance for axes in orders)


def first_row(came: np.ndarray, expected: np.ndarray, tolerance: float) -> tuple[int, ...] | None:
    """The first token whose mean or variance is not the expected one."""
    off = [abs(f(came, axis=-1) - f(expected, axis=-1)) > tolerance for f in (np.mean, np.var)]
    return next(iter(map(tuple, np.argwhere(off[0] | off[1]).tolist())), None)
