"""Which path of a route is its bottleneck, and who fills it."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
import polars as pl

from rtclab.metrics.rate import capacity_of
from rtclab.metrics.series import Array, IntegerArray, span_ns
from rtclab.trace import NS_PER_S, Trace


@dataclass(frozen=True)
class Bottleneck:
    """The path of a route that was used most.

    Attributes:
        path: its name.
        used: the part of its capacity that was used, 0 to 1; infinite if the capacity is not known.
        own: the flow's part of the bytes that it carried, 0 to 1.
        beside: the flow of cross traffic with the most bytes there; empty if there is none.
        share_beside: the part of the bytes of all cross traffic, 0 to 1.
    """

    path: str
    used: float
    own: float
    beside: str
    share_beside: float


def bottleneck_of(trace: Trace, flow: str) -> Bottleneck | None:
    """The path of a flow's route that was used most while the flow was active; None if no path is known."""
    about = trace.manifest.flows.get(flow)
    if about is None or not about.route:
        return None
    begin_ns, end_ns = span_ns(trace, flow)
    first, last = begin_ns // NS_PER_S, -(-end_ns // NS_PER_S)
    found = []
    for path in about.route:
        carried = trace.cached(_carried, path)
        bits = {name: 8 * float(sums[first:last].sum()) for name, sums in carried.items()}
        total = sum(bits.values())
        may = _may_bits(trace, path, begin_ns, end_ns)
        if not total or may == inf:
            continue
        beside = {name: one for name, one in bits.items() if trace.manifest.flows[name].call is None}
        found.append(
            Bottleneck(
                path,
                total / may if may else inf,
                bits.get(flow, 0.0) / total,
                max(beside, key=lambda name: beside[name], default=""),
                sum(beside.values()) / total,
            )
        )
    return max(found, key=lambda one: one.used, default=None)


def _carried(trace: Trace, path: str) -> dict[str, Array]:
    """By flow, the bytes that it sent towards a path in each second of the run."""
    seconds = trace.manifest.duration_ns // NS_PER_S + 2
    whole = trace.whole.table("flow_seconds")
    found = {}
    for name, about in trace.manifest.flows.items():
        if path in about.route:
            rows = whole.filter(pl.col("flow") == name)
            at = (rows["at_ns"].to_numpy() // NS_PER_S).clip(0, seconds - 1)
            found[name] = np.bincount(at, weights=rows["delivered_bytes"].to_numpy(), minlength=seconds)
    return found


def _may_bits(trace: Trace, path: str, begin_ns: int, end_ns: int) -> float:
    """What a path can carry in a time, in bit; infinite without a limit."""
    at_ns, capacity_bps = capacity_of(trace, (path,))
    if not at_ns.size or np.isnan(capacity_bps).any():
        return inf
    edges: IntegerArray = np.append(at_ns, max(end_ns, int(at_ns[-1]))).clip(begin_ns, end_ns)
    return float((np.diff(edges) / NS_PER_S * capacity_bps).sum())
