"""Small static SVGs of plots, for printing and for readers without JavaScript; made without a library."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from math import floor, log10

import numpy as np

from rtclab.metrics.series import Array
from rtclab.report.bands import thinned
from rtclab.report.drawing import (
    GRID,
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
)

LEFT, RIGHT = 52, 10
ROW, LETTER = 20, 6
"""Height of a row of categories, and width of a letter of its name."""
MOST_LEFT = 250
POINTS_OF_A_PLOT = 1600
MOST_POINTS, LEAST_POINTS = 300, 60
TICKS, COMPACT_TICKS = 5, 2
LINE_WIDTH = 1.5
MARKER_PATHS = {
    "circle": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0",
    "square": "M-3.5-3.5h7v7h-7z",
    "triangle": "M0-4.5L4.5 3.5h-9z",
    "diamond": "M0-5L4.5 0L0 5L-4.5 0z",
    "inverted_triangle": "M0 4.5L4.5-3.5h-9z",
    "plus": "M-1.5-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
}
"""SVG paths of the markers, centred at 0."""


@dataclass(frozen=True)
class _Box:
    """Width and height of a picture, and its margins above, below and to the left of the axes."""

    width: float
    height: float
    top: float
    bottom: float
    left: float = LEFT


PANEL = _Box(480, 250, 24, 42)


def _box(plot: Drawing) -> _Box:
    """The box of a plot: wide and low for a row of a timeline, and tall for many named rows."""
    if plot.compact:
        below = 34 if plot.x.label else 7
        return _Box(600, plot.height_px + below, 4, below)
    rows = plot.y.end - plot.y.begin if plot.y.names else 0
    tall = max(PANEL.height, PANEL.top + PANEL.bottom + ROW * rows)
    return replace(PANEL, height=tall, left=_left(plot.y))


def static_svgs(plot: Drawing) -> list[str]:
    """An ``<svg>`` element for each pair of axes of a plot. Lines are reduced to a few hundred points."""
    lines = sum(isinstance(mark, Line) for mark in plot.marks)
    points = int(np.clip(POINTS_OF_A_PLOT // max(lines, 1), LEAST_POINTS, MOST_POINTS))
    frame, box = _frame(plot), _box(plot)
    tall = f' style="--height: {box.height:.0f}px"' if box.height > PANEL.height else ""
    return [
        f'<svg viewBox="0 0 {box.width:g} {box.height:g}" preserveAspectRatio="xMinYMin"{tall}>'
        + frame
        + ("" if plot.compact else _titles(axes, box))
        + "".join(_drawn(mark, plot, points) for mark in axes.marks)
        + "</svg>"
        for axes in plot.axes
    ]


def _titles(axes: Axes, box: _Box) -> str:
    """Title and note of a pair of axes. The rows of a timeline have them in the text of the page."""
    above = box.top - 9
    return _text(box.left, above, axes.title, "start") + _text(box.width - RIGHT, above, axes.note, "end")


def _left(axis: Axis) -> float:
    """The room for the names of a vertical axis."""
    return min(max([LEFT, *(30 + LETTER * len(name) for name in axis.names)]), MOST_LEFT)


def _x(plot: Drawing, values: Array) -> Array:
    axis, box = plot.x, _box(plot)
    return box.left + (values - axis.begin) / (axis.end - axis.begin) * (box.width - box.left - RIGHT)


def _y(plot: Drawing, values: Array) -> Array:
    axis, box = plot.y, _box(plot)
    inside = box.height - box.top - box.bottom
    return box.height - box.bottom - (values - axis.begin) / (axis.end - axis.begin) * inside


def _frame(plot: Drawing) -> str:
    """Grid, tick labels and the labels of both axes."""
    box = _box(plot)
    ticks, names = _named(plot.y, COMPACT_TICKS if plot.compact else TICKS)
    heights = _y(plot, ticks)
    grid = "".join(f"M{box.left:g} {at:.1f}H{box.width - RIGHT:g}" for at in heights)
    parts = [f'<path d="{grid}" stroke="{GRID}"/>']
    parts += [
        _text(box.left - 6, at + 4, name, "end", _squeezed(name, box.left - 12))
        for at, name in zip(heights, names, strict=True)
    ]
    if plot.events:
        moments = "".join(
            f"M{at:.1f} {box.top}V{box.height - box.bottom:g}"
            for at in _x(plot, np.array([at for at, _ in plot.events]))
        )
        parts.append(f'<path d="{moments}" stroke="{QUIET}" stroke-dasharray="2 3"/>')
    if plot.x.label or not plot.compact:
        places, names = _named(plot.x, TICKS)
        below = box.height - box.bottom + 16
        parts += [_text(at, below, name, "middle") for at, name in zip(_x(plot, places), names, strict=True)]
        parts.append(_text((box.left + box.width - RIGHT) / 2, box.height - 6, plot.x.label, "middle"))
    if not plot.compact:
        middle = (box.top + box.height - box.bottom) / 2
        turned = f' transform="rotate(-90 12 {middle})"'
        parts.append(_text(12, middle, plot.y.label, "middle", turned))
    return "".join(parts)


def _squeezed(name: str, room: float) -> str:
    """Attributes of a text that is longer than its room."""
    return f' textLength="{room:g}" lengthAdjust="spacingAndGlyphs"' if LETTER * len(name) > room else ""


def _named(axis: Axis, count: int) -> tuple[Array, list[str]]:
    """Positions and texts of an axis's tick labels."""
    if axis.names:
        named = axis.named[:: axis.every]
        return np.array([place for place, _ in named], dtype=np.float64), [name for _, name in named]
    ticks = _ticks(axis, count)
    return ticks, [f"{tick:g}" for tick in ticks]


