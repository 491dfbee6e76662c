"""Reads the text of a log, also compressed or cut off, within bounds of size."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtclab.errors import BadInput

MOST_BYTES = 250_000_000
"""A larger log is rejected; libwebrtc's own reader of event logs has the same bound."""

GZIP = b"\x1f\x8b"
CAPTURES = tuple(
    bytes.fromhex(magic) for magic in ("0a0d0d0a", "a1b2c3d4", "d4c3b2a1", "a1b23c4d", "4d3cb2a1")
)
"""How captures begin: pcapng, and pcap in both orders of bytes, with microseconds and nanoseconds."""
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_CHUNK = 1 << 20
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[\]{},]', re.DOTALL)
_CLOSERS = {"{": "}", "[": "]"}


@dataclass(frozen=True)
class LogBytes:
    """The content of a log, uncompressed. ``cut_off`` says that the compressed data ended too early."""

    content: bytes
    cut_off: bool


def read_log(path: Path) -> LogBytes:
    """Reads a log, and uncompresses it if it is gzip.

    Raises:
        BadInput: the file cannot be read, is larger than ``MOST_BYTES`` or a capture of packets, or its
            compressed data are invalid.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from None
    log = _uncompressed(path, content) if content.startswith(GZIP) else LogBytes(content, False)
    if len(log.content) > MOST_BYTES:
        raise BadInput(f"{path}: larger than {MOST_BYTES // 1_000_000} MB", hint="cut the log in parts")
    if log.content.startswith(CAPTURES):
        raise BadInput(
            f"{path}: a capture of packets; expected a log of a browser",
            hint=f"`rtclab import {path}` makes a run of a capture, `rtclab monitor` shows its streams, and "
            "`rtclab replay` feeds it to a control",
        )
    return log


def _uncompressed(path: Path, content: bytes) -> LogBytes:
    """All members of a gzip file up to the bound, or up to where the file was cut off."""
    parts: list[bytes] = []
    size, rest = 0, content
    while rest.startswith(GZIP):
        member = zlib.decompressobj(_GZIP_WINDOW)
        while not member.eof:
            try:
                part = member.decompress(rest, _CHUNK)
            except zlib.error as error:
                raise BadInput(f"{path}: not a valid gzip file: {error}") from None
            rest = member.unconsumed_tail
            parts.append(part)
            size += len(part)
            if size > MOST_BYTES:
                return LogBytes(b"".join(parts), False)
            if not part and not rest and not member.eof:
                return LogBytes(b"".join(parts), True)
        rest = member.unused_data
    return LogBytes(b"".join(parts), False)


def parsed(text: str) -> Any:
    """The JSON value of a text.

    Raises:
        ValueError: it is not JSON, is nested too deeply, or has a number that is too long.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def parsed_or_cut_off(text: str, failure: Callable[[str], BadInput]) -> tuple[Any, bool]:
    """The JSON value of a text, and whether the text was cut off.

    If the text was cut off, the value has its complete part: everything before the last comma.

    Args:
        text: the text.
        failure: makes the error from a description of the problem.
    """
    try:
        return parsed(text), False
    except ValueError as error:
        repaired = _closed(text)
        with suppress(ValueError):
            if repaired is not None:
                return parsed(repaired), True
        raise failure(in_words(error)) from None


def in_words(error: ValueError) -> str:
    """Says at which line and column a text stops being JSON, for an error."""
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno}, column {error.colno}: expected JSON: {error.msg}"
    return f"expected JSON: {error}"


def _closed(text: str) -> str | None:
    """The text up to its last comma, with all brackets closed; None if it was not cut off."""
    depth, comma, whole = 0, -1, True
    for token in _TOKEN.finditer(text):
        first = text[token.start()]
        if first == '"':
            whole = token.group().endswith('"') and len(token.group()) > 1
        elif first in _CLOSERS:
            depth += 1
        elif first == ",":
            comma = token.start()
        else:
            depth -= 1
    if comma < 0 or (depth <= 0 and whole):
        return None
    stack: list[str] = []
    for token in _TOKEN.finditer(text, 0, comma):
        first = text[token.start()]
        if first in _CLOSERS:
            stack.append(_CLOSERS[first])
        elif first in "]}" and stack:
            stack.pop()
    return text[:comma] + "".join(reversed(stack))
