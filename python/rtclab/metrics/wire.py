"""The same media counted twice: as packets on the wire, and by the browser in getStats.

On the wire, IP packets count in the second in which they arrive. getStats counts RTP headers and payload,
after decryption, from one report to the next. It includes retransmissions that could be used, and does not
count padding as payload.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

import polars as pl

from rtclab.metrics.rate import KBIT_PER_BYTE
from rtclab.metrics.registry import OF_REPORTS, metric
from rtclab.metrics.series import (
    NO_SAMPLES,
    SECOND_NS,
    Samples,
    Window,
    before_end,
    counter,
    from_begin,
    rates_of,
    samples_by,
    slopes,
)
from rtclab.trace import NS_PER_S, Trace, rows_by

VIDEO = "video"
REPAIR = ("rtx", "fec", "padding")
"""Kinds of packets sent in addition to media. Only video has them here, so they count as video."""

_COUNTERS = {
    "outbound_rtp": ("bytesSent", "headerBytesSent"),
    "inbound_rtp": ("bytesReceived", "headerBytesReceived"),
}


def stats_sent_kbps(trace: Trace, flow: str, window: Window | None = None) -> Samples:
    """RTP headers and payload sent between consecutive reports, in kbit/s."""
    return trace.cached(_bytes_per_second, flow, window, "outbound_rtp", None).scaled(KBIT_PER_BYTE)


def stats_received_kbps(
    trace: Trace, flow: str, window: Window | None = None, kind: str | None = None
) -> Samples:
    """RTP headers and payload received between consecutive reports, in kbit/s; of one kind, if given."""
    return trace.cached(_bytes_per_second, flow, window, "inbound_rtp", kind).scaled(KBIT_PER_BYTE)


def wire_received_kbps(
    trace: Trace, flow: str, window: Window | None = None, kind: str | None = None
) -> Samples:
    """IP bytes of the RTP packets that arrived in each second, in kbit/s; of one kind, if given."""
    seconds = trace.cached(_wire).seconds.get(flow)
    if seconds is not None and kind is not None:
        seconds = seconds.filter(_carries(kind))
    if seconds is None or seconds.is_empty():
        return NO_SAMPLES
    at_ns = seconds["at_ns"].to_numpy()
    rates = rates_of(trace, flow, at_ns, seconds["bytes"].to_numpy(), window)
    # The seconds of set-up are left out: there are no media yet.
    return rates.chosen(rates.at_s >= at_ns.min() // NS_PER_S).scaled(KBIT_PER_BYTE)


@metric(
    unit="kbit/s",
    source="W3C webrtc-stats, bytesSent and headerBytesSent",
    samples=stats_sent_kbps,
    known=OF_REPORTS,
)
def stats_sending_rate(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Mean rate (kbit/s) of RTP headers and payload sent, as the sender's getStats counts them.

    The time is from the flow's first packet to the last report. Unlike sending_rate, it does not count IP,
    UDP and SRTP headers, RTCP, STUN and DTLS, and some retransmissions and padding.
    """
    return trace.cached(_bytes_per_second, flow, window, "outbound_rtp", None).mean() * KBIT_PER_BYTE


