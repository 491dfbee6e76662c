"""A backend without simulator or browser. It writes a trace with the same rate in every second."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from rtclab.backend.backends import Watch, manifest, paths_table, unwatched
from rtclab.errors import CallFailed, UnsupportedScenario
from rtclab.scenario import Scenario
from rtclab.trace import Trace


class StubBackend:
    """A backend that fails or is interrupted in given repeats. ``ran`` lists the repeats that it ran."""

    name = "stub"
    parallel = True
    deterministic = False
    capture = False

    def __init__(self) -> None:
        self.packets_per_second = 100
        self.ran: list[tuple[int, int]] = []
        self.failing: set[int] = set()
        self.crashing: set[int] = set()
        self.interrupted_in: set[int] = set()

    def check(self, scenario: Scenario) -> None:
        if scenario.audio is not None:
            raise UnsupportedScenario("audio", "the stub has no microphone")

    def run(
        self, scenario: Scenario, *, seed: int, repeat: int, out: Path, watch: Watch = unwatched
    ) -> Trace:
        self.ran.append((repeat, seed))
        if repeat in self.interrupted_in:
            (out / "browser.log").write_text("half a line")
            raise KeyboardInterrupt
        if repeat in self.failing:
            (out / "browser.log").write_text("no camera")
            raise CallFailed("alice: the page reported `no camera`", hint="plug one in")
        if repeat in self.crashing:
            raise ZeroDivisionError("division by zero")
        seconds = range(int(scenario.duration.s))
        flow_seconds = pl.DataFrame(
            [
                {
                    "at_ns": second * 10**9,
                    "flow": flow.name,
                    "sent_packets": self.packets_per_second,
                    "sent_bytes": 1000 * self.packets_per_second,
                    "delivered_packets": self.packets_per_second,
                    "delivered_bytes": 1000 * self.packets_per_second,
                    "dropped_packets": 0,
                }
                for second in seconds
                for flow in scenario.flows()
            ]
        )
        tables = {"flow_seconds": flow_seconds, "paths": paths_table(scenario)}
        return Trace.write(out, tables, manifest(scenario, backend=self.name, seed=seed, repeat=repeat))
