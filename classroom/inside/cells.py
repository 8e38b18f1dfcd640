"""Runs the cells of one submission, in the sandbox, and sends what each made: outputs and values.

IPython's shell runs them, without a kernel. Nothing is judged here: for each test the answer is
observed on the probes that the grader has drawn. What this process sends proves nothing else.
"""

import base64
import json
import os
import pickle
import random
import re
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Type
from traitlets.config import Config
from witness import Witness

from normkit.tutor.by_hand import look_up
from normkit.tutor.observing import Observation, Result, observe
from normkit.tutor.tasks import every_task

TEXT = 200_000  # characters kept of what a cell prints; a picture counts as its characters
OBSERVED = "application/vnd.normkit.observed+json"  # an output in the place of a verdict
MAGIC = re.compile(r"[%!?]|^[ \t]*(>>>|In \[|[/,;])|\A\s", re.MULTILINE)  # or what may be one
AWAITS = re.compile(r"\b(await|async)\b")
CALLS = 60  # of diagnose and check that are observed
AFTER = 5.0  # seconds for each cell and test, once one of them has been stopped

FIRST = """
import numpy as np
import numpy.testing
from normkit.tutor.observing import observe
def fail(x, *_given, **_named):
    assert not x, np.random.default_rng(0).normal(size=3)
observe(fail, "layer_norm/forward")
fail(1)
"""  # what comes first takes long: imports, a traceback, probes


class Kept:
    """The outputs of a cell, in their order, up to a number of characters."""

    def __init__(self) -> None:
        self.outputs: list[dict[str, Any]] = []
        self.left = TEXT

    def add(self, output: dict[str, Any], size: int) -> None:
        self.left -= size
        if self.left >= 0:
            self.outputs.append(output)

    def stream(self, name: str, text: str) -> None:
        text = text[: max(0, self.left)]
        last = self.outputs[-1] if self.outputs else {}
        self.left -= len(text)
        if last.get("name") == name:
            last["text"] += text
        elif text:
            self.outputs.append({"output_type": "stream", "name": name, "text": text})

    def show(self, kind: str, data: dict[str, Any], **others: Any) -> None:
        data = {str(k): v for k, v in data.items() if isinstance(v, (str, dict))}
        output = {"output_type": kind, "data": data, "metadata": {}, **others}
        self.add(output, len(json.dumps(data, default=str)))


