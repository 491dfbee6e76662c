"""Dumps of webrtc-internals made from lists of values, one a second."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from rtclab.importers import Imported
from rtclab.importers.logs import open_log
from rtclab.trace import NS_PER_S, Trace

BEGIN_MS = 1_744_662_034_000  # 2025-04-14T20:20:34Z
SECONDS = 80


def iso(second: float) -> str:
    """A time as a dump writes it."""
    return datetime.fromtimestamp(BEGIN_MS / 1000 + second, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def series(kind: str, values: Sequence[Any], begin: float, end: float | None = None) -> dict[str, Any]:
    """A series of values, by default one a second."""
    end = begin + len(values) - 1 if end is None else end
    known = {"startTime": iso(begin), "endTime": iso(end), "statsType": kind}
    return {**known, "values": json.dumps(list(values))}


def reports(
    name: str, of_type: str, begin: int = 0, seconds: int = SECONDS, /, **values: Any
) -> dict[str, dict[str, Any]]:
    """The series of a report. A value that is no list is the same in each second."""
    stamps = [BEGIN_MS + 1000.0 * (begin + second) for second in range(seconds)]
    made = {}
    for column, known in {**values, "timestamp": stamps}.items():
        listed = known if isinstance(known, list) else [known] * seconds
        made[f"{name}-{column}"] = series(of_type, listed, begin)
    return made


def growing(each: int, seconds: int = SECONDS) -> list[int]:
    """A counter that grows by the same number each second, from 0."""
    return [each * second for second in range(seconds)]


def video_sent(name: str = "OV", kbps: int = 1000, **values: Any) -> dict[str, dict[str, Any]]:
    """The reports on a video stream that is sent: 100 packets a second."""
    counters = {
        "packetsSent": growing(100),
        "bytesSent": growing(kbps * 125),
        "headerBytesSent": growing(2000),
    }
    return reports(name, "outbound-rtp", **({"ssrc": 1001, "kind": "video"} | counters | values))


def received(
    name: str, kind: str, ssrc: int, begin: int = 0, seconds: int = SECONDS, **values: Any
) -> dict[str, dict[str, Any]]:
    """The reports on a received stream: 50 packets and 4,000 bytes of payload a second."""
    counters = {
        "packetsReceived": growing(50, seconds),
        "packetsLost": 0,
        "bytesReceived": growing(4000, seconds),
        "headerBytesReceived": growing(1000, seconds),
    }
    about = {"ssrc": ssrc, "kind": kind} | counters | values
    return reports(name, "inbound-rtp", begin, seconds, **about)


def pair(
    name: str, rtt_s: float | list[float], begin: int = 0, seconds: int = SECONDS, **values: Any
) -> dict[str, dict[str, Any]]:
    """The reports on a candidate pair that is in use."""
    about = {"currentRoundTripTime": rtt_s, "nominated": True, "state": "succeeded"} | values
    return reports(name, "candidate-pair", begin, seconds, **about)


def dump(*stats: Mapping[str, Any], updates: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """A dump with one connection."""
    merged = {name: one for part in stats for name, one in part.items()}
    connection = {"url": "https://call.example/", "updateLog": list(updates), "stats": merged}
    return {"getUserMedia": [], "PeerConnections": {"10-1": connection}, "UserAgent": "Chrome/135"}


def opened(folder: Path, content: Mapping[str, Any] | str) -> Imported:
    """A log, written and read."""
    file = folder / "dump.txt"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return open_log(file)


def trace_of(imported: Imported) -> Trace:
    """The trace of an import."""
    return Trace.in_memory(imported.tables, imported.manifest)


def seconds_of(table: pl.DataFrame) -> list[float]:
    """The times of rows, in s, to a millisecond: those of a dump are floats of ms since 1970."""
    return (table["at_ns"] / NS_PER_S).round(3).to_list()
