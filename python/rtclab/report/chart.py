"""Turns plots into interactive charts for pages.

A chart consists of JSON data for the script, a legend, and a static SVG for readers without JavaScript.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from math import floor, log10
from pathlib import Path
from typing import Any

import numpy as np

from rtclab.metrics.series import Array
from rtclab.report.drawing import (
    INK,
    QUIET,
    RANGE_OPACITY,
    Axes,
    Axis,
    Boxes,
    Cells,
    Columns,
    Dots,
    Drawing,
    Intervals,
    Line,
    Mark,
    largest,
    shared_labels,
)
from rtclab.report.static_svg import MARKER_PATHS, static_svgs
from rtclab.report.words import number

DIGITS = 4
"""Significant digits of the largest value of a curve; more would only make the page larger."""
LINE_WIDTH = 2
MOST_TOLD = 4
"""Maximum number of lines whose values the text of a chart says."""
SCRIPT = Path(__file__).parent / "templates" / "charts.js"


@dataclass(frozen=True)
class Entry:
    """One entry of a legend: the label that it shows or hides, and how its sample is drawn."""

    label: str
    colour: str
    kind: str
    dashes: str = ""
    marker: str = ""
    opacity: float = 1.0


@dataclass(frozen=True)
class Chart:
    """A plot for a template.

    ``outlines`` has a static ``<svg>`` element for each pair of axes, and ``texts`` says what it shows.
    """

    plot: Drawing
    entries: Sequence[Entry]
    outlines: Sequence[str]
    texts: Sequence[str]


def chart(plot: Drawing) -> Chart:
    """The legend, the static SVGs and the texts in their place of a plot, for a template."""
    return Chart(plot, legend([plot]), static_svgs(plot), [_text(plot, axes) for axes in plot.axes])


def _text(plot: Drawing, axes: Axes) -> str:
    """What a pair of axes shows, with the smallest and largest value of each line."""
    lines = [mark for mark in axes.marks if isinstance(mark, Line) and np.isfinite(mark.y).any()]
    told = ", ".join(
        f"{line.look.label} {number(np.nanmin(line.y))} to {number(np.nanmax(line.y))} {plot.y.unit}".rstrip()
        for line in lines[:MOST_TOLD]
    )
    where = f"{plot.title}, {axes.title}" if axes.title and axes.title != plot.title else plot.title
    return f"{where}: {told}" if told else f"{where}. {plot.caption}".rstrip(" .")


def legend(plots: Sequence[Drawing]) -> list[Entry]:
    """Entries of the legend, each label once: coloured marks, black ones (capacities), ranges, and boxes.

    Marks of several colours that share a label have a black entry. Cells have none: the note above a heat map
    explains their colours.
    """
    marks = [mark for plot in plots for mark in plot.marks if not isinstance(mark, Cells)]
    shared = {label for plot in plots for label in shared_labels(plot)}
    all_entries = [_entry(mark) for mark in marks if not isinstance(mark, Boxes)]
    all_entries = [replace(one, colour=INK) if one.label in shared else one for one in all_entries]
    entries = sorted(all_entries, key=lambda one: one.colour == INK)
    drawn = [mark.range for mark in marks if isinstance(mark, Line) and mark.range]
    ranges = [one.label for one in drawn if not one.whiskers]
    entries += [Entry(label, QUIET, "range", opacity=RANGE_OPACITY) for label in ranges]
    once = list({entry.label: entry for entry in reversed(entries)}.values())[::-1]
    boxes = {mark.look.label: _entry(mark) for mark in marks if isinstance(mark, Boxes)}
    return [*once, *boxes.values()]


def _entry(mark: Line | Dots | Columns | Boxes | Intervals) -> Entry:
    look = mark.look
    match mark:
        case Line():
            dashes = " ".join(f"{LINE_WIDTH * length:g}" for length in look.dash)
            return Entry(look.label, look.colour, "line", dashes)
        case Dots() | Intervals():
            return Entry(look.label, look.colour, "dots", marker=MARKER_PATHS[look.marker])
        case Columns() | Boxes():
            return Entry(look.label, look.colour, "columns", opacity=mark.opacity)


def data(plots: Sequence[Drawing], *, tied: bool) -> str:
    """The plots as JSON, safe inside a ``<script>`` element.

    If ``tied``, plots over time share one zoom.
    """
    values = [_plot(plot) | {"tied": tied and plot.over_time} for plot in plots]
    text = json.dumps(values, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c")


@cache
def scripts() -> list[str]:
    """The JavaScript of a page: BokehJS from the Python package, and the script that draws the charts.

    Importing Bokeh itself would take longer than the rest of a report, so its files are only read.
    """
    found = find_spec("bokeh")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("bokeh is not installed; its JavaScript draws the charts of reports")
    library = Path(found.origin).parent / "server" / "static" / "js"
    files = [library / "bokeh.min.js", library / "bokeh-api.min.js", SCRIPT]
    return [file.read_text(encoding="utf-8") for file in files]


def _plot(plot: Drawing) -> dict[str, Any]:
    return {
        "name": plot.name,
        "height": plot.height_px,
        "compact": plot.compact,
        "events": list(plot.events),
        "x": _axis(plot.x),
        "y": _axis(plot.y),
        "axes": [
            {"title": axes.title, "note": axes.note, "marks": [_mark(mark) for mark in axes.marks]}
            for axes in plot.axes
        ],
    }


def _axis(axis: Axis) -> dict[str, Any]:
    ends = {"begin": axis.begin, "end": float(f"{axis.end:.{DIGITS}g}")}
    if axis.last_tick < axis.end:
        ends["last_tick"] = axis.last_tick
    named = {"names": [name for _, name in axis.named], "places": [place for place, _ in axis.named]}
    about = {"label": axis.label, "unit": axis.unit, "every": axis.every, "log": axis.log}
    return {**about, **named, **ends}


def _mark(mark: Mark) -> dict[str, Any]:
    look = {"label": mark.look.label, "colour": mark.look.colour, "marker": mark.look.marker}
    match mark:
        case Line():
            drawn: dict[str, Any] = {"kind": "line", "dash": mark.look.dash, "steps": mark.steps}
            drawn |= {"x": _numbers(mark.x), "y": _numbers(mark.y)}
            if mark.range is not None:
                drawn |= {"range": mark.range.label, "whiskers": mark.range.whiskers}
                drawn |= {"low": _numbers(mark.range.low), "high": _numbers(mark.range.high)}
            return look | drawn
        case Dots():
            drawn = {"kind": "dots", "hollow": mark.hollow, "size": mark.size}
        case Intervals():
            drawn = {"kind": "intervals", "hollow": mark.hollow, "texts": list(mark.texts)}
        case Columns():
            drawn = {"kind": "columns", "width": mark.width, "opacity": mark.opacity}
        case Cells():
            drawn = {"kind": "cells", "values": _numbers(mark.values), "unit": mark.unit}
            drawn |= {"texts": list(mark.texts), "colours": mark.colours, "inks": mark.inks}
        case Boxes():
            drawn = {"kind": "boxes", "opacity": mark.opacity, "texts": list(mark.texts)}
            drawn |= {"labels": list(mark.labels), "ink": mark.ink} if any(mark.labels) else {}
            ends = {name: _numbers(getattr(mark, name)) for name in ("x", "end", "low", "high")}
            return look | drawn | ends
    ends = {"low": _numbers(mark.low), "high": _numbers(mark.high)}
    return look | drawn | {"x": _numbers(mark.x), "y": _numbers(mark.y)} | ends


def _numbers(values: Array) -> list[float | None]:
    """The values, rounded to the digits that a screen can show; None for NaN."""
    size = largest([np.abs(values)])
    decimals = max(DIGITS - 1 - floor(log10(size)), 0) if size else 0
    rounded = [round(value, decimals) for value in values.tolist()]
    return [None if value != value else int(value) if value == int(value) else value for value in rounded]
