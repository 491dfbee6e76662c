"""A laboratory for real-time calls: scenarios run simulated or live, and both leave the same trace.

    import rtclab

    run = rtclab.run("first-call", duration="20 s", repeats=5)
    run.summary()
    run.plot("rate")

Names are imported on first use, so that the command line starts quickly.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rtclab.arenas import Arena, arena
    from rtclab.backend.sim import simulate
    from rtclab.backend.sim_batch import simulate_together
    from rtclab.backend.sim_steps import Simulation
    from rtclab.comparing import Comparison, compare
    from rtclab.experiment import Experiment, Results
    from rtclab.gates import GateResult, gate
    from rtclab.lab import (
        import_files,
        link,
        list_metrics,
        list_runs,
        list_scenarios,
        replay,
        run,
        scenario_from,
        sweep,
    )
    from rtclab.lab import open_results as open  # noqa: F401
    from rtclab.machine import doctor
    from rtclab.scenario import Scenario
    from rtclab.trace import Trace

__version__ = "0.1.0"

__all__ = [
    "Arena",
    "Comparison",
    "Experiment",
    "GateResult",
    "Results",
    "Scenario",
    "Simulation",
    "Trace",
    "__version__",
    "arena",
    "compare",
    "doctor",
    "gate",
    "import_files",
    "link",
    "list_metrics",
    "list_runs",
    "list_scenarios",
    "replay",
    "run",
    "scenario_from",
    "simulate",
    "simulate_together",
    "sweep",
]
# Without `open`, because `from rtclab import *` would replace the builtin.

_HOME = {
    "Arena": ("rtclab.arenas", "Arena"),
    "Comparison": ("rtclab.comparing", "Comparison"),
    "Experiment": ("rtclab.experiment", "Experiment"),
    "GateResult": ("rtclab.gates", "GateResult"),
    "Results": ("rtclab.experiment", "Results"),
    "Scenario": ("rtclab.scenario", "Scenario"),
    "Simulation": ("rtclab.backend.sim_steps", "Simulation"),
    "Trace": ("rtclab.trace", "Trace"),
    "arena": ("rtclab.arenas", "arena"),
    "compare": ("rtclab.comparing", "compare"),
    "doctor": ("rtclab.machine", "doctor"),
    "gate": ("rtclab.gates", "gate"),
    "import_files": ("rtclab.lab", "import_files"),
    "link": ("rtclab.lab", "link"),
    "list_metrics": ("rtclab.lab", "list_metrics"),
    "list_runs": ("rtclab.lab", "list_runs"),
    "list_scenarios": ("rtclab.lab", "list_scenarios"),
    "open": ("rtclab.lab", "open_results"),
    "replay": ("rtclab.lab", "replay"),
    "simulate": ("rtclab.backend.sim", "simulate"),
    "simulate_together": ("rtclab.backend.sim_batch", "simulate_together"),
    "run": ("rtclab.lab", "run"),
    "scenario_from": ("rtclab.lab", "scenario_from"),
    "sweep": ("rtclab.lab", "sweep"),
}
"""Module of each public name, and its name there."""


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module, attribute = _HOME[name]
    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    return [*__all__, "open"]


if _native_file := os.environ.get("RTCLAB_NATIVE"):
    from rtclab import own_native

    own_native.use(_native_file)
