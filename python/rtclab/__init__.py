"""A laboratory for real-time calls: scenarios run simulated or live, and both leave the same trace.

    import rtclab

    run = rtclab.run("first-call", duration="20 s", repeats=5)
    run.summary()
    run.plot("rate")

The names that matter:

    run           run a scenario, or with ``vary`` every combination of some values; returns Results
    open          earlier results, by path or name
    compare       results side by side: which differences are more than chance
    gate          check scenarios against limits and a baseline, for CI
    arena         compare congestion controls over many networks
    import_files  results of captures and logs of calls that rtclab did not run
    Results       tables, plots and reports of results; a mapping of their conditions by label
    Scenario      what to run: load, change, write as TOML
    Experiment    conditions of your own, such as scenarios by label
    Trace         the recorded repeat: its tables, metrics and plots

As on the command line there are also ``sweep``, ``watch``, ``show``, ``delete``, ``link``, ``replay``,
``remedies``, ``scenario_from``, ``monitor``, ``doctor``, ``list_scenarios``, ``list_runs`` and
``list_metrics``. ``open``, and the arguments ``set``, ``min`` and ``max``, have the names of builtins,
because the commands and options are called so; ``from rtclab import *`` leaves ``open`` out.

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
    from rtclab.experiment import Condition, Draw, Experiment, Number, Results
    from rtclab.gates import GateResult, gate
    from rtclab.lab import (
        delete,
        import_files,
        list_metrics,
        list_runs,
        list_scenarios,
        replay,
        run,
        scenario_from,
        show,
        sweep,
        watch,
    )
    from rtclab.lab import open_results as open  # noqa: F401
    from rtclab.linking import link
    from rtclab.machine import doctor
    from rtclab.metrics import metric
    from rtclab.monitoring import monitor
    from rtclab.remedy import Remedies, remedies
    from rtclab.scenario import Scenario
    from rtclab.trace import Trace

__version__ = "0.1.0"

__all__ = [
    "Arena",
    "Comparison",
    "Condition",
    "Draw",
    "Experiment",
    "GateResult",
    "Number",
    "Remedies",
    "Results",
    "Scenario",
    "Simulation",
    "Trace",
    "__version__",
    "arena",
    "compare",
    "delete",
    "doctor",
    "gate",
    "import_files",
    "link",
    "list_metrics",
    "list_runs",
    "list_scenarios",
    "metric",
    "monitor",
    "remedies",
    "replay",
    "run",
    "scenario_from",
    "show",
    "simulate",
    "simulate_together",
    "sweep",
    "watch",
]
# Without `open`, because `from rtclab import *` would replace the builtin.

_HOME = {
    "rtclab.arenas": ("Arena", "arena"),
    "rtclab.backend.sim": ("simulate",),
    "rtclab.backend.sim_batch": ("simulate_together",),
    "rtclab.backend.sim_steps": ("Simulation",),
    "rtclab.comparing": ("Comparison", "compare"),
    "rtclab.experiment": ("Condition", "Draw", "Experiment", "Number", "Results"),
    "rtclab.gates": ("GateResult", "gate"),
    "rtclab.lab": (
        *("delete", "import_files", "list_metrics", "list_runs", "list_scenarios", "replay", "run"),
        *("scenario_from", "show", "sweep", "watch"),
    ),
    "rtclab.linking": ("link",),
    "rtclab.machine": ("doctor",),
    "rtclab.metrics": ("metric",),
    "rtclab.monitoring": ("monitor",),
    "rtclab.remedy": ("Remedies", "remedies"),
    "rtclab.scenario": ("Scenario",),
    "rtclab.trace": ("Trace",),
}
"""The public names of each module."""


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "open":
        return import_module("rtclab.lab").open_results
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "open"]


if _native_file := os.environ.get("RTCLAB_NATIVE"):
    from rtclab import own_native

    own_native.use(_native_file)
