"""Mistakes: the lines that a student writes otherwise, from the `mistakes.diff` of an assignment.

CONTRIBUTING.md says what each line of such a file means.
"""

import ast
import difflib
import itertools
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from normkit.tutor.programs import Edit, Place, Program, Stale, find_program, margin, pattern

Lines = list[tuple[str, str]]  # the mark and the rest of each
WORD = re.compile(r"""\n *|"[^"]*"|\d[\w.]*|\w+|\*\*|[<>=!]=|[^\w\s]""")


# --- A mistake --------------------------------------------------------------------------------


@dataclass(eq=False)
class Mistake:
    """A mistake by name, the assignment that words it, and for each program the ways to make it.

    where: the line of its file. met: where it was met in the wild, if it was.
    """

    name: str
    home: str
    where: str = ""
    own_label: str = ""
    message: str = ""
    met: str = ""
    ways: dict[str, list[Lines]] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return f"{self.home}/{self.name}"

    @property
    def label(self) -> str:
        """The place in the book that explains it, on the page `page`."""
        prefix = _home(self.home).PREFIX
        return self.own_label or f"{prefix}-mistake-{self.name.replace('_', '-')}"

    @property
    def page(self) -> str:
        return getattr(_home(self.home), "EXPLAINED", "") or self.listed

    @property
    def listed(self) -> str:
        """The page of mistakes that shows it; for programs of other assignments, the first."""
        of, pages = next(iter(self.ways)).rpartition("/")[2], _home(self.home).PAGES
        return next((page for page, programs in pages.items() if of in programs), next(iter(pages)))

    def number_of_ways(self, program: str) -> int:
        """How many ways there are to write it in a program and in what that calls."""
        called = find_program(program).calls().values()
        return max(len(self.ways.get(program, ())), *map(self.number_of_ways, called), 0)

    def edits(self, program: Program, way: int = 0) -> list[Edit]:
        """What it changes in a program: nothing, if that does not carry it or is so already."""
        return _edits_of(self, program, way)


@lru_cache(8192)  # the same are asked for in each trial
def _edits_of(mistake: Mistake, program: Program, way: int) -> list[Edit]:
    if not (ways := mistake.ways.get(program.name)):
        return []
    try:
        return list(_edits(program, ways[min(way, len(ways) - 1)]))
    except (Stale, SyntaxError) as error:
        raise Stale(f"{mistake.where}: {mistake.name}: {error}") from None


def _home(assignment: str) -> Any:
    return import_module(f"normkit.tutor.{assignment}")


def _edits(program: Program, way: Lines) -> Iterator[Edit]:
    """Blocks of - and + as they stand; + alone replaces the lines that assign the same."""
    blocks: list[Lines] = [[]]
    for mark, line in way:
        if mark == "..." or (mark == "-" and blocks[-1] and blocks[-1][-1][0] == "+"):
            blocks.append([])
        blocks[-1].append((mark, line))
    for block in blocks:
        old = pattern([line for mark, line in block if mark == "-"])
        new = [line for mark, line in block if mark == "+"]
        yield from _replaced(program, old, new) if old else _assigned(program, new)


def _assigned(program: Program, new: list[str]) -> Iterator[Edit]:
    """Each line replaces the one that assigns the same; others stand before the next."""
    start, used, made = 0, set[str](), pattern(new)
    for number, place in enumerate(made):
        fits = [p for p in program.places if place.target and p.target == place.target]
        if place.target in used or not fits:  # it must serve those below it
            name = re.escape((place.target or place.text).partition("[")[0])
            below = " ".join(later.text for later in made[number + 1 :])
            if not re.search(rf"(?<![\w.]){name}(?!\w)(?! = )", below):
                raise Stale(f"{program.name} has no line that {place.text!r} could replace")
        elif len(fits) > 1:
            many = f"{len(fits)} lines for {place.target!r}"
            raise Stale(f"{program.name} has {many}: say which, with -")
        else:
            if place.text != fits[0].text or start < place.first - 1:
                yield Edit(fits[0].first, fits[0].last, tuple(new[start : place.last]))
            start, used = place.last, used | {place.target}


def _replaced(program: Program, old: list[Place], new: list[str]) -> Iterator[Edit]:
    """The old lines become the new ones; those that both begin with stay as they are."""
    found, made = program.find([place.text for place in old]), pattern(new)
    while found and made and found[0].text == made[0].text:
        if len(made) > len(found) == 1:  # lines that come after an old one
            break
        found, new = found[1:], textwrap.dedent("\n".join(new[made[0].last :])).splitlines()
        made = pattern(new)
    if found:  # the body of the last old head goes to the last new one, if there is one
        right = program.source.splitlines()
        depth = margin(right[found[-1].first - 1]) - margin(right[found[0].first - 1])
        left = depth - margin(new[made[-1].first - 1]) if made and made[-1].end else depth + 4
        left *= not made or found[0].text != made[0].text  # nothing moves below a head that stays
        yield Edit(found[0].first, found[-1].last, tuple(new), found[-1].end, left)


# --- Wrong programs ---------------------------------------------------------------------------


def combine(name: str, *mistakes: Mistake, ways: Sequence[int] = ()) -> Any:
    """A program with these mistakes in it and in what it calls; without any, the right one.

    ways: how each is written, where there are several. ValueError where two rewrite the same.
    """
    right, source = find_program(name), written(name, *mistakes, ways=ways)
    called = right.calls(source).items()
    others = {name: combine(of, *mistakes, ways=ways) for name, of in called}
    return right.made(source, " + ".join(m.name for m in mistakes) or "right", **others)


