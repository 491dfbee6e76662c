"""The kinds of plots: curves over time, distributions, one point per repeat, and bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rtclab.metrics.series import Array
from rtclab.metrics.statistics import Summary
from rtclab.report.bands import Band
from rtclab.report.drawing import (
    DASHED,
    DOTTED,
    INK,
    Axes,
    Axis,
    Boxes,
    Columns,
    Dots,
    Line,
    Mark,
    Range,
    Style,
    largest,
)
from rtclab.report.plot import Plot

OFF_SCALE = 2.5
"""A limit above this many times the largest value is noted in text: drawn, it would flatten the curves."""
STRIP = 0.09
"""Height of a strip below zero as a share of the largest value."""
GROUP_WIDTH = 0.76
"""Share of the space of a group that its bars take."""


@dataclass(frozen=True)
class Curve:
    """A line over time and, if ``filled``, the range around it."""

    look: Style
    band: Band
    filled: bool


@dataclass(frozen=True)
class Steps:
    """A value that holds from one change to the next, NaN for none; both arrays have shape (changes,)."""

    label: str
    at_s: Array
    values: Array

    def at(self, moments: Array) -> Array:
        """The value at each time; NaN before the first change."""
        index = np.searchsorted(self.at_s, moments, side="right") - 1
        known = np.append(self.values, np.nan)
        return np.asarray(known[np.where(index >= 0, index, self.values.size)], dtype=np.float64)

    def same_as(self, other: Steps) -> bool:
        """Whether both have the same values at the same times."""
        return np.array_equal(self.at_s, other.at_s) and np.array_equal(
            self.values, other.values, equal_nan=True
        )


@dataclass(frozen=True)
class Strip:
    """Stretches of time of one kind, drawn as bands in a strip below zero; arrays of shape (stretches,).

    ``texts`` are what each stretch says when it is touched, and ``labels`` what is written into it.
    """

    look: Style
    begin_s: Array
    end_s: Array
    texts: Sequence[str]
    opacity: float = 1.0
    labels: Sequence[str] = ()


@dataclass(frozen=True)
class Panel:
    """One pair of axes over time. The ``limit`` is drawn dashed, ``guides`` are drawn dotted.

    ``strips`` share one strip below zero, and ``boxes`` are behind the curves.
    """

    title: str
    curves: Sequence[Curve]
    limit: Steps | None = None
    guides: Sequence[tuple[str, Band]] = field(default=())
    strips: Sequence[Strip] = ()
    boxes: Sequence[Boxes] = ()


def over_time(
    name: str,
    title: str,
    caption: str,
    panels: Sequence[Panel],
    unit: str,
    range_label: str = "",
    strip: float = STRIP,
) -> Plot:
    """Curves over time. The time axis ends with the longest curve or strip.

    ``unit`` is the label of the vertical axis, ``range_label`` the legend entry of the ranges around curves,
    and ``strip`` the height of a strip below zero as a share of the largest value.
    """
    bands = [curve.band for panel in panels for curve in panel.curves]
    bands += [band for panel in panels for _, band in panel.guides]
    boxes = [one for panel in panels for one in panel.boxes]
    ends_s = [one.end for one in boxes] + [one.end_s for panel in panels for one in panel.strips]
    end_s = max(largest([band.at_s for band in bands]) + 0.5, largest(ends_s))
    axes = [_axes_over_time(panel, end_s, range_label) for panel in panels]
    lines = [mark for one in axes for mark in one.marks if isinstance(mark, Line)]
    heights = [line.y for line in lines] + [one.high for one in boxes]
    heights += [end for line in lines if line.range for end in (line.range.low, line.range.high)]
    top = largest(heights)
    # Between two clocks that differ, delays are negative.
    lowest = min(-largest([-height for height in heights]), 0.0)
    if any(panel.strips for panel in panels):
        top = top or 1.0
        lowest = -strip * top
        strips = [[_strip(one, lowest) for one in panel.strips] for panel in panels]
        axes = [replace(one, marks=[*one.marks, *of]) for one, of in zip(axes, strips, strict=True)]
    x, y = Axis("Time (s)", 0.0, end_s), Axis.from_zero(unit, top, lowest)
    return Plot(name, title, caption, x, y, axes, over_time=True)


def _strip(strip: Strip, lowest: float) -> Boxes:
    """The bands of a strip between zero and the lowest value of the axis, with a gap above and below."""
    low, high = (np.full(strip.begin_s.size, share * lowest) for share in (0.95, 0.25))
    return Boxes(strip.look, strip.begin_s, strip.end_s, low, high, strip.texts, strip.opacity, strip.labels)


def _axes_over_time(panel: Panel, end_s: float, range_label: str) -> Axes:
    marks: list[Mark] = [*panel.boxes, *(_line(curve, range_label) for curve in panel.curves)]
    marks += [Line(Style(label, INK, DOTTED), band.at_s, band.mean) for label, band in panel.guides]
    if panel.limit is None:
        return Axes(panel.title, marks)
    note = _off_scale(panel.limit, panel.curves)
    if not note and not np.isnan(panel.limit.values).all():
        marks.append(_limit(panel.limit, end_s))
    return Axes(panel.title, marks, note)


def _line(curve: Curve, range_label: str) -> Line:
    band = curve.band
    around = Range(range_label, band.low, band.high) if curve.filled else None
    return Line(curve.look, band.at_s, band.mean, around)


def _off_scale(limit: Steps, curves: Sequence[Curve]) -> str:
    """The note for a limit that is too high to be drawn; empty if the limit is drawn."""
    known = limit.values[~np.isnan(limit.values)]
    highest = largest([curve.band.high for curve in curves])
    if not known.size or not highest or known.min() <= OFF_SCALE * highest:
        return ""
    ends = dict.fromkeys((known.min(), known.max()))
    span = " to ".join(f"{value:,.0f}".replace(",", " ") for value in ends)
    return f"{limit.label} {span}, off the scale"


def _limit(limit: Steps, end_s: float) -> Line:
    at_s = np.append(limit.at_s, max(end_s, limit.at_s[-1]))
    return Line(Style(limit.label, INK, DASHED), at_s, np.append(limit.values, limit.values[-1]), steps=True)


@dataclass(frozen=True)
class Distribution:
    """A cumulative distribution: sorted values, and the share (0..1) of values that are at most as large.

    Both arrays have shape (points,).
    """

    look: Style
    values: Array
    share: Array


def distributions(
    name: str, title: str, caption: str, panels: Sequence[tuple[str, Sequence[Distribution]]], unit: str
) -> Plot:
    """Cumulative distributions in panels with titles; ``unit`` is the label of the horizontal axis."""
    values = [one.values for _, curves in panels for one in curves if one.values.size]
    begin = min((float(array.min()) for array in values), default=0.0)
    axes = [
        Axes(heading, [Line(one.look, one.values, 100 * one.share, marked=True) for one in curves])
        for heading, curves in panels
    ]
    x = Axis(unit, begin, max(largest(values), begin + 1))
    return Plot(name, title, caption, x, Axis("Packets (%)", 0, 100), axes)


@dataclass(frozen=True)
class Points:
    """One value per repeat with its standard deviation, and the summary over repeats."""

    look: Style
    values: Sequence[float]
    deviations: Sequence[float]
    summary: Summary


def per_repeat(
    name: str,
    title: str,
    caption: str,
    panels: Sequence[tuple[str, Sequence[Points]]],
    numbers: Sequence[int],
    unit: str,
) -> Plot:
    """A point with an error bar for each repeat and, on the right, a hollow one for the mean over repeats.

    The panels have titles; ``numbers`` are the numbers of the repeats.
    """
    dots = [(heading, _side_by_side(series, len(numbers))) for heading, series in panels]
    x = Axis("Repeat", -0.5, len(numbers) + 0.5, [*map(str, numbers), "mean"])
    y = Axis.from_zero(unit, largest([mark.high for _, marks in dots for mark in marks]))
    return Plot(name, title, caption, x, y, [Axes(heading, marks) for heading, marks in dots])


def _side_by_side(series: Sequence[Points], repeats: int) -> list[Dots]:
    apart = min(0.16, 0.6 / max(len(series), 1))
    return [
        mark
        for index, points in enumerate(series)
        for mark in _points(points, (index - (len(series) - 1) / 2) * apart, repeats)
    ]


def _points(points: Points, shift: float, repeats: int) -> list[Dots]:
    values, deviations = np.array(points.values, float), np.array(points.deviations, float)
    one = points.summary
    ends = (one.mean, one.mean) if np.isnan(one.ci95) else (one.ci95_low, one.ci95_high)
    mean, low, high = (np.array([value]) for value in (one.mean, *ends))
    x = np.arange(values.size, dtype=np.float64) + shift
    return [
        Dots(points.look, x, values, values - deviations, values + deviations),
        Dots(points.look, np.array([repeats + shift]), mean, low, high, hollow=True),
    ]


@dataclass(frozen=True)
class Bars:
    """One value per group (NaN for none), and half the length of each error bar, if there are any."""

    look: Style
    values: Sequence[float]
    errors: Sequence[float] = ()


def bars(
    name: str, title: str, caption: str, series: Sequence[Bars], groups: Sequence[str], unit: str
) -> Plot:
    """Grouped bars: one group per name in ``groups``, with one bar per series."""
    width = GROUP_WIDTH / len(series)
    # Every other series is paler, so that neighbours differ in greyscale too.
    marks = [
        _columns(one, (index - (len(series) - 1) / 2) * width, width, 1.0 if index % 2 == 0 else 0.65)
        for index, one in enumerate(series)
    ]
    x = Axis("", -0.5, len(groups) - 0.5, groups)
    y = Axis.from_zero(unit, largest([mark.high for mark in marks]))
    return Plot(name, title, caption, x, y, [Axes("", marks)])


def _columns(one: Bars, shift: float, width: float, opacity: float) -> Columns:
    """The bars of a series, moved by ``shift`` from the centres of the groups."""
    values = np.array(one.values, float)
    errors = np.array(one.errors, float) if len(one.errors) else np.zeros(values.size)
    x = np.arange(values.size, dtype=np.float64) + shift
    return Columns(one.look, x, width, values, values - errors, values + errors, opacity)
