"""The rows of campaigns: one CSV file with everything that is published of their repeats."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from math import isnan, nan
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast, get_args

from rtclab_papers.csv_files import read_table, schema_of, write_table

SCHEMA = schema_of("condition text, backend text, repeat int, try int, flow text, metric text, value text")
OUTCOME, REASON = "outcome", "reason"
"""Metrics whose values are text. The last row of a try has its outcome and its scenario's digest."""

Outcome = Literal["finished", "disturbed", "failed"]
Value = tuple[str, str, "float | str"]
"""Flow (or participant, or empty), metric, and value."""


class Key(NamedTuple):
    """A repeat of a condition on a backend."""

    condition: str
    backend: str
    repeat: int

    def __str__(self) -> str:
        """The repeat, without the backend."""
        return f"{self.condition}, repeat {self.repeat}"


@dataclass(frozen=True)
class Record:
    """One try of a repeat.

    Attributes:
        key: the repeat.
        attempt: number of the try, from 1 on.
        outcome: finished, disturbed by the machine, or failed.
        reason: how it was disturbed, or why it failed.
        digest: identifies the scenario that was run.
        values: the measurements.
    """

    key: Key
    attempt: int
    outcome: Outcome
    reason: str = ""
    digest: str = ""
    values: Sequence[Value] = field(default=(), repr=False)

    @cached_property
    def _numbers(self) -> dict[tuple[str, str], float]:
        return {(flow, metric): value for flow, metric, value in self.values if isinstance(value, float)}

    def number(self, metric: str, flow: str = "") -> float:
        """A value; NaN if it was not measured."""
        return self._numbers.get((flow, metric), nan)

    def by_flow(self, metric: str) -> dict[str, float]:
        """The values of a metric by flow or participant."""
        return {flow: value for (flow, name), value in self._numbers.items() if name == metric}

    def texts(self, metric: str) -> dict[str, str]:
        """The texts of a metric by flow or participant."""
        return {flow: value for flow, name, value in self.values if name == metric and isinstance(value, str)}


def samples(records: Iterable[Record]) -> dict[tuple[str, str, str, str], list[float]]:
    """By condition, backend, metric and flow the numbers of finished repeats, in the order of the repeats."""
    found: dict[tuple[str, str, str, str], list[float]] = {}
    for one in sorted(records, key=lambda one: one.key):
        for flow, metric, value in one.values if one.outcome == "finished" else ():
            if isinstance(value, float):
                found.setdefault((*one.key[:2], metric, flow), []).append(value)
    return found


@dataclass(frozen=True)
class RowFile:
    """A CSV file of the columns of ``SCHEMA``, one row per value."""

    path: Path

    def read(self) -> dict[Key, Record]:
        """The repeats in the file.

        Raises:
            BadInput: the file has other columns.
        """
        lines = read_table(self.path, SCHEMA).fill_null("").iter_rows()
        return {record.key: record for record in _records(lines)}

    def write(self, records: Iterable[Record]) -> None:
        """Writes the records instead of what is in the file, sorted, in one step.

        Raises:
            DiskFull: no space is left. The old file is unchanged.
        """
        rows = [row for record in sorted(records, key=lambda one: one.key) for row in _rows(record)]
        write_table(self.path, rows, SCHEMA)


def _records(lines: Iterable[tuple[Any, ...]]) -> Iterator[Record]:
    """The repeats in lines, where lines of a repeat follow each other. Without an outcome it is left out."""
    for (*key, attempt), rows in groupby(lines, key=lambda line: line[:4]):
        values: list[Value] = [(flow, metric, _parsed(value)) for *_, flow, metric, value in rows]
        texts = {metric: str(value) for _, metric, value in values if metric in (OUTCOME, REASON)}
        outcome, _, digest = texts.get(OUTCOME, "").partition(" ")
        if outcome in get_args(Outcome):
            yield Record(
                Key(*key),
                attempt,
                cast(Outcome, outcome),
                texts.get(REASON, ""),
                digest,
                tuple(value for value in values if value[1] not in texts),
            )


def _rows(record: Record) -> Iterator[tuple[Any, ...]]:
    """The rows of a try; the one of its outcome is the last."""
    group = (*record.key, record.attempt)
    for flow, metric, value in record.values:
        if isinstance(value, str):
            yield (*group, flow or None, metric, value or None)
        elif not isnan(value):
            yield (*group, flow or None, metric, f"{value:.5g}")
    if record.reason:
        yield (*group, None, REASON, " ".join(record.reason.split()))
    yield (*group, None, OUTCOME, f"{record.outcome} {record.digest}".strip())


def _parsed(value: str) -> float | str:
    try:
        return float(value)
    except ValueError:
        return value
