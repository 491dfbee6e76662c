"""Delays: round trip, one way, the time spent in queues, and how the one-way delay varies."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

import numpy as np
import polars as pl

from rtclab.metrics.packets import NEVER, PacketColumns, packets_of
from rtclab.metrics.registry import ANY, OF_DELAYS, OF_MODEL, OF_REPORTS, metric
from rtclab.metrics.series import (
    Array,
    IntegerArray,
    Samples,
    arrays_by_flow,
    flow_seconds,
    gauge,
    once,
    span_ns,
    window_ns,
)
from rtclab.trace import NS_PER_MS, NS_PER_S, Trace

HISTOGRAM_BIN_MS = 0.1
NS_PER_BIN = 100_000


@once
def rtt_ms(trace: Trace, flow: str) -> Samples:
    """Round-trip time in ms, at every receiver report about the sender's streams."""
    return gauge(trace, "remote_inbound_rtp", flow, "roundTripTime", scale=1e3)


@once
def one_way_delay_ms(trace: Trace, flow: str) -> Samples:
    """Mean one-way delay of each second in which a packet arrived, in ms."""
    return _delay_of_seconds(trace, flow, "one_way_delay_mean_ms")


def smallest_delay_ms(trace: Trace, flow: str) -> Samples:
    """Smallest one-way delay of each second, in ms."""
    return _delay_of_seconds(trace, flow, "one_way_delay_min_ms")


def largest_delay_ms(trace: Trace, flow: str) -> Samples:
    """Largest one-way delay of each second, in ms."""
    return _delay_of_seconds(trace, flow, "one_way_delay_max_ms")


def _delay_of_seconds(trace: Trace, flow: str, column: str) -> Samples:
    rows = flow_seconds(trace, flow)
    delay_ms = rows[column].to_numpy()
    known = ~np.isnan(delay_ms)
    return Samples(rows["at_ns"].to_numpy()[known] / NS_PER_S + 0.5, delay_ms[known])


_of_round_trips = metric(
    unit="ms",
    better="lower",
    source="RFC 3550, section 6.4.1; W3C webrtc-stats, roundTripTime",
    known=OF_REPORTS,
    samples=rtt_ms,
)


@_of_round_trips
def rtt(trace: Trace, flow: str) -> float:
    """Mean round-trip time (ms) that the sender computes from RTCP receiver reports, over all reports."""
    return rtt_ms(trace, flow).mean()


@_of_round_trips
def rtt_p95(trace: Trace, flow: str) -> float:
    """95th percentile of the round-trip times (ms) in the RTCP receiver reports; see rtt.

    Between two reports it is interpolated.
    """
    values = rtt_ms(trace, flow).values
    return float(np.percentile(values, 95)) if values.size else nan


@metric(
    unit="ms",
    better="lower",
    source="RFC 8868, section 3; RFC 7679",
    known=OF_DELAYS,
    samples=one_way_delay_ms,
    bounds=ANY,  # two captures have two clocks
)
def one_way_delay(trace: Trace, flow: str) -> float:
    """Mean time (ms) from the sender to the receiver, over all packets that arrived.

    In a trace of two captures it includes the difference between their clocks, unless that was corrected.
    """
    rows = flow_seconds(trace, flow)
    delay_ms = rows["one_way_delay_mean_ms"].to_numpy()
    packets = (rows["delivered_packets"] * rows["share"]).to_numpy()
    known = ~np.isnan(delay_ms)
    if not packets[known].sum():
        return float("nan")
    return Samples(rows["at_ns"].to_numpy()[known], delay_ms[known], packets[known]).mean()


_of_variation = metric(
    unit="ms",
    better="lower",
    source="RFC 5481, section 4.2 (packet delay variation)",
    known=OF_DELAYS,
    packets="in a window",
)


_percentile = metric(
    unit="ms", better="lower", source="RFC 8868, section 3", known=OF_MODEL, packets="in a window"
)


@_percentile
def queuing_delay_p5(trace: Trace, flow: str) -> float:
    """5th percentile of the time (ms) that the received packets waited in queues: the standing queue.

    See queuing_delay_p50.
    """
    return _queuing_delay(trace, flow, 5)


