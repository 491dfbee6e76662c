"""Rows of the table ``tcp`` from what the programs of live cross traffic said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rtclab.backend.live.namespaces import Json

SEGMENT_BYTES = 1448
"""Payload of a full segment over the MTU of live calls: 1500 B less IPv4 and TCP headers with timestamps."""
NS_PER_S = 10**9


def tcp_rows(
    said: Sequence[Json], began_ns: Mapping[str, int], *, run_began_monotonic_ns: int, duration_ns: int
) -> list[Json]:
    """The rows of all TCP flows, in the order of time.

    Endless transfers have a row at the end of each of iperf3's seconds, objects at each second of the run. Of
    objects ``delivered_bytes`` counts those that have ended, and window and round-trip time are null. The
    programs count no timeouts, so those are 0.

    Args:
        said: what :meth:`.traffic.Traffic.stop` returned.
        began_ns: when the first packet of each endless flow was sent, in ns since the run began.
        run_began_monotonic_ns: when the run began, on the monotonic clock.
        duration_ns: length of the run.
    """
    rows: list[Json] = []
    for table in said:
        for flow, ends in table.get("flows", {}).items():
            if flow in began_ns:
                rows += _of_iperf3(flow, ends, began_ns[flow])
        if "objects" in table:
            rows += _of_objects(table["name"], table["objects"], run_began_monotonic_ns, duration_ns)
    return sorted(rows, key=lambda row: (row["at_ns"], row["flow"]))


def _of_iperf3(flow: str, ends: Json, began_ns: int) -> Iterator[Json]:
    sent, received = (ends[end].get("intervals", []) for end in ("sender", "receiver"))
    delivered = repeated = 0
    for there, here in zip(sent, received, strict=False):
        if "snd_cwnd" not in there["streams"][0]:
            return  # UDP
        delivered += sum(stream["bytes"] for stream in here["streams"])
        repeated += sum(stream["retransmits"] for stream in there["streams"])
        yield {
            "at_ns": began_ns + round(there["sum"]["end"] * NS_PER_S),
            "flow": flow,
            "connections": len(there["streams"]),
            "cwnd_segments": sum(stream["snd_cwnd"] for stream in there["streams"]) // SEGMENT_BYTES,
            "srtt_ms": sum(stream["rtt"] for stream in there["streams"]) / len(there["streams"]) / 1000,
            "delivered_bytes": delivered,
            "retransmitted_segments": repeated,
            "timeouts": 0,
            "objects": 0,
        }


def _of_objects(flow: str, objects: Sequence[Json], run_began_ns: int, duration_ns: int) -> Iterator[Json]:
    for second in range(1, duration_ns // NS_PER_S + 1):
        at_ns = run_began_ns + second * NS_PER_S
        ended = [one for one in objects if one["ended_ns"] <= at_ns]
        yield {
            "at_ns": second * NS_PER_S,
            "flow": flow,
            "connections": sum(one["began_ns"] <= at_ns < one["ended_ns"] for one in objects),
            "cwnd_segments": None,
            "srtt_ms": None,
            "delivered_bytes": sum(one["bytes"] for one in ended),
            "retransmitted_segments": 0,
            "timeouts": 0,
            "objects": len(ended),
        }
