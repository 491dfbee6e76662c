"""Estimates a path from getStats: counters and round trips once a second, without packets.

Both directions share the round trip. So a queue can be in either, and delays are half of the sum. If the
network changes during the call, each part of it has a delay of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf, isnan, nan
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rtclab.estimate.changes import partition
from rtclab.estimate.findings import Parameters, percent_text, steps, time_text
from rtclab.estimate.fit import CapacitySegment
from rtclab.estimate.packets import Flags
from rtclab.estimate.path import LEAST_LOSS, add_capacity, merged
from rtclab.metrics.series import Array
from rtclab.trace import BITS_PER_BYTE, NS_PER_S, Trace

IP_AND_UDP_BYTES = 28
SRTP_BYTES = 10
QUEUE_S, QUEUE_SHARE = 0.010, 0.15
"""A queue shows if the round trip is longer than the smallest by this time and by this share."""
FEWEST_LOADED = 5
"""Fewer seconds with a queue do not tell the capacity."""
AT_CAPACITY = 0.98
"""Quantile of the rates with a queue that is taken as the capacity: a congestion control stays below it."""
BELOW, ABOVE = 0.95, 1.25
"""The interval of the capacity, relative to it."""
SAME_CAPACITY = 1.1
"""Capacities of neighbouring parts that differ less than this are one."""
LOSSY = 0.02
"""With more random loss than this, a congestion control does not come to the capacity."""
STEADY, LEAST_MAXIMUM_BPS = 1.12, 1.6e6
"""A rate that swings less than this and is as high as a camera's usual maximum is not limited by the path."""
MORE = 1.2
"""If the network changed, one that limited the call carried less than another one, by this factor."""
LASTING = 10
"""The network may have changed if this many more round trips are near another length."""
MOST_APART = 0.4
"""At most this share of round trips is not near the length that they have in another network."""
SHORT_SHARE = 0.05
"""Quantile of the round trips of another network that is near their usual length, unlike in a queue."""
SHORTEST_PART_S = 5.0
"""A network that is used for less time is not a part of the call."""
SETTLING_S = 3.0
"""Round trips and losses this long after a change of the network are of the change itself."""
LEVELS = 40
SAME_DELAY_S = 0.5e-3
"""Delays of neighbouring parts that differ less than this are one."""
OUTAGE_SHARE, OUTAGE_PACKETS, LONGEST_OUTAGE_S = 0.5, 10, 10.0
"""An outage loses at least this share of the packets, and this many, for no longer than this time."""
MOST_LOSS = 0.99
MOST_NAMED = 4
"""Parts whose delays are named one by one."""


@dataclass(frozen=True)
class Seconds:
    """What getStats counts of a direction, in intervals of about a second.

    Attributes:
        begin_s: begin of each interval.
        at_s: its end.
        rate_bps: rate of IP packets that the path carried, in bit/s.
        packets: packets sent if ``outgoing``, or else received, of the streams whose losses are known.
        lost: the packets of these streams that were lost; NaN if nobody says.
        round_trip_s: the largest round trip about its end; NaN where none was reported.
        least_trip_s: the smallest one.
        video: whether packets of video are among them. Audio alone does not come to a capacity.
        outgoing: whether the page sends.
    """

    begin_s: Array
    at_s: Array
    rate_bps: Array
    packets: Array
    lost: Array
    round_trip_s: Array
    least_trip_s: Array
    video: Flags
    outgoing: bool

    @property
    def expected(self) -> Array:
        """Packets that were sent, as far as is known."""
        expected: Array = self.packets if self.outgoing else self.packets + self.lost.clip(min=0)
        return expected

    def loss_ratio(self, chosen: Flags) -> float:
        """Share of the packets in the chosen seconds that were lost; NaN if nobody says."""
        expected = float(self.expected[chosen].sum())
        ratio = max(float(self.lost[chosen].sum()), 0.0) / expected if expected > 0 else 0.0
        return min(ratio, MOST_LOSS) if np.isfinite(self.lost).any() else nan


