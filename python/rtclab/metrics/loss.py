"""Losses: what the network dropped, and what is still missing after repair."""

from __future__ import annotations

import polars as pl

from rtclab.metrics.registry import metric
from rtclab.metrics.series import NS_PER_S, Samples, Window, counter, flow_seconds, increase
from rtclab.trace import Trace

_FIRST_SENT = ("media_sent_packets", "fec_sent_packets")
_FIRST_DROPPED = ("media_dropped_packets", "fec_dropped_packets")


@metric(unit="%", better="lower", source="RFC 8868, section 3; RFC 7680")
def packet_loss(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Packets that the network dropped (queue and wire) as a share of the packets sent.

    Of first transmissions of media and FEC where these are known apart from retransmissions, else of all.
    """
    rows = flow_seconds(trace, flow, window)
    sent, dropped = _total(rows, *_FIRST_SENT), _total(rows, *_FIRST_DROPPED)
    if not sent:
        sent, dropped = _total(rows, "sent_packets"), _total(rows, "dropped_packets")
    return 100 * dropped / sent if sent else float("nan")


@metric(
    unit="%", better="lower", source="RFC 8868, section 3 (post-repair loss); W3C webrtc-stats, packetsLost"
)
def residual_loss(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Media packets that were not there for the decoder in time, as a share of the media packets sent.

    Dropped less repaired in time, by retransmission or FEC. Where packetsRepaired is not known (RTX) it is
    the same as the unseen loss.
    """
    repairs = counter(trace, "inbound_rtp", flow, "packetsRepaired")
    if not repairs.at_s.size:
        return unseen_loss(trace, flow, window)
    repaired = increase(repairs, window)
    rows = flow_seconds(trace, flow, window)
    sent, dropped = (_total(rows, f"media_{what}_packets") for what in ("sent", "dropped"))
    return 100 * max(dropped - repaired, 0.0) / sent if sent else float("nan")


@metric(unit="%", better="lower", source="W3C webrtc-stats, packetsLost; RFC 4588")
def unseen_loss(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Packets of which no copy arrived, as a share of those expected: residual loss seen from the wire.

    A passive observer at the receiver cannot see what FEC recovers, and takes lost FEC, which shares the
    media's sequence numbers in RED and is never sent again, for lost media. Per stream: missing =
    packetsLost - retransmittedPacketsReceived, not below 0, since packetsLost does not fall when a repair
    arrives; expected = packetsReceived - retransmittedPacketsReceived + packetsLost. A probe that is padded
    with repeated packets counts as a repair, which makes the figure a lower bound.
    """
    missing = expected = 0.0
    for counters in trace.kept(_counters_of_streams).get(flow, []):
        lost, received, repaired = (increase(counted, window) for counted in counters)
        missing += max(lost - repaired, 0.0)
        expected += received - repaired + lost
    return 100 * missing / expected if expected > 0 else float("nan")


def _counters_of_streams(trace: Trace) -> dict[object, list[tuple[Samples, ...]]]:
    """Lost, received and retransmitted packets of every stream that was received, by flow."""
    columns = ["packetsLost", "packetsReceived", "retransmittedPacketsReceived"]
    rows = trace.table("inbound_rtp").with_columns(pl.col(columns).cast(pl.Float64).fill_null(0.0))
    streams = rows.sort("at_ns", maintain_order=True).partition_by("flow", "ssrc", as_dict=True)
    found: dict[object, list[tuple[Samples, ...]]] = {}
    for (flow, _), stream in streams.items():
        at_s = stream["at_ns"].to_numpy() / NS_PER_S
        counters = tuple(Samples(at_s, stream[name].to_numpy()) for name in columns)
        found.setdefault(flow, []).append(counters)
    return found


def _total(rows: pl.DataFrame, *columns: str) -> int:
    """Sum over rows and columns; null counts as 0."""
    return sum(int(rows[column].sum()) for column in columns)
