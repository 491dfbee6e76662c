"""Captures made by hand: Ethernet, IPv4, UDP and RTP, byte by byte."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

MS = 1_000_000
BEGIN_NS = 1_700_000_000_000_000_000
ALICE, BOB = ("10.0.0.1", 5004), ("10.0.0.2", 6006)
RTP_BYTES = 12
IP_AND_UDP_BYTES = 28

End = tuple[str, int]
Frame = tuple[int, bytes]
"""Time in nanoseconds since ``BEGIN_NS``, and content."""


def udp(payload: bytes, source: End = ALICE, destination: End = BOB) -> bytes:
    """An Ethernet frame without checksums, which are 0."""

    def address(text: str) -> bytes:
        return bytes(map(int, text.split(".")))

    datagram = struct.pack("!HHHH", source[1], destination[1], 8 + len(payload), 0) + payload
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(datagram), 0, 0, 64, 17, 0)
    return bytes(12) + b"\x08\x00" + header + address(source[0]) + address(destination[0]) + datagram


def rtp(
    seq: int, timestamp: int, *, ssrc: int = 0x1234, payload_type: int = 0, payload_bytes: int = 160
) -> bytes:
    """An RTP packet without extensions; payload type 0 is PCMU, 8 kHz."""
    return struct.pack("!BBHII", 0x80, payload_type, seq % 2**16, timestamp % 2**32, ssrc) + bytes(
        payload_bytes
    )


def speech(count: int, *, first_seq: int = 100, at_ms: float = 0.0, **options: int) -> list[Frame]:
    """PCMU packets, one every 20 ms without jitter."""
    return [
        (
            round((at_ms + 20 * index) * MS),
            udp(rtp(first_seq + index, 160 * index, **options)),
        )
        for index in range(count)
    ]


def coded(frames: Iterable[Frame], codepoint: int, every: int = 1) -> list[Frame]:
    """The frames. The first and then every n-th have this ECN codepoint."""
    at = 14 + 1  # the byte after the first one of the IP header

    def one(index: int, frame: bytes) -> bytes:
        return frame if index % every else frame[:at] + bytes([codepoint]) + frame[at + 1 :]

    return [(at_ns, one(index, frame)) for index, (at_ns, frame) in enumerate(frames)]


def later(frames: Iterable[Frame], by_ms: float) -> list[Frame]:
    """The same frames, seen later."""
    return [(at_ns + round(by_ms * MS), frame) for at_ns, frame in frames]


def of_interface(pcapng: bytes, name: str) -> bytes:
    """The packets of one interface of a pcapng file, without their directions."""
    parts, at, interface, wanted = [], 0, -1, -1
    while at < len(pcapng):
        kind, length = struct.unpack_from("<II", pcapng, at)
        block = pcapng[at : at + length]
        at += length
        if kind == 1:
            interface += 1
            if name.encode() not in block:
                continue
            wanted = interface
        elif kind == 6:
            number, high, low, captured, _ = struct.unpack_from("<IIIII", block, 8)
            if number != wanted:
                continue
            body = struct.pack("<III", 0, high, low) + block[20 : 28 + (captured + 3) // 4 * 4]
            ends = struct.pack("<I", len(body) + 12)
            block = block[:4] + ends + body + ends
        parts.append(block)
    return b"".join(parts)


def write_pcap(path: Path, frames: Iterable[Frame], *, link_type: int = 1) -> Path:
    """Writes a pcap file with timestamps in nanoseconds; link type 1 is Ethernet."""
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, link_type))
        for at_ns, frame in frames:
            seconds, nanoseconds = divmod(BEGIN_NS + at_ns, 10**9)
            file.write(struct.pack("<IIII", seconds, nanoseconds, len(frame), len(frame)) + frame)
    return path
