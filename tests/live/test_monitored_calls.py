"""The monitor on a real call, compared with tshark and the emulator's log, and on a live interface."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from live_tests import Recorded, as_ordinary_user
from parts import CALL, LAB

from rtclab import Trace, monitoring
from rtclab.backend.live.lab.namespaces import NODE_INTERFACE
from rtclab.metrics import loss
from rtclab.metrics.wire import stream_rates

pytestmark = [pytest.mark.live, pytest.mark.needs(*LAB)]

INBOUND, OUTBOUND = "1", "2"
RTP_AT = 14 + 20 + 8
MOTION_JPEG = 26  # a static payload type with a clock of 90 kHz, RFC 3551: tshark knows no other clocks
# Begin, end, addresses and ports, SSRC, payload, packets, lost (%), three values of delta, three of jitter.
TSHARK_ROW = re.compile(
    r"^ *(?P<first>[\d.]+) +(?P<last>[\d.]+) +(?P<source>\S+) +\d+ +\S+ +\d+ +(?P<ssrc>0x\w+) .*? "
    r"(?P<packets>\d+) +(?P<lost>-?\d+) \(\S+%\) +\S+ +(?P<delta>\S+) +\S+ +\S+ +(?P<mean>\S+) +(?P<max>\S+)",
    re.MULTILINE,
)
US = 1_000
FEWEST = 500
"""Minimum number of RTP packets. The call has about 2,500; a browser without enough CPU time sends fewer."""
STREAM = ["ssrc", "seq", "rtp_timestamp"]


@pytest.fixture
def call(recorded: Recorded) -> Trace:
    """Fifteen seconds of a call that loses packets."""
    return recorded.trace


def capture_of(trace: Trace) -> Path:
    return trace.path / "capture.pcapng"


def one_way(capture: Path, direction: str, out: Path) -> Path:
    """The frames of one direction as pcap, with RTP changed for tshark: no marker, no padding."""
    chosen = ["-Y", f"frame.packet_flags_direction == {direction} && udp && ip"]
    subprocess.run(
        ["tshark", "-r", capture, *chosen, "-F", "nsecpcap", "-w", out], check=True, capture_output=True
    )
    content = bytearray(out.read_bytes())
    at = 24
    while at < len(content):
        (kept,) = struct.unpack_from("<I", content, at + 8)
        rtp = at + 16 + RTP_AT
        # RFC 5761: packets that would have payload types 64 to 95 are RTCP.
        if content[rtp] >> 6 == 2 and not 64 <= content[rtp + 1] & 0x7F <= 95:
            # tshark leaves packets with the marker bit out of its mean jitter.
            content[rtp + 1] = MOTION_JPEG
            # The number of padding bytes is encrypted. tshark reads it anyway and rejects such packets.
            content[rtp] &= ~0x20
        at += 16 + kept
    out.write_bytes(content)
    return out


def streams_of_tshark(capture: Path) -> dict[tuple[str, int], dict[str, float]]:
    """Packets, losses and jitter by address and SSRC, as ``rtp,streams`` prints them."""
    command = ["tshark", "-r", str(capture), "-q", "-o", "rtp.heuristic_rtp:TRUE", "-z", "rtp,streams"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {
        (row["source"], int(row["ssrc"], 16)): {
            "packets": int(row["packets"]),
            "lost": int(row["lost"]),
            "jitter_mean_ms": float(row["mean"]),
            "jitter_max_ms": float(row["max"]),
            "span_ms": (float(row["last"]) - float(row["first"])) * 1e3,
            "counted_ms": (int(row["packets"]) - 1) * float(row["delta"]),
        }
        for row in TSHARK_ROW.finditer(printed)
    }


@pytest.mark.needs("tshark")
@pytest.mark.parametrize("direction", [INBOUND, OUTBOUND])
@pytest.mark.needs(*CALL)
def test_packets_losses_and_jitter_agree_with_tshark(call: Trace, tmp_path: Path, direction: str) -> None:
    capture = one_way(capture_of(call), direction, tmp_path / "one-way.pcap")
    expected = streams_of_tshark(capture)
    streams = monitoring.monitor(capture)["streams"].to_dicts()
    seen = {(row["source"].split(":")[0], row["ssrc"]): row for row in streams}
    assert seen.keys() == expected.keys()
    assert sum(row["packets"] for row in streams) > FEWEST
    # Retransmissions and padding have the timestamps of other packets, so their jitter means nothing.
    media = set(call.table("packets").filter(kind="video")["ssrc"])
    assert len(media) == 2
    for stream, figures in expected.items():
        row = seen[stream]
        assert (row["packets"], row["lost"]) == (figures["packets"], figures["lost"]), stream
        # tshark 4.4 leaves packets after a jump in time out of its jitter, unlike 4.0 and RFC 3550.
        if stream[1] in media and figures["counted_ms"] == pytest.approx(figures["span_ms"], rel=1e-3):
            assert row["jitter_mean_ms"] == pytest.approx(figures["jitter_mean_ms"], rel=0.01), stream
            assert row["jitter_max_ms"] == pytest.approx(figures["jitter_max_ms"], rel=0.01), stream


@pytest.mark.needs(*CALL)
def test_delays_between_the_emulators_directions_agree_with_its_log(call: Trace) -> None:
    compared = monitoring.follow(capture_of(call), packets=True)
    assert compared["clock"]["method"].to_list() == ["same clock"]
    seen = compared["packets"].with_columns(seen_ns=pl.col("delivered_ns") - pl.col("sent_ns"))
    log = call.table("packets").filter(protocol="rtp")
    log = log.with_columns(logged_ns=pl.col("written_ns") - pl.col("sent_ns"))
    both = seen.drop_nulls("seen_ns").join(log.drop_nulls("logged_ns"), on=STREAM)
    assert both.height == log["written_ns"].count() > FEWEST
    assert (both["seen_ns"] - both["logged_ns"]).abs().max() <= US


@pytest.mark.needs(*CALL)
def test_losses_between_the_emulators_directions_are_its_drops(call: Trace) -> None:
    seen = monitoring.follow(capture_of(call), packets=True)["packets"]
    # The capture continues for a moment after the run; packets in flight at the end are neither.
    log = call.table("packets").filter(pl.col("protocol") == "rtp")
    log = log.filter(pl.col("written_ns").is_not_null() | pl.col("dropped_ns").is_not_null())
    both = log.join(seen.select(*STREAM, seen_ns="delivered_ns"), on=STREAM, how="left")
    lost, dropped = both.filter(pl.col("seen_ns").is_null()), log.drop_nulls("dropped_ns")
    assert both.height == log.height
    assert lost.select(STREAM).sort(STREAM).equals(dropped.select(STREAM).sort(STREAM))
    assert 0.005 < dropped.height / log.height < 0.04  # 2 %; sd of 0.3 % in 2,500 packets


@pytest.mark.needs(*CALL)
def test_a_trace_of_the_emulators_capture_measures_as_the_live_trace_does(call: Trace) -> None:
    names = {"10.77.0.2": "alice", "10.77.0.3": "bob"}
    made = Trace.from_pcap(capture_of(call), names=names)
    assert set(made.manifest.flows) == set(call.manifest.flows)
    for flow in call.manifest.flows:
        # A trace from captures has RTP only. The capture shows when frames were really written, but not
        # whether the last packets were lost. Lost retransmissions do not count.
        rtp = call.table("packets").filter(flow=flow, protocol="rtp")
        first = rtp.filter(pl.col("kind") != "rtx")
        lost_percent = 100 * first["dropped_ns"].count() / first.height
        delays_ms = (rtp["written_ns"] - rtp["sent_ns"]).drop_nulls() / 1e6
        # The capture goes on after the run. Of its last second only a share counts, which may be wrong by
        # some packets.
        begin_ns = made.table("packets").filter(flow=flow)["sent_ns"].min()
        window = (0.0, (begin_ns + rtp["sent_ns"].max() - rtp["sent_ns"].min()) / 1e9)
        assert loss.packet_loss(made.within(window), flow) == pytest.approx(
            lost_percent, abs=500 / first.height
        )
        # The capture has the delays of packets that were in flight when the log ended. They move the mean by
        # at most their share of the range of delays.
        under_way = rtp.height - delays_ms.len() - rtp["dropped_ns"].count()
        moved_ms = under_way / delays_ms.len() * (delays_ms.max() - delays_ms.min())
        seen = made.table("packets").filter(flow=flow).sort("sent_ns").head(rtp.height)
        seen_ms = (seen["delivered_ns"] - seen["sent_ns"]).drop_nulls() / 1e6
        assert seen_ms.mean() == pytest.approx(delays_ms.mean(), abs=0.1 + moved_ms)


@pytest.mark.needs(*CALL)
def test_every_packet_of_the_trace_is_described_by_the_monitor(call: Trace) -> None:
    packets = call.table("packets")
    rtp = packets.filter(protocol="rtp")
    assert rtp["kind"].null_count() == 0
    assert set(rtp["kind"]) <= {"video", "rtx", "fec"}
    # One packet, such as a single one of padding, does not yet prove a stream of RTP.
    assert packets.filter(protocol="other").height <= 1
    assert set(packets["protocol"]) - {"other"} == {"rtp", "rtcp", "stun", "dtls"}
    late_ns = (packets["written_ns"] - packets["delivered_ns"]).drop_nulls()
    assert late_ns.filter(late_ns < 0).is_empty()


@pytest.mark.needs(*CALL)
def test_wire_and_getstats_differ_by_the_headers_below_rtp(call: Trace) -> None:
    rates = stream_rates(call, call.flows)
    assert [(row.flow, row.kind) for row in rates] == [("alice->bob", "video"), ("bob->alice", "video")]
    packets = call.table("packets").filter(protocol="rtp")
    for row in rates:
        reports = call.table("inbound_rtp").filter(flow=row.flow, kind="video").sort("at_ns")
        counted = reports["packetsReceived"][-1] - reports["packetsReceived"][0]
        passed = packets.filter(
            pl.col("flow") == row.flow,
            pl.col("delivered_ns").is_between(reports["at_ns"][0], reports["at_ns"][-1], closed="right"),
        ).height
        # Reports may be late at begin and end, on a busy machine by 100 ms. Each packet that only one side
        # counted moves the mean by its size, up to 1.25 kB. Equal numbers at both ends move it by the
        # differences of their sizes: with a standard deviation of 400 B, 2 x 10 of 1000 packets make 1.8 B.
        only_one_side = abs(passed - counted)
        assert only_one_side < 0.05 * passed
        # IPv4 20 B, UDP 8 B, tag of AES_CM_128_HMAC_SHA1_80 10 B.
        assert row.difference_bytes == pytest.approx(38, abs=5 + 1250 * only_one_side / passed)
        assert row.repair > 0


# Sends once somebody listens. The first line in the list of packet sockets is the heading.
SEND = """
import os, socket, struct, time
while len(open("/proc/net/packet").readlines()) < 2:
    time.sleep(0.01)
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for seq in range(100):
    packet = struct.pack("!BBHII", 0x80, 0, seq, 160 * seq, 7) + bytes(160)
    sender.sendto(packet, (os.environ["RTCLAB_SERVER"], 5004))
    time.sleep(0.005)
