"""How a plot looks and how it is written: wide and narrow, text as text, the same bytes each time."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

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

    name: str
    width_in: float
    row_in: float
    columns: int
    font_pt: float


WIDE = Size("wide", 9.0, 2.6, 2, 9.0)
NARROW = Size("narrow", 4.2, 2.1, 1, 9.5)
LEGEND_IN = 0.6  # room above the panels


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
        narrow_svg = _svg(_draw(plot, NARROW))
    (directory / f"{plot.name}.svg").write_text(wide_svg, encoding="utf-8")
    (directory / f"{plot.name}.png").write_bytes(image.getvalue())
    return Drawing(plot, _element(wide_svg, f"{plot.name}-wide"), _element(narrow_svg, f"{plot.name}-narrow"))


def _draw(plot: Plot, size: Size) -> Figure:
    """A figure with the panels of the plot, drawn, and one legend above them."""
    columns = min(size.columns, plot.panels)
    rows = -(-plot.panels // columns)
    with matplotlib.rc_context({"font.size": size.font_pt, "axes.titlesize": size.font_pt}):
        figure = Figure(figsize=(size.width_in, rows * size.row_in + LEGEND_IN), layout="constrained")
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        panels = list(grid.flat)
        plot.draw(panels[: plot.panels])
        for unused in panels[plot.panels :]:
            unused.set_visible(False)
        for panel in panels[: plot.panels]:
            panel.label_outer()
        _legend(figure, panels[: plot.panels], size)
    return figure


def _legend(figure: Figure, panels: list[Axes], size: Size) -> None:
    """Every label once, above the panels, where it cannot cover data."""
    handles: dict[str, Artist] = {}
    for panel in panels:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(str(label), handle)
    if handles:
        figure.legend(
            list(handles.values()),
            list(handles),
            loc="outside upper left",
            ncols=2 * size.columns,
            borderaxespad=0.2,
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
