"""The account of losses: where and why the packets of each flow were lost, and how they were grouped."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rtclab.metrics.accounts.packets import packets_in_order
from rtclab.metrics.loss import packet_loss
from rtclab.metrics.packets import NEVER, packets_of, were_recorded
from rtclab.metrics.series import IntegerArray, span_ns
from rtclab.trace import NS_PER_MS, NS_PER_S, Trace, rows_by

CAUSES: dict[str, str] = {
    "outage": "the path carried nothing",
    "queue": "a queue was full",
    "aqm": "the discipline of a queue dropped them",
    "burst": "lost in bursts",
    "random": "lost one by one",
    "unknown": "missing, and nothing tells where",
}
"""The causes of losses, and what each means."""

IMPORTED = ("capture", "log")
"""Backends whose traces rtclab did not make."""
BURSTY = 1.5
"""Losses are bursts if they follow each other this many times as often as losses that are independent."""
FEW_LOSSES = 8
"""Fewer losses do not tell whether they come in bursts."""
OUTAGE_NS = 300 * NS_PER_MS
"""A path on which everything is lost for this time is out."""
LEAST_OF_OUTAGE = 5
"""Number of packets that an outage without any news of the path must have swallowed."""

SCHEMA = pl.Schema(
    {
        "flow": pl.String(),
        "cause": pl.String(),
        "path": pl.String(),
        "packets": pl.Int64(),
        "runs": pl.Int64(),
        "share_percent": pl.Float64(),
    }
)


@dataclass(frozen=True)
class Lost:
    """The lost packets of a flow, in the order in which they were sent; arrays have the shape (packets,).

    Attributes:
        number: its number among all packets that the flow sent, from 0, in the order of sending.
        sent_ns: when each was sent.
        cause: its cause, a key of ``CAUSES``.
        path: the path that lost it; empty if that is not known.
    """

    number: IntegerArray
    sent_ns: IntegerArray
    cause: NDArray[np.str_]
    path: NDArray[np.str_]


def losses_table(trace: Trace) -> pl.DataFrame:
    """The lost packets of each flow by cause and path; ``runs`` is the number of times that losses began.

    ``share_percent`` is the part of the flow's lost packets.
    """
    parts = []
    for flow in trace.flows:
        lost = lost_packets(trace, flow)
        if not lost.sent_ns.size:
            continue
        rows = pl.DataFrame({"cause": lost.cause, "path": lost.path, "run": _runs(trace, flow, lost)})
        parts.append(
            rows.group_by("cause", "path")
            .agg(packets=pl.len().cast(pl.Int64), runs=pl.col("run").n_unique().cast(pl.Int64))
            .with_columns(flow=pl.lit(flow), share_percent=100 * pl.col("packets") / lost.sent_ns.size)
            .select(list(SCHEMA))
            .sort("packets", "cause", "path", descending=[True, False, False])
        )
    return pl.concat([SCHEMA.to_frame(), *parts])


def lost_packets(trace: Trace, flow: str) -> Lost:
    """The lost packets of a flow in the trace's window, with their causes."""
    return trace.cached_in_window(_lost, flow)


def _lost(trace: Trace, flow: str) -> Lost:
    rows = packets_in_order(trace, flow) if were_recorded(trace) else None
    if rows is None or not tells_losses(trace, flow):
        numbers, texts = np.empty(0, np.int64), np.empty(0, np.str_)
        return Lost(numbers, numbers, texts, texts)
    gone = pl.col("dropped_ns").is_not_null() | (
        pl.col("delivered_ns").is_null() & (pl.col("sent_ns") < still_on_its_way_ns(trace, flow))
    )
    numbered = rows.with_row_index("number").filter(gone)
    cause = numbered["drop_cause"].fill_null("unknown").to_numpy().astype(object)
    path = numbered["drop_path"].fill_null("").to_numpy().astype(object)
    number = numbered["number"].to_numpy()
    sent_ns = numbered["sent_ns"].to_numpy()
    for one in dict.fromkeys(path.tolist()):
        chosen = (path == one) & np.isin(cause, ("loss", "unknown"))
        kind = "burst" if _in_bursts(number[chosen], rows.height) else "random"
        cause[chosen & (cause == "loss")] = kind
    cause[_during_outages(trace, path, sent_ns)] = "outage"
    cause[_all_lost(rows, number, sent_ns)] = "outage"
    before = np.count_nonzero(
        packets_in_order(trace.whole, flow)["sent_ns"].to_numpy() < span_ns(trace, flow)[0]
    )
    return Lost(number.astype(np.int64) + before, sent_ns, cause.astype(np.str_), path.astype(np.str_))


