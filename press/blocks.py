"""Blocks of MyST prose: where each begins and ends, and how to put another text in its place.

markdown-it says on which lines a block lies; what stands before its content on those lines
(list markers, quotes, table pipes) is the prefix, which is never touched.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser

from press import BlockError

EXTENSIONS = {"amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"}

# Directives by what is prose in them: "argument", "body", or names of options.
DIRECTIVES: dict[str, frozenset[str]] = {
    name: frozenset(prose.split())
    for names, prose in {
        "admonition card dropdown grid-item-card table list-table tab-item": "argument body",
        "note tip important warning caution hint seealso": "argument body",
        "figure": "body alt",
        "image": "alt",
        "grid tab-set div margin": "body",
        "literalinclude": "caption",
        "bibliography code-block contents math models picture": "",
        "automodule autofunction autoclass": "",
    }.items()
    for name in names.split()
}
NO_PROSE = {
    *("math_block", "math_block_label", "amsmath", "myst_target", "myst_line_comment", "hr"),
    *("myst_block_break", "front_matter"),
}
# A word that a reader would want in his language: at least two letters in a row.
WORD = re.compile(r"[^\W\d_]{2,}")


@dataclass(frozen=True)
class Block:
    """A piece of prose as a translator sees it: soft line ends are spaces."""

    message: str
    line: int  # from 0, in the text that holds it
    kind: str  # myst, comment, docstring, figure or message


Turn = Callable[[Block], str]


@dataclass(frozen=True)
class _Edit:
    """Lines [first, last) become `lines`, from column `column` of the first on."""

    first: int
    last: int
    lines: list[str]


@cache
def parser() -> MarkdownIt:
    """Return MyST's own parser, with the extensions of the book."""
    return create_md_parser(MdParserConfig(enable_extensions=EXTENSIONS), RendererHTML)


def inline(message: str) -> list[Token]:
    """Return the inline tokens (text, roles, math, links…) of a message."""
    tokens = parser().parseInline(message, {})
    return tokens[0].children or []


def role_words(token: Token) -> str:
    """Return the words that a role such as {ref}`words <target>` shows, or nothing."""
    found = re.fullmatch(r"(.*\S)\s*<.+>", token.content)
    return found[1] if found else ""


@lru_cache(16384)
def has_words(message: str) -> bool:
    """Tell whether anything in a message is prose to translate.

    Code and mathematics are not, nor are words in a declared language, as in
    `[moyenne]{.language-fr}`.
    """
    foreign = False
    for token in inline(message):
        if token.type in {"span_open", "span_close"}:
            foreign = str(token.attrs.get("class", "")).startswith("language-")
        words = role_words(token) if token.type == "myst_role" else token.content
        shown = token.type in {"text", "image", "myst_role"} and not foreign
        if shown and WORD.search(words):
            return True
    return False


def rewrite(text: str, turn: Turn) -> str:
    """Return MyST text with every block of prose replaced by `turn(block)`.

    A block for which `turn` returns the message itself stays as it is, byte for byte.
    """
    lines = text.split("\n")
    view = [(number, 0) for number in range(len(lines))]
    for edit in sorted(_edits(lines, view, turn), key=lambda e: e.first, reverse=True):
        lines[edit.first : edit.last] = edit.lines
    return "\n".join(lines)


def _edits(lines: list[str], view: list[tuple[int, int]], turn: Turn) -> Iterator[_Edit]:
    """Walk the part of `lines` that `view` shows: pairs of a line and a column to start from."""
    tokens = parser().parse("\n".join(lines[number][column:] for number, column in view))
    table = False
    for token in tokens:
        if token.type in {"table_open", "table_close"}:
            table = token.type == "table_open"
            if table:
                yield from _table(lines, view[_lines(token)], turn)
        elif token.type == "inline" and not table:
            yield from _paragraph(lines, view, token, turn)
        elif token.type in {"fence", "colon_fence"}:
            yield from _fence(lines, view, token, turn)
        elif token.type == "html_block":
            yield from _html(lines, view[_lines(token)], turn)
        elif token.nesting == 0 and token.type not in NO_PROSE | {"inline"}:
            row, _ = view[_lines(token).start]
            raise BlockError(row, f"a block of type {token.type!r} is not allowed")


