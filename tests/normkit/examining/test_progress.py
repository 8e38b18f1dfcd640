"""A line says what is measured, where it takes long; and it goes away."""

import io
import sys
import time
from types import SimpleNamespace

import pytest
from torch import nn

import normkit
from normkit.examining import examine, progress
from tests.normkit.examining.broken import rows


class Slow(nn.Module):
    """A norm that takes its time."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)

    def forward(self, x):
        time.sleep(0.02)
        return self.norm(x)


class Terminal(io.StringIO):
    """A stream that is looked at."""

    def isatty(self):
        return True


@pytest.fixture
def opened(monkeypatch):
    """Open a stream in place of stderr, after pytest has put its own there."""

    def at(stream, patience):
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(progress, "PATIENCE", patience)
        return stream

    return at


def test_a_terminal_has_one_line_in_the_readers_language_and_then_none(opened):
    terminal = opened(Terminal(), 0.01)  # less than the first pass alone
    normkit.speak("fr")
    examine(Slow(), rows())
    normkit.speak("en")
    *shown, last = terminal.getvalue().rstrip("\r").split("\r")
    assert "l’inférence" in "".join(shown) and "\n" not in "".join(shown)
    assert last and not last.strip()  # blanks over what stood there


def test_nothing_is_said_of_what_is_done_at_once_nor_in_a_log(opened):
    for stream, patience in ((Terminal(), 60.0), (io.StringIO(), 0.0)):
        opened(stream, patience)
        examine(Slow(), rows())
        assert not stream.getvalue()


def test_the_line_goes_away_when_a_pass_is_interrupted(opened):
    class Interrupted(Slow):
        def forward(self, x):
            super().forward(x)
            raise KeyboardInterrupt

    terminal = opened(Terminal(), 0.01)
    with pytest.raises(KeyboardInterrupt):
        examine(Interrupted(), rows())
    assert terminal.getvalue().endswith("\r") and terminal.getvalue().strip()


def test_a_notebook_shows_it_as_one_output_of_the_cell(monkeypatch):
    shown = []

    def display(data, *, raw, display_id):
        assert raw and display_id
        shown.append(data)
        return SimpleNamespace(update=lambda data, raw: shown.append(data))

    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    examine(Slow(), rows())
    assert "the model at inference" in shown[0]["text/plain"]
    assert shown[-1] == {"text/plain": ""}
