"""Serves the call page to one participant, and receives its reports.

The report socket goes to the loopback address of the page's own namespace and does not cross the emulated
network. Once a second the statistics would take up to 8 % of a 500 kbit/s uplink.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web

from rtclab.backend.live.messages import Message

PAGE_DIRECTORY = Path(__file__).parent / "page"
MAX_MESSAGE_BYTES = 16_000_000


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
        application.router.add_static("/", PAGE_DIRECTORY)
        return application

    async def send(self, kind: str, **fields: Any) -> None:
        """Sends a command such as ``join`` or ``leave`` to the page, if it is still connected."""
        if self._connection is not None:
            with suppress(ConnectionError):
                await self._connection.send_json({"type": kind, **fields})

    async def _index(self, _request: web.Request) -> web.FileResponse:
        return web.FileResponse(PAGE_DIRECTORY / "index.html")

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