def _ticks(axis: Axis, count: int) -> Array:
    """Round numbers within the range of an axis, about ``count`` of them."""
    rough = (axis.end - axis.begin) / count
    power = 10.0 ** floor(log10(rough))
    step = power * next(factor for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    first = np.ceil(axis.begin / step)
    # 0 is added because of -0, which would be written with its sign.
    return np.arange(first, np.floor(min(axis.end, axis.last_tick) / step + 1e-9) + 1) * step + 0.0


def _text(x: float, y: float, text: str, anchor: str, attributes: str = "") -> str:
    if not text:
        return ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{attributes}>{escape(text)}</text>'


def _drawn(mark: Mark, plot: Drawing, points: int) -> str:
    match mark:
        case Line():
            return _line(mark, plot, points)
        case Dots():
            x, y = _x(plot, mark.x), _y(plot, mark.y)
            fill = "#fff" if mark.hollow else mark.look.colour
            path = MARKER_PATHS[mark.look.marker]
            scale = "" if mark.size == 1 else f" scale({mark.size:g})"
            dots = "".join(
                f'<path transform="translate({a:.1f} {b:.1f}){scale}" d="{path}"/>' for a, b in _known(x, y)
            )
            return f'<g fill="{fill}" stroke="{mark.look.colour}">{_whiskers(mark, plot)}{dots}</g>'
        case Columns():
            return _columns(mark, plot)
        case Cells():
            return _cells(mark, plot)
        case Boxes():
            return _boxes(mark, plot)
        case Intervals():
            return _intervals(mark, plot)


def _line(line: Line, plot: Drawing, points: int) -> str:
    """A line and its range, interrupted where there is no value."""
    colour = line.look.colour
    x, y = thinned(_x(plot, line.x), points), thinned(_y(plot, line.y), points)
    parts = []
    if line.range is not None:
        low, high = (thinned(_y(plot, end), points) for end in (line.range.low, line.range.high))
        if line.range.whiskers:
            bars = Dots(line.look, line.x, line.y, line.range.low, line.range.high)
            parts.append(_drawn(bars, plot, points))
        for piece in () if line.range.whiskers else _pieces(x, low, high):
            around = _points(np.append(x[piece], x[piece][::-1]), np.append(high[piece], low[piece][::-1]))
            parts.append(f'<polygon points="{around}" fill="{colour}" opacity="{RANGE_OPACITY}"/>')
    if line.steps:
        x, y = np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1]
    dash = " ".join(f"{LINE_WIDTH * length:g}" for length in line.look.dash)
    style = f'fill="none" stroke="{colour}" stroke-width="{LINE_WIDTH}"'
    style += f' stroke-dasharray="{dash}"' if dash else ""
    parts += [f'<polyline points="{_points(x[piece], y[piece])}" {style}/>' for piece in _pieces(x, y)]
    return "".join(parts)


