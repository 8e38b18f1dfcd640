"""The tasks of the assignment on bugs: mended programs, names for the faults, tests for programs.

A test is observed by what it accepts: right programs, the one that was given, and its relatives.
These travel as text, so that it can be observed where they are not installed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from inspect import signature
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
from normkit.tutor.find_the_bug.seeing import accepts
from normkit.tutor.find_the_bug.trying import ONE_SIDED, use_test
from normkit.tutor.probes import WORKED
from normkit.tutor.states import backward, new
from normkit.tutor.tasks import (
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
    "The fault of the program that you were given is still there. Compute a small case by hand, "
    "step by step, and compare it with what each line makes of the same numbers."
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
DEFAULT_ALONE = N_(
    "By default the numbers are right, with another momentum they are those of the program that "
    "you were given: its default is changed, and its fault is still there. Keep the first line as "
    "it was, and look below it."
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
        defaults = self._defaults(secret, program)
        return [secret, *rest, *halves, replace(given, ways=later), *defaults]

    def _defaults(self, secret: Any, program: str) -> Iterator[Any]:
        """Another default in the mended program, and one that hides the fault of the given one."""
        heads = list(_other_heads(program)) if self.bug in DEFAULTS else []
        given = ("...", ""), *secret.ways[program][0]
        hiding = [[*head, *given] for head in heads if "momentum=0.9" in str(head)]
        for name, message, ways in (
            ("default_changed", DEFAULT_CHANGED, heads),
            ("default_alone", DEFAULT_ALONE, hiding),
        ):
            yield replace(secret, name=name, message=message, ways={program: ways})


def _other_heads(program: str) -> Iterator[list[tuple[str, str]]]:
    """The first line of a program with another default, as the lines of a mistake."""
    from normkit.tutor.programs import find_program

    head = find_program(program).source.partition("\n")[0]
    for usual, others in OTHER_DEFAULTS.items():
        for other in others if usual in head else ():
            yield [("-", head), ("+", head.replace(usual, f"{usual.partition('=')[0]}={other}"))]


def _use_modes(answer, x, second, gamma, beta, momentum, eps) -> Named:
    """A layer in evaluation, in training with its gradient, and in evaluation; then once more."""
    import torch

    x, second, weight, bias = map(torch.from_numpy, (x, second, gamma, beta))
    layer = new(answer, x.shape[1], eps=eps, momentum=momentum).to(x.dtype).eval()
    yield NEW, layer(x[:2])  # not x: what is learnt from it here must show
    layer.load_state_dict(layer.state_dict() | {"weight": weight, "bias": bias})
    leaf = x.clone().requires_grad_()
    y = layer.train()(leaf)
    yield TRAINED, y
    yield "running_mean", layer.running_mean
    yield "running_var", layer.running_var
    yield "running_mean.grad_fn is None", layer.running_mean.grad_fn is None
    backward(y, x**2)
    yield "dx", leaf.grad
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


# --- Tests of programs ------------------------------------------------------------------------

LIKE_OTHERS = {  # mistakes that look like another there, or do not show
    "batch_norm_layer": ("rounded_numbers", "one_number_enough"),
    "layer_norm_layer": (
        *("rounded_numbers", "one_number_enough", "little_asked", "other_numbers_accepted"),
        *("given_alone_refused", "another_accepted", "shapes_compared"),
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
        use=use_test,
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
