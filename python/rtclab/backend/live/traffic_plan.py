"""What runs for each flow of live cross traffic: the commands at both ends, and the port that tells it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from rtclab.backend.live import objects
from rtclab.backend.live.namespaces import Json
from rtclab.backend.live.program import Program
from rtclab.backend.live.tcp import KERNEL_NAMES

IP_AND_UDP_HEADER_BYTES = 28
NS_PER_S = 10**9
MOST_SECONDS = 86_400
"""The longest that iperf3 transfers."""
PACING_TIMER_US = (100, 1000)
"""Bounds of iperf3's timer, which it looks at the clock with: its default of 1 ms, and what costs little."""


@dataclass(frozen=True)
class FlowPort:
    """A port that tells a flow from all others."""

    transport: str
    """``tcp`` or ``udp``."""
    node: str
    port: int
    outgoing: str | None
    """Flow of the packets that leave this port; None if they belong to no flow."""
    incoming: str | None
    """Flow of the packets that arrive at this port."""


def flow_of(
    ports: Iterable[FlowPort], transport: str, source: tuple[str, int], destination: tuple[str, int]
) -> str | None:
    """The flow of a packet between two pairs of node and port; None if it belongs to no cross traffic."""
    for port in ports:
        if transport == port.transport and (port.node, port.port) == source:
            return port.outgoing
        if transport == port.transport and (port.node, port.port) == destination:
            return port.incoming
    return None


@dataclass
class Run:
    """The programs of one flow, or of all objects of one table."""

    flow: str
    config: Json
    port: FlowPort
    server_port: int
    server: Program
    client: Program
    pipe: IO[bytes] | None = field(default=None, repr=False)
    """Standard input of a sender of objects, which waits for a line."""

    @property
    def sends_objects(self) -> bool:
        return self.config["objects"] is not None

    @property
    def programs(self) -> tuple[Program, Program]:
        return self.server, self.client


def planned(table: Json, flow: str, port: int, addresses: Mapping[str, str], home: Path, seed: str) -> Run:
    if table["objects"] is not None:
        return _objects(table, flow, port, addresses, home, seed)
    udp = table.get("udp")
    sender, receiver = table["sender"], table["receiver"]
    server = ["iperf3", "--server", "--one-off", "--json", "--bind", addresses[receiver], "--port", str(port)]
    client = [
        "iperf3",
        "--client",
        addresses[receiver],
        "--port",
        str(port),
        "--cport",
        str(port + 1),
        "--json",
    ]
    # It is interrupted when it is to stop, because iperf3 counts whole seconds.
    client += ["--time", str(MOST_SECONDS), *(_udp_options(udp) if udp else _tcp_options(table))]
    acks = None if udp else f"{flow} acks"
    return Run(
        flow,
        table,
        FlowPort("udp" if udp else "tcp", sender, port + 1, outgoing=flow, incoming=acks),
        port,
        Program(f"iperf3 (receiver of {flow})", receiver, server, home / f"{flow}-receiver.json"),
        Program(f"iperf3 (sender of {flow})", sender, client, home / f"{flow}-sender.json"),
    )


def _tcp_options(table: Json) -> list[str]:
    return ["--congestion", KERNEL_NAMES[table["congestion_control"]]]


def _udp_options(udp: Json) -> list[str]:
    """iperf3 counts payload, scenarios count IP packets.

    iperf3 sends everything that is due whenever its timer fires. A timer of at most an interval between two
    packets makes no bursts; each packet is late by up to a period of the timer.
    """
    payload = udp["packet_bytes"] - IP_AND_UDP_HEADER_BYTES
    rate = round(udp["rate_bps"] * payload / udp["packet_bytes"])
    interval_us = udp["packet_bytes"] * 8 * 10**6 // udp["rate_bps"]
    timer_us = min(max(interval_us, PACING_TIMER_US[0]), PACING_TIMER_US[1])
    return ["--udp", "--bitrate", str(rate), "--length", str(payload), "--pacing-timer", str(timer_us)]


def _objects(table: Json, flow: str, port: int, addresses: Mapping[str, str], home: Path, seed: str) -> Run:
    own, sender, receiver = table["objects"], table["sender"], table["receiver"]
    options: dict[str, Any] = {
        "address": addresses[receiver],
        "port": port,
        "congestion_control": KERNEL_NAMES[table["congestion_control"]],
        "connections": table["connections"],
        "min_bytes": own["min_bytes"],
        "max_bytes": own["max_bytes"],
        "mean_idle_s": own["mean_idle_ns"] / NS_PER_S,
        "idle_first": own["idle_first"],
        "duration_s": (table["stop_ns"] - table["start_ns"]) / NS_PER_S,
        "seed": seed,
    }
    # Not as a module: the package would take longer to import than the programs need to start.
    program = [sys.executable, "-I", str(Path(objects.__file__))]
    receive = [*program, "receive", addresses[receiver], str(port)]
    return Run(
        flow,
        table,
        FlowPort("tcp", receiver, port, outgoing=f"{flow} acks", incoming=flow),
        port,
        Program(f"the receiver of {flow}", receiver, receive, home / f"{flow}-receiver.json"),
        Program(
            f"the sender of {flow}",
            sender,
            [*program, "send", json.dumps(options)],
            home / f"{flow}-sender.json",
            may_finish=True,
        ),
    )
