"""The table ``tcp`` of a live call, from the reports of iperf3 and of the senders of objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from rtclab.trace import NS_PER_S

US_PER_MS = 1000
SEGMENT_BYTES = 1448
"""Payload of a TCP segment at an MTU of 1500, with the timestamps that Linux sends (RFC 7323)."""

Report = Mapping[str, Any]


def tcp_rows(
    report: Report, start_ns: int, began_monotonic_ns: int, duration_ns: int
) -> Iterator[dict[str, Any]]:
    """The rows of one table ``[traffic.NAME]``, one per flow and second.

    iperf3 counts time from when its connection opened, which is taken as the flow's start. Its receiver
    counts bytes; its sender reports the congestion window, the round-trip time and retransmissions. For
    objects only bytes and number are known.

    Args:
        report: the element of ``CrossTraffic.stop`` with this name.
        start_ns: planned start of the flow.
        began_monotonic_ns: when the run began, on the monotonic clock.
        duration_ns: length of the run.
    """
    for flow, said in report.get("flows", {}).items():
        yield from _of_transfer(flow, said, start_ns)
    if "objects" in report:
        ended = [(one["ended_ns"] - began_monotonic_ns, one["bytes"]) for one in report["objects"]]
        yield from _of_objects(report["name"], ended, start_ns, duration_ns)


def _of_transfer(flow: str, said: Report, start_ns: int) -> Iterator[dict[str, Any]]:
    sent, received = (_intervals(said[end]) for end in ("sender", "receiver"))
    delivered = accumulate(interval["bytes"] for interval in received)
    repeated = accumulate(interval.get("retransmits", 0) for interval in sent)
    for interval, delivered_bytes, retransmitted in zip(sent, delivered, repeated, strict=False):
        if "snd_cwnd" not in interval:
            return  # UDP
        yield {
            "at_ns": start_ns + round(interval["end"] * NS_PER_S),
            "flow": flow,
            "connections": 1,
            "cwnd_segments": interval["snd_cwnd"] // SEGMENT_BYTES,
            "srtt_ms": interval["rtt"] / US_PER_MS,
            "delivered_bytes": delivered_bytes,
            "retransmitted_segments": retransmitted,
            "objects": 0,
        }


def _intervals(said: Report) -> list[Report]:
    """The seconds that one end of iperf3 reported. Each flow has one connection of its own."""
    return [interval["streams"][0] for interval in said.get("intervals", []) if interval["streams"]]


def _of_objects(
    flow: str, ended: Sequence[tuple[int, int]], start_ns: int, duration_ns: int
) -> Iterator[dict[str, Any]]:
    for at_ns in range(start_ns + NS_PER_S, duration_ns + 1, NS_PER_S):
        done = [size for end_ns, size in ended if end_ns <= at_ns]
        yield {"at_ns": at_ns, "flow": flow, "delivered_bytes": sum(done), "objects": len(done)}
