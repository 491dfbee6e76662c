"""Cross traffic of live calls: rates, flows and failures, over an emulated link without browsers."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from parts import LAB

from rtclab.backend.live.connections import Address, PortFlows
from rtclab.backend.live.lab.cross_traffic import FIRST_PORT
from rtclab.backend.live.lab.namespaces import run_in_lab
from rtclab.backend.live.records.packet_flows import flow_at_ports
from rtclab.backend.live.records.tcp_table import tcp_rows
from rtclab.monitoring import monitor
from side_by_side import TURNS

pytestmark = [pytest.mark.live, pytest.mark.measures, pytest.mark.needs(*LAB, "iperf3")]

SECOND = 10**9
UP_BPS = 2_000_000
QUEUE_S = 0.2
DELAY = {"kind": "constant", "ns": 20_000_000}
UP = {
    "name": "up",
    "capacity": {"kind": "constant", "bps": UP_BPS},
    "queue": {"kind": "time", "limit": int(QUEUE_S * SECOND)},
    "delay": DELAY,
}
DOWN = {**UP, "name": "down", "capacity": {"kind": "constant", "bps": 10_000_000}}
NETWORK = {
    "nodes": ["alice", "bob"],
    "paths": [UP, DOWN],
    "routes": [
        {"from": "alice", "to": "bob", "paths": ["up"]},
        {"from": "bob", "to": "alice", "paths": ["down"]},
    ],
}
START_S, STOP_S = 0.5, 6.5
TIMES = {"start_ns": int(START_S * SECOND), "stop_ns": int(STOP_S * SECOND)}
THERE = {"sender": "alice", "receiver": "bob", "connections": 1, "objects": None, "udp": None, **TIMES}
UPLOAD = {**THERE, "flows": ["upload.1"], "congestion_control": "cubic"}
NOISE = {**THERE, "flows": ["noise"], "udp": {"rate_bps": 500_000, "packet_bytes": 1250}}
WEB = {
    **THERE,
    "flows": ["web"],
    "sender": "bob",
    "receiver": "alice",
    "congestion_control": "bbr",
    "connections": 4,
    "objects": {"min_bytes": 30_000, "max_bytes": 50_000, "mean_idle_ns": SECOND // 2, "idle_first": False},
}
CONTROL_BYTES = 5_000
"""More than the control connections of two transfers need, with retransmissions: 1.5 kB each."""


def run(traffic: list[dict[str, Any]], pcap: Path, **more: Any) -> dict[str, Any]:
    argument = {"network": NETWORK, "traffic": traffic, "pcap": str(pcap), **more}
    before = os.environ.get("PYTHONPATH", "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(Path(__file__).parent), before])))
        return run_in_lab("traffic_session:session", argument)


@dataclass
class Seen:
    """A run with an endless transfer and UDP one way, and objects the other."""

    said: dict[str, dict[str, Any]]
    failed: str | None
    flows: pl.DataFrame
    """The monitor's table of flows, with the name of each flow in `name`."""

    def bytes(self, name: str | None, direction: str) -> int:
        rows = self.flows.filter(pl.col("name").eq_missing(name), pl.col("direction") == direction)
        return int(rows["bytes"].sum())


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    pcap = tmp_path_factory.mktemp("traffic") / "capture.pcapng"
    with TURNS.alone():
        result = run([UPLOAD, NOISE, WEB], pcap)
    nodes = {f"10.77.0.{index + 1}": name for index, name in enumerate(NETWORK["nodes"])}
    known: dict[Address, PortFlows] = {
        (node, port): PortFlows(**flows) for node, port, flows in result["port_flows"]
    }

    def port_flows(address: str) -> PortFlows | None:
        ip, _, port = address.rpartition(":")
        return known.get((nodes[ip], int(port)))

    flows = monitor(pcap)["flows"]
    owners = [
        flow_at_ports(port_flows(row["source"]), port_flows(row["destination"]))
        for row in flows.iter_rows(named=True)
    ]
    names = [owner and owner.flow for owner in owners]
    said = {table["name"]: table for table in result["said"]}
    return Seen(said, result["failed"], flows.with_columns(name=pl.Series(names, dtype=pl.String)))


def test_every_packet_except_on_control_connections_has_a_flow(seen: Seen) -> None:
    assert seen.failed is None
    names = {"upload.1", "upload.1 acks", "noise", "web", "web acks"}
    assert set(seen.flows["name"].drop_nulls()) == names
    for direction in ("inbound", "outbound"):
        assert 0 < seen.bytes(None, direction) < CONTROL_BYTES
    data = seen.bytes("upload.1", "inbound")
    assert 0.02 * data < seen.bytes("upload.1 acks", "inbound") < 0.1 * data


