"""Replays recorded packets into congestion controls, and compares their decisions with the browser's."""

from __future__ import annotations

from rtclab.replays.arrivals import ArrivalReplay, replay_capture
from rtclab.replays.log import LogReplay, replay_event_log
from rtclab.replays.settings import ControlChoice, RateBounds

__all__ = [
    "ArrivalReplay",
    "ControlChoice",
    "LogReplay",
    "RateBounds",
    "replay_capture",
    "replay_event_log",
]
