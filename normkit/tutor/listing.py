"""The pages of mistakes as Markdown: what each mistake changes, and the numbers that expose it."""

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np

from normkit.messages import N_
from normkit.tutor.exposing import changed
from normkit.tutor.judging import Difference, differences, distance
from normkit.tutor.mistakes import Mistake, catalogue, combine, mistakes_of
from normkit.tutor.observing import observe
from normkit.tutor.probes import WORKED
from normkit.tutor.tasks import Task, assignments, every_task
from normkit.tutor.wording import NUMBERS, compared, telling

FENCE = "```"
BETWEEN = "\u00a0· "  # links: no line begins with the dot
WILD = N_("in the wild")
READ = N_("{doc}`The page of mistakes <mistakes>` says how to read an entry.")
SHARED = N_("These programs can also carry mistakes whose entries are on other pages:")
MOVED = {  # where entries went that stood on a page
    "mistakes_find_the_bug": (
        "mistakes_tests_of_one_program",
        N_("Mistakes that belong to the test of one program:"),
    ),
    "mistakes_large_logits": ("mistakes_z_loss", N_("Mistakes with the z-loss:")),
}
LATER = {"conditional", "outliers"}  # made when there were several pages
FORMER = {  # entries that are now a part of another, by the labels that they had
    "layer_norm/gradients_averaged": ("dyt-mistake-gradients-averaged",),
    "layer_norm/gradients_not_summed": ("dyt-mistake-gradients-not-summed",),
    "placement/attention_untouched": ("placement-mistake-feed-forward-untouched",),
    "placement/queries_untouched": ("placement-mistake-keys-untouched",),
    "rms_norm/eps_added_to_xhat": ("rms-mistake-eps-added-to-y",),
    "rms_norm/rms_as_column": ("rms-mistake-rms-as-column-by-reshape",),
}


def pages() -> dict[str, list[Mistake]]:
    """The pages of mistakes by name, each with the mistakes that it lists, in order."""
    return {page: listed for name in assignments() for page, listed in _pages_of(name)}


def _pages_of(assignment: str) -> Iterator[tuple[str, list[Mistake]]]:
    home, every = import_module(f"normkit.tutor.{assignment}"), catalogue(assignment)[""]
    hidden = getattr(home, "HIDDEN", ())  # programs whose mistakes no page tells
    for page in home.PAGES:
        yield page, [m for m in every if m.listed == page and _worded_for(m) not in hidden]


def _worded_for(mistake: Mistake) -> str:
    """The program, without its assignment, for which a mistake is worded."""
    return next(iter(mistake.ways)).rpartition("/")[2]


def index(*names: str) -> str:
    """The pages of assignments, each a fold with the number of its entries and their names.

    A name has the id of its entry if that stood on this page before the others were made.
    """
    home = {page: name for name in names for page in import_module(f"normkit.tutor.{name}").PAGES}
    every = pages()
    if left := every.keys() - home.keys():
        raise ValueError(f"The index must have all pages; left out: {', '.join(sorted(left))}.")
    return "\n\n".join(_family(page, every[page]) for page in home)


def _family(page: str, mistakes: list[Mistake]) -> str:
    names = BETWEEN.join(map(_led_to, mistakes))
    return f":::{{dropdown}} {{doc}}`{page}` · {len(mistakes)}\n{names}\n:::"


def _led_to(mistake: Mistake) -> str:
    """A link to an entry, where its former addresses lead to as well."""
    former = "".join(f'<span id="{label}"></span>' for label in FORMER.get(mistake.key, ()))
    place = f' id="{mistake.label}"' * stood_here(mistake)
    link = f"{former}{_link(mistake)}"
    return f'<span class="entry"{place}>{link}</span>' if place or former else link


def stood_here(mistake: Mistake) -> bool:
    """Whether an entry once stood on the one page of all mistakes, under the label it has."""
    return anchor(mistake) == mistake.label and mistake.home not in LATER


def _link(mistake: Mistake) -> str:
    return f"[`{mistake.name}`](#{anchor(mistake)})"


def anchor(mistake: Mistake) -> str:
    """The label of an entry on the page that lists it."""
    own = mistake.page == mistake.listed and "-mistake-" in mistake.label
    return mistake.label if own else f"{mistake.listed}-{mistake.name}".replace("_", "-")


def listing(page: str) -> str:
    """All entries of a page, by the programs whose lines they change.

    Raises ValueError for a page that no assignment names.
    """
    if page not in (known := pages()):
        raise ValueError(f"There is no page {page!r}; the pages are: {', '.join(known)}.")
    home = known[page][0].home
    programs = [f"{home}/{name}" for name in import_module(f"normkit.tutor.{home}").PAGES[page]]
    parts = [READ, *_shared(programs)]
    for program in programs:
        if entries := [mistake for mistake in known[page] if _program(mistake) == program]:
            parts += [f"## `{program.rpartition('/')[2]}`", *map(entry, entries)]
    return "\n\n".join([*parts, *(_moved(known, *MOVED[page]) if page in MOVED else [])])


