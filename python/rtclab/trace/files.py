"""Reads and writes the files of traces and runs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rtclab.errors import BadInput, DiskFull, TraceError, is_disk_full


def write_json(path: Path, value: object) -> None:
    """Writes a JSON file atomically: it is either the old file or the complete new one.

    Raises:
        DiskFull: no space is left. The old file is unchanged.
    """
    write_bytes(path, json_bytes(value))


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Writes a file atomically: it is either the old file or the complete new one.

    A symbolic link stays, and its target is replaced. What is not a regular file, such as ``/dev/stdout``, is
    written directly.

    Args:
        path: the file to write.
        write: called with the path of a temporary file beside it.

    Raises:
        DiskFull: no space is left. The old file is unchanged.
    """
    target = path.resolve()
    direct = target.exists() and not target.is_file()
    temporary = target if direct else target.with_name(f".{target.name}-{os.getpid()}")
    try:
        write(temporary)
        if not direct:
            temporary.replace(target)
    except OSError as error:
        if is_disk_full(error):
            raise DiskFull(path) from error
        raise
    finally:
        if not direct:
            temporary.unlink(missing_ok=True)


def new_directory(out: Path, stem: str) -> Path:
    """Creates ``<out>/<stem><n>``, where n is one above the largest existing number, or 1.

    Raises:
        BadInput: nothing can be made in ``out``.
        DiskFull: no disk space is left.
    """
    number = 1 + max((_number(path.name, stem) for path in subdirectories(out)), default=0)
    while True:
        path = out / f"{stem}{number}"
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            # Another process has taken this number meanwhile.
            number += 1
        except OSError as error:
            if is_disk_full(error):
                raise DiskFull(path) from None
            raise BadInput(
                f"{out}: no directory can be made there: {error.strerror}",
                hint="name a directory in which you may write",
            ) from None
        else:
            return path


def subdirectories(path: Path) -> list[Path]:
    """The directories in a directory; none if it does not exist."""
    return [entry for entry in path.iterdir() if entry.is_dir()] if path.is_dir() else []


def _number(name: str, stem: str) -> int:
    number = name.removeprefix(stem)
    return int(number) if name.startswith(stem) and number.isdecimal() else 0


def json_bytes(value: object) -> bytes:
    """The value as the content of a JSON file.

    Raises:
        ValueError: it contains NaN or an infinite number, which JSON does not have.
    """
    return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def write_text(path: Path, text: str) -> None:
    """Writes a text file in UTF-8, atomically as :func:`replace_file` does."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Writes a file, atomically as :func:`replace_file` does."""
    replace_file(path, lambda temporary: temporary.write_bytes(data))


def write_new(path: Path, data: bytes) -> None:
    """Writes a file that nobody reads yet. If that fails, a part of it may be left.

    Raises:
        DiskFull: no space is left.
    """
    try:
        path.write_bytes(data)
    except OSError as error:
        if is_disk_full(error):
            raise DiskFull(path) from error
        raise


def read_json(path: Path, what: str) -> dict[str, Any]:
    """Reads a JSON object.

    Raises:
        TraceError: the file cannot be read or is missing. A missing file means that its directory is not a
            ``what``.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TraceError(f"{path.parent} is not a {what}: it has no {path.name}") from None
    except (OSError, ValueError) as error:
        raise TraceError(f"{path}: cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise TraceError(f"{path}: expected a JSON object")
    return value
