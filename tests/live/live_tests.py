"""What live tests share: a way to run as an unprivileged user, functions inside a lab, and repetition."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
from parts import cannot_tell

from rtclab.backend.live import LiveBackend
from rtclab.backend.live.namespaces import run_in_lab
from rtclab.scenario import Scenario
from rtclab.trace import Trace
from side_by_side import TURNS

ORDINARY_USER = 65534
TRIES = 3
RECORDED = ("duration=15 s", "link.up.loss=2 %")
WATCHED = "watched.json"
T = TypeVar("T")
Turn = Callable[[], AbstractContextManager[None]]
# The interpreter may be in a directory that only root can enter, such as a version manager's in /root. A
# mount namespace shows the interpreter's directory, and nothing else of the closed one.
BECOME_ORDINARY = """
set -e
closed=$1 interpreter=$2 user=$3; shift 3
if [ -n "$closed" ]; then
    mount -t tmpfs -o mode=755 tmpfs /mnt
    mkdir /mnt/interpreter
    mount --bind "$interpreter" /mnt/interpreter
    mount -t tmpfs -o mode=755 tmpfs "$closed"
    mkdir -p "$interpreter"
    mount --bind /mnt/interpreter "$interpreter"
fi
exec setpriv --reuid="$user" --regid="$user" --clear-groups --inh-caps=-all -- "$@"
"""


@pytest.fixture
def in_lab(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Calls a function of the test's own file inside a lab."""
    monkeypatch.setenv("PYTHONPATH", str(request.path.parent), prepend=":")

    def call(function: str, **argument: Any) -> dict[str, Any]:
        return run_in_lab(f"{request.path.stem}:{function}", argument)

    return call


@dataclass(frozen=True)
class Recorded:
    """A call that has ended, and what its backend said once a second while it went on."""

    trace: Trace
    watched: list[dict[str, Any]]


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """One undisturbed call for all tests that only read it, whichever process of pytest-xdist they run in.

    It lasts 15 s, and its network is the one of ``first-call`` with a loss of 2 % on both uplinks.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "recorded"
    if not (folder / WATCHED).exists():
        with TURNS.alone():
            if not (folder / WATCHED).exists():
                undisturbed(lambda: record(folder), was_late)
    return Recorded(Trace(folder), json.loads((folder / WATCHED).read_text()))


def record(folder: Path) -> Trace:
    """Makes the call that tests share."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    backend, scenario, watched = LiveBackend(), Scenario.load("first-call", list(RECORDED)), []
    backend.check(scenario)
    trace = backend.run(scenario, seed=1, repeat=0, out=folder, watch=watched.append)
    if not was_late(trace):
        (folder / WATCHED).write_text(json.dumps(watched))
    return trace


def undisturbed(measure: Callable[[], T], disturbed: Callable[[T], bool], turn: Turn = TURNS.alone) -> T:
    """The first of up to ``TRIES`` measurements that the machine did not disturb.

    By default no other test runs beside a measurement. If all were disturbed, the test is skipped or fails,
    because it cannot be decided.
    """
    for _ in range(TRIES):
        with turn():
            result = measure()
        if not disturbed(result):
            return result
    return cannot_tell(f"this machine disturbed each of {TRIES} measurements; a quiet one is needed")


def was_late(trace: Trace) -> bool:
    """Whether the emulator was later than its bound, so that the browsers had a different network."""
    return trace.manifest.late


def as_ordinary_user(command: list[str]) -> list[str]:
    """The command line that runs ``command`` without privileges."""
    if os.geteuid() != 0:
        return command
    interpreter = Path(sys.base_prefix).resolve()
    closed = [path for path in reversed(interpreter.parents) if not path.stat().st_mode & 0o001]
    arguments = [str(closed[0]) if closed else "", str(interpreter), str(ORDINARY_USER)]
    return ["unshare", "--mount", "sh", "-c", BECOME_ORDINARY, "sh", *arguments, *command]