@_percentile
def queuing_delay_p25(trace: Trace, flow: str) -> float:
    """25th percentile of the time (ms) that the received packets waited in queues; see queuing_delay_p50."""
    return _queuing_delay(trace, flow, 25)


@_percentile
def queuing_delay_p50(trace: Trace, flow: str) -> float:
    """Median time (ms) that the received packets waited in queues, summed over the paths of the route.

    A packet waits from when it enters a path until its service begins there; on an idle path that is 0.
    Service is not queuing: serialisation, all attempts on Wi-Fi, and waiting at the head of the queue for a
    tick of a testbed, a recorded opportunity or the end of an outage. Known to 0.1 ms, rounded down.
    """
    return _queuing_delay(trace, flow, 50)


@_percentile
def queuing_delay_p75(trace: Trace, flow: str) -> float:
    """75th percentile of the time (ms) that the received packets waited in queues; see queuing_delay_p50."""
    return _queuing_delay(trace, flow, 75)


@_percentile
def queuing_delay_p95(trace: Trace, flow: str) -> float:
    """95th percentile of the time (ms) that the received packets waited in queues; see queuing_delay_p50."""
    return _queuing_delay(trace, flow, 95)


@_of_variation
def delay_variation_p50(trace: Trace, flow: str) -> float:
    """Median packet delay variation (ms): one-way delay of the received packets minus the flow's smallest.

    Besides queuing it contains serialisation and jitter of the path, because the smallest delay is the delay
    of a small packet. If the propagation delay falls during the run, the smallest delay is too small and the
    value too high. Of a flow that a server forwards, first transmissions of media count, because all other
    packets of the flow begin at the server.
    """
    return _delay_variation(trace, flow, 50)


@_of_variation
def delay_variation_p95(trace: Trace, flow: str) -> float:
    """95th percentile of the packet delay variation (ms); see delay_variation_p50."""
    return _delay_variation(trace, flow, 95)


def _queuing_delay(trace: Trace, flow: str, percent: float) -> float:
    """The smallest queuing delay that at least ``percent`` of the packets do not exceed, rounded down."""
    lower_ms, packets = queuing_histogram(trace, flow)
    return float(lower_ms[_bin_of(packets, percent)]) if packets.size else nan


@once
def queuing_histogram(trace: Trace, flow: str) -> tuple[Array, Array]:
    """How long the received packets waited in queues, in bins of 0.1 ms by delay.

    Returns two arrays of shape (bins,): the lower edge in ms, and the number of packets, which is not 0. In a
    window they come from the packets, and are empty if packets were not recorded.
    """
    if trace.window is None:
        return _histogram([trace], flow, "queuing_histogram")
    waited_ns = arrived_in_window(trace, flow).queued_ns
    return _counted(waited_ns[waited_ns != NEVER])


