"""Experiments: conditions x repeats on a backend, one store of what came out, one form of results.

A run has one condition, a sweep has every combination of some values, and a list has any labelled scenarios.
"""

from rtclab.experiment.conditions import Condition, Conditions, Listed, Product, digest_of
from rtclab.experiment.definitions import Definitions, Measure, OtherVersion
from rtclab.experiment.disturbance import MAX_TRIES, disturbances, encode_ms
from rtclab.experiment.draws import Draw
from rtclab.experiment.experiment import Experiment, Interrupted, keep_trace, resumed
from rtclab.experiment.fields import parse_vary
from rtclab.experiment.results import Moment, Results, check_names, essential, metrics_of, window
from rtclab.experiment.runner import Stopped
from rtclab.experiment.store import STORE_FILE, About, Number, Result, Store, find_store, open_store, stores

__all__ = [
    "MAX_TRIES",
    "STORE_FILE",
    "About",
    "Condition",
    "Conditions",
    "Definitions",
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
    "check_names",
    "digest_of",
    "disturbances",
    "encode_ms",
    "essential",
    "find_store",
    "keep_trace",
    "metrics_of",
    "open_store",
    "parse_vary",
    "resumed",
    "stores",
    "window",
]
