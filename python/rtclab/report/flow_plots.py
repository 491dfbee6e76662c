"""The plots of flows: rate, delay, loss, pictures, sound, estimate and processor, over time and otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from rtclab.metrics import arrivals, courses, delay, host, media, rate, wire
from rtclab.metrics.accounts.waits import STAGES
from rtclab.report import plot_kinds
from rtclab.report.account_strips import LOSS_COLOURS, freeze_strips, limit_strips, wait_stacks
from rtclab.report.bands import Band
from rtclab.report.drawing import COLOURS, DOTTED, INK, Boxes, Style
from rtclab.report.flow_lines import (
    FlowLine,
    Series,
    band_of,
    capacity,
    curve,
    delay_curve,
    delay_distribution,
    rate_per_repeat,
)
from rtclab.report.plot import Plot
from rtclab.report.plot_kinds import Curve, Panel, Steps, Strip
from rtclab.report.shown_flows import flows_in
from rtclab.report.why import LOSSES_IN_WORDS
from rtclab.report.words import flow_in_words

MOST_PANELS = 6
"""With more flows than this, there is a panel for each receiver, without ranges."""
MOST_RANGES = 3
"""With more curves in a panel than this, the ranges around them would hide each other."""
RATE, DELAY, FRAMES = COLOURS[0], COLOURS[1], COLOURS[2]
"""The colours of single curves in rows of a timeline."""
OVER_REPEATS = "range over repeats"
OVER_PACKETS = "range over packets"
Panels = list[list[FlowLine]]
Guides = list[tuple[str, Band]]
"""Curves without a colour of their own, each with its label."""
Maker = Callable[[Panels], Plot | None]
"""Makes a plot from the lines of each panel; None if there are no data for it."""


def _together(panels: Panels) -> Panels:
    """All lines of a run in one panel, unless its panels are of receivers, and not of flows."""
    lines = _lines(panels)
    return panels if len(lines) > MOST_PANELS else [lines]


def _of_only(lines: list[FlowLine], strips: Callable[[FlowLine], list[Strip]]) -> list[Strip]:
    """The strips of the only line of a panel; of several, one could not tell whose they are."""
    return strips(lines[0]) if len(lines) == 1 else []


def _title(lines: list[FlowLine]) -> str:
    """The flow that a panel shows, or the receiver of its flows."""
    if _one_flow(lines):
        return flow_in_words(lines[0].flow)
    receivers = {flows_in(line.run)[line.flow].receiver for line in lines}
    return f"to {receivers.pop()}" if len(receivers) == 1 else ""


def _one_flow(lines: list[FlowLine]) -> bool:
    return len({line.flow for line in lines}) == 1


def _filled(lines: list[FlowLine]) -> bool:
    """Whether the curves of a panel have ranges around them."""
    return _one_flow(lines) and len(lines) <= MOST_RANGES


def _over_time(
    panels: Panels,
    series: Series,
    guides: Callable[[list[FlowLine]], Guides] | None = None,
    strips: Callable[[FlowLine], list[Strip]] = limit_strips,
) -> list[Panel]:
    drawn = [(lines, [curve(line, series, filled=_filled(lines)) for line in lines]) for lines in panels]
    return [
        Panel(_title(lines), curves, None, guides(lines) if guides else (), _of_only(lines, strips))
        for lines, curves in drawn
    ]


def _about_strips(panels: Sequence[Panel]) -> str:
    """What a caption says of the strips of limits, if there are any."""
    if not any(panel.strips for panel in panels):
        return ""
    return " Below zero: what limited the rate for most of each second."


def _about_freezes(panels: Sequence[Panel]) -> str:
    """What a caption says of the strips of frozen video, if there are any."""
    return " Below zero: when video was frozen." if any(panel.strips for panel in panels) else ""


def _plot(
    name: str,
    title: str,
    caption: str,
    panels: Sequence[Panel],
    unit: str = "Rate (kbit/s)",
    ranges: str = OVER_REPEATS,
) -> Plot | None:
    """A plot over time; None if it would have no panels."""
    return plot_kinds.over_time(name, title, caption, panels, unit, ranges) if panels else None


def _with_data(panels: Sequence[Panel]) -> list[Panel]:
    """The panels that have curves or boxes, without curves that have no points."""
    drawn = [(panel, [one for one in panel.curves if one.band.at_s.size]) for panel in panels]
    return [replace(panel, curves=curves) for panel, curves in drawn if curves or panel.boxes]


def guides_of(label: str, series: Series, lines: list[FlowLine]) -> Guides:
    """A series of the only line, if it has one; guides have no colours, so several would look alike."""
    if len(lines) != 1:
        return []
    values = band_of(lines[0], series)
    return [(label, values)] if values.at_s.size else []


_targets = partial(guides_of, "target", rate.target_kbps)
_control_targets = partial(guides_of, "target of congestion control", rate.controller_target_kbps)


def _common_capacity(lines: list[FlowLine]) -> Steps | None:
    """The capacity that all lines of a panel share; None if it differs between runs."""
    first, *others = (capacity(line) for line in lines)
    return first if all(first.same_as(other) for other in others) else None


def _rate(panels: Panels, condition: str = "") -> Plot | None:
    drawn = [
        replace(panel, limit=_common_capacity(lines) if _one_flow(lines) else None)
        for panel, lines in zip(_over_time(panels, rate.received_kbps, _control_targets), panels, strict=True)
    ]
    title, caption = "Receiving rate", "IP bytes delivered in each second, mean over repeats."
    if any(panel.limit is not None and not np.isnan(panel.limit.values).all() for panel in drawn):
        title += " against the capacity"
        caption += f" The capacity is the capacity of the narrowest path of the route{condition}."
    if any(panel.guides for panel in drawn):
        caption += " Dotted: the target of the sender's congestion control."
    return _plot("rate", title, caption + _about_strips(drawn), drawn)


def _waits(panels: Panels) -> Plot | None:
    """Where pictures waited; None if it is known of no flow."""
    drawn = [
        Panel(_title(lines), (), strips=_of_only(lines, freeze_strips), boxes=boxes)
        for lines in panels
        if len(lines) == 1 and (boxes := wait_stacks(lines[0]))
    ]
    caption = (
        "Time of each picture in each stage from the camera to the screen, mean over the pictures that were "
        "shown in each second of all repeats. "
    )
    caption += " ".join(
        f"{stage.capitalize().replace('_', ' ')}: {meaning}." for stage, meaning in STAGES.items()
    )
    return _plot("waits", "Where pictures waited", caption + _about_freezes(drawn), drawn, "Time (ms)")


def _target(panels: Panels) -> Plot | None:
    """None if nobody saw the packets, as in a log of getStats."""
    drawn = _over_time(panels, rate.sent_kbps, _targets)
    if not _with_data(drawn):
        return None
    title, caption = "Sending rate", "IP bytes sent in each second, with headers and retransmissions"
    if any(panel.guides for panel in drawn):
        title += " and target bitrate"
        caption += ", and the bitrate that congestion control asked of the encoder"
    return _plot("target", title, f"{caption}; means over repeats.{_about_strips(drawn)}", drawn)


def _stats_rate(panels: Panels) -> Plot | None:
    """Rates of flows that only getStats describes, as in a log of a browser; None if there are none."""
    drawn = _with_data(
        [
            Panel(_title(lines), _stats_curves(lines), None, _targets(lines), _of_only(lines, limit_strips))
            for lines in panels
        ]
    )
    caption = "RTP headers and payload that the browser sent or received between two reports of getStats."
    if any(panel.guides for panel in drawn):
        caption += " Dotted: the bitrate that congestion control asked of the encoder."
    return _plot("stats-rate", "Rate in getStats", caption + _about_strips(drawn), drawn)


def _stats_curves(lines: list[FlowLine]) -> list[Curve]:
    curves = []
    for line in lines:
        if band_of(line, rate.received_kbps).at_s.size:
            continue
        for series in (wire.stats_sent_kbps, wire.stats_received_kbps):
            one = curve(line, series, filled=_filled(lines))
            if one.band.at_s.size:
                curves.append(one)
                break
    return curves


def _wire_and_stats(panels: Panels) -> Plot | None:
    """A panel per stream; None if packets were not recorded or there are too many streams."""
    streams = [(line, kind) for line in _lines(panels) for kind in _kinds(line)]
    drawn = [_stream_panel(line, kind) for line, kind in streams] if len(streams) <= MOST_PANELS else []
    return _plot(
        "wire-and-stats",
        "Rate on the wire and in getStats",
        "Solid: IP bytes of the RTP packets that reached the receiver in each second. Dotted: RTP headers "
        "and payload that the receiver's getStats counted between two reports. The rate on the wire is "
        "higher because it includes IP, UDP and SRTP overhead, retransmissions and padding. The curves can "
        "cross, because the intervals between reports do not coincide with the seconds on the wire.",
        _with_data(drawn),
    )


def _kinds(line: FlowLine) -> list[str]:
    """The kinds of media in the reports of the flow's receiver."""
    return sorted({kind for trace in line.run.traces for kind in wire.kinds_of(trace, line.flow)})


