"""The plots of reports: rates, delays, frame rate, and the receiving rate of each repeat.

Plots of one run have a colour per flow; with many flows, a panel per receiver and a colour per sender. Plots
that compare runs have a colour per run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice

import numpy as np

from rtclab.errors import BadInput
from rtclab.experiment.flows import Flows, chosen_flows
from rtclab.metrics import media, rate, wire
from rtclab.metrics.accounts.waits import STAGES
from rtclab.phrases import names_in_words
from rtclab.report import plot_kinds
from rtclab.report.account_strips import freeze_strips, limit_strips, wait_stacks
from rtclab.report.bands import Band
from rtclab.report.drawing import COLOURS, Boxes, Dots, Line, Style
from rtclab.report.flow_lines import (
    FlowLine,
    Series,
    band_of,
    capacity,
    curve,
    delay_curve,
    delay_distribution,
    lines_of,
    rate_per_repeat,
)
from rtclab.report.plot import Plot
from rtclab.report.plot_kinds import Curve, Panel, Steps, Strip
from rtclab.report.shown_flows import flows_in, main_flows
from rtclab.report.why import FlowAccount, why
from rtclab.report.words import flow_in_words
from rtclab.trace import FlowInfo, Run

MOST_PANELS = 6
"""With more flows than this, there is a panel for each receiver, without ranges."""
MOST_RECEIVERS = 12
"""Maximum number of panels with a receiver each."""
MOST_CURVES = 20
"""Maximum number of flows in a panel; more could not be distinguished."""
MOST_RANGES = 3
"""With more curves in a panel than this, the ranges around them would hide each other."""
FIRST_COLOUR_OF_RUNS = 2
"""Index of the colour of the first compared run. The first two are the colours of flows in reports."""

EXPLAINED = "explained-rate"
"""Name of the plot of rates for which a page with a panel per receiver has strips of limits."""

OVER_REPEATS = "range over repeats"
OVER_PACKETS = "range over packets"
Panels = list[list[FlowLine]]
Guides = list[tuple[str, Band]]
"""Curves without a colour of their own, each with its label."""


def run_plots(run: Run, wanted: Flows = None, accounts: Sequence[FlowAccount] = ()) -> list[Plot]:
    """The plots of one run for which it has data, in the order of the page; none if no repeat finished.

    They show the wanted flows, or all main flows. The plots of flows with accounts also show these.
    """
    flows = main_flows(run) if wanted is None else _chosen(wanted, run.flows)
    panels = _panels(run, flows, accounts)
    first, *others = RUN_PLOTS.items()
    reasons = {
        name: make for name, make in REASON_PLOTS.items() if name != EXPLAINED or len(flows) > MOST_PANELS
    }
    plots = _all(dict([first]), panels, len(flows))
    plots += _all(reasons, _explained(run, flows, accounts), 0)
    plots += _all(dict(others), panels, len(flows))
    return [_cut(plot, [run]) for plot in plots if _has_data(plot)]


def run_plot(run: Run, name: str, flow: Flows = None) -> Plot:
    """One plot of a run, by its name in ``RUN_PLOTS`` or ``REASON_PLOTS``.

    It is of the wanted flows or of all main flows; one of reasons, of those that `rtclab why` explains.

    Raises:
        BadInput: there is no plot or no flow with that name, or the run has no data for it.
    """
    flows = main_flows(run) if flow is None else _chosen(flow, run.flows)
    if name in REASON_PLOTS:
        panels = _explained(run, flows, why(run, None if flow is None else flows, MOST_PANELS).accounts)
    else:
        panels = _panels(run, flows)
    return _cut(_one(RUN_PLOTS | REASON_PLOTS, panels, name, run.name), [run])


def comparison_plots(runs: Mapping[str, Run], wanted: Flows = None) -> list[Plot]:
    """The plots that compare runs, given by their labels, with a panel for each flow that all runs have.

    There are at most ``MOST_PANELS``.
    """
    flows = _flows_of_runs(runs, wanted)
    panels = _panels_of_runs(runs, flows)
    return [_cut(plot, [*runs.values()]) for plot in _all(COMPARISON_PLOTS, panels, len(flows) * len(runs))]


def comparison_plot(runs: Mapping[str, Run], name: str, flow: Flows = None) -> Plot:
    """One plot that compares runs, by its name in ``COMPARISON_PLOTS``, of the wanted or of all main flows.

    Raises:
        BadInput: there is no plot or no flow with that name, or the runs have no data for it in common.
    """
    panels = _panels_of_runs(runs, _flows_of_runs(runs, flow))
    plot = _one(COMPARISON_PLOTS, panels, name, names_in_words([*runs], len(runs)))
    return _cut(plot, [*runs.values()])


def _flows_of_runs(runs: Mapping[str, Run], wanted: Flows) -> list[str]:
    """The wanted flows, or the main flows, that all runs have."""
    if wanted is None:
        return _common([main_flows(run) for run in runs.values()])
    return _chosen(wanted, _common([run.flows for run in runs.values()]))


def _common(flows_of_runs: Sequence[Sequence[str]]) -> list[str]:
    first, *others = flows_of_runs
    return [flow for flow in first if all(flow in flows for flows in others)]


def _cut(plot: Plot, runs: Sequence[Run]) -> Plot:
    """The plot with a time axis from the beginning to the end of the runs' windows, if they have any."""
    windows = [trace.window for run in runs for trace in run.traces if trace.window is not None]
    if not windows or not plot.over_time:
        return plot
    begins_s, ends_s = zip(*windows, strict=True)
    return replace(plot, x=replace(plot.x, begin=min(begins_s), end=max(ends_s)))


