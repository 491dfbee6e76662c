"""WHIP and WHEP: rtclab's SFU for strangers' clients, and rtclab's page with servers of both kinds."""

from __future__ import annotations

import asyncio
import fractions
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import av
import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestClient, TestServer
from aiortc import RTCPeerConnection, RTCSessionDescription, VideoStreamTrack
from test_forwarding_server import ADDRESS, WAIT_S, Spawned

from rtclab.backend.live.connections import LiveConnection
from rtclab.backend.live.whip import SDP, WhipServer

pytestmark = pytest.mark.live

OFFER = "v=0\r\nnonsense"


def connection(number: int, a: str, b: str, feed: str, forwards: int | None) -> LiveConnection:
    return LiveConnection(
        number, 0, a, b, 0, 10**10, (f"{feed}->{b}", f"{b}->{a}"), feed, True, None, forwards, "str0m"
    )


CONNECTIONS = [
    connection(0, "alice", "sfu", "alice", None),
    connection(1, "bob", "sfu", "bob", None),
    connection(2, "sfu", "bob", "alice", 0),
    connection(3, "sfu", "alice", "bob", 1),
]


class Stranger:
    """One connection of aiortc over WHIP or WHEP."""

    def __init__(self, http: TestClient[Any, Any]) -> None:
        self.http = http
        self.pc = RTCPeerConnection()
        self.frames: asyncio.Queue[av.VideoFrame] = asyncio.Queue()
        self.session = ""

    async def publish(self, name: str) -> None:
        self.pc.addTransceiver(VideoStreamTrack(), direction="sendonly")
        await self.negotiate(f"/whip/{name}")

    async def play(self, name: str) -> None:
        self.pc.addTransceiver("video", direction="recvonly")
        self.pc.on("track", lambda track: asyncio.ensure_future(self.watch(track)))
        await self.negotiate(f"/whep/{name}")

    async def watch(self, track: Any) -> None:
        while True:
            self.frames.put_nowait(await track.recv())

    async def negotiate(self, path: str) -> None:
        await self.pc.setLocalDescription(await self.pc.createOffer())
        response = await self.http.post(
            path, data=self.pc.localDescription.sdp, headers={"Content-Type": SDP}
        )
        answer = await response.text()
        assert (response.status, response.content_type) == (201, SDP), answer
        assert response.headers["ETag"].strip('"')
        self.session = response.headers["Location"]
        await self.pc.setRemoteDescription(RTCSessionDescription(answer, "answer"))

    async def frame(self) -> av.VideoFrame:
        return await asyncio.wait_for(self.frames.get(), WAIT_S)


@asynccontextmanager
async def serving(**options: Any) -> Any:
    """A client of rtclab's SFU over HTTP, the lines that the SFU receives, and the numbers that it publishes."""
    spawned = Spawned()
    lines: list[dict[str, Any]] = []
    published: list[int] = []

    def send(line: dict[str, Any]) -> None:
        lines.append(line)
        spawned.server.send(line)

    async def on_published(number: int) -> None:
        published.append(number)

    participants = options.pop("participants", {})
    http = WhipServer(CONNECTIONS, participants, send=send, published=on_published, **options)

    async def receive() -> None:
        while True:
            message = await spawned.messages.get()
            if "connection" in message:
                http.receive(message)

    await spawned.server.start()
    receiving = asyncio.create_task(receive())
    async with TestClient(TestServer(http.application())) as client:
        yield client, lines, published
    receiving.cancel()
    await spawned.server.stop()


def with_sfu(use: Callable[..., Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        async with serving(**options) as parts:
            await use(*parts)

    asyncio.run(run())


def test_a_stranger_plays_what_another_publishes_until_it_ends_its_session() -> None:
    async def use(http: TestClient[Any, Any], lines: list[dict[str, Any]], published: list[int]) -> None:
        sender, player = Stranger(http), Stranger(http)
        await sender.publish("camera")
        await player.play("camera")
        frame = await player.frame()
        assert (frame.width, frame.height) == (640, 480)
        # Neither comes from the address of a participant.
        assert [line["connection"] for line in lines] == [4, 5]
        assert published == [4]
        for stranger in (player, sender):
            assert (await http.delete(stranger.session)).status == 200
            assert (await http.delete(stranger.session)).status == 404
            await stranger.pc.close()
        assert [line for line in lines if "close" in line] == [
            {"connection": 5, "close": True},
            {"connection": 4, "close": True},
        ]

    with_sfu(use)
