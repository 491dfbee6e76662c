"""Fits the path of one direction of a call to its packets: capacity, delay, jitter, loss and queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rtclab.estimate.changes import partition
from rtclab.estimate.packets import Flags, Packets
from rtclab.estimate.queue_model import Windows, after_loss, costs, sojourns, windows_of
from rtclab.metrics.series import Array
from rtclab.trace import BITS_PER_BYTE

WINDOW_S = 1.0
MOST_WINDOWS = 1500
"""Longer calls have longer windows, so that the search for changes stays fast."""
SLOWEST_BPS, FASTEST_BPS = 20e3, 200e6
COARSE = 1.015
"""Ratio between neighbouring capacities in the search for changes."""
SKIPPED, AROUND = 6, 1.5
"""The search tries every sixth of these capacities first, and later all within this ratio of those found."""
FINE, FINE_STEPS = 1.0025, 8
"""The same within a segment, and the number of capacities to each side of the best one."""
CHANGE_PENALTY = 40.0
"""Cost of a change of the capacity, in units of the typical difference between two delays."""
JITTERY = 4
"""A change costs this many times more with jitter, whose effects on neighbouring packets are alike."""
PASSES = 4
RULED_OUT_T, LEAST_WORSE = 2.5, 3.0
"""A capacity is ruled out if it is worse than the best one by this many standard errors over the windows,
and by this many typical differences."""
CERTAIN = 40.0
"""A capacity is also ruled out if it is worse by this many typical differences."""
FULL = 0.95
"""A queue is full from this share of its longest length on."""
WELL_BELOW = 0.8
"""Losses at shorter queues than this share of the longest are not the queue's."""
SHORTEST_QUEUE_S = 2e-3
GOOD_MISFIT = 1.6
"""A constant delay is good enough if the misfit is smaller than this many times the least noise."""
MUCH_BETTER = 1.5
"""A delay is constant unless the misfit with a moving one is this many times smaller."""
LEAST_AROUND = 10
"""Minimum number of packets around a point in time."""
LEAST_NOISE_S = 2e-4
LEAST_JITTER_S = 1e-3
REPLAYS = 3
LEAST_WAIT_S, JITTERS = 5e-3, 3
"""A call loaded the path if packets waited at least this long, and this many times longer than the jitter."""


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
        sojourn_s: wait and transmission of each packet, as modelled.
        jitter_s: standard deviation of the jitter.
        misfit_s: mean difference between observed and modelled delay.
        limit: the queue's limit, and the lost packets that it dropped.
    """

    capacity: tuple[CapacitySegment, ...]
    packets: Packets
    windows: Windows
    base_s: Array
    wait_s: Array
    sojourn_s: Array
    jitter_s: float
    misfit_s: float
    limit: FittedQueue

    def rate_of_windows(self) -> Array:
        """The fitted capacity in each window, in bit/s, of shape (windows,)."""
        rates = np.zeros(self.windows.count)
        for segment in self.capacity:
            begin, end = (round(at / self.windows.length_s) for at in (segment.begin_s, segment.end_s))
            rates[begin:end] = segment.bps
        return rates


def fit(packets: Packets, resolution_s: float) -> PathFit:
    """Fits a path.

    The delay without queue is constant, unless a delay that moves explains the packets much better.

    Args:
        packets: the packets.
        resolution_s: resolution of their times.
    """
    chosen = _fit(packets, resolution_s, moving=False)
    if chosen.misfit_s > GOOD_MISFIT * LEAST_NOISE_S:
        moving = _fit(packets, resolution_s, moving=True)
        chosen = chosen if chosen.misfit_s <= MUCH_BETTER * moving.misfit_s else moving
    if chosen.jitter_s >= LEAST_JITTER_S:
        chosen = _corrected(chosen, resolution_s)
    segments = tuple(one if _queued(chosen, one) else replace(one, high_bps=None) for one in chosen.capacity)
    return replace(chosen, capacity=segments)


def _queued(found: PathFit, segment: CapacitySegment) -> bool:
    """Whether packets of a segment waited longer than jitter explains."""
    since_s = found.packets.sent_s - found.windows.begin_s
    here = (since_s >= segment.begin_s) & (since_s < segment.end_s) & ~found.packets.lost
    if not here.any():
        return False
    return float(np.quantile(found.wait_s[here], 0.995)) >= max(LEAST_WAIT_S, JITTERS * found.jitter_s)


def _fit(packets: Packets, resolution_s: float, *, moving: bool) -> PathFit:
    length_s = max(WINDOW_S, float(packets.sent_s[-1] - packets.sent_s[0]) / MOST_WINDOWS)
    windows = windows_of(packets, length_s)
    least_s = _least_delays(packets, windows)
    base_s = least_s if moving else np.full_like(least_s, least_s.min())
    restarts = after_loss(packets)
    noise_s, middle_s, jitter_s = max(resolution_s, 2e-3), 0.0, 0.0
    steps = round(np.log(FASTEST_BPS / SLOWEST_BPS) / np.log(COARSE))
    grid = SLOWEST_BPS * COARSE ** np.arange(steps + 1)
    coarse = grid[::SKIPPED]
    found: PathFit | None = None
    for _ in range(PASSES):
        most_s = 20 * noise_s + 0.02
        of_windows = costs(packets, windows, base_s + middle_s, coarse, most_s) / noise_s
        penalty = CHANGE_PENALTY * (JITTERY if jitter_s >= LEAST_JITTER_S else 1)
        spans = partition(of_windows, penalty)
        segments = _segments(packets, windows, base_s + middle_s, most_s, of_windows, coarse, spans)
        rates = np.concatenate(
            [np.full(end - begin, one.bps) for one, (begin, end) in zip(segments, spans, strict=True)]
        )
        near = (grid > rates.min() / AROUND) & (grid < rates.max() * AROUND)
        coarse = np.union1d(grid[near], grid[::SKIPPED])
        wait_s, sojourn_s = sojourns(packets, windows, base_s + middle_s, rates)
        base_s = _base(packets, windows, wait_s, sojourn_s, moving=moving)
        excess_s = np.where(restarts, np.nan, packets.delay_s - base_s - sojourn_s)
        unqueued = ~np.isnan(excess_s) & (wait_s <= 0)
        middle_s = float(np.median(excess_s[unqueued])) if unqueued.any() else 0.0
        error_s = np.abs(excess_s[~np.isnan(excess_s)] - middle_s)
        noise_s = max(float(np.median(error_s)), resolution_s / 2, LEAST_NOISE_S)
        jitter_s = _jitter(packets, base_s, sojourn_s, wait_s)
        limit = queue_limit(packets, wait_s, rates[windows.of(packets.sent_s)])
        misfit_s = float(np.minimum(error_s, most_s).mean()) + LEAST_NOISE_S
        found = PathFit(
            tuple(segments), packets, windows, base_s, wait_s, sojourn_s, jitter_s, misfit_s, limit
        )
    assert found is not None
    return found


def _jitter(packets: Packets, base_s: Array, sojourn_s: Array, wait_s: Array) -> float:
    """Standard deviation of the jitter |N(0, sd²)|, from packets that no packet before them held up."""
    free = np.concatenate([[True], ~(packets.arrived_s[:-1] > (packets.sent_s + base_s)[1:])])
    extra_s = (packets.delay_s - base_s - sojourn_s)[free & (wait_s <= 0) & ~after_loss(packets)]
    extra_s = extra_s[~np.isnan(extra_s)]
    if extra_s.size < LEAST_AROUND:
        return 0.0
    # The median of |N(0, 1)| is 0.6745; outliers are no jitter.
    return float(np.median(np.maximum(extra_s, 0.0))) / 0.6745


def _corrected(found: PathFit, resolution_s: float) -> PathFit:
    """Removes the bias that jitter gives the capacity.

    Jitter without reordering looks like a queue. So a path is simulated with the same packets, until its fit
    is the one that was found (indirect inference).
    """
    source = np.random.default_rng(1)
    rates, factor = found.rate_of_windows(), 1.0
    for _ in range(REPLAYS):
        again = _fit(replayed(found, rates * factor, source), resolution_s, moving=False)
        factor /= float(np.exp(np.median(np.log(again.rate_of_windows() / rates))))
    segments = tuple(
        replace(
            one,
            bps=one.bps * factor,
            low_bps=one.low_bps * min(factor, 1.0),
            high_bps=None if one.high_bps is None else one.high_bps * max(factor, 1.0),
        )
        for one in found.capacity
    )
    return replace(found, capacity=segments)


def replayed(found: PathFit, rate_of_windows: Array, source: np.random.Generator) -> Packets:
    """The same packets through a path without delay: first in first out, with the jitter that was found."""
    packets = found.packets
    service_s = BITS_PER_BYTE * packets.size_bytes / rate_of_windows[found.windows.of(packets.sent_s)]
    extra_s = np.abs(source.normal(0.0, found.jitter_s, len(service_s)))
    occupies = ~found.limit.dropped
    arrived_s = np.full(len(service_s), np.nan)
    free_s = last_s = -np.inf
    for index, sent_s in enumerate(packets.sent_s):
        if not occupies[index]:
            continue
        free_s = max(free_s, sent_s) + service_s[index]
        if not np.isnan(packets.arrived_s[index]):
            last_s = arrived_s[index] = max(last_s, free_s + extra_s[index])
    return replace(packets, arrived_s=arrived_s)


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
    """The values of all windows. A window without a value takes it from its neighbours."""
    known = np.flatnonzero(np.isfinite(values))
    if not known.size:
        return np.zeros_like(values)
    filled: Array = np.interp(np.arange(len(values)), known, values[known])
    return filled


def _segments(
    packets: Packets,
    windows: Windows,
    base_s: Array,
    most_s: float,
    of_windows: Array,
    grid: Array,
    spans: Sequence[tuple[int, int]],
) -> list[CapacitySegment]:
    """The best capacity in each span of windows, and the bounds beyond which capacities are ruled out."""
    bests = [int(np.argmin(of_windows[begin:end].sum(axis=0))) for begin, end in spans]
    lengths = [end - begin for begin, end in spans]
    fine = np.repeat(grid[bests], lengths)[:, None] * FINE ** np.arange(-FINE_STEPS, FINE_STEPS + 1)
    refined = costs(packets, windows, base_s, fine, most_s)
    found = []
    for (begin, end), best in zip(spans, bests, strict=True):
        low, high = _bounds(of_windows[begin:end], best)
        ends_s = begin * windows.length_s, end * windows.length_s
        bps = float(fine[begin, int(np.argmin(refined[begin:end].sum(axis=0)))])
        high_bps = float(grid[high]) if high < len(grid) else None
        found.append(CapacitySegment(*ends_s, bps, float(grid[low]), high_bps))
    return found


def _bounds(of_windows: Array, best: int) -> tuple[int, int]:
    """The nearest capacities below and above the best one that are ruled out.

    Below, it is the first one if none is ruled out; above, it is one after the last.
    """
    worse = of_windows - of_windows[:, best][:, None]
    total, error = worse.sum(axis=0), np.sqrt((worse**2).sum(axis=0))
    ruled_out = ((total > RULED_OUT_T * error) & (total > LEAST_WORSE)) | (total > CERTAIN)
    below, above = np.flatnonzero(ruled_out[:best]), np.flatnonzero(ruled_out[best:])
    return int(below[-1]) if below.size else 0, best + int(above[0]) if above.size else len(ruled_out)


def _base(packets: Packets, windows: Windows, wait_s: Array, sojourn_s: Array, *, moving: bool) -> Array:
    """Delay of each packet without queue: the lower edge of the delays that the queue does not explain."""
    rest_s = packets.delay_s - sojourn_s
    alone = ~np.isnan(rest_s) & (wait_s <= 0) & ~after_loss(packets)
    if alone.sum() < 3:
        alone = ~np.isnan(rest_s)
    whole = np.full(len(rest_s), float(np.quantile(rest_s[alone], 0.01)))
    course_s = _course(packets.sent_s[alone], rest_s[alone], windows) if moving else None
    if course_s is None:
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
class FittedQueue:
    """The longest queue that packets were accepted into, in s, and the lost packets that it dropped."""

    longest_s: float
    dropped: Flags

    @property
    def full(self) -> bool:
        """Whether the queue dropped packets because it was full."""
        return bool(self.dropped.any())


def queue_limit(packets: Packets, wait_s: Array, rate_bps: Array) -> FittedQueue:
    """The packets that a full queue dropped: those lost at full queues, if losses are more frequent there.

    A queue that is hardly ever below its limit is full all the time, because random losses would not hold
    it there.
    """
    nothing: Flags = np.zeros(len(packets.lost), dtype=bool)
    level_s = levels(packets, wait_s) * BITS_PER_BYTE / rate_bps
    arrived = ~packets.lost
    if arrived.sum() < LEAST_AROUND:
        return FittedQueue(0.0, nothing)
    longest_s = float(np.quantile(level_s[arrived], 0.998))
    high, low = level_s >= FULL * longest_s, level_s < WELL_BELOW * longest_s
    # Behind the last packet that arrived, nothing shows how much was waiting.
    behind = np.arange(len(low)) > np.flatnonzero(~np.isnan(packets.arrived_s))[-1]
    high, low = high | behind, low & ~behind
    lost_high, lost_low = int((packets.lost & high).sum()), int((packets.lost & low).sum())
    usual = lost_low / int(low.sum()) if low.sum() >= LEAST_AROUND else 0.0
    expected = usual * int(high.sum())
    if longest_s < SHORTEST_QUEUE_S or lost_high <= 2 * expected + 3 * np.sqrt(expected + 1):
        return FittedQueue(longest_s, nothing)
    return FittedQueue(longest_s, packets.lost & high)
