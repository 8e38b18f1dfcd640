"""Comments and docstrings of Python code: the only words of a program that are translated."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator

from press import BlockError
from press.blocks import Block, Turn

WIDTH = 72  # the code box of a page holds about 75 characters
MARK = re.compile(r"###|#\s*(noqa|type:|fmt:|ruff:)|#!")  # for tools: nbgrader's ### BEGIN …
WORD = re.compile(r"[^\W\d_]{3,}")  # a comment of symbols and shapes only is no message
QUOTED = re.compile(r'([rR]?""")(.*)(""")', re.DOTALL)
WIDE = r"[\u2e80-\u9fff\uff00-\uffef]"  # Chinese characters and punctuation: two columns
PIECES = re.compile(rf"{WIDE}|(?:(?!{WIDE})\S)+|\s+")
CLOSING = "，。、；：！？）」》”"  # never begins a line

_Edit = tuple[int, int, str]  # from an offset to another, in the source
_Documented = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def rewrite(source: str, turn: Turn) -> str:
    """Return the source with every comment and docstring replaced by `turn(block)`.

    Consecutive comment lines are one message, wrapped anew; one for which `turn` returns
    the message itself stays as it is, byte for byte.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise BlockError((error.lineno or 1) - 1, f"not plain Python: {error.msg}") from error
    edits = sorted([*_comments(source, turn), *_docstrings(source, tree, turn)], reverse=True)
    for start, end, text in edits:
        source = source[:start] + text + source[end:]
    return source


def bare(source: str) -> str:
    """Return what a program does: its syntax tree without comments and docstrings."""
    tree = ast.parse(source)
    for node in _documented(tree):
        node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree)


def _comments(source: str, turn: Turn) -> Iterator[_Edit]:
    for group in _groups(source):
        words = " ".join(token.string.lstrip("#").strip() for token in group)
        if not WORD.search(words):
            continue
        (row, column), (last, end) = group[0].start, group[-1].end
        turned = turn(Block(words, row - 1, "comment"))
        if turned == words:
            continue
        trailing = source.split("\n")[row - 1][:column].strip()
        lines = [turned] if trailing else _wrap(turned, WIDTH - column - 2)
        text = ("\n" + " " * column).join(f"# {line}" for line in lines)
        yield offset(source, row, column), offset(source, last, end), text


def _groups(source: str) -> Iterator[list[tokenize.TokenInfo]]:
    """Yield comments, those that follow each other at the same column together."""
    group: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or MARK.match(token.string):
            continue
        own_line = not token.line[: token.start[1]].strip()
        follows = group and token.start == (group[-1].start[0] + 1, group[0].start[1])
        if group and not (follows and own_line):
            yield group
            group = []
        group.append(token)
    if group:
        yield group


def _docstrings(source: str, tree: ast.Module, turn: Turn) -> Iterator[_Edit]:
    for node in _documented(tree):
        docstring = node.body[0]
        start = offset(source, docstring.lineno, docstring.col_offset, utf8=True)
        # As written, so that escapes stay escapes.
        written = ast.get_source_segment(source, docstring) or ""
        quoted = QUOTED.fullmatch(written)
        if not quoted:
            raise BlockError(docstring.lineno - 1, 'write a docstring between """ and """')
        opening, words, closing = quoted.groups()
        margin = " " * docstring.col_offset
        message = words.replace("\n" + margin, "\n").strip()
        turned = turn(Block(message, docstring.lineno - 1, "docstring"))
        if turned != message:
            body = turned.replace("\n", "\n" + margin).replace(f"\n{margin}\n", "\n\n")
            end_of_line = "\n" + margin if words.rstrip(" ").endswith("\n") else ""
            yield start, start + len(written), opening + body + end_of_line + closing


def _documented(tree: ast.Module) -> Iterator[_Documented]:
    """Yield what has a docstring. A lone string is what a cell shows, not its docstring."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    owners = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    for node in [tree, *owners] if len(tree.body) > 1 else owners:
        if ast.get_docstring(node, clean=False) is not None:
            yield node


def _wrap(text: str, width: int) -> list[str]:
    """Wrap a text at its spaces and between its Chinese characters."""
    lines, used = [""], 0
    for piece in PIECES.findall(text):
        size = len(piece) * (2 if re.match(WIDE, piece) else 1)
        if used + size > width and piece not in CLOSING and lines[-1]:
            lines.append("")
            used = 0
        if lines[-1] or not piece.isspace():
            lines[-1] += piece
            used += size
    return [line.rstrip() for line in lines if line.strip()]


def offset(source: str, row: int, column: int, utf8: bool = False) -> int:
    """Return where a row (from 1) and a column lie in a source."""
    lines = source.split("\n")
    if utf8:  # ast counts bytes, tokenize counts characters
        column = len(lines[row - 1].encode()[:column].decode())
    return sum(len(line) + 1 for line in lines[: row - 1]) + column
