"""The forms of figures that papers have: over time, distributions, one point per repeat, bars."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import isnan, nan

import numpy as np

from rtclab.metrics import delay, rate
from rtclab.metrics.series import Samples
from rtclab.metrics.statistics import summarise
from rtclab.report import forms
from rtclab.report.bands import MOST_POINTS, band, points_per_line, thinned
from rtclab.report.forms import Bars, Curve, Distribution, Panel, Points
from rtclab.report.plot import Look, Plot
from rtclab.report.words import flow_in_words
from rtclab.reproduce.paper import Figure
from rtclab.reproduce.results import Results
from rtclab.trace import Trace

Series = Callable[[Trace, str], Samples]


@dataclass(frozen=True)
class LabelledFlow:
    """A flow of a scenario, its label in the legend (or else its name), and what is drawn of it over time."""

    scenario: str
    flow: str
    label: str = ""
    series: Series = rate.received_kbps

    @property
    def name(self) -> str:
        """The text of the legend. Flows with the same name have the same look in all panels."""
        return self.label or flow_in_words(self.flow)


Panels = Sequence[tuple[str, Sequence[LabelledFlow]]]
"""Title and flows of each pair of axes, or of each group of bars."""
Draw = Callable[[Results, str, str, str], Plot]
"""Makes a plot of results, with its name, title and caption."""


def figure(
    number: str,
    title: str,
    caption: str,
    scenarios: Iterable[str],
    draw: Draw,
    repeats: int = 0,
) -> Figure:
    """A published figure; ``draw`` needs whole traces of the first ``repeats`` of each scenario."""

    def plot(results: Results) -> Plot:
        return draw(results, f"figure-{number}".replace(" ", "-"), f"Figure {number}. {title}", caption)

    return Figure(number, list(dict.fromkeys(scenarios)), plot, repeats)


def over_time(number: str, title: str, caption: str, panels: Panels, unit: str, repeats: int = 1) -> Figure:
    """Curves over time, means over the first repeats of each scenario."""
    names = _names(panels)

    def draw(results: Results, *heading: str) -> Plot:
        drawn = [
            Panel(heading, [_curve(results, names.index(flow.name), flow, repeats) for flow in flows])
            for heading, flows in panels
        ]
        return forms.over_time(*heading, drawn, unit)

    return figure(number, title, caption, _scenarios(panels), draw, repeats)


def distributions(number: str, title: str, caption: str, panels: Panels, repeats: int) -> Figure:
    """Cumulative distributions of the one-way delay over the packets of several repeats."""

    def draw(results: Results, *heading: str) -> Plot:
        drawn = [
            (heading, [_distribution(results, i, flow, repeats) for i, flow in enumerate(flows)])
            for heading, flows in panels
        ]
        return forms.distributions(*heading, drawn, "One-way delay (ms)")

    return figure(number, title, caption, _scenarios(panels), draw, repeats)


def per_repeat(
    number: str,
    title: str,
    caption: str,
    flows: Sequence[LabelledFlow],
    metric: str = "rate_kbps",
    unit: str = "Rate (kbit/s)",
) -> Figure:
    """Mean of each repeat with the deviation of its one-second samples, and the mean of all."""

    def draw(results: Results, *heading: str) -> Plot:
        points = [_points(results, i, flow, metric) for i, flow in enumerate(flows)]
        numbers = range(max(len(one.values) for one in points))
        return forms.per_repeat(*heading, points, numbers, unit)

    return figure(number, title, caption, _scenarios([("", flows)]), draw)


def bars(number: str, title: str, caption: str, groups: Panels, metric: str, unit: str) -> Figure:
    """Groups of bars: the mean of a metric with its deviation within runs."""

    def draw(results: Results, *heading: str) -> Plot:
        series = []
        for index, name in enumerate(_names(groups)):
            found = [
                [_height(results, flow, metric) for flow in flows if flow.name == name] for _, flows in groups
            ]
            heights, deviations = zip(*(one[0] if one else (nan, 0.0) for one in found), strict=True)
            series.append(Bars(Look.numbered(index, name), heights, deviations))
        return forms.bars(*heading, series, [name for name, _ in groups], unit)

    return figure(number, title, caption, _scenarios(groups), draw)


def _height(results: Results, flow: LabelledFlow, metric: str) -> tuple[float, float]:
    """Mean and deviation of a bar: the deviation within repeats, or between them if there are no samples."""
    ours = results.measured(flow.scenario, metric, flow.flow)
    sd = ours.summary.sd if isnan(ours.within_sd) else ours.within_sd
    return ours.mean, 0.0 if isnan(sd) else sd


def _curve(results: Results, index: int, flow: LabelledFlow, repeats: int) -> Curve:
    samples = [flow.series(trace, flow.flow) for trace in results.traces(flow.scenario, repeats)]
    return Curve(Look.numbered(index, flow.name), band(samples, MOST_POINTS), filled=False)


def _distribution(results: Results, index: int, flow: LabelledFlow, repeats: int) -> Distribution:
    delay_ms, share = delay.one_way_delay_cdf(results.traces(flow.scenario, repeats), flow.flow)
    points = points_per_line(6)
    look = Look.numbered(index, flow.name)
    return Distribution(look, thinned(delay_ms, points), thinned(share, points))


def _points(results: Results, index: int, flow: LabelledFlow, metric: str) -> Points:
    values = results.per_repeat(flow.scenario, metric, flow.flow)
    means = [np.nan if mean is None else mean for mean, _ in values]
    summary = summarise(means)
    look = Look.numbered(index, flow.name)
    return Points(look, means, [sd or 0.0 for _, sd in values], summary)


def _scenarios(panels: Panels) -> list[str]:
    return [flow.scenario for _, flows in panels for flow in flows]


def _names(panels: Panels) -> list[str]:
    """The names of all flows, each once."""
    return list(dict.fromkeys(flow.name for _, flows in panels for flow in flows))
