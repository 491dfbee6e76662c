"""The rows that are kept of conditions: two CSV files, of which one has a row per condition.

The other, whose name ends in ``-values``, has a row per metric and flow and live call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path

import polars as pl

from rtclab.errors import BadInput
from rtclab.trace import write_text
from rtclab_papers.validate.conditions import Condition
from rtclab_papers.validate.outcomes import Expected, Key, Live, Outcome, Simulated

CONDITIONS = pl.Schema(
    {
        "name": pl.String(),
        "group": pl.String(),
        "condition": pl.String(),
        "measured": pl.String(),
        "schema": pl.Int64(),
        "tries": pl.Int64(),
        "disturbed": pl.String(),
        "live_calls": pl.Int64(),
        "live_connected": pl.Int64(),
        "simulated_calls": pl.Int64(),
        "simulated_connected": pl.Int64(),
    }
)
VALUES = pl.Schema(
    {
        "name": pl.String(),
        "metric": pl.String(),
        "flow": pl.String(),
        "live": pl.Float64(),
        "simulated": pl.Float64(),
        "low": pl.Float64(),
        "high": pl.Float64(),
        "known": pl.Int64(),
    }
)
DIGITS = 6
"""Significant digits of values in the files."""


@dataclass(frozen=True)
class Kept:
    """What is known of a condition: its live calls, and its simulated repeats if they were run."""

    condition: str
    group: str
    live: Live
    simulated: Simulated | None = None

    def outcome(self, condition: Condition) -> Outcome | None:
        """The outcome of the condition; None if it was not simulated."""
        return None if self.simulated is None else Outcome(condition, self.live, self.simulated)


def values_file(file: Path) -> Path:
    """The file of the values beside the file of the conditions."""
    return file.with_name(f"{file.stem}-values{file.suffix}")


def read_kept(file: Path) -> dict[str, Kept]:
    """What is kept, by the name of the condition; empty if there is no such file.

    Raises:
        BadInput: the file or the one of its values has other columns, or is missing.
    """
    if not file.is_file():
        return {}
    by_name: dict[str, list[dict[str, object]]] = {}
    for row in _read(values_file(file), VALUES).iter_rows(named=True):
        by_name.setdefault(row["name"], []).append(row)
    rows = _read(file, CONDITIONS).iter_rows(named=True)
    return {row["name"]: _kept(row, by_name.get(row["name"], [])) for row in rows}


def _read(file: Path, schema: pl.Schema) -> pl.DataFrame:
    try:
        with file.open(encoding="utf-8") as text:
            columns = text.readline().strip().split(",")
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}") from None
    if columns != [*schema]:
        raise BadInput(f"{file}: columns {', '.join(columns)}; expected {', '.join(schema)}")
    return pl.read_csv(file, schema=schema)


def _kept(row: Mapping[str, object], values: Sequence[Mapping[str, object]]) -> Kept:
    live: dict[Key, list[float]] = {}
    simulated: dict[Key, Expected] = {}
    for value in values:
        key = str(value["metric"]), str(value["flow"] or "")
        if value["live"] is not None:
            live.setdefault(key, []).append(_float(value["live"]))
        if value["known"]:
            middle, low, high = (_float(value[name]) for name in ("simulated", "low", "high"))
            simulated[key] = Expected(middle, low, high, _int(value["known"]))
    calls = Live(
        _int(row["live_calls"]),
        _int(row["live_connected"]),
        live,
        _int(row["tries"]),
        str(row["disturbed"] or ""),
        str(row["measured"] or ""),
        None if row["schema"] is None else _int(row["schema"]),
    )
    repeats = None
    if row["simulated_calls"] is not None:
        repeats = Simulated(_int(row["simulated_calls"]), _int(row["simulated_connected"]), simulated)
    return Kept(str(row["condition"]), str(row["group"]), calls, repeats)


def write_kept(file: Path, kept: Mapping[str, Kept]) -> None:
    """Writes both files, numbers with six significant digits."""
    file.parent.mkdir(parents=True, exist_ok=True)
    values = [row for name, one in kept.items() for row in _value_rows(name, one)]
    _write(values_file(file), values, VALUES)
    _write(file, [_condition_row(name, one) for name, one in kept.items()], CONDITIONS)


def _condition_row(name: str, kept: Kept) -> tuple[object, ...]:
    live, simulated = kept.live, kept.simulated
    counts = (None, None) if simulated is None else (simulated.calls, simulated.connected)
    about = (live.measured, live.schema, live.tries, live.disturbed, live.calls, live.connected)
    return (name, kept.group, kept.condition, *about, *counts)


def _value_rows(name: str, kept: Kept) -> Iterator[tuple[object, ...]]:
    simulated = {} if kept.simulated is None else kept.simulated.values
    for key in sorted({*kept.live.values, *simulated}):
        said = simulated.get(key)
        ends = [None] * 3 if said is None else [*map(_digits, (said.middle, said.low, said.high))]
        for value in kept.live.values.get(key) or [nan]:
            live = None if isnan(value) else _digits(value)
            yield (name, *key, live, *ends, 0 if said is None else said.known)


def _write(file: Path, rows: Iterable[tuple[object, ...]], schema: pl.Schema) -> None:
    write_text(file, pl.DataFrame(list(rows), schema=schema, orient="row").write_csv())


def _digits(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _float(value: object) -> float:
    return float(str(value))


def _int(value: object) -> int:
    return int(str(value))
