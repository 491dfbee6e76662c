"""Benchmarks the emulator of live calls: its rate, how late its packets are, and what it adds to the kernel.

``make bench`` measures at more than a link of 100 Mbit/s can carry. ``python -m tools.emulator`` compares the
emulator with a pair of veth interfaces without it, and with ``--rattan PROGRAM`` with that emulator; it needs
iperf3.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rtclab.backend.live.lab.link import ADDRESSES, CLIENT, CORE, link_network, start_emulator, stopped
from rtclab.backend.live.lab.namespaces import (
    EMULATOR_THREAD,
    NODE_INTERFACE,
    PREFIX_BITS,
    Emit,
    call_in_node,
    create_namespace,
    node_command,
    run_in_lab,
)
from rtclab.backend.live.messages import Json

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
    _wait_until_quiet(lambda: call_in_node(CORE, received_frames))
    summary = stopped(emulator)
    sink.close()
    return summary, {
        "sent_packets": int(sent_packets),
        "sent_in_s": float(sent_in_s),
        "kernel_received_packets": call_in_node(CORE, received_frames),
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


def received_frames() -> int:
    """How many frames the interface of the node received in whose namespace this runs."""
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


# --- beside the kernel ------------------------------------------------------------------------------

PROBE_INTERVAL_S = 0.001
PROBE_PORT = 7
# A packet every millisecond, with the time at which it was sent.
PROBE = """
import socket, sys, time
address, port, count, interval_s = sys.argv[1], *map(int, sys.argv[2:4]), float(sys.argv[4])
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.connect((address, port))
due = time.monotonic()
for _ in range(count):
    due += interval_s
    time.sleep(max(0, due - time.monotonic()))
    sender.send(time.clock_gettime_ns(time.CLOCK_REALTIME).to_bytes(8, "big") + bytes(92))
"""
# The kernel notes when it received a packet, so the receiver may be late.
RECEIVE = """
import socket, struct, sys
port, count, patience_s = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
SO_TIMESTAMPNS = 35
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
receiver.settimeout(patience_s)
receiver.bind(("", port))
print("ready", flush=True)
delays_ns = []
try:
    for _ in range(count):
        data, [(_, _, stamp)], *_ = receiver.recvmsg(200, 64)
        s, ns = struct.unpack("qq", stamp)
        delays_ns.append(10**9 * s + ns - int.from_bytes(data[:8], "big"))
except TimeoutError:
    pass
