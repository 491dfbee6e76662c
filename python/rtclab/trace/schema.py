"""Columns of the tables. docs/trace.md explains them."""

from __future__ import annotations

import polars as pl

from rtclab.errors import TraceError

_INTEGER, _NUMBER, _TEXT, _TRUTH = pl.Int64(), pl.Float64(), pl.String(), pl.Boolean()
_OF_STREAM: dict[str, pl.DataType] = {
    "at_ns": _INTEGER,
    "participant": _TEXT,
    "flow": _TEXT,
    "ssrc": _INTEGER,
    "kind": _TEXT,
}

# As in docs/trace.md: a column whose name ends in `?` may be null.
_COLUMNS: dict[str, dict[str, pl.DataType]] = {
    "packets": {
        "sent_ns": _INTEGER,
        "delivered_ns?": _INTEGER,
        "written_ns?": _INTEGER,
        "dropped_ns?": _INTEGER,
        "drop_cause?": _TEXT,
        "drop_path?": _TEXT,
        "flow": _TEXT,
        "size_bytes": _INTEGER,
        "protocol": _TEXT,
        "kind?": _TEXT,
        "ssrc?": _INTEGER,
        "payload_type?": _INTEGER,
        "seq?": _INTEGER,
        "rtp_timestamp?": _INTEGER,
        "marker?": _TRUTH,
    },
    "flow_seconds": {
        "at_ns": _INTEGER,
        "flow": _TEXT,
        "sent_packets": _INTEGER,
        "sent_bytes": _INTEGER,
        "delivered_packets": _INTEGER,
        "delivered_bytes": _INTEGER,
        "dropped_packets": _INTEGER,
        "media_sent_packets?": _INTEGER,
        "media_dropped_packets?": _INTEGER,
        "fec_sent_packets?": _INTEGER,
        "fec_dropped_packets?": _INTEGER,
        "one_way_delay_min_ms?": _NUMBER,
        "one_way_delay_mean_ms?": _NUMBER,
        "one_way_delay_max_ms?": _NUMBER,
    },
    "delay_histogram": {"flow": _TEXT, "one_way_delay_ms": _NUMBER, "packets": _INTEGER},
    "outbound_rtp": _OF_STREAM
    | {
        "packetsSent": _INTEGER,
        "bytesSent": _INTEGER,
        "headerBytesSent": _INTEGER,
        "retransmittedPacketsSent": _INTEGER,
        "retransmittedBytesSent": _INTEGER,
        "targetBitrate?": _NUMBER,
        "framesEncoded?": _INTEGER,
        "keyFramesEncoded?": _INTEGER,
        "framesSent?": _INTEGER,
        "frameWidth?": _INTEGER,
        "frameHeight?": _INTEGER,
        "framesPerSecond?": _NUMBER,
        "nackCount?": _INTEGER,
        "pliCount?": _INTEGER,
    },
    "inbound_rtp": _OF_STREAM
    | {
        "packetsReceived": _INTEGER,
        "packetsLost": _INTEGER,
        "bytesReceived": _INTEGER,
        "headerBytesReceived": _INTEGER,
        "jitter": _NUMBER,
        "framesReceived?": _INTEGER,
        "framesDecoded?": _INTEGER,
        "framesDropped?": _INTEGER,
        "frameWidth?": _INTEGER,
        "frameHeight?": _INTEGER,
        "framesPerSecond?": _NUMBER,
        "freezeCount?": _INTEGER,
        "totalFreezesDuration?": _NUMBER,
        "nackCount?": _INTEGER,
        "pliCount?": _INTEGER,
        "jitterBufferDelay?": _NUMBER,
        "jitterBufferEmittedCount?": _INTEGER,
        "retransmittedPacketsReceived?": _INTEGER,
        "packetsRepaired?": _INTEGER,
        "fecPacketsReceived?": _INTEGER,
        "fecPacketsDiscarded?": _INTEGER,
    },
    "remote_inbound_rtp": _OF_STREAM
    | {"roundTripTime?": _NUMBER, "fractionLost?": _NUMBER, "packetsLost": _INTEGER, "jitter": _NUMBER},
    "candidate_pair": {
        "at_ns": _INTEGER,
        "participant": _TEXT,
        "flow": _TEXT,
        "currentRoundTripTime?": _NUMBER,
        "availableOutgoingBitrate?": _NUMBER,
        "bytesSent": _INTEGER,
        "bytesReceived": _INTEGER,
        "packetsSent": _INTEGER,
        "packetsReceived": _INTEGER,
    },
    "frames": {
        "flow": _TEXT,
        "ssrc": _INTEGER,
        "rtp_timestamp": _INTEGER,
        "captured_ns?": _INTEGER,
        "received_ns?": _INTEGER,
        "rendered_ns?": _INTEGER,
        "width": _INTEGER,
        "height": _INTEGER,
        "size_bytes?": _INTEGER,
    },
    "controller": {
        "at_ns": _INTEGER,
        "participant": _TEXT,
        "flow": _TEXT,
        "name": _TEXT,
        "value": _NUMBER,
    },
    "tcp": {
        "at_ns": _INTEGER,
        "flow": _TEXT,
        "connections": _INTEGER,
        "cwnd_segments?": _INTEGER,
        "srtt_ms?": _NUMBER,
        "delivered_bytes": _INTEGER,
        "retransmitted_segments": _INTEGER,
        "timeouts": _INTEGER,
        "objects": _INTEGER,
    },
    "host": {"at_ns": _INTEGER, "participant": _TEXT, "cpu_percent": _NUMBER, "memory_bytes": _INTEGER},
    "events": {"at_ns": _INTEGER, "participant": _TEXT, "flow?": _TEXT, "event": _TEXT, "detail": _TEXT},
    "paths": {"at_ns": _INTEGER, "path": _TEXT, "capacity_bps?": _INTEGER, "one_way_delay_ms": _NUMBER},
}

