"""WHIP and WHEP: rtclab's SFU for strangers' clients, and rtclab's page with servers of both kinds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import av
import polars as pl
import pytest
from aiohttp.test_utils import TestClient, TestServer
from aiortc import RTCPeerConnection, RTCSessionDescription, VideoStreamTrack
from parts import CALL
from small_call import SFU, TEXT, small_call
from test_forwarding_server import ADDRESS, WAIT_S, Spawned

from rtclab.backend.live import LiveBackend
from rtclab.backend.live.connections import LiveConnection
from rtclab.backend.live.servers.whip import SDP, WhipServer
from rtclab.errors import CallFailed
from rtclab.scenario import Scenario
from rtclab.trace import Trace

pytestmark = [pytest.mark.live, pytest.mark.needs("rtclab-sfu", "aiortc")]

PION = Path(__file__).parents[2] / "target" / "strangers" / "whip-whep"

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

    async def publish(self, name: str) -> Any:
        self.pc.addTransceiver(VideoStreamTrack(), direction="sendonly")
        return await self.negotiate(f"/whip/{name}")

    async def play(self, name: str) -> None:
        self.pc.addTransceiver("video", direction="recvonly")
        self.pc.on("track", lambda track: asyncio.ensure_future(self.watch(track)))
        await self.negotiate(f"/whep/{name}")

    async def watch(self, track: Any) -> None:
        while True:
            self.frames.put_nowait(await track.recv())

    async def negotiate(self, path: str) -> Any:
        await self.pc.setLocalDescription(await self.pc.createOffer())
        response = await self.http.post(
            path, data=self.pc.localDescription.sdp, headers={"Content-Type": SDP}
        )
        answer = await response.text()
        assert (response.status, response.content_type) == (201, SDP), answer
        assert response.headers["ETag"].strip('"')
        self.session = response.headers["Location"]
        await self.pc.setRemoteDescription(RTCSessionDescription(answer, "answer"))
        return response.headers

    async def frame(self) -> av.VideoFrame:
        return await asyncio.wait_for(self.frames.get(), WAIT_S)


@asynccontextmanager
async def serving(**options: Any) -> Any:
    """An HTTP client of rtclab's SFU, the lines that the SFU receives, and the numbers that publish."""
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


@pytest.mark.parametrize(
    ("method", "path", "content", "status", "said"),
    [
        ("POST", "/whip/camera", (OFFER, "text/plain"), 415, "got content of type `text/plain`"),
        ("POST", "/whip/camera", ("hello", SDP), 400, "should begin with `v=0`"),
        ("POST", "/whip/camera", (b"v=0\xff", SDP), 400, "should begin with `v=0`"),
        ("POST", "/whip/camera", ("", SDP), 400, "should begin with `v=0`"),
        ("POST", "/whip/camera", (OFFER, SDP), 400, "malformed offer"),
        ("POST", "/whip/camera", ("v=0" + "x" * 2**20, SDP), 413, "Maximum request body size"),
        ("POST", "/whep/camera", (OFFER, SDP), 409, "nobody publishes `camera` now"),
        ("POST", "/other/camera", (OFFER, SDP), 404, ""),
        ("GET", "/whip/camera", None, 405, ""),
        ("PUT", "/whep/camera", (OFFER, SDP), 405, ""),
        ("PATCH", "/sessions/1", ("a=ice-ufrag:x", "application/trickle-ice-sdpfrag"), 405, ""),
        ("POST", "/sessions/1", (OFFER, SDP), 405, ""),
        ("DELETE", "/sessions/1", None, 404, "no session `1`"),
    ],
)
def test_a_wrong_request_is_refused_with_its_reason_for_pages_too(
    method: str, path: str, content: tuple[str | bytes, str] | None, status: int, said: str
) -> None:
    async def use(http: TestClient[Any, Any], _lines: Any, published: list[int]) -> None:
        data, kind = content or (None, "")
        headers = {"Content-Type": kind} if content else {}
        response = await http.request(method, path, data=data, headers=headers)
        assert (response.status, said in await response.text()) == (status, True)
        assert response.headers["Access-Control-Allow-Origin"] == "*"
        if status == 405:
            assert "OPTIONS" in response.headers["Allow"]
        if status == 409:
            assert response.headers["Retry-After"] == "1"
        assert published == []
        # A name that was refused is free.
        assert (await http.post("/whep/camera", data=OFFER, headers={"Content-Type": SDP})).status == 409

    with_sfu(use)


