"""How flows adapt to changes and share what there is: the metrics of RFC 8868, section 3."""

from __future__ import annotations

from math import nan

import numpy as np

from rtclab.metrics.flows import media_flows
from rtclab.metrics.packets import packets_of, were_recorded
from rtclab.metrics.rate import capacity_of, received_kbps, sent_kbps
from rtclab.metrics.registry import EXACT, OF_MODEL, UNKNOWN, exact, metric, sources
from rtclab.metrics.series import NO_SAMPLES, Array, Samples, samples_in_window, span_ns
from rtclab.trace import KBIT_PER_BYTE, NS_PER_S, Trace

BAND = 0.2
"""A rate has converged while it differs from its level by no more than this share of the level."""
HELD_S = 5
"""For so long it must stay there, in seconds."""
SHORTEST_S = 2 * HELD_S
"""Periods without a change that are shorter than this, in seconds, have no level."""
SAME_CHANGE_S = 1.0
"""Changes within this time, in seconds, are one change: calls that start together are set up one by one."""
LOW, HIGH = 2 / 3, 4 / 3
"""Watermarks of an oscillation, as shares of the level of the rate: a factor of two."""
SWING_S = 0.5
"""Length of a window in which the rate is compared with the watermarks, in seconds (RFC 8868, section 3)."""

_FAIR = "RFC 8868, section 3"

Period = tuple[float, float]
"""Begin and end of a time without a change, in seconds since the run began."""


def static_periods(trace: Trace, flow: str) -> list[Period]:
    """The times, in seconds, in which nothing changes for a flow while it is active.

    They begin when the flow does, when the capacity of its route changes, and when another flow of media or
    cross traffic begins or ends, with which it shares a path of limited capacity. Periods of less than 10 s
    are left out. In a window, the flow begins and ends with the window.
    """
    return _periods(trace, [flow])


def _periods(trace: Trace, flows: list[str]) -> list[Period]:
    """The times in which all the flows are active and nothing changes for any of them.

    There are none if the network is not known, as in captures.
    """
    if trace.whole.table("paths").is_empty():
        return []
    spans = [_span_s(trace, flow) for flow in flows]
    begin_s, end_s = max(begin for begin, _ in spans), min(end for _, end in spans)
    routes = dict.fromkeys(trace.manifest.flows[flow].route for flow in flows if flow in trace.manifest.flows)
    changes = set().union(*(trace.whole.cached_part(_changes_s, route) for route in routes))
    begins = [begin_s]
    for at_s in sorted(one for one in changes if begin_s < one < end_s):
        if at_s - begins[-1] > SAME_CHANGE_S:
            begins.append(at_s)
    return [(a, b) for a, b in zip(begins, [*begins[1:], end_s], strict=True) if b - a >= SHORTEST_S]


def _changes_s(trace: Trace, route: tuple[str, ...]) -> set[float]:
    """When the capacity of a route changes, and when a flow begins or ends on one of its limited paths.

    A flow's own begin and end are no change for it, because it is not there before and after.
    """
    at_ns, capacity_bps = capacity_of(trace, route)
    bounded_bps = np.nan_to_num(capacity_bps, nan=np.inf)
    changes = set((at_ns[1:][bounded_bps[1:] != bounded_bps[:-1]] / NS_PER_S).tolist())
    edges = trace.cached_part(_edges_s)
    return changes.union(*(edges.get(path, ()) for path in route))


def _edges_s(trace: Trace) -> dict[str, set[float]]:
    """By path of limited capacity, when a flow of media or cross traffic on it begins or ends."""
    # Repeats that share their tables have paths of the same names.
    return {
        path: {at_s for flow in flows & trace.manifest.flows.keys() for at_s in _span_s(trace, flow)}
        for path, flows in trace.cached(_data_on_limited_paths).items()
    }


def _span_s(trace: Trace, flow: str) -> Period:
    begin_ns, end_ns = span_ns(trace, flow)
    return begin_ns / NS_PER_S, end_ns / NS_PER_S


def _beside(trace: Trace, flow: str) -> set[str]:
    """The other flows of data with which it shares a path of limited capacity."""
    about, on_path = trace.manifest.flows.get(flow), trace.cached(_data_on_limited_paths)
    there = set().union(*(on_path.get(path, set()) for path in (about.route if about else ())))
    # Repeats that share their tables have paths of the same names.
    return (there & trace.manifest.flows.keys()) - {flow}


