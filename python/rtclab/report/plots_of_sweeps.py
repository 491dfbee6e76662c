"""Plots of a metric against varied fields: lines with intervals, or a heat map."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, inf

import numpy as np
import polars as pl

from rtclab.errors import BadInput
from rtclab.experiment.fields import Field
from rtclab.experiment.flows import Flows, chosen_flows
from rtclab.experiment.summary import Averaged, marginal_of
from rtclab.metrics import METRICS, Metric
from rtclab.metrics.series import Array
from rtclab.phrases import names_in_words
from rtclab.report.drawing import (
    DASHED,
    DOTTED,
    INK,
    SOLID,
    Axes,
    Axis,
    Cells,
    Dots,
    Line,
    Mark,
    Range,
    Style,
    largest,
)
from rtclab.report.field_names import (
    field_in_words,
    heading,
    short_values,
    shortened,
    unit_of,
)
from rtclab.report.plot import Plot
from rtclab.report.sweep_values import LIMITS
from rtclab.report.words import flow_in_words, number
from rtclab.scenario.layers import split_fields

INTERVAL = "95 % interval"
MAX_FLOWS = 4
"""Maximum number of flows in a plot. Each has axes of its own; further flows are not drawn."""
MAX_PANELS = 16
"""Maximum number of pairs of axes of one plot."""
MAX_LINES = 6
"""Maximum number of lines that a plot draws unasked; with more values it is a heat map."""
MAX_LABELS = 10
"""Maximum number of tick labels on an axis."""
MAX_PRINTED_CELLS = 120
"""Maximum number of cells of a heat map in which values are printed."""
MAX_GAPS = 3
"""Maximum number of points without an average that the note names."""
POINTS_OF_A_LIMIT = 60
"""Number of points of the line of a limit, which is curved on a logarithmic axis."""
CAPACITY = re.compile(r"(?:participants\.(?P<who>[^.]+)\.)?link\.(?P<way>up|down)\.capacity")
GROUP_WIDTH = 0.6
"""Width of a group of dots, as a share of the distance between two ticks."""


def sweep_plot(
    rows: pl.DataFrame,
    fields: Sequence[Field],
    metric: str,
    x: str | None = None,
    by: str | None = None,
    flow: Flows = None,
    average: Sequence[str] = (),
    *,
    highest: float = inf,
) -> Plot:
    """Plots a metric of a sweep; see :meth:`rtclab.Results.plot`.

    ``rows`` are the values of the metric in every repeat, with the varied fields. No interval ends above
    ``highest``, unless the mean does.

    Raises:
        BadInput: there is no such field or flow, or no repeat has a value of the metric.
    """
    if rows.is_empty():
        raise BadInput(f"{metric}: no repeat of this sweep has a value")
    known = METRICS[metric]
    # Labels of conditions are plain text; the values of fields are Enums already.
    rows = rows.with_columns(pl.col(field.name).cast(pl.Enum(field.texts)) for field in fields)
    fields = [field for field in fields if rows[field.name].n_unique() > 1] or list(fields)[:1]
    averaged = [_named(fields, "average", name) for name in average]
    if len({field.name for field in averaged}) == len(fields):
        raise BadInput("average: no field is left to draw along", hint="`rtclab measure` prints averages")
    first, second = _chosen([field for field in fields if field not in averaged], x, by)
    chosen = [first] if second is None else [first, second]
    apart = [field for field in fields if field not in (*chosen, *averaged)]
    names = [field.name for field in averaged]
    keys = [field.name for field in (*chosen, *apart)]
    measured, counted = marginal_of(rows, keys, names)
    measured = cut(measured, {metric: highest})
    parts = _panels(measured, flow, apart)
    if second is not None and x is None and by is None:
        return _heat_map(known, first, second, parts)
    notes = {title: _note(of, chosen, counted.get((metric, of["flow"][0]))) for title, of in parts.items()}
    return _lines(known, first, second, parts, names, notes)


def _named(fields: Sequence[Field], option: str, name: str) -> Field:
    known = {field.name: field for field in fields}
    if name not in known:
        raise BadInput(f"{option}: `{name}` is not varied; expected {' or '.join(known)}")
    return known[name]


def _chosen(fields: Sequence[Field], x: str | None, by: str | None) -> tuple[Field, Field | None]:
    """The field on the horizontal axis, and the field of the lines or of the vertical axis, if any.

    Without ``x``, of several fields the one with the most numbers is drawn along the axis.
    """
    along = None if x is None else _named(fields, "x", x)
    lines = None if by is None else _named(fields, "by", by)
    if along is not None and along == lines:
        raise BadInput(f"by: `{by}` is already x; expected another field")
    if x is None and by is None and len(fields) == 2:
        return fields[0], fields[1]
    left = sorted(
        (field for field in fields if field not in (along, lines)),
        key=lambda field: (bool(field.numbers), field.count),
    )
    if along is None:
        along = left.pop()
    if lines is None and x is None and left and left[0].count <= MAX_LINES:
        lines = left[0]
    return along, lines


def _panels(measured: pl.DataFrame, wanted: Flows, apart: Sequence[Field]) -> dict[str, pl.DataFrame]:
    """The rows of each pair of axes by its title: a flow, and a value of each field that is drawn apart.

    Raises:
        BadInput: there is no such flow, or there would be too many axes.
    """
    flows = measured["flow"].unique(maintain_order=True).to_list()
    shown = flows if wanted is None else chosen_flows(wanted, flows)
    values = list(product(*(field.texts for field in apart)))
    if len(values) > MAX_PANELS:
        names = ", ".join(field.name for field in apart)
        raise BadInput(
            f"{len(values)} combinations of {names} would need a plot each; expected at most {MAX_PANELS}",
            hint="choose values with `where`, or average over a field with `average`",
        )
    most = max(MAX_FLOWS if not apart and wanted is None else MAX_PANELS // len(values), 1)
    parts = {}
    for name in shown[:most]:
        for chosen in values:
            part = measured.filter(pl.col("flow") == name)
            for field, text in zip(apart, chosen, strict=True):
                part = part.filter(pl.col(field.name) == text)
            told = [f"{heading(field.name)} = {text}" for field, text in zip(apart, chosen, strict=True)]
            if not part.is_empty():
                parts[", ".join(filter(None, [flow_in_words(name), *told]))] = part
    return parts


@dataclass(frozen=True)
class _Ticks:
    """The positions of a field's values on an axis, and their labels."""

    field: Field
    at: Array
    names: list[str]
    label: str

    @classmethod
    def of(cls, field: Field, *, as_numbers: bool) -> _Ticks:
        """Places the ticks at equal distances or, if ``as_numbers``, at the field's numbers if any."""
        at = np.arange(field.count, dtype=np.float64)
        if not field.numbers:
            return cls(field, at, list(field.texts), heading(field.name))
        size, unit = unit_of(field)
        numbers = np.array(field.numbers) / size
        if as_numbers:
            at = np.log10(numbers) if field.log else numbers
        return cls(field, at, shortened(numbers), heading(field.name, unit))

    def axis(self, margin: float) -> Axis:
        """The axis, with a margin at both ends."""
        order = np.argsort(self.at)
        names = [self.names[index] for index in order]
        every = ceil(len(names) / MAX_LABELS)
        begin, end = float(self.at.min()), float(self.at.max())
        if begin == end:
            margin = 1.0  # a single value is drawn in the middle
        return Axis(self.label, begin - margin, end + margin, names, self.at[order].tolist(), every)

    def of_rows(self, rows: pl.DataFrame) -> Array:
        """The position of the field's value in each row."""
        positions: Array = self.at[rows[self.field.name].to_physical().to_numpy()]
        return positions


