"""The process of the MCU that mixes: it starts, answers, and is stopped or dies. It needs no namespaces."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from rtclab.backend.live.servers.mcu import mixing_server

pytestmark = [pytest.mark.live, pytest.mark.needs("aiortc")]

WAIT_S = 30
VIDEO = {
    "width": 320,
    "height": 240,
    "frame_rate": 30,
    "min_bps": 30_000,
    "start_bps": 300_000,
    "max_bps": 1e6,
}


class Spawned:
    """Remembers the processes, messages and exits of a server."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self.messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.exits: asyncio.Queue[str] = asyncio.Queue()
        self._home = TemporaryDirectory()
        settings = {"address": "127.0.0.1", "calls": {"7": 0}, "video": VIDEO, "audio": 32_000}
        self.server = mixing_server(
            self._spawn, settings, Path(self._home.name), self.messages.put_nowait, self.exits.put_nowait
        )

    def _spawn(self, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        self.processes.append(subprocess.Popen(command, **options))
        return self.processes[-1]


def test_a_started_server_answers_and_stops_without_a_word() -> None:
    async def run() -> None:
        spawned = Spawned()
        await spawned.server.start()
        assert spawned.server.listening == "127.0.0.1"
        spawned.server.send({"connection": 7, "description": {"type": "nonsense", "sdp": ""}})
        message = await asyncio.wait_for(spawned.messages.get(), WAIT_S)
        assert message["connection"] == 7
        assert message["error"]
        spawned.server.send({"connection": 7, "close": True})
        await spawned.server.stop()
        assert spawned.processes[0].returncode is not None
        assert spawned.exits.empty()

    asyncio.run(run())


def test_a_killed_server_is_reported_with_its_reason() -> None:
    async def run() -> None:
        spawned = Spawned()
        await spawned.server.start()
        spawned.processes[0].kill()
        reason = await asyncio.wait_for(spawned.exits.get(), WAIT_S)
        assert reason.startswith("the MCU (aiortc) at 127.0.0.1 was killed by SIGKILL")
        await spawned.server.stop()

    asyncio.run(run())
