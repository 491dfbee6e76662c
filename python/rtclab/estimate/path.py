"""The path of one direction: from what is known of it to the values of a scenario, with how sure they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rtclab.estimate.findings import Grade, Parameters, percent_text, rate_text, steps, time_text
from rtclab.estimate.fit import LEAST_JITTER_S, CapacitySegment, PathFit, fit
from rtclab.estimate.losses import random_loss
from rtclab.estimate.recorded_call import Direction
from rtclab.metrics.series import Array
from rtclab.trace import BITS_PER_BYTE

SAME_CAPACITY, SAME_WITH_JITTER = 1.03, 1.1
"""Neighbouring capacities that differ less than this are one."""
SHORTEST_COURSE_S = 2.0
LEAST_LOSS = 1e-4
"""Less loss than this is left out of a scenario."""
STUN_BYTES = 120
"""IP total length of a connectivity check, with which the round trip is measured."""


def path_of(direction: Direction) -> Parameters:
    """Estimates the path of a direction from its packets."""
    assert direction.packets is not None
    found = fit(direction.packets, direction.resolution_s)
    begin_s = float(direction.packets.sent_s[0])
    path = Parameters(direction.flow)
    same = SAME_CAPACITY if found.jitter_s < LEAST_JITTER_S else SAME_WITH_JITTER
    add_capacity(path, merged(found.capacity, same), begin_s)
    _add_delay(path, direction, found, begin_s)
    _add_jitter(path, direction, found)
    _add_queue(path, found)
    _add_loss(path, found, begin_s)
    return path


def merged(segments: Sequence[CapacitySegment], same: float) -> list[CapacitySegment]:
    """The segments without changes that are too small, or that the call could not show.

    A segment that did not load the path takes the capacity of the one before it, or else after it, unless it
    carried more.
    """
    kept: list[CapacitySegment] = []
    for one in segments:
        if kept and _alike(kept[-1], one, same):
            kept[-1] = _joined(kept[-1], one)
        else:
            kept.append(one)
    if len(kept) > 1 and kept[0].high_bps is None and _alike(kept[1], kept[0], same):
        kept[:2] = [_joined(kept[1], kept[0])]
    return kept


def _alike(known: CapacitySegment, other: CapacitySegment, same: float) -> bool:
    if other.high_bps is None:
        return known.high_bps is None or other.low_bps <= known.bps
    if known.high_bps is None:
        return False
    ratio = known.bps / other.bps
    return 1 / same < ratio < same


def _joined(one: CapacitySegment, other: CapacitySegment) -> CapacitySegment:
    """Both segments as one, with the capacity of those that loaded the path, weighted with their times."""
    times = [part.end_s - part.begin_s for part in (one, other)]
    bps = one.bps if other.high_bps is None else float(np.average([one.bps, other.bps], weights=times))
    low = max(one.low_bps, other.low_bps) if one.high_bps is None else min(one.low_bps, other.low_bps)
    highs = [part.high_bps for part in (one, other) if part.high_bps is not None]
    if one.high_bps is not None and other.high_bps is None:
        low = one.low_bps
    ends_s = min(one.begin_s, other.begin_s), max(one.end_s, other.end_s)
    return CapacitySegment(*ends_s, bps, low, max(highs) if highs else None)


def add_capacity(
    path: Parameters, segments: Sequence[CapacitySegment], begin_s: float, note: str = ""
) -> None:
    """Adds the capacity to a path.

    Args:
        path: the path.
        segments: the capacity over time.
        begin_s: time zero of the segments.
        note: what a reader must know of a capacity that was measured.
    """
    if all(one.high_bps is None for one in segments):
        low = max(one.low_bps for one in segments) / 1000
        path.add("capacity", low, low, grade="at least", note="the call did not load the path")
        return
    rates = [one.bps if one.high_bps is not None else one.low_bps for one in segments]
    times = [one.end_s - one.begin_s for one in segments]
    value: Any = rate_text(rates[0])
    if len(segments) > 1:
        begins_s = [begin_s + one.begin_s for one in segments]
        value = steps(list(zip(begins_s, map(rate_text, rates), strict=True)))
        often = "once" if len(segments) == 2 else f"{len(segments) - 1} times"
        changes = f"changes {often}, between {rate_text(min(rates))} and {rate_text(max(rates))}"
        note = f"{changes}; {note}" if note else changes
        unknown_s = sum(one.end_s - one.begin_s for one in segments if one.high_bps is None)
        if unknown_s:
            note += f"; for {unknown_s:.0f} s the call did not load the path, and the value is a lower bound"
    mean = float(np.average(rates, weights=times)) / 1000
    lows = float(np.average([one.low_bps for one in segments], weights=times)) / 1000
    highs = float(np.average([one.high_bps or one.low_bps for one in segments], weights=times)) / 1000
    path.add("capacity", mean, lows, highs, note=note, value=value)


def _add_delay(path: Parameters, direction: Direction, found: PathFit, begin_s: float) -> None:
    base_s = found.base_s
    if not direction.one_time and direction.round_trip_s is None:
        path.unknown("delay", "the clocks of the two ends differ, and there is no round trip")
        return
    grade: Grade = "measured"
    note, margin_s = (
        _included(path, found),
        max(2 * direction.resolution_s, found.misfit_s, found.jitter_s / 4),
    )
    if not direction.one_way:
        grade = "half of the round trip"
        note = "the clocks of the two ends differ, so only the sum of both directions is known"
        if direction.round_trip_s is not None:
            service_s = BITS_PER_BYTE * STUN_BYTES / float(np.median(found.rate_of_windows()))
            half_s = max(direction.round_trip_s / 2 - service_s, 0.0)
            base_s = base_s - base_s.min() + half_s
    least_s, most_s = float(base_s.min()), float(base_s.max())
    if least_s < -margin_s:
        path.unknown("delay", "packets arrived before they were sent, so the clocks of the two ends differ")
        return
    value: Any
    if most_s - least_s <= 2 * margin_s:
        delay_s = max(float(np.median(base_s)), 0.0)
        value = time_text(delay_s)
    else:
        points = course_points(found.packets.sent_s, base_s, margin_s)
        value = {
            "points": [[f"{max(at, 0.0):.1f} s", time_text(delay)] for at, delay in points],
            "every": "100 ms",
        }
        delay_s = float(base_s.mean())
        changes = f"changes between {time_text(least_s)} and {time_text(most_s)}"
        note = f"{changes}; {note}" if note else changes
    low, high = max(delay_s - margin_s, 0.0), delay_s + margin_s
    if not direction.one_way:
        low, high = 0.0, 2 * delay_s
    path.add("delay", 1e3 * delay_s, 1e3 * low, 1e3 * high, grade=grade, note=note, value=value)


def _included(path: Parameters, found: PathFit) -> str:
    """What a measured delay includes.

    The model has one queue, whose waits and transmission are not in the delay. Other links also send one
    packet after the other, and their transmission is.
    """
    note = (
        "without queue and transmission at the bottleneck; with processing, and transmission on other links"
    )
    if not path.loaded:
        return note
    typical_s = BITS_PER_BYTE * np.median(found.packets.size_bytes) / np.median(found.rate_of_windows())
    return f"{note}: {time_text(float(typical_s))} of a typical packet on one as slow"


def course_points(at_s: Array, value_s: Array, tolerance_s: float) -> list[tuple[float, float]]:
    """The fewest points whose connecting lines stay within a tolerance (Douglas and Peucker 1973)."""
    step = max(1, len(at_s) // 2000)
    x, y = at_s[::step], value_s[::step]
    kept = {0, len(x) - 1}
    parts = [(0, len(x) - 1)]
    while parts:
        first, last = parts.pop()
        if last - first < 2 or x[last] - x[first] < SHORTEST_COURSE_S:
            continue
        inside = slice(first + 1, last)
        line = np.interp(x[inside], [x[first], x[last]], [y[first], y[last]])
        off = np.abs(y[inside] - line)
        if off.max() > tolerance_s:
            middle = first + 1 + int(np.argmax(off))
            kept.add(middle)
            parts += [(first, middle), (middle, last)]
    points: dict[float, float] = {}
    for index in sorted(kept):
        points.setdefault(round(float(x[index]), 1), float(y[index]))
    return list(points.items())


def _add_jitter(path: Parameters, direction: Direction, found: PathFit) -> None:
    jitter_s, least_s = found.jitter_s, max(LEAST_JITTER_S, 2 * direction.resolution_s)
    if jitter_s < least_s:
        path.add("jitter", 0.0, 0.0, 1e3 * least_s, note="too small to tell")
        return
    path.add("jitter", 1e3 * jitter_s, 800 * jitter_s, 1200 * jitter_s, value=time_text(jitter_s))


def _add_queue(path: Parameters, found: PathFit) -> None:
    longest_ms = 1e3 * found.limit.longest_s
    if not path.loaded or not found.limit.full:
        note = "no packet was dropped by a full queue"
        path.add("queue", longest_ms, longest_ms, grade="at least", note=note)
        return
    note, value = f"it dropped {int(found.limit.dropped.sum())} packets", time_text(found.limit.longest_s)
    path.add("queue", longest_ms, 0.9 * longest_ms, 1.1 * longest_ms, note=note, value=value)


def _add_loss(path: Parameters, found: PathFit, begin_s: float) -> None:
    judged = ~found.limit.dropped & (found.packets.lost | ~np.isnan(found.packets.arrived_s))
    loss = random_loss(found.packets.lost[judged], found.packets.sent_s[judged], found.windows)
    value: Any = percent_text(loss.ratio)
    if loss.ratio < LEAST_LOSS:
        value = None
    elif len(loss.segments) > 1:
        value = steps([(begin_s + one.begin_s, percent_text(one.ratio)) for one in loss.segments])
    elif loss.in_bursts:
        value = {"mean": value, "burst": round(loss.burst, 2)}
    path.add("loss", 100 * loss.ratio, 100 * loss.low, 100 * loss.high, value=value)
    if value is not None and loss.in_bursts:
        path.add("burst", loss.burst)
