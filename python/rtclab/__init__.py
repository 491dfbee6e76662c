"""A laboratory for real-time calls: one scenario, simulated or live, one trace.

    from rtclab import Run, Scenario
    scenario = Scenario.load("first-call", ["duration=20 s"])

The names below are imported when first used, so that the command line starts quickly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rtclab.campaign import run_scenario
    from rtclab.capture import Trace
    from rtclab.scenario import Scenario
    from rtclab.trace import Run

__version__ = "0.1.0"

__all__ = ["Run", "Scenario", "Trace", "__version__", "run_scenario"]

_HOME = {
    "Run": "rtclab.trace",
    "Scenario": "rtclab.scenario",
    "Trace": "rtclab.capture",  # which gives it from_pcap
    "run_scenario": "rtclab.campaign",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOME[name]), name)
