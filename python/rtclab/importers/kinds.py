"""Recognises files that rtclab does not read, so that an error says what a file is and what to do instead.

Each kind is told by its structure: by its first bytes, by the keys of its first JSON object, or by its lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

READ = "rtclab reads RTC event logs, dumps of chrome://webrtc-internals, files of rtcstats, and captures"
"""The hint about a file of an unknown kind."""

_TEXT_BYTES = 64_000
"""Lines are looked for in this part of a file, from its beginning."""
_MOST_NAMES = 4
"""Further keys or columns are not told."""

_OF_A_SERVER = (
    "rtclab reads what an end of a call wrote: a capture of its packets (pcap or pcapng), a dump of "
    "chrome://webrtc-internals, a file of rtcstats, or an RTC event log"
)
_OF_A_BROWSER = (
    "in Chrome, download a dump from chrome://webrtc-internals or record an event log during the call; or "
    "capture its packets"
)
_CONVERTED = "`editcap -F pcapng OLD NEW.pcapng` of Wireshark converts it, if it has packets of a network"
_PACKETS = "write the packets themselves to a file, with `tcpdump -w` or `tshark -w`"
_UNPACK = "unpack it first"
_CAPACITY = "a recorded capacity is for a scenario: `capacity = { trace = FILE }` reads Mahimahi's format"


@dataclass(frozen=True)
class Kind:
    """A kind of file that is not read: what it is, with its article, and what to do instead."""

    name: str
    instead: str


_BYTES: tuple[tuple[int, bytes, Kind], ...] = (
    (
        0,
        b"MJR0000",
        Kind("a recording of Janus (.mjr)", "`mjr2pcap FILE call.pcap` of Janus makes a capture"),
    ),
    (
        0,
        b"#!rtpplay",
        Kind("a dump of RTP packets (rtpdump)", "play it with `rtpplay` of rtptools and capture the packets"),
    ),
    (0, bytes.fromhex("a1b2cd34"), Kind("a capture in a modified pcap format (Kuznetzov)", _CONVERTED)),
    (0, bytes.fromhex("34cdb2a1"), Kind("a capture in a modified pcap format (Kuznetzov)", _CONVERTED)),
    (0, b"snoop\0\0\0", Kind("a capture in the format of snoop", _CONVERTED)),
    (0, b"btsnoop\0", Kind("a capture of Bluetooth (btsnoop)", _OF_A_BROWSER)),
    (0, b"GMBU", Kind("a capture of Microsoft Network Monitor", _CONVERTED)),
    (0, b"RTSS", Kind("a capture of Microsoft Network Monitor", _CONVERTED)),
    (0, b"TRSNIFF data", Kind("a capture of the Sniffer", _CONVERTED)),
    (0, b"iptrace ", Kind("a capture of iptrace (AIX)", _CONVERTED)),
    (0, b"\x1aE\xdf\xa3", Kind("a recording of sound or pictures (Matroska or WebM)", _OF_A_BROWSER)),
    (4, b"ftyp", Kind("a recording of sound or pictures (MP4)", _OF_A_BROWSER)),
    (0, b"OggS", Kind("a recording of sound or pictures (Ogg)", _OF_A_BROWSER)),
    (0, b"DKIF", Kind("a recording of pictures (IVF)", _OF_A_BROWSER)),
    (0, b"YUV4MPEG2", Kind("a recording of pictures (Y4M)", _OF_A_BROWSER)),
    (0, b"RIFF", Kind("a recording of sound or pictures (RIFF)", _OF_A_BROWSER)),
    (0, b"PK\x03\x04", Kind("a ZIP archive", _UNPACK)),
    (0, b"BZh", Kind("a file compressed with bzip2", _UNPACK)),
    (0, b"\xfd7zXZ\0", Kind("a file compressed with xz", _UNPACK)),
    (0, b"\x28\xb5\x2f\xfd", Kind("a file compressed with Zstandard", _UNPACK)),
    (0, b"\x04\x22\x4d\x18", Kind("a file compressed with LZ4", _UNPACK)),
    (0, b"7z\xbc\xaf\x27\x1c", Kind("a 7z archive", _UNPACK)),
    (257, b"ustar", Kind("a tar archive", _UNPACK)),
    (0, b"SQLite format 3\0", Kind("an SQLite database", "a run of rtclab is named by its directory")),
    (0, b"PAR1", Kind("a Parquet table", "a run of rtclab is named by its directory")),
    (0, b"\x1e{", Kind("a qlog of QUIC or TCP", _OF_A_BROWSER)),
    (0, b"\xff\xfe", Kind("a text in UTF-16", "save it in UTF-8")),
    (0, b"\xfe\xff", Kind("a text in UTF-16", "save it in UTF-8")),
)
"""Kinds by their first bytes: where these are, and which."""

_KEYS: tuple[tuple[frozenset[str], Kind], ...] = tuple(
    (frozenset(keys.split()), kind)
    for keys, kind in (
        (
            "statsSessionId type data",
            Kind("a log of a server of Jitsi (jvb, jicofo or jigasi), in rtcstats' lines", _OF_A_SERVER),
        ),
        ("bit_rate_download conferences", Kind("statistics of a Jitsi Videobridge (colibri)", _OF_A_SERVER)),
        ("type timestamp event session_id", Kind("events of Janus", _OF_A_SERVER)),
        ("emitter type timestamp event", Kind("events of Janus", _OF_A_SERVER)),
        ("janus transaction", Kind("messages of Janus", _OF_A_SERVER)),
        ("type byteCount packetCount", Kind("statistics of mediasoup", _OF_A_SERVER)),
        ("type recvBitrate sendBitrate", Kind("statistics of mediasoup", _OF_A_SERVER)),
        ("event room id createdAt", Kind("events of LiveKit (webhooks)", _OF_A_SERVER)),
        ("constants events", Kind("a network log of Chrome (chrome://net-export)", _OF_A_BROWSER)),
        ("traceEvents", Kind("a performance trace of Chrome", _OF_A_BROWSER)),
        ("ph ts pid", Kind("a performance trace of Chrome", _OF_A_BROWSER)),
        ("qlog_version", Kind("a qlog of QUIC or TCP", _OF_A_BROWSER)),
        ("qlog_format", Kind("a qlog of QUIC or TCP", _OF_A_BROWSER)),
        ("start intervals end", Kind("a result of iperf3", _OF_A_BROWSER)),
        ("_index _source", Kind("packets that tshark or Wireshark wrote as JSON", _PACKETS)),
        ("timestamp layers", Kind("packets that tshark or Wireshark wrote as JSON", _PACKETS)),
        ("level msg", Kind("a log of a program, in lines of JSON", _OF_A_SERVER)),
        ("level message", Kind("a log of a program, in lines of JSON", _OF_A_SERVER)),
        ("severity message", Kind("a log of a program, in lines of JSON", _OF_A_SERVER)),
    )
)
"""Kinds by keys of the first JSON object: the whole file, the first item of its array, or its first line."""

_GETSTATS = Kind(
    "what getStats returned, without the connection and its events",
    "record calls with rtcstats-js, or download a dump from chrome://webrtc-internals",
)
_LEGACY = Kind(
    "statistics in the format of Chrome before 2020 (`googRtt` and the like) alone",
    "expected reports as in W3C webrtc-stats (`outbound-rtp` and the like)",
)
_STATISTICS = (
    *("candidate-pair", "codec", "inbound-rtp", "local-candidate", "media-source", "outbound-rtp"),
    *("peer-connection", "remote-candidate", "remote-inbound-rtp", "remote-outbound-rtp", "track"),
    "transport",
)
"""Some types of reports of getStats."""

_LINES: tuple[tuple[re.Pattern[str], Kind], ...] = tuple(
    (re.compile(pattern, re.MULTILINE), kind)
    for pattern, kind in (
        (r"\Av=0\r?$", Kind("a session description (SDP)", "with a capture, `--sdp FILE` names its codecs")),
        (
            r"\A--------- beginning of |\A(?:\d{4}-)?\d\d-\d\d +\d\d:\d\d:\d\d\.\d{3,6}(?: +\d+){2} [VDIWEF] "
            r"|\A[VDIWEF]/[^(\n]+\( *\d+\): ",
            Kind("a log of Android (logcat)", _OF_A_BROWSER),
        ),
        (
            r"^\[[\d:/.]+:(?:INFO|WARNING|ERROR|FATAL|VERBOSE\d*):\S+|^.{0,80}\(\w+\.(?:cc|mm|m|h):\d+\): ",
            Kind("a text log of Chromium or libwebrtc", _OF_A_BROWSER),
        ),
        (
            r"\A(?: *\d+ +)?(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d\.\d{6} (?:IP6?|ARP|\S+ +(?:In|Out) )",
            Kind("packets as text of tcpdump", _PACKETS),
        ),
        (r'\A"No\.",|\A *\d+ +\d+\.\d+ +\S+ (?:→|->) \S+ ', Kind("packets as text of Wireshark", _PACKETS)),
        (r"\A\s*(?:<\?xml[^>]*>\s*)?<(?:pdml|psml)\b", Kind("packets that Wireshark wrote as XML", _PACKETS)),
        (r"\A# mahimahi mm-link", Kind("a log of Mahimahi's mm-link", _OF_A_BROWSER)),
        (r"\A(?:\d+\r?\n){3}", Kind("a list of whole numbers, such as a trace of Mahimahi", _CAPACITY)),
        (
            r"\A(?:#.*\n)*\s*(?:\d+(?:\.\d+)?[ \t,;]+\d+(?:\.\d+)?\s*?\n){2}",
            Kind("a table of numbers, such as a bandwidth trace", _CAPACITY),
        ),
        (r"(?i)\A\s*<(?:!doctype html|html)\b", Kind("a web page (HTML)", _OF_A_BROWSER)),
        (r"\A\s*<\?xml\b", Kind("a document in XML", READ)),
        (r"\A(?:SIP/2\.0 \d|[A-Z]+ sips?:\S+ SIP/2\.0)", Kind("messages of SIP", _PACKETS)),
        (
            r"\A.{0,12}?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d|\A\[?[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d",
            Kind("a text log of a program", _OF_A_SERVER),
        ),
    )
)
"""Kinds of text by what their beginning, or a line, looks like."""


def kind_of(content: bytes) -> Kind | None:
    """The kind of a file that rtclab does not read, from its content; None if it is of no known kind.

    A damaged dump of webrtc-internals and a damaged file of rtcstats are of no such kind.
    """
    for place, magic, kind in _BYTES:
        if content.startswith(magic, place):
            return kind
    text = content.decode("utf-8-sig", "ignore").lstrip()
    if text.startswith("RTCStatsDump"):
        return None
    if text.startswith(("{", "[")):
        try:
            return _kind_of_json(text, *json.JSONDecoder().raw_decode(text))
        except (ValueError, RecursionError):
            pass  # a log may begin with a bracket, too
    beginning = text[:_TEXT_BYTES]
    by_lines = next((kind for pattern, kind in _LINES if pattern.search(beginning)), None)
    return by_lines if by_lines or text.startswith(("{", "[")) else _table(beginning)


def _kind_of_json(text: str, value: Any, end: int) -> Kind | None:
    """The kind of a text that begins with a JSON value, which ends at a character."""
    many = isinstance(value, list) or text[end : end + 100].lstrip().startswith("{")
    first = value[0] if isinstance(value, list) and value else value
    if not isinstance(first, dict) or not first:
        return None
    if "PeerConnections" in first:
        return (
            _LEGACY
            if "-goog" in text and not re.search(r"(?:in|out)bound-rtp|RTC(?:In|Out)bound", text)
            else None
        )
    known = next((kind for keys, kind in _KEYS if keys <= first.keys()), None)
    what = f"{'JSON objects' if many else 'a JSON object'} of no known kind, with {_named(list(first))}"
    return known or _kind_of_values(first) or Kind(what, READ)


def _kind_of_values(first: Mapping[str, Any]) -> Kind | None:
    """The kind of an object by the objects in it, which may be reports of getStats; or of one report."""
    objects = [value for value in first.values() if isinstance(value, dict)]
    if isinstance(log := first.get("log"), dict) and "entries" in log:
        return Kind("a log of HTTP requests (HAR)", _OF_A_BROWSER)
    if any("trace_pattern" in one for one in (first, *objects)):
        return Kind("a bandwidth trace of OpenNetLab", _CAPACITY)
    reports = [first, *objects]
    if any(name.startswith("goog") for report in reports for name in report):
        return _LEGACY
    types = (report.get("type") for report in reports if "timestamp" in report)
    return _GETSTATS if any(kind in _STATISTICS for kind in types) else None


def _table(text: str) -> Kind | None:
    """A table with a heading, whose columns have no numbers in it and are as many in the next line."""
    lines = [line for line in text.splitlines()[:20] if line.strip() and not line.startswith("#")][:2]
    for separator in (",", ";", "\t"):
        cells = [[cell.strip().strip('"') for cell in line.split(separator)] for line in lines]
        if len(cells) == 2 and len(cells[0]) == len(cells[1]) > 1 and not any(map(_is_number, cells[0])):
            return Kind(f"a table of text (CSV) with the columns {_named(cells[0])}", READ)
    return None


def _is_number(cell: str) -> bool:
    return not cell or re.fullmatch(r"[-+]?[\d.]+(?:[eE][-+]?\d+)?", cell) is not None


def _named(names: list[str]) -> str:
    more = ", …" if len(names) > _MOST_NAMES else ""
    return ", ".join(f"`{name[:40]}`" for name in names[:_MOST_NAMES]) + more
