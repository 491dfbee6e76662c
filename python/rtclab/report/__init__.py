"""Plots of runs, and self-contained HTML reports with interactive charts.

Plots and pages of your own are made of the same parts. A :class:`Plot` is data: axes and the marks on them.
``over_time``, ``distributions``, ``per_repeat`` and ``bars`` make common ones, ``as_svg`` draws one, and
``render`` puts several as interactive charts into a page.

Names are imported on first use, because each page needs few of the modules.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
    from rtclab.report.picture import as_svg
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
    from rtclab.report.plots_of_runs import (
        comparison_plot,
        looks_of,
        run_plot,
        run_plots,
    )
    from rtclab.report.plots_of_sweeps import sweep_plot
    from rtclab.report.runs import write_report
    from rtclab.report.shown_flows import main_of
    from rtclab.report.sweeps import SweepView, sweep_plots, write_sweep_report
    from rtclab.report.words import flow_in_words, janus_caution, machine_in_words, number

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

_HOME = {
    "rtclab.report.bands": ("Band", "band", "points_per_line", "thinned"),
    "rtclab.report.comparisons": ("comparison_verdicts", "write_comparison"),
    "rtclab.report.drawing": (
        "Axes",
        "Axis",
        "COLOURS",
        "Columns",
        "DASHED",
        "Dots",
        "Drawing",
        "INK",
        "Line",
        "Mark",
        "QUIET",
        "ROOM_ABOVE",
        "SOLID",
        "Style",
        "largest",
    ),
    "rtclab.report.flow_plots": ("COMPARISON_PLOTS", "RUN_PLOTS"),
    "rtclab.report.page": ("load_template", "render"),
    "rtclab.report.picture": ("as_svg",),
    "rtclab.report.picture_sizes": ("NARROW",),
    "rtclab.report.plot": ("Plot",),
    "rtclab.report.plot_kinds": (
        "Bars",
        "Curve",
        "Distribution",
        "Panel",
        "Points",
        "bars",
        "distributions",
        "over_time",
        "per_repeat",
    ),
    "rtclab.report.plots_of_runs": ("comparison_plot", "looks_of", "run_plot", "run_plots"),
    "rtclab.report.runs": ("write_report",),
    "rtclab.report.shown_flows": ("main_of",),
    "rtclab.report.plots_of_sweeps": ("sweep_plot",),
    "rtclab.report.sweeps": ("SweepView", "sweep_plots", "write_sweep_report"),
    "rtclab.report.words": ("flow_in_words", "janus_caution", "machine_in_words", "number"),
}
"""The public names of each module."""


def __getattr__(name: str) -> object:
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
