"""Files that rtclab does not read: the error says what a file is and what to do instead."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import rtclab
from rtclab.errors import BadInput, TraceError
from rtclab.importers.kinds import kind_of


def lines(*values: Any) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


def stats_entry(packets: int) -> dict[str, Any]:
    return {"statsSessionId": "x", "type": "stats-entry", "data": {"packets": packets}}


def janus(subtype: int) -> dict[str, Any]:
    event = {"media": "video", "lost": 0}
    return {"emitter": "a", "type": 32, "subtype": subtype, "timestamp": 17, "session_id": 1, "event": event}


def internals(name: str) -> str:
    series = {"startTime": "2019-01-01T00:00:00Z", "endTime": "2019-01-01T00:00:02Z", "values": "[1,2]"}
    connection = {"rtcConfiguration": "", "stats": {name: series}, "updateLog": []}
    return json.dumps({"getUserMedia": [], "PeerConnections": {"1-2": connection}, "UserAgent": "Chrome/70"})


REPORT = {"id": "OT01V1", "timestamp": 1.7e12, "type": "outbound-rtp", "packetsSent": 5}
PRODUCER = {"type": "inbound-rtp", "byteCount": 9, "packetCount": 3, "score": 10, "ssrc": 5}
ENDED = "a log of a browser or a capture"

KINDS: dict[str, tuple[str | bytes, str, str]] = {
    "jvb": (
        lines(stats_entry(0), stats_entry(1)),
        "a log of a server of Jitsi",
        "what an end of a call wrote",
    ),
    "jvb-array": (json.dumps([stats_entry(0)]), "a log of a server of Jitsi", "what an end of a call wrote"),
    "colibri": (
        json.dumps({"bit_rate_download": 5, "conferences": 1, "participants": 2}),
        "statistics of a Jitsi Videobridge",
        "what an end of a call wrote",
    ),
    "janus": (lines(janus(1), janus(3)), "events of Janus", "what an end of a call wrote"),
    "janus-groups": (json.dumps([janus(1), janus(3)], indent=2), "events of Janus", "of a call wrote"),
    "mediasoup": (json.dumps([PRODUCER]), "statistics of mediasoup", "what an end of a call wrote"),
    "mediasoup-transport": (
        json.dumps([{"type": "plain-rtp-transport", "recvBitrate": 5, "sendBitrate": 0, "timestamp": 17}]),
        "statistics of mediasoup",
        "what an end of a call wrote",
    ),
    "janus-admin": (
        json.dumps({"janus": "success", "transaction": "a", "session_id": 1, "info": {}}),
        "messages of Janus",
        "what an end of a call wrote",
    ),
    "livekit": (
        lines({"level": "info", "ts": 1.7e9, "logger": "livekit", "msg": "starting"}),
        "a log of a program, in lines of JSON",
        "what an end of a call wrote",
    ),
    "webhooks": (
        lines({"event": "room_started", "room": {"sid": "RM"}, "id": "EV", "createdAt": "17"}),
        "events of LiveKit",
        "what an end of a call wrote",
    ),
    "mjr": (b"MJR00002\x00\x20{}MEET", "a recording of Janus (.mjr)", "mjr2pcap"),
    "rtpdump": (b"#!rtpplay1.0 10.0.0.1/5004\n\x00\x00", "a dump of RTP packets", "rtpplay"),
    "snoop": (b"snoop\0\0\0\0\0\0\x02\0\0\0\x04", "a capture in the format of snoop", "editcap"),
    "kuznetzov": (bytes.fromhex("34cdb2a1 02000400"), "a modified pcap format", "editcap"),
    "getstats": (json.dumps([REPORT]), "what getStats returned", "rtcstats-js"),
    "getstats-by-id": (json.dumps({"OT01V1": REPORT}), "what getStats returned", "rtcstats-js"),
    "googstats": (json.dumps({"a": {"googRtt": "5"}}), "format of Chrome before 2020", "W3C webrtc-stats"),
    "internals-of-2019": (
        internals("ssrc_5_send-googRtt"),
        "format of Chrome before 2020",
        "W3C webrtc-stats",
    ),
    "har": (
        json.dumps({"log": {"version": "1.2", "entries": []}}),
        "HTTP requests (HAR)",
        "webrtc-internals",
    ),
    "netlog": (json.dumps({"constants": {}, "events": []}), "a network log of Chrome", "webrtc-internals"),
    "tracing": (json.dumps({"traceEvents": []}), "a performance trace of Chrome", "webrtc-internals"),
    "qlog": (json.dumps({"qlog_version": "0.3", "traces": []}), "a qlog", "webrtc-internals"),
    "qlog-seq": (b'\x1e{"qlog_format": "JSON-SEQ"}\n', "a qlog", "webrtc-internals"),
    "iperf3": (json.dumps({"start": {}, "intervals": [], "end": {}}), "a result of iperf3", "capture its"),
    "tshark": (json.dumps([{"_index": "packets", "_source": {"layers": {}}}]), "tshark or Wireshark", "-w"),
    "opennetlab": (json.dumps({"uplink": {"trace_pattern": []}}), "trace of OpenNetLab", "capacity = "),
    "other-json": (
        json.dumps({"a": 1, "b": 2}),
        "a JSON object of no known kind, with `a`, `b`",
        "reads RTC",
    ),
    "other-lines": (lines({"a": 1}, {"a": 2}), "JSON objects of no known kind, with `a`", "reads RTC"),
    "sdp": ("v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\n", "a session description (SDP)", "--sdp FILE"),
    "logcat": ("07-14 12:00:00.123  1234  1256 I rtc: hello\n", "a log of Android", "webrtc-internals"),
    "logcat-brief": ("I/rtc     ( 1234): hello\n", "a log of Android", "webrtc-internals"),
    "libwebrtc": ("[000:123][42] (stun_port.cc:96): hello\n", "Chromium or libwebrtc", "webrtc-internals"),
    "chromium": ("[12:34:0714/120000.123:INFO:a.cc(5)] hello\n", "Chromium or libwebrtc", "webrtc-internals"),
    "tcpdump": ("12:00:00.123456 IP 10.0.0.1.5004 > 10.0.0.2.5004: UDP\n", "text of tcpdump", "tcpdump -w"),
    "wireshark": ('"No.","Time","Source"\n"1","0.0","10.0.0.1"\n', "text of Wireshark", "-w"),
    "pdml": ('<?xml version="1.0"?>\n<pdml version="0">\n', "Wireshark wrote as XML", "-w"),
    "html": ("<!DOCTYPE html>\n<title>about:webrtc</title>\n", "a web page (HTML)", "webrtc-internals"),
    "jicofo-text": (
        "Jicofo 2024-01-02 12:00:00.123 INFO: [1] hello\n",
        "a text log of a program",
        "of a call",
    ),
    "syslog": ("Jan  2 12:00:00 host asterisk[5]: hello\n", "a text log of a program", "of a call wrote"),
    "mahimahi": ("1\n3\n5\n7\n", "a list of whole numbers", "capacity = "),
    "cooked": ("0.0\t4.03\n1.5\t2.1\n", "a table of numbers", "capacity = "),
    "csv": ("time,kbps\n0,500\n", "a table of text (CSV) with the columns `time`, `kbps`", "reads RTC"),
    "zip": (b"PK\x03\x04\x14\0", "a ZIP archive", "unpack"),
    "zst": (b"\x28\xb5\x2f\xfd\x04", "compressed with Zstandard", "unpack"),
    "webm": (b"\x1aE\xdf\xa3\x01", "a recording of sound or pictures", "webrtc-internals"),
    "mp4": (b"\0\0\0\x20ftypisom", "a recording of sound or pictures (MP4)", "webrtc-internals"),
    "sqlite": (b"SQLite format 3\0", "an SQLite database", "named by its directory"),
    "utf-16": ("{}".encode("utf-16"), "a text in UTF-16", "UTF-8"),
}


def written(tmp_path: Path, content: str | bytes) -> Path:
    file = tmp_path / "file"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


@pytest.mark.parametrize("name", KINDS)
def test_the_error_says_what_a_file_is_and_what_to_do(name: str, tmp_path: Path) -> None:
    content, kind, instead = KINDS[name]
    file = written(tmp_path, content)
    for read in (rtclab.import_files, rtclab.scenario_from):
        with pytest.raises(BadInput) as caught:
            read(file)
        assert kind in caught.value.message
        assert caught.value.message.startswith(f"{file}: ")
        assert caught.value.message.endswith(f"; expected {ENDED}")
        assert instead in (caught.value.hint or "")


@pytest.mark.parametrize("name", KINDS)
def test_a_file_in_the_place_of_a_run_is_named_too(name: str, tmp_path: Path) -> None:
    content, kind, instead = KINDS[name]
    with pytest.raises(TraceError) as caught:
        rtclab.open(written(tmp_path, content), out=tmp_path)
    assert kind in caught.value.message
    assert caught.value.message.endswith("; expected a run")
    assert instead in (caught.value.hint or "")


def test_a_file_that_can_be_imported_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="file is a file; expected a run, which is a directory") as caught:
        rtclab.open(written(tmp_path, bytes.fromhex("d4c3b2a1")), out=tmp_path)
    assert caught.value.hint == f"`rtclab import {tmp_path / 'file'}` makes a run of a capture or a log"


def test_a_compressed_file_is_told_by_its_content(tmp_path: Path) -> None:
    content, kind, _ = KINDS["jvb"]
    assert isinstance(content, str)
    with pytest.raises(BadInput, match=kind):
        rtclab.import_files(written(tmp_path, gzip.compress(content.encode())))


@pytest.mark.parametrize(
    "content",
    [
        b"{}",
        b"[]",
        b'{"PeerConnections": {"1-2": 4}}',
        b'{"PeerConnections": {"1-2": {"stats": {"IT1-googTimingFrameInfo": {"statsType": "inbound-rtp"}}}}}',
        b'["getstats", "PC_0", {"a": {"type": "ssrc"}}, 1700000000000]\n["close", "PC_0", 0, 1700000000001]',
        b'["create","PC_0",null,1700000000000]\n["close","PC_0",null,1700000000001]\n',
        b'RTCStatsDump\n{"fileFormat": 4}\n["a", 1, 2, 3]\n',
        b'{"a": oh, "b": 2}\n{"a": 1, "b": 2}\n',
        b"hello\nworld\n",
        b"\x00\x01\x02",
        b"",
    ],
)
def test_what_may_be_a_damaged_dump_or_is_unknown_keeps_its_own_error(content: bytes) -> None:
    assert kind_of(content) is None
