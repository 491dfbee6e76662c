"""Curves and distributions of the flows of runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING

from rtclab.metrics import METRICS, delay, rate
from rtclab.metrics.series import Samples
from rtclab.metrics.statistics import summarise
from rtclab.report.bands import Band, band, points_per_line, thinned
from rtclab.report.drawing import Style
from rtclab.report.plot_kinds import Curve, Distribution, Points, Steps
from rtclab.trace import NS_PER_S, Run, Trace

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
