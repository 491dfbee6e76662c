"""Sweeps: one scenario with every combination of some values, each point repeated, in one table.

docs/sweeps.md says how fields, lists and ranges are written and how the same runs on many machines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from pathlib import Path

from rtclab.backend import backend as backend_of
from rtclab.errors import BadInput
from rtclab.processes import cores, process_pool
from rtclab.scenario import Change
from rtclab.scenario.load import as_changes
from rtclab.sweeps.grid import Grid
from rtclab.sweeps.plan import Plan, make_plan
from rtclab.sweeps.runner import SweepStopped, run_tasks
from rtclab.sweeps.store import SWEEP_FILE, Store
from rtclab.sweeps.values import parse_vary
from rtclab.sweeps.worker import OtherVersion

__all__ = ["SWEEP_FILE", "Grid", "Interrupted", "OtherVersion", "SweepStopped", "parse_vary", "sweep"]

Progress = Callable[[int, int], None]


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a sweep; ``grid`` has what was finished until then."""

    def __init__(self, grid: Grid) -> None:
        super().__init__(f"interrupted; finished repeats are kept in {grid.path}")
        self.grid = grid
