"""What repair costs: retransmissions, FEC, and requests for packets and key frames."""

from __future__ import annotations

from math import nan

from rtclab.metrics.packets import packets_of
from rtclab.metrics.registry import OF_REPORTS, UNKNOWN, exact, metric, sources
from rtclab.metrics.series import counter, increase, span_ns
from rtclab.trace import Trace


@metric(
    unit="%",
    better="lower",
    source="W3C webrtc-stats, retransmittedBytesSent and bytesSent",
    bounds=(0, 100),
    known=OF_REPORTS,
)
def retransmission_share(trace: Trace, flow: str) -> float:
    """Payload bytes that were sent again because they were lost, in % of all payload bytes sent.

    The sender counts both in its reports. Padding that repeats packets on the stream of retransmissions is in
    the latter only (libwebrtc, `rtp_sender_egress.cc`). In captures the two look the same.

    Servers that forward media give no reports. There it is the share in the IP bytes of the RTP packets that
    they send, if packets were recorded.
    """
    again = increase(counter(trace, "outbound_rtp", flow, "retransmittedBytesSent"), trace.window)
    sent = counter(trace, "outbound_rtp", flow, "bytesSent")
    if not sent.at_s.size and trace.manifest.backend in ("sim", "live"):
        return _share_of_packets(trace, flow, "rtx")
    return 100 * again / sent_bytes if (sent_bytes := increase(sent, trace.window)) > 0 else nan


@metric(
    unit="%",
    better="lower",
    source="RFC 5109; Singh et al. 2013, slides",
    bounds=(0, 100),
    known=sources(
        exact("if packets were recorded"),
        exact("if packets were recorded"),
        exact("if the session descriptions give FEC a payload type of its own"),
        UNKNOWN,
        UNKNOWN,
    ),
    packets="always",
)
def fec_share(trace: Trace, flow: str) -> float:
    """IP bytes of FEC in % of the IP bytes of all RTP packets sent. NaN without packets.

    In live calls, where the header of RED is encrypted, FEC is told from media by the headers of RTP: it
    comes after the last packet of a frame and has the frame's timestamp. That needs every packet that was
    sent, so a capture or log in which no packet is known to be FEC has no value.
    """
    if flow not in trace.cached(_flows_with_known_fec):
        return nan
    return _share_of_packets(trace, flow, "fec")


@metric(
    unit="",
    better="lower",
    source="RFC 4585, section 6.2.1; W3C webrtc-stats, nackCount",
    total=True,
    known=OF_REPORTS,
)
def nacks(trace: Trace, flow: str) -> float:
    """Number of NACK messages in which the receiver asked for packets again. NaN without reports."""
    return _requests(trace, flow, "nackCount")


@metric(
    unit="",
    better="lower",
    source="RFC 4585, section 6.3.1; W3C webrtc-stats, pliCount",
    total=True,
    known=OF_REPORTS,
)
def key_frame_requests(trace: Trace, flow: str) -> float:
    """Number of PLI messages in which the receiver asked for a key frame. NaN without reports."""
    return _requests(trace, flow, "pliCount")


def _requests(trace: Trace, flow: str, name: str) -> float:
    counted = counter(trace, "inbound_rtp", flow, name)
    return increase(counted, trace.window) if counted.at_s.size else nan


def _share_of_packets(trace: Trace, flow: str, kind: str) -> float:
    """IP bytes of one kind of RTP packets in % of all that were sent; NaN without packets."""
    (begin_ns, end_ns), packets = span_ns(trace, flow), packets_of(trace, flow).rtp
    sent = packets.chosen((packets.sent_ns >= begin_ns) & (packets.sent_ns < end_ns))
    of_kind = sent.chosen(sent.of_kinds(kind))
    return float(100 * of_kind.size_bytes.sum() / (sent.size_bytes.sum() or nan))


def _flows_with_known_fec(trace: Trace) -> frozenset[str]:
    """The flows whose number of FEC packets is known, even if it is 0."""
    seconds = trace.table("flow_seconds")
    return frozenset(seconds.drop_nulls("fec_sent_packets")["flow"].unique())
