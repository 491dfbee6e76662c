"""Published figures, drawn from our results: what is drawn is a row of data, how is one of a few forms."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan, nan
from typing import Any, Literal

from pydantic import Field

from rtclab.metrics import delay
from rtclab.metrics.statistics import summarise
from rtclab.report import forms
from rtclab.report.bands import MOST_POINTS, band, points_per_line, thinned
from rtclab.report.forms import Bars, Curve, Distribution, Panel, Points
from rtclab.report.plot import Look, Plot
from rtclab.report.words import flow_in_words
from rtclab.reproduce.cells import Metric
from rtclab.reproduce.measures import MEASURES
from rtclab.reproduce.results import Results
from rtclab.reproduce.trends import Need, over
from rtclab.scenario.table import Table

LINES_OF_A_PAGE = 6
"""Each distribution has as many points as if so many shared a plot."""

Form = Literal["over time", "distribution", "per repeat", "bars", "means", "bars per repeat"]


class Line(Table):
    """What is drawn as one line or one series of bars: a metric of one flow of a scenario.

    The scenario's name is ``scenario`` and ``variant`` together. Lines with the same name have the same look.
    """

    metric: Metric
    scenario: str
    variant: str = ""
    flow: str
    label: str = ""

    @property
    def name(self) -> str:
        """The text of the legend."""
        return self.label or flow_in_words(self.flow)

    @property
    def condition(self) -> str:
        """The name of its scenario."""
        return self.scenario + self.variant


class Group(Table):
    """The lines of one pair of axes, or one group of bars."""

    title: str = ""
    lines: tuple[Line, ...] = Field(min_length=1)


class Figure(Table):
    """A published figure; :func:`figures_of` reads it.

    ``axis`` is the label of the axis if it is not that of the metric. Figures over time and distributions
    show the first ``repeats`` of each scenario.
    """

    number: str
    title: str
    caption: str
    form: Form = "over time"
    axis: str = ""
    repeats: int = 1
    groups: tuple[Group, ...] = Field(min_length=1)

    @property
    def lines(self) -> list[Line]:
        """All lines."""
        return [line for group in self.groups for line in group.lines]

    @property
    def names(self) -> list[str]:
        """The names of all lines, each once."""
        return list(dict.fromkeys(line.name for line in self.lines))

    @property
    def scenarios(self) -> list[str]:
        """The scenarios that it shows, each once."""
        return list(dict.fromkeys(line.condition for line in self.lines))

    @property
    def traced(self) -> int:
        """How many whole traces of each scenario it needs."""
        return self.repeats if self.form in ("over time", "distribution") else 0

    @property
    def needs(self) -> list[Need]:
        """What must be measured."""
        return [] if self.traced else [(line.condition, line.metric) for line in self.lines]

    def is_known(self, results: Results) -> bool:
        """Whether all that it needs was measured."""
        known = results.traces if self.traced else results.repeats_of
        return all(known(name) for name in self.scenarios)

    def draw(self, results: Results) -> Plot:
        """Our figure."""
        looks = {name: Look.numbered(index, name) for index, name in enumerate(self.names)}
        name, title = f"figure-{self.number}".replace(" ", "-"), f"Figure {self.number}. {self.title}"
        axis = self.axis or MEASURES[self.lines[0].metric].label
        return _FORMS[self.form](self, looks, results, (name, title, self.caption), axis)


LINE = (*Line.key_names(), "lines")


def figures_of(row: dict[str, Any], origin: str) -> list[Figure]:
    """The figures of a row of ``[[figures]]``, one for each of its ``parts``.

    Parts take from the row, groups from their figure and lines from their group what they leave out.

    Raises:
        BadInput: a key is missing or unknown; names the figure.
    """
    shared = {key: value for key, value in row.items() if key != "parts"}
    return [_figure(part, origin) for part in over(shared, row.get("parts", [{}]))]


def _figure(row: dict[str, Any], origin: str) -> Figure:
    own, shared = _apart(row)
    groups = []
    for group in over(shared, own.get("groups", [{}])):
        own_of_group, of_lines = _apart(group)
        groups.append(own_of_group | {"lines": over(of_lines, of_lines.pop("lines", [{}]))})
    return Figure.read(own | {"groups": groups}, f"{origin}: figure `{row.get('number', '')}`")


def _apart(row: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The keys of a figure or group itself, and those that its lines take."""
    return {key: row[key] for key in row if key not in LINE}, {key: row[key] for key in row if key in LINE}


