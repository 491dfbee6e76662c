"""Rates sent and received, goodput, the encoder's target, and the share of the capacity that was used."""

from __future__ import annotations

from math import nan

import numpy as np
import polars as pl

from rtclab.metrics.registry import (
    EXACT,
    OF_FLOWS,
    OF_MODEL,
    OF_PACKETS,
    OF_REPORTS,
    UNKNOWN,
    exact,
    metric,
    sources,
)
from rtclab.metrics.series import (
    NO_SAMPLES,
    Array,
    IntegerArray,
    Samples,
    flow_seconds,
    from_begin,
    gauge_of_streams,
    mean_slope,
    once,
    per_second,
    samples_by,
    samples_in_window,
    span_ns,
    total,
    window_ns,
)
from rtclab.trace import BITS_PER_BYTE, KBIT_PER_BYTE, NS_PER_S, Trace, rows_by

REACHED = 0.9
"""A rise ends when the rate reaches this share of the later rate."""


@once
def sent_kbps(trace: Trace, flow: str) -> Samples:
    """IP bytes sent in each second, divided by the time in it that the flow was active, in kbit/s."""
    return per_second(trace, flow, "sent_bytes").scaled(KBIT_PER_BYTE)


@once
def received_kbps(trace: Trace, flow: str) -> Samples:
    """IP bytes delivered in each second, divided by the time in it that the flow was active, in kbit/s."""
    return per_second(trace, flow, "delivered_bytes").scaled(KBIT_PER_BYTE)


def received_packets(trace: Trace, flow: str) -> Samples:
    """Packets delivered in each second, divided by the time in it that the flow was active, in 1/s."""
    return per_second(trace, flow, "delivered_packets")


@once
def target_kbps(trace: Trace, flow: str) -> Samples:
    """The encoders' target bitrate at every report, summed over the flow's streams, in kbit/s."""
    return gauge_of_streams(trace, "outbound_rtp", flow, "targetBitrate").scaled(1e-3)


def controller_target_kbps(trace: Trace, flow: str) -> Samples:
    """The target of the sender's congestion control in kbit/s: its mean over each second of the flow.

    A target holds until the next one. There are none before the first, and none if the trace has no targets.
    """
    rows = trace.cached(_targets).get(flow)
    if rows is None:
        return NO_SAMPLES
    at_s, target_kbps = rows["at_ns"].to_numpy() / NS_PER_S, rows["value"].to_numpy() / 1000
    end_s = span_ns(trace.whole, flow)[1] / NS_PER_S
    edges = np.append(np.arange(np.ceil(at_s[0]), end_s), end_s)
    if at_s[0] >= end_s or edges.size < 2:
        return NO_SAMPLES
    area = np.concatenate([[0.0], np.cumsum(np.diff(at_s) * target_kbps[:-1])])
    last = np.searchsorted(at_s, edges, side="right") - 1
    until = area[last] + (edges - at_s[last]) * target_kbps[last]
    lasts_s = np.diff(edges)
    return samples_in_window(Samples(edges[:-1], np.diff(until) / lasts_s, lasts_s), trace.window)


def _targets(trace: Trace) -> dict[str, pl.DataFrame]:
    rows = trace.table("controller").filter(pl.col("name") == "target_bps").sort("at_ns", maintain_order=True)
    return rows_by(rows, "flow")


@metric(unit="kbit/s", source="RFC 8868, section 3", samples=sent_kbps, known=OF_PACKETS)
def sending_rate(trace: Trace, flow: str) -> float:
    """Mean rate (kbit/s) of IP packets sent, headers and retransmissions included.

    The time is from the flow's first packet to the end of its connection.
    """
    return sent_kbps(trace, flow).mean()


@metric(unit="kbit/s", better="higher", source="RFC 8868, section 3", samples=received_kbps, known=OF_PACKETS)
def receiving_rate(trace: Trace, flow: str) -> float:
    """Mean rate (kbit/s) of IP packets that reached the receiver, headers and retransmissions included.

    The time is from the flow's first packet to the end of its connection.
    """
    return received_kbps(trace, flow).mean()


