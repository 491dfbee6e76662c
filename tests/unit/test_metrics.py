"""Metrics of tables for which the result can be derived by hand."""

from __future__ import annotations

from math import isnan, nan
from typing import Any

import numpy as np
import polars as pl
import pytest
from synthetic_run import NS_PER_S, event, report, second, trace

from rtclab.metrics import METRICS, delay, fairness, host, loss, media, rate, setup
from rtclab.metrics.packets import PacketColumns
from rtclab.metrics.registry import metric
from rtclab.metrics.series import arrays_by_flow
from rtclab.trace import CallInfo, FlowInfo

FLOW = "alice->bob"


def test_125_packets_of_1000_bytes_a_second_are_1000_kbit_per_s() -> None:
    steady = trace(flow_seconds=[second(at, packets=125) for at in range(10)])
    assert rate.sending_rate(steady, FLOW) == pytest.approx(1000)
    assert rate.receiving_rate(steady, FLOW) == pytest.approx(1000)


def test_a_second_without_a_row_counts_as_a_rate_of_zero() -> None:
    gap = trace(flow_seconds=[second(0, packets=125), second(1, packets=125), second(3, packets=125)])
    assert rate.sending_rate(gap, FLOW) == pytest.approx(750)  # 3000 kbit in 4 s


def test_the_time_before_the_first_packet_does_not_lower_the_rate() -> None:
    late = trace(flow_seconds=[second(0), second(1), second(2, packets=125), second(3, packets=125)])
    assert rate.receiving_rate(late, FLOW) == pytest.approx(1000)


def test_a_window_takes_the_seconds_that_begin_in_it() -> None:
    rows = [second(at, packets=125 if at < 30 else 250) for at in range(60)]
    assert rate.receiving_rate(trace(flow_seconds=rows).within((30, 60)), FLOW) == pytest.approx(2000)
    assert rate.receiving_rate(trace(flow_seconds=rows).within((29, 31)), FLOW) == pytest.approx(1500)


NO_FEC = [second(0, packets=1, fec_sent_packets=0)]


def test_goodput_excludes_the_bytes_of_retransmissions_and_fec() -> None:
    # 1,250,000 B of payload in 10 s are 1000 kbit/s, of which 125,000 B were sent again and 62,500 B are FEC.
    early = report(0, bytesReceived=0)
    later = report(10, bytesReceived=1_250_000, retransmittedBytesReceived=125_000, fecBytesReceived=62_500)
    assert rate.goodput(trace(inbound_rtp=[early, later]), FLOW) == pytest.approx(850)


def test_goodput_of_audio_contains_the_fec_inside_its_packets() -> None:
    # 228 of 2039 packets had FEC inside, which getStats counts as FEC packets.
    rows = [
        report(10 * at, 1, "audio", bytesReceived=50_000 * at, packetsReceived=2039, fecPacketsReceived=228)
        for at in (0, 1)
    ]
    assert rate.goodput(trace(inbound_rtp=rows), FLOW) == pytest.approx(40)


def test_goodput_of_video_is_unknown_while_nobody_counts_its_fec_or_its_retransmissions() -> None:
    again, fec = {"retransmittedBytesReceived": 0}, {"fecBytesReceived": 0}

    def of(seconds: list[dict[str, Any]], **columns: int) -> float:
        rows = [report(at, bytesReceived=at * 12_500, **columns) for at in (0, 1)]
        return rate.goodput(trace(inbound_rtp=rows, flow_seconds=seconds), FLOW)

    assert isnan(of([], **again))
    assert isnan(of([second(0, packets=1)], **again))
    assert isnan(of([second(0, packets=1, fec_sent_packets=3)], **again))
    assert isnan(of(NO_FEC))
    assert of(NO_FEC, **again) == of([], **again, **fec) == pytest.approx(100)


def test_goodput_adds_the_streams_of_a_flow_and_is_unknown_if_that_of_one_is() -> None:
    video = [
        report(at, ssrc, bytesReceived=at * 12_500, retransmittedBytesReceived=0)
        for at in (0, 1)
        for ssrc in (1, 2)
    ]
    assert rate.goodput(trace(inbound_rtp=video, flow_seconds=NO_FEC), FLOW) == pytest.approx(200)
    video[1] |= {"retransmittedBytesReceived": None}
    video[3] |= {"retransmittedBytesReceived": None}
    assert isnan(rate.goodput(trace(inbound_rtp=video, flow_seconds=NO_FEC), FLOW))


