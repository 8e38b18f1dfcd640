"""A verdict in words: what is wrong, the numbers that show it, and where to read on."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from normkit.messages import N_, book, columns, translator
from normkit.tutor.judging import SMALL, Difference, Verdict, distance, first_row
from normkit.tutor.states import NEITHER
from normkit.tutor.steps import steps, worst
from normkit.tutor.troubles import meaning

Translate = Callable[[str], str]

WIDTH = 88
LISTED = 4  # results that are listed by name
LARGE = 1e12  # a number above it is shown with its power of ten
SMALLEST = 12  # decimals that a step on the way is shown with
NUMBERS = {"nan", "statistics", "values"}  # differences that two arrays show
MODIFIED = N_("Changed in place: {name}. The caller still needs the old values: work on a copy.")
SENTENCES = {
    "type": N_("The type of {name} is {came} instead of {expected}."),
    "results": N_("Returned: {came}. Expected: {expected}."),
    "axes": N_(
        "The numbers of {name} are right, but its axes stand in another order: its shape is {came} "
        "instead of {expected}."
    ),
    "shape": N_("The shape of {name} is {came} instead of {expected}."),
    "dtype": N_("The dtype of {name} is {came} instead of {expected}."),
    "nan": N_("There are infinite values or nan in {name}."),
    "statistics": N_(
        "Token {token} of {name} has mean {mean} and variance {var}; expected: mean {right_mean} "
        "and variance {right_var}."
    ),
    "modified": MODIFIED,
}
ORDER = N_("The results are right, but in another order: {came}. Expected: {expected}.")
ROUNDED = N_("The results are right, but rounded. Round what you print, not what you return.")
MISSING = N_("None instead of a result: {names}. It is not written yet, or not returned.")
MISSING_GRADIENT = N_(
    "None instead of a result: {names}. It is not written yet, or not returned; or, if it is a "
    "gradient, none arrives there."
)
UNTOUCHED = N_("It still says raise NotImplementedError: put your own code in its place.")
UNKNOWN = N_(
    "This is like no mistake that the course knows. Redo a small example by hand and print each of "
    "your steps: where do they part?"
)
NEARLY = N_(
    "{name} is nearly right: perhaps it is rounded too far, or a number on the way there is."
)
UNFILLED = N_(
    "{name} is 0 throughout, whatever comes in: perhaps an array of zeros is returned into which "
    "nothing was written. In a loop over its rows, row = ... writes nothing into it; y[i] = ... "
    "does, and in JAX y = y.at[i].set(...)."
)
SHARED = N_(
    "{names} hold the same numbers: perhaps they are one array under several names, as after "
    "a = b = np.zeros(n) or a, b = [np.zeros(n)] * 2, where a += ... changes b too. Make an array "
    "for each."
)
NO_RETURN = N_("A function without return gives None.")
AXIS_LEFT = N_(
    "An axis of length 1 is too many: keepdims=True and [:, None] leave one, and numbers in a row "
    "beside numbers in a column make a table."
)
WIDENED = N_(
    "One array of float64 makes float64 of all that is computed with it: astype(np.float64) makes "
    "one, and so do np.zeros(shape) and np.array([0.5]), unless they are given a dtype."
)
ELSEWHERE = N_("Besides, an exception is raised: see below.")
RAISED = N_("An exception was raised: {came}")
RAISED_IN = N_("This line raises {came}")
RAISED_BY = N_("What is called in this line, not the line itself, raises {came}")
GIVEN = N_(
    "Look at what it is given there: the order, the number, the types and the shapes of the "
    "arguments."
)
LAYER = N_("The class of a layer takes the number of features; the layer that it makes takes x.")
STEPS = N_("Right values on the way there:")
PRINTED = N_("What you printed there:")
SOLID = "\0"  # a space at which no line breaks
CONTINUED = "\1"  # begins a line that continues the one above
# where a line may end: at a space, and between two Chinese characters
HAN = "\u2e80-\u2fff\u3040-\u9fff"
PIECE = re.compile(
    rf"[ \n]*[（《“]*(?:[{HAN}]|[^ \n，。、；：！？（）《》{HAN}]+|.)[，。、；：！？）》”]*"
)


def explain(verdict: Verdict, language: str = "en") -> str:
    """The verdict in words; at most about ten lines, and those that show steps and prints."""
    return "\n".join(_lines(verdict, language)).replace(CONTINUED, "")


def paragraphs(verdict: Verdict, language: str = "en") -> list[str]:
    """The same words where lines may have any length; what is indented keeps its two spaces."""
    text = "\n".join(_lines(verdict, language))
    joined = re.sub(rf"(?<=[{HAN}，。、；：！？）》”])\n{CONTINUED}", "", text)
    return joined.replace(f"\n{CONTINUED}", " ").split("\n")


def _lines(verdict: Verdict, language: str) -> list[str]:
    _ = translator(language)
    if verdict.passed:
        many = _("✓ {task}: right in all {count} checks.")
        text = many if verdict.count > 1 else _("✓ {task}: right.")
        return [text.format(task=verdict.task.name, count=verdict.count)]
    lines = [_("✗ {task}: not right yet.").format(task=verdict.task.name)]
    lines += [*_progress(verdict, _), *_advice(verdict, _)]
    if verdict.first.what not in ("ready_made", "missing") and not verdict.untouched:
        lines += _evidence(verdict, _)
    if raised := verdict.raised:
        told = raised.first.probe is verdict.first.probe
        lines += (_trouble if told else _evidence)(raised, _)
    if not verdict.mistakes:
        lines += [*_steps(verdict, _), *_printed(verdict, _)]
    return [*lines, _("Read on: {address}").format(address=_address(verdict, language))]


def _listed(names: Sequence[str], _: Translate) -> str:
    return ", ".join([*map(_, names[:LISTED]), *["…"] * (len(names) > LISTED)])


def _progress(verdict: Verdict, _: Translate) -> list[str]:
    """What is right already, and what is missing."""
    lines = []
    right = [name for name in verdict.right if not name.startswith("whether ")]
    if right:
        lines.append(_("Right already: {names}.").format(names=_listed(right, _)))
    if verdict.missing:
        gradients = any(map(_is_gradient, verdict.missing))
        text = _(MISSING_GRADIENT if gradients else MISSING)
        lines.append(text.format(names=_listed(verdict.missing, _)))
    return [line for text in lines for line in _wrap(text)]


def _is_gradient(name: str) -> bool:
    return bool(re.match(r"d[a-z]", name))


def _advice(verdict: Verdict, _: Translate) -> list[str]:
    found = verdict.first
    if verdict.untouched:
        return _wrap(_(UNTOUCHED))
    if found.what == "ready_made":
        text = _("{name} does this for you. Write it yourself: the task says what is not allowed.")
        return _wrap(text.format(name=found.name))
    if verdict.alone:
        return _advice_alone(verdict, _)
    messages = [_(mistake.message) for mistake in verdict.mistakes]
    if verdict.order:
        came, expected = ", ".join(verdict.order.values()), ", ".join(verdict.order)
        messages.append(_(ORDER).format(came=came, expected=expected))
    if verdict.rounded:
        messages.append(_(ROUNDED))
    if verdict.raised:
        messages.append(_(ELSEWHERE))
    if verdict.changed:
        messages.append(_(MODIFIED).format(name=", ".join(verdict.changed)))
    if len(messages) > 1:
        messages = [f"{i}. {message}" for i, message in enumerate(messages, 1)]
        messages.insert(0, _("Together, these mistakes explain all results:"))
    if not messages and found.what in NUMBERS:
        names = _listed(verdict.shared, _)
        messages = [_(_unknown(verdict)).format(name=_(found.name), names=names)]
    return [line for message in messages for line in _wrap(message)]


def _unknown(verdict: Verdict) -> str:
    """What is said of numbers that no mistake explains."""
    if _is_nearly_right(found := verdict.first):
        return NEARLY
    if found.name in verdict.unfilled:
        return UNFILLED
    return SHARED if found.name in verdict.shared else UNKNOWN


def _is_nearly_right(found: Difference) -> bool:
    """Whether a number that was computed by hand, from no input, differs by little too much."""
    by_hand = not found.probe.inputs and found.expected.size == 1
    return by_hand and distance(found.came, found.expected) <= 10 * found.probe.tolerance


def _advice_alone(verdict: Verdict, _: Translate) -> list[str]:
    """What each mistake explains by itself."""
    of: dict[Any, list[str]] = {}
    for name, mistakes in verdict.alone.items():
        of.setdefault(mistakes, []).append(name)
    lines = []
    for mistakes, names in of.items():
        lines += _wrap(_("{name}, looked at alone, perhaps:").format(name=_listed(names, _)))
        lines += [line for mistake in mistakes for line in _wrap(_(mistake.message))]
    return lines


def _evidence(verdict: Verdict, _: Translate) -> list[str]:
    """The input on which it shows first, and what came there instead of what."""
    found = verdict.first
    inputs = [
        text.replace(" ", SOLID) if len(text) <= WIDTH else text
        for text in telling(found.probe.inputs)
    ]
    place = _("First seen on: {input}").format(input=" · ".join([_(found.probe.name), *inputs]))
    lines = _wrap(place)
    if found.what == "error":
        return lines + _trouble(verdict, _)
    lines += _told(verdict, _)
    if found.what in NUMBERS:
        numbers = _numbers(_(found.name), found.came, found.expected, _("expected"))
        lines += [line.replace(NEITHER, _(NEITHER)) for line in numbers]
    if verdict.seen.error and not verdict.mistakes:  # later on the same input
        lines += _trouble(verdict, _)
    return lines


def _trouble(verdict: Verdict, _: Translate) -> list[str]:
    """The student's line that raised, the shapes met there, and what the exception means."""
    came, seen = verdict.seen.error, verdict.seen
    raised = RAISED_BY if seen.tested else RAISED_IN if seen.line else RAISED
    lines = _wrap(_(raised).format(came=came))
    lines += [f"  {seen.line}"] if seen.line else []
    if seen.shapes:
        shapes = ", ".join(f"{name} {shape}" for name, shape in seen.shapes.items())
        lines += _wrap(_("Shapes there: {shapes}").format(shapes=shapes))
    told = verdict.mistakes and not verdict.unlike
    known = "" if told else meaning(came, _, seen.line, seen.meant)
    if seen.tested:  # the line itself may be as it should
        known = " ".join([_(GIVEN), *[_(LAYER)] * (seen.tested == "__init__")])
    return lines + (_wrap(known) if known else [])