@dataclass(frozen=True)
class Period:
    """A time in which the network did not change.

    Attributes:
        begin_s: its begin.
        end_s: its end.
        least_s: the smallest round trip in s; NaN if none was reported.
        calm_s: the largest round trip of the second in which it was smallest. A queue makes others longer.
    """

    begin_s: float
    end_s: float
    least_s: float = nan
    calm_s: float = nan

    def has(self, at_s: Array) -> Flags:
        """Whether each time in s is within the period."""
        inside: Flags = (at_s >= self.begin_s) & (at_s < self.end_s)
        return inside


@dataclass(frozen=True)
class _Stretch:
    """Seconds whose round trips are near one length, except for a share of them."""

    level_s: float
    apart: float
    rows: NDArray[np.intp]


@dataclass(frozen=True)
class Outage:
    """A time in which most packets were lost, and the share that was."""

    begin_s: float
    end_s: float
    lost: int
    ratio: float


def path_of_counters(trace: Trace, flow: str) -> Parameters:
    """Estimates the path of a direction from reports of getStats."""
    path = Parameters(flow)
    told_s = _told_changes_s(trace)
    seconds = _seconds(trace, flow, told_s)
    parts = _parts(seconds, told_s)
    settling = _settling(seconds.at_s, [*told_s, *(part.begin_s for part in parts[1:])])
    least_s, calm_s = (np.full(seconds.at_s.size, nan) for _ in range(2))
    for part in parts:
        inside = part.has(seconds.at_s)
        least_s[inside], calm_s[inside] = part.least_s, part.calm_s
    queue_s = np.where(settling, 0.0, np.nan_to_num(seconds.round_trip_s - least_s))
    queued = ~settling & (seconds.round_trip_s - calm_s > _margin_s(calm_s))
    outages = _outages(seconds, ~queued | settling)
    during = [(seconds.at_s > one.begin_s) & (seconds.at_s <= one.end_s) for one in outages]
    usual = ~np.logical_or.reduce([np.zeros_like(queued), *during])
    if segments := merged(_segments(seconds, parts, queued, usual), SAME_CAPACITY):
        note = "from the rate while the round trip shows a queue, which may be in the other direction"
        add_capacity(path, segments, 0.0, note)
    else:
        path.unknown("capacity", "no arrivals of packets and no counters")
    _add_delay(path, parts)
    path.unknown("jitter", "counters do not tell it")
    _add_queue(path, parts, queue_s)
    _add_loss(path, seconds, queued, usual, outages)
    return path


def _seconds(trace: Trace, flow: str, changes_s: Sequence[float]) -> Seconds:
    """The counters of a flow, from the reports of its sender if there are any, or else of its receiver."""
    sent = trace.table("outbound_rtp").filter(pl.col("flow") == flow)
    outgoing = not sent.is_empty()
    rows = sent if outgoing else trace.table("inbound_rtp").filter(pl.col("flow") == flow)
    count, size = ("packetsSent", "bytesSent") if outgoing else ("packetsReceived", "bytesReceived")
    header = "headerBytesSent" if outgoing else "headerBytesReceived"
    heard = trace.table("remote_inbound_rtp").filter(pl.col("flow") == flow) if outgoing else rows
    heard = heard.drop_nulls("packetsLost")
    rows = rows.with_columns(content=pl.col(size) + pl.col(header).fill_null(12 * pl.col(count)))
    at_s = rows["at_ns"].unique().sort().to_numpy() / NS_PER_S
    packets, content, lost = (
        np.diff(_total(table, column, at_s))
        for table, column in ((rows, count), (rows, "content"), (heard, "packetsLost"))
    )
    judged = rows.filter(pl.col("ssrc").is_in(heard["ssrc"].unique().to_list()))
    lost = lost if heard.height else np.full(lost.size, nan)
    packets, content = packets.clip(min=0), content.clip(min=0)
    known = np.diff(_total(judged, count, at_s)).clip(min=0)
    carried = content + packets * (IP_AND_UDP_BYTES + SRTP_BYTES)
    rate = BITS_PER_BYTE * carried / np.maximum(np.diff(at_s), 1e-3)
    if outgoing:
        # What was sent less what was lost is what the path carried.
        rate = rate * (1 - np.clip(np.nan_to_num(lost) / np.maximum(known, 1), 0, 1))
    trips_s = _round_trips_s(trace, at_s[1:], changes_s)
    video = np.diff(_total(rows.filter(pl.col("kind") == "video"), count, at_s)) > 0
    return Seconds(at_s[:-1], at_s[1:], rate, known, lost, *trips_s, video, outgoing)


