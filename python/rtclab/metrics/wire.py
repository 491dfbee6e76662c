"""The same media counted twice: as packets on the wire, and by the browser in getStats.

On the wire, IP packets count in the second in which they arrive. getStats counts RTP headers and payload,
after decryption, from one report to the next. It includes retransmissions that could be used, and does not
count padding as payload.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import nan

import polars as pl

from rtclab.metrics.packets import NEVER, PacketColumns, packets_of, were_recorded
from rtclab.metrics.registry import OF_REPORTS, metric
from rtclab.metrics.series import (
    NO_SAMPLES,
    SECOND_NS,
    Samples,
    from_begin,
    once,
    rates_of,
    samples_by,
    samples_in_window,
    slopes,
    span_ns,
)
from rtclab.trace import KBIT_PER_BYTE, NS_PER_S, Trace

VIDEO = "video"
REPAIR = ("rtx", "fec", "padding")
"""Kinds of packets sent in addition to media. Only video has them here, so they count as video."""

_COUNTERS = {
    "outbound_rtp": ("bytesSent", "headerBytesSent"),
    "inbound_rtp": ("bytesReceived", "headerBytesReceived"),
}


def stats_sent_kbps(trace: Trace, flow: str) -> Samples:
    """RTP headers and payload sent between consecutive reports, in kbit/s."""
    return _bytes_per_second(trace, flow, "outbound_rtp", None).scaled(KBIT_PER_BYTE)


def stats_received_kbps(trace: Trace, flow: str, kind: str | None = None) -> Samples:
    """RTP headers and payload received between consecutive reports, in kbit/s; of one kind, if given."""
    return _bytes_per_second(trace, flow, "inbound_rtp", kind).scaled(KBIT_PER_BYTE)


def wire_received_kbps(trace: Trace, flow: str, kind: str | None = None) -> Samples:
    """IP bytes of the RTP packets that arrived in each second, in kbit/s; of one kind, if given."""
    arrived = _arrived(trace, flow, kind)
    arrived = arrived.chosen(arrived.delivered_ns < span_ns(trace.whole, flow)[1])
    at_ns = arrived.delivered_ns
    if not at_ns.size:
        return NO_SAMPLES
    rates = rates_of(trace, flow, at_ns, arrived.size_bytes)
    # The seconds of set-up are left out: there are no media yet.
    return rates.chosen(rates.at_s >= at_ns.min() // SECOND_NS).scaled(KBIT_PER_BYTE)


@metric(
    unit="kbit/s",
    source="W3C webrtc-stats, bytesSent and headerBytesSent",
    samples=stats_sent_kbps,
    known=OF_REPORTS,
)
def stats_sending_rate(trace: Trace, flow: str) -> float:
    """Mean rate (kbit/s) of RTP headers and payload sent, as the sender's getStats counts them.

    The time is from the flow's first packet to the last report. Unlike sending_rate, it does not count IP,
    UDP and SRTP headers, RTCP, STUN and DTLS, and some retransmissions and padding.
    """
    return _bytes_per_second(trace, flow, "outbound_rtp", None).mean() * KBIT_PER_BYTE


@metric(
    unit="kbit/s",
    better="higher",
    source="W3C webrtc-stats, bytesReceived and headerBytesReceived",
    samples=stats_received_kbps,
    known=OF_REPORTS,
)
def stats_receiving_rate(trace: Trace, flow: str) -> float:
    """Mean rate (kbit/s) of RTP headers and payload received, as the receiver's getStats counts them.

    The time is from the flow's first packet to the last report. Unlike receiving_rate, it does not count IP,
    UDP and SRTP headers, RTCP, STUN and DTLS, and some retransmissions and padding.
    """
    return _bytes_per_second(trace, flow, "inbound_rtp", None).mean() * KBIT_PER_BYTE


@once
def _bytes_per_second(trace: Trace, flow: str, table: str, kind: str | None) -> Samples:
    counted = from_begin(trace, flow, stats_bytes(trace, table, flow, kind))
    return slopes(counted, trace.window)


def stats_bytes(trace: Trace, table: str, flow: str, kind: str | None = None) -> Samples:
    """Header and payload bytes at every report, summed over the flow's streams (of one kind, if given).

    They are NaN at reports in which a stream does not tell them.
    """
    return trace.cached(_stats_bytes, table, kind).get(flow, NO_SAMPLES)


def _stats_bytes(trace: Trace, table: str, kind: str | None) -> dict[str, Samples]:
    rows = trace.table(table).lazy()
    rows = rows if kind is None else rows.filter(pl.col("kind") == kind)
    counted = pl.sum_horizontal(_COUNTERS[table], ignore_nulls=False)
    whole = pl.when(counted.is_not_null().all()).then(counted.sum()).otherwise(nan)
    sums = rows.group_by("flow", "at_ns").agg(whole.alias("bytes"))
    return samples_by(sums.filter(pl.col("bytes").is_not_nan().any().over("flow")), "flow", "bytes")


@dataclass(frozen=True)
class StreamRates:
    """Rates in kbit/s of one kind of media of one flow at its receiver, counted twice over the same time.

    The time is from the receiver's first report on these media in the window to its last. ``wire`` counts IP
    bytes of RTP packets; ``repair`` is the part of retransmissions, FEC and padding. ``stats`` counts the
    bytes in getStats. ``difference_bytes`` is the bytes per packet on the wire minus the bytes in getStats:
    the headers, if both count the same packets.
    """

    flow: str
    kind: str
    wire: float
    repair: float
    stats: float
    difference_bytes: float


def kinds_of(trace: Trace, flow: str) -> list[str]:
    """The kinds of media of a flow in its receiver's reports, in alphabetical order."""
    return trace.cached(_kinds).get(flow, [])


