"""Reads RTC event logs of Chromium into tables, whose columns are listed at ``_native.event_log``.

Times (``at_ms``) are on the machine's monotonic clock, rounded down to milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from rtclab import _native, native_tables
from rtclab.errors import BadInput
from rtclab.importers.logs.text import LogBytes, read_log

NO_VALUE = -(2**63)
"""The value that stands for null in integer columns of a log."""

FIRST_BYTES = (b"\x82\x01", b"\x0a", b"\x80\xd6\x80\x25", b"\x81\xd6\x80\x25")
"""First bytes of event logs: the format that is read, the legacy format, and version 3."""


@dataclass(frozen=True)
class EventLog:
    """The content of a log: its tables, and notes on parts that could not be read."""

    path: Path
    tables: dict[str, pl.DataFrame]
    notes: tuple[str, ...]

    @property
    def utc_offset_ms(self) -> int:
        """Offset from times of the log to ms since 1970, from the beginning of the log; exact to 1 ms."""
        begin = self.tables["begin"].row(0, named=True)
        return int(begin["utc_ms"]) - int(begin["at_ms"])


def read_event_log(path: Path, log: LogBytes | None = None) -> EventLog:
    """Reads a log; it may be compressed with gzip.

    A log that was cut off is read up to its end. ``notes`` lists parts that are missing or not understood.

    Args:
        path: the file.
        log: its content, if the caller has read it.

    Raises:
        BadInput: the file cannot be read, or is not an event log of the format that Chromium writes.
    """
    log = read_log(path) if log is None else log
    try:
        native, faults = _native.event_log(log.content)
    except ValueError as error:
        raise BadInput(
            f"{path}: {error}", hint="`chromium --webrtc-event-logging=DIR` writes logs that can be read"
        ) from None
    notes = [f"{count} {name}" for name, count in faults.items() if count]
    if log.cut_off:
        notes.append("the compressed file was cut off")
    tables = {name: native_tables.table(columns, NO_VALUE) for name, columns in native.items()}
    if tables["begin"].is_empty() or tables["begin"].row(0)[2] is None:
        raise BadInput(
            f"{path}: an event log whose beginning cannot be read",
            hint="the first event must define the clock of the log",
        )
    if tables["begin"].height > 1:
        notes.append(
            f"{tables['begin'].height} logs in one file; all times are read with the clock of the first"
        )
    return EventLog(path, tables, tuple(notes))
