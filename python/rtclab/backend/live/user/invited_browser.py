"""An invited browser: one on the network, such as a phone's, that has the seat of a participant.

No browser runs in the participant's node. The page is served at a socket outside the lab. The media of the
page go through a TURN server *in the node*: the page uses relayed candidates only, and the relayed address is
the node's. So the media cross the emulated network as from a browser there. A :class:`UdpForwarder` copies
the datagrams between the page and that server.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from aiohttp import web

from rtclab.backend.live.connections import LiveConnection
from rtclab.backend.live.lab.namespaces import Emit, Node
from rtclab.backend.live.lab.process import Spawn
from rtclab.backend.live.messages import Json, Message
from rtclab.backend.live.servers.turn import PORT, TurnServer
from rtclab.backend.live.user.certificates import self_signed
from rtclab.backend.live.user.invitations import InvitedPlace
from rtclab.backend.live.user.invited_page import InvitedPage
from rtclab.backend.live.user.invited_reports import ReportChecker
from rtclab.backend.live.user.udp_forwarder import UdpForwarder

MAX_CONNECTIONS = 32
"""Maximum number of simultaneous TCP connections. A browser opens six, and more for each reload."""
REQUEST_TIMEOUT_S = 10.0
"""How long a connection may take for its TLS handshake, and then for each request, also the first one."""
SHUTDOWN_TIMEOUT_S = 1.0
"""How long the other end of a connection may take to agree to its end."""
NO_DESCRIPTORS_WAIT_S = 0.1

QUIET = logging.getLogger("rtclab.invited")
"""Discards the messages of aiohttp: strangers on the network may send invalid requests at any rate."""
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False


class InvitedBrowser:
    """The browser of one invited participant, and what serves it.

    Args:
        node: the participant's node.
        place: where the browser is served.
        connections: the connections of all calls, by number.
        signalling: URL of the signalling server; see :class:`InvitedPage`.
        spawn: starts a command in the participant's node.
        home: directory for files. The caller deletes it.
        emit: called with what the user should know of the seat; see ``invitations.in_words``.
        on_message: called with each checked report of the page.
        on_closed: called when the page has gone.
        fail: called with the reason when the browser cannot take part.
    """

    def __init__(
        self,
        node: Node,
        place: InvitedPlace,
        connections: Mapping[int, LiveConnection],
        signalling: str,
        spawn: Spawn,
        home: Path,
        *,
        emit: Emit,
        on_message: Callable[[Message], None],
        on_closed: Callable[[], None],
        fail: Callable[[str], None],
    ) -> None:
        self._name = node.name
        self._place = place
        self._home = home
        self._emit = emit
        self._numbers = [one.number for one in connections.values() if node.name in one.ends]
        self._checker = ReportChecker(node.name, node.address, connections)
        self.page = InvitedPage(
            node.name,
            self._checker,
            signalling,
            on_taken=self._taken,
            on_message=partial(self._receive, on_message),
            on_closed=on_closed,
            on_error=lambda error: fail(f"a message of {node.name}'s invited browser was refused: {error}"),
        )
        self._turn = TurnServer(spawn, node.address, home / "turn", fail)
        # The page is told from where the server hears it. Firefox would not believe a loopback address.
        self._forwarder = UdpForwarder(_socket(place.udp), node.name, (node.address, PORT))
        self._listening = _socket(place.tcp)
        self._runner = web.AppRunner(
            self.page.application(),
            access_log=None,
            logger=QUIET,
            shutdown_timeout=0.5,
            keepalive_timeout=REQUEST_TIMEOUT_S,
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self.description: str | None = None
        """The browser that has taken the seat, as it names itself; None while the seat is free."""

    @property
    def wait_s(self) -> float:
        """How long the seat is free."""
        return self._place.wait_s

    def settings(self) -> Json:
        """What the page needs to know besides the scenario."""
        host, port = self._place.address, self._place.port
        turn = self._turn.relay(self._name, f"turn:{host}:{port}?transport=udp")
        return {
            "invited": True,
            "signalling": "signalling?",
            "ice": {number: {"servers": [turn], "policy": "relay"} for number in self._numbers},
        }

    async def start(self) -> None:
        """Serves the seat from now on, and tells where.

        Raises:
            CallFailed: the TURN server did not start.
        """
        self._turn.start()
        await self._turn.ready()
        self._forwarder.start()
        context, fingerprint = self_signed(self._name, self._place.address, self._home)
        await self._runner.setup()
        self._listening.setblocking(False)
        self._spawn(self._accept(context))
        url = f"https://{self._place.address}:{self._place.port}/{self.page.token}/"
        self.says("free", url=url, fingerprint=fingerprint, wait_s=self.wait_s)

    async def stop(self) -> None:
        """Closes the sockets outside the lab and stops the TURN server."""
        for task in self._tasks:
            task.cancel()
        self._listening.close()
        await self._runner.cleanup()
        self._forwarder.stop()
        await self._turn.stop()

    def processes(self) -> list[psutil.Process]:
        """An empty list, because the browser runs on another machine."""
        return []

    @property
    def event_logs(self) -> Path:
        """A directory that does not exist, because an invited browser writes no event logs."""
        return self._home / "event-logs"

    def last_words(self) -> str:
        """What is known of a seat that is not ready, as the end of an error message."""
        return "; nobody took the seat" if self.description is None else f"; it is {self.description}"

    def says(self, seat: str, **fields: Any) -> None:
        """Tells the user what has happened to the seat; see ``invitations.in_words``."""
        self._emit({"participant": self._name, "seat": seat, **fields})

    def notes(self, wanted: Json | None, camera: Json | None) -> list[str]:
        """Notes for a reader of the trace: which browser it was, its camera and its clock.

        Args:
            wanted: the video settings of the scenario; None without video.
            camera: width and height that the camera gave; None if it is not known.
        """
        if self.description is None:
            return []
        clock = self._checker.clock
        found = [
            f"{self._name} was an invited browser on a network of its own ({self.description}): round trips, "
            "set-up times and delays of frames contain that network, which the emulator does not see",
            f"the shortest of {clock.answers} round trips to {self._name}'s page took "
            f"{2 * clock.uncertainty_ms:.1f} ms: times that the page reports may be off by half of it, and "
            "by the drift of its clock",
        ]
        if self.page.refused:
            found.append(
                f"at least {self.page.refused} messages of {self._name}'s invited browser were refused: "
                "they were too many"
            )
        if wanted and camera and any(camera[key] != wanted[key] for key in ("width", "height")):
            found.append(
                f"the camera of {self._name} gave {camera['width']}x{camera['height']}; the scenario has "
                f"{wanted['width']}x{wanted['height']}"
            )
        return found

    def _taken(self, browser: str, address: str) -> None:
        self.description = browser
        self._forwarder.client = address
        self.says("taken", browser=browser, address=address)

    def _receive(self, pass_on: Callable[[Message], None], message: Message) -> None:
        if message["type"] == "ready":
            self.says("ready")
        pass_on(message)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, context: ssl.SSLContext) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._listening)
            except OSError:  # too many open files, or the client has gone already
                await asyncio.sleep(NO_DESCRIPTORS_WAIT_S)
                continue
            assert self._runner.server is not None
            if len(self._tasks) + len(self._runner.server.connections) > MAX_CONNECTIONS:
                connection.close()
            else:
                self._spawn(self._serve(connection, context))

    async def _serve(self, connection: socket.socket, context: ssl.SSLContext) -> None:
        """Does the TLS handshake and serves a connection. Clients may refuse the certificate."""
        assert self._runner.server is not None
        with suppress(OSError, TimeoutError):
            await asyncio.get_running_loop().connect_accepted_socket(
                self._runner.server,
                connection,
                ssl=context,
                ssl_handshake_timeout=REQUEST_TIMEOUT_S,
                ssl_shutdown_timeout=SHUTDOWN_TIMEOUT_S,
            )


def _socket(descriptor: int) -> socket.socket:
    """The socket of an inherited file descriptor, which no other program inherits."""
    found = socket.socket(fileno=descriptor)
    found.set_inheritable(False)
    return found
