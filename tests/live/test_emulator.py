"""The emulator between real namespaces: delays, rates, losses, and its packet log."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from live_tests import undisturbed
from parts import LAB

from rtclab._native import Emulator
from rtclab.backend.live.lab.link import ADDRESSES, link_network
from rtclab.backend.live.lab.namespaces import (
    LabError,
    call_in_node,
    create_nodes,
    listen_in_node,
    node_command,
    run_in_lab,
)
from tools.emulator import CAPACITY_BPS, DELAY_NS, PACKET_BYTES, QUEUE_NS, flood, received_frames

pytestmark = [pytest.mark.live, pytest.mark.measures, pytest.mark.needs(*LAB)]


def delayed(delay_ms: float, **more: Any) -> dict[str, Any]:
    return {"name": "", "delay": {"kind": "constant", "ns": round(delay_ms * 1e6)}, **more}


def reply_times_ms(ping_output: str) -> list[float]:
    return [float(time) for time in re.findall(r"time=([\d.]+) ms", ping_output)]


def stood_still(result: dict[str, Any]) -> bool:
    """Whether ping may have missed its last reply, since it waits only two round trips of at least 2 ms."""
    if "output" not in result:
        return False
    ends = [result["packets"][f"{name}_ns"][-2:] for name in ("delivered", "written", "dropped")]
    return any(
        dropped < 0 and (written < 0 or written - delivered > 10**6)
        for delivered, written, dropped in zip(*ends, strict=True)
    )


def late_both_ways_ms(result: dict[str, Any]) -> float:
    """The longest delay that this machine may have added to a ping: microseconds if it is idle."""
    return 2 * result["lateness"]["max_ns"] / 1e6


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch):
    """Calls a function of this file inside a lab, and again if the machine disturbed it.

    What the tests expect allows for the lateness that the emulator measured.
    """
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=":")

    def call_in_lab(function: str, **argument: Any) -> dict[str, Any]:
        name = f"{Path(__file__).stem}:{function}"
        return undisturbed(lambda: run_in_lab(name, argument), stood_still, nullcontext)

    return call_in_lab


# --- run inside the lab ------------------------------------------------------------------------------


def start(up: dict[str, Any], down: dict[str, Any], *, packet_log: bool = True, **more: Any) -> Emulator:
    ports = [node.port() for node in create_nodes(ADDRESSES)]
    config = {**link_network(up, down, seed=1), "packet_log": packet_log, "ports": ports, **more}
    emulator = Emulator(json.dumps(config))
    emulator.start()
    return emulator


def ping(*options: str) -> str:
    command = node_command("client", ["ping", *options, ADDRESSES["core"]])
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def ping_in_lab(argument: dict[str, Any], _emit: Any) -> dict[str, Any]:
    emulator = start(argument["up"], argument["down"])
    output = ping(*argument["options"])
    time.sleep(0.1)  # a reply that ping no longer waits for is still in flight
    summary = emulator.stop()
    tables = {
        table: {name: column.tolist() for name, column in summary[table].items()}
        for table in ("packets", "hops")
    }
    return {"output": output, **summary, **tables}


def ping_without_a_log(_argument: dict[str, Any], _emit: Any) -> dict[str, Any]:
    emulator = start(delayed(5), delayed(1), packet_log=False)
    ping("-c", "50", "-i", "0.002")
    summary = emulator.stop()
    up = next(one for one in summary["traffic"] if one["from"] == "client")
    return {"log": summary["packets"], "up": up, "late": summary["lateness"]["count"]}


def ping_before_and_after_a_change(_argument: dict[str, Any], _emit: Any) -> dict[str, Any]:
    emulator = start(delayed(10), delayed(0))
    before = ping("-c", "5", "-i", "0.02")
    emulator.set_path(json.dumps(delayed(40) | {"name": "up"}))
    after = ping("-c", "5", "-i", "0.02")
    return {"before": before, "after": after, "lateness": emulator.stop()["lateness"]}


def ping_while_the_server_is_down_and_up_again(_argument: dict[str, Any], _emit: Any) -> dict[str, Any]:
    from pyroute2 import IPRoute

    emulator = start(delayed(1), delayed(1))
    replies = []
    with IPRoute() as lab:
        core = lab.link_lookup(ifname="port0")[0]
        for state in ("up", "down", "up"):
            lab.link("set", index=core, state=state)
            replies.append(len(reply_times_ms(ping("-c", "3", "-i", "0.02", "-W", "0.2"))))
    running, summary = emulator.is_running(), emulator.stop()
    failures = [(one["interface"], one["reason"]) for one in summary["port_failures"]]
    log = {"failures": failures, "failure": summary["failure"], "packets": len(summary["packets"]["sent_ns"])}
    return {"replies": replies, "running": running, **log}


def set_unknown_path(_argument: dict[str, Any], _emit: Any) -> dict[str, Any]:
    start(delayed(1), delayed(1)).set_path(json.dumps({"name": "sideways"}))
    return {}


def send_through_tcp(argument: dict[str, Any], _emit: Any) -> dict[str, Any]:
    capture = {"pcap": argument["pcap"], "snaplen": 65_536}
    emulator = start(argument["up"], delayed(1), **capture)
    with listen_in_node("core", ADDRESSES["core"]) as server:
        address, port = server.getsockname()
        connect = f"import socket; sender = socket.create_connection(({address!r}, {port}))"
        sender = f"{connect}; sender.sendall(bytes(range(250)) * 4000)"
        with subprocess.Popen(node_command("client", [sys.executable, "-c", sender])):
            connection, peer = server.accept()
            with connection, connection.makefile("rb") as stream:
                received = stream.read()
    frames = call_in_node("core", received_frames)
    summary = emulator.stop()
    packets = summary["packets"]
    arrived = (packets["from"] == summary["names"]["nodes"].index("client")) & (packets["written_ns"] >= 0)
    return {
        "peer": peer[0],
        "same": received == bytes(range(250)) * 4000,
        "largest": int(packets["size_bytes"].max()),
        "arrived": int(arrived.sum()),
        "dropped": int((packets["dropped_ns"] >= 0).sum()),
        "frames": frames,
    }


def flood_for_four_seconds(_argument: dict[str, Any], _emit: Any) -> dict[str, Any]:
    summary, counts = flood(4.0)
    packets = summary["packets"]
    sent_ns, delivered_ns, written_ns = (packets[f"{name}_ns"] for name in ("sent", "delivered", "written"))
    expected_ns, idle_ns = drop_tail(sent_ns.tolist())
    written = written_ns[written_ns >= 0]
    return counts | {
        "packets": len(sent_ns),
        "delivered_packets": len(written),
        "dropped_packets": int((packets["dropped_ns"] >= 0).sum()),
        "receive_overflows": summary["counters"]["receive_overflows"],
        "unlike_the_law": int((delivered_ns != expected_ns).sum()),
        "idle_s": idle_ns / 1e9,
        "arrived_in_s": float(sent_ns[-1] - sent_ns[0]) / 1e9,
        "written_in_s": float(written[-1] - written[0]) / 1e9,
        "late_ms": summary["lateness"]["max_ns"] / 1e6,
    }


def drop_tail(arrivals_ns: list[int]) -> tuple[list[int], int]:
    """When each packet of a flood leaves the link (-1 if dropped), and how long the link was idle."""
    serialisation_ns = PACKET_BYTES * 8 * 10**9 // CAPACITY_BPS
    places = QUEUE_NS // serialisation_ns
    departures: list[int] = []
    finish, idle_ns = arrivals_ns[0], 0
    for arrival in arrivals_ns:
        waiting = -(-(finish - arrival) // serialisation_ns) - 1  # one more is being serialised
        if waiting >= places:
            departures.append(-1)
            continue
        idle_ns += max(0, arrival - finish)
        finish = max(finish, arrival) + serialisation_ns
        departures.append(finish + DELAY_NS)
    return departures, idle_ns


def frames_of(pcapng: bytes) -> Iterator[bytes]:
    """The frames in the enhanced packet blocks of a little-endian capture."""
    at = 0
    while at < len(pcapng):
        kind, length = struct.unpack_from("<II", pcapng, at)
        if kind == 6:
            (captured,) = struct.unpack_from("<I", pcapng, at + 20)
            yield pcapng[at + 28 : at + 28 + captured]
        at += length


def ones_complement_sum(words: bytes) -> int:
    """The sum of 16-bit words in ones' complement; 0xffff if they have a right checksum (RFC 1071)."""
    padded = words + bytes(len(words) % 2)
    total = sum(struct.unpack(f">{len(padded) // 2}H", padded))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


