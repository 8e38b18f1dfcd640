"""What stands in the README of a download."""

from collections.abc import Callable

TORCH = "--extra-index-url https://download.pytorch.org/whl/cpu"  # else Linux gets CUDA, too


def readme(name: str, _: Callable[[str], str]) -> str:
    """The README of an assignment, its words said by `_`."""
    how = _("In a terminal, in this folder (once, and in an environment of its own if you can):")
    return "\n".join(
        [
            f"# {name}",
            "",
            how,
            "",
            f'    python -m pip install ".[course]" {TORCH}',
            f"    jupyter lab {name}.ipynb",
            "",
            _("The notebook tells you the rest. Begin with its first cell."),
            "",
        ]
    )
