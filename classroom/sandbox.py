"""The sandbox: where students' code runs, and what it is given. Nothing in here is judged.

A warm process (`classroom/inside/warm.py`) waits in bubblewrap and forks a child for each
submission. In the child there is Python with its packages, the first half of the tasks, what tests
say, an empty home in memory, and nothing else: no network, no course, no gradebook, no other
student.
"""

import atexit
import compileall
import errno
import io
import json
import os
import pickle
import select
import shutil
import site
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from normkit.messages import LANGUAGES, binary
from normkit.tutor.tasks import first_half

PACKAGE = Path(__file__).parents[1] / "normkit"
INSIDE = Path(__file__).parent / "inside"
SECONDS = 60.0  # for a cell, and for an answer on its probes
TOTAL = 5  # times as long for a whole submission
GRACE = 10.0  # until what does not stop is killed
PLACE = ".grading"  # in a course: what a run needs while it lasts
HOME = "/student"  # in the sandbox
WHOLE = "whole"  # the view of what the project itself hands in
CLONE_THREAD = 0x10000  # linux/sched.h
MOST = 64 << 20  # bytes that a submission may send
DENIED = (
    # other programs and processes
    "execve execveat fork vfork ptrace process_vm_readv process_vm_writev process_madvise "
    "pidfd_getfd pidfd_send_signal kcmp "
    # namespaces and mounts
    "unshare setns mount umount2 pivot_root chroot move_mount open_tree fsopen fsconfig fsmount "
    "fspick mount_setattr "
    # doors of the kernel that no notebook needs
    "bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register keyctl "
    "add_key request_key open_by_handle_at name_to_handle_at kexec_load kexec_file_load "
    "init_module finit_module delete_module swapon swapoff reboot settimeofday clock_settime "
    "clock_adjtime adjtimex quotactl acct personality iopl ioperm modify_ldt vmsplice "
    # the network, and what its neighbours could be reached by
    "socket connect bind listen accept accept4 shmget msgget semget mq_open"
)


NAMESPACES = (
    "The sandbox needs the user namespaces of Linux, inside bubblewrap as well. On Ubuntu 24.04 "
    "and later: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
)


class SandboxError(Exception):
    """The sandbox cannot be had, or has gone."""


@dataclass(frozen=True)
class Work:
    """A submission, as it goes in.

    cells: their numbers and sources. tests: for the number of a cell, what to observe after it, as
    expression and task. probes: by task and purpose, `secret` or `shown`, pickled.
    """

    view: str
    cells: Sequence[tuple[int, str]]
    tests: Mapping[int, Sequence[tuple[str, str]]]
    probes: bytes
    seed: int = 0
    seconds: float = SECONDS
    files: Mapping[str, bytes] = field(default_factory=dict)


