"""Whether there is anything to build: what the last build read and left, at a glance."""

import os
from pathlib import Path

from press.files import digest, under

STAMP, SITE, EXERCISES = Path("_build/made"), Path("_build/site"), Path("exercises")
PYTHON = Path("static/python")  # missing where it could not be fetched
WHERE = f"""\
The site:      {SITE}/index.html  (make serve shows it on localhost)
The exercises: {EXERCISES}/<language>/<assignment>/<assignment>.ipynb"""
FOLDERS = "book", "classroom", "locale", "normkit", "press", "solutions"
FILES = "_config.yml", "_toc.yml", "requirements.txt", "pyproject.toml", "nbgrader_config.py"


def is_current() -> bool:
    """Whether a build would find all as the last one left it."""
    return (SITE / PYTHON).exists() and STAMP.exists() and STAMP.read_text() == _state()


def remember() -> None:
    """Note what a build has read and left."""
    STAMP.write_text(_state())


def _state() -> str:
    files = [path for name in FILES if (path := Path(name)).exists()]
    read = [*files, *(path for name in FOLDERS for path in under(Path(name)))]
    head = Path(".git/logs/HEAD")  # pages tell the date of the last commit
    set_ = sorted(f"{k}={v}" for k, v in os.environ.items() if k.startswith("NORMKIT_"))
    left = [(f.as_posix(), s.st_size, s.st_mtime_ns) for f in _left() if (s := f.stat())]
    return digest([*read, *([head] if head.exists() else [])], *set_, *map(str, left))


def _left() -> list[Path]:
    return [*under(SITE), *under(EXERCISES)]
