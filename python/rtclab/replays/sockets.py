"""When packets left the sender's socket, from the trace of the live call beside an event log."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from rtclab.errors import RtclabError
from rtclab.logs.control import control_values
from rtclab.logs.event_log import NO_VALUE, EventLog
from rtclab.logs.live import NS_PER_MS, log_name
from rtclab.trace import Trace

_SEQ_RANGE = 2**16


def socket_times(log: EventLog) -> npt.NDArray[np.int64]:
    """When the packet of each row of ``outgoing_rtp`` left the socket, in ms of the log's clock.

    Chromium's control counts from the moment at which its network process hands a packet to the socket. A
    log has only the time at which the packet left the pacer. A live call's trace has when the emulator saw
    it.

    Returns an array of shape (rows,), rounded down, ``NO_VALUE`` where the trace lacks the packet. The array
    is empty if the log does not lie in the trace of its call.
    """
    unknown = np.empty(0, dtype=np.int64)
    try:
        trace = Trace(log.path.parent)
    except RtclabError:
        return unknown
    flows = [
        name
        for name, flow in trace.manifest.flows.items()
        if log_name(flow.sender, flow.receiver) == log.path.name
    ]
    began_ns = _began_ns(log, trace, flows)
    if began_ns is None:
        return unknown
    seq = pl.col("seq") % _SEQ_RANGE
    seen = (
        trace.table("packets")
        .filter(pl.col("flow").is_in(flows) & pl.col("seq").is_not_null())
        .select("ssrc", seq, sent_ms=(pl.col("sent_ns") + began_ns) // NS_PER_MS)
        .unique(["ssrc", "seq"], keep="first")
    )
    rows = (
        log.tables["outgoing_rtp"]
        .select("ssrc", seq)
        .join(seen, on=["ssrc", "seq"], how="left", maintain_order="left")
    )
    return rows["sent_ms"].fill_null(NO_VALUE).to_numpy()


def _began_ns(log: EventLog, trace: Trace, flows: list[str]) -> int | None:
    """When the run began on the log's clock, by the rows that the trace took from the log."""
    own = trace.table("controller").filter(pl.col("flow").is_in(flows) & (pl.col("name") == "target_bps"))[
        "at_ns"
    ]
    logged = control_values(log).filter(pl.col("name") == "target_bps")["at_ms"] * NS_PER_MS
    shifts = (logged.head(own.len()) - own.head(logged.len())).unique()
    return int(shifts[0]) if shifts.len() == 1 else None