def tells_losses(trace: Trace, flow: str) -> bool:
    """Whether packets of a flow that did not arrive were lost; they may be missing from a capture or log."""
    return trace.manifest.backend not in IMPORTED or packet_loss(trace, flow) > 0


def still_on_its_way_ns(trace: Trace, flow: str) -> int:
    """From when on a packet that had not arrived when the flow ended, and was not dropped, was not lost.

    It is the last second of the flow, or the largest delay of its packets if that is longer, as for the
    metric `packet_loss`.
    """
    return trace.cached(_still_on_its_way_ns, flow)


def _still_on_its_way_ns(trace: Trace, flow: str) -> int:
    packets = packets_of(trace.whole, flow)
    came = packets.delivered_ns != NEVER
    delays_ns = packets.delivered_ns[came] - packets.sent_ns[came]
    return trace.manifest.flows[flow].end_ns - max(NS_PER_S, int(delays_ns.max(initial=0)))


def _in_bursts(numbers: NDArray[np.uint32], sent: int) -> bool:
    """Whether losses follow each other clearly more often than independent losses of the same share would."""
    if numbers.size < FEW_LOSSES:
        return False
    share = numbers.size / sent
    following = np.mean(np.diff(numbers.astype(np.int64)) == 1)
    expected = share + 2 * np.sqrt(share * (1 - share) / numbers.size)
    return bool(following > BURSTY * share and following > expected)


def _during_outages(trace: Trace, path: NDArray[np.object_], sent_ns: IntegerArray) -> NDArray[np.bool_]:
    """Whether the path that lost each packet had no capacity when the packet was sent, or soon after."""
    out = np.zeros(sent_ns.size, np.bool_)
    for name, spans in trace.cached(outages).items():
        for begin_ns, end_ns in spans.tolist():
            out |= (path == name) & (sent_ns >= begin_ns - OUTAGE_NS) & (sent_ns < end_ns)
    return out


def outages(trace: Trace) -> dict[str, IntegerArray]:
    """By path, begin and end in ns of the times in which it has no capacity, of shape (times, 2)."""
    found: dict[str, list[tuple[int, int]]] = {}
    for path, rows in rows_by(trace.whole.table("paths").sort("at_ns"), "path").items():
        at_ns = rows["at_ns"].to_list()
        for index, capacity in enumerate(rows["capacity_bps"].to_list()):
            if capacity == 0:
                end_ns = at_ns[index + 1] if index + 1 < len(at_ns) else trace.manifest.duration_ns
                found.setdefault(str(path), []).append((at_ns[index], end_ns))
    return {path: np.array(spans, np.int64) for path, spans in found.items()}


def _all_lost(rows: pl.DataFrame, number: NDArray[np.uint32], sent_ns: IntegerArray) -> NDArray[np.bool_]:
    """Whether each lost packet is in a run of losses that lasts so long that the path must have been out."""
    if not number.size:
        return np.zeros(0, np.bool_)
    run = np.append(0, np.cumsum(np.diff(number.astype(np.int64)) > 1))
    starts = np.flatnonzero(np.append(True, np.diff(run) > 0))
    counts = np.diff(np.append(starts, run.size))
    spans_ns = sent_ns[starts + counts - 1] - sent_ns[starts]
    long = (spans_ns >= OUTAGE_NS) & (counts >= LEAST_OF_OUTAGE)
    of_packets: NDArray[np.bool_] = long[run]
    return of_packets


def _runs(trace: Trace, flow: str, lost: Lost) -> IntegerArray:
    """The number of the run of losses that each lost packet belongs to."""
    rows = packets_in_order(trace, flow)
    index = np.searchsorted(rows["sent_ns"].to_numpy(), lost.sent_ns)
    steps: IntegerArray = np.append(0, np.cumsum(np.diff(index) > 1))
    return steps