def _data_on_limited_paths(trace: Trace) -> dict[str, set[str]]:
    """By path of limited capacity, its flows of media and cross traffic, without acknowledgements."""
    found: dict[str, set[str]] = {
        path: set() for path in trace.table("paths").drop_nulls("capacity_bps")["path"].unique()
    }
    media = media_flows(trace)
    for name, about in trace.manifest.flows.items():
        if name in media or (about.call is None and about.acknowledges is None):
            for path in about.route:
                found.get(path, set()).add(name)
    return found


def convergence_times(trace: Trace, flow: str) -> Samples:
    """How long the sending rate took to converge after each change, in s, at the times of the changes.

    :func:`convergence_time` says what a change is, and when a rate has converged.
    """
    rates, periods = sent_kbps(trace, flow), static_periods(trace, flow)
    if not rates.values.size:
        return NO_SAMPLES
    return Samples(
        np.array([begin_s for begin_s, _ in periods]),
        np.array([_converged_s(rates, begin_s, end_s) for begin_s, end_s in periods]),
    )


def _converged_s(rates: Samples, begin_s: float, end_s: float) -> float:
    """Time from ``begin_s`` to the first second with which the rate stays within the band."""
    whole = rates.chosen((rates.at_s - 0.5 >= begin_s) & (rates.at_s + 0.5 <= end_s))
    level = _level(rates, begin_s, end_s)
    near = np.abs(whole.values - level) <= BAND * level
    for index, at_s in enumerate(whole.at_s[: 1 - HELD_S]):
        if near[index : index + HELD_S].all():
            return float(at_s - 0.5 - begin_s)
    return end_s - begin_s


def _level(rates: Samples, begin_s: float, end_s: float) -> float:
    """The mean rate over the second half of a period."""
    half = (rates.at_s >= (begin_s + end_s) / 2) & (rates.at_s < end_s)
    return rates.chosen(half).mean()


@metric(unit="s", better="lower", source="RFC 8868, section 3", of_time=True, known=OF_MODEL)
def convergence_time(trace: Trace, flow: str) -> float:
    """The longest time (s) that the sending rate took to converge after a change.

    A change is the start of the flow, a change of the capacity of its route, or the begin or end of another
    flow of media or cross traffic on a path of limited capacity that it crosses, too. The rate, in whole
    seconds, has converged when it stays for 5 s within 20 % of its level, which is its mean over the second
    half of the time until the next change. A rate that never does so counts with that whole time. Changes
    less than 10 s before the next one are left out.
    """
    times = convergence_times(trace, flow).values
    return float(times.max()) if times.size else nan


@metric(
    unit="",
    better="lower",
    source="RFC 8868, section 3, with watermarks that follow the rate",
    total=True,
    known=sources(exact("if packets are recorded"), EXACT, UNKNOWN, UNKNOWN, UNKNOWN),
    packets="always",
)
def oscillations(trace: Trace, flow: str) -> float:
    """Number of swings of the sending rate between two watermarks, up or down, in windows of 500 ms.

    The watermarks are two thirds and four thirds of the level of the rate since the last change, a factor of
    two; ``convergence_time`` says what a change and the level are. So the rise of a rate at the start is a
    swing, too. Times without a level are left out.
    """
    periods = static_periods(trace, flow)
    if not periods or not were_recorded(trace):
        return nan
    rates = _half_second_kbps(trace, flow)
    return float(sum(_swings(rates, begin_s, end_s) for begin_s, end_s in periods))


def _half_second_kbps(trace: Trace, flow: str) -> Samples:
    """Bytes sent in each window of 500 ms since the run began, in kbit/s."""
    packets = packets_of(trace, flow)
    index = (packets.sent_ns / (SWING_S * NS_PER_S)).astype(np.int64)
    count = int(span_ns(trace.whole, flow)[1] / NS_PER_S / SWING_S)
    sums = np.bincount(index, weights=packets.size_bytes, minlength=count)[:count]
    middle_s: Array = np.arange(0.5, count).astype(np.float64) * SWING_S
    return Samples(middle_s, sums / SWING_S * KBIT_PER_BYTE)


def _swings(rates: Samples, begin_s: float, end_s: float) -> int:
    level = _level(rates, begin_s, end_s)
    inside = (rates.at_s - SWING_S / 2 >= begin_s) & (rates.at_s + SWING_S / 2 <= end_s)
    values = rates.values[inside]
    beyond = np.where(values >= HIGH * level, 1, np.where(values <= LOW * level, -1, 0))
    beyond = beyond[beyond != 0]
    return int((np.diff(beyond) != 0).sum())


