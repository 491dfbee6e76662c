"""Estimates a path from getStats: counters and round trips once a second, without packets.

Both directions share the round trip. So a queue can be in either, and delays are half of the sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from rtclab.estimate.findings import Finding, percent_text, rate_text, time_text
from rtclab.estimate.packets import Flags
from rtclab.estimate.path import LEAST_LOSS, PathEstimate
from rtclab.metrics.series import BITS_PER_BYTE, Array
from rtclab.trace import NS_PER_S, Trace

IP_AND_UDP_BYTES = 28
SRTP_BYTES = 10
QUEUE_S, QUEUE_SHARE = 0.010, 0.15
"""A queue shows if the round trip is longer than the smallest by this time and by this share."""
FEWEST_LOADED = 5
"""Fewer seconds with a queue do not tell the capacity."""
AT_CAPACITY = 0.98
"""Quantile of the rates with a queue that is taken as the capacity: a congestion control stays below it."""
BELOW, ABOVE = 0.95, 1.25
"""The interval of the capacity, relative to it."""
LOSSY = 0.02
"""With more random loss than this, a congestion control does not come to the capacity."""
STEADY, LEAST_MAXIMUM_BPS = 1.12, 1.6e6
"""A rate that swings less than this and is as high as a camera's usual maximum is not limited by the path."""


@dataclass(frozen=True)
class Seconds:
    """What getStats counts of a direction, at the end of each interval of about a second.

    Rates are of IP packets, in bit/s. ``round_trip_s`` is NaN where it is not known. ``outgoing`` says
    whether ``packets`` were sent, or received.
    """

    at_s: Array
    rate_bps: Array
    packets: Array
    lost: Array
    round_trip_s: Array
    outgoing: bool


def path_of_counters(trace: Trace, flow: str) -> PathEstimate:
    """Estimates the path of a direction from reports of getStats."""
    values: dict[str, Any] = {}
    seconds = _seconds(trace, flow)
    trips_s = seconds.round_trip_s[np.isfinite(seconds.round_trip_s)]
    least_s = float(trips_s.min()) if trips_s.size else None
    queue_s = np.zeros_like(seconds.rate_bps) if least_s is None else seconds.round_trip_s - least_s
    queued = np.nan_to_num(queue_s) > max(QUEUE_S, QUEUE_SHARE * (least_s or 0.0))
    found = [_capacity(flow, seconds, queued, values), _delay(flow, least_s, values)]
    found.append(Finding(flow, "jitter", None, None, None, "ms", "unknown", "counters do not tell it"))
    longest_ms = 1000 * float(np.nanmax(queue_s)) if least_s is not None and queue_s.size else None
    found.append(
        Finding(
            flow,
            "queue",
            longest_ms,
            longest_ms,
            None,
            "ms",
            "unknown" if longest_ms is None else "at least",
            "of both directions together",
        )
    )
    found.append(_loss(flow, seconds, queued, values))
    return PathEstimate(flow, values, tuple(found), "capacity" in values)


def _seconds(trace: Trace, flow: str) -> Seconds:
    """The counters of a flow, from the reports of its sender if there are any, or else of its receiver."""
    sent = trace.table("outbound_rtp").filter(pl.col("flow") == flow)
    outgoing = not sent.is_empty()
    rows = sent if outgoing else trace.table("inbound_rtp").filter(pl.col("flow") == flow)
    count, size = ("packetsSent", "bytesSent") if outgoing else ("packetsReceived", "bytesReceived")
    header = "headerBytesSent" if outgoing else "headerBytesReceived"
    lost = pl.lit(None, pl.Int64) if outgoing else pl.col("packetsLost")
    streams = (
        rows.with_columns(lost=lost.fill_null(0), head=pl.col(header).fill_null(12 * pl.col(count)))
        .group_by("at_ns")
        .agg(pl.col(count, size, "head", "lost").sum())
        .sort("at_ns")
    )
    at_s = streams["at_ns"].to_numpy() / NS_PER_S
    took_s = np.maximum(np.diff(at_s), 1e-3)
    packets = np.maximum(np.diff(streams[count].to_numpy()), 0).astype(float)
    content = np.maximum(np.diff((streams[size] + streams["head"]).to_numpy()), 0)
    gone = np.diff(streams["lost"].to_numpy()).astype(float)
    heard = trace.table("remote_inbound_rtp").filter(pl.col("flow") == flow)
    if outgoing and not heard.is_empty():
        known = heard.group_by("at_ns").agg(pl.col("packetsLost").fill_null(0).sum()).sort("at_ns")
        total = np.interp(at_s, known["at_ns"].to_numpy() / NS_PER_S, known["packetsLost"].to_numpy())
        gone = np.diff(total)
    rate = BITS_PER_BYTE * (content + packets * (IP_AND_UDP_BYTES + SRTP_BYTES)) / took_s
    if outgoing:
        # What was sent less what was lost is what the path carried.
        rate = rate * (1 - np.clip(gone / np.maximum(packets, 1), 0, 1))
    return Seconds(at_s[1:], rate, packets, gone, _round_trips(trace, at_s[1:]), outgoing)


