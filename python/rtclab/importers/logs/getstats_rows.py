"""Makes tables of a trace from the getStats reports of a log, as the live backend does with its pages'."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import polars as pl

from rtclab.errors import BadInput
from rtclab.importers.imported import Imported, check_span
from rtclab.trace import (
    NS_PER_MS,
    NS_PER_S,
    NULLABLE,
    SCHEMAS,
    CallInfo,
    CaptureInfo,
    FlowInfo,
    TraceManifest,
    flattened,
)

PAGE, REMOTE = "page", "remote"
"""The two parties of a connection: the page that made the log, and the other end."""

MOST_REPORTS = 2_000_000
"""A log with more reports of streams is rejected, so that time and memory stay bounded."""

MOST_TOLD = 8
"""Events of a connection that its notes name."""

_CHANGES = {"disconnected", "ice_disconnected", "failed", "ice_failed", "route_changed", "codec_changed"}
_LATEST_MS = 4e12
_EXACT = 2**53
_MOST_DIGITS = 15

OUT, IN, PAIR = "outbound_rtp", "inbound_rtp", "candidate_pair"
_TABLES = {"outbound-rtp": OUT, "inbound-rtp": IN, "remote-inbound-rtp": "remote_inbound_rtp"}
_COUNTS = {OUT: "packetsSent", IN: "packetsReceived"}
_SAME = ("participant", "flow")
_OF_PAIRS = {"candidate-pair", "transport"}
USED_TYPES = frozenset(_TABLES) | _OF_PAIRS | {"codec", "track"}
"""Types of the reports that a trace is made of."""
USED_PROPERTIES = frozenset().union(*(SCHEMAS[name].names() for name in (*_TABLES.values(), PAIR))) | {
    *("timestamp", "type", "isRemote", "mediaType", "codecId", "trackId", "qualityLimitationDurations"),
    *("selectedCandidatePairId", "nominated", "selected", "state"),
}
"""Properties of reports that a trace is made of."""
_GAUGES = dict.fromkeys(("frameWidth", "frameHeight", "framesPerSecond", "targetBitrate", "jitter"))
"""Columns that are null once a stream has ended; its counters keep their last values."""
_COUNTERS = {
    table: [
        column
        for column, dtype in SCHEMAS[table].items()
        if dtype.is_numeric() and column not in ("at_ns", "ssrc", *_GAUGES)
    ]
    for table in _COUNTS
}

Report = Mapping[str, Any]
Row = dict[str, Any]


class _Table:
    """Rows of a table without ``participant`` and ``flow``; only the newest rows are Python objects."""

    CHUNK = 8192

    def __init__(self, name: str) -> None:
        self.schema = {column: dtype for column, dtype in SCHEMAS[name].items() if column not in _SAME}
        self._rows: list[Row] = []
        self._frames: list[pl.DataFrame] = []

    def add(self, row: Row) -> None:
        self._rows.append(row)
        if len(self._rows) == self.CHUNK:
            self._pack()

    def frame(self) -> pl.DataFrame:
        self._pack()
        return pl.concat(self._frames)

    def _pack(self) -> None:
        self._frames.append(pl.DataFrame(self._rows, schema=self.schema, strict=False))
        self._rows = []


class LoggedConnection:
    """The content of a log about one connection, with times in ns since 1970.

    Args:
        key: its name in the log.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self.incomplete = 0
        """Number of reports of streams that lack a required column, such as ``ssrc``."""
        self.span_ns: tuple[int, int] | None = None
        """First and last time; None if the log has no data about the connection."""
        self.media_ns: dict[str, int] = {}
        """By table, the time of the first report of a packet; -1 if there are reports but no packet."""
        self.tables: dict[str, _Table] = {}
        self.events: list[tuple[int, str, str]] = []
        """Time, name and detail, as in the table ``events``."""
        self.shared_tracks: set[str] = set()
        """Tracks of several streams, whose reports belong to none of them alone."""
        self.restarts = 0
        """How often a stream began to count from 0 again."""
        self._streams: dict[tuple[str, str], Row] = {}
        self._told: dict[tuple[str, str], Row] = {}
        self._bases: dict[tuple[str, str], Row] = {}
        self._last_ns: int | None = None
        self._joined = False
        self._states: dict[str, str | None] = {}
        self._codecs: dict[str, str] = {}
        self._mime_types: dict[tuple[str, str], str] = {}
        self._routes: dict[str, str] = {}

    @property
    def changes(self) -> list[tuple[int, str]]:
        """Time and name of the events that change what the numbers mean, in order."""
        return sorted((at_ns, event) for at_ns, event, _ in self.events if event in _CHANGES)

    def add_update(self, at_ms: object, source: str, event: str | None, detail: str = "") -> None:
        """Adds what an update of the log means, unless its time is invalid.

        The first update is the event ``joined``. A state that means the same event as the state before, such
        as ``completed`` after ``connected``, is no event.

        Args:
            at_ms: when it was.
            source: what has changed, such as ``iceconnectionstatechange``.
            event: the event that the new state means, if any.
            detail: details of both events.
        """
        at_ns = time_ns(at_ms)
        if at_ns is None:
            return
        if not self._joined:
            self._joined = True
            self._add_event(at_ns, "joined", detail)
        if event is not None and event != self._states.get(source):
            self._add_event(at_ns, event, detail)
        self._states[source] = event

    def add_reports(self, at_ms: object, reports: Iterable[tuple[str, Report]]) -> int:
        """Adds the reports of one call of getStats, given as pairs of id and report; returns their number.

        The same reports again within 1 ms are left out. A stream that has ended keeps its counters until the
        end of the connection, so that sums over streams do not fall.
        """
        at_ns = time_ns(at_ms)
        if at_ns is None or (self._last_ns is not None and abs(at_ns - self._last_ns) < NS_PER_MS):
            return 0
        self._last_ns = at_ns
        self._extend(at_ns)
        of_type: dict[str, dict[str, Report]] = {}
        for key, report in reports:
            of_type.setdefault(type_of(report), {})[key] = report
        for key, report in of_type.get("codec", {}).items():
            mime_type = report.get("mimeType")
            if isinstance(mime_type, str):
                self._codecs[key] = mime_type
        self._add_pair(at_ns, of_type.get("candidate-pair", {}), of_type.get("transport", {}))
        gone, tracks = dict(self._streams), self._tracks(of_type)
        for kind, table in _TABLES.items():
            for key, report in of_type.get(kind, {}).items():
                gone.pop((table, key), None)
                known = {name: value for name, value in report.items() if value is not None}
                self._add_stream(at_ns, table, key, {**tracks.get(key, {}), **known})
        for (table, _), row in gone.items():
            if table in _COUNTS:
                self._add(table, row | dict.fromkeys(_GAUGES.keys() & row.keys()) | {"at_ns": at_ns})
        return sum(map(len, of_type.values())) + len(gone)

    def _add_pair(self, at_ns: int, pairs: Mapping[str, Report], transports: Mapping[str, Report]) -> None:
        """Adds the candidate pair in use, and an event for each transport that changed to another one."""
        selected, messages = None, None
        for key, report in transports.items():
            selected = _id(report.get("selectedCandidatePairId")) or selected
            messages = report.get("ccfbMessagesReceived", messages)
            route = _id(report.get("selectedCandidatePairId")) or self._routes.get(key)
            if route is not None and route != self._routes.setdefault(key, route):
                self._add_event(at_ns, "route_changed", f"{self._routes[key][:80]} to {route[:80]}")
                self._routes[key] = route
        pair = _chosen(pairs, selected)
        if pair is not None:
            self._add(PAIR, _row(PAIR, {"ccfbMessagesReceived": messages, **pair}) | {"at_ns": at_ns})

    def _tracks(self, of_type: Mapping[str, Mapping[str, Report]]) -> dict[str, Report]:
        """By id of a stream's report, the report on its track (Safari, Chromium until 2023).

        If several streams send one track, as in simulcast, its counters are of all of them together, not
        of one of them.
        """
        tracks, users = of_type.get("track", {}), dict[str, list[str]]()
        for kind in ("outbound-rtp", "inbound-rtp") if tracks else ():
            for key, report in of_type.get(kind, {}).items():
                users.setdefault(_id(report.get("trackId")) or "", []).append(key)
        known = {track: keys for track, keys in users.items() if track in tracks}
        self.shared_tracks |= {track for track, keys in known.items() if len(keys) > 1}
        return {keys[0]: tracks[track] for track, keys in known.items() if len(keys) == 1}

    def _add_stream(self, at_ns: int, table: str, key: str, report: Report) -> None:
        mime_type = self._codecs.get(_id(report.get("codecId")) or "")
        named = {"kind": report.get("mediaType"), "mimeType": mime_type, **report}
        row = _row(table, named) | {"at_ns": at_ns}
        if any(row[column] is None for column in row.keys() - NULLABLE[table]):
            self.incomplete += 1
            return
        if table in _COUNTS:
            row = self._counted_on((table, key), row)
        self._streams[table, key] = row
        self._add(table, row)
        if table in _COUNTS:
            before = self.media_ns.get(table, -1)
            self.media_ns[table] = at_ns if before < 0 and row[_COUNTS[table]] > 0 else before
            self._follow_codec(at_ns, (table, key), row)

    def _counted_on(self, stream: tuple[str, str], row: Row) -> Row:
        """The row with what the stream had counted before, if it has begun to count from 0 again."""
        table = stream[0]
        before, self._told[stream] = self._told.get(stream), row
        if before is not None and row[_COUNTS[table]] < before[_COUNTS[table]]:
            self.restarts += 1
            base = self._bases.setdefault(stream, dict.fromkeys(_COUNTERS[table], 0))
            self._bases[stream] = {column: base[column] + (before[column] or 0) for column in base}
        base = self._bases.get(stream, {})
        counted = {column: row[column] + base[column] for column in base if row[column] is not None}
        return row | {column: number if abs(number) < _EXACT else None for column, number in counted.items()}

    def _follow_codec(self, at_ns: int, stream: tuple[str, str], row: Row) -> None:
        now = row["mimeType"]
        if isinstance(now, str):
            before = self._mime_types.get(stream, now)
            self._mime_types[stream] = now
            if now != before:
                self._add_event(at_ns, "codec_changed", f"SSRC {row['ssrc']}: {before[:80]} to {now[:80]}")

    def _add_event(self, at_ns: int, event: str, detail: str) -> None:
        self.events.append((at_ns, event, detail))
        self._extend(at_ns)

    def _add(self, table: str, row: Row) -> None:
        self.tables.setdefault(table, _Table(table)).add(row)

    def _extend(self, at_ns: int) -> None:
        first_ns, last_ns = self.span_ns or (at_ns, at_ns)
        self.span_ns = min(first_ns, at_ns), max(last_ns, at_ns)


