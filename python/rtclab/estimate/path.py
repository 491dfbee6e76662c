"""The path of one direction: from what is known of it to the values of a scenario, with how sure they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rtclab.estimate.call import Direction
from rtclab.estimate.findings import Finding, Grade, percent_text, rate_text, time_text
from rtclab.estimate.fit import LEAST_JITTER_S, CapacitySegment, PathFit, fit
from rtclab.estimate.losses import RandomLoss, random_loss
from rtclab.metrics.series import BITS_PER_BYTE, Array

SAME_CAPACITY, SAME_WITH_JITTER = 1.03, 1.1
"""Neighbouring capacities that differ less than this are one."""
SHORTEST_COURSE_S = 2.0
STUN_BYTES = 120
"""IP total length of a connectivity check, with which the round trip is measured."""


@dataclass(frozen=True)
class PathEstimate:
    """The path of a direction.

    Attributes:
        flow: the direction.
        values: the table of the path in a scenario, by field; fields that are not known are absent.
        findings: the numbers, in the order of the table.
        loaded: whether the call came to the limit of the capacity.
    """

    flow: str
    values: dict[str, Any]
    findings: tuple[Finding, ...]
    loaded: bool


def path_of(direction: Direction) -> PathEstimate:
    """Estimates the path of a direction from its packets."""
    assert direction.packets is not None
    found = fit(direction.packets, direction.resolution_s)
    begin_s = float(direction.packets.sent_s[0])
    values: dict[str, Any] = {}
    segments = merged(found.capacity, SAME_CAPACITY if found.jitter_s < LEAST_JITTER_S else SAME_WITH_JITTER)
    capacity = capacity_finding(direction.flow, segments, begin_s, values)
    loaded = any(segment.high_bps is not None for segment in segments)
    delay = _delay(direction, found, begin_s, values)
    jitter = _jitter(direction, found, values)
    queue = _queue(direction.flow, found, loaded=loaded, values=values)
    loss = _loss(direction.flow, found, begin_s, values)
    return PathEstimate(direction.flow, values, (capacity, delay, jitter, queue, *loss), loaded)


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
    return CapacitySegment(
        min(one.begin_s, other.begin_s),
        max(one.end_s, other.end_s),
        bps,
        low,
        max(highs) if highs else None,
    )


def capacity_finding(
    flow: str, segments: Sequence[CapacitySegment], begin_s: float, values: dict[str, Any], note: str = ""
) -> Finding:
    """The finding about the capacity; adds the capacity to the values of the path.

    Args:
        flow: the direction.
        segments: the capacity over time.
        begin_s: time zero of the segments.
        values: the table of the path in a scenario.
        note: what a reader must know of a capacity that was measured.
    """
    if all(one.high_bps is None for one in segments):
        low = max(one.low_bps for one in segments) / 1000
        return Finding(
            flow, "capacity", low, low, None, "kbit/s", "at least", "the call did not load the path"
        )
    rates = [one.bps if one.high_bps is not None else one.low_bps for one in segments]
    times = [one.end_s - one.begin_s for one in segments]
    if len(segments) == 1:
        values["capacity"] = rate_text(rates[0])
    else:
        at_s = [0.0, *(begin_s + one.begin_s for one in segments[1:])]
        values["capacity"] = {
            "steps": [[f"{at:.1f} s", rate_text(rate)] for at, rate in zip(at_s, rates, strict=True)]
        }
        often = "once" if len(segments) == 2 else f"{len(segments) - 1} times"
        changes = f"changes {often}, between {rate_text(min(rates))} and {rate_text(max(rates))}"
        note = f"{changes}; {note}" if note else changes
        unknown_s = sum(one.end_s - one.begin_s for one in segments if one.high_bps is None)
        if unknown_s:
            note += f"; for {unknown_s:.0f} s the call did not load the path, and the value is a lower bound"
    mean = float(np.average(rates, weights=times)) / 1000
    lows = float(np.average([one.low_bps for one in segments], weights=times)) / 1000
    highs = float(np.average([one.high_bps or one.low_bps for one in segments], weights=times)) / 1000
    return Finding(flow, "capacity", mean, lows, highs, "kbit/s", "measured", note)


def _delay(direction: Direction, found: PathFit, begin_s: float, values: dict[str, Any]) -> Finding:
    base_s = found.base_s
    if not direction.one_time and direction.round_trip_s is None:
        note = "the clocks of the two ends differ, and there is no round trip"
        return Finding(direction.flow, "delay", None, None, None, "ms", "unknown", note)
    grade: Grade = "measured"
    note, margin_s = "", max(2 * direction.resolution_s, found.misfit_s, found.jitter_s / 4)
    if not direction.one_way:
        grade = "half of the round trip"
        note = "the clocks of the two ends differ, so only the sum of both directions is known"
        if direction.round_trip_s is not None:
            service_s = BITS_PER_BYTE * STUN_BYTES / float(np.median(found.rate_of_windows()))
            half_s = max(direction.round_trip_s / 2 - service_s, 0.0)
            base_s = base_s - base_s.min() + half_s
    least_s, most_s = float(base_s.min()), float(base_s.max())
    if least_s < -margin_s:
        note = "packets arrived before they were sent, so the clocks of the two ends differ"
        return Finding(direction.flow, "delay", None, None, None, "ms", "unknown", note)
    if most_s - least_s <= 2 * margin_s:
        delay_s = max(float(np.median(base_s)), 0.0)
        values["delay"] = time_text(delay_s)
    else:
        points = course_points(found.packets.sent_s, base_s, margin_s)
        values["delay"] = {
            "points": [[f"{max(at, 0.0):.1f} s", time_text(delay)] for at, delay in points],
            "every": "100 ms",
        }
        delay_s = float(base_s.mean())
        note = "; ".join(
            filter(None, (f"changes between {time_text(least_s)} and {time_text(most_s)}", note))
        )
    low, high = max(delay_s - margin_s, 0.0), delay_s + margin_s
    if not direction.one_way:
        low, high = 0.0, 2 * delay_s
    return Finding(direction.flow, "delay", 1e3 * delay_s, 1e3 * low, 1e3 * high, "ms", grade, note)


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
    order = sorted(kept)
    points: list[tuple[float, float]] = []
    for index in order:
        at = round(float(x[index]), 1)
        if not points or at > points[-1][0]:
            points.append((at, float(y[index])))
    return points


def _jitter(direction: Direction, found: PathFit, values: dict[str, Any]) -> Finding:
    jitter_s, least_s = found.jitter_s, max(LEAST_JITTER_S, 2 * direction.resolution_s)
    if jitter_s < least_s:
        return Finding(
            direction.flow, "jitter", 0.0, 0.0, 1e3 * least_s, "ms", "measured", "too small to tell"
        )
    values["jitter"] = time_text(jitter_s)
    return Finding(
        direction.flow, "jitter", 1e3 * jitter_s, 800 * jitter_s, 1200 * jitter_s, "ms", "measured"
    )


def _queue(flow: str, found: PathFit, *, loaded: bool, values: dict[str, Any]) -> Finding:
    longest = 1e3 * found.limit.longest_s
    if not loaded or not found.limit.full:
        return Finding(
            flow, "queue", longest, longest, None, "ms", "at least", "no packet was dropped by a full queue"
        )
    values["queue"] = time_text(found.limit.longest_s)
    dropped = int(found.limit.dropped.sum())
    return Finding(
        flow,
        "queue",
        longest,
        0.9 * longest,
        1.1 * longest,
        "ms",
        "measured",
        f"it dropped {dropped} packets",
    )


def _loss(flow: str, found: PathFit, begin_s: float, values: dict[str, Any]) -> list[Finding]:
    judged = ~found.limit.dropped & (found.packets.lost | ~np.isnan(found.packets.arrived_s))
    loss = random_loss(found.packets.lost[judged], found.packets.sent_s[judged], found.windows)
    return loss_findings(flow, loss, begin_s, values)


def loss_findings(flow: str, loss: RandomLoss, begin_s: float, values: dict[str, Any]) -> list[Finding]:
    """The findings about loss; adds the loss to the values of the path."""
    low, high = 100 * loss.low, 100 * loss.high
    found = [Finding(flow, "loss", 100 * loss.ratio, low, high, "%", "measured")]
    if loss.ratio < LEAST_LOSS:
        return found
    if len(loss.segments) > 1:
        at_s = [0.0, *(begin_s + one.begin_s for one in loss.segments[1:])]
        values["loss"] = {
            "steps": [
                [f"{at:.1f} s", percent_text(one.ratio)] for at, one in zip(at_s, loss.segments, strict=True)
            ]
        }
    elif loss.in_bursts:
        values["loss"] = {"mean": percent_text(loss.ratio), "burst": round(loss.burst, 2)}
    else:
        values["loss"] = percent_text(loss.ratio)
    if loss.in_bursts:
        found.append(Finding(flow, "burst", loss.burst, None, None, "packets", "measured"))
    return found


LEAST_LOSS = 1e-4
"""Less loss than this is left out of a scenario."""
