"""The accounts of a flow in plots: what limited its rate when, its freezes, and where pictures waited."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

import numpy as np
import polars as pl

from rtclab.metrics.accounts.evidence import where_limited
from rtclab.metrics.accounts.limits import NAMES, course_of, sending_leg
from rtclab.metrics.accounts.stalls import stalls_of
from rtclab.metrics.accounts.waits import STAGES, waits_of
from rtclab.metrics.promises import inside_ns
from rtclab.metrics.series import Array, span_ns
from rtclab.report.drawing import INK, Boxes, Style
from rtclab.report.flow_lines import FlowLine
from rtclab.report.plot_kinds import Strip
from rtclab.report.why import stall_in_words
from rtclab.trace import NS_PER_MS, NS_PER_S

LIMIT_COLOURS: dict[str, str] = {
    "pause": "#eaeaea",
    "start": "#fbcfdc",
    "maximum": "#9ad695",
    "source": "#7bbde6",
    "window": "#c795d1",
    "delay": "#d48418",
    "unknown": "#878787",
    "server": "#2b847d",
    "processor": "#8053b1",
    "loss": "#a8201b",
    "feedback": "#2d3078",
}
"""The colour of each limit on all pages. Each is darker than the one before by 5 steps of lightness or more,
so that they differ in greyscale (L* of CIE 1976, from 0 to 100)."""
LOSS_COLOURS: dict[str, str] = {
    "outage": "#2d3078",
    "queue": "#d48418",
    "aqm": "#c795d1",
    "burst": "#a8201b",
    "random": "#e57373",
    "unknown": "#878787",
}
"""The colour of each cause of losses on all pages."""
FROZEN = Style("frozen", INK)
DARKEST, LIGHTEST = (0, 32, 77), (255, 234, 70)
MIDDLE = (124, 123, 120)
"""Red, green and blue of the first, the last and the middle stage. Between them, hue and lightness change
evenly (cividis: Nuñez, Anderton and Renslow 2018)."""
MOST_STEPS = 300
"""Maximum number of steps in which a strip or a stack is made; more would only make the page larger."""
MOST_FREEZES = 200
"""Maximum number of freezes that a panel shows; the longest are kept."""
NEARLY_ALL = 0.995


def limit_strips(line: FlowLine) -> list[Strip]:
    """What limited an explained flow most, over all repeats, in each second; none if nothing is known."""
    if line.account is None:
        return []
    seconds = _seconds_of_limits(line)
    if not seconds.weights[:, np.array(NAMES) != "unknown"].any():
        return []
    found: dict[str, list[tuple[float, float, str]]] = {}
    for first, last, code in _stretches(seconds.weights):
        part = seconds.weights[first:last]
        share = part[:, code].sum() / part.sum()
        begin_s, end_s = first * seconds.step_s, min(last * seconds.step_s, seconds.end_s)
        mostly = "" if share > NEARLY_ALL else f", {100 * share:.0f} % of this time"
        limit = line.account.limit_there(NAMES[code], _where(line, NAMES[code], begin_s, end_s))
        text = f"{begin_s:g} to {round(end_s, 1):g} s: limited by {limit}{mostly}"
        found.setdefault(NAMES[code], []).append((begin_s, end_s, text))
    return [
        _strip(Style(f"limit: {name}", LIMIT_COLOURS[name]), found[name]) for name in NAMES if name in found
    ]


def _where(line: FlowLine, limit: str, begin_s: float, end_s: float) -> str:
    """Where a flow was limited in a time, by :func:`.where_limited` of the first repeat that knows."""
    times_ns = int(begin_s * NS_PER_S), int(end_s * NS_PER_S)
    places = (
        where_limited(trace, sending_leg(trace, line.flow), limit, *times_ns) for trace in line.run.traces
    )
    return next(filter(None, places), "")


@dataclass(frozen=True)
class _Seconds:
    """How long each limit held in each step of ``step_s`` seconds, in ns, of shape (steps, limits)."""

    weights: Array
    step_s: float
    end_s: float


def _seconds_of_limits(line: FlowLine) -> _Seconds:
    spans = [span_ns(trace, line.flow) for trace in line.run.traces]
    end_s = max((end_ns for _, end_ns in spans), default=0) / NS_PER_S
    step_s = _step_s(end_s)
    count = max(ceil(end_s / step_s), 1)
    weights = np.zeros((count, len(NAMES)))
    for trace, span in zip(line.run.traces, spans, strict=True):
        course = course_of(trace, line.flow)
        if course is None:
            continue
        edges_ns = course.edges_ns
        index = ((edges_ns[:-1] + edges_ns[1:]) / 2 / NS_PER_S / step_s).astype(np.int64).clip(max=count - 1)
        held_ns = inside_ns(np.column_stack([edges_ns[:-1], edges_ns[1:]]), span)
        np.add.at(weights, (index, course.codes), held_ns)
    return _Seconds(weights, step_s, end_s)


def _step_s(end_s: float) -> float:
    """Length in s of the steps of a plot that ends at a time."""
    return max(1.0, ceil(end_s / MOST_STEPS))


def _stretches(weights: Array) -> Iterator[tuple[int, int, int]]:
    """First step, end and code of each stretch in which the same limit held most."""
    codes = np.where(weights.any(axis=1), weights.argmax(axis=1), -1)
    edges = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), codes.size]
    for first, last in pairwise(edges):
        if codes[first] >= 0:
            yield first, last, int(codes[first])


def freeze_strips(line: FlowLine) -> list[Strip]:
    """The freezes of an explained flow in all repeats, each with its cause."""
    if line.account is None:
        return []
    freezes = [
        (one, trace.manifest.repeat) for trace in line.run.traces for one in stalls_of(trace, line.flow)
    ]
    if not freezes:
        return []
    longest = sorted(freezes, key=lambda pair: -pair[0].length_s)[:MOST_FREEZES]
    several = len(line.run.traces) > 1
    rows = []
    for one, repeat in longest:
        which = f" in repeat {repeat}" if several else ""
        text = f"frozen for {one.length_s:.2f} s{which}: it {stall_in_words(one)}"
        rows.append((one.begin_ns / NS_PER_S, one.end_ns / NS_PER_S, text))
    return [_strip(FROZEN, rows, opacity=0.4 if several else 1.0)]


def _strip(look: Style, rows: Sequence[tuple[float, float, str]], opacity: float = 1.0) -> Strip:
    begin_s, end_s, texts = zip(*rows, strict=True)
    return Strip(look, np.array(begin_s), np.array(end_s), texts, opacity)


def wait_stacks(line: FlowLine) -> list[Boxes]:
    """The mean time in ms of pictures in each stage, over the pictures of each second and of all repeats.

    A stage that took no time is left out.
    """
    rows = pl.concat([waits_of(trace, line.flow) for trace in line.run.traces])
    if rows.is_empty():
        return []
    at_s = rows["rendered_ns"].to_numpy() / NS_PER_S
    step_s = _step_s(float(at_s.max()))
    steps, index = np.unique((at_s // step_s).astype(np.int64), return_inverse=True)
    begins_s = np.asarray(steps * step_s, dtype=np.float64)
    counts = np.bincount(index)
    stacks, low = [], np.zeros(steps.size)
    for look, stage in zip(stage_looks(), STAGES, strict=True):
        total_ms = np.bincount(index, rows[f"{stage}_ns"].to_numpy() / NS_PER_MS)
        if not total_ms.any():
            continue
        high = np.asarray(low + total_ms / counts, dtype=np.float64)
        stacks.append(Boxes(look, begins_s, begins_s + step_s, low, high))
        low = high
    return stacks


def stage_looks() -> list[Style]:
    """How the stages of a picture are drawn, in their order."""
    anchors = np.array([DARKEST, MIDDLE, LIGHTEST], dtype=np.float64)
    places = np.linspace(0, 2, len(STAGES))
    mixed = np.column_stack([np.interp(places, [0, 1, 2], anchors[:, channel]) for channel in range(3)])
    colours = ["#{:02x}{:02x}{:02x}".format(*row) for row in mixed.round().astype(int).tolist()]
    return [Style(stage.replace("_", " "), colour) for stage, colour in zip(STAGES, colours, strict=True)]
