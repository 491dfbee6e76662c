"""A server in a node that reads and writes lines of JSON, such as an SFU or an MCU."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE

from rtclab.backend.live.lab.process import Process, Spawn
from rtclab.backend.live.messages import Message
from rtclab.errors import CallFailed

READY_TIMEOUT_S = 10.0
MAX_LINE_BYTES = 1_000_000


class JsonServer:
    """One server. ``crates/rtclab-sfu/src/message.rs`` describes its lines.

    Args:
        name: the name of the server in reasons, such as ``the SFU (str0m) at 10.77.0.5``.
        spawn: starts a command in the server's node.
        home: directory for its output. The caller deletes it.
        on_message: called with each message of the server: descriptions, statistics and errors.
        on_exit: called once, with the reason, if the server ends before it is stopped.
        command: gives the command that starts the server; raises BackendUnavailable if it is not installed.
        environment: variables that the server needs, in addition to the variables of every program.
    """

    def __init__(
        self,
        name: str,
        spawn: Spawn,
        home: Path,
        on_message: Callable[[Message], None],
        on_exit: Callable[[str], None],
        *,
        command: Callable[[], list[str]],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._command, self._environment = command, environment
        self._on_message = on_message
        self.process = Process(name, spawn, home, on_exit)
        self._reading: asyncio.Task[None] | None = None
        self.listening = ""
        """Where the server listens, such as ``10.77.0.5:40123``, once it has started."""

    async def start(self) -> None:
        """Starts the server and waits until it listens.

        Raises:
            BackendUnavailable: the program is not installed.
            CallFailed: the server ended, or it took longer than ``READY_TIMEOUT_S``.
        """
        self.process.start(self._command(), self._environment, stdin=PIPE, stdout=PIPE)
        lines = asyncio.StreamReader(limit=MAX_LINE_BYTES)
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(lines), self.process.stdout
        )
        try:
            first = await asyncio.wait_for(lines.readline(), READY_TIMEOUT_S)
        except TimeoutError:
            first = b""
        if not first:
            raise CallFailed(
                f"{self.process.name} did not listen within {READY_TIMEOUT_S:g} s{self.process.last_words()}"
            )
        self.listening = json.loads(first)["listening"]
        self._reading = asyncio.create_task(self._read(lines))

    def send(self, message: Message) -> None:
        """Sends a message to the server. A message to a server that has ended is lost."""
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()

    async def stop(self) -> None:
        """Stops the server."""
        await self.process.stop()
        if self._reading is not None:
            await self._reading

    async def _read(self, lines: asyncio.StreamReader) -> None:
        async for line in lines:
            self._on_message(json.loads(line))
