"""Invitations: a browser on the network, such as a phone's, takes the seat of a participant.

This is the part outside the lab. It opens the sockets at which the lab serves the seats, and tells the user
where they are. Nothing else of a live call listens outside the lab.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import StringIO
from typing import Any, Self

from rtclab.errors import BadInput
from rtclab.terminal import below, visible

WAIT_S = 300.0
"""How long a run waits for its seats to be taken, by default."""
PORT_TRIES = 20


@dataclass(frozen=True)
class Invitation:
    """Where a browser finds the seat of a participant: an IPv4 address and a port of this machine.

    The same number is used for TCP (the page) and UDP (media). With port 0 the kernel chooses one.
    """

    participant: str
    address: str
    port: int = 0

    @classmethod
    def parse(cls, participant: str, place: str) -> Self:
        """Reads an address such as ``192.168.1.5`` or ``192.168.1.5:8443``.

        Raises:
            BadInput: it is not one IPv4 address of this machine, or the port is not between 1 and 65535.
        """
        found = re.fullmatch(r"([0-9.]+)(?::([0-9]{1,5}))?", place, re.ASCII)
        try:
            address = ipaddress.IPv4Address(found.group(1) if found else "")
            port = int(found.group(2)) if found and found.group(2) else None
        except ValueError:
            address, port = ipaddress.IPv4Address(0), None
        if address.is_unspecified or not (port is None or 0 < port < 1 << 16):
            raise BadInput(
                f"invite: {participant} has {f'the address `{place}`' if place else 'no address'}; expected "
                f"one IPv4 address of this machine, as in {participant}=192.168.1.5 or "
                f"{participant}=192.168.1.5:8443",
                hint=own_addresses(),
            )
        return cls(participant, str(address), port or 0)


def own_addresses() -> str:
    """The IPv4 addresses of this machine, as a hint."""
    import psutil

    found = [
        f"{one.address} ({name})"
        for name, several in psutil.net_if_addrs().items()
        for one in several
        if one.family == socket.AF_INET
    ]
    return f"this machine has {', '.join(found) or 'no IPv4 address'}"


@dataclass(frozen=True)
class InvitedPlace:
    """Where an invited browser is served: sockets outside the lab, which the lab inherits."""

    address: str
    """IPv4 address of this machine."""
    port: int
    """Port of both sockets."""
    tcp: int
    """File descriptor of the socket for the page."""
    udp: int
    """File descriptor of the socket for media."""
    wait_s: float
    """How long the seat is free, in seconds."""


@contextmanager
def listening(invitations: Sequence[Invitation], wait_s: float = WAIT_S) -> Iterator[dict[str, InvitedPlace]]:
    """Opens the sockets of all invitations; they are closed at the end.

    Yields the place of each invited browser, by participant.

    Raises:
        BadInput: an address is not this machine's, or a port is in use.
    """
    with ExitStack() as stack:
        found = {}
        for one in invitations:
            tcp, udp = map(stack.enter_context, _sockets(one))
            port = tcp.getsockname()[1]
            found[one.participant] = InvitedPlace(one.address, port, tcp.fileno(), udp.fileno(), wait_s)
        yield found


def _sockets(invitation: Invitation) -> tuple[socket.socket, socket.socket]:
    """A listening TCP socket and a UDP socket with the same port."""
    place = (invitation.address, invitation.port)
    for tries_left in range(PORT_TRIES, -1, -1):
        opened: list[socket.socket] = []
        try:
            tcp = socket.create_server(place)
            opened.append(tcp)
            udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            opened.append(udp)
            udp.bind(tcp.getsockname())
        except OSError as error:
            for one in opened:
                one.close()
            if tries_left and opened and not invitation.port:
                continue  # the port is free for TCP, but not for UDP
            where = f"{invitation.address}:{invitation.port}" if invitation.port else invitation.address
            reason = os.strerror(error.errno or 0)
            raise BadInput(
                f"invite: cannot listen for {invitation.participant} at {where}: {reason}",
                hint=own_addresses(),
            ) from None
        return tcp, udp
    raise AssertionError("unreachable")


def announce(event: Mapping[str, Any]) -> None:
    """Says on standard error what the lab reports of a seat: where it is, and who has come or gone."""
    shown = {name: visible(value) if isinstance(value, str) else value for name, value in event.items()}
    print(in_words(shown, qr_code=sys.stderr.isatty()), file=below(sys.stderr), flush=True)


def in_words(event: Mapping[str, Any], *, qr_code: bool = False) -> str:
    """A report of the lab on a seat, as text; with ``qr_code``, an invitation also has a QR code.

    ``event["seat"]`` is ``free``, ``taken``, ``ready`` or ``left``.
    """
    name = event["participant"]
    match event["seat"]:
        case "free":
            lines = [
                f"the seat of {name} is free for {event['wait_s']:g} s. Open this address in one browser:",
                *([as_qr_code(event["url"])] if qr_code else []),
                f"  {event['url']}",
                "  SHA-256 fingerprint of its certificate, which no authority has signed:",
                f"  {event['fingerprint']}",
            ]
            return "\n".join(lines)
        case "taken":
            return f"the seat of {name} is taken from {event['address']}, by {event['browser']}"
        case "ready":
            return f"{name} is ready"
        case _:
            return f"{name} has left before the call began; the same browser may come back"


def as_qr_code(text: str) -> str:
    """A QR code for a terminal, white and black whatever the colours of the terminal."""
    import segno

    drawn = StringIO()
    segno.make_qr(text).terminal(drawn, border=2, compact=True)
    return "\n".join(f"\x1b[97;40m{line}\x1b[0m" for line in drawn.getvalue().splitlines())
