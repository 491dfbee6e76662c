"""Hosts outside the laboratory, which :mod:`small_internet` makes. Nothing leaves the real machine."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from live_tests import cannot_tell
from small_internet import HTTP, MACHINE, NAME, STUN, UDP, WORLD, make_machine, requests, resolved

from rtclab._native import Emulator
from rtclab.backend.live.doctor import what_is_missing
from rtclab.backend.live.internet import GATEWAY, PROGRAM, RESOLVER, connect_internet, user_space_nat
from rtclab.backend.live.namespaces import call_in_node, create_nodes, node_command, run_in_lab
from rtclab.scenario import Scenario
from rtclab import monitor
from rtclab.backend.live import LiveBackend
from rtclab.trace import Trace

pytestmark = pytest.mark.live

UP_MS, DOWN_MS = 30, 20
UP_BPS, DOWN_BPS = 2_000_000, 4_000_000
SLACK_MS = 20
"""What a busy machine adds to the quickest of several answers."""
SILENCE_S = 0.5
SCENARIO = f"""
name = "outside"
duration = "20 s"
link.up = {{ delay = "{UP_MS} ms", capacity = "{UP_BPS // 1000} kbit/s" }}
link.down = {{ delay = "{DOWN_MS} ms", capacity = "{DOWN_BPS // 1000} kbit/s" }}
video = {{}}
participants = {{ alice = {{}}, bob = {{}} }}
"""
TIMED = f"""
import json, socket, time, urllib.request
def timed(function):
    begin = time.monotonic()
    function()
    return time.monotonic() - begin
def connect():
    socket.create_connection(("{WORLD}", {HTTP}), 10).close()
def ask():
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.settimeout(5)
    one.sendto(b"hello", ("{WORLD}", {UDP}))
    one.recv(100)
