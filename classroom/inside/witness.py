"""Sees what a submission does that no answer needs: an audit hook, which Python cannot remove."""

import sys
from collections.abc import Callable
from pathlib import Path
from sys import _getframe as getframe
from types import FrameType
from typing import Any

from normkit.tutor import by_hand
from normkit.tutor.by_hand import is_a_students

MOST = 40
# what a student's own line does, not a library for it; what it has done by a library too
DIRECT, ANYHOW = (
    frozenset(names.split())
    for names in (
        "sys.setprofile sys.settrace sys._getframe sys._current_frames sys.addaudithook "
        "gc.get_objects gc.get_referrers gc.get_referents code.__new__ exec compile "
        "object.__getattr__ object.__setattr__ builtins.input _thread.start_new_thread "
        "marshal.loads pickle.find_class os.putenv",
        "ctypes.dlopen ctypes.dlsym ctypes.cdata os.system os.exec os.fork os.forkpty "
        "os.posix_spawn os.kill os.killpg os.mkdir os.remove os.rename os.rmdir os.link "
        "os.symlink os.chmod os.chown os.truncate os.mkfifo os.setxattr pty.spawn "
        "signal.pthread_kill shutil.rmtree shutil.move shutil.copyfile subprocess.Popen "
        "socket.__new__ socket.connect socket.bind mmap.__new__ ftplib.connect "
        "http.client.connect urllib.Request smtplib.connect",
    )
)
WATCHED = {"open", *DIRECT, *ANYHOW}
OWN = "/student", "/tmp"  # folders that are the submission's
PLAIN = "/usr/", "/course/", "/dev/null", "/proc/", "/etc/", sys.prefix, sys.base_prefix
WATCHING = vars(by_hand)
HERE = str(Path(__file__).parent)


class Witness:
    """Tells each kind of event once, when it comes from a student's code."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.tell, self.told, self.busy = tell, set[str](), False

    def hook(self) -> Callable[[str, tuple[Any, ...]], None]:
        """The audit hook: what watches the calls of an answer reads the code of every frame."""

        def hook(event: str, given: tuple[Any, ...]) -> None:
            if event not in WATCHED or self.busy or len(self.told) >= MOST:
                return
            self.busy = True  # to ask for a frame is an event, too
            try:
                frame = getframe(1)
                if event not in DIRECT or frame.f_globals is not WATCHING:
                    self.note(event, given, frame)
            finally:
                self.busy = False

        return hook

    def note(self, event: str, given: tuple[Any, ...], frame: FrameType) -> None:
        """Tell of an event that is new."""
        seen = self.seen(event, given, frame)
        if seen and seen not in self.told:
            self.told.add(seen)
            self.tell(seen)

    def seen(self, event: str, given: tuple[Any, ...], frame: FrameType) -> str:
        """What is told of an event; nothing of an ordinary one."""
        if event == "open":
            path, mode = str(given[0])[:200], str(given[1])
            reads = not set(mode) & set("wax+") and path.startswith(PLAIN)
            ordinary = reads or path.startswith(OWN) or "/" not in path
            return "" if ordinary or not by_a_student(frame) else f"open {path}"
        if event in DIRECT:
            return event if of_a_student(frame) else ""
        about = str(given[0])[:80] if given else ""
        relative = event in ("os.mkdir", "os.remove", "os.rename") and about[:1] != "/"
        ordinary = relative or about.startswith(OWN) or about == "fc-list"  # matplotlib's fonts
        return f"{event} {about}".strip() if not ordinary and by_a_student(frame) else ""


def of_a_student(frame: FrameType) -> bool:
    """Whether a frame runs a student's code, not the runner's."""
    return not frame.f_code.co_filename.startswith(HERE) and is_a_students(frame)


def by_a_student(frame: FrameType | None) -> bool:
    """Whether a student's code is among the callers, below the runner."""
    while frame is not None and not frame.f_code.co_filename.startswith(HERE):
        if is_a_students(frame):
            return True
        frame = frame.f_back
    return False
