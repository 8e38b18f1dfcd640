"""What was seen, in words: the message of the error, the notes, a line a minute."""

import sys
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

import torch

from normkit.messages import current_language, say
from normkit.watching.history import GRADIENT, SCALE, Growth
from normkit.watching.places import Place
from normkit.watching.signs import Note, Stop

if TYPE_CHECKING:
    from normkit.watching import Watch

MINUTE = 60  # seconds between two lines in a terminal
NAMED = 3  # paths in a sentence
CALM = 2.0  # a scale that stays within this factor has not grown
NEAR_THE_END = 65504 / 1000  # an RMS; the greatest values are many times that
STILL = Growth(1.0, 0, 0.0, 0.0)


def why(watch: "Watch", stop: Stop, in_time: bool) -> str:
    """The message of the error: what, where, and what happened before. in_time: no update yet."""
    return "\n".join([what(watch, stop), *_before(watch, stop), *_after(watch, stop, in_time)])


def what(watch: "Watch", stop: Stop) -> str:
    """The first line: which tensor, and where."""
    kind = watch.places[stop.place].kind if stop.place >= 0 else ""
    fields = {"step": stop.step, "path": stop.path, "kind": kind}
    match stop.direction:
        case "forward":
            return say(
                "Step {step}, forward: the input of {path} ({kind}) is not finite.", **fields
            )
        case "backward":
            return say(
                "Step {step}, backward: the gradient of γ of {path} ({kind}) is not finite.",
                **fields,
            )
        case "buffers":
            return say("Step {step}, buffers: {path} is not finite.", **fields)
    if not stop.step:
        return say("Before the first step, parameter: {path} is not finite.", **fields)
    return say("Step {step}, parameter: {path} is not finite after the update.", **fields)


def _before(watch: "Watch", stop: Stop) -> Iterator[str]:
    """The last values at the place itself, and what grew most anywhere."""
    if recent := _recent(watch, stop):
        yield (
            say("The RMS of this gradient before: {values}.", values=recent)
            if stop.direction == "backward"
            else say("The RMS of this input before: {values}.", values=recent)
        )
    if not watch.steps:
        yield say("It is the first step: look at the input and at the initialisation.")
    elif (grown := _most(watch))[1].factor >= CALM:
        yield say(
            "What grew most: {tensor}, ×{factor} since step {since}, from {first} to {last}.",
            **_growth(*grown),
        )
    else:
        yield say("Nothing grew much before: look at the batch of this step.")
    if stop.direction == "forward" and _overflows(watch, stop.place):
        yield say(
            "This layer is given float16, which ends at 65504: compute what comes before it in "
            "bfloat16 or float32."
        )
    if stop.direction == "backward" and stop.place == watch.called[-1]:
        yield say(
            "The gradient arrives there as it comes from the loss: look for a logarithm or a "
            "division by 0 in the loss, or a loss scale that is too great."
        )


def _after(watch: "Watch", stop: Stop, in_time: bool) -> Iterator[str]:
    """What is damaged, and what is not."""
    if broken := _damaged(watch):
        yield say(
            "Running statistics that are no longer finite: {paths}. Load them from a checkpoint.",
            paths=_list(broken),
        )
    if watch.every > 1:
        yield say(
            "Measured is one step in {every}: it may have begun since step {step}.",
            every=watch.every,
            step=max(1, stop.step - watch.every + 1),
        )
    elif in_time and stop.direction != "parameter":
        yield say("This step has not updated the parameters.")


def _recent(watch: "Watch", stop: Stop) -> str:
    """The last values before the failure, each with its step."""
    if stop.place < 0:
        return ""
    row = GRADIENT if stop.direction == "backward" else SCALE
    values = [(step, values[row, stop.place]) for step, values in watch.log.recent]
    told = [(value, step) for step, value in values if value >= 0 and step < stop.step]
    return _enumerated([say("{value} (step {step})", value=short(v), step=s) for v, s in told])


def _overflows(watch: "Watch", place: int) -> bool:
    """Whether an input in half precision came near its end, or was not seen before."""
    last = watch.log.last(SCALE, place)
    return watch.places[place].dtype == torch.float16 and not last < NEAR_THE_END


def _most(watch: "Watch") -> tuple[Place, Growth]:
    """The place whose scale grew most, and how."""
    grown = [(p, g) for i, p in enumerate(watch.places) if (g := watch.log.growth(i))]
    return max(grown, key=lambda one: one[1].factor, default=(watch.places[0], STILL))


def tensor(place: Place) -> str:
    """What is measured at a place, as it stands within a sentence."""
    if place.leaves:
        return say("the output of {path}", path=place.path)
    return say("the input of {path}", path=place.path)


def _growth(place: Place, growth: Growth) -> dict[str, str]:
    numbers = {name: _field(value) for name, value in vars(growth).items()}
    return {"tensor": tensor(place), **numbers}