def time_ns(at_ms: object) -> int | None:
    """A time in ms since 1970 as ns; None if it is invalid."""
    if isinstance(at_ms, bool) or not isinstance(at_ms, (int, float)) or not 0 < at_ms < _LATEST_MS:
        return None
    return round(at_ms * NS_PER_MS)


def check_size(path: Path, reports: int) -> None:
    """Raises BadInput if a log has more than ``MOST_REPORTS``."""
    if reports > MOST_REPORTS:
        raise BadInput(f"{path}: more than {MOST_REPORTS} reports of streams", hint="cut the log in parts")


def imported(
    path: Path,
    connections: Iterable[LoggedConnection],
    notes: Iterable[str] = (),
    browser: str | None = None,
) -> Imported:
    """The trace of a log: each connection is a call between the page and a remote end.

    The far ends are ``remote``, ``remote-2`` and so on, in the order of the log. Time zero is the first event
    or report.

    Raises:
        BadInput: the log has no connection, or spans more than ``MOST_SECONDS``.
    """
    known = [(one, one.span_ns) for one in connections if one.span_ns is not None]
    if not known:
        raise BadInput(
            f"{path}: no connection in the log",
            hint="a browser records connections only from when its page of logs was opened until they close",
        )
    begin_ns, end_ns = min(span[0] for _, span in known), max(span[1] for _, span in known)
    check_span(path, end_ns - begin_ns)
    all_notes, calls = list(notes), []
    flows: dict[str, FlowInfo] = {}
    parts: dict[str, list[pl.DataFrame]] = {}
    for index, (one, (first_ns, last_ns)) in enumerate(known):
        remote = REMOTE if index == 0 else f"{REMOTE}-{index + 1}"
        span_ns = first_ns - begin_ns, last_ns - begin_ns
        calls.append(
            CallInfo(kind="p2p", participants=(PAGE, remote), start_ns=span_ns[0], end_ns=span_ns[1])
        )
        flows |= _flows(one, remote, index, begin_ns, span_ns)
        for name, frame in _frames(one, remote, begin_ns, flows).items():
            parts.setdefault(name, []).append(frame)
        all_notes.append(f"{remote} is connection {one.key} of the log")
        if one.changes:
            told = [f"{event} at {(at_ns - begin_ns) / NS_PER_S:.1f} s" for at_ns, event in one.changes]
            more = f" and {len(told) - MOST_TOLD} more" if len(told) > MOST_TOLD else ""
            all_notes.append(f"{remote}: {', '.join(told[:MOST_TOLD])}{more}")
        if one.incomplete:
            all_notes.append(f"{remote}: left out {one.incomplete} reports without ssrc, kind or counts")
        if one.restarts:
            all_notes.append(
                f"{remote}: counters of streams fell {one.restarts} times; they are taken to have begun anew"
            )
        if one.shared_tracks:
            all_notes.append(
                f"{remote}: left out the reports on {len(one.shared_tracks)} tracks that several streams send"
            )
    manifest = TraceManifest(
        backend="log",
        duration_ns=max(end_ns - begin_ns, 1),
        participants=(PAGE, *(call.participants[1] for call in calls)),
        calls=tuple(calls),
        flows=flows,
        connections=len(calls),
        browser=browser,
        capture=CaptureInfo(
            files=(str(path),), begin_ns=begin_ns, notes=tuple({"note": note} for note in all_notes)
        ),
    )
    tables = {name: pl.concat(frames).sort("at_ns", maintain_order=True) for name, frames in parts.items()}
    return Imported(tables, manifest)


