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

# Okabe and Ito's palette: told apart with every kind of colour vision, on light and dark pages.
BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY, PINK, GREY = "#56B4E9", "#CC79A7", "#808080"
COLOURS = (BLUE, ORANGE, GREEN, PINK, SKY, RED)

STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "system-ui", "sans-serif"],
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "mathtext.fontset": "cm",
    "svg.fonttype": "none",
    "svg.hashsalt": "normkit",  # the same figure twice is the same file
}


@contextmanager
def draw(width: float = 4.6, height: float = 3.0, axis: bool = True, **subplots: Any) -> Iterator:
    """Yield ``(figure, axes)`` in the course's style, and show the figure at the end.

    Sizes are in inches: 4.6 is a phone's width with letters of 11 pixels. ``axis=False`` gives
    bare axes, for diagrams; ``subplots`` goes to ``Figure.subplots``.

    >>> with draw(3, 2) as (figure, axes):  # doctest: +SKIP
    ...     axes.plot([0, 1], [0, 1], color=BLUE)
    """
    need("matplotlib"), need("IPython")
    import matplotlib
    from cycler import cycler
    from IPython.display import SVG, display
    from matplotlib.figure import Figure

    with matplotlib.rc_context({**STYLE, "axes.prop_cycle": cycler(color=COLOURS)}):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(**subplots)
        if not axis:
            for each in figure.axes:
                each.set_axis_off()
        yield figure, axes
        display(SVG(_svg(figure)))


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