def _pieces(*columns: Array) -> list[slice]:
    """The stretches in which no column is NaN."""
    known = ~np.isnan(np.column_stack(columns)).any(axis=1)
    edges = np.flatnonzero(np.diff(known, prepend=False, append=False))
    return [slice(begin, end) for begin, end in edges.reshape(-1, 2)]


def _columns(mark: Columns, plot: Drawing) -> str:
    left, right = (_x(plot, mark.x + side * mark.width / 2) for side in (-1, 1))
    top, bottom = _y(plot, mark.y), float(_y(plot, np.zeros(1))[0])
    bars = "".join(f"M{a:.1f} {bottom}V{c:.1f}H{b:.1f}V{bottom}z" for a, b, c in _known(left, right, top))
    fill = f'<path d="{bars}" fill="{mark.look.colour}" opacity="{mark.opacity}"/>'
    return f'{fill}<g stroke="{QUIET}">{_whiskers(mark, plot)}</g>'


def _cells(mark: Cells, plot: Drawing) -> str:
    left, right = (_x(plot, mark.x + side / 2) for side in (-1, 1))
    top, bottom = (_y(plot, mark.y + side / 2) for side in (1, -1))
    squares = "".join(
        f'<path d="M{a:.1f} {c:.1f}H{b:.1f}V{d:.1f}H{a:.1f}z" fill="{colour}"/>'
        for a, b, c, d, colour in zip(left, right, top, bottom, mark.colours, strict=True)
    )
    texts = "".join(
        _text((a + b) / 2, (c + d) / 2 + 4, text, "middle", f' fill="{ink}"')
        for a, b, c, d, text, ink in zip(left, right, top, bottom, mark.texts, mark.inks, strict=False)
    )
    return squares + texts


def _boxes(mark: Boxes, plot: Drawing) -> str:
    left, right = _x(plot, mark.x), _x(plot, mark.end)
    top, bottom = _y(plot, mark.high), _y(plot, mark.low)
    rows = _known(left, right, top, bottom)
    boxes = "".join(f"M{a:.1f} {d:.1f}V{c:.1f}H{b:.1f}V{d:.1f}z" for a, b, c, d in rows)
    texts = "".join(
        _text((a + b) / 2, (c + d) / 2 + 3, text, "middle", f' font-size="10" fill="{mark.ink}"')
        for a, b, c, d, text in zip(left, right, top, bottom, mark.labels, strict=False)
    )
    return f'<path d="{boxes}" fill="{mark.look.colour}" opacity="{mark.opacity:g}"/>{texts}'


def _intervals(mark: Intervals, plot: Drawing) -> str:
    x, low, high = (_x(plot, values) for values in (mark.x, mark.low, mark.high))
    y = _y(plot, mark.y)
    ends = "".join(f"M{a:.1f} {c:.1f}H{b:.1f}" for a, b, c in _known(low, high, y))
    path, fill = MARKER_PATHS[mark.look.marker], "#fff" if mark.hollow else mark.look.colour
    dots = "".join(f'<path transform="translate({a:.1f} {b:.1f})" d="{path}"/>' for a, b in _known(x, y))
    bars = f'<path d="{ends}" stroke-width="1.6"/>' if ends else ""
    return f'<g fill="{fill}" stroke="{mark.look.colour}">{bars}{dots}</g>'


def _whiskers(mark: Dots | Columns, plot: Drawing) -> str:
    """The error bars of a mark, except bars of length 0."""
    x, low, high = _x(plot, mark.x), _y(plot, mark.low), _y(plot, mark.high)
    ends = "".join(f"M{a:.1f} {b:.1f}V{c:.1f}" for a, b, c in _known(x, low, high) if b != c)
    return f'<path d="{ends}"/>' if ends else ""


def _points(x: Array, y: Array) -> str:
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in _known(x, y))


def _known(*columns: Array) -> list[list[float]]:
    """Rows of the columns that contain no NaN."""
    rows = np.column_stack(columns)
    known: list[list[float]] = rows[~np.isnan(rows).any(axis=1)].tolist()
    return known
