"""The rows of a campaign: one CSV file, appended to after each repeat, that survives a kill at any time."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isnan, nan
from pathlib import Path
from typing import Literal, NamedTuple, cast, get_args

from rtclab.errors import BadInput, DiskFull, is_disk_full
from rtclab.trace import write_bytes

COLUMNS = ("condition", "backend", "repeat", "try", "flow", "metric", "value")
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


@dataclass(frozen=True)
class RowFile:
    """A CSV file of the columns ``COLUMNS``, one row per value."""

    path: Path

    def read(self) -> dict[Key, Record]:
        """The last complete try of every repeat. A repeat that a kill truncated is left out.

        Raises:
            BadInput: the file has other columns.
        """
        if not self.path.is_file():
            return {}
        with self.path.open(encoding="utf-8", newline="") as file:
            lines = csv.reader(file)
            if (header := next(lines, None)) is not None and tuple(header) != COLUMNS:
                raise BadInput(
                    f"{self.path}: columns {', '.join(header)}; expected {', '.join(COLUMNS)}",
                    hint="name another file",
                )
            return {record.key: record for record in _records(lines)}

    def append(self, record: Record) -> None:
        """Appends the rows of a try and waits until they are on the disk.

        Raises:
            DiskFull: no space is left.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self.path.open("ab") as file:
                file.write(
                    ("" if file.tell() else _text([COLUMNS])).encode() + _text(_lines(record)).encode()
                )
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            if is_disk_full(error):
                raise DiskFull(self.path) from error
            raise

    def compact(self, without: Iterable[Key] = ()) -> None:
        """Rewrites the file atomically: sorted, without replaced tries, and without these repeats."""
        if not self.path.is_file():
            return
        removed = set(without)
        records = [record for key, record in sorted(self.read().items()) if key not in removed]
        text = _text([COLUMNS, *(line for record in records for line in _lines(record))])
        write_bytes(self.path, text.encode())


def _records(lines: Iterable[list[str]]) -> Iterator[Record]:
    """Records of complete repeats, whose rows follow each other and end with the outcome."""
    values: list[Value] = []
    reason = ""
    last: tuple[str, ...] = ()
    for line in lines:
        if len(line) != len(COLUMNS):
            continue
        *group, flow, metric, value = line
        if tuple(group) != last:
            values, reason, last = [], "", tuple(group)
        outcome, _, digest = value.partition(" ")
        if metric == REASON:
            reason = value
        elif metric == OUTCOME and outcome in get_args(Outcome):
            condition, backend, repeat, attempt = group
            key = Key(condition, backend, int(repeat))
            yield Record(key, int(attempt), cast(Outcome, outcome), reason, digest, tuple(values))
            last = ()
        else:
            values.append((flow, metric, _parsed(value)))


def _lines(record: Record) -> Iterator[Sequence[str]]:
    """The rows of a try; the one of its outcome is the last."""
    group = [*map(str, record.key), str(record.attempt)]
    for flow, metric, value in record.values:
        if isinstance(value, str):
            yield [*group, flow, metric, value]
        elif not isnan(value):
            yield [*group, flow, metric, f"{value:.5g}"]
    if record.reason:
        yield [*group, "", REASON, " ".join(record.reason.split())]
    yield [*group, "", OUTCOME, f"{record.outcome} {record.digest}".strip()]


def _text(lines: Iterable[Sequence[str]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(lines)
    return buffer.getvalue()


def _parsed(value: str) -> float | str:
    try:
        return float(value)
    except ValueError:
        return value
