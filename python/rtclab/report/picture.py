"""Draws plots with matplotlib: as SVG or PDF, whose text stays text, or as PNG."""

from __future__ import annotations

import re
from dataclasses import replace
from io import BytesIO
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib import axes as matplotlib_axes
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D

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
    shared_labels,
)
from rtclab.report.picture_sizes import (
    BETWEEN_COLUMNS_EM,
    BETWEEN_ROWS_EM,
    BOTTOM_EM,
    LEFT_EM,
    LEGEND_EDGE_IN,
    LEGEND_ROW_EM,
    RIGHT_IN,
    TICK_LINE_EM,
    TITLE_EM,
    TOP_IN,
    WIDE,
    Format,
    of_size,
)
from rtclab.trace import write_bytes, write_text

PNG_DOTS_PER_INCH = 120
LEFT_OUT = {
    "svg": ("Creator", "Date", "Format", "Type"),
    "pdf": ("Creator", "Producer", "CreationDate"),
    "png": ("Software",),
}
"""Metadata that files lack, by kind, so that the same plot makes the same file."""
MARKS_OF_A_LINE = 8
ROW_EM, LETTER_EM = 1.6, 0.6
"""Height of a row of a vertical axis of categories, and width of a letter of its name."""
MARKERS = {
    "circle": "o",
    "square": "s",
    "triangle": "^",
    "diamond": "D",
    "inverted_triangle": "v",
    "plus": "P",
}


def write(path: Path, plot: Drawing, size: tuple[float, float] | None = None) -> None:
    """Writes an SVG, a PDF or a PNG, depending on the suffix of ``path``.

    ``size`` is the width of the picture and the height of each row of axes, in inches.
    """
    form = WIDE if size is None else of_size(*size)
    if path.suffix == ".svg":
        write_text(path, as_svg(plot, form))
    else:
        write_bytes(path, _saved(plot, form, path.suffix[1:]))


def as_svg(plot: Drawing, form: Format = WIDE) -> str:
    """The content of an SVG file, without a date and with coordinates rounded to 1/100 pt."""
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", _saved(plot, form, "svg").decode(), flags=re.DOTALL)
    return re.sub(r' d="[^"]*"', lambda path: _rounded(path.group()), svg)


def _saved(plot: Drawing, form: Format, kind: str) -> bytes:
    """The content of a file of this kind."""
    file, nothing = BytesIO(), dict.fromkeys(LEFT_OUT[kind])
    dots_per_inch = PNG_DOTS_PER_INCH if kind == "png" else "figure"
    with matplotlib.rc_context(form.style):
        _draw(plot, form).savefig(file, format=kind, dpi=dots_per_inch, metadata=nothing)
    return file.getvalue()


def _rounded(path: str) -> str:
    return re.sub(r"(\.\d\d)\d+", r"\1", path).replace(" \n", " ").replace("\n", " ")


