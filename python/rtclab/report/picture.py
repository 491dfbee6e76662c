"""Draws plots with matplotlib: as SVG or PDF, whose text stays text, or as PNG."""

from __future__ import annotations

import re
from io import BytesIO, StringIO
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib import axes as matplotlib_axes
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.legend import Legend

from rtclab.report.drawing import (
    GRID,
    INK,
    QUIET,
    RANGE_OPACITY,
    Axes,
    Axis,
    Cells,
    Columns,
    Dash,
    Dots,
    Drawing,
    Line,
)
from rtclab.trace import write_bytes, write_text

WIDTH_IN, ROW_IN, COLUMNS = 9.0, 2.5, 2
FONT_PT = 9.0
PNG_DOTS_PER_INCH = 120
MARKS_OF_A_LINE = 8
MARKERS = {
    "circle": "o",
    "square": "s",
    "triangle": "^",
    "diamond": "D",
    "inverted_triangle": "v",
    "plus": "P",
}

# Margins are fixed, so that plots one below the other are aligned.
LEFT_IN, RIGHT_IN, BOTTOM_IN, TOP_IN = 0.8, 0.15, 0.5, 0.08
BETWEEN_COLUMNS_IN, BETWEEN_ROWS_IN = 0.2, 0.4
TITLE_IN = 0.2
LEGEND_ROW_IN = 0.21
LEGEND_EDGE_IN = 0.08  # free at the edges of the picture
LEGEND_HANDLE_PT = 50  # line, gap to the text, gap to the next column
CHARACTER_EM = 0.56  # mean width of a letter in DejaVu Sans
POINTS_PER_INCH = 72

STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "rtclab",
    "pdf.fonttype": 42,  # TrueType; many publishers refuse the default, Type 3
    "font.size": FONT_PT,
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],
    "axes.titlesize": FONT_PT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.titlelocation": "left",
    "axes.titlepad": 5.0,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "text.color": INK,
    "lines.linewidth": 1.5,
    "legend.frameon": False,
    "legend.handlelength": 2.8,
}


def write(path: Path, plot: Drawing) -> None:
    """Writes an SVG, a PDF or a PNG, depending on the suffix of ``path``."""
    match path.suffix:
        case ".svg":
            write_text(path, as_svg(plot))
        case ".pdf":
            write_bytes(path, as_pdf(plot))
        case _:
            write_bytes(path, as_png(plot))


def as_svg(plot: Drawing) -> str:
    """The content of an SVG file, without a date and with coordinates rounded to 1/100 pt."""
    text = StringIO()
    with matplotlib.rc_context(STYLE):
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        _draw(plot).savefig(text, format="svg", metadata=nothing)
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", text.getvalue(), flags=re.DOTALL)
    return re.sub(r' d="[^"]*"', lambda path: _rounded(path.group()), svg)


def as_pdf(plot: Drawing) -> bytes:
    """The content of a PDF file, without a date."""
    file = BytesIO()
    with matplotlib.rc_context(STYLE):
        nothing = dict.fromkeys(("Creator", "Producer", "CreationDate"))
        _draw(plot).savefig(file, format="pdf", metadata=nothing)
    return file.getvalue()


def as_png(plot: Drawing) -> bytes:
    """The content of a PNG file."""
    image = BytesIO()
    with matplotlib.rc_context(STYLE):
        _draw(plot).savefig(image, format="png", dpi=PNG_DOTS_PER_INCH, metadata={"Software": None})
    return image.getvalue()


def _rounded(path: str) -> str:
    return re.sub(r"(\.\d\d)\d+", r"\1", path).replace(" \n", " ").replace("\n", " ")


def _draw(plot: Drawing) -> Figure:
    """A figure with the axes of the plot and one legend above them."""
    count = len(plot.axes)
    columns = min(COLUMNS, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(WIDTH_IN, rows * ROW_IN))
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    drawn, unused = list(grid.flat)[:count], list(grid.flat)[count:]
    for axis in unused:
        axis.remove()
    for index, (axis, axes) in enumerate(zip(drawn, plot.axes, strict=True)):
        _draw_axes(axis, axes)
        left, bottom = index % columns == 0, index + columns >= count
        _label(axis, plot, left=left, bottom=bottom)
    titled = any(axes.title or axes.note for axes in plot.axes)
    legend, legend_in = _legend(figure, drawn)
    _place(figure, rows, columns, legend_in + (TITLE_IN if titled else 0.0))
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
    ranges = {mark.range.label for mark in axes.marks if isinstance(mark, Line) and mark.range}
    for label in ranges:
        axis.fill_between([], [], color=QUIET, alpha=RANGE_OPACITY, linewidth=0, label=label)
    axis.set_title(axes.title)
    axis.set_title(axes.note, loc="right", color=QUIET)


