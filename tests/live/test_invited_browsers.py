"""A browser outside the lab takes a seat of a live call, through a network that the test makes for it."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import resource
import socket
import ssl
import struct
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from cryptography.hazmat.primitives import serialization
from invited_calls import (
    HOST,
    OUTSIDE,
    PLACE,
    Run,
    browser,
    certificate_of,
    evaluate,
    join,
    make_outside,
    open_ports,
    until,
    visit,
    visit_with_firefox,
    waiting_sockets,
)
from parts import CALL
from small_call import small_call

from rtclab.backend.live.lab.namespaces import call_in_node, create_namespace, create_nodes, spawn_in_node
from rtclab.backend.live.user import invited_browser as invited
from rtclab.backend.live.user.invitations import InvitedPlace
from rtclab.backend.live.user.udp_forwarder import MAX_CLIENTS, UdpForwarder
from rtclab.lab import open_results
from rtclab.trace import Trace

pytestmark = [pytest.mark.live, pytest.mark.needs(*CALL, "turnserver")]

Json = dict[str, Any]
SEAT = r"(https://\S+:(\d+)/\S+/)\n.*\n\s+([0-9A-F:]{95})"
NO_DEVICES = ("--use-fake-device-for-media-stream",)


def arguments(tmp_path: Path, seconds: int, *more: str) -> Json:
    file = tmp_path / "small.toml"
    small_call(file, seconds=seconds)
    command = [str(file), "--backend", "live", "--no-report", "--quiet", "--out", str(tmp_path / "runs")]
    return {"command": [*command, "--invite", f"alice={HOST}", *more], "home": str(tmp_path / "profile")}


def trace_of(tmp_path: Path) -> Trace:
    return Trace(tmp_path / "runs" / "small-live-1" / "repeat-0")


# --- in a lab that stands for the user's machine --------------------------------------------------


FLOOD = """fetch("report", {
    method: "POST",
    body: JSON.stringify(Array(2000).fill({ type: "clock", question: 0, at_ms: Date.now() })),
})"""


def call_from_outside(argument: Json, _emit: object) -> Json:
    """A whole call, and what other visitors find meanwhile."""
    make_outside()
    before = waiting_sockets()
    run = Run(*argument["command"])
    url, port, fingerprint = run.says(SEAT).groups()
    certificate = certificate_of(int(port))
    encoded = certificate.public_bytes(serialization.Encoding.DER)
    seen: Json = {"port": int(port), "url": url, "before": before, "open": open_ports()}
    seen["digest"] = hashlib.sha256(encoded).hexdigest().upper() == fingerprint.replace(":", "")
    seen["look"] = visit(url)[0]
    with browser(url, certificate, argument["home"]) as devtools:
        join(devtools)
        run.says("alice is ready")
        seen["second visit"] = [visit(url)[0], visit(f"{url}take", post=True)[0], visit(f"{url}report")[0]]
        seen["wrong token"] = visit(f"https://{HOST}:{port}/{'a' * 22}/")[0]
        until(lambda: evaluate(devtools, "document.querySelector('video')?.currentTime > 1"), "a picture")
        seen["during"] = waiting_sockets()
        width = "document.querySelector('video').getBoundingClientRect().width == innerWidth"
        seen["fills"] = evaluate(devtools, width)
        evaluate(devtools, FLOOD)
        seen |= run.end()
        seen["after"] = waiting_sockets()
        over = "document.querySelector('#message').textContent.startsWith('The call is over')"
        until(lambda: evaluate(devtools, over), "the end of the call on the page")
    return seen | {"closed": open_ports()}


def left_in_the_middle(argument: Json, _emit: object) -> Json:
    make_outside()
    run = Run(*argument["command"])
    asyncio.run(visit_with_firefox(run.says(SEAT).group(1), Path(argument["home"])))
    return run.end()


def without_devices(argument: Json, _emit: object) -> Json:
    make_outside()
    run = Run(*argument["command"])
    url, port, _ = run.says(SEAT).groups()
    with browser(url, certificate_of(int(port)), argument["home"], without=NO_DEVICES) as devtools:
        join(devtools)
        shown = until(
            lambda: evaluate(devtools, "/does not work.*/.exec(document.body.innerText)?.[0]"), "the reason"
        )
        return run.end() | {"shown": shown}


def nobody_comes(argument: Json, _emit: object) -> Json:
    began_s = time.monotonic()
    make_outside()
    run = Run(*argument["command"])
    run.says(SEAT)
    return run.end() | {"took_s": time.monotonic() - began_s, "after": waiting_sockets()}


def stun(words: str) -> bytes:
    """A STUN message with these words as its attributes."""
    return struct.pack(">HHI12x", 3, len(words), 0x2112A442) + words.encode()


def heard(one: socket.socket) -> list[str]:
    """The words of all STUN messages and other datagrams that have arrived."""
    found = []
    with contextlib.suppress(BlockingIOError):
        while True:
            found.append(one.recv(100).rpartition(b"\0")[2].decode())
    return found


def forward(_argument: Json, _emit: object) -> Json:
    """What a server in a node gets from three clients, only one of which has the seat, and what they get."""
    create_namespace("node")
    server = call_in_node("node", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    server.bind(("127.0.0.1", 0))
    server.setblocking(False)
    outside = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    outside.bind(("127.0.0.1", 0))

    def client(address: str = "127.0.0.2") -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind((address, 0))
        made.connect(outside.getsockname())
        made.setblocking(False)
        return made

    async def exchange() -> Json:
        errors: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, about: errors.append(str(about)))
        stranger, guest, other_port = client("127.0.0.3"), client(), client()
        forwarder = UdpForwarder(outside, "node", server.getsockname())
        forwarder.start()
        guest.send(stun("too early"))
        await asyncio.sleep(0.1)
        forwarder.client = "127.0.0.2"
        stranger.send(stun("stranger"))
        guest.send(b"no STUN")
        guest.send(stun("guest"))
        guest.send(b"media")
        other_port.send(stun("other"))
        await asyncio.sleep(0.1)
        arrived = []
        for _ in range(3):
            data, source = server.recvfrom(100)
            arrived.append(data.rpartition(b"\0")[2].decode())
            server.sendto(b"to " + arrived[-1].encode(), source)
        more = heard(server)
        await asyncio.sleep(0.1)
        seen = {"arrived": arrived, "more": more}
        seen["answers"] = [heard(one) for one in (stranger, guest, other_port)]
        seen["full"] = await with_no_descriptors_left(guest, client())
        crowd = [client() for _ in range(MAX_CLIENTS + 5)]
        for one in crowd:
            one.send(stun("crowd"))
        await asyncio.sleep(0.2)
        seen["sources"] = len({server.recvfrom(100)[1] for _ in crowd})
        seen["size"] = len(forwarder._inside)
        forwarder.stop()
        return seen | {"errors": errors}

    async def with_no_descriptors_left(guest: socket.socket, newcomer: socket.socket) -> list[list[str]]:
        """What the server hears while no socket can be made, and afterwards."""
        seen = []
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        for limit in (0, before[0]):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
            newcomer.send(stun("newcomer"))
            guest.send(b"guest")
            await asyncio.sleep(0.1)
            seen.append(heard(server))
        return seen

    return asyncio.run(exchange())


def strangers_hold_connections(argument: Json, _emit: object) -> Json:
    """Takes all connections of a seat in every way, and asks for its page again and again."""
    make_outside()
    (node,) = create_nodes({"alice": "10.77.0.2"})
    invited.REQUEST_TIMEOUT_S = 5.0
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def connect(words: bytes | None, port: int) -> list[socket.socket]:
        strangers: list[socket.socket] = []
        while len(strangers) < invited.MAX_CONNECTIONS:
            one = socket.create_connection((HOST, port))
            try:
                strangers.append(one if words is None else context.wrap_socket(one))
            except OSError:  # the one before has not ended its handshake
                continue
            with contextlib.suppress(OSError):  # closed meanwhile
                strangers[-1].sendall(words or b"")
        return strangers

    async def serve(tcp: socket.socket, udp: socket.socket) -> Json:
        free: list[Json] = []
        seat = invited.InvitedBrowser(
            node,
            InvitedPlace(HOST, tcp.getsockname()[1], tcp.fileno(), udp.fileno(), wait_s=9),
            {},
            "ws://10.77.0.1:1/signalling?",
            partial(spawn_in_node, "alice"),
            Path(argument["home"]),
            emit=free.append,
            on_message=lambda message: None,
            on_closed=lambda: None,
            fail=free.append,
        )
        await seat.start()
        url = free[0]["url"]

        def status() -> int:
            try:
                return visit(url)[0]
            except OSError:
                return 0

        seen: Json = {}
        request = b"GET / HTTP/1.1\r\nHost: x\r\n"
        greedy = 2000 * (request + b"\r\n")  # nobody reads the answers
        for kind, words in {"no TLS": None, "idle": b"", "partial": request, "greedy": greedy}.items():
            come = partial(connect, words, tcp.getsockname()[1])
            strangers = await asyncio.to_thread(call_in_node, PLACE, come)
            at_once = await asyncio.to_thread(status)
            seen[kind] = [at_once, await asyncio.to_thread(until, status, "an answer")]
            for one in strangers:
                one.close()
            while len(seat._tasks) > 1 or seat._runner.server.connections:  # one task accepts
                await asyncio.sleep(0.1)
        await seat.stop()
        return seen

    tcp, udp = socket.create_server((HOST, 0)), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(tcp.getsockname())
    return asyncio.run(serve(tcp, udp))


# --- tests ----------------------------------------------------------------------------------------


def test_a_browser_outside_takes_the_seat_and_its_media_cross_the_emulated_path(
    tmp_path: Path, in_lab: Callable[..., Json]
) -> None:
    seen = in_lab("call_from_outside", **arguments(tmp_path, 8))
    assert seen["status"] == 0, seen["said"]
    # Nothing listens but the announced port, at the one address, for as long as the run.
    place = f"{''.join(f'{int(part):02X}' for part in reversed(HOST.split('.')))}:{seen['port']:04X}"
    nowhere: Json = {"tcp": [], "udp": [], "tcp6": [], "udp6": []}
    assert (seen["before"], seen["after"], seen["closed"]) == (nowhere, nowhere, [])
    assert seen["during"] == {**nowhere, "tcp": [place], "udp": [place]}
    assert seen["open"] == [seen["port"]]
    assert seen["digest"], "the printed fingerprint is the certificate's"
    assert (seen["look"], seen["second visit"], seen["wrong token"]) == (200, [410, 410, 410], 404)
    assert seen["fills"], "the picture is as wide as the screen"
    assert f"the seat of alice is taken from {OUTSIDE}, by Mozilla/5.0" in seen["said"]

    trace = trace_of(tmp_path)
    packets = trace.table("packets").with_columns(delay_ms=(pl.col("delivered_ns") - pl.col("sent_ns")) / 1e6)
    for flow in ("alice->bob", "bob->alice"):
        media = packets.filter(flow=flow, protocol="rtp")
        assert media.height > 200
        assert 40 <= media["delay_ms"].min() < 45, "the configured delay of both links"
        assert trace.table("frames").filter(flow=flow).height > 60
    assert "tcp" not in packets["protocol"]
    joined = trace.table("events").filter(participant="alice").select("event", "at_ns")
    times = dict(joined.iter_rows())
    assert {"joined", "ice_connected", "dtls_connected", "first_frame", "left"} <= times.keys()
    assert all(-0.1e9 < at_ns < 12e9 for at_ns in times.values())
    assert set(trace.table("host")["participant"]) == {"bob"}, "the load of another machine is unknown"
    browser_note, clock_note, flood_note = trace.manifest.notes
    assert "alice was an invited browser" in browser_note
    assert "Mozilla/5.0" in browser_note
    assert "round trips to alice's page took" in clock_note
    refused = re.match(r"at least (\d+) messages of alice's invited browser were refused", flood_note)
    assert refused is not None
    assert 0 < int(refused[1]) <= 1000, "a burst of 1000 is allowed"
    scenario = open_results(tmp_path / "runs" / "small-live-1").scenario
    assert scenario["participants"]["alice"]["browser"]["name"] == "invited"


def test_datagrams_are_copied_for_the_one_who_has_the_seat(in_lab: Callable[..., Json]) -> None:
    seen = in_lab("forward")
    assert seen["arrived"] == ["guest", "media", "other"]
    assert seen["more"] == []
    assert seen["answers"] == [[], ["to guest", "to media"], ["to other"]]
    assert seen["full"] == [["guest"], ["newcomer", "guest"]], "a lack of file descriptors passes"
    assert seen["errors"] == [], "nothing that asyncio would print"
    assert seen["sources"] == MAX_CLIENTS + 5
    assert seen["size"] == MAX_CLIENTS


def test_connections_that_ask_for_nothing_do_not_keep_others_from_the_page(
    tmp_path: Path, in_lab: Callable[..., Json]
) -> None:
    seen = in_lab("strangers_hold_connections", home=str(tmp_path / "alice"))
    for kind in ("no TLS", "idle", "partial"):
        assert seen[kind] == [0, 200], f"{kind}: there are too many, but not for long"
    assert seen["greedy"][1] == 200


@pytest.mark.needs("firefox")
def test_a_firefox_that_leaves_in_the_middle_fails_the_repeat_and_the_trace_is_kept(
    tmp_path: Path, in_lab: Callable[..., Json]
) -> None:
    seen = in_lab("left_in_the_middle", **arguments(tmp_path, 30))
    assert seen["status"] == 1
    assert re.search(r"the seat of alice is taken from .* Firefox/", seen["said"])
    assert "repeat 0 failed: the invited browser of alice has gone" in seen["said"]
    trace = trace_of(tmp_path)
    assert "the invited browser of alice has gone" in str(trace.manifest.failure)
    assert trace.table("packets").filter(flow="alice->bob", protocol="rtp").height > 20


def test_a_phone_without_a_camera_is_told_so_and_so_is_the_user(
    tmp_path: Path, in_lab: Callable[..., Json]
) -> None:
    seen = in_lab("without_devices", **arguments(tmp_path, 8))
    assert seen["status"] == 1
    assert "the page of alice reported an error: NotFoundError" in seen["said"]
    assert "the browser finds no camera or no microphone" in seen["shown"]


def test_a_seat_that_nobody_takes_is_closed_after_the_given_time(
    tmp_path: Path, in_lab: Callable[..., Json]
) -> None:
    seen = in_lab("nobody_comes", **arguments(tmp_path, 8, "--invite-wait", "2 s"))
    assert seen["status"] == 1
    assert "the page of alice was not ready within 2 s" in seen["said"]
    assert "nobody took the seat" in seen["said"]
    assert seen["took_s"] > 2
    assert not any(seen["after"].values())