def _note(rows: pl.DataFrame, chosen: Sequence[Field], averaged: Averaged | None) -> str:
    """What a plot of a flow leaves out; empty if it is nothing."""
    parts = []
    if averaged is not None and averaged.repeats < averaged.of:
        left_out = averaged.of - averaged.repeats
        parts.append(f"{left_out} of {averaged.of} repeats left out: no value at some point")
    known = set(rows.select(pl.col(field.name).cast(pl.String) for field in chosen).rows())
    missing = [", ".join(of) for of in product(*(field.texts for field in chosen)) if of not in known]
    if missing:
        names = names_in_words(missing, MAX_GAPS)
        parts.append(f"no value at {names}" if averaged is None else f"too few values at {names}")
    return "; ".join(parts)


def _lines(
    metric: Metric,
    first: Field,
    second: Field | None,
    parts: dict[str, pl.DataFrame],
    others: Sequence[str],
    notes: Mapping[str, str],
) -> Plot:
    along = _Ticks.of(first, as_numbers=True)
    texts = [None] if second is None else list(second.texts)
    shown = {} if second is None else short_values(second)
    ends = [rows["ci95_high"].fill_null(rows["mean"]).to_numpy() for rows in parts.values()]
    y = Axis.from_zero(_label(metric), largest(ends))
    y = replace(y, end=min(y.end, max(metric.bounds[1], largest(ends))))
    axes = []
    for title, rows in parts.items():
        marks: list[Mark] = []
        for index, text in enumerate(texts):
            label = metric.label if second is None else f"{heading(second.name)} = {shown[str(text)]}"
            look = Style.numbered(index, label)
            line = rows if second is None else rows.filter(rows[second.name] == text)
            shift = (index - (len(texts) - 1) / 2) * GROUP_WIDTH / len(texts)
            marks.append(_line(look, along, line) if first.numbers else _dots(look, along, line, shift))
        if first.numbers:
            marks += _limits(metric, along, rows, y.end)
        axes.append(Axes(title, marks, notes[title]))
    margin = 0.02 * float(np.ptp(along.at)) if first.numbers else 0.5
    caption = "Mean over repeats with its 95 % confidence interval (Student's t)"
    caption += f", for each {field_in_words(second.name)}" if second is not None else ""
    if others:
        over = names_in_words([field_in_words(name) for name in others], len(others))
        caption += f"; averaged over the values of {over}, over the same repeats at every point"
    scale = " The horizontal axis is logarithmic." if first.log else ""
    return Plot(
        f"{metric.name}-{first.name}" + (f"-{second.name}" if second else ""),
        f"{metric.label} against {field_in_words(first.name)}",
        f"{caption}.{scale}",
        along.axis(margin),
        y,
        axes,
    )


