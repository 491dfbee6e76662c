"""The servers that the pages of a live call talk to.

A page has two connections. Its *report* socket goes to the loopback address of its own namespace and does not
cross the emulated network, so that statistics do not compete with the call. Its *signalling* socket goes
across the emulated network to the node ``core``, so that the set-up time contains real round trips.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web

PAGE = Path(__file__).parent / "page"
MAX_MESSAGE_BYTES = 16_000_000

Message = dict[str, Any]
"""A JSON message from or to a page. ``type`` is its kind."""


class SignallingServer:
    """Tells each participant who is present, and passes messages between them without interpreting them."""

    def __init__(self) -> None:
        self._present: dict[str, web.WebSocketResponse] = {}

    def application(self) -> web.Application:
        """The server as an aiohttp application: ``ws://…/signalling?participant=NAME``."""
        application = web.Application()
        application.router.add_get("/signalling", self._handle)
        return application

    async def _handle(self, request: web.Request) -> web.WebSocketResponse:
        participant = request.query["participant"]
        connection = web.WebSocketResponse(max_msg_size=MAX_MESSAGE_BYTES)
        await connection.prepare(request)
        await connection.send_json({"type": "present", "participants": list(self._present)})
        self._present[participant] = connection
        try:
            async for message in connection:
                if message.type is WSMsgType.TEXT:
                    await self._pass_on(participant, json.loads(message.data))
        finally:
            del self._present[participant]
            for other in list(self._present):
                await self._send(other, {"type": "gone", "from": participant})
        return connection

    async def _pass_on(self, sender: str, message: Message) -> None:
        await self._send(message["to"], {**message, "from": sender})

    async def _send(self, receiver: str, message: Message) -> None:
        connection = self._present.get(receiver)
        if connection is not None:
            with suppress(ConnectionError):  # the receiver is leaving
                await connection.send_json(message)


class PageServer:
    """Serves the call page to one participant and receives its reports.

    Args:
        on_message: called with each message of the page.
        on_closed: called when the report socket closes for any reason.
    """

    def __init__(self, on_message: Callable[[Message], None], on_closed: Callable[[], None]) -> None:
        self._on_message = on_message
        self._on_closed = on_closed
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
        application.router.add_static("/", PAGE)
        return application

    async def send(self, kind: str) -> None:
        """Sends a command (``join``, ``finish`` or ``leave``) to the page, if it is still connected."""
        if self._connection is not None:
            with suppress(ConnectionError):
                await self._connection.send_json({"type": kind})

    async def _index(self, _request: web.Request) -> web.FileResponse:
        return web.FileResponse(PAGE / "index.html")

    async def _handle(self, request: web.Request) -> web.WebSocketResponse:
        connection = web.WebSocketResponse(max_msg_size=MAX_MESSAGE_BYTES)
        await connection.prepare(request)
        self._connection = connection
        await connection.send_json({"type": "configure", **self._configuration})
        async for message in connection:
            if message.type is WSMsgType.TEXT:
                self._on_message(json.loads(message.data))
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
