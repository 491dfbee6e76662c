"""The process of rtclab's own SFU: it starts, answers, and is stopped or dies. It needs no namespaces."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from rtclab.backend.live.servers.str0m import forwarding_server
from rtclab.errors import CallFailed

pytestmark = [pytest.mark.live, pytest.mark.needs("rtclab-sfu")]

ADDRESS = "127.0.0.1"
WAIT_S = 30


class Spawned:
    """Remembers the processes, messages and exits of a server."""

    def __init__(self, address: str = ADDRESS) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self.messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.exits: asyncio.Queue[str] = asyncio.Queue()
        self._home = TemporaryDirectory()
        self.server = forwarding_server(
            self._spawn, address, Path(self._home.name), self.messages.put_nowait, self.exits.put_nowait
        )

    def _spawn(self, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        self.processes.append(subprocess.Popen(command, **options))
        return self.processes[-1]

    async def message(self) -> dict[str, Any]:
        return await asyncio.wait_for(self.messages.get(), WAIT_S)


def test_a_started_server_listens_answers_and_stops_without_a_word() -> None:
    async def run() -> None:
        spawned = Spawned()
        await spawned.server.start()
        address, port = spawned.server.listening.rsplit(":", 1)
        assert address == ADDRESS
        assert 1024 <= int(port) <= 65535
        spawned.server.send({"connection": 7, "description": {"type": "offer", "sdp": "nonsense"}})
        message = await spawned.message()
        assert message["connection"] == 7
        assert "malformed offer" in message["error"]
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
        assert reason == "the SFU (str0m) at 127.0.0.1 was killed by SIGKILL"
        spawned.server.send({"connection": 7, "close": True})
        await spawned.server.stop()

    asyncio.run(run())


def test_a_server_that_cannot_listen_says_why() -> None:
    async def run() -> None:
        spawned = Spawned("192.0.2.1")
        with pytest.raises(CallFailed, match=r"cannot bind a UDP socket on 192\.0\.2\.1"):
            await spawned.server.start()
        await spawned.server.stop()

    asyncio.run(run())
