"""Copies datagrams between a socket outside the lab and a server in a node."""

from __future__ import annotations

import asyncio
import socket
from collections import OrderedDict
from contextlib import suppress

from rtclab.backend.live.lab.namespaces import call_in_node

Place = tuple[str, int]

MAX_CLIENTS = 32
"""Maximum number of the client's ports. A page uses one for each connection and interface of its machine."""
MAX_DATAGRAM_BYTES = 65_535
AT_ONCE = 64
"""Maximum number of datagrams that are copied before other tasks run."""
STUN_HEADER_BYTES = 20
MAGIC_COOKIE = 0x2112A442.to_bytes(4)


def is_stun(data: bytes) -> bool:
    """Whether a datagram is a STUN message, by its header (RFC 8489, section 5)."""
    return (
        len(data) >= STUN_HEADER_BYTES
        and data[0] < 0x40  # the first two bits are zero
        and int.from_bytes(data[2:4]) == len(data) - STUN_HEADER_BYTES
        and data[4:8] == MAGIC_COOKIE
    )


class UdpForwarder:
    """Gives each port of one client a socket of its own in the node, as a NAT does.

    A client begins with a STUN message; see TURN (RFC 8656, section 7.1). Other datagrams of a new port are
    dropped.

    Args:
        outside: UDP socket outside the lab.
        node: name of the node.
        server: address and port of the server there.
    """

    def __init__(self, outside: socket.socket, node: str, server: Place) -> None:
        self._outside, self._node, self._server = outside, node, server
        self._inside: OrderedDict[Place, socket.socket] = OrderedDict()
        self.client: str | None = None
        """The only address whose datagrams are copied. While it is None, all datagrams are dropped."""

    def start(self) -> None:
        """Copies from now on. It needs a running event loop."""
        self._outside.setblocking(False)
        asyncio.get_running_loop().add_reader(self._outside, self._from_outside)

    def stop(self) -> None:
        """Copies no more, and closes all sockets."""
        asyncio.get_running_loop().remove_reader(self._outside)
        self._outside.close()
        while self._inside:
            self._forget()

    def _from_outside(self) -> None:
        for _ in range(AT_ONCE):
            try:
                data, source = self._outside.recvfrom(MAX_DATAGRAM_BYTES)
            except OSError:  # nothing more, or an earlier datagram was undeliverable
                return
            if source[0] == self.client and (source in self._inside or is_stun(data)):
                # A full buffer loses a datagram, as a network does, and so does a lack of file descriptors.
                with suppress(OSError):
                    self._of(source).send(data)

    def _of(self, client: Place) -> socket.socket:
        """The socket in the node for a port of the client. A new one may replace the longest unused one.

        Raises:
            OSError: no socket can be made, because too many files are open.
        """
        if client not in self._inside:
            if len(self._inside) >= MAX_CLIENTS:
                self._forget()
            inside = call_in_node(self._node, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            inside.setblocking(False)
            inside.connect(self._server)
            self._inside[client] = inside
            asyncio.get_running_loop().add_reader(inside, self._from_inside, inside, client)
        self._inside.move_to_end(client)
        return self._inside[client]

    def _from_inside(self, inside: socket.socket, client: Place) -> None:
        for _ in range(AT_ONCE):
            try:
                data = inside.recv(MAX_DATAGRAM_BYTES)
                self._outside.sendto(data, client)
            except OSError:
                return

    def _forget(self) -> None:
        _, inside = self._inside.popitem(last=False)
        asyncio.get_running_loop().remove_reader(inside)
        inside.close()
