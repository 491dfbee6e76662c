"""Which path of a route is its bottleneck, who fills it, and how long packets waited."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import nan

import numpy as np
import polars as pl

from rtclab.metrics.accounts.packets import NO_ROWS, hops_of, hops_were_recorded, packets_in_order
from rtclab.metrics.packets import were_recorded
from rtclab.metrics.rate import capacity_of
from rtclab.metrics.series import Array, IntegerArray, span_ns
from rtclab.trace import NS_PER_MS, NS_PER_S, Trace

LEAST_USED = 0.7
"""A path that was used less is not the bottleneck of a route with a Wi-Fi hop."""


NO_WAITS = NO_ROWS.with_columns(path=pl.lit("", pl.String))


def waited_by_path(trace: Trace, flow: str) -> pl.DataFrame:
    """A row for each queue in which a delivered packet of a flow waited, in the trace's window.

    It has the columns of :func:`.packets_in_order`, in the same order of packets, where ``queued_ns`` is the
    time that the packet waited on ``path``. The rows of a packet add up to its ``queued_ns``; a packet that
    waited nowhere has none. There are no rows if it is not known where packets waited
    (:func:`knows_queues`).
    """
    return trace.cached_in_window(_waited, flow)


def _waited(trace: Trace, flow: str) -> pl.DataFrame:
    if not knows_queues(trace, flow):
        return NO_WAITS
    packets = packets_in_order(trace, flow)
    if hops_were_recorded(trace):
        others = hops_of(trace, flow).select("packet", "path", "queued_ns")
        sums = others.group_by("packet").agg(others_ns=pl.col("queued_ns").sum())
        longest = (
            packets.drop_nulls("queued_path")
            .join(sums, on="packet", how="left")
            .with_columns(
                queued_ns=pl.col("queued_ns") - pl.col("others_ns").fill_null(0), path=pl.col("queued_path")
            )
        )
        rest = packets.drop("queued_ns").join(others, on="packet")
        rows = pl.concat([part.select(NO_WAITS.columns) for part in (longest, rest)])
        return rows.sort("sent_ns", "packet", maintain_order=True)
    (path,) = trace.manifest.flows[flow].route
    return packets.filter(pl.col("queued_ns") > 0).with_columns(path=pl.lit(path, pl.String))


def knows_queues(trace: Trace, flow: str) -> bool:
    """Whether the trace knows in which queues the packets of a flow waited.

    A trace without the table ``hops`` knows it of a route with a single path.
    """
    if not were_recorded(trace):
        return False
    return hops_were_recorded(trace) or len(trace.manifest.flows[flow].route) == 1


@dataclass(frozen=True)
class UsedPath:
    """The path of a route on which a flow's packets queued.

    Attributes:
        path: its name.
        used: the part of its capacity that was used, 0 to 1; NaN if the capacity is not known.
        beside: the flow of cross traffic with the most bytes there; empty if there is none.
        share_beside: the part of its bytes that was cross traffic, 0 to 1.
        waited_ms: the 99th percentile of the time in ms that the flow's packets waited there or, if the path
            is inferred, in all queues; NaN if not known.
        grade: ``known`` if it is the path on which packets waited, ``inferred`` if it was used most.
    """

    path: str
    used: float
    beside: str
    share_beside: float
    waited_ms: float
    grade: str


def bottleneck_of(trace: Trace, flow: str, wifi: Collection[str] = ()) -> UsedPath | None:
    """The path of a flow's route in whose queue its packets waited longest; None if no path is known.

    Where it is not known on which path packets waited, it is the one that was used most while the flow was
    active, by the bytes that crossed each path. ``wifi`` names the paths that are Wi-Fi hops, whose capacity
    varies: one is taken if no other path of the route was used much.
    """
    return trace.cached_in_window(_bottleneck, flow, tuple(wifi))


def _bottleneck(trace: Trace, flow: str, wifi: Collection[str]) -> UsedPath | None:
    if flow not in trace.manifest.flows:
        return None
    path = most_queued(waited_by_path(trace, flow))
    grade = "known" if path else "inferred"
    path = path or _most_used(trace, flow, wifi)
    if not path:
        return None
    begin_ns, end_ns = span_ns(trace, flow)
    bits = _bits(trace, path, begin_ns, end_ns)
    beside = {name: one for name, one in bits.items() if trace.manifest.flows[name].call is None}
    total = sum(bits.values())
    return UsedPath(
        path,
        _used(trace, path, begin_ns, end_ns),
        max(beside, key=lambda name: beside[name], default=""),
        sum(beside.values()) / total if total else 0.0,
        _waited_ms(trace, flow, path if grade == "known" else None),
        grade,
    )


def rises_of_delay(trace: Trace, flow: str) -> list[tuple[int, str]]:
    """When the propagation delay of a path of a flow's route rose, and the path, the largest rise last."""
    rows = trace.whole.table("paths").filter(pl.col("path").is_in(trace.manifest.flows[flow].route))
    rose_ms = pl.col("one_way_delay_ms").diff().over("path")
    rises = rows.sort("at_ns").with_columns(rose_ms=rose_ms).filter(pl.col("rose_ms") > 0)
    return rises.sort("rose_ms", maintain_order=True).select("at_ns", "path").rows()


