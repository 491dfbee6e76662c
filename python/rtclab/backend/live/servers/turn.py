"""A TURN relay, which is a STUN server too: coturn in a node (Debian package ``coturn``, version 4.6.1)."""

from __future__ import annotations

import base64
import hmac
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rtclab.backend.live.lab.process import Process, Spawn

PORT = 3478
"""The default port of TURN (RFC 8656), and of STUN (RFC 8489)."""
READY_TIMEOUT_S = 5.0
CREDENTIALS_LAST_S = 7 * 24 * 3600

# The settings are explained in turnserver(1). The server listens for UDP and TCP at the same port. Relayed
# addresses are of UDP only (`no-tcp-relay`), as WebRTC needs them. `no-rfc5780` avoids a second port, and
# `no-cli` one at the loopback address. Without `pidfile` and `userdb` the files would be in /var.
CONFIGURATION = """\
listening-ip={address}
listening-port={port}
relay-ip={address}
relay-threads=1
realm={realm}
use-auth-secret
static-auth-secret={secret}
fingerprint
no-tls
no-dtls
no-tcp-relay
no-multicast-peers
no-rfc5780
no-cli
pidfile={home}/turnserver.pid
userdb={home}/turndb
log-file=stdout
"""


class TurnServer:
    """One coturn, with a realm and a secret of its own.

    Args:
        spawn: starts a command in the server's node.
        address: IPv4 address of the node. The server listens and relays there and nowhere else.
        home: directory for its files. The caller deletes it.
        on_exit: called once, with the reason, if the server ends before it is stopped.
    """

    def __init__(self, spawn: Spawn, address: str, home: Path, on_exit: Callable[[str], None]) -> None:
        self._address = address
        self._home = home
        self._realm = f"rtclab-{secrets.token_hex(4)}"
        self._secret = secrets.token_hex(16)
        self._process = Process(f"the TURN server at {address}", spawn, home, on_exit)

    def start(self) -> None:
        """Starts the server, which then needs some tens of milliseconds until it listens."""
        self._home.mkdir(parents=True, exist_ok=True)
        configuration = self._home / "turnserver.conf"
        configuration.write_text(
            CONFIGURATION.format(
                address=self._address, port=PORT, realm=self._realm, secret=self._secret, home=self._home
            )
        )
        self._process.start(["turnserver", "-c", str(configuration)])

    async def ready(self) -> None:
        """Waits until the server listens, on UDP and TCP.

        Raises:
            CallFailed: it ended, another program has the port, or it took too long.
        """
        await self._process.listening(
            self._address, PORT, protocols=("udp", "tcp"), timeout_s=READY_TIMEOUT_S
        )

    async def stop(self) -> None:
        """Stops the server."""
        await self._process.stop()

    @property
    def stun_server(self) -> dict[str, Any]:
        """The server as an entry of ``iceServers`` that relays nothing."""
        return {"urls": [f"stun:{self._address}:{PORT}"]}

    def ice_servers(self, participant: str, *, tcp: bool) -> list[dict[str, Any]]:
        """``iceServers`` for the participant's ``RTCPeerConnection``, with credentials of its own.

        Args:
            participant: whose credentials they are.
            tcp: offer TURN over TCP instead of UDP.
        """
        url = f"turn:{self._address}:{PORT}?transport={'tcp' if tcp else 'udp'}"
        return [self.stun_server, self.relay(participant, url)]

    def relay(self, participant: str, url: str) -> dict[str, Any]:
        """An entry of ``iceServers`` for the participant who reaches the server at ``url``.

        The credentials are made as in *A REST API For Access To TURN Services*
        (draft-uberti-behave-turn-rest-00, section 2.2): the user's name begins with the time at which they
        expire, and the password is its HMAC-SHA1 with the server's secret.
        """
        user = f"{int(time.time()) + CREDENTIALS_LAST_S}:{participant}"
        password = base64.b64encode(hmac.digest(self._secret.encode(), user.encode(), "sha1")).decode()
        return {"urls": [url], "username": user, "credential": password}
