"""The tasks of the assignment on bugs: mended programs, names for the faults, tests for programs.

A test is observed by what it accepts: right programs, the one that was given, and its relatives.
These travel as text, so that it can be observed where they are not installed.
"""

import io
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, fields, replace
from functools import cache, partial, wraps
from inspect import signature
from itertools import count, product
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
    arrays: those of the results, by their numbers, that the mistake and its relatives change.
    """

    program: str
    mistake: str
    relatives: tuple[str, ...]
    way: int = 0
    arrays: tuple[int, ...] = (0, 1, 2)

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
    "layer_norm": Bug("layer_norm/layer_norm", "last_two_axes", ("batch_axis", "all_but_batch")),
    "batch_norm": Bug("batch_norm/batch_norm", "unbiased_variance", ("sum_of_squares", "no_root")),
    "rms_norm": Bug("rms_norm/rms_norm", "eps_added_to_rms", ("rms_without_eps", "rms_fixed_eps")),
    "running_batch_norm": Bug(
        *("batch_norm/batch_norm_training", "swapped_momentum"),
        relatives=("fixed_momentum", "never_updated"),
        arrays=(1, 2),
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
    for name, (candidate, right) in _programs(bug, texts).items():
        accepted = accepts(answer, candidate)
        if right and not accepted:
            try:
                _ran(answer, candidate)
            except AssertionError:
                pass
            except Exception:
                yield "symptom", "breaks off"
                raise
        if name == program:
            yield f"accepts(test_{bug}, {name})", accepted
            if accepted != right:
                yield "symptom", _symptom(answer, bug, name, texts)
        if name == program or accepted != right:
            return


def _programs(bug: str, texts: dict[str, str]) -> dict[str, tuple[Any, bool]]:
    """The programs that a test is tried on, in this order, and whether they are right."""
    right = made(texts["right_program"])
    found = {"right_program": (right, True), "rounded_otherwise": (_changed(right, _nudged), True)}
    wrong = {name: (made(text), False) for name, text in texts.items() if name not in found}
    return found | wrong


def _symptom(test: Callable, bug: str, name: str, texts: dict[str, str]) -> str:
    """How a test comes to be wrong about a program, as far as programs of other kinds show it."""
    right, given = made(texts["right_program"]), made(texts[f"wrong_{bug}"])
    anything = accepts(test, _changed(right, _far_off))
    if name == "right_program":
        return _refused(test, right, given, anything)
    if not anything:
        return _compared(test, right, BUGS[bug].arrays)
    return _asserted(test, right, given) if name == f"wrong_{bug}" else "other things compared"


def _refused(test: Callable, right: Any, given: Any, anything: bool) -> str:
    """How a test refuses the right program."""
    if anything:
        return "reversed"
    if accepts(test, given):
        return "accepts the wrong one"
    digits = () if isinstance(right, type) else range(2, 7)  # what a layer keeps is not rounded
    rounded = (_changed(right, partial(_rounded, number)) for number in digits)
    return "rounded" if any(accepts(test, program) for program in rounded) else "refuses both"


def _compared(test: Callable, right: Any, arrays: tuple[int, ...]) -> str:
    """What a test looks at that refuses numbers far off, where these arrays matter."""
    if any(_overlooks(test, right, *place) for place in product(arrays, (0, -1))):
        return "one number may differ"
    moves = (lambda v: 1.05 * v), (lambda v: v + 0.05), _moved
    others = (_changed(right, move) for move in moves)
    return "other numbers will do" if any(accepts(test, o) for o in others) else "numbers compared"


def _asserted(test: Callable, right: Any, given: Any) -> str:
    """Why nothing that a test asserts is about numbers."""
    calls, numbers = [], count(1)
    returned, _printed = _ran(test, _changed(given, start=lambda: calls.append(1)))
    off = _changed(right, _far_off)
    signs = {
        "not called": lambda: not calls,
        "error caught": lambda: _catches(test, off),
        "returned": lambda: returned is not None and not _truth(_ran(test, off)[0]),
        "printed": lambda: _ran(test, right)[1] != _ran(test, off)[1],
        "shapes compared": lambda: _fails(test, _changed(right, _cut)),
        "compared with itself": lambda: (
            not accepts(test, _changed(right, lambda v: v + next(numbers)))
        ),
        "layer looked at": lambda: isinstance(right, type) and _fails(test, _other_inside(right)),
    }
    return next((sign for sign, seen in signs.items() if seen()), "nothing asserted")


def _truth(value: Any) -> bool:
    """Whether what a test returns says yes; an array, if all of it does."""
    return bool(np.all(value.detach() if hasattr(value, "detach") else value))


def _changed(
    program: Any, change: Callable = lambda value: value, start: Callable = lambda: None
) -> Any:
    """A program that does something more when it starts, and whose results are changed."""
    return _with(program, partial(_each, change=change), start)


def _overlooks(test: Callable, right: Any, array: int, place: int) -> bool:
    """Whether a test accepts results of which one number is far off, in the array so numbered."""
    spoilt = []

    def spoil(value):
        spoilt.append(value)
        if not hasattr(value, "reshape"):
            return _far_off(value)
        flat = (value.clone() if hasattr(value, "clone") else np.array(value)).reshape(-1)
        flat[place] = _far_off(flat[place])
        return flat.reshape(value.shape)

    def change(result):
        numbers = count()
        return _each(result, lambda value: spoil(value) if next(numbers) == array else value)

    return accepts(test, _with(right, change)) and bool(spoilt)


def _with(program: Any, change: Callable, start: Callable = lambda: None) -> Any:
    """A program that does something when it starts, and something with its result."""
    if isinstance(program, type):

        class Changed(program):
            def __init__(self, *args, **options):
                start()
                super().__init__(*args, **options)

            def forward(self, x):
                return change(super().forward(x))

        return Changed

    @wraps(program)
    def changed(*args, **options):
        start()
        return change(program(*args, **options))

    return changed


def _other_inside(layer: Any) -> Any:
    """A layer that is another after its first call: one parameter more, and all numbers far off."""

    class Other(layer):
        def forward(self, x):
            import torch

            y = super().forward(x)
            self.spoilt = torch.nn.Parameter(torch.ones(1))
            with torch.no_grad():
                for kept in self.state_dict().values():
                    kept.copy_(_far_off(kept))
            return y

    return Other


def _each(result: Any, change: Callable) -> Any:
    """A result with all its arrays, tensors and numbers changed."""
    if isinstance(result, dict):
        return {name: _each(value, change) for name, value in result.items()}
    if isinstance(result, tuple):
        return tuple(_each(value, change) for value in result)
    return change(result)


def _nudged(value):
    """As another way to round would make it."""
    kind = str(getattr(value, "dtype", "float64")).removeprefix("torch.")
    return value + 4 * float(np.finfo(kind).eps) * abs(value)


def _far_off(value):
    return 1234 - 1000 * value


def _rounded(digits, value):
    return np.round(value, digits)


def _moved(value):
    """The same numbers in another order, or others if there is none."""
    flat = np.ravel(value.detach() if hasattr(value, "detach") else value)
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


LIKE_OTHERS = {  # mistakes that look like another there
    "batch_norm_layer": ("rounded_numbers",),
    "layer_norm_layer": ("rounded_numbers",),
    "deepnorm_constants": ("part_compared",),
}


def _tested(bug: str) -> Task:
    names = {
        "right_program": N_("the right program"),
        "rounded_otherwise": N_("a right program whose last digits differ"),
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
