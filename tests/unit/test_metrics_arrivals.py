"""Metrics of arrivals and repair: by hand, and in a simulated call beside its capture."""

from __future__ import annotations

import warnings
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_run import report, second, trace

import rtclab
from rtclab import Trace
from rtclab.backend.sim import SimBackend
from rtclab.metrics import METRICS
from rtclab.metrics.arrivals import inter_arrival_cdf
from rtclab.scenario import Scenario

FLOW = "alice->bob"
SPAN = {FLOW: (0.0, 10.0)}
MS = 1_000_000


def packet(at_ms: float, **more: Any) -> dict[str, Any]:
    """An RTP packet of video that arrives 10 ms after it was sent."""
    sent_ns = round(at_ms * MS)
    known = {"protocol": "rtp", "kind": "video", "ssrc": 1, "rtp_timestamp": 0, "size_bytes": 1000}
    return {"sent_ns": sent_ns, "delivered_ns": sent_ns + 10 * MS} | known | more


def measured(name: str, rows: list[dict[str, Any]], window: tuple[float, float] | None = None) -> float:
    return METRICS[name].function(trace(spans_s=SPAN, packets=rows).within(window), FLOW)


ARRIVALS = [packet(at) for at in (0, 10, 30, 70)]


def test_times_between_arrivals_are_of_consecutive_packets_that_arrived() -> None:
    lost = packet(50, delivered_ns=None)
    # 10, 20 and 40 ms.
    assert measured("inter_arrival_time", [*ARRIVALS, lost]) == pytest.approx(70 / 3)
    # numpy's percentile: 90 % of the way from 20 to 40.
    assert measured("inter_arrival_p95", ARRIVALS) == pytest.approx(38)
    rtcp = packet(5, protocol="rtcp", kind=None)
    assert measured("inter_arrival_time", [*ARRIVALS, rtcp]) == pytest.approx(70 / 3)


def test_both_packets_arrive_in_the_window() -> None:
    # Arrivals at 10, 20, 40 and 80 ms.
    assert measured("inter_arrival_time", ARRIVALS, (0.015, 0.05)) == pytest.approx(20)
    assert isnan(measured("inter_arrival_time", ARRIVALS, (0.015, 0.03)))


def test_the_distribution_has_a_step_for_every_pair() -> None:
    of = trace(spans_s=SPAN, packets=ARRIVALS)
    values, shares = inter_arrival_cdf([of, of], FLOW)
    assert values == pytest.approx([10, 10, 20, 20, 40, 40])
    assert shares == pytest.approx(np.arange(1, 7) / 6)


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=50))
def test_the_times_between_arrivals_add_up_to_the_time_from_first_to_last(gaps_us: list[int]) -> None:
    at_ms = np.concatenate([[0], np.cumsum(gaps_us)]) / 1000
    mean = measured("inter_arrival_time", [packet(at) for at in at_ms])
    assert mean * len(gaps_us) == pytest.approx(at_ms[-1], abs=1e-3)


def test_the_jitter_of_packets_follows_rfc_3550() -> None:
    # Timestamps 10 ms apart (900 of 90 kHz); packets arrive after 10, 26 and 10 ms: D is 0, 16 and 0.
    rows = [packet(at, rtp_timestamp=900 * i) for i, at in enumerate((0, 10, 36, 46))]
    # J = 0, then 0 + 16 / 16 = 1, then 1 - 1 / 16 = 0.9375.
    assert measured("jitter", rows) == pytest.approx((0 + 1 + 0.9375) / 3)


def test_timestamps_wrap() -> None:
    stamps = (2**32 - 900, 0, 900)
    assert measured("jitter", [packet(10 * i, rtp_timestamp=of) for i, of in enumerate(stamps)]) == 0


def test_reported_jitter_is_preferred_to_jitter_of_packets() -> None:
    report = {"at_ns": 5_000 * MS, "ssrc": 1, "kind": "video", "jitter": 0.007}
    of = trace(spans_s=SPAN, packets=ARRIVALS, inbound_rtp=[report])
    assert METRICS["jitter"].function(of, FLOW) == pytest.approx(7)


