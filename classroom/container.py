"""Grades in a container, where a machine has no bubblewrap, but Podman or Docker.

The image holds Linux, bubblewrap and the packages; the course is mounted. Inside, each submission
has the same sandbox as elsewhere: the options below allow it the namespaces that it needs.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECIPE = "classroom/Containerfile"
INSIDE = "NORMKIT_CONTAINER"  # set in the image
OPTIONS = {
    "podman": ("seccomp=unconfined", "unmask=ALL"),
    "docker": ("seccomp=unconfined", "apparmor=unconfined", "systempaths=unconfined"),
}


@cache
def engine() -> str:
    """The engine that runs containers here; nothing where there is none, or this is one."""
    for name in OPTIONS:
        found = shutil.which(name) and not os.environ.get(INSIDE)
        if found and not subprocess.run([name, "info"], capture_output=True).returncode:
            return name
    return ""


def grade(arguments: Sequence[str]) -> int:
    """Grade the course in this folder, in a container; the image is made if need be."""
    name = image()
    if subprocess.run([engine(), "image", "inspect", name], capture_output=True).returncode:
        print(f"Building {name} (once; some minutes)", file=sys.stderr)
        subprocess.run([engine(), "build", "-t", name, "-f", RECIPE, "."], cwd=ROOT, check=True)
    return subprocess.run(command(engine(), name, Path.cwd(), arguments)).returncode


def image() -> str:
    """The name of the image: another one when the packages change."""
    files = RECIPE, "requirements.txt", "pyproject.toml"
    digest = sha256(b"".join((ROOT / file).read_bytes() for file in files)).hexdigest()
    return f"normkit-grading:{digest[:12]}"


def command(name: str, of: str, course: Path, arguments: Sequence[str]) -> list[str]:
    """What runs the grader in a container, without a network."""
    options = (part for option in OPTIONS[name] for part in ("--security-opt", option))
    mine = hasattr(os, "getuid") and name == "docker"  # Podman's root is who runs it
    owner = ["--user", f"{os.getuid()}:{os.getgid()}"] if mine else []
    place = ["--network", "none", "--volume", f"{course}:/course", *owner]
    return [
        name,
        "run",
        "--rm",
        *options,
        *place,
        of,
        "python",
        "-m",
        "classroom.grade",
        *arguments,
    ]