def _flows(
    one: LoggedConnection, remote: str, call: int, begin_ns: int, span_ns: tuple[int, int]
) -> dict[str, FlowInfo]:
    """The directions with media; both if neither has media.

    A flow begins with the first report that counts a packet of it, and ends with its connection.
    """
    flows = {}
    for sender, receiver, table in ((PAGE, remote, OUT), (remote, PAGE, IN)):
        if one.media_ns and table not in one.media_ns:
            continue
        first_ns = one.media_ns.get(table, -1)
        flows[f"{sender}->{receiver}"] = FlowInfo(
            sender=sender,
            receiver=receiver,
            call=call,
            begin_ns=span_ns[0] if first_ns < 0 else first_ns - begin_ns,
            end_ns=span_ns[1],
        )
    return flows


def _frames(
    one: LoggedConnection, remote: str, begin_ns: int, flows: Mapping[str, FlowInfo]
) -> dict[str, pl.DataFrame]:
    """The tables of one connection, on the clock of the trace, without rows of directions without media.

    If the page sends no media, the round trips of the connection are with what it receives.
    """
    outgoing, incoming = f"{PAGE}->{remote}", f"{remote}->{PAGE}"
    frames = {}
    for name, table in one.tables.items():
        flow = incoming if name == IN or (name == PAIR and outgoing not in flows) else outgoing
        if flow in flows:
            frames[name] = (
                table.frame()
                .with_columns(pl.col("at_ns") - begin_ns, participant=pl.lit(PAGE), flow=pl.lit(flow))
                .select(SCHEMAS[name].names())
            )
    if PAIR in frames and outgoing in flows:
        estimate = pl.col("availableOutgoingBitrate")
        frames["controller"] = (
            frames[PAIR]
            .drop_nulls("availableOutgoingBitrate")
            .select(
                *("at_ns", "participant", "flow"),
                pl.lit("available_outgoing_bitrate_bps").alias("name"),
                estimate.alias("value"),
            )
        )
    of = next((flow for flow in (incoming, outgoing) if flow in flows), None)
    rows = [(at_ns - begin_ns, PAGE, of, event, detail) for at_ns, event, detail in one.events]
    frames["events"] = pl.DataFrame(rows, schema=SCHEMAS["events"], orient="row")
    return frames


