"""Plots of runs, and self-contained HTML reports with interactive charts."""

from rtclab.report.plot import Plot
from rtclab.report.plots import COMPARISON_PLOTS, RUN_PLOTS, comparison_plot, run_plot, run_plots
from rtclab.report.runs import comparison_verdicts, write_comparison, write_report
from rtclab.report.sweep_plots import sweep_plot
from rtclab.report.sweeps import Chosen, sweep_plots, write_sweep_report

__all__ = [
    "COMPARISON_PLOTS",
    "RUN_PLOTS",
    "Chosen",
    "Plot",
    "comparison_plot",
    "comparison_verdicts",
    "run_plot",
    "run_plots",
    "sweep_plot",
    "sweep_plots",
    "write_comparison",
    "write_report",
    "write_sweep_report",
]