def _stream_panel(line: FlowLine, kind: str) -> Panel:
    on_wire = curve(line, partial(wire.wire_received_kbps, kind=kind), filled=True)
    counted = band_of(line, partial(wire.stats_received_kbps, kind=kind))
    return Panel(f"{flow_in_words(line.flow)}, {kind}", [on_wire], guides=[("getStats", counted)])


def _delay(panels: Panels) -> Plot | None:
    drawn = [
        Panel(_title(lines), [delay_curve(line, filled=_filled(lines)) for line in lines]) for lines in panels
    ]
    return _plot(
        "delay",
        "One-way delay over time",
        "Mean over the packets of each second, and over repeats.",
        drawn,
        "One-way delay (ms)",
        OVER_PACKETS,
    )


def _distribution(panels: Panels) -> Plot:
    return plot_kinds.distributions(
        "delay-distribution",
        "Distribution of the one-way delay",
        "Cumulative share of the packets received in all repeats.",
        [(_title(lines), [delay_distribution(line) for line in lines]) for lines in panels],
        "One-way delay (ms)",
    )


def _lines(panels: Panels) -> list[FlowLine]:
    return [line for lines in panels for line in lines]


def _repeats(panels: Panels) -> Plot:
    lines = _lines(panels)
    return plot_kinds.per_repeat(
        "repeats",
        "Receiving rate of each repeat",
        "Mean of each repeat with the standard deviation of its one-second samples. The hollow markers on "
        "the right are means over repeats with their 95 % confidence intervals.",
        [(_title(of_one), [rate_per_repeat(line) for line in of_one]) for of_one in _together(panels)],
        [repeat.repeat for repeat in lines[0].run.repeats if repeat.status == "finished"],
        "Rate (kbit/s)",
    )