def _draw_line(axis: matplotlib_axes.Axes, line: Line, phase: float) -> None:
    """Draws a line; ``phase`` (0..1) moves its markers, so that markers of several lines do not overlap."""
    look = line.look
    if line.range is not None:
        ends: dict[str, Any] = {"color": look.colour, "alpha": RANGE_OPACITY, "linewidth": 0}
        axis.fill_between(line.x, line.range.low, line.range.high, **ends)
    style: dict[str, Any] = {"color": look.colour, "linestyle": _dash(look.dash), "label": look.label}
    if look.colour == INK:
        style["linewidth"] = 1.2
    if line.steps:
        style["drawstyle"] = "steps-post"
    if line.marked:
        apart = max(line.x.size // MARKS_OF_A_LINE, 1)
        every = (int(phase * apart), apart)
        style |= {"marker": MARKERS[look.marker], "markersize": 4, "markevery": every}
    axis.plot(line.x, line.y, **style)


def _dash(dash: Dash) -> Any:
    return (0, dash) if dash else "-"


def _draw_dots(axis: matplotlib_axes.Axes, dots: Dots) -> None:
    look: dict[str, Any] = {
        "color": dots.look.colour,
        "marker": MARKERS[dots.look.marker],
        "linestyle": "none",
        "capsize": 3,
        "markersize": 5,
        "elinewidth": 1.2,
    }
    look |= {"markerfacecolor": "white"} if dots.hollow else {"label": dots.look.label}
    axis.errorbar(dots.x, dots.y, _error(dots), **look)


def _draw_columns(axis: matplotlib_axes.Axes, columns: Columns) -> None:
    error: dict[str, Any] = {"ecolor": INK, "capsize": 3, "error_kw": {"elinewidth": 1.0}}
    look: dict[str, Any] = {
        "color": columns.look.colour,
        "alpha": columns.opacity,
        "label": columns.look.label,
    }
    axis.bar(columns.x, columns.y, columns.width, yerr=_error(columns), **look, **error)


def _draw_cells(axis: matplotlib_axes.Axes, cells: Cells) -> None:
    axis.bar(cells.x, np.ones(cells.x.size), 1.0, cells.y - 0.5, color=cells.colours, edgecolor="white")
    # A picture has no title, so its legend names the values of the cells. The note above explains the
    # colours.
    axis.plot([], [], linestyle="none", label=cells.look.label)
    for x, y, text, ink in zip(cells.x, cells.y, cells.texts, cells.inks, strict=False):
        axis.text(x, y, text, color=ink, ha="center", va="center")


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
    if named.names:
        places, names = zip(*named.named[:: named.every], strict=True)
        (axis.set_xticks if which == "x" else axis.set_yticks)(places, names)
        axis.tick_params(axis=which, length=0)
        axis.grid(visible=False, axis=which)


def _legend(figure: Figure, drawn: list[matplotlib_axes.Axes]) -> tuple[Legend, float]:
    """Adds the legend; returns it, and its height in inches with the free space above it."""
    handles: dict[str, Artist] = {}
    of_axes = [zip(*axis.get_legend_handles_labels(), strict=True) for axis in drawn]
    # The first entry of each pair of axes comes first, so that flows precede entries that all axes share.
    for handle, label in filter(None, chain.from_iterable(zip_longest(*of_axes))):
        handles.setdefault(str(label), handle)
    columns = _legend_columns([len(label) for label in handles])
    # `_draw` puts it above the axes, where it cannot cover data, when the figure has its size.
    legend = figure.legend(
        list(handles.values()),
        list(handles),
        ncols=columns,
        borderaxespad=0,
        borderpad=0.2,
        loc="upper left",
    )
    return legend, -(-len(handles) // columns) * LEGEND_ROW_IN + LEGEND_EDGE_IN


def _legend_columns(lengths: list[int]) -> int:
    """The number of legend columns that fit. Columns are filled from top to bottom."""
    for columns in range(len(lengths), 1, -1):
        longest = [int(column.max()) for column in np.array_split(lengths, columns)]
        width_pt = columns * LEGEND_HANDLE_PT + sum(longest) * CHARACTER_EM * FONT_PT
        if width_pt < (WIDTH_IN - 2 * LEGEND_EDGE_IN) * POINTS_PER_INCH:
            return columns
    return 1


def _place(figure: Figure, rows: int, columns: int, above_in: float) -> None:
    """Places the axes within the margins; the figure grows by the height of the legend above them."""
    width_in, axes_in = figure.get_size_inches()
    height_in = axes_in + above_in + TOP_IN
    figure.set_size_inches(width_in, height_in)
    width_of_one_in = (width_in - LEFT_IN - RIGHT_IN - (columns - 1) * BETWEEN_COLUMNS_IN) / columns
    height_of_one_in = (axes_in - BOTTOM_IN - (rows - 1) * BETWEEN_ROWS_IN) / rows
    figure.subplots_adjust(
        left=LEFT_IN / width_in,
        right=1 - RIGHT_IN / width_in,
        bottom=BOTTOM_IN / height_in,
        top=1 - (above_in + TOP_IN) / height_in,
        wspace=BETWEEN_COLUMNS_IN / width_of_one_in,
        hspace=BETWEEN_ROWS_IN / height_of_one_in,
    )
