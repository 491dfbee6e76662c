"""Logs of calls that rtclab did not run, as traces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rtclab.errors import BadInput
from rtclab.logs.dumps import read_dump
from rtclab.logs.event_log import FIRST_BYTES, event_log
from rtclab.logs.event_trace import Names, trace_of
from rtclab.logs.getstats_rows import Imported
from rtclab.logs.rtcstats import MAGIC, read_rtcstats
from rtclab.logs.text import LogBytes, read_log

__all__ = ["Imported", "open_log", "open_logs"]


def open_logs(paths: Sequence[Path], names: Names | None = None) -> Imported:
    """Reads one log of any known format, or the event logs of both ends of one connection.

    Args:
        paths: the log, or the two logs.
        names: for event logs, the participant that wrote the first log, and the other end.

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
    if log.content.startswith(FIRST_BYTES) and not _is_json(log):
        return trace_of([event_log(path, log)], names)
    if names is not None:
        raise BadInput(f"{path}: names are given, but this is not an event log, whose ends they would name")
    return open_getstats_log(path, log)


def open_getstats_log(path: Path, log: LogBytes) -> Imported:
    """Reads a dump of webrtc-internals or a file of rtcstats.

    Raises:
        BadInput: as for :func:`open_log`.
    """
    start = log.content[:200].lstrip()
    if start.startswith(b"{"):
        return read_dump(path, log)
    if start.startswith((MAGIC.encode(), b"[")):
        return read_rtcstats(path, log)
    raise BadInput(
        f"{path}: not a log that rtclab knows; it begins with {log.content[:8]!r}",
        hint="expected an RTC event log, a dump of chrome://webrtc-internals or a file of rtcstats",
    )


def _is_json(log: LogBytes) -> bool:
    """Whether it is text after a line break, the byte with which a legacy event log begins."""
    return log.content[:200].lstrip().startswith((b"{", b"[", MAGIC.encode()))
