"""A network for tests inside a lab: every node reaches every other over one path."""

from __future__ import annotations

import json
from itertools import permutations

from rtclab._native import Emulator
from rtclab.backend.live.lab.namespaces import Node, create_nodes

DELAY_NS = 1_000_000
"""One way, between any two nodes."""


def connect(*names: str) -> tuple[dict[str, Node], Emulator]:
    """Creates nodes at 10.77.0.1 and following, and starts the emulator between them."""
    nodes = create_nodes({name: f"10.77.0.{index + 1}" for index, name in enumerate(names)})
    network = {
        "nodes": list(names),
        "paths": [{"name": "path", "delay": {"kind": "constant", "ns": DELAY_NS}}],
        "routes": [{"from": a, "to": b, "paths": ["path"]} for a, b in permutations(names, 2)],
        "seed": 1,
        "pcap": None,
        "ports": [node.port() for node in nodes],
    }
    emulator = Emulator(json.dumps(network))
    emulator.start()
    return {node.name: node for node in nodes}, emulator
