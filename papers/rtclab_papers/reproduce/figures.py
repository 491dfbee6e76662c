"""Published figures, drawn from our results: TOML lists the lines, and a few forms draw them."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan, nan
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from rtclab.errors import FieldError
from rtclab.metrics import summarise
from rtclab.report import (
    Bars,
    Curve,
    Distribution,
    Panel,
    Plot,
    Points,
    Style,
    band,
    bars,
    distributions,
    flow_in_words,
    over_time,
    per_repeat,
    points_per_line,
    thinned,
)
from rtclab.scenario import Table
from rtclab_papers.reproduce.measurements import Measurements
from rtclab_papers.reproduce.measures import MEASURES
from rtclab_papers.reproduce.published_cells import Metric
from rtclab_papers.reproduce.trends import Need, in_rows

POINTS = points_per_line(6)
"""Maximum number of points of a distribution."""
MOST_REPEATS = 12
"""Maximum number of single repeats in a figure; the papers show 9 to 12. Means are over all repeats."""

MEAN = "mean"
"""The name of the group of means beside the groups of repeats."""
Form = Literal["over time", "distribution", "per repeat", "bars", "means", "bars per repeat"]


class FigureLine(Table):
    """A line or a bar of a figure: a metric of a flow.

    The name of the scenario is ``scenario`` followed by ``variant``. Lines with the same name have the same
    look: that with the number ``look``, or else with the line's place among the names of the figure.
    ``group`` is the title of the axes, or the name of the group of bars, that the line belongs to.
    """

    metric: Metric
    scenario: str
    variant: str = ""
    flow: str
    label: str = ""
    look: int | None = Field(default=None, ge=0)
    group: str = ""

    @property
    def name(self) -> str:
        """The line's text in the legend."""
        return self.label or flow_in_words(self.flow)

    @property
    def condition(self) -> str:
        """The name of the line's scenario."""
        return self.scenario + self.variant


class StatedValue(Table):
    """A value that a paper states about a figure.

    Attributes:
        label: name of the line that it is about; empty for all lines.
        group: name of the line's group; empty for all groups.
        value: the value, in the unit of the figure.
        sd: its standard deviation.
        change: instead of a value, its change in per cent against the first line of the group; the smallest
            and the largest one, if two are given.
        window_s: begin and end of the part of the call that it is about; by default the whole call.
        source: where the paper states it.
    """

    label: str = ""
    group: str = ""
    value: float | None = None
    sd: float | None = None
    change: tuple[float, ...] = Field(default=(), max_length=2)
    window_s: tuple[float, float] | None = None
    source: str

    @model_validator(mode="after")
    def _has_a_value(self) -> Self:
        if (self.value is None) == (not self.change):
            raise FieldError("expected either `value` or `change`", key="value")
        return self

    def concerns(self, line: FigureLine) -> bool:
        """Whether the value is about a line."""
        return self.label in ("", line.name) and self.group in ("", line.group)


class Figure(Table):
    """A published figure; :func:`figures_of` reads it.

    ``axis`` is the label of the axis, by default the metric's. Figures over time and distributions
    show the first ``repeats`` repeats of each scenario. ``published`` are values from the text of the paper.
    Values of its tables are found by scenario, flow and metric; ``cells`` is their metric, if it is not the
    figure's.
    """

    number: str
    title: str
    caption: str
    form: Form = "over time"
    axis: str = ""
    repeats: int = 1
    published: Annotated[tuple[StatedValue, ...], BeforeValidator(in_rows)] = ()
    cells: Metric | None = None
    lines: tuple[FigureLine, ...] = Field(min_length=1)

    @classmethod
    def key_names(cls) -> list[str]:
        """The keys as written in TOML, including those that are passed on to lines."""
        return [*super().key_names(), "groups", "parts", *FigureLine.key_names()]

    @model_validator(mode="after")
    def _distributions_are_known(self) -> Self:
        for line in self.lines if self.form == "distribution" else ():
            if MEASURES[line.metric].distribution is None:
                raise FieldError(f"`{line.metric}` has no distribution", key="lines")
        return self

    @model_validator(mode="after")
    def _published_values_have_a_place(self) -> Self:
        if self.form == "distribution" and self.published:
            raise FieldError("a distribution shows no published values", key="published")
        groups = [MEAN] if self.form == "bars per repeat" else [*self.groups]
        for index, one in enumerate(self.published):
            for key, name, known in (("label", one.label, self.names), ("group", one.group, groups)):
                if name and name not in known:
                    expected = ", ".join(f"`{one}`" for one in known)
                    raise FieldError(f"no `{name}`; expected {expected}", key=f"published.{index}.{key}")
        return self

    @property
    def names(self) -> list[str]:
        """The names of all lines, each once."""
        return list(dict.fromkeys(line.name for line in self.lines))

    @property
    def looks(self) -> dict[str, Style]:
        """How each line is drawn, by name."""
        given = {line.name: line.look for line in self.lines if line.look is not None}
        return {name: Style.numbered(given.get(name, at), name) for at, name in enumerate(self.names)}

    @property
    def groups(self) -> dict[str, list[FigureLine]]:
        """The lines by name of their group."""
        groups: dict[str, list[FigureLine]] = {}
        for line in self.lines:
            groups.setdefault(line.group, []).append(line)
        return groups

    @property
    def scenarios(self) -> list[str]:
        """The scenarios in the figure, each once."""
        return list(dict.fromkeys(line.condition for line in self.lines))

    @property
    def traced(self) -> int:
        """Number of full traces that the figure needs of each scenario."""
        return self.repeats if self.form in ("over time", "distribution") else 0

    @property
    def needs(self) -> list[Need]:
        """What must be measured for the figure."""
        asked = [line for line in self.lines if not self.traced or MEASURES[line.metric].packets]
        return [(line.condition, line.metric) for line in asked]

    def is_known(self, results: Measurements) -> bool:
        """Whether everything that the figure needs was measured."""
        known = results.traces if self.traced else results.repeats_of
        return all(known(name) for name in self.scenarios)

    def draw(self, results: Measurements) -> Plot:
        """Draws the figure from our results."""
        name, title = f"figure-{self.number}".replace(" ", "-"), f"Figure {self.number}. {self.title}"
        axis = self.axis or MEASURES[self.lines[0].metric].label
        return _FORMS[self.form](self, self.looks, results, (name, title, self.caption), axis)


