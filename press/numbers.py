"""Numbers and formulas as each language writes them; the sources write them as English does.

French: a decimal comma, 65 504 in groups, and a semicolon between the components of a vector.
Chinese: 40% without a space, 5×10⁴, and no Latin full stop behind a displayed equation. Code keeps
its points.
"""

import re
from collections.abc import Callable, Sequence

from nbformat import NotebookNode

from press.translate import SVG

# code, of which nothing changes; then formulas
PIECES = re.compile(
    r"(?P<code>^(?P<fence>`{3,})[^\n]*\n.*?^(?P=fence)`*[ ]*$"
    r"|(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`))"
    r"|(?P<display>\$\$.+?\$\$|\\begin\{(?P<env>align\*?)\}.+?\\end\{(?P=env)\})"
    r"|(?P<inline>(?<![\\$])\$(?=\S)[^$]+?(?<=\S)\$(?!\$))",
    re.S | re.M,
)
CELL = re.compile(r"(?<=\|)(\s*\**[-−+]?\d+)\.(\d+)(?=[\s*%\\]*\|)")  # a number alone in a table
LIST = re.compile(r"(?<=\|)\s*[-−]?\d+(?:\.\d+)?(?:, [-−]?\d+(?:\.\d+)?)+(?=\s*\|)")  # several
TICK = re.compile(r"(<text\b[^>]*>[^<\d]*\d+)\.(\d+)(?=[^<\d.]*</text>)")

Rule = tuple[str, str | Callable[[re.Match], str]]
PLAIN = r"[-+]?(?:\d[\d.]*(?:/\d+|\^\d)?|\\tfrac\d\d|\\infty|\\[lc]?dots)(?:\\,\\%)?"
NUMBER = rf"{PLAIN}(?: (?:\\cdot|[-+]) {PLAIN})*"
COMMA = r"\s*,(?:\\[;, ])?\s*"
VECTOR = rf"(?<![\w}}])({NUMBER}){COMMA}(?={NUMBER}(?:{COMMA}{NUMBER})*\s*(?:[])$|&=]|\\[\\)]))"
# a shape, such as (1, C, 1, 1), or a vector in which letters stand beside numbers
LETTER = r"(?:[A-Z]+|[a-z]_\d)"
SHAPE = (
    rf"\((?=[^()]*{LETTER})(?=(?:[^()]*,)?\s*[-+]?\d[\d.]*\s*[,)])"
    rf"(?:{NUMBER}|{LETTER})(?:{COMMA}(?:{NUMBER}|{LETTER}))+\)"
)


def _apart(shape: re.Match) -> str:
    return re.sub(COMMA, r"\\;;\\; ", shape[0])


# what is replaced in a formula
FORMULA: dict[str, Sequence[Rule]] = {
    "fr": (
        (SHAPE, _apart),
        (VECTOR, r"\1\\;;\\; "),
        (r"(?<![\d.])\d{5,}", lambda number: f"{int(number[0]):,}".replace(",", r"\,")),
        (r"(?<=\d)\.(?=\d)", "{,}"),
    ),
    "zh": (
        (r"(?<=\d)\\,\\%", r"\\%"),
        (r"(?<=\d)\s*\\cdot\s*(?=10\^)", r" \\times "),
    ),
}
DISPLAYED: dict[str, Sequence[Rule]] = {"zh": ((r"[.,]\s*(?=\n?\$\$$)", "\n"),)}
POINT = {"fr": r"\1,\2"}  # in tables and on the axes of figures


def localise(notebook: NotebookNode, language: str) -> None:
    """Write the numbers of a translated notebook as its language does."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = prose(cell.source, language)
        shown = cell.metadata.get("mystnb", {})
        for owner, key in (("image", "alt"), ("figure", "caption")):
            if key in shown.get(owner, {}):
                shown[owner][key] = prose(shown[owner][key], language)
        for output in cell.get("outputs", []):
            if SVG in output.get("data", {}) and language in POINT:
                output.data[SVG] = TICK.sub(POINT[language], output.data[SVG])


def prose(text: str, language: str) -> str:
    """The formulas and tables of a text, code aside, as a language writes them."""
    text = PIECES.sub(lambda found: _piece(found, language), text)
    if language not in POINT:
        return text
    return LIST.sub(_list, CELL.sub(POINT[language], text))


def _list(numbers: re.Match) -> str:
    """With decimal commas, what stood between the numbers is a semicolon."""
    told = numbers[0]
    return told.replace(", ", "\u202f; ").replace(".", ",") if "." in told else told


def _piece(found: re.Match, language: str) -> str:
    formula, rules = found[0], [] if found["code"] else [*FORMULA.get(language, ())]
    rules += DISPLAYED.get(language, ()) if found["display"] else ()
    for pattern, instead in rules:
        formula = re.sub(pattern, instead, formula)
    return formula
