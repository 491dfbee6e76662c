"""TCP cross traffic: throughput, retransmissions, round-trip time and window."""

from __future__ import annotations

import numpy as np

from rtclab.metrics.registry import OF_MODEL, metric
from rtclab.metrics.series import (
    Samples,
    counter,
    flow_seconds,
    gauge,
    increase,
    slopes,
    span_ns,
    total,
    until_end,
)
from rtclab.trace import KBIT_PER_BYTE, NS_PER_S, Trace


def tcp_throughput_kbps(trace: Trace, flow: str) -> Samples:
    """Bytes that reached the receiving application between consecutive reports, in kbit/s."""
    delivered = until_end(trace, flow, counter(trace, "tcp", flow, "delivered_bytes"))
    if not delivered.at_s.size:
        return delivered
    # Simulated flows are reported before they begin, too.
    begin_s = span_ns(trace.whole, flow)[0] / NS_PER_S
    later = delivered.chosen(delivered.at_s > begin_s)
    since = Samples(np.append(begin_s, later.at_s), np.append(0.0, later.values))
    return slopes(since, trace.window).scaled(KBIT_PER_BYTE)


def tcp_cwnd_segments(trace: Trace, flow: str) -> Samples:
    """Congestion window at the end of each second with an open connection, in segments."""
    return gauge(trace, "tcp", flow, "cwnd_segments")


def tcp_rtt_ms(trace: Trace, flow: str) -> Samples:
    """The sender's smoothed round-trip time at the end of each second with an open connection, in ms."""
    return gauge(trace, "tcp", flow, "srtt_ms")


@metric(
    unit="kbit/s",
    better="higher",
    source="RFC 8867, section 5.6",
    samples=tcp_throughput_kbps,
    known=OF_MODEL,
)
def tcp_throughput(trace: Trace, flow: str) -> float:
    """Mean rate (kbit/s) of bytes delivered in order to the receiving application, without headers.

    The time is from the flow's first packet to the end of its connection.
    """
    return tcp_throughput_kbps(trace, flow).mean()


@metric(
    unit="%", better="lower", source="RFC 4898, tcpEStatsPerfSegsRetrans", bounds=(0, 100), known=OF_MODEL
)
def tcp_retransmissions(trace: Trace, flow: str) -> float:
    """Retransmitted segments, in % of all segments that carry data or set up a connection."""
    repeated = increase(counter(trace, "tcp", flow, "retransmitted_segments"), trace.window)
    sent = total(flow_seconds(trace, flow), "sent_packets")
    return 100 * repeated / sent if sent else float("nan")


@metric(unit="ms", better="lower", source="RFC 6298, SRTT", samples=tcp_rtt_ms, known=OF_MODEL)
def tcp_rtt(trace: Trace, flow: str) -> float:
    """Mean of the sender's smoothed round-trip time (ms), read once a second while a connection is open."""
    return tcp_rtt_ms(trace, flow).mean()


@metric(unit="segments", source="RFC 5681, cwnd", samples=tcp_cwnd_segments, known=OF_MODEL)
def tcp_cwnd(trace: Trace, flow: str) -> float:
    """Mean congestion window (segments) summed over the flow's open connections, read once a second."""
    return tcp_cwnd_segments(trace, flow).mean()
