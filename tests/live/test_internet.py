"""Hosts outside the laboratory, which :mod:`small_internet` makes. Nothing leaves the real machine."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import psutil
import pytest
from parts import BROWSERS, LAB
from small_internet import HTTP, MACHINE, NAME, STUN, UDP, WORLD, make_machine, resolved

from rtclab import monitoring
from rtclab._native import Emulator
from rtclab.backend.live import LiveBackend
from rtclab.backend.live.lab.internet import GATEWAY, PROGRAM, connect_internet, is_connected, user_space_nat
from rtclab.backend.live.lab.namespaces import Node, call_in_node, create_nodes, node_command, run_in_lab
from rtclab.backend.live.lab.nat import RESOLVER, put_behind_nat
from rtclab.scenario import Scenario
from rtclab.trace import Trace

pytestmark = [pytest.mark.live, pytest.mark.needs(*LAB, "nft", "slirp4netns", "ping")]

UP_MS, DOWN_MS = 30, 20
UP_BPS, DOWN_BPS = 2_000_000, 4_000_000
SLACK_MS = 20
"""What a busy machine adds to the quickest of several answers."""
SILENCE_S = 0.5
ENDS_WITHIN_S = 10.0
BYTES_DOWN, BYTES_UP = 500_000, 250_000
PAGE = HTTP + 1
"""Port of ``stranger.py`` in the world."""
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
def get(host, path, data=None):
    urllib.request.urlopen(f"http://{{host}}:{HTTP}/{{path}}", data, timeout=30).read()
"""
CALL = f"""
name = "outside"
duration = "6 s"
internet = true
link.up.delay = "{UP_MS} ms"
link.down.delay = "{DOWN_MS} ms"
video = {{{{ width = 320, height = 240 }}}}
participants.alice = {{{{ page = "{{page}}", browser.name = "{{browser}}" }}}}
"""


# --- run in the machine, and in its laboratory ----------------------------------------------------


def machine(argument: dict[str, Any], _emit: Any) -> dict[str, Any]:
    make_machine()
    with user_space_nat() as attach:
        on_start = attach if argument["internet"] else None
        return run_in_lab(
            f"test_internet:{argument['inside']}",
            argument,
            on_start=on_start,
            on_event=lambda _: programs()[0].kill(),
        )


def laboratory(argument: dict[str, Any]) -> tuple[Emulator, dict[str, Node]]:
    """Emulator and nodes of ``SCENARIO``."""
    path = Path("/run/outside.toml")
    path.write_text(SCENARIO)
    scenario = Scenario.load(path, {"internet": argument["internet"]}, trust=True)
    network: Any = scenario.network()
    nodes = create_nodes({name: f"10.77.0.{index + 1}" for index, name in enumerate(network["nodes"])})
    if argument["internet"]:
        connect_internet(nodes[-1], nodes)
    ports = [node.port(gateway=node.name == "internet") for node in nodes]
    emulator = Emulator(json.dumps({**network, "seed": 1, "packet_log": True, "ports": ports}))
    emulator.start()
    return emulator, {node.name: node for node in nodes}


def timed(node: str, expression: str) -> Any:
    """The value of a Python expression in a node; see ``TIMED``."""
    code = f"{TIMED}\nprint(json.dumps({expression}))"
    done = subprocess.run(
        node_command(node, [sys.executable, "-c", code]), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def attempt(node: str, host: str, port: int, *, udp: bool = False) -> str:
    """The result of a request to a port: ``answered``, or the error."""

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
    emulator, _ = laboratory(argument)
    found = {
        node: {
            "connect_s": timed(node, "min(timed(connect) for _ in range(5))"),
            "ask_s": timed(node, "min(timed(ask) for _ in range(5))"),
        }
        for node in ("alice", "core")
    }
    down_s = timed("alice", f"timed(lambda: get('{NAME}', {BYTES_DOWN}))")
    up_s = timed("alice", f"timed(lambda: get('{NAME}', '', bytes({BYTES_UP})))")
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
        "down_bps": 8 * BYTES_DOWN / down_s,
        "up_bps": 8 * BYTES_UP / up_s,
        "stun": said,
        "packets": both | {"elsewhere": elsewhere},
    }


