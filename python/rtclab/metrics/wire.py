"""The same media counted twice: on the wire by whoever saw the packets, and by the browser in getStats.

The wire counts IP packets in the second in which they arrive. getStats counts RTP headers and payload, after
decryption, from one report to the next. Retransmissions count, as far as they could be used; padding does not
count as payload.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

import polars as pl

from rtclab.metrics.rate import KBIT_PER_BYTE
from rtclab.metrics.registry import metric
from rtclab.metrics.series import (
    NO_SAMPLES,
    NS_PER_S,
    Samples,
    Window,
    from_begin,
    mean_slope,
    rates_of,
    samples_by,
    slopes,
    span_ns,
)
from rtclab.trace import Trace, rows_by

VIDEO = "video"
REPAIR = ("rtx", "fec", "padding")
"""What is sent beside a stream's media; only video has any here, so it is added to video."""

_COUNTERS = {
    "outbound_rtp": ("bytesSent", "headerBytesSent"),
    "inbound_rtp": ("bytesReceived", "headerBytesReceived"),
}


def stats_sent_kbps(trace: Trace, flow: str, window: Window | None = None) -> Samples:
    """RTP headers and payload sent between neighbouring reports, in kbit/s."""
    sent = from_begin(trace, flow, stats_bytes(trace, "outbound_rtp", flow))
    return slopes(sent, window).scaled(KBIT_PER_BYTE)


def stats_received_kbps(
    trace: Trace, flow: str, window: Window | None = None, kind: str | None = None
) -> Samples:
    """RTP headers and payload received between neighbouring reports, in kbit/s; of one kind, if given."""
    received = from_begin(trace, flow, stats_bytes(trace, "inbound_rtp", flow, kind))
    return slopes(received, window).scaled(KBIT_PER_BYTE)


def wire_received_kbps(
    trace: Trace, flow: str, window: Window | None = None, kind: str | None = None
) -> Samples:
    """IP bytes of the RTP packets that arrived in each second, in kbit/s; of one kind, if given."""
    packets = _arrived(trace, flow, kind)
    if packets.is_empty():
        return NO_SAMPLES
    arrived_ns = packets["delivered_ns"].to_numpy()
    rates = rates_of(trace, flow, arrived_ns, packets["size_bytes"].to_numpy(), window)
    # From the second of the first packet on: set-up comes before media.
    return rates.chosen(rates.at_s >= arrived_ns.min() // NS_PER_S).scaled(KBIT_PER_BYTE)


@metric(
    unit="kbit/s",
    source="W3C webrtc-stats, bytesSent and headerBytesSent",
    samples=stats_sent_kbps,
)
def stats_sending_rate(trace: Trace, flow: str, window: Window | None = None) -> float:
    """RTP headers and payload sent per second as the sender's getStats counts them.

    From the flow's first packet to the last report. It lacks what the sending rate counts too: IP, UDP and
    SRTP headers, RTCP, STUN and DTLS, and some retransmissions and padding.
    """
    sent = from_begin(trace, flow, stats_bytes(trace, "outbound_rtp", flow))
    return mean_slope(sent, window) * KBIT_PER_BYTE


@metric(
    unit="kbit/s",
    better="higher",
    source="W3C webrtc-stats, bytesReceived and headerBytesReceived",
    samples=stats_received_kbps,
)
def stats_receiving_rate(trace: Trace, flow: str, window: Window | None = None) -> float:
    """RTP headers and payload received per second as the receiver's getStats counts them.

    From the flow's first packet to the last report. It lacks what the receiving rate counts too: IP, UDP and
    SRTP headers, RTCP, STUN and DTLS, and some retransmissions and padding.
    """
    received = from_begin(trace, flow, stats_bytes(trace, "inbound_rtp", flow))
    return mean_slope(received, window) * KBIT_PER_BYTE


def stats_bytes(trace: Trace, table: str, flow: str, kind: str | None = None) -> Samples:
    """Header and payload bytes at every report, summed over the flow's streams, or those of one kind."""
    return trace.cached(_stats_bytes, table, kind).get(flow, NO_SAMPLES)


def _stats_bytes(trace: Trace, table: str, kind: str | None) -> dict[str, Samples]:
    rows = trace.table(table)
    if kind is not None:
        rows = rows.filter(pl.col("kind") == kind)
    counted = pl.sum_horizontal(_COUNTERS[table]).sum().alias("bytes")
    return samples_by(rows.group_by("flow", "at_ns").agg(counted), "flow", "bytes")


@dataclass(frozen=True)
class StreamRates:
    """One kind of media of one flow at its receiver, counted twice over the same time; rates in kbit/s.

    The time is from the receiver's first report on it to its last. ``wire`` is IP bytes of RTP packets;
    ``repair`` the part of them that are retransmissions, FEC and padding; ``stats`` what getStats counted.
    ``difference_bytes`` is wire less getStats per packet: headers, where both count the same packets.
    """

    flow: str
    kind: str
    wire: float
    repair: float
    stats: float
    difference_bytes: float


def streams_of(trace: Trace) -> list[tuple[str, str]]:
    """Flow and kind of all that receivers reported on, in the order of flows."""
    known = trace.table("inbound_rtp").select("flow", "kind").unique().sort("kind").group_by("flow").all()
    kinds = dict(known.iter_rows())
    return [(flow, kind) for flow in trace.flows for kind in kinds.get(flow, [])]


def stream_rates(trace: Trace) -> list[StreamRates]:
    """Both rates of every stream; empty where packets were not recorded or nobody reported twice."""
    if "packets" not in trace.tables:
        return []
    rtp = (pl.col("protocol") == "rtp") & pl.col("delivered_ns").is_not_null()
    arrived = trace.table("packets").filter(rtp).select("flow", "delivered_ns", "size_bytes", "kind")
    none, flows = arrived.clear(), rows_by(arrived, "flow")
    found = [_rates_of(trace, flow, kind, flows.get(flow, none)) for flow, kind in streams_of(trace)]
    return [rates for rates in found if rates is not None]


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


def _arrived(trace: Trace, flow: str, kind: str | None) -> pl.DataFrame:
    """RTP packets of a flow that arrived, with what repairs them."""
    if "packets" not in trace.tables:
        return pl.DataFrame(schema={"delivered_ns": pl.Int64, "size_bytes": pl.Int64, "kind": pl.String})
    in_time = pl.col("delivered_ns") < span_ns(trace, flow)[1]
    chosen = (pl.col("flow") == flow) & (pl.col("protocol") == "rtp") & in_time
    if kind is not None:
        chosen &= _carries(kind)
    return trace.table("packets").filter(chosen).select("delivered_ns", "size_bytes", "kind")


def _carries(kind: str) -> pl.Expr:
    return pl.col("kind").is_in([kind, *(REPAIR if kind == VIDEO else ())])
