"""The tasks of the assignment on bugs: mended programs, names for the faults, tests for programs.

A test is observed by what it accepts: right programs, the one that was given, and its relatives.
"""

import io
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from itertools import count
from typing import Any

import numpy as np

from normkit.messages import N_
from normkit.mistakes import Mistake, combine
from normkit.mistakes.find_the_bug import BUGS, CODES, FINDING
from normkit.observing import Named, Probe, Task, add
from normkit.tasks import (  # noqa: F401  (their tasks are used)
    group_instance_norm,
    layer_norm,
    placement,
    rms_norm,
)
from normkit.tasks.batch_norm import EVALUATED, NEW, TRAINED, _is_rows
from normkit.tasks.parts import Part, any_inputs, part

__all__ = ["CODES", "accepts"]

# --- Mended programs --------------------------------------------------------------------------

UNMENDED = N_(
    "This behaves as the program that you were given: the fault is still in it. Compute a small "
    "case by hand, step by step, and compare it with what each line makes of the same numbers."
)


@dataclass(frozen=True, eq=False)
class Fitting(Task):
    """A task without mistakes that nobody makes there, but that look like others."""

    without: tuple[str, ...] = ()

    @property
    def mistakes(self) -> list[Mistake]:
        return [mistake for mistake in super().mistakes if mistake.name not in self.without]


@dataclass(frozen=True, eq=False)
class Mended(Part, Fitting):
    """A task whose answer begins as a wrong program; it does not tell what is wrong with that."""

    given: str = ""

    @cached_property
    def mistakes(self) -> list[Mistake]:
        secret = {"of": "program_test", "message": UNMENDED, "label": FINDING}
        return [replace(m, **secret) if m.name == self.given else m for m in super().mistakes]


def _use_modes(answer, x, gamma, beta, momentum, eps, **_others) -> Named:
    """A layer in evaluation, in training, and in evaluation again."""
    import torch

    x, weight, bias = map(torch.from_numpy, (x, gamma, beta))
    layer = answer(x.shape[1], eps=eps, momentum=momentum).to(x.dtype).eval()
    yield NEW, layer(x)
    layer.load_state_dict(layer.state_dict() | {"weight": weight, "bias": bias})
    yield TRAINED, layer.train()(x)
    yield "running_mean", layer.running_mean
    yield "running_var", layer.running_var
    yield "running_mean.grad_fn is None", layer.running_mean.grad_fn is None
    yield EVALUATED, layer.eval()(x[:1])
    yield "running_mean in evaluation", layer.running_mean


def _is_plain_rows(x, momentum, **_others) -> bool:
    return x.ndim == 2 and momentum is not None


def _is_one_side(encoder_layers, decoder_layers) -> bool:
    return not (encoder_layers and decoder_layers)


def _mended(
    bug: str,
    whole: str,
    keep: Callable[..., bool] = any_inputs,
    without: tuple[str, ...] = (),
    **others,
) -> Mended:
    share = part(f"find_the_bug/{bug}", whole, keep, **others)
    return Mended(**vars(share), without=without, given=BUGS[bug].mistake)


# --- Names for the faults ---------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Name(Task):
    """The name of one fault of all; only the mistakes about this one count."""

    bug: str = ""

    @property
    def mistakes(self) -> list[Mistake]:
        return [mistake for mistake in super().mistakes if self.bug in mistake.changes]


def _use_names(answer, bug) -> Named:
    yield f'fault["{bug}"]', answer.get(bug)


def _named(bug: str) -> Name:
    return Name(
        f"find_the_bug/{bug}_fault",
        algorithm="fault_names",
        use=_use_names,
        reference=lambda: combine("fault_names"),
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
    """What a test returns and prints."""
    with redirect_stdout(io.StringIO()) as printed:
        return test(program), printed.getvalue()


def _use_test(answer, bug, program) -> Named:
    """What a test says of a program, unless it is wrong about one before: that is enough to know.

    Another error than AssertionError that it meets on a right program is passed on.
    """
    for name, (candidate, right) in _programs(bug).items():
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
                yield "symptom", _symptom(answer, bug, name)
        if name == program or accepted != right:
            return


def _programs(bug: str) -> dict[str, tuple[Any, bool]]:
    """The programs that a test is tried on, in this order, and whether they are right."""
    found = BUGS[bug]
    right = found.program()
    wrong = {name: (found.program(name), False) for name in found.relatives}
    return {
        "right_program": (right, True),
        "rounded_otherwise": (_changed(right, _nudged), True),
        f"wrong_{bug}": (found.program(found.mistake), False),
        **wrong,
    }


def _symptom(test: Callable, bug: str, name: str) -> str:
    """How a test comes to be wrong about a program, as far as programs of other kinds show it."""
    right, given = BUGS[bug].program(), BUGS[bug].program(BUGS[bug].mistake)
    if name == "right_program":
        return "accepts the wrong one" if accepts(test, given) else "refuses both"
    if name != f"wrong_{bug}":
        return ""
    calls, numbers = [], count(1)
    returned, printed = _ran(test, _changed(given, start=lambda: calls.append(1)))
    signs = {
        "not called": not calls,
        "error caught": _catches(test, _changed(right, _far_off)),
        "returned": returned is not None,
        "printed": bool(printed),
        "numbers compared": not accepts(test, _changed(right, _far_off)),
        "shapes compared": _fails(test, _changed(right, _cut)),
        "compared with itself": not accepts(test, _changed(right, lambda v: v + next(numbers))),
    }
    return next((sign for sign, seen in signs.items() if seen), "nothing asserted")


def _changed(
    program: Any, change: Callable = lambda value: value, start: Callable = lambda: None
) -> Any:
    """A program that does something more when it starts, and whose results are changed."""
    if isinstance(program, type):

        class Changed(program):
            def __init__(self, *args, **options):
                start()
                super().__init__(*args, **options)

            def forward(self, x):
                return _each(super().forward(x), change)

        return Changed

    @wraps(program)
    def changed(*args, **options):
        start()
        return _each(program(*args, **options), change)

    return changed


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


def _tested(bug: str) -> Task:
    names = {
        "right_program": N_("the right program"),
        "rounded_otherwise": N_("a right program whose last digits differ"),
        f"wrong_{bug}": N_("the program that you were given"),
    }
    names |= dict.fromkeys(BUGS[bug].relatives, N_("another wrong program"))
    return Task(
        f"find_the_bug/{bug}_test",
        algorithm=f"test_{bug}",
        use=_use_test,
        reference=lambda: combine(f"test_{bug}"),
        probes=lambda rng: [
            Probe(told, {"bug": bug, "program": name}) for name, told in names.items()
        ],
        at_once=1,
    )


add(
    _mended("layer_norm", "layer_norm/forward"),
    _mended("batch_norm", "batch_norm/forward", _is_rows),
    _mended("rms_norm", "rms_norm/forward"),
    _mended("running_batch_norm", "batch_norm/running", _is_rows),
    _mended("group_norm", "group_instance_norm/forward"),
    _mended(
        *("batch_norm_layer", "batch_norm/layer", _is_plain_rows, ("reshaped_to_rows",)),
        use=_use_modes,
    ),
    _mended("layer_norm_layer", "layer_norm/layer"),
    _mended("post_block", "placement/post"),
    _mended("fold_affine", "rms_norm/fold"),
    _mended("deepnorm_constants", "placement/constants", _is_one_side),
    *map(_named, BUGS),
    *map(_tested, BUGS),
)
