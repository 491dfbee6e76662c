"""Experiments: conditions x repeats on a backend, one store of what came out, one form of results.

A run has one condition, a sweep has every combination of some values, and a list has any labelled scenarios.
"""

from rtclab.experiment.comparison import MARGIN_PERCENT, Differences, compare_runs, paired_repeats
from rtclab.experiment.conditions import Condition, Conditions, Listed, Product, digest_of
from rtclab.experiment.definitions import Definitions, Measure, OtherVersion
from rtclab.experiment.disturbance import MAX_TRIES, disturbances, encode_ms
from rtclab.experiment.draws import Draw
from rtclab.experiment.experiment import Experiment, Interrupted, keep_trace, resumed
from rtclab.experiment.results import Results, check_names, chosen_metrics, essential
from rtclab.experiment.runner import Stopped
from rtclab.experiment.store import (
    STORE_FILE,
    About,
    Number,
    Result,
    Store,
    build,
    find_store,
    name_below,
    open_store,
    stores,
)
from rtclab.experiment.summary import metrics_of, summary_of_run
from rtclab.experiment.window import Moment

__all__ = [
    "MARGIN_PERCENT",
    "MAX_TRIES",
    "STORE_FILE",
    "About",
    "Condition",
    "Conditions",
    "Definitions",
    "Differences",
    "Draw",
    "Experiment",
    "Interrupted",
    "Listed",
    "Measure",
    "Moment",
    "Number",
    "OtherVersion",
    "Product",
    "Result",
    "Results",
    "Stopped",
    "Store",
    "build",
    "check_names",
    "chosen_metrics",
    "compare_runs",
    "digest_of",
    "disturbances",
    "encode_ms",
    "essential",
    "find_store",
    "keep_trace",
    "metrics_of",
    "name_below",
    "open_store",
    "paired_repeats",
    "resumed",
    "stores",
    "summary_of_run",
]
