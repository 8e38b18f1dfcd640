"""Files: written only where they change, so that whatever reads them reads no more than it must."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


def write(path: Path, content: bytes) -> bool:
    """Write a file unless it holds that content already; tell whether it changed."""
    if path.exists() and path.read_bytes() == content:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return True


def mirror(contents: Mapping[str, bytes], folder: Path, old: Iterable[Path]) -> list[Path]:
    """Make `folder` hold these contents, and of the old files no others; return what changed."""
    wanted = {folder / name: content for name, content in contents.items()}
    stale = [path for path in old if path not in wanted]
    for path in stale:
        path.unlink()
        if not any(path.parent.iterdir()):
            path.parent.rmdir()
    return stale + [path for path, content in wanted.items() if write(path, content)]


def under(folder: Path) -> list[Path]:
    """Return all files below a folder, in a fixed order."""
    return sorted(f for f in folder.rglob("*") if f.is_file() and "__pycache__" not in f.parts)


def digest(paths: Iterable[Path], *more: str) -> str:
    """Return a hash of files, with their names, and of strings."""
    total = hashlib.sha256("\0".join(more).encode())
    for path in sorted(paths):
        total.update(f"\0{path.as_posix()}\0".encode() + path.read_bytes())
    return total.hexdigest()


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Let one process at a time do what follows, where the system can lock files."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as held:
        if fcntl is not None:
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