def test_udp_has_its_rate_of_ip_packets_and_no_bursts_that_the_queue_drops(seen: Seen) -> None:
    row = seen.flows.filter(pl.col("name") == "noise", pl.col("direction") == "inbound").row(0, named=True)
    # 50 packets a second for 6 s. The control connection takes four round trips of up to 0.24 s, and a second
    # more if its first packet is lost.
    assert 190 <= row["packets"] <= 302
    span_s = (row["last_ns"] - row["first_ns"]) / SECOND
    assert 0.94 * 500_000 <= (row["bytes"] - 1250) * 8 / span_s <= 1.04 * 500_000
    # The first packet, of 32 B, announces its port to the receiver.
    assert row["bytes"] == (row["packets"] - 1) * 1250 + 32


def test_the_transfer_takes_the_capacity_beside_udp_and_stops_in_time(seen: Seen) -> None:
    delivered = seen.bytes("upload.1", "outbound") + seen.bytes("noise", "outbound")
    most = UP_BPS / 8 * (STOP_S - START_S + QUEUE_S)
    assert 0.6 * most <= delivered <= 1.01 * most
    # The rest is at most the capacity before UDP began, and UDP's losses.
    assert seen.bytes("upload.1", "outbound") <= most - 0.6 * 500_000 / 8 * (STOP_S - START_S)
    ends_ns = (
        seen.flows.filter(pl.col("direction") == "inbound").group_by("name").agg(pl.col("last_ns").max())
    )
    last = dict(ends_ns.iter_rows())
    # One round trip after the receiver has closed. Without its reset, a whole send buffer would follow.
    assert last["upload.1"] - last["noise"] <= 1 * SECOND
    both = seen.said["upload"]["flows"]["upload.1"]
    assert both["sender"]["end"]["sender_tcp_congestion"] == "cubic"
    rows = list(tcp_rows(seen.said["upload"], TIMES["start_ns"], 0, 7 * SECOND))
    assert 4 <= len(rows) <= 7
    # 1448 of 1500 B are read. Segments that arrive twice are missing, and so is what is read after the last
    # figures, which are at most a second old.
    missing = seen.bytes("upload.1", "outbound") - rows[-1]["delivered_bytes"] * 1500 / 1448
    assert 0 <= missing <= UP_BPS / 8
    assert rows[-1]["delivered_bytes"] > rows[0]["delivered_bytes"] > 0
    # At least the delays; at most the queue more, with a margin for a late emulator.
    assert all(40 <= row["srtt_ms"] <= 1000 * (0.04 + QUEUE_S) * 2 for row in rows)
    assert all(2 <= row["cwnd_segments"] <= 200 for row in rows)


def test_objects_have_the_sizes_and_the_pauses_of_the_scenario(seen: Seen) -> None:
    objects = seen.said["web"]["objects"]
    # A pause of 0.5 s and some four round trips of 40 ms: 4 sources for 6 s make 36.
    assert 15 <= len(objects) <= 55
    assert {one["source"] for one in objects} == {0, 1, 2, 3}
    sizes = [one["bytes"] for one in objects]
    assert 30_000 <= min(sizes) < 36_000
    assert 44_000 < max(sizes) <= 50_000
    # Three round trips at least: handshake, ten segments, the rest; then the receiver's end.
    took_s = [(one["ended_ns"] - one["began_ns"]) / SECOND for one in objects]
    assert 0.1 < min(took_s) < 0.4
    # Headers of 52 B for each 1448 B, handshakes, retransmissions, and objects cut off by the end.
    assert 1.03 <= seen.bytes("web", "inbound") / sum(sizes) <= 1.3
    connections = seen.flows.filter(pl.col("name") == "web", pl.col("direction") == "inbound")
    assert len(objects) <= len(connections) <= len(objects) + 4


ECN_SECONDS = 6
STEP_NS = 5 * 10**6
"""Above two packets of 1514 B at 10 Mbit/s, which Linux sends at once."""


def tcp_headers(pcap: Path, server_port: int) -> pl.DataFrame:
    """The packets at both ends of the connection that iperf3 sends data on, by the port of its server."""
    fields = {
        "frame.interface_name": "interface", "ip.dsfield.ecn": "ecn", "tcp.flags.syn": "syn",
        "tcp.flags.cwr": "cwr", "tcp.flags.ece": "ece", "tcp.len": "payload", "tcp.seq": "seq",
        "tcp.srcport": "source",
    }  # fmt: skip
    names = [word for field in fields for word in ("-e", field)]
    command = ["tshark", "-r", str(pcap), "-Y", f"tcp.port == {server_port + 1}", "-T", "fields", *names]
    done = subprocess.run([*command, "-E", "separator=,"], capture_output=True, text=True, check=True)
    rows = [line.split(",") for line in done.stdout.splitlines()]
    values = {"0": 0, "1": 1, "False": 0, "True": 1}
    table = pl.DataFrame(rows, schema=list(fields.values()), orient="row")
    return table.with_columns(
        pl.col("cwr", "ece", "syn").replace_strict(values, return_dtype=pl.Int64),
        pl.col("ecn", "payload", "seq", "source").cast(pl.Int64),
    )


