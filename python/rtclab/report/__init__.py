"""Plots of runs, and self-contained HTML reports with interactive charts.

Plots and pages of your own are made of the same parts. A :class:`Plot` is data: axes and the marks on them.
``over_time``, ``distributions``, ``per_repeat`` and ``bars`` make common ones, ``as_svg`` draws one, and
``render`` puts several as interactive charts into a page.
"""

from typing import TYPE_CHECKING

from rtclab.report.bands import Band, band, points_per_line, thinned
from rtclab.report.comparisons import comparison_verdicts, write_comparison
from rtclab.report.drawing import (
    COLOURS,
    DASHED,
    INK,
    QUIET,
    ROOM_ABOVE,
    SOLID,
    Axes,
    Axis,
    Columns,
    Dots,
    Drawing,
    Line,
    Mark,
    Style,
    largest,
)
from rtclab.report.flow_plots import COMPARISON_PLOTS, RUN_PLOTS
from rtclab.report.page import load_template, render
from rtclab.report.picture_sizes import NARROW
from rtclab.report.plot import Plot
from rtclab.report.plot_kinds import (
    Bars,
    Curve,
    Distribution,
    Panel,
    Points,
    bars,
    distributions,
    over_time,
    per_repeat,
)
from rtclab.report.run_plots import (
    comparison_plot,
    looks_of,
    run_plot,
    run_plots,
)
from rtclab.report.runs import write_report
from rtclab.report.shown_flows import main_of
from rtclab.report.sweep_plots import sweep_plot
from rtclab.report.sweeps import SweepView, sweep_plots, write_sweep_report
from rtclab.report.words import flow_in_words, janus_caution, number
from rtclab.report.words import machine as machine_in_words

if TYPE_CHECKING:
    from rtclab.report.picture import as_svg

__all__ = [
    "COLOURS",
    "COMPARISON_PLOTS",
    "DASHED",
    "INK",
    "NARROW",
    "QUIET",
    "ROOM_ABOVE",
    "RUN_PLOTS",
    "SOLID",
    "Axes",
    "Axis",
    "Band",
    "Bars",
    "Columns",
    "Curve",
    "Distribution",
    "Dots",
    "Drawing",
    "Line",
    "Mark",
    "Panel",
    "Plot",
    "Points",
    "Style",
    "SweepView",
    "as_svg",
    "band",
    "bars",
    "comparison_plot",
    "comparison_verdicts",
    "distributions",
    "flow_in_words",
    "janus_caution",
    "largest",
    "load_template",
    "looks_of",
    "machine_in_words",
    "main_of",
    "number",
    "over_time",
    "per_repeat",
    "points_per_line",
    "render",
    "run_plot",
    "run_plots",
    "sweep_plot",
    "sweep_plots",
    "thinned",
    "write_comparison",
    "write_report",
    "write_sweep_report",
]


def __getattr__(name: str) -> object:
    if name != "as_svg":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Importing matplotlib takes longer than writing a page without images.
    from rtclab.report.picture import as_svg

    return as_svg
