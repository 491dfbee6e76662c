"""The files of outcomes: ``NAME.csv`` has a row per condition.

``NAME-values.csv`` beside it has a row per metric and flow and live call, and ``NAME-chance.csv`` the errors
by chance of each group of conditions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple
from math import nan
from pathlib import Path
from typing import Any

from rtclab.errors import BadInput
from rtclab.metrics import PredictionRange
from rtclab_papers.csv_files import beside, read_table, schema_of, write_table
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

CONDITIONS = schema_of(
    "name text, group text, condition text, measured text, schema int, tries int, disturbed text, "
    "live_calls int, live_connected int, simulated_calls int, simulated_connected int"
)
VALUES = schema_of(
    "name text, metric text, flow text, live real, simulated real, low real, high real, known int"
)
CHANCE = schema_of("group text, metric text, error real, low real, high real")
DIGITS, CHANCE_DIGITS = 6, 4
"""Significant digits of values, and of errors by chance, in the files."""
Row = tuple[Any, ...]


def names_in(file: Path) -> list[str]:
    """The names of the conditions in a file."""
    return read_table(file, CONDITIONS)["name"].to_list()


def read_outcomes(file: Path, conditions: Iterable[CallCondition]) -> dict[str, ConditionOutcome]:
    """The outcomes of the conditions that a file has, by name; some may not be simulated yet.

    Raises:
        BadInput: the file or the one of its values has other columns, or the latter is missing.
    """
    of_values = beside(file, "values")
    if file.is_file() and not of_values.is_file():
        raise BadInput(f"{of_values}: no such file")
    rows = {row["name"]: row for row in read_table(file, CONDITIONS).iter_rows(named=True)}
    values = read_table(of_values, VALUES).rows_by_key("name", named=True)
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
    counts = (row["simulated_calls"] or 0, row["simulated_connected"] or 0)
    return ConditionOutcome(condition, calls, Simulated(*counts, simulated))


def write_outcomes(file: Path, outcomes: Sequence[ConditionOutcome]) -> None:
    """Writes outcomes into both files; rows of other conditions stay as they are, in their order."""
    for place, schema, rows_of in (
        (beside(file, "values"), VALUES, _value_rows),
        (file, CONDITIONS, _condition_rows),
    ):
        kept: dict[str, Iterable[Row]] = {}
        kept |= read_table(place, schema).rows_by_key("name", include_key=True)
        kept |= {one.condition.name: rows_of(one) for one in outcomes}
        write_table(place, (row for rows in kept.values() for row in rows), schema, DIGITS)


def _condition_rows(one: ConditionOutcome) -> Iterator[Row]:
    live, simulated = one.live, one.simulated
    counts = (simulated.calls, simulated.connected) if simulated != NOT_SIMULATED else (None, None)
    about = (live.measured, live.schema, live.tries, live.disturbed, live.calls, live.connected)
    yield (one.condition.name, one.condition.group, one.condition.words, *about, *counts)


def _value_rows(one: ConditionOutcome) -> Iterator[Row]:
    simulated = one.simulated.values
    for key in sorted({*one.live.values, *simulated}):
        found = simulated.get(key)
        said = (None, None, None, 0) if found is None else (found.middle, found.low, found.high, found.known)
        for value in one.live.values.get(key) or [nan]:
            yield (one.condition.name, *key, value, *said)


def write_chances(file: Path, found: ErrorsByChance) -> None:
    """Writes errors by chance beside the file of the conditions, and keeps the errors of other groups."""
    known = read_chances(file) | dict(found)
    ordered = sorted(known, key=lambda key: (key[0], COMPARED.index(key[1])))
    rows = ((*key, *astuple(known[key])) for key in ordered)
    write_table(beside(file, "chance"), rows, CHANCE, CHANCE_DIGITS)


def read_chances(file: Path) -> dict[tuple[str, str], ErrorByChance]:
    """The errors by chance beside the file of the conditions; none if they were never written."""
    rows = read_table(beside(file, "chance"), CHANCE).iter_rows()
    return {(group, metric): ErrorByChance(error, low, high) for group, metric, error, low, high in rows}
