"""The tasks of the assignment on bugs: mended programs, names for the faults, tests for programs.

A test is observed by what it accepts: right programs, the one that was given, and its relatives.
These travel as text, so that it can be observed where they are not installed.
"""

import io
import math
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, fields, replace
from functools import cache, partial, wraps
from inspect import signature
from itertools import count, zip_longest
from types import CodeType
from typing import Any

import numpy as np

from normkit.messages import N_
from normkit.tutor.batch_norm.tasks import (
    AGAIN,
    COLUMNS,
    EVALUATED,
    NEW,
    TRAINED,
    _is_rows,
    _probe,
    channels,
)
from normkit.tutor.probes import WORKED
from normkit.tutor.states import new
from normkit.tutor.tasks import (
    TESTED,
    Named,
    Probe,
    Task,
    add,
    any_inputs,
    by_name,
    find,
    part,
)

__all__ = ["CODES", "accepts"]

FINDING = "test-finding"  # in the book, the section on finding faults


@dataclass(frozen=True)
class Bug:
    """A program to mend: the right one by its name, the mistake in it, and the way it is written.

    relatives: other mistakes of the same kind, which a good test catches as well.
    half: lines of a program that is half mended in another way than by some of its lines.
    """

    program: str
    mistake: str
    relatives: tuple[str, ...]
    way: int = 0
    half: tuple[str, ...] = ()

    def text(self, mistake: str = "") -> str:
        """The right program, or the one with this mistake; only where these are installed."""
        text = _text(self.program, mistake, self.way if mistake == self.mistake else 0)
        return text.replace("gamma=1, beta=0", "gamma, beta")  # as in the notebook


@cache
def _text(program: str, mistake: str, way: int) -> str:
    from normkit.tutor.mistakes import mistakes_of, written

    if not mistake:
        return written(program)
    (made,) = (m for m in mistakes_of(program) if m.name == mistake)
    return written(program, made, ways=[way])


BUGS = {
    "layer_norm": Bug(
        *("layer_norm/layer_norm", "last_two_axes"),
        relatives=("batch_axis", "all_but_batch"),
        half=(
            "mean = x.mean(axis=(-2, -1), keepdims=True)",
            "var = x.var(axis=-1, keepdims=True)",
        ),
    ),
    "batch_norm": Bug("batch_norm/batch_norm", "unbiased_variance", ("sum_of_squares", "no_root")),
    "rms_norm": Bug("rms_norm/rms_norm", "eps_added_to_rms", ("rms_without_eps", "rms_fixed_eps")),
    "running_batch_norm": Bug(
        *("batch_norm/batch_norm_training", "swapped_momentum"),
        relatives=("fixed_momentum", "never_updated"),
    ),
    "group_norm": Bug(
        "group_instance_norm/group_norm",
        "group_size_for_number",
        ("one_group", "groups_interleaved"),
    ),
    "batch_norm_layer": Bug(
        "batch_norm/BatchNorm", "eval_ignored", ("updated_in_evaluation", "batch_in_inference")
    ),
    "layer_norm_layer": Bug("layer_norm/LayerNorm", "gamma_per_example", ("gamma_per_position",)),
    "post_block": Bug(
        "placement/post_block", "nested_residuals", ("parallel_branches", "stale_stream")
    ),
    "fold_affine": Bug(
        "rms_norm/fold_affine", "folded_into_previous", ("new_weight_on_beta", "old_bias_lost")
    ),
    "deepnorm_constants": Bug(
        "placement/deepnorm_constants",
        "alpha_below_one",
        ("square_root", "two_and_eight_exchanged"),
        way=1,
    ),
}

CODES = (
    *("axes", "eps", "groups", "layer", "mean", "mode", "momentum", "order"),
    *("residual", "shape", "sign", "start", "variance"),
)

# --- Mended programs --------------------------------------------------------------------------

