"""Proves the assignments by mutants: `python -m classroom.mutants [assignment …]`.

Each mistake of the catalogue takes the place of an answer in a released notebook, which nbgrader
grades as it grades a student's: the mistake must lose the points of the tests that target it, and
be named in the feedback. Pairs of mistakes are judged by the tasks themselves.
"""

import argparse
import os
import random
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tqdm import tqdm

from classroom.planting import Answer, answers, filled, note, turns
from classroom.trial import ROOT, course, grade, released
from normkit.tutor.judging import Trial, differences, trials
from normkit.tutor.observing import observe
from normkit.tutor.tasks import find

CHUNK = 50  # pairs that a process judges before it reports
NAMED = 0.95  # of the mistakes, at least

Pair = tuple[int, int]  # the places of two mistakes among those of a task


# --- Pairs of mistakes, judged ----------------------------------------------------------------


def pairs_of(task: str, limit: int) -> list[Pair]:
    """The pairs of mistakes in a program that show; a fixed sample if there are too many."""
    every = [(i, trial) for i, trial in enumerate(trials(find(task), 0)) if trial.wrong]
    pairs = [
        (i, j)
        for (i, a), (j, b) in combinations(every, 2)
        if a.program == b.program and a.mistakes != b.mistakes
    ]
    return random.Random(0).sample(pairs, limit) if len(pairs) > limit else pairs


def passing(name: str, seed: int, pairs: list[Pair]) -> list[str]:
    """The pairs of mistakes that a task takes for a right answer."""
    task, found = find(name), []
    for one, other in ([trials(task, 0)[i] for i in pair] for pair in pairs):
        made, ways = one.mistakes + other.mistakes, one.ways + other.ways
        with suppress(ValueError):  # they rewrite the same words
            seen = observe(Trial(task, seed, one.program, made, ways).answer, task, seed)
            if not seen.ready_made and not any(differences(seen, task, seed)):
                found.append(f"{' + '.join(mistake.name for mistake in made)} ({name})")
    return found


# --- All together, over the cores -------------------------------------------------------------


def prove(names: list[str], pairs: int, sample: int | None = None) -> list[Answer]:
    """Grade the mistakes of assignments, all or a sample of notebooks, and judge their pairs."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # there is a process for each core
    with (
        TemporaryDirectory() as temporary,
        ProcessPoolExecutor(mp_context=get_context("spawn")) as pool,
    ):
        folder = Path(temporary, "course")
        sources = course(folder, names)
        every = {name: answers(source) for name, source in sources.items()}
        jobs = [job for name in names for job in _notebooks(folder, name, every[name], sample)]
        for (of, turn), result in _done(pool, grade, jobs, "Grading notebooks"):
            for answer, mistake in zip(of, turn, strict=True):
                note(answer, mistake, *result)
        found = [answer for of in every.values() for answer in of]
        for answer, passed in _done(pool, passing, _judgements(found, pairs), "Judging pairs"):
            answer.passed += passed
    return found


def _notebooks(folder: Path, name: str, of: list[Answer], sample: int | None) -> Iterator[tuple]:
    """The notebooks to grade, the sample evenly spread, each with what it is about."""
    release, every = released(folder, name), turns(of)
    for number in range(count := min(sample or len(every), len(every))):
        turn = every[number * len(every) // count]
        yield (folder, name, f"mutant-{number}", filled(release, of, turn)), (of, turn)


def _judgements(every: list[Answer], limit: int) -> Iterator[tuple]:
    """The pairs to judge: by the task that diagnoses, and by each test."""
    for answer in every:
        tests = {task: seed for task, seed, _ in answer.tests.values()}
        for task, seed in ({answer.task: 0} | tests).items():
            pairs = pairs_of(task, limit)
            answer.pairs += len(pairs)
            for i in range(0, len(pairs), CHUNK):
                yield (task, seed, pairs[i : i + CHUNK]), answer


def _done(pool: ProcessPoolExecutor, do: Callable, jobs: Any, what: str) -> Iterator[tuple]:
    """What each job is about and its result, as they are done."""
    about = {pool.submit(do, *job): of for job, of in jobs}
    try:
        for future in tqdm(as_completed(about), total=len(about), desc=what):
            yield about[future], future.result()
    finally:  # after an error the others need not run
        for future in about:
            future.cancel()


# --- The report -------------------------------------------------------------------------------

COLUMNS = "task", "mistakes", "caught", "named", "named %", "pairs", "passed"
TITLES = {
    "escaped": "Not caught",
    "unnamed": "Not named",
    "passed": "Pairs that pass",
    "lost": "Right answers that lose points when others are wrong",
}


def report(every: list[Answer]) -> str:
    """A row for each answer, the total, and by name whatever is not as it must be."""
    rows = [COLUMNS, *(_row(answer.task, [answer]) for answer in every), _row("total", every)]
    width = max(len(name) for name, *_ in rows)
    lines = ["".join([f"{r[0]:{width}}", *(f"{value:>10}" for value in r[1:])]) for r in rows]
    for kind, title in TITLES.items():
        found = {f"  {answer.task}: {what}" for answer in every for what in getattr(answer, kind)}
        lines += [f"{title}:", *sorted(found)] if found else []
    return "\n".join(lines)


def _row(name: str, of: list[Answer]) -> tuple:
    graded, escaped, unnamed, pairs, passed = _totals(of)
    named = graded - unnamed
    share = f"{100 * named / graded:.1f}" if graded else "–"
    return name, graded, graded - escaped, named, share, pairs, passed


def _totals(of: list[Answer]) -> list[int]:
    counts = ((a.graded, len(a.escaped), len(a.unnamed), a.pairs, len(a.passed)) for a in of)
    return list(map(sum, zip(*counts, strict=True)))


def proved(every: list[Answer]) -> bool:
    """Whether all mistakes are caught, nearly all named, and nothing else is wrong."""
    graded, _, unnamed, *_ = _totals(every)
    wrong = any(answer.escaped or answer.passed or answer.lost for answer in every)
    return not wrong and unnamed <= (1 - NAMED) * graded


def main() -> int:
    """Prove, and print the report."""
    known = sorted(path.stem for path in (ROOT / "solutions").glob("*.md"))
    arguments = argparse.ArgumentParser(prog="mutants", description=__doc__)
    arguments.add_argument("assignment", nargs="*", help=f"of {', '.join(known)}; default: all")
    arguments.add_argument("--pairs", type=int, default=2000, help="judge at most so many a task")
    arguments.add_argument("--sample", type=int, help="grade so many notebooks an assignment")
    asked = arguments.parse_args()
    if unknown := set(asked.assignment) - set(known):
        arguments.error(f"there is no {', '.join(unknown)}; there are: {', '.join(known)}")
    every = prove(asked.assignment or known, asked.pairs, asked.sample)
    print(report(every))
    return 0 if proved(every) else 1


if __name__ == "__main__":
    sys.exit(main())
