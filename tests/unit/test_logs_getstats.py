"""Dumps of webrtc-internals and files of rtcstats: what a trace of them has; no file breaks a reader."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rtclab.errors import BadInput
from rtclab.importers import Imported
from rtclab.importers.logs import open_log
from rtclab.metrics import delay, loss, media, rate, setup, wire
from rtclab.trace import Trace

BEGIN_MS = 1_790_000_000_000
SECONDS = 10
SENT_PER_S, RECEIVED_PER_S = 50_000, 25_000
"""Payload bytes of each stream; headers are 5,000 bytes per second in both directions."""


def sample(second: int) -> dict[str, dict[str, Any]]:
    """The stats objects of a call after some seconds: 440 kbit/s sent, 240 kbit/s received with headers."""
    return {
        "OT01V7": {
            "type": "outbound-rtp",
            "ssrc": 7,
            "kind": "video",
            "packetsSent": 50 * second,
            "bytesSent": SENT_PER_S * second,
            "headerBytesSent": 5_000 * second,
            "targetBitrate": 400_000,
        },
        "IT01V9": {
            "type": "inbound-rtp",
            "ssrc": 9,
            "kind": "video",
            "packetsReceived": 48 * second,
            "packetsLost": 2 * second,
            "bytesReceived": RECEIVED_PER_S * second,
            "headerBytesReceived": 5_000 * second,
            "retransmittedBytesReceived": 1_000 * second,
            "fecBytesReceived": 1_500 * second,
            "jitter": 0.004,
            "framesDecoded": 30 * second,
            "frameWidth": 640,
            "frameHeight": 360,
            "freezeCount": second // 5,
            "totalFreezesDuration": 0.25 * (second // 5),
        },
        "RIV7": {
            "type": "remote-inbound-rtp",
            "ssrc": 7,
            "kind": "video",
            "packetsLost": 0,
            "jitter": 0.001,
            "roundTripTime": 0.080,
        },
        "CPa-_b": {"type": "candidate-pair", "nominated": True, "state": "succeeded", "bytesSent": 1},
        "CPc+d": {
            "type": "candidate-pair",
            "nominated": False,
            "state": "succeeded",
            "bytesSent": 60_000 * second,
            "availableOutgoingBitrate": 900_000,
        },
        "T01": {
            "type": "transport",
            "selectedCandidatePairId": "CPc+d",
            "ccfbMessagesReceived": 30 * second,
        },
    }


EVENTS = [
    (0, "createOffer", None),
    (40, "onsignalingstatechange", "stable"),
    (100, "oniceconnectionstatechange", "connected"),
    (180, "onconnectionstatechange", "connected"),
]


def _iso(second: int) -> str:
    return datetime.fromtimestamp(BEGIN_MS / 1000 + second, UTC).isoformat(timespec="milliseconds")


def internals(samples: range = range(1, SECONDS + 1), **about: Any) -> dict[str, Any]:
    """A dump as Chromium 156 writes it."""
    stats: dict[str, Any] = {}
    for second in samples:
        for report, values in sample(second).items():
            for name, value in {**values, "timestamp": BEGIN_MS + 1000.0 * second}.items():
                series = stats.setdefault(f"{report}-{name}", {"statsType": values["type"], "values": []})
                series["values"].append(value)
    for series in stats.values():
        series["values"] = json.dumps(series["values"])
        series |= {"startTime": _iso(samples[0]), "endTime": _iso(samples[-1])}
    stats["IT01V9-[bytesReceived_in_bits/s]"] = {"statsType": "inbound-rtp", "values": "[1]"}
    stats["IT01V9-[framesReceived-framesDecoded]"] = {"statsType": "inbound-rtp", "values": "[0]"}
    updates = [
        {"type": name, "value": "" if state is None else json.dumps(state), "timestamp": BEGIN_MS + at}
        for at, name, state in EVENTS
    ]
    connection = {"pid": 4, "url": "https://example.org", "updateLog": updates, "stats": stats} | about
    return {"PeerConnections": {"4-1": connection}, "UserAgent": "Chrome/156", "getUserMedia": []}


def delta(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """What changed, with the keys of version 3 for some names, as the format allows."""
    short = {"bytesSent": "80", "ssrc": "10", "packetsReceived": "14"}
    types = {"outbound-rtp": 2, "inbound-rtp": 1}
    changes: dict[str, Any] = {}
    for report, values in now.items():
        changed = {name: value for name, value in values.items() if before.get(report, {}).get(name) != value}
        if "type" in changed:
            changed["type"] = types.get(changed["type"], changed["type"])
        if changed:
            changes[report] = {short.get(name, name): value for name, value in changed.items()}
    return changes | dict.fromkeys(before.keys() - now.keys())


def version3() -> str:
    """A file as the rtcstats server writes it: codes, changes only, and times since the line before."""
    lines: list[Any] = [["create", None, {}, BEGIN_MS]]
    codes = {"createOffer": 2, "onsignalingstatechange": 23, "oniceconnectionstatechange": 24}
    passed = 0
    for at, name, state in EVENTS:
        lines.append([codes.get(name, name), "PC_0", state, at - passed])
        passed = at
    before: dict[str, Any] = {}
    for second in range(1, SECONDS + 1):
        now = sample(second)
        change = delta(before, now) | {"t": BEGIN_MS + 1000 * second}
        lines.append(["g", "PC_0", change, "interval", 1000 * second - passed])
        before, passed = now, 1000 * second
    header = {"fileFormat": 3, "userAgent": "Chrome/156"}
    return "\n".join(["RTCStatsDump", json.dumps(header), *map(json.dumps, lines), ""])


def old() -> str:
    """A file as older servers wrote it: names, absolute times."""
    lines = [["connectionInfo", None, "{}"], ["identity", None, {}, BEGIN_MS]]
    lines += [[name, "PC_0", state, BEGIN_MS + at] for at, name, state in EVENTS]
    before: dict[str, Any] = {}
    for second in range(1, SECONDS + 1):
        now = sample(second)
        reports = {
            report: {
                "timestamp": 0,
                **{name: v for name, v in values.items() if before.get(report, {}).get(name) != v},
            }
            for report, values in now.items()
        }
        at_ms = BEGIN_MS + 1000 * second
        lines.append(["getstats", "PC_0", {**reports, "timestamp": at_ms}, at_ms + 3])
        before = now
    return "\n".join(map(json.dumps, lines))


def of_2020() -> str:
    """A dump with local times of events, late series, a track and codecs, as browsers wrote it in 2020."""
    made = internals()
    connection = made["PeerConnections"]["4-1"]
    for update in connection["updateLog"]:
        at_s = update.pop("timestamp") / 1000 + 7200
        update["time"] = datetime.fromtimestamp(at_s, UTC).strftime("%d.%m.%Y, %H:%M:%S")
    stats = connection["stats"]
    late = {"startTime": _iso(4), "endTime": _iso(9)}
    for name, values in (
        ("IT01V9-trackId", ["TR1"] * 6),
        ("IT01V9-codecId", ["C1", "C1", "C2", "C2", "C1", 7]),
        ("TR1-framesReceived", [10, 20, 5, 30, 40, 50]),
        ("C1-mimeType", ["video/VP8"] * 6),
        ("C2-mimeType", ["video/VP9"] * 4),
        ("T01-selectedCandidatePairId", ["CPa-_b", "CPc+d", "CPa-_b", 3, None, "CPc+d"]),
    ):
        stats[name] = {**late, "values": json.dumps(values)}
        kind = {"T": "track", "C": "codec"}.get(name[0])
        stats[name]["statsType"] = "transport" if name.startswith("T01") else kind or "inbound-rtp"
    return json.dumps(made)


FILES = {"internals": json.dumps(internals()), "version 3": version3(), "old": old()}


def opened(tmp_path: Path, content: str | bytes) -> Imported:
    file = tmp_path / "log"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return open_log(file)


def trace(imported: Imported) -> Trace:
    return Trace.in_memory(imported.tables, imported.manifest)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("compressed", [False, True])
def test_a_log_gives_the_metrics_that_getstats_has(name: str, compressed: bool, tmp_path: Path) -> None:
    content = FILES[name].encode()
    made = trace(opened(tmp_path, gzip.compress(content) if compressed else content))
    assert made.flows == ["page->remote", "remote->page"]
    out, back = made.flows
    assert wire.stats_sending_rate(made, out) == pytest.approx(440.0)
    assert wire.stats_receiving_rate(made, back) == pytest.approx(240.0)
    assert rate.goodput(made, back) == pytest.approx(200.0 - 8 - 12)
    assert delay.rtt(made, out) == pytest.approx(80.0)
    assert media.frame_rate(made, back) == pytest.approx(30.0)
    assert (media.frame_width(made, back), media.frame_height(made, back)) == (640, 360)
    assert (media.freeze_count(made, back), media.freeze_duration(made, back)) == (2, 0.5)
    assert loss.unseen_loss(made, back) == pytest.approx(4.0)
    assert setup.setup_ice(made, back) == pytest.approx(60.0)
    assert setup.setup_dtls(made, back) == pytest.approx(80.0)
    estimate = made.table("controller")
    assert estimate["name"].unique().to_list() == ["available_outgoing_bitrate_bps"]
    assert estimate["value"].unique().to_list() == [900_000.0]


@pytest.mark.parametrize("name", FILES)
def test_values_that_getstats_lacks_are_absent_and_not_zero(name: str, tmp_path: Path) -> None:
    made = trace(opened(tmp_path, FILES[name]))
    for flow in made.flows:
        for absent in (rate.sending_rate, rate.receiving_rate, rate.utilisation, delay.one_way_delay):
            assert absent(made, flow) != absent(made, flow)  # NaN
        assert setup.setup_time(made, flow) != setup.setup_time(made, flow)


@pytest.mark.parametrize("name", FILES)
def test_the_transports_messages_of_rfc_8888_are_with_the_pair_that_it_uses(
    name: str, tmp_path: Path
) -> None:
    counted = opened(tmp_path, FILES[name]).tables["candidate_pair"]["ccfbMessagesReceived"]
    assert counted.to_list()[-1] == 30 * SECONDS
    assert counted.is_sorted()
    assert counted.null_count() == 0


def test_times_count_from_the_first_event(tmp_path: Path) -> None:
    made = opened(tmp_path, FILES["internals"])
    assert made.manifest.duration_ns == SECONDS * 1_000_000_000
    assert made.manifest.browser == "Chrome/156"
    capture = made.manifest.capture
    assert capture is not None
    assert capture.begin_ns == BEGIN_MS * 1_000_000
    assert made.tables["outbound_rtp"]["at_ns"].to_list() == [
        s * 1_000_000_000 for s in range(1, SECONDS + 1)
    ]


def test_each_connection_is_a_call_with_a_remote_end_of_its_own(tmp_path: Path) -> None:
    dump = internals()
    dump["PeerConnections"]["4-2"] = dump["PeerConnections"]["4-1"]
    made = opened(tmp_path, json.dumps(dump))
    assert list(made.manifest.flows) == ["page->remote", "remote->page", "page->remote-2", "remote-2->page"]
    assert [call.participants for call in made.manifest.calls] == [("page", "remote"), ("page", "remote-2")]


def test_reports_of_rtcp_belong_to_the_next_call_of_getstats(tmp_path: Path) -> None:
    dump = internals()
    times = dump["PeerConnections"]["4-1"]["stats"]["RIV7-timestamp"]
    times["values"] = json.dumps([at_ms - 400 for at_ms in json.loads(times["values"])])
    tables = opened(tmp_path, json.dumps(dump)).tables
    at_ns = [second * 1_000_000_000 for second in range(1, SECONDS + 1)]
    assert tables["outbound_rtp"]["at_ns"].to_list() == at_ns
    assert tables["remote_inbound_rtp"]["at_ns"].to_list() == at_ns


def test_a_direction_without_media_is_no_flow(tmp_path: Path) -> None:
    dump = internals()
    stats = dump["PeerConnections"]["4-1"]["stats"]
    for key in [key for key in stats if key.startswith("OT01")]:
        del stats[key]
    assert list(opened(tmp_path, json.dumps(dump)).manifest.flows) == ["remote->page"]


def test_a_dump_of_2020_has_neither_times_of_samples_nor_types(tmp_path: Path) -> None:
    dump = internals()
    connection = dump["PeerConnections"]["4-1"]
    names = {"OT01V7": "RTCOutboundRTPVideoStream_7", "IT01V9": "RTCInboundRTPVideoStream_9"}
    stats = {}
    for key, series in connection["stats"].items():
        report, _, name = key.partition("-")
        if report in names and name not in ("timestamp", "type"):
            values = json.loads(series["values"])
            if name == "ssrc":
                values = list(map(str, values))
            stats[f"{names[report]}-{name}"] = {
                "startTime": "2026-09-21T14:13:21.000Z",
                "endTime": "2026-09-21T14:13:30.000Z",
                "values": json.dumps(values),
            }
    connection["stats"] = stats
    connection["updateLog"] = [{"time": "11/5/2020, 9:34:12 PM", "type": "createOffer", "value": ""}]
    imported = opened(tmp_path, json.dumps(dump))
    assert any("left out 1 events whose time cannot be known" in note for note in imported.notes)
    assert wire.stats_sending_rate(trace(imported), "page->remote") == pytest.approx(440.0)


def test_a_stream_that_is_gone_keeps_its_counters(tmp_path: Path) -> None:
    lines = version3().splitlines()
    gone = ["g", "PC_0", {"OT01V7": None, "t": BEGIN_MS + 11_000}, 1000]
    made = opened(tmp_path, "\n".join([*lines, json.dumps(gone)]))
    last = made.tables["outbound_rtp"].sort("at_ns").row(-1, named=True)
    assert (last["bytesSent"], last["targetBitrate"]) == (SENT_PER_S * SECONDS, None)


def test_an_old_file_of_jitsi_removes_reports_that_it_does_not_list(tmp_path: Path) -> None:
    at_ms = BEGIN_MS + 11_000
    line = ["getstats", "PC_0", {"T01": {"timestamp": 0}, "timestamp": at_ms}, at_ms]
    both = [old() + "\n" + json.dumps(line), old().replace('"identity"', '"other"') + "\n" + json.dumps(line)]
    rtts = [opened(tmp_path, text).tables["remote_inbound_rtp"].height for text in both]
    assert rtts == [SECONDS, SECONDS + 1]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("compressed", [False, True])
def test_a_log_that_was_cut_off_is_read_up_to_its_end_with_a_note(
    name: str, compressed: bool, tmp_path: Path
) -> None:
    content = FILES[name].encode()
    content = gzip.compress(content) if compressed else content
    made = opened(tmp_path, content[: len(content) * 9 // 10])
    assert any("cut off" in note for note in made.notes)
    assert made.tables
    assert sum(table.height for table in made.tables.values()) > SECONDS


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"hello", "a text of no known format; expected a log of a browser or a capture"),
        (b"\x82\x01", "an event log whose beginning cannot be read"),
        (b"\x1f\x8b\x07\x00garbage", "not a valid gzip file"),
        (b"{}", "no object `PeerConnections`"),
        (b'{"PeerConnections": 3}', "no object `PeerConnections`"),
        (b'{"PeerConnections": {}}', "no connection in the log"),
        (b'{"PeerConnections": {"1-2": 4}}', "connection 1-2: expected an object"),
        (b'{"a": 1,\n "b": oh}', "line 2, column 7: expected JSON"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (b"RTCStatsDump\n{}", "line 2: version None of the format cannot be read"),
        (b'RTCStatsDump\n{"fileFormat": 4}', "line 2: version 4 of the format cannot be read"),
        (b'RTCStatsDump\n{"fileFormat": 3}\n[1]', r"line 3: expected \[method, connection"),
        (b'RTCStatsDump\n{"fileFormat": 3}\n["g", "a", {}, 5', "no connection in the log"),
        (b'RTCStatsDump\n{"fileFormat": 3}\n[1, oh, 3]\n\n', "line 3: line 1, column 5: expected JSON"),
        (b'RTCStatsDump\n{"fileFormat": 3}\n["g", "a", [], 1700000000000]', "line 3: expected getStats of a"),
        (b'RTCStatsDump\n{"fileFormat": 3}\n["g", "a", {}, 1e300]', "expected a time since 1970"),
        (b'["getstats", "a", {"x": {"type": "ssrc"}}, 1700000000000]', "pre-2020 format"),
    ],
)
def test_errors_name_the_place_and_what_was_expected(content: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=message) as caught:
        opened(tmp_path, content)
    assert str(tmp_path / "log") in str(caught.value)
    assert caught.value.hint or "gzip" in message or "nested" in message


def test_a_log_of_years_is_refused(tmp_path: Path) -> None:
    lines = [
        ["a", "PC_0", None, 1_600_000_000_000],
        ["a", "PC_0", None, 1_700_000_000_000],
        ["close", "PC_0", None, 1_700_000_000_000],
    ]
    with pytest.raises(BadInput, match="apart; expected at most 604800 s"):
        opened(tmp_path, "\n".join(map(json.dumps, lines)))


def test_a_small_gzip_file_that_grows_without_bound_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtclab.importers.logs.text.MOST_BYTES", 1_000_000)
    with pytest.raises(BadInput, match="larger than 1 MB"):
        opened(tmp_path, gzip.compress(b"[" * 50_000_000))


def test_reports_that_are_repeated_without_end_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtclab.importers.logs.getstats_rows.MOST_REPORTS", 40)
    with pytest.raises(BadInput, match="more than 40 reports"):
        opened(tmp_path, FILES["version 3"])


STRANGE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from([10**400, -(2**63), 1e308, 4e12, "", "x" * 300, "type", "[", "[1,", "[]"]),
    st.builds(dict),
    st.builds(lambda: [[]]),
    st.text(max_size=8),
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A valid file in which bytes were changed, removed, cut off, or values replaced by others."""
    text = draw(st.sampled_from([*FILES.values(), of_2020()]))
    if draw(st.booleans()):
        lines = text.split("\n")
        at = draw(st.integers(0, len(lines) - 1))
        try:
            value = json.loads(lines[at])
        except ValueError:
            value = []
        for _ in range(draw(st.integers(1, 4))):
            _replace(draw, value)
        lines[at] = json.dumps(value)
        text = "\n".join(lines)
    content = bytearray(text.encode("utf-8", "surrogatepass"))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(content) - 1))
        content[at : at + draw(st.integers(0, 5))] = draw(st.binary(max_size=5))
    end = draw(st.one_of(st.just(len(content)), st.integers(0, len(content))))
    made = bytes(content[:end])
    return gzip.compress(made)[: draw(st.integers(1, len(made) + 30))] if draw(st.booleans()) else made


