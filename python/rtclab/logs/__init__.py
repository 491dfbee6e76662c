"""Logs of calls that rtclab did not run, as traces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rtclab.errors import BadInput
from rtclab.logs.event_log import FIRST_BYTES, event_log
from rtclab.logs.event_trace import Names, trace_of
from rtclab.logs.getstats_rows import Imported
from rtclab.logs.text import LogBytes, read_log

__all__ = ["Imported", "open_log", "open_logs"]


def open_logs(paths: Sequence[Path], names: Names | None = None) -> Imported:
    """Reads one log of any known format, or the event logs of both ends of one connection.

    Args:
        paths: the log, or the two logs.
        names: for event logs, who wrote the first one, and the other end.

    Raises:
        BadInput: a file cannot be read, or is of no known format, or the logs are not of one connection.
    """
    if len(paths) == 1:
        return open_log(paths[0], names)
    if len(paths) != 2:
        raise BadInput(f"{len(paths)} logs; expected one, or the event logs of both ends of a connection")
    return trace_of([event_log(path, read_log(path)) for path in paths], names)


def open_log(path: Path, names: Names | None = None) -> Imported:
    """Reads a log, whose format is recognised by its content.

    Raises:
        BadInput: the file cannot be read, or is of no known format. The message names the file and the place.
    """
    log = read_log(path)
    if log.content.startswith(FIRST_BYTES) and not _is_text(log):
        return trace_of([event_log(path, log)], names)
    raise BadInput(
        f"{path}: not a log that rtclab knows; it begins with {log.content[:8]!r}",
        hint="expected an RTC event log of Chromium",
    )


def _is_text(log: LogBytes) -> bool:
    """Whether it begins with a line break, as a legacy event log does, but goes on as text."""
    return log.content[:200].lstrip()[:1] in (b"{", b"[")
