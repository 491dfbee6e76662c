"""The signalling server of live calls, across the emulated network.

A page's signalling socket goes to the node ``core``, so that the set-up time contains real round trips.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from aiohttp import WSMsgType, web

from rtclab.backend.live.messages import Message

MAX_MESSAGE_BYTES = 16_000_000

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