# --- tests -------------------------------------------------------------------------------------------


@pytest.mark.needs("ping")
def test_a_ping_through_25_and_25_ms_takes_50_to_53_ms(call) -> None:
    result = call("ping_in_lab", up=delayed(25), down=delayed(25), options=["-c", "20", "-i", "0.05"])
    times = reply_times_ms(result["output"])
    assert len(times) == 20
    assert min(times) >= 50
    assert median(times) <= 53 + late_both_ways_ms(result)


@pytest.mark.needs("ping")
def test_the_log_has_every_packet_with_its_logical_times(call) -> None:
    result = call("ping_in_lab", up=delayed(25), down=delayed(10), options=["-c", "5", "-i", "0.02"])
    packets, nodes = result["packets"], result["names"]["nodes"]
    up = [sender == nodes.index("client") for sender in packets["from"]]
    delays = [b - a for a, b in zip(packets["sent_ns"], packets["delivered_ns"], strict=True)]
    assert len(up) == 10
    assert sum(up) == 5
    assert delays == [25_000_000 if is_up else 10_000_000 for is_up in up]
    # ping sends 56 bytes in addition to 8 of ICMP and 20 of IPv4.
    assert set(packets["size_bytes"]) == {84}
    assert {result["names"]["protocols"][code] for code in packets["protocol"]} == {"other"}