UNMENDED = N_(
    "This behaves as the program that you were given: the fault is still in it. Compute a small "
    "case by hand, step by step, and compare it with what each line makes of the same numbers."
)
HALF_MENDED = N_(
    "Half of it is mended. The fault stood in more than one place, and one of them still does what "
    "it did in the program that you were given: compare the two, line by line."
)
DEFAULT_CHANGED = N_(
    "Called without its last arguments, your function takes other numbers than the program that "
    "you were given: eps is 1e-5 by default, and momentum, where there is one, 0.1. Keep the first "
    "line as it was."
)
DEFAULTS = "batch_norm", "running_batch_norm", "group_norm"  # whose wholes pass all arguments
OTHER_DEFAULTS = {"eps=1e-5": ("1e-6", "1e-3", "1e-8", "1e-12"), "momentum=0.1": ("0.9", "0.01")}


@dataclass(frozen=True, eq=False)
class Mended(Task):
    """A task whose answer begins as a wrong program; it does not tell what is wrong with that.

    halves: whether the program half mended has no other name.
    """

    bug: str = ""
    halves: bool = True

    def mistakes(self, program: str) -> list[Any]:
        from normkit.tutor import mistakes

        found, others = BUGS[self.bug], super().mistakes(program)
        (given,) = (m for m in others if m.name == found.mistake)
        told = {"home": "find_the_bug", "own_label": FINDING, "met": ""}
        ways = {p: [w[found.way if p == program else 0]] for p, w in given.ways.items()}
        secret = replace(given, name="unmended", message=UNMENDED, ways=ways, **told)
        halves = [
            replace(half, name="half_mended", message=HALF_MENDED, **told)
            for half in (mistakes.parts(given, program, found.way) if self.halves else ())
        ]
        rest = [m for m in others if m is not given]
        # what the program that was given does right may be wrong now
        later = {program: given.ways[program][found.way + 1 :]} if found.way else {}
        if found.half and self.halves:
            lines = {program: [[("+", line) for line in found.half]]}
            halves.append(replace(secret, name="half_mended", message=HALF_MENDED, ways=lines))
        changed = replace(secret, name="default_changed", message=DEFAULT_CHANGED)
        heads = {program: list(_other_heads(program))} if self.bug in DEFAULTS else {}
        return [secret, *rest, *halves, replace(given, ways=later), replace(changed, ways=heads)]


def _other_heads(program: str) -> Iterator[list[tuple[str, str]]]:
    """The first line of a program with another default, as the lines of a mistake."""
    from normkit.tutor.programs import find_program

    head = find_program(program).source.partition("\n")[0]
    for usual, others in OTHER_DEFAULTS.items():
        for other in others if usual in head else ():
            yield [("-", head), ("+", head.replace(usual, f"{usual.partition('=')[0]}={other}"))]


def _use_modes(answer, x, second, gamma, beta, momentum, eps) -> Named:
    """A layer in evaluation, in training, and in evaluation again; then after a second batch."""
    import torch

    x, second, weight, bias = map(torch.from_numpy, (x, second, gamma, beta))
    layer = new(answer, x.shape[1], eps=eps, momentum=momentum).to(x.dtype).eval()
    yield NEW, layer(x[:2])  # not x: what is learnt from it here must show
    layer.load_state_dict(layer.state_dict() | {"weight": weight, "bias": bias})
    yield TRAINED, layer.train()(x.clone().requires_grad_())
    yield "running_mean", layer.running_mean
    yield "running_var", layer.running_var
    yield "running_mean.grad_fn is None", layer.running_mean.grad_fn is None
    yield EVALUATED, layer.eval()(x[:1])
    yield "running_mean in evaluation", layer.running_mean
    layer.train()(second)
    yield AGAIN, layer.eval()(x)
    yield "num_batches_tracked", int(getattr(layer, "num_batches_tracked", 2))  # if it counts


def _by_default(whole: str) -> Callable[..., Named]:
    """How a task uses an answer, but without momentum and eps where these are the usual ones."""

    def use(answer, **given):
        def called(*values):
            left = list(values)
            for name, usual in (("eps", 1e-5), ("momentum", 0.1)):
                if given.get(name) != usual or not _has_default(answer, name):
                    break
                left.pop()
            return answer(*left)

        yield from find(whole).use(called if callable(answer) else answer, **given)

    return use


def _has_default(answer: Callable, name: str) -> bool:
    """Whether an argument has a default that is a number."""
    try:
        return isinstance(signature(answer).parameters[name].default, float)
    except (KeyError, TypeError, ValueError):  # no such argument, or not a function of Python
        return False


