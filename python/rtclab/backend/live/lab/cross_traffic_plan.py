"""The programs of each flow of live cross traffic, and the port that identifies the flow."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtclab.backend.live.connections import Address, PortFlows
from rtclab.backend.live.lab import tcp_objects as objects
from rtclab.backend.live.lab.kernel_tcp import KERNEL_NAMES
from rtclab.backend.live.messages import Json
from rtclab.trace import NS_PER_S

IP_AND_UDP_HEADER_BYTES = 28
MOST_SECONDS = 86_400
"""The longest that iperf3 transfers."""
PACING_TIMER_US = (100, 1000)
"""Bounds of iperf3's pacing timer: the shortest that costs little CPU, and its default of 1 ms."""


@dataclass(frozen=True)
class TrafficCommand:
    """The program at one end of a flow. ``what`` names it in errors: ``iperf3 (sender of download)``."""

    what: str
    node: str
    command: list[str]
    may_finish: bool = False
    """Whether it ends by itself when it has nothing more to do."""


@dataclass(frozen=True)
class TrafficPlan:
    """The programs of one flow, or of all objects of one table ``[traffic.NAME]``."""

    flow: str
    config: Json
    """The table."""
    address: Address
    """The node and the port that identify the flow."""
    port_flows: PortFlows
    """The flows of the packets from and to ``address``."""
    server_address: str
    """IPv4 address at which the server listens."""
    server_port: int
    server: TrafficCommand
    client: TrafficCommand

    @property
    def sends_objects(self) -> bool:
        """Whether it is a table of objects."""
        return self.config["objects"] is not None


def planned(table: Json, flow: str, port: int, addresses: Mapping[str, str], seed: str) -> TrafficPlan:
    """Plans the programs of a flow of a table ``[traffic.NAME]``, or of its objects.

    A flow of iperf3 is known by the port of its sender, which its control connection does not share. Each
    object has another port there, so objects are known by the port of their receiver.

    Args:
        table: as :meth:`rtclab.scenario.Traffic.native` gives it.
        flow: name of the flow.
        port: port of the server; the next one may be used too.
        addresses: IPv4 address of each node.
        seed: of the sizes of objects and the pauses between them.
    """
    if table["objects"] is not None:
        return _objects(table, flow, port, addresses, seed)
    udp = table.get("udp")
    sender, receiver = table["sender"], table["receiver"]
    server = ["iperf3", "--server", "--one-off", "--json", "--bind", addresses[receiver], "--port", str(port)]
    client = ["iperf3", "--client", addresses[receiver], "--port", str(port), "--cport", str(port + 1)]
    # It is interrupted when it is to stop, because iperf3 counts whole seconds.
    client += ["--json", "--time", str(MOST_SECONDS), *(_udp_options(udp) if udp else _tcp_options(table))]
    return TrafficPlan(
        flow,
        table,
        (sender, port + 1),
        PortFlows(outgoing=flow, protocol="udp") if udp else PortFlows(f"{flow} acks", flow, "tcp"),
        addresses[receiver],
        port,
        TrafficCommand(f"iperf3 (receiver of {flow})", receiver, server),
        TrafficCommand(f"iperf3 (sender of {flow})", sender, client),
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


def _objects(table: Json, flow: str, port: int, addresses: Mapping[str, str], seed: str) -> TrafficPlan:
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
    receive = [*program, "receive", addresses[receiver], str(port), options["congestion_control"]]
    return TrafficPlan(
        flow,
        table,
        (receiver, port),
        PortFlows(flow, f"{flow} acks", "tcp"),
        addresses[receiver],
        port,
        TrafficCommand(f"the receiver of {flow}", receiver, receive),
        TrafficCommand(
            f"the sender of {flow}", sender, [*program, "send", json.dumps(options)], may_finish=True
        ),
    )
