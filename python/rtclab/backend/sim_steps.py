"""A simulated repeat that is stepped: its links can be changed and its tables read while it runs."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import polars as pl

from rtclab import _native, own_controls
from rtclab.backend.backends import paths_table
from rtclab.backend.sim import SimBackend
from rtclab.errors import BadInput
from rtclab.scenario import Scenario
from rtclab.scenario.load import Changes, as_time
from rtclab.scenario.units import Duration
from rtclab.trace import NS_PER_S, Trace


class Simulation:
    """A repeat of a scenario in virtual time that runs in steps. Any steps lead to the same trace.

    Congestion controls of the user's own run in this process, where a debugger sees them.

    Attributes:
        scenario: the scenario with all changes so far.

    Example:
        >>> call = rtclab.Simulation("first-call")
        >>> call.advance("20 s")
        >>> call.change({"link.up.capacity": "500 kbit/s"})
        >>> call.advance()
        >>> call.now
        60.0
    """

    scenario: Scenario

    def __init__(self, scenario: str | Path | Scenario, repeat: int = 0, *, trust: bool = False) -> None:
        """Prepares a repeat.

        Args:
            scenario: a name from ``rtclab list``, the path of a TOML file, or a loaded scenario.
            repeat: number of the repeat, from which its seed is derived.
            trust: run the Python code that a file from outside of the current project names.

        Raises:
            BadInput: such a file is not trusted.
            ScenarioError: the scenario is invalid.
            UnsupportedScenario: the simulator cannot run the scenario.
        """
        loaded = scenario
        if trust or not isinstance(loaded, Scenario):
            loaded = Scenario.load(loaded, trust=trust)
        SimBackend().check(loaded)
        self.scenario = loaded
        self._planned = loaded
        self._repeat, self._seed = repeat, loaded.seed_of(repeat)
        own = own_controls.factories(loaded.owned_controls(), self._seed) or None
        self._native = _native.Simulation(json.dumps(loaded.native(seed=self._seed)), own)
        self._table = paths_table(loaded)

    @property
    def now(self) -> float:
        """Up to when the repeat has run, in s."""
        return self._native.now() / NS_PER_S

    @property
    def duration(self) -> float:
        """Length of the repeat in s, as the scenario plans it."""
        return self._planned.duration.s

    def advance(self, until: str | float | None = None) -> None:
        """Runs up to a time, and everything that happens at that time.

        Args:
            until: a text such as ``"20 s"``, or a number of seconds; None for the end.

        Raises:
            BadInput: the time has passed, or is after the end. The repeat can go on.
        """
        duration = self._planned.duration
        until_ns = duration.ns if until is None else Duration.parse(as_time(until)).ns
        now_ns = self._native.now()
        if not now_ns <= until_ns <= duration.ns:
            span = f"{self.now:g} s to the end at {duration}"
            raise BadInput(f"the simulation cannot advance to {until}; expected {span}")
        try:
            self._native.advance(until_ns)
        except ValueError as error:
            raise ValueError(
                own_controls.without_owners(str(error), self._planned.owned_controls())
            ) from None

    def change(self, set: Changes) -> None:
        """Changes fields of links, bottlenecks or servers' links from now on, as ``--set`` does for a run.

        Raises:
            BadInput: a change names what does not exist, or what is no property of a path.
            ScenarioError: the scenario would be invalid.
        """
        changed = Scenario.load(self.scenario, set)
        before, after = (_without_paths(one.native(seed=self._seed)) for one in (self.scenario, changed))
        if before != after:
            fields = ", ".join(self.scenario.differences(changed))
            raise BadInput(
                f"a running simulation can only change its paths, and these are of {fields}",
                hint="run another scenario to change anything else",
            )
        old, new = (_paths(one.native(seed=self._seed)) for one in (self.scenario, changed))
        paths = [path for path in new if new[path] != old[path]]
        for path in paths:
            self._native.set_path(json.dumps(new[path]))
        self._table = self._changed(changed, paths)
        self.scenario = changed

    def trace(self) -> Trace:
        """The trace so far, as of a repeat that ends now. ``save`` writes it to a directory."""
        now_ns = self._native.now()
        trace = SimBackend().trace_of(
            self._native.tables(), self._planned, seed=self._seed, repeat=self._repeat
        )
        about = trace.manifest
        ends = {name: min(flow.end_ns, now_ns) for name, flow in about.flows.items()}
        flows = {
            name: flow.model_copy(update={"end_ns": ends[name], "begin_ns": min(flow.begin_ns, ends[name])})
            for name, flow in about.flows.items()
        }
        calls = tuple(
            call.model_copy(
                update={"end_ns": min(call.end_ns, now_ns), "start_ns": min(call.start_ns, now_ns)}
            )
            for call in about.calls
        )
        known = {"duration_ns": now_ns, "flows": flows, "calls": calls}
        tables = {name: trace.table(name) for name in trace.tables}
        tables["paths"] = self._table.filter(pl.col("at_ns") <= now_ns)
        return Trace.in_memory(tables, about.model_copy(update=known))

    def _changed(self, scenario: Scenario, paths: Collection[str]) -> pl.DataFrame:
        """The table of paths, if these paths are as in ``scenario`` from now on."""
        now_ns = self._native.now()
        own = pl.col("path").is_in(list(paths))
        planned = paths_table(scenario).filter(own)
        at_once = planned.filter(pl.col("at_ns") <= now_ns).group_by("path", maintain_order=True).last()
        parts = [
            self._table.filter(~own | (pl.col("at_ns") < now_ns)),
            at_once.with_columns(at_ns=pl.lit(now_ns, pl.Int64)).select(planned.columns),
            planned.filter(pl.col("at_ns") > now_ns),
        ]
        return pl.concat(parts).sort("at_ns", maintain_order=True)


def _paths(native: dict[str, Any]) -> dict[str, Any]:
    return {path["name"]: path for path in native["network"]["paths"]}


def _without_paths(native: dict[str, Any]) -> dict[str, Any]:
    """Everything but the properties of the paths. Their names stay."""
    network = native["network"] | {"paths": list(_paths(native))}
    return native | {"network": network}
