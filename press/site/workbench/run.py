"""What Python does in the page: runs a student's cells, and judges as `diagnose` does.

It never ends with an exception: whatever the student's code raises is an answer.
"""

import ast
import io
import linecache
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import normkit
from normkit.messages import current_language, translator
from normkit.tutor.judging import Verdict, judge
from normkit.tutor.observing import observe
from normkit.tutor.wording import NUMBERS, compared, explain, paragraphs

IMPORTS = ast.Import, ast.ImportFrom
LONGEST = 20_000  # characters kept of what is printed


class Printed(io.StringIO):
    """Takes what is printed, and keeps the beginning."""

    def write(self, text: str) -> int:
        return super().write(text) if self.tell() < LONGEST else len(text)


def work(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Run the cells that were asked for; then the cell that calls `diagnose`, if there is one.

    asked: `language`; `setup`, sources that run before, silently; `cells`, each with its `id` and
    its `source`; `check`, the source of the cell that calls `diagnose`, or "".
    """
    start = time.perf_counter()
    normkit.speak(asked["language"])
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, source in enumerate(asked["setup"]):
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            run(source, f"<before {number}>", names)
    verdicts: list[Verdict] = []
    error, value = None, ""
    with redirect_stdout(Printed()) as printed, redirect_stderr(printed):
        for cell in asked["cells"]:
            value, error = run(cell["source"], f"<{cell['id']}>", names)
            if error:
                break
        if asked["check"] and not error:
            names["diagnose"] = lambda answer, task, seed=0: verdicts.append(
                judge(observe(answer, task, seed), task, seed)
            )
            _, error = run(asked["check"], "<check>", names)
    return {
        "printed": printed.getvalue(),
        "value": value,
        "error": error,
        "verdicts": [told(verdict) for verdict in verdicts],
        "seconds": time.perf_counter() - start,
    }


# --- A page of the book -----------------------------------------------------------------------


def page(asked: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Run the cells of a page in order; of those that need what is not here, say what they need.

    asked: `cells`, the sources. Returns for each what it printed, its last expression, its error;
    or `needs`, the module that is not here.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    absent: dict[str, str] = {}  # names that are not there, each with the module that it needs
    return [cell(source, f"<cell {i}>", names, absent) for i, source in enumerate(asked["cells"])]


def cell(source: str, file: str, names: dict[str, Any], absent: dict[str, str]) -> dict[str, Any]:
    """One cell; what it would have made is absent too if it needs what is not here."""
    try:
        tree = ast.parse(source, file)
    except SyntaxError as wrong:
        return {"printed": "", "value": "", "error": raised(wrong), "needs": ""}
    imports = [node for node in tree.body if isinstance(node, IMPORTS)]
    for line in imports:
        try:
            exec(compile(ast.Module([line], []), file, "exec"), names)
        except ImportError as missing:
            needed = (missing.name or "").partition(".")[0]
            absent |= {a.asname or a.name.partition(".")[0]: needed for a in line.names}
    made = bound(tree)
    lack = {id(node): lacking(node, absent, made) for node in tree.body}
    needs = next(filter(None, lack.values()), "")
    left = [node for node in tree.body if lack[id(node)]]
    if imports:  # what sets up a page: each line by itself
        source = "\n".join(ast.unparse(node) for node in tree.body if node not in left)
        needs = ""
    value, error = "", None
    with redirect_stdout(Printed()) as printed, redirect_stderr(printed):
        if not needs:
            value, error = run(source, file, names)
    if error and error["name"] == "ModuleNotFoundError":
        needs = error["message"].split("'")[1] if "'" in error["message"] else "?"
    for name in made:
        absent.pop(name, None)
    for node in tree.body if needs else left:
        absent |= dict.fromkeys(bound(node), needs or lack[id(node)])
    return {"printed": printed.getvalue(), "value": value, "error": error, "needs": needs}


def bound(tree: ast.AST) -> set[str]:
    """The names that a cell gives a value: variables, functions, classes, parameters."""
    nodes = list(ast.walk(tree))
    found = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    found |= {n.name for n in nodes if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    return found | {n.arg for n in nodes if isinstance(n, ast.arg)}


def lacking(node: ast.stmt, absent: Mapping[str, str], made: set[str]) -> str:
    """The module that a statement needs and that is not here."""
    if isinstance(node, IMPORTS):
        wanted = {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    else:
        wanted = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} - made
    return next((absent[name] for name in sorted(wanted) if name in absent), "")


# --- A cell -----------------------------------------------------------------------------------


def run(source: str, file: str, names: dict[str, Any]) -> tuple[str, dict[str, Any] | None]:
    """Run a cell as a notebook does: return its last expression as text, or what it raised."""
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    try:
        tree = ast.parse(source, file)
        *first, last = tree.body or [ast.Pass()]
        if not isinstance(last, ast.Expr):
            exec(compile(tree, file, "exec"), names)
            return "", None
        exec(compile(ast.Module(first, []), file, "exec"), names)
        found = eval(compile(ast.Expression(last.value), file, "eval"), names)
        return ("" if found is None else repr(found)[:LONGEST]), None
    except BaseException as error:  # SystemExit too: this is not our code
        return "", raised(error)


def raised(error: BaseException) -> dict[str, Any]:
    """An exception, with the last line of a cell that it came through."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename[0] == "<"]
    file, line = (frames[-1].filename, frames[-1].lineno) if frames else ("", None)
    if isinstance(error, SyntaxError):
        file, line = error.filename or "", error.lineno
    name = type(error).__name__
    message = error.msg if isinstance(error, SyntaxError) else " ".join(str(error).split())
    lines = [f"{f.filename}:{f.lineno} {f.line}" for f in frames]
    return {"name": name, "message": message, "line": line, "cell": file[1:-1], "lines": lines}


def told(verdict: Verdict) -> dict[str, Any]:
    """A verdict for the page: the words of `diagnose`, in parts."""
    language = current_language()
    first, *others = paragraphs(verdict, language)
    links = list(linked(others.pop())) if not verdict.passed else []
    rows = list(shown(verdict))
    kept = [text for text in others if not text.startswith("  ") or not rows]
    return {
        "passed": verdict.passed,
        "task": verdict.task.name,
        "names": [mistake.name for mistake in verdict.mistakes],
        "paragraphs": kept or [first],
        "rows": rows,
        "links": links,
        "text": explain(verdict, language),
    }


def linked(text: str) -> Iterator[dict[str, str]]:
    """The addresses of the last line, as links from the page of an assignment."""
    head, _, told = text.replace("：", ": ", 1).partition(": ")
    for number, address in enumerate(addresses := told.split(" · "), 1):
        which = f" ({number})" if len(addresses) > 1 else ""
        yield {"text": head.strip() + which, "href": f"../{address.strip().partition('/')[2]}"}


def shown(verdict: Verdict) -> Iterator[tuple[str, str]]:
    """What came and what was expected, where two arrays say it."""
    found = verdict.difference
    if found is None or found.what not in NUMBERS or (verdict.missing and not verdict.alone):
        return
    say = translator(current_language())
    name, came, expected = compared(say(found.name), found.came, found.expected)
    yield name, came
    yield say("expected"), expected