class Stream:
    """Standard output or error of a cell."""

    encoding, errors, closed = "utf-8", "replace", False

    def __init__(self, shell: "Shell", name: str) -> None:
        self.shell, self.name = shell, name

    def write(self, text: str) -> int:
        self.shell.kept.stream(self.name, str(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True


class Publisher(DisplayPublisher):
    """Keeps what `display` shows."""

    def publish(self, data: Any, metadata: Any = None, *_: Any, **_others: Any) -> None:
        Shell.instance().kept.show("display_data", data)


class Hook(DisplayHook):
    """Keeps the value of the last line."""

    def write_output_prompt(self) -> None:
        pass

    def write_format_data(self, format_dict: Any, md_dict: Any = None) -> None:
        Shell.instance().kept.show("execute_result", format_dict, execution_count=None)

    def finish_displayhook(self) -> None:
        self._is_active = False


class Shell(InteractiveShell):
    """IPython's, whose cells leave outputs as a notebook's do."""

    kept = Kept()
    displayhook_class = Type(Hook)
    display_pub_class = Type(Publisher)

    def transform_cell(self, raw_cell: str) -> str:
        """A cell without magics stays: IPython would take it apart several times to find none."""
        plain = raw_cell.strip() and not MAGIC.search(raw_cell)
        return raw_cell.rstrip("\n") + "\n" if plain else super().transform_cell(raw_cell)

    def should_run_async(self, raw_cell: str, **others: Any) -> bool:
        """Only what awaits something: IPython would compile every cell to know."""
        return bool(AWAITS.search(raw_cell)) and super().should_run_async(raw_cell, **others)

    def enable_gui(self, gui: str | None = None) -> None:
        """`%matplotlib`: there is no window, and none is needed."""

    def ask_exit(self) -> None:
        """`exit()`: there is no kernel that could end."""

    def _showtraceback(self, etype: type, evalue: BaseException, stb: list[str]) -> None:
        with suppress(BaseException):
            text = str(evalue)[:TEXT]
            lines = [str(line)[:TEXT] for line in stb]
            error = {"output_type": "error", "ename": etype.__name__, "evalue": text}
            self.kept.add({**error, "traceback": lines}, len(text) + sum(map(len, lines)))


def warm_up() -> None:
    """Import what submissions need, and make the shell."""
    settings = Config()
    settings.HistoryManager.enabled = False  # a thread of its own, and a file
    settings.InteractiveShell.xmode = "Plain"  # the others read sources for 50 to 100 ms
    settings.InteractiveShell.colors = "NoColor"
    settings.InteractiveShell.autoindent = False
    shell = Shell.instance(config=settings)
    with suppress(ImportError):
        import torch

        torch.set_num_threads(1)
        torch.nn.functional.layer_norm(torch.ones(1, 2), (2,))
    every_task()
    shell.run_cell(FIRST, silent=True)
    shell.reset()
    look_up()


class Submission:
    """A submission that runs: its cells, its probes, its time."""

    def __init__(self, channel: socket.socket, work: dict[str, Any]) -> None:
        self.channel, self.work = channel, work
        self.probes = pickle.loads(work["probes"])  # the grader's
        self.seconds: float = work["seconds"]
        self.shell = Shell.instance()
        self.slow: list[Any] = []  # answers that were stopped
        self.asked: list[tuple[Any, str]] = []  # the answers that diagnose was called with

    def run(self) -> None:
        for number, cell in self.work["cells"]:
            self.cell(number, cell)
            for expression, task in self.work["tests"].get(number, ()):
                self.test(number, expression, task)
        self.send({"done": True})
        while True:
            number = self.heard()
            answer, task = self.asked[number]
            self.send({"task": task, "shown": self.observe(answer, "", task, "shown")})

    def cell(self, number: int, source: str) -> None:
        """Run a cell and send its outputs."""
        self.shell.kept = kept = Kept()
        stopped = False
        with redirected(self.shell), self.in_time():
            result = self.shell.run_cell(source, store_history=False)
            error = result.error_before_exec or result.error_in_exec
            stopped = isinstance(error, KeyboardInterrupt)
        self.slower(stopped)
        self.send({"cell": number, "stopped": stopped, "outputs": kept.outputs})

    def test(self, number: int, expression: str, task: str) -> None:
        """Observe the answer that a test names: if it is wrong, once more, to show why."""
        try:
            with redirected(self.shell), self.in_time():
                answer = eval(expression, self.shell.user_ns)
        except BaseException as error:
            answer, failed = None, f"{type(error).__name__}: {error}"[:300]
        else:
            failed = ""
        data = self.observe(answer, failed, task, "secret")
        asked = [i for i, (of, t) in enumerate(self.asked) if t == task and same(of, answer)]
        self.send({"cell": number, "task": task, "secret": data, "asked": asked})
        if self.heard():  # it is wrong
            self.send({"task": task, "shown": self.observe(answer, failed, task, "shown")})

    def heard(self) -> Any:
        """What the grader says."""
        return json.loads(receive(self.channel, int(receive(self.channel, 10))))

    def observe(self, answer: Any, failed: str, task: str, purpose: str) -> str:
        probes = self.probes[task, purpose]
        if failed or any(same(answer, slow) for slow in self.slow):
            result = Result(error=failed or "KeyboardInterrupt")
            return encoded(Observation([result] * len(probes)))
        with redirected(self.shell), self.in_time():
            found = observe(answer, task, 0, probes)
        self.slower(interrupted(found), answer)
        return encoded(found)

    def record(self, answer: Any, task: str) -> None:
        """What `diagnose` and `check` do here: the grader puts the verdict in this place.

        Values are sent with a test of the same answer; without one, after the last cell, if asked.
        """
        if (task, "shown") not in self.probes or len(self.asked) >= CALLS:
            return print(f"{task}: no verdict")
        self.shell.kept.show("display_data", {OBSERVED: {"number": len(self.asked), "task": task}})
        self.asked.append((answer, task))

    def slower(self, stopped: bool, answer: Any = None) -> None:
        """What takes long is stopped once, not once a test."""
        self.seconds = min(self.seconds, AFTER) if stopped else self.seconds
        self.slow += [answer] if stopped and answer is not None else []

    @contextmanager
    def in_time(self) -> Iterator[None]:
        signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, self.seconds, 1)
        try:
            yield
        except KeyboardInterrupt:
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def send(self, message: dict[str, Any]) -> None:
        data = json.dumps(message, default=str).encode()
        self.channel.sendall(b"%010d" % len(data) + data)


def same(one: Any, other: Any) -> bool:
    """Whether two answers are the same object, or tuples of the same ones."""
    if type(one) is tuple and type(other) is tuple and len(one) == len(other):
        return all(map(same, one, other))
    return one is other


def encoded(observation: Observation) -> str:
    return base64.b64encode(observation.to_bytes()).decode()


def stop(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt("it took too long")


def interrupted(observation: Observation) -> bool:
    return any(r.error.startswith("KeyboardInterrupt") for r in observation.results)


@contextmanager
def redirected(shell: Shell) -> Iterator[None]:
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = Stream(shell, "stdout"), Stream(shell, "stderr")
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def run(channel: socket.socket) -> None:
    """Read the submission from its channel, run it, send what its cells make."""
    size = int(receive(channel, 10))
    work = pickle.loads(receive(channel, size))  # from the grader
    for name, data in work["files"].items():
        Path(name).write_bytes(data)
    reseed(work["seed"])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    submission = Submission(channel, work)
    sys.addaudithook(Witness(lambda seen: submission.send({"seen": seen})).hook())
    import normkit.tutor.feedback as feedback

    feedback.__dict__["record"] = submission.record
    submission.run()


def reseed(seed: int) -> None:
    """The same notebook draws the same numbers, today and in an appeal."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    if torch := sys.modules.get("torch"):
        torch.default_generator.manual_seed(seed % 2**63)  # torch's own asks for GPUs, too
    os.environ["PYTHONHASHSEED"] = "0"


def receive(channel: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        if not (part := channel.recv(min(size - len(data), 1 << 20))):
            raise EOFError("the grader hung up")
        data += part
    return data
