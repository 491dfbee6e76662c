"""The servers that the pages of a live call talk to.

A page has two connections. Its *report* socket goes to the loopback address of its own namespace and does not
cross the emulated network, so that statistics do not compete with the call. Its *signalling* socket goes
across the emulated network to the node ``core``, so that the set-up time contains real round trips.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web

PAGE = Path(__file__).parent / "page"
MAX_MESSAGE_BYTES = 16_000_000

Message = dict[str, Any]
"""A JSON message from or to a page. ``type`` is its kind."""

ToServer = Callable[[str, Message], Awaitable[None]]
"""Passes a message of a participant to an SFU."""


class SignallingServer:
    """Announces who is present in a call, and forwards messages between participants without reading them.

    Args:
        servers: by name of an SFU, the function that passes messages to it.
    """

    def __init__(self, servers: Mapping[str, ToServer] | None = None) -> None:
        self._servers = servers or {}
        self._secret = secrets.token_bytes(16)
        self._sockets: dict[str, web.WebSocketResponse] = {}
        self._present: dict[int, list[str]] = defaultdict(list)
        self._published: dict[int, list[int]] = defaultdict(list)

    def application(self) -> web.Application:
        """The server as an aiohttp application: ``ws://…/signalling?participant=NAME&token=…&calls=0,1``."""
        application = web.Application()
        application.router.add_get("/signalling", self._handle)
        return application

    def token(self, participant: str) -> str:
        """The token with which a participant joins. No other page knows it."""
        return hmac.digest(self._secret, participant.encode(), "sha256").hex()

    async def send(self, receiver: str, message: Message) -> None:
        """Sends a message to a participant who is present."""
        connection = self._sockets.get(receiver)
        if connection is not None:
            with suppress(ConnectionError):  # the receiver is leaving
                await connection.send_json(message)

    async def publish(self, call: int, connection: int) -> None:
        """Tells everybody in a call that the SFU has the media of a connection."""
        self._published[call].append(connection)
        for participant in self._present[call]:
            await self.send(participant, {"type": "published", "call": call, "connections": [connection]})

    async def _handle(self, request: web.Request) -> web.WebSocketResponse:
        participant = request.query["participant"]
        if not hmac.compare_digest(request.query.get("token", "").encode(), self.token(participant).encode()):
            raise web.HTTPForbidden(text="expected the token of this participant")
        connection = web.WebSocketResponse(max_msg_size=MAX_MESSAGE_BYTES)
        await connection.prepare(request)
        self._sockets[participant] = connection
        try:
            for begun in filter(None, request.query["calls"].split(",")):
                await self._join(participant, int(begun))
            async for message in connection:
                if message.type is WSMsgType.TEXT:
                    await self._receive(participant, json.loads(message.data))
        finally:
            del self._sockets[participant]
            for call in [call for call, present in self._present.items() if participant in present]:
                await self._leave(participant, call)
        return connection

    async def _receive(self, sender: str, message: Message) -> None:
        if "join" in message:
            await self._join(sender, message["join"])
        elif message["to"] in self._servers:
            await self._servers[message["to"]](sender, message)
        else:
            await self.send(message["to"], {**message, "from": sender})

    async def _join(self, participant: str, call: int) -> None:
        present = self._present[call]
        if participant in present:
            return
        before = list(present)
        present.append(participant)  # before the send, which may wait while another one joins
        await self.send(participant, {"type": "present", "call": call, "participants": before})
        if published := self._published[call]:
            await self.send(participant, {"type": "published", "call": call, "connections": list(published)})

    async def _leave(self, participant: str, call: int) -> None:
        self._present[call].remove(participant)
        for other in list(self._present[call]):
            await self.send(other, {"type": "gone", "call": call, "from": participant})


class PageServer:
    """Serves the call page to one participant and receives its reports.

    Args:
        files: paths of the media that the page plays, by name: ``clip`` is served as ``/clip``.
        on_message: called with each message of the page.
        on_closed: called when the report socket closes for any reason.
        on_error: called with the error if a message cannot be handled. The socket is closed then.
    """

    def __init__(
        self,
        on_message: Callable[[Message], None],
        on_closed: Callable[[], None],
        on_error: Callable[[Exception], None],
        files: Mapping[str, str] | None = None,
    ) -> None:
        self._files = files or {}
        self._on_message = on_message
        self._on_closed = on_closed
        self._on_error = on_error
        self._connection: web.WebSocketResponse | None = None
        self._configuration: Message = {}

    def configure(self, configuration: Message) -> None:
        """Sets the configuration that the page gets when it opens its report socket."""
        self._configuration = configuration

    def application(self) -> web.Application:
        """The server as an aiohttp application: the page under ``/``, its report socket under ``/report``."""
        application = web.Application(middlewares=[isolate])
        application.router.add_get("/", self._index)
        application.router.add_get("/report", self._handle)
        for name in self._files:
            application.router.add_get(f"/{name}", self._play)
        application.router.add_static("/", PAGE)
        return application

    async def send(self, kind: str, **fields: Any) -> None:
        """Sends a command such as ``join`` or ``leave`` to the page, if it is still connected."""
        if self._connection is not None:
            with suppress(ConnectionError):
                await self._connection.send_json({"type": kind, **fields})

    async def _index(self, _request: web.Request) -> web.FileResponse:
        return web.FileResponse(PAGE / "index.html")

    async def _play(self, request: web.Request) -> web.FileResponse:
        return web.FileResponse(Path(self._files[request.path.removeprefix("/")]))

    async def _handle(self, request: web.Request) -> web.WebSocketResponse:
        connection = web.WebSocketResponse(max_msg_size=MAX_MESSAGE_BYTES)
        await connection.prepare(request)
        self._connection = connection
        try:
            await connection.send_json({"type": "configure", **self._configuration})
            async for message in connection:
                if message.type is WSMsgType.TEXT:
                    self._on_message(json.loads(message.data))
        except Exception as error:
            self._on_error(error)
            raise
        finally:
            self._on_closed()
        return connection


@web.middleware
async def isolate(request: web.Request, handler: Any) -> web.StreamResponse:
    """Isolates the page from other origins: only then do browsers give it clocks finer than 0.1 ms."""
    response: web.StreamResponse = await handler(request)
    if not response.prepared:
        response.headers["Cross-Origin-Opener-Policy"] = "same-origin"
        response.headers["Cross-Origin-Embedder-Policy"] = "require-corp"
    return response


async def serve(application: web.Application, listening: socket.socket) -> web.AppRunner:
    """Serves ``application`` on a listening socket in any namespace. Returns the runner, for its clean-up."""
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    await web.SockSite(runner, listening).start()
    return runner
