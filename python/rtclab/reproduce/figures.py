"""The forms of figures that papers have: over time, distributions, one point per repeat, bars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import isnan, nan

import numpy as np

from rtclab.metrics import delay, rate
from rtclab.metrics.series import Samples
from rtclab.metrics.statistics import summarise
from rtclab.report.bands import MOST_POINTS, band, points_per_line, thinned
from rtclab.report.bars import Bars, draw_bars
from rtclab.report.draw import (
    Curve,
    Distribution,
    Look,
    Panel,
    Points,
    draw_distributions,
    draw_panels,
    draw_repeats,
)
from rtclab.report.figure import Plot
from rtclab.report.lines import spoken
from rtclab.reproduce.paper import Figure
from rtclab.reproduce.results import Results
from rtclab.trace import Trace

Series = Callable[[Trace, str], Samples]


@dataclass(frozen=True)
class Line:
    """One curve: a flow of a scenario, and what its legend says; the flow's name if it is left out."""

    scenario: str
    flow: str
    label: str = ""
    series: Series = rate.received_kbps

    @property
    def name(self) -> str:
        """What the legend says; what has one name looks alike in all panels."""
        return self.label or spoken(self.flow)


PanelLines = tuple[str, Sequence[Line]]
"""Title and curves of one pair of axes."""


def over_time(
    number: str, title: str, caption: str, panels: Sequence[PanelLines], unit: str, repeats: int = 1
) -> Figure:
    """Curves over time, means over the first repeats of each scenario."""

    def draw(results: Results) -> Plot:
        names = list(dict.fromkeys(line.name for _, lines in panels for line in lines))
        drawn = [
            Panel(heading, [_curve(results, names.index(line.name), line, repeats) for line in lines])
            for heading, lines in panels
        ]
        return Plot(
            _name(number),
            f"Figure {number}. {title}",
            caption,
            len(drawn),
            partial(draw_panels, drawn, unit, ""),
        )

    return Figure(number, _scenarios(panels), draw, repeats)


def distributions(
    number: str, title: str, caption: str, panels: Sequence[PanelLines], repeats: int
) -> Figure:
    """Cumulative distributions of the one-way delay over the packets of several repeats."""

    def draw(results: Results) -> Plot:
        drawn = [
            (heading, [_distribution(results, i, line, repeats) for i, line in enumerate(lines)])
            for heading, lines in panels
        ]
        unit = "One-way delay (ms)"
        return Plot(
            _name(number),
            f"Figure {number}. {title}",
            caption,
            len(drawn),
            partial(draw_distributions, drawn, unit),
        )

    return Figure(number, _scenarios(panels), draw, repeats)


def per_repeat(
    number: str,
    title: str,
    caption: str,
    lines: Sequence[Line],
    metric: str = "rate_kbps",
    unit: str = "Rate (kbit/s)",
) -> Figure:
    """Mean of each repeat with the deviation of its one-second samples, and the mean of all."""

    def draw(results: Results) -> Plot:
        points = [_points(results, i, line, metric) for i, line in enumerate(lines)]
        numbers = range(max(len(one.values) for one in points))
        return Plot(
            _name(number),
            f"Figure {number}. {title}",
            caption,
            1,
            partial(draw_repeats, points, numbers, unit),
        )

    return Figure(number, list(dict.fromkeys(line.scenario for line in lines)), draw, repeats=0)


def bars(
    number: str,
    title: str,
    caption: str,
    groups: Sequence[tuple[str, Sequence[Line]]],
    metric: str,
    unit: str,
) -> Figure:
    """Mean of a metric with the deviation within runs: groups of bars, alike where they have one name."""
    scenarios = list(dict.fromkeys(line.scenario for _, lines in groups for line in lines))

    def draw(results: Results) -> Plot:
        names = list(dict.fromkeys(line.name for _, lines in groups for line in lines))
        series = []
        for index, name in enumerate(names):
            found = [
                [_height(results, line, metric) for line in lines if line.name == name] for _, lines in groups
            ]
            heights, deviations = zip(*(one[0] if one else (nan, 0.0) for one in found), strict=True)
            series.append(Bars(Look.numbered(index, name), heights, deviations))
        drawn = partial(draw_bars, series, [heading for heading, _ in groups], unit)
        return Plot(_name(number), f"Figure {number}. {title}", caption, 1, drawn)

    return Figure(number, scenarios, draw, repeats=0)


def _height(results: Results, line: Line, metric: str) -> tuple[float, float]:
    """Mean and deviation of a bar; without samples that of the repeats."""
    ours = results.ours(line.scenario, metric, line.flow)
    sd = ours.summary.sd if isnan(ours.within_sd) else ours.within_sd
    return ours.mean, 0.0 if isnan(sd) else sd


def _curve(results: Results, index: int, line: Line, repeats: int) -> Curve:
    samples = [line.series(trace, line.flow) for trace in results.traces(line.scenario, repeats)]
    return Curve(Look.numbered(index, line.name), band(samples, MOST_POINTS), filled=False)


def _distribution(results: Results, index: int, line: Line, repeats: int) -> Distribution:
    delay_ms, share = delay.one_way_delay_cdf(results.traces(line.scenario, repeats), line.flow)
    points = points_per_line(6)
    look = Look.numbered(index, line.name)
    return Distribution(look, thinned(delay_ms, points), thinned(share, points))


def _points(results: Results, index: int, line: Line, metric: str) -> Points:
    values = results.per_repeat(line.scenario, metric, line.flow)
    means = [np.nan if mean is None else mean for mean, _ in values]
    summary = summarise(means)
    look = Look.numbered(index, line.name)
    return Points(look, means, [sd or 0.0 for _, sd in values], summary)


def _scenarios(panels: Sequence[PanelLines]) -> list[str]:
    return list(dict.fromkeys(line.scenario for _, lines in panels for line in lines))


def _name(number: str) -> str:
    return f"figure-{number}".replace(" ", "-")
