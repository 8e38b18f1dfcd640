"""The catalogue: each mistake applies, fails its tasks, is named, and is told from the others."""

import ast
import builtins
import itertools
import re
from pathlib import Path

import pytest

from normkit.tutor.judging import Trial, agree, distance, drawn, judge, trials
from normkit.tutor.mistakes import catalogue, combine, mistakes_of, read, written
from normkit.tutor.observing import Observation, run_probe
from normkit.tutor.programs import Program, Stale, find_program
from normkit.tutor.tasks import assignments, every_task
from tests.normkit.tutor.table import TABLE, table

TASKS = every_task()
PROGRAMS = sorted({program for task in TASKS.values() for program in task.programs})
MISTAKES = [mistake for assignment in assignments() for mistake in catalogue(assignment)[""]]


def together(names):
    """Parametrised tests of one task or program, run by one process: they share results."""
    return [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in names]


def judged(trial):
    """The verdict on an answer with these mistakes."""
    results = [trial.result(number) for number in range(len(trial.probes))]
    return judge(Observation(results), trial.task, 0)


# --- Tasks ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", together(TASKS))
def test_the_right_programs_are_right(name):
    for program, seed in itertools.product(TASKS[name].programs, range(2)):
        right = Trial(TASKS[name], seed, program, ())
        results = [right.result(number) for number in range(len(right.probes))]
        verdict = judge(Observation(results), TASKS[name], seed)
        assert verdict.passed, (program, seed, verdict.explain())


def gap(a, b, probe):
    """How far two results lie apart, in tolerances."""
    if a.error.split(":")[0] != b.error.split(":")[0] or a.values.keys() != b.values.keys():
        return float("inf")
    if a.modified != b.modified:
        return float("inf")
    return max((distance(a.values[k], b.values[k]) / probe.tolerance for k in a.values), default=0)


@pytest.mark.sample(10)
@pytest.mark.parametrize("name", together(TASKS))
def test_right_and_wrong_answers_lie_far_apart(name):
    task = TASKS[name]
    probes, right = drawn(task, 0)
    numbers = range(len(probes))
    enough = 1 if name.endswith("/predict") else 10  # √35 for 6, /128 for /127
    results = {(): right} | {
        (t.mistakes[0].name, t.ways): [t.result(number) for number in numbers]
        for t in trials(task, 0)
    }
    for a, b in itertools.combinations(results, 2):
        apart = max(map(gap, results[a], results[b], probes))
        same = a[:1] == b[:1] or (task.whole and apart <= 1)  # a part does not show everything
        assert apart > enough or same, (a, b, apart)


@pytest.mark.sample(55)
@pytest.mark.parametrize("name", together(TASKS))
def test_each_mistake_fails_its_task_and_is_named(name):
    for trial in trials(TASKS[name], 0):
        verdict = judged(trial)
        if TASKS[name].whole and (verdict.passed or verdict.mistakes != trial.mistakes):
            assert verdict.passed == (
                not trial.wrong
            )  # there it behaves as another, or does not show
            continue
        assert verdict.mistakes == trial.mistakes, verdict.explain()
        assert trial.mistakes[0].label in verdict.explain()
        assert len(verdict.explain().splitlines()) <= 10


