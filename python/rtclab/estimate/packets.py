"""The packets of one direction of a call, in the form in which a path is estimated from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rtclab.importers.logs.event_packets import nearest
from rtclab.metrics.series import Array
from rtclab.trace import NS_PER_S

Flags = NDArray[np.bool_]

CLOSE_NS = 1_000_000
"""Packets of a frame leave at most this long after each other, as far as missing packets are concerned."""
MOST_LOST_IN_A_ROW = 2000
"""A larger gap in sequence numbers means that a stream began anew."""


@dataclass(frozen=True)
class Packets:
    """Packets in the order in which they were sent.

    Attributes:
        sent_s: when they were sent, in s.
        arrived_s: when they arrived, in s; NaN if a packet was lost or its arrival is not known.
        size_bytes: IP total length.
        lost: whether a packet is known to be lost.
    """

    sent_s: Array
    arrived_s: Array
    size_bytes: Array
    lost: Flags

    @property
    def delay_s(self) -> Array:
        """Time from sending to arrival, in s; NaN if it is not known."""
        delay_s: Array = self.arrived_s - self.sent_s
        return delay_s

    def beside(self, sent_s: Array, size_bytes: Array) -> Packets:
        """These packets together with others that used the path, whose arrivals are not known."""
        unknown = np.full(len(sent_s), np.nan)
        order = np.argsort(np.concatenate([self.sent_s, sent_s]), kind="stable")
        return Packets(
            np.concatenate([self.sent_s, sent_s])[order],
            np.concatenate([self.arrived_s, unknown])[order],
            np.concatenate([self.size_bytes, size_bytes])[order],
            np.concatenate([self.lost, np.isfinite(unknown)])[order],
        )

    def between(self, begin_s: float, end_s: float) -> Packets:
        """The packets that were sent in a window of time, with times from its begin."""
        kept = (self.sent_s >= begin_s) & (self.sent_s < end_s)
        return Packets(
            self.sent_s[kept] - begin_s,
            self.arrived_s[kept] - begin_s,
            self.size_bytes[kept],
            self.lost[kept],
        )

    def with_received(self, arrived_s: Array, size_bytes: Array) -> Packets:
        """These packets with others whose arrival at the same end is known, but not when they were sent.

        Their delay is taken to lie between the delays of the packets that arrived before and after them.
        """
        inside, known = np.isfinite(arrived_s), ~np.isnan(self.arrived_s)
        order = np.argsort(self.arrived_s[known])
        delay_s = np.interp(arrived_s[inside], self.arrived_s[known][order], self.delay_s[known][order])
        return self.beside(arrived_s[inside] - delay_s, size_bytes[inside])


def packets_of(rows: pl.DataFrame) -> Packets:
    """Packets from rows of the table ``packets`` of one flow.

    Packets without arrival that are not known to be lost are left out.
    """
    known = rows.filter(pl.col("delivered_ns").is_not_null() | pl.col("dropped_ns").is_not_null()).sort(
        "sent_ns", maintain_order=True
    )
    arrived_ns = known["delivered_ns"].cast(pl.Float64)
    return Packets(
        known["sent_ns"].to_numpy() / NS_PER_S,
        arrived_ns.fill_null(float("nan")).to_numpy() / NS_PER_S,
        known["size_bytes"].cast(pl.Float64).to_numpy(),
        known["delivered_ns"].is_null().to_numpy(),
    )


def with_gaps(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of packets that arrived, and a row for each packet that is missing between two of a stream.

    A missing packet has the size of the packet before it. It was probably sent right after that packet, or
    right before the next one if that packet was the last of a frame.
    Rows need ``ssrc``, ``seq``, ``marker``, ``sent_ns``, ``delivered_ns`` and ``size_bytes``.
    """
    of_stream = rows.filter(pl.col("seq").is_not_null()).sort("sent_ns", maintain_order=True)
    step = nearest(pl.col("seq").diff(), 1 << 16)
    number = step.fill_null(0).cum_sum().over("ssrc")
    ordered = (
        of_stream.with_columns(number=number)
        .unique(["ssrc", "number"], keep="first", maintain_order=True)
        .sort("ssrc", "number")
        .with_columns(
            missing=pl.col("number").diff().over("ssrc").fill_null(1) - 1,
            before_ns=pl.col("sent_ns").shift(1).over("ssrc"),
            before_bytes=pl.col("size_bytes").shift(1).over("ssrc"),
            framed=pl.col("marker").shift(1).over("ssrc").fill_null(False),
        )
    )
    gaps = ordered.filter(pl.col("missing").is_between(1, MOST_LOST_IN_A_ROW))
    absent = gaps.select(
        sent_ns=pl.struct("before_ns", "sent_ns", "missing", "framed").map_elements(
            _spread, return_dtype=pl.List(pl.Int64)
        ),
        size_bytes="before_bytes",
        kind="kind",
        ssrc="ssrc",
    ).explode("sent_ns")
    lost = absent.with_columns(dropped_ns=pl.col("sent_ns"), delivered_ns=pl.lit(None, pl.Int64))
    return pl.concat([rows, lost], how="diagonal").sort("sent_ns", maintain_order=True)


def _spread(gap: dict[str, Any]) -> list[int]:
    begin_ns, missing = gap["before_ns"], gap["missing"]
    step_ns = min((gap["sent_ns"] - begin_ns) // (missing + 1), CLOSE_NS)
    if gap["framed"]:
        begin_ns = gap["sent_ns"] - (missing + 1) * step_ns
    return [begin_ns + step_ns * (index + 1) for index in range(missing)]