def guard(argument: dict[str, Any], _emit: Any) -> dict[str, Any]:
    emulator, nodes = laboratory(argument)
    talks = {
        f"{kind} {host}": attempt("alice", host, port, udp=kind == "udp")
        for host in (WORLD, GATEWAY, RESOLVER, "10.77.0.99")
        for kind, port in (("tcp", HTTP), ("udp", UDP))
    }
    one = call_in_node("alice", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    one.settimeout(SILENCE_S)
    seen = []
    for _ in range(2):
        one.sendto(b"hello", (WORLD, UDP))
        seen.append(one.recv(100).decode())
        timed("core", f"timed(lambda: get('{WORLD}', 'poke/{seen[-1]}'))")
        try:
            seen.append(one.recv(100).decode())
        except TimeoutError:
            seen.append("silence")
    blocked = put_behind_nat(nodes["bob"], "udp-blocked").name
    resolved = timed(blocked, f"timed(lambda: get('{NAME}', 1)) < 10")
    udp = attempt(blocked, WORLD, UDP, udp=True)
    emulator.stop()
    return {"talks": talks, "seen": seen, "blocked": {"resolved": resolved, "udp": udp}}


def closed(argument: dict[str, Any], _emit: Any) -> dict[str, Any]:
    emulator, nodes = laboratory(argument)
    talks = [attempt("alice", WORLD, HTTP), attempt("alice", WORLD, UDP, udp=True)]
    ping = node_command("alice", ["ping", "-c1", "-W5", nodes["bob"].address])
    neighbour = subprocess.run(ping, stdout=subprocess.DEVNULL)
    emulator.stop()
    return {"talks": talks, "neighbour": neighbour.returncode}


def disconnected(argument: dict[str, Any], emit: Any) -> dict[str, Any]:
    emulator, nodes = laboratory(argument)
    before = is_connected(nodes["internet"])
    emit({"kill": PROGRAM})
    deadline_s = time.monotonic() + ENDS_WITHIN_S
    while is_connected(nodes["internet"]) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    emulator.stop()
    return {"connected": [before, is_connected(nodes["internet"])]}


def programs() -> list[psutil.Process]:
    """The processes of slirp4netns in the machine that run. Nobody waits for orphans there."""
    found = (one for one in psutil.process_iter(["name", "status"]) if one.info["name"] == PROGRAM)
    return [one for one in found if one.info["status"] != psutil.STATUS_ZOMBIE]


def idle(_argument: dict[str, Any], _emit: Any) -> dict[str, Any]:
    time.sleep(600)
    return {}


def kill_caller(_argument: dict[str, Any], _emit: Any) -> dict[str, Any]:
    """Kills a process that has connected a lab with the outside. It runs in the machine."""
    make_machine()
    code = """
from rtclab.backend.live.lab.internet import user_space_nat
from rtclab.backend.live.lab.namespaces import run_in_lab
with user_space_nat() as attach:
    run_in_lab("test_internet:idle", {}, on_start=attach)
"""
    caller = subprocess.Popen([sys.executable, "-c", code])
    found = [wait_until(lambda: bool(programs()))]
    caller.kill()
    caller.wait()
    return {"ran": [*found, not wait_until(lambda: not programs())]}


def wait_until(condition: Callable[[], bool]) -> bool:
    deadline_s = time.monotonic() + ENDS_WITHIN_S
    while not condition() and time.monotonic() < deadline_s:
        time.sleep(0.05)
    return condition()


def call(argument: dict[str, Any], _emit: Any) -> dict[str, Any]:
    """A call of a browser with a server in the world. It runs in the machine."""
    make_machine()
    server = [str(Path(__file__).with_name("stranger.py")), WORLD, str(PAGE), str(STUN)]
    stranger = subprocess.Popen(
        node_command("world", [sys.executable, *server]), stdout=subprocess.PIPE, text=True
    )
    assert stranger.stdout is not None
    assert stranger.stdout.readline() == "listening\n"
    file, out = Path(argument["folder"]) / "outside.toml", Path(argument["folder"]) / "trace"
    out.mkdir()
    page = f"http://{NAME}:{PAGE}/"
    file.write_text(CALL.format(page=page, browser=argument["browser"]))
    scenario, backend = Scenario.load(file, trust=True), LiveBackend()
    backend.check(scenario)
    backend.run(scenario, seed=1, repeat=0, out=out)
    stranger.terminate()
    return {"candidates": stranger.stdout.read().split(), "resolved": sorted(resolved)}


# --- tests ----------------------------------------------------------------------------------------


def test_packets_to_and_from_the_outside_cross_the_link(in_lab) -> None:
    found = in_lab("machine", internet=True, inside="reach")
    for times in (found["alice"]["connect_s"], found["alice"]["ask_s"]):
        assert UP_MS + DOWN_MS <= 1000 * times < UP_MS + DOWN_MS + SLACK_MS
    for times in (found["core"]["connect_s"], found["core"]["ask_s"]):
        assert 0 < 1000 * times < SLACK_MS
    # Connecting, resolving the name and slow start take their time.
    assert 0.3 * DOWN_BPS < found["down_bps"] < DOWN_BPS
    assert 0.3 * UP_BPS < found["up_bps"] < UP_BPS
    assert f"UDP reflexive addr: {MACHINE}:" in found["stun"]
    # A busy machine acknowledges many segments with one packet, so only the data count.
    assert found["packets"]["there"] > BYTES_UP // 1500
    assert found["packets"]["back"] > BYTES_DOWN // 1500
    assert found["packets"]["elsewhere"] == 0


def test_neither_side_reaches_what_it_should_not(in_lab) -> None:
    found = in_lab("machine", internet=True, inside="guard")
    assert found["talks"].pop(f"tcp {WORLD}") == found["talks"].pop(f"udp {WORLD}") == "answered"
    assert set(found["talks"].values()) == {"TimeoutError"}
    # The world sent a packet from another port to the port that it saw.
    port = found["seen"][0]
    assert port.isdigit()
    assert found["seen"] == [port, "silence"] * 2
    assert found["blocked"] == {"resolved": True, "udp": "TimeoutError"}


def test_without_internet_nothing_gets_out(in_lab) -> None:
    found = in_lab("machine", internet=False, inside="closed")
    assert found == {"talks": ["Network is unreachable"] * 2, "neighbour": 0}


def test_the_end_of_the_program_is_noticed(in_lab) -> None:
    assert in_lab("machine", internet=True, inside="disconnected") == {"connected": [True, False]}


def test_the_program_ends_when_its_caller_is_killed(in_lab) -> None:
    assert in_lab("kill_caller") == {"ran": [True, False]}


@pytest.mark.parametrize("browser", BROWSERS)
def test_a_page_from_outside_calls_a_server_outside(in_lab, tmp_path, browser) -> None:
    found = in_lab("call", folder=str(tmp_path), browser=browser)
    assert found["candidates"] == ["candidates:", "host", "srflx"]
    # The browser asks for nothing but the page. Chromium also asks for the page's HTTPS record (RFC 9460).
    assert {name for name in found["resolved"] if not name.endswith(NAME)} == set()
    trace = Trace(tmp_path / "trace")
    assert set(trace.manifest.flows) == {"alice->internet", "internet->alice"}
    packets = trace.table("packets")
    media = packets.filter(pl.col("delivered_ns").is_not_null(), protocol="rtp")
    for flow, delay_ms in (("alice->internet", UP_MS), ("internet->alice", DOWN_MS)):
        there = media.filter(flow=flow)
        delays_ms = (there["delivered_ns"] - there["sent_ns"]) / 1e6
        assert there.height > 50
        assert delay_ms <= delays_ms.min() < delay_ms + SLACK_MS
    counts = dict(packets.group_by("protocol").len().iter_rows())
    # One packet, such as the first of padding, does not yet prove a stream of RTP.
    assert counts.pop("other", 0) <= 1
    assert set(counts) == {"rtp", "rtcp", "stun", "dtls"}
    captured = monitoring.monitor(tmp_path / "trace" / "capture.pcapng", packets=True)["packets"]
    assert "internet" in captured["interface"].unique().to_list()
