"""Servers of the user's own: runs each command of the scenario in its node."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from rtclab.backend.live.lab.process import CHECK_INTERVAL_S, Process, Spawn, waiting_ports
from rtclab.backend.live.user.certificates import make_certificate
from rtclab.backend.live.user.user_settings import UserServerSettings
from rtclab.errors import CallFailed

READY_TIMEOUT_S = 60.0


class UserServers:
    """Starts and stops the servers of a scenario that are commands.

    Args:
        settings: the servers, by node.
        addresses: IP address of each node.
        spawn: starts a command in a node: ``spawn(node, command, …)``.
        home: directory for certificates and output, which the caller deletes.
        fail: called with the reason if a server ends by itself.
    """

    def __init__(
        self,
        settings: Mapping[str, UserServerSettings],
        addresses: Mapping[str, str],
        spawn: Callable[..., Any],
        home: Path,
        fail: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._addresses = addresses
        self._home = home
        self.keys: list[str] = []
        """SHA-256 of the public keys of all certificates, in base64, as Chromium takes them."""
        self.processes: dict[str, Process] = {}
        """The processes, by node."""
        for node in settings:
            in_node: Spawn = partial(spawn, node)
            self.processes[node] = Process(f"the server {node}", in_node, home / node, fail)

    async def start(self) -> None:
        """Starts all servers, and waits until those with a port listen.

        Raises:
            CallFailed: a command cannot be started, has ended, or did not listen in time.
        """
        for node, process in self.processes.items():
            settings = self._settings[node]
            certificate, key, public = make_certificate(self._home, node, self._addresses[node])
            self.keys.append(public)
            try:
                process.start(
                    [*settings.command],
                    {
                        **os.environ,
                        **self._environment(node),
                        "RTCLAB_CERTIFICATE": str(certificate),
                        "RTCLAB_KEY": str(key),
                    },
                    directory=Path(settings.directory),
                )
            except OSError as error:
                raise CallFailed(
                    f"servers.{node}.command: cannot start `{settings.command[0]}` "
                    f"in {settings.directory}: {error.strerror}"
                ) from None
        await asyncio.gather(*(self._ready(node) for node in self.processes))

    async def stop(self) -> None:
        """Stops all servers, and what they have started."""
        await asyncio.gather(*(process.stop() for process in self.processes.values()))

    def _environment(self, node: str) -> dict[str, str]:
        port = self._settings[node].port
        return {
            "RTCLAB_NAME": node,
            "RTCLAB_ADDRESS": self._addresses[node],
            **({} if port is None else {"RTCLAB_PORT": str(port)}),
            **{
                f"RTCLAB_ADDRESS_OF_{name.upper().replace('-', '_')}": address
                for name, address in self._addresses.items()
            },
        }

    async def _ready(self, node: str) -> None:
        port, process = self._settings[node].port, self.processes[node]
        if port is None:
            return
        deadline_s = asyncio.get_running_loop().time() + READY_TIMEOUT_S
        while not listens(process, port):
            if (ended := process.ended()) is not None:
                raise CallFailed(f"{process.name} {ended}{process.last_words()}")
            if asyncio.get_running_loop().time() > deadline_s:
                raise CallFailed(
                    f"{process.name} did not listen at port {port} within {READY_TIMEOUT_S:g} s"
                    f"{process.last_words()}"
                )
            await asyncio.sleep(CHECK_INTERVAL_S)


def listens(process: Process, port: int) -> bool:
    """Whether a program in the node of a process listens at a TCP port, on IPv4 or IPv6."""
    for root in process.tree()[:1]:
        for table in ("tcp", "tcp6"):
            with suppress(OSError):  # it has ended, or there is no IPv6
                if port in waiting_ports(Path(f"/proc/{root.pid}/net/{table}").read_text(), "tcp"):
                    return True
    return False