@pytest.mark.needs("ping")
def test_without_a_log_packets_are_counted_and_none_is_kept(call) -> None:
    result = call("ping_without_a_log")
    assert result["log"] is None
    up = result["up"]
    assert (up["to"], up["packets"], up["delivered"], up["bytes"]) == ("core", 50, 50, 50 * 84)
    assert up["delay_p50_ms"] == up["delay_p95_ms"] == 5.0
    assert up["protocols"].keys() == {"other"}
    # The last reply may still be on its way.
    assert result["late"] in (99, 100)


@pytest.mark.needs("ping")
def test_an_interface_that_goes_down_is_named_and_used_again_when_it_is_up(call) -> None:
    result = call("ping_while_the_server_is_down_and_up_again")
    assert result["replies"] == [3, 0, 3]
    assert result["failures"] == [["port0", "Network is down (os error 100)"]]
    assert (result["running"], result["failure"]) == (True, None)
    # Three pings with replies, three without, three with replies.
    assert result["packets"] == 15


@pytest.mark.needs("ping")
def test_pings_without_reply_are_the_recorded_drops(call) -> None:
    lossy = {"loss": {"p": 0.0, "r": 1.0, "h": 0.8, "k": 0.8}}
    options = ["-c", "200", "-i", "0.002", "-W", "1"]
    result = call("ping_in_lab", up=delayed(1, **lossy), down=delayed(1, **lossy), options=options)
    sent, received = map(int, re.findall(r"(\d+) (?:packets transmitted|received)", result["output"]))
    causes = [result["names"]["drop_causes"][code] for code in result["packets"]["drop_cause"] if code >= 0]
    assert sent == 200
    assert sent - received == len(causes)
    assert set(causes) == {"loss"}
    # 1 - 0.8 * 0.8 = 0.36 of 200 is 72; four standard deviations are 27.
    assert 45 <= len(causes) <= 99