def _chosen(wanted: Flows, flows: Sequence[str]) -> list[str]:
    """The wanted flows; none if nothing was recorded."""
    return chosen_flows(wanted, flows) if flows else []


Maker = Callable[[Panels], Plot | None]
"""Makes a plot from the lines of each panel; None if there are no data for it."""


def _all(makers: Mapping[str, Maker], panels: Panels, lines: int) -> list[Plot]:
    """All plots; their captions say how many of all lines they show, unless it is all."""
    plots = [make(panels) for make in makers.values()] if panels else []
    shown = len(_lines(panels))
    note = f" Shown are {shown} of {lines} curves." if shown < lines else ""
    return [replace(plot, caption=plot.caption + note) for plot in plots if plot is not None]


def _has_data(plot: Plot) -> bool:
    """Whether there is anything to draw; the trace of a log may lack whole tables."""
    return any(np.isfinite(mark.y).any() for mark in plot.marks if isinstance(mark, (Line, Dots, Boxes)))


def _one(makers: Mapping[str, Maker], panels: Panels, name: str, of: str) -> Plot:
    if name not in makers:
        raise BadInput(f"no plot `{name}`; expected {', '.join(makers)}")
    plot = makers[name](panels) if panels else None
    if plot is None:
        raise BadInput(f"{of}: no data for the plot `{name}`")
    return plot


def _panels(run: Run, flows: Sequence[str], accounts: Sequence[FlowAccount] = ()) -> Panels:
    """The lines of a run: a panel per flow, with its account if there is one, or per receiver if many."""
    known = flows_in(run)
    looks = looks_of(flows, known)
    if len(flows) <= MOST_PANELS:
        of_flow = {one.flow: one for one in accounts}
        lines = lines_of([(run, flow, looks[flow]) for flow in flows])
        return [[replace(line, account=of_flow.get(line.flow))] for line in lines]
    people = [name for trace in run.traces for name in trace.manifest.participants]
    of_receiver: dict[str, list[str]] = {name: [] for name in people}
    for flow in flows:
        of_receiver.setdefault(known[flow].receiver, []).append(flow)
    shown = [of_one[:MOST_CURVES] for of_one in of_receiver.values() if of_one][:MOST_RECEIVERS]
    of_receivers = iter(lines_of([(run, flow, looks[flow]) for flow in chain(*shown)]))
    return [list(islice(of_receivers, len(of_one))) for of_one in shown]


def _explained(run: Run, flows: Sequence[str], accounts: Sequence[FlowAccount]) -> Panels:
    """A panel for each of the flows that are explained."""
    looks = looks_of(flows, flows_in(run))
    shown = [one for one in accounts if one.flow in looks]
    lines = lines_of([(run, one.flow, looks[one.flow]) for one in shown])
    return [[replace(line, account=one)] for line, one in zip(lines, shown, strict=True)]


def looks_of(flows: Sequence[str], known: Mapping[str, FlowInfo]) -> dict[str, Style]:
    """How flows of a run are drawn: a colour for each, or with many flows a colour for each sender.

    Args:
        flows: the main flows of the run.
        known: its flows by name.
    """
    few = len(flows) <= MOST_PANELS
    labels = {flow: flow_in_words(flow) if few else _of_sender(flow, known[flow]) for flow in flows}
    looks = {label: Style.numbered(i, label) for i, label in enumerate(dict.fromkeys(labels.values()))}
    return {flow: looks[label] for flow, label in labels.items()}


