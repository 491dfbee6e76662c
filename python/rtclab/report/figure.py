"""How a plot looks and how it is written: wide and narrow, text as text, the same bytes each time."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO, StringIO
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rtclab.trace import write_bytes, write_text

# After Okabe and Ito 2008: told apart with every kind of colour vision; in grey by line style and marker.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#AA5A96", "#B8860B", "#3A9BDC")
LINE_STYLES = ("-", (0, (6, 1.5)), (0, (3, 1, 1, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P")
INK = "#222222"
QUIET = "#6b6b6b"
PNG_DOTS_PER_INCH = 120

STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "rtclab",
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.titlelocation": "left",
    "axes.titlepad": 5.0,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e3e3",
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


@dataclass(frozen=True)
class Size:
    """Width of a drawing, height of one row of panels, how many panels stand in a row, and the font."""

    width_in: float
    row_in: float
    columns: int
    font_pt: float


WIDE = Size(width_in=9.0, row_in=2.5, columns=2, font_pt=9.0)
NARROW = Size(width_in=4.2, row_in=2.0, columns=1, font_pt=9.5)

# Margins are fixed, so that the panels of all plots of a page stand exactly above each other.
LEFT_IN, RIGHT_IN, BOTTOM_IN, TOP_IN = 0.8, 0.15, 0.5, 0.08
BETWEEN_COLUMNS_IN, BETWEEN_ROWS_IN = 0.2, 0.4
TITLE_IN = 0.2
LEGEND_ROW_IN = 0.21
LEGEND_HANDLE_PT = 50  # line, gap to the text, gap to the next column
CHARACTER_EM = 0.56  # mean width of a letter of DejaVu Sans
POINTS_PER_INCH = 72


@dataclass(frozen=True)
class Plot:
    """One plot of a report. ``draw`` fills the axes, one per panel, and is called once per size."""

    name: str
    title: str
    caption: str
    panels: int
    draw: Callable[[Sequence[Axes]], None]


@dataclass(frozen=True)
class Drawing:
    """A plot as SVG elements for a page: the same content for a wide and for a narrow window."""

    plot: Plot
    wide: str
    narrow: str


def render(plot: Plot, directory: Path) -> Drawing:
    """Draws a plot, writes ``<name>.svg`` and ``<name>.png`` (wide) and returns both sizes for a page."""
    with matplotlib.rc_context(STYLE):
        wide = _draw(plot, WIDE)
        image = BytesIO()
        wide.savefig(image, format="png", dpi=PNG_DOTS_PER_INCH, metadata={"Software": None})
        wide_svg = _svg(wide)
    write_text(directory / f"{plot.name}.svg", wide_svg)
    write_bytes(directory / f"{plot.name}.png", image.getvalue())
    return _both_sizes(plot, wide_svg)


def embed(plot: Plot) -> Drawing:
    """Draws a plot in both sizes for a page, and writes no file."""
    return _both_sizes(plot, as_svg(plot))


def as_svg(plot: Plot) -> str:
    """The plot (wide) as the text of a stand-alone SVG file."""
    with matplotlib.rc_context(STYLE):
        return _svg(_draw(plot, WIDE))


def _both_sizes(plot: Plot, wide_svg: str) -> Drawing:
    with matplotlib.rc_context(STYLE):
        narrow_svg = _svg(_draw(plot, NARROW))
    return Drawing(plot, _element(wide_svg, f"{plot.name}-wide"), _element(narrow_svg, f"{plot.name}-narrow"))


def _draw(plot: Plot, size: Size) -> Figure:
    """A figure with the panels of the plot, drawn, and one legend above them."""
    columns = min(size.columns, plot.panels)
    rows = -(-plot.panels // columns)
    with matplotlib.rc_context({"font.size": size.font_pt, "axes.titlesize": size.font_pt}):
        figure = Figure(figsize=(size.width_in, rows * size.row_in))
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        panels, unused = list(grid.flat)[: plot.panels], list(grid.flat)[plot.panels :]
        plot.draw(panels)
        for panel in unused:
            panel.remove()
        for index, panel in enumerate(panels):
            _label_outside(panel, left=index % columns == 0, bottom=index + columns >= plot.panels)
        title_in = TITLE_IN if any(panel.get_title(loc="left") for panel in panels) else 0.0
        _place(figure, rows, columns, _legend(figure, panels, size) + title_in)
    return figure


def _label_outside(panel: Axes, *, left: bool, bottom: bool) -> None:
    """Labels only where no other panel comes between them and the axis."""
    panel.tick_params(labelleft=left, labelbottom=bottom)
    panel.yaxis.get_label().set_visible(left)
    panel.xaxis.get_label().set_visible(bottom)


def _legend(figure: Figure, panels: list[Axes], size: Size) -> float:
    """Every label once, above the panels, where it cannot cover data; returns the height in inches."""
    handles: dict[str, Artist] = {}
    of_panels = [zip(*panel.get_legend_handles_labels(), strict=True) for panel in panels]
    # First the first entry of every panel, so that flows come before what their panels have in common.
    for handle, label in filter(None, chain.from_iterable(zip_longest(*of_panels))):
        handles.setdefault(str(label), handle)
    columns = _legend_columns([len(label) for label in handles], size)
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0.01, 1.0)}
    figure.legend(
        list(handles.values()), list(handles), ncols=columns, borderaxespad=0, borderpad=0.2, **place
    )
    return -(-len(handles) // columns) * LEGEND_ROW_IN


def _legend_columns(lengths: list[int], size: Size) -> int:
    """As many columns as fit, filled from top to bottom, one after the other."""
    for columns in range(len(lengths), 1, -1):
        longest = [int(column.max()) for column in np.array_split(lengths, columns)]
        width_pt = columns * LEGEND_HANDLE_PT + sum(longest) * CHARACTER_EM * size.font_pt
        if width_pt < size.width_in * POINTS_PER_INCH:
            return columns
    return 1


def _place(figure: Figure, rows: int, columns: int, above_in: float) -> None:
    """Puts the panels where the margins leave room; the figure grows by what stands above them."""
    width_in, panels_in = figure.get_size_inches()
    height_in = panels_in + above_in + TOP_IN
    figure.set_size_inches(width_in, height_in)
    panel_width_in = (width_in - LEFT_IN - RIGHT_IN - (columns - 1) * BETWEEN_COLUMNS_IN) / columns
    panel_height_in = (panels_in - BOTTOM_IN - (rows - 1) * BETWEEN_ROWS_IN) / rows
    figure.subplots_adjust(
        left=LEFT_IN / width_in,
        right=1 - RIGHT_IN / width_in,
        bottom=BOTTOM_IN / height_in,
        top=1 - (above_in + TOP_IN) / height_in,
        wspace=BETWEEN_COLUMNS_IN / panel_width_in,
        hspace=BETWEEN_ROWS_IN / panel_height_in,
    )


def _svg(figure: Figure) -> str:
    """The figure as a stand-alone SVG file without date, with coordinates to 1/100 pt."""
    text = StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(text, format="svg", metadata=nothing)
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", text.getvalue(), flags=re.DOTALL)
    return re.sub(r' d="[^"]*"', lambda path: _rounded(path.group()), svg)


def _rounded(path: str) -> str:
    return re.sub(r"(\.\d\d)\d+", r"\1", path).replace(" \n", " ").replace("\n", " ")


def _element(svg: str, prefix: str) -> str:
    """The ``<svg>`` element for use inside a page: scalable, and with ids that no other drawing has."""
    element = svg[svg.index("<svg") :]
    opening, rest = element.split(">", 1)
    view = re.search(r'viewBox="[^"]*"', opening)
    if view is None:
        raise ValueError(f"the drawing `{prefix}` has no viewBox; expected one from matplotlib's SVG writer")
    rest = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', rest)
    rest = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", rest)
    rest = re.sub(r'xlink:href="#([^"]+)"', rf'href="#{prefix}-\1"', rest)
    return f'<svg {view.group()} role="img">{rest}'
