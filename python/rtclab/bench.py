"""Figures of whole commands: how fast calls are simulated, how much memory they take, how late the link is.

``make bench`` prints them after those of the Rust benches. They are figures, not verdicts: a machine that
does something else at the same time makes them worse.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from rtclab.backend.sim import SimBackend
from rtclab.errors import RtclabError
from rtclab.scenario import Scenario

SCENARIO = "first-call"
ROUNDS = 15
"""Runs per figure; the median is shown."""


def main() -> None:
    """Print every figure; the emulator's only where this machine has what a live call needs."""
    table = Table("figure", "median", "smallest … largest", "unit", box=None)
    for detail in ("seconds", "packets"):
        scenario = Scenario.load(SCENARIO, [f"record={detail}"])
        native = json.dumps(scenario.native(seed=1))
        seconds = scenario.duration.s
        _row(table, f"simulator, record = {detail}", seconds, partial(_simulate, native))
        _row(table, f"the same with its trace written, record = {detail}", seconds, partial(_run, scenario))
    table.add_row("peak memory of a 300 s call, record = packets", f"{_memory_mb():.0f}", "", "MB")
    for name, value, unit in _emulator():
        table.add_row(name, value, "", unit)
    Console().print(table)


def _row(table: Table, name: str, simulated_s: float, run: Callable[[], None]) -> None:
    run()
    rates = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        run()
        rates.append(simulated_s / (time.perf_counter() - begin))
    table.add_row(
        name,
        f"{statistics.median(rates):.0f}",
        f"{min(rates):.0f} … {max(rates):.0f}",
        "simulated s/s",
    )


def _simulate(config: str) -> None:
    from rtclab import _native

    _native.simulate(config)


def _run(scenario: Scenario) -> None:
    with tempfile.TemporaryDirectory() as folder:
        SimBackend().run(scenario, seed=1, repeat=0, out=Path(folder) / "repeat-0")


def _memory_mb() -> float:
    """Peak of a process of its own that does nothing but this call, its trace included."""
    code = "from rtclab.bench import run_long_call; run_long_call()"
    subprocess.run([sys.executable, "-c", code], check=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6


def run_long_call() -> None:
    """A call of 300 s with every packet in its trace."""
    _run(Scenario.load(SCENARIO, ["duration=300 s"]))


def _emulator() -> list[tuple[str, str, str]]:
    try:
        from rtclab.backend.live.link import bench_emulator

        figures = bench_emulator()
    except (ImportError, RtclabError) as error:
        return [("emulator", f"not measured: {error}", "")]
    link = "emulator at 100 Mbit/s"
    delays = {"median": "p50", "99th percentile": "p99", "largest": "max"}
    rows = [(f"{link}: delivered rate off by", f"{100 * figures['delivered_rate_error']:.3f}", "%")]
    for name, key in delays.items():
        rows.append((f"{link}: added delay, {name}", f"{figures[f'added_delay_{key}_ms']:.3f}", "ms"))
    return rows


if __name__ == "__main__":
    main()
