"""The options ``--names`` and ``--sdp`` of commands that read captures."""

from __future__ import annotations

from pathlib import Path

from rtclab.errors import BadInput
from rtclab.importers import Names


def sdp_text(file: Path | None) -> str | None:
    """Text of the SDP file; None if no file was given.

    Raises:
        BadInput: the file cannot be read, or describes no media.
    """
    if file is None:
        return None
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise BadInput(f"--sdp: {file}: {error.strerror}") from None
    if not any(line.lstrip().startswith("m=") for line in text.splitlines()):
        raise BadInput(
            f"--sdp: {file}: no line `m=…`; expected session descriptions",
            hint="write the text of `description.sdp` to the file, not its JSON",
        )
    return text


def names_of(text: str | None) -> Names | None:
    """``alice,bob`` as two names, ``10.0.0.1=alice,10.0.0.2=bob`` as names by address.

    Raises:
        BadInput: an address has no name, or a name no address.
    """
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not any("=" in part for part in parts):
        return parts
    by_address = dict(part.split("=", 1) for part in parts if part.count("=") == 1)
    if len(by_address) < len(parts) or not all([*by_address, *by_address.values()]):
        raise BadInput(
            f"--names: got {text!r}; expected a name for each address", hint="10.0.0.1=alice,10.0.0.2=bob"
        )
    return by_address
