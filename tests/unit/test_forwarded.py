"""Flows that a server forwards: their delays and paths are of the media, from sender to receiver."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import rtclab
from rtclab.estimate import Estimate, call_of, estimate
from rtclab.metrics import METRICS
from rtclab.scenario import Scenario
from rtclab.trace import Trace

MEETING = """
name = "meeting"
duration = "30 s"
[video]
[audio]
[participants.anna]
[participants.ben]
[participants.erin.link]
up = { capacity = "384 kbit/s", delay = "75 ms", queue = "1 s" }
down = { capacity = "1 Mbit/s", delay = "75 ms", queue = "500 ms" }
[link]
up = { capacity = "10 Mbit/s", delay = "15 ms", queue = "300 ms" }
down = { capacity = "20 Mbit/s", delay = "15 ms", queue = "300 ms" }
[servers.sfu]
kind = "str0m"
[[calls]]
kind = "sfu"
server = "sfu"
"""
"""Erin receives two videos of 1.7 Mbit/s over 1 Mbit/s: her queue is always full. Both begin at one time, so
the first packets of each find it empty; over Janus one begins later."""


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    file = tmp_path_factory.mktemp("forwarded") / "meeting.toml"
    file.write_text(MEETING)
    return rtclab.simulate(Scenario.load(file))


def test_no_delay_of_a_forwarded_flow_is_of_the_servers_own_packets(trace: Trace) -> None:
    # Both links of 15 ms, and the transmission of a packet of 100 to 1228 B at 10 and at 20 Mbit/s.
    flow = "anna->ben"
    packets = trace.table("packets").filter(flow=flow)
    assert (packets["delivered_ns"] - packets["sent_ns"]).min() < 20_000_000  # the server's own
    least_ms = trace.table("delay_histogram").filter(flow=flow)["one_way_delay_ms"].min()
    assert isinstance(least_ms, float)
    assert 30.0 <= least_ms <= 30.2
    counted = trace.table("delay_histogram").filter(flow=flow)["packets"].sum()
    first = packets.filter(pl.col("kind").is_in(["video", "audio", "fec"])).drop_nulls("delivered_ns")
    assert counted == first.filter(pl.col("delivered_ns") < 30 * 10**9).height


@pytest.mark.parametrize("metric", ["delay_variation_p50", "delay_variation_p95", "queuing_delay_p95"])
def test_a_window_of_the_whole_call_has_the_delays_of_the_whole_call(trace: Trace, metric: str) -> None:
    for flow in ("anna->ben", "anna->erin", "erin->anna", "anna->sfu"):
        whole, window = (METRICS[metric].function(trace.within(span), flow) for span in (None, (0.0, 30.0)))
        assert window == pytest.approx(whole, abs=0.2)  # bins of 0.1 ms
    # Packets of one size on idle links: half of a frame's packets wait for the others, 1 ms each.
    assert METRICS["delay_variation_p50"].function(trace, "anna->ben") < 10


def made_from(trace: Trace, flow: str) -> Estimate:
    return estimate(call_of(trace, flow))


def test_the_path_of_a_forwarded_flow_is_the_way_through_the_server(trace: Trace) -> None:
    made = made_from(trace, "anna->ben")
    found = {(one.of, one.name): one for one in made.findings}
    for flow in ("anna->ben", "ben->anna"):
        assert found[flow, "delay"].value == pytest.approx(30, abs=0.5)
        assert found[flow, "jitter"].value == 0
    assert any("anna->ben went through a server" in note for note in made.call.notes)


def test_a_full_queue_that_several_flows_share_is_no_random_loss(trace: Trace) -> None:
    made = made_from(trace, "anna->erin")
    found = {(one.of, one.name): one for one in made.findings}
    lost = METRICS["packet_loss"].function(trace, "anna->erin")
    assert lost > 50
    # At most a tenth of it is taken for random loss.
    assert found["anna->erin", "loss"].value == pytest.approx(0, abs=5)
    assert found["anna->erin", "queue"].grade == "measured"
    assert found["anna->erin", "queue"].value == pytest.approx(500, rel=0.05)
    assert found["anna->erin", "capacity"].value == pytest.approx(1000, rel=0.03)
    assert found["anna->erin", "delay"].value == pytest.approx(90, abs=1)
    (shared,) = (note for note in made.call.notes if "narrowest path of anna->erin" in note)
    assert shared.startswith("2 other flows")  # ben->erin, and the server's to erin
    # The way to the server has packets that the server does not forward, and they use its capacity.
    assert found["erin->anna", "capacity"].value == pytest.approx(384, rel=0.05)


def test_a_flow_without_server_has_no_note_about_one(tmp_path: Path) -> None:
    made = estimate(call_of(rtclab.simulate(Scenario.load("first-call", ["duration=10 s"]))))
    assert not made.call.notes