def _total(rows: pl.DataFrame, column: str, at_s: Array) -> Array:
    """A counter at some times, summed over streams.

    A stream that does not report at a time has the value between its reports before and after. What it
    counted before its first report is left out, because nobody knows when that was.
    """
    total = np.zeros(at_s.size)
    for _, stream in rows.sort("at_ns").group_by("ssrc", maintain_order=True):
        counted = stream[column].cast(pl.Float64).to_numpy()
        total += np.interp(at_s, stream["at_ns"].to_numpy() / NS_PER_S, counted)
    return total


def _told_changes_s(trace: Trace) -> list[float]:
    """When a connection changed to another candidate pair, as the log says."""
    told = trace.table("events").filter(pl.col("event") == "route_changed")
    return (told["at_ns"].unique().sort() / NS_PER_S).to_list()


def _round_trips_s(trace: Trace, at_s: Array, changes_s: Sequence[float]) -> tuple[Array, Array]:
    """The largest and smallest round trip reported about each time on the same network; NaN without any."""
    trips = [
        trace.table("remote_inbound_rtp").select("at_ns", trip="roundTripTime"),
        trace.table("candidate_pair").select("at_ns", trip="currentRoundTripTime"),
    ]
    known = pl.concat(trips).drop_nulls().filter(pl.col("trip").is_finite(), pl.col("trip") > 0).sort("at_ns")
    times, values = known["at_ns"].to_numpy() / NS_PER_S, known["trip"].to_numpy()
    network = np.searchsorted(changes_s, times, side="right")
    largest, smallest = np.full(len(at_s), nan), np.full(len(at_s), nan)
    for index, at in enumerate(at_s):
        same = network == np.searchsorted(changes_s, at, side="right")
        near = values[(times > at - 1.2) & (times <= at + 0.3) & same]
        if near.size:
            largest[index], smallest[index] = near.max(), near.min()
    return largest, smallest


def _margin_s(least_s: Any) -> Any:
    """By how much a round trip must be longer than the smallest one for a queue to show."""
    return np.maximum(QUEUE_S, QUEUE_SHARE * least_s)


def _settling(at_s: Array, changes_s: Sequence[float]) -> Flags:
    """Whether times are around a change of the network."""
    near = [(at_s > one - 1) & (at_s < one + SETTLING_S) for one in changes_s]
    settling: Flags = np.logical_or.reduce([np.zeros(at_s.size, np.bool_), *near])
    return settling


def _parts(seconds: Seconds, told_s: Sequence[float]) -> list[Period]:
    """The parts of a call, between changes of the network that the log tells or the round trip shows."""
    if not seconds.at_s.size:
        return []
    last_s = float(seconds.at_s[-1])
    edges_s = [float(seconds.begin_s[0])]
    for at_s in sorted([*told_s, *_shown_changes_s(seconds, told_s)]):
        long = edges_s[-1] + SHORTEST_PART_S <= at_s <= last_s - SHORTEST_PART_S
        if long and Period(edges_s[-1], at_s).has(seconds.at_s).any():
            edges_s.append(at_s)
    settling = _settling(seconds.at_s, [*told_s, *edges_s[1:]])
    parts = []
    for begin_s, end_s in pairwise([*edges_s, np.nextafter(last_s, np.inf)]):
        part = Period(begin_s, end_s)
        known = part.has(seconds.at_s) & np.isfinite(seconds.round_trip_s)
        settled = known & ~settling
        rows = settled if settled.any() else known
        if rows.any():
            least_s, calm_s = (
                float(trips[rows].min()) for trips in (seconds.least_trip_s, seconds.round_trip_s)
            )
            part = replace(part, least_s=least_s, calm_s=calm_s)
        parts.append(part)
    return parts


def _shown_changes_s(seconds: Seconds, told_s: Sequence[float]) -> list[float]:
    """When the round trip became longer or shorter for good, without a change that the log tells."""
    known = np.flatnonzero(np.isfinite(seconds.round_trip_s))
    network = np.searchsorted(told_s, seconds.at_s[known], side="right")
    return [at_s for one in np.unique(network) for at_s in _new_levels_s(seconds, known[network == one])]


