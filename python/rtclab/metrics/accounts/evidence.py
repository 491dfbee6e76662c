"""Where the rate of a flow was limited at a time, and which observed values say so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from rtclab.metrics.accounts.losses import lost_packets
from rtclab.metrics.accounts.queues import bottleneck_of, waited_by_path
from rtclab.metrics.series import Array, IntegerArray
from rtclab.trace import NS_PER_S, Trace

Values = Mapping[str, tuple[IntegerArray, Array]]
"""By name, when a control observed a value, and the value."""

MEMORY_NS = 2 * NS_PER_S
"""What happened this long before a limit began counts for it: a control acts on what it has seen."""
HELD_NS = NS_PER_S // 10
"""A queue that holds packets for less does not hold acknowledgements back: libwebrtc lets as much data be on
its way as a round trip and 350 ms carry (`congestion_window_pushback_controller.cc`).
"""
DECIDE: dict[str, tuple[str, ...]] = {
    "start": ("target_bps",),
    "maximum": ("target_bps",),
    "source": ("target_bps",),
    "delay": ("detector_state", "delay_based_bps", "remb_bps", "congestion_level_ms", "queue_delay_ms"),
    "loss": ("loss_based_state", "loss_based_bps", "loss_ratio", "loss_level", "loss_event_ratio"),
    "window": ("pushback_ratio",),
}
"""By limit, the values of congestion controls that tell it."""
OTHER = {
    "pause": "promised",
    "maximum": "targetBitrate",
    "source": "packets",
    "processor": "qualityLimitationReason, totalEncodeTime, cpu_percent",
    "feedback": "rtcp",
    "server": "packets",
}
"""By limit, what else tells it: columns of tables, packets, or what the manifest promises."""


@dataclass(frozen=True)
class Places:
    """What happened to a flow's packets, and where, in the order in which they were sent.

    Attributes:
        at_ns: when each packet was sent, of shape (events,).
        place: index in ``names`` of where it happened, of shape (events,).
        weight: how much each counts, of shape (events,).
        names: the places.
    """

    at_ns: IntegerArray
    place: IntegerArray
    weight: Array
    names: list[str]

    @classmethod
    def of(cls, at_ns: pl.Series, places: pl.Series, weight: pl.Series) -> Places:
        """Makes it of columns of equal length."""
        codes = places.rank("dense").cast(pl.Int64) - 1
        columns = (at_ns.to_numpy(), codes.to_numpy(), weight.cast(pl.Float64).to_numpy())
        return cls(*columns, places.unique().sort().to_list())

    def heaviest(self, begin_ns: int, end_ns: int) -> str:
        """The place with the largest sum of weights in a time; empty if nothing happened in it."""
        first, last = np.searchsorted(self.at_ns, [begin_ns, end_ns])
        sums = np.bincount(self.place[first:last], self.weight[first:last])
        return self.names[int(sums.argmax())] if sums.size else ""

    def longest(self, begin_ns: int, end_ns: int) -> tuple[float, str]:
        """The mean weight at the place with the largest mean in a time, and the place."""
        first, last = np.searchsorted(self.at_ns, [begin_ns, end_ns])
        counts = np.bincount(self.place[first:last])
        sums = np.bincount(self.place[first:last], self.weight[first:last])
        means = sums / counts.clip(min=1)
        return max(zip(means.tolist(), self.names, strict=False), default=(0.0, ""))


def where_limited(trace: Trace, flow: str, limit: str, begin_ns: int, end_ns: int) -> str:
    """Where a flow was limited in a time: the path whose queue grew, or the cause and path of its losses.

    A queue that did not hold packets then is the flow's bottleneck. Data on its way that is not acknowledged
    is where its packets, or the feedback on them, waited long. It is empty for other limits, and if it is not
    known.
    """
    if limit == "delay":
        found = trace.cached(_queues, flow).heaviest(begin_ns - MEMORY_NS, end_ns)
        at = None if found else bottleneck_of(trace.whole, flow)
        return found or (at.path if at else "")
    if limit == "loss":
        return trace.cached(_losses, flow).heaviest(begin_ns - MEMORY_NS, end_ns)
    if limit == "window":
        ways = [trace.cached(_queues, name) for name in (flow, *flows_back(trace, flow))]
        mean_ns, place = max(way.longest(begin_ns - MEMORY_NS, end_ns) for way in ways)
        return place if mean_ns > HELD_NS else ""
    return ""


def flows_back(trace: Trace, flow: str) -> list[str]:
    """The flows of a call from a flow's receiver to its sender, which carry feedback."""
    about = trace.manifest.flows[flow]
    return [
        name
        for name, other in trace.manifest.flows.items()
        if (other.sender, other.receiver) == (about.receiver, about.sender) and other.call == about.call
    ]


def _queues(trace: Trace, flow: str) -> Places:
    rows = waited_by_path(trace, flow)
    return Places.of(rows["sent_ns"], rows["path"], rows["queued_ns"])


def _losses(trace: Trace, flow: str) -> Places:
    lost = lost_packets(trace, flow)
    places = pl.DataFrame(
        {"cause": lost.cause, "path": lost.path}, schema=dict.fromkeys(("cause", "path"), pl.String)
    )
    place = places.select(pl.concat_str("cause", "path", separator=" ").str.strip_chars_end()).to_series()
    return Places.of(pl.Series(lost.sent_ns), place, pl.Series(np.ones(lost.sent_ns.size)))


def evidence_of(values: Values, limit: str, grade: str, begin_ns: int, end_ns: int) -> str:
    """The observed values that tell a limit in a time: ``loss_based_state=1, loss_based_bps=3.1e+05``.

    States are the highest in that time, other values the mean. Where no value of a control tells it, these
    are names of tables' columns, or ``packets``.
    """
    own = f"limited_by_{limit}"
    names = (own,) if own in values else DECIDE.get(limit, ())
    parts = [f"{name}={_value(values[name], name, begin_ns, end_ns):.4g}" for name in names if name in values]
    if limit in OTHER:
        parts.append(OTHER[limit])
    if not parts and limit != "unknown" and grade == "inferred":
        parts.append("packets")
    return ", ".join(parts)


def _value(observed: tuple[IntegerArray, Array], name: str, begin_ns: int, end_ns: int) -> float:
    """The highest of a state, or the mean of another value, in a time; NaN if there is none yet."""
    at_ns, values = observed
    first = max(int(np.searchsorted(at_ns, begin_ns, side="right")) - 1, 0)
    inside = values[first : max(int(np.searchsorted(at_ns, end_ns)), first + 1)]
    known = inside[~np.isnan(inside)]
    if not known.size:
        return float("nan")
    return float(known.max() if name.endswith("_state") else known.mean())