def _of_sender(flow: str, about: FlowInfo) -> str:
    """The label of a flow beside other flows to its receiver: the sender, or the flow of other traffic."""
    return f"from {about.sender}" if flow == f"{about.sender}->{about.receiver}" else flow


def _together(panels: Panels) -> Panels:
    """All lines of a run in one panel, unless its panels are of receivers, and not of flows."""
    lines = _lines(panels)
    return panels if len(lines) > MOST_PANELS else [lines]


def _panels_of_runs(runs: Mapping[str, Run], flows: Sequence[str]) -> Panels:
    """The lines of compared runs: a panel per flow with a line per run."""
    looks = [
        replace(Style.numbered(index, label), colour=COLOURS[(FIRST_COLOUR_OF_RUNS + index) % len(COLOURS)])
        for index, label in enumerate(runs)
    ]
    looked = list(zip(runs.values(), looks, strict=True))
    lines = lines_of([(run, flow, look) for flow in flows[:MOST_PANELS] for run, look in looked])
    return [lines[index : index + len(runs)] for index in range(0, len(lines), len(runs))]


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


def _with_curves(panels: Sequence[Panel]) -> list[Panel]:
    """The panels that have curves, without curves that have no points."""
    drawn = [(panel, [one for one in panel.curves if one.band.at_s.size]) for panel in panels]
    return [replace(panel, curves=curves) for panel, curves in drawn if curves]


def _guides(label: str, series: Series, lines: list[FlowLine]) -> Guides:
    """A series of the only line, if it has one; guides have no colours, so several would look alike."""
    if len(lines) != 1:
        return []
    values = band_of(lines[0], series)
    return [(label, values)] if values.at_s.size else []


_targets = partial(_guides, "target", rate.target_kbps)
_control_targets = partial(_guides, "target of congestion control", rate.controller_target_kbps)


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


def _explained_rate(panels: Panels) -> Plot | None:
    """The receiving rate of the flows whose reasons a page says, a panel for each."""
    plot = _rate(panels)
    return plot and replace(plot, name=EXPLAINED, title=f"{plot.title}: the flows that are explained")


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
    if any(panel.strips for panel in drawn):
        caption += " Below zero: when video was frozen."
    return _plot("waits", "Where pictures waited", caption, drawn, "Time (ms)")


def _target(panels: Panels) -> Plot | None:
    """None if nobody saw the packets, as in a log of getStats."""
    drawn = _over_time(panels, rate.sent_kbps, _targets)
    if not _with_curves(drawn):
        return None
    title, caption = "Sending rate", "IP bytes sent in each second, with headers and retransmissions"
    if any(panel.guides for panel in drawn):
        title += " and target bitrate"
        caption += ", and the bitrate that congestion control asked of the encoder"
    return _plot("target", title, f"{caption}; means over repeats.{_about_strips(drawn)}", drawn)


def _stats_rate(panels: Panels) -> Plot | None:
    """Rates of flows that only getStats describes, as in a log of a browser; None if there are none."""
    drawn = _with_curves(
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
        _with_curves(drawn),
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


def _frame_rate(panels: Panels) -> Plot | None:
    """Frame rate of the flows that carry video; None if there are none."""
    drawn = _with_curves(_over_time(panels, media.decoded_fps, strips=freeze_strips))
    caption = "Frames decoded by the receiver in each second, mean over repeats."
    if any(panel.strips for panel in drawn):
        caption += " Below zero: when video was frozen."
    return _plot("frame-rate", "Frame rate", caption, drawn, "Frame rate (frame/s)")


RUN_PLOTS: dict[str, Maker] = {
    "rate": _rate,
    "target": _target,
    "wire-and-stats": _wire_and_stats,
    "stats-rate": _stats_rate,
    "delay": _delay,
    "delay-distribution": lambda panels: _distribution(_together(panels)),
    "repeats": _repeats,
    "frame-rate": _frame_rate,
}
"""The plots of a run by name, in the order of the page."""

REASON_PLOTS: dict[str, Maker] = {EXPLAINED: _explained_rate, "waits": _waits}
"""The plots of the flows that are explained, which follow the first plot of a run."""

COMPARISON_PLOTS: dict[str, Maker] = {
    "rate": partial(_rate, condition="; it is drawn only if all runs have the same"),
    "delay": _delay,
    "delay-distribution": _distribution,
    "frame-rate": _frame_rate,
}
"""The plots that compare runs by name, in the order of the page."""
