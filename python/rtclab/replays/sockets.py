"""When packets left the sender's socket, from the trace of the live call beside an event log."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from rtclab.errors import RtclabError
from rtclab.importers.logs.control import control_values
from rtclab.importers.logs.event_log import NO_VALUE, EventLog
from rtclab.importers.logs.live import log_name
from rtclab.trace import NS_PER_MS, Trace

_SEQ_RANGE = 2**16
_LONGEST_WAY_MS = 1_000
"""A packet takes less than this time from the pacer to the socket."""
_FEWEST_ROWS = 3
"""Fewer rows of a trace than this could match any log."""


def socket_times(log: EventLog) -> npt.NDArray[np.int64]:
    """When the packet of each row of ``outgoing_rtp`` left the socket, in ms of the log's clock.

    Chromium's control counts from the moment at which its network process writes a packet to the socket. A
    log has only the time at which the packet left the pacer. A live call's trace has the time at which the
    emulator saw the packet.

    Returns an array of shape (rows,), rounded down, ``NO_VALUE`` where the trace lacks the packet. The array
    is empty if the log does not lie in the trace of its call.
    """
    unknown = np.empty(0, dtype=np.int64)
    try:
        trace = Trace(log.path.parent)
    except RtclabError:
        return unknown
    flows = [name for name in trace.manifest.flows if log_name(name) == log.path.name]
    began_ns = _began_ns(log, trace, flows)
    if began_ns is None:
        return unknown
    seq = pl.col("seq") % _SEQ_RANGE
    seen = (
        trace.table("packets")
        .filter(pl.col("flow").is_in(flows) & pl.col("seq").is_not_null() & pl.col("sent_ns").is_not_null())
        .select("ssrc", seq, sent_ms=(pl.col("sent_ns") + began_ns) // NS_PER_MS)
    )
    rows = log.tables["outgoing_rtp"].select("at_ms", "ssrc", seq).with_row_index("row")
    way_ms = (pl.col("sent_ms") - pl.col("at_ms")).abs()
    # Sequence numbers repeat, so a row gets the packet that is closest in time.
    nearest = (
        rows.join(seen, on=["ssrc", "seq"])
        .filter(way_ms < _LONGEST_WAY_MS)
        .sort(way_ms, maintain_order=True)
        .unique("row", keep="first", maintain_order=True)
        .select("row", "sent_ms")
    )
    found = rows.join(nearest, on="row", how="left", maintain_order="left")
    return found["sent_ms"].fill_null(NO_VALUE).to_numpy()


def _began_ns(log: EventLog, trace: Trace, flows: list[str]) -> int | None:
    """When the run began on the log's clock, computed from the rows that the trace took from the log.

    Rows before the run began and after it ended are not in the trace.
    """
    own = trace.table("controller").filter(pl.col("flow").is_in(flows) & (pl.col("name") == "target_bps"))[
        "at_ns"
    ]
    logged = control_values(log).filter(pl.col("name") == "target_bps")["at_ms"] * NS_PER_MS
    if own.len() < _FEWEST_ROWS:
        return None
    for skipped in range(logged.len() - own.len() + 1):
        shifts = (logged.slice(skipped, own.len()) - own).unique()
        if shifts.len() == 1:
            return int(shifts[0])
    return None
