"""The warm process in the sandbox: it has imported what submissions need, and forks for each.

It never reads a submission. The channel of one comes over the control socket (descriptor 0); the
child that is to read it first enters namespaces, limits and a filter of its own. Whatever it
starts ends with it, and with the other end of its channel.
"""

import ctypes
import gc
import os
import pickle
import resource
import select
import signal
import socket
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import cells

# linux/sched.h: new mount, IPC, user and process namespaces
CLONE_NEW = 0x20000 | 0x8000000 | 0x10000000 | 0x20000000
# linux/mount.h
MS_RDONLY, BARE = 1, 2 | 4 | 8  # no set-user-ID, no devices, no programs
MS_BIND, MS_REC, MS_PRIVATE = 1 << 12, 1 << 14, 1 << 18
# linux/prctl.h
PDEATHSIG, SECCOMP, CAPBSET_DROP, NO_NEW_PRIVS = 1, 22, 24, 38
NOBODY = 65534
MEMORY = 2 << 30  # bytes that a submission may take beside what is loaded
LARGEST_FILE, DISK, INODES, DESCRIPTORS = 16 << 20, "32m", 2000, 256
HUNG_UP = select.POLLRDHUP | select.POLLHUP | select.POLLERR
USER = os.getuid(), os.getgid()
LOADED = 0  # pages of memory that the warm process has taken
libc = ctypes.CDLL(None, use_errno=True)


def serve(control: socket.socket) -> None:
    """Fork a child for each channel that comes, until the grader closes the control socket.

    What a child has started ends with it, and when the grader hangs up.
    """
    poll, running = select.poll(), dict[int, Child]()
    poll.register(control, select.POLLIN)
    while True:
        # what comes anew last: it may be given the number of a descriptor that has just been closed
        ready = sorted(poll.poll(), key=lambda event: event[0] == control.fileno())
        for descriptor, _event in ready:
            if descriptor == control.fileno():
                options, channels, *_ = socket.recv_fds(control, 1 << 16, 1)
                if not channels:
                    return
                if new := begin(socket.socket(fileno=channels[0]), pickle.loads(options)):
                    for part, event in new.events():
                        running[part] = new
                        poll.register(part, event)
            elif child := running.get(descriptor):
                for part, _ in child.events():
                    poll.unregister(part)
                    del running[part]
                child.end()


class Child:
    """The process of a submission, and the channel to its grader."""

    def __init__(self, number: int, channel: socket.socket) -> None:
        self.number, self.channel, self.process = number, channel, os.pidfd_open(number)

    def events(self) -> list[tuple[int, int]]:
        """What tells that it has ended, or that the grader has hung up."""
        return [(self.process, select.POLLIN), (self.channel.fileno(), HUNG_UP)]

    def end(self) -> None:
        """Kill it; and so all of its namespace, whose first process it is."""
        os.kill(self.number, signal.SIGKILL)
        os.waitpid(self.number, 0)
        os.close(self.process)
        self.channel.close()


def begin(channel: socket.socket, options: dict[str, Any]) -> Child | None:
    """Fork the child that is to run a submission; None where that cannot be."""
    try:
        child = fork(options["clone"])
    except OSError as error:
        tell(channel, error)
        channel.close()
        return None
    if child == 0:
        os.closerange(3, channel.fileno())  # those of the grader, and of other submissions
        os.closerange(channel.fileno() + 1, 1 << 20)
        become(channel, options)
    return Child(child, channel)


def fork(clone: int) -> int:
    """Fork into new namespaces, by the system call of this number; into none by 0.

    In one step: to fork after `unshare` would copy the tables of all pages twice.
    """
    if not clone:
        return os.fork()
    python = ctypes.PyDLL(None, use_errno=True)
    python.PyOS_BeforeFork()
    child = python.syscall(*map(ctypes.c_long, (clone, CLONE_NEW | signal.SIGCHLD, 0, 0, 0, 0)))
    python.PyOS_AfterFork_Child() if child == 0 else python.PyOS_AfterFork_Parent()
    if child < 0:
        raise OSError(number := ctypes.get_errno(), f"clone: {os.strerror(number)}")
    return int(child)