def _told(verdict: Verdict, _: Translate) -> list[str]:
    """A sentence about the difference, unless two arrays say the same."""
    found = verdict.first
    facts = {"name": _(found.name), "came": found.came, "expected": found.expected}
    if found.what in ("axes", "dtype", "shape"):
        fact = "dtype" if found.what == "dtype" else "shape"
        facts |= {key: getattr(facts[key], fact) for key in ("came", "expected")}
    if found.what == "results":
        facts |= _parted(found.came, found.expected, _)
    told = found.what in SENTENCES and not verdict.mistakes  # whose messages say it
    told |= found.what not in {*NUMBERS, "modified"}
    if found.what == "statistics":
        facts |= _statistics(found.came, found.expected, found.probe.tolerance)
        told &= any(facts[name] != facts[f"right_{name}"] for name in ("mean", "var"))
    text = _(SENTENCES[found.what]).format(**facts) if told else ""
    nothing = found.what == "results" and "NoneType" in found.came.values()
    none = found.what == "type" and found.came == "NoneType" and told and not verdict.mistakes
    # a gradient may be None because none arrived
    returned = not _is_gradient(found.name) or found.name == next(iter(verdict.seen.kinds), "")
    nothing |= none and returned
    widened = told and found.what == "dtype" and facts["came"] == "float64"
    unknown = not verdict.mistakes and not verdict.order
    left = unknown and found.what == "shape" and _leaves_axis(found.came, found.expected)
    said = (text, _(NO_RETURN) * nothing, _(WIDENED) * widened, _(AXIS_LEFT) * left)
    return [line for part in said if part for line in _wrap(part)]


