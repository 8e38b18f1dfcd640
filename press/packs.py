"""What readers download: the wheel of `normkit`, and a zip for each assignment.

A zip holds the notebook and `normkit`, as the wheel has it: `pip install .` in the unpacked folder
works as it does in the repository.
"""

import io
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

WHEELS = Path("_build/wheel")
ITSELF = ("pyproject.toml", "hatch_build.py", "LICENSE")
EPOCH = (2020, 1, 1, 0, 0, 0)  # the same files make the same zip


def build_wheel(folder: Path = WHEELS) -> Path:
    """Build the wheel of normkit, and remove those of other versions: one is always there."""
    from hatchling.builders.wheel import WheelBuilder

    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as draft:
        (built,) = WheelBuilder(str(Path.cwd())).build(directory=draft, versions=["standard"])
        wheel = Path(built).replace(folder / Path(built).name)
    for old in {*folder.glob("*.whl")} - {wheel}:
        old.unlink()
    return wheel


def packs(
    exercises: Path, readme: Callable[[str], str], wheel: Path
) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of each zip, for the assignments in one language.

    readme: what to write beside the notebook of an assignment of that name.
    """
    package = {name: Path(name).read_bytes() for name in ITSELF}
    with zipfile.ZipFile(wheel) as built:
        names = [name for name in built.namelist() if name.startswith("normkit/")]
        package |= {name: built.read(name) for name in names}
    for path in sorted(exercises.glob("*/*.ipynb")):
        name = path.stem
        if name == path.parent.name:
            own = {path.name: path.read_bytes(), "README.md": readme(name).encode()}
            yield f"{name}.zip", _zip({f"{name}/{k}": v for k, v in {**package, **own}.items()})


def _zip(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name, EPOCH), content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()
