"""Cross traffic without a call, in a lab: what `test_cross_traffic.py` runs inside."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from subprocess import Popen
from typing import Any

from rtclab._native import Emulator
from rtclab.backend.live.lab.cross_traffic import CrossTraffic
from rtclab.backend.live.lab.namespaces import Emit, create_nodes, node_command
from rtclab.backend.live.messages import Json


def session(argument: Json, _emit: Emit) -> Json:
    """Runs `traffic` over `network` until the last of it stops, or until it fails."""
    names = argument["network"]["nodes"]
    nodes = create_nodes({name: f"10.77.0.{index + 1}" for index, name in enumerate(names)})
    config = {
        **argument["network"],
        "seed": 1,
        "ports": [node.port() for node in nodes],
        "pcap": argument["pcap"],
    }
    addresses = {node.name: node.address for node in nodes}
    return asyncio.run(_session(argument, addresses, config))


async def _session(argument: Json, addresses: dict[str, str], config: Json) -> Json:
    failed = asyncio.get_running_loop().create_future()
    started: list[Popen[bytes]] = []

    def fail(reason: str) -> None:
        failed.cancelled() or failed.done() or failed.set_result(reason)

    def spawn(node: str, command: list[str], **options: Any) -> Popen[bytes]:
        started.append(Popen(node_command(node, command), **options))
        return started[-1]

    traffic = CrossTraffic(argument["traffic"], addresses, spawn, Path("/run/traffic"), fail, seed=7)
    await traffic.prepare()
    emulator = Emulator(json.dumps(config))
    emulator.start()

    async def sleep_until(at_ns: int) -> None:
        await asyncio.sleep(max(0, at_ns - emulator.now_ns()) / 1e9)

    async def kill_later() -> None:
        await sleep_until(argument["kill_at_ns"])
        os.kill(started[-1].pid, signal.SIGKILL)

    work = asyncio.ensure_future(traffic.run(sleep_until))
    killer = asyncio.ensure_future(kill_later()) if argument.get("kill_at_ns") else None
    await asyncio.wait({work, failed}, return_when=asyncio.FIRST_COMPLETED)
    ran_until_ns = emulator.now_ns()
    if killer is not None:
        await killer
    await asyncio.sleep(0.5)  # the queue drains
    said = await traffic.stop()
    summary = emulator.stop()
    work.cancel()
    return {
        "said": said,
        "failed": failed.result() if failed.done() else None,
        "ran_until_ns": ran_until_ns,
        "lateness": summary["lateness"],
        "port_flows": [[*address, vars(flows)] for address, flows in traffic.port_flows().items()],
    }
