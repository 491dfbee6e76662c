"""Reads dumps of chrome://webrtc-internals, from 2020 on, as traces."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from rtclab.errors import BadInput
from rtclab.importers.imported import Imported
from rtclab.importers.logs.getstats_rows import (
    USED_PROPERTIES,
    USED_TYPES,
    LoggedConnection,
    check_size,
    imported,
    time_ns,
)
from rtclab.importers.logs.local_times import WHOLE_SECOND_MS, DumpedCall, LocalClock, local_clock, utc_ms
from rtclab.importers.logs.text import LogBytes, parsed, parsed_or_cut_off
from rtclab.trace import WHOLE_SECOND

MERGED_MS = 100
"""Reports whose times differ by less than this come from the same call of getStats."""
MOST_SAMPLES = 1_000_000
"""Longer series are rejected."""
KEPT_SAMPLES = 1000
"""Chromium keeps as many samples of a series; the oldest go first."""

_OLD_TYPES = {
    "RTCInboundRTP": "inbound-rtp",
    "RTCOutboundRTP": "outbound-rtp",
    "RTCRemoteInboundRtp": "remote-inbound-rtp",
    "RTCIceCandidatePair": "candidate-pair",
    "RTCTransport": "transport",
    "RTCCodec": "codec",
    "RTCMediaStreamTrack": "track",
}
"""Types by the beginning of the id, for dumps that have neither ``statsType`` nor a series ``type``."""

_HEARD = "remote-inbound-rtp"

_CONNECTION = "connectionstatechange"
_STATES = {
    "signalingstatechange": {"stable": "signalling_done"},
    "iceconnectionstatechange": {
        "connected": "ice_connected",
        "completed": "ice_connected",
        "disconnected": "ice_disconnected",
        "failed": "ice_failed",
    },
    _CONNECTION: {
        "connected": "dtls_connected",
        "disconnected": "disconnected",
        "failed": "failed",
        "closed": "left",
    },
}
"""Events of a trace by event and new state of a connection."""

Stats = Mapping[str, Any]
Series = list[Any]
Span = tuple[float, float]


def state_event(name: str, state: object) -> tuple[str, str | None]:
    """What changed, and the event of a trace for its new state; None if there is none.

    Args:
        name: an event or method, such as ``oniceconnectionstatechange`` or ``close``.
        state: its value.
    """
    if name == "close":
        return _CONNECTION, "left"
    source = name.removeprefix("on").lower()
    return source, _STATES.get(source, {}).get(state) if isinstance(state, str) else None


def read_dump(path: Path, log: LogBytes) -> Imported:
    """Makes a trace of a dump of webrtc-internals.

    If a dump was cut off, the trace has its complete parts, and a note says so. Each series is placed by its
    own first and last time. Times of events in the language of the user are read if the times of the series
    tell their order of numbers and their time zone. Notes say what was left out and what is not certain.

    Raises:
        BadInput: the file is not such a dump. The message names the file, and the line or the connection.
    """

    def failure(problem: str) -> BadInput:
        return BadInput(f"{path}: {problem}", hint="expected a dump of chrome://webrtc-internals")

    dump, cut_off = parsed_or_cut_off(log.content.decode("utf-8", "replace"), failure)
    connections = dump.get("PeerConnections") if isinstance(dump, dict) else None
    if not isinstance(connections, dict):
        raise failure("no object `PeerConnections`")
    notes = ["the file was cut off: the rest is missing"] if cut_off or log.cut_off else []
    read = []
    for key, about in connections.items():
        if not isinstance(about, dict):
            raise failure(f"connection {key[:40]}: expected an object")
        read.append(_Connection(path, key[:80], about))
    clock = local_clock([one.told for one in read])
    reports = 0
    for one in read:
        one.add_events(clock)
        for at_ms, sample in one.samples():
            reports += one.made.add_reports(at_ms, sample)
            check_size(path, reports)
        notes += one.notes()
    if not reports and any(one.legacy for one in read):
        raise BadInput(
            f"{path}: has only reports in the pre-2020 format (`googRtt` and the like)",
            hint="expected reports as in W3C webrtc-stats (`outbound-rtp` and the like)",
        )
    agent = dump.get("UserAgent")
    return imported(path, [one.made for one in read], notes, agent if isinstance(agent, str) else None)


class _Connection:
    """A connection of a dump, and what cannot be read of it."""

    def __init__(self, path: Path, key: str, about: Mapping[str, Any]) -> None:
        self.made = LoggedConnection(key)
        self._path = path
        stats, updates = about.get("stats"), about.get("updateLog")
        self._stats = {
            name: series
            for name, series in (stats.items() if isinstance(stats, dict) else ())
            if isinstance(series, dict) and "[" not in name  # the page computed those in brackets
        }
        self._updates = [
            update
            for update in (updates if isinstance(updates, list) else [])
            if isinstance(update, dict) and isinstance(update.get("type"), str)
        ]
        spans = [span for series in self._stats.values() if (span := _span(series)) is not None]
        self._span_ms = (min(span[0] for span in spans), max(span[1] for span in spans)) if spans else None
        self.legacy = sum("-goog" in name for name in self._stats)
        """Number of series in the format before 2020."""
        self._spread: set[str] = set()
        self._no_times: set[str] = set()
        self._no_time: list[str] = []
        self._clock: LocalClock | str = ""

    @property
    def told(self) -> DumpedCall:
        """The events whose times are text, and the times of the statistics."""
        values = [str(series.get("values")) for series in self._stats.values()]
        longest = max((numbers.count(",") for numbers in values if '"' not in numbers), default=0)
        texts = [text for update in self._updates if (text := _local_text(update)) is not None]
        return DumpedCall(texts, self._span_ms, longest + 1 < KEPT_SAMPLES)

    def add_events(self, clock: LocalClock | str) -> None:
        """Adds the events; ``clock`` says how local times are read, or why they cannot be."""
        for update in self._updates:
            at_ms, detail = self._time_of(update, clock)
            if at_ms is None:
                self._no_time.append(str(update.get("time", update.get("timestamp"))))
                continue
            value = update.get("value")
            state = value.strip('"') if isinstance(value, str) else None
            self.made.add_update(at_ms, *state_event(update["type"], state), detail)

    def _time_of(self, update: Mapping[str, Any], clock: LocalClock | str) -> tuple[object, str]:
        """When an update was, in ms, and the detail of its event; None if its time cannot be read."""
        for known in (update.get("timestamp"), update.get("time")):
            if time_ns(known) is not None:
                return known, ""
        local, text = _local_text(update), str(update.get("time"))
        if local is None:
            at_ms = utc_ms(text)
            if at_ms is None or "." in text:
                return at_ms, ""
        else:
            at_ms = None if isinstance(clock, str) else clock.at_ms(local)
            self._clock = clock
        if at_ms is not None and self._span_ms is not None:
            begin_ms = self._span_ms[0]
            if at_ms < begin_ms <= at_ms + WHOLE_SECOND_MS:
                at_ms = begin_ms  # so that time zero remains exact
        return at_ms, WHOLE_SECOND

    def notes(self) -> Iterator[str]:
        """What was not read, or is not certain."""
        where = f"connection {self.made.key}"
        if isinstance(self._clock, LocalClock):
            yield f"{where}: local times of events were read as {self._clock.words}, and are known to 1 s"
        if self._no_time:
            why = f": {self._clock}" if isinstance(self._clock, str) and self._clock else ""
            yield (
                f"{where}: left out {len(self._no_time)} events whose time cannot be known, such as "
                f"`{self._no_time[0][:40]}`{why}"
            )
        if self._spread:
            yield (
                f"{where}: {_listed(self._spread)} had no value at some times, which the dump does not name; "
                "their values are spread evenly from their first to their last time"
            )
        if self._no_times:
            yield (
                f"{where}: left out {_listed(self._no_times)}: fewer values than samples, and no times of "
                "their own"
            )
        if self.legacy:
            yield f"{where}: left out {self.legacy} series in the pre-2020 format (`googRtt` and the like)"

    def samples(self) -> Iterator[tuple[float, list[tuple[str, Stats]]]]:
        """The reports by the call of getStats that returned them.

        A report about RTCP has the time of the RTCP packet, so it belongs to the next call of getStats.
        """
        moments: list[tuple[float, str, Stats]] = []
        heard: list[tuple[float, str, Stats]] = []
        for report, properties in _by_report(self._stats).items():
            kind = _kind(report, properties)
            if kind is None:
                continue
            for at_ms, sample in self._rows(report, properties):
                of_kind = heard if kind == _HEARD else moments
                of_kind.append((at_ms, report, sample | {"type": kind}))
            check_size(self._path, len(moments) + len(heard))
        moments.sort(key=lambda moment: moment[0])
        heard.sort(key=lambda moment: moment[0])
        index = known = 0
        while index < len(moments):
            at_ms, end = moments[index][0], index
            together: dict[str, Stats] = {}
            while (
                end < len(moments) and moments[end][0] - at_ms < MERGED_MS and moments[end][1] not in together
            ):
                together[moments[end][1]] = moments[end][2]
                end += 1
            while known < len(heard) and heard[known][0] < at_ms + MERGED_MS:
                together[heard[known][1]] = heard[known][2]
                known += 1
            yield at_ms, list(together.items())
            index = end

    def _rows(self, report: str, properties: Mapping[str, Stats]) -> Iterator[tuple[float, dict[str, Any]]]:
        """The samples of a report: their time, and the properties known then."""
        where = f"connection {self.made.key}, {report[:60]}"
        used = {name: about for name, about in properties.items() if name in USED_PROPERTIES}
        series = {name: _values(self._path, where, name, about) for name, about in used.items()}
        at_ms: list[float] = [at for at in series.pop("timestamp", []) if time_ns(at) is not None]
        ahead_ms = 0.0
        if at_ms:
            ahead_ms = (_span(used["timestamp"]) or (0.0, at_ms[-1]))[1] - at_ms[-1]
        else:
            at_ms = _spaced(used, series)
        rows: list[dict[str, Any]] = [{} for _ in at_ms]
        grid = _Grid(at_ms)
        for name, values in series.items():
            places: Sequence[int | None]
            span_ms = _span(used[name])
            if span_ms is not None:
                places = grid.places(len(values), span_ms[0] - ahead_ms, span_ms[1] - ahead_ms)
                if not isinstance(places, range):
                    self._spread.add(name)
            elif len(values) == len(at_ms):
                places = range(len(values))
            else:
                self._no_times.add(name)
                continue
            for index, value in zip(places, values, strict=True):
                if index is not None:
                    rows[index][name] = value
        yield from zip(at_ms, rows, strict=True)


class _Grid:
    """The times of a report's samples, in ms, to which the values of its series belong."""

    def __init__(self, at_ms: Sequence[float]) -> None:
        self._at_ms = at_ms
        between = sorted(later - at for at, later in pairwise(at_ms))
        usual_ms = between[len(between) // 2] if between else 0.0
        self._tolerance_ms = max(usual_ms / 2, MERGED_MS)

    def places(self, count: int, begin_ms: float, end_ms: float) -> Sequence[int | None]:
        """The samples of a series' values, from its first and last time.

        It is a range if no sample between them lacks a value. Otherwise the values are spread evenly, and
        those that are near to no sample have None.
        """
        first, last = self._nearest(begin_ms), self._nearest(end_ms)
        if first is not None and last is not None:
            # Reports on RTCP that did not change have the same time.
            first = bisect_left(self._at_ms, self._at_ms[first])
            last = bisect_right(self._at_ms, self._at_ms[last]) - 1
            for begin in (last - count + 1, first):
                if self._has(begin, begin_ms) and self._has(begin + count - 1, end_ms):
                    return range(begin, begin + count)
        step_ms = (end_ms - begin_ms) / max(count - 1, 1)
        return [self._nearest(begin_ms + step_ms * index) for index in range(count)]

    def _has(self, index: int, moment_ms: float) -> bool:
        """Whether there is such a sample, and it is near to a time."""
        near = 0 <= index < len(self._at_ms)
        return near and abs(self._at_ms[index] - moment_ms) <= self._tolerance_ms

    def _nearest(self, moment_ms: float) -> int | None:
        """The sample that is nearest to a time; None if none is near."""
        index = bisect_left(self._at_ms, moment_ms)
        near = [one for one in (index - 1, index) if self._has(one, moment_ms)]
        return min(near, key=lambda one: abs(self._at_ms[one] - moment_ms), default=None)


def _by_report(stats: Stats) -> dict[str, dict[str, Stats]]:
    """The series of each report, by property."""
    reports: dict[str, dict[str, Stats]] = {}
    for key, series in stats.items():
        report, dash, name = key.rpartition("-")
        if dash:
            reports.setdefault(report, {})[name] = series
    return reports


def _kind(report: str, properties: Mapping[str, Stats]) -> str | None:
    """The type of a report that a trace has a table for; None for others."""
    named = next((series.get("statsType") for series in properties.values()), None)
    if named is None and "type" in properties:
        values = str(properties["type"].get("values", ""))
        named = next((kind for kind in _OLD_TYPES.values() if values.startswith(f'["{kind}"')), None)
    if named is None:
        named = next((kind for prefix, kind in _OLD_TYPES.items() if report.startswith(prefix)), None)
    return named if named in USED_TYPES else None


def _values(path: Path, where: str, name: str, about: Stats) -> Series:
    text = about.get("values", [])
    try:
        values = parsed(text) if isinstance(text, str) else text
    except ValueError:
        values = None
    if not isinstance(values, list) or len(values) > MOST_SAMPLES:
        raise BadInput(
            f"{path}: {where}-{name[:60]}: expected `values` to be a JSON array",
            hint="the file was changed after Chromium wrote it",
        )
    return values


def _spaced(properties: Mapping[str, Stats], series: Mapping[str, Series]) -> list[float]:
    """Times at equal distances, of the longest series, for dumps without a series of times (before M117)."""
    if not series:
        return []
    longest = max(series, key=lambda name: len(series[name]))
    span_ms, samples = _span(properties[longest]), len(series[longest])
    if span_ms is None or not samples:
        return []
    step_ms = (span_ms[1] - span_ms[0]) / max(samples - 1, 1)
    return [span_ms[0] + step_ms * index for index in range(samples)]


def _span(series: Stats) -> Span | None:
    """First and last time of a series, in ms since 1970; None if it does not tell them."""
    begin, end = (utc_ms(str(series.get(name))) for name in ("startTime", "endTime"))
    return None if begin is None or end is None or end < begin else (begin, end)


def _local_text(update: Mapping[str, Any]) -> str | None:
    """The time of an update if it is a text that names no time zone."""
    text = update.get("time")
    if time_ns(update.get("timestamp")) is not None or not isinstance(text, str) or utc_ms(text) is not None:
        return None
    return text


def _listed(names: Collection[str]) -> str:
    shown = ", ".join(sorted(names)[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
