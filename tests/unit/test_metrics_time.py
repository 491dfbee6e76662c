"""Metrics of flows that were active for a part of the run, or not for a whole number of seconds."""

from __future__ import annotations

from math import isnan
from typing import Any

import pytest
from synthetic_run import NS_PER_S, report, second, trace

from rtclab.backend.sim import SimBackend
from rtclab.metrics import METRICS, delay, fairness, loss, media, rate, tcp, wire
from rtclab.metrics.series import Samples, per_second
from rtclab.scenario import Scenario
from rtclab.trace import Trace

FLOW = "alice->bob"
TWO: dict[str, list[str]] = {"alice->bob": ["alice.up"], "bob->alice": ["bob.up"]}


def steady(*spans_s: float, packets: int = 125, flow: str = FLOW) -> list[dict[str, Any]]:
    """1000 kbit/s (125 packets of 1000 B a second) in seconds of which the flow is active for given parts."""
    return [second(at, round(packets * part), flow=flow) for at, part in enumerate(spans_s)]


# --- partial seconds ---------------------------------------------------------------------------------


def test_a_partial_last_second_is_weighted_by_its_length() -> None:
    # 1000 kbit/s for 5.2 s: 25 packets in the last 0.2 s.
    cut = trace(spans_s={FLOW: (0, 5.2)}, flow_seconds=steady(1, 1, 1, 1, 1, 0.2))
    assert rate.receiving_rate(cut, FLOW) == pytest.approx(1000)
    assert rate.sending_rate(cut, FLOW) == pytest.approx(1000)
    assert rate.received_kbps(cut, FLOW).values.tolist() == pytest.approx([1000] * 6)


def test_a_partial_first_second_is_weighted_by_its_length() -> None:
    late = trace(spans_s={FLOW: (0.6, 3)}, flow_seconds=steady(0.4, 1, 1))
    assert rate.receiving_rate(late, FLOW) == pytest.approx(1000)
    samples = rate.received_kbps(late, FLOW)
    assert samples.lasts_s is not None
    assert samples.lasts_s.tolist() == pytest.approx([0.4, 1, 1])


def test_the_mean_of_samples_weights_a_partial_second_by_its_part() -> None:
    # 1000 kbit/s for a second, 2000 for half a second: 2000 kbit in 1.5 s.
    faster = trace(spans_s={FLOW: (0, 1.5)}, flow_seconds=steady(1, 1))
    assert rate.received_kbps(faster, FLOW).values.tolist() == pytest.approx([1000, 2000])
    assert rate.receiving_rate(faster, FLOW) == pytest.approx(2000 / 1.5)


def test_a_window_counts_the_parts_of_seconds_in_it() -> None:
    # 0, 1000 and 2000 kbit/s; from 0.5 to 2.25 s: 0.5 s, 1 s and 0.25 s of them.
    rows = [second(0, 0, sent_packets=1), second(1, 125), second(2, 250)]
    three = trace(spans_s={FLOW: (0, 3)}, flow_seconds=rows)
    assert rate.receiving_rate(three.within((0.5, 2.25)), FLOW) == pytest.approx((1000 + 0.25 * 2000) / 1.75)


def test_a_window_beyond_the_flow_is_cut_to_the_flow() -> None:
    cut = trace(spans_s={FLOW: (0, 2.4)}, flow_seconds=steady(1, 1, 0.4, 0))
    assert rate.receiving_rate(cut.within((2, 4)), FLOW) == pytest.approx(1000)
    assert isnan(rate.receiving_rate(cut.within((3, 4)), FLOW))


@pytest.mark.parametrize("duration", ["5 s", "5.1 s", "5.5 s", "5.9 s"])
def test_a_simulated_call_has_the_same_rate_whatever_part_of_a_second_it_ends_in(duration: str) -> None:
    made = SimBackend().simulate(Scenario.load("first-call", {"duration": duration}), seed=1, repeat=0)
    packets = made.table("packets").filter(flow=FLOW).drop_nulls("delivered_ns")
    about = made.manifest.flows[FLOW]
    arrived = packets.filter(packets["delivered_ns"] < about.end_ns)["size_bytes"].sum()
    kbps = 8 * arrived / ((about.end_ns - about.begin_ns) / 1e9) / 1e3
    assert rate.receiving_rate(made, FLOW) == pytest.approx(kbps, rel=0.02)
    assert rate.utilisation(made, FLOW) == pytest.approx(kbps / 10, rel=0.02)
    for flow in made.flows:
        assert rate.goodput(made, flow) < rate.receiving_rate(made, flow)
        assert wire.stats_receiving_rate(made, flow) < rate.receiving_rate(made, flow)


