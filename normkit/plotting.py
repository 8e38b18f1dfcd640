"""What the pages of the book show: figures in one style, ``normkit``'s code, numbers.

In a figure, words stay text, so that the browser chooses the font and the press translates
them; formulas become outlines, because a browser cannot set them. A label is therefore either
plain words or one formula, never both.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np

from normkit._extras import need

if TYPE_CHECKING:
    from IPython.display import Markdown
    from matplotlib.figure import Figure

# Colours by what they mean. The site turns each into the variable of its name, which has another
# value in the dark theme (press/site/static/book.css, where they are explained).
A, B, C, D = "#1f7bbf", "#94690f", "#1f6143", "#9c3d7b"  # groups and series
A_FILL, B_FILL, C_FILL, D_FILL = "#abd2f7", "#fbd08c", "#84dfc0", "#f3ddec"  # cells of a group
SHIFT, SCALE = "#5936c4", "#a8184a"  # μ and β; σ, rms and γ
RIGHT, WRONG = "#0b6b3f", "#b0380a"
INK, MUTED, EDGE, LINE = "#1b1e25", "#595d66", "#837e72", "#dcd8ce"
PAPER = "#fdfcf9"
FILLS = (A_FILL, B_FILL, C_FILL, D_FILL)

STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "system-ui", "sans-serif"],
    "font.size": 11,
    "mathtext.fontset": "cm",
    "svg.fonttype": "none",
    "svg.hashsalt": "normkit",  # the same figure twice is the same file
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.facecolor": "none",
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": EDGE,
    "xtick.color": EDGE,
    "ytick.color": EDGE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "lines.linewidth": 2,
    "lines.markersize": 6,
    "lines.solid_capstyle": "round",
    "patch.linewidth": 0,
    "patch.edgecolor": INK,
    "hatch.color": INK,
    "legend.frameon": False,
}
CYCLE = {
    "color": [A, B, C, D],
    "linestyle": ["-", "--", "-.", ":"],
}  # a series differs in dash, too


@contextmanager
def draw(width: float = 4.6, height: float = 3.0, axis: bool = True, **subplots: Any) -> Iterator:
    """Yield ``(figure, axes)`` in the course's style, and show the figure at the end.

    Sizes are in inches: 4.6 is a phone's width with letters of 11 pixels. ``axis=False`` gives
    bare axes, for diagrams; ``subplots`` goes to ``Figure.subplots``.

    >>> with draw(3, 2) as (figure, axes):  # doctest: +SKIP
    ...     axes.plot([0, 1], [0, 1], color=A)
    """
    need("matplotlib"), need("IPython")
    import matplotlib
    from cycler import cycler
    from IPython.display import SVG, display
    from matplotlib.figure import Figure

    with matplotlib.rc_context({**STYLE, "axes.prop_cycle": cycler(**CYCLE)}):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(**subplots)
        if not axis:
            for each in figure.axes:
                each.set_axis_off()
        yield figure, axes
        display(SVG(_svg(figure)))


def name_lines(axes: Any, gap: float = 4, names: dict[str, str] | None = None) -> None:
    """Write the label of each line at its end, in its colour, in the place of a legend.

    Labels that would meet are moved apart. gap: between line and label, in points. names: another
    text for a label, one formula or plain words, as in the labels themselves.

    >>> with draw(3, 2) as (figure, axes):  # doctest: +SKIP
    ...     axes.plot([0, 1], [0, 1], label="without")
    ...     name_lines(axes)
    """
    figure = axes.figure
    figure.draw_without_rendering()  # the limits and sizes are then known
    lines = [line for line in axes.get_lines() if not line.get_label().startswith("_")]
    ends = [line.get_transform().transform(line.get_xydata())[-1] for line in lines]
    height = figure.dpi / 72 * 12.5
    places = _apart([end[1] for end in ends], height)
    for line, end, place in zip(lines, ends, places, strict=True):
        label = (names or {}).get(line.get_label(), line.get_label())
        x, y = axes.transAxes.inverted().transform((end[0], place))
        name = axes.annotate(
            label, (x, y), (gap, 0), xycoords="axes fraction", textcoords="offset points",
            va="center", color=line.get_color(), annotation_clip=False,
        )  # fmt: skip
        if label.replace(" ", "").isalpha():
            _leave_room(figure, 0.7 * name.get_window_extent().width)


def _leave_room(figure: Any, width: float) -> None:
    """Keep the right of a figure free, for words that are longer in another language."""
    layout = figure.get_layout_engine()
    right = min(1 - width / figure.bbox.width, layout.get()["rect"][2])
    layout.set(rect=(0, 0, right, 1))


def _apart(places: list[float], least: float) -> list[float]:
    """The nearest places in the same order, neighbours at least so far from each other."""
    order = np.argsort(places, kind="stable")
    groups: list[list[float]] = []  # sum and count of places that move together
    for rank, index in enumerate(order):
        groups.append([places[index] - least * rank, 1])
        while len(groups) > 1 and groups[-2][0] / groups[-2][1] > groups[-1][0] / groups[-1][1]:
            total, count = groups.pop()
            groups[-1][0] += total
            groups[-1][1] += count
    found = np.empty(len(places))
    level = np.repeat([total / count for total, count in groups], [int(n) for _, n in groups])
    found[order] = level + least * np.arange(len(places))
    return found.tolist()


def blocks(
    axes: Any, values: Any, groups: Any, form: str = "{:g}", size: float = 11, left: float = 0
) -> None:
    """Draw a table of numbers in which those that share statistics are one block.

    values: (rows, columns). groups: of the same shape, the number of each cell's group, whose
    cells form a rectangle; cells below 0 stand alone, without colour. form: of the numbers; an
    empty one leaves them out. Cell (r, c) spans x from left + c to left + c + 1 and y from -r - 1
    to -r.

    >>> with draw(3, 2, axis=False) as (figure, axes):  # doctest: +SKIP
    ...     blocks(axes, [[1, 2], [3, 4]], [[0, 0], [1, 1]])
    """
    from matplotlib.patches import FancyBboxPatch

    values, groups, gap = np.asarray(values), np.asarray(groups), 0.05
    for group in np.unique(groups):
        cells = np.argwhere(groups == group)
        for part in [cells] if group >= 0 else cells[:, None]:
            (top, first), (bottom, last) = part.min(0), part.max(0) + 1
            box = FancyBboxPatch(
                (left + first + gap, gap - bottom), last - first - 2 * gap, bottom - top - 2 * gap,
                boxstyle="round,pad=0,rounding_size=0.08", linewidth=0 if group >= 0 else 0.8,
                facecolor=FILLS[group % 4] if group >= 0 else "none", edgecolor=LINE,
            )  # fmt: skip
            axes.add_patch(box)
    for (row, column), value in np.ndenumerate(values):
        x, y = left + column + 0.5, -row - 0.5
        axes.text(x, y, form.format(value), ha="center", va="center", size=size)
    axes.set(xlim=(0, left + values.shape[1]), ylim=(-values.shape[0], 0))


def statistics(axes: Any, values: Any, groups: Any, size: float = 10) -> None:
    """Write the mean and the spread of each block in the margin of a table of `blocks`.

    At the right, under their letters, where the blocks are whole rows; otherwise below the table,
    beside them. The limits grow by the two lines of the margin, and by that of the letters.

    >>> with draw(3, 2, axis=False) as (figure, axes):  # doctest: +SKIP
    ...     table = [[1, 2], [3, 4]], [[0, 0], [1, 1]]
    ...     blocks(axes, *table), statistics(axes, *table)
    """
    values, groups = np.asarray(values), np.asarray(groups)
    rows, columns = values.shape
    beside = (groups == groups[:, :1]).all()

    def write(text: str, line: int, along: float, colour: str, size: float = size) -> None:
        x, y = (columns + 0.6 + line, -along) if beside else (along, -rows - 0.45 - 0.75 * line)
        axes.text(x, y, text, ha="center", va="center", color=colour, size=size)

    letters: tuple[tuple[str, Callable, str], ...]
    letters = ((r"$\mu$", np.mean, SHIFT), (r"$\sigma$", np.std, SCALE))
    for line, (letter, statistic, colour) in enumerate(letters):
        write(letter, line, -0.4, colour, size + 2)
        for group in np.unique(groups):
            middle = np.argwhere(groups == group).mean(0) + 0.5
            number = f"{round(statistic(values[groups == group]), 2):g}"
            write(number, line, middle[0 if beside else 1], colour)
    axes.set(xlim=(0, columns + 2.1) if beside else (-0.7, columns))
    axes.set(ylim=(-rows, 0.7) if beside else (-rows - 1.6, 0))


def split(axes: Any, point: Any, removed: Any, kept: Any, arc: tuple[float, float]) -> None:
    """Draw a vector at a point of its circle, and the two parts whose sum it is.

    point: of a circle around (0, 0). removed, kept: the parts, along the radius and along the
    tangent. arc: from which angle to which the circle is drawn.

    >>> with draw(3, 2, axis=False) as (figure, axes):  # doctest: +SKIP
    ...     split(axes, (1, 0), (0.5, 0), (0, 1), arc=(-1, 1))
    """
    point, removed, kept = map(np.asarray, (point, removed, kept))
    angle = np.linspace(*arc, 200)
    circle = np.linalg.norm(point) * np.array([np.cos(angle), np.sin(angle)])
    axes.plot(*circle, color=EDGE, linewidth=1.5, linestyle="-")
    for start, end in (
        (0 * point, point),
        *((point + v, point + removed + kept) for v in (removed, kept)),
    ):
        axes.plot(*np.array([start, end]).T, color=MUTED, linewidth=1, linestyle=":")
    for vector, colour in ((removed + kept, INK), (removed, B), (kept, A)):
        arrow = {"arrowstyle": "-|>", "color": colour, "linewidth": 2.2, "mutation_scale": 16}
        axes.annotate("", point + vector, point, arrowprops={**arrow, "shrinkA": 0, "shrinkB": 0})
    axes.plot(*point, "o", color=INK, markersize=7)


def _svg(figure: "Figure") -> str:
    """Return the figure as SVG, without a date, its formulas as paths."""
    import matplotlib
    from matplotlib.text import Text

    def outline(formula: Text) -> None:
        draw_text = formula.draw

        def draw_path(renderer: Any) -> None:
            with matplotlib.rc_context({"svg.fonttype": "path"}):
                draw_text(renderer)

        formula.draw = draw_path  # type: ignore[method-assign]  # of this text alone

    figure.draw_without_rendering()  # creates the tick labels
    for text in figure.findobj(Text):
        if "$" in text.get_text():
            outline(text)
    out = StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


def listing(*functions: Callable) -> "Markdown":
    """Return the source of functions, without their docstrings, as one block of a page."""
    need("IPython")
    from IPython.display import Markdown

    return Markdown("```python\n" + "\n\n\n".join(map(_undocumented, functions)) + "\n```")


def _undocumented(function: Callable) -> str:
    """The source of a function without its docstring."""
    source = textwrap.dedent(inspect.getsource(function))
    definition, lines = ast.parse(source).body[0], source.splitlines()
    kinds = ast.FunctionDef | ast.ClassDef
    if isinstance(definition, kinds) and ast.get_docstring(definition) is not None:
        docstring = definition.body[0]
        del lines[docstring.lineno - 1 : docstring.end_lineno]
    return "\n".join(lines)


def same(computed: Any, written: Any, tolerance: float = 5e-5) -> None:
    """Assert that the numbers written in the text of a page are those that its code gives."""
    np.testing.assert_allclose(np.asarray(computed, dtype=float), written, rtol=0, atol=tolerance)
