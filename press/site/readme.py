"""What stands in the README of a download."""

from collections.abc import Callable

CPU = "https://download.pytorch.org/whl/cpu"  # PyPI's torch for Linux brings CUDA, gigabytes


def readme(name: str, _: Callable[[str], str]) -> str:
    """The README of an assignment, its words said by `_`."""
    how = _("In a terminal, in this folder (once, and in an environment of its own if you can):")
    return "\n".join(
        [
            f"# {name}",
            "",
            how,
            "",
            f"    python -m pip install torch --index-url {CPU}",
            '    python -m pip install ".[course]"',
            f"    jupyter lab {name}.ipynb",
            "",
            _("The notebook tells you the rest. Begin with its first cell."),
            "",
        ]
    )