print(*delays_ns)
"""
PROBE_PATIENCE_S = 3.0
IPERF_START_S = 1.0
UNLIMITED = 0


@dataclass(frozen=True)
class Carrier:
    """What connects two ends: how commands run there, the address of the core, and CPU time so far."""

    client: list[str]
    core: list[str]
    address: str
    cpu_s: Callable[[], float]


def compare_with_kernel(
    carrier: str, *, load_bps: int = UNLIMITED, delay_ms: float = 0.0, s: float = 10.0
) -> Json:
    """Sends TCP and probes through a carrier.

    Args:
        carrier: ``emulator``; ``veth``, which is the kernel alone; or the path of the program ``rattan``.
        load_bps: rate of the TCP; ``UNLIMITED`` is as fast as it goes.
        delay_ms: delay each way; of ``veth`` none.
        s: how long the TCP sends.

    Returns ``bps`` of the TCP; ``added_ms``, quantiles of the probes' one-way delay less ``delay_ms``; and
    ``core_share``, the CPU time of the emulator's thread, or of all threads of rattan, as a share of a core.
    """
    argument = {"carrier": carrier, "load": load_bps, "delay_ms": delay_ms, "s": s}
    return run_in_lab("tools.emulator:carried", argument)


def carried(argument: Json, _emit: Emit) -> Json:
    """The part of :func:`compare_with_kernel` that runs in the lab."""
    connect = {"veth": _veth, "emulator": _emulator}.get(argument["carrier"], _rattan)
    with connect(argument) as ends:
        begin, cpu_before_s = time.monotonic(), ends.cpu_s()
        server = subprocess.Popen([*ends.core, "iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
        time.sleep(IPERF_START_S)
        rate = ["-b", str(argument["load"])] if argument["load"] else []
        options = ["-J", "-c", ends.address, "-t", str(argument["s"] + IPERF_START_S), *rate]
        client = subprocess.Popen([*ends.client, "iperf3", *options], stdout=subprocess.PIPE, text=True)
        time.sleep(IPERF_START_S)
        delays_ms = _probed_ms(ends, round(0.9 * argument["s"] / PROBE_INTERVAL_S))
        report = json.loads(client.communicate()[0])
        server.wait()
        core_share = (ends.cpu_s() - cpu_before_s) / (time.monotonic() - begin)
    added = np.quantile(delays_ms, [0.5, 0.99, 0.999]) - argument["delay_ms"]
    return {
        "bps": report["end"]["sum_received"]["bits_per_second"],
        "added_ms": dict(zip(("p50", "p99", "p99.9"), added.tolist(), strict=True)),
        "core_share": core_share,
    }


@contextlib.contextmanager
def _emulator(argument: Json) -> Iterator[Carrier]:
    path: Json = {"delay": {"kind": "constant", "ns": round(argument["delay_ms"] * 1e6)}}
    emulator = start_emulator(link_network(path, path, seed=1))
    yield Carrier(node_command(CLIENT, []), node_command(CORE, []), ADDRESSES[CORE], _emulator_cpu_s)
    stopped(emulator)


@contextlib.contextmanager
def _veth(_argument: Json) -> Iterator[Carrier]:
    for name in (CLIENT, CORE):
        create_namespace(name)
    client, core = node_command(CLIENT, []), node_command(CORE, [])
    peer = ["type", "veth", "peer", "name", NODE_INTERFACE, "netns", CORE]
    subprocess.run([*client, "ip", "link", "add", NODE_INTERFACE, *peer], check=True)
    for name, prefix in ((CLIENT, client), (CORE, core)):
        address = f"{ADDRESSES[name]}/{PREFIX_BITS}"
        subprocess.run([*prefix, "ip", "address", "add", address, "dev", NODE_INTERFACE], check=True)
        subprocess.run([*prefix, "ip", "link", "set", NODE_INTERFACE, "up"], check=True)
    yield Carrier(client, core, ADDRESSES[CORE], lambda: 0.0)


@contextlib.contextmanager
def _rattan(argument: Json) -> Iterator[Carrier]:
    """Rattan runs a command in a namespace of its own, and the far end is the namespace that it runs in."""
    delay = f"{argument['delay_ms']:g}ms"
    delays = ["--uplink-delay", delay, "--downlink-delay", delay] if argument["delay_ms"] else []
    # It says its name and the far end's address to the command, which stays until its input ends.
    command = ["sh", "-c", "echo ns-left-$RATTAN_ID $RATTAN_BASE; cat"]
    with subprocess.Popen(
        [argument["carrier"], "link", *delays, "--left-stdout", "--", *command],
        env=os.environ | {"HOME": "/run", "XDG_CACHE_HOME": "/run"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        name, address = next(line for line in process.stdout if line.startswith("ns-left-")).split()
        yield Carrier(node_command(name, []), [], address, lambda: _cpu_s(Path(f"/proc/{process.pid}")))
        process.stdin.close()


def _probed_ms(ends: Carrier, count: int) -> list[float]:
    """One-way delays of packets from the client to the core."""
    receive = [sys.executable, "-c", RECEIVE, str(PROBE_PORT), str(count), str(PROBE_PATIENCE_S)]
    receiver = subprocess.Popen([*ends.core, *receive], stdout=subprocess.PIPE, text=True)
    assert receiver.stdout is not None
    receiver.stdout.readline()
    send = [ends.address, str(PROBE_PORT), str(count), str(PROBE_INTERVAL_S)]
    subprocess.run([*ends.client, sys.executable, "-c", PROBE, *send], check=True)
    return [int(delay) / 1e6 for delay in receiver.communicate()[0].split()]


def _emulator_cpu_s() -> float:
    """CPU time of the emulator's thread in this process so far."""
    spent_s = 0.0
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # the thread has ended meanwhile
            if (task / "comm").read_text().strip() == EMULATOR_THREAD:
                spent_s += _cpu_s(task)
    return spent_s


def _cpu_s(task: Path) -> float:
    """CPU time of a process or thread so far."""
    _, fields = (task / "stat").read_text().rsplit(")", 1)
    return sum(map(int, fields.split()[11:13])) / os.sysconf("SC_CLK_TCK")  # utime, stime of proc_pid_stat(5)


def main() -> None:
    """Prints a table of what carries, and what it adds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rattan", metavar="PROGRAM", help="measure this emulator of others too")
    carriers = ["veth", "emulator", *filter(None, [parser.parse_args().rattan])]
    loads_bps = [UNLIMITED, 10**8, 10**9, 5 * 10**9]
    cases = [(carrier, bps, 0.0) for bps in loads_bps for carrier in carriers]
    cases += [(carrier, 10**8, 300.0) for carrier in carriers[1:]]
    print("| TCP sent | carrier | Gbit/s | added p50, p99, p99.9 (ms) | of a core |")
    print("|---|---|---|---|---|")
    for carrier, load_bps, delay_ms in cases:
        found = compare_with_kernel(carrier, load_bps=load_bps, delay_ms=delay_ms)
        sent = f"{load_bps / 1e9:g} Gbit/s" if load_bps else "as fast as it goes"
        cells = [
            f"{sent}, {delay_ms:g} ms each way" if delay_ms else sent,
            Path(carrier).name,
            f"{found['bps'] / 1e9:.2f}",
            ", ".join(f"{ms:.3f}" for ms in found["added_ms"].values()),
            f"{100 * found['core_share']:.0f} %" if carrier != "veth" else "",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