def _damaged(watch: "Watch") -> list[str]:
    return [
        ".".join(filter(None, (place.path, name)))
        for place in watch.places
        for name, buffer in place.buffers()
        if not torch.isfinite(buffer).all()
    ]


def sentence(watch: "Watch", note: Note, others: int = 0) -> str:
    """A note in words; others: how many more layers have the same."""
    fields = {key: _field(value) for key, value in note.fields.items()} | {"path": note.path}
    fields["tensor"] = "".join(tensor(p) for p in watch.places if p.path == note.path)
    told = _sentence(note, fields)
    if note.name == "vanishes" and (grown := _most(watch))[1].factor >= 2 * CALM:
        meanwhile = say(
            "Meanwhile {tensor} grew ×{factor} since step {since}, from {first} to {last}.",
            **_growth(*grown),
        )
        told = _and(told, meanwhile)
    if others:
        told = _and(told, say("In other layers as well: {count}.", count=others))
    return told


def _sentence(note: Note, fields: dict[str, Any]) -> str:
    match note.name:
        case "grows":
            return say(
                "×{factor} since step {since}: {tensor} grew from {first} to {last}, and still "
                "grows.",
                **fields,
            )
        case "grew":
            return say(
                "×{factor} since step {since}: {tensor} grew from {first} to {last}.", **fields
            )
        case "vanishes":
            return say(
                "The gradient no longer reaches {path}: that of its γ is {last} times the one of "
                "{end}, since step {since}; in the beginning it was {first} times. A learning rate "
                "that is too high does this, in Post-Norm above all: lower it, or warm up.",
                **fields,
            )
        case "silent":
            return say(
                "The gradient of γ of {path} is 0 since step {since}; before, its RMS was "
                "{before}. Nothing arrives there from the loss, or the input is constant.",
                **fields,
            )
        case "always_silent":
            return say(
                "The gradient of γ of {path} was 0 in all steps. Nothing arrives there from the "
                "loss, or the input is constant.",
                **fields,
            )
        case "shrunk":
            return say(
                "γ of {path} shrank from {first} to {last}; since step {since} it is below a "
                "hundredth of what it was.",
                **fields,
            )
    return _of_statistics(note, fields)


def _of_statistics(note: Note, fields: dict[str, Any]) -> str:
    match note.name:
        case "variance_ruined":
            told = say(
                "The batch of step {step} multiplied the running variance of {path} by {factor}.",
                **fields,
            )
            if note.fields["batches"] is None:
                return told
            back = say(
                "It takes {batches} batches until it is down to twice what it was.", **fields
            )
            return _and(told, back)
        case "mean_ruined":
            return say(
                "The batch of step {step} moved the running mean of {path} by {factor} standard "
                "deviations.",
                **fields,
            )
        case "never_called":
            return say(
                "{path} was not called in training mode with gradients. If the model had run "
                "compiled before, its layers are hidden.",
                **fields,
            )
        case "discarded":
            return say(
                "In {count} backward passes the gradients were not finite, and no update used "
                "them. A GradScaler searches its scale in this way, but seldom so often.",
                **fields,
            )
    return say(
        "No optimiser of torch.optim updated this model: call step() of the watch after each "
        "update."
    )


def _field(value: Any) -> str:
    return short(value) if isinstance(value, float) else str(value)


def short(value: float) -> str:
    """Three digits: 0.00123, 12.3, 12300, 1.23e+05."""
    if value != value:
        return "–"
    return f"{float(f'{value:.3g}'):.0f}" if 1000 <= value < 1e5 else f"{value:.3g}"


def _and(one: str, other: str) -> str:
    """Two sentences; Chinese has no space between them."""
    return f"{one}{'' if current_language() == 'zh' else ' '}{other}"


def _enumerated(parts: Sequence[str]) -> str:
    return ("、" if current_language() == "zh" else ", ").join(parts)


def _list(paths: Sequence[str]) -> str:
    """The first paths, and how many more."""
    shown = _enumerated(paths[:NAMED])
    more = len(paths) - NAMED
    return shown if more <= 0 else say("{paths} and {count} more", paths=shown, count=more)


# --- In a terminal ----------------------------------------------------------------------------


def line_a_minute(watch: "Watch", told: float) -> float:
    """Say where training stands, if a minute has passed; the time of the last line."""
    now = monotonic()
    if now - told < MINUTE:
        return told
    if "ipykernel" not in sys.modules:
        print(_line_of(watch), file=sys.stderr)
    return now


def _line_of(watch: "Watch") -> str:
    grown = _most(watch)
    if grown[1].factor < CALM:
        return say("step {step}: nothing grew", step=watch.steps)
    return say(
        "step {step}: what grew most is {tensor}, ×{factor} since step {since}",
        step=watch.steps,
        **_growth(*grown),
    )