def paths(*rows: tuple[float, str, int | None]) -> list[dict[str, object]]:
    return [{"at_ns": int(at * NS_PER_S), "path": path, "capacity_bps": bps} for at, path, bps in rows]


def test_utilisation_weighs_a_capacity_step_by_its_time() -> None:
    # 500 kbit/s for 10 s are 5 Mbit. The uplink can carry 4 s x 1 Mbit/s + 6 s x 0.5 Mbit/s = 7 Mbit.
    steps = paths((0, "alice.up", 1_000_000), (4, "alice.up", 500_000), (0, "bob.down", 2_000_000))
    stepped = trace(flow_seconds=[second(at, packets=62, size_bytes=1000) for at in range(10)], paths=steps)
    assert rate.utilisation(stepped, FLOW) == pytest.approx(100 * 496 * 10 / 7000)
    assert rate.utilisation(stepped.within((4, 10)), FLOW) == pytest.approx(100 * 496 / 500)


def test_utilisation_takes_the_narrowest_path_at_each_time() -> None:
    # alice.up narrows from 2 to 1 Mbit/s at 5 s, bob.down opens from 1 to 3 Mbit/s then: 1 Mbit/s throughout.
    crossing = paths(
        (0, "alice.up", 2_000_000),
        (5, "alice.up", 1_000_000),
        (0, "bob.down", 1_000_000),
        (5, "bob.down", 3_000_000),
    )
    crossed = trace(flow_seconds=[second(at, packets=100) for at in range(10)], paths=crossing)
    assert rate.utilisation(crossed, FLOW) == pytest.approx(80)


def test_utilisation_of_an_unlimited_route_is_not_a_number() -> None:
    rows = [second(at, packets=100) for at in range(10)]
    assert isnan(rate.utilisation(trace(flow_seconds=rows, paths=paths((0, "alice.up", None))), FLOW))
    assert isnan(rate.utilisation(trace(flow_seconds=rows), FLOW))
    opened = paths((0, "alice.up", 1_000_000), (5, "alice.up", None))
    assert isnan(rate.utilisation(trace(flow_seconds=rows, paths=opened), FLOW))
    assert rate.utilisation(trace(flow_seconds=rows, paths=opened).within((0, 5)), FLOW) == pytest.approx(80)


def test_rtt_is_the_mean_of_the_reports_that_carry_one() -> None:
    reports = [report(1, roundTripTime=0.050), report(2, roundTripTime=None), report(3, roundTripTime=0.070)]
    assert delay.rtt(trace(remote_inbound_rtp=reports), FLOW) == pytest.approx(60)


def test_the_95th_percentile_of_the_rtt_is_interpolated_between_reports() -> None:
    # 21 reports of 10, 20 … 210 ms: 95 % of the way is exactly the 20th. With two, it is near the second.
    reports = [report(at, roundTripTime=at / 100) for at in range(1, 22)]
    assert delay.rtt_p95(trace(remote_inbound_rtp=reports), FLOW) == pytest.approx(200)
    assert delay.rtt_p95(trace(remote_inbound_rtp=reports[:2]), FLOW) == pytest.approx(19.5)
    assert delay.rtt_p95(trace(remote_inbound_rtp=reports).within((3, 4)), FLOW) == pytest.approx(30)
    assert isnan(delay.rtt_p95(trace(remote_inbound_rtp=[report(1, roundTripTime=None)]), FLOW))


def test_one_way_delay_weighs_seconds_by_their_packets() -> None:
    rows = [
        second(0, packets=300, one_way_delay_mean_ms=30.0),
        second(1, packets=100, one_way_delay_mean_ms=70.0),
    ]
    assert delay.one_way_delay(trace(flow_seconds=rows), FLOW) == pytest.approx(40)


def test_delay_variation_is_above_the_smallest_delay_of_the_histogram() -> None:
    # 50 packets at 50.0, 45 at 60.0, 5 at 90.0 ms: the median is the end of the first bin, p95 of the second.
    bins = [{"one_way_delay_ms": low, "packets": count} for low, count in ((50.0, 50), (60.0, 45), (90.0, 5))]
    counted = trace(delay_histogram=bins)
    assert delay.delay_variation_p50(counted, FLOW) == pytest.approx(0.1, abs=0.01)
    assert delay.delay_variation_p95(counted, FLOW) == pytest.approx(10.1, abs=0.01)
    assert isnan(delay.queuing_delay_p95(counted, FLOW))


