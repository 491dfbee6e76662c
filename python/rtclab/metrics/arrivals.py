"""When packets arrive: times between them, and how these vary."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from rtclab.metrics.packets import NEVER, packets_of, were_recorded
from rtclab.metrics.registry import EXACT, OF_RTP, metric
from rtclab.metrics.series import NO_SAMPLES, Array, IntegerArray, Samples, gauge, span_ns, window_ns
from rtclab.trace import NS_PER_MS, NS_PER_S, Trace, rows_by

JITTER_GAIN = 1 / 16
"""RFC 3550, section 6.4.1."""
VIDEO_CLOCK = 90_000
"""Hz; RFC 7741, section 6.1, and every other format of video."""


_of_arrivals = metric(
    unit="ms",
    better="lower",
    source="Abelló Lozano 2013, section 4.2.4; Jansen et al. 2017, figure 19",
    known=OF_RTP,
    packets="always",
)


@_of_arrivals
def inter_arrival_time(trace: Trace, flow: str) -> float:
    """Mean time (ms) between the arrivals of consecutive RTP packets. NaN if packets were not recorded."""
    between = inter_arrival_ms(trace, flow).values
    return float(between.mean()) if between.size else float("nan")


@_of_arrivals
def inter_arrival_p95(trace: Trace, flow: str) -> float:
    """95th percentile (ms) of the times between arrivals of consecutive RTP packets."""
    between = inter_arrival_ms(trace, flow).values
    return float(np.percentile(between, 95)) if between.size else float("nan")


@metric(
    unit="ms",
    better="lower",
    source="RFC 3550, sections 6.4.1 and A.8; W3C webrtc-stats, jitter",
    known=OF_RTP | {"dump": EXACT},
)
def jitter(trace: Trace, flow: str) -> float:
    """Mean interarrival jitter (ms) over the receiver's reports.

    Receivers follow libwebrtc, also simulated ones: only the first packet of each RTP timestamp, which is the
    first of a frame, changes it. In captures, which have no reports, it is computed after every packet, as
    RFC 3550 says, of the video stream with most packets and with a clock of 90 kHz. There it contains how
    the packets of a frame are spread by pacing, so that it is larger. Do not compare the two.
    """
    reported = gauge(trace, "inbound_rtp", flow, "jitter", scale=1e3)
    if reported.values.size:
        return reported.mean()
    return jitter_ms(trace, flow).mean()


def inter_arrival_ms(trace: Trace, flow: str) -> Samples:
    """Times between the arrivals of consecutive RTP packets in ms, each at the later arrival.

    Both packets arrived in the window. A capture at one point has the times at which packets passed it.
    """
    arrived_ns = _arrivals_ns(trace, flow)
    return Samples(arrived_ns[1:] / NS_PER_S, np.diff(arrived_ns) / NS_PER_MS)


def jitter_ms(trace: Trace, flow: str) -> Samples:
    """Interarrival jitter after each packet of the video stream with most packets, in ms (RFC 3550).

    libwebrtc, whose reports :func:`jitter` has if there are any, updates it once a frame.
    """
    video = trace.cached(_largest_videos).get(flow)
    if video is None:
        return NO_SAMPLES
    from_ns, to_ns = span_ns(trace, flow)
    arrived_ns = video["arrived_ns"].to_numpy()
    chosen = (arrived_ns >= from_ns) & (arrived_ns < to_ns)
    arrived_ns, timestamps = arrived_ns[chosen], video["rtp_timestamp"].to_numpy()[chosen]
    if arrived_ns.size < 2:
        return NO_SAMPLES
    # Timestamps wrap after 13 hours.
    elapsed = np.diff(timestamps).astype(np.uint32).astype(np.int32)
    transit = np.abs(np.diff(arrived_ns) / NS_PER_MS - elapsed * 1e3 / VIDEO_CLOCK)
    smoothed = pl.Series(transit).ewm_mean(alpha=JITTER_GAIN, adjust=False)
    # The recursion starts at 0 and not at the first difference.
    start = transit[0] * (1 - JITTER_GAIN) ** np.arange(1, transit.size + 1)
    return Samples(arrived_ns[1:] / NS_PER_S, smoothed.to_numpy() - start)


def inter_arrival_cdf(traces: Sequence[Trace], flow: str) -> tuple[Array, Array]:
    """Cumulative distribution of the times between arrivals, over all RTP packets of several repeats.

    Returns two arrays of shape (pairs of packets,): time in ms in ascending order, and share of pairs (0..1)
    with at most that time. Both are empty if no packets were recorded.
    """
    between = np.sort(np.concatenate([inter_arrival_ms(trace, flow).values for trace in traces]))
    return between, np.arange(1, between.size + 1) / max(between.size, 1)


def _largest_videos(trace: Trace) -> dict[str, pl.DataFrame]:
    """By flow, arrivals and timestamps of its largest video stream, in order, in traces without reports."""
    if not were_recorded(trace) or not trace.table("inbound_rtp").is_empty():
        return {}
    columns = {name: pl.col(name) for name in ("flow", "kind", "ssrc", "rtp_timestamp")}
    arrived_ns = pl.col("sent_ns" if trace.cached(_at_one_point) else "delivered_ns")
    packets = trace.select("packets", **columns, arrived_ns=arrived_ns)
    video = packets.filter(pl.col("kind") == "video").drop_nulls().sort("arrived_ns", maintain_order=True)
    of_stream = pl.len().over("flow", "ssrc")
    largest = video.filter(
        pl.col("ssrc") == pl.col("ssrc").sort_by(of_stream, maintain_order=True).last().over("flow")
    )
    return rows_by(largest, "flow")


def _arrivals_ns(trace: Trace, flow: str) -> IntegerArray:
    """When the RTP packets of a flow arrived, in order.

    A capture at a single point has one time per packet, stored as the send time.
    """
    packets, end_ns = packets_of(trace, flow).rtp, span_ns(trace.whole, flow)[1]
    arrived_ns = packets.sent_ns if trace.cached(_at_one_point) else packets.delivered_ns
    from_ns, to_ns = window_ns(trace)
    return np.sort(arrived_ns[(arrived_ns >= from_ns) & (arrived_ns < min(to_ns, end_ns))])


def _at_one_point(trace: Trace) -> bool:
    """Whether the trace is of a capture in which no RTP packet has two times."""
    if trace.manifest.capture is None:
        return False
    return not any((packets_of(trace, flow).rtp.delivered_ns != NEVER).any() for flow in trace.manifest.flows)
