"""Reading and writing of files in traces and runs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from rtclab.errors import DiskFull, TraceError, is_disk_full


def write_json(path: Path, value: object) -> None:
    """Writes a JSON file atomically: it is either the old file or the complete new one.

    Raises:
        DiskFull: no space is left. The old file is unchanged.
    """
    temporary = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        write_bytes(temporary, json_bytes(value))
        temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)


def json_bytes(value: object) -> bytes:
    """The value as the content of a JSON file."""
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()


def write_text(path: Path, text: str) -> None:
    """Writes a text file in UTF-8; raises DiskFull if no space is left."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Writes a file; raises DiskFull if no space is left."""
    try:
        path.write_bytes(data)
    except OSError as error:
        if is_disk_full(error):
            raise DiskFull(path) from error
        raise


def read_json(path: Path, what: str) -> dict[str, Any]:
    """Reads a JSON object.

    Raises:
        TraceError: the file cannot be read or, if it is missing, its directory is not a ``what``.
    """
    try:
        value = json.loads(path.read_text())
    except FileNotFoundError:
        raise TraceError(f"{path.parent} is not a {what}: it has no {path.name}") from None
    except (OSError, ValueError) as error:
        raise TraceError(f"{path}: cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise TraceError(f"{path}: expected a JSON object")
    return value
