"""When packets arrive: times between them, and how these vary."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from rtclab.metrics.registry import EXACT, OF_RTP, metric
from rtclab.metrics.series import Array, Samples, Window, before_end, gauge, window_ns
from rtclab.trace import NS_PER_MS, NS_PER_S, Trace, rows_by

JITTER_GAIN = 1 / 16
"""RFC 3550, section 6.4.1."""
VIDEO_CLOCK = 90_000
"""Hz; RFC 7741, section 6.1, and every other format of video."""


@metric(
    unit="ms",
    better="lower",
    source="Abelló Lozano 2013, section 4.2.4; Jansen et al. 2017, figure 19",
    known=OF_RTP,
    packets="always",
)
def inter_arrival_time(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Mean time (ms) between the arrivals of consecutive RTP packets. NaN if packets were not recorded."""
    between = inter_arrival_ms(trace, flow, window).values
    return float(between.mean()) if between.size else float("nan")


@metric(
    unit="ms",
    better="lower",
    source="Abelló Lozano 2013, section 4.2.4; Jansen et al. 2017, figure 19",
    known=OF_RTP,
    packets="always",
)
def inter_arrival_p95(trace: Trace, flow: str, window: Window | None = None) -> float:
    """95th percentile (ms) of the times between arrivals of consecutive RTP packets."""
    between = inter_arrival_ms(trace, flow, window).values
    return float(np.percentile(between, 95)) if between.size else float("nan")


@metric(
    unit="ms",
    better="lower",
    source="RFC 3550, sections 6.4.1 and A.8; W3C webrtc-stats, jitter",
    known=OF_RTP | {"dump": EXACT},
)
def jitter(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Mean interarrival jitter (ms) over the receiver's reports. In captures, which have no reports, it is
    computed from the arrivals of the video stream with most packets, with a clock of 90 kHz."""
    reported = gauge(trace, "inbound_rtp", flow, "jitter", window, scale=1e3)
    if reported.values.size:
        return reported.mean()
    return jitter_ms(trace, flow, window).mean()


def inter_arrival_ms(trace: Trace, flow: str, window: Window | None = None) -> Samples:
    """Times between the arrivals of consecutive RTP packets in ms, each at the later arrival.

    Both packets arrived in the window. A capture at one point has the times at which packets passed it.
    """
    arrived_ns = _arrivals(trace, flow, window)["arrived_ns"].to_numpy()
    return Samples(arrived_ns[1:] / NS_PER_S, np.diff(arrived_ns) / NS_PER_MS)


def jitter_ms(trace: Trace, flow: str, window: Window | None = None) -> Samples:
    """Interarrival jitter after each packet of the video stream with most packets, in ms (RFC 3550)."""
    video = _arrivals(trace, flow, window).filter(pl.col("kind") == "video").drop_nulls("rtp_timestamp")
    if video.height < 2:
        return Samples(np.empty(0), np.empty(0))
    most = video["ssrc"].value_counts(sort=True)["ssrc"][0]
    stream = video.filter(pl.col("ssrc") == most)
    arrived_ns = stream["arrived_ns"].to_numpy()
    # Timestamps wrap after 13 hours.
    elapsed = np.diff(stream["rtp_timestamp"].to_numpy()).astype(np.uint32).astype(np.int32)
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


def _arrivals(trace: Trace, flow: str, window: Window | None) -> pl.DataFrame:
    """Arrivals of the RTP packets of a flow: ``arrived_ns``, ``kind``, ``ssrc`` and ``rtp_timestamp``."""
    rows = trace.cached(_arrivals_of_flows).get(flow, NO_ARRIVALS)
    if window is None:
        return rows
    return rows.filter(pl.col("arrived_ns").is_between(*window_ns(window), closed="left"))


NO_ARRIVALS = pl.DataFrame(
    schema={"arrived_ns": pl.Int64(), "kind": pl.String(), "ssrc": pl.Int64(), "rtp_timestamp": pl.Int64()}
)


def _arrivals_of_flows(trace: Trace) -> dict[object, pl.DataFrame]:
    if "packets" not in trace.tables:
        return {}
    packets = trace.table("packets").filter(pl.col("protocol") == "rtp")
    # A capture at a single point has one time per packet, stored as the send time.
    one_point = trace.manifest.capture is not None and packets["delivered_ns"].null_count() == packets.height
    arrived_ns = pl.col("sent_ns" if one_point else "delivered_ns")
    arrived = packets.filter(arrived_ns.is_not_null() & before_end(trace, arrived_ns.meta.output_name()))
    rows = arrived.select("flow", "kind", "ssrc", "rtp_timestamp", arrived_ns=arrived_ns)
    return rows_by(rows.sort("arrived_ns", maintain_order=True), "flow")
