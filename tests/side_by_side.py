"""Tests run side by side, in the processes of pytest-xdist and of other checkouts on this machine.

A test that measures times or rates has all others out of its way.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TextIO

ROOM = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rtclab" / "tests.lock"
"""Whoever runs a test shares this lock, and whoever measures has it alone."""
DOOR = ROOM.with_suffix(".door")
"""Held while waiting for the room. Without it, tests that share the room could keep a measurement waiting."""
SILENCE = ROOM.with_suffix(".silence")
"""Whoever measures what any load disturbs has this lock alone. Compilers beside tests then stand still."""

STANDS_STILL_S = 0.5
"""Longer than until ``lanes.py`` notices."""


class Turns:
    """The place of this process among those that run tests."""

    def __init__(self, room: Path = ROOM, door: Path = DOOR) -> None:
        self._paths = (room, door)
        self._guard = threading.Lock()
        self._measurements = 0
        self._shared = False

    @contextmanager
    def beside_others(self) -> Iterator[None]:
        """Waits until nobody measures. Until the end, nobody begins to."""
        self._enter(fcntl.LOCK_SH)
        self._shared = True
        try:
            yield
        finally:
            self._shared = False
            self._leave()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Waits until no other process runs a test. Threads of this process may measure together."""
        with self._guard:
            if self._measurements == 0:
                self._leave()
                self._enter(fcntl.LOCK_EX)
            self._measurements += 1
        try:
            yield
        finally:
            with self._guard:
                self._measurements -= 1
                if self._measurements == 0:
                    self._leave()
                    if self._shared:
                        self._enter(fcntl.LOCK_SH)

    @contextmanager
    def in_silence(self) -> Iterator[None]:
        """Waits as :meth:`alone` does. Until the end, what `make test` runs beside tests stands still."""
        with self.alone(), SILENCE.open("w") as silence:
            fcntl.flock(silence, fcntl.LOCK_EX)
            time.sleep(STANDS_STILL_S)
            yield

    @cached_property
    def _files(self) -> tuple[TextIO, TextIO]:
        room, door = self._paths
        room.parent.mkdir(parents=True, exist_ok=True)
        return room.open("w"), door.open("w")

    def _enter(self, how: int) -> None:
        room, door = self._files
        fcntl.flock(door, fcntl.LOCK_EX)
        try:
            fcntl.flock(room, how)
        finally:
            fcntl.flock(door, fcntl.LOCK_UN)

    def _leave(self) -> None:
        fcntl.flock(self._files[0], fcntl.LOCK_UN)


def is_silence_wanted() -> bool:
    """Whether somebody measures what any load disturbs."""
    SILENCE.parent.mkdir(parents=True, exist_ok=True)
    with SILENCE.open("w") as silence:
        try:
            fcntl.flock(silence, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


TURNS = Turns()