def _row_probes(rng: np.random.Generator) -> list[Probe]:
    """Rows that show the place of eps, and what momentum does; and others for a second batch."""
    numbers = {"x": COLUMNS, "second": [[0, 4], [2, 0]], "gamma": [1, 2], "beta": [0, 1]}
    arrays = {name: np.array(values, dtype=float) for name, values in numbers.items()}
    single = channels(rng, 5, 6).astype(np.float32)
    probes = [
        _probe(rng, N_("a large eps, 0.1"), channels(rng, 4, 3), eps=0.1, momentum=0.3),
        _probe(rng, N_("very small numbers"), channels(rng, 5, 3) * 1e-3, momentum=0.5),
        _probe(rng, N_("an array of dtype float32"), single, tolerance=1e-4),
    ]
    kept = "x", "gamma", "beta", "momentum", "eps"
    others = [
        replace(p, inputs={k: p.inputs[k] for k in kept} | {"second": p.inputs["dy"]})
        for p in probes
    ]
    return [Probe(WORKED, {**arrays, "momentum": 0.1, "eps": 1e-5}), *others]


def _mended(
    bug: str, whole: str, keep: Callable[..., bool] = any_inputs, halves: bool = True, **others
) -> Mended:
    """The task of a program, on floats: no statement here speaks of integers."""

    def floats(**given: Any) -> bool:
        arrays = (v for v in given.values() if isinstance(v, np.ndarray))
        return keep(**given) and all(array.dtype.kind != "i" for array in arrays)

    others = {"use": _by_default(whole)} | others if bug in DEFAULTS else others
    share = part(f"find_the_bug/{bug}", whole, floats, **others)
    if whole in ("batch_norm/forward", "batch_norm/running"):
        share = replace(share, probes=partial(_and_small, share.probes))
    return Mended(**{f.name: getattr(share, f.name) for f in fields(Task)}, bug=bug, halves=halves)


def _and_small(probes: Callable, rng: np.random.Generator) -> list[Probe]:
    """These probes, and one with numbers so small that the default of eps shows."""
    found = probes(rng)
    small = _probe(rng, N_("very small numbers"), channels(rng, 5, 3) * 1e-2)
    return [*found, replace(small, inputs={k: small.inputs[k] for k in found[0].inputs})]


# --- Names for the faults ---------------------------------------------------------------------


def _use_names(answer, bug) -> Named:
    names = answer() if callable(answer) else answer  # as the program does
    yield f'fault["{bug}"]', by_name(names, ()).get(bug)


@dataclass(frozen=True, eq=False)
class Name(Task):
    """The name of one fault of all; only the mistakes about this one count."""

    bug: str = ""

    def mistakes(self, program: str) -> list[Any]:
        return [m for m in super().mistakes(program) if f'["{self.bug}"]' in str(m.ways[program])]


def _named(bug: str) -> Name:
    return Name(
        f"find_the_bug/{bug}_fault",
        programs=("find_the_bug/fault_names",),
        chapter=f"mistakes_find_the_bug#{FINDING}",
        use=_use_names,
        probes=lambda rng: [Probe(N_("your choice"), {"bug": bug})],
        at_once=1,
        bug=bug,
    )


# --- Tests ------------------------------------------------------------------------------------


def accepts(test: Callable, program: Any) -> bool:
    """Whether a test accepts a program: it neither fails nor breaks off.

    >>> def test_double(function):
    ...     assert function(3) == 6
    >>> accepts(test_double, lambda x: 2 * x), accepts(test_double, lambda x: x)
    (True, False)
    """
    try:
        _ran(test, program)
    except NotImplementedError:  # no test yet
        raise
    except Exception:
        return False
    return True


def _ran(test: Callable, program: Any) -> tuple[Any, str]:
    """What a test returns and prints, addresses in memory aside."""
    with redirect_stdout(io.StringIO()) as printed:
        return test(program), re.sub(r"0x\w+", "", printed.getvalue())


def made(text: str) -> Any:
    """The function or the class that a program defines."""
    names: dict[str, Any] = {"np": np, "__name__": TESTED}  # not the student's
    if "torch." in text:
        import torch

        names["torch"] = torch
    before = set(names)
    exec(_compiled(text), names)
    return next(thing for name, thing in names.items() if name not in {*before, "__builtins__"})


