"""Logs of calls that rtclab did not run, as traces."""

from __future__ import annotations

from pathlib import Path

from rtclab.errors import BadInput
from rtclab.logs.dumps import read_dump
from rtclab.logs.getstats_rows import Imported
from rtclab.logs.rtcstats import MAGIC, read_rtcstats
from rtclab.logs.text import LogBytes, read_log

__all__ = ["Imported", "open_log"]


def open_log(path: Path) -> Imported:
    """Reads a log, whose format is recognised by its content.

    Raises:
        BadInput: the file cannot be read, or is of no known format. The message names the file and the place.
    """
    return open_getstats_log(path, read_log(path))


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
        hint="expected a dump of chrome://webrtc-internals or a file of rtcstats",
    )
