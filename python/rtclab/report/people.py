"""A meeting as people: a matrix of who saw whom, a card for each, and a small timeline of each pair."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rtclab.metrics import METRICS, rate
from rtclab.metrics.courses import frame_height, frozen_percent, reported_lost_percent
from rtclab.metrics.media import picture_delay_ms
from rtclab.metrics.series import Samples
from rtclab.report.answer import BAD, GOOD, MARKS, POOR
from rtclab.report.quality import FREEZES, Judged, marks_of, worst
from rtclab.report.verdict import Findings, rate_in_words
from rtclab.report.why import WORDS
from rtclab.report.words import brief
from rtclab.trace import Run, Trace

LEAST_PEOPLE = 3
POINTS = 30
"""Points of each curve in the small timeline of a pair."""
LEVELS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""The digits of values in a small timeline: parts of the largest value, one per pixel of its height."""
UNKNOWN = "-"
NO_PICTURE = "×"
VALUES = (
    "freeze_duration",
    "receiving_rate",
    "frame_height",
    "picture_delay",
    "audio_concealed",
    "packet_loss",
)
"""The values that a pair has in the data of the page, in their order."""
LIMITED = "limited_by_"


@dataclass(frozen=True)
class Seen:
    """How a receiver saw a sender: the flow, its mark, and what is written into the cell."""

    flow: str
    mark: str
    text: str


@dataclass(frozen=True)
class Person:
    """A card: the name, the worst mark of what the person saw, and what it received and sent, in words."""

    name: str
    mark: str
    received: str
    sent: str


@dataclass(frozen=True)
class People:
    """What the page of a meeting has beside the timeline.

    Attributes:
        receivers: names of the rows, those who suffer most first.
        senders: names of the columns, those who are seen worst first.
        rows: for each receiver a cell for each sender; None where nothing flows.
        cards: the people, in the order of the rows.
        run: the run.
        found: what is known of it.
        flows: the flows of all pairs.
    """

    receivers: Sequence[str]
    senders: Sequence[str]
    rows: Sequence[Sequence[Seen | None]]
    cards: Sequence[Person]
    run: Run
    found: Findings
    flows: Sequence[str]

    @property
    def data(self) -> str:
        """The values and small timelines of all pairs as JSON, safe inside a ``<script>`` element."""
        return _data(self.run, self.found, self.flows)

    @property
    def counts(self) -> dict[str, int]:
        """The number of pairs with each mark."""
        marks = [cell.mark for row in self.rows for cell in row if cell is not None]
        return {mark: marks.count(mark) for mark in MARKS}


def people_of(run: Run, found: Findings, marked: Sequence[Judged]) -> People | None:
    """The people of a run; None if fewer than three send or receive media."""
    flows = [*found.media, *(flow for flow in found.apart if flow not in found.media)]
    pairs = {(found.receivers[flow], found.senders[flow]): flow for flow in flows}
    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    if len(names) < LEAST_PEOPLE:
        return None
    marks = dict.fromkeys(flows, "") | marks_of(marked, found.silent)
    ranked = sorted(marked, key=lambda one: (MARKS.index(one.mark), one.metric == FREEZES))
    worst_of = {one.flow: one for one in ranked}
    receivers = _by_suffering(names, {flow: found.receivers[flow] for flow in pairs.values()}, marks, found)
    senders = _by_suffering(names, {flow: found.senders[flow] for flow in pairs.values()}, marks, found)
    rows = [
        [
            Seen(flow, marks[flow], _in_cell(found, flow, worst_of.get(flow)))
            if (flow := pairs.get((receiver, sender), ""))
            else None
            for sender in senders
        ]
        for receiver in receivers
    ]
    cards = [_card(name, found, marks) for name in receivers]
    return People(receivers, senders, rows, cards, run, found, [*pairs.values()])


def _by_suffering(
    names: Sequence[str], ends: Mapping[str, str], marks: Mapping[str, str], found: Findings
) -> list[str]:
    """The names that have flows, those with the most bad and poor ones first, and then the longest frozen."""
    flows: dict[str, list[str]] = {name: [] for name in names}
    for flow, end in ends.items():
        flows[end].append(flow)

    def trouble(name: str) -> tuple[int, int, float]:
        own = [marks[flow] for flow in flows[name]]
        frozen = sum(found.means.get((FREEZES, flow), 0.0) for flow in flows[name])
        return -own.count(BAD), -own.count(POOR), -frozen

    return sorted((name for name in names if flows[name]), key=trouble)


def _in_cell(found: Findings, flow: str, trouble: Judged | None) -> str:
    """Frozen seconds per minute or, if something else is worse, what; or a sign that no picture was seen."""
    repeats = found.repeats - found.failed - found.unfinished
    if found.silent.get(flow, 0) >= repeats:
        return NO_PICTURE
    if trouble is not None and trouble.mark != GOOD and trouble.metric != FREEZES:
        is_delay = trouble.metric.endswith("_delay")
        return f"{trouble.value / 1000:.1f}s" if is_delay else f"{trouble.value:.0f}%"
    frozen_s = found.means.get((FREEZES, flow))
    return "" if frozen_s is None else f"{frozen_s:.0f}"


