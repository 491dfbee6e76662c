"""The table ``tcp`` of a live call, from what iperf3 and the senders of objects said."""

from __future__ import annotations

import pytest

from rtclab.backend.live.records.tcp_table import SEGMENT_BYTES, tcp_rows

S = 10**9


def interval(end_s: float, size: int, **more: int) -> dict[str, object]:
    return {"streams": [{"end": end_s, "bytes": size, **more}]}


def test_a_transfer_has_the_receivers_bytes_and_the_senders_state_once_a_second() -> None:
    sender = [
        interval(1.0, 9_000, snd_cwnd=10 * SEGMENT_BYTES, rtt=52_000, retransmits=0),
        interval(2.0, 9_000, snd_cwnd=20 * SEGMENT_BYTES, rtt=61_500, retransmits=3),
    ]
    receiver = [interval(1.0, 5_000), interval(2.0, 7_000)]
    said = {"sender": {"intervals": sender}, "receiver": {"intervals": receiver}}
    rows = list(tcp_rows({"name": "web", "flows": {"web.1": said}}, 4 * S, 0, 60 * S))
    assert [row["at_ns"] for row in rows] == [5 * S, 6 * S]
    assert [row["delivered_bytes"] for row in rows] == [5_000, 12_000]
    assert [row["retransmitted_segments"] for row in rows] == [0, 3]
    assert [row["cwnd_segments"] for row in rows] == [10, 20]
    assert [row["srtt_ms"] for row in rows] == pytest.approx([52.0, 61.5])


def test_udp_and_a_program_that_said_nothing_have_no_rows() -> None:
    udp = {"sender": {"intervals": [interval(1.0, 9_000)]}, "receiver": {"intervals": [interval(1.0, 9_000)]}}
    assert list(tcp_rows({"name": "udp", "flows": {"udp": udp}}, 0, 0, 60 * S)) == []
    silent: dict[str, dict[str, object]] = {"sender": {}, "receiver": {}}
    assert list(tcp_rows({"name": "web", "flows": {"web": silent}}, 0, 0, 60 * S)) == []


def test_objects_count_when_they_have_ended() -> None:
    began_ns = 1_000 * S
    objects = [
        {"source": 0, "bytes": 30_000, "began_ns": began_ns + S, "ended_ns": began_ns + 2 * S - 1},
        {"source": 0, "bytes": 50_000, "began_ns": began_ns + 2 * S, "ended_ns": began_ns + 3 * S + 1},
    ]
    rows = list(tcp_rows({"name": "web", "objects": objects}, S, began_ns, 4 * S))
    assert [(row["at_ns"] // S, row["objects"], row["delivered_bytes"]) for row in rows] == [
        (2, 1, 30_000),
        (3, 1, 30_000),
        (4, 2, 80_000),
    ]
