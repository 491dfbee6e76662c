"""NAT: a participant's browser in a network of its own, behind its node.

The node keeps its address on the emulated side and becomes the router. A second namespace, joined to it by a
veth pair, is where the browser runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rtclab.backend.live.lab.namespaces import (
    MTU_BYTES,
    NODE_INTERFACE,
    Node,
    call_in_node,
    create_namespace,
    node_command,
    set_up_interface,
)
from rtclab.errors import SEE_DOCTOR, BackendUnavailable

NatKind = Literal["port-restricted", "symmetric", "udp-blocked"]

UDP_BLOCKED: NatKind = "udp-blocked"
LAN_INTERFACE = "lan0"
SYSTEM_PROGRAMS = "/usr/sbin:/sbin"
"""Where Debian has ``nft``. These directories are not in the ``PATH`` of ordinary users."""

MASQUERADE = {
    "port-restricted": "masquerade",
    "symmetric": "masquerade fully-random",
    UDP_BLOCKED: "masquerade",
}
"""Rule of nftables by kind of NAT. Linux lets packets in only from the address and port that the mapping
was made for. ``masquerade`` keeps the inner port if it can, so that all destinations see the same one: a
port-restricted cone (RFC 3489, section 5). With ``fully-random`` each destination sees another port."""

# The router drops unsolicited packets. Without the second table, a packet that arrives before the browser
# has sent to its source would be delivered to the router. The router would answer with ICMP, and the
# conntrack entry would occupy the port. The browser would get another port, and hole punching would fail.
RULES = """
table ip nat {{
    chain postrouting {{
        type nat hook postrouting priority srcnat;
        oifname "{outside}" {masquerade}
    }}
}}
table ip filter {{
    chain input {{
        type filter hook input priority filter;
        iifname "{outside}" ct state new,invalid,untracked drop
    }}
{forward}}}
"""
RESOLVER = "10.0.2.3"
"""Address of the resolver of live calls with hosts outside (man 1 slirp4netns)."""
DNS_PORT = 53
# A firewall that blocks UDP has a resolver on its own side.
BLOCK_UDP = f"""\
    chain forward {{
        type filter hook forward priority filter;
        ip daddr {RESOLVER} udp dport {DNS_PORT} accept
        ip saddr {RESOLVER} udp sport {DNS_PORT} accept
        meta l4proto udp drop
    }}
"""


@dataclass(frozen=True)
class NatNamespace:
    """The place behind a NAT."""

    name: str
    """Namespace, for ``node_command``, ``call_in_node`` and ``listen_in_node``."""
    address: str
    """Its IPv4 address, which only the NAT's node can reach."""


def put_behind_nat(node: Node, kind: NatKind) -> NatNamespace:
    """Makes a node the NAT of a new namespace, whose packets leave with the node's address.

    It may be called while an event loop runs.

    Raises:
        BackendUnavailable: ``nft`` is not installed, or the kernel refused the rules.
    """
    # Each network has its own addresses, which differ from all others.
    network = f"192.168.{node.address.rpartition('.')[2]}"
    router, behind = f"{network}.1", NatNamespace(f"{node.name}.lan", f"{network}.2")
    create_namespace(behind.name)
    call_in_node(node.name, lambda: _join(behind.name))
    set_up_interface(node.name, LAN_INTERFACE, router)
    set_up_interface(behind.name, NODE_INTERFACE, behind.address)
    call_in_node(behind.name, lambda: route_through(router))
    load_rules(node.name, nft_rules(kind), f"a {kind} NAT")
    forward_packets(node.name)
    return behind


def find_nft() -> str | None:
    """Path of ``nft``, None if it is not installed."""
    return shutil.which("nft", path=f"{os.environ.get('PATH', os.defpath)}:{SYSTEM_PROGRAMS}")


def nft_rules(kind: NatKind) -> str:
    """The rules of a NAT, as ``nft`` reads them."""
    forward = BLOCK_UDP if kind == UDP_BLOCKED else ""
    return RULES.format(outside=NODE_INTERFACE, masquerade=MASQUERADE[kind], forward=forward)


def _join(namespace: str) -> None:
    from pyroute2 import IPRoute

    with IPRoute() as here:
        peer = {"ifname": NODE_INTERFACE, "net_ns_fd": namespace}
        here.link("add", ifname=LAN_INTERFACE, kind="veth", mtu=MTU_BYTES, peer=peer)


def route_through(router: str) -> None:
    """Adds a default route to the network namespace of the calling thread."""
    from pyroute2 import IPRoute

    with IPRoute() as here:
        here.route("add", dst="default", gateway=router)


def forward_packets(name: str) -> None:
    """Makes namespace ``name`` a router."""
    call_in_node(name, lambda: Path("/proc/sys/net/ipv4/ip_forward").write_text("1"))


def load_rules(name: str, rules: str, whose: str) -> None:
    """Loads rules of nftables in namespace ``name``. Errors say ``whose`` they are.

    Raises:
        BackendUnavailable: ``nft`` is not installed, or the kernel refused the rules.
    """
    nft = find_nft()
    if nft is None:
        raise BackendUnavailable("`nft`, which makes NATs, is not installed", hint=SEE_DOCTOR)
    command = node_command(name, [nft, "--file", "-"])
    done = subprocess.run(command, input=rules, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BackendUnavailable(
            f"the kernel refused the rules of {whose}: {done.stderr.strip()}",
            hint="use a kernel with CONFIG_NF_TABLES, CONFIG_NFT_NAT and CONFIG_NFT_MASQ",
        )
