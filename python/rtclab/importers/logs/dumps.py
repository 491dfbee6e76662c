"""Reads dumps of chrome://webrtc-internals, from 2020 on, as traces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from rtclab.errors import BadInput
from rtclab.importers.imported import Imported
from rtclab.importers.logs.getstats_rows import LoggedConnection, check_size, imported, time_ns
from rtclab.importers.logs.text import LogBytes, parsed, parsed_or_cut_off

MERGED_MS = 100
"""Reports whose times differ by less than this come from the same call of getStats."""
MOST_SAMPLES = 1_000_000
"""Longer series are rejected; Chromium keeps 1000 samples."""

_OLD_TYPES = {
    "RTCInboundRTP": "inbound-rtp",
    "RTCOutboundRTP": "outbound-rtp",
    "RTCRemoteInboundRtp": "remote-inbound-rtp",
    "RTCIceCandidatePair": "candidate-pair",
    "RTCTransport": "transport",
}
"""Types by the beginning of the id, for dumps that have neither ``statsType`` nor a series ``type``."""

_HEARD = "remote-inbound-rtp"

_STATES = {
    "signalingstatechange": {"stable": "signalling_done"},
    "iceconnectionstatechange": {
        "connected": "ice_connected",
        "completed": "ice_connected",
        "failed": "failed",
    },
    "connectionstatechange": {"connected": "dtls_connected", "failed": "failed", "closed": "left"},
}
"""Events of a trace by event and new state of a connection."""

Stats = Mapping[str, Any]
Series = list[Any]


def state_event(name: str, state: object) -> str | None:
    """The event of a trace for a change of state, such as ``oniceconnectionstatechange``; None for others."""
    if not isinstance(state, str):
        return None
    return _STATES.get(name.removeprefix("on").lower(), {}).get(state)


def read_dump(path: Path, log: LogBytes) -> Imported:
    """Makes a trace of a dump of webrtc-internals.

    If a dump was cut off, the trace has its complete parts, and a note says so. Series of a report are
    aligned at their last sample. Events of old dumps, whose times are text in the language of the user, are
    left out.

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
    made, reports = [], 0
    for key, about in connections.items():
        if not isinstance(about, dict):
            raise failure(f"connection {key[:40]}: expected an object")
        one = LoggedConnection(key[:80])
        if not _add_events(one, about.get("updateLog")):
            notes.append(f"connection {one.key}: events without a time in ms are left out")
        for at_ms, sample in _samples(path, one.key, about.get("stats")):
            reports += one.add_reports(at_ms, sample)
            check_size(path, reports)
        made.append(one)
    agent = dump.get("UserAgent")
    return imported(path, made, notes, agent if isinstance(agent, str) else None)


def _add_events(one: LoggedConnection, updates: object) -> bool:
    """Adds the events of a connection; returns false if the times of some cannot be read."""
    known = True
    for update in updates if isinstance(updates, list) else []:
        if not isinstance(update, dict) or not isinstance(update.get("type"), str):
            continue
        at_ms = update.get("timestamp")
        if time_ns(at_ms) is None:
            known = False
            continue
        one.add_event(at_ms, "joined")
        value = update.get("value")
        state = value.strip('"') if isinstance(value, str) else None
        event = "left" if update["type"] == "close" else state_event(update["type"], state)
        if event is not None:
            one.add_event(at_ms, event, str(state) if event == "failed" else "")
    return known


def _samples(path: Path, connection: str, stats: object) -> Iterator[tuple[float, list[tuple[str, Stats]]]]:
    """The reports of a connection by the call of getStats that returned them.

    A report about RTCP has the time of the RTCP packet, so it belongs to the next call of getStats.
    """
    if not isinstance(stats, dict):
        return
    moments: list[tuple[float, str, Stats]] = []
    heard: list[tuple[float, str, Stats]] = []
    for report, properties in _by_report(stats).items():
        kind = _kind(report, properties)
        if kind is None:
            continue
        for at_ms, sample in _rows(path, f"connection {connection}, {report[:60]}", properties):
            of_kind = heard if kind == _HEARD else moments
            of_kind.append((at_ms, report, sample | {"type": kind}))
        check_size(path, len(moments) + len(heard))
    moments.sort(key=lambda moment: moment[0])
    heard.sort(key=lambda moment: moment[0])
    index = known = 0
    while index < len(moments):
        at_ms, end = moments[index][0], index
        together: dict[str, Stats] = {}
        while end < len(moments) and moments[end][0] - at_ms < MERGED_MS and moments[end][1] not in together:
            together[moments[end][1]] = moments[end][2]
            end += 1
        while known < len(heard) and heard[known][0] < at_ms + MERGED_MS:
            together[heard[known][1]] = heard[known][2]
            known += 1
        yield at_ms, list(together.items())
        index = end


def _by_report(stats: Stats) -> dict[str, dict[str, Stats]]:
    """The series of each report, by property. Series that the page computed, in brackets, are left out."""
    reports: dict[str, dict[str, Stats]] = {}
    for key, series in stats.items():
        report, dash, name = key.rpartition("-")
        if dash and "[" not in key and isinstance(series, dict):
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
    return named if named in _OLD_TYPES.values() else None


def _rows(path: Path, where: str, properties: Mapping[str, Stats]) -> Iterator[tuple[float, dict[str, Any]]]:
    """The samples of a report: their time, and the properties known then."""
    series = {name: _values(path, where, name, about) for name, about in properties.items()}
    at_ms: list[float] = [at for at in series.pop("timestamp", []) if time_ns(at) is not None]
    if not at_ms:
        at_ms = _spaced(properties, series)
    rows: list[dict[str, Any]] = [{} for _ in at_ms]
    for name, values in series.items():
        for row, value in zip(reversed(rows), reversed(values), strict=False):
            row[name] = value
    yield from zip(at_ms, rows, strict=True)


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
    begin, end = (_epoch_ms(properties[longest].get(name)) for name in ("startTime", "endTime"))
    samples = len(series[longest])
    if begin is None or end is None or end < begin or not samples:
        return []
    step_ms = (end - begin) / max(samples - 1, 1)
    return [begin + step_ms * index for index in range(samples)]


def _epoch_ms(text: object) -> float | None:
    """A time such as ``2020-11-05T18:34:12.741Z`` in ms since 1970."""
    try:
        return datetime.fromisoformat(text).timestamp() * 1000 if isinstance(text, str) else None
    except (ValueError, OverflowError, OSError):
        return None
