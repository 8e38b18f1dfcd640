"""Words that programs print: the literals that hold them, and the output that they make."""

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

import parso
from nbformat import NotebookNode

from normkit.messages import columns
from press.blocks import Block, Turn
from press.code import WORD, offset
from press.figures import TEXT
from press.markup import CODE_FIELD as FIELD

PYTHON = "3.12"  # parso's grammar, of any Python that runs it
OPENING = re.compile(r"([fF]?)([\"'])")  # neither raw nor of several lines
QUOTED = re.compile(r"(['\"])(.*?)\1")
NUMBER = r"[-+\w.%]"  # what it is written with
SVG = "image/svg+xml"

_Literal = tuple[int, int, str]  # from an offset to another, as written between the quotes


def spoken(notebook: NotebookNode) -> frozenset[str]:
    """Return the literals, as written, whose words a reader sees in the notebook's output.

    Of an assignment, which has none before a student runs it: what its given cells print.
    """
    if any("nbgrader" in cell.metadata for cell in notebook.cells):
        given = [cell for cell in notebook.cells if "nbgrader" not in cell.metadata]
        return frozenset(text for cell in given if _speaks(cell) for text in _printed(cell.source))
    speaking = [cell for cell in notebook.cells if _speaks(cell)]
    seen = "\n".join(text for cell in speaking for text in _shown(cell))
    written = {text for cell in speaking for _, _, text in _literals(cell.source)}
    return frozenset(text for text in written if _is_seen(text, seen))


def foreign(notebook: NotebookNode) -> frozenset[str]:
    """Return the keys that a notebook asks of rows that it has not made: a library's names."""
    asked, own = set[str](), set[str]()
    for cell in notebook.cells:
        with suppress(SyntaxError):  # a cell may hold a magic
            tree = ast.parse(cell.source if cell.cell_type == "code" else "")
            rows = {name for node in ast.walk(tree) for name in _looped(node)}
            for node in ast.walk(tree):
                match node:
                    case ast.Subscript(ast.Name(name), ast.Constant(str(key))) if name in rows:
                        asked.add(key)
                    case ast.Dict():
                        own |= {
                            str(key.value) for key in node.keys if isinstance(key, ast.Constant)
                        }
                    case ast.Call(func=ast.Name("dict")):
                        own |= {str(word.arg) for word in node.keywords}
    return frozenset(asked - own)


def _looped(node: ast.AST) -> set[str]:
    """The names that a loop gives to what it goes through."""
    if not isinstance(node, ast.For | ast.comprehension):
        return set()
    return {part.id for part in ast.walk(node.target) if isinstance(part, ast.Name)}


def rewrite(
    source: str, spoken: Collection[str], turn: Turn, foreign: Collection[str] = ()
) -> tuple[str, dict[str, str]]:
    """Return the source with each `spoken` literal as `turn(block)` says it, and these words.

    Parameters
    ----------
    foreign
        Keys that stay as they are.
    """
    turned = {}
    found = [
        (start, end, written)
        for start, end, written in _literals(source)
        if written in spoken and not (written in foreign and source[: start - 1].endswith("["))
    ]
    for start, _, written in found:
        turned[written] = turn(Block(written, source.count("\n", 0, start), "printed"))
    for start, end, written in reversed(found):
        inner = [words for words in spoken if words not in foreign]
        source = source[:start] + _inside(turned[written], inner, turn) + source[end:]
    return source, turned


def _inside(written: str, spoken: Collection[str], turn: Turn) -> str:
    """Return an f-string with the literals in its fields replaced, too: keys of dictionaries."""

    def quoted(found: re.Match) -> str:
        known = found[2] in spoken
        return found[1] + (turn(Block(found[2], 0, "printed")) if known else found[2]) + found[1]

    return FIELD.sub(lambda field: QUOTED.sub(quoted, field[0]), written)


def _speaks(cell: NotebookNode) -> bool:
    """Tell whether a reader sees the literals of a cell, or what it prints."""
    if cell.cell_type != "code" or "remove-cell" in (tags := cell.metadata.get("tags", ())):
        return False
    return "remove-input" not in tags or any("text" in output for output in cell.get("outputs", []))


def _shown(cell: NotebookNode) -> Iterator[str]:
    """Yield what a cell prints, and the labels of its figures."""
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        yield from (label for _, label, _ in TEXT.findall(data.get(SVG, "")))
        yield "" if SVG in data else output.get("text", data.get("text/plain", ""))


@lru_cache(4096)  # each language asks the same
def _literals(source: str) -> list[_Literal]:
    found = list[_Literal]()
    waiting = [parso.parse(source, version=PYTHON)]
    while waiting:
        node = waiting.pop()
        if node.type in {"string", "fstring"}:
            written = node.get_code(include_prefix=False)
            opening = OPENING.match(written)
            lone = node.parent.type == "simple_stmt"
            if opening and not lone and not written.startswith(3 * opening[2], opening.start(2)):
                start = offset(source, *node.start_pos) + opening.end()
                end = offset(source, *node.end_pos) - 1
                found.append((start, end, written[opening.end() : -1]))
        else:
            waiting += reversed(getattr(node, "children", []))
    return found


