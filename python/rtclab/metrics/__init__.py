"""Metrics computed from traces, with unit and source, and statistics over repeats.

To add a metric, write a function with the decorator `metric` in one of the modules below. Its docstring is
the definition that users see. ``counter``, ``gauge`` and the functions of the modules give the time series of
a flow; ``slopes``, ``mean_slope`` and ``increase`` are computed from a counter.
Metrics are asked flow by flow, so what takes a whole table is computed once and cached with the trace.
"""

# Tables list the metrics in the order of these imports.
from rtclab.metrics import rate, wire, delay, arrivals, loss, marks, repair, media, audio  # isort: skip
from rtclab.metrics.accounts import fates as fates  # isort: skip
from rtclab.metrics import setup, host, fairness, tcp, adapting, budget, limited  # isort: skip
from rtclab.metrics.flows import feedback_flows, media_flows
from rtclab.metrics.registry import ESSENTIAL, METRICS, SOURCES, Metric, essentials, metric
from rtclab.metrics.series import (
    NO_SAMPLES,
    Array,
    Samples,
    counter,
    gauge,
    increase,
    mean_slope,
    samples_in_window,
    slopes,
    span_ns,
)
from rtclab.metrics.statistics import (
    POWER,
    Difference,
    Jackknife,
    PredictionRange,
    Proportion,
    Summary,
    holm,
    kolmogorov_smirnov,
    mean_within_sd,
    means_of_known,
    prediction_interval,
    prediction_range,
    share_of_samples,
    summarise,
    t_quantile,
    visible_shift,
    welch,
    wilcoxon,
)
from rtclab.trace import Window

__all__ = [
    "ESSENTIAL",
    "METRICS",
    "NO_SAMPLES",
    "POWER",
    "SOURCES",
    "Array",
    "Difference",
    "Jackknife",
    "Metric",
    "PredictionRange",
    "Proportion",
    "Samples",
    "Summary",
    "Window",
    "adapting",
    "arrivals",
    "audio",
    "budget",
    "counter",
    "delay",
    "essentials",
    "fairness",
    "feedback_flows",
    "gauge",
    "holm",
    "host",
    "increase",
    "kolmogorov_smirnov",
    "limited",
    "loss",
    "marks",
    "mean_slope",
    "mean_within_sd",
    "means_of_known",
    "media",
    "media_flows",
    "metric",
    "prediction_interval",
    "prediction_range",
    "rate",
    "repair",
    "samples_in_window",
    "setup",
    "share_of_samples",
    "slopes",
    "span_ns",
    "summarise",
    "t_quantile",
    "tcp",
    "visible_shift",
    "welch",
    "wilcoxon",
    "wire",
]