def most_queued(waits: pl.DataFrame) -> str:
    """The path on which packets waited longest in all, of rows of :func:`waited_by_path`; empty without."""
    sums = waits.group_by("path").agg(pl.col("queued_ns").sum()).sort("queued_ns", "path")
    return str(sums["path"][-1]) if sums.height else ""


def _waited_ms(trace: Trace, flow: str, path: str | None) -> float:
    """The 99th percentile of the time that packets waited on a path, or on all; NaN if it is not known."""
    if not were_recorded(trace):
        return nan
    queued_ns = packets_in_order(trace, flow)["queued_ns"].drop_nulls().to_numpy()
    if path is not None:
        there_ns = waited_by_path(trace, flow).filter(pl.col("path") == path)["queued_ns"].to_numpy()
        # The other packets did not wait there.
        queued_ns = np.append(there_ns, np.zeros(max(queued_ns.size - there_ns.size, 0), np.int64))
    return float(np.quantile(queued_ns, 0.99)) / NS_PER_MS if queued_ns.size else nan


def _most_used(trace: Trace, flow: str, wifi: Collection[str]) -> str:
    """The path of a route that was used most, or its Wi-Fi hop; empty if no capacity is known."""
    route = trace.manifest.flows[flow].route
    begin_ns, end_ns = span_ns(trace, flow)
    used = {path: _used(trace, path, begin_ns, end_ns) for path in route}
    known = {path: part for path, part in used.items() if part == part}
    best = max(known, key=lambda path: known[path], default="")
    hops = [path for path in route if path in wifi]
    return hops[0] if hops and known.get(best, 0.0) < LEAST_USED else best


def _used(trace: Trace, path: str, begin_ns: int, end_ns: int) -> float:
    """The part of a path's capacity that was used in a time; NaN if the capacity is not known."""
    at_ns, capacity_bps = capacity_of(trace, (path,))
    if not at_ns.size or np.isnan(capacity_bps).any():
        return nan
    edges: IntegerArray = np.append(at_ns, max(end_ns, int(at_ns[-1]))).clip(begin_ns, end_ns)
    may_bits = float((np.diff(edges) / NS_PER_S * capacity_bps).sum())
    return sum(_bits(trace, path, begin_ns, end_ns).values()) / may_bits if may_bits else nan


def _bits(trace: Trace, path: str, begin_ns: int, end_ns: int) -> dict[str, float]:
    """By flow, the bits that it delivered across a path in a time."""
    first, last = begin_ns // NS_PER_S, -(-end_ns // NS_PER_S)
    return {name: 8 * float(sums[first:last].sum()) for name, sums in trace.cached(_carried, path).items()}


def _carried(trace: Trace, path: str) -> dict[str, Array]:
    """By flow, the bytes that it delivered across a path in each second of the run."""
    seconds = trace.manifest.duration_ns // NS_PER_S + 2
    rows = trace.table("flow_seconds")
    found = {}
    for name, about in trace.manifest.flows.items():
        if path in about.route:
            own = rows.filter(pl.col("flow") == name)
            at = (own["at_ns"].to_numpy() // NS_PER_S).clip(0, seconds - 1)
            weights = own["delivered_bytes"].cast(pl.Float64).to_numpy()
            found[name] = np.bincount(at, weights=weights, minlength=seconds).astype(np.float64)
    return found