class Sandbox:
    """A warm process, and what it is asked to run."""

    def __init__(self, confined: bool = True) -> None:
        self.confined = confined
        self.folder = tempfile.TemporaryDirectory(prefix=f"normkit-{os.getpid()}-")
        atexit.register(self.close)
        self.filter, self.clone = seccomp() if confined else (b"", 0)
        self.control, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        self.see("none")
        place, log = Path(self.folder.name), Path(self.folder.name, "log")
        command = python(str(INSIDE), str(place / "views/none"))
        settings = os.environ | ENVIRONMENT | {"HOME": str(place)}
        with theirs, log.open("wb") as errors:
            self.process = subprocess.Popen(
                bubblewrap(place) if confined else command,
                stdin=theirs.fileno(),
                stdout=errors,
                stderr=errors,
                start_new_session=True,
                env=settings,
            )
        self.ready = False

    def see(self, name: str) -> None:
        """Lay out what the submissions of an assignment may see of normkit."""
        target = Path(self.folder.name, "views", name)
        if not target.exists():
            draft = Path(tempfile.mkdtemp(dir=self.folder.name))
            view(name, draft)
            draft.chmod(0o755)
            target.parent.mkdir(exist_ok=True)
            with suppress(OSError):  # another process of the grader has been faster
                draft.rename(target)

    def starts(self) -> bool:
        """Whether the warm process is still importing what submissions need."""
        return not self.ready and not select.select([self.control], [], [], 0)[0]

    def wait(self) -> None:
        """Wait until the warm process has imported all that it needs, and try it."""
        if self.ready:
            return
        if self.control.recv(5) != b"ready":
            self.process.wait()
            log = Path(self.folder.name, "log").read_text("utf-8", "replace")
            raise SandboxError(f"{log.strip()[-2000:]}\n{NAMESPACES}")
        with self.start(Work("none", [(0, "1")], {}, pickle.dumps({}))) as trial:
            if not any("cell" in message for message in trial):
                raise SandboxError(f"{trial.reason}\n{NAMESPACES}")
        self.ready = True

    def run(self, work: Work) -> "Running":
        """Start a submission, in a sandbox that works."""
        self.wait()
        return self.start(work)

    def start(self, work: Work) -> "Running":
        """Give the warm process the channel of a submission."""
        self.see(work.view)
        ours, theirs = socket.socketpair()
        place = "/views" if self.confined else f"{self.folder.name}/views"
        view = f"{place}/{work.view}"
        options = {"clone": self.clone, "view": view, "filter": self.filter, "places": private()}
        with theirs:
            socket.send_fds(self.control, [pickle.dumps(options)], [theirs.fileno()])
        return Running(ours, work)

    def close(self) -> None:
        atexit.unregister(self.close)
        if hasattr(self, "process"):
            self.control.close()
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()


class Running:
    """A submission that runs; it ends with this object's `with`.

    Iterating yields what its cells send, until it has run, has ended, or is late.
    """

    def __init__(self, channel: socket.socket, work: Work) -> None:
        self.channel, self.work, self.left, self.reason = channel, work, MOST, ""
        self.end = time.monotonic() + TOTAL * work.seconds
        self.send(pickle.dumps(vars(work)))

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while (message := self.next()) and "done" not in message:
            yield message

    def say(self, what: Any) -> None:
        """Answer a test: whether values for showing are wanted; at the end: of which call."""
        self.send(json.dumps(what).encode())

    def send(self, data: bytes) -> None:
        self.channel.settimeout(GRACE)
        with suppress(OSError):  # it has ended
            self.channel.sendall(b"%010d" % len(data) + data)

    def next(self) -> dict[str, Any]:
        """The next message; an empty one where there is none, or what comes is none."""
        if time.monotonic() > self.end:  # whoever sends without an end, and never reads
            return {}
        limit = min(self.end, time.monotonic() + self.work.seconds + GRACE)
        with suppress(OSError, ValueError, RecursionError, MemoryError):
            size = int(receive(self.channel, 10, limit))
            if 0 < size <= self.left:
                self.left -= size
                message = json.loads(receive(self.channel, size, limit))
                return message if isinstance(message, dict) else {}
            self.reason = receive(self.channel, 500, limit).decode("utf-8", "replace")
        return {}


def receive(channel: socket.socket, size: int, limit: float) -> bytes:
    """So many bytes, or what came before the other end hung up; TimeoutError when it is late."""
    data = io.BytesIO()
    while data.tell() < size:
        channel.settimeout(max(0.001, limit - time.monotonic()))
        if not (part := channel.recv(min(size - data.tell(), 1 << 20))):
            break
        data.write(part)
    return data.getvalue()


def view(name: str, folder: Path) -> None:
    """Copy what the submissions of an assignment may see of normkit; "none": the least of all."""
    every = [str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*") if path.is_file()]
    files = every if name == WHOLE else first_half(name)
    for file in files:
        target = folder / "normkit" / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PACKAGE / file, target)
    shutil.copy(INSIDE / "feedback.py", folder / "normkit/tutor/feedback.py")
    for language in LANGUAGES[1:]:  # in which tests say what failed
        target = folder / f"normkit/locale/{language}.mo"
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(catalogue(language))
    compileall.compile_dir(folder, quiet=2)


catalogue = cache(binary)


