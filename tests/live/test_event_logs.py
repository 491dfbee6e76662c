"""The browsers' event logs of a live call against the emulator's capture of it, packet by packet.

``RTCLAB_LIVE_TRACE`` names the directory of a recorded trace to check instead of one of a new call.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import polars as pl
import pytest
from live_tests import RECORDED
from parts import CALL

from rtclab import Trace, monitoring
from rtclab.backend.sim import SimBackend
from rtclab.importers.logs import open_log
from rtclab.importers.logs.event_log import EventLog, read_event_log
from rtclab.importers.logs.event_packets import received_packets, sent_packets
from rtclab.importers.logs.live import log_name
from rtclab.metrics.accounts.limits import course_of
from rtclab.metrics.accounts.losses import lost_packets
from rtclab.metrics.accounts.waits import STAGES, waits_of
from rtclab.metrics.series import span_ns
from rtclab.scenario import Scenario
from rtclab.trace import NS_PER_MS

sys.path.append(str(Path(__file__).parents[1] / "unit"))
from known_metrics import said_to_be_known, with_values

pytestmark = [pytest.mark.live, pytest.mark.measures, pytest.mark.needs(*CALL)]

PACKET = ["ssrc", "seq", "rtp_timestamp"]
FEWEST = 500
"""Minimum number of packets. The call has more than 1,000; a browser without enough CPU time sends fewer."""
STILL_ON_THEIR_WAY = 20
"""Maximum number of packets that were sent before the end and neither arrived nor were dropped."""
CLOCKS_MS = 1.0
"""Resolution of the difference between monotonic and wall clock in the beginning of a log."""


@pytest.fixture(scope="module")
def call(request: pytest.FixtureRequest) -> Trace:
    """Fifteen seconds of a call that loses packets."""
    if kept := os.environ.get("RTCLAB_LIVE_TRACE"):
        return Trace(Path(kept))
    trace: Trace = request.getfixturevalue("recorded").trace
    return trace


@pytest.fixture(scope="module")
def captured(call: Trace) -> pl.DataFrame:
    """The first appearance of each RTP packet on its way in and out, on the wall clock."""
    packets = monitoring.monitor(call.path / "capture.pcapng", packets=True)["packets"]
    rtp = packets.filter(pl.col("protocol") == "rtp").sort("at_ns", maintain_order=True)
    ways = {
        way: rtp.filter(pl.col("direction") == way).unique(PACKET, keep="first", maintain_order=True)
        for way in ("inbound", "outbound")
    }
    left = ways["outbound"].select(*PACKET, left_ns="at_ns")
    entered = ways["inbound"].select(*PACKET, "size_bytes", entered_ns="at_ns")
    return entered.join(left, on=PACKET, how="left", maintain_order="left")


def log_of(call: Trace, participant: str, peer: str) -> EventLog:
    return read_event_log(call.path / log_name(f"{participant}->{peer}"))


def on_the_wall_clock(log: EventLog, column: str) -> pl.Expr:
    return pl.col(column) + log.utc_offset_ms * NS_PER_MS


def difference_ms(rows: pl.DataFrame, a: pl.Expr, b: str) -> pl.Series:
    return rows.select(difference=(a - pl.col(b)) / NS_PER_MS).to_series().drop_nulls()


ENDS = [("alice", "bob"), ("bob", "alice")]


@pytest.mark.parametrize(("participant", "peer"), ENDS)
def test_every_packet_sent_is_in_the_capture_with_its_size(
    call: Trace, captured: pl.DataFrame, participant: str, peer: str
) -> None:
    log = log_of(call, participant, peer)
    assert log.notes == ()
    sent = sent_packets(log)
    assert sent.height >= FEWEST
    both = sent.join(captured, on=PACKET, how="left", suffix="_on_wire", maintain_order="left")
    assert both["size_bytes_on_wire"].null_count() == 0
    assert (both["size_bytes"] == both["size_bytes_on_wire"]).all()
    # Nothing is missing until the log's last write.
    until_ns = int(sent["logged_ns"].max()) + log.utc_offset_ms * NS_PER_MS - 10 * NS_PER_MS
    own = captured.filter(
        pl.col("ssrc").is_in(sent["ssrc"].unique().to_list()), pl.col("entered_ns") < until_ns
    )
    assert own.join(sent, on=PACKET, how="anti").is_empty()


@pytest.mark.parametrize(("participant", "peer"), ENDS)
def test_packets_are_sent_and_arrive_when_the_capture_says(
    call: Trace, captured: pl.DataFrame, participant: str, peer: str
) -> None:
    log = log_of(call, participant, peer)
    both = sent_packets(log).join(captured, on=PACKET, maintain_order="left")
    # A packet is stamped 0.1 to 0.6 ms before it enters the emulator; on a busy machine only some are.
    early = difference_ms(both, on_the_wall_clock(log, "sent_ns"), "entered_ns")
    assert -0.6 - CLOCKS_MS < early.quantile(0.9) < CLOCKS_MS
    late = difference_ms(both, on_the_wall_clock(log, "delivered_ns"), "left_ns")
    assert -CLOCKS_MS < late.quantile(0.1) < 0.6 + CLOCKS_MS
    lost = both.filter(pl.col("dropped_ns").is_not_null())
    assert lost["left_ns"].null_count() == lost.height


@pytest.mark.parametrize(("participant", "peer"), ENDS)
def test_every_packet_received_left_the_emulator(
    call: Trace, captured: pl.DataFrame, participant: str, peer: str
) -> None:
    log = log_of(call, participant, peer)
    received = received_packets(log)
    both = received.join(captured, on=PACKET, how="left", maintain_order="left")
    assert received.height >= FEWEST
    assert both["left_ns"].null_count() == 0
    late = difference_ms(both, on_the_wall_clock(log, "delivered_ns"), "left_ns")
    assert -CLOCKS_MS < late.quantile(0.1) < 0.6 + CLOCKS_MS


def test_the_logs_of_both_ends_lose_the_packets_that_the_emulator_dropped(call: Trace) -> None:
    imported = open_log(*(call.path / log_name("->".join(end)) for end in ENDS))
    key = ["flow", *PACKET]
    truth = call.table("packets").filter(pl.col("protocol") == "rtp").unique(key, keep="first")
    both = imported.tables["packets"].join(truth, on=key, suffix="_in_emulator")
    lost, dropped = (both[name].is_not_null() for name in ("dropped_ns", "dropped_ns_in_emulator"))
    wrong = (lost != dropped).sum()
    # Packets on their way when the logs end are lost in neither.
    assert dropped.sum() > 0 or wrong == 0
    assert wrong <= 0.02 * max(50, int(dropped.sum()))


def test_the_trace_has_the_target_that_getstats_reports(call: Trace) -> None:
    rows = call.table("controller").sort("at_ns", maintain_order=True)
    for flow in ("alice->bob", "bob->alice"):
        known = rows.filter(pl.col("flow") == flow)
        logged, told = (
            known.filter(pl.col("name") == name).select("at_ns", pl.col("value").alias(name))
            for name in ("target_bps", "available_outgoing_bitrate_bps")
        )
        if logged.is_empty():
            pytest.skip("a trace of before logs were in its table `controller`")
        both = told.join_asof(logged, on="at_ns").drop_nulls()
        # Both have the same number; between the two times it may have changed.
        same = (both["available_outgoing_bitrate_bps"] / both["target_bps"] - 1).abs() < 0.001
        assert same.mean() > 0.9


BROWSER = {"cpu", "memory"}
HIDDEN_BY_RED = {
    "live": {"goodput"},
    "capture": {"goodput", "fec_share"},
    "event log": {"goodput", "fec_share"},
}
"""What RED hides, because payloads are encrypted. Only the emulator tells FEC from media by headers."""


def test_a_live_call_its_capture_and_its_logs_have_the_metrics_they_are_said_to_know(
    call: Trace,
) -> None:
    simulated = SimBackend().simulate(Scenario.load("first-call", list(RECORDED)), seed=1, repeat=0)
    # The call has neither audio nor TCP.
    possible = with_values([simulated]) | BROWSER
    logs = open_log(*(call.path / log_name("->".join(end)) for end in ENDS))
    traces = {
        "live": call,
        "capture": Trace.from_pcap(call.path / "capture.pcapng"),
        "event log": Trace.in_memory(logs.tables, logs.manifest),
    }
    for source, trace in traces.items():
        known = said_to_be_known(source) & possible - HIDDEN_BY_RED[source]
        assert with_values([trace]) == known, source


def test_queuing_delay_is_below_the_variation_of_the_delay_by_serialisation_alone(call: Trace) -> None:
    # 60 to 1200 B at 1 Mbit/s on the uplink and again on the downlink: at most 2 x 9.6 ms.
    packets = call.table("packets").drop_nulls("queued_ns")
    assert packets.height > FEWEST
    rest_ms = (packets["delivered_ns"] - packets["sent_ns"] - packets["queued_ns"]) / NS_PER_MS
    exact_ms = 50 + 2 * packets["size_bytes"] * 8 / 1000
    assert (rest_ms - exact_ms).abs().max() < 0.001


def test_a_live_call_explains_itself(call: Trace) -> None:
    """Its accounts add up as simulated ones do, from the values of the browser's own congestion control."""
    for flow in ("alice->bob", "bob->alice"):
        course = course_of(call, flow)
        assert course is not None
        assert course.grade == "known"
        assert sum(course.shares(span_ns(call, flow)).values()) == pytest.approx(1)
        lost = lost_packets(call, flow)
        dropped = call.table("packets").filter(pl.col("flow") == flow)["drop_cause"].drop_nulls()
        assert len(dropped) <= lost.sent_ns.size <= len(dropped) + STILL_ON_THEIR_WAY
        rows = waits_of(call, flow)
        whole = rows.select(pl.sum_horizontal(f"{stage}_ns" for stage in STAGES)).to_series()
        assert rows.height > call.table("frames").filter(pl.col("flow") == flow).height / 2
        assert (whole == rows["rendered_ns"] - rows["captured_ns"]).all()
    lossy = lost_packets(call, "alice->bob")
    assert set(lossy.cause[lossy.path != ""]) <= {"random", "burst", "queue", "outage"}
