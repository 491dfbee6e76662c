"""The file ``watch.jsonl`` of a directory of results: what happens in it, one JSON object per line.

The process that runs repeats appends, and ``rtclab watch`` reads. Every line has ``what``:

- ``run``: repeats begin; ``name``, ``backend``, ``planned`` and ``finished``.
- ``repeat``: a repeat begins; its planned ``flows`` and ``participants``.
- ``points``: new points of the curves of a repeat, and new events.
- ``outcome``: a repeat has ended.
- ``end``: no more repeats run now.

A repeat is named by ``condition`` and ``repeat``. If it begins again, its earlier lines no longer count.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WATCH_FILE = "watch.jsonl"


def append(directory: Path, what: str, **fields: Any) -> None:
    """Appends a line. Several threads and processes may do so at the same time.

    If it cannot be written, for example because the disk is full, the run goes on without it.
    """
    text = json.dumps({"what": what, **fields}, ensure_ascii=False, separators=(",", ":"))
    try:
        # The kernel appends what is written at once as a whole.
        file = os.open(directory / WATCH_FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, text.encode(errors="replace") + b"\n")
        finally:
            os.close(file)
    except OSError:
        pass


def lines_from(directory: Path, position: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
    """The lines from a position in bytes on, each with the position after it.

    A line that is not complete yet is left out, and a damaged one is skipped. Without a file there are none.
    """
    try:
        with (directory / WATCH_FILE).open("rb") as file:
            file.seek(position)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                position += len(line)
                try:
                    value = json.loads(line)
                except ValueError:
                    continue
                if isinstance(value, dict) and "what" in value:
                    yield position, value
    except FileNotFoundError:
        return