def _kinds(trace: Trace) -> dict[str, list[str]]:
    known = trace.table("inbound_rtp").select("flow", "kind").unique().sort("kind").group_by("flow").all()
    return dict(known.iter_rows())


def stream_rates(trace: Trace, flows: Collection[str]) -> list[StreamRates]:
    """The rates of the media of some flows with at least two reports; empty if packets were not recorded."""
    if not were_recorded(trace):
        return []
    chosen = [flow for flow in trace.flows if flow in flows]
    found = [_rates_of(trace, flow, kind) for flow in chosen for kind in kinds_of(trace, flow)]
    return [rates for rates in found if rates is not None]


def _rates_of(trace: Trace, flow: str, kind: str) -> StreamRates | None:
    counted = samples_in_window(stats_bytes(trace, "inbound_rtp", flow, kind), trace.window)
    if counted.at_s.size < 2:
        return None
    begin_s, end_s = counted.at_s[0], counted.at_s[-1]
    arrived = _arrived(trace, flow, kind)
    inside = (arrived.delivered_ns > round(begin_s * NS_PER_S)) & (
        arrived.delivered_ns <= round(end_s * NS_PER_S)
    )
    packets = arrived.chosen(inside)
    per_s = KBIT_PER_BYTE / (end_s - begin_s)
    wire_bytes = int(packets.size_bytes.sum())
    media_bytes = int(packets.size_bytes[packets.of_kinds(kind)].sum())
    counted_bytes = counted.values[-1] - counted.values[0]
    count = packets.size_bytes.size
    return StreamRates(
        flow,
        kind,
        wire=wire_bytes * per_s,
        repair=(wire_bytes - media_bytes) * per_s,
        stats=float(counted_bytes * per_s),
        difference_bytes=float((wire_bytes - counted_bytes) / count) if count else nan,
    )


def _arrived(trace: Trace, flow: str, kind: str | None) -> PacketColumns:
    """The RTP packets that arrived; of one kind of media with its repair, if given."""
    packets = packets_of(trace, flow).rtp
    arrived = packets.delivered_ns != NEVER
    if kind is not None:
        arrived &= packets.of_kinds(kind, *(REPAIR if kind == VIDEO else ()))
    return packets.chosen(arrived)
