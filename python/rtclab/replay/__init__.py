"""Feeds recorded packets to congestion controls, and puts their decisions beside those of the browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rtclab.errors import BadInput
from rtclab.logs.event_log import FIRST_BYTES
from rtclab.logs.text import read_log
from rtclab.replay.arrivals import ArrivalReplay, replay_capture
from rtclab.replay.choice import Bounds, Choice
from rtclab.replay.log import LogReplay, replay_log

__all__ = ["ArrivalReplay", "Bounds", "Choice", "LogReplay", "replay", "replay_capture", "replay_log"]


def replay(
    recording: str | Path,
    control: str,
    *,
    options: Mapping[str, float] | Sequence[str] = (),
    bounds: Bounds | None = None,
) -> LogReplay | ArrivalReplay:
    """Replays an RTC event log into a sender-side control, or a capture into a receive-side estimator.

    See :func:`rtclab.lab.replay`.
    """
    path, choice = Path(recording), Choice.parse(control, options)
    try:
        with path.open("rb") as file:
            start = file.read(4)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from None
    if start.startswith(FIRST_BYTES) or start.startswith(b"\x1f\x8b"):
        return replay_log(path, read_log(path), choice, bounds or Bounds())
    return replay_capture(path, choice, bounds or Bounds())
