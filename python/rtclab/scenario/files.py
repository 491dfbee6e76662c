"""Files that a scenario names: where they are, and what is in them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from rtclab.errors import FieldError


class FileName(str):
    """The name of a file as written in TOML, and the directory that it is relative to."""

    directory: Path

    def __new__(cls, name: str, directory: Path) -> Self:
        located = super().__new__(cls, name)
        located.directory = directory
        return located

    def __getnewargs__(self) -> tuple[str, Path]:  # type: ignore[override]
        """Allows copies."""
        return str(self), self.directory

    @property
    def path(self) -> Path:
        """The absolute path of the file."""
        return (self.directory / self).absolute()


OWN_CONTROL = re.compile(r"(?:alphartc|onnx):.+|.+\.py(?:[:,].*)?")
"""Names of congestion controls that have a file."""
NAMING_FILES = ("trace", "file", "page", "script", "command", "directory")
"""Keys in any table whose texts name files, relative to the TOML file, or are commands that run beside it."""


def names_file(control: str) -> bool:
    """Whether a congestion control is a file of the user's own."""
    return OWN_CONTROL.fullmatch(control) is not None


def located(data: Any, directory: Path) -> Any:
    """A copy of parsed TOML in which every name of a file is a :class:`FileName`."""
    if isinstance(data, dict):
        return {
            key: FileName(value, directory)
            if isinstance(value, str)
            and (key in NAMING_FILES or (key in ("name", "control") and names_file(value)))
            else located(value, directory)
            for key, value in data.items()
        }
    return [located(value, directory) for value in data] if isinstance(data, list) else data


def with_file_read(data: Any, content: str, read: Callable[[Path], object]) -> Any:
    """A table with ``trace``, and its ``content`` read from that file, unless the table has it already.

    Raises:
        FieldError: the file cannot be read.
    """
    name = data.get("trace") if isinstance(data, dict) else None
    if not isinstance(name, str) or content in data:
        return data
    directory = name.directory if isinstance(name, FileName) else Path()
    return data | {"trace": str(name), content: read(directory / name)}


def text_of(file: Path) -> str:
    """The text of a trace. A byte order mark, which some editors write, is not part of it.

    Raises:
        FieldError: the file cannot be read, or is not text.
    """
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise FieldError(
            f"cannot read `{file}`: {reason}",
            hint="it is relative to the file that names it or, with --set, to the current directory",
            key="trace",
        ) from None