"""


@pytest.fixture(scope="module", autouse=True)
def _program() -> None:
    if missing := what_is_missing(internet=True):
        cannot_tell("; ".join(f"{check.name}: {check.detail}" for check in missing))


# --- run in the machine, and in its laboratory ----------------------------------------------------


def machine(argument: dict[str, Any], _emit: Any) -> dict[str, Any]:
    make_machine()
    with user_space_nat() as attach:
        on_start = attach if argument["internet"] else None
        return run_in_lab(f"test_internet:{argument['inside']}", argument, on_start=on_start)


def laboratory(argument: dict[str, Any]) -> Emulator:
    """Nodes and emulator of ``SCENARIO``."""
    path = Path("/run/outside.toml")
    path.write_text(SCENARIO)
    scenario = Scenario.load(path, {"internet": argument["internet"]})
    network: Any = scenario.network()
    nodes = create_nodes({name: f"10.77.0.{index + 1}" for index, name in enumerate(network["nodes"])})
    if argument["internet"]:
        connect_internet(nodes[-1], nodes)
    ports = [node.port(gateway=node.name == "internet") for node in nodes]
    emulator = Emulator(json.dumps({**network, "seed": 1, "pcap": None, "ports": ports}))
    emulator.start()
    return emulator


def timed(node: str, expression: str) -> Any:
    """The value of a Python expression in a node; see ``TIMED``."""
    code = f"{TIMED}\nprint(json.dumps({expression}))"
    done = subprocess.run(
        node_command(node, [sys.executable, "-c", code]), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def attempt(node: str, host: str, port: int, *, udp: bool = False) -> str:
    """What comes of talking to a port: ``answered``, or the error."""

    def talk() -> str:
        kind = socket.SOCK_DGRAM if udp else socket.SOCK_STREAM
        with socket.socket(socket.AF_INET, kind) as one:
            one.settimeout(2 * SILENCE_S)
            try:
                one.connect((host, port))
                one.send(b"GET /1 HTTP/1.0\r\n\r\n")
                one.recv(100)
            except OSError as error:
                return type(error).__name__ if error.errno is None else os.strerror(error.errno)
            return "answered"

    return call_in_node(node, talk)


def reach(argument: dict[str, Any], _emit: Any) -> dict[str, Any]:
    emulator = laboratory(argument)
    bytes_down, bytes_up = 500_000, 250_000
    found = {
        node: {
            "connect_s": timed(node, "min(timed(connect) for _ in range(5))"),
            "ask_s": timed(node, "min(timed(ask) for _ in range(5))"),
        }
        for node in ("alice", "core")
    }
    url = f"http://{NAME}:{HTTP}"
    down_s = timed("alice", f"timed(lambda: urllib.request.urlopen('{url}/{bytes_down}').read())")
    up_s = timed("alice", f"timed(lambda: urllib.request.urlopen('{url}/', bytes({bytes_up})).read())")
    stun = ["turnutils_stunclient", "-p", str(STUN), WORLD]
    said = subprocess.run(node_command("alice", stun), capture_output=True, text=True, timeout=30).stdout
    summary = emulator.stop()
    packets, names = summary["packets"], summary["names"]["nodes"]
    outside, alice, core = map(names.index, ("internet", "alice", "core"))
    both = {
        way: int(((packets["from"] == a) & (packets["to"] == b)).sum())
        for way, a, b in (("there", alice, outside), ("back", outside, alice))
    }
    elsewhere = int(((packets["from"] == alice) & (packets["to"] == core)).sum())
    return found | {
        "down_bps": 8 * bytes_down / down_s,
        "up_bps": 8 * bytes_up / up_s,
        "stun": said,
        "packets": both | {"elsewhere": elsewhere},
    }


def guard(argument: dict[str, Any], _emit: Any) -> dict[str, Any]:
    emulator = laboratory(argument)
    talks = {
        f"{kind} {host}": attempt("alice", host, port, udp=kind == "udp")
        for host in (WORLD, GATEWAY, RESOLVER, "10.77.0.99")
        for kind, port in (("tcp", HTTP), ("udp", UDP))
    }
    listening = call_in_node("alice", lambda: socket.create_server(("0.0.0.0", 7000)))
    one = call_in_node("alice", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    one.settimeout(SILENCE_S)
    seen = []
    for _ in range(2):
        one.sendto(b"hello", (WORLD, UDP))
        seen.append(one.recvfrom(100)[0].decode())
        timed("core", f"timed(lambda: urllib.request.urlopen('http://{WORLD}:{HTTP}/poke/{seen[-1]}').read())")
        try:
            seen.append(one.recv(100).decode())
        except TimeoutError:
            seen.append("silence")
    emulator.stop()
    listening.close()
    return {"talks": talks, "seen": seen}


def alone(argument: dict[str, Any], _emit: Any) -> dict[str, Any]:
    emulator = laboratory(argument)
    talks = [attempt("alice", host, port, udp=udp) for host, port, udp in ((WORLD, HTTP, False), (WORLD, UDP, True))]
    neighbour = subprocess.run(node_command("alice", ["ping", "-c1", "-W5", "10.77.0.2"]), stdout=subprocess.DEVNULL)
    resolver = Path("/etc/resolv.conf").read_text()
    emulator.stop()
    return {"talks": talks, "neighbour": neighbour.returncode, "resolver": resolver}


def call(argument: dict[str, Any], _emit: Any) -> dict[str, Any]:
    """A call of a browser with a server in the world. It runs in the machine."""
    make_machine()
    port = HTTP + 1
    server = [sys.executable, str(Path(__file__).with_name("stranger.py")), WORLD, str(port), str(STUN)]
    stranger = subprocess.Popen(node_command("world", server), stdout=subprocess.PIPE, text=True)
    out = Path(argument["out"])
    path = out / "outside.toml"
    path.write_text(
        f"{SCENARIO.partition('video')[0]}internet = true\n[video]\nwidth = 320\nheight = 240\n"
        f"[participants.alice]\npage = 'http://{NAME}:{port}/'\nbrowser.name = '{argument['browser']}'"
    )
    scenario = Scenario.load(path, {"duration": "8 s"})
    backend = LiveBackend()
    backend.check(scenario)
    (out / "trace").mkdir()
    backend.run(scenario, seed=1, repeat=0, out=out / "trace")
    stranger.terminate()
    assert stranger.stdout is not None
    return {"said": stranger.stdout.read(), "resolved": sorted(resolved)}


# --- tests ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("browser", ["chromium", "firefox"])
def test_call(in_lab, tmp_path, browser):
    print(in_lab("call", out=str(tmp_path), browser=browser))
    trace = Trace(tmp_path / "trace")
    print(trace.manifest.flows, trace.manifest.notes, trace.manifest.emulator)
    packets = trace.table("packets")
    import polars as pl
    print(packets.group_by("flow", "protocol", "kind").agg(pl.len(), pl.col("size_bytes").sum(), ((pl.col("delivered_ns")-pl.col("sent_ns")).min()/1e6)))
    print(trace.table("events"))
    m = monitor.watch(tmp_path / "trace/capture.pcapng", packets=True)["packets"]
    print(m.columns)
    print(m.filter(pl.col("direction")=="inbound").group_by(pl.col("source").str.replace(r":\d+$", ""), pl.col("destination").str.replace(r":\d+$", "")).agg(pl.len(), pl.col("size_bytes").sum()))


def test_prototype(in_lab):
    print(json.dumps(in_lab("machine", internet=True, inside="reach"), indent=1))
    print(json.dumps(in_lab("machine", internet=True, inside="guard"), indent=1))
    print(json.dumps(in_lab("machine", internet=False, inside="alone"), indent=1))
