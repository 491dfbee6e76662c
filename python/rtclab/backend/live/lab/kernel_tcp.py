"""The kernel's TCP through the emulator, for comparison with the simulator's TCP."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from rtclab.backend.live.lab.link import (
    ADDRESSES,
    CLIENT,
    CORE,
    link_network,
    start_emulator,
    stopped,
    wait_until_listening,
)
from rtclab.backend.live.lab.namespaces import Emit, call_in_node, node_command, run_in_lab
from rtclab.backend.live.messages import Json
from rtclab.errors import RtclabError

KERNEL_NAMES = {"newreno": "reno", "cubic": "cubic", "bbr": "bbr", "dctcp": "dctcp", "prague": "prague"}
"""Linux's names of the simulator's TCP congestion controls. Only the Linux of the L4S team has Prague."""
SERVER = ["iperf3", "--server", "--one-off"]
SESSION = "rtclab.backend.live.lab.kernel_tcp:tcp_session"


def kernel_congestion_controls() -> set[str]:
    """The simulator's TCP congestion controls that this kernel has too."""
    known = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    return {ours for ours, name in KERNEL_NAMES.items() if name in known}


def request_ecn(node: str) -> None:
    """Lets every TCP connection that a node opens from now on ask for classic ECN.

    Its far end accepts it: that is Linux's default.
    """
    call_in_node(node, lambda: Path("/proc/sys/net/ipv4/tcp_ecn").write_text("1"))


def kernel_tcp(
    up: Json, down: Json, congestion_control: str, flows: int, duration_s: float, *, ecn: bool = False
) -> Json:
    """Runs bulk transfers by iperf3 over ``up``, with acknowledgements over ``down``.

    With ``ecn`` its connections ask for classic ECN.

    Returns:
        ``sent_ns``, ``delivered_ns`` (-1: dropped) and ``size_bytes`` of the packets on ``up``;
        ``flow_bytes``, the bytes received of each flow; and ``lateness`` of the emulator.

    Raises:
        RtclabError: iperf3 failed.
    """
    network = link_network(up, down, seed=1)
    command = ["--congestion", KERNEL_NAMES[congestion_control], "--parallel", str(flows)]
    command += ["--time", f"{duration_s:g}"]
    return run_in_lab(SESSION, {"network": network, "options": command, "ecn": ecn})


def tcp_session(argument: Json, _emit: Emit) -> Json:
    """The part of :func:`kernel_tcp` that runs in the lab."""
    emulator = start_emulator({**argument["network"], "packet_log": True})
    if argument["ecn"]:
        request_ecn(CLIENT)
    server = subprocess.Popen(node_command(CORE, SERVER), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    wait_until_listening(server, " ".join(SERVER))
    client = ["iperf3", "--client", ADDRESSES[CORE], "--json", *argument["options"]]
    done = subprocess.run(node_command(CLIENT, client), capture_output=True, text=True, check=False)
    summary, said = stopped(emulator), json.loads(done.stdout)
    if "error" in said:
        raise RtclabError(f"iperf3: {said['error']}")
    return {
        **_sent_by_client(summary),
        "flow_bytes": [stream["receiver"]["bytes"] for stream in said["end"]["streams"]],
        "lateness": summary["lateness"],
    }


def _sent_by_client(summary: Json) -> dict[str, Any]:
    packets = summary["packets"]
    up = np.asarray(packets["from"]) == summary["names"]["nodes"].index(CLIENT)
    return {name: packets[name][up].tolist() for name in ("sent_ns", "delivered_ns", "size_bytes")}
