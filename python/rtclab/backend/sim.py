"""The simulated backend: virtual time, native code, the same tables as a live call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rtclab import _native
from rtclab.backend import manifest
from rtclab.errors import CallFailed, UnsupportedScenario
from rtclab.scenario import Scenario
from rtclab.scenario.topology import connections, flow_names
from rtclab.trace import NULLABLE, SCHEMAS, Trace, write_bytes, write_text

CAPTURE = "capture.pcapng"
"""Packets at the ports of all nodes, in the directory of the trace; named as live calls name theirs."""

DESCRIPTIONS = "capture.sdp"
"""The session descriptions of the calls in the capture."""


class SimBackend:
    """Runs a scenario in the simulator; the native code lets other threads run.

    With ``capture``, ``run`` writes :data:`CAPTURE` and :data:`DESCRIPTIONS` beside the tables. The whole
    capture is held in memory until the run ends.
    """

    name = "sim"
    parallel = True
    deterministic = True

    def __init__(self, *, capture: bool = False) -> None:
        self.capture = capture

    def check(self, scenario: Scenario) -> None:
        """Nothing but the congestion control and its options can be unknown to the simulator."""
        for participant in scenario.participants:
            control = scenario.congestion_control_of(participant)
            if control.name not in _native.CONGESTION_CONTROLS:
                known = ", ".join(f"`{name}`" for name in _native.CONGESTION_CONTROLS)
                own = scenario.participants[participant].congestion_control is not None
                raise UnsupportedScenario(
                    f"participants.{participant}.congestion_control.name"
                    if own
                    else "congestion_control.name",
                    f"the simulator has no `{control.name}`; expected {known}",
                )
        # The native code checks options when it sets a run up, so it sets one up that ends at once.
        try:
            _native.simulate(json.dumps(scenario.native(seed=0) | {"duration_ns": 0}))
        except ValueError as error:
            field, _, message = str(error).partition(": ")
            message, _, hint = message.partition("\n  hint: ")
            raise UnsupportedScenario(field, message, hint=hint or None) from None

    def run(self, scenario: Scenario, *, seed: int, repeat: int, out: Path) -> Trace:
        """Simulates one repeat and writes its trace to ``out``.

        Raises:
            CallFailed: two nodes did not connect, as in a live call; the trace is there all the same.
            DiskFull: the capture or the trace could not be written.
        """
        if self.capture:
            columns, pcapng, sdp = _native.simulate_captured(json.dumps(scenario.native(seed=seed)))
            write_bytes(out / CAPTURE, pcapng)
            write_text(out / DESCRIPTIONS, sdp)
            simulated = self._trace(columns, scenario, seed=seed, repeat=repeat)
        else:
            simulated = self.simulate(scenario, seed=seed, repeat=repeat)
        failure = not_connected(scenario, simulated.table("events"))
        simulated.manifest["failure"] = failure
        written = simulated.save(out)
        if failure is not None:
            raise CallFailed(failure)
        return written

    def simulate(self, scenario: Scenario, *, seed: int, repeat: int) -> Trace:
        """Simulates one repeat and keeps its trace in memory."""
        columns = _native.simulate(json.dumps(scenario.native(seed=seed)))
        return self._trace(columns, scenario, seed=seed, repeat=repeat)

    def _trace(
        self, columns: dict[str, dict[str, Any]], scenario: Scenario, *, seed: int, repeat: int
    ) -> Trace:
        columns.pop("flows")  # when each flow was there
        tables = {name: frame(name, values) for name, values in columns.items()}
        tables["paths"] = scenario.paths_table()
        return Trace.in_memory(tables, manifest(scenario, backend=self.name, seed=seed, repeat=repeat))


def not_connected(scenario: Scenario, events: pl.DataFrame) -> str | None:
    """Who should have been connected and was not, in the words of the live backend; None if all were."""
    connected = set(events.filter(pl.col("event") == "dtls_connected")["flow"])
    joined = connections(scenario)
    for connection, flows in zip(joined, flow_names(joined), strict=True):
        if connection.start_ns < connection.end_ns and connected.isdisjoint(flows):
            together_s = (connection.end_ns - connection.start_ns) / 1e9
            who = f"{connection.a} and {connection.b}"
            return f"{who} did not connect within {together_s:.0f} s"
    return None


def frame(table: str, columns: dict[str, Any]) -> pl.DataFrame:
    """A table out of native columns.

    Numbers come as arrays in which -1 (integers) and NaN (floats) stand for null in a column that may
    be null; texts as an array of codes and the list of what they stand for, the highest code for null.
    """
    nullable = NULLABLE[table]
    return pl.DataFrame(
        [
            _texts(name, *values)
            if isinstance(values, tuple)
            else _numbers(name, values, SCHEMAS[table][name], nullable=name in nullable)
            for name, values in columns.items()
        ]
    )


def _numbers(name: str, values: NDArray[Any], dtype: pl.DataType, *, nullable: bool) -> pl.Series:
    series = pl.Series(name, values)
    if nullable:
        absent = np.isnan(values) if values.dtype.kind == "f" else values == -1
        if absent.any():
            series = series.set(pl.Series(absent), None)
    return series.cast(dtype)


def _texts(name: str, codes: NDArray[Any], categories: list[str]) -> pl.Series:
    # One more entry, null, for the highest code.
    index = np.minimum(codes, len(categories))
    return pl.Series(name, [*categories, None], dtype=pl.String).gather(index)
