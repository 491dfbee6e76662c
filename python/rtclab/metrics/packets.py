"""The packets of a trace, read once and grouped by flow once, because a meeting of fifty has 2550 flows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rtclab.metrics.series import IntegerArray
from rtclab.trace import SCHEMAS, Trace

KINDS = ("video", "audio", "fec", "rtx", "padding")
"""The kinds of RTP packets, in the order of their codes from 1 on; 0 stands for an unknown kind."""
FIRST_KINDS = 3
"""Number of kinds, from the first on, that are first transmissions of media and FEC."""
NEVER = int(np.iinfo(np.int64).min)
"""Stands for a time that is not known, and for the arrival of a packet that did not arrive."""


class PacketColumns:
    """Columns of packets, each of shape (packets,); times are in ns since the run began.

    ``timestamp`` is the RTP timestamp, 0 without one. A column is made when it is first used, because most
    metrics use few.

    Args:
        made: makes a column, given its name.
    """

    sent_ns: IntegerArray
    delivered_ns: IntegerArray
    queued_ns: IntegerArray
    held_ns: IntegerArray
    size_bytes: IntegerArray
    is_rtp: NDArray[np.bool_]
    is_rtcp: NDArray[np.bool_]
    kind: NDArray[np.uint8]
    timestamp: NDArray[np.uint32]
    is_dropped: NDArray[np.bool_]

    def __init__(self, made: Callable[[str], NDArray[Any]]) -> None:
        self._made = made

    def __getattr__(self, name: str) -> NDArray[Any]:
        if name not in COLUMNS:
            raise AttributeError(name)
        column = self.__dict__[name] = self._made(name)
        return column

    def chosen(self, which: slice | NDArray[Any]) -> PacketColumns:
        """Some of the packets, given by a slice, a mask or indices."""
        return PacketColumns(lambda name: getattr(self, name)[which])

    def followed_by(self, others: PacketColumns) -> PacketColumns:
        """The packets, and behind them some others."""
        return PacketColumns(lambda name: np.append(getattr(self, name), getattr(others, name)))

    @property
    def rtp(self) -> PacketColumns:
        """The packets of RTP, without RTCP, STUN and DTLS."""
        return self.chosen(self.is_rtp)

    @property
    def is_first(self) -> NDArray[np.bool_]:
        """Whether each is a first transmission of media or FEC."""
        return (self.kind > 0) & (self.kind <= FIRST_KINDS)

    def of_kinds(self, *kinds: str) -> NDArray[np.bool_]:
        """Whether each is of one of the kinds."""
        is_chosen = np.zeros(len(KINDS) + 1, np.bool_)
        is_chosen[[KINDS.index(kind) + 1 for kind in kinds]] = True
        return is_chosen[self.kind]


COLUMNS = {
    "sent_ns": pl.col("sent_ns"),
    "delivered_ns": pl.col("delivered_ns").fill_null(NEVER),
    "queued_ns": pl.col("queued_ns").fill_null(NEVER),
    "held_ns": pl.col("held_ns").fill_null(NEVER),
    "size_bytes": pl.col("size_bytes"),
    "is_rtp": pl.col("protocol") == "rtp",
    "is_rtcp": pl.col("protocol") == "rtcp",
    "kind": pl.col("kind").replace_strict(
        {kind: code + 1 for code, kind in enumerate(KINDS)}, default=0, return_dtype=pl.UInt8
    ),
    "timestamp": pl.col("rtp_timestamp").fill_null(0).cast(pl.UInt32),
    "is_dropped": pl.col("dropped_ns").is_not_null(),
}


_NO_ROWS = SCHEMAS["packets"].to_frame().select(**COLUMNS)
NO_PACKETS = PacketColumns(lambda name: _NO_ROWS[name].to_numpy())


def were_recorded(trace: Trace) -> bool:
    """Whether the trace has its packets."""
    return trace.cached(_were_recorded)


def _were_recorded(trace: Trace) -> bool:
    return "packets" in trace.tables


def packets_of(trace: Trace, flow: str) -> PacketColumns:
    """The packets of a flow in the order of the table; none if packets were not recorded."""
    if not were_recorded(trace):
        return NO_PACKETS
    packets, of_flow = trace.cached(_grouped)
    return packets.chosen(of_flow.get(flow, slice(0, 0)))


def sent_in_order(trace: Trace, flow: str) -> PacketColumns:
    """The packets that a flow sent before its end, over all of the time, in the order of sending."""
    packets = packets_of(trace, flow)
    order = np.argsort(packets.sent_ns, kind="stable")
    count = np.count_nonzero(packets.sent_ns < trace.manifest.flows[flow].end_ns)
    return packets.chosen(order[:count])


def group(trace: Trace) -> None:
    """Groups the packets by flow now. That needs less memory if nothing else has been measured before."""
    trace.cached(_grouped)


def _grouped(trace: Trace) -> tuple[PacketColumns, dict[str, slice]]:
    """All packets in the order of their flows, and the packets of each flow."""
    flows = list(trace.manifest.flows)
    codes = dict(zip(flows, range(len(flows)), strict=True))
    code = pl.col("flow").replace_strict(codes, default=len(flows), return_dtype=pl.UInt32)
    rows = trace.select("packets", code=code, **COLUMNS)
    codes_of_rows = rows.drop_in_place("code").to_numpy()
    small = codes_of_rows.astype(np.uint16) if len(flows) < np.iinfo(np.uint16).max else codes_of_rows
    order = np.argsort(small, kind="stable").astype(np.uint32)
    ends = np.searchsorted(codes_of_rows[order], np.arange(len(flows) + 1))
    # Column by column, so that hardly anything is in memory twice.
    columns = {name: rows.drop_in_place(name).to_numpy()[order] for name in COLUMNS}
    of_flow = {flow: slice(*ends[index : index + 2]) for index, flow in enumerate(flows)}
    return PacketColumns(columns.__getitem__), of_flow