Looks = dict[str, Look]
Words = tuple[str, str, str]
"""Name, title and caption of a plot."""


def _over_time(figure: Figure, looks: Looks, results: Results, words: Words, axis: str) -> Plot:
    """Curves over time, means over the first repeats of each scenario."""

    def curve(line: Line) -> Curve:
        series = MEASURES[line.metric].series
        assert series is not None, f"`{line.metric}` has no series"
        traces = results.traces(line.condition, figure.repeats)
        return Curve(
            looks[line.name], band([series(trace, line.flow) for trace in traces], MOST_POINTS), False
        )

    panels = [Panel(group.title, [curve(line) for line in group.lines]) for group in figure.groups]
    return forms.over_time(*words, panels, axis)


def _distribution(figure: Figure, looks: Looks, results: Results, words: Words, axis: str) -> Plot:
    """Cumulative distributions of the one-way delay over the packets of several repeats."""

    def distribution(line: Line) -> Distribution:
        delay_ms, share = delay.one_way_delay_cdf(results.traces(line.condition, figure.repeats), line.flow)
        points = points_per_line(LINES_OF_A_PAGE)
        return Distribution(looks[line.name], thinned(delay_ms, points), thinned(share, points))

    panels = [(group.title, [distribution(line) for line in group.lines]) for group in figure.groups]
    return forms.distributions(*words, panels, axis)


def _per_repeat(figure: Figure, looks: Looks, results: Results, words: Words, axis: str) -> Plot:
    """Mean of each repeat with the deviation of its one-second samples, and the mean of all."""
    series = []
    for line in figure.lines:
        values = results.per_repeat(line.condition, line.metric, line.flow)
        means = [nan if mean is None else mean for mean, _ in values]
        series.append(Points(looks[line.name], means, [sd or 0.0 for _, sd in values], summarise(means)))
    return forms.per_repeat(*words, series, range(max(len(one.values) for one in series)), axis)


def _bars(figure: Figure, looks: Looks, results: Results, words: Words, axis: str) -> Plot:
    """Groups of bars: the mean of a metric, with its deviation within repeats or with its 95 % interval."""

    def height(line: Line) -> tuple[float, float]:
        ours = results.measured(line.condition, line.metric, line.flow)
        if figure.form == "means":
            return ours.mean, ours.summary.ci95
        sd = ours.summary.sd if isnan(ours.within_sd) else ours.within_sd
        return ours.mean, 0.0 if isnan(sd) else sd

    series = []
    for name, look in looks.items():
        lines = [next((line for line in group.lines if line.name == name), None) for group in figure.groups]
        heights = [(nan, 0.0) if line is None else height(line) for line in lines]
        series.append(Bars(look, [mean for mean, _ in heights], [error for _, error in heights]))
    return forms.bars(*words, series, [group.title for group in figure.groups], axis)


def _bars_per_repeat(figure: Figure, looks: Looks, results: Results, words: Words, axis: str) -> Plot:
    """One bar for each repeat."""
    series = []
    for line in figure.lines:
        values = results.per_repeat(line.condition, line.metric, line.flow)
        series.append(Bars(looks[line.name], [value or 0.0 for value, _ in values]))
    longest = max(len(one.values) for one in series)
    return forms.bars(*words, series, [str(repeat) for repeat in range(1, longest + 1)], axis)


_FORMS: dict[str, Callable[[Figure, Looks, Results, Words, str], Plot]] = {
    "over time": _over_time,
    "distribution": _distribution,
    "per repeat": _per_repeat,
    "bars": _bars,
    "means": _bars,
    "bars per repeat": _bars_per_repeat,
}