def test_a_video_packet_without_a_timestamp_has_no_jitter_and_no_warning() -> None:
    rows = [packet(0), packet(7, rtp_timestamp=None), packet(10, rtp_timestamp=900)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert measured("jitter", rows) == 0


def test_the_share_of_fec_is_that_of_the_bytes_sent_in_the_window() -> None:
    rows = [packet(0), packet(1, kind="rtx", size_bytes=500), packet(2, kind="fec", size_bytes=250)]
    rows.append(packet(3, kind="padding", size_bytes=250))

    def share(sent: int | None, packets: list[dict[str, Any]], window: Any = None) -> float:
        of = trace(spans_s=SPAN, packets=packets, flow_seconds=[second(0, fec_sent_packets=sent)])
        return METRICS["fec_share"].function(of.within(window), FLOW)

    assert share(1, rows) == pytest.approx(12.5)
    # From 1 ms on there are 1000 bytes.
    assert share(1, rows, (0.001, 1)) == pytest.approx(25)
    assert isnan(share(0, [packet(0, protocol="rtcp", kind=None)]))
    # FEC that is known not to be there is 0; FEC that RED may hide is unknown.
    assert share(0, [packet(0)]) == 0
    assert isnan(share(None, [packet(0)]))


def test_the_share_of_retransmissions_is_that_of_the_payload_sent() -> None:
    reports = [
        report(at, ssrc, bytesSent=1000 * at, retransmittedBytesSent=10 * at * at)
        for at in (1, 2, 3)
        for ssrc in (1, 2)
    ]
    of = trace(spans_s=SPAN, outbound_rtp=reports)
    assert METRICS["retransmission_share"].function(of, FLOW) == pytest.approx(3)
    assert METRICS["retransmission_share"].function(of.within((2, 3)), FLOW) == pytest.approx(5)
    unknown = trace(spans_s=SPAN, outbound_rtp=[report(1, bytesSent=1000)], packets=ARRIVALS)
    assert isnan(METRICS["retransmission_share"].function(unknown, FLOW))


def test_requests_are_counted_in_the_receivers_reports() -> None:
    reports = [
        {
            "at_ns": second * 1_000 * MS,
            "ssrc": 1,
            "kind": "video",
            "nackCount": 3 * second,
            "pliCount": second,
        }
        for second in (1, 2, 3)
    ]
    of = trace(spans_s=SPAN, inbound_rtp=reports)
    assert METRICS["nacks"].function(of, FLOW) == 9
    assert METRICS["key_frame_requests"].function(of.within((1.0, 3.0)), FLOW) == 2
    assert isnan(METRICS["nacks"].function(trace(spans_s=SPAN, packets=ARRIVALS), FLOW))


def test_the_full_rate_is_reached_at_the_end_of_the_second_that_has_it() -> None:
    # Packets of 1000 bytes; from 3 s on 967 a second, and 90 % of that are 870.
    seconds = [
        {"at_ns": at * 1_000 * MS, "sent_packets": n, "delivered_packets": n, "delivered_bytes": 1000 * n}
        for at, n in enumerate((100, 500, 890, 900, 1000, 1000))
    ]
    of = trace(spans_s={FLOW: (0, 6)}, flow_seconds=seconds)
    assert METRICS["time_to_full_rate"].function(of, FLOW) == pytest.approx(3)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trace, Trace]:
    """A simulated call with losses, and the trace of its capture."""
    out: Path = tmp_path_factory.mktemp("capture")
    run = rtclab.run("examples/burst-loss", duration="20 s", repeats=1, capture=True, out=out)
    file = run.path / "repeat-0" / "capture.pcapng"
    sdp = file.with_name("capture.sdp").read_text()
    captured = Trace.from_pcap(file, names={"10.0.0.1": "alice", "10.0.0.2": "bob"}, sdp=sdp)
    return run.traces[0], captured


@pytest.mark.parametrize(
    ("name", "smallest", "largest"),
    [
        # At 1.5 Mbit/s and 1000 bytes there are about 190 packets a second, and more with FEC and audio.
        ("inter_arrival_time", 2, 10),
        ("inter_arrival_p95", 5, 40),
    ],
)
def test_a_call_and_its_capture_agree(
    both: tuple[Trace, Trace], name: str, smallest: float, largest: float
) -> None:
    ours, captured = (METRICS[name].function(one, FLOW) for one in both)
    assert smallest < ours < largest
    assert captured == pytest.approx(ours, rel=0.05)


def test_padding_that_repeats_packets_is_no_retransmission(both: tuple[Trace, Trace]) -> None:
    call, captured = both
    share = METRICS["retransmission_share"].function(call, FLOW)
    # 2 % of loss are sent again.
    assert 0.5 < share < 4
    assert isnan(METRICS["retransmission_share"].function(captured, FLOW))
    lossless = SimBackend().simulate(Scenario.load("first-call", ["duration=5 s"]), seed=1, repeat=0)
    packets = lossless.table("packets")
    assert packets["dropped_ns"].null_count() == packets.height
    # Probes are filled with packets that were sent before.
    assert packets.filter(kind="rtx").height > 0
    assert METRICS["retransmission_share"].function(lossless, FLOW) == 0


def test_a_capture_does_not_know_fec_inside_red(both: tuple[Trace, Trace]) -> None:
    call, captured = (METRICS["fec_share"].function(one, FLOW) for one in both)
    # 51 of 255 packets or more are FEC if there is loss: about a fifth.
    assert 10 < call < 30
    assert isnan(captured)


def test_a_simulated_call_with_losses_has_requests_and_jitter(both: tuple[Trace, Trace]) -> None:
    call, captured = both
    assert METRICS["nacks"].function(call, FLOW) >= 10
    assert 0.1 < METRICS["jitter"].function(call.within((5.0, 15.0)), FLOW) < 50
    assert 0.1 < METRICS["jitter"].function(captured.within((5.0, 15.0)), FLOW) < 50
    assert isnan(METRICS["nacks"].function(captured, FLOW))
    assert 1 < METRICS["time_to_full_rate"].function(call, FLOW) < 20