def type_of(report: Report) -> str:
    """The type of a report. Old browsers marked the far end's reports with ``isRemote``."""
    kind = report.get("type")
    if not isinstance(kind, str):
        return ""
    return f"remote-{kind}" if report.get("isRemote") is True and kind.endswith("bound-rtp") else kind


def _id(value: object) -> str | None:
    """The id of a report as text. Chromium writes ids that look like numbers as numbers."""
    return str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else None


def _chosen(pairs: Mapping[str, Report], selected: str | None) -> Report | None:
    """The candidate pair in use: the pair that the transport names, or else the nominated pair in use."""
    if selected is not None and selected in pairs:
        return pairs[selected]
    ready = [
        pair
        for pair in pairs.values()
        if pair.get("selected") is True or (pair.get("nominated") is True and pair.get("state") != "failed")
    ]
    carried = ("bytesSent", "bytesReceived")
    return max(ready, key=lambda pair: sum(_integer(pair.get(name)) or 0 for name in carried), default=None)


def _row(table: str, report: Report) -> Row:
    """The columns of a table; null where the report lacks a value or has another type."""
    report = flattened(report)
    return {
        column: _VALUES[dtype](report.get(column))
        for column, dtype in SCHEMAS[table].items()
        if column not in _SAME
    }


def _integer(value: object) -> int | None:
    """A whole number that JavaScript can hold exactly. Chromium of 2020 wrote SSRCs as text."""
    if isinstance(value, str) and len(value) <= _MOST_DIGITS and value.isascii() and value.isdigit():
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if -_EXACT < value < _EXACT else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, int):
        return float(value) if -_EXACT < value < _EXACT else None
    return value if isfinite(value) else None


_VALUES: dict[pl.DataType, Callable[[object], object]] = {
    pl.Int64(): _integer,
    pl.Float64(): _number,
    pl.String(): lambda value: value if isinstance(value, str) else None,
    pl.Boolean(): lambda value: value if isinstance(value, bool) else None,
}
