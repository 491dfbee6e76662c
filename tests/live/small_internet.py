"""A machine with a world outside, both made of namespaces, so that nothing leaves the real machine.

A first lab is the machine of a user. It has services at its loopback address, among them its resolver, and a
link to a namespace ``world`` with servers. Laboratories of rtclab run in it.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import AF_INET, SOCK_DGRAM, socket
from typing import Any

from rtclab.backend.live.lab.namespaces import call_in_node, create_namespace, node_command, set_up_interface

MACHINE, WORLD = "203.0.113.2", "203.0.113.1"
LOOPBACK = "127.0.0.1"
NAME = "world.test"
"""A name that the machine's resolver knows."""
HTTP, UDP, STUN, DNS = 8080, 9000, 3478, 53
"""Ports in the world. The machine has HTTP and UDP at its loopback address too."""

resolved: set[str] = set()
"""Names that were asked of the resolver."""


def make_machine() -> None:
    """Turns the lab of the calling process into the machine.

    The HTTP server in the world has N bytes at ``/N``. At ``/poke/PORT`` it sends a packet from another UDP
    port to a port of the machine. The UDP server answers with the port from which it was asked.
    """
    _link_to_world()
    there = call_in_node("world", lambda: _http(WORLD))
    for serve in (
        there.serve_forever,
        _http(LOOPBACK).serve_forever,
        _echo(call_in_node("world", lambda: _udp(WORLD, UDP))),
        _echo(_udp(LOOPBACK, UDP)),
        _resolver(_udp(LOOPBACK, DNS)),
    ):
        threading.Thread(target=serve, daemon=True).start()
    stun = ["turnserver", "-n", "--stun-only", "--no-tls", "--no-dtls", "--no-cli", "--log-file=stdout"]
    stun += [f"--listening-ip={WORLD}", f"--listening-port={STUN}"]
    subprocess.Popen(node_command("world", stun), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    resolv = Path("/run/resolv.conf")
    resolv.write_text(f"nameserver {LOOPBACK}\n")
    subprocess.run(["mount", "--bind", str(resolv), str(Path("/etc/resolv.conf").resolve())], check=True)


def _link_to_world() -> None:
    from pyroute2 import IPRoute

    create_namespace("world")
    with IPRoute() as here:
        here.link("add", ifname="uplink", kind="veth", peer={"ifname": "eth0", "net_ns_fd": "world"})
        index = here.link_lookup(ifname="uplink")[0]
        here.addr("add", index=index, address=MACHINE, prefixlen=24)
        here.link("set", index=index, state="up")
        here.route("add", dst="default", gateway=WORLD)
    set_up_interface("world", "eth0", WORLD)


def _http(address: str) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            first, *rest = self.path.strip("/").split("/")
            if first == "poke":
                other = call_in_node("world", lambda: _udp(WORLD, 0))
                other.sendto(b"from outside", (MACHINE, int(rest[0])))
            self._send(bytes(int(first)) if first.isdigit() else b"")

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self._send(b"")

        def _send(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    return ThreadingHTTPServer((address, HTTP), Handler)


def _udp(address: str, port: int) -> socket:
    one = socket(AF_INET, SOCK_DGRAM)
    one.bind((address, port))
    return one


def _echo(at: socket) -> Callable[[], None]:
    """Answers each packet with the port from which it came."""

    def serve() -> None:
        while True:
            source = at.recvfrom(2000)[1]
            at.sendto(str(source[1]).encode(), source)

    return serve


def _name(labels: bytes) -> str:
    """A name from its labels, each behind its length."""
    if not labels:
        return ""
    end = labels[0] + 1
    return ".".join(filter(None, (labels[1:end].decode(), _name(labels[end:]))))


def _resolver(at: socket) -> Callable[[], None]:
    """A DNS server (RFC 1035) that gives ``NAME`` the address ``WORLD``, and knows nothing else."""
    question = b"".join(bytes([len(part)]) + part.encode() for part in NAME.split(".")) + b"\0"
    record = bytes.fromhex("c00c 0001 0001 0000003c 0004") + bytes(map(int, WORLD.split(".")))

    def serve() -> None:
        while True:
            asked, source = at.recvfrom(2000)
            end = asked.index(b"\0", 12) + 5
            resolved.add(_name(asked[12 : end - 5]))
            known = asked[12:].startswith(question)
            found = known and asked[end - 4 : end - 2] == b"\0\1"
            header = asked[:2] + (b"\x81\x80" if known else b"\x81\x83") + b"\0\1"
            answers = b"\0\1" if found else b"\0\0"
            at.sendto(header + answers + b"\0\0\0\0" + asked[12:end] + record * found, source)

    return serve