def _draw(plot: Drawing, form: Format = WIDE) -> Figure:
    """A figure with the axes of the plot and one legend above them."""
    count = len(plot.axes)
    columns = min(form.columns, count)
    rows = -(-count // columns)
    names = form.wrapped(plot.x.names, form.axes_in(columns) / max(len(plot.x.names) / plot.x.every, 1))
    form = replace(form, row_in=max(form.row_in, form.inches(ROW_EM * _rows(plot.y) + BOTTOM_EM)))
    more_in = form.inches(TICK_LINE_EM * max((name.count("\n") for name in names), default=0))
    figure = Figure(figsize=(form.width_in, rows * form.row_in + more_in))
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    drawn, unused = list(grid.flat)[:count], list(grid.flat)[count:]
    for axis in unused:
        axis.remove()
    for index, (axis, axes) in enumerate(zip(drawn, plot.axes, strict=True)):
        _draw_axes(axis, axes)
        left, bottom = index % columns == 0, index + columns >= count
        _label(axis, replace(plot, x=replace(plot.x, names=names)), left=left, bottom=bottom)
    titled = any(axes.title or axes.note for axes in plot.axes)
    legend, legend_in = _legend(figure, drawn, plot, form)
    above_in = legend_in + (form.inches(TITLE_EM) if titled else 0.0)
    longest = max(map(len, plot.y.names), default=0)
    left_in = form.inches(max(LEFT_EM, LETTER_EM * longest + 2))
    _place(figure, form, (rows, columns), (above_in, form.inches(BOTTOM_EM) + more_in, left_in))
    width_in, height_in = figure.get_size_inches()
    legend.set_bbox_to_anchor((LEGEND_EDGE_IN / width_in, 1 - LEGEND_EDGE_IN / height_in))
    return figure


def _draw_axes(axis: matplotlib_axes.Axes, axes: Axes) -> None:
    lines = sum(isinstance(mark, Line) for mark in axes.marks)
    for index, mark in enumerate(axes.marks):
        match mark:
            case Line():
                _draw_line(axis, mark, index / lines)
            case Dots():
                _draw_dots(axis, mark)
            case Columns():
                _draw_columns(axis, mark)
            case Cells():
                _draw_cells(axis, mark)
            case Boxes():
                _draw_boxes(axis, mark)
            case Intervals():
                _draw_intervals(axis, mark)
    drawn = [mark.range for mark in axes.marks if isinstance(mark, Line) and mark.range]
    ranges = {one.label for one in drawn if not one.whiskers}
    for label in ranges:
        axis.fill_between([], [], color=QUIET, alpha=RANGE_OPACITY, linewidth=0, label=label)
    axis.set_title(axes.title)
    axis.set_title(axes.note, loc="right", color=QUIET)


def _draw_line(axis: matplotlib_axes.Axes, line: Line, phase: float) -> None:
    """Draws a line; ``phase`` (0..1) moves its markers, so that markers of several lines do not overlap."""
    look = line.look
    if line.range is not None:
        ends: dict[str, Any] = {"color": look.colour}
        if line.range.whiskers:
            axis.vlines(line.x, line.range.low, line.range.high, linewidth=1.2, **ends)
        else:
            axis.fill_between(
                line.x, line.range.low, line.range.high, alpha=RANGE_OPACITY, linewidth=0, **ends
            )
    style: dict[str, Any] = {"color": look.colour, "label": look.label}
    style["linestyle"] = (0, look.dash) if look.dash else "-"
    if look.colour == INK:
        style["linewidth"] = 1.2
    if line.steps:
        style["drawstyle"] = "steps-post"
    if line.marked:
        apart = max(line.x.size // MARKS_OF_A_LINE, 1)
        every = (int(phase * apart) % apart, apart)
        style |= {"marker": MARKERS[look.marker], "markersize": 4, "markevery": every}
    axis.plot(line.x, line.y, **style)


def _draw_dots(axis: matplotlib_axes.Axes, dots: Dots) -> None:
    look: dict[str, Any] = {"color": dots.look.colour, "marker": MARKERS[dots.look.marker]}
    look |= {"linestyle": "none", "markersize": 5 * dots.size, "capsize": 3, "elinewidth": 1.2}
    look |= {"markerfacecolor": "white"} if dots.hollow else {"label": dots.look.label}
    axis.errorbar(dots.x, dots.y, _error(dots), **look)


def _draw_columns(axis: matplotlib_axes.Axes, bars: Columns) -> None:
    look: dict[str, Any] = {"color": bars.look.colour, "alpha": bars.opacity, "label": bars.look.label}
    look |= {"ecolor": INK, "capsize": 3, "error_kw": {"elinewidth": 1.0}}
    axis.bar(bars.x, bars.y, bars.width, yerr=_error(bars), **look)


def _draw_cells(axis: matplotlib_axes.Axes, cells: Cells) -> None:
    axis.bar(cells.x, np.ones(cells.x.size), 1.0, cells.y - 0.5, color=cells.colours, edgecolor="white")
    # A picture has no title, so its legend names the values of the cells. The note above explains the
    # colours.
    axis.plot([], [], linestyle="none", label=cells.look.label)
    for x, y, text, ink in zip(cells.x, cells.y, cells.texts, cells.inks, strict=False):
        axis.text(x, y, text, color=ink, ha="center", va="center")


def _draw_boxes(axis: matplotlib_axes.Axes, boxes: Boxes) -> None:
    look: dict[str, Any] = {"color": boxes.look.colour, "alpha": boxes.opacity, "linewidth": 0}
    sizes = boxes.end - boxes.x, boxes.high - boxes.low
    axis.bar(boxes.x, sizes[1], sizes[0], boxes.low, align="edge", label=boxes.look.label, **look)


def _draw_intervals(axis: matplotlib_axes.Axes, one: Intervals) -> None:
    look: dict[str, Any] = {"color": one.look.colour, "marker": MARKERS[one.look.marker]}
    look |= {"linestyle": "none", "markersize": 5, "elinewidth": 1.2}
    look |= {"markerfacecolor": "white"} if one.hollow else {}
    lengths = np.nan_to_num(np.array([one.x - one.low, one.high - one.x]))
    axis.errorbar(one.x, one.y, xerr=lengths, label=one.look.label, **look)


def _error(mark: Dots | Columns) -> Any:
    """Lengths of the error bars below and above; None if all are 0."""
    lengths = np.nan_to_num(np.array([mark.y - mark.low, mark.high - mark.y]))
    return lengths if lengths.any() else None


def _label(axis: matplotlib_axes.Axes, plot: Drawing, *, left: bool, bottom: bool) -> None:
    """Sets the ranges, and labels the axes at the left and bottom edges of the figure."""
    axis.set_xlim(plot.x.begin, plot.x.end)
    axis.set_ylim(plot.y.begin, plot.y.end)
    _name_places(axis, plot.x, "x")
    _name_places(axis, plot.y, "y")
    axis.tick_params(labelleft=left, labelbottom=bottom)
    axis.set_ylabel(plot.y.label if left else "")
    axis.set_xlabel(plot.x.label if bottom else "")


def _name_places(axis: matplotlib_axes.Axes, named: Axis, which: Literal["x", "y"]) -> None:
    if named.last_tick < named.end:
        ticks = axis.get_xticks() if which == "x" else axis.get_yticks()
        shown = [tick for tick in ticks if named.begin <= tick <= named.last_tick]
        (axis.set_xticks if which == "x" else axis.set_yticks)(shown)
    if named.names:
        places, names = zip(*named.named[:: named.every], strict=True)
        (axis.set_xticks if which == "x" else axis.set_yticks)(places, names)
        axis.tick_params(axis=which, length=0)
        axis.grid(visible=False, axis=which)


def _legend(
    figure: Figure, drawn: list[matplotlib_axes.Axes], plot: Drawing, form: Format
) -> tuple[Legend, float]:
    """Adds the legend; returns it, and its height in inches with the free space above it.

    The samples of labels that marks of several colours share are in the colour of text.
    """
    samples = {
        label: Line2D([], [], color=INK, linestyle="none", marker=MARKERS[look.marker], markersize=5)
        for label, look in shared_labels(plot).items()
    }
    handles: dict[str, Artist] = {}
    of_axes = [zip(*axis.get_legend_handles_labels(), strict=True) for axis in drawn]
    # The first entry of each pair of axes comes first, so that flows precede entries that all axes share.
    for handle, label in filter(None, chain.from_iterable(zip_longest(*of_axes))):
        handles.setdefault(str(label), samples.get(str(label), handle))
    columns = form.legend_columns([len(label) for label in handles])
    # `_draw` puts it above the axes, where it cannot cover data, when the figure has its size.
    legend = figure.legend(
        list(handles.values()), list(handles), ncols=columns, borderaxespad=0, borderpad=0.2, loc="upper left"
    )
    return legend, -(-len(handles) // columns) * form.inches(LEGEND_ROW_EM) + LEGEND_EDGE_IN


def _rows(axis: Axis) -> float:
    """The number of rows of a vertical axis of categories; 0 of any other."""
    return axis.end - axis.begin if axis.names and not axis.log else 0.0


def _place(
    figure: Figure, form: Format, grid: tuple[int, int], margins_in: tuple[float, float, float]
) -> None:
    """Places the axes within the margins; the figure grows by the height of the legend above them.

    ``grid`` has the numbers of rows and columns, ``margins_in`` are the margins at the top, bottom and left.
    """
    rows, columns = grid
    above_in, below_in, left_in = margins_in
    width_in, axes_in = figure.get_size_inches()
    height_in = axes_in + above_in + TOP_IN
    figure.set_size_inches(width_in, height_in)
    between_rows_in = form.inches(BETWEEN_ROWS_EM)
    height_of_one_in = (axes_in - below_in - (rows - 1) * between_rows_in) / rows
    figure.subplots_adjust(
        left=left_in / width_in,
        right=1 - RIGHT_IN / width_in,
        bottom=below_in / height_in,
        top=1 - (above_in + TOP_IN) / height_in,
        wspace=form.inches(BETWEEN_COLUMNS_EM) / form.axes_in(columns),
        hspace=between_rows_in / height_of_one_in,
    )
