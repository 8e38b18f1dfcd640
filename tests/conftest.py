"""What all tests share: the parts of a machine that some need, samples, and what runs together."""

import importlib.util
import os
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from functools import cache
from glob import glob
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # as in `make test`: there is a process for each core
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # tests compile often, compute little


def chromium() -> bool:
    from press.printed import browser

    return browser() is not None


@cache
def bubblewrap() -> bool:
    command = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"]
    found = shutil.which("bwrap")
    return bool(found) and subprocess.run(command, capture_output=True).returncode == 0


def java() -> bool:
    return shutil.which("java") is not None


def triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def postgresql() -> bool:
    return _postgres("initdb") is not None


@pytest.fixture
def postgres():
    return _postgres


def _postgres(program: str) -> str | None:
    """A program of PostgreSQL, which Debian keeps off the PATH."""
    places = [os.environ["PATH"], *glob("/usr/lib/postgresql/*/bin")]
    return shutil.which(program, path=os.pathsep.join(places))


@pytest.fixture(scope="session")
def built():
    """The real site, built by one worker while the others wait."""
    from press import made
    from press.files import alone

    with alone(Path("_build/site.lock")):
        if not made.is_current():
            from press.commands import site  # which takes a second

            site()
    return made.SITE


# What `@pytest.mark.needs` may name: whether it is here, and what installs it, on Debian if it can.
PARTS = {
    "chromium": (chromium, "apt-get install chromium fonts-noto-cjk"),
    "bubblewrap": (bubblewrap, "apt-get install bubblewrap"),
    "java": (java, "apt-get install default-jre-headless"),
    "postgresql": (postgresql, "apt-get install postgresql"),
    "triton": (triton, "make triton"),
}
OPTIONAL = {"triton"}  # 1 GB: said where it is missing, but never a failure
MISSING = "needs "  # begins the reason of each skip of ours


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out the proofs, and xdist reads the groups
def pytest_collection_modifyitems(items):
    """Mark what cannot run, what `make test` leaves to `make proofs`, what must not be split."""
    cases = defaultdict(list)
    for item in items:
        for part in (name for mark in item.iter_markers("needs") for name in mark.args):
            present, _how = PARTS[part]
            item.add_marker(pytest.mark.skipif(not present(), reason=MISSING + part))
        for mark in item.iter_markers("sample"):
            cases[item.path, item.originalname, mark.args[0]].append(item)
        if _shares(item):
            item.add_marker(pytest.mark.xdist_group(item.path.name))
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    for (*_, size), found in cases.items():
        for item in set(found) - set(found[:: -(-len(found) // size)]):
            item.add_marker(pytest.mark.proof)


def pytest_runtest_teardown(item, nextitem):
    """After each file, let go of what JAX has compiled for it: two gigabytes by the end."""
    if "jax" in sys.modules and (nextitem is None or nextitem.path != item.path):
        sys.modules["jax"].clear_caches()


def _shares(item: pytest.Item) -> bool:
    """Whether a test uses what is made once for its module: two workers would make it twice."""
    found = getattr(item, "_fixtureinfo", None)
    return bool(found) and any(
        fixture.scope in {"module", "session"} and fixture.baseid
        for fixtures in found.name2fixturedefs.values()
        for fixture in fixtures
    )


def _left_out(config: pytest.Config) -> Counter[str]:
    """How many tests were left out for each part that is missing."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []  # a worker has none
    reasons = (report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    return Counter(r.removeprefix(MISSING) for r in reasons if r.startswith(MISSING))


def pytest_sessionfinish(session):
    """Where a machine vouches for the project, nothing may be left out in silence."""
    if os.environ.get("CI") == "true" and _left_out(session.config).keys() - OPTIONAL:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    for part, count in _left_out(config).items():
        said = f"LEFT OUT: {count} of the tests, which need {part} ({PARTS[part][1]})"
        terminalreporter.write_line(said, red=True, bold=True)