def bubblewrap(folder: Path) -> list[str]:
    """The command of the warm process."""
    program = shutil.which("bwrap")
    if not program:
        raise SandboxError("bwrap is missing. Debian, Ubuntu: apt install bubblewrap.")
    places = [["--ro-bind", path, path] for path in readable()]
    tops = filter(os.path.islink, ("/bin", "/lib", "/lib64", "/sbin"))
    links = [["--symlink", os.readlink(path), path] for path in tops]
    return [
        *(program, "--unshare-all", "--die-with-parent", "--new-session", "--clearenv"),
        *("--tmpfs", "/tmp", "--tmpfs", "/home"),  # Python may lie there
        *(part for some in (*places, *links) for part in some),
        *("--proc", "/proc", "--dev", "/dev", "--tmpfs", HOME),
        *("--ro-bind", str(INSIDE), "/inside", "--ro-bind", str(folder / "views"), "/views"),
        *("--ro-bind", str(folder / "views/none"), "/course", "--chdir", HOME),
        *(
            "--remount-ro",
            "/tmp",
            "--remount-ro",
            "/home",
            "--remount-ro",
            "/dev",
            "--remount-ro",
            "/",
        ),
        *(part for name, value in ENVIRONMENT.items() for part in ("--setenv", name, value)),
        *("--hostname", "sandbox", *python("/inside", "/course")),
    ]


def python(*places: str) -> list[str]:
    """The command that starts the warm process, with its modules in these places."""
    start = f"import sys; sys.path[:0] = {[*places]!r}; import warm; warm.main()"
    return [sys.executable, "-I", "-X", "utf8", "-c", start]


ENVIRONMENT = {
    **{name: HOME for name in ("HOME", "IPYTHONDIR", "MPLCONFIGDIR", "XDG_CACHE_HOME")},
    **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB")},
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",  # a fork copies the table of pages: fewer
    **{"LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "PATH": "/usr/bin:/bin", "TMPDIR": HOME},
    **{"MPLBACKEND": "module://matplotlib_inline.backend_inline", "PYTHONDONTWRITEBYTECODE": "1"},
}


def readable() -> list[str]:
    """What the sandbox sees of this machine: Python, its packages, the system's libraries."""
    python = {sys.prefix, sys.base_prefix, *site.getsitepackages()}
    found = {
        str(Path(p).resolve()) for p in ("/usr", "/etc/ld.so.cache", "/etc/alternatives", *python)
    }
    found = {p for p in found if Path(p).exists()} | {sys.prefix}
    return sorted(p for p in found if not any(p != q and Path(p).is_relative_to(q) for q in found))


def private() -> list[str]:
    """The folders that a submission has for itself: where no part of Python lies."""
    own = (p for p in ("/tmp", "/home") if not any(Path(r).is_relative_to(p) for r in readable()))
    return [HOME, "/dev/shm", *own]


@cache
def sandbox(confined: bool = True) -> Sandbox:
    """The sandbox of this process, started when it is first asked for."""
    return Sandbox(confined)


def begun(confined: bool = True) -> Sandbox:
    """The sandbox of this process, in the course in the current folder, while it starts."""
    place = Path(PLACE).absolute()
    place.mkdir(exist_ok=True)
    tempfile.tempdir = str(place)
    return sandbox(confined)


@cache
def seccomp() -> tuple[bytes, int]:
    """The filter of system calls, as the kernel reads it; the number of clone on this machine."""
    try:
        import pyseccomp as seccomp
    except (ImportError, RuntimeError) as error:
        raise SandboxError(
            "libseccomp is missing. Debian, Ubuntu: apt install libseccomp2."
        ) from error
    rules = seccomp.SyscallFilter(seccomp.ALLOW)
    for name in DENIED.split():
        try:
            rules.add_rule(seccomp.ERRNO(errno.EPERM), name)
        except (ValueError, OSError):  # not a call of this machine, or of this libseccomp
            continue
    rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")  # its flags cannot be read: clone, then
    thread = 0x10000
    rules.add_rule(
        seccomp.ERRNO(errno.EPERM), "clone", seccomp.Arg(0, seccomp.MASKED_EQ, thread, 0)
    )
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read(), seccomp.resolve_syscall(seccomp.system_arch(), "clone")