"""


def test_an_interface_is_watched_without_root_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "send.py").write_text(SEND)
    watch = f"{sys.executable} -m rtclab monitor --live {NODE_INTERFACE} --duration 4s --json"
    watch += f" --parquet {tmp_path}"
    script = f"{watch} > {tmp_path}/seen.json & {sys.executable} {tmp_path}/send.py; wait"
    link = [sys.executable, "-m", "rtclab", "link", "--up", "delay 10 ms", "--", "sh", "-c", script]
    subprocess.run(link, check=True, capture_output=True, timeout=60)
    seen: dict[str, Any] = json.loads((tmp_path / "seen.json").read_text())
    (stream,) = seen["streams"]
    assert (stream["ssrc"], stream["packets"], stream["lost"]) == (7, 100, 0)
    assert stream["destination"] == "10.77.0.1:5004"
    # Many polls, each with the packets since the previous one.
    assert pl.read_parquet(tmp_path / "packets.parquet")["seq"].to_list() == list(range(100))
    assert pl.read_parquet(tmp_path / "seconds.parquet")["packets"].sum() == 100


# Shells let background processes ignore SIGINT.
INTERRUPT = """
import signal, subprocess, sys
with open(sys.argv[2], "w") as out:
    watch = [sys.executable, "-m", "rtclab", "monitor", "--live", sys.argv[3]]
    watching = subprocess.Popen(watch, stdout=out)
    subprocess.run([sys.executable, sys.argv[1]], check=True)
    watching.send_signal(signal.SIGINT)
    sys.exit(watching.wait(60))
