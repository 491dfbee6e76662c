"""The emulator's log with the monitor's description of the packets in its capture."""

from __future__ import annotations

import struct
from pathlib import Path

import polars as pl
import pytest
from captures import BEGIN_NS, IP_AND_UDP_BYTES, MS, RTP_BYTES, rtp, udp
from test_live_trace_writer import of_the_call, summary

from rtclab.backend.live.records.capture_and_log import (
    SEEN,
    join_descriptions,
    packets_entering,
    read_capture,
)
from rtclab.backend.live.records.trace_writer import packet_log, packets_table

NODES = {"10.0.0.1": "alice", "10.0.0.2": "bob"}
SIZE = 160 + RTP_BYTES + IP_AND_UDP_BYTES
IN, OUT = 1, 2


def block(kind: int, body: bytes) -> bytes:
    length = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + length + body + length


def write_pcapng(path: Path, frames: list[tuple[int, int, bytes]]) -> Path:
    """Writes a pcapng file of one interface, from time, direction and content of every frame."""
    section = struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)
    interface = struct.pack("<HHI", 1, 0, 0) + struct.pack("<HHB3xHH", 9, 1, 9, 0, 0)
    content = block(0x0A0D0D0A, section) + block(1, interface)
    for at_ns, direction, frame in frames:
        at = BEGIN_NS + at_ns
        body = struct.pack("<IIIII", 0, at >> 32, at & 0xFFFFFFFF, len(frame), len(frame))
        body += frame + bytes(-len(frame) % 4) + struct.pack("<HHIHH", 2, 4, direction, 0, 0)
        content += block(6, body)
    path.write_bytes(content)
    return path


@pytest.fixture
def seen(tmp_path: Path) -> pl.DataFrame:
    """Three speech packets that entered at 5, 25 and 45 ms, and the first as it left; zero is at 2 ms."""
    frames = [(5 + 20 * index, IN, udp(rtp(7 + index, 160 * index))) for index in range(3)]
    frames.append((55, OUT, frames[0][2]))
    capture = write_pcapng(tmp_path / "a.pcapng", [(at * MS, way, frame) for at, way, frame in frames])
    return packets_entering(read_capture(capture), NODES, BEGIN_NS + 2 * MS)


def log(*sent_ms: int) -> pl.DataFrame:
    """The emulator's log of packets from alice to bob, all of unknown protocol."""
    rows = len(sent_ms)
    return packet_log(
        summary(
            **{"from": [0] * rows, "to": [1] * rows},
            sent_ns=[at * MS for at in sent_ms],
            size_bytes=[SIZE] * rows,
            protocol=[4] * rows,
        )
    )


def test_packets_that_entered_have_times_of_the_run_and_names_of_nodes(seen: pl.DataFrame) -> None:
    assert seen.select("from", "to", "sent_ns", "size_bytes", "seq").rows() == [
        ("alice", "bob", 3 * MS, SIZE, 7),
        ("alice", "bob", 23 * MS, SIZE, 8),
        ("alice", "bob", 43 * MS, SIZE, 9),
    ]


def test_a_logged_packet_is_described_by_the_captured_one_of_the_same_time(seen: pl.DataFrame) -> None:
    table = join_descriptions(log(3, 23, 43), seen)
    assert table.select("protocol", "ssrc", "payload_type", "seq").rows() == [
        ("rtp", 0x1234, 0, seq) for seq in (7, 8, 9)
    ]
    assert table.columns == [*log(3).columns, "from_port", "to_port"]


def test_a_packet_missing_from_the_capture_keeps_the_description_of_the_log(seen: pl.DataFrame) -> None:
    table = join_descriptions(log(3, 4), seen)
    assert table["protocol"].to_list() == ["rtp", "other"]
    assert table["seq"].to_list() == [7, None]


def test_packets_that_enter_at_the_same_time_are_distinguished_by_their_order(seen: pl.DataFrame) -> None:
    at_once = seen.with_columns(sent_ns=pl.lit(3 * MS))
    assert join_descriptions(log(3, 3, 3), at_once)["seq"].to_list() == [7, 8, 9]


def test_kinds_from_a_session_description_take_precedence_over_inferred_ones(seen: pl.DataFrame) -> None:
    inferred = join_descriptions(log(3, 23), seen)
    assert packets_table(of_the_call(inferred), ["alice->bob"], {}, 10**9)["kind"].to_list() == ["audio"] * 2
    said = packets_table(of_the_call(inferred), ["alice->bob"], {("alice->bob", 0): "rtx"}, 10**9)
    assert said["kind"].to_list() == ["rtx"] * 2
    assert set(SEEN) - {"content_bytes", "ecn"} <= set(said.columns)
