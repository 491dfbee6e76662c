"""The monitor from Python and from the command line, on captures with known results."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from captures import (
    ALICE,
    BEGIN_NS,
    BOB,
    IP_AND_UDP_BYTES,
    MS,
    RTP_BYTES,
    coded,
    later,
    rtp,
    speech,
    udp,
    write_pcap,
)
from rich.console import Console

from rtclab import Trace, monitoring
from rtclab.cli import main
from rtclab.errors import BadInput
from rtclab.metrics import delay, loss, rate

SPEECH_BYTES = 160 + RTP_BYTES + IP_AND_UDP_BYTES
ADDRESSES = {"10.0.0.1": "alice", "10.0.0.2": "bob"}


def command(*arguments: object) -> int:
    """Exit status of ``rtclab monitor`` with these arguments."""
    with pytest.raises(SystemExit) as ended:
        main(["monitor", *map(str, arguments)])
    return int(ended.value.code or 0)


@pytest.fixture
def call(tmp_path: Path) -> Path:
    """Four seconds of speech: 200 packets; the 10th is missing and the 20th is duplicated."""
    frames = speech(200)
    frames.insert(20, (frames[19][0] + MS, frames[19][1]))
    del frames[9]
    return write_pcap(tmp_path / "call.pcap", frames)


def test_a_stream_has_the_counts_of_its_packets(call: Path) -> None:
    (stream,) = monitoring.monitor(call)["streams"].to_dicts()
    assert (stream["source"], stream["destination"]) == ("10.0.0.1:5004", "10.0.0.2:6006")
    assert (stream["ssrc"], stream["payload_type"], stream["kind"]) == (0x1234, 0, "audio")
    assert (stream["packets"], stream["bytes"]) == (200, 200 * SPEECH_BYTES)
    assert (stream["lost"], stream["duplicates"], stream["reordered"]) == (1, 1, 0)
    assert (stream["first_ns"], stream["last_ns"]) == (BEGIN_NS, BEGIN_NS + 3980 * MS)
    assert stream["rate_mean_bps"] == 50 * SPEECH_BYTES * 8  # over the second and the third second


def test_packets_and_seconds_are_returned_only_on_request(call: Path) -> None:
    assert not {"packets", "seconds"} & monitoring.monitor(call).keys()
    seen = monitoring.monitor(call, packets=True, seconds=True)
    assert seen["packets"].height == 200
    assert seen["seconds"]["packets"].to_list() == [50] * 4
    assert seen["packets"]["at_ns"][1] - seen["packets"]["at_ns"][0] == 20 * MS


def test_packets_other_than_rtp_make_no_stream_and_are_counted_in_their_flow(tmp_path: Path) -> None:
    stun = bytes.fromhex("000100002112a442") + bytes(12)
    dtls = bytes.fromhex("16fefd 0000 000000000001 0014") + bytes(20)
    text = b"1 is a digit, whose code is in the range of DTLS"
    frames = [(index * MS, udp(payload)) for index, payload in enumerate((stun, dtls, b"hello", text))]
    seen = monitoring.monitor(write_pcap(tmp_path / "a.pcap", frames))
    assert seen["streams"].is_empty()
    (flow,) = seen["flows"].to_dicts()
    assert [flow[name] for name in ("packets", "stun", "dtls", "rtp", "rtcp", "other")] == [4, 1, 1, 0, 0, 2]


def test_a_call_in_a_tunnel_is_the_call_and_a_note_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vxlan = bytes.fromhex("0800000000000700")
    tunnelled = [
        (at_ns, udp(vxlan + frame, ("203.0.113.1", 50000), ("203.0.113.2", 4789)))
        for at_ns, frame in speech(50)
    ]
    plain = monitoring.monitor(write_pcap(tmp_path / "plain.pcap", speech(50)))
    capture = write_pcap(tmp_path / "vxlan.pcap", tunnelled)
    seen = monitoring.monitor(capture)
    for table in ("streams", "flows"):
        assert seen[table].equals(plain[table])
    assert command(capture) == 0
    assert "packets inside VXLAN: 50\n" in capsys.readouterr().out


def test_a_capture_without_packets_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty.pcapng"
    section = struct.pack("<IIIHHq", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1) + struct.pack("<I", 28)
    empty.write_bytes(section + struct.pack("<IIHHII", 1, 20, 1, 0, 0, 20))
    assert command(empty) == 0
    assert "the capture has no packets\n" in capsys.readouterr().out


def test_notes_say_that_streams_above_the_limit_are_left_out(tmp_path: Path) -> None:
    frames = sorted(frame for ssrc in range(1, 6) for frame in speech(10, ssrc=ssrc))
    seen = monitoring.monitor(write_pcap(tmp_path / "a.pcap", frames), max_streams=3)
    assert seen["streams"].height == 3
    assert "only the first 3 streams are shown" in seen["notes"]["note"].to_list()


def test_native_columns_become_series_with_nulls() -> None:
    native = {
        "t": {
            "count": np.array([1, -1]),
            "mean": np.array([0.5, np.nan]),
            "name": (np.array([1, 65535], dtype=np.uint16), ["a", "b"]),
        }
    }
    assert monitoring.as_tables(native)["t"].rows() == [(1, 0.5, "b"), (None, None, None)]


@pytest.mark.parametrize("content", [b"", b"GIF89a, certainly no capture", b'name = "my-call"'])
def test_a_file_that_is_not_a_capture_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "call.pcap"
    path.write_bytes(content)
    with pytest.raises(
        BadInput, match=re.escape(str(path)) + r": .*; expected (a )?pcap or pcapng.*\n  hint: tcpdump, "
    ):
        monitoring.monitor(path)


def test_a_missing_capture_is_not_reported_as_a_wrong_format(call: Path) -> None:
    missing = call.with_name("no.pcap")
    for read in (lambda: monitoring.monitor(missing), lambda: monitoring.follow(call, missing)):
        with pytest.raises(BadInput) as caught:
            read()
        assert str(caught.value) == f"{missing}: No such file or directory"


def test_the_error_for_a_compressed_capture_says_so(call: Path) -> None:
    packed = call.with_suffix(".pcap.gz")
    packed.write_bytes(gzip.compress(call.read_bytes()))
    with pytest.raises(BadInput, match=r"compressed; expected(.|\n)*hint: decompress it: `gzip -cd"):
        monitoring.monitor(packed)


def test_pipes_are_read_by_monitor_and_refused_by_follow(call: Path) -> None:
    command = [sys.executable, "-m", "rtclab", "monitor", "-", "--csv"]
    said = subprocess.run(command, input=call.read_bytes(), capture_output=True, check=True).stdout
    assert pl.read_csv(said)["packets"].to_list() == [200]
    pipe = call.with_name("pipe")
    os.mkfifo(pipe)
    with pytest.raises(BadInput, match=f"{pipe}: a pipe can be read only once"):
        monitoring.follow(call, pipe)


def test_of_many_streams_and_flows_the_largest_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frames = speech(50, ssrc=7) + [frame for ssrc in range(100, 220) for frame in speech(2, ssrc=ssrc)]
    frames += [(0, udp(b"name?" * 20, ("10.0.0.9", port), BOB)) for port in range(1, 200)]
    path = write_pcap(tmp_path / "a.pcap", sorted(frames))
    assert command(path) == 0
    out = capsys.readouterr().out
    assert out.count("0x000000") == 100
    assert "0x00000007" in out
    assert "streams: the 100 largest of 121; --json gives all" in out
    assert "flows: the 100 largest of 200; --json gives all" in out
    assert re.search(r"10\.0\.0\.1:5004 → 10\.0\.0\.2:6006 +udp", out)


def test_a_truncated_capture_is_read_as_far_as_possible_with_a_note(call: Path) -> None:
    call.write_bytes(call.read_bytes()[:-50])
    seen = monitoring.monitor(call)
    assert seen["streams"]["packets"].to_list() == [199]
    assert "the capture ends within a record" in seen["notes"]["note"].to_list()


# --- command -----------------------------------------------------------------------------------------


def test_the_command_prints_a_row_per_stream_and_flow(call: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(call) == 0
    out = capsys.readouterr().out
    (row,) = [line for line in out.splitlines() if "0x00001234" in line]
    assert re.search(r"10\.0\.0\.1:5004 → 10\.0\.0\.2:6006 +0x00001234 +0 +audio\S* +200 +40000 ", row)
    assert row.split()[-2:] == ["0.000", "3.980"]
    assert "only RTP headers are read" in out


def test_a_narrow_terminal_shows_whole_addresses_and_says_which_columns_it_leaves_out(
    call: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command(call) == 0
    wide = capsys.readouterr().out
    monkeypatch.setattr(Console, "is_terminal", True)
    monkeypatch.setenv("COLUMNS", "60")
    assert command(call) == 0
    narrow = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)
    assert "\n10.0.0.1:5004 → 10.0.0.2:6006\n" in narrow
    streams = next(line for line in wide.splitlines() if "SSRC" in line)
    told = set(narrow.replace(",", " ").split())
    assert {*streams.split()} - {"stream"} <= told
    (row,) = [line for line in narrow.splitlines() if "0x00001234" in line]
    assert set(row.split()) < set(wide.splitlines()[2].split())
    assert "\nnot shown, because the terminal is narrow; --json has all: " in narrow
    tables = [line for line in narrow.partition("only RTP")[0].splitlines() if ": " not in line]
    assert 40 < max(map(len, tables)) <= 60


def test_a_terminal_of_80_columns_has_a_line_for_each_stream(
    call: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Console, "is_terminal", True)
    monkeypatch.setenv("COLUMNS", "80")
    assert command(call) == 0
    first, _, way, row, *_ = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out).splitlines()
    assert {"SSRC", "kind", "packets", "kbit/s", "lost", "%", "jitter", "ms"} <= set(first.split())
    assert way == "10.0.0.1:5004 → 10.0.0.2:6006"
    assert row.startswith("0x00001234")
    assert len(first) <= 80


def feedback(kind: int, *words: int) -> bytes:
    """A packet of transport-layer feedback (RTCP 205) of this kind from SSRC 7."""
    body = struct.pack(f"!{1 + len(words)}I", 7, *words)
    return struct.pack("!BBH", 0x80 | kind, 205, len(body) // 4) + body


def test_codepoints_and_the_kind_of_feedback_are_printed(
    call: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Of 60 packets with ECT(1) every fourth is marked. The report of RFC 8888 is about one stream and no
    # packet, the transport-wide one about two packets that arrived.
    back = [feedback(11, 0x1234, 0, 0), feedback(15, 0x1234, 2, 0, 0x20020404)]
    reports = [(90 * MS + index, udp(packet, BOB, ALICE)) for index, packet in enumerate(back)]
    frames = sorted([*coded(coded(speech(60), 1), 3, every=4), *reports])
    capture = write_pcap(tmp_path / "ecn.pcap", frames)
    seen = monitoring.monitor(capture)
    codepoints = ["not_ect", "ect0", "ect1", "ce"]
    assert seen["streams"].select(codepoints).rows() == [(0, 0, 45, 15)]
    assert seen["flows"].select(codepoints).rows() == [(0, 0, 45, 15), (2, 0, 0, 0)]
    assert command(capture) == 0
    said = capsys.readouterr().out
    streams, rtcp = said.splitlines()[0], said[said.index("RTCP in flow") :]
    assert [word for word in streams.split() if "E" in word] == ["Not-ECT", "ECT(0)", "ECT(1)", "CE"]
    assert {"CCFB (RFC 8888)", "TWCC (transport-wide)"} == set(re.findall(r"(?:CCFB|TWCC) \(.*?\)", rtcp))
    # Without ECN-capable packets there is nothing to say about them.
    assert command(call) == 0
    assert "ECT" not in capsys.readouterr().out


def test_json_has_the_tables(call: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(call, "--json") == 0
    tables = json.loads(capsys.readouterr().out)
    assert tables.keys() == {"streams", "flows", "rtcp", "reports", "notes"}
    assert tables["streams"][0]["lost"] == 1


def test_csv_has_the_streams(call: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(call, "--csv") == 0
    streams = pl.read_csv(io.StringIO(capsys.readouterr().out))
    assert streams.select("ssrc", "packets", "lost").rows() == [(0x1234, 200, 1)]


def test_parquet_has_every_packet_and_second(call: Path, tmp_path: Path) -> None:
    assert command(call, "--parquet", tmp_path / "tables") == 0
    assert pl.read_parquet(tmp_path / "tables" / "packets.parquet").height == 200
    assert pl.read_parquet(tmp_path / "tables" / "seconds.parquet").height == 4


@pytest.mark.parametrize("name", ["rates.html", "rates.svg"])
def test_plots_are_a_page_or_a_drawing(call: Path, tmp_path: Path, name: str) -> None:
    assert command(call, "--plot", tmp_path / name) == 0
    text = (tmp_path / name).read_text(encoding="utf-8")
    assert "audio 0x00001234" in text
    assert "Rate (kbit/s)" in text
    assert text.lstrip().lower().startswith("<!doctype html>" if name.endswith("html") else "<?xml")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "expected one capture, or two"),
        (["a", "b", "c"], "got 3"),
        (["-", "b"], "-: a pipe can be read only once"),
        (["a", "--sdp", __file__], "no line `m=…`; expected session descriptions"),
        (["a", "--plot", "rates.eps"], "`rates.eps`: expected a name that ends in .svg, .png, .pdf, .html"),
        (["a", "--json", "--csv"], "expected one of them"),
        (["a", "--sdp", "/none"], "--sdp: /none: No such file"),
        (["a", "--live", "lo"], "expected no capture with it"),
        (["--live", "none0"], "--live none0"),
    ],
)
def test_invalid_options_end_with_status_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(*arguments) == 2
    assert said in capsys.readouterr().err


# --- traces ------------------------------------------------------------------------------------------


def test_a_trace_of_one_capture_has_rates_and_losses_but_no_delays(call: Path) -> None:
    trace = Trace.from_pcap(call, names=ADDRESSES)
    assert trace.flows == ["alice->bob"]
    assert trace.table("packets").height == 200
    assert rate.receiving_rate(trace, "alice->bob") == pytest.approx(50 * SPEECH_BYTES * 8 / 1000)
    assert loss.packet_loss(trace, "alice->bob") == pytest.approx(100 * 1 / 201)
    assert np.isnan(delay.one_way_delay(trace, "alice->bob"))
    assert trace.table("frames").is_empty()


@pytest.mark.parametrize("packets", [105, 100, 2])
def test_a_steady_capture_of_any_length_has_its_true_rate(tmp_path: Path, packets: int) -> None:
    # 200 B every 20 ms are 80 kbit/s, for 2.1 s, 2 s and 40 ms.
    capture = write_pcap(tmp_path / "call.pcap", speech(packets))
    trace = Trace.from_pcap(capture, names=ADDRESSES)
    flow = trace.manifest.flows["alice->bob"]
    assert (flow.begin_ns, flow.end_ns) == (0, packets * 20 * MS)
    assert (flow.sender, flow.receiver, flow.route, flow.call) == ("alice", "bob", (), None)
    assert rate.receiving_rate(trace, "alice->bob") == pytest.approx(80)
    assert rate.sending_rate(trace, "alice->bob") == pytest.approx(80)


def test_a_flow_that_begins_later_or_ends_earlier_has_the_rate_of_its_own_time(tmp_path: Path) -> None:
    back = [
        (at_ns, udp(rtp(index, 160 * index, ssrc=7), BOB, ALICE))
        for index, (at_ns, _) in enumerate(later(speech(50), 1230))
    ]
    trace = Trace.from_pcap(write_pcap(tmp_path / "a.pcap", sorted([*speech(200), *back])), names=ADDRESSES)
    flow = trace.manifest.flows["bob->alice"]
    assert (flow.begin_ns, flow.end_ns) == (1230 * MS, 2230 * MS)
    assert rate.receiving_rate(trace, "bob->alice") == pytest.approx(80)


def test_a_single_packet_has_no_rate(tmp_path: Path) -> None:
    frames = [*speech(50), (500 * MS, udp(b"hello", BOB, ALICE))]
    trace = Trace.from_pcap(write_pcap(tmp_path / "a.pcap", sorted(frames)), names=ADDRESSES)
    assert np.isnan(rate.receiving_rate(trace, "bob->alice"))


def test_two_captures_have_a_flow_from_the_first_packet_at_either_to_the_last(tmp_path: Path) -> None:
    trace = Trace.from_pcap(*two_points(tmp_path, 50.0), names=ADDRESSES)
    flow = trace.manifest.flows["alice->bob"]
    # 100 packets every 20 ms; the last one arrives 50 ms later.
    assert (flow.begin_ns, flow.end_ns) == (0, 2050 * MS)
    assert rate.sending_rate(trace, "alice->bob") == pytest.approx(80 * 2000 / 2050)
    assert int(trace.table("flow_seconds")["delivered_packets"].sum()) == 91


def test_packets_sent_after_the_end_of_the_receivers_capture_are_not_lost(tmp_path: Path) -> None:
    sent = speech(300)
    a = write_pcap(tmp_path / "a.pcap", sent)
    b = write_pcap(tmp_path / "b.pcap", later(sent[:100], 50))
    assert loss.packet_loss(Trace.from_pcap(a, b, names=ADDRESSES), "alice->bob") == 0


def test_flows_without_names_are_named_after_addresses_and_ports(call: Path) -> None:
    assert list(Trace.from_pcap(call).manifest.flows) == ["10.0.0.1:5004->10.0.0.2:6006"]


def test_a_trace_can_be_kept_and_a_temporary_one_is_deleted(call: Path, tmp_path: Path) -> None:
    kept = Trace.from_pcap(call, out=tmp_path / "kept").path
    temporary = Trace.from_pcap(call)
    path = temporary.path
    assert path.is_dir()
    del temporary
    assert (kept.is_dir(), path.is_dir()) == (True, False)


def two_points(tmp_path: Path, delay_ms: float, **changes: Any) -> tuple[Path, Path]:
    """Two seconds of speech at two points. Every tenth packet except the first is lost in between."""
    sent = speech(100, **changes)
    arrived = [frame for index, frame in enumerate(later(sent, delay_ms)) if index % 10 or not index]
    return write_pcap(tmp_path / "a.pcap", sent), write_pcap(tmp_path / "b.pcap", arrived)


@pytest.mark.parametrize("first_seq", [100, 65_500])
def test_a_trace_of_two_captures_has_delay_and_loss(tmp_path: Path, first_seq: int) -> None:
    trace = Trace.from_pcap(*two_points(tmp_path, 50.0, first_seq=first_seq), names=ADDRESSES)
    assert delay.one_way_delay(trace, "alice->bob") == pytest.approx(50.0)
    assert loss.packet_loss(trace, "alice->bob") == pytest.approx(9.0)
    packets = trace.table("packets")
    assert (packets["delivered_ns"] - packets["sent_ns"]).drop_nulls().unique().to_list() == [50 * MS]
    assert packets["dropped_ns"].count() == 9


def test_a_negative_delay_stays_negative(tmp_path: Path) -> None:
    made = Trace.from_pcap(*two_points(tmp_path, -30.0), names=ADDRESSES)
    assert delay.one_way_delay(made, "alice->bob") == pytest.approx(-30)
    assert made.table("delay_histogram")["one_way_delay_ms"].to_list() == [-30.0]


def two_ways(tmp_path: Path, delay_ms: float, offset_ms: float) -> tuple[Path, Path]:
    """Speech both ways with the same delay. The clock of bob's capture is ahead by the offset."""
    from_alice = speech(200)
    from_bob = [
        (at_ns, udp(rtp(index, 160 * index, ssrc=7), BOB, ALICE))
        for index, (at_ns, _) in enumerate(from_alice)
    ]
    a = sorted([*from_alice, *later(from_bob, delay_ms)])
    b = sorted([*later(from_alice, delay_ms + offset_ms), *later(from_bob, offset_ms)])
    return write_pcap(tmp_path / "a.pcap", a), write_pcap(tmp_path / "b.pcap", b)