def test_clients_need_the_token_but_preflight_requests_have_none() -> None:
    async def use(http: TestClient[Any, Any], *_: Any) -> None:
        for given, status in ((None, 401), ("Bearer wrong", 401), ("secret", 401), ("Bearer secret", 400)):
            headers = {"Content-Type": SDP} | ({"Authorization": given} if given else {})
            response = await http.post("/whip/camera", data="hello", headers=headers)
            assert (given, response.status) == (given, status)
            assert response.headers.get("WWW-Authenticate") == ("Bearer" if status == 401 else None)
        allowed = await http.options("/whip/camera", headers={"Origin": "http://127.0.0.1:1"})
        assert allowed.status == 204
        assert allowed.headers["Accept-Post"] == SDP
        assert "Authorization" in allowed.headers["Access-Control-Allow-Headers"]
        assert "POST" in allowed.headers["Access-Control-Allow-Methods"]

    with_sfu(use, token="secret")


def test_a_participant_keeps_the_number_of_its_connection_also_after_its_page_was_loaded_again() -> None:
    async def use(http: TestClient[Any, Any], lines: list[dict[str, Any]], published: list[int]) -> None:
        strangers = [Stranger(http) for _ in range(3)]
        for stranger, name in zip(strangers, ("camera", "camera", "screen"), strict=True):
            await stranger.publish(name)
            await stranger.pc.close()
        assert lines.pop(1) == {"connection": 0, "close": True}
        assert [line["connection"] for line in lines] == [0, 0, 4]
        assert published == [0, 0, 4]

    with_sfu(use, participants={ADDRESS: "alice"})


def test_the_ice_servers_of_the_scenario_are_in_the_answer() -> None:
    async def use(http: TestClient[Any, Any], *_: Any) -> None:
        stranger = Stranger(http)
        headers = await stranger.publish("camera")
        assert headers.getall("Link") == [
            '<stun:10.77.0.1:3478>; rel="ice-server"',
            '<turn:10.77.0.1:3478>; rel="ice-server"; username="u"; credential="p"; '
            'credential-type="password"',
        ]
        await stranger.pc.close()

    servers = [
        {"urls": ["stun:10.77.0.1:3478"]},
        {"urls": "turn:10.77.0.1:3478", "username": "u", "credential": "p"},
    ]
    with_sfu(use, ice_servers=servers)


# It is an example of the Go library pion, for one publisher of H.264 and Opus.
STRANGER = """
[servers.sfu]
kind = "whip"
command = "{command}"
port = 8080
whip = "http://sfu:8080/whip"
whep = "http://sfu:8080/whep"
[[calls]]
kind = "sfu"
server = "sfu"
"""


def made(scenario: Scenario, out: Path) -> Trace:
    """Makes one call and returns its trace."""
    out.mkdir()
    backend = LiveBackend()
    backend.check(scenario)
    return backend.run(scenario, seed=1, repeat=0, out=out)


