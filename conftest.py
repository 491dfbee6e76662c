"""What all tests share: the parts that they need, their order, their turns at this machine, and a record.

A test can be chosen by a part that it needs: ``pytest -m firefox``.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from parts import PARTS, need, needed

from side_by_side import TURNS

ROOT = Path(__file__).parent
SECONDS = ROOT / "tests" / "seconds.json"
"""How long each file of tests took; ``tests/lanes.py --keep-seconds`` writes it."""
RECORD = "RTCLAB_TEST_RECORD"
"""Environment variable that names the file to which the tests of a run are written as they end."""

# A busy machine makes any example slow.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
# Children of a shell that started tests in the background ignore Ctrl-C, which some tests press.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Calls of this process may run beside others, as far as side_by_side allows. Set before rtclab is imported.
LOCKS = tempfile.TemporaryDirectory(prefix="rtclab-test-locks-")
os.environ["RTCLAB_LOCK_DIR"] = LOCKS.name
# Dask never deletes its directory.
os.environ["DASK_TEMPORARY_DIRECTORY"] = LOCKS.name
# Processes that tests start import the modules that tests share, and tools, too.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(ROOT / "tests"), str(ROOT), os.environ.get("PYTHONPATH")])
)


def pytest_configure(config: pytest.Config) -> None:
    """Makes a marker of each part, and records the run if asked to."""
    for name in PARTS:
        config.addinivalue_line("markers", f"{marker_of(name)}: a test that needs {name}; set by `needs`")
    if RECORD in os.environ and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(Path(os.environ[RECORD])))


def pytest_unconfigure() -> None:
    """Deletes the locks. Workers end without running what Python would do at its exit."""
    LOCKS.cleanup()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests with the parts that they need, and puts the longest files first.

    So no worker begins with a long file when the others have nothing left to do. Tests that share a fixture
    of their file stay in one worker.
    """
    for item in items:
        for name in needed(item):
            item.add_marker(marker_of(name))
        fixtures = getattr(item, "fixturenames", ())
        if "recorded" in fixtures:
            item.add_marker("measures")
        if any(scope_of(item, name) == "module" for name in fixtures):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
    seconds: dict[str, float] = json.loads(SECONDS.read_text()) if SECONDS.exists() else {}
    items.sort(key=lambda item: -seconds.get(item.nodeid.partition("::")[0], 0))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Ends a test at once if this machine lacks a part that it needs."""
    need(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[Any]:
    """Runs a test, with its fixtures, when nobody measures."""
    with TURNS.beside_others():
        return (yield)


def scope_of(item: pytest.Item, fixture: str) -> str:
    """For how many tests a fixture is made: of a function, a module, or a session."""
    found: Any = item.session._fixturemanager.getfixturedefs(fixture, item)
    return found[-1].scope if found else ""


def marker_of(part: str) -> str:
    """The name of the marker of a part."""
    return part.replace(" ", "-")


class Recorder:
    """Writes what happens in a run, a line of JSON for each event: how many tests, begins and ends."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seconds: Counter[str] = Counter()

    def _write(self, **event: Any) -> None:
        with self._file.open("a") as file:
            file.write(json.dumps({"at": time.time(), **event}) + "\n")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Says how many tests there are, if this process runs them."""
        self._write(tests=len(session.items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Says how many tests there are, if workers run them."""
        self._write(tests=len(ids))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Says that a test begins."""
        self._write(begins=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Says how a test ended; its set-up or tear-down may have failed as well."""
        self._seconds[report.nodeid] += report.duration
        if report.when == "call" or report.outcome != "passed":
            skipped = isinstance(report.longrepr, tuple)
            reason = report.longrepr[2] if skipped else report.longreprtext.rpartition("\n")[2]
            self._write(test=report.nodeid, outcome=report.outcome, reason=reason)
        if report.when == "teardown":
            self._write(ends=report.nodeid, seconds=self._seconds.pop(report.nodeid))