@cache
def _compiled(text: str) -> CodeType:
    return compile(text, "<a program to test>", "exec")


def _use_test(answer, bug, program, **texts) -> Named:
    """What a test says of a program, unless it is wrong about one before: that is enough to know.

    Another error than AssertionError that it meets on a right program is passed on.
    """
    if not callable(answer):
        raise TypeError(f"{type(answer).__name__!r} object is not callable")
    names = [*SOUND, ONE_SIDED, *(name for name in texts if name not in SOUND)]
    if program == names[0] or TRIED.get("test") is not answer or TRIED["bug"] != bug:
        TRIED.update(test=answer, bug=bug, found=_first_wrong(answer, bug, texts))
    name, symptom = TRIED["found"]
    if name in names[: names.index(program)]:
        return
    if name == program and symptom == "breaks off":
        yield "symptom", symptom
        _ran(answer, _programs(texts)[name])
    yield f"accepts(test_{bug}, {program})", (program in SOUND) != (name == program)
    if name == program:
        yield "symptom", symptom


SOUND = "right_program", "rounded_otherwise"  # the programs that are right
ONE_SIDED = "wrong_on_one_side"  # a program that is made for the test
TRIED: dict[str, Any] = {}  # the test that was tried last, and what it is wrong about


def _programs(texts: dict[str, str]) -> dict[str, Any]:
    """The programs that a test is tried on, in this order."""
    found = {name: made(text) for name, text in texts.items()}
    right = found.pop(SOUND[0])
    return dict(zip(SOUND, (right, _changed(right, _nudged)), strict=True)) | found


def _first_wrong(test: Callable, bug: str, texts: dict[str, str]) -> tuple[str, str]:
    """The first program that a test is wrong about, and how that comes; "" for both if none is."""
    programs = _programs(texts)
    for name, program in programs.items():
        if name == f"wrong_{bug}":
            symptom = _one_sided(test, programs[SOUND[0]])
            if symptom and symptom == _one_sided(test, programs[SOUND[0]]):  # not by chance
                return ONE_SIDED, symptom
        said = _said(test, program)
        if len(said) > 1:
            return name, "draws anew"
        if said != {name in SOUND}:
            return name, _symptom(test, bug, name, programs)
    return "", ""


def _said(test: Callable, program: Any) -> set[bool]:
    """What a test says of a program: several times, if it is quick, for it may draw numbers."""
    said, end = set(), time.process_time() + 0.05
    for _time in range(5):
        said.add(accepts(test, program))
        if time.process_time() > end:
            break
    return said


def _symptom(test: Callable, bug: str, name: str, programs: dict[str, Any]) -> str:
    """How a test comes to be wrong about a program, as far as programs of other kinds show it."""
    right, _rounded, given, *relatives = programs.values()
    anything = all(_takes(test, right, change) for change in (_far_off, _far_below))
    if name in SOUND:
        return "last digits" if name == SOUND[1] else _refused(test, right, given, anything)
    if anything and programs[name] is given:
        return _asserted(test, bug, right, given, relatives)
    parted = _parting(test, bug, right, programs[name])
    if isinstance(parted, str):
        return parted
    if anything:
        return _given_refused(test, bug, right, given, relatives)
    return _compared(test, right, parted, programs[name] is given)


def _given_refused(test: Callable, bug: str, right: Any, given: Any, relatives: list[Any]) -> str:
    """How a test that accepts any numbers refuses the given program: by its numbers, or by more."""
    by_numbers = all(
        accepts(test, other) or isinstance(_parting(test, bug, given, other), str)
        for other in relatives
    )
    alone = by_numbers and not _calls_compared(test, right)
    return "given refused alone" if alone else "another accepted"


def _compared(test: Callable, right: Any, parted: list[tuple[int, int, int]], given: bool) -> str:
    """How a test that compares numbers accepts a program which parts from the right one there."""
    if given and _calls_compared(test, right):
        return "calls compared"
    if not any(_looks_at(test, right, *place) for place in parted):
        return "not looked at"
    return "other numbers will do" if given else "another accepted"