def test_queuing_delay_is_a_percentile_of_the_times_in_queues() -> None:
    # 51 packets waited less than 0.1 ms, 44 of 100 between 60.0 and 60.1, and 5 for 90 ms.
    bins = [{"queuing_delay_ms": low, "packets": count} for low, count in ((0.0, 51), (60.0, 44), (90.0, 5))]
    counted = trace(queuing_histogram=bins)
    assert delay.queuing_delay_p50(counted, FLOW) == 0
    assert delay.queuing_delay_p95(counted, FLOW) == 60
    assert isnan(delay.delay_variation_p95(counted, FLOW))


def test_delays_in_a_window_are_those_of_the_packets_sent_in_it() -> None:
    # Sent at 0, 1 .. 5 s; 50 ms of delay without a queue.
    packets: list[dict[str, int | None]] = [
        {
            "sent_ns": at * NS_PER_S,
            "delivered_ns": at * NS_PER_S + (50 + queued) * 1_000_000,
            "queued_ns": queued * 1_000_000 + 40_000,
        }
        for at, queued in enumerate((0, 10, 11, 12, 13, 14))
    ]
    packets.append({"sent_ns": 2 * NS_PER_S, "delivered_ns": None})
    made = trace(spans_s={FLOW: (0, 6)}, packets=packets)
    assert delay.delay_variation_p50(made.within((1, 6)), FLOW) == pytest.approx(12)
    assert delay.queuing_delay_p50(made.within((1, 6)), FLOW) == pytest.approx(12)
    assert delay.queuing_delay_p95(made.within((0, 1)), FLOW) == 0
    assert isnan(delay.queuing_delay_p50(made.within((7, 9)), FLOW))
    assert isnan(delay.delay_variation_p50(made.within((7, 9)), FLOW))


def test_packet_loss_is_the_share_of_sent_packets_that_were_dropped() -> None:
    rows = [second(0, packets=100, dropped_packets=3), second(1, packets=100, dropped_packets=1)]
    assert loss.packet_loss(trace(flow_seconds=rows), FLOW) == pytest.approx(2)


def test_unseen_loss_subtracts_repairs_stream_by_stream() -> None:
    # Video: 980 originals and 15 repairs received, 20 lost: 5 of 1000 missing. Audio: 10 of 100.
    rows = [
        report(60, 1, packetsReceived=995, packetsLost=20, retransmittedPacketsReceived=15),
        report(60, 2, "audio", packetsReceived=90, packetsLost=10),
    ]
    assert loss.unseen_loss(trace(inbound_rtp=rows), FLOW) == pytest.approx(100 * 15 / 1100)


def test_packet_loss_excludes_retransmissions_if_they_are_known() -> None:
    # 10 of 100 packets of media and FEC are lost; 9 of 25 others are lost too, but do not count.
    row = second(0, packets=125, dropped_packets=19, media_sent_packets=80, media_dropped_packets=7)
    row |= {"fec_sent_packets": 20, "fec_dropped_packets": 3}
    assert loss.packet_loss(trace(flow_seconds=[row]), FLOW) == pytest.approx(10)


def test_residual_loss_is_media_that_were_dropped_and_not_repaired_in_time() -> None:
    row = second(0, packets=1, media_sent_packets=200, media_dropped_packets=20, fec_sent_packets=50)
    # An observer counts 25 missing sequence numbers, 5 of them of FEC, less 14 that were retransmitted.
    told = report(1, packetsReceived=239, packetsLost=25, retransmittedPacketsReceived=14, packetsRepaired=18)
    both = trace(flow_seconds=[row], inbound_rtp=[told])
    assert loss.residual_loss(both, FLOW) == pytest.approx(1)
    assert loss.unseen_loss(both, FLOW) == pytest.approx(100 * 11 / 250)


def test_residual_loss_is_unknown_where_nobody_counts_repairs() -> None:
    row = second(0, packets=1, media_sent_packets=200, media_dropped_packets=20)
    told = report(1, packetsReceived=180, packetsLost=20, retransmittedPacketsReceived=0)
    live = trace(flow_seconds=[row], inbound_rtp=[told])
    assert isnan(loss.residual_loss(live, FLOW))
    assert loss.unseen_loss(live, FLOW) == pytest.approx(10)


def test_more_repairs_than_losses_leave_no_loss() -> None:
    rows = [report(60, packetsReceived=1030, packetsLost=20, retransmittedPacketsReceived=50)]
    assert loss.unseen_loss(trace(inbound_rtp=rows), FLOW) == 0


def test_unseen_loss_in_a_window_counts_the_packets_lost_in_it() -> None:
    rows = [
        report(at, packetsReceived=at * 90, packetsLost=0 if at <= 30 else (at - 30) * 10)
        for at in range(1, 61)
    ]
    assert loss.unseen_loss(trace(inbound_rtp=rows).within((30, 60)), FLOW) == pytest.approx(10)


