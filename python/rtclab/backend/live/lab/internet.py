"""The hosts outside the laboratory, behind the node ``internet``. IPv4 only.

slirp4netns translates between a TAP interface of that node and sockets of this machine, as an ordinary user.
It runs outside the lab, because the lab has no network but its own. Like a home router, the node lets packets
in only from addresses to which a packet has left, so nobody outside can begin a conversation.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rtclab.backend.live.lab.namespaces import NODE_INTERFACE, PREFIX_BITS, Node, call_in_node
from rtclab.backend.live.lab.nat import DNS_PORT, RESOLVER, forward_packets, load_rules, route_through
from rtclab.errors import SEE_DOCTOR, BackendUnavailable, LaboratoryFailed

PROGRAM = "slirp4netns"
TUN_DEVICE = Path("/dev/net/tun")
TAP_INTERFACE = "tap0"

# The addresses of slirp4netns: man 1 slirp4netns.
NETWORK = "10.0.2.0/24"
GATEWAY = "10.0.2.2"
OWN_ADDRESS = "10.0.2.100"

START_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 5.0
POLL_INTERVAL_S = 0.02

# The addresses of slirp4netns stand for this machine, its resolver for one that may be a loopback address. So
# only DNS may go there. Its library refuses the rest too, but old versions do not.
RULES = f"""
table ip nat {{
    chain postrouting {{
        type nat hook postrouting priority srcnat;
        oifname "{TAP_INTERFACE}" masquerade
    }}
}}
table ip filter {{
    chain input {{
        type filter hook input priority filter; policy drop;
    }}
    chain forward {{
        type filter hook forward priority filter; policy drop;
        iifname "{TAP_INTERFACE}" oifname "{NODE_INTERFACE}" ct state established,related accept
        iifname != "{NODE_INTERFACE}" drop
        oifname != "{TAP_INTERFACE}" drop
        ip daddr {RESOLVER} meta l4proto {{ tcp, udp }} th dport {DNS_PORT} accept
        ip daddr {NETWORK} drop
        accept
    }}
}}
"""


# --- outside the lab ------------------------------------------------------------------------------


@contextmanager
def user_space_nat() -> Iterator[Callable[[int], None]]:
    """Yields a function that connects a lab, by the id of its process, with the network of this process.

    The lab gets the interface ``TAP_INTERFACE``. The connection ends with the context, or with this process.
    The function raises ``BackendUnavailable`` if slirp4netns is not installed or does not start.
    """
    with ExitStack() as running:
        yield lambda lab: running.enter_context(_attached(lab))


@contextmanager
def _attached(lab: int) -> Iterator[None]:
    # It ends when the other end of `alive` is closed, even if this process is killed.
    (alive, alive_here), (ready_here, ready) = os.pipe(), os.pipe()
    with tempfile.TemporaryFile() as output:
        command = [
            PROGRAM, "--disable-host-loopback", "--enable-sandbox", "--enable-seccomp",
            f"--exit-fd={alive}", f"--ready-fd={ready}", str(lab), TAP_INTERFACE,
        ]  # fmt: skip
        try:
            process = subprocess.Popen(
                command,
                pass_fds=[alive, ready],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        except FileNotFoundError:
            os.close(alive_here)
            os.close(ready_here)
            raise BackendUnavailable(f"`{PROGRAM}` is not installed", hint=SEE_DOCTOR) from None
        finally:
            os.close(alive)
            os.close(ready)
        try:
            is_ready = select.select([ready_here], [], [], START_TIMEOUT_S)[0] and os.read(ready_here, 1)
            if not is_ready:
                output.seek(0)
                said = output.read().decode(errors="replace").strip()
                raise BackendUnavailable(
                    f"`{PROGRAM}`, which connects live calls with the hosts outside, did not start: {said}",
                    hint=f"check that you may read and write {TUN_DEVICE}",
                )
            yield
        finally:
            os.close(alive_here)
            os.close(ready_here)
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


# --- in the lab -----------------------------------------------------------------------------------


def connect_internet(gateway: Node, nodes: list[Node]) -> None:
    """Connects a node with the hosts outside, through which all other nodes then reach them.

    Raises:
        LaboratoryFailed: the lab has not got its interface in time.
        BackendUnavailable: ``nft`` is not installed, or the kernel refused the rules.
    """
    load_rules(gateway.name, RULES, "the node of the hosts outside")
    _wait_for_interface()
    _take_interface(gateway.name)
    call_in_node(gateway.name, lambda: route_through(GATEWAY))
    forward_packets(gateway.name)
    for node in nodes:
        if node != gateway:
            call_in_node(node.name, lambda: route_through(gateway.address))
    _use_resolver()


def is_connected(gateway: Node) -> bool:
    """Whether slirp4netns still serves the node. Its interface disappears when it ends."""
    return call_in_node(gateway.name, lambda: _exists(TAP_INTERFACE))


def _wait_for_interface() -> None:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while not _exists(TAP_INTERFACE):
        if time.monotonic() > deadline_s:
            raise LaboratoryFailed(f"`{PROGRAM}` made no interface within {START_TIMEOUT_S:g} s")
        time.sleep(POLL_INTERVAL_S)


def _take_interface(name: str) -> None:
    """Moves the interface from the lab to namespace ``name`` and brings it up."""
    from pyroute2 import IPRoute

    def set_up() -> None:
        with IPRoute() as here:
            index = here.link_lookup(ifname=TAP_INTERFACE)[0]
            here.addr("add", index=index, address=OWN_ADDRESS, prefixlen=PREFIX_BITS)
            here.link("set", index=index, state="up")

    with IPRoute() as lab:
        lab.link("set", index=lab.link_lookup(ifname=TAP_INTERFACE)[0], net_ns_fd=name)
    call_in_node(name, set_up)


def _exists(interface: str) -> bool:
    return any(name == interface for _, name in socket.if_nameindex())


def _use_resolver() -> None:
    """Replaces ``/etc/resolv.conf`` in the lab's mount namespace."""
    shown, own = Path("/etc/resolv.conf"), Path("/run/resolv.conf")
    own.write_text(f"nameserver {RESOLVER}\n")
    # It is often a link to a file in /run, which is empty in the lab.
    target = shown.resolve()
    if target.is_relative_to("/run"):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    if target.exists():
        subprocess.run(["mount", "--bind", str(own), str(target)], check=True)