SCHEMAS: dict[str, pl.Schema] = {
    table: pl.Schema({name.removesuffix("?"): dtype for name, dtype in columns.items()})
    for table, columns in _COLUMNS.items()
}
"""Columns and types of every table."""

NULLABLE: dict[str, frozenset[str]] = {
    table: frozenset(name[:-1] for name in columns if name.endswith("?"))
    for table, columns in _COLUMNS.items()
}
"""By table, the columns that may be null."""

OPTIONAL_TABLES = frozenset({"packets"})
"""Tables that are missing, rather than empty, if the scenario does not record them."""


def conform(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """``frame`` with exactly the columns and types of the table ``name``.

    Raises:
        TraceError: the frame cannot be that table. The message names table and column.
    """
    if name not in SCHEMAS:
        raise TraceError(f"no table `{name}`; expected {', '.join(SCHEMAS)}")
    schema = SCHEMAS[name]
    if frame.columns != list(schema) or frame.dtypes != list(schema.values()):
        frame = _fitted(name, frame)
    for column, nulls in zip(frame.columns, frame.null_count().row(0), strict=True):
        if nulls and column not in NULLABLE[name]:
            raise TraceError(f"table `{name}`: column `{column}` must not have nulls")
    return frame


def _fitted(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The columns of the table ``name`` in its order and types; missing nullable columns are added."""
    schema = SCHEMAS[name]
    for column in frame.columns:
        if column not in schema:
            raise TraceError(f"table `{name}`: unknown column `{column}`; expected {', '.join(schema)}")
    missing = [column for column in schema if column not in frame.columns]
    for column in missing:
        if column not in NULLABLE[name]:
            raise TraceError(f"table `{name}`: column `{column}` is missing")
    columns = (pl.lit(None).alias(column) if column in missing else pl.col(column) for column in schema)
    try:
        return frame.select(columns).cast(schema)
    except pl.exceptions.PolarsError as error:
        raise TraceError(f"table `{name}`: {error}") from None