@pytest.mark.needs(*CALL, "whip-whep")
def test_pages_talk_by_whip_and_whep_to_a_server_that_knows_nothing_of_rtclab(tmp_path: Path) -> None:
    text = TEXT.replace("[participants.bob]", "[participants.bob]\nvideo = false\naudio = false")
    (tmp_path / "call.toml").write_text(
        text.replace("[video]", '[video]\ncodec = "h264"').format(seconds=8) + STRANGER.format(command=PION)
    )
    scenario = Scenario.load(tmp_path / "call.toml", trust=True)
    trace = made(scenario, tmp_path / "out")
    assert trace.manifest.not_connected == ()
    packets = trace.table("packets").filter(pl.col("delivered_ns").is_not_null())
    sent = {
        (flow, kind): count
        for flow, kind, count in packets.filter(protocol="rtp").group_by("flow", "kind").len().iter_rows()
    }
    # 50 packets of audio a second, from a second or two on, and all of them forwarded.
    assert set(sent) == {(flow, kind) for flow in ("alice->sfu", "alice->bob") for kind in ("audio", "video")}
    assert 200 < sent["alice->bob", "audio"] <= sent["alice->sfu", "audio"] < 410
    received = trace.table("inbound_rtp").filter(pl.col("kind") == "video")
    assert set(received.filter(pl.col("framesDecoded") > 30)["flow"]) == {"alice->bob"}
    assert set(trace.table("host")["participant"]) == {"alice", "bob", "sfu"}
    events = trace.table("events").filter(event="signalling_done")
    assert sorted(events["participant"]) == ["alice", "bob"]


PLAYER = """
<!doctype html><video autoplay muted></video>
<script type="module">
const pc = new RTCPeerConnection();
pc.addTransceiver("video", { direction: "recvonly" });
pc.ontrack = ({ track }) => (document.querySelector("video").srcObject = new MediaStream([track]));
await pc.setLocalDescription();
const [method, headers, body] = ["POST", { "Content-Type": "application/sdp" }, pc.localDescription.sdp];
let response;
do {
  await new Promise((resolve) => setTimeout(resolve, 500));
  response = await fetch("http://sfu:8080/whep/alice", { method, headers, body });
} while (response.status === 409);
await pc.setRemoteDescription({ type: "answer", sdp: await response.text() });
</script>
"""


@pytest.mark.needs(*CALL)
def test_a_page_of_somebody_else_plays_what_our_page_publishes_over_its_websocket(tmp_path: Path) -> None:
    (tmp_path / "player.html").write_text(PLAYER)
    text = SFU.format(kind="str0m") + "participants = ['alice', 'bob']\n"
    scenario = small_call(
        tmp_path / "call.toml", "[participants.carol]\npage = 'player.html'\n" + text, seconds=7
    )
    trace = made(scenario, tmp_path / "out")
    received = trace.table("inbound_rtp").filter(pl.col("kind") == "video", pl.col("framesDecoded") > 30)
    assert set(received["participant"]) == {"alice", "bob", "carol"}
    assert set(received.filter(participant="carol")["flow"]) == {"sfu->carol"}


OF_A_TOP_LEVEL_DOMAIN = """
[participants.bob.browser]
name = "firefox"
[servers.app]
kind = "str0m"
signalling = "whip"
[[calls]]
kind = "sfu"
server = "app"
"""


@pytest.mark.needs(*CALL, "firefox", "plain HTTP")
def test_pages_reach_a_node_whose_name_is_a_domain_that_browsers_open_with_tls_only(tmp_path: Path) -> None:
    scenario = small_call(tmp_path / "call.toml", OF_A_TOP_LEVEL_DOMAIN)
    trace = made(scenario, tmp_path / "out")
    assert trace.manifest.not_connected == ()
    received = trace.table("inbound_rtp").filter(pl.col("kind") == "video", pl.col("framesDecoded") > 30)
    assert set(received["flow"]) == {"alice->bob", "bob->alice"}


@pytest.mark.needs(*CALL)
def test_a_server_that_refuses_fails_the_call_with_address_and_status(tmp_path: Path) -> None:
    refusing = """
    [servers.closed]
    kind = "str0m"
    token = "secret"
    [servers.sfu]
    kind = "whip"
    whip = "http://closed:8080/whip/{name}"
    whep = "http://closed:8080/whep/{sender}"
    token = "wrong"
    [[calls]]
    kind = "sfu"
    server = "sfu"
    """
    scenario = small_call(tmp_path / "call.toml", refusing)
    with pytest.raises(
        CallFailed, match=r"POST http://closed:8080/whip/(alice|bob) answered 401 Unauthorized"
    ):
        made(scenario, tmp_path / "out")