def _one_series(
    panels: Panels, name: str, title: str, caption: str, series: Series, unit: str, *, freezes: bool = False
) -> Plot | None:
    """A series over time, and below it when video was frozen if that is wanted; None without data."""
    drawn = _with_data(_over_time(panels, series, strips=freeze_strips if freezes else _no_strips))
    return _plot(name, title, caption + _about_freezes(drawn), drawn, unit)


def _no_strips(_: FlowLine) -> list[Strip]:
    return []


def _loss(panels: Panels) -> Plot | None:
    """Lost packets, of a single flow by cause and with what was not repaired; None if nothing is known."""
    drawn = []
    for lines in panels:
        panel = loss_panel(lines[0], _title(lines)) if len(lines) == 1 else None
        if panel is None:
            curves = [curve(line, courses.lost_percent, filled=_filled(lines)) for line in lines]
            panel = Panel(_title(lines), curves)
        drawn.append(panel)
    drawn = _with_data(drawn)
    caption = "Lost packets in % of the packets sent in each second, over all repeats."
    if any(panel.boxes for panel in drawn):
        caption += " Colours: why they were lost. Dotted: packets of video that nothing replaced in time."
    return _plot("loss", "Loss and repair", caption, drawn, "Lost (%)")


def loss_panel(line: FlowLine, title: str = "") -> Panel | None:
    """The lost packets of a flow by cause, and those that nothing replaced; None if no causes are known."""
    boxes = _loss_stacks(line)
    if not boxes:
        return None
    guides = guides_of("not repaired in time", courses.unrepaired_percent, [line])
    return Panel(title, (), guides=guides, boxes=boxes)


def _loss_stacks(line: FlowLine) -> list[Boxes]:
    """The lost packets of a flow in each second by cause, in %; empty if none are known."""
    seconds, shares = courses.losses_by_cause(line.run.traces, line.flow)
    low = np.zeros(seconds.size)
    stacks = []
    for cause, share in shares.items():
        high, some = low + share, share > 0
        look = Style(f"lost {LOSSES_IN_WORDS[cause]}", LOSS_COLOURS[cause])
        begins_s = seconds[some].astype(np.float64)
        stacks.append(Boxes(look, begins_s, begins_s + 1, low[some], high[some]))
        low = high
    return stacks


def _estimate(panels: Panels) -> Plot | None:
    """What the sender's congestion control thinks; None if no trace has it."""
    drawn = []
    for lines in panels:
        if len(lines) != 1:
            continue
        (line,) = lines
        names = courses.estimates(line.run.traces, line.flow)
        in_order = [name for name in dict.fromkeys([*ESTIMATES, *names]) if name in names]
        series: list[tuple[str, Series]] = [
            (
                ESTIMATES.get(name, name.removesuffix("_bps").replace("_", " ")),
                partial(courses.estimate_kbps, name=name),
            )
            for name in in_order
            if name not in NO_ESTIMATES
        ] or [("available, by getStats", courses.available_kbps)]
        curves = [
            Curve(_of_estimate(place, label), band_of(line, of), filled=False)
            for place, (label, of) in enumerate(series)
        ]
        drawn.append(Panel(_title(lines), curves, strips=limit_strips(line)))
    drawn = _with_data(drawn)
    caption = (
        "Rates that the sender's congestion control has computed, mean over repeats: its target, and what "
        "its parts would allow."
    )
    return _plot("estimate", "Estimate of the sender, and its causes", caption + _about_strips(drawn), drawn)