def _line(look: Style, along: _Ticks, rows: pl.DataFrame) -> Line:
    """The line through the means, with a gap where a value of the field has none."""
    columns = []
    index = rows[along.field.name].to_physical().to_numpy()
    for known in (rows["mean"].to_numpy(), *_interval(rows)):
        values = np.full(along.at.size, np.nan)
        values[index] = known
        columns.append(values[np.argsort(along.at)])
    mean, low, high = columns
    return Line(look, np.sort(along.at), mean, Range(INTERVAL, low, high, whiskers=True), marked=True)


def _limits(metric: Metric, along: _Ticks, rows: pl.DataFrame, top: float) -> list[Line]:
    """Dashed lines where a limit of the metric is, as far as they are within the axes.

    The rate of a flow is limited by the capacity of its route, if the capacity is on the horizontal axis.
    """
    begin, end = float(along.at.min()), float(along.at.max())
    at = np.linspace(begin, end, POINTS_OF_A_LIMIT)
    lines = [
        Line(Style(limit.words, INK, dash), at, np.full(at.size, limit.value))
        for limit, dash in zip(LIMITS.get(metric.name, ()), (DOTTED, DASHED), strict=False)
        if 0 < limit.value <= top
    ]
    field, flows = along.field, rows["flow"].unique().to_list()
    if metric.unit == "kbit/s" and field.unit == "bit/s" and all(on_route(field.name, of) for of in flows):
        values = (10**at if field.log else at) * unit_of(field)[0] / 1000
        if values.min() <= top:
            lines.append(Line(Style("capacity", INK, DASHED), at, np.where(values <= top, values, np.nan)))
    return lines


