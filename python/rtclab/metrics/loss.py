"""Losses: what the network dropped, and what is still missing after repair."""

from __future__ import annotations

import polars as pl

from rtclab.metrics.registry import metric
from rtclab.metrics.series import NS_PER_S, Samples, Window, flow_seconds, increase, rows_of_flow
from rtclab.trace import Trace


@metric(unit="%", better="lower", source="RFC 8868, section 3; RFC 7680")
def packet_loss(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Packets that the network dropped (queue and wire) as a share of the packets sent."""
    rows = flow_seconds(trace, flow, window)
    sent = int(rows["sent_packets"].sum())
    return 100 * int(rows["dropped_packets"].sum()) / sent if sent else float("nan")


@metric(
    unit="%", better="lower", source="RFC 8868, section 3 (post-repair loss); W3C webrtc-stats, packetsLost"
)
def residual_loss(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Media packets still missing after retransmission, as a share of the media packets expected.

    packetsLost counts the media stream's own sequence numbers (RFC 3550) and does not fall when a repair
    arrives on the RTX stream (RFC 4588), so per stream: missing = packetsLost - retransmittedPacketsReceived,
    not below 0, and expected = packetsReceived - retransmittedPacketsReceived + packetsLost. A probe that is
    padded with repeated packets counts as a repair, which makes the figure a lower bound.
    """
    columns = ["packetsLost", "packetsReceived", "retransmittedPacketsReceived"]
    rows = rows_of_flow(trace, "inbound_rtp", flow).with_columns(
        pl.col(columns).cast(pl.Float64).fill_null(0.0)
    )
    missing = expected = 0.0
    for stream in rows.partition_by("ssrc"):
        at_s = stream["at_ns"].to_numpy() / NS_PER_S
        lost, received, repaired = (
            increase(Samples(at_s, stream[name].to_numpy()), window) for name in columns
        )
        missing += max(lost - repaired, 0.0)
        expected += received - repaired + lost
    return 100 * missing / expected if expected > 0 else float("nan")
