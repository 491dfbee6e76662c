"""The files of outcomes: ``NAME.csv`` has a row per condition.

``NAME-values.csv`` beside it has a row per metric and flow and live call, and ``NAME-chance.csv`` the errors
by chance of each group of conditions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import isnan, nan
from pathlib import Path
from typing import Any

import polars as pl

from rtclab.errors import BadInput
from rtclab.metrics import PredictionRange
from rtclab_papers.csv_files import beside, read_table, rounded, write_table
from rtclab_papers.validate.conditions import CallCondition
from rtclab_papers.validate.outcomes import (
    COMPARED,
    NOT_SIMULATED,
    ConditionOutcome,
    ErrorByChance,
    ErrorsByChance,
    Key,
    Live,
    Simulated,
)

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
CHANCE = pl.Schema(
    {
        "group": pl.String(),
        "metric": pl.String(),
        "error": pl.Float64(),
        "low": pl.Float64(),
        "high": pl.Float64(),
    }
)
DIGITS, CHANCE_DIGITS = 6, 4
"""Significant digits of values, and of errors by chance, in the files."""
Row = tuple[Any, ...]


def values_file(file: Path) -> Path:
    """The file of the values beside the file of the conditions."""
    return beside(file, "values")


def names_in(file: Path) -> list[str]:
    """The names of the conditions in a file."""
    return read_table(file, CONDITIONS)["name"].to_list()


def read_outcomes(file: Path, conditions: Iterable[CallCondition]) -> dict[str, ConditionOutcome]:
    """The outcomes of the conditions that a file has, by name; some may not be simulated yet.

    Raises:
        BadInput: the file or the one of its values has other columns, or the latter is missing.
    """
    if file.is_file() and not values_file(file).is_file():
        raise BadInput(f"{values_file(file)}: no such file")
    rows = {row["name"]: row for row in read_table(file, CONDITIONS).iter_rows(named=True)}
    values = read_table(values_file(file), VALUES).rows_by_key("name", named=True)
    known = [one for one in conditions if one.name in rows]
    return {one.name: _outcome(one, rows[one.name], values.get(one.name, [])) for one in known}


def _outcome(
    condition: CallCondition, row: dict[str, Any], values: Sequence[dict[str, Any]]
) -> ConditionOutcome:
    live: dict[Key, list[float]] = {}
    simulated: dict[Key, PredictionRange] = {}
    for value in values:
        key = value["metric"], value["flow"] or ""
        if value["live"] is not None:
            live.setdefault(key, []).append(value["live"])
        if value["known"]:
            simulated[key] = PredictionRange(value["simulated"], value["low"], value["high"], value["known"])
    calls = Live(
        row["live_calls"],
        row["live_connected"],
        live,
        row["tries"],
        row["disturbed"] or "",
        row["measured"] or "",
        row["schema"],
    )
    if row["simulated_calls"] is None:
        return ConditionOutcome(condition, calls)
    return ConditionOutcome(
        condition, calls, Simulated(row["simulated_calls"], row["simulated_connected"], simulated)
    )


def write_outcomes(file: Path, outcomes: Sequence[ConditionOutcome]) -> None:
    """Writes outcomes into both files; rows of other conditions stay as they are, in their order."""
    for place, schema, rows_of in (
        (values_file(file), VALUES, _value_rows),
        (file, CONDITIONS, _condition_rows),
    ):
        kept: dict[str, Iterable[Row]] = {}
        kept |= read_table(place, schema).rows_by_key("name", include_key=True)
        kept |= {one.condition.name: rows_of(one) for one in outcomes}
        write_table(place, (row for rows in kept.values() for row in rows), schema)


def _condition_rows(one: ConditionOutcome) -> Iterator[Row]:
    live, simulated = one.live, one.simulated
    counts = (simulated.calls, simulated.connected) if simulated != NOT_SIMULATED else (None, None)
    about = (live.measured, live.schema, live.tries, live.disturbed, live.calls, live.connected)
    yield (one.condition.name, one.condition.group, one.condition.words, *about, *counts)


def _value_rows(one: ConditionOutcome) -> Iterator[Row]:
    simulated = one.simulated.values
    for key in sorted({*one.live.values, *simulated}):
        found = simulated.get(key)
        ends = (None, None, None) if found is None else (found.middle, found.low, found.high)
        for value in one.live.values.get(key) or [nan]:
            numbers = (None if end is None or isnan(end) else rounded(end, DIGITS) for end in (value, *ends))
            yield (one.condition.name, *key, *numbers, 0 if found is None else found.known)


def write_chances(file: Path, found: ErrorsByChance) -> None:
    """Writes errors by chance beside the file of the conditions, and keeps the errors of other groups."""
    known = sorted(
        (read_chances(file) | dict(found)).items(), key=lambda item: (item[0][0], COMPARED.index(item[0][1]))
    )
    rows = (
        (*key, *(rounded(value, CHANCE_DIGITS) for value in (one.error, one.low, one.high)))
        for key, one in known
    )
    write_table(beside(file, "chance"), rows, CHANCE)


def read_chances(file: Path) -> dict[tuple[str, str], ErrorByChance]:
    """The errors by chance beside the file of the conditions; none if they were never written."""
    rows = read_table(beside(file, "chance"), CHANCE).iter_rows()
    return {(group, metric): ErrorByChance(error, low, high) for group, metric, error, low, high in rows}
