"""What was measured, step by step, in bounded memory."""

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

SIZE = 200  # points of a history, at most
EXACT = 4  # the last steps are kept as they were
QUANTITIES = ("scale", "gradient", "weight", "variance")
SCALE, GRADIENT, WEIGHT, VARIANCE = range(len(QUANTITIES))
NEAR = 1.5  # within this factor of its least value, a series has not begun to grow

Row = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Growth:
    """How much a series grew: from `first` at step `since` to `last`."""

    factor: float
    since: int
    first: float
    last: float


class History:
    """One row a step (quantity, place), thinned: a point is the greatest value of `stride` steps.

    When there are more than SIZE points, each two become one, and `stride` doubles.
    """

    def __init__(self, places: int) -> None:
        self.shape = (len(QUANTITIES), places)
        self.stride = 1
        self.steps = list[int]()  # the last of each point
        self.first: Row = np.full(self.shape, np.nan)
        self.recent = deque[tuple[int, Row]](maxlen=EXACT)
        self._points = list[Row]()
        self._open = 0  # how many steps the last point holds

    def empty(self) -> Row:
        return np.full(self.shape, np.nan)

    def add(self, step: int, row: Row) -> None:
        """Keep the row of a step; nan stands for what was not measured."""
        self.first = np.where(np.isnan(self.first), row, self.first)
        self.recent.append((step, row))
        if self._points and self._open < self.stride:
            self._points[-1] = np.fmax(self._points[-1], row)
            self.steps[-1] = step
            self._open += 1
        else:
            if len(self._points) == SIZE:
                self._thin()
            self._points.append(row)
            self.steps.append(step)
            self._open = 1

    def _thin(self) -> None:
        points = self._points
        self._points = [np.fmax(*pair) for pair in zip(points[::2], points[1::2], strict=True)]
        self.steps, self.stride = self.steps[1::2], 2 * self.stride

    def series(self, quantity: int, place: int) -> list[tuple[int, float]]:
        """The points (step, value) of one quantity at one place."""
        values = (row[quantity, place] for row in self._points)
        return [(s, float(v)) for s, v in zip(self.steps, values, strict=True) if not np.isnan(v)]

    def last(self, quantity: int, place: int) -> float:
        """The value measured last, nan if none was."""
        values = (row[quantity, place] for _, row in reversed(self.recent))
        exact = next((float(value) for value in values if not np.isnan(value)), None)
        return (
            exact if exact is not None else (self.series(quantity, place) or [(0, np.nan)])[-1][1]
        )

    def growth(self, place: int, quantity: int = SCALE) -> Growth | None:
        """From the last step at which a series was near its least value until now."""
        series = [(step, value) for step, value in self.series(quantity, place) if value > 0]
        if len(series) < 2:
            return None
        last = self.last(quantity, place)
        least = min(value for _, value in series)
        since, first = [point for point in series if point[1] <= NEAR * least][-1]
        return Growth(last / first, since, first, last)
