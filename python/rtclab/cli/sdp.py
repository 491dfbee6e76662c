"""The option ``--sdp`` of commands that read captures."""

from __future__ import annotations

from pathlib import Path

from rtclab.errors import BadInput


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
