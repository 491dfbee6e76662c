"""Reads files of rtcstats as traces: version 3 (also Chromium's own), and older ones with absolute times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rtclab.errors import BadInput
from rtclab.importers.imported import Imported
from rtclab.importers.logs.dumps import state_event
from rtclab.importers.logs.getstats_rows import (
    USED_TYPES,
    LoggedConnection,
    check_size,
    imported,
    time_ns,
)
from rtclab.importers.logs.rtcstats_names import METHODS, PROPERTIES, TYPES
from rtclab.importers.logs.text import LogBytes, in_words, parsed

MAGIC = "RTCStatsDump"
VERSION = 3
MOST_PROPERTIES = 1000
"""A report with more properties is rejected; the standard has some hundred."""

OF_DEVICES = ("navigator.", "MediaStreamTrack.", "HTMLMediaElement.")
"""How methods of devices and tracks begin, which some files list under a name like a connection's."""
GETSTATS = "getstats"
_JITSI = frozenset({"identity", "conferenceStartTimestamp"})

Report = dict[str, Any]
Record = tuple[int, list[Any]]


@dataclass
class _Restored:
    """A connection and the state of its last getStats report, by id of the stats object."""

    connection: LoggedConnection
    reports: dict[str, Report] = field(default_factory=dict)
    used: dict[str, Report] = field(default_factory=dict)


def read_rtcstats(path: Path, log: LogBytes) -> Imported:
    """Makes a trace of a file of rtcstats.

    If a file was cut off, its complete lines are read, and a note says so.

    Raises:
        BadInput: the file is not an rtcstats file, or has another version. The message names file and line.
    """
    text = log.content.decode("utf-8", "replace")
    return _Reader(path, log.cut_off).read(text)


