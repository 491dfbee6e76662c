"""An SFU that estimates the bandwidth towards its subscribers: rtclab's own, on the Rust library str0m.

The program is ``crates/rtclab-sfu``, whose ``message.rs`` describes the JSON lines that it reads and writes.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE
from typing import Any

from rtclab.backend.live.process import Process, Spawn
from rtclab.errors import BackendUnavailable, CallFailed

PROGRAM = "rtclab-sfu"
BUILT = Path(__file__).parents[4] / "target" / "release" / PROGRAM
READY_TIMEOUT_S = 10.0
MAX_LINE_BYTES = 1_000_000

Message = dict[str, Any]


def find_server() -> str | None:
    """Path of the server: beside the interpreter, in ``PATH``, or as built by cargo; None without it."""
    found = shutil.which(Path(sys.executable).with_name(PROGRAM)) or shutil.which(PROGRAM)
    return found or shutil.which(BUILT)


class ForwardingServer:
    """One forwarding server.

    Args:
        spawn: starts a command in the server's node.
        address: IP address of the node. The server has one UDP port there, which it chooses.
        home: directory for its output. The caller deletes it.
        on_message: called with each message of the server: descriptions, statistics and errors.
        on_exit: called once, with the reason, if the server ends before it is stopped.
    """

    def __init__(
        self,
        spawn: Spawn,
        address: str,
        home: Path,
        on_message: Callable[[Message], None],
        on_exit: Callable[[str], None],
    ) -> None:
        self._address = address
        self._on_message = on_message
        self._process = Process(f"the SFU (str0m) at {address}", spawn, home, on_exit)
        self._reading: asyncio.Task[None] | None = None
        self.listening = ""
        """Address and port of the server, such as ``10.77.0.5:40123``, once it has started."""

    async def start(self) -> None:
        """Starts the server and waits until it listens.

        Raises:
            BackendUnavailable: the program is not installed.
            CallFailed: the server ended, or it took longer than ``READY_TIMEOUT_S``.
        """
        program = find_server()
        if program is None:
            raise BackendUnavailable(f"`{PROGRAM}` is not installed", hint="make setup-live")
        self._process.start([program, "--listen", self._address], stdin=PIPE, stdout=PIPE)
        lines = asyncio.StreamReader(limit=MAX_LINE_BYTES)
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(lines), self._process.stdout
        )
        try:
            first = await asyncio.wait_for(lines.readline(), READY_TIMEOUT_S)
        except TimeoutError:
            first = b""
        if not first:
            raise CallFailed(
                f"{self._process.name} did not listen within {READY_TIMEOUT_S:g} s"
                f"{self._process.last_words()}"
            )
        self.listening = json.loads(first)["listening"]
        self._reading = asyncio.create_task(self._read(lines))

    def send(self, message: Message) -> None:
        """Sends a message to the server. A message to a server that has ended is lost."""
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()

    async def stop(self) -> None:
        """Stops the server."""
        await self._process.stop()
        if self._reading is not None:
            await self._reading

    async def _read(self, lines: asyncio.StreamReader) -> None:
        async for line in lines:
            self._on_message(json.loads(line))
