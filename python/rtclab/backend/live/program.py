"""Programs that run in a node beside a call, and how they end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, Popen

from rtclab.backend.live.namespaces import Json

LAST_LINES = 5

Spawn = Callable[..., Popen[bytes]]
"""``spawn(node, command, **options)`` starts a command in a node; the options are those of ``Popen``."""


@dataclass
class Program:
    """A program in a node, with what it writes kept in files."""

    what: str
    """For errors: ``iperf3 (sender of download)``."""
    node: str
    command: list[str]
    output: Path
    may_finish: bool = False
    """Whether it ends by itself, with status 0, when it has nothing more to do."""
    process: Popen[bytes] | None = None
    told_to_end: bool = False
    _descriptor: int = -1

    def start(self, spawn: Spawn, on_exit: Callable[[Program], None], stdin: int = DEVNULL) -> None:
        """Starts the program. ``on_exit`` is called once when it has ended."""
        with self.output.open("wb") as out, self._errors.open("wb") as errors:
            self.process = spawn(self.node, self.command, stdin=stdin, stdout=out, stderr=errors)
        self._descriptor = os.pidfd_open(self.process.pid)
        asyncio.get_running_loop().add_reader(self._descriptor, self._exited, on_exit)

    def _exited(self, on_exit: Callable[[Program], None]) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        on_exit(self)

    def signal(self, number: signal.Signals) -> None:
        """Tells the program to end, if it runs."""
        self.told_to_end = True
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def how_it_ended(self) -> str:
        """The reason of a failure: what ended, how, and its last words."""
        assert self.process is not None
        status = self.process.wait()
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        return f"{self.what} {how}{self.last_words()}"

    def last_words(self) -> str:
        """The error that iperf3 reports, or the last lines on standard error, to append to a reason."""
        reported = self.json().get("error")
        lines = [reported] if reported else self._errors.read_text(errors="replace").strip().splitlines()
        return f"; it last said: {'; '.join(lines[-LAST_LINES:])}" if lines else ""

    def json(self) -> Json:
        """The JSON object that it wrote; empty if it wrote none, or not all of it."""
        try:
            return dict(json.loads(self.output.read_text(errors="replace")))
        except ValueError:
            return {}

    @property
    def _errors(self) -> Path:
        return self.output.with_suffix(".stderr")