@metric(
    unit="kbit/s",
    better="higher",
    source="W3C webrtc-stats, bytesReceived and headerBytesReceived",
    samples=stats_received_kbps,
    known=OF_REPORTS,
)
def stats_receiving_rate(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Mean rate (kbit/s) of RTP headers and payload received, as the receiver's getStats counts them.

    The time is from the flow's first packet to the last report. Unlike receiving_rate, it does not count IP,
    UDP and SRTP headers, RTCP, STUN and DTLS, and some retransmissions and padding.
    """
    return trace.cached(_bytes_per_second, flow, window, "inbound_rtp", None).mean() * KBIT_PER_BYTE


def _bytes_per_second(
    trace: Trace, flow: str, window: Window | None, table: str, kind: str | None
) -> Samples:
    counted = from_begin(trace, flow, stats_bytes(trace, table, flow, kind))
    return slopes(counted, window)


def stats_bytes(trace: Trace, table: str, flow: str, kind: str | None = None) -> Samples:
    """Header and payload bytes at every report, summed over the flow's streams (of one kind, if given)."""
    if kind is None:
        return counter(trace, table, flow, *_COUNTERS[table])
    return trace.cached(_stats_bytes, table, kind).get(flow, NO_SAMPLES)


def _stats_bytes(trace: Trace, table: str, kind: str) -> dict[str, Samples]:
    rows = trace.table(table).filter(pl.col("kind") == kind)
    counted = pl.sum_horizontal(_COUNTERS[table]).sum().alias("bytes")
    return samples_by(rows.group_by("flow", "at_ns").agg(counted), "flow", "bytes")


@dataclass(frozen=True)
class StreamRates:
    """Rates in kbit/s of one kind of media of one flow at its receiver, counted twice over the same time.

    The time is from the receiver's first report on these media to its last. ``wire`` counts IP bytes of RTP
    packets; ``repair`` is the part of retransmissions, FEC and padding. ``stats`` counts the bytes in
    getStats. ``difference_bytes`` is the bytes per packet on the wire minus the bytes in getStats: the
    headers, if both count the same packets.
    """

    flow: str
    kind: str
    wire: float
    repair: float
    stats: float
    difference_bytes: float


def streams_of(trace: Trace) -> list[tuple[str, str]]:
    """Flow and kind of all media in the receivers' reports, in the order of the flows."""
    known = trace.table("inbound_rtp").select("flow", "kind").unique().sort("kind").group_by("flow").all()
    kinds = dict(known.iter_rows())
    return [(flow, kind) for flow in trace.flows for kind in kinds.get(flow, [])]


def stream_rates(trace: Trace) -> list[StreamRates]:
    """The rates of all media with at least two reports; empty if packets were not recorded."""
    return trace.cached(_wire).streams


@dataclass(frozen=True)
class _Wire:
    """Counts from the table of packets: bytes of each flow per kind and second, and rates of streams."""

    seconds: dict[object, pl.DataFrame]
    streams: list[StreamRates]


def _wire(trace: Trace) -> _Wire:
    """Computes all rates at once, because the table of packets is large and is not kept in memory."""
    if "packets" not in trace.tables:
        return _Wire({}, [])
    rtp = (pl.col("protocol") == "rtp") & pl.col("delivered_ns").is_not_null()
    arrived = trace.table("packets").filter(rtp).select("flow", "delivered_ns", "size_bytes", "kind")
    begin_ns = (pl.col("delivered_ns") // SECOND_NS * SECOND_NS).alias("at_ns")
    seconds = (
        arrived.filter(before_end(trace, "delivered_ns"))
        .group_by("flow", "kind", begin_ns)
        .agg(bytes=pl.col("size_bytes").sum())
    )
    none, flows = arrived.clear(), rows_by(arrived, "flow")
    found = [_rates_of(trace, flow, kind, flows.get(flow, none)) for flow, kind in streams_of(trace)]
    return _Wire(rows_by(seconds, "flow"), [rates for rates in found if rates is not None])


def _rates_of(trace: Trace, flow: str, kind: str, arrived: pl.DataFrame) -> StreamRates | None:
    counted = stats_bytes(trace, "inbound_rtp", flow, kind)
    if counted.at_s.size < 2:
        return None
    begin_s, end_s = counted.at_s[0], counted.at_s[-1]
    span_ns = round(begin_s * NS_PER_S), round(end_s * NS_PER_S)
    packets = arrived.filter(_carries(kind) & pl.col("delivered_ns").is_between(*span_ns, closed="right"))
    media = packets.filter(pl.col("kind") == kind)
    per_s = KBIT_PER_BYTE / (end_s - begin_s)
    wire_bytes, media_bytes = int(packets["size_bytes"].sum()), int(media["size_bytes"].sum())
    counted_bytes = counted.values[-1] - counted.values[0]
    return StreamRates(
        flow,
        kind,
        wire=wire_bytes * per_s,
        repair=(wire_bytes - media_bytes) * per_s,
        stats=float(counted_bytes * per_s),
        difference_bytes=float((wire_bytes - counted_bytes) / packets.height) if packets.height else nan,
    )


def _carries(kind: str) -> pl.Expr:
    return pl.col("kind").is_in([kind, *(REPAIR if kind == VIDEO else ())])
