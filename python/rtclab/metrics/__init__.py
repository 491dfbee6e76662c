"""Metrics computed from traces, with unit and source, and statistics over repeats.

To add a metric, write a function with the decorator `metric` in one of the modules below. Its docstring is
the definition that users see.
"""

# Tables list the metrics in the order of these imports.
from rtclab.metrics import rate, wire, delay, arrivals, loss, repair, media, audio, setup, host  # isort: skip
from rtclab.metrics import fairness, tcp  # isort: skip
from rtclab.metrics.flows import media_flows
from rtclab.metrics.measure import (
    MARGIN_PERCENT,
    compare_runs,
    compare_with,
    flows_of,
    measure_repeats,
    measure_run,
    paired_repeats,
    prepare,
    totals_per_minute,
)
from rtclab.metrics.registry import ESSENTIAL, METRICS, SOURCES, Metric, essentials, metric

__all__ = [
    "ESSENTIAL",
    "MARGIN_PERCENT",
    "METRICS",
    "SOURCES",
    "Metric",
    "arrivals",
    "audio",
    "compare_runs",
    "compare_with",
    "delay",
    "essentials",
    "fairness",
    "flows_of",
    "host",
    "loss",
    "measure_repeats",
    "measure_run",
    "media",
    "media_flows",
    "metric",
    "paired_repeats",
    "prepare",
    "rate",
    "repair",
    "setup",
    "tcp",
    "totals_per_minute",
    "wire",
]
