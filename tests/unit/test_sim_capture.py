"""Captures of simulated calls: the monitor and tshark read the same from them as the trace has."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from scenario_text import TWO_PEOPLE

from rtclab import monitoring
from rtclab.backend.sim import CAPTURE, DESCRIPTIONS, SimBackend
from rtclab.monitoring import Tables
from rtclab.scenario import Scenario
from rtclab.trace import Trace

LOSSY = """
[audio]
[link]
up = { capacity = "1 Mbit/s", queue = "300 ms", delay = "25 ms", loss = "5 %" }
"""
SCENARIOS = {
    "lossy": 6,
    "examples/relay": 4,
    "examples/sfu": 12,
    "singh2013/loss-5-percent-100ms": 2,
    "singh2013/tcp-10mbit-1mbit-25ms": 2,
}
"""By scenario, the number of streams that arrive.

Both ways there is video and its retransmissions or padding, and in the first also audio. The SFU has three
uplinks and sends two copies to each participant. In the last two, retransmissions are in the video's stream.
"""
AS_RTP = ("-d", "udp.port==10000-19999,rtp")
IN_CHANNELS = ("-o", "rtp.heuristic_rtp:TRUE")
"""tshark finds RTP in ChannelData only by heuristics."""
TSHARK_ROW = re.compile(
    r"\d+ +(?P<source>\S+) +\d+ +(?P<destination>\S+) +\d+ +0x(?P<ssrc>[0-9A-F]+) +(?:\S+, )*\S+ +"
    r"(?P<packets>\d+) "
)


@dataclass(frozen=True)
class Call:
    """A simulated call, and the monitor's tables of its capture."""

    name: str
    directory: Path
    trace: Trace
    seen: Tables

    @property
    def capture(self) -> Path:
        return self.directory / CAPTURE

    @property
    def sdp(self) -> str:
        return (self.directory / DESCRIPTIONS).read_text()


def captured(directory: Path, name: str, *changes: str, text: str = LOSSY) -> Call:
    if name == "lossy":
        (directory / "lossy.toml").write_text(TWO_PEOPLE + text)
    source = directory / "lossy.toml" if name == "lossy" else name
    scenario = Scenario.load(source, ["duration=10 s", "record=packets", *changes])
    trace = SimBackend(capture=True).run(scenario, seed=1, repeat=0, out=directory)
    sdp = (directory / DESCRIPTIONS).read_text()
    return Call(name, directory, trace, monitoring.monitor(directory / CAPTURE, sdp=sdp))


