"""Fits the path of one direction of a call to its packets: capacity, delay, jitter, loss and queue."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rtclab.estimate.changes import partition
from rtclab.estimate.packets import Flags, Packets
from rtclab.estimate.queue_model import Windows, after_loss, costs, sojourns, windows_of
from rtclab.metrics.series import BITS_PER_BYTE, Array

WINDOW_S = 1.0
MOST_WINDOWS = 1500
"""Longer calls have longer windows, so that the search for changes stays fast."""
SLOWEST_BPS, FASTEST_BPS = 20e3, 200e6
COARSE, FINE = 1.03, 1.0025
"""Ratio between neighbouring capacities, in the search for changes and within a segment."""
CHANGE_PENALTY = 40.0
"""Cost of a change of the capacity, in units of the typical difference of a delay, for each packet of a
window: see :func:`_scaled`."""
PASSES = 4
CERTAIN = 40.0
"""A capacity is also ruled out if it is worse by this much, in units of the typical difference."""
RULED_OUT_T = 2.5
"""A capacity is ruled out if it is worse than the best one by this many standard errors over the windows."""
FULL = 0.95
"""A queue is full from this share of its longest length on."""
SHORTEST_QUEUE_S = 2e-3
MOVED_S = 2e-3
"""A delay that moves less than this is constant."""
LEAST_AROUND = 10
"""Fewer packets say nothing."""


@dataclass(frozen=True)
class CapacitySegment:
    """Capacity from ``begin_s`` on, in bit/s; ``high_bps`` is None if the call did not load the path."""

    begin_s: float
    end_s: float
    bps: float
    low_bps: float
    high_bps: float | None


@dataclass(frozen=True)
class PathFit:
    """A path as fitted; times are in s from the first packet.

    Attributes:
        capacity: the segments.
        base_s: one-way delay of each packet without queue, transmission and jitter.
        wait_s: wait of each packet in the queue, as modelled.
        excess_s: observed delay less the modelled one.
        windows: the windows.
    """

    capacity: tuple[CapacitySegment, ...]
    packets: Packets
    windows: Windows
    base_s: Array
    wait_s: Array
    sojourn_s: Array
    excess_s: Array
    noise_s: float
    limit: QueueLimit

    def rate_of_windows(self) -> Array:
        """The capacity of each window."""
        rates = np.zeros(self.windows.count)
        for segment in self.capacity:
            rates[_span(segment, self.windows)] = segment.bps
        return rates


def _span(segment: CapacitySegment, windows: Windows) -> slice:
    begin = round((segment.begin_s - windows.begin_s) / windows.length_s)
    end = round((segment.end_s - windows.begin_s) / windows.length_s)
    return slice(begin, end)


def fit(packets: Packets, resolution_s: float) -> PathFit:
    """Fits a path.

    Args:
        packets: the packets.
        resolution_s: resolution of their times.
    """
    length_s = max(WINDOW_S, float(packets.sent_s[-1] - packets.sent_s[0]) / MOST_WINDOWS)
    windows = windows_of(packets, length_s)
    base_s = _least_delays(packets, windows)
    restarts = after_loss(packets)
    noise_s = max(resolution_s, 2e-3)
    middle_s = 0.0
    coarse = np.exp(np.arange(np.log(SLOWEST_BPS), np.log(FASTEST_BPS), np.log(COARSE)))
    found: PathFit | None = None
    for _ in range(PASSES):
        most_s = 20 * noise_s + 0.02
        of_windows = costs(packets, windows, base_s + middle_s, coarse, most_s) / noise_s
        spans = partition(of_windows, CHANGE_PENALTY)
        segments = [
            _segment(packets, windows, base_s + middle_s, most_s, noise_s, span, of_windows, coarse)
            for span in spans
        ]
        rates = np.concatenate([np.full(end - begin, one.bps) for one, (begin, end) in zip(segments, spans, strict=True)])
        wait_s, sojourn_s = sojourns(packets, windows, base_s + middle_s, rates)
        base_s = _base(packets, windows, wait_s, sojourn_s, noise_s)
        excess_s = np.where(restarts, np.nan, packets.delay_s - base_s - sojourn_s)
        unqueued = ~np.isnan(excess_s) & (wait_s <= 0)
        middle_s = float(np.median(excess_s[unqueued])) if unqueued.any() else 0.0
        arrived = ~np.isnan(excess_s)
        noise_s = max(float(np.median(np.abs(excess_s[arrived] - middle_s))), resolution_s / 2, 2e-4)
        limit = queue_limit(packets, wait_s, rates[windows.of(packets.sent_s)])
        found = PathFit(
            tuple(segments), packets, windows, base_s, wait_s, sojourn_s, excess_s, noise_s, limit
        )
    assert found is not None
    return found


def _least_delays(packets: Packets, windows: Windows) -> Array:
    """The smallest delay around each packet, a first guess of the delay without queue."""
    index = windows.of(packets.sent_s)
    least = np.full(windows.count, np.inf)
    known = ~np.isnan(packets.delay_s)
    np.minimum.at(least, index[known], packets.delay_s[known])
    wide = least.copy()
    for shift in (1, 2):
        wide[shift:] = np.minimum(wide[shift:], least[:-shift])
        wide[:-shift] = np.minimum(wide[:-shift], least[shift:])
    return _filled(wide)[index]


def _filled(values: Array) -> Array:
    """The values with those of windows that have none taken from their neighbours."""
    known = np.flatnonzero(np.isfinite(values))
    if not known.size:
        return np.zeros_like(values)
    filled: Array = np.interp(np.arange(len(values)), known, values[known])
    return filled


def _segment(packets, windows, base_s, most_s, noise_s, span, of_windows, coarse):  # type: ignore[no-untyped-def]
    begin, end = span
    totals = of_windows[begin:end].sum(axis=0)
    best = int(np.argmin(totals))
    worse = of_windows[begin:end] - of_windows[begin:end, best][:, None]
    mean, error = worse.sum(axis=0), np.sqrt((worse**2).sum(axis=0)) + 1e-9
    ruled_out = ((mean > RULED_OUT_T * error) & (mean > 3.0)) | (mean > CERTAIN)
    low = best
    while low > 0 and not ruled_out[low - 1]:
        low -= 1
    high = best
    while high < len(coarse) - 1 and not ruled_out[high + 1]:
        high += 1
    fine = coarse[best] * np.exp(np.arange(-1.2 * np.log(COARSE), 1.2 * np.log(COARSE), np.log(FINE)))
    part = replace(windows, rows=windows.rows[begin:end], count=end - begin)
    refined = costs(packets, part, base_s, fine, most_s).sum(axis=0)
    bps = float(fine[int(np.argmin(refined))])
    loaded = high < len(coarse) - 1
    return CapacitySegment(
        windows.begin_s + begin * windows.length_s,
        windows.begin_s + end * windows.length_s,
        bps,
        float(coarse[max(low - 1, 0)]),
        float(coarse[min(high + 1, len(coarse) - 1)]) if loaded else None,
    )


def _base(packets: Packets, windows: Windows, wait_s: Array, sojourn_s: Array, noise_s: float) -> Array:
    """Delay of each packet without queue: the lower edge of the delays that the queue does not explain."""
    rest_s = packets.delay_s - sojourn_s
    alone = ~np.isnan(rest_s) & (wait_s <= 0) & ~after_loss(packets)
    if alone.sum() < 3:
        alone = ~np.isnan(rest_s)
    whole = np.full(len(rest_s), float(np.quantile(rest_s[alone], 0.01)))
    course_s = _course(packets.sent_s[alone], rest_s[alone], windows)
    if course_s is None:
        return whole
    moved = float(np.quantile(course_s, 0.95) - np.quantile(course_s, 0.05))
    if moved < max(MOVED_S, 4 * noise_s):
        return whole
    middle_s = windows.begin_s + (np.arange(windows.count) + 0.5) * windows.length_s
    based = np.interp(packets.sent_s, middle_s, course_s)
    edge_s: Array = based + np.quantile((rest_s - based)[alone], 0.02)
    return edge_s


def _course(sent_s: Array, rest_s: Array, windows: Windows) -> Array | None:
    """The usual delay in the middle of each window, by a line through the packets around it.

    Returns None if there are too few packets.
    """
    middle_s = windows.begin_s + (np.arange(windows.count) + 0.5) * windows.length_s
    course = np.full(windows.count, np.nan)
    for window, at_s in enumerate(middle_s):
        first, last = np.searchsorted(sent_s, [at_s - 1.5 * windows.length_s, at_s + 1.5 * windows.length_s])
        if last - first >= LEAST_AROUND:
            course[window] = _line_at(sent_s[first:last] - at_s, rest_s[first:last])
    return _filled(course) if not np.isnan(course).all() else None


def _line_at(x: Array, y: Array) -> float:
    """The value at 0 of the line with the least absolute differences, by reweighted least squares."""
    design = np.column_stack([np.ones_like(x), x])
    weights = np.ones_like(y)
    value = np.array([float(np.median(y)), 0.0])
    for _ in range(15):
        scaled = design * weights[:, None]
        value = np.linalg.lstsq(scaled.T @ design, scaled.T @ y, rcond=None)[0]
        weights = 1 / np.maximum(np.abs(y - design @ value), 1e-5)
    return float(value[0])


def levels(packets: Packets, wait_s: Array) -> Array:
    """Bytes that wait when each packet comes, with its own; 0 if the link is free.

    Packets that are being transmitted do not wait.
    """
    carried = np.where(packets.lost, 0.0, packets.size_bytes)
    total = np.concatenate([[0.0], np.cumsum(carried)])
    starts_s = np.maximum.accumulate(packets.sent_s + wait_s)
    begun = np.searchsorted(starts_s, packets.sent_s, side="right")
    index = np.arange(len(wait_s))
    waiting = total[index] - total[np.minimum(begun, index)]
    level: Array = np.where(wait_s > 0, waiting + packets.size_bytes, 0.0)
    return level


@dataclass(frozen=True)
class QueueLimit:
    """The longest queue that packets were accepted into, in s, and the lost packets that it dropped."""

    longest_s: float
    dropped: Flags

    @property
    def full(self) -> bool:
        """Whether it dropped packets."""
        return bool(self.dropped.any())


def queue_limit(packets: Packets, wait_s: Array, rate_bps: Array) -> QueueLimit:
    """The packets that a full queue dropped: those lost at full queues, if losses are more frequent there."""
    nothing: Flags = np.zeros(len(packets.lost), dtype=bool)
    level_s = levels(packets, wait_s) * BITS_PER_BYTE / rate_bps
    arrived = ~packets.lost
    if arrived.sum() < LEAST_AROUND:
        return QueueLimit(0.0, nothing)
    longest_s = float(np.quantile(level_s[arrived], 0.998))
    high = level_s >= FULL * longest_s
    lost_high, lost_low = int((packets.lost & high).sum()), int((packets.lost & ~high).sum())
    usual = lost_low / max(int((~high).sum()), 1)
    expected = usual * int(high.sum())
    if longest_s < SHORTEST_QUEUE_S or lost_high <= 2 * expected + 3 * np.sqrt(expected + 1):
        return QueueLimit(longest_s, nothing)
    return QueueLimit(longest_s, packets.lost & high)
