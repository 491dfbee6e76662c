"""What every live test needs: namespaces, and a way to be an ordinary user."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TypeVar

import pytest

from rtclab.backend.live.namespaces import check_lab
from rtclab.errors import BackendUnavailable
from rtclab.trace import Trace

ORDINARY_USER = 65534
TRIES = 3
T = TypeVar("T")
# The interpreter may lie below a directory that only root can enter (a version manager's, in /root): show
# that one directory, and nothing else of the closed one, in a mount namespace of its own.
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


@pytest.fixture(autouse=True, scope="session")
def _namespaces() -> None:
    """Skips where an ordinary user may make no namespaces; fails there when CI is set."""
    try:
        check_lab()
    except BackendUnavailable as error:
        cannot_tell(str(error))


def cannot_tell(reason: str) -> NoReturn:
    """Ends a test that this machine cannot decide: skips it, or fails it when CI is set."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def undisturbed(measure: Callable[[], T], disturbed: Callable[[T], bool]) -> T:
    """The first of a few measurements that the machine, by its own record, did not disturb.

    If it disturbed all of them, the test ends: what was measured then says nothing.
    """
    for _ in range(TRIES):
        result = measure()
        if not disturbed(result):
            return result
    cannot_tell(f"this machine disturbed each of {TRIES} measurements; a quiet one is needed")


def was_late(trace: Trace) -> bool:
    """Whether the emulator's 99th percentile is over its bound: browsers then met another network."""
    return trace.manifest.late


def as_ordinary_user(command: list[str]) -> list[str]:
    """The command line that runs ``command`` without any right; itself if we have none."""
    if os.geteuid() != 0:
        return command
    interpreter = Path(sys.base_prefix).resolve()
    closed = [path for path in reversed(interpreter.parents) if not path.stat().st_mode & 0o001]
    arguments = [str(closed[0]) if closed else "", str(interpreter), str(ORDINARY_USER)]
    return ["unshare", "--mount", "sh", "-c", BECOME_ORDINARY, "sh", *arguments, *command]
