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
from shlex import quote
from typing import Any, TypeVar

import pytest
from parts import cannot_tell

from rtclab.backend.live import LiveBackend
from rtclab.backend.live.lab.namespaces import run_in_lab
from rtclab.scenario import Scenario
from rtclab.trace import Trace
from side_by_side import TURNS

ROOT = Path(__file__).parents[2]
ORDINARY_USER = 65534
TRIES = 3
RECORDED = ("duration=15 s", "link.up.loss=2 %")
WATCHED = "watched.json"
T = TypeVar("T")
Turn = Callable[[], AbstractContextManager[None]]


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
    """The command line that runs ``command`` without privileges.

    Where the interpreter or this repository is in a directory that is closed to others, such as the home
    directory of root, that directory has nothing else in it.
    """
    if os.geteuid() != 0:
        return command
    closed = {
        str(tree): top for tree in (Path(sys.base_prefix).resolve(), ROOT) if (top := closed_above(tree))
    }
    kept = {quote(tree): f"/mnt/{number}" for number, tree in enumerate(closed)}
    tmpfs = "mount -t tmpfs -o mode=755 tmpfs"
    steps = ["set -e", f"{tmpfs} /mnt"]
    steps += [f"mkdir {place}; mount --bind {tree} {place}" for tree, place in kept.items()]
    steps += [f"{tmpfs} {quote(top)}" for top in set(closed.values())]
    steps += [f"mkdir -p {tree}; mount --bind {place} {tree}" for tree, place in kept.items()]
    become = f"exec setpriv --reuid={ORDINARY_USER} --regid={ORDINARY_USER} --clear-groups --inh-caps=-all"
    return ["unshare", "--mount", "sh", "-c", "\n".join([*steps, f'{become} -- "$@"']), "sh", *command]


def closed_above(tree: Path) -> str | None:
    """The highest directory above ``tree`` that others cannot enter."""
    closed = (path for path in reversed(tree.parents) if not path.stat().st_mode & 0o001)
    return str(next(closed, "")) or None
