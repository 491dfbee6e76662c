"""The packets of the flows that are explained, read at once, because a meeting has millions of packets."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from rtclab.metrics.packets import were_recorded
from rtclab.metrics.series import before_end
from rtclab.trace import SCHEMAS, Trace, rows_by
from rtclab.trace.trace import rows_within

COLUMNS = (
    *("flow", "sent_ns", "packet", "delivered_ns", "queued_ns", "queued_path", "held_ns"),
    *("dropped_ns", "drop_cause", "drop_path"),
    *("protocol", "kind", "ssrc", "seq", "rtp_timestamp"),
)
NO_ROWS = SCHEMAS["packets"].to_frame().select(COLUMNS)
HOPS = ("flow", "packet", "path", "queued_ns")
NO_HOPS = SCHEMAS["hops"].to_frame().select(HOPS)


def read(trace: Trace, flows: Sequence[str]) -> None:
    """Reads the packets of some flows in one pass; what is known already is not read again."""
    known = trace.cached(_known)
    missing = [flow for flow in flows if flow not in known]
    if not missing or not were_recorded(trace):
        return
    wanted = pl.col("flow").is_in(missing)
    columns = {name: pl.col(name) for name in COLUMNS}
    rows = trace.whole.select("packets", wanted, **columns).sort("sent_ns", maintain_order=True)
    known |= dict.fromkeys(missing, NO_ROWS)
    known |= {flow: part for flow, part in rows_by(rows, "flow").items() if flow in missing}
    if hops_were_recorded(trace):
        columns = {name: pl.col(name) for name in HOPS}
        hops = trace.whole.select("hops", pl.col("flow").is_in(missing), **columns)
        trace.cached(_known_hops).update(rows_by(hops, "flow"))


def _known(trace: Trace) -> dict[str, pl.DataFrame]:
    return {}


def _known_hops(trace: Trace) -> dict[str, pl.DataFrame]:
    return {}


def hops_were_recorded(trace: Trace) -> bool:
    """Whether the trace has the queues in which packets waited."""
    return "hops" in trace.tables


def hops_of(trace: Trace, flow: str) -> pl.DataFrame:
    """The rows of the table ``hops`` of a flow, over all of the time.

    They are the waits of packets beside those on their ``queued_path``.
    """
    read(trace, [flow])
    return trace.cached(_known_hops).get(flow, NO_HOPS)


def packets_in_order(trace: Trace, flow: str) -> pl.DataFrame:
    """The packets that a flow sent in the trace's window and before its end, in the order of sending."""
    read(trace, [flow])
    rows = trace.cached(_known).get(flow, NO_ROWS)
    rows = rows if trace.window is None else rows_within("packets", rows, trace.window)
    return rows.filter(before_end(trace, "sent_ns"))
