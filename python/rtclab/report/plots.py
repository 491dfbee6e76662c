"""Which plots a page has: rate, target, delay, its distribution, rate per repeat, frame rate.

The same for one run, with a colour per flow, and for two runs side by side, with a colour per run.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from rtclab.metrics import flows_of, media, rate, wire
from rtclab.report.draw import Look, Panel, Steps, draw_distributions, draw_panels, draw_repeats
from rtclab.report.figure import COLOURS, Plot
from rtclab.report.lines import (
    Line,
    Series,
    band_of,
    capacity,
    curve,
    delay_curve,
    delay_distribution,
    flow_in_words,
    lines_of,
    rate_per_repeat,
)
from rtclab.trace import Run

MOST_PANELS = 6
"""With more flows than this, all share one panel, without ranges."""
MOST_CURVES = 20
"""More cannot be told apart: of a run with more flows the plots show the first ones, its table all."""
COMPARISON_COLOURS = (2, 3)
"""Not those of the first flows, so that a colour does not change its meaning between two pages."""

OVER_REPEATS = "smallest to largest repeat"
Panels = list[list[Line]]


def run_plots(run: Run) -> list[Plot]:
    """The plots of one run, in the order of the page; none if no repeat finished."""
    flows = flows_of(run)[:MOST_CURVES]
    lines = lines_of([(run, flow, Look.numbered(i, flow_in_words(flow))) for i, flow in enumerate(flows)])
    if not lines:
        return []
    panels = [[line] for line in lines] if len(lines) <= MOST_PANELS else [lines]
    return [
        _rate(panels),
        _target(panels),
        *_wire_and_stats(lines),
        _delay(panels),
        _distribution([lines]),
        _repeats(run, lines),
        *_frame_rate(panels),
    ]


def comparison_plots(a: Run, b: Run) -> list[Plot]:
    """The plots of two runs side by side, a panel for each of the first flows that both have."""
    flows = [flow for flow in flows_of(a) if flow in flows_of(b)][:MOST_PANELS]
    if not flows:
        return []
    look_a, look_b = (
        replace(Look.numbered(index, run.name), colour=COLOURS[colour])
        for index, (run, colour) in enumerate(zip((a, b), COMPARISON_COLOURS, strict=True))
    )
    lines = lines_of([pair for flow in flows for pair in ((a, flow, look_a), (b, flow, look_b))])
    panels = [lines[index : index + 2] for index in range(0, len(lines), 2)]
    return [_rate(panels), _delay(panels), _distribution(panels), *_frame_rate(panels)]


def _title(lines: list[Line]) -> str:
    """The flow that a panel shows; nothing where it shows several."""
    flows = {line.flow for line in lines}
    return flow_in_words(flows.pop()) if len(flows) == 1 else ""


def _over_time(panels: Panels, series: Series) -> list[Panel]:
    return [
        Panel(_title(lines), [curve(line, series, filled=bool(_title(lines))) for line in lines])
        for lines in panels
    ]


def _common_capacity(lines: list[Line]) -> Steps | None:
    """The capacity that all lines of a panel share; nothing where two runs differ in it."""
    first, *others = (capacity(line) for line in lines)
    return first if all(first.same_as(other) for other in others) else None


def _rate(panels: Panels) -> Plot:
    drawn = [
        Panel(panel.title, panel.curves, limit=_common_capacity(lines) if panel.title else None)
        for panel, lines in zip(_over_time(panels, rate.received_kbps), panels, strict=True)
    ]
    return Plot(
        "rate",
        "Receiving rate against the capacity",
        "IP bytes delivered in each second, mean over repeats. "
        "The capacity is that of the narrowest path of the route; two runs that differ in it show none.",
        len(drawn),
        partial(draw_panels, drawn, "Rate (kbit/s)", OVER_REPEATS),
    )


def _target(panels: Panels) -> Plot:
    drawn = [
        Panel(
            panel.title, panel.curves, guides=[("target", band_of(line, rate.target_kbps)) for line in lines]
        )
        for panel, lines in zip(_over_time(panels, rate.sent_kbps), panels, strict=True)
    ]
    return Plot(
        "target",
        "Sending rate and target bitrate",
        "What left the sender (IP bytes, with headers and retransmissions) and what the congestion control "
        "told the encoder to produce; means over repeats.",
        len(drawn),
        partial(draw_panels, drawn, "Rate (kbit/s)", OVER_REPEATS),
    )


def _wire_and_stats(lines: list[Line]) -> list[Plot]:
    """A panel per stream; no plot where packets were not recorded or there are too many streams to see."""
    drawn = []
    for line in lines:
        traces = line.run.traces
        kinds = sorted(
            {kind for trace in traces for flow, kind in wire.streams_of(trace) if flow == line.flow}
        )
        for kind in kinds:
            if any(wire.wire_received_kbps(trace, line.flow, kind=kind).values.size for trace in traces):
                drawn.append(_stream_panel(line, kind))
    if not 0 < len(drawn) <= MOST_PANELS:
        return []
    return [
        Plot(
            "wire-and-stats",
            "Rate on the wire and in getStats",
            "Full line: IP bytes of the RTP packets that reached the receiver in each second. Dotted: RTP "
            "headers and payload that the receiver's getStats counted from one report to the next. The wire "
            "is higher by IP, UDP and SRTP headers and by retransmissions and padding. Where the curves "
            "cross, the seconds of the wire and the intervals between reports lie apart.",
            len(drawn),
            partial(draw_panels, drawn, "Rate (kbit/s)", OVER_REPEATS),
        )
    ]


def _stream_panel(line: Line, kind: str) -> Panel:
    on_wire = curve(line, partial(wire.wire_received_kbps, kind=kind), filled=True)
    counted = band_of(line, partial(wire.stats_received_kbps, kind=kind))
    return Panel(f"{flow_in_words(line.flow)}, {kind}", [on_wire], guides=[("getStats", counted)])


def _delay(panels: Panels) -> Plot:
    drawn = [
        Panel(_title(lines), [delay_curve(line, filled=bool(_title(lines))) for line in lines])
        for lines in panels
    ]
    return Plot(
        "delay",
        "One-way delay over time",
        "Mean over the packets of each second, and over repeats.",
        len(drawn),
        partial(draw_panels, drawn, "One-way delay (ms)", "smallest to largest packet"),
    )


def _distribution(panels: Panels) -> Plot:
    drawn = [(_title(lines), [delay_distribution(line) for line in lines]) for lines in panels]
    return Plot(
        "delay-distribution",
        "Distribution of the one-way delay",
        "Share of the received packets, of all repeats together, that took at most so long.",
        len(drawn),
        partial(draw_distributions, drawn, "One-way delay (ms)"),
    )


def _repeats(run: Run, lines: list[Line]) -> Plot:
    numbers = [repeat.repeat for repeat in run.repeats if repeat.status == "finished"]
    return Plot(
        "repeats",
        "Receiving rate of each repeat",
        "Mean of each repeat with the standard deviation of its one-second samples; hollow, on the right, "
        "the mean over repeats with its 95 % interval.",
        1,
        partial(draw_repeats, [rate_per_repeat(line) for line in lines], numbers, "Rate (kbit/s)"),
    )


def _frame_rate(panels: Panels) -> list[Plot]:
    """Of the flows that have frames: TCP and the legs to and from a server have none."""
    with_frames = [
        replace(panel, curves=curves)
        for panel in _over_time(panels, media.decoded_fps)
        if (curves := [one for one in panel.curves if one.band.at_s.size])
    ]
    if not with_frames:
        return []
    return [
        Plot(
            "frame-rate",
            "Frame rate",
            "Frames decoded at the receiver, mean over repeats.",
            len(with_frames),
            partial(draw_panels, with_frames, "Frames per second", OVER_REPEATS),
        )
    ]
