"""Delay budgets: what arrives in time, seconds over the budget, and how long a fall of the capacity hurts."""

from __future__ import annotations

from math import nan

import numpy as np

from rtclab.metrics.adapting import static_periods
from rtclab.metrics.delay import queuing_histogram
from rtclab.metrics.rate import path_changes, route_capacity
from rtclab.metrics.registry import OF_MODEL, metric
from rtclab.metrics.series import Array, flow_seconds, once, per_second
from rtclab.trace import NS_PER_S, Trace

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
FALL = 0.75
"""A capacity falls if it becomes less than this share of what it was."""

_BUDGETS = "ITU-T G.114, with a third of the delay for the devices; RFC 9332"


_in_time = metric(
    unit="%", better="higher", source=_BUDGETS, bounds=(0, 100), known=OF_MODEL, packets="in a window"
)


@_in_time
def in_time_20(trace: Trace, flow: str) -> float:
    """Share of the received packets (%) that waited in queues for at most 20 ms and are of use.

    It is multiplied by the share of the bytes that arrived in seconds in which at most 10 % of the packets
    were lost, so that neither a full queue nor a flood of lost packets counts.
    """
    return _within(trace, flow, 20)


@_in_time
def in_time_100(trace: Trace, flow: str) -> float:
    """Share of the received packets (%) that waited in queues for at most 100 ms and are of use.

    See ``in_time_20``.
    """
    return _within(trace, flow, 100)


@_in_time
def in_time_300(trace: Trace, flow: str) -> float:
    """Share of the received packets (%) that waited in queues for at most 300 ms and are of use.

    See ``in_time_20``.
    """
    return _within(trace, flow, 300)


def _within(trace: Trace, flow: str, budget_ms: int) -> float:
    waited_ms, packets = queuing_histogram(trace, flow)
    if not packets.size:
        return nan
    return float(100 * _usable(trace, flow) * packets[waited_ms < budget_ms].sum() / packets.sum())


@once
def _usable(trace: Trace, flow: str) -> float:
    """The share of the received bytes that arrived in seconds with at most ``MOST_LOST``; 1 without bytes."""
    rows = flow_seconds(trace, flow)
    names = ("delivered_bytes", "share", "dropped_packets", "sent_packets")
    in_second, share, lost, sent = (np.nan_to_num(rows[name].to_numpy()) for name in names)
    arrived = in_second * share
    total = arrived.sum()
    return float(arrived[lost <= MOST_LOST * sent].sum() / total) if total else 1.0


@metric(unit="%", better="lower", source=_BUDGETS, bounds=(0, 100), known=OF_MODEL)
def over_budget(trace: Trace, flow: str) -> float:
    """Share of the seconds (%) in which packets took on average over 100 ms more than the paths alone.

    Seconds in which no packet arrived count, too. The flow's first and last second are left out.
    """
    _, over = seconds_over_budget(trace, flow)
    return float(100 * over.mean()) if over.size else nan


@metric(unit="s", better="lower", source=_BUDGETS, of_time=True, known=OF_MODEL)
def recovery_time(trace: Trace, flow: str) -> float:
    """The longest time (s) from a fall of the capacity to the end of the last second over budget.

    The capacity of the flow's route falls if it becomes less than 75 % of what it was. Seconds after the next
    change of the capacity do not count. ``over_budget`` says when a second is over budget. There is no value
    without such a fall.
    """
    return longest_recovery_s(trace, flow, *seconds_over_budget(trace, flow))


@once
def seconds_over_budget(trace: Trace, flow: str) -> tuple[Array, Array]:
    """The begin of each whole second of the flow in s, and 1 if it was over budget or else 0.

    A second is over budget if its packets took on average over ``BUDGET_MS`` more than the delays of the
    route's paths, or if none arrived. In a window, these are the seconds that are all in it. There are none
    if the network is not known, as in captures.
    """
    whole = trace.whole
    delays_ms = whole.cached(path_changes, "one_way_delay_ms")
    middle_s = per_second(whole, flow, "delivered_bytes").at_s[1:-1]
    if trace.window is not None:
        begin_s, end_s = trace.window
        middle_s = middle_s[(middle_s - 0.5 >= begin_s) & (middle_s + 0.5 <= end_s)]
    if not delays_ms or not middle_s.size:
        return np.empty(0), np.empty(0)
    rows = flow_seconds(whole, flow)
    known_ms = rows["one_way_delay_mean_ms"].to_numpy()  # NaN for null
    known = dict(zip(rows["at_ns"].to_list(), known_ms.tolist(), strict=True))
    begins_s = middle_s - 0.5
    taken_ms = np.array([known.get(round(at * NS_PER_S), nan) for at in begins_s.tolist()])
    planned_ms = np.zeros(middle_s.size)
    for path in trace.manifest.flows[flow].route:
        if path in delays_ms:
            moments, delay_ms = delays_ms[path]
            index = np.searchsorted(moments, middle_s * NS_PER_S, side="right") - 1
            planned_ms += delay_ms[np.maximum(index, 0)]
    over = np.isnan(taken_ms) | (taken_ms - planned_ms > BUDGET_MS)
    return begins_s, over.astype(np.float64)


def longest_recovery_s(trace: Trace, flow: str, at_s: Array, over: Array) -> float:
    """The value of ``recovery_time`` for seconds as from :func:`seconds_over_budget`."""
    moments, capacity = route_capacity(trace, flow)
    taken = []
    for begin_s, end_s in static_periods(trace, flow):
        index = int(np.searchsorted(moments, begin_s * NS_PER_S, side="right")) - 1
        fell = index > 0 and moments[index] == round(begin_s * NS_PER_S)
        if fell and capacity[index] < FALL * capacity[index - 1]:
            late = at_s[(over > 0) & (at_s >= begin_s) & (at_s < end_s)]
            taken.append(float(late.max()) + 1 - begin_s if late.size else 0.0)
    return max(taken, default=nan)
