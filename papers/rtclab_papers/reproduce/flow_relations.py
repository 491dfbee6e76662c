"""Relations between flows, and between rates and delays. Papers show them in figures.

The calls of a flow are those with a flow between the same sender and receiver.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

import numpy as np

from rtclab.metrics import Array, Samples, delay, rate
from rtclab.trace import NS_PER_S, Trace
from rtclab_papers.reproduce import tools

SETTLED_S = 60
"""Second from which calls that begin together are compared: until then they all grow alike."""
WINDOW_S = 10
SHARED = 0.95
"""Jain's index from which calls share a path evenly."""
STARVED, RECOVERED = 0.5, 0.8
"""A call starves below the first share of the mean of the others, and has recovered at the second."""


def correlation(one: Samples, other: Samples) -> float:
    """Pearson's correlation of samples of the same seconds; NaN if one of the two never changes."""
    _, first, second = np.intersect1d(one.at_s // 1, other.at_s // 1, return_indices=True)
    x, y = one.values[first], other.values[second]
    if x.size < 2 or not x.std() or not y.std():
        return nan
    return float(np.corrcoef(x, y)[0, 1])


def rate_and_delay(trace: Trace, flow: str) -> float:
    """Correlation of the sending rate with the one-way delay, over seconds."""
    return correlation(rate.sent_kbps(trace, flow), delay.one_way_delay_ms(trace, flow))


def delay_and_change(trace: Trace, flow: str) -> float:
    """Correlation of the one-way delay in a second with the change of the sending rate to the next second.

    It is negative if a full queue lowers the rate, and near 0 if the rate does not react to the delay.
    """
    sent = rate.sent_kbps(trace, flow)
    follows = np.diff(sent.at_s // 1) == 1
    changes = Samples(sent.at_s[:-1][follows], np.diff(sent.values)[follows])
    return correlation(delay.one_way_delay_ms(trace, flow), changes)


def frames_and_rtt(trace: Trace, flow: str) -> float:
    """Correlation of the frame rate with the round-trip time, over seconds, as a page reads both."""
    return correlation(tools.stats_fps(trace, flow), delay.rtt_ms(trace, flow))


def calls(trace: Trace, flow: str) -> list[str]:
    """The flows between the same sender and receiver, in the order of their calls."""
    ends = {name: (of.sender, of.receiver) for name, of in trace.manifest.flows.items()}
    return [name for name in trace.flows if ends[name] == ends[flow]]


def other_streams(trace: Trace, flow: str) -> list[str]:
    """The flows from the same sender to other participants."""
    flows = trace.manifest.flows
    sent = [name for name in trace.flows if flows[name].sender == flows[flow].sender and name != flow]
    return [name for name in sent if flows[name].receiver in trace.manifest.participants]


def with_other_calls(trace: Trace, flow: str) -> float:
    """Mean correlation of the sending rate with the sending rate of each other call, from 60 s on."""
    own = rate.sent_kbps(trace, flow)
    later = own.chosen(own.at_s >= SETTLED_S)
    others = [call for call in calls(trace, flow) if call != flow]
    found = [correlation(later, rate.sent_kbps(trace, call)) for call in others]
    return float(np.mean(found)) if found else nan


def streams_apart(trace: Trace, flow: str) -> float:
    """Mean difference in a second from the sender's other streams, in per cent of the mean of both."""
    return _apart(trace, flow, other_streams(trace, flow))


def sides_apart(trace: Trace, flow: str) -> float:
    """Mean difference in a second from the rate of the other direction, in per cent of the mean of both."""
    back = tools.way_back(trace, flow)
    return _apart(trace, flow, [back] if back else [])


def _apart(trace: Trace, flow: str, others: Sequence[str]) -> float:
    own, found = rate.received_kbps(trace, flow), []
    for other in others:
        theirs = rate.received_kbps(trace, other)
        _, first, second = np.intersect1d(own.at_s // 1, theirs.at_s // 1, return_indices=True)
        x, y = own.values[first], theirs.values[second]
        found.append(200 * float(np.abs(x - y).mean()) / (float((x + y).mean()) or nan))
    return float(np.mean(found)) if found else nan


def first_call_share(trace: Trace, flow: str, window: tuple[float, float]) -> float:
    """Receiving rate of the first call in a window, in per cent of the mean of the others."""
    first, *others = (rate.receiving_rate(trace.within(window), call) for call in calls(trace, flow))
    return 100 * first / (float(np.mean(others)) or nan) if others else nan


def recovery_s(trace: Trace, flow: str) -> float:
    """Time in s from when the first call has less than half of the others' rate to when it has 80 % of it.

    Rates are means of ten seconds. Infinity if the first call never recovers, NaN if it never starves.
    """
    first, *others = calls(trace, flow)
    if not others:
        return nan
    begin_s = max(trace.manifest.flows[call].begin_ns for call in others) / NS_PER_S
    share = _share_over_time(trace, first, others, begin_s)
    starved = np.flatnonzero(share < STARVED)
    if not starved.size:
        return nan
    later = np.flatnonzero(share[starved[0] :] >= RECOVERED)
    return float(later[0]) if later.size else float("inf")


def _share_over_time(trace: Trace, first: str, others: Sequence[str], begin_s: float) -> Array:
    """Share of the first call in the mean of the others, for each second from ``begin_s`` on."""
    own, *theirs = (_smooth(trace, call) for call in (first, *others))
    seconds = sorted(set(own).intersection(*theirs))
    mean = {second: max(float(np.mean([of[second] for of in theirs])), 1e-9) for second in seconds}
    return np.array([own[second] / mean[second] for second in seconds if second >= begin_s])


def _smooth(trace: Trace, flow: str) -> dict[int, float]:
    """Mean receiving rate of the ten seconds before each second."""
    samples = rate.received_kbps(trace, flow)
    if samples.values.size < WINDOW_S:
        return {}
    means = np.convolve(samples.values, np.full(WINDOW_S, 1 / WINDOW_S), "valid")
    ends_s = samples.at_s[WINDOW_S - 1 :].astype(int) + 1
    return dict(zip(ends_s.tolist(), means.tolist(), strict=True))


def converges_s(trace: Trace, flow: str, begin_s: int) -> float:
    """Time in s from ``begin_s`` until the calls that run then share evenly: Jain's index of 0.95.

    Rates are means of ten seconds.
    """
    rates = [_smooth(trace, call) for call in calls(trace, flow)]
    for second in range(begin_s + WINDOW_S, trace.manifest.duration_ns // NS_PER_S):
        x = np.array([one[second] for one in rates if second in one])
        if x.size > 1 and x.sum() ** 2 >= SHARED * x.size * (x**2).sum():
            return float(second - begin_s)
    return nan


def dip(trace: Trace, flow: str, begin_s: int) -> float:
    """Lowest rate of a second in the ten seconds from ``begin_s`` on, in per cent of the ten before."""
    samples = rate.received_kbps(trace, flow)
    before = samples.values[(samples.at_s >= begin_s - WINDOW_S) & (samples.at_s < begin_s)]
    after = samples.values[(samples.at_s >= begin_s) & (samples.at_s < begin_s + WINDOW_S)]
    return 100 * float(after.min()) / float(before.mean()) if before.any() and after.size else nan