"""


def test_control_c_ends_a_live_table_with_the_summary(tmp_path: Path) -> None:
    (tmp_path / "send.py").write_text(SEND)
    arguments = [tmp_path / "send.py", tmp_path / "seen.txt", NODE_INTERFACE]
    link = [sys.executable, "-m", "rtclab", "link", "--", sys.executable, "-c", INTERRUPT, *arguments]
    subprocess.run(link, check=True, capture_output=True, timeout=60)
    said = (tmp_path / "seen.txt").read_text()
    assert "0x00000007" in said
    assert "only RTP headers are read" in said


WATCH_TOO_LONG = """
import os, signal, sys, threading
from rtclab.monitoring import LiveMonitor
signal.signal(signal.SIGINT, signal.default_int_handler)
live = LiveMonitor(sys.argv[1])
try:
    live.poll(1e19)
except ValueError as error:
    print(error)
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    live.poll(1000)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_poll_that_is_too_long_is_refused_and_control_c_ends_a_long_one() -> None:
    link = [
        sys.executable,
        "-m",
        "rtclab",
        "link",
        "--",
        sys.executable,
        "-c",
        WATCH_TOO_LONG,
        NODE_INTERFACE,
    ]
    said = subprocess.run(link, check=True, capture_output=True, text=True, timeout=60).stdout
    assert said.splitlines() == ["timeout_s: got 1e19; expected 0 to 1e9", "interrupted"]


def test_without_the_permission_to_read_packets_it_says_how_to_get_it(tmp_path: Path) -> None:
    code = "from rtclab.monitoring import LiveMonitor; LiveMonitor('lo')"
    allowed = as_ordinary_user([sys.executable, "-c", code])
    refused = subprocess.run(allowed, capture_output=True, text=True, cwd=tmp_path)
    assert "no permission to read packets\n  hint: run it inside `rtclab link" in refused.stderr