def _counted(times_ns: IntegerArray) -> tuple[Array, Array]:
    """The lower edges in ms of the bins in which times lie, and the number of times in each."""
    bins, counts = np.unique(times_ns // NS_PER_BIN, return_counts=True)
    return (bins * HISTOGRAM_BIN_MS).astype(np.float64), counts.astype(np.float64)


def _delay_variation(trace: Trace, flow: str, percent: float) -> float:
    if trace.window is not None:
        return _delay_variation_in(trace, flow, percent)
    lower_ms, packets = trace.cached(_bins, flow)
    if not packets.size:
        return nan
    reached = np.cumsum(packets)
    index = _bin_of(packets, percent)
    into_bin = 1 - (reached[index] - percent * reached[-1] / 100) / packets[index]
    return float(lower_ms[index] - lower_ms[0] + into_bin * HISTOGRAM_BIN_MS)


def _delay_variation_in(trace: Trace, flow: str, percent: float) -> float:
    least_ms, _ = trace.cached(_bins, flow)
    all_ns, delays_ns = _delays_ns(_arrived(trace, flow)), _delays_ns(arrived_in_window(trace, flow))
    base_ns = round(least_ms[0] * NS_PER_MS) if least_ms.size else all_ns.min(initial=np.iinfo(np.int64).max)
    # A copy of a live server whose original was not found has only a part of its delay.
    delays_ns = delays_ns[delays_ns >= base_ns]
    return float((np.percentile(delays_ns, percent) - base_ns) / NS_PER_MS) if delays_ns.size else nan


def _bin_of(packets: Array, percent: float) -> int:
    """Index of the first bin with which at least ``percent`` of all packets are counted."""
    reached = np.cumsum(packets)
    return int(np.searchsorted(reached, percent * reached[-1] / 100))


def arrived_in_window(trace: Trace, flow: str) -> PacketColumns:
    """The packets whose delays count that were sent in the trace's window and arrived; see ``_arrived``."""
    packets, (begin_ns, end_ns) = _arrived(trace, flow), window_ns(trace)
    return packets.chosen((packets.sent_ns >= begin_ns) & (packets.sent_ns < end_ns))


def _arrived(trace: Trace, flow: str) -> PacketColumns:
    """The packets whose delays count: they arrived before the flow's end. See also ``FlowInfo.forwarded``."""
    packets, end_ns = packets_of(trace, flow), span_ns(trace.whole, flow)[1]
    arrived = (packets.delivered_ns != NEVER) & (packets.delivered_ns < end_ns)
    about = trace.manifest.flows.get(flow)
    if about is not None and about.forwarded:
        arrived &= packets.is_first
    return packets.chosen(arrived)


def _delays_ns(packets: PacketColumns) -> IntegerArray:
    return packets.delivered_ns - packets.sent_ns


def one_way_delay_cdf(traces: Sequence[Trace], flow: str) -> tuple[Array, Array]:
    """Cumulative distribution of the one-way delay, over all packets received in several repeats.

    Returns two arrays of shape (points,): delay in ms, and share of packets (0..1) with at most that delay.
    They come from the 0.1 ms histogram and assume that packets are spread evenly over their bin. Both are
    empty if no packet was received, and if traces have a window and packets were not recorded.
    """
    if all(trace.window is None for trace in traces):
        lower_ms, packets = _histogram(traces, flow, "delay_histogram")
    else:
        delays_ns = [_delays_ns(arrived_in_window(trace, flow)) for trace in traces]
        lower_ms, packets = _counted(np.concatenate(delays_ns))
    return cdf_of_bins(lower_ms, packets)


def cdf_of_bins(lower_ms: Array, packets: Array) -> tuple[Array, Array]:
    """Cumulative distribution of a histogram with bins of 0.1 ms, as :func:`one_way_delay_cdf` returns it."""
    if not packets.size:
        return lower_ms, packets
    reached = np.cumsum(packets) / packets.sum()
    # Both edges of each occupied bin: between bins the curve is flat.
    delay_ms = np.column_stack([lower_ms, lower_ms + HISTOGRAM_BIN_MS]).ravel()
    share = np.column_stack([np.append(0.0, reached[:-1]), reached]).ravel()
    return delay_ms, share


def _bins(trace: Trace, flow: str) -> tuple[Array, Array]:
    return _histogram([trace], flow, "delay_histogram")


def _histogram(traces: Sequence[Trace], flow: str, name: str) -> tuple[Array, Array]:
    """The occupied bins by delay: lower edges in ms and numbers of packets, each of shape (bins,)."""
    known = (trace.cached(_histograms, name).get(flow) for trace in traces)
    bins, counts = zip((np.empty(0), np.empty(0)), *filter(None, known), strict=True)
    lower_ms: Array = np.concatenate(bins)
    packets: Array = np.concatenate(counts)
    if not (lower_ms[1:] > lower_ms[:-1]).all():  # several repeats
        lower_ms, index = np.unique(lower_ms, return_inverse=True)
        packets = np.bincount(index, weights=packets).astype(np.float64)
    occupied = packets > 0
    return lower_ms[occupied], packets[occupied]


def _histograms(trace: Trace, name: str) -> dict[str, tuple[Array, ...]]:
    """By flow, the lower edges in ms of bins, and the number of packets in each."""
    rows = trace.table(name)
    return arrays_by_flow(rows.select("flow", pl.nth(1), pl.col("packets").cast(pl.Float64)))