def _moved(known: dict[str, list[Mistake]], page: str, words: str) -> list[str]:
    """Links to entries that are now on another page, where their former addresses lead to."""
    links = (f'<span class="entry" id="{anchor(m)}">{_link(m)}</span>' for m in known[page])
    return [words, BETWEEN.join(links)]


def _shared(programs: list[str]) -> list[str]:
    """The mistakes of other assignments that some programs carry, as links."""
    home = programs[0].partition("/")[0]
    carried = (mistake for program in programs for mistake in mistakes_of(program))
    others = dict.fromkeys(mistake for mistake in carried if mistake.home != home)
    return [SHARED, BETWEEN.join(map(_link, others))] if others else []


def entry(mistake: Mistake) -> str:
    """A mistake on its page: its name, what is wrong, the lines, the numbers, where it was met."""
    table = compare(telltale(mistake))
    table += f"\n| {WILD} | {mistake.met} |" * bool(mistake.met)
    return "\n\n".join([_title(mistake), mistake.message, change(mistake), table])


def _title(mistake: Mistake) -> str:
    """The name as a heading with its label; a link, where another place explains it."""
    name = f"`{mistake.name}`"
    if (place := anchor(mistake)) != mistake.label:
        name = f"[{name}](#{mistake.label})"
    return f"({place})=\n### {name}"


def change(mistake: Mistake) -> str:
    """The lines that a mistake takes away and puts there, as a student would write them."""
    return "\n".join([f"{FENCE}diff", *changed(_program(mistake), mistake), FENCE])


def _program(mistake: Mistake) -> str:
    """The first program that carries a mistake and is not right in spite of it."""
    return next(program for program in mistake.ways if mistake in mistakes_of(program))


# --- The numbers ------------------------------------------------------------------------------


def _place(mistake: Mistake) -> tuple[Task, str]:
    """A task, and its program that carries a mistake: that which words it, or one that calls it."""
    own = [task for task in every_task().values() if task.name.startswith(f"{mistake.home}/")]
    every = [(task, program) for task in own for program in task.programs]
    first = _program(mistake)
    every.sort(key=lambda place: (place[1] != first, bool(place[0].whole)))  # parts last
    for task, program in every:
        if mistake in mistakes_of(program) and mistake.name not in task.without:
            return task, program
    raise LookupError(f"{mistake.where}: no task looks for {mistake.name} in {first}.")


def telltale(mistake: Mistake) -> Difference:
    """The first difference on a small input that is large, or the first."""
    task, program = _place(mistake)
    found = [d for d in differences(observe(combine(program, mistake), task), task) if d]
    if not found:
        raise LookupError(f"{mistake.where}: {mistake.name} does not show in {task.name}.")
    return next(filter(_visible, found), found[0])


def _visible(found: Difference) -> bool:
    if found.what not in NUMBERS:
        return True
    small = all(np.size(value) < 13 for value in found.probe.inputs.values())
    return small and distance(found.came, found.expected) > 0.05


def compare(found: Difference) -> str:
    """A table of the input, and what the right and the wrong program make of it."""
    name, wrong, right = _shown(found)
    words = re.fullmatch(r"[a-z]\w*(,? [a-z0-9][a-z0-9_.]*)+", found.name) is not None
    equals = name.removeprefix(found.name).strip() if words else name
    equals = f"{equals} = " if equals else ""
    rows = {
        N_("result"): found.name if words else "",
        N_("case"): found.probe.name if found.probe.name != WORKED else "",
        N_("input"): _code(*telling(found.probe.inputs)),
        N_("right"): _code(equals + right) if right else "",
        N_("wrong"): _code(equals + wrong),
    }
    told = [f"| {word} | {cell} |" for word, cell in rows.items() if cell]
    return "\n".join(["| | |", "|---|---|", *told])


def _shown(found: Difference) -> tuple[str, str, str]:
    """What differs, by name, and what is wrong and right there."""
    came: Any = found.came
    match found.what:
        case "nan" | "statistics" | "values":
            return compared(found.name, came, found.expected)
        case "axes" | "dtype" | "shape":
            fact = "dtype" if found.what == "dtype" else "shape"
            right = getattr(found.expected, fact)
            return f"{found.name}.{fact}", str(getattr(came, fact)), str(right)
        case "error":
            return "", came.split(":")[0], ""
        case "modified":
            return f"np.array_equal({found.name}, before)", "False", "True"
    return found.name, str(came), str(found.expected)


def _code(*texts: str) -> str:
    return " ".join(f"`{text}`" for text in texts)