def test_frame_rate_is_decoded_frames_over_the_time_between_reports() -> None:
    rows = [report(at, framesDecoded=int(at * 30)) for at in (1.0, 2.0, 3.5)]
    assert media.frame_rate(trace(inbound_rtp=rows), FLOW) == pytest.approx(30)


def test_resolution_is_the_mean_over_reports_with_a_frame() -> None:
    rows = [report(1), report(2, frameWidth=640, frameHeight=480), report(3, frameWidth=320, frameHeight=240)]
    assert media.frame_width(trace(inbound_rtp=rows), FLOW) == 480
    assert media.frame_height(trace(inbound_rtp=rows), FLOW) == 360


def test_freezes_are_counted_from_the_begin_of_the_stream() -> None:
    rows = [
        report(at, freezeCount=count, totalFreezesDuration=count * 0.5)
        for at, count in ((1, 1), (30, 2), (60, 4))
    ]
    frozen = trace(inbound_rtp=rows)
    assert media.freeze_count(frozen, FLOW) == 4
    assert media.freeze_duration(frozen, FLOW) == 2.0
    assert media.freeze_count(frozen.within((30, 60)), FLOW) == 2


def test_the_delay_of_the_jitter_buffer_is_a_mean_over_video_frames() -> None:
    counts = [(1, 30, 1.2), (2, 30, 1.2), (3, 60, 4.2)]
    rows = [
        report(at, jitterBufferDelay=waited_s, jitterBufferEmittedCount=frames)
        for at, frames, waited_s in counts
    ]
    audio = report(3, 2, "audio", jitterBufferDelay=9e6, jitterBufferEmittedCount=48_000)
    waited = trace(inbound_rtp=[*rows, audio])
    assert media.jitter_buffer_delay(waited, FLOW) == pytest.approx(70)
    assert media.jitter_buffer_delay(waited.within((0, 2)), FLOW) == pytest.approx(40)
    assert isnan(media.jitter_buffer_delay(waited.within((1.5, 2.5)), FLOW))


def test_the_parts_of_the_set_up_time_add_up_to_it() -> None:
    names = ["joined", "signalling_done", "ice_connected", "dtls_connected", "first_frame"]
    receiver = [event(at, "bob", name) for at, name in zip((100, 300, 350, 400, 550), names, strict=True)]
    set_up = trace(events=[event(150, "alice", "joined"), *receiver])
    parts = [setup.setup_signalling, setup.setup_ice, setup.setup_dtls, setup.setup_first_frame]
    assert [part(set_up, FLOW) for part in parts] == [150, 50, 50, 150]  # both have joined at 150 ms
    assert setup.setup_time(set_up, FLOW) == 400


def test_a_window_has_the_steps_of_the_set_up_that_end_in_it() -> None:
    names = ["joined", "signalling_done", "ice_connected", "dtls_connected", "first_frame"]
    rows = [event(at, "bob", name) for at, name in zip((100, 300, 350, 400, 550), names, strict=True)]
    set_up = trace(events=[event(100, "alice", "joined"), *rows])
    assert setup.setup_time(set_up.within((0, 1)), FLOW) == 450
    assert isnan(setup.setup_time(set_up.within((0, 0.55)), FLOW))
    assert setup.setup_time(set_up.within((0.55, 1)), FLOW) == 450
    assert isnan(setup.setup_time(set_up.within((0.551, 1)), FLOW))
    assert isnan(setup.setup_signalling(set_up.within((0.5, 1)), FLOW))


def test_the_set_up_of_a_later_call_begins_with_that_call() -> None:
    later = "alice->bob#2"
    names = ["signalling_done", "ice_connected", "dtls_connected", "first_frame"]
    times_ms = (15_100, 15_150, 15_200, 15_300)
    steps = [event(at, "bob", name, later) for at, name in zip(times_ms, names, strict=True)]
    set_up = trace(events=[event(0, "alice", "joined"), event(0, "bob", "joined"), *steps])
    flow = FlowInfo(sender="alice", receiver="bob", call=1, begin_ns=0, end_ns=16 * NS_PER_S)
    calls = tuple(
        CallInfo(kind="p2p", participants=("alice", "bob"), start_ns=start_s * NS_PER_S, end_ns=30 * NS_PER_S)
        for start_s in (0, 15)
    )
    set_up.manifest = set_up.manifest.model_copy(update={"flows": {later: flow}, "calls": calls})
    assert setup.setup_time(set_up, later) == 300
    assert setup.setup_signalling(set_up, later) == 100