def _leaves_axis(came: np.ndarray, expected: np.ndarray) -> bool:
    """Whether the shape is the expected one, but for an axis of length 1 more."""
    single = (axis for axis, length in enumerate(came.shape) if length == 1)
    return any(came.squeeze(axis).shape == expected.shape for axis in single)


def _steps(verdict: Verdict, _: Translate) -> list[str]:
    """What the right program computes on the way, where numbers differ."""
    found = verdict.first
    if found.what not in {*NUMBERS, "axes", "shape"} or not (done := steps(verdict.task, found)):
        return []
    width = max(map(len, done))
    shown = [f"  {name:{width}} {_show(value, _decimals(value))}" for name, value in done.items()]
    return [_(STEPS), *shown]


def _decimals(value: Any) -> int:
    """How many show an array: four, or more for small numbers; what rounding has left stays 0."""
    size = float(np.abs(value).max(initial=0))
    return min(4 - math.ceil(math.log10(size)), SMALLEST) if 0 < size < 0.01 else 4


def _printed(verdict: Verdict, _: Translate) -> list[str]:
    printed = verdict.seen.printed.splitlines()
    return [_(PRINTED), *(f"  {line}" for line in printed)] if printed else []


def _parted(came: Mapping[str, str], due: Mapping[str, str], _: Translate) -> dict[str, str]:
    """What was returned and what was to be; of one result in place of several, the rest is ours."""
    both = came.items() & due.items() if "result" in came else set[tuple[str, str]]()
    sides = {"came": came.items() - both, "expected": due.items() - both}
    return {
        side: _kinds({k: v for k, v in of.items() if (k, v) in sides[side]}, _)
        for side, of in (("came", came), ("expected", due))
    }