def written(name: str, *mistakes: Mistake, ways: Sequence[int] = ()) -> str:
    """The text of a program with these mistakes in it."""
    right, done = find_program(name), list[Edit]()
    ways = (*ways, *[0] * (len(mistakes) - len(ways)))
    for mistake, way in zip(mistakes, ways, strict=True):
        old = list(done)
        for edit in mistake.edits(right, way):
            near = [e for e in old if e.first <= edit.last and edit.first <= e.last]
            done = [e for e in done if e not in near] + [_both(right, edit, near) if near else edit]
    return right.rewrite(done)


def _both(program: Program, edit: Edit, others: list[Edit]) -> Edit:
    """One edit that does what several do to the same lines."""
    every = edit, *others
    first, last = min(e.first for e in every), max(e.last for e in every)
    if any(e.end and e.left for e in every):
        raise ValueError(f"two mistakes move the same lines of {program.name}")

    def part(edits: list[Edit]) -> str:
        text = program.rewrite(edits).splitlines()
        after = len(program.source.splitlines()) - last
        return textwrap.dedent("\n".join(text[first - 1 : len(text) - after]))

    return Edit(first, last, tuple(merged(part([]), part([edit]), part(others)).splitlines()))


def merged(right: str, one: str, other: str) -> str:
    """What both make of the right text, word by word; ValueError where they change the same."""
    words = WORD.findall(right)
    hunks = sorted({hunk for text in (one, other) for hunk in _hunks(words, WORD.findall(text))})
    cut = [(a, b) for a, b, new in hunks if not new]  # what one takes away the other cannot change
    hunks = [h for h in hunks if not any(a < h[0] and h[1] < b for a, b in cut)]
    for (first, last, _), (start, _, _) in itertools.pairwise(hunks):
        if start < last or start == first:
            raise ValueError("two mistakes rewrite the same words")
    for first, last, new in reversed(hunks):
        words[first:last] = new
    try:
        return ast.unparse(ast.parse(" ".join(words).replace("\n ", "\n")))
    except SyntaxError:
        raise ValueError("two mistakes do not fit together") from None


def _hunks(words: list[str], others: list[str]) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    for what, a, b, c, d in difflib.SequenceMatcher(None, words, others, False).get_opcodes():
        if what != "equal":
            yield a, b, tuple(others[c:d])


@dataclass(eq=False)
class Part(Mistake):
    """A mistake that stands in several places of a program, and is left in some of them."""

    left: tuple[str, tuple[Edit, ...]] = ("", ())

    def number_of_ways(self, program: str) -> int:
        return int(program == self.left[0])

    def edits(self, program: Program, way: int = 0) -> list[Edit]:
        return list(self.left[1]) if program.name == self.left[0] else []


def parts(mistake: Mistake, program: str, way: int = 0) -> Iterator[Part]:
    """What is left of a mistake where some of its places in a program are mended, but not all."""
    places = mistake.edits(find_program(program), way)
    for number in range(1, len(places)):
        for left in itertools.combinations(places, number):
            yield Part(**vars(mistake), left=(program, left))


# --- The files --------------------------------------------------------------------------------


@cache
def mistakes_of(program: str) -> tuple[Mistake, ...]:
    """The mistakes that a program carries, in what it calls as well; not what is right there."""
    found = find_program(program)
    own = (m for m in catalogue(program.rpartition("/")[0])[program] if m.edits(found))
    called = (m for of in found.calls().values() for m in mistakes_of(of))
    return tuple(dict.fromkeys([*own, *called]))


@cache
def catalogue(assignment: str) -> defaultdict[str, list[Mistake]]:
    """The mistakes of an assignment by the programs that carry them; "": those that it words."""
    file = Path(__file__).parent / assignment / "mistakes.diff"
    return read(file.read_text("utf-8") if file.is_file() else "", assignment)


def read(text: str, home: str) -> defaultdict[str, list[Mistake]]:
    """The same, from the text of a file."""
    found, start = defaultdict[str, list[Mistake]](list), 0
    programs, entry = list[str](), list[str]()
    for number, line in enumerate([*text.splitlines(), "--- "], 1):
        if line.startswith(("--- ", "@@ ")):
            for program in programs if entry else ():
                _record(entry, f"{home}/mistakes.diff:{start}", f"{home}/{program}", found)
            entry, start = [line] * (line[0] == "@"), number
            programs = line[4:].split(", ") if line[0] == "-" else programs
        elif line == "or" or line.startswith((" ", "~ ", "- ", "+ ", "...")):
            entry.append(line)
        elif line and line[0] != "#":
            what = "must begin with --- @@ space ~ - + # or be ... or or"
            raise SyntaxError(f"{home}/mistakes.diff:{number}: {what}, but is {line!r}")
    return found


def _record(entry: list[str], where: str, program: str, found: defaultdict) -> None:
    """Add what an entry says of a program: a new mistake, if it is worded here, or a known one."""
    (name, _, label), ways = entry[0][3:].partition(" -> "), [Lines()]
    for line in entry[1:]:
        if line == "or":
            ways.append([])
        elif line[0] in "-+.":
            ways[-1].append(("..." if line == "..." else line[0], line[2:]))
    home = program.rpartition("/")[0]
    said, met = (
        " ".join(line[1:].strip() for line in entry[1:] if line[0] == mark) for mark in " ~"
    )
    other, _, short = name.rpartition("/")
    above = catalogue(other) if other else found
    known = [mistake for mistake in above[""] if mistake.name == short]
    if said and (other or (known and known[0].where != where)):
        raise SyntaxError(
            f"{where}: {name} has a message in an entry above; this needs its own name"
        )
    if said and not known:
        known = [Mistake(name, home, where, label, said, met)]
        found[""] += known
    if not known:
        raise SyntaxError(f"{where}: {name} has no message, and no entry of that name stands above")
    known[0].ways[program] = ways
    found[program].append(known[0])
