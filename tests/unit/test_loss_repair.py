"""Loss repair, from a scenario to metrics."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from rtclab.backend.sim import SimBackend
from rtclab.errors import ScenarioError
from rtclab.metrics import loss
from rtclab.scenario import Scenario
from rtclab.trace import Trace

FLOW = "alice->bob"


def run(out: Path, *changes: str) -> Trace:
    # With 1 Mbit/s and 25 ms each way, the round-trip time is above the 20 ms from which FEC is sent.
    all_changes = ["duration=60 s", "link.up.loss=5 %", *changes]
    return SimBackend().run(Scenario.load("first-call", all_changes), seed=1, repeat=0, out=out)


def test_hybrid_repair_sends_fec_under_the_ssrc_of_the_media(tmp_path: Path) -> None:
    trace = run(tmp_path / "run", "video.repair=hybrid-2013")
    packets = trace.table("packets").filter(
        pl.col("flow") == FLOW, pl.col("kind").is_in(["video", "rtx", "fec"])
    )
    assert packets["ssrc"].n_unique() == 1
    assert set(packets["payload_type"]) == {116}  # RED
    first = packets.filter(pl.col("kind") != "rtx")
    assert first["seq"].n_unique() == first.height
    # At least 20 %. At 5 % of loss and below 1 Mbit/s the table asks for at most 38 of 255.
    assert 0.15 < (first["kind"] == "fec").mean() < 0.35
    last = trace.table("inbound_rtp").filter(pl.col("flow") == FLOW, pl.col("kind") == "video")[-1]
    assert 0 < last["fecPacketsDiscarded"][0] < last["fecPacketsReceived"][0]
    assert last["packetsRepaired"][0] > 0


def test_packet_loss_unseen_loss_and_residual_loss_differ_for_the_right_reason(tmp_path: Path) -> None:
    # Without padding, which would repeat packets and count as retransmissions.
    trace = run(tmp_path / "run", "video.repair=hybrid-2013", "congestion_control.name=rrtcc-2013")
    # The sd of 5 % of 3000 packets is 0.4 %. A fifth of them are FEC, which is never retransmitted.
    assert 3.5 < loss.packet_loss(trace, FLOW) < 6.5
    assert 0.5 < loss.unseen_loss(trace, FLOW) < loss.packet_loss(trace, FLOW)
    assert 0 <= loss.residual_loss(trace, FLOW) < 0.3


def test_getstats_counts_the_payload_of_media_retransmissions_and_fec_that_arrived() -> None:
    changes = ["duration=10 s", "link.up.loss=5 %"]
    trace = SimBackend().simulate(Scenario.load("first-call", changes), seed=1, repeat=0)
    last = trace.table("inbound_rtp").filter(flow=FLOW).sort("at_ns").row(-1, named=True)
    arrived = trace.table("packets").filter(pl.col("delivered_ns") <= last["at_ns"], flow=FLOW)
    again, fec = last["retransmittedBytesReceived"], last["fecBytesReceived"]
    payloads = {"video": last["bytesReceived"] - again - fec, "rtx": again, "fec": fec}
    for kind, payload_bytes in payloads.items():
        sizes = arrived.filter(kind=kind)["size_bytes"]
        assert sizes.len() > 10
        # IP 20 B, UDP 8, RTP 12, its extensions 12 and the tag of SRTP 10.
        assert payload_bytes == sizes.sum() - 62 * sizes.len(), kind


def test_auto_is_the_repair_of_the_time_of_the_congestion_control(tmp_path: Path) -> None:
    types = {}
    for name in ("rrtcc-2013", "gcc-2016"):
        trace = run(tmp_path / name, f"congestion_control.name={name}")
        types[name] = set(trace.table("packets").filter(kind="rtx")["payload_type"])
    assert types == {"rrtcc-2013": {116}, "gcc-2016": {97}}


def test_the_error_for_an_unknown_repair_lists_the_known_ones() -> None:
    with pytest.raises(ScenarioError, match=r"video\.repair.*hybrid-2013"):
        Scenario.load("first-call", ["video.repair=flexfec"])
