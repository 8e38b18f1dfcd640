"""What stands in the README of a download, at the top of a notebook and of an assignment."""

from collections.abc import Callable

CPU = "https://download.pytorch.org/whl/cpu"  # PyPI's torch for Linux brings CUDA, gigabytes


def note(wheel: str, page: str, _: Callable[[str], str]) -> str:
    """What the notebook of a page needs; page: the address of the exercises, or nothing."""
    where = _("the page of exercises")
    return _(
        "*This notebook holds the visible cells of a page of the course. It needs `normkit`, which "
        "{where} offers for download: put it beside this notebook, and run {command} once.*"
    ).format(
        where=f"[{where}]({page}#exercises-package)" if page else where,
        command=f'`python -m pip install "./{wheel}[experiments,jax,plots]"`',
    )


def missing(_: Callable[[str], str]) -> str:
    """What the page says that stands in for one that is not there."""
    return _("This page does not exist.")


def how(_: Callable[[str], str]) -> str:
    """What the page of an assignment says of itself."""
    return _(
        "Write your code, press *Check*, and read which mistake it behaves like: as often as you "
        "like, with nothing to install. At the end, download your notebook and hand it in."
    )


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
