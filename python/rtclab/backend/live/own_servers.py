"""Servers of the user's own: runs each command of the scenario in its node."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rtclab.backend.live.process import CHECK_INTERVAL_S, Process, Spawn
from rtclab.errors import CallFailed

Json = dict[str, Any]

READY_TIMEOUT_S = 60.0
CERTIFICATE_LASTS = timedelta(days=30)
LISTENING = "0A"
"""State of a TCP socket that waits for clients (net/tcp_states.h)."""


class OwnServers:
    """Starts and stops the servers of a scenario that are commands.

    Args:
        settings: by node, its ``command``, ``port`` (or None) and ``directory``.
        addresses: IP address of each node.
        spawn: starts a command in a node: ``spawn(node, command, …)``.
        home: directory for certificates and output, which the caller deletes.
        fail: called with the reason if a server ends by itself.
    """

    def __init__(
        self,
        settings: Mapping[str, Json],
        addresses: Mapping[str, str],
        spawn: Callable[..., Any],
        home: Path,
        fail: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._addresses = addresses
        self._home = home
        self.keys: list[str] = []
        """SHA-256 of the public keys of all certificates, in base64, as Chromium takes them."""
        self.processes: dict[str, Process] = {}
        """The processes, by node."""
        for node in settings:
            in_node: Spawn = partial(spawn, node)
            self.processes[node] = Process(f"the server {node}", in_node, home / node, fail)

    async def start(self) -> None:
        """Starts all servers, and waits until those with a port listen.

        Raises:
            CallFailed: a command cannot be started, has ended, or did not listen in time.
        """
        for node, process in self.processes.items():
            settings = self._settings[node]
            certificate, key, public = make_certificate(self._home, node, self._addresses[node])
            self.keys.append(public)
            try:
                process.start(
                    settings["command"],
                    {
                        **os.environ,
                        **self._environment(node),
                        "RTCLAB_CERTIFICATE": str(certificate),
                        "RTCLAB_KEY": str(key),
                    },
                    directory=Path(settings["directory"]),
                )
            except OSError as error:
                raise CallFailed(
                    f"servers.{node}.command: cannot start `{settings['command'][0]}` "
                    f"in {settings['directory']}: {error.strerror}"
                ) from None
        await asyncio.gather(*(self._ready(node) for node in self.processes))

    async def stop(self) -> None:
        """Stops all servers, and what they have started."""
        await asyncio.gather(*(process.stop() for process in self.processes.values()))

    def _environment(self, node: str) -> dict[str, str]:
        port = self._settings[node]["port"]
        return {
            "RTCLAB_NAME": node,
            "RTCLAB_ADDRESS": self._addresses[node],
            **({} if port is None else {"RTCLAB_PORT": str(port)}),
            **{
                f"RTCLAB_ADDRESS_OF_{name.upper().replace('-', '_')}": address
                for name, address in self._addresses.items()
            },
        }

    async def _ready(self, node: str) -> None:
        port, process = self._settings[node]["port"], self.processes[node]
        if port is None:
            return
        deadline_s = asyncio.get_running_loop().time() + READY_TIMEOUT_S
        while not listens(process, port):
            if (ended := process.ended()) is not None:
                raise CallFailed(f"{process.name} {ended}{process.last_words()}")
            if asyncio.get_running_loop().time() > deadline_s:
                raise CallFailed(
                    f"{process.name} did not listen at port {port} within {READY_TIMEOUT_S:g} s"
                    f"{process.last_words()}"
                )
            await asyncio.sleep(CHECK_INTERVAL_S)


def listens(process: Process, port: int) -> bool:
    """Whether a program in the node of a process listens at a TCP port, on IPv4 or IPv6."""
    for protocol in ("tcp", "tcp6"):
        for root in process.tree()[:1]:
            try:
                lines = Path(f"/proc/{root.pid}/net/{protocol}").read_text().splitlines()[1:]
            except OSError:  # it has ended, or there is no IPv6
                continue
            for line in lines:
                _, local, _, state, *_ = line.split()
                if state == LISTENING and int(local.rpartition(":")[2], 16) == port:
                    return True
    return False


def make_certificate(
    directory: Path, name: str, address: str, lasts: timedelta = CERTIFICATE_LASTS
) -> tuple[Path, Path, str]:
    """Makes a certificate for a TLS server, signed by itself, for a name and an address.

    Returns the files of the certificate and of its key, in PEM, and the SHA-256 of its public key in base64
    (RFC 7469, section 2.4), with which Chromium can be told to accept it.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + lasts)
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(name), x509.IPAddress(ip_address(address))]),
            critical=False,
        )
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    directory.mkdir(parents=True, exist_ok=True)
    files = directory / f"{name}.pem", directory / f"{name}.key"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files[1].touch(mode=0o600)
    files[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return *files, base64.b64encode(hashlib.sha256(public).digest()).decode()