def _card(name: str, found: Findings, marks: Mapping[str, str]) -> Person:
    seen = [flow for flow in found.media if found.receivers[flow] == name]
    sent = [flow for flow in found.media if found.senders[flow] == name]
    mark = worst([marks[flow] for flow in seen])
    limit = _limit(sent, found)
    parts = [_summed_up(SEEN, sent, found, marks), f"mostly limited by {limit}" if limit else ""]
    return Person(name, mark, _summed_up(SEES, seen, found, marks), "; ".join(filter(None, parts)))


@dataclass(frozen=True)
class WordsOfSide:
    """What a card says of the flows to or from a person: templates, and whose names are in them."""

    nobody: str
    well: str
    rates: str
    longest: str
    others: Callable[[Findings], Mapping[str, str]]


SEES = WordsOfSide(
    "sees nobody",
    "sees {} of {} well",
    "{} in all",
    "worst of {}: frozen {} s a minute",
    lambda found: found.senders,
)
SEEN = WordsOfSide(
    "is seen by nobody",
    "is seen well by {} of {}",
    "{} received of it",
    "worst by {}: frozen {} s a minute",
    lambda found: found.receivers,
)


def _summed_up(side: WordsOfSide, flows: Sequence[str], found: Findings, marks: Mapping[str, str]) -> str:
    """What flows from or to a person were like: ``sees 5 of 7 well; 1200 kbit/s in all``."""
    if not flows:
        return side.nobody
    parts = [side.well.format(sum(marks[flow] in (GOOD, "") for flow in flows), len(flows))]
    rates = [found.means["receiving_rate", flow] for flow in flows if ("receiving_rate", flow) in found.means]
    if rates:
        parts.append(side.rates.format(rate_in_words(sum(rates))))
    frozen = {flow: found.means[FREEZES, flow] for flow in flows if (FREEZES, flow) in found.means}
    if frozen and max(frozen.values()) >= 0.5:
        flow = max(frozen, key=frozen.__getitem__)
        parts.append(side.longest.format(side.others(found)[flow], brief(frozen[flow])))
    return "; ".join(parts)


def _limit(flows: Sequence[str], found: Findings) -> str:
    """What limited some flows for the longest time, in words; empty if that is not known."""
    names = [metric.removeprefix(LIMITED) for metric in METRICS if metric.startswith(LIMITED)]
    shares = {name: sum(found.means.get((LIMITED + name, flow), 0.0) for flow in flows) for name in names}
    name = max(shares, key=shares.__getitem__)
    return WORDS.get(name, name) if shares[name] and name != "unknown" else ""


def _data(run: Run, found: Findings, flows: Sequence[str]) -> str:
    end_s = max((trace.end_s for trace in run.traces), default=0.0)
    window = run.window or (0.0, None)
    begin_s, until_s = window[0], end_s if window[1] is None else window[1]
    values = [_values(found, flow) for flow in flows]
    curves = [_coarse(run, flows, series, begin_s, until_s) for series in SMALL]
    pairs = {flow: list(of_flow) for flow, *of_flow in zip(flows, values, *curves, strict=True)}
    about = {"begin": begin_s, "end": until_s, "levels": LEVELS, "pairs": pairs}
    return json.dumps(about, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def _values(found: Findings, flow: str) -> list[float | None]:
    known = (found.means.get((metric, flow)) for metric in VALUES)
    return [None if value is None or value != value else float(f"{value:.3g}") for value in known]


def _coarse(
    run: Run, flows: Sequence[str], series: Callable[[Trace, str], Samples], begin_s: float, end_s: float
) -> list[list[Any]]:
    """A series of each flow, mean over repeats: the largest value, and a digit of ``LEVELS`` per step."""
    samples = [
        (number, series(trace, flow))
        for number, flow in enumerate(flows)
        for trace in run.traces
        if flow in trace.manifest.flows
    ]
    numbers = np.repeat([number for number, _ in samples], [one.at_s.size for _, one in samples])
    at_s = np.concatenate([np.empty(0), *(one.at_s for _, one in samples)])
    values = np.concatenate([np.empty(0), *(one.values for _, one in samples)])
    inside = (at_s >= begin_s) & (at_s < end_s) & np.isfinite(values)
    steps = ((at_s[inside] - begin_s) / (end_s - begin_s) * POINTS).astype(np.int64)
    cells, shape = numbers[inside] * POINTS + steps, (len(flows), POINTS)
    counts = np.bincount(cells, minlength=len(flows) * POINTS)
    with np.errstate(invalid="ignore"):
        means = (np.bincount(cells, values[inside], minlength=counts.size) / counts).reshape(shape)
    tops = np.fmax.reduce(means, axis=1)
    levels = np.rint(means / np.where(tops == 0, 1.0, tops)[:, None] * (len(LEVELS) - 1))
    digits = np.where(np.isnan(levels), UNKNOWN, np.array([*LEVELS])[np.nan_to_num(levels).astype(np.int64)])
    return [
        [float(f"{top:.3g}"), "".join(of_flow)] if top == top else []
        for top, of_flow in zip(tops.tolist(), digits.tolist(), strict=True)
    ]


SMALL: tuple[Callable[[Trace, str], Samples], ...] = (
    rate.received_kbps,
    picture_delay_ms,
    reported_lost_percent,
    frame_height,
    frozen_percent,
)
"""The curves of a small timeline, in the order of the data."""