@pytest.mark.needs("ping")
def test_a_path_can_change_while_it_runs(call) -> None:
    result = call("ping_before_and_after_a_change")
    late_ms = late_both_ways_ms(result)
    assert 10 <= median(reply_times_ms(result["before"])) <= 13 + late_ms
    assert 40 <= median(reply_times_ms(result["after"])) <= 43 + late_ms


def test_setting_an_unknown_path_says_which_are_known(call) -> None:
    with pytest.raises(LabError, match=r'no path `sideways`; expected one of \["up", "down"\]') as caught:
        call("set_unknown_path")
    assert caught.value.kind == "ValueError"


def test_a_tcp_stream_is_carried_in_packets_and_crosses_in_few_frames(call, tmp_path: Path) -> None:
    seen = call("send_through_tcp", up=delayed(1), pcap=str(tmp_path / "tcp.pcapng"))
    assert (seen["peer"], seen["same"], seen["largest"]) == (ADDRESSES["client"], True, 1500)
    # 1 MB is 691 packets of 1448 bytes, and the kernel takes up to 44 of them as one frame.
    assert seen["arrived"] >= 691
    assert seen["frames"] < seen["arrived"] / 2


def test_a_tcp_stream_loses_single_packets_and_its_capture_has_their_checksums(call, tmp_path: Path) -> None:
    lossy = {"loss": {"p": 0.0, "r": 1.0, "h": 0.97, "k": 0.97}}
    narrow = {"capacity": {"kind": "constant", "bps": 100_000_000}, "queue": {"kind": "packets", "limit": 50}}
    file = tmp_path / "tcp.pcapng"
    seen = call("send_through_tcp", up=delayed(1, **lossy, **narrow), pcap=str(file))
    assert (seen["same"], seen["largest"]) == (True, 1500)
    assert seen["dropped"] > 5
    segments = [frame for frame in frames_of(file.read_bytes()) if frame[23:24] == b"\x06"]
    assert len(segments) > 2 * 691
    for frame in segments:
        header, segment = frame[14:34], frame[34:]
        pseudo = header[12:20] + bytes([0, 6, *len(segment).to_bytes(2, "big")])
        assert ones_complement_sum(header) == ones_complement_sum(pseudo + segment) == 0xFFFF


def test_a_flooded_link_delivers_its_capacity(call) -> None:
    seen = call("flood_for_four_seconds")
    sent, serialisation_s = seen["sent_packets"], PACKET_BYTES * 8 / CAPACITY_BPS
    assert seen["receive_overflows"] == 0
    assert seen["packets"] == sent
    assert seen["delivered_packets"] + seen["dropped_packets"] == sent
    assert seen["kernel_received_packets"] == seen["delivered_packets"]
    # 110 Mbit/s are sent over 100 Mbit/s. After a pause of the machine, the sender catches up with a burst.
    # Then the arrival times in the log determine which packets fit into the queue.
    assert seen["unlike_the_law"] == 0
    # 4 MB are too much, and what the link did not carry while idle; the queue keeps up to 1.25 MB of it.
    too_much = sent - (seen["arrived_in_s"] - seen["idle_s"]) / serialisation_s
    assert too_much - 1043 <= seen["dropped_packets"] <= too_much + 1
    # The sender's clock and the times of written frames are real, and late by at most what was measured.
    late_s = seen["late_ms"] / 1e3
    assert seen["sent_in_s"] == pytest.approx(seen["arrived_in_s"], abs=0.02 + late_s)
    carried_s = seen["delivered_packets"] * serialisation_s
    assert seen["written_in_s"] - seen["idle_s"] == pytest.approx(carried_s, abs=0.005 * carried_s + late_s)