@metric(unit="kbit/s", better="higher", source="RFC 8868, section 3", known=OF_PACKETS)
def late_rate(trace: Trace, flow: str) -> float:
    """Mean rate (kbit/s) of IP packets that reached the receiver in the second half of the flow's time.

    See ``receiving_rate``. In a window, the flow begins and ends with the window.
    """
    begin_s, end_s = (moment / NS_PER_S for moment in span_ns(trace, flow))
    return received_kbps(trace.within(((begin_s + end_s) / 2, end_s)), flow).mean()


@metric(unit="s", source="the flow's begin and end", known=OF_FLOWS)
def flow_begin(trace: Trace, flow: str) -> float:
    """When (s) the flow became active: its first packet, or the begin of the window if that is later.

    See ``active_time``.
    """
    begin_ns, end_ns = span_ns(trace, flow)
    return begin_ns / NS_PER_S if end_ns > begin_ns else nan


_OF_GOODPUT = sources(
    EXACT,
    exact("unless video came with FEC, whose bytes Chromium does not count"),
    UNKNOWN,
    UNKNOWN,
    exact("without video, or if the browser counts FEC"),
)


@metric(
    unit="kbit/s",
    better="higher",
    source="RFC 8868, section 3; W3C webrtc-stats, bytesReceived",
    known=_OF_GOODPUT,
)
def goodput(trace: Trace, flow: str) -> float:
    """Mean rate (kbit/s) of media payload received, without headers, padding, retransmissions and FEC.

    It is bytesReceived of every stream, less retransmittedBytesReceived and, of video, fecBytesReceived. FEC
    of audio is inside media packets and is not subtracted. The time is from the flow's first packet to the
    receiver's last report on it. There is no value if, at any time in the window, video may contain FEC that
    nobody counted.
    """
    received = from_begin(trace, flow, trace.cached(_media_bytes).get(flow, NO_SAMPLES))
    return mean_slope(received, trace.window) * KBIT_PER_BYTE


def _media_bytes(trace: Trace) -> dict[str, Samples]:
    """By flow, payload bytes of media received so far, at every report; NaN if a stream does not tell them.

    Counters begin at 0, and browsers leave them out until then: a browser counts retransmissions from the
    first packet on the stream of repairs.
    """
    repair = ("retransmittedBytesReceived", "fecBytesReceived")
    reports = trace.table("inbound_rtp").lazy()
    reports = reports.select("flow", "ssrc", "kind", "at_ns", "bytesReceived", *repair)
    rows = reports.sort("at_ns", maintain_order=True)
    known = [
        pl.when(pl.col(name).is_not_null().any().over("flow", "ssrc"))
        .then(pl.col(name).forward_fill().over("flow", "ssrc").fill_null(0))
        .alias(name)
        for name in repair
    ]
    rows = rows.with_columns(known)
    again, fec = (pl.col(name) for name in repair)
    is_audio = pl.col("kind") == "audio"
    has_no_fec = pl.col("flow").is_in(list(trace.cached(flows_without_fec)))
    again = pl.when(is_audio).then(again.fill_null(0)).otherwise(again)
    fec = pl.when(is_audio).then(0).when(has_no_fec).then(fec.fill_null(0)).otherwise(fec)
    rows = rows.with_columns(media=pl.col("bytesReceived") - again - fec)
    whole = pl.when(pl.col("media").is_not_null().all()).then(pl.col("media").sum()).otherwise(nan)
    return samples_by(rows.group_by("flow", "at_ns").agg(whole.alias("media")), "flow", "media")


def flows_without_fec(trace: Trace) -> frozenset[str]:
    """The flows that are known to carry no FEC packets."""
    sent = pl.col("fec_sent_packets")
    none = (sent.is_not_null() & (sent == 0)).all().alias("none")
    counted = trace.table("flow_seconds").lazy().group_by("flow").agg(none)
    return frozenset(counted.filter("none").collect()["flow"])


@metric(
    unit="kbit/s",
    source="W3C webrtc-stats, targetBitrate",
    samples=target_kbps,
    known=OF_REPORTS,
)
def target_bitrate(trace: Trace, flow: str) -> float:
    """Mean rate (kbit/s) that congestion control asked the flow's encoders for, over the reports."""
    return target_kbps(trace, flow).mean()


