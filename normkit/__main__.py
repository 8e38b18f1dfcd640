"""`python -m normkit examine package.module:function`: the check-up of a model in a terminal.

The function returns (model, inputs), or a dictionary with `model`, `inputs`, `named`, `optimizer`.
"""

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from normkit.messages import LANGUAGES, speak

if TYPE_CHECKING:
    from normkit.examining import Finding, Report

FAILS = {"error": 1, "warning": 2, "note": 3}  # levels that give exit status 1, up to this one


def main(given: list[str] | None = None) -> int:
    """Run the command; the exit status is 1 on findings of the level asked for, 2 on no answer."""
    arguments = _parser().parse_args(given)
    speak(arguments.language)
    try:
        report = _report(arguments)
    except Exception as error:  # of the reader's own module: said, not thrown at him
        print(f"{arguments.function}: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    _print(report.to_json() if arguments.json else str(report))
    if not report.norms and report.skipped:
        return 2
    return int(report.level is not None and FAILS[report.level] <= FAILS[arguments.fail_on])


def _print(text: str) -> None:
    """What the terminal's encoding lacks is a question mark there, no exception."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m normkit", description=__doc__)
    commands = parser.add_subparsers(required=True)
    examine = commands.add_parser("examine", help="check up the norms of a model")
    examine.add_argument("function", help="package.module:function, which returns model and inputs")
    examine.add_argument("--json", action="store_true", help="names and numbers, for programs")
    examine.add_argument("--only", action="append", default=[], metavar="NAME", help="this finding")
    examine.add_argument(
        "--ignore", action="append", default=[], metavar="NAME", help="not this one"
    )
    examine.add_argument(
        "--fail-on", choices=FAILS, default="error", help="exit status 1 from here"
    )
    examine.add_argument("--static", action="store_true", help="only read the modules, run nothing")
    examine.add_argument("--language", choices=LANGUAGES, default=LANGUAGES[0])
    return parser


def _report(arguments: argparse.Namespace) -> "Report":
    from normkit import examine

    _refuse_unknown(*arguments.only, *arguments.ignore)
    model, inputs, named = _built(arguments.function)
    report = examine(model, *inputs, static=arguments.static, **named)
    return replace(report, findings=list(_kept(report.findings, arguments)))


def _refuse_unknown(*names: str) -> None:
    """A name that is mistyped would make every model pass."""
    from normkit.examining.wording import names as known

    for name in set(names) - known():
        raise ValueError(f"no finding is called {name}")


def _kept(findings: Iterable["Finding"], arguments: argparse.Namespace) -> Iterator["Finding"]:
    """The findings that are wanted; one that is not leaves its consequences in its place."""
    for finding in findings:
        under = tuple(_kept(finding.consequences, arguments))
        ignored = finding.name in arguments.ignore
        if ignored or (arguments.only and finding.name not in arguments.only):
            yield from under
        else:
            yield replace(finding, consequences=under)


def _built(function: str) -> tuple[Any, tuple, dict[str, Any]]:
    """What the reader's function returns: a model, its inputs, what is given by name."""
    module, _, name = function.partition(":")
    if not name:
        raise ValueError("write it as package.module:function")
    sys.path.insert(0, os.getcwd())
    found = getattr(import_module(module), name)()
    if isinstance(found, dict):
        rest = {k: v for k, v in found.items() if k not in {"model", "inputs", "named"}}
        return found["model"], _tuple(found.get("inputs", ())), {**found.get("named", {}), **rest}
    model, *inputs = found if isinstance(found, tuple) else (found,)
    return model, _tuple(inputs[0]) if len(inputs) == 1 else tuple(inputs), {}


def _tuple(inputs: Any) -> tuple:
    return tuple(inputs) if isinstance(inputs, (list, tuple)) else (inputs,)


if __name__ == "__main__":
    sys.exit(main())