def _shares(trace: Trace, flows: list[str], length_s: int) -> Array:
    """Receiving rates in kbit/s in windows of ``length_s``, by window and flow.

    The windows are in the second halves of the times in which all flows are there and nothing changes.
    Windows in which none of them receives anything are left out.
    """
    rates = [received_kbps(trace.whole, flow) for flow in flows]
    means: list[Array] = [np.empty((0, len(flows)))]
    if not all(rate.values.size for rate in rates):
        return means[0]
    for begin_s, end_s in _periods(trace, flows):
        from_s = np.ceil((begin_s + end_s) / 2)
        count = int((end_s - from_s) // length_s)
        there = [samples_in_window(rate, (from_s, from_s + count * length_s)).values for rate in rates]
        means.append(np.stack([one.reshape(count, length_s).mean(axis=1) for one in there], axis=1))
    joined = np.concatenate(means)
    received: Array = joined[joined.sum(axis=1) > 0]
    return received


def _balance(trace: Trace, length_s: int) -> float:
    media = media_flows(trace) & trace.manifest.flows.keys()
    groups = {frozenset(flows & media) for flows in trace.cached(_data_on_limited_paths).values()}
    found = [
        _shares(trace, sorted(flows), length_s) for flows in sorted(groups, key=sorted) if len(flows) > 1
    ]
    ratios = [rates.min(axis=1) / rates.max(axis=1) for rates in found if rates.size]
    return float(np.concatenate(ratios).mean()) if ratios else nan


def _of_tcp(trace: Trace) -> frozenset[str]:
    """The flows of TCP."""
    return frozenset(trace.table("tcp")["flow"].unique())


def _against_tcp(trace: Trace, flow: str, length_s: int) -> float:
    beside = sorted(_beside(trace, flow) & trace.cached(_of_tcp))
    if not beside or flow not in media_flows(trace):
        return nan
    rates = _shares(trace, [flow, *beside], length_s)
    own, others = rates[:, 0], rates[:, 1:].mean(axis=1)
    return float((100 * own / (own + others)).mean()) if rates.size else nan


@metric(unit="", better="higher", scope="trace", source=_FAIR, bounds=(0, 1), known=OF_MODEL)
def rate_balance_1s(trace: Trace) -> float:
    """The lowest of the receiving rates of media flows, divided by the highest, in windows of 1 s.

    The flows share a path of limited capacity. The windows are in the second halves of the times in which
    nothing changes, as ``convergence_time`` has them, and the value is the mean over windows and paths. Flows
    with the same priority and similar round trips should not be below a third.
    """
    return _balance(trace, 1)


@metric(unit="", better="higher", scope="trace", source=_FAIR, bounds=(0, 1), known=OF_MODEL)
def rate_balance_5s(trace: Trace) -> float:
    """The lowest of the receiving rates of media flows, divided by the highest, in windows of 5 s.

    See ``rate_balance_1s``.
    """
    return _balance(trace, 5)


@metric(unit="", better="higher", scope="trace", source=_FAIR, bounds=(0, 1), known=OF_MODEL)
def rate_balance_20s(trace: Trace) -> float:
    """The lowest of the receiving rates of media flows, divided by the highest, in windows of 20 s.

    See ``rate_balance_1s``.
    """
    return _balance(trace, 20)


@metric(unit="%", scope="flow", source=_FAIR, bounds=(0, 100), known=OF_MODEL)
def share_against_tcp_1s(trace: Trace, flow: str) -> float:
    """A media flow's share of what it and a TCP flow receive, in %, in windows of 1 s; 50 % is even.

    The other rate is the mean of the TCP flows on its paths of limited capacity. The windows are in the
    second halves of the times in which nothing changes, as ``convergence_time`` has them, and the value is
    the mean over them. A third of the other's rate is 25 %, three times as much 75 %.
    """
    return _against_tcp(trace, flow, 1)


@metric(unit="%", scope="flow", source=_FAIR, bounds=(0, 100), known=OF_MODEL)
def share_against_tcp_5s(trace: Trace, flow: str) -> float:
    """A media flow's share of what it and a TCP flow receive, in %, in windows of 5 s; 50 % is even.

    See ``share_against_tcp_1s``.
    """
    return _against_tcp(trace, flow, 5)


@metric(unit="%", scope="flow", source=_FAIR, bounds=(0, 100), known=OF_MODEL)
def share_against_tcp_20s(trace: Trace, flow: str) -> float:
    """A media flow's share of what it and a TCP flow receive, in %, in windows of 20 s; 50 % is even.

    See ``share_against_tcp_1s``.
    """
    return _against_tcp(trace, flow, 20)
