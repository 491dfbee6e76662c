"""Plots of runs, and self-contained HTML reports with interactive charts."""

from rtclab.report.plot import Plot
from rtclab.report.plots import COMPARISON_PLOTS, RUN_PLOTS, comparison_plot, run_plot
from rtclab.report.runs import write_comparison, write_plots, write_report

__all__ = [
    "COMPARISON_PLOTS",
    "RUN_PLOTS",
    "Plot",
    "comparison_plot",
    "run_plot",
    "write_comparison",
    "write_plots",
    "write_report",
]