def _refused(test: Callable, right: Any, given: Any, anything: bool) -> str:
    """How a test refuses the right program."""
    try:
        _ran(test, right)
    except AssertionError:
        pass
    except Exception:
        return "breaks off"
    if anything:
        return "reversed"
    if accepts(test, given):
        return "accepts the wrong one"
    digits = () if isinstance(right, type) else range(2, 7)  # what a layer keeps is not rounded
    rounded = any(_takes(test, right, partial(_rounded, number)) for number in digits)
    return "rounded" if rounded else "refuses both"


def _asserted(test: Callable, bug: str, right: Any, given: Any, relatives: list[Any]) -> str:
    """Why a test accepts the given program, and any numbers."""
    calls = []
    returned, _printed = _ran(test, _changed(given, start=lambda: calls.append(1)))
    off = _changed(right, _far_off)
    signs = {
        "not called": lambda: not calls,
        "error caught": lambda: _catches(test, off),
        "returned": lambda: returned is not None and not _truth(_ran(test, off)[0]),
        "printed": lambda: _ran(test, right)[1] != _ran(test, off)[1],
        "shapes compared": lambda: (
            _fails(test, _changed(right, _cut))
            and all(_takes(test, right, change) for change in (_zeros, _drawn))
        ),
        "compared with itself": lambda: (
            _calls_compared(test, right) and _same_each_time(test, right, relatives)
        ),
        "calls compared": lambda: _calls_compared(test, right),
    }
    if sign := next((sign for sign, seen in signs.items() if seen()), ""):
        return sign
    inside = isinstance(right, type) and _fails(test, _other_inside(right))
    plain = [_changed(right, change) for change in (_zeros, _drawn)]
    plain += [_with(right, partial(_returned, number)) for number in range(5)]
    if not inside and all(accepts(test, program) for program in plain):
        return "nothing asserted"
    parted = _parting(test, bug, right, given)
    return parted if isinstance(parted, str) else "not looked at" if inside else "little asked"


def _same_each_time(test: Callable, right: Any, relatives: list[Any]) -> bool:
    """Whether all calls of a test come twice, and it accepts whatever is the same each time."""
    calls = _calls(test, right)
    twice = all(sum(_alike(call, other) for other in calls) > 1 for call in calls)
    return twice and all(accepts(test, relative) for relative in relatives)


def _alike(call: list[Any], other: list[Any]) -> bool:
    return len(call) == len(other) and all(map(np.array_equal, call, other))


def _calls_compared(test: Callable, right: Any) -> bool:
    """Whether it is one call with another that a test compares."""
    numbers = count(1)

    def apart(result, *_given):
        number = 5 * next(numbers)
        return _each(result, lambda value: value + number)

    return not accepts(test, _with(right, apart)) and _takes(test, right, lambda value: value + 5)


def _takes(test: Callable, right: Any, change: Callable) -> bool:
    """Whether a test accepts the right results with all their numbers changed."""
    return accepts(test, _changed(right, change))


# --- What a test sees of a wrong program ------------------------------------------------------


