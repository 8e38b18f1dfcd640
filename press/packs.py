"""What a student downloads: one zip for each assignment, with the notebook and `normkit`.

`pip install .` in the unpacked folder installs all that the notebook needs, as it does in the
repository.
"""

import io
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from press.files import under

ITSELF = ("pyproject.toml", "LICENSE")
TRANSLATIONS = "locale/*/normkit.po"
ADDRESS = "normkit/book.txt"  # where normkit looks up the address of the book
EPOCH = (2020, 1, 1, 0, 0, 0)  # the same files make the same zip


def packs(exercises: Path, readme: Callable[[str], str]) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of each zip, for the assignments in one language.

    readme: what to write beside the notebook of an assignment of that name.
    """
    package = {path.as_posix(): path.read_bytes() for path in _package()}
    if book := os.environ.get("NORMKIT_BOOK"):
        package[ADDRESS] = book.encode()
    for path in sorted(exercises.glob("*/*.ipynb")):
        name = path.stem
        if name == path.parent.name:
            own = {path.name: path.read_bytes(), "README.md": readme(name).encode()}
            yield f"{name}.zip", _zip({f"{name}/{k}": v for k, v in {**package, **own}.items()})


def _package() -> list[Path]:
    sources = [path for path in under(Path("normkit")) if path.suffix == ".py"]
    return [*map(Path, ITSELF), *sources, *sorted(Path().glob(TRANSLATIONS))]


def _zip(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name, EPOCH), content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()