def _replace(draw: st.DrawFn, value: Any) -> None:
    """Replaces one value somewhere inside."""
    while isinstance(value, (dict, list)) and value:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = draw(st.sampled_from(keys))
        inner = value[key]
        if isinstance(inner, str) and inner.startswith("[") and inner.endswith("]") and draw(st.booleans()):
            values = json.loads(inner)
            _replace(draw, values)
            value[key] = json.dumps(values)
            return
        if not isinstance(inner, (dict, list)) or not inner or draw(st.integers(0, 4)) == 0:
            value[key] = draw(STRANGE)
            return
        value = inner


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(content=damaged())
def test_a_damaged_file_gives_a_trace_or_an_error_that_names_the_file(content: bytes, tmp_path: Path) -> None:
    imported, failure = None, None
    try:
        imported = opened(tmp_path, content)
    except BadInput as error:
        failure = error
    if imported is None:
        assert str(tmp_path) in str(failure)
        return
    made = trace(imported)
    for flow in made.flows:
        for metric in (wire.stats_sending_rate, wire.stats_receiving_rate, rate.goodput, delay.rtt):
            metric(made, flow)
    at_ns = pl.concat([table["at_ns"] for table in imported.tables.values()])
    assert at_ns.is_between(0, imported.manifest.duration_ns).all()