def _parting(test: Callable, bug: str, right: Any, wrong: Any) -> list[tuple[int, int, int]] | str:
    """Some places where two programs part on what a test gives them: call, array, number.

    A word if there is none: that the fault is hidden, and by what.
    """
    found: list[tuple[float, int, int, int]] = []
    numbers = count()

    def meet(result, other):
        call = next(numbers)
        for array, (ours, theirs) in enumerate(zip_longest(_arrays(result), _arrays(other))):
            if ours is not None:
                gap = np.ravel(_gap(ours, theirs))
                found.extend((gap[i], call, array, i) for i in np.flatnonzero(gap > CLOSE))

    accepts(test, _beside(right, wrong, meet))
    if not found:
        return f"hidden {_hidden_by(bug, _calls(test, right))}"
    found.sort(reverse=True)
    places = [*found[:4], *found[4 :: 1 + len(found) // 8]]
    return [(call, array, number) for _gap, call, array, number in places]


CLOSE = 1e-4  # numbers that differ by less look the same


def _gap(ours, theirs):
    """How far apart the numbers of two arrays are; 0 between two nan."""
    if theirs is None or theirs.shape != ours.shape:
        return np.full(ours.shape, np.inf)
    with np.errstate(all="ignore"):
        gap = abs(ours - theirs) / np.maximum(abs(ours), 1)
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    return np.where(same, 0, np.nan_to_num(gap, nan=np.inf, posinf=np.inf))


def _beside(right: Any, wrong: Any, meet: Callable) -> Any:
    """The right program, that runs a wrong one beside it and shows what both return."""
    if isinstance(right, type):
        return _layer_beside(right, wrong, meet)

    @wraps(right)
    def program(*args, **options):
        result = right(*args, **options)
        meet(result, _attempt(wrong, *args, **options))
        return result

    return program


def _layer_beside(right: Any, wrong: Any, meet: Callable) -> Any:
    """The same of a layer: what is put into its state from outside, the other layer gets too."""

    class Beside(right):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            self.other, self.last = [wrong(*args, **options)], {}

        def forward(self, x):
            import torch

            (other,) = self.other
            others = other.train(self.training).state_dict()
            for name, value in self.state_dict().items():
                known = name in self.last and bool((self.last[name] == value).all())
                if not known and name in others and others[name].shape == value.shape:
                    others[name].copy_(value)
            y = super().forward(x)
            ours = y, *map(torch.clone, self.buffers())
            meet(ours, _attempt(lambda: (other(x), *other.buffers())))
            self.last = {name: value.clone() for name, value in self.state_dict().items()}
            return y

    return Beside


def _attempt(program: Callable, *args, **options) -> Any:
    try:
        return program(*args, **options)
    except Exception:
        return ()


def _looks_at(test: Callable, right: Any, call: int, array: int, number: int) -> bool:
    """Whether a test refuses another number in this place."""

    def refuses(change):
        calls = count()

        def spoil(result, *_given):
            arrays = count()
            here = next(calls) == call

            def one(value):
                return _spoilt(value, number, change) if here and next(arrays) == array else value

            return _each(result, one)

        return not accepts(test, _with(right, spoil))

    return refuses(1000) or refuses(-1000)


def _calls(test: Callable, right: Any) -> list[list[Any]]:
    """The numbers that each call of a test gives, as they are then; to a layer, x and the mode."""
    calls = []

    def noted(result, *given):
        calls.append([np.array(v) for v in given if not callable(v) and not isinstance(v, list)])
        return result

    accepts(test, _with(right, noted))
    return calls


def _hidden_by(bug: str, calls: list[list[Any]]) -> str:
    """What is known of the input on which a fault does not show."""
    if bug == "group_norm" and all(groups == 1 for _x, groups, *_others in calls):
        return "one group"
    if bug != "layer_norm":
        return ""
    shapes = [np.shape(x) for x, *_others in calls]
    if all(math.prod(shape[:-1]) == 1 for shape in shapes):
        return "one token"
    if all(len(shape) == 3 and shape[1] == 1 for shape in shapes):
        return "one token each"
    return "rows" if all(len(shape) < 3 for shape in shapes) else ""


def _one_sided(test: Callable, right: Any) -> str:
    """How a test that compares numbers still lets many wrong ones pass, if it does."""
    shifts = [_takes(test, right, lambda v, by=by: v + by) for by in (0.05, 1000, -0.05, -1000)]
    if shifts in ([True, True, False, False], [False, False, True, True]):
        return "one side"
    if shifts[1] or shifts[3]:
        return ""
    if all(_takes(test, right, partial(_all_but, place)) for place in (np.argmin, np.argmax)):
        return "one is enough"
    if any(_takes(test, right, change) for change in (_larger, _shifted, _moved)):
        return ""
    return "signs" if any(_forgets_sign(test, right, array) for array in range(3)) else ""


def _all_but(place: Callable, value):
    """All numbers of an array far off but one."""
    off = value + 1000
    if np.size(_plain(value)) < 2:
        return off
    number = place(_plain(value))
    return _spoilt(off, number, -1000)


def _forgets_sign(test: Callable, right: Any, array: int) -> bool:
    """Whether a test looks at the largest number of an array, but not at its sign."""

    def takes(change):
        def spoil(result, *_given):
            arrays = count()
            return _each(result, lambda v: change(v) if next(arrays) == array else v)

        return accepts(test, _with(right, spoil))

    seen = []

    def turned(value):
        flat = np.ravel(_plain(value))
        number = np.argmax(abs(flat)) if flat.size else 0
        seen.append(flat.size > 1 and abs(flat[number]) > CLOSE)
        return _spoilt(value, number, -2 * flat[number]) if seen[-1] else value

    def lost(value):
        flat = np.ravel(_plain(value))
        return _spoilt(value, np.argmax(abs(flat)), 1000) if flat.size else value

    return takes(turned) and bool(seen) and all(seen) and not takes(lost)


def _truth(value: Any) -> bool:
    """Whether what a test returns says yes; an array, if all of it does."""
    return bool(np.all(_plain(value)))


# --- Programs with other results --------------------------------------------------------------


def _changed(
    program: Any, change: Callable = lambda value: value, start: Callable = lambda: None
) -> Any:
    """A program that does something more when it starts, and whose results are changed."""
    return _with(program, lambda result, *_given: _each(result, change), start)


def _with(program: Any, change: Callable, start: Callable = lambda: None) -> Any:
    """A program that does something when it starts, and something with its result.

    change: takes the result and what the program was given; a layer, x and its mode.
    """
    if isinstance(program, type):

        class Changed(program):
            def __init__(self, *args, **options):
                start()
                super().__init__(*args, **options)

            def forward(self, x):
                return change(super().forward(x), _plain(x), self.training)

        return Changed

    @wraps(program)
    def changed(*args, **options):
        start()
        given = signature(program).bind(*args, **options).args
        given = [np.array(v) if isinstance(v, np.ndarray) else v for v in given]
        return change(program(*args, **options), *given)

    return changed


def _other_inside(layer: Any) -> Any:
    """A layer that is another after each call: more parameters, in other shapes, far off."""

    class Other(layer):
        def forward(self, x):
            import torch

            for name, value in self.__dict__.pop("kept", {}).items():
                setattr(self, name, value)
            y = super().forward(x)
            self.kept = dict(self.named_parameters())
            with torch.no_grad():
                for kept in self.buffers():
                    kept.copy_(_far_off(kept))
                for name, value in self.kept.items():
                    twice = torch.cat([_far_off(value).flatten()] * 2)
                    setattr(self, name, torch.nn.Parameter(twice))
            self.spoilt = torch.nn.Parameter(torch.ones(1))
            return y

    return Other


def _arrays(result: Any) -> list[np.ndarray]:
    """All arrays and numbers of a result, as arrays of floats."""
    found = []
    _each(result, lambda value: found.append(np.asarray(_plain(value), float)))
    return found


def _plain(value: Any) -> Any:
    return value.detach().numpy() if hasattr(value, "detach") else value


def _each(result: Any, change: Callable) -> Any:
    """A result with all its arrays, tensors and numbers changed."""
    if isinstance(result, dict):
        return {name: _each(value, change) for name, value in result.items()}
    if isinstance(result, tuple):
        return tuple(_each(value, change) for value in result)
    return change(result)


def _spoilt(value, number, by):
    """An array with one number larger; a number that is larger."""
    if not hasattr(value, "reshape"):
        return value + by
    flat = (value.clone() if hasattr(value, "clone") else np.array(value)).reshape(-1)
    flat[number] += by
    return flat.reshape(value.shape)


def _returned(number: int, result: Any, *given: Any) -> Any:
    """One of the arguments in place of each result that has its shape."""
    argument = given[number] if number < len(given) else None

    def change(value):
        same = isinstance(argument, np.ndarray) and argument.shape == np.shape(_plain(value))
        return value * 0 + _like(value, argument) if same else value

    return _each(result, change)


def _like(value, array):
    """An array as one of the same library."""
    return value.new_tensor(array) if hasattr(value, "new_tensor") else array


def _nudged(value):
    """As another way to round would make it."""
    kind = str(getattr(value, "dtype", "float64")).removeprefix("torch.")
    return value + 4 * float(np.finfo(kind).eps) * abs(value)


def _far_off(value):
    return 1234 - 1000 * value


def _far_below(value):
    return 1000 * value - 1234


def _zeros(value):
    return 0 * value


def _drawn(value):
    """Other numbers in the same shape."""
    drawn = np.random.default_rng(0).normal(size=np.shape(_plain(value)))
    return 0 * value + _like(value, drawn)


def _larger(value):
    return 1.05 * value


def _shifted(value):
    return value + 0.05


def _rounded(digits, value):
    return np.round(value, digits)


def _moved(value):
    """The same numbers in another order, or others if there is none."""
    flat = np.ravel(_plain(value))
    if (flat == np.roll(flat, 1)).all():
        return 1.05 * value
    return (value.roll(1) if hasattr(value, "roll") else np.roll(value, 1)).reshape(value.shape)


def _cut(value):
    """Another shape."""
    value = _far_off(value)
    return value.reshape(-1)[:1] if hasattr(value, "reshape") else (value, value)


def _fails(test: Callable, program: Any) -> bool:
    """Whether a test fails as it should, by an AssertionError."""
    try:
        _ran(test, program)
    except Exception as error:
        return isinstance(error, AssertionError)
    return False


def _catches(test: Callable, program: Any) -> bool:
    """Whether a test accepts a program although an assertion failed on the way."""
    failed = []

    def witness(frame, event, found):
        if event == "exception" and issubclass(found[0], AssertionError):
            failed.append(found[0])
        return witness

    before = sys.gettrace()
    sys.settrace(witness)
    try:
        return accepts(test, program) and bool(failed)
    finally:
        sys.settrace(before)


LIKE_OTHERS = {  # mistakes that look like another there, or do not show
    "batch_norm_layer": ("rounded_numbers", "one_number_enough"),
    "layer_norm_layer": (
        *("rounded_numbers", "one_number_enough", "little_asked", "other_numbers_accepted"),
        *("given_alone_refused", "another_accepted"),
    ),
    "post_block": ("another_accepted",),
    "deepnorm_constants": ("signs_forgotten", "one_number_enough", "another_accepted"),
}


def _tested(bug: str) -> Task:
    names = {
        "right_program": N_("the right program"),
        "rounded_otherwise": N_("a right program whose last digits differ"),
        ONE_SIDED: N_("another wrong program"),
        f"wrong_{bug}": N_("the program that you were given"),
    }
    names |= dict.fromkeys(BUGS[bug].relatives, N_("another wrong program"))

    def probes(_rng: np.random.Generator) -> list[Probe]:
        given = BUGS[bug].mistake
        texts = {"right_program": BUGS[bug].text(), f"wrong_{bug}": BUGS[bug].text(given)}
        texts |= {name: BUGS[bug].text(name) for name in BUGS[bug].relatives}
        return [Probe(told, {"bug": bug, "program": name, **texts}) for name, told in names.items()]

    return Task(
        f"find_the_bug/{bug}_test",
        programs=(f"find_the_bug/test_{bug}",),
        chapter=f"mistakes_find_the_bug#{FINDING}",
        use=_use_test,
        probes=probes,
        at_once=1,
        without=LIKE_OTHERS.get(bug, ()),
    )


# mistakes with rows that are right, or raise always: an exception says more than any of these
ROWS = "first_axis_only", "images_only", "sequences_forgotten"
UPDATED = *ROWS, "over_the_channels", "over_the_last_axis", "layer_norm_instead"
MADE = (  # and those in a constructor, which is given
    *("parameter_names", "parameters_with_axes", "plain_tensors", "one_weight", "no_bias"),
    *("statistics_names", "statistics_as_parameters"),
)

add(
    _mended("layer_norm", "layer_norm/forward", any_dtype=("y",)),
    _mended("batch_norm", "batch_norm/forward", _is_rows, without=ROWS, any_dtype=("y",)),
    _mended("rms_norm", "rms_norm/forward", any_dtype=("y",)),
    _mended("running_batch_norm", "batch_norm/running", _is_rows, without=UPDATED),
    _mended("group_norm", "group_instance_norm/forward", any_dtype=("y",)),
    _mended(
        *("batch_norm_layer", "batch_norm/layer"),
        probes=_row_probes,
        halves=False,
        without=("reshaped_to_rows", *UPDATED, *MADE),
        use=_use_modes,
        pairs=100,
    ),
    _mended("layer_norm_layer", "layer_norm/layer"),
    _mended("post_block", "placement/post"),
    _mended("fold_affine", "rms_norm/fold"),
    _mended("deepnorm_constants", "placement/constants"),
    *map(_named, BUGS),
    *map(_tested, BUGS),
)