def test_the_kernels_cubic_with_ecn_fills_a_queue_that_marks_and_loses_nothing(tmp_path: Path) -> None:
    """A step at 5 ms marks, and the queue has room for all that slow start sends until it hears of a mark."""
    capacity = {"kind": "constant", "bps": 10_000_000}
    queue = {"kind": "time", "limit": SECOND}
    up = {**UP, "capacity": capacity, "queue": queue, "aqm": {"kind": "step", "threshold_ns": STEP_NS}}
    upload = {**UPLOAD, "ecn": True, "stop_ns": TIMES["start_ns"] + ECN_SECONDS * SECOND}
    pcap = tmp_path / "capture.pcapng"
    with TURNS.in_silence():
        result = run([upload], pcap, network={**NETWORK, "paths": [up, DOWN]})
    assert result["failed"] is None
    seen = tcp_headers(pcap, FIRST_PORT)
    sent = seen.filter(pl.col("interface") == "alice", pl.col("source") == FIRST_PORT + 1)
    arrived = seen.filter(pl.col("interface") == "bob", pl.col("source") == FIRST_PORT + 1)
    acks = seen.filter(pl.col("interface") == "alice", pl.col("source") == FIRST_PORT)
    # The opening asks, and the answer accepts (RFC 3168, 6.1.1).
    assert sent.filter(pl.col("syn") == 1).select("ecn", "cwr", "ece").rows() == [(0, 1, 1)]
    assert acks.filter(pl.col("syn") == 1).select("ecn", "cwr", "ece").rows() == [(0, 0, 1)]
    # All data are ECT(0), which is 2 as a number. So nothing was sent again, because retransmissions are not.
    assert set(sent.filter(pl.col("payload") > 0)["ecn"]) == {2}
    assert sent.filter(pl.col("payload") > 0)["seq"].is_unique().all()
    assert set(acks["ecn"]) == {0}
    data = arrived.filter(pl.col("payload") > 0)
    assert set(data["ecn"]) == {2, 3}
    assert len(sent) == len(arrived)
    # To the monitor, which looks for frames of TURN in TCP, iperf3's random data are none.
    packets = monitor(pcap, packets=True)["packets"].filter(direction="inbound")
    of_sender = packets.filter(pl.col("source").str.ends_with(f":{FIRST_PORT + 1}"))
    assert len(of_sender) == len(sent)
    assert of_sender["content_bytes"].null_count() == len(sent)
    # The window of 10 Mbit/s, 40 ms and 5 ms is 37 segments. From .7 of it, CUBIC takes some 20 round trips
    # (as Reno), a second. Marks last for a round trip or two. Each echo ends with one CWR.
    marks = (data["ecn"] == 3).sum()
    reductions = sent.filter(pl.col("syn") == 0)["cwr"].sum()
    assert 3 <= reductions <= 40
    assert reductions <= marks <= len(data) // 3
    assert reductions <= acks.filter(pl.col("syn") == 0)["ece"].sum()
    # Between .7 and 1.1 of the window, some 85 % of it: it waits for little and seldom leaves the link idle.
    assert 0.6 <= data["payload"].sum() * 8 / ECN_SECONDS / 10e6 <= 0.97


def test_a_killed_iperf3_is_a_failure_that_names_it(tmp_path: Path) -> None:
    result = run([UPLOAD], tmp_path / "capture.pcapng", kill_at_ns=2 * SECOND)
    assert result["failed"] == "iperf3 (sender of upload.1) was killed by SIGKILL"
    assert 2 * SECOND <= result["ran_until_ns"] <= 4 * SECOND
    # The other end still says what it received until then.
    assert result["said"][0]["flows"]["upload.1"]["receiver"]["intervals"]


def test_an_iperf3_that_cannot_work_fails_with_its_own_words(tmp_path: Path) -> None:
    wrong = {**NOISE, "udp": {"rate_bps": 500_000, "packet_bytes": 40}}
    result = run([wrong], tmp_path / "capture.pcapng")
    assert result["failed"].startswith("iperf3 (sender of noise) ended with exit status 1; it last said:")
    assert "block size" in result["failed"]