def test_two_directions_give_the_offset_of_the_clocks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    captures = two_ways(tmp_path, 20.0, 100.0)
    assert command(*captures) == 0
    said = capsys.readouterr().out
    assert re.search(
        r"estimate: B's clock is \+100\.0\d\d ms ahead of A's, with an error of at most 20", said
    )
    assert command(*captures, "--plot", tmp_path / "delays.html") == 0
    page = (tmp_path / "delays.html").read_text(encoding="utf-8")
    assert page.index("Distribution of the one-way delay, clocks corrected") < page.index(
        "they can be negative"
    )
    as_captured = Trace.from_pcap(*captures, names=ADDRESSES)
    corrected = Trace.from_pcap(*captures, names=ADDRESSES, corrected=True)
    for flow, seen_ms in {"alice->bob": 120.0, "bob->alice": -80.0}.items():
        assert delay.one_way_delay(as_captured, flow) == pytest.approx(seen_ms)
        assert delay.one_way_delay(corrected, flow) == pytest.approx(20.0, abs=0.1)
    assert corrected.manifest.capture.clock["offset_ms"] == pytest.approx(100.0, abs=0.1)


def test_two_captures_are_compared_stream_by_stream(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = two_points(tmp_path, 50.0)
    assert command(a, b, "--json") == 0
    compared = json.loads(capsys.readouterr().out)
    (stream,) = compared["streams"]
    assert (stream["packets_a"], stream["packets_b"], stream["matched"], stream["lost"]) == (100, 91, 91, 9)
    assert stream["one_way_delay_mean_ms"] == pytest.approx(50)
    assert stream["one_way_delay_sd_ms"] == pytest.approx(0, abs=1e-6)
    assert command(a, b, "--plot", tmp_path / "delays.html") == 0
    out = capsys.readouterr().out
    assert "as captured" in out
    assert "one direction alone does not show how far" in out
    page = (tmp_path / "delays.html").read_text(encoding="utf-8")
    assert "Distribution of the one-way delay" in page
    assert "near the receiver" in page
    assert "<h1>1 stream at two points</h1>" in page
    assert "9 of 100 packets were lost between the points (9 %)." in page
    assert "One direction alone does not show how far the clocks differ" in page


def test_the_command_shows_negative_delays_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(*two_points(tmp_path, -30.0)) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if "as captured" in line]
    assert row.split()[-7:] == ["-30.00", "0", *["-30.00"] * 5]
