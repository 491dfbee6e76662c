"""A program of cross traffic, which reports its results as JSON on its standard output."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import IO

from rtclab.backend.live.connections import Json
from rtclab.backend.live.lab.process import Process


class TrafficProcess(Process):
    """One end of a flow: iperf3, or a sender or receiver of objects."""

    def run(self, command: list[str], *, stdin: int = subprocess.DEVNULL) -> IO[bytes] | None:
        """Starts the program. Returns the pipe to its standard input if ``stdin`` asks for one."""
        self.report.parent.mkdir(parents=True, exist_ok=True)
        with self.report.open("wb") as report:
            self.start(command, stdin=stdin, stdout=report)
        return self.stdin if stdin == subprocess.PIPE else None

    @property
    def report(self) -> Path:
        """The file of its standard output."""
        return self.home / "report.json"

    def json(self) -> Json:
        """The JSON object that it wrote; empty if it wrote none, or not all of it."""
        try:
            return dict(json.loads(self.report.read_text(errors="replace")))
        except (OSError, ValueError):
            return {}

    def last_words(self) -> str:
        """The error that iperf3 reports, or the last lines of standard error, to append to a reason."""
        reported = self.json().get("error")
        return f"; it last said: {reported}" if reported else super().last_words()