def _of_estimate(index: int, name: str) -> Style:
    """How an estimate is drawn: the target as a target everywhere, others by their place."""
    return Style(name, INK, DOTTED) if name == TARGET else Style.numbered(index, name)


def _of_captures(panels: Panels) -> Panels:
    """The panels of captures. Of other calls, accounts tell more than packets do."""
    return [lines for lines in panels if lines and lines[0].run.backend == "capture"]


TARGET = "target"
ESTIMATES = {
    "target_bps": TARGET,
    "delay_based_bps": "by delay",
    "loss_based_bps": "by loss",
    "acked_bps": "acknowledged",
    "probe_bps": "by probes",
    "link_capacity_bps": "capacity, estimated",
}
"""The rates of Google congestion control in traces that are drawn first, and their names."""
NO_ESTIMATES = ("padding_rate_bps", "pacing_rate_bps")
"""Rates of a control that are no estimates."""

_rtt = partial(
    _one_series,
    name="rtt",
    title="Round-trip time",
    caption="As the sender's getStats has it from RTCP, mean over repeats.",
    series=delay.rtt_ms,
    unit="Round-trip time (ms)",
)
_resolution = partial(
    _one_series,
    name="resolution",
    title="Resolution",
    caption="Lines of the pictures that the receiver decoded, mean over repeats.",
    series=courses.frame_height,
    unit="Lines",
    freezes=True,
)
_frame_rate = partial(
    _one_series,
    name="frame-rate",
    title="Frame rate",
    caption="Frames decoded by the receiver in each second, mean over repeats.",
    series=media.decoded_fps,
    unit="Frame rate (frame/s)",
    freezes=True,
)
_jitter_buffer = partial(
    _one_series,
    name="jitter-buffer",
    title="Jitter buffer of video",
    caption="Mean time that frames waited between two reports, from their first packet to the decoder.",
    series=media.jitter_buffer_ms,
    unit="Time (ms)",
    freezes=True,
)
_sound = partial(
    _one_series,
    name="sound",
    title="Sound made up",
    caption="Sound that the receiver made up because packets were missing or late, in % of what it played.",
    series=courses.concealed_percent,
    unit="Made up (%)",
)
_processor = partial(
    _one_series,
    name="processor",
    title="Processor of the sender",
    caption="CPU use in every second, mean over repeats. 100 % is one core.",
    series=host.cpu_percent,
    unit="CPU (% of a core)",
)
_jitter = partial(
    _one_series,
    name="jitter",
    title="Jitter of arrivals",
    caption="Of the packets of video, by RFC 3550, section 6.4.1: its mean in each second, and over repeats.",
    series=arrivals.jitter_ms,
    unit="Jitter (ms)",
)
_packet_rate = partial(
    _one_series,
    name="packet-rate",
    title="Packets received",
    caption="IP packets that reached the receiver in each second, mean over repeats.",
    series=rate.received_packets,
    unit="Packets (1/s)",
)

RUN_PLOTS: dict[str, Maker] = {
    "rate": _rate,
    "waits": _waits,
    "delay": _delay,
    "rtt": _rtt,
    "loss": _loss,
    "resolution": _resolution,
    "frame-rate": _frame_rate,
    "jitter-buffer": _jitter_buffer,
    "sound": _sound,
    "estimate": _estimate,
    "processor": _processor,
    "target": _target,
    "stats-rate": _stats_rate,
    "jitter": lambda panels: _jitter(_of_captures(panels)),
    "packet-rate": lambda panels: _packet_rate(_of_captures(panels)),
    "delay-distribution": lambda panels: _distribution(_together(panels)),
    "repeats": _repeats,
    "wire-and-stats": _wire_and_stats,
}
"""The plots of a run by name, in the order of the page. `rtclab why` explains the first and the second."""

COMPARISON_PLOTS: dict[str, Maker] = {
    "rate": partial(_rate, condition="; it is drawn only if all runs have the same"),
    "delay": _delay,
    "loss": _loss,
    "resolution": _resolution,
    "frame-rate": _frame_rate,
    "sound": _sound,
    "delay-distribution": _distribution,
}
"""The plots that compare runs by name, in the order of the page."""