def on_route(field: str, flow: str) -> bool:
    """Whether a field is the capacity of a path that every packet of a flow crosses.

    A mean over flows, whose name has no sender and receiver, crosses only the paths that everybody has.
    """
    return any(_crosses(one, flow) for one in split_fields(field))


def _crosses(field: str, flow: str) -> bool:
    found = CAPACITY.fullmatch(field)
    if found is None:
        return False
    sender, _, receiver = flow.partition("->")
    return not found["who"] or found["who"] == (sender if found["way"] == "up" else receiver)


def _dots(look: Style, along: _Ticks, rows: pl.DataFrame, shift: float) -> Dots:
    return Dots(look, along.of_rows(rows) + shift, rows["mean"].to_numpy(), *_interval(rows))


def _heat_map(metric: Metric, first: Field, second: Field, parts: dict[str, pl.DataFrame]) -> Plot:
    along, up = _Ticks.of(first, as_numbers=False), _Ticks.of(second, as_numbers=False)
    means = np.concatenate([rows["mean"].to_numpy() for rows in parts.values()])
    between = float(means.min()), float(means.max())
    scale = f"{number(between[0])} (light) to {number(between[1])} (dark) {metric.unit}".strip()
    look = Style.numbered(0, metric.label)
    written = first.count * second.count <= MAX_PRINTED_CELLS
    axes = []
    for title, rows in parts.items():
        mean = rows["mean"].to_numpy()
        texts = [number(value) for value in mean] if written else []
        positions = along.of_rows(rows), up.of_rows(rows)
        cells = Cells(look, *positions, mean, *_interval(rows), between, metric.unit, texts)
        contours = _contours(metric, positions, mean)
        axes.append(Axes(title, [cells, *contours], scale))
    return Plot(
        f"{metric.name}-map",
        f"{metric.label} over {field_in_words(first.name)} and {field_in_words(second.name)}",
        f"{_label(metric)}: mean over repeats. Point at a cell to see its 95 % interval (Student's t).",
        along.axis(0.5),
        up.axis(0.5),
        axes,
    )


def _contours(metric: Metric, positions: tuple[Array, Array], means: Array) -> list[Line]:
    """Lines along the edges of cells between which the metric passes a limit."""
    at = dict(zip(zip(*(one.tolist() for one in positions), strict=True), means.tolist(), strict=True))
    lines = []
    for limit, dash in zip(LIMITS.get(metric.name, ()), (DASHED, SOLID), strict=False):
        points: list[tuple[float, float]] = []
        for (x, y), mean in at.items():
            for other, edge in (
                ((x - 1, y), ((x - 0.5, y - 0.5), (x - 0.5, y + 0.5))),
                ((x, y - 1), ((x - 0.5, y - 0.5), (x + 0.5, y - 0.5))),
            ):
                if other in at and (at[other] > limit.value) != (mean > limit.value):
                    points += [*edge, (np.nan, np.nan)]
        if points:
            across, up = np.array(points).T
            lines.append(Line(Style(limit.words, INK, dash), across, up))
    return lines


def cut(summary: pl.DataFrame, highest: Mapping[str, float]) -> pl.DataFrame:
    """A summary in which no interval of a metric ends above what is possible, unless its mean does."""
    largest_of = pl.col("metric").cast(pl.String).replace_strict(dict(highest), default=inf)
    end = pl.min_horizontal("ci95_high", pl.max_horizontal(largest_of, "mean"))
    return summary.with_columns(ci95_high=pl.when(pl.col("ci95_high").is_null()).then(None).otherwise(end))


def _interval(rows: pl.DataFrame) -> tuple[Array, Array]:
    """Lower and upper ends of the 95 % intervals. Without an interval, both are the mean."""
    mean = rows["mean"]
    return rows["ci95_low"].fill_null(mean).to_numpy(), rows["ci95_high"].fill_null(mean).to_numpy()


def _label(metric: Metric) -> str:
    return f"{metric.label} ({metric.unit})" if metric.unit else metric.label