def _kinds(results: Mapping[str, str], _: Translate) -> str:
    return ", ".join(f"{_(name)} ({kind})" for name, kind in results.items()) or _("nothing")


def telling(inputs: Mapping[str, Any]) -> list[str]:
    """The inputs as text, constant arrays and eps aside; if that is too much, the shape of x."""
    arrays = {name: v for name, v in inputs.items() if isinstance(v, np.ndarray)}
    told = {name: _show(v, 4) for name, v in arrays.items() if v.size < 2 or np.ptp(v + 0) > 0}
    if sum(map(len, told.values())) > 1.5 * WIDTH:
        name = "x" if "x" in arrays else next(iter(arrays))
        told = {f"{name}.shape": str(arrays[name].shape)}
    numbers = {name: v for name, v in inputs.items() if type(v) in (int, float) and name != "eps"}
    told |= {name: _show(number, 4) for name, number in numbers.items()}
    return [f"{name} = {text}" for name, text in told.items()]


def _wrap(text: str) -> list[str]:
    """Lines of at most WIDTH columns, of which none begins with a punctuation mark."""
    lines, width = [""], 0
    for piece in PIECE.findall(text):
        if width and width + columns(piece) > WIDTH:
            lines, width = [*lines, ""], 0
        piece = piece if width else piece.lstrip(" \n")
        lines[-1] += piece
        width += columns(piece)
    first, *others = (line.replace(SOLID, " ") for line in lines)
    return [first, *(CONTINUED + line for line in others)]


def _statistics(came: np.ndarray, expected: np.ndarray, tolerance: float) -> dict[str, Any]:
    both: tuple[Callable[[np.ndarray], Any], ...] = np.mean, np.var
    token = first_row(came, expected, tolerance) or ()  # there is one: such is the difference
    moments = {
        name: _show(moment(array[token]), 4)
        for array, names in ((came, ("mean", "var")), (expected, ("right_mean", "right_var")))
        for name, moment in zip(names, both, strict=True)
    }
    return {"token": ", ".join(map(str, token)) or 0, **moments}


def _numbers(name: str, came: np.ndarray, expected: np.ndarray, label: str) -> list[str]:
    name, *texts = compared(name, came, expected)
    width = max(map(columns, (name, label)))  # Chinese characters take two columns
    return [
        f"  {t}{' ' * (width - columns(t))} {text}"
        for t, text in zip((name, label), texts, strict=True)
    ]


def compared(name: str, came: np.ndarray, expected: np.ndarray) -> tuple[str, str, str]:
    """Both arrays as text, or where they differ most; with as many digits as it takes to see it."""
    if expected.size > SMALL:
        place = worst(came, expected)
        space = " " if " " in name else ""  # after words
        name, came, expected = f"{name}{space}{list(place)}", came[place], expected[place]
    digits = next((d for d in (4, 8) if _show(came, d) != _show(expected, d)), 16)
    return name, _show(came, digits), _show(expected, digits)


def _show(value: Any, digits: int) -> str:
    """An array on one line, without trailing zeros."""

    def number(x):
        if LARGE < abs(x) < np.inf:  # such as what np.empty leaves: no row of zeros
            return np.format_float_scientific(x, digits, trim="-")
        return np.format_float_positional(round(float(x), digits) + 0.0, trim="-")

    text = np.array2string(np.asarray(value), separator=", ", formatter={"float_kind": number})
    return " ".join(text.split())


def _address(verdict: Verdict, language: str) -> str:
    """The places in the book: those of the mistakes, or the chapter of the task."""
    places = [f"{m.page}#{m.label}" for m in verdict.mistakes] or [verdict.task.chapter]
    pages = (place.replace("#", ".html#") if "#" in place else f"{place}.html" for place in places)
    return " · ".join(f"{book()}{language}/{page}" for page in dict.fromkeys(pages))