@pytest.mark.sample(12)
@pytest.mark.parametrize("name", together(n for n, task in TASKS.items() if task.at_once > 1))
def test_two_mistakes_at_once_are_explained(name):
    every = [trial for trial in trials(TASKS[name], 0) if trial.wrong]
    pairs = [
        (a, b)
        for a, b in itertools.combinations(every, 2)
        if a.program == b.program and a.mistakes != b.mistakes
    ]
    found = [f for pair in pairs[:: 1 + len(pairs) // 16] if (f := named_of(*pair)) is not None]
    # the others hide each other: one fails before the second shows
    assert sum(map(bool, found)) >= len(found) / 2
    assert sum(number == 2 for number in found) >= 0.3 * len(found) - 1


def named_of(one, other):
    """How many of two mistakes are named, if any is; None if they cannot be made together."""
    made = one.mistakes + other.mistakes
    both = Trial(one.task, 0, one.program, made, one.ways + other.ways)
    try:
        verdict = judged(both)
    except ValueError:  # they rewrite the same words
        return None
    if verdict.passed:
        return None
    return 2 if set(verdict.mistakes) == set(made) else len(verdict.mistakes)


# --- Programs and what is changed in them -----------------------------------------------------

VARIANTS = [
    (program, mistake, way)
    for program in PROGRAMS
    for mistake in mistakes_of(program)
    for way in range(mistake.number_of_ways(program))
]


def unknown_names(program, source):
    """The names that a program reads and nobody defines."""
    tree = ast.parse(source)
    known = {*dir(builtins), *program.knows}
    known |= {
        n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    known |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    known |= {n.name for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} - known


@pytest.mark.parametrize("name", together(PROGRAMS))
def test_every_wrong_program_compiles_and_knows_its_names(name):
    right = find_program(name)
    assert not unknown_names(right, right.source)
    for of in (name, *right.calls().values()):
        for program, mistake, way in VARIANTS:
            if program == name:
                source = written(of, mistake, ways=[way])
                assert not unknown_names(find_program(of), source), (of, mistake.where)
    for program, mistake, way in VARIANTS:
        if program == name:
            combine(name, mistake, ways=[way])


@pytest.mark.sample(30)
@pytest.mark.parametrize("name", together(TASKS))
def test_no_wrong_program_raises_for_want_of_a_name(name):
    for trial in trials(TASKS[name], 0):
        for number in range(len(trial.probes)):
            error = trial.result(number).error
            assert not error.startswith(("NameError", "UnboundLocalError")), trial.mistakes[0].where


def test_a_name_is_one_mistake_in_a_program_and_every_entry_is_complete():
    for name in PROGRAMS:
        names = [mistake.name for mistake in mistakes_of(name)]
        assert len(set(names)) == len(names), name
    for mistake in MISTAKES:
        assert mistake.ways, mistake.where
        assert mistake.message.endswith((".", ".)", "?")), mistake.where
        assert len(mistake.message) < 300, mistake.where
        assert mistake.page and mistake.listed


def test_one_message_is_one_mistake():
    words = [mistake.message for mistake in MISTAKES]
    assert not [words for words in set(words) if words.count(words) > 1]
    assert len(set(words)) == len(words)


def test_an_entry_is_short():
    lines = [1 + len(entry.strip().splitlines()) for entry in entries()]
    assert sorted(lines)[len(lines) // 2] <= 6 and sum(lines) / len(lines) <= 7


def entries():
    for assignment in assignments():
        file = Path(find_program.__code__.co_filename).parent / assignment / "mistakes.diff"
        for entry in re.split(r"^(?=@@ |--- )", file.read_text("utf-8"), flags=re.MULTILINE):
            if entry.startswith("@@ "):
                yield entry


def test_no_program_or_mistake_is_lost_or_changed_in_silence():
    """After a change that is meant: python tests/normkit/tutor/table.py"""
    assert table() == TABLE.read_text("utf-8")


def renamed(program, old, new):
    """A program in which a variable has another name."""
    source = re.sub(rf"(?<![\w.]){old}(?!\w)", new, program.source)
    return Program(program.name, source, program.knows)


TASK_OF = {program: task for task in TASKS.values() for program in task.programs}


@pytest.mark.sample(30)
@pytest.mark.parametrize("name", together(PROGRAMS))
def test_an_entry_whose_program_has_changed_is_stale_or_goes_on_as_before(name):
    right, doubtful = find_program(name), 0
    targets = {place.target for place in right.places if place.target.isidentifier()} - {"return"}
    for old, mistake in itertools.product(sorted(targets), mistakes_of(name)):
        lines = [line for _, line in next(iter(mistake.ways.get(name, ())), ())]
        changed = renamed(right, old, "another")
        if re.search(rf"\b{old}\b", "\n".join(lines)) and changed.source != right.source:
            try:
                source = changed.rewrite(mistake.edits(changed))
            except Stale as error:
                assert re.match(r"\w+/mistakes\.diff:\d+: \w+: \w+/\w+ ", str(error))
                continue
            if not unknown_names(changed, source):
                doubtful += not goes_on(changed, source, mistake, TASK_OF[name])
    assert doubtful <= 5  # the table shows these


def goes_on(changed, source, mistake, task):
    """Whether a program with a mistake returns the same although a variable has another name."""
    others = {name: combine(of) for name, of in changed.calls(source).items()}
    before = Trial(task, 0, changed.name, (mistake,), (0,))
    result = run_probe(changed.made(source, "renamed", **others), task, before.probes[0])
    return agree(result, before.result(0), before.probes[0])


# --- The notation -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("--- f\n\n@@ name\n what\n! line", r"f/mistakes.diff:5: must begin with"),
        ("--- f\n\n@@ name\n+ x = 1", r"f/mistakes.diff:3: name has no message"),
        (
            "--- f\n\n@@ name\n One.\n+ x = 1\n\n--- g\n\n@@ name\n Other.\n+ x = 2",
            r"f/mistakes.diff:9: name has a message in an entry above",
        ),
    ],
)
def test_a_line_that_says_nothing_is_an_error(text, error):
    with pytest.raises(SyntaxError, match=error):
        read(text, "f")


def test_an_entry_that_no_longer_fits_says_where():
    text = "--- layer_norm\n\n@@ lost\n A message.\n+ sigma = 1"
    (mistake,) = read(text, "layer_norm")[program := "layer_norm/layer_norm"]
    with pytest.raises(
        Stale, match=r"layer_norm/mistakes.diff:3: lost: layer_norm/layer_norm has no"
    ):
        written(program, mistake)
