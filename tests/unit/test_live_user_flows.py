"""Which flows the connections of pages of the user's own are."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pydantic import TypeAdapter, ValidationError

from rtclab.backend.live.browsers.drivers import FirefoxDriver
from rtclab.backend.live.records.page_reports import ReportRefused
from rtclab.backend.live.records.recorder import Recorder
from rtclab.backend.live.records.user_flows import (
    EmulatedNetwork,
    UserConnections,
    UserFlows,
    checked,
    sources_of,
)
from rtclab.backend.live.user import user_page
from rtclab.backend.live.user.user_settings import UserPageSettings

ADDRESSES = {
    "alice": "10.77.0.2",
    "bob": "10.77.0.3",
    "carol": "10.77.0.4",
    "sfu": "10.77.0.5",
    "core": "10.77.0.1",
}
NODES = {address: name for name, address in ADDRESSES.items()}
PEOPLE = ["alice", "bob", "carol"]
ROUTES = {(a, b): (f"{a}.up", f"{b}.down") for a, b in itertools.permutations(ADDRESSES, 2)}
DURATION_NS = 10_000_000_000


class Laboratory:
    """Pages that report by hand."""

    def __init__(self) -> None:
        self.recorder = Recorder({}, run_began_ms=0)
        self.own = UserConnections(self.recorder, 0, 0)

    def say(self, participant: str, **fields: Any) -> None:
        adapter: TypeAdapter[user_page.Report] = TypeAdapter(user_page.Report)
        report = adapter.validate_json(json.dumps({"at_ms": 1000, "page": "p", **fields}))
        self.own.receive(participant, report, DURATION_NS)

    def connect(
        self,
        participant: str,
        number: int,
        local: tuple[str, int],
        remote: tuple[str, int],
        *,
        sends: Iterable[int] = (),
        receives: Iterable[int] = (),
        relayed: bool = False,
    ) -> None:
        """A connection with its addresses and video streams."""
        self.say(participant, type="connection", number=number)
        self.say(participant, type="event", number=number, event="dtls_connected")
        ends = {
            side: {"address": address, "port": port, "candidateType": kind}
            for side, (address, port), kind in (
                ("local", local, "relay" if relayed else "host"),
                ("remote", remote, "host"),
            )
        }
        reports: list[dict[str, Any]] = [
            {"type": "outbound-rtp", "ssrc": ssrc, "kind": "video", "packetsSent": 1, "bytesSent": 1}
            for ssrc in sends
        ]
        reports += [
            {
                "type": "inbound-rtp",
                "ssrc": ssrc,
                "kind": "video",
                "packetsReceived": 1,
                "bytesReceived": 1,
                "trackIdentifier": f"track{ssrc}",
                "rtxSsrc": ssrc + 1000,
            }
            for ssrc in receives
        ]
        frames = {f"track{ssrc}": [[90, None, None, 1001.0, 640, 480, 1.5, None]] for ssrc in receives}
        self.say(participant, type="stats", number=number, reports=reports, selected=[ends], frames=frames)

    def flows(self, taken: Iterable[str] = ()) -> UserFlows:
        network = EmulatedNetwork(NODES, PEOPLE, ROUTES)
        return UserFlows(self.own, self.recorder, network, 0, taken, DURATION_NS)

    def of(self, table: str) -> list[tuple[str, str]]:
        """Participant and flow of each row of a table."""
        return [(row["participant"], row["flow"]) for row in self.recorder.rows[table]]


def at(name: str, port: int) -> tuple[str, int]:
    return ADDRESSES[name], port


def test_the_two_ends_of_a_connection_are_found_by_their_addresses() -> None:
    lab = Laboratory()
    lab.connect("alice", 0, at("alice", 1000), at("bob", 2000), sends=[1], receives=[2])
    lab.connect("bob", 0, at("bob", 2000), at("alice", 1000), sends=[2], receives=[1])
    found = lab.flows()
    assert list(found.flows) == ["alice->bob", "bob->alice"]
    assert found.flows["alice->bob"].route == ("alice.up", "bob.down")
    assert lab.of("outbound_rtp") == [("alice", "alice->bob"), ("bob", "bob->alice")]
    assert lab.of("inbound_rtp") == [("alice", "bob->alice"), ("bob", "alice->bob")]
    assert [row["flow"] for row in lab.recorder.rows["frames"]] == ["bob->alice", "alice->bob"]
    assert lab.recorder.ssrcs == {1: "alice->bob", 2: "bob->alice"}
    assert {end.connection for end in lab.recorder.ends} == {0}
    assert [found.sent(0), found.sent(1)] == ["alice->bob", "bob->alice"]
    assert found.notes == []


def test_a_second_connection_with_media_between_the_same_two_has_flows_of_its_own() -> None:
    lab = Laboratory()
    lab.connect("alice", 0, at("alice", 1000), at("bob", 2000), sends=[1])
    lab.connect("alice", 1, at("alice", 1001), at("bob", 2001), sends=[3])
    lab.connect("bob", 0, at("bob", 2000), at("alice", 1000), receives=[1])
    lab.connect("bob", 1, at("bob", 2001), at("alice", 1001), receives=[3])
    assert list(lab.flows().flows) == ["alice->bob", "bob->alice", "alice->bob#2", "bob->alice#2"]
    assert lab.of("inbound_rtp") == [("bob", "alice->bob"), ("bob", "alice->bob#2")]


def test_behind_a_nat_ssrcs_tell_the_two_ends() -> None:
    lab = Laboratory()
    lab.connect("alice", 0, ("192.168.2.2", 1000), at("bob", 2000), sends=[1], receives=[2])
    lab.connect("bob", 0, at("bob", 2000), at("alice", 40000), sends=[2], receives=[1])
    assert list(lab.flows().flows) == ["alice->bob", "bob->alice"]


def test_over_a_relay_the_address_that_it_gave_tells_the_other_end() -> None:
    lab = Laboratory()
    lab.connect("alice", 0, at("core", 50000), at("bob", 2000), sends=[1], relayed=True)
    lab.connect("bob", 0, at("bob", 2000), at("core", 50000), receives=[1])
    found = lab.flows()
    assert found.flows["alice->bob"].route == ("alice.up", "core.down", "core.up", "bob.down")
    assert lab.recorder.connections[0].relay == "core"


def test_a_connection_that_never_had_an_address_is_noted_and_leaves_no_rows() -> None:
    lab = Laboratory()
    lab.say("alice", type="connection", number=0)
    lab.say("alice", type="event", number=0, event="signalling_done")
    found = lab.flows()
    assert found.flows == {}
    assert found.notes == [
        "1 connection of alice's page: the other end is not known, so nothing is recorded of them"
    ]
    assert lab.of("events") == [("alice", None)]


def test_connections_of_a_page_with_itself_cross_no_network_and_have_no_flows() -> None:
    lab = Laboratory()
    lab.connect("alice", 0, at("alice", 1000), at("alice", 1001), sends=[1])
    lab.connect("alice", 1, at("alice", 1001), at("alice", 1000), receives=[1])
    found = lab.flows()
    assert found.flows == {}
    assert found.notes == [
        "2 connections of alice's page: the other end is the page itself, so nothing is recorded of them"
    ]


def test_names_of_flows_of_the_scenarios_own_calls_are_not_used_again() -> None:
    lab = Laboratory()
    lab.connect("alice", 0, at("alice", 1000), at("sfu", 7000), sends=[1])
    assert list(lab.flows(["alice->sfu"]).flows) == ["alice->sfu#2", "sfu->alice"]


Row = tuple[str, int, int, int, int, int | None]


def packets(rows: Iterable[Row]) -> pl.DataFrame:
    """Packets by flow, SSRC, RTP timestamp, size of the content, and times of sending and delivery in ns."""
    schema = {
        "flow": pl.String(),
        "ssrc": pl.Int64(),
        "rtp_timestamp": pl.Int64(),
        "content_bytes": pl.Int64(),
        "sent_ns": pl.Int64(),
        "delivered_ns": pl.Int64(),
    }
    return pl.DataFrame(list(rows), schema=schema, orient="row").with_columns(protocol=pl.lit("rtp"))


def through_the_server(
    random_sizes: random.Random, up: str, down: str, ssrc: int, copy: int, offset_ns: int
) -> list[Row]:
    """Two hundred packets of sound and their copies, a tenth of which the server leaves out.

    Copies have other timestamps, of which one is the first after 2**32, and a larger header.
    """
    rows: list[Row] = []
    for number in range(200):
        sent_ns, size = number * 20_000_000 + offset_ns, random_sizes.randint(200, 1100)
        rows.append((up, ssrc, 960 * number, size, sent_ns, sent_ns + 25_000_000))
        if number % 10:
            left_ns = sent_ns + 25_400_000
            timestamp = (2**32 - 10_000 + 960 * number) % 2**32
            rows.append((down, copy, timestamp, size + 14, left_ns, left_ns + 10_000_000))
    return rows


def test_whose_media_a_server_forwards_is_told_by_times_timestamps_and_sizes() -> None:
    sizes = random.Random(1)
    seen = packets(
        [
            *through_the_server(sizes, "alice->sfu", "sfu->bob", 1, 11, 0),
            *through_the_server(sizes, "carol->sfu", "sfu->bob", 3, 13, 5_000_000),
            # The server's own stream copies nobody.
            *(("sfu->bob", 99, 0, 150, number * 20_000_000, None) for number in range(200)),
        ]
    )
    servers = {"alice->sfu": "sfu", "carol->sfu": "sfu"}
    assert sources_of(seen, servers, {"sfu->bob": "sfu"}) == {
        "sfu->bob": {11: "alice->sfu", 13: "carol->sfu"}
    }


def test_what_a_server_forwards_belongs_to_a_flow_from_its_sender() -> None:
    lab = Laboratory()
    lab.connect("alice", 0, at("alice", 1000), at("sfu", 7000), sends=[1])
    lab.connect("carol", 0, at("carol", 1000), at("sfu", 7000), sends=[3])
    lab.connect("bob", 0, at("bob", 1000), at("sfu", 7000), receives=[11, 13])
    lab.connect("carol", 1, at("carol", 1001), at("sfu", 7000), receives=[12])
    rows = [
        *through_the_server(random.Random(1), "alice->sfu", "sfu->bob", 1, 11, 0),
        *through_the_server(random.Random(2), "carol->sfu", "sfu->bob", 3, 13, 5_000_000),
        *through_the_server(random.Random(1), "alice->sfu", "sfu->carol#2", 1, 12, 0),
        ("sfu->bob", 1011, 0, 500, 1_000_000, None),  # a retransmission of 11
    ]
    seen = packets(
        dict.fromkeys(rows)  # alice sends each packet once
    ).vstack(
        packets(
            [("sfu->carol#2", 0, 0, 60, 1_000_000, None), ("sfu->bob", 0, 0, 60, 1_000_000, None)]
        ).with_columns(ssrc=pl.lit(None, pl.Int64), protocol=pl.lit("rtcp"))
    )
    found = lab.flows()
    assert {"sfu->bob", "sfu->carol", "sfu->carol#2", "carol->sfu#2"} <= set(found.flows)
    renamed = found.forwarded(seen)
    again = found.flows
    assert {"alice->bob", "carol->bob", "alice->carol", "sfu->bob"} <= set(again)
    # carol receives alice alone over her second connection, so all of it is alice's, RTCP too.
    assert "sfu->carol#2" not in again
    assert "alice->carol" in renamed.filter(protocol="rtcp")["flow"].to_list()
    retransmission = renamed.filter(ssrc=1011)["flow"].to_list()
    assert retransmission == ["alice->bob"]
    assert again["alice->bob"].route == ("alice.up", "sfu.down", "sfu.up", "bob.down")
    assert lab.of("inbound_rtp") == [("bob", "alice->bob"), ("bob", "carol->bob"), ("carol", "alice->carol")]
    originals = {
        one.flows[0]: one.forwards for one in lab.recorder.connections.values() if one.forwards is not None
    }
    assert originals == {"alice->bob": 0, "carol->bob": 1, "alice->carol": 0}


@pytest.mark.parametrize(
    "report",
    [
        {"type": "event", "number": 0, "event": "joined"},
        {"type": "connection", "number": -1},
        {"type": "connection", "number": 10**9},
        {"type": "stats", "number": 0, "reports": "all", "selected": [], "frames": {}},
        {"type": "stats", "number": 0, "reports": [], "selected": [], "frames": {"t": [[1, 2]]}},
        {"type": "payload_types", "number": 0, "codecs": {"x": "vp8"}, "kinds": {}},
        {"type": "participant", "name": "bob"},
    ],
)
def test_reports_that_no_page_makes_are_refused(report: dict[str, Any]) -> None:
    lab = Laboratory()
    with pytest.raises(ValidationError):
        lab.say("alice", **report)


def test_a_page_cannot_report_of_connections_that_it_did_not_make() -> None:
    lab = Laboratory()
    lab.connect("bob", 0, at("bob", 2000), at("alice", 1000), receives=[1])
    with pytest.raises(LookupError):
        lab.say("alice", type="event", number=0, event="first_frame")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bytesReceived", "abc"),
        ("bytesReceived", 2**60),
        ("bytesReceived", [1]),
        ("mimeType", {"a": 1}),
        ("jitter", True),
    ],
)
def test_a_report_with_values_that_no_browser_gives_is_refused(name: str, value: object) -> None:
    report = {"type": "inbound-rtp", "ssrc": 1, "kind": "video", "bytesReceived": 5}
    assert checked(report)["bytesReceived"] == 5
    with pytest.raises(ReportRefused):
        checked({**report, name: value})


def test_a_page_that_reports_too_much_is_bounded(tmp_path: Path) -> None:
    taken: list[user_page.Report] = []

    async def flood() -> int:
        page = user_page.UserPage(
            "alice",
            UserPageSettings("page.html"),
            lambda page: FirefoxDriver("alice", tmp_path, page),
            spawn=lambda command, **options: subprocess.Popen(command, **options),
            home=tmp_path,
            out=tmp_path,
            report=taken.append,
            event=lambda event, detail: None,
            fail=lambda reason: None,
            sleep_until=lambda at_ns: asyncio.sleep(0),
        )
        frames = {track: [[None, None, None, None, 0, 0, None, None]] * 500 for track in "ab"}
        stats = {"type": "stats", "number": 0, "reports": [], "selected": [], "frames": frames}
        for _ in range(40):
            page.on_report(json.dumps({**stats, "at_ms": time.time() * 1e3}))
        return page.refused

    refused = asyncio.run(flood())
    assert len(taken) + refused == 40
    assert 10 <= len(taken) <= 30, "bursts of 10,000 rows, and what is earned meanwhile"


def test_what_passed_the_checks_fits_the_tables_of_the_trace() -> None:
    lab = Laboratory()
    lab.connect("alice", 0, at("alice", 1000), at("bob", 2000), sends=[1], receives=[2])
    lab.recorder.add_event(0, "alice", "console_error", detail="\ud800 \x1b]0;title")
    for name in lab.recorder.rows:
        lab.recorder.table(name)
    assert lab.recorder.rows["events"][-1]["detail"] == "? ?]0;title"


def test_a_page_cannot_take_the_other_end_of_a_connection_of_others() -> None:
    lab = Laboratory()
    # carol claims alice's address and streams, and is asked first.
    lab.connect("carol", 0, at("alice", 1000), at("bob", 2000), sends=[1], receives=[2])
    lab.connect("carol", 1, at("carol", 3000), at("bob", 2000), sends=[1], receives=[2])
    lab.connect("bob", 0, at("bob", 2000), at("alice", 1000), sends=[2], receives=[1])
    lab.connect("alice", 0, at("alice", 1000), at("bob", 2000), sends=[1], receives=[2])
    lab.flows()
    flows = {(row["participant"], row["flow"]) for row in lab.recorder.rows["inbound_rtp"]}
    assert {("bob", "alice->bob"), ("alice", "bob->alice")} <= flows
    assert ("bob", "carol->bob") not in flows


@pytest.mark.parametrize("ssrc", [2**60, "1", True, None])
def test_a_stream_needs_an_ssrc(ssrc: object) -> None:
    with pytest.raises(ReportRefused):
        checked({"type": "inbound-rtp", "kind": "video", "ssrc": ssrc})
