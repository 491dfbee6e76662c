"""Reads captures and logs, which are recognised by their content."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from rtclab.errors import BadInput
from rtclab.importers.captures import read_captures
from rtclab.importers.imported import Imported, Names, two_names
from rtclab.importers.logs import open_log
from rtclab.importers.logs.text import CAPTURES, GZIP

HEAD_BYTES = 4096


def read_files(
    files: Sequence[Path],
    *,
    names: Names | None = None,
    sdp: str | None = None,
    corrected: bool = False,
) -> Imported:
    """Reads one or two captures, one log, or the event logs of both ends of a connection.

    Args:
        files: the capture or log; or the capture near the sender and the capture near the receiver; or the
            two event logs.
        names, sdp, corrected: as in :func:`rtclab.import_files`.

    Raises:
        BadInput: a file cannot be read or is of no known format, the files are of different kinds, or an
            argument does not apply to them.
        TraceError: nothing was captured.
    """
    if not 1 <= len(files) <= 2:
        raise BadInput(
            f"{len(files)} files; expected one, or two of the same call",
            hint="two captures, near the sender and near the receiver, or the event logs of both ends",
        )
    captures = [file for file in files if is_capture(file)]
    logs = [file for file in files if file not in captures]
    if captures and logs:
        raise BadInput(
            f"{captures[0]} is a capture and {logs[0]} is not; expected two files of one kind",
            hint="import each of them, and compare the runs with `rtclab compare`",
        )
    if captures:
        return _of_captures(captures, names, sdp, corrected=corrected)
    if sdp is not None:
        raise BadInput(f"sdp: session descriptions are for captures, and {logs[0]} is a log")
    if corrected:
        raise BadInput(f"corrected: only clocks of two captures are corrected, and {logs[0]} is a log")
    return open_log(*logs, names=None if names is None else two_names(names))


def is_capture(file: Path) -> bool:
    """Whether a file begins like a capture of packets.

    Raises:
        BadInput: the file cannot be read, or is a compressed capture.
    """
    try:
        with file.open("rb") as opened:
            head = opened.read(HEAD_BYTES)
    except OSError as error:
        raise BadInput(f"{file}: cannot be read: {error.strerror}") from None
    if head.startswith(GZIP) and _uncompressed(head).startswith(CAPTURES):
        raise BadInput(
            f"{file}: a compressed capture; expected pcap or pcapng", hint=f"decompress it: `gunzip {file}`"
        )
    return head.startswith(CAPTURES)


def _uncompressed(head: bytes) -> bytes:
    """The beginning of a gzip file's content; empty if it cannot be read."""
    try:
        return zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(head, HEAD_BYTES)
    except zlib.error:
        return b""


def _of_captures(
    captures: Sequence[Path], names: Names | None, sdp: str | None, *, corrected: bool
) -> Imported:
    receiver = captures[1] if len(captures) > 1 else None
    if corrected and receiver is None:
        raise BadInput("corrected: one capture has one clock; expected two captures")
    imported = read_captures(captures[0], receiver, {} if names is None else names, sdp, corrected=corrected)
    given = names.values() if isinstance(names, Mapping) else names or ()
    for name in given:
        if name not in imported.manifest.participants:
            found = ", ".join(imported.manifest.participants)
            raise BadInput(f"names: no packet from or to `{name}`; the participants are {found}")
    return imported
