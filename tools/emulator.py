"""Benchmarks the emulator of live calls: its rate and how late its packets are, at more than it can carry."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from rtclab.backend.live.connections import Json
from rtclab.backend.live.lab.link import ADDRESSES, CLIENT, CORE, link_network, start_emulator, stopped
from rtclab.backend.live.lab.namespaces import NODE_INTERFACE, Emit, call_in_node, node_command, run_in_lab

CAPACITY_BPS = 100_000_000
OFFERED_BPS = 110_000_000
PACKET_BYTES = 1200
IP_AND_UDP_HEADER_BYTES = 28
QUEUE_NS = 100_000_000
DELAY_NS = 25_000_000
WARM_UP_S = 1.0
QUIET_S = 0.2
"""Longer than the queue and the delay of the benchmark together."""
BLAST_PORT = 9  # discard, RFC 863
# Sends what is due every millisecond, in bursts of 11 packets that the link spreads out again.
BLAST = """
import socket, sys, time
address, (port, payload_bytes), (packets_per_s, duration_s) = (
    sys.argv[1], map(int, sys.argv[2:4]), map(float, sys.argv[4:6])
)
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.connect((address, port))
payload = bytes(payload_bytes)
begin, sent = time.monotonic(), 0
while (elapsed := time.monotonic() - begin) < duration_s:
    for _ in range(1 + int(elapsed * packets_per_s) - sent):
        sender.send(payload)
        sent += 1
        last = time.monotonic()
    time.sleep(0.001)
print(sent, last - begin)
"""


def bench_emulator(duration_s: float = 10.0, aqm: str | None = None) -> dict[str, float]:
    """Sends 110 Mbit/s of 1200-byte packets over a link of 100 Mbit/s and 25 ms, and returns figures.

    The queue is drop-tail, or has a discipline such as ``dualpi2`` with its defaults.

    ``delivered_rate_error`` is relative to the configured capacity, over frames written after the first
    second. ``added_delay_*`` is the real minus the logical departure time.
    """
    return run_in_lab("tools.emulator:bench_session", {"duration_s": duration_s, "aqm": aqm})


def bench_session(argument: Json, _emit: Emit) -> Json:
    """The part of :func:`bench_emulator` that runs in the lab."""
    summary, counts = flood(argument["duration_s"], argument["aqm"])
    return _bench_figures(summary) | counts


def flood(duration_s: float, aqm: str | None = None) -> tuple[Json, Json]:
    """Sends the flood, in the lab. Returns the emulator's summary and the counts of sender and receiver."""
    path = {
        "capacity": {"kind": "constant", "bps": CAPACITY_BPS},
        "queue": {"kind": "time", "limit": QUEUE_NS},
        "delay": {"kind": "constant", "ns": DELAY_NS},
        **({} if aqm is None else {"aqm": {"kind": aqm}}),
    }
    emulator = start_emulator({**link_network(path, path, seed=1), "packet_log": True})
    packets_per_s = OFFERED_BPS / 8 / PACKET_BYTES
    payload_bytes = PACKET_BYTES - IP_AND_UDP_HEADER_BYTES
    numbers = [BLAST_PORT, payload_bytes, packets_per_s, duration_s]
    blast = [sys.executable, "-c", BLAST, ADDRESSES[CORE], *map(str, numbers)]
    # Without a sink, the node would answer every packet with an ICMP error.
    sink = call_in_node(CORE, _udp_sink)
    # Like a browser, it runs in a separate session, which the kernel schedules separately (autogroup).
    blasted = subprocess.run(
        node_command(CLIENT, blast), capture_output=True, text=True, check=True, start_new_session=True
    )
    sent_packets, sent_in_s = blasted.stdout.split()
    _wait_until_quiet(lambda: call_in_node(CORE, _received_frames))
    summary = stopped(emulator)
    sink.close()
    return summary, {
        "sent_packets": int(sent_packets),
        "sent_in_s": float(sent_in_s),
        "kernel_received_packets": call_in_node(CORE, _received_frames),
    }


def _wait_until_quiet(count: Callable[[], int]) -> None:
    """Waits until the packets in flight have arrived: no new packet for longer than queue and delay."""
    before = -1
    while (now := count()) != before:
        before = now
        time.sleep(QUIET_S)


def _udp_sink() -> socket.socket:
    sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.bind((ADDRESSES[CORE], BLAST_PORT))
    return sink


def _received_frames() -> int:
    for line in Path("/proc/thread-self/net/dev").read_text().splitlines():
        name, _, values = line.partition(":")
        if name.strip() == NODE_INTERFACE:
            return int(values.split()[1])
    raise LookupError(f"no interface {NODE_INTERFACE}")


def _bench_figures(summary: Json) -> Json:
    packets, late = summary["packets"], summary["lateness"]
    mine = packets["from"] == summary["names"]["nodes"].index(CLIENT)
    written_ns = packets["written_ns"][mine & (packets["written_ns"] >= 0)]
    last_sent_ns = packets["sent_ns"][mine].max()
    warm_ns = packets["sent_ns"][mine].min() + WARM_UP_S * 1e9
    steady = written_ns[(written_ns > warm_ns) & (written_ns < last_sent_ns)]
    rate_bps = (len(steady) - 1) * PACKET_BYTES * 8 / ((steady[-1] - steady[0]) / 1e9)
    return {
        "capacity_bps": CAPACITY_BPS,
        "delivered_bps": rate_bps,
        "delivered_rate_error": rate_bps / CAPACITY_BPS - 1,
        "added_delay_p50_ms": late["p50_ns"] / 1e6,
        "added_delay_p99_ms": late["p99_ns"] / 1e6,
        "added_delay_max_ms": late["max_ns"] / 1e6,
        "packets": int(np.sum(mine)),
        "delivered_packets": len(written_ns),
        "dropped_packets": int(np.sum(mine & (packets["dropped_ns"] >= 0))),
        "receive_overflows": summary["counters"]["receive_overflows"],
    }