def figures_of(row: dict[str, Any], origin: str) -> list[Figure]:
    """The figures of a row of ``[[figures]]``, one for each of its ``parts``, which may have parts, too.

    Parts inherit keys from the row, groups from their figure, and lines from their group.

    Raises:
        BadInput: a key is missing or unknown; the error names the figure.
    """
    if "parts" not in row:
        return [_figure(row, origin)]
    return [figure for part in row.pop("parts") for figure in figures_of(row | part, origin)]


def _figure(row: dict[str, Any], origin: str) -> Figure:
    of_lines = {key: row.pop(key) for key in FigureLine.key_names() if key in row}
    lines = []
    for group in row.pop("groups", [{}]):
        group = {"lines": row.get("lines", [{}])} | group
        of_group = of_lines | {key: group[key] for key in group if key != "lines"}
        lines += [of_group | line for line in group["lines"]]
    return Figure.read(row | {"lines": lines}, f"{origin}: figure `{row.get('number', '')}`")


Looks = dict[str, Style]
Words = tuple[str, str, str]
"""Name, title and caption of a plot."""


def _over_time(figure: Figure, looks: Looks, results: Measurements, words: Words, axis: str) -> Plot:
    """Curves over time, as means over the first repeats of each scenario."""
    points = points_per_line(len(figure.lines))

    def curve(line: FigureLine) -> Curve:
        traces = results.traces(line.condition, figure.repeats)
        repeats = [MEASURES[line.metric].series(trace, line.flow) for trace in traces]
        return Curve(looks[line.name], band(repeats, points), filled=False)

    panels = [Panel(title, [curve(line) for line in lines]) for title, lines in figure.groups.items()]
    return over_time(*words, panels, axis)


def _distribution(figure: Figure, looks: Looks, results: Measurements, words: Words, axis: str) -> Plot:
    """Cumulative distributions of the lines' metrics, over the packets of the first repeats."""

    def distribution(line: FigureLine) -> Distribution:
        of = MEASURES[line.metric].distribution
        assert of is not None
        values, share = of(results.traces(line.condition, figure.repeats), line.flow)
        return Distribution(looks[line.name], thinned(values, POINTS), thinned(share, POINTS))

    panels = [(title, [distribution(line) for line in lines]) for title, lines in figure.groups.items()]
    return distributions(*words, panels, axis)


def _per_repeat(figure: Figure, looks: Looks, results: Measurements, words: Words, axis: str) -> Plot:
    """The mean of each repeat with the standard deviation of its samples, and the mean over repeats."""
    series = []
    for line in figure.lines:
        values = results.per_repeat(line.condition, line.metric, line.flow)
        means = [_or_nan(mean) for mean, _ in values]
        deviations = [sd or 0.0 for _, sd in values]
        shown = slice(MOST_REPEATS)
        series.append(Points(looks[line.name], means[shown], deviations[shown], summarise(means)))
    longest = max(len(one.values) for one in series)
    return per_repeat(*words, [("", series)], range(1, longest + 1), axis)


def _bars(figure: Figure, looks: Looks, results: Measurements, words: Words, axis: str) -> Plot:
    """Groups of bars: means of a metric, with the standard deviation within repeats or the 95 % interval."""

    def height(line: FigureLine) -> tuple[float, float]:
        ours = results.measured(line.condition, line.metric, line.flow)
        if figure.form == "means":
            return ours.mean, ours.summary.ci95
        sd = ours.summary.sd if isnan(ours.within_sd) else ours.within_sd
        return ours.mean, 0.0 if isnan(sd) else sd

    series = []
    for name, look in looks.items():
        of_groups = [[line for line in lines if line.name == name] for lines in figure.groups.values()]
        heights = [height(lines[0]) if lines else (nan, 0.0) for lines in of_groups]
        series.append(Bars(look, [mean for mean, _ in heights], [error for _, error in heights]))
    return bars(*words, series, list(figure.groups), axis)


def _bars_per_repeat(figure: Figure, looks: Looks, results: Measurements, words: Words, axis: str) -> Plot:
    """Groups of bars: a group for each repeat, and one for the means over all repeats."""
    of_lines = [
        [_or_nan(value) for value, _ in results.per_repeat(line.condition, line.metric, line.flow)]
        for line in figure.lines
    ]
    shown = min(max(map(len, of_lines)), MOST_REPEATS)
    series = []
    for line, values in zip(figure.lines, of_lines, strict=True):
        single = [*values[:shown], *[nan] * (shown - len(values))]
        series.append(Bars(looks[line.name], [*single, summarise(values).mean]))
    return bars(*words, series, [*map(str, range(1, shown + 1)), MEAN], axis)


def _or_nan(value: float | None) -> float:
    return nan if value is None else value


_FORMS: dict[str, Callable[[Figure, Looks, Measurements, Words, str], Plot]] = {
    "over time": _over_time,
    "distribution": _distribution,
    "per repeat": _per_repeat,
    "bars": _bars,
    "means": _bars,
    "bars per repeat": _bars_per_repeat,
}
