"""What an arena measures in a repeat, for every flow of media and every flow of TCP."""

from __future__ import annotations

from collections.abc import Iterator
from math import nan

import numpy as np
import polars as pl

from rtclab.experiment import Number
from rtclab.metrics import METRICS, media_flows
from rtclab.metrics.adapting import static_periods
from rtclab.metrics.rate import route_capacity
from rtclab.metrics.series import Array, flow_seconds, per_second, span_ns
from rtclab.trace import NS_PER_S, Trace, rows_by

OF_MEDIA = (
    "receiving_rate",
    "queuing_delay_p50",
    "queuing_delay_p95",
    "packet_loss",
    "ce_share",
    "aqm_drop_share",
    "freeze_count",
    "freeze_duration",
    "picture_delay",
    "frame_rate",
    "frame_height",
    "audio_concealed",
    "convergence_time",
    "share_against_tcp_20s",
)
"""The metrics of the registry that are measured for flows of media."""
OF_TCP = ("receiving_rate",)
OF_TRACE = ("rate_balance_20s",)
BUDGETS_MS = (20, 100, 300)
"""Times that packets may wait in queues: behind queues for L4S, in a conversation, and of a shared screen.

ITU-T G.114 allows 150 ms from mouth to ear; with a third of it for the devices at both ends, 100 ms are left.
Classic queues with a discipline aim at 15 to 20 ms (RFC 8033, RFC 9332), and queues for L4S at less. That a
screen may be 300 ms late is our choice.
"""
BUDGET_MS = 100
"""The budget of a conversation, with which the time over budget and recovery are counted."""
MOST_LOST = 0.1
"""Share of lost packets above which media are of no use: the loss at which GCC lowers its rate
(draft-ietf-rmcat-gcc-02, section 6)."""
QUANTILES = tuple(range(5, 100, 5))
"""The percentiles of the queuing delay that are kept for its distribution."""
DROP = 0.75
"""A capacity falls if it becomes less than this share of what it was."""


def measure(trace: Trace, names: tuple[str, ...]) -> Iterator[Number]:
    """The values of a repeat. ``names`` identifies what is measured and changes nothing.

    Besides metrics of the registry there are, of each flow of media:

    - ``late_rate``: the receiving rate in kbit/s over the second half of the flow's time, also of TCP.
    - ``begin`` and ``end``: the time in s in which the flow was active.
    - ``in_time_N``: the share in % of the received packets that waited in queues for at most N ms, times the
      share of the bytes that arrived in seconds in which at most 10 % of the packets were lost.
    - ``over_budget``: the share in % of the seconds in which packets took on average over 100 ms more than
      the paths alone, or in which none arrived.
    - ``recovery_time``: the longest time in s from a fall of the route's capacity to less than 75 % until
      the end of the last second over budget before the next change. There is none without such a fall.
    - ``queue_N``: percentiles of the queuing delay in ms.
    """
    tcp = frozenset(trace.table("tcp")["flow"].unique())
    media = media_flows(trace)
    for name in OF_TRACE:
        yield Number(name, "", METRICS[name].function(trace))
    for flow in trace.flows:
        if flow in media or flow in tcp:
            begin_s, end_s = (moment / NS_PER_S for moment in span_ns(trace, flow))
            late = trace.within(((begin_s + end_s) / 2, end_s))
            yield Number("late_rate", flow, METRICS["receiving_rate"].function(late, flow))
        for name in OF_MEDIA if flow in media else OF_TCP if flow in tcp else ():
            yield Number(name, flow, METRICS[name].function(trace, flow))
        if flow in media:
            yield from _own(trace, flow)