# --- participants who leave --------------------------------------------------------------------------


def paths(bps: int) -> list[dict[str, object]]:
    return [{"at_ns": 0, "path": path, "capacity_bps": bps} for path in ("alice.up", "bob.up")]


def test_leaving_at_half_time_changes_neither_rate_nor_utilisation_nor_deviation() -> None:
    gone = trace(spans_s={FLOW: (0, 3)}, flow_seconds=steady(1, 1, 1, 0, 0, 0), paths=paths(2_000_000))
    gone.manifest.flows[FLOW] = gone.manifest.flows[FLOW].model_copy(update={"route": ("alice.up",)})
    assert rate.receiving_rate(gone, FLOW) == pytest.approx(1000)
    assert rate.utilisation(gone, FLOW) == pytest.approx(50)
    assert rate.received_kbps(gone, FLOW).deviation() == pytest.approx(0)


def test_leaving_at_half_time_does_not_change_fairness() -> None:
    rows = steady(1, 1, 0, 0) + steady(1, 1, 1, 1, flow="bob->alice")
    sent = [report(1, flow=flow) for flow in TWO]
    gone = trace(TWO, {FLOW: (0, 2), "bob->alice": (0, 4)}, flow_seconds=rows, outbound_rtp=sent)
    assert fairness.fairness(gone) == pytest.approx(1)
    # While only one of the two is active, there is nothing to share.
    assert isnan(fairness.fairness(gone.within((2, 4))))


def test_a_participant_who_leaves_a_simulated_call_has_the_metrics_of_a_call_of_that_length() -> None:
    def figures(*changes: str) -> dict[str, float]:
        made = SimBackend().simulate(Scenario.load("first-call", list(changes)), seed=1, repeat=0)
        names = ["sending_rate", "receiving_rate", "goodput", "utilisation", "frame_rate", "packet_loss"]
        return {name: METRICS[name].function(made, FLOW) for name in names} | {
            "fairness": fairness.fairness(made)
        }

    left, ended = figures("duration=6 s", "participants.alice.leave=3 s"), figures("duration=3 s")
    assert left == pytest.approx(ended)


def test_goodput_of_a_participant_who_leaves_is_below_the_ip_rate() -> None:
    # 900 of 1000 B are payload. The last report of the participant who stays comes after the flow's end.
    inbound = [
        report(at, bytesReceived=900 * 125 * min(at, 3.4), retransmittedBytesReceived=0)
        for at in (1, 2, 3, 4, 5)
    ]
    rows = [row | {"fec_sent_packets": 0} for row in steady(1, 1, 1, 0.4, 0, 0)]
    gone = trace(spans_s={FLOW: (0, 3.4)}, flow_seconds=rows, inbound_rtp=inbound)
    assert rate.goodput(gone, FLOW) == pytest.approx(900)
    assert rate.receiving_rate(gone, FLOW) == pytest.approx(1000)


def test_reports_after_the_end_of_a_flow_do_not_count() -> None:
    rtts = [report(at, roundTripTime=0.05 if at <= 3 else 0.5) for at in range(1, 7)]
    gone = trace(spans_s={FLOW: (0, 3.5)}, remote_inbound_rtp=rtts)
    assert METRICS["rtt"].function(gone, FLOW) == pytest.approx(50)


def test_a_tcp_flow_that_starts_late_is_measured_from_its_first_packet_on() -> None:
    # A simulated table has rows of 0 bytes before the flow begins, a live one has none: 1 Mbit/s from 6 s on.
    rows = [{"at_ns": at * NS_PER_S, "delivered_bytes": 125_000 * max(at - 6, 0)} for at in range(1, 11)]
    simulated, live = (trace(spans_s={FLOW: (6, 10)}, tcp=given) for given in (rows, rows[6:]))
    for made in (simulated, live):
        assert tcp.tcp_throughput(made, FLOW) == pytest.approx(1000)
        assert tcp.tcp_throughput(made.within((0, 8)), FLOW) == pytest.approx(1000)
    assert isnan(tcp.tcp_throughput(simulated.within((0, 6)), FLOW))


