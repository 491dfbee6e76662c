"""The file ``watch.jsonl`` of a directory of results: what happens in it, one JSON object per line.

The process that runs repeats appends, and ``rtclab watch`` reads. Every line has ``what``:

- ``run``: repeats begin; ``name``, ``backend``, ``planned`` and ``finished``.
- ``repeat``: a repeat begins; its planned ``flows`` and ``participants``.
- ``points``: new points of the curves of a repeat, and new events.
- ``outcome``: a repeat has ended.
- ``end``: no more repeats run now.

A repeat is named by ``condition`` and ``repeat``. If it begins again, its earlier lines no longer count.
There is one file and not one per repeat, because the next try of a repeat replaces its directory, and because
the position in the file is the id of a server-sent event.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from rtclab.trace.manifest import FlowInfo, Status

WATCH_FILE = "watch.jsonl"

Count = Annotated[int, Field(ge=0, le=10**9)]
Duration = Annotated[float, Field(ge=1e-9, le=1e9)]
Value = Annotated[float, Field(ge=-1e15, le=1e15), AfterValidator(lambda value: round(value, 3))]
"""A time in s, or a value of a curve, as precise as they are written."""
Curves = dict[str, dict[str, list[tuple[Value, Value]]]]
"""The points of curves, by flow or participant and by name of the curve."""


class _Line(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False, defer_build=True)


class RunLine(_Line):
    """Repeats begin to run. Some may have finished earlier."""

    what: Literal["run"]
    name: str
    backend: str
    planned: Count
    finished: Count


class _OfRepeat(_Line):
    condition: str
    repeat: Count


class RepeatLine(_OfRepeat):
    """A repeat begins; earlier lines about it no longer count."""

    what: Literal["repeat"]
    attempt: Count
    duration_s: Duration
    participants: list[str]
    flows: dict[str, FlowInfo]


class Ends(_Line):
    """Who sends and who receives a flow, as far as is known."""

    sender: str | None = None
    receiver: str | None = None


class PointsLine(_OfRepeat):
    """What is new in a repeat; see :meth:`rtclab.backend.sampler.Sampler.new`."""

    what: Literal["points"]
    at_s: Value | None
    flows: Curves
    people: Curves
    ends: dict[str, Ends]
    events: list[tuple[Value, str, str | None, str, str]]


class OutcomeLine(_OfRepeat):
    """A repeat has ended, with its status and the reason if it failed."""

    what: Literal["outcome"]
    status: Status
    reason: str
    note: str
    disturbed: str


class EndLine(_Line):
    """No more repeats run now; if they were stopped, for this reason."""

    what: Literal["end"]
    reason: str


Line = RunLine | RepeatLine | PointsLine | OutcomeLine | EndLine
_LINE: TypeAdapter[Line] = TypeAdapter(
    Annotated[Line, Field(discriminator="what")], config=ConfigDict(defer_build=True)
)


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

    A line that is not complete yet is left out. A damaged one, or one of another kind, is skipped. So what is
    yielded is valid JSON in UTF-8, and has all fields of its kind, with values of their types. Without a file
    there are none.
    """
    try:
        with (directory / WATCH_FILE).open("rb") as file:
            file.seek(position)
            for text in file:
                if not text.endswith(b"\n"):
                    return
                position += len(text)
                try:
                    line = _LINE.validate_json(text)
                except ValidationError:
                    continue
                yield position, line.model_dump(mode="json", exclude_unset=True)
    except FileNotFoundError:
        return
