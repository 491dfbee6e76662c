"""Plots of runs, and self-contained HTML reports with interactive charts."""

from rtclab.report.plot import Plot
from rtclab.report.plots import COMPARISON_PLOTS, RUN_PLOTS, comparison_plot, run_plot
from rtclab.report.runs import comparison_verdicts, write_comparison, write_plots, write_report

__all__ = [
    "COMPARISON_PLOTS",
    "RUN_PLOTS",
    "Plot",
    "comparison_plot",
    "comparison_verdicts",
    "run_plot",
    "write_comparison",
    "write_plots",
    "write_report",
]