def _printed(source: str) -> Iterator[str]:
    """Yield the literals with words that calls of `print` are given."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    printing = [call for call in calls if ast.unparse(call.func) == "print"]
    given = {(arg.lineno, arg.col_offset) for call in printing for arg in call.args}
    lines = source.encode().split(b"\n")
    starts = {offset(source, row, len(lines[row - 1][:column].decode())) for row, column in given}
    for start, _, written in _literals(source):
        opening = {start - 1, start - 2}  # with an f, or without
        if opening & starts and WORD.search(FIELD.sub(" ", written)):
            yield written


def _is_seen(written: str, seen: str) -> bool:
    """Tell whether all words of a literal, fields aside, are among those that a reader sees."""
    pieces = [piece.strip() for piece in map(_spoken, FIELD.split(written)) if WORD.search(piece)]
    return bool(pieces) and all(re.search(_alone(piece), seen) for piece in pieces)


def _spoken(written: str) -> str:
    """A piece of a literal as it is printed."""
    return str(ast.literal_eval(f'"""{written}\n"""'))[:-1]


def _alone(piece: str) -> str:
    """A pattern of a piece that is not part of a longer word."""
    first, last = (r"\b" if piece[end].isalnum() else "" for end in (0, -1))
    return first + re.escape(piece) + last


def said(text: str, pairs: Mapping[str, str]) -> str:
    """Return an output as the program would print it whose literals are translated.

    Parameters
    ----------
    pairs
        From each literal of the program, as written, to its translation.
    """
    changed = [pair for pair in pairs.items() if pair[0] != pair[1]]
    return _said(text, [_rule(*pair) for pair in sorted(changed, key=_order)])


def _order(pair: tuple[str, str]) -> tuple[bool, int]:
    """What has fields before what may stand in them; the longest first."""
    rest = FIELD.sub("", pair[0])
    return rest == pair[0], -len(rest)


@dataclass(frozen=True)
class _Rule:
    """What a literal prints, and what its translation does: texts, and numbers of groups."""

    pattern: re.Pattern
    parts: list[str | int]

    def fill(self, found: re.Match, rules: "list[_Rule]") -> str:
        if "before" in found.groupdict():
            return _fitted(found, str(self.parts[0]))
        turned = (_said(found[p], rules) if isinstance(p, int) else p for p in self.parts)
        return "".join(turned)


def _rule(message: str, translation: str) -> _Rule:
    ours, theirs = _pieces(message), _pieces(translation)
    for end in (0, -1):  # a field at an end stays there, whatever it holds
        if ours[end] == theirs[end] and FIELD.fullmatch(ours[end]):
            del ours[end], theirs[end]
    fields = [piece for piece in ours if FIELD.fullmatch(piece)]
    parts = [fields.index(p) + 1 if FIELD.fullmatch(p) else _spoken(p) for p in theirs]
    pattern = "".join(_group(p) if p in fields else re.escape(_spoken(p)) for p in ours)
    if fields:
        return _Rule(re.compile((r"\b" if pattern[0].isalnum() else "") + pattern), parts)
    (whole,) = ours
    word = _alone(_spoken(whole))
    if " " not in whole:  # one word may be part of a sentence that a library says
        word = rf"(?<![^\W\d_] ){word}|{word}(?=  )"
    # columns are made of spaces that are not the literal's own
    before, after = ("" if whole[end] == " " else " *" for end in (0, -1))
    pattern = rf"(?P<before>{before})(?P<word>{word})(?P<after>{after})"
    return _Rule(re.compile(pattern, re.M), parts)


def _pieces(written: str) -> list[str]:
    return [piece for piece in re.split(rf"({FIELD.pattern})", written) if piece]


def _group(field: str) -> str:
    """A pattern of what a field prints, its own blanks with it: others belong to what is beside."""
    width = re.search(r":[^\d.]*(\d+)", field)
    if re.search(r":.*[defg%]\}", field):
        if width is None or "<" in field:
            return rf"( *{NUMBER}+)"
        filled = rf"(?= *{NUMBER})[^\n]{{{width[1]}}}(?<={NUMBER})"
        return rf"({filled}|{NUMBER}{{{width[1]},}})"
    return rf"(?= *\S)([^\n]{{{width[1]},}}?)" if width else r"(\S[^\n]*?)"


def _fitted(found: re.Match, word: str) -> str:
    """A word in the columns of another, if it stood in a column."""
    before, after = found["before"], found["after"]
    more = columns(word) - columns(found["word"])
    if len(after) > 1 or (after and found.end() == len(found.string)):  # or a field ends there
        after = " " * max(1, len(after) - more)
    elif len(before) > 2 and found.end() < len(found.string):
        before = " " * max(1, len(before) - more)
    return before + word + after


def _said(text: str, rules: list[_Rule]) -> str:
    for number, rule in enumerate(rules):
        if found := rule.pattern.search(text):
            # what stands before has no more of this rule
            before = _said(text[: found.start()], rules[number + 1 :])
            return before + rule.fill(found, rules) + _said(text[found.end() :], rules[number:])
    return text
