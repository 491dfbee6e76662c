"""Hosts outside the laboratory. The tests make them: nothing leaves the machine.

A first lab is the machine of a user: it has services at its loopback addresses, and a link to a namespace
``world``. A second lab in it is the laboratory.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from rtclab._native import Emulator
from rtclab.backend.live.internet import connect_internet, user_space_nat
from rtclab.backend.live.namespaces import (
    call_in_node,
    create_namespace,
    create_nodes,
    node_command,
    run_in_lab,
    set_up_interface,
)
from rtclab.scenario import Scenario

pytestmark = pytest.mark.live

MACHINE, WORLD = "203.0.113.2", "203.0.113.1"


def outer(argument, emit):
    from pyroute2 import IPRoute
    create_namespace("world")
    with IPRoute() as here:
        here.link("add", ifname="uplink", kind="veth", peer={"ifname": "eth0", "net_ns_fd": "world"})
    set_up_interface("world", "eth0", WORLD)
    with IPRoute() as here:
        index = here.link_lookup(ifname="uplink")[0]
        here.addr("add", index=index, address=MACHINE, prefixlen=24)
        here.link("set", index=index, state="up")
        here.route("add", dst="default", gateway=WORLD)
    Path("/run/machine-resolv.conf").write_text(f"nameserver {WORLD}\n")
    subprocess.run(["mount", "--bind", "/run/machine-resolv.conf", "/etc/resolv.conf"], check=True)
    iperf = subprocess.Popen(node_command("world", ["iperf3", "-s"]), stdout=subprocess.DEVNULL)
    def tcp_echo():
        s = call_in_node("world", lambda: socket.create_server((WORLD, 8080)))
        while True:
            c, a = s.accept()
            c.sendall(b"hello %s" % str(a).encode()); c.close()
    def udp_echo():
        def make():
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((WORLD, 9000)); return s
        s = call_in_node("world", make)
        while True:
            d, a = s.recvfrom(2000); s.sendto(str(a).encode(), a)
    for f in (tcp_echo, udp_echo):
        threading.Thread(target=f, daemon=True).start()
    with user_space_nat() as attach:
        return run_in_lab("test_internet:inner", argument, on_start=attach)


CLIENT = """
import socket, time, sys
for _ in range(3):
    t = time.monotonic(); s = socket.create_connection(("203.0.113.1", 8080), 5); d = time.monotonic() - t
    print("tcp", d, s.recv(100)); s.close()
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.settimeout(3)
for _ in range(5):
    t = time.monotonic(); u.sendto(b"x", ("203.0.113.1", 9000)); print("udp", u.recv(100), time.monotonic() - t)
"""

def inner(argument, emit):
    nodes = create_nodes({name: f"10.77.0.{i+1}" for i, name in enumerate(("core", "alice", "internet"))})
    internet = nodes[-1]
    connect_internet(internet, nodes)
    paths = [{"name": "up", "delay": {"kind": "constant", "ns": 30_000_000}}, {"name": "down", "delay": {"kind": "constant", "ns": 20_000_000}}, {"name": "no"}]
    routes = [{"from": "alice", "to": "internet", "paths": ["up"]}, {"from": "internet", "to": "alice", "paths": ["down"]},
     {"from": "core", "to": "internet", "paths": ["no"]}, {"from": "internet", "to": "core", "paths": ["no"]}]
    emulator = Emulator(json.dumps({"nodes": [n.name for n in nodes], "paths": paths, "routes": routes, "seed": 1, "pcap": None, "ports": [n.port(gateway=n is internet) for n in nodes]}))
    emulator.start()
    out = {}
    for name in ("core", "alice"):
        out[name] = subprocess.run(node_command(name, [sys.executable, "-c", CLIENT]), capture_output=True, text=True)
        out[name] = out[name].stdout + out[name].stderr[-300:]
    subprocess.run(node_command("internet", ["nft", "flush", "chain", "ip", "filter", "input"]))
    subprocess.run(node_command("internet", ["nft", "add", "rule", "ip", "filter", "input", "accept"]))
    for what in (["-t", "4"], ["-t", "4", "-R"], ["-u", "-b", "20M", "-t", "4"], ["-u", "-b", "200M", "-t", "4"], ["-u", "-b", "20M", "-t", "4", "-R"], ["-u", "-b", "200M", "-t", "4", "-R"]):
      for node in ("core", "internet"):
        r = subprocess.run(node_command(node, ["iperf3", "-J", "-c", WORLD, *what]), capture_output=True, text=True)
        e = json.loads(r.stdout).get("end", {})
        if not e: out[f"{node} {what}"] = r.stdout; continue
        s = e.get("sum_received") or e.get("sum") or r.stdout[:300]
        out[f"iperf {node} {what}"] = [round(s["bits_per_second"] / 1e6), s.get("lost_percent"), e.get("cpu_utilization_percent", {}).get("host_total")]
    out["ping"] = subprocess.run(node_command("core", [sys.executable, "-c", CLIENT]), capture_output=True, text=True).stdout
    out["counters"] = emulator.stop()["counters"]
    return out


def test_prototype(in_lab):
    print(json.dumps(in_lab("outer"), indent=1))