@metric(
    unit="%",
    better="higher",
    source="receiving_rate and `paths`; RFC 8868, section 3, divides the sending rate instead",
    bounds=(0, 100),
    known=OF_MODEL,
)
def utilisation(trace: Trace, flow: str) -> float:
    """Bits received while the flow was active, in % of what the narrowest path of its route could carry.

    What was sent and lost does not count, unlike in RFC 8868, where a sender above the capacity has more than
    100 %. There is no value if the route is unlimited for any part of that time.
    """
    carried_bits = total(flow_seconds(trace, flow), "delivered_bytes") * BITS_PER_BYTE
    room_bits = _capacity_bits(trace, flow, *span_ns(trace, flow))
    return 100 * carried_bits / room_bits if room_bits > 0 else float("nan")


def _capacity_bits(trace: Trace, flow: str, begin_ns: int, end_ns: int) -> float:
    """Integral of the route's capacity over time, in bits; NaN if it is unlimited at any time."""
    at_ns, capacity_bps = route_capacity(trace, flow)
    held_ns = np.diff(np.clip(np.append(at_ns, end_ns), begin_ns, end_ns))
    held = held_ns > 0
    if held_ns.sum() < end_ns - begin_ns:
        return float("nan")
    return float((capacity_bps[held] * held_ns[held]).sum() / NS_PER_S)


def route_capacity(trace: Trace, flow: str) -> tuple[IntegerArray, Array]:
    """Capacity of the flow's route, which is the smallest capacity of its paths, at each change.

    Returns two arrays of shape (changes,): the time in ns, and the capacity in bit/s from then on. NaN means
    unlimited. In a window, the first is the one that holds when the window begins.
    """
    about = trace.manifest.flows.get(flow)
    at_ns, capacity_bps = capacity_of(trace, about.route if about else ())
    begin_ns, end_ns = window_ns(trace)
    first = max(int(np.searchsorted(at_ns, begin_ns, side="right")) - 1, 0)
    last = int(np.searchsorted(at_ns, end_ns))
    return at_ns[first:last].clip(min=begin_ns), capacity_bps[first:last]


def capacity_of(trace: Trace, route: tuple[str, ...]) -> tuple[IntegerArray, Array]:
    """The smallest capacity of the paths of a route at each change; see :func:`route_capacity`."""
    return trace.cached(_smallest_capacity, route)


def _smallest_capacity(trace: Trace, route: tuple[str, ...]) -> tuple[IntegerArray, Array]:
    known = trace.cached(path_changes, "capacity_bps")
    paths = [known[name] for name in route if name in known]
    moments = np.sort(np.concatenate([np.empty(0, np.int64), *(at_ns for at_ns, _ in paths)]))
    # Removes duplicates. The first np.unique of a program imports numpy.ma, which takes longer than a
    # report's plots.
    changes = moments[np.diff(moments, prepend=-1) > 0]
    smallest = np.full(changes.size, np.inf)
    for at_ns, capacity_bps in paths:
        index = np.searchsorted(at_ns, changes, side="right") - 1
        smallest = np.minimum(smallest, np.where(index >= 0, capacity_bps[np.maximum(index, 0)], np.inf))
    return changes, np.where(np.isinf(smallest), np.nan, smallest)


def path_changes(trace: Trace, column: str) -> dict[object, tuple[IntegerArray, Array]]:
    """By path, the times of changes in ns, and a column of ``paths`` from then on, infinite if unlimited."""
    rows = trace.table("paths").lazy().sort("at_ns", maintain_order=True)
    rows = rows.select("path", "at_ns", pl.col(column).cast(pl.Float64).fill_null(np.inf))
    return {
        name: (path["at_ns"].to_numpy(), path[column].to_numpy())
        for name, path in rows_by(rows.collect(), "path").items()
    }


@metric(
    unit="s",
    better="lower",
    source="Jansen et al. 2017, sections 4.1 and 4.2",
    of_time=True,
    known=OF_PACKETS,
)
def time_to_full_rate(trace: Trace, flow: str) -> float:
    """Time (s) until the receiving rate is full: at least 90 % of its mean over the second half of the flow.

    It is counted from the flow's first packet to the end of the first such second. In a window, the flow
    begins and ends with the window.
    """
    received = received_kbps(trace, flow)
    if not received.values.size:
        return nan
    begin_s, end_s = (moment / NS_PER_S for moment in span_ns(trace, flow))
    later = received.chosen(received.at_s >= (begin_s + end_s) / 2).mean()
    reached = received.at_s[received.values >= REACHED * later]
    return float(reached[0] + 0.5 - begin_s) if reached.size and later > 0 else nan