def _new_levels_s(seconds: Seconds, rows: NDArray[np.intp]) -> list[float]:
    """When most round trips began to be near another length, in the given seconds.

    The round trips of a full queue are near one length, too, but packets are lost then.
    """
    trips_s = seconds.round_trip_s[rows]
    levels_s = np.unique(np.quantile(trips_s, np.linspace(0, 1, LEVELS)))
    apart = np.abs(trips_s[:, None] - levels_s) > _margin_s(levels_s)
    stretches = []
    for first, last in partition(apart.astype(np.float64), LASTING):
        share = apart[first:last].mean(axis=0)
        best = int(share.argmin())
        stretches.append(_Stretch(float(levels_s[best]), float(share[best]), rows[first:last]))
    return [
        # The largest round trip of a second may be one of the second before.
        float((seconds.at_s if after.level_s > before.level_s else seconds.begin_s)[after.rows[0]])
        for before, after in pairwise(stretches)
        if _is_new_network(seconds, *sorted((before, after), key=lambda one: one.level_s))
    ]


def _is_new_network(seconds: Seconds, lower: _Stretch, higher: _Stretch) -> bool:
    """Whether the longer of two round trips is of another network, and not of a queue.

    The round trips of a queue vary and are short now and then, unless it is full and drops packets.
    """
    settled = higher.rows[seconds.at_s[higher.rows] >= seconds.at_s[higher.rows[0]] + SETTLING_S]
    if not settled.size or higher.apart > MOST_APART:
        return False
    short_s = float(np.quantile(seconds.least_trip_s[settled], SHORT_SHARE))
    inside = np.isin(np.arange(seconds.at_s.size), settled)
    return (
        higher.level_s - lower.level_s > _margin_s(lower.level_s)
        and higher.level_s - short_s <= _margin_s(higher.level_s)
        and not seconds.loss_ratio(inside) > LOSSY
    )


def _segments(
    seconds: Seconds, parts: Sequence[Period], queued: Flags, usual: Flags
) -> list[CapacitySegment]:
    """The capacity in each part of the call."""
    inside = [part.has(seconds.at_s) for part in parts]
    highest = [float(np.quantile(seconds.rate_bps[one], AT_CAPACITY)) for one in inside]
    segments = []
    for index, (part, rows) in enumerate(zip(parts, inside, strict=True)):
        most, others = highest[index], highest[:index] + highest[index + 1 :]
        bps = None
        if MORE * most < max(others, default=inf):
            bps = _limit_bps(seconds, rows, most, queued, usual)
        known = (most, most, None) if bps is None else (bps, BELOW * bps, ABOVE * bps)
        segments.append(CapacitySegment(part.begin_s, part.end_s, *known))
    return segments


def _limit_bps(
    seconds: Seconds, inside: Flags, highest_bps: float, queued: Flags, usual: Flags
) -> float | None:
    """The rate that a network let through while there was a queue; None if the call did not load it."""
    rates = seconds.rate_bps[inside]
    # A direction is loaded if its own rate is near its highest while the round trip shows a queue.
    loaded = inside & queued & seconds.video & (seconds.rate_bps > 0.5 * highest_bps)
    steady = LEAST_MAXIMUM_BPS < highest_bps < STEADY * float(np.median(rates))
    few = loaded.sum() < max(FEWEST_LOADED, 0.05 * rates.size)
    if few or steady or seconds.loss_ratio(_calm(queued, inside & usual)) > LOSSY:
        return None
    return float(np.quantile(seconds.rate_bps[loaded], AT_CAPACITY))


