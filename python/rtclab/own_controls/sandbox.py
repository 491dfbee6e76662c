"""Calls functions of :mod:`rtclab.own_controls.worker` in a process of its own for each thread.

The process keeps mistakes of a control away from the run. It is no barrier for malice: it runs as the user.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from rtclab.errors import RtclabError
from rtclab.own_controls import reading
from rtclab.scenario.own_control import OwnControl, files_of

LAST_LINES = 8
"""Number of lines of what a process has said before it died."""
OURS = ("own_controls", "<frozen runpy>")
"""Files of frames that are not the user's."""
STUCK = ("a method did not return", "Timeout (")
"""What a process says whose control could not be interrupted: the native side, and Python's faulthandler."""


class ControlFailed(RtclabError):
    """A congestion control of the user's own raised an error, or its process had to be ended."""


def call(name: str, controls: Sequence[OwnControl], *arguments: Any) -> Any:
    """Calls a function of the worker with the controls and further arguments; returns its result.

    What the controls print goes to standard error.

    Raises:
        BadInput: the file of a control has changed since the scenario was loaded.
        ControlFailed: a control failed. The message names its file and line.
    """
    for control in controls:
        control.check_unchanged()
    if sys.platform == "win32":
        return _here(name, controls, *arguments)
    worker = getattr(_OF_THREAD, "worker", None)
    if worker is None or not worker.is_alive:
        worker = _OF_THREAD.worker = _Worker()
    try:
        status, value, printed, files = worker.call(name, controls, *arguments)
    except (EOFError, OSError):
        names = ", ".join(f"`{key}`" for key in dict.fromkeys(replace(one, owner="").key for one in controls))
        raise ControlFailed(f"congestion control {names} failed: {worker.last_words()}") from None
    if printed:
        sys.stderr.write(printed)
    reading.note(controls, files)
    if status == "failed":
        raise ControlFailed(value)
    return value


def _here(name: str, controls: Sequence[OwnControl], *arguments: Any) -> Any:
    """Calls in this process. Windows has no timer that could interrupt a control, and no limit of memory."""
    from rtclab.own_controls.worker import FUNCTIONS

    try:
        with reading.recording(controls) as recorder:
            recorder.add(*(str(file) for control in controls for file in files_of(Path(control.file))))
            value = FUNCTIONS[name](controls, *arguments)
        reading.note(controls, recorder.files)
        return value
    except ValueError as error:
        raise ControlFailed(str(error)) from error


class _Worker:
    """A process that answers calls. It ends when this object is gone."""

    def __init__(self) -> None:
        # Most runs have no control of the user's own.
        from multiprocessing.connection import Connection

        own, its = socket.socketpair()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  # open as long as the process
        with its:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "rtclab.own_controls.worker", str(its.fileno())],
                pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
            )
        self._connection = Connection(own.detach())

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def call(self, *arguments: Any) -> Any:
        self._said.seek(0)  # it shares its position with the process
        self._said.truncate()
        self._connection.send((str(Path.cwd()), *arguments))
        return self._connection.recv()

    def last_words(self) -> str:
        """How the process ended, and the frames of the user's code that ran then."""
        status = self._process.wait()
        self._said.seek(0)
        said = self._said.read().decode(errors="replace")
        what = f"its process ended with {f'signal {-status}' if status < 0 else f'status {status}'}"
        if any(sign in said for sign in STUCK):
            what = "it has not answered and could not be interrupted, so its process was ended"
        frames = said.rpartition("most recent call first):\n")[2].splitlines()
        own = [
            line for line in frames if line.startswith("  File") and not any(part in line for part in OURS)
        ]
        return "\n".join([what, *own[:LAST_LINES]])

    def __del__(self) -> None:
        with suppress(Exception):
            self._connection.close()
            self._process.wait(timeout=1)


_OF_THREAD = threading.local()
