"""Marks and early drops: how queues with a discipline (AQM) signal congestion."""

from __future__ import annotations

from math import nan

from rtclab.metrics.registry import OF_MODEL, UNKNOWN, exact, metric, sources
from rtclab.metrics.series import flow_seconds, total
from rtclab.trace import Trace

WITH_ECN = "of flows with ECN-capable packets"


@metric(
    unit="%",
    source="RFC 3168, section 5; RFC 9331",
    bounds=(0, 100),
    known=sources(
        exact(WITH_ECN),
        exact(WITH_ECN),
        exact(f"{WITH_ECN}; marks set before the last point"),
        UNKNOWN,
        UNKNOWN,
    ),
)
def ce_share(trace: Trace, flow: str) -> float:
    """Packets that arrived with a mark (CE), in % of the packets that were sent ECN-capable and arrived.

    A mark that a path has bleached does not count, since the receiver does not see it. NaN if no ECN-capable
    packet arrived, or if the codepoints are not known.
    """
    return _share_of(trace, flow, "marked_packets", "ect_delivered_packets")


@metric(
    unit="%",
    better="lower",
    source="RFC 7567, section 4",
    bounds=(0, 100),
    known=OF_MODEL,
)
def aqm_drop_share(trace: Trace, flow: str) -> float:
    """Packets dropped by a queue's discipline as a signal of congestion, in % of all packets sent.

    Drops of a full queue are not among them. The drops are part of packet_loss, which counts first
    transmissions only.
    """
    return _share_of(trace, flow, "aqm_dropped_packets", "sent_packets")


def _share_of(trace: Trace, flow: str, part: str, whole: str) -> float:
    """The sum of one column over the sum of another, in %. NaN if either is unknown or there is nothing."""
    rows = flow_seconds(trace, flow)
    if rows[part].null_count() or rows[whole].null_count():
        return nan
    of = total(rows, whole)
    return 100 * min(total(rows, part) / of, 1.0) if of else nan
