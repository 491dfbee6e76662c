"""Which flow a packet belongs to that the emulator carried, and the two legs of a relayed one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
from scenario_text import scenario

from rtclab.backend.live.connections import PAGE_CALL, Endpoint, LiveConnection, PortFlows, live_connections
from rtclab.backend.live.records.packet_flows import FlowKeys, assign_flows, join_relay_legs

ALICE, BOB = 50_000, 60_000
TURN = 3478
MS = 10**6
COLUMNS = {
    "from": pl.String,
    "from_port": pl.Int64,
    "to": pl.String,
    "to_port": pl.Int64,
    "protocol": pl.String,
    "ssrc": pl.Int64,
    "seq": pl.Int64,
    "sent_ns": pl.Int64,
    "delivered_ns": pl.Int64,
    "queued_ns": pl.Int64,
    "dropped_ns": pl.Int64,
    "drop_path": pl.String,
    "drop_cause": pl.String,
    "ecn": pl.String,
    "mark_path": pl.String,
    "mark_cause": pl.String,
    "written_ns": pl.Int64,
    "payload_type": pl.Int64,
    "size_bytes": pl.Int64,
    "content_bytes": pl.Int64,
    "logged": pl.List(pl.Int64),
}


def connections(tmp_path: Path, text: str) -> dict[int, LiveConnection]:
    return {one.number: one for one in live_connections(scenario(tmp_path, text))}


def packets(*rows: dict[str, Any]) -> pl.DataFrame:
    """Packets of 100 bytes that were delivered 20 ms after they were sent."""
    usual = {"protocol": "rtp", "size_bytes": 100, "content_bytes": 68}
    full = [
        {"delivered_ns": None if "dropped_ns" in row else row["sent_ns"] + 20 * MS} | usual | row
        for row in rows
    ]
    return pl.DataFrame([{"logged": [nth]} | row for nth, row in enumerate(full)], schema=COLUMNS)


def between(source: tuple[str, int], destination: tuple[str, int], at_ms: int, **more: Any) -> dict[str, Any]:
    ends = {"from": source[0], "from_port": source[1], "to": destination[0], "to_port": destination[1]}
    return ends | {"sent_ns": at_ms * MS} | more


def flows(found: pl.DataFrame) -> list[str]:
    return found["flow"].to_list()


def test_of_two_calls_between_the_same_people_a_packet_belongs_to_the_one_that_uses_its_port(
    tmp_path: Path,
) -> None:
    made = connections(tmp_path, "[[calls]]\n[[calls]]")
    ends = {Endpoint("10.77.0.2", ALICE, 0), Endpoint("10.77.0.2", ALICE + 1, 1)}
    known = FlowKeys(made, ends, {"10.77.0.2": "alice"}, {}, {})
    seen = packets(
        between(("alice", ALICE), ("bob", BOB), 0),
        between(("alice", ALICE + 1), ("bob", BOB + 1), 1),
        between(("bob", BOB + 1), ("alice", ALICE + 1), 2),
    )
    assert flows(join_relay_legs(assign_flows(seen, known))) == ["alice->bob", "alice->bob#2", "bob->alice#2"]


def test_without_ports_a_stream_identifies_the_connection_of_all_packets_between_the_same_ends(
    tmp_path: Path,
) -> None:
    made = connections(tmp_path, "[[calls]]\n[[calls]]")
    known = FlowKeys(made, set(), {}, {7: "alice->bob#2"}, {})
    seen = packets(
        between(("alice", ALICE), ("bob", BOB), 0, ssrc=7),
        between(("bob", BOB), ("alice", ALICE), 1, protocol="stun"),
        between(("alice", 1), ("bob", 2), 2, protocol="stun"),
    )
    # The third could belong to either call.
    assert flows(join_relay_legs(assign_flows(seen, known))) == ["alice->bob#2", "bob->alice#2"]


def test_signalling_belongs_to_no_flow_and_traffic_to_the_flow_of_its_port(tmp_path: Path) -> None:
    made = connections(tmp_path, "[[calls]]\nrelay = 'core'")
    port_flows = {("core", 443): PortFlows(), ("bob", 20_000): PortFlows("download", "download acks", "tcp")}
    known = FlowKeys(made, set(), {}, {}, port_flows)
    seen = packets(
        between(("alice", 33_000), ("core", 443), 0, protocol="other"),
        between(("alice", 33_001), ("bob", 20_000), 1, protocol="other"),
        between(("bob", 20_000), ("alice", 33_001), 2, protocol="other"),
    )
    found = join_relay_legs(assign_flows(seen, known))
    assert found.select("flow", "protocol").rows() == [("download", "tcp"), ("download acks", "tcp")]


def test_what_a_server_of_ones_own_does_besides_the_call_belongs_to_no_flow(tmp_path: Path) -> None:
    ours = connections(tmp_path, "[[calls]]")[0]
    one = replace(ours, a="alice", b="sfu", flows=("alice->sfu", "sfu->alice"), server=PAGE_CALL)
    known = FlowKeys({0: one}, {Endpoint("10.77.0.2", ALICE, 0)}, {"10.77.0.2": "alice"}, {}, {})
    seen = packets(
        between(("alice", ALICE), ("sfu", 7882), 0, protocol="stun"),
        between(("sfu", 7882), ("alice", ALICE), 1, protocol="dtls"),
        between(("alice", 33_000), ("sfu", 443), 2, protocol="other"),
    )
    assert flows(join_relay_legs(assign_flows(seen, known))) == ["alice->sfu", "sfu->alice"]


def test_a_relayed_packet_is_one_row_with_the_fate_that_it_met_on_either_leg(tmp_path: Path) -> None:
    made = connections(tmp_path, "[[calls]]\nrelay = 'core'")
    up, down = (("alice", ALICE), ("core", TURN)), (("core", TURN), ("bob", BOB))
    lost = {"dropped_ns": 45 * MS, "drop_path": "bob.down", "drop_cause": "queue"}
    seen = packets(
        between(*up, 0, ssrc=7, seq=1, queued_ns=3 * MS),
        between(*up, 10, ssrc=7, seq=2, queued_ns=4 * MS),
        between(*up, 20, ssrc=7, seq=3, dropped_ns=21 * MS, drop_path="alice.up", drop_cause="loss"),
        between(*down, 25, ssrc=7, seq=1, queued_ns=5 * MS),
        between(*down, 35, ssrc=7, seq=2, **lost),
        # The relay answers a request of its own client.
        between(*up, 50, protocol="stun", size_bytes=120),
        between(("core", TURN), ("alice", ALICE), 75, protocol="stun", size_bytes=90),
    )
    found = join_relay_legs(assign_flows(seen, FlowKeys(made, set(), {}, {}, {})))
    # Of a packet that arrived, the time in the queues of both legs counts.
    assert found.select("flow", "sent_ns", "delivered_ns", "queued_ns", "drop_path").rows() == [
        ("alice->bob", 0, 45 * MS, 8 * MS, None),
        ("alice->bob", 10 * MS, None, None, "bob.down"),
        ("alice->bob", 20 * MS, None, None, "alice.up"),
    ]
    # Each has the rows of the log of the legs on which it was.
    assert found["logged"].to_list() == [[0, 3], [1, 4], [2]]


def test_a_relayed_packet_has_the_codepoint_of_its_sender_and_the_first_mark_on_either_leg(
    tmp_path: Path,
) -> None:
    made = connections(tmp_path, "[[calls]]\nrelay = 'core'")
    up, down = (("alice", ALICE), ("core", TURN)), (("core", TURN), ("bob", BOB))
    first = {"ecn": "ect1", "mark_path": "alice.up", "mark_cause": "threshold"}
    second = {"ecn": "not-ect", "mark_path": "bob.down", "mark_cause": "classic"}
    seen = packets(
        *(between(*up, 10 * n, ssrc=7, seq=n, ecn="ect1") for n in (1, 2)),
        *(between(*up, 10 * n, ssrc=7, seq=n, **first) for n in (3, 4, 5)),
        between(*down, 35, ssrc=7, seq=1, ecn="not-ect"),
        between(*down, 45, ssrc=7, seq=2, **second),
        between(*down, 55, ssrc=7, seq=3, **second),
        between(*down, 65, ssrc=7, seq=4, ecn="not-ect", dropped_ns=66 * MS, drop_cause="queue"),
    )
    found = join_relay_legs(assign_flows(seen, FlowKeys(made, set(), {}, {}, {})))
    # The fourth is dropped behind the relay, and the fifth never leaves it: neither arrives with a mark.
    assert found.select("seq", "ecn", "mark_path", "mark_cause").rows() == [
        (1, "ect1", None, None),
        (2, "ect1", "bob.down", "classic"),
        (3, "ect1", "alice.up", "threshold"),
        (4, "ect1", None, None),
        (5, "ect1", None, None),
    ]


def test_the_legs_of_a_relayed_packet_may_have_different_framing(tmp_path: Path) -> None:
    made = connections(tmp_path, "[[calls]]\nrelay = 'core'")
    seen = packets(
        between(("alice", ALICE), ("core", TURN), 0, ssrc=7, seq=1, size_bytes=104),
        between(("core", TURN), ("bob", BOB), 25, ssrc=7, seq=1, size_bytes=136),
    )
    found = join_relay_legs(assign_flows(seen, FlowKeys(made, set(), {}, {}, {})))
    assert found.select("sent_ns", "delivered_ns", "size_bytes").rows() == [(0, 45 * MS, 104)]


def test_a_relayed_packet_with_a_leg_over_tcp_has_the_row_of_the_leg_over_udp(
    tmp_path: Path,
) -> None:
    made = connections(tmp_path, "[[calls]]\nrelay = 'core'")
    alice, bob, turn = ("alice", ALICE), ("bob", BOB), ("core", TURN)
    seen = packets(
        between(alice, turn, 0, protocol="other"),
        between(turn, bob, 25, ssrc=7, seq=1),
        between(bob, turn, 30, ssrc=8, seq=1),
        between(turn, alice, 55, protocol="other"),
    )
    found = join_relay_legs(assign_flows(seen, FlowKeys(made, set(), {}, {}, {}, over_tcp={"alice"})))
    assert found.select("flow", "sent_ns", "delivered_ns").rows() == [
        ("alice->bob", 25 * MS, 45 * MS),
        ("bob->alice", 30 * MS, 50 * MS),
    ]


def test_a_packet_that_a_relay_does_not_pass_on_is_a_row_that_was_not_delivered(tmp_path: Path) -> None:
    made = connections(tmp_path, "[[calls]]\nrelay = 'core'")
    up, down = (("alice", ALICE), ("core", TURN)), (("core", TURN), ("bob", BOB))
    seen = packets(
        between(*up, 0, ssrc=7, seq=1, queued_ns=MS),
        between(*up, 10, ssrc=7, seq=2, queued_ns=MS),
        between(*down, 35, ssrc=7, seq=2, queued_ns=0),
    )
    found = join_relay_legs(assign_flows(seen, FlowKeys(made, set(), {}, {}, {})))
    expected = [(0, None, None), (10 * MS, 55 * MS, MS)]
    assert found.select("sent_ns", "delivered_ns", "queued_ns").rows() == expected
