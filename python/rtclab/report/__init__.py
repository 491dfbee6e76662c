"""How a run is shown: one self-contained HTML page, and its plots as SVG and PNG files."""

from rtclab.report.page import write_comparison, write_report

__all__ = ["write_comparison", "write_report"]
