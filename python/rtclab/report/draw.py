"""What is drawn into the axes of a plot: curves over time, distributions, one point per repeat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from rtclab.metrics.series import Array
from rtclab.metrics.statistics import Summary
from rtclab.report.bands import Band
from rtclab.report.figure import COLOURS, INK, LINE_STYLES, MARKERS, QUIET

OFF_SCALE = 2.5
"""A limit above this many times the largest value is written, not drawn: it would flatten the curves."""
BAND_OPACITY = 0.2
MARKS_OF_A_CURVE = 8


@dataclass(frozen=True)
class Look:
    """How one flow, or one run of a comparison, is drawn in every plot."""

    label: str
    colour: str
    style: Any
    marker: str

    @classmethod
    def numbered(cls, index: int, label: str) -> Look:
        """The ``index``-th look; colours, line styles and markers each begin again at their end."""
        colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
        return cls(label, colour, LINE_STYLES[index % len(LINE_STYLES)], marker)


@dataclass(frozen=True)
class Curve:
    """A line over time and, when ``filled``, the range around it."""

    look: Look
    band: Band
    filled: bool


@dataclass(frozen=True)
class Steps:
    """A value that holds from one change to the next; NaN where there is none. Both of shape (changes,)."""

    label: str
    at_s: Array
    values: Array

    def same_as(self, other: Steps) -> bool:
        """Whether both hold the same values at the same times."""
        return np.array_equal(self.at_s, other.at_s) and np.array_equal(
            self.values, other.values, equal_nan=True
        )


@dataclass(frozen=True)
class Panel:
    """One pair of axes over time. ``limit`` is dashed, ``guides`` are dotted."""

    title: str
    curves: Sequence[Curve]
    limit: Steps | None = None
    guides: Sequence[tuple[str, Band]] = field(default=())


def draw_panels(panels: Sequence[Panel], unit: str, range_label: str, axes: Sequence[Axes]) -> None:
    """Curves over time, one panel per axes; the axis of time ends where the longest curve does."""
    for axis, panel in zip(axes, panels, strict=True):
        for curve in panel.curves:
            _draw_curve(axis, curve)
        for label, band in panel.guides:
            axis.plot(band.at_s, band.mean, color=INK, linewidth=1.2, linestyle=(0, (1, 1.2)), label=label)
        if panel.limit is not None:
            _draw_limit(axis, panel.limit, panel.curves)
        if any(curve.filled for curve in panel.curves):
            axis.fill_between([], [], color=QUIET, alpha=BAND_OPACITY, linewidth=0, label=range_label)
        axis.set_title(panel.title)
        axis.set_xlabel("Time (s)")
        axis.set_ylabel(unit)
    ends_s = [band.at_s[-1] for panel in panels for band in _bands(panel) if band.at_s.size]
    # The panels share their axes, so limits are set once, when everything is drawn.
    axes[0].set_ylim(bottom=0)
    if ends_s:
        axes[0].set_xlim(0, float(max(ends_s)) + 0.5)


def _bands(panel: Panel) -> list[Band]:
    return [curve.band for curve in panel.curves] + [band for _, band in panel.guides]


def _draw_curve(axis: Axes, curve: Curve) -> None:
    band, look = curve.band, curve.look
    if curve.filled:
        axis.fill_between(band.at_s, band.low, band.high, color=look.colour, alpha=BAND_OPACITY, linewidth=0)
    axis.plot(band.at_s, band.mean, color=look.colour, linestyle=look.style, label=look.label)


def _draw_limit(axis: Axes, limit: Steps, curves: Sequence[Curve]) -> None:
    known = limit.values[~np.isnan(limit.values)]
    highest = max((float(curve.band.high.max()) for curve in curves if curve.band.high.size), default=0.0)
    if not known.size:
        return
    if highest and known.min() > OFF_SCALE * highest:
        ends = dict.fromkeys((known.min(), known.max()))
        span = " to ".join(f"{value:,.0f}".replace(",", " ") for value in ends)
        axis.set_title(f"{limit.label} {span}, off the scale", loc="right", color=QUIET)
        return
    end_s = max((float(curve.band.at_s[-1]) for curve in curves if curve.band.at_s.size), default=0.0) + 0.5
    at_s = np.append(limit.at_s, max(end_s, limit.at_s[-1]))
    values = np.append(limit.values, limit.values[-1])
    style: dict[str, Any] = {
        "color": INK,
        "linewidth": 1.2,
        "linestyle": (0, (5, 2)),
        "drawstyle": "steps-post",
    }
    axis.plot(at_s, values, label=limit.label, **style)


@dataclass(frozen=True)
class Distribution:
    """Values in rising order and the share (0..1) that is at most as large, both of shape (points,)."""

    look: Look
    values: Array
    share: Array


def draw_distributions(
    panels: Sequence[tuple[str, Sequence[Distribution]]], unit: str, axes: Sequence[Axes]
) -> None:
    """Cumulative distributions, one panel (title and curves) per axes."""
    for axis, (title, distributions) in zip(axes, panels, strict=True):
        for index, one in enumerate(distributions):
            look: dict[str, Any] = {
                "color": one.look.colour,
                "linestyle": one.look.style,
                "marker": one.look.marker,
            }
            apart = max(one.share.size // MARKS_OF_A_CURVE, 1)
            every = (index * apart // len(distributions), apart)
            axis.plot(
                one.values, 100 * one.share, label=one.look.label, markersize=4, markevery=every, **look
            )
        axis.set_title(title)
        axis.set_ylim(0, 100)
        axis.set_xlabel(unit)
        axis.set_ylabel("Packets (%)")


@dataclass(frozen=True)
class Points:
    """One value per repeat with its deviation, and what they come to: mean and interval."""

    look: Look
    values: Sequence[float]
    deviations: Sequence[float]
    summary: Summary


def draw_repeats(series: Sequence[Points], numbers: Sequence[int], unit: str, axes: Sequence[Axes]) -> None:
    """One point with error bar per repeat, and on the right the mean over repeats, hollow."""
    (axis,) = axes
    places = np.arange(len(numbers))
    apart = min(0.16, 0.6 / max(len(series), 1))
    for index, points in enumerate(series):
        shift = (index - (len(series) - 1) / 2) * apart
        look: dict[str, Any] = {
            "color": points.look.colour,
            "marker": points.look.marker,
            "linestyle": "none",
        }
        bars: dict[str, Any] = look | {"capsize": 3, "markersize": 5, "elinewidth": 1.2}
        axis.errorbar(places + shift, points.values, points.deviations, label=points.look.label, **bars)
        one = points.summary
        ends = None if np.isnan(one.ci95) else [[one.mean - one.ci95_low], [one.ci95_high - one.mean]]
        axis.errorbar(len(numbers) + shift, one.mean, ends, markerfacecolor="white", **bars)
    axis.axvline(len(numbers) - 0.5, color=QUIET, linewidth=0.8)
    axis.set_xticks([*places, len(numbers)], [*map(str, numbers), "mean"])
    axis.set_xlim(-0.5, len(numbers) + 0.5)
    axis.set_ylim(bottom=0)
    axis.grid(visible=False, axis="x")
    axis.set_xlabel("Repeat")
    axis.set_ylabel(unit)
