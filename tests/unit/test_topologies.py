"""Calls over relays, forwarders and trees, and several at once, in the simulator."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from scenario_text import scenario

from rtclab.backend.sim import SimBackend
from rtclab.metrics.setup import setup_ice
from rtclab.trace import Trace

AUDIO = """
[audio]
[congestion_control]
name = "fixed"
"""
AUDIO_BYTES = 28 + 24 + 80 + 10
"""IP and UDP, RTP with two extensions, 20 ms of 32 kbit/s, SRTP tag."""
TWO_LEGS = """
[servers.turn]
[link]
up = { capacity = "1 Mbit/s", delay = "25 ms" }
down = { delay = "25 ms" }
"""


def simulate(tmp_path: Path, text: str, *changes: str) -> Trace:
    loaded = scenario(tmp_path, text, *changes)
    backend = SimBackend()
    backend.check(loaded)
    return backend.run(loaded, seed=1, repeat=0, out=tmp_path / f"trace-{len(list(tmp_path.iterdir()))}")


def audio(trace: Trace, flow: str) -> pl.DataFrame:
    return trace.table("packets").filter((pl.col("flow") == flow) & (pl.col("kind") == "audio"))


def test_a_relayed_packet_is_one_row_with_both_legs_and_the_channel_header(tmp_path: Path) -> None:
    only_audio = ("duration=5 s", "video=false")
    direct = simulate(tmp_path, TWO_LEGS + AUDIO, *only_audio)
    relayed = simulate(tmp_path, TWO_LEGS + AUDIO + "[[calls]]\nrelay = 'turn'", *only_audio)
    for trace, header_bytes in ((direct, 0), (relayed, 4)):
        packets = audio(trace, "alice->bob").drop_nulls("delivered_ns")
        assert packets["size_bytes"].unique().to_list() == [AUDIO_BYTES + header_bytes]
        assert packets["seq"].is_unique().all()
        # Two delays of 25 ms and one serialisation at 1 Mbit/s, 8 us a byte.
        delay_ns = packets["delivered_ns"] - packets["sent_ns"]
        assert delay_ns.min() == 50_000_000 + 8_000 * (AUDIO_BYTES + header_bytes)
    assert relayed.manifest["flows"]["alice->bob"]["paths"] == [
        "alice.up",
        "turn.down",
        "turn.up",
        "bob.down",
    ]
    # Three exchanges of 148 B with the relay, 25 ms each way; a check then waits 50 ms at most.
    exchanges_ms = 3 * (2 * 25 + 148 * 8e-3)
    longer_ms = setup_ice(relayed, "bob->alice") - setup_ice(direct, "bob->alice")
    assert exchanges_ms - 50 <= longer_ms <= exchanges_ms + 50


@pytest.mark.parametrize(("node", "path"), [("alice", "alice.up"), ("bob", "bob.down")])
def test_a_packet_lost_on_either_leg_names_the_path(tmp_path: Path, node: str, path: str) -> None:
    way = path.partition(".")[2]
    text = f"{AUDIO}\n[participants.{node}.link]\n{way} = {{ loss = '20 %' }}\n[[calls]]\nrelay = 'core'"
    trace = simulate(tmp_path, text, "duration=20 s", "video=false")
    packets = audio(trace, "alice->bob")
    dropped = packets.filter(pl.col("dropped_ns").is_not_null())
    assert dropped["drop_path"].unique().to_list() == [path]
    # 20 % of about 970 packets, within four standard deviations.
    assert 0.15 < dropped.height / packets.height < 0.25


def test_a_bottleneck_can_stand_on_one_leg(tmp_path: Path) -> None:
    text = (
        "[servers.turn]\n[bottlenecks.pipe]\nroutes = ['*->turn']\ndelay = '7 ms'\n[[calls]]\nrelay = 'turn'"
    )
    trace = simulate(tmp_path, AUDIO + text, "duration=2 s", "video=false")
    packets = audio(trace, "alice->bob").drop_nulls("delivered_ns")
    assert (packets["delivered_ns"] - packets["sent_ns"]).unique().to_list() == [7_000_000]


def test_parallel_calls_of_one_pair_are_flows_of_their_own(tmp_path: Path) -> None:
    text = "[[calls]]\nend = '8 s'\n[[calls]]\nstart = '4 s'"
    trace = simulate(tmp_path, AUDIO + text, "duration=10 s", "video=false")
    assert list(trace.manifest["flows"]) == ["alice->bob", "bob->alice", "alice->bob#2", "bob->alice#2"]
    first, second = audio(trace, "alice->bob"), audio(trace, "alice->bob#2")
    # A packet each 20 ms from the end of set-up, which takes no time here, to the end.
    assert (first.height, second.height) == (pytest.approx(400, abs=4), pytest.approx(300, abs=4))
    assert first["sent_ns"].max() < 8e9
    assert second["sent_ns"].min() >= 4e9
    assert set(first["ssrc"]).isdisjoint(second["ssrc"])
    received = trace.table("inbound_rtp").group_by("flow").agg(pl.col("packetsReceived").max()).rows()
    assert dict(received)["alice->bob#2"] == pytest.approx(300, abs=55)