def _add_delay(path: Parameters, parts: Sequence[Period]) -> None:
    courses: list[tuple[float, float]] = []
    for part in parts:
        same = courses and abs(courses[-1][1] - part.least_s / 2) < SAME_DELAY_S
        if not isnan(part.least_s) and not same:
            courses.append((part.begin_s, part.least_s / 2))
    if not courses:
        path.unknown("delay", "no round trip was reported")
        return
    begins_s, delays_s = zip(*courses, strict=True)
    lasts_s = np.diff([*begins_s, parts[-1].end_s])
    note = "the smallest round trip that was reported"
    value: Any = time_text(delays_s[0])
    if len(courses) > 1:
        value = steps([(begin_s, time_text(delay_s)) for begin_s, delay_s in courses])
        named = [f"{time_text(delay_s)} from {begin_s:.0f} s" for begin_s, delay_s in courses[:MOST_NAMED]]
        more = f" and {len(courses) - MOST_NAMED} more" if len(courses) > MOST_NAMED else ""
        note = f"changes with the network: {', '.join(named)}{more}; {note} in each part"
    mean_ms = 1000 * float(np.average(delays_s, weights=lasts_s))
    most_ms = 2000 * max(delays_s)
    path.add("delay", mean_ms, 0.0, most_ms, grade="half of the round trip", note=note, value=value)


def _add_queue(path: Parameters, parts: Sequence[Period], queue_s: Array) -> None:
    longest_ms = 1000 * float(queue_s.max(initial=0.0))
    if all(isnan(part.least_s) for part in parts):
        path.unknown("queue", "no round trip was reported")
    elif path.loaded or longest_ms < 1000 * QUEUE_S:
        note = "of both directions together" if path.loaded else "the round trip shows none"
        path.add("queue", longest_ms, longest_ms, grade="at least", note=note)
    else:
        varied = f"the round trip varied by {longest_ms:.0f} ms"
        path.unknown("queue", f"{varied}, but the call did not load the path")


def _calm(queued: Flags, chosen: Flags) -> Flags:
    """The chosen seconds without a queue; all of them if there are too few."""
    calm = chosen & ~queued
    return calm if calm.sum() >= max(FEWEST_LOADED, 0.1 * chosen.sum()) else chosen


def _outages(seconds: Seconds, possible: Flags) -> list[Outage]:
    """The times in which most packets were lost, which began when the last packet before them arrived."""
    lost, expected = seconds.lost, seconds.expected
    heavy = possible & (lost >= OUTAGE_PACKETS) & (lost >= OUTAGE_SHARE * expected)
    silent = ~heavy & (seconds.packets == 0) & (not seconds.outgoing)
    usual = float(np.median(expected[expected > 0])) if (expected > 0).any() else 1.0
    rows = np.flatnonzero(heavy)
    found = []
    for run in np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1) if rows.size else []:
        first, last = int(run[0]), int(run[-1])
        gone = float(lost[run].sum())
        if seconds.at_s[last] - seconds.begin_s[first] > LONGEST_OUTAGE_S:
            continue
        while first > 0 and silent[first - 1] and last - first < gone / usual:
            first -= 1
        ratio = min(gone / float(expected[first : last + 1].sum()), MOST_LOSS)
        found.append(Outage(float(seconds.begin_s[first]), float(seconds.at_s[last]), round(gone), ratio))
    return found


def _add_loss(
    path: Parameters, seconds: Seconds, queued: Flags, usual: Flags, outages: Sequence[Outage]
) -> None:
    """Adds the random loss, and each outage apart from it."""
    if not seconds.rate_bps.any():
        path.unknown("loss", "no packets were counted")
        return
    calm = _calm(queued, usual)
    ratio = seconds.loss_ratio(calm)
    if np.isnan(ratio):
        path.unknown("loss", "no losses were reported")
        return
    between = percent_text(ratio) if ratio >= LEAST_LOSS else "0 %"
    value: Any = between if ratio >= LEAST_LOSS else None
    if outages:
        edges = [((one.begin_s, percent_text(one.ratio)), (one.end_s, between)) for one in outages]
        value = steps([(0.0, between), *(edge for pair in edges for edge in pair)])
    packets = max(float(seconds.packets[calm].sum()), 1.0)
    half = 2 * float(np.sqrt(max(ratio * (1 - ratio), 1e-4) / packets)) + 0.1 * ratio
    unsure = (calm & queued).any() or not np.isfinite(seconds.round_trip_s).any()
    note = "drops of a full queue may be among them" if unsure else ""
    low, high = 100 * max(ratio - half, 0.0), 100 * (ratio + half)
    path.add("loss", 100 * ratio, low, high, note=note, value=value)
    for one in outages:
        when = f"lost from {one.begin_s:.0f} s to {one.end_s:.0f} s"
        path.add("outage", one.lost, note=f"{when}, {100 * one.ratio:.0f} % of all then")
