"""Runs conditions several times each, and measures them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from math import isnan
from pathlib import Path

import polars as pl

from rtclab.backend.together import own_name, simulate_together
from rtclab.lab import RUNS, run
from rtclab.metrics import METRICS, Metric
from rtclab.processes import cores
from rtclab.progress import progress as progress_bar
from rtclab.scenario import Scenario
from rtclab.trace import Repeat, Trace

SIM = "sim"
TOGETHER = 5
"""Simulated repeats in one task. Their traces are in memory at the same time."""

VALUES = pl.Schema(
    {
        "condition": pl.String(),
        "repeat": pl.Int64(),
        "metric": pl.String(),
        "unit": pl.String(),
        "better": pl.String(),
        "flow": pl.String(),
        "value": pl.Float64(),
    }
)
OUTCOMES = pl.Schema(
    {
        "condition": pl.String(),
        "repeat": pl.Int64(),
        "seed": pl.Int64(),
        "status": pl.String(),
        "reason": pl.String(),
    }
)


@dataclass(frozen=True)
class Measured:
    """What came out of several conditions.

    ``values`` has the columns of ``VALUES`` and a row for each condition, repeat, metric and flow. ``flow``
    is empty for metrics of a whole call, ``repeat`` is null for a value of all repeats together, and
    ``value`` is null where nothing could be measured. ``outcomes`` has the columns of ``OUTCOMES`` and a row
    for each repeat.
    """

    values: pl.DataFrame
    outcomes: pl.DataFrame

    def by_flow(self, condition: str, metric: str) -> dict[str, dict[int | None, float]]:
        """The known values of a metric by flow, and by the number of the repeat."""
        rows = self.values.filter(condition=condition, metric=metric).drop_nulls("value")
        found: dict[str, dict[int | None, float]] = {}
        for flow, repeat, value in rows.select("flow", "repeat", "value").iter_rows():
            found.setdefault(flow, {})[repeat] = value
        return found

    @classmethod
    def concat(cls, parts: Sequence[Measured]) -> Measured:
        """All rows of several parts, by condition and repeat."""
        tables = [
            pl.concat(of).sort("condition", "repeat", maintain_order=True)
            for of in zip(*((one.values, one.outcomes) for one in parts), strict=True)
        ]
        return cls(*tables)


def run_conditions(
    conditions: Mapping[str, Scenario],
    repeats: int,
    backend: str,
    metrics: Sequence[str],
    *,
    jobs: int | None = None,
    out: Path = RUNS,
    progress: bool = True,
) -> Measured:
    """Runs each scenario ``repeats`` times and measures it.

    Simulated repeats are measured in memory and leave no traces. Live repeats are kept as runs below ``out``.

    Args:
        conditions: scenarios by name.
        repeats: number of repeats of each.
        backend: ``sim`` or ``live``.
        metrics: names of metrics.
        jobs: number of simulations at the same time; by default one per core.
        out: directory of live runs.
        progress: show a progress bar on a terminal.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    if backend == SIM:
        return _simulated(conditions, repeats, [METRICS[name] for name in metrics], jobs, show=progress)
    parts = []
    for name, scenario in conditions.items():
        made = run(scenario, backend=backend, repeats=repeats, out=out, progress=progress)
        rows = made.metrics().filter(pl.col("metric").is_in(list(metrics)))
        outcomes = [(name, one.repeat, one.seed, one.status, one.reason) for one in made.repeats]
        parts.append(_measured(outcomes, rows.select(pl.lit(name), *VALUES.names()[1:]).rows()))
    return Measured.concat(parts)


def _measured(outcomes: Sequence[tuple[object, ...]], values: Sequence[tuple[object, ...]]) -> Measured:
    return Measured(
        pl.DataFrame(values, schema=VALUES, orient="row"),
        pl.DataFrame(outcomes, schema=OUTCOMES, orient="row"),
    )


def _simulated(
    conditions: Mapping[str, Scenario],
    repeats: int,
    metrics: Sequence[Metric],
    jobs: int | None,
    *,
    show: bool,
) -> Measured:
    parts = []
    with (
        ThreadPoolExecutor(jobs or cores()) as pool,  # the simulator releases the GIL
        progress_bar("gate", repeats * len(conditions), "repeats", show=show) as advance,
    ):
        futures = [
            pool.submit(_task, name, scenario, range(first, min(first + TOGETHER, repeats)), metrics)
            for name, scenario in conditions.items()
            for first in range(0, repeats, TOGETHER)
        ]
        try:
            for future in as_completed(futures):
                parts.append(future.result())
                advance(parts[-1].outcomes.height)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return Measured.concat(parts)


def _task(name: str, scenario: Scenario, numbers: range, metrics: Sequence[Metric]) -> Measured:
    seeds = [scenario.seed_of(number) for number in numbers]
    outcomes, values = [], []
    for number, seed, trace in zip(numbers, seeds, simulate_together([(scenario, seeds)]), strict=True):
        failure = trace.manifest.failure
        repeat = Repeat(number, seed, "finished" if failure is None else "failed", failure or "")
        outcomes.append((name, number, seed, repeat.status, repeat.reason))
        traces = [trace] if failure is None else []
        for metric in metrics:
            for flow, value in _values(metric, _OneRepeat([repeat], traces)):
                known = None if isnan(value) else float(value)
                row = (name, number, metric.name, metric.unit, metric.better, own_name(flow), known)
                values.append(row)
    return _measured(outcomes, values)


@dataclass(frozen=True)
class _OneRepeat:
    """A repeat in the form of a run, for metrics of a whole run. A failed one has no trace."""

    repeats: list[Repeat]
    traces: list[Trace]


def _values(metric: Metric, one: _OneRepeat) -> Iterator[tuple[str, float]]:
    if metric.scope == "run":
        yield "", metric.function(one)
    for trace in one.traces if metric.scope != "run" else ():
        # Only metrics that come with rtclab are known to leave the rows of other repeats alone.
        own = trace if metric.shipped else trace.alone()
        for flow in own.flows if metric.scope == "flow" else [""]:
            yield flow, metric.function(own, flow, None) if flow else metric.function(own, None)