def test_a_first_frame_of_another_flow_does_not_end_the_set_up() -> None:
    rows = [
        event(0, "alice", "joined"),
        event(0, "bob", "joined"),
        event(90, "bob", "first_frame", "carol->bob"),
    ]
    assert isnan(setup.setup_time(trace(events=rows), FLOW))


def test_cpu_and_memory_are_the_senders() -> None:
    rows = [
        {"at_ns": 0, "participant": "alice", "cpu_percent": 30.0, "memory_bytes": 200_000_000},
        {"at_ns": NS_PER_S, "participant": "alice", "cpu_percent": 50.0, "memory_bytes": 300_000_000},
        {"at_ns": 0, "participant": "bob", "cpu_percent": 90.0, "memory_bytes": 900_000_000},
    ]
    assert host.cpu(trace(host=rows), FLOW) == 40
    assert host.memory(trace(host=rows), FLOW) == 250
    assert host.cpu(trace(host=rows).within((1, 2)), FLOW) == 50


def test_jains_index_is_one_for_equal_rates_and_one_half_when_one_of_two_has_all() -> None:
    flows: dict[str, list[str]] = {"alice->bob": [], "bob->alice": []}
    sent = [report(1, flow=flow) for flow in flows]
    equal = [second(0, packets=100, flow=flow) for flow in flows]
    assert fairness.fairness(trace(flows, flow_seconds=equal, outbound_rtp=sent)) == pytest.approx(1)
    starved = [second(0, packets=100), second(0, packets=100, flow="bob->alice", delivered_bytes=0)]
    assert fairness.fairness(trace(flows, flow_seconds=starved, outbound_rtp=sent)) == pytest.approx(0.5)


def test_fairness_excludes_a_flow_that_carries_only_feedback() -> None:
    flows: dict[str, list[str]] = {"alice->bob": [], "bob->alice": []}
    rows = [second(0, packets=100), second(0, packets=1, flow="bob->alice")]
    assert isnan(fairness.fairness(trace(flows, flow_seconds=rows, outbound_rtp=[report(1)])))


@pytest.mark.parametrize("window", [None, (30.0, 60.0)])
@pytest.mark.parametrize("name", [name for name, entry in METRICS.items() if entry.scope != "run"])
def test_every_metric_is_nan_on_empty_tables(name: str, window: tuple[float, float] | None) -> None:
    entry = METRICS[name]
    empty = trace().within(window)
    arguments = (empty,) if entry.scope == "trace" else (empty, FLOW)
    assert name == "active_time" or isnan(entry.function(*arguments))
    if entry.samples:
        assert entry.samples(*arguments).values.size == 0


def test_a_metric_keeps_its_unit_direction_source_and_definition() -> None:
    entry = METRICS["queuing_delay_p95"]
    assert (entry.unit, entry.better, entry.label) == ("ms", "lower", "Queuing delay p95")
    assert entry.source.startswith("RFC 8868, section 3")
    assert entry.definition.startswith("95th percentile of the time (ms) that the received packets waited")


def test_a_second_metric_of_the_same_name_is_refused() -> None:
    def rtt(trace: object, flow: str, window: object = None) -> float:
        """Another one."""
        return nan

    with pytest.raises(ValueError, match="`rtt` is defined twice"):
        metric(unit="ms", source="nowhere")(rtt)


def test_only_columns_of_packets_that_are_used_are_made_and_each_once() -> None:
    made: list[str] = []

    def make(name: str) -> np.ndarray:
        made.append(name)
        return np.arange(3)

    packets = PacketColumns(make)
    some = packets.chosen(np.array([False, True, True]))
    both = some.followed_by(packets.chosen(slice(1)))
    assert made == []
    assert both.sent_ns.tolist() == [1, 2, 0]
    assert some.sent_ns.tolist() == [1, 2]
    assert made == ["sent_ns"]
    with pytest.raises(AttributeError):
        packets.colour  # noqa: B018


def test_rows_of_flows_that_alternate_keep_their_order_in_the_arrays_of_each() -> None:
    rows = pl.DataFrame({"flow": ["b", "a", "b"], "at_ns": [3, 2, 1], "value": [0.5, 1.5, 2.5]})
    found = {flow: [of.tolist() for of in arrays] for flow, arrays in arrays_by_flow(rows).items()}
    assert found == {"b": [[3, 1], [0.5, 2.5]], "a": [[2], [1.5]]}
    assert arrays_by_flow(rows.clear()) == {}
