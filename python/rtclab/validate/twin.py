"""Compares random conditions simulated and live: one row per condition, and the errors of each metric."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path

import numpy as np
import polars as pl

from rtclab.backend import backend
from rtclab.campaign import run_scenario
from rtclab.errors import OtherSchema
from rtclab.metrics import METRICS, measure_repeats
from rtclab.metrics.statistics import t_quantile
from rtclab.trace import Run, only_writer, write_text
from rtclab.validate.campaign import live_run
from rtclab.validate.conditions import Condition, draw

SIMULATED_REPEATS = 10

COMPARED = (
    "receiving_rate",
    "rtt",
    "delay_variation_p50",
    "delay_variation_p95",
    "packet_loss",
    "frame_rate",
    "frame_height",
    "freeze_count",
    "freeze_duration",
    "setup_signalling",
    "setup_ice",
    "setup_dtls",
    "setup_first_frame",
    "setup_time",
)
"""The metrics that are compared, per direction."""

FLOWS = ("alice->bob", "bob->alice")

Value = float | None
Row = dict[str, object]


@dataclass(frozen=True)
class Pair:
    """A metric of one direction in one condition: its live value, and its values in the simulated repeats."""

    seed: int
    half: str
    metric: str
    flow: str
    live: float
    simulated: float
    """Median over the repeats, which a few outliers do not change."""
    low: float
    """Lower end of the interval in which 95 % of further repeats are expected."""
    high: float
    """Upper end of that interval."""

    @property
    def error(self) -> float:
        """Simulated minus live, as a share of live; NaN if live is zero."""
        return (self.simulated - self.live) / self.live if self.live else nan

    @property
    def covered(self) -> bool:
        """Whether the live value lies in the interval, both rounded to a millionth of the live value."""
        slack = 1e-6 * abs(self.live)
        return self.low - slack <= self.live <= self.high + slack


@dataclass(frozen=True)
class Outcome:
    """The results of a condition on both backends."""

    condition: Condition
    tries: int
    disturbed: str
    live_connected: bool
    simulated_connected: int
    """Number of simulated repeats that connected."""
    pairs: tuple[Pair, ...]

    @property
    def connects_on_one_side_only(self) -> bool:
        """Whether the live call connected and most simulated ones did not, or the other way round."""
        return self.live_connected != (2 * self.simulated_connected > SIMULATED_REPEATS)


def outcomes(
    seeds: Sequence[int], file: Path, folder: Path, *, run_missing: bool, say: Callable[[str], None]
) -> list[Outcome]:
    """Runs conditions on both backends and writes their rows to ``file`` as they come.

    A live run is taken from ``folder``, or else its values from ``file``; if neither has it, it is run, or
    with ``run_missing`` false the condition is left out.

    Raises:
        BadInput: another process writes the file or the live runs.
    """
    for place in (file.parent, folder):
        place.mkdir(parents=True, exist_ok=True)
    found = []
    with only_writer(file), only_writer(folder):
        rows = {int(str(row["seed"])): row for row in read_rows(file)}
        for seed in seeds:
            condition = draw(seed)
            live = _live_values(condition, rows.get(seed), folder / condition.half, run_missing, say)
            if live is None:
                continue
            rows[seed] = live | _simulated_values(condition)
            write_rows(file, [rows[known] for known in sorted(rows)])
            found.append(outcome_of(condition, rows[seed]))
            say(f"  {_words(found[-1])}")
    return found


def _words(outcome: Outcome) -> str:
    """The rates of a condition, and how many live values lie in the simulated intervals, as one line."""
    if not outcome.pairs:
        return "nothing to compare"
    rates = [f"{pair.flow} {pair.error:+.1%}" for pair in outcome.pairs if pair.metric == "receiving_rate"]
    covered = sum(pair.covered for pair in outcome.pairs)
    told = f"{covered} of {len(outcome.pairs)} live values in the simulated interval"
    return f"simulated rate against live: {', '.join(rates)}; {told}" if rates else told


def _live_values(
    condition: Condition, row: Row | None, folder: Path, run_missing: bool, say: Callable[[str], None]
) -> Row | None:
    """The part of a condition's row that the live run gives."""
    known = None if row is None else {name: value for name, value in row.items() if not _simulated(name)}
    try:
        run = live_run(condition, folder, run_missing=run_missing and known is None, say=say)
    except OtherSchema:  # the row still has what was measured
        if known is None:
            raise
        run = None
    if run is None:
        return known
    values = _values(run.run)
    measured = {
        f"{name} {flow} live": _only(values.get((name, flow), []))
        for name in sorted(METRICS)
        for flow in FLOWS
        if (name, flow) in values
    }
    return {
        "seed": condition.seed,
        "half": condition.half,
        "condition": condition.words,
        "tries": run.tries,
        "disturbed": run.disturbed,
        "live_connected": _connected(run.run) > 0,
    } | measured


