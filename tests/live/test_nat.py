"""The two kinds of NAT, seen from sockets on both sides."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from parts import LAB
from small_network import connect

from rtclab.backend.live.lab.namespaces import Node, call_in_node
from rtclab.backend.live.lab.nat import NatKind, NatNamespace, put_behind_nat

pytestmark = [pytest.mark.live, pytest.mark.needs(*LAB, "nft")]

INNER_PORT = 6000
REPLY_TIMEOUT_S = 10.0
"""How long to wait for a packet that must come, even on a busy machine."""
SILENCE_S = 0.5
"""Long enough for a packet whose answer takes 2 ms."""


# --- run inside the lab ------------------------------------------------------------------------------


@contextmanager
def network(kind: NatKind) -> Iterator[tuple[dict[str, Node], NatNamespace]]:
    nodes, emulator = connect("inside", "a", "b")
    yield nodes, behind_nat(nodes["inside"], kind)
    emulator.stop()


def behind_nat(node: Node, kind: NatKind) -> NatNamespace:
    async def while_an_event_loop_runs() -> NatNamespace:
        return put_behind_nat(node, kind)

    return asyncio.run(while_an_event_loop_runs())


def udp(name: str, address: str, port: int = 0) -> socket.socket:
    """A UDP socket in a namespace."""

    def bound() -> socket.socket:
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        one.bind((address, port))
        one.settimeout(REPLY_TIMEOUT_S)
        return one

    return call_in_node(name, bound)


def seen_from(sender: socket.socket, receiver: socket.socket) -> tuple[str, int]:
    """The address and port from which a packet of ``sender`` arrives."""
    sender.sendto(b"hello", receiver.getsockname())
    source: tuple[str, int] = receiver.recvfrom(100)[1]
    return source


def arrives(
    sender: socket.socket, at: tuple[str, int], receiver: socket.socket, within_s: float = SILENCE_S
) -> bool:
    """Whether a packet gets through. An error of either socket, such as by ICMP, is raised."""
    receiver.settimeout(within_s)
    sender.sendto(b"from outside", at)
    try:
        return receiver.recv(100) == b"from outside"
    except TimeoutError:
        return False


def mappings(argument: dict[str, Any], _emit: Any) -> dict[str, Any]:
    with network(argument["kind"]) as (nodes, behind):
        inner = udp(behind.name, behind.address, INNER_PORT)
        a, a2 = udp("a", nodes["a"].address), udp("a", nodes["a"].address)
        b = udp("b", nodes["b"].address)
        seen = {"a": seen_from(inner, a), "a2": seen_from(inner, a2), "b": seen_from(inner, b)}
        again = seen_from(inner, a)
        a.sendto(b"reply", again)
        reply = inner.recvfrom(100)
        return {"seen": seen, "again": again, "reply_from_a": reply[1] == a.getsockname()}


def filtering(argument: dict[str, Any], _emit: Any) -> dict[str, Any]:
    with network(argument["kind"]) as (nodes, behind):
        inner = udp(behind.name, behind.address, INNER_PORT)
        a, a2, b = (udp(name, nodes[name].address) for name in ("a", "a", "b"))
        mapped = seen_from(inner, a)
        # ICMP makes the next call fail, but of connected sockets only.
        for other in (a2, b):
            other.connect(mapped)
            other.settimeout(SILENCE_S)
        result = {
            "from_the_destination": arrives(a, mapped, inner, REPLY_TIMEOUT_S),
            "from_another_port": arrives(a2, mapped, inner),
            "from_another_address": arrives(b, mapped, inner),
        }
        return result | {"answers": [answer(a2), answer(b)]}


def answer(connected: socket.socket) -> str:
    """The result at a connected socket: nothing, a packet, or an error by ICMP."""
    try:
        return repr(connected.recv(100))
    except TimeoutError:
        return "nothing"
    except OSError as error:
        return type(error).__name__


def hole_punched_from_outside_first(argument: dict[str, Any], _emit: Any) -> dict[str, Any]:
    with network(argument["kind"]) as (nodes, behind):
        inner, a, b = (
            udp(behind.name, behind.address, INNER_PORT),
            udp("a", nodes["a"].address),
            udp("b", nodes["b"].address),
        )
        mapped = seen_from(inner, a)
        early = arrives(b, mapped, inner)  # b gets the mapping that a saw
        inner.settimeout(REPLY_TIMEOUT_S)
        return {
            "early": early,
            "mapped": mapped,
            "seen_by_b": seen_from(inner, b),
            "late": arrives(b, mapped, inner, REPLY_TIMEOUT_S),
        }


def both_behind(argument: dict[str, Any], _emit: Any) -> dict[str, Any]:
    nodes, emulator = connect("core", "left", "right")
    kinds = argument["kinds"]
    ends = []
    for name, kind in zip(("left", "right"), kinds, strict=True):
        behind = behind_nat(nodes[name], kind)
        ends.append(udp(behind.name, behind.address, INNER_PORT))
    server = udp("core", nodes["core"].address)
    left, right = ends
    at_left, at_right = seen_from(left, server), seen_from(right, server)
    arrives(left, at_right, right)
    arrives(right, at_left, left)
    within_s = REPLY_TIMEOUT_S if argument["through"] else SILENCE_S
    through = arrives(left, at_right, right, within_s) and arrives(right, at_left, left, within_s)
    emulator.stop()
    return {"through": through}


# --- tests -------------------------------------------------------------------------------------------


def test_behind_a_port_restricted_nat_all_destinations_see_one_address_and_port(in_lab) -> None:
    result = in_lab("mappings", kind="port-restricted")
    assert set(map(tuple, result["seen"].values())) == {("10.77.0.1", INNER_PORT)}
    assert result["again"] == result["seen"]["a"]
    assert result["reply_from_a"]


def test_behind_a_symmetric_nat_each_destination_sees_another_port_and_always_the_same(in_lab) -> None:
    result = in_lab("mappings", kind="symmetric")
    addresses, ports = zip(*result["seen"].values(), strict=True)
    assert set(addresses) == {"10.77.0.1"}
    assert len({*ports, INNER_PORT}) == 4
    assert result["again"] == result["seen"]["a"]
    assert result["reply_from_a"]


@pytest.mark.parametrize("kind", ["port-restricted", "symmetric"])
def test_only_the_destination_s_own_address_and_port_may_answer_and_others_hear_nothing(in_lab, kind) -> None:
    assert in_lab("filtering", kind=kind) == {
        "from_the_destination": True,
        "from_another_port": False,
        "from_another_address": False,
        "answers": ["nothing", "nothing"],
    }


def test_a_packet_that_came_too_early_does_not_spoil_the_hole(in_lab) -> None:
    result = in_lab("hole_punched_from_outside_first", kind="port-restricted")
    assert not result["early"]
    assert result["seen_by_b"] == result["mapped"]
    assert result["late"]


@pytest.mark.parametrize(
    ("kinds", "through"),
    [
        (("port-restricted", "port-restricted"), True),
        (("port-restricted", "symmetric"), False),
        (("symmetric", "symmetric"), False),
    ],
)
def test_two_nats_can_be_punched_unless_one_is_symmetric(in_lab, kinds, through) -> None:
    assert in_lab("both_behind", kinds=kinds, through=through) == {"through": through}
