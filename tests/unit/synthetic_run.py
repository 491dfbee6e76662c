"""A run made by hand: tables with the columns of the trace contract and numbers that tests can derive."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import polars as pl

NS_PER_S = 1_000_000_000
RTP_COLUMNS = {
    "at_ns": pl.Int64,
    "participant": pl.String,
    "flow": pl.String,
    "ssrc": pl.Int64,
    "kind": pl.String,
}
SCHEMAS: dict[str, dict[str, Any]] = {
    "packets": {"sent_ns": pl.Int64, "delivered_ns": pl.Int64, "flow": pl.String, "size_bytes": pl.Int64},
    "flow_seconds": {
        "at_ns": pl.Int64,
        "flow": pl.String,
        "sent_packets": pl.Int64,
        "sent_bytes": pl.Int64,
        "delivered_packets": pl.Int64,
        "delivered_bytes": pl.Int64,
        "dropped_packets": pl.Int64,
        "one_way_delay_min_ms": pl.Float64,
        "one_way_delay_mean_ms": pl.Float64,
        "one_way_delay_max_ms": pl.Float64,
    },
    "delay_histogram": {"flow": pl.String, "one_way_delay_ms": pl.Float64, "packets": pl.Int64},
    "outbound_rtp": RTP_COLUMNS | {"targetBitrate": pl.Float64},
    "inbound_rtp": RTP_COLUMNS
    | {
        "packetsReceived": pl.Int64,
        "packetsLost": pl.Int64,
        "bytesReceived": pl.Int64,
        "retransmittedPacketsReceived": pl.Int64,
        "framesDecoded": pl.Int64,
        "frameWidth": pl.Int64,
        "frameHeight": pl.Int64,
        "framesPerSecond": pl.Float64,
        "freezeCount": pl.Int64,
        "totalFreezesDuration": pl.Float64,
    },
    "remote_inbound_rtp": RTP_COLUMNS | {"roundTripTime": pl.Float64},
    "host": {
        "at_ns": pl.Int64,
        "participant": pl.String,
        "cpu_percent": pl.Float64,
        "memory_bytes": pl.Int64,
    },
    "events": {
        "at_ns": pl.Int64,
        "participant": pl.String,
        "flow": pl.String,
        "event": pl.String,
        "detail": pl.String,
    },
    "paths": {"at_ns": pl.Int64, "path": pl.String, "capacity_bps": pl.Int64, "one_way_delay_ms": pl.Float64},
}


@dataclass
class SyntheticTrace:
    """A trace in memory; a table that was not given is empty."""

    tables: dict[str, pl.DataFrame] = field(default_factory=dict)
    manifest: dict[str, Any] = field(default_factory=dict)

    def table(self, name: str) -> pl.DataFrame:
        return self.tables.get(name, pl.DataFrame(schema=SCHEMAS[name]))


def trace(flows: dict[str, list[str]] | None = None, **tables: list[dict[str, Any]]) -> SyntheticTrace:
    """A trace from rows; columns that a row leaves out are null, ``flow`` is ``alice->bob`` unless given."""
    flows = flows if flows is not None else {"alice->bob": ["alice.up", "bob.down"]}
    frames = {}
    for name, rows in tables.items():
        defaults = {"flow": "alice->bob"} if "flow" in SCHEMAS[name] and name != "events" else {}
        frames[name] = pl.DataFrame([defaults | row for row in rows], schema=SCHEMAS[name], orient="row")
    return SyntheticTrace(frames, {"flows": {flow: {"paths": paths} for flow, paths in flows.items()}})


def second(at_s: float, packets: int = 0, size_bytes: int = 1000, **columns: Any) -> dict[str, Any]:
    """A row of ``flow_seconds`` in which every packet arrived, unless ``columns`` says otherwise."""
    return {
        "at_ns": int(at_s * NS_PER_S),
        "sent_packets": packets,
        "sent_bytes": packets * size_bytes,
        "delivered_packets": packets,
        "delivered_bytes": packets * size_bytes,
        "dropped_packets": 0,
    } | columns


def report(at_s: float, ssrc: int = 1, kind: str = "video", **columns: Any) -> dict[str, Any]:
    """A row of one of the RTP tables."""
    return {"at_ns": int(at_s * NS_PER_S), "ssrc": ssrc, "kind": kind} | columns


def event(at_ms: int, participant: str, name: str, flow: str | None = None) -> dict[str, Any]:
    """A row of ``events``."""
    return {"at_ns": at_ms * 1_000_000, "participant": participant, "event": name, "flow": flow}