def _simulated_values(condition: Condition) -> Row:
    """The part of a condition's row that the simulated runs give."""
    with tempfile.TemporaryDirectory() as folder:
        run = run_scenario(condition.scenario, backend("sim"), out=Path(folder), repeats=SIMULATED_REPEATS)
        values = _values(run)
        row: Row = {"simulated_connected": _connected(run)}
    for name in COMPARED:
        for flow in FLOWS:
            middle, low, high = expected(values.get((name, flow), []))
            row |= {
                f"{name} {flow} simulated": middle,
                f"{name} {flow} low": low,
                f"{name} {flow} high": high,
            }
    return row


def _simulated(column: str) -> bool:
    return column == "simulated_connected" or column.rpartition(" ")[2] in ("simulated", "low", "high")


def _values(run: Run) -> dict[tuple[str, str], list[float]]:
    """The values of all repeats in which a metric could be measured, by metric and flow."""
    measured = measure_repeats(run).drop_nulls("value").group_by("metric", "flow").agg("value")
    return {(metric, flow): values for metric, flow, values in measured.iter_rows()}


def _connected(run: Run) -> int:
    """Number of repeats in which the two were connected."""
    return sum(not trace.manifest.not_connected for trace in run.traces)


def _only(values: Sequence[float]) -> Value:
    return values[0] if values else None


def expected(values: Sequence[float]) -> tuple[Value, Value, Value]:
    """Median of the repeats, and the interval in which a further one lies with 95 % (Student's t).

    Geisser 1993, Predictive Inference, section 1.2: mean ± t sd sqrt(1 + 1/n). All None without values; the
    ends are None with one value.
    """
    if not values:
        return None, None, None
    array = np.asarray(values)
    middle = float(np.median(array))
    if array.size < 2:
        return middle, None, None
    mean = float(array.mean())
    half = t_quantile(array.size - 1) * float(array.std(ddof=1)) * math.sqrt(1 + 1 / array.size)
    return middle, mean - half, mean + half


def outcome_of(condition: Condition, row: Mapping[str, object]) -> Outcome:
    """The outcome that a row describes."""
    return Outcome(
        condition,
        int(str(row["tries"])),
        str(row["disturbed"] or ""),
        str(row["live_connected"]).lower() == "true",
        int(str(row["simulated_connected"])),
        tuple(_pairs(condition, row)),
    )


def _pairs(condition: Condition, row: Mapping[str, object]) -> Iterator[Pair]:
    for name in COMPARED:
        for flow in FLOWS:
            live, simulated, low, high = (
                _number(row.get(f"{name} {flow} {part}")) for part in ("live", "simulated", "low", "high")
            )
            if not (isnan(live) or isnan(simulated)):
                yield Pair(condition.seed, condition.half, name, flow, live, simulated, low, high)


def _number(value: object) -> float:
    return nan if value is None else float(str(value))


def read_rows(file: Path) -> list[Row]:
    """The rows of a CSV file of conditions; none if there is no such file."""
    if not file.is_file():
        return []
    return pl.read_csv(file, infer_schema_length=None).to_dicts()


def write_rows(file: Path, rows: Sequence[Row]) -> None:
    """Writes rows as CSV, numbers with six significant digits."""
    file.parent.mkdir(parents=True, exist_ok=True)
    rounded = [{name: _rounded(value) for name, value in row.items()} for row in rows]
    columns = list(dict.fromkeys(name for row in rounded for name in row))
    data = {name: [row.get(name) for row in rounded] for name in columns}
    write_text(file, pl.DataFrame(data, strict=False).write_csv())


def _rounded(value: object) -> object:
    return float(f"{value:.6g}") if isinstance(value, float) else value
