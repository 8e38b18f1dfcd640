"""What is measured now, told once a check-up takes longer than a second."""

import sys
from threading import RLock, Timer
from types import TracebackType
from typing import Any, TextIO

from normkit.messages import columns, known, say

PATIENCE = 1.0  # seconds, after which progress is shown


class Progress:
    """Within it, one line says what is measured, in the reader's language; then it is gone.

    In a notebook the line is an output of the cell, else the last line of the terminal.
    """

    def __init__(self) -> None:
        self._what, self._late, self._lock = "", False, RLock()
        self._line: Any = _face()
        self._timer = Timer(PATIENCE, self._begin)  # the first pass alone may take minutes
        self._timer.daemon = True

    def __call__(self, what: str) -> None:
        """Say what begins: a text that is translated, or the name of a check."""
        with self._lock:
            self._what = what
            if self._late:
                self._line.show(say("Measured now: {what}", what=known(what)))

    def _begin(self) -> None:
        with self._lock:
            self._late = True
            self(self._what)

    def __enter__(self) -> "Progress":
        if self._line is not None:
            self._timer.start()
        return self

    def __exit__(
        self, _kind: type | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            if self._late:
                self._line.show("")
            self._late = False


class _Terminal:
    """The last line of a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.width = stream, 0

    def show(self, text: str) -> None:
        """Write over what stood there; at the end the cursor is where the line began."""
        blank = " " * max(0, self.width - columns(text))
        self.width = columns(text)
        print(f"\r{text}{blank}", end="" if text else "\r", file=self.stream, flush=True)


class _Output:
    """An output of the notebook's cell."""

    def __init__(self) -> None:
        self.handle: Any = None

    def show(self, text: str) -> None:
        """Show the text in place of the one before."""
        from IPython.display import display

        data = {"text/plain": text}
        if self.handle is None:
            self.handle = display(data, raw=True, display_id=True)
        else:
            self.handle.update(data, raw=True)


def _face() -> _Terminal | _Output | None:
    """Where a line can be shown that goes away again; None in a log."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is not None:
        return _Output()
    return _Terminal(sys.stderr) if sys.stderr is not None and sys.stderr.isatty() else None