def test_a_tcp_flow_that_stops_does_not_continue_at_zero() -> None:
    rows = [{"at_ns": at * NS_PER_S, "delivered_bytes": 125_000 * min(at, 4)} for at in range(1, 9)]
    stopped = trace(spans_s={FLOW: (0, 4)}, tcp=rows)
    assert tcp.tcp_throughput(stopped, FLOW) == pytest.approx(1000)


def test_packets_that_arrive_after_the_end_of_their_flow_do_not_count() -> None:
    # A packet of 1000 B every 100 ms with a delay of 30 ms. From 2.5 s on it is 500 ms: they arrive too late.
    sent_ns = [at * NS_PER_S // 10 for at in range(30)]
    packets = [
        {"sent_ns": at, "delivered_ns": at + (30 if at < 2.5e9 else 500) * 10**6, "size_bytes": 1000}
        | {"protocol": "rtp", "kind": "video", "queued_ns": (0 if at < 2.5e9 else 470) * 10**6}
        for at in sent_ns
    ]
    gone = trace(spans_s={FLOW: (0, 2.6)}, packets=packets, flow_seconds=steady(1, 1, 1))
    assert wire.wire_received_kbps(gone, FLOW).values.tolist() == pytest.approx([80, 80, 5 * 8 / 0.6])
    assert delay.queuing_delay_p95(gone.within((0, 3)), FLOW) == 0
    assert delay.delay_variation_p95(gone.within((0, 3)), FLOW) == 0


# --- silence -----------------------------------------------------------------------------------------


def test_a_stream_that_falls_silent_counts_until_the_end_of_its_flow() -> None:
    # 30 frames and 125 kB a second for 4 s, and nothing in the following 6 s.
    counted = {"framesDecoded": 30, "bytesReceived": 125_000, "retransmittedBytesReceived": 0}
    inbound = [report(at, **{name: at * each for name, each in counted.items()}) for at in range(5)]
    sent = [second(0, 1, fec_sent_packets=0)]
    silent = trace(spans_s={FLOW: (0, 10)}, inbound_rtp=inbound, flow_seconds=sent)
    assert media.frame_rate(silent, FLOW) == pytest.approx(12)
    assert rate.goodput(silent, FLOW) == pytest.approx(400)
    assert media.frame_rate(silent.within((5, 10)), FLOW) == 0


def test_a_last_report_just_before_the_end_is_not_silence() -> None:
    inbound = [report(at, framesDecoded=30 * at) for at in range(5)]
    assert media.frame_rate(trace(spans_s={FLOW: (0, 4.9)}, inbound_rtp=inbound), FLOW) == pytest.approx(30)


def shown(*times_s: float, ssrc: int = 1) -> list[dict[str, Any]]:
    """Frames shown at these times."""
    return [{"ssrc": ssrc, "rendered_ns": round(at * NS_PER_S)} for at in times_s]


def still(end_s: float, frames: list[dict[str, Any]], counted: int = 0) -> Trace:
    """A flow that ends, and whose receiver has counted freezes of half a second each."""
    told = [report(1, freezeCount=counted, totalFreezesDuration=counted / 2)]
    return trace(spans_s={FLOW: (0, end_s)}, frames=frames, inbound_rtp=told)


THIRTY = [at / 30 for at in range(60)]  # 2 s of 30 frames a second; the last one at 59/30 s


def test_a_picture_that_is_frozen_when_the_flow_ends_is_a_freeze_until_then() -> None:
    frozen = still(12.0, shown(*THIRTY), counted=2)
    assert media.freeze_count_w3c(frozen, FLOW) == 3
    assert media.freeze_duration_w3c(frozen, FLOW) == pytest.approx(1 + 12 - 59 / 30)


def test_a_window_counts_the_part_of_an_open_freeze_in_it() -> None:
    frozen = still(12.0, shown(*THIRTY))
    assert media.freeze_duration_w3c(frozen.within((6, 10)), FLOW) == pytest.approx(4)
    assert media.freeze_count_w3c(frozen.within((6, 10)), FLOW) == 1
    assert media.freeze_count_w3c(frozen.within((0, 1.5)), FLOW) == 0


def test_a_window_counts_the_part_of_a_freeze_in_it_before_the_freeze_ends() -> None:
    # The picture stands still from 59/30 s to 12 s, and moves again until 14 s.
    frames = shown(*THIRTY, *(12 + at / 30 for at in range(60)))
    moving = still(14.0, frames, counted=1)
    assert media.freeze_count_w3c(moving, FLOW) == 1
    spans = ((0.0, 1.0), (1.0, 6.0), (6.0, 10.0), (10.0, 14.0))
    assert [media.freeze_count_w3c(moving.within(span), FLOW) for span in spans] == [0, 1, 1, 1]
    expected = [0, 6 - 59 / 30, 4, 2]
    assert [media.freeze_duration_w3c(moving.within(span), FLOW) for span in spans] == pytest.approx(expected)


def test_without_frames_a_window_counts_the_freezes_that_ended_in_it() -> None:
    rows = [report(at, freezeCount=int(at > 5), totalFreezesDuration=3.0 * (at > 5)) for at in range(1, 10)]
    dump = trace(spans_s={FLOW: (0, 10)}, inbound_rtp=rows)
    assert [media.freeze_count_w3c(dump.within(span), FLOW) for span in ((0.0, 5.0), (5.0, 9.0))] == [0, 1]
    assert [media.freeze_duration_w3c(dump.within(span), FLOW) for span in ((0.0, 5.0), (5.0, 9.0))] == [0, 3]


def test_the_freezes_of_shown_frames_are_those_that_the_receiver_counted() -> None:
    changes = ["duration=30 s", "link.up.loss=8 %", "link.up.capacity=500 kbit/s"]
    made = SimBackend().simulate(Scenario.load("first-call", changes), seed=3, repeat=0)
    for flow in made.flows:
        whole = media.freeze_count_w3c(made, flow), media.freeze_duration_w3c(made, flow)
        spans = [(at, at + 3.0) for at in range(0, 30, 3)]
        parts = [media.freeze_duration_w3c(made.within(span), flow) for span in spans]
        assert whole[0] >= 2
        # Decoded pictures are counted in whole ms, and shown a little later.
        assert media.freeze_count_w3c(made.within((0, 30)), flow) == pytest.approx(whole[0], abs=1)
        assert sum(parts) == pytest.approx(whole[1], rel=0.1, abs=0.3)


@pytest.mark.parametrize(("stands_s", "freezes"), [(0.187, 0), (0.190, 1)])
def test_an_open_freeze_is_compared_with_the_mean_of_thirty_intervals_including_its_own(
    stands_s: float, freezes: int
) -> None:
    # (29/30 s + x) / 30 + 0.15 s <= x from x = (29/30 + 4.5) / 29 = 0.1885 s on.
    frozen = still(59 / 30 + stands_s, shown(*THIRTY))
    assert media.freeze_count_w3c(frozen, FLOW) == freezes


@pytest.mark.parametrize(("frames", "freezes"), [(4, 0), (5, 1)])
def test_with_fewer_than_five_intervals_there_is_no_freeze(frames: int, freezes: int) -> None:
    assert media.freeze_count_w3c(still(5.0, shown(*THIRTY[:frames])), FLOW) == freezes


def test_a_stream_that_another_one_replaced_is_not_frozen() -> None:
    later = [at / 30 + 2 for at in range(60)]
    followed = still(4.0, shown(*THIRTY) + shown(*later, ssrc=2))
    assert media.freeze_count_w3c(followed, FLOW) == 0


def died(**media_packets: int) -> list[dict[str, Any]]:
    """Six seconds of 100 packets each. From 3 s on nothing arrives: 40 are dropped, and 60 get stuck."""
    delays = {"one_way_delay_max_ms": 80.0}
    lost = {"dropped_packets": 40, "delivered_packets": 0, "delivered_bytes": 0} | media_packets
    before = {name: value for name, value in media_packets.items() if "sent" in name}
    return [second(at, 100, **delays, **before) for at in range(3)] + [
        second(at, 100, **lost) for at in range(3, 6)
    ]


def test_packets_stuck_when_a_flow_dies_are_lost_except_in_the_last_second() -> None:
    # 3 x 40 are dropped, and 60 of each second from 3 to 5 s are stuck. Later ones may be in flight.
    dead = trace(flow_seconds=died())
    assert loss.packet_loss(dead, FLOW) == pytest.approx(100 * (120 + 120) / 600)
    assert loss.packet_loss(dead.within((3, 5)), FLOW) == pytest.approx(100)
    assert loss.packet_loss(dead.within((0, 3)), FLOW) == 0


def test_packets_that_may_be_in_flight_when_a_flow_ends_are_not_lost() -> None:
    # With a queue of 2.5 s, packets sent in the last 2.5 s arrive after the end.
    slow = [second(at, 100, delivered_packets=0 if at < 2 else 100) for at in range(6)]
    slow[5] |= {"one_way_delay_max_ms": 2500.0}
    assert loss.packet_loss(trace(flow_seconds=slow), FLOW) == 0


def test_lost_media_that_leave_no_gap_are_lost() -> None:
    # 80 media packets a second. The receiver knows of 240; 2 x 80 more should have arrived before the end.
    told = [report(at, packetsReceived=80 * min(at, 3), packetsLost=0) for at in range(1, 7)]
    dead = trace(flow_seconds=died(media_sent_packets=80, media_dropped_packets=32), inbound_rtp=told)
    assert loss.unseen_loss(dead, FLOW) == pytest.approx(100 * 160 / 400)
    assert loss.unseen_loss(dead.within((3, 5)), FLOW) == pytest.approx(100)
    # With repairs known: dropped 3 x 32, stuck 2 x 48, of 480 sent.
    repaired = [row | {"packetsRepaired": 0} for row in told]
    dead = trace(flow_seconds=died(media_sent_packets=80, media_dropped_packets=32), inbound_rtp=repaired)
    assert loss.residual_loss(dead, FLOW) == pytest.approx(100 * (96 + 96) / 480)


def test_lost_fec_that_leaves_no_gap_is_unseen_like_lost_media() -> None:
    # 60 media packets a second and 20 of FEC, which share their sequence numbers.
    told = [report(at, packetsReceived=80 * min(at, 3), packetsLost=0) for at in range(1, 7)]
    kinds = {"media_sent_packets": 60, "fec_sent_packets": 20}
    dead = trace(flow_seconds=died(**kinds), inbound_rtp=told)
    assert loss.unseen_loss(dead, FLOW) == pytest.approx(100 * 160 / 400)


def test_a_simulated_call_whose_uplinks_die_shows_it() -> None:
    steps = 'link.up.capacity={steps=[["0 s","1 Mbit/s"],["5 s","0 bit/s"]]}'
    # Without FEC, whose packets share the sequence numbers of media.
    changes = ["duration=12 s", steps, "video.repair=rtx"]
    made = SimBackend().simulate(Scenario.load("first-call", changes), seed=1, repeat=0)
    for flow in made.flows:
        packets = made.table("packets").filter(flow=flow, kind="video")
        unheard = packets.filter(packets["sent_ns"] < 11 * NS_PER_S)["delivered_ns"].null_count()
        expected = packets.height - packets.filter(packets["sent_ns"] >= 11 * NS_PER_S).height
        assert loss.unseen_loss(made, flow) == pytest.approx(100 * unheard / expected, rel=0.01)
        assert loss.packet_loss(made, flow) > 15
        assert media.freeze_count(made, flow) == 1
        assert 6.5 < media.freeze_duration(made, flow) < 7.0
        assert media.frame_rate(made, flow) < 12
        assert rate.receiving_rate(made.within((6, 12)), flow) == 0


# --- samples -----------------------------------------------------------------------------------------


def test_samples_are_per_second_of_the_time_that_the_flow_was_active() -> None:
    made = trace(spans_s={FLOW: (0.5, 2.5)}, flow_seconds=[second(at, 10) for at in range(3)])
    samples = per_second(made, FLOW, "sent_packets")
    assert isinstance(samples, Samples)
    assert samples.at_s.tolist() == [0.5, 1.5, 2.5]
    assert samples.values.tolist() == [20, 10, 20]
