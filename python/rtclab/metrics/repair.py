"""What repair costs: retransmissions, FEC, and requests for packets and key frames."""

from __future__ import annotations

from math import nan

import polars as pl

from rtclab.metrics.registry import metric
from rtclab.metrics.series import Window, counter, increase, span_ns
from rtclab.trace import Trace, rows_by

RETRANSMISSIONS, FEC = ("rtx",), ("fec",)


@metric(
    unit="%", better="lower", source="RFC 4588; W3C webrtc-stats, retransmittedBytesSent", bounds=(0, 100)
)
def retransmission_share(trace: Trace, flow: str, window: Window | None = None) -> float:
    """IP bytes of retransmissions in % of the IP bytes of all RTP packets sent. NaN without packets."""
    return _share(trace, flow, window, RETRANSMISSIONS)


@metric(unit="%", better="lower", source="RFC 5109; Singh et al. 2013, slides", bounds=(0, 100))
def fec_share(trace: Trace, flow: str, window: Window | None = None) -> float:
    """IP bytes of FEC in % of the IP bytes of all RTP packets sent. NaN without packets.

    In a capture FEC inside RED cannot be told from media, because the header of RED is encrypted. So a
    capture in which no packet is known to be FEC has no value.
    """
    share = _share(trace, flow, window, FEC)
    return nan if trace.manifest.capture is not None and share == 0 else share


@metric(unit="", better="lower", source="RFC 4585, section 6.2.1; W3C webrtc-stats, nackCount", total=True)
def nacks(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Number of NACK messages in which the receiver asked for packets again. NaN without reports."""
    return _requests(trace, flow, window, "nackCount")


@metric(unit="", better="lower", source="RFC 4585, section 6.3.1; W3C webrtc-stats, pliCount", total=True)
def key_frame_requests(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Number of PLI messages in which the receiver asked for a key frame. NaN without reports."""
    return _requests(trace, flow, window, "pliCount")


def _requests(trace: Trace, flow: str, window: Window | None, name: str) -> float:
    counted = counter(trace, "inbound_rtp", flow, name)
    return increase(counted, window) if counted.at_s.size else nan


def _share(trace: Trace, flow: str, window: Window | None, kinds: tuple[str, ...]) -> float:
    packets = trace.cached(_sent_rtp).get(flow)
    if packets is None:
        return nan
    sent = packets.filter(pl.col("sent_ns").is_between(*span_ns(trace, flow, window), closed="left"))
    counted = int(sent.filter(pl.col("kind").is_in(kinds))["size_bytes"].sum())
    return 100 * counted / (int(sent["size_bytes"].sum()) or nan)


def _sent_rtp(trace: Trace) -> dict[object, pl.DataFrame]:
    if "packets" not in trace.tables:
        return {}
    rtp = trace.table("packets").filter(pl.col("protocol") == "rtp")
    return rows_by(rtp.select("flow", "sent_ns", "kind", "size_bytes"), "flow")