@pytest.fixture(scope="module", params=SCENARIOS)
def call(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Call:
    return captured(tmp_path_factory.mktemp("call"), request.param)


def rtp(call: Call) -> pl.DataFrame:
    """RTP packets of the trace with the node that sent them last."""
    sender = pl.col("flow").str.extract(r"^(.+)->")
    receiver = pl.col("flow").str.extract(r"->([^#]+)")
    # The server is the sender of all media that participants receive.
    if call.name == "examples/sfu":
        sender = pl.when(receiver == "sfu").then(sender).otherwise(pl.lit("sfu"))
    return call.trace.table("packets").drop_nulls("ssrc").with_columns(sender=sender, receiver=receiver)


def counted(packets: pl.DataFrame, node: str) -> dict[tuple[str, int], tuple[int, int]]:
    """Packets and bytes by node and SSRC."""
    sums = packets.group_by(node, "ssrc").agg(packets=pl.len(), bytes=pl.col("size_bytes").sum())
    return {(at, ssrc): (count, size) for at, ssrc, count, size in sums.iter_rows()}


def streams(call: Call, direction: str, nodes: set[str]) -> dict[tuple[str, int], tuple[int, int]]:
    """Packets and bytes by node and SSRC, according to the monitor, at the ports of these nodes."""
    chosen = call.seen["streams"].filter(pl.col("interface").is_in(nodes), direction=direction)
    sums = chosen.group_by("interface", "ssrc").agg(pl.col("packets", "bytes").sum())
    return {(at, ssrc): (count, size) for at, ssrc, count, size in sums.iter_rows()}


def test_each_sender_has_the_packets_and_bytes_of_the_trace(call: Call) -> None:
    expected = counted(rtp(call), "sender")
    assert streams(call, "inbound", {node for node, _ in expected}) == expected


def test_each_receiver_has_the_packets_and_bytes_that_were_delivered(call: Call) -> None:
    expected = counted(rtp(call).drop_nulls("delivered_ns"), "receiver")
    assert len(expected) == SCENARIOS[call.name]
    assert streams(call, "outbound", {node for node, _ in expected}) == expected


def test_packets_lost_between_ports_are_those_not_delivered_in_the_trace(call: Call) -> None:
    compared = monitoring.follow(call.capture, sdp=call.sdp)
    assert compared["clock"]["method"].to_list() == ["same clock"]
    found = (
        compared["streams"]
        .group_by("ssrc")
        .agg(missing=(pl.col("packets_a") - pl.col("matched")).sum(), added=pl.col("added").sum())
    )
    assert found["added"].sum() == 0
    missing = {ssrc: count for ssrc, count, _ in found.iter_rows()}
    undelivered = rtp(call).group_by("ssrc").agg(pl.col("delivered_ns").null_count())
    assert missing == dict(undelivered.iter_rows())


def test_the_session_descriptions_describe_every_stream(call: Call) -> None:
    origins = call.seen["streams"].select("kind_origin", "clock_rate_origin").unique()
    assert origins.rows() == [("sdp", "sdp")]
    extensions = call.seen["streams"].select("abs_send_time_id", "transport_seq_id").unique()
    assert extensions.rows() == [(2, 3)]


def test_tcp_beside_a_call_is_in_its_capture(tmp_path: Path) -> None:
    call = captured(tmp_path, "singh2013/tcp-10mbit-1mbit-25ms")
    packets = call.trace.table("packets").filter(protocol="tcp")
    flows = call.seen["flows"].filter(~pl.col("source").str.ends_with(":443"), transport="tcp")
    flows = flows.filter(~pl.col("destination").str.ends_with(":443"))
    sent, got = (flows.filter(direction=direction) for direction in ("inbound", "outbound"))
    delivered = packets.drop_nulls("delivered_ns")
    assert sorted(sent["bytes"]) == sorted(
        packets.group_by("flow").agg(pl.col("size_bytes").sum())["size_bytes"]
    )
    assert sorted(got["bytes"]) == sorted(
        delivered.group_by("flow").agg(pl.col("size_bytes").sum())["size_bytes"]
    )


def test_without_capture_no_capture_is_made(tmp_path: Path) -> None:
    scenario = Scenario.load("first-call", ["duration=2 s"])
    SimBackend().run(scenario, seed=1, repeat=0, out=tmp_path)
    assert not {CAPTURE, DESCRIPTIONS} & {file.name for file in tmp_path.iterdir()}


def tshark(capture: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["tshark", "-n", "-r", capture, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout


def decoding(call: Call) -> Sequence[str]:
    relayed = call.seen["streams"]["relay"].null_count() == 0
    return IN_CHANNELS if relayed else AS_RTP


@pytest.mark.needs("tshark")
def test_tshark_finds_nothing_malformed(call: Call) -> None:
    for options in (AS_RTP, IN_CHANNELS):
        malformed = tshark(
            call.capture, *options, "-Y", "_ws.malformed", "-T", "fields", "-e", "frame.number"
        )
        assert malformed == ""


@pytest.mark.parametrize(("direction", "number"), [("inbound", 1), ("outbound", 2)])
@pytest.mark.needs("tshark")
def test_tshark_counts_the_same_packets_of_every_stream(call: Call, direction: str, number: int) -> None:
    chosen = f"frame.packet_flags_direction == {number}"
    printed = tshark(call.capture, *decoding(call), "-2", "-R", chosen, "-q", "-z", "rtp,streams")
    found = Counter[tuple[str, str, int]]()
    for row in TSHARK_ROW.finditer(printed):
        found[row["source"], row["destination"], int(row["ssrc"], 16)] += int(row["packets"])
    expected = Counter[tuple[str, str, int]]()
    for row in call.seen["streams"].filter(direction=direction).to_dicts():
        ends = [row[end].partition(":")[0] for end in ("source", "destination")]
        expected[ends[0], ends[1], row["ssrc"]] += row["packets"]
    assert found == expected


RTCP = {
    "SR": ("200", None),
    "RR": ("201", None),
    "SDES": ("202", None),
    "NACK": ("205", "1"),
    "TWCC": ("205", "15"),
    "PLI": ("206", "1"),
    "REMB": ("206", "15"),
    "XR": ("207", None),
}
"""Packet type and format."""


@pytest.mark.parametrize(
    ("changes", "kinds"),
    [
        (["participants.bob.video=false"], {"SR", "RR", "NACK", "TWCC"}),
        (["video.repair=none"], {"SR", "PLI", "TWCC"}),
        (["congestion_control.name=rrtcc-2013"], {"SR", "NACK", "REMB"}),
    ],
)
@pytest.mark.needs("tshark")
def test_tshark_reads_the_same_rtcp(tmp_path: Path, changes: list[str], kinds: set[str]) -> None:
    call = captured(tmp_path, "lossy", "audio=false", *changes)
    expected = dict(call.seen["rtcp"].group_by("type").agg(pl.col("packets").sum()).iter_rows())
    assert kinds <= expected.keys()
    fields = ("-e", "rtcp.pt", "-e", "rtcp.rtpfb.fmt", "-e", "rtcp.psfb.fmt")
    printed = tshark(call.capture, *AS_RTP, "-Y", "rtcp", "-T", "fields", *fields)
    found = Counter[str]()
    for line in printed.splitlines():
        types, rtpfb, psfb = (field.split(",") for field in line.split("\t"))
        formats = {"205": iter(rtpfb), "206": iter(psfb)}
        for packet_type in types:
            key = (packet_type, next(formats.get(packet_type, iter([None]))))
            found[next(name for name, known in RTCP.items() if known == key)] += 1
    assert found == expected


@pytest.mark.needs("tshark")
def test_tshark_reads_ice_checks_and_requests_to_a_relay(tmp_path: Path) -> None:
    direct = captured(tmp_path, "lossy", text="")
    types = Counter(tshark(direct.capture, "-Y", "stun", "-T", "fields", "-e", "stun.type").split())
    seen = direct.seen["flows"].select(pl.col("stun", "dtls").sum()).row(0, named=True)
    assert types.keys() == {"0x0001", "0x0101"}  # Binding requests and successes
    assert types.total() == seen["stun"]
    handshakes = tshark(direct.capture, "-Y", "dtls", "-T", "fields", "-e", "frame.number").split()
    # Three of the six datagrams of DTLS 1.3 are in clear. tshark 4.0 does not know the others, 4.4 does.
    assert seen["dtls"] in (len(handshakes), 2 * len(handshakes))
    relayed = captured(tmp_path, "examples/relay")
    printed = tshark(relayed.capture, "-Y", "stun.type", "-T", "fields", "-e", "stun.type").split()
    # Nothing is lost. Each of two clients is refused once, and then gets an address and a channel. Each
    # message is captured where it is sent and where it arrives.
    turn = {"0x0003": 8, "0x0113": 4, "0x0103": 4, "0x0009": 4, "0x0109": 4}
    assert {kind: count for kind, count in Counter(printed).items() if kind in turn} == turn
