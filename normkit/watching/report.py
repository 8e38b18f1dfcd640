"""The report of a watch: in a terminal a table, in a notebook a picture above it."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import log10
from typing import TYPE_CHECKING

from normkit.messages import columns, say
from normkit.watching.history import GRADIENT, SCALE, WEIGHT
from normkit.watching.picture import Points, picture
from normkit.watching.signs import Note
from normkit.watching.telling import CALM, sentence, short, what

if TYPE_CHECKING:
    from normkit.watching import Watch

LISTED = 12  # layers in a table
BARS = "▁▂▃▄▅▆▇█"
TREND = 12  # bars


@dataclass(frozen=True)
class Line:
    """A layer in the table."""

    path: str
    kind: str
    cells: tuple[str, ...]  # what enters first, last; gradient of γ; γ
    series: Points


def lines(watch: "Watch") -> list[Line]:
    """The layers with a note, then those that grew most; in the order in which they are called."""
    noted = {note.path for note in watch.notes} | {watch.stopped.path if watch.stopped else ""}
    grown = [g.factor if (g := watch.log.growth(i)) else 0.0 for i in range(len(watch.places))]
    first = sorted(watch.called, key=lambda i: (watch.places[i].path not in noted, -grown[i]))
    return [_line(watch, index) for index in watch.called if index in first[:LISTED]]


def _line(watch: "Watch", index: int) -> Line:
    place, log = watch.places[index], watch.log
    values = (
        float(log.first[SCALE, index]),
        log.last(SCALE, index),
        log.last(GRADIENT, index),
        log.last(WEIGHT, index),
    )
    return Line(place.path, place.kind, tuple(map(short, values)), log.series(SCALE, index))


def heads() -> tuple[str, ...]:
    """The heads of the table."""
    return (
        say("layer"),
        say("class"),
        say("RMS, first"),
        say("RMS, last"),
        say("gradient of γ"),
        "γ",
        say("trend"),
    )


def summary(watch: "Watch") -> list[str]:
    """What stands above the table."""
    counts = {"steps": watch.steps, "layers": len(watch.called)}
    told = [
        say(
            "Steps: {steps}. Layers: {layers}. RMS of the input, of the gradient of γ, of γ.",
            **counts,
        )
    ]
    if watch.log.stride > 1:
        told.append(
            say("Each point is the greatest of {count} measured steps.", count=watch.log.stride)
        )
    if watch.stopped:
        told.append(what(watch, watch.stopped))
    return told


def remarks(watch: "Watch") -> list[str]:
    """The notes as sentences, one for each name: the strongest, and how many more there are."""
    groups = dict[str, list[Note]]()
    for note in watch.notes:
        groups.setdefault(note.name, []).append(note)
    strongest = {name: max(reversed(group), key=_strength) for name, group in groups.items()}
    told = [sentence(watch, note, len(groups[name]) - 1) for name, note in strongest.items()]
    return told or ([] if watch.stopped else [say("Nothing to note.")])


def _strength(note: Note) -> float:
    """By how much; where there is no such number, the last layer is the nearest to the loss."""
    return note.fields.get("factor", 0.0)


def hidden(watch: "Watch", shown: Sequence[Line]) -> list[str]:
    """How many layers the table leaves out: those without a note that grew less."""
    left = len(watch.called) - len(shown)
    return [say("Layers not shown: {count}.", count=left)] if left > 0 else []


def text(watch: "Watch") -> str:
    """The report for a terminal."""
    shown = lines(watch)
    rows = [heads(), *((line.path, line.kind, *line.cells, _bars(line.series)) for line in shown)]
    widths = [max(map(columns, column)) for column in zip(*rows, strict=True)]
    table = ["  ".join(map(_padded, row, widths)).rstrip() for row in rows] if shown else []
    notes = [f"- {told}" for told in remarks(watch)]
    return "\n".join([*summary(watch), *notes, "", *table, *hidden(watch, shown)]).rstrip()


def _padded(cell: str, width: int) -> str:
    return cell + " " * (width - columns(cell))


def _bars(series: Points) -> str:
    """A series as a line of bars of 8 heights, on a logarithmic scale."""
    values = [log10(value) for _, value in _resampled(series, TREND) if value > 0]
    if not values:
        return ""
    low, high = min(values), max(max(values), min(values) + log10(CALM))
    return "".join(BARS[round((v - low) / (high - low) * (len(BARS) - 1))] for v in values)


def _resampled(series: Points, count: int) -> Points:
    """At most so many points: the greatest value of each part."""
    size = -(-len(series) // count) or 1
    parts = (series[at : at + size] for at in range(0, len(series), size))
    return [(part[-1][0], max(value for _, value in part)) for part in parts]


def html(watch: "Watch") -> str:
    """The report for a notebook: the notes, a picture, the table."""
    shown = lines(watch)
    above = "".join(f"<p>{escape(told)}</p>" for told in summary(watch))
    notes = "".join(f"<li>{escape(told)}</li>" for told in remarks(watch))
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads()[:-1])
    body = "".join(_html_row(line) for line in shown)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if shown else ""
    below = "".join(f"<p>{escape(told)}</p>" for told in hidden(watch, shown))
    drawn = picture({line.path: line.series for line in shown})
    return f"<div>{above}<ul>{notes}</ul>{drawn}{table}{below}</div>"


def _html_row(line: Line) -> str:
    cells = "".join(f"<td>{escape(cell)}</td>" for cell in (line.kind, *line.cells))
    return f'<tr><th scope="row"><code>{escape(line.path)}</code></th>{cells}</tr>'