def tell(channel: socket.socket, error: BaseException) -> None:
    """Say why a submission could not be run."""
    with suppress(OSError):
        channel.sendall(b"%010d" % 0 + f"{type(error).__name__}: {error}".encode())


def become(channel: socket.socket, options: dict[str, Any]) -> None:
    """Confine this process, read the submission, run it."""
    os.setsid()  # or kill(0, …) would reach the warm process
    try:
        for descriptor in (1, 2):
            os.dup2(0, descriptor)  # /dev/null
        if options["clone"]:
            name_user(*USER)
            arrange(options["view"], options["places"])
        else:
            look(options["view"])
        limit()
        drop_rights(options["filter"])
        cells.run(channel)
    except BaseException as error:
        tell(channel, error)
    finally:
        os._exit(0)


def name_user(uid: int, gid: int) -> None:
    """In a namespace of users of its own: it is nobody."""
    write("/proc/self/setgroups", "deny")
    write("/proc/self/uid_map", f"{NOBODY} {uid} 1")
    write("/proc/self/gid_map", f"{NOBODY} {gid} 1")


def arrange(view: str, places: list[str]) -> None:
    """A home and temporary folder of its own; of the course what this assignment may see."""
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    mount(view, "/course", None, MS_BIND)
    size = f"size={DISK},nr_inodes={INODES}"
    for place in places:
        mount("tmpfs", place, "tmpfs", BARE, size)
    for place in ("/proc", "/views", "/inside"):
        mount("tmpfs", place, "tmpfs", BARE | MS_RDONLY, "size=4k,nr_inodes=2")
    os.chdir(places[0])


def look(view: str) -> None:
    """Without namespaces: a temporary folder as home, and what this assignment may see."""
    os.chdir(tempfile.mkdtemp())
    for name, module in sys.modules.items():
        if name.split(".")[0] == "normkit" and hasattr(module, "__path__"):
            module.__path__[:] = [os.path.join(view, *name.split("."))]


def limit() -> None:
    """Limits on memory, files and descriptors; no core dumps."""
    loaded = LOADED * resource.getpagesize()
    for what, most in (
        (resource.RLIMIT_AS, loaded + MEMORY),
        (resource.RLIMIT_FSIZE, LARGEST_FILE),
        (resource.RLIMIT_NOFILE, DESCRIPTORS),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
    ):
        with suppress(ValueError, OSError):
            resource.setrlimit(what, (most, most))


class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("program", ctypes.c_void_p)]


def drop_rights(program: bytes) -> None:
    """No capabilities, no way to new ones, and the filter of system calls."""
    for capability in range(64):
        libc.prctl(CAPBSET_DROP, capability, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # linux/capability.h, version 3
    call("capset", ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)()))
    call("prctl", NO_NEW_PRIVS, 1, 0, 0, 0)
    call("prctl", PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if program:
        held = ctypes.create_string_buffer(program, len(program))
        made = Filter(len(program) // 8, ctypes.cast(held, ctypes.c_void_p))
        call("prctl", SECCOMP, 2, ctypes.byref(made), 0, 0)


def mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    given = (text.encode() if text else None for text in (source, target, kind))
    call("mount", *given, ctypes.c_ulong(flags), data.encode() or None)


def call(name: str, *args: Any) -> None:
    """A call of the system that must succeed."""
    if getattr(libc, name)(*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def main() -> None:
    """Warm up, say so, serve."""
    global LOADED
    control = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    cells.warm_up()
    gc.collect()
    gc.freeze()  # or collecting would copy every page
    if threads() != 1:  # a thread that holds a lock would leave it locked in the child
        sys.exit(f"the warm process runs {threads()} threads; it must run one before it forks")
    LOADED = int(Path("/proc/self/statm").read_text().split()[0])
    control.sendall(b"ready")
    serve(control)
