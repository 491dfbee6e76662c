"""Makes traces of the logs of browsers: RTC event logs, dumps of webrtc-internals, files of rtcstats."""

from __future__ import annotations

from pathlib import Path

from rtclab.errors import BadInput
from rtclab.importers.imported import Imported
from rtclab.importers.kinds import READ, kind_of
from rtclab.importers.logs.dumps import read_dump
from rtclab.importers.logs.event_log import FIRST_BYTES, read_event_log
from rtclab.importers.logs.event_trace import Names, trace_of
from rtclab.importers.logs.rtcstats import MAGIC, read_rtcstats
from rtclab.importers.logs.text import LogBytes, read_log

__all__ = ["open_log"]


def open_log(*paths: Path, names: Names | None = None) -> Imported:
    """Reads a log, whose format is recognised by its content, or the event logs of both ends of a connection.

    Args:
        paths: the log, or the two event logs.
        names: for event logs, the participant that wrote the first log, and the other end.

    Raises:
        BadInput: a file cannot be read, or is of no known format. The message names the file and the place.
            If it is of another known kind, the message names the kind. Or the logs are not of one connection.
    """
    if len(paths) > 1:
        return trace_of([read_event_log(path) for path in paths], names)
    (path,) = paths
    log = read_log(path)
    if log.content.startswith(FIRST_BYTES) and not _is_text(log):
        return trace_of([read_event_log(path, log)], names)
    if names is not None:
        raise BadInput(f"{path}: names are given, but this is not an event log, whose ends they would name")
    start = log.content[:200].lstrip()
    try:
        if start.startswith(b"{"):
            return read_dump(path, log)
        if start.startswith((MAGIC.encode(), b"[")):
            return read_rtcstats(path, log)
    except BadInput:
        if kind_of(log.content) is None:
            raise
    raise _unreadable(path, log)


def _unreadable(path: Path, log: LogBytes) -> BadInput:
    expected = "expected a log of a browser or a capture"
    if path.suffix == ".toml":
        return BadInput(
            f"{path}: a text of no known format; {expected}", hint=f"`rtclab run {path}` runs a scenario"
        )
    kind = kind_of(log.content)
    if kind is not None:
        return BadInput(f"{path}: {kind.name}; {expected}", hint=kind.instead)
    content = f"{'a text' if _is_text(log) else 'data'} of no known format"
    return BadInput(f"{path}: {content if log.content else 'the file is empty'}; {expected}", hint=READ)


def _is_text(log: LogBytes) -> bool:
    """Whether the content is text. A line break is also the byte with which a legacy event log begins."""
    start = log.content[:200].decode("utf-8", "ignore")
    return all(character.isprintable() or character.isspace() for character in start)
