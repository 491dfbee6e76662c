"""The page's side of WHIP and WHEP in Chromium, with servers that answer well, wrongly, late or elsewhere."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web
from aiortc import RTCPeerConnection, RTCSessionDescription
from test_page_modules import address, browser, result

__all__ = ["address", "browser"]

pytestmark = [pytest.mark.live, pytest.mark.needs("chromium", "chromedriver")]

SDP = "application/sdp"
ALLOWED = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Headers": "Authorization, Content-Type",
    "Access-Control-Allow-Methods": "DELETE, POST",
    "Access-Control-Expose-Headers": "Location, Retry-After",
}
MOVED = {"moved-307": 307, "moved-308": 308, "moved-302": 302}
START_S = 10


class Answering:
    """A server on aiortc. The name in the path of a request says what is wrong with its answer."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, str | None]] = []
        self.connections: list[RTCPeerConnection] = []

    async def handle(self, request: web.Request) -> web.Response:
        if request.method == "OPTIONS":
            return web.Response(headers={} if request.path == "/closed" else ALLOWED)
        name = request.path.strip("/")
        self.requests.append((request.method, name, request.headers.get("Authorization")))
        asked = sum(path == name for _, path, _ in self.requests)
        status, headers, text = 201, dict(ALLOWED), ""
        if name in MOVED:
            status, headers["Location"] = MOVED[name], "/good"
        elif name == "broken":
            status, text = 500, "no\r\n\x1b room left\n"
        elif name == "late" and asked < 3:
            status, text, headers["Retry-After"] = 409, "not yet", "0"
        elif name == "html":
            text = "<html>Welcome</html>"
        elif name == "nonsense":
            text = "v=0\r\nnonsense"
        elif request.method != "POST":
            status = 200 if request.method == "DELETE" else 405
        else:
            text, headers["Location"] = await self.answer(await request.text()), "sessions/1"
        return web.Response(status=status, text=text, headers=headers)

    async def answer(self, offer: str) -> str:
        connection = RTCPeerConnection()
        self.connections.append(connection)
        await connection.setRemoteDescription(RTCSessionDescription(offer, "offer"))
        await connection.setLocalDescription(await connection.createAnswer())
        return str(connection.localDescription.sdp)


@pytest.fixture
def server() -> Iterator[tuple[str, Answering]]:
    """A server at another origin than the page's, and its address."""
    answering, started, url = Answering(), threading.Event(), []
    loop = asyncio.new_event_loop()

    async def start() -> web.AppRunner:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", answering.handle)
        runner = web.AppRunner(application)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url.append(f"http://127.0.0.1:{runner.addresses[0][1]}")
        return runner

    async def stop(runner: web.AppRunner) -> None:
        await asyncio.gather(*(connection.close() for connection in answering.connections))
        await runner.cleanup()

    def run() -> None:
        asyncio.set_event_loop(loop)
        runner = loop.run_until_complete(start())
        started.set()
        loop.run_forever()
        loop.run_until_complete(stop(runner))
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    assert started.wait(START_S)
    yield url[0], answering
    loop.call_soon_threadsafe(loop.stop)
    thread.join()


OPEN = """
    const { Connection } = await import("/connection.js");
    const plays = %(plays)s;
    const about = { number: 0, server: "whip", codec: "vp8", waitsMs: 0,
        sends: { video: !plays, audio: false }, receives: { video: plays, audio: false } };
    const config = { ice: { 0: { servers: [], policy: "all" } }, codec: "vp8", fec: true,
        transportFeedback: true, formats: {}, video: null };
    const camera = plays ? new MediaStream() : await navigator.mediaDevices.getUserMedia({ video: true });
    let connection;
    const resource = new it.HttpResource(about, { url: %(url)s, token: "t", plays }, () => {
        connection = new Connection(about, config, camera, () => {});
        return connection;
    });
    const state = async () => {
        for (let tries = 0; tries < 100 && connection.pc.connectionState !== "connected"; tries += 1)
            await new Promise((resolve) => setTimeout(resolve, 100));
        return connection.pc.connectionState;
    };
    await resource.open();
    const directions = connection.pc.getTransceivers().map(({ direction }) => direction);
    const reached = [await state(), ...directions];
    resource.close();
    connection.close();
    camera.getTracks().forEach((track) => track.stop());
    return reached;
"""


def opened(browser: Any, url: str, *, plays: bool = False) -> Any:
    """The state that a connection over a resource reaches and its directions, or an error."""
    return result(browser, "whip.js", OPEN % {"url": json.dumps(url), "plays": str(plays).lower()})


@pytest.mark.parametrize(("name", "asked"), [("good", 1), ("moved-307", 2), ("moved-308", 2)])
def test_a_page_publishes_with_its_token_wherever_it_is_sent_and_ends_its_session(
    browser: Any, server: tuple[str, Answering], name: str, asked: int
) -> None:
    url, answering = server
    assert opened(browser, f"{url}/{name}") == ["connected", "sendonly"]
    for _ in range(100):
        if answering.requests[-1][0] == "DELETE":
            break
        threading.Event().wait(0.1)
    moved = [("POST", name, "Bearer t")] if asked == 2 else []
    assert answering.requests == [
        *moved,
        ("POST", "good", "Bearer t"),
        ("DELETE", "sessions/1", "Bearer t"),
    ]


def test_a_player_asks_until_there_is_a_publisher(browser: Any, server: tuple[str, Answering]) -> None:
    url, answering = server
    assert opened(browser, f"{url}/late", plays=True) == ["connected", "recvonly"]
    assert [path for method, path, _ in answering.requests if method == "POST"] == ["late"] * 3


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("broken", "POST {url}/broken answered 500 Internal Server Error: no room left"),
        ("late", "POST {url}/late answered 409 Conflict: not yet"),
        ("html", 'POST {url}/html answered 201 with "<html>Welcome</html>"; expected a session description'),
        ("nonsense", "POST {url}/nonsense answered with a description that cannot be used: "),
        ("moved-302", "POST {url}/moved-302, redirected to {url}/good, answered 405 Method Not Allowed"),
        ("closed", "POST {url}/closed: Failed to fetch; expected a server that accepts connections, and "),
    ],
)
def test_what_a_publisher_cannot_use_is_an_error_with_address_and_status(
    browser: Any, server: tuple[str, Answering], name: str, said: str
) -> None:
    url, _ = server
    error = opened(browser, f"{url}/{name}")
    assert error.startswith(f"Error: {said.format(url=url)}"), error


def test_a_port_where_nobody_listens_is_named(browser: Any) -> None:
    assert opened(browser, "http://127.0.0.1:9/whip").startswith(
        "Error: POST http://127.0.0.1:9/whip: Failed to fetch"
    )
