"""Delays: round trip, one way, and the part of the one-way delay spent in queues."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from rtclab.metrics.registry import ANY, metric
from rtclab.metrics.series import (
    NS_PER_S,
    Array,
    Samples,
    Window,
    before_end,
    flow_seconds,
    gauge,
    window_ns,
)
from rtclab.trace import Trace, rows_by

HISTOGRAM_BIN_MS = 0.1
NS_PER_MS = 1_000_000


def rtt_ms(trace: Trace, flow: str, window: Window | None = None) -> Samples:
    """Round-trip time in ms, at every receiver report about the sender's streams."""
    return gauge(trace, "remote_inbound_rtp", flow, "roundTripTime", window, scale=1e3)


def one_way_delay_ms(trace: Trace, flow: str, window: Window | None = None) -> Samples:
    """Mean one-way delay of each second in which a packet arrived, in ms."""
    return _delay_of_seconds(trace, flow, window, "one_way_delay_mean_ms")


def smallest_delay_ms(trace: Trace, flow: str, window: Window | None = None) -> Samples:
    """Smallest one-way delay of each second, in ms."""
    return _delay_of_seconds(trace, flow, window, "one_way_delay_min_ms")


def largest_delay_ms(trace: Trace, flow: str, window: Window | None = None) -> Samples:
    """Largest one-way delay of each second, in ms."""
    return _delay_of_seconds(trace, flow, window, "one_way_delay_max_ms")


def _delay_of_seconds(trace: Trace, flow: str, window: Window | None, column: str) -> Samples:
    rows = flow_seconds(trace, flow, window)
    delay_ms = rows[column].to_numpy()
    known = ~np.isnan(delay_ms)
    return Samples(rows["at_ns"].to_numpy()[known] / NS_PER_S + 0.5, delay_ms[known])


@metric(
    unit="ms",
    better="lower",
    source="RFC 3550, section 6.4.1; W3C webrtc-stats, roundTripTime",
    samples=rtt_ms,
)
def rtt(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Mean round-trip time (ms) that the sender computes from RTCP receiver reports, over all reports."""
    return rtt_ms(trace, flow, window).mean()


@metric(
    unit="ms",
    better="lower",
    source="RFC 8868, section 3; RFC 7679",
    samples=one_way_delay_ms,
    bounds=ANY,  # two captures have two clocks
)
def one_way_delay(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Mean time (ms) from the sender to the receiver, over all packets that arrived.

    In a trace of two captures it includes the difference between their clocks, unless that was corrected.
    """
    rows = flow_seconds(trace, flow, window)
    delay_ms = rows["one_way_delay_mean_ms"].to_numpy()
    packets = (rows["delivered_packets"] * rows["share"]).to_numpy()
    known = ~np.isnan(delay_ms)
    if not packets[known].sum():
        return float("nan")
    return Samples(rows["at_ns"].to_numpy()[known], delay_ms[known], packets[known]).mean()


@metric(unit="ms", better="lower", source="RFC 8868, section 3; base delay as in LEDBAT, RFC 6817")
def queuing_delay_p50(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Median queuing delay (ms) of the received packets: one-way delay minus the smallest one of the flow.

    The smallest delay stands for the propagation delay; if that falls during the run, the value is too high.
    """
    return _queuing_delay(trace, flow, window, 50)


@metric(unit="ms", better="lower", source="RFC 8868, section 3; base delay as in LEDBAT, RFC 6817")
def queuing_delay_p95(trace: Trace, flow: str, window: Window | None = None) -> float:
    """95th percentile of the queuing delay (ms) of the received packets.

    The queuing delay is the one-way delay minus the smallest one of the flow.
    """
    return _queuing_delay(trace, flow, window, 95)


def _queuing_delay(trace: Trace, flow: str, window: Window | None, percent: float) -> float:
    if window is not None:
        return _queuing_delay_of_packets(trace, flow, window, percent)
    lower_ms, packets = trace.cached(_histogram_of, flow)
    if not packets.size:
        return float("nan")
    reached = np.cumsum(packets)
    wanted = percent * reached[-1] / 100
    index = int(np.searchsorted(reached, wanted))
    into_bin = 1 - (reached[index] - wanted) / packets[index]
    return float(lower_ms[index] - lower_ms[0] + into_bin * HISTOGRAM_BIN_MS)


def _queuing_delay_of_packets(trace: Trace, flow: str, window: Window, percent: float) -> float:
    """A percentile over the packets in a window; NaN if packets were not recorded.

    The histogram has no times. The smallest delay is that of the whole flow.
    """
    packets = trace.cached(_delays_of_packets).get(flow)
    if packets is None:
        return float("nan")
    chosen = packets.filter(pl.col("sent_ns").is_between(*window_ns(window), closed="left"))["delay_ns"]
    if chosen.is_empty():
        return float("nan")
    base_ns = float(packets["delay_ns"].to_numpy().min())
    return float((np.percentile(chosen.to_numpy(), percent) - base_ns) / NS_PER_MS)


def _delays_of_packets(trace: Trace) -> dict[object, pl.DataFrame]:
    """By flow, ``sent_ns`` and ``delay_ns`` of packets that arrived; empty if packets were not recorded."""
    if "packets" not in trace.tables:
        return {}
    arrived = trace.table("packets").filter(before_end(trace, "delivered_ns"))
    delay_ns = pl.col("delivered_ns") - pl.col("sent_ns")
    return rows_by(arrived.select("flow", "sent_ns", delay_ns=delay_ns), "flow")


def one_way_delay_cdf(traces: Sequence[Trace], flow: str) -> tuple[Array, Array]:
    """Cumulative distribution of the one-way delay, over all packets received in several repeats.

    Returns two arrays of shape (points,): delay in ms, and share of packets (0..1) with at most that delay.
    They come from the 0.1 ms histogram and assume that packets are spread evenly over their bin. Both are
    empty if no packet was received.
    """
    lower_ms, packets = _histogram(traces, flow)
    if not packets.size:
        return lower_ms, packets
    reached = np.cumsum(packets) / packets.sum()
    # Both edges of each occupied bin: between bins the curve is flat.
    delay_ms = np.column_stack([lower_ms, lower_ms + HISTOGRAM_BIN_MS]).ravel()
    share = np.column_stack([np.append(0.0, reached[:-1]), reached]).ravel()
    return delay_ms, share


def _histogram_of(trace: Trace, flow: str) -> tuple[Array, Array]:
    return _histogram([trace], flow)


def _histogram(traces: Sequence[Trace], flow: str) -> tuple[Array, Array]:
    """The occupied bins by delay: lower edges in ms and numbers of packets, each of shape (bins,)."""
    tables = [trace.rows_of_flow("delay_histogram", flow) for trace in traces]
    edges_ms = np.concatenate([table["one_way_delay_ms"].to_numpy() for table in tables])
    counts = np.concatenate([table["packets"].to_numpy() for table in tables])
    lower_ms, index = np.unique(edges_ms, return_inverse=True)
    packets: Array = np.bincount(index, weights=counts).astype(np.float64)
    return lower_ms[packets > 0], packets[packets > 0]
