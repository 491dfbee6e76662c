"""Runs conditions several times each, and measures them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from rtclab.experiment import Experiment
from rtclab.scenario import Scenario

SIM = "sim"

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
    is empty for metrics of a whole call. What could not be measured has no row. ``outcomes`` has the
    columns of ``OUTCOMES`` and a row for each repeat.
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
    out: Path = Path("runs"),
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
    experiment = Experiment(
        dict(conditions),
        repeats=repeats,
        backend=backend,
        name="gate",
        metrics=metrics,
        traces=backend != SIM,
    )
    with TemporaryDirectory(prefix="rtclab-gate-") as temporary:
        place = Path(temporary) if backend == SIM else out
        made = experiment.run(out=place, jobs=jobs, progress=progress)
        values = made.metrics(metrics=metrics).select(VALUES.names())
        outcomes = made.outcomes().select(OUTCOMES.names())
    return Measured(values, outcomes)
