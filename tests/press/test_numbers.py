"""Numbers and formulas as each language writes them."""

import pytest
from nbformat import v4

from press.numbers import localise, prose


@pytest.mark.parametrize(
    ("english", "french", "chinese"),
    [
        (r"$0.29$", r"$0{,}29$", r"$0.29$"),
        (r"$(0.5, 1,\; 2)$", r"$(0{,}5\;;\; 1\;;\; 2)$", r"$(0.5, 1,\; 2)$"),
        (r"$1, \dots, 4$", r"$1\;;\; \dots\;;\; 4$", r"$1, \dots, 4$"),
        (r"$(1/3, -1/3, 0)$", r"$(1/3\;;\; -1/3\;;\; 0)$", r"$(1/3, -1/3, 0)$"),
        (r"$(1, C, 1, 1)$", r"$(1\;;\; C\;;\; 1\;;\; 1)$", r"$(1, C, 1, 1)$"),
        (r"$(v_3, 0, NT)$", r"$(v_3\;;\; 0\;;\; NT)$", r"$(v_3, 0, NT)$"),
        (r"$(0, 10^2, -\tfrac12)$", r"$(0\;;\; 10^2\;;\; -\tfrac12)$", r"$(0, 10^2, -\tfrac12)$"),
        (r"$(2 + 0.5,\; 1)$", r"$(2 + 0{,}5\;;\; 1)$", r"$(2 + 0.5,\; 1)$"),
        (r"$(x_1, \dots, x_D)$", r"$(x_1, \dots, x_D)$", r"$(x_1, \dots, x_D)$"),
        (r"$(N, C, H)$, $f(x, 2)$", r"$(N, C, H)$, $f(x, 2)$", r"$(N, C, H)$, $f(x, 2)$"),
        ("| 0, 1 | 2.5, 3 |", "| 0, 1 | 2,5\u202f; 3 |", "| 0, 1 | 2.5, 3 |"),
        (r"$x_1, x_2$, $f(2, x)$", r"$x_1, x_2$, $f(2, x)$", r"$x_1, x_2$, $f(2, x)$"),
        (r"$65504 + 0.12345$", r"$65\,504 + 0{,}12345$", r"$65504 + 0.12345$"),
        (r"$72.2\,\%$", r"$72{,}2\,\%$", r"$72.2\%$"),
        (r"$5 \cdot 10^{-4}$", r"$5 \cdot 10^{-4}$", r"$5 \times 10^{-4}$"),
        ("$$\ny = 0.5.\n$$", "$$\ny = 0{,}5.\n$$", "$$\ny = 0.5\n$$"),
        ("`0.5, 1` and 0.5", "`0.5, 1` and 0.5", "`0.5, 1` and 0.5"),
        ("```\n$0.5$\n```", "```\n$0.5$\n```", "```\n$0.5$\n```"),
        (
            "| a 0.5 | 68.9 | **-0.5** |",
            "| a 0.5 | 68,9 | **-0,5** |",
            "| a 0.5 | 68.9 | **-0.5** |",
        ),
    ],
)
def test_formulas_and_tables_follow_the_language_and_code_does_not(english, french, chinese):
    assert prose(english, "en") == english
    assert prose(english, "fr") == french
    assert prose(english, "zh") == chinese


def test_captions_and_the_axes_of_figures_follow_too():
    figure = v4.new_output("display_data", {"image/svg+xml": '<text x="0.5">−0.5</text>'})
    shown = {"figure": {"caption": "At $0.5$"}, "image": {"alt": "At $0.5$"}}
    cell = v4.new_code_cell("x = 0.5", outputs=[figure], metadata={"mystnb": shown})
    localise(v4.new_notebook(cells=[cell]), "fr")
    assert cell.source == "x = 0.5"
    assert cell.metadata.mystnb.figure.caption == cell.metadata.mystnb.image.alt == "At $0{,}5$"
    assert cell.outputs[0].data["image/svg+xml"] == '<text x="0.5">−0,5</text>'