def _round_trips(trace: Trace, at_s: Array) -> Array:
    """The largest round trip that was reported about each time, in s; NaN where none was."""
    trips = [
        trace.table("remote_inbound_rtp").select("at_ns", trip="roundTripTime"),
        trace.table("candidate_pair").select("at_ns", trip="currentRoundTripTime"),
    ]
    known = pl.concat(trips).drop_nulls().filter(pl.col("trip").is_finite(), pl.col("trip") > 0).sort("at_ns")
    times, values = known["at_ns"].to_numpy() / NS_PER_S, known["trip"].to_numpy()
    found = np.full(len(at_s), np.nan)
    for index, at in enumerate(at_s):
        near = values[(times > at - 1.2) & (times <= at + 0.3)]
        if near.size:
            found[index] = near.max()
    return found


def _capacity(flow: str, seconds: Seconds, queued: Flags, values: dict[str, Any]) -> Finding:
    if not seconds.rate_bps.size:
        return Finding(
            flow, "capacity", None, None, None, "kbit/s", "unknown", "no arrivals of packets and no counters"
        )
    highest = float(np.quantile(seconds.rate_bps, 0.98))
    # A direction is loaded if its own rate is near its highest while the round trip shows a queue.
    loaded = queued & (seconds.rate_bps > 0.5 * highest)
    steady = highest > LEAST_MAXIMUM_BPS and highest < STEADY * float(np.median(seconds.rate_bps))
    few = loaded.sum() < max(FEWEST_LOADED, 0.05 * queued.size)
    if few or steady or _random_loss(seconds, queued) > LOSSY:
        low = highest / 1000
        return Finding(
            flow, "capacity", low, low, None, "kbit/s", "at least", "the call did not load the path"
        )
    bps = float(np.quantile(seconds.rate_bps[loaded], AT_CAPACITY))
    values["capacity"] = rate_text(bps)
    kbps = bps / 1000
    note = "from the rate while the round trip shows a queue, which may be in the other direction"
    return Finding(flow, "capacity", kbps, BELOW * kbps, ABOVE * kbps, "kbit/s", "measured", note)


def _delay(flow: str, least_s: float | None, values: dict[str, Any]) -> Finding:
    if least_s is None:
        return Finding(flow, "delay", None, None, None, "ms", "unknown", "no round trip was reported")
    values["delay"] = time_text(least_s / 2)
    return Finding(
        flow,
        "delay",
        500 * least_s,
        0.0,
        1000 * least_s,
        "ms",
        "half of the round trip",
        "the smallest round trip that was reported",
    )


def _calm(queued: Flags) -> Flags:
    """The seconds without a queue; all if there are too few."""
    return ~queued if (~queued).sum() >= max(FEWEST_LOADED, 0.1 * queued.size) else np.ones_like(queued)


def _random_loss(seconds: Seconds, queued: Flags) -> float:
    """Loss ratio in seconds without a queue."""
    calm = _calm(queued)
    packets, lost = seconds.packets[calm].sum(), max(float(seconds.lost[calm].sum()), 0.0)
    total = packets if seconds.outgoing else packets + lost
    return min(lost / total, 0.99) if total else 0.0


def _loss(flow: str, seconds: Seconds, queued: Flags, values: dict[str, Any]) -> Finding:
    calm = _calm(queued)
    packets = float(seconds.packets[calm].sum())
    if not packets:
        return Finding(flow, "loss", None, None, None, "%", "unknown", "no packets were counted")
    ratio = _random_loss(seconds, queued)
    if ratio >= LEAST_LOSS:
        values["loss"] = percent_text(ratio)
    half = 2 * float(np.sqrt(max(ratio * (1 - ratio), 1e-4) / packets)) + 0.1 * ratio
    note = "" if calm.sum() < calm.size else "drops of a full queue may be among them"
    return Finding(
        flow, "loss", 100 * ratio, max(100 * (ratio - half), 0.0), 100 * (ratio + half), "%", "measured", note
    )
