"""The scales that enter layers, over the steps: lines that need neither scripts nor colour."""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from math import log10
from typing import TypeAlias

from normkit.messages import say
from normkit.watching.telling import CALM, short

Points: TypeAlias = list[tuple[int, float]]  # (step, value)

WIDE, HIGH, LEFT, RIGHT, TOP, BOTTOM = 520, 180, 50, 10, 24, 20


def picture(series: Mapping[str, Points]) -> str:
    """What enters each layer, by path, over the steps; the one that grew most in bold."""
    positive = {path: [p for p in points if p[1] > 0] for path, points in series.items()}
    drawn = {path: points for path, points in positive.items() if points}
    if not drawn:
        return ""
    most = max(drawn, key=lambda path: drawn[path][-1][1] / min(v for _, v in drawn[path]))
    frame = _frame([point for points in drawn.values() for point in points])
    title = escape(say("RMS over the steps; in bold: {path}", path=most))
    curves = "".join(_curve(points, frame, path == most) for path, points in drawn.items())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {HIGH}" role="img" '
        f'style="max-width: {WIDE}px; width: 100%" font-size="11" font-family="sans-serif" '
        f'fill="currentColor"><title>{title}</title><text y="11">{title}</text>'
        f"{_axes(frame)}{curves}</svg>"
    )


@dataclass(frozen=True)
class Frame:
    """The steps and the powers of ten that a picture shows."""

    first: int
    last: int
    low: float
    high: float

    def at(self, step: int, value: float) -> tuple[float, float]:
        across = (step - self.first) / max(1, self.last - self.first)
        up = (log10(value) - self.low) / (self.high - self.low)
        x, y = LEFT + across * (WIDE - LEFT - RIGHT), HIGH - BOTTOM - up * (HIGH - TOP - BOTTOM)
        return round(x, 1), round(y, 1)


def _frame(points: Points) -> Frame:
    steps, powers = [step for step, _ in points], [log10(value) for _, value in points]
    middle = max(0.0, log10(CALM) - (max(powers) - min(powers))) / 2  # a calm run is no storm
    return Frame(min(steps), max(steps), min(powers) - middle, max(powers) + middle)


def _axes(frame: Frame) -> str:
    """The least and the greatest value, the first and the last step."""
    low, high = (10**power for power in (frame.low, frame.high))
    right, bottom = WIDE - RIGHT, HIGH - BOTTOM
    last = say("step {step}", step=frame.last)
    return (
        f'<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="currentColor"/>'
        f'<text x="{LEFT - 4}" y="{bottom}" text-anchor="end">{short(low)}</text>'
        f'<text x="{LEFT - 4}" y="{TOP + 8}" text-anchor="end">{short(high)}</text>'
        f'<text x="{LEFT}" y="{HIGH - 5}">{frame.first}</text>'
        f'<text x="{right}" y="{HIGH - 5}" text-anchor="end">{escape(last)}</text>'
    )


def _curve(points: Points, frame: Frame, bold: bool) -> str:
    path = " ".join("{},{}".format(*frame.at(*point)) for point in points)
    look = 'stroke-width="2.5"' if bold else 'stroke-width="0.8" stroke-opacity="0.6"'
    return f'<polyline points="{path}" fill="none" stroke="currentColor" {look}/>'
