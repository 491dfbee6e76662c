"""Curves and distributions of the flows of runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING

from rtclab.experiment.flows import carrying
from rtclab.metrics import METRICS, delay, media_flows, rate
from rtclab.metrics.series import Samples
from rtclab.metrics.statistics import summarise
from rtclab.report.bands import Band, band, points_per_line, thinned
from rtclab.report.drawing import Style
from rtclab.report.plot_kinds import Curve, Distribution, Points, Steps
from rtclab.trace import NS_PER_S, FlowInfo, Run, Trace

if TYPE_CHECKING:
    from rtclab.report.why import FlowAccount

Series = Callable[[Trace, str], Samples]


@dataclass(frozen=True)
class FlowLine:
    """A flow of a run, how it is drawn, its maximum number of points, and its account if it is explained."""

    run: Run
    flow: str
    look: Style
    points: int
    account: FlowAccount | None = None


def flows_in(run: Run) -> dict[str, FlowInfo]:
    """The flows of all repeats by name; of equal names, the last repeat's."""
    return {name: flow for trace in run.traces for name, flow in trace.manifest.flows.items()}


def main_flows(run: Run) -> list[str]:
    """The flows between participants and the flows of TCP; all flows if neither exists.

    Flows that carry feedback alone are left out, unless there are no others.
    The legs to and from a server are left out, because they are parts of flows between participants. The main
    flows of a capture are its flows of media: an interface also carries the packets of other programs.
    """
    if run.backend == "capture":
        media = {name for trace in run.traces for name in media_flows(trace)}
        return [name for name in run.flows if name in media] or run.flows
    people = {name for trace in run.traces for name in trace.manifest.participants}
    flows, carry = flows_in(run), set(carrying([run]))
    main = main_of({name: flows[name] for name in run.flows}, people)
    return [name for name in main if name in carry] or main


def main_of(flows: Mapping[str, FlowInfo], people: Collection[str]) -> list[str]:
    """The main flows of a run that rtclab ran; see :func:`main_flows`."""
    names = [name for name, flow in flows.items() if flow.acknowledges is None]
    main = [
        name
        for name in names
        if flows[name].call is None or {flows[name].sender, flows[name].receiver} <= {*people}
    ]
    return main or names


def lines_of(flows: Sequence[tuple[Run, str, Style]]) -> list[FlowLine]:
    """The lines of one plot, which share its maximum number of points."""
    points = points_per_line(len(flows))
    return [FlowLine(run, flow, look, points) for run, flow, look in flows]


def curve(line: FlowLine, series: Series, *, filled: bool) -> Curve:
    """A series over time; if ``filled``, with its range over repeats if there are several."""
    return Curve(line.look, band_of(line, series), filled and len(line.run.traces) > 1)


def band_of(line: FlowLine, series: Series) -> Band:
    """Mean, minimum and maximum of a series over all repeats."""
    return band([series(trace, line.flow) for trace in line.run.traces], line.points)


def delay_curve(line: FlowLine, *, filled: bool) -> Curve:
    """One-way delay over time; if ``filled``, with its range over packets."""
    mean, low, high = (
        [series(trace, line.flow) for trace in line.run.traces]
        for series in (delay.one_way_delay_ms, delay.smallest_delay_ms, delay.largest_delay_ms)
    )
    return Curve(line.look, band(mean, line.points, low, high), filled)


def delay_distribution(line: FlowLine) -> Distribution:
    """Distribution of the one-way delay over the packets of all repeats."""
    delay_ms, share = delay.one_way_delay_cdf(line.run.traces, line.flow)
    return Distribution(line.look, thinned(delay_ms, line.points), thinned(share, line.points))


def capacity(line: FlowLine) -> Steps:
    """Capacity of the flow's route over time in kbit/s, which is the same in every repeat."""
    at_ns, capacity_bps = rate.route_capacity(line.run.traces[0], line.flow)
    return Steps("capacity", at_ns / NS_PER_S, capacity_bps / 1000)


def rate_per_repeat(line: FlowLine) -> Points:
    """Receiving rate of each repeat with the standard deviation of its one-second samples."""
    samples = [rate.received_kbps(trace, line.flow) for trace in line.run.traces]
    means = [one.mean() for one in samples]
    deviations = [0.0 if isnan(deviation := one.deviation()) else deviation for one in samples]
    summary = summarise(means, METRICS["receiving_rate"].bounds)
    return Points(line.look, means, deviations, summary)
