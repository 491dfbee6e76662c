"""The timeline of a page: for each flow rows of rate, delay, loss, picture and sound on one axis of time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from rtclab.metrics import courses, delay, rate, wire
from rtclab.metrics.rate import path_changes
from rtclab.report import plot_kinds
from rtclab.report.account_strips import FROZEN, freeze_strips, limit_strips, wait_stacks
from rtclab.report.drawing import DASHED, DOTTED, Axes, Boxes, Line, Mark, Style
from rtclab.report.flow_lines import FlowLine, Series, band_of, capacity, lines_of
from rtclab.report.flow_plots import DELAY, FRAMES, OVER_REPEATS, RATE, guides_of, loss_panel
from rtclab.report.plot import Plot
from rtclab.report.plot_kinds import Curve, Panel, Strip
from rtclab.report.plots_of_runs import cut
from rtclab.report.why import FlowAccount
from rtclab.scenario import Bitrate
from rtclab.trace import NS_PER_S, Run

POINTS = 240
"""Maximum number of points of a line."""
STRIP = 0.22
"""Height of a strip below zero as a share of the largest value of its row."""
LETTER = 0.013
"""Width of a letter in a strip as a part of the width of the timeline; on a phone it is more."""
MOST_NAMED = 3
"""Maximum number of boxes that the title of a row names."""
MOST_EVENTS = 8
"""Maximum number of events that are told; a recorded capacity has thousands."""


@dataclass(frozen=True)
class TimelineRow:
    """A row of the timeline: name, label of its axis, height in pixels, and what makes its panel."""

    name: str
    label: str
    height_px: int
    panel: Callable[[FlowLine], Panel]


def timeline(run: Run, flows: Sequence[str], accounts: Sequence[FlowAccount]) -> list[Plot]:
    """The rows that have data for some of the flows, with a pair of axes for each flow in each."""
    of_flow = {one.flow: one for one in accounts}
    look = Style("", "")
    lines = [
        replace(line, account=of_flow.get(line.flow), points=POINTS)
        for line in lines_of([(run, flow, look) for flow in flows])
    ]
    rows = [plot for row in ROWS if (plot := _row(row, [row.panel(line) for line in lines])) is not None]
    if not rows:
        return []
    end_s = max(plot.x.end for plot in rows)
    events = events_of(run)
    *others, last = [replace(plot, x=replace(plot.x, end=end_s), events=events) for plot in rows]
    return [
        cut(plot, [run]) for plot in (*(replace(one, x=replace(one.x, label="")) for one in others), last)
    ]


def _row(row: TimelineRow, panels: Sequence[Panel]) -> Plot | None:
    if not any(panel.curves or panel.boxes or panel.strips for panel in panels):
        return None
    plot = plot_kinds.over_time(row.name, row.label, "", panels, row.label, OVER_REPEATS, STRIP)
    axes = [Axes(_title(row.label, one.marks), one.marks, one.note) for one in plot.axes]
    return replace(plot, axes=axes, height_px=row.height_px, compact=True)


def _title(label: str, marks: Sequence[Mark]) -> str:
    """The label of a row, and what is drawn in it: the largest boxes, and lines that are not solid."""
    stacks = [mark for mark in marks if isinstance(mark, Boxes) and not mark.texts]
    sizes = {one.look.label: float(((one.end - one.x) * (one.high - one.low)).sum()) for one in stacks}
    largest = [name.removeprefix("lost ") for name in sorted(sizes, key=lambda name: -sizes[name])]
    dotted = [mark.look.label for mark in marks if isinstance(mark, Line) and mark.look.dash == DOTTED]
    dashed = [mark.look.label for mark in marks if isinstance(mark, Line) and mark.look.dash == DASHED]
    most = "most: " if len(largest) > MOST_NAMED else ""
    told = [most + ", ".join(largest[:MOST_NAMED])] if largest else []
    told += [f"dotted: {name}" for name in dotted] + [f"dashed: {name}" for name in dashed]
    told += ["grey: frozen"] if any(mark.look == FROZEN for mark in marks) else []
    return "; ".join([label, *told])


def _curves(line: FlowLine, *series: tuple[Style, Series]) -> list[Curve]:
    """The first of the series that has values, as a curve."""
    bands = ((look, band_of(line, of)) for look, of in series)
    known = (Curve(look, band, len(line.run.traces) > 1) for look, band in bands if band.at_s.size)
    return [*islice(known, 1)]


def _rate(line: FlowLine) -> Panel:
    received = _curves(
        line,
        (Style("received", RATE), rate.received_kbps),
        (Style("RTP received, by getStats", RATE), wire.stats_received_kbps),
        (Style("RTP sent, by getStats", RATE), wire.stats_sent_kbps),
    )
    guides = guides_of("target", rate.controller_target_kbps, [line]) or guides_of(
        "target", rate.target_kbps, [line]
    )
    strips = limit_strips(line)
    end_s = max((float(one.end_s.max()) for one in strips), default=0.0)
    return Panel("", received, capacity(line), guides, [_labelled(one, end_s) for one in strips])


def _labelled(strip: Strip, end_s: float) -> Strip:
    """The strip with its name in the stretches that are long enough for it."""
    name = strip.look.label.removeprefix("limit: ")
    long = strip.end_s - strip.begin_s > LETTER * len(name) * end_s
    return replace(strip, labels=[name if one else "" for one in long.tolist()])


def _delay(line: FlowLine) -> Panel:
    if boxes := wait_stacks(line):
        return Panel("", (), boxes=boxes)
    curves = _curves(
        line,
        (Style("one-way delay", DELAY), delay.one_way_delay_ms),
        (Style("round trip", DELAY), delay.rtt_ms),
    )
    return Panel("", curves)


def _loss(line: FlowLine) -> Panel:
    return loss_panel(line) or Panel("", _curves(line, (Style("lost", DELAY), courses.lost_percent)))


def _picture(line: FlowLine) -> Panel:
    return Panel(
        "", _curves(line, (Style("lines", FRAMES), courses.frame_height)), strips=freeze_strips(line)
    )


def _sound(line: FlowLine) -> Panel:
    return Panel("", _curves(line, (Style("made up", DELAY), courses.concealed_percent)))


ROWS = (
    TimelineRow("timeline-rate", "Rate (kbit/s)", 80, _rate),
    TimelineRow("timeline-delay", "Delay (ms)", 54, _delay),
    TimelineRow("timeline-loss", "Lost (%)", 40, _loss),
    TimelineRow("timeline-picture", "Picture (lines)", 54, _picture),
    TimelineRow("timeline-sound", "Sound made up (%)", 36, _sound),
)


def events_of(run: Run) -> list[tuple[float, str]]:
    """What changed during the call, as time in s and words: paths, and people who came late or left early.

    They are those of the first repeat, because paths and people follow the scenario. Empty if there are too
    many to tell.
    """
    found: list[tuple[float, str]] = []
    for trace in run.traces[:1]:
        for path, (at_ns, capacity_bps) in trace.cached(path_changes, "capacity_bps").items():
            changes = zip(at_ns[1:], capacity_bps[:-1], capacity_bps[1:], strict=True)
            found += [
                (at / NS_PER_S, f"{path} {_change(before, after)}")
                for at, before, after in changes
                if before != after
            ]
        end_s = trace.manifest.duration_ns / NS_PER_S
        for at_ns, person, event in trace.table("events").select("at_ns", "participant", "event").iter_rows():
            late = event == "joined" and at_ns > NS_PER_S
            early = event == "left" and at_ns / NS_PER_S < end_s - 1
            if late or early:
                found.append((at_ns / NS_PER_S, f"{person} {'joins' if late else 'leaves'}"))
        if trace.window is not None:
            found = [one for one in found if trace.window[0] <= one[0] < trace.window[1]]
    return sorted(found) if len(found) <= MOST_EVENTS else []


def _change(before: float, after: float) -> str:
    if np.isinf(after):
        return "is not limited any more"
    if after == 0:
        return "carries nothing"
    way = "falls" if after < before else "rises"
    return f"{way} to {Bitrate(bps=round(after))}"