def _own(trace: Trace, flow: str) -> Iterator[Number]:
    begin_ns, end_ns = span_ns(trace, flow)
    yield Number("begin", flow, begin_ns / NS_PER_S)
    yield Number("end", flow, end_ns / NS_PER_S)
    rows = trace.rows_of_flow("queuing_histogram", flow)
    waited_ms, packets = rows.to_series(1).to_numpy(), rows["packets"].to_numpy()
    if packets.sum():
        order = np.argsort(waited_ms, kind="stable")
        waited_ms, reached = waited_ms[order], np.cumsum(packets[order])
        usable = _usable(trace, flow)
        for budget in BUDGETS_MS:
            within = packets[order][waited_ms < budget].sum()
            yield Number(f"in_time_{budget}", flow, float(100 * usable * within / reached[-1]))
        for percent in QUANTILES:
            index = int(np.searchsorted(reached, percent * reached[-1] / 100))
            yield Number(f"queue_{percent}", flow, float(waited_ms[index]))
    at_s, over = seconds_over_budget(trace, flow)
    yield Number("over_budget", flow, float(100 * over.mean()) if over.size else nan)
    yield Number("recovery_time", flow, recovery_time(trace, flow, at_s, over))


def _usable(trace: Trace, flow: str) -> float:
    """The share of the received bytes that arrived in seconds with at most ``MOST_LOST``; 1 without bytes."""
    names = ("delivered_bytes", "dropped_packets", "sent_packets")
    arrived, lost, sent = flow_seconds(trace, flow).select(names).fill_null(0).to_numpy().T
    total = arrived.sum()
    return float(arrived[lost <= MOST_LOST * sent].sum() / total) if total else 1.0


def seconds_over_budget(trace: Trace, flow: str) -> tuple[Array, Array]:
    """The begin of each whole second of the flow in s, and 1 if it was over budget or else 0.

    A second is over budget if its packets took on average over ``BUDGET_MS`` more than the delays of the
    route's paths, or if none arrived.
    """
    rows = flow_seconds(trace, flow)
    middle_s = per_second(trace, flow, "delivered_bytes").at_s[1:-1]
    delay_ms = rows["one_way_delay_mean_ms"].cast(pl.Float64).fill_null(nan).to_numpy()
    known = dict(zip(rows["at_ns"].to_list(), delay_ms.tolist(), strict=True))
    begin_s = middle_s - 0.5
    taken_ms = np.array([known.get(round(at * NS_PER_S), nan) for at in begin_s.tolist()])
    over = np.isnan(taken_ms) | (taken_ms - _planned_ms(trace, flow, middle_s) > BUDGET_MS)
    return begin_s, over.astype(np.float64)


def _planned_ms(trace: Trace, flow: str, at_s: Array) -> Array:
    """The sum of the delays of the route's paths at each time, without queues."""
    known = trace.cached(_delays)
    total = np.zeros(at_s.size)
    for path in trace.manifest.flows[flow].route:
        if path in known:
            moments, delay_ms = known[path]
            index = np.searchsorted(moments, at_s * NS_PER_S, side="right") - 1
            total += delay_ms[np.maximum(index, 0)]
    return total


def _delays(trace: Trace) -> dict[object, tuple[Array, Array]]:
    """By path, the times of changes in ns, and the delay from then on in ms."""
    rows = trace.table("paths").sort("at_ns", maintain_order=True)
    return {
        name: (of["at_ns"].to_numpy(), of["one_way_delay_ms"].to_numpy())
        for name, of in rows_by(rows, "path").items()
    }


def recovery_time(trace: Trace, flow: str, at_s: Array, over: Array) -> float:
    """See :func:`measure`; ``at_s`` and ``over`` are the result of :func:`seconds_over_budget`."""
    moments, capacity = route_capacity(trace, flow)
    taken = []
    for begin_s, end_s in static_periods(trace, flow):
        index = int(np.searchsorted(moments, begin_s * NS_PER_S, side="right")) - 1
        fell = index > 0 and moments[index] == round(begin_s * NS_PER_S)
        if fell and capacity[index] < DROP * capacity[index - 1]:
            late = at_s[(over > 0) & (at_s >= begin_s) & (at_s < end_s)]
            taken.append(float(late.max()) + 1 - begin_s if late.size else 0.0)
    return max(taken, default=nan)
