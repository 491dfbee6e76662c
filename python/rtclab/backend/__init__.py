"""How to run a scenario: the protocol that every backend follows, and the backends by name."""

from __future__ import annotations

import importlib
import os
import platform
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import rtclab
from rtclab.errors import BackendUnavailable, BadInput
from rtclab.scenario import Scenario
from rtclab.trace import Trace


class Backend(Protocol):
    """Runs a scenario once and leaves a trace.

    ``name`` is what the command line and the run directory say. ``parallel`` is whether several
    repeats may run at the same time in threads. ``deterministic`` is whether a repeat that failed would
    fail again.
    """

    name: str
    parallel: bool
    deterministic: bool

    def check(self, scenario: Scenario) -> None:
        """Looks at scenario and machine before anything starts.

        Raises:
            UnsupportedScenario: naming the field that this backend cannot do.
            BackendUnavailable: naming what this machine lacks.
        """

    def run(self, scenario: Scenario, *, seed: int, repeat: int, out: Path) -> Trace:
        """Runs one repeat and writes its trace into the directory ``out``.

        ``out`` exists; logs and captures may lie beside the tables.

        Raises:
            RtclabError: the repeat failed; the message becomes its reason.
        """


# Imported when asked for: the simulator needs nothing of what live calls need.
_HOME = {"sim": ("rtclab.backend.sim", "SimBackend"), "live": ("rtclab.backend.live", "LiveBackend")}

NAMES = tuple(_HOME)


def backend(name: str) -> Backend:
    """The backend of this name.

    Raises:
        BadInput: there is no such backend.
        BackendUnavailable: a Python module that it needs is not installed.
    """
    if name not in _HOME:
        raise BadInput(f"no backend `{name}`; expected {' or '.join(NAMES)}")
    module, attribute = _HOME[name]
    try:
        made: Backend = getattr(importlib.import_module(module), attribute)()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "rtclab" and error.name != "rtclab._native":
            raise
        raise BackendUnavailable(
            f"the {name} backend needs the Python module `{error.name}`, which is not installed",
            hint="`make setup-live` installs what live calls need" if name == "live" else "run `make setup`",
        ) from None
    return made


def manifest(
    scenario: Scenario, *, backend: str, seed: int, repeat: int, **more: object
) -> dict[str, object]:
    """What the manifest of a trace holds; ``more`` is what only one backend knows, such as lateness."""
    return {
        "scenario": scenario.model_dump(mode="json"),
        "backend": backend,
        "seed": seed,
        "repeat": repeat,
        "flows": {flow.name: flow.as_dict() for flow in (*scenario.flows(), *scenario.traffic_flows())},
        **environment(),
        **more,
    }


@cache
def environment() -> dict[str, Any]:
    """Versions and machine, as manifests record them."""
    return {
        "versions": {"rtclab": rtclab.__version__, "python": platform.python_version()},
        "machine": {
            "system": platform.system(),
            "kernel": platform.release(),
            "processor": _processor(),
            "cores": os.cpu_count(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        },
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())