def _lines(token: Token) -> slice:
    """The lines of a block in the view: markdown-it says which for every block."""
    first, last = token.map or (0, 0)
    return slice(first, last)


def _paragraph(lines: list[str], view: list, token: Token, turn: Turn) -> Iterator[_Edit]:
    content = token.content.split("\n")
    rows = [number for number, _ in view[_lines(token).start :][: len(content)]]
    prefixes = [_prefix(lines, row, piece) for row, piece in zip(rows, content, strict=True)]
    if any(lines[row].endswith(("  ", "\\")) for row in rows[:-1]):
        raise BlockError(rows[0], "no hard line break (two spaces or \\ at a line's end) here")
    message = " ".join(piece.strip() for piece in content)
    if (turned := _ask(turn, message, rows[0])) is not None:
        yield _Edit(rows[0], rows[-1] + 1, [prefixes[0] + turned])


def _table(lines: list[str], view: list, turn: Turn) -> Iterator[_Edit]:
    for index, (row, column) in enumerate(view):
        if index == 1:  # the row of dashes
            continue
        cells = re.split(r"(?<!\\)(\|)", lines[row][column:])
        turned = [_cell(cell, row, turn) for cell in cells]
        if turned != cells:
            yield _Edit(row, row + 1, [lines[row][:column] + "".join(turned)])


def _cell(cell: str, row: int, turn: Turn) -> str:
    message = cell.strip()
    turned = _ask(turn, message, row) if message not in {"", "|"} else None
    return cell if turned is None else cell.replace(message, turned)


def _fence(lines: list[str], view: list, token: Token, turn: Turn) -> Iterator[_Edit]:
    row, _ = view[_lines(token).start]
    found = re.fullmatch(r"\{([\w:-]+)\}\s*(.*)", token.info.strip())
    if not found:
        return  # plain code
    name, argument = found.groups()
    if name not in DIRECTIVES:
        raise BlockError(row, f"the directive {{{name}}} is unknown: add it to press/blocks.py")
    prose = DIRECTIVES[name]
    body, options = _split(lines, view, token)
    argument_turned = _ask(turn, argument, row) if argument and "argument" in prose else None
    if argument_turned is not None:
        yield _Edit(row, row + 1, [_prefix(lines, row, argument) + argument_turned])
    for key, value, number in options:
        if key in prose and (turned := _ask(turn, value, number)) is not None:
            yield _Edit(number, number + 1, [_prefix(lines, number, value) + turned])
    if "body" in prose:
        yield from _edits(lines, body, turn)


def _split(lines: list[str], view: list, token: Token) -> tuple[list, list[tuple[str, str, int]]]:
    """Return what a directive shows of its lines, and its options (key, value, line)."""
    content = token.content.split("\n")[:-1]
    rows = [number for number, _ in view[_lines(token).start + 1 :][: len(content)]]
    body = [
        (row, len(_prefix(lines, row, piece))) for row, piece in zip(rows, content, strict=True)
    ]
    options = []
    while content and (found := re.match(r":([\w-]+):\s*(.*)", content[0])):
        options.append((found[1], found[2].rstrip(), body[0][0]))
        content, body = content[1:], body[1:]
    if content and content[0].strip() == "---":
        raise BlockError(body[0][0], "give a directive's options as lines ':key: value'")
    return body, options


def _html(lines: list[str], view: list, turn: Turn) -> Iterator[_Edit]:
    for row, column in view:
        line = lines[row][column:].strip()
        if found := re.fullmatch(r"<summary>(.*)</summary>", line):
            if (turned := _ask(turn, found[1], row)) is not None:
                yield _Edit(row, row + 1, [lines[row].replace(found[1], turned)])
        elif line and not re.fullmatch(r"</?details( open)?>", line):
            raise BlockError(row, "of HTML, only lines of <details> and <summary> are allowed")


def _prefix(lines: list[str], row: int, content: str) -> str:
    """Return what stands before `content`, which ends the line."""
    line = lines[row].rstrip()
    if not line.endswith(content.rstrip()):
        raise BlockError(row, f"{content.strip()!r} should end its line")
    return line[: len(line) - len(content.rstrip())]


def _ask(turn: Turn, message: str, row: int) -> str | None:
    """Return the new text of a message, or None where there is nothing to change."""
    if not has_words(message):
        return None
    turned = turn(Block(message, row, "myst"))
    return None if turned == message else turned
