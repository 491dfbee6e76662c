"""Joins the emulator's capture, as read by the monitor, with the emulator's log.

The capture has the packets on the wire: their entry times and streams. The log has data that only the
emulator knows: when a packet was due to leave, and where and why it was dropped. They are joined exactly, by
nodes, entry time and size, because both take the entry time from the same reading of the clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from rtclab import monitoring

OF_PACKET = ["from", "to", "sent_ns", "size_bytes", "nth"]
"""Columns that identify a packet in both log and capture. ``nth`` numbers packets that are alike."""

SEEN = ["protocol", "kind", "ssrc", "payload_type", "seq", "rtp_timestamp", "marker", "content_bytes"]


def read_capture(capture: Path) -> monitoring.Tables:
    """The monitor's tables of the emulator's capture."""
    return monitoring.monitor(capture, packets=True)


def packets_entering(tables: monitoring.Tables, addresses: Mapping[str, str], epoch_ns: int) -> pl.DataFrame:
    """The packets that entered the emulator, according to the monitor.

    Args:
        tables: see :func:`read_capture`.
        addresses: name of the node by IP address.
        epoch_ns: time zero of the run on the clock of the capture.

    Returns ``from``, ``to``, ``sent_ns``, ``size_bytes``, ``from_port``, ``to_port`` and the monitor's
    description of each packet.
    """
    packets = tables["packets"].filter(pl.col("direction") == "inbound")
    return packets.select(
        _node("source", addresses).alias("from"),
        _node("destination", addresses).alias("to"),
        (pl.col("at_ns") - epoch_ns).alias("sent_ns"),
        "size_bytes",
        _port("source").alias("from_port"),
        _port("destination").alias("to_port"),
        *SEEN,
    ).with_columns(pl.col("marker").cast(pl.Boolean))


def _node(column: str, addresses: Mapping[str, str]) -> pl.Expr:
    address = pl.col(column).str.extract(r"^\[?(.*?)\]?:\d+$")
    return address.replace_strict(dict(addresses), default=None, return_dtype=pl.String)


def _port(column: str) -> pl.Expr:
    return pl.col(column).str.extract(r":(\d+)$").cast(pl.Int64)


def join_descriptions(log: pl.DataFrame, seen: pl.DataFrame) -> pl.DataFrame:
    """The log with the monitor's description of each packet, and its ports.

    Packets that are not in the capture keep the description of the log, and have no ports.
    """
    joined = _numbered(log).join(
        _numbered(seen).with_columns(captured=True),
        on=OF_PACKET,
        how="left",
        suffix="_seen",
        maintain_order="left",
    )
    captured = pl.col("captured").is_not_null()
    return joined.with_columns(
        pl.when(captured).then(f"{name}_seen").otherwise(name).alias(name) for name in SEEN
    ).select(*log.columns, "from_port", "to_port")


def _numbered(packets: pl.DataFrame) -> pl.DataFrame:
    alike = [name for name in OF_PACKET if name != "nth"]
    return packets.with_columns(pl.int_range(pl.len()).over(alike).alias("nth"))