class _Reader:
    """Reads the lines of one file."""

    def __init__(self, path: Path, cut_off: bool) -> None:
        self.path = path
        self.cut_off = cut_off
        self.known: dict[str, _Restored] = {}
        self.reports = 0
        self.legacy_getstats = 0
        self.jitsi = False
        self.browser: str | None = None

    def read(self, text: str) -> Imported:
        first, _, rest = text.partition("\n")
        if first.strip() == MAGIC:
            header, _, lines = rest.partition("\n")
            self._check_header(header)
            self._read_relative(self._lines(lines, 3))
        else:
            self._read_absolute(self._lines(text, 1))
        notes = ["the file was cut off: the rest is missing"] if self.cut_off else []
        if self.legacy_getstats and not self.reports:
            raise BadInput(
                f"{self.path}: has only reports in the pre-2020 format (`googRtt` and the like)",
                hint="expected reports as in W3C webrtc-stats (`outbound-rtp` and the like)",
            )
        return imported(self.path, [one.connection for one in self.known.values()], notes, self.browser)

    def _check_header(self, line: str) -> None:
        hint = f"expected the second line to be an object with `fileFormat` {VERSION}"
        try:
            header = parsed(line)
        except ValueError as error:
            raise self._error(2, in_words(error), hint) from None
        version = header.get("fileFormat") if isinstance(header, dict) else None
        if version != VERSION or isinstance(version, bool):
            raise self._error(2, f"version {str(version)[:20]} of the format cannot be read", hint)
        agent = header.get("userAgent")
        self.browser = agent if isinstance(agent, str) else None

    def _lines(self, text: str, first: int) -> Iterator[Record]:
        """The arrays of the text with their line numbers; other lines are ignored."""
        lines = text.split("\n")
        for number, line in enumerate(lines, start=first):
            if not line.lstrip().startswith("["):
                continue
            try:
                value = parsed(line)
            except ValueError as error:
                if number - first == len(lines) - 1:
                    self.cut_off = True
                    return
                raise self._error(number, in_words(error)) from None
            yield number, value

    def _read_relative(self, lines: Iterator[Record]) -> None:
        """Lines whose last element is the time since the line before; the first time is absolute."""
        at_ms = 0.0
        for number, line in lines:
            step = line[-1] if len(line) >= 4 else None
            if isinstance(step, bool) or not isinstance(step, (int, float)):
                raise self._error(number, "expected [method, connection, value, …, ms since the line before]")
            at_ms += step
            if time_ns(at_ms) is None:
                raise self._error(
                    number, f"its time is {at_ms:.6g} ms since 1970; expected a time since 1970"
                )
            self._handle(number, line, at_ms, compressed=True)

    def _read_absolute(self, lines: Iterator[Record]) -> None:
        """Lines with the time in ms since 1970 as fourth element. Lines without it are not about a call."""
        for number, line in lines:
            if len(line) < 4:
                continue
            at_ms = next((value for value in line[3:] if time_ns(value) is not None), None)
            self.jitsi = self.jitsi or line[0] in _JITSI if isinstance(line[0], str) else self.jitsi
            if at_ms is not None:
                self._handle(number, line, at_ms, compressed=False)

    def _handle(self, number: int, line: list[Any], at_ms: float, *, compressed: bool) -> None:
        method, key, value = line[:3]
        if isinstance(method, (str, int)):
            method = METHODS.get(str(method), method)
        if not isinstance(method, str) or not isinstance(key, (str, int)) or isinstance(key, bool):
            return
        if method.startswith(OF_DEVICES):
            return
        one = self.known.setdefault(str(key), _Restored(LoggedConnection(str(key)[:80])))
        if method.lower() == GETSTATS:
            if not isinstance(value, dict):
                raise self._error(number, f"expected getStats of {str(key)[:40]} to give an object")
            restore = self._restore if compressed else self._restore_old
            at_ms = restore(number, one, value, at_ms)
            used = sorted(one.used.items())
            self.reports += one.connection.add_reports(at_ms, used)
            check_size(self.path, self.reports)
            return
        one.connection.add_update(at_ms, *state_event(method, value))

    def _restore(self, number: int, one: _Restored, delta: Mapping[str, Any], at_ms: float) -> float:
        """Applies a delta of version 3; returns the time of the reports."""
        newest = at_ms
        for key, change in delta.items():
            if PROPERTIES.get(key) == "timestamp":
                newest = change if time_ns(change) is not None else newest
            elif change is None:
                one.reports.pop(key, None)
                one.used.pop(key, None)
            elif isinstance(change, dict):
                named = {PROPERTIES.get(code) or code: value for code, value in change.items()}
                self._merge(number, one, key, named)
        return newest

    def _restore_old(self, number: int, one: _Restored, delta: Mapping[str, Any], at_ms: float) -> float:
        """Applies a delta of the older formats, where a Jitsi server leaves out reports that have ended."""
        if self.jitsi:
            for key in one.reports.keys() - delta.keys():
                one.reports.pop(key, None)
                one.used.pop(key, None)
        for key, change in delta.items():
            if isinstance(change, dict):
                self._merge(number, one, key, change)
        newest = delta.get("timestamp")
        return newest if isinstance(newest, (int, float)) and time_ns(newest) is not None else at_ms

    def _merge(self, number: int, one: _Restored, key: str, change: Mapping[str, Any]) -> None:
        report = one.reports.setdefault(key, {})
        for name, value in change.items():
            known = report.get(name)
            if isinstance(value, dict) and isinstance(known, dict):
                value = {**known, **value}
            report[name] = value
        if len(report) > MOST_PROPERTIES:
            raise self._error(number, f"a report has more than {MOST_PROPERTIES} properties")
        kind = report.get("type")
        if isinstance(kind, (str, int)):
            report["type"] = kind = TYPES.get(str(kind), kind)
        if kind in USED_TYPES:
            one.used[key] = report
        elif kind == "ssrc":
            self.legacy_getstats += 1

    def _error(self, number: int, problem: str, hint: str | None = None) -> BadInput:
        return BadInput(f"{self.path}, line {number}: {problem}", hint=hint or "expected a file of rtcstats")
