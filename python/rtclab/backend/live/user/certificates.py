"""Certificates that servers in the lab, and the pages of invited browsers, sign by themselves."""

from __future__ import annotations

import base64
import hashlib
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CERTIFICATE_LASTS = timedelta(days=30)


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


def self_signed(name: str, address: str, home: Path) -> tuple[ssl.SSLContext, str]:
    """A TLS server with a new certificate of its own for a day.

    Args:
        name: name of the server.
        address: IPv4 address of the server.
        home: directory in memory. The key is there for a moment, because OpenSSL reads it from a file.

    Returns the context, and the SHA-256 of the certificate as browsers show it.
    """
    certificate, key, _ = make_certificate(home, name, address, timedelta(days=1))
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
    finally:
        key.unlink()
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate.read_text())).digest()
    return context, digest.hex(":").upper()
